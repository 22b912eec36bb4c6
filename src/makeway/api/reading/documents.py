"""Text to plain trees: YAML and JSON, read as kubectl reads them, with the line of every value kept.

A file is cut at its ``---`` lines first, so that one broken document does not hide the others. A tree is made of
dict, list, str, int, float, bool and None. What is wrong with the text itself (syntax, a key set twice, a value
that JSON cannot hold) is reported as problems. Bad input never raises an exception.

Promises: time and memory are bounded by the size of the text (aliases cannot explode, nesting is limited), and
lines are looked up only on request, which reads the text of that one document once more.

Stricter than kubectl where that helps: a key set twice, text after the end of a document, bytes that are not UTF-8,
documents too large or too deep for an API server. A list that is too large as a whole can be read item by item
(``Pieces``). Not here: what the trees mean (``api.validation``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import yaml
from yaml import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from makeway.api.problems import Problem, warning
from makeway.api.reading import json_lines
from makeway.api.reading.json_lines import JsonReader, JsonValue, LineSpot, PathLines, rendered
from makeway.api.reading.long_lists import Cut, cut_json, cut_yaml, yaml_item
from makeway.api.reading.yaml_scalars import RESOLVED_STARTS, TAGS, key_of, plain, tagged

Tree = Any  # dict | list | str | int | float | bool | None
DEPTH_MAX = 100
DOCUMENT_BYTES_MAX = 3 * 1024 * 1024  # what a Kubernetes API server takes in one request
VALUES_MAX = 500_000  # the most values that aliases may add to one document

joined = json_lines.joined
tokens = json_lines.tokens

_CUT = re.compile(r"^---(.*)$", re.MULTILINE)
_EMPTY = re.compile(r"(?:(?:[ \t]*|\.\.\.[ \t]*)(?:#[\t -~]*)?(?:\n|\Z))*")  # comments and `...` only
_BRACE = re.compile(r"\s*\{")
_JSON_OBJECT = re.compile(r'\{\s*"')
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class Document:
    """One document of a file: its tree, the problems of its text, and the line of each path."""

    index: int  # counted from 1, empty documents left out
    line: int  # its first line, or the line that cannot be read
    tree: Tree
    problems: list[Problem] = field(default_factory=list)
    locate: Callable[[str], int] | None = None
    pieces: Pieces | None = None  # of a document that is refused for its size; a list can still be read item by item

    def line_of(self, path: str) -> int:
        """The line of the value at ``path``; if there is none, of the innermost existing value around it."""
        return self.line if self.locate is None else self.locate(path)


@dataclass(frozen=True, slots=True)
class Pieces:
    """A document with ``items`` that is too large for one tree: the document without its items, and each item."""

    head: Document
    count: int
    item: Callable[[int], Document]  # reads the item at every call; its paths begin at the item


def parse(data: bytes) -> list[Document]:
    """All documents of a file. Never raises; a document that cannot be read has a problem that says why."""
    text, refused = json_lines.decoded(data)
    if refused:
        return [Document(1, 1, None, [Problem("", refused, "manifests are YAML or JSON in UTF-8", cause="Syntax")])]
    documents = list(_json_documents(text) if _BRACE.match(text) else _yaml_documents(text, 0, 1))
    for index, document in enumerate(documents, 1):
        document.index = index
    return documents


def _unreadable(line: int, message: str, hint: str = "") -> Document:
    return Document(0, line, None, [Problem("", message, hint, cause="Syntax")])


def _too_large(
    text: str, line: int, start: int = 0, end: int | None = None, *, noun: str = "document"
) -> Document | None:
    end = len(text) if end is None else end
    if (end - start) * 4 <= DOCUMENT_BYTES_MAX:
        return None
    size = end - start if text.isascii() else len(text[start:end].encode())
    if size <= DOCUMENT_BYTES_MAX:
        return None
    message = f"the {noun} has {size} bytes, more than the {DOCUMENT_BYTES_MAX} that an API server takes"
    return Document(0, line, None, [Problem("", message, f"split it into several {noun}s", cause="TooMany")])


def _too_deep(line: int) -> Document:
    message = f"nested deeper than {DEPTH_MAX} levels"
    return Document(0, line, None, [Problem("", message, "no kind needs that many", cause="TooMany")])


# --- JSON -----------------------------------------------------------------------------------------------------------


def _json_documents(text: str) -> Iterator[Document]:
    """JSON values one after the other. As in kubectl, the rest is YAML if one of the first two values is not JSON."""
    reader = JsonReader(text)
    at, count, line, counted = 0, 0, 1, 0
    while (start := json_lines.after_space(text, at)) < len(text):
        line, counted = line + text.count("\n", counted, start), start
        try:
            cut = cut_json(text, start) if (len(text) - start) * 4 > DOCUMENT_BYTES_MAX else None
            if cut is not None and (large := _too_large(text, line, start, cut.end)) is not None:
                large.pieces = _json_pieces(text, line, cut)
                at, count = cut.end, count + 1
                yield large
                continue
            value = reader.read(start)
        except RecursionError:
            yield _too_deep(line)
            return
        except ValueError as error:
            failed = _unreadable(*json_lines.failure(error, line))
            yield from _json_ends(text, at, failed) if count < 2 else [_no_more_json(failed, text, start)]
            return
        at, count = value.end, count + 1
        if value.tree is not None:
            yield _json_document(text, start, line, value)


def _json_document(text: str, start: int, line: int, value: JsonValue, *, noun: str = "document") -> Document:
    tree, end = value.tree, value.end
    large = _too_large(text, line, start, end, noun=noun)
    if large is not None:
        return large
    if value.too_large:
        return _unreadable(line, f"the number {_short(value.too_large)} is too large", "put it in quotes")
    brackets = text.count("[", start, end) + text.count("{", start, end)
    if brackets > DEPTH_MAX and json_lines.deeper_than(tree, DEPTH_MAX):
        return _too_deep(line)
    problems = [
        _set_twice(rendered(double.keys), double.first, double.again)
        for double in (json_lines.spots(text, start, end, line)[1] if value.twice else ())
    ]
    return Document(0, line, tree, problems, PathLines(lambda: json_lines.spots(text, start, end, line)[0]).line_of)


def _json_pieces(text: str, line: int, cut: Cut) -> Pieces:
    head = _json_document(cut.head, 0, line, JsonReader(cut.head).read(0))

    def item(i: int) -> Document:
        start, _, lines = cut.pieces[i]
        try:
            value = JsonReader(text).read(start)
        except ValueError as error:  # a number that JSON cannot hold
            return _unreadable(*json_lines.failure(error, line + lines))
        return _json_document(text, start, line + lines, value, noun="object")

    return Pieces(head, len(cut.pieces), item)


def _json_ends(text: str, at: int, failed: Document) -> Iterator[Document]:
    """The rest, read as YAML. If it looks like JSON and is no YAML either, the problem says why it is no JSON."""
    end = json_lines.after_space(text, at)
    newline = text.find("\n", at, end)
    start = end if newline < 0 else newline + 1
    rest = _yaml_documents(text, start, text.count("\n", 0, start) + 1)
    if not _JSON_OBJECT.match(text, end):
        yield from rest
        return
    for position, document in enumerate(rest):
        causes = ("Syntax", "TooMany")
        broken = position == 0 and document.locate is None and document.problems[0].cause in causes
        yield failed if broken else document


def _no_more_json(failed: Document, text: str, start: int) -> Document:
    if not text.startswith("---", start):
        return failed
    hint = "put `---` between the first two as well"
    return _unreadable(failed.line, "a `---` line after JSON documents that stand without one between them", hint)


# --- YAML -----------------------------------------------------------------------------------------------------------

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its events are used

_YAML_HINTS = {
    "mapping values are not allowed": "a value with a colon in it needs quotes, or the indent of this line is off",
    "expected alphabetic or numeric": "a value that begins with * or & needs quotes",
    "cannot start any token": "a value that begins with this character needs quotes",
    "could not find expected ':'": "a key is followed by a colon and a space; a text of several lines begins with |",
    "did not find expected key": "the indent differs from the lines above, or a quote or bracket ended too early",
    "did not find expected '-'": "the list above is not ended: check the indent of this line",
    "did not find expected ','": "a comma is missing, or a bracket is not closed",
    "found unknown escape": "a backslash in double quotes begins an escape; single quotes take it as it is",
    "while parsing a flow node": "a value is missing, or a bracket is not closed",
    "expected <document start>": "a document ends before this line; the next begins with a `---` line",
}


class _TooDeep(Exception):
    """Ends the reading of a document that nests too deep. Raised and caught in this module."""


def _yaml_documents(text: str, start: int, line: int) -> Iterator[Document]:
    cut_line, extra = line, ""
    while True:
        cut = _CUT.search(text, start)
        chunk = text[start : cut.start() if cut else len(text)]
        if extra and not extra.startswith("#"):
            yield _unreadable(cut_line, f"`---` is followed by {_short(extra)}", "put it on a line of its own")
        elif not _EMPTY.fullmatch(chunk):
            yield from _composed(chunk, line)
        if cut is None:
            return
        cut_line = line + chunk.count("\n")
        start, line, extra = cut.end(), cut_line, cut.group(1).strip()


def _composed(chunk: str, line: int, *, noun: str = "document") -> Iterator[Document]:
    large = _too_large(chunk, line, noun=noun)
    if large is not None:
        cut = cut_yaml(chunk)
        if cut is not None:
            large.pieces = _yaml_pieces(chunk, line, cut)
        yield large
        return
    loader = None
    try:
        loader = _Loader(chunk)
        document = _read(loader, chunk, line)
        if document is not None:
            yield document
        event = loader.get_event()
        if type(event) is not yaml.StreamEndEvent:
            message = "text after the end of the document would be ignored"
            yield _unreadable(line + event.start_mark.line, message, "a new document begins with a `---` line")
    except _TooDeep:
        yield _too_deep(line)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield _syntax_error(error, chunk, line)
    finally:
        if loader is not None:
            loader.dispose()


def _yaml_pieces(chunk: str, line: int, cut: Cut) -> Pieces | None:
    heads = list(_composed(cut.head, line))

    def item(i: int) -> Document:
        piece = cut.pieces[i]
        here = line + piece.line
        documents = list(_composed(yaml_item(chunk, piece), here, noun="object")) or [Document(0, here, None)]
        documents[0].problems.extend(problem for document in documents[1:] for problem in document.problems)
        return documents[0]

    return Pieces(heads[0], len(cut.pieces), item) if len(heads) == 1 else None


def _read(loader: Any, chunk: str, line: int) -> Document | None:
    """The first document of the loader up to its end; None if it is empty."""
    loader.get_event()
    if type(loader.peek_event()) is not yaml.DocumentStartEvent:
        return None
    loader.get_event()
    first = loader.get_event()
    builder = _Builder(loader.get_event, line)
    tree = builder.build(first)
    loader.get_event()
    if tree is None and not builder.problems:
        return None
    locate = PathLines(partial(_yaml_spots, chunk, line)).line_of
    return Document(0, line + first.start_mark.line, tree, builder.problems, locate)


def _syntax_error(error: Exception, chunk: str, line: int) -> Document:
    if odd := _UNPRINTABLE.search(chunk):
        hint = "remove it, or write it as an escape in double quotes"
        message = f"not valid YAML: the character U+{ord(odd.group()):04X} cannot stand in a text"
        return _unreadable(line + chunk.count("\n", 0, odd.start()), message, hint)
    mark = getattr(error, "problem_mark", None)
    context = getattr(error, "context", None) or ""
    what = getattr(error, "problem", None) or (str(error).splitlines() or ["it cannot be read"])[0]
    if "quoted scalar" in context and "end of stream" in what:
        mark, what, context = getattr(error, "context_mark", mark), "the quotes opened here are never closed", ""
    message = f"not valid YAML: {what}" + (f" {context}" if context else "")
    hint = next((hint for words, hint in _YAML_HINTS.items() if words in message), "")
    lines = chunk.rstrip("\n").split("\n")
    at = min(mark.line if mark is not None else 0, len(lines) - 1)
    written = lines[at]
    if "\t" in written[: len(written) - len(written.lstrip(" \t-?:"))]:
        hint = "the line has a tab; YAML indents with spaces only"
    elif "{{" in written or "{%" in written:
        hint = "this looks like a template: render it first"
    return _unreadable(line + at, message, hint)


class _Builder:
    """Builds a tree from events. Its path becomes text only when there is a problem to report."""

    def __init__(self, next_event: Callable[[], Any], line: int) -> None:
        self.problems: list[Problem] = []
        self._next = next_event
        self._line = line
        self._anchors: dict[str, Any] = {}  # the event of a scalar, the tree of anything else
        self._open: list[Tree] = []  # the lists and mappings that are being filled, outermost first
        self._keys: list[str] = []  # the key being read in each of these; a list needs none, its length is the index
        self._copied = 0

    def build(self, event: Any) -> Tree:
        kind = type(event)
        if kind is ScalarEvent:
            return self._scalar(event)
        if kind is AliasEvent:
            return self._alias(event)
        if len(self._open) >= DEPTH_MAX:
            raise _TooDeep
        tree: Tree = {} if kind is MappingStartEvent else []
        if event.anchor is not None:
            self._anchors[event.anchor] = tree
        self._open.append(tree)
        self._keys.append("")
        if kind is MappingStartEvent:
            self._fill(tree)
        else:
            while type(item := self._next()) is not SequenceEndEvent:
                tree.append(self.build(item))
        self._open.pop()
        self._keys.pop()
        return tree

    def _fill(self, tree: dict[str, Tree]) -> None:
        lines: dict[str, int] = {}
        keys, next_event = self._keys, self._next
        while type(event := next_event()) is not MappingEndEvent:
            if _is_merge(event):
                keys[-1] = "<<"
                self._merge(tree, lines, next_event())
                continue
            key = keys[-1] = self._key(event)
            line = event.start_mark.line
            if key in lines:
                self.problems.append(_set_twice(self._path(), self._line + lines[key], self._line + line))
            lines[key] = line
            tree[key] = self.build(next_event())  # the last of several duplicates counts

    def _merge(self, tree: dict[str, Tree], lines: dict[str, int], event: Any) -> None:
        """``<<``: the first merged mapping wins; a key of the mapping itself loses if it comes before the ``<<``."""
        source = self.build(event)
        parts = source if isinstance(source, list) and type(event) is not AliasEvent else [source]
        if not all(isinstance(part, dict) for part in parts):
            return self._tell("`<<` merges a mapping, or a list of mappings", "")
        for part in reversed(parts):
            for key in lines.keys() & part.keys():
                line = self._line + event.start_mark.line
                message = f"the `<<` on line {line} replaces this key, because it comes after it"
                self._keys[-1] = key
                self.problems.append(warning(self._path(), message, "put `<<` first"))
            tree.update(part)
        return None

    def _key(self, event: Any) -> str:
        if type(event) is ScalarEvent:
            if event.anchor is not None:
                self._anchors[event.anchor] = event
            text: str = event.value
            if event.tag is None and (not event.implicit[0] or text[:1] not in RESOLVED_STARTS):
                return text
            return self._named(event)
        self._keys[-1] = "?"
        tree = self.build(event)
        held = self._anchors.get(event.anchor or "")
        if type(event) is AliasEvent and type(held) is ScalarEvent:
            return self._named(held)
        hint = "a text in braces needs quotes; a template must be rendered first" if isinstance(tree, dict) else ""
        self._tell("a key must be a word, not a list or mapping", hint)
        return "?"

    def _named(self, event: ScalarEvent) -> str:
        text = str(event.value)
        self._keys[-1] = text
        try:
            name = key_of(event)
        except ValueError:
            self._misfit(event)
            return text
        if name is None:
            self._tell(f"a key must not be {_short(text) if text else 'empty'}", "put it in quotes")
        return text if name is None else name

    def _scalar(self, event: Any) -> Tree:
        if event.anchor is not None:
            self._anchors[event.anchor] = event
        text = event.value
        if event.tag is not None:
            try:
                return self._finite(tagged(event.tag, text), text)
            except ValueError:
                return self._misfit(event)
        if not event.implicit[0] or text[:1] not in RESOLVED_STARTS:
            return text
        return self._finite(plain(text), text)

    def _finite(self, value: Tree, text: str) -> Tree:
        if type(value) is not float:
            return value
        if not math.isfinite(value):
            return self._tell(f"{text} is a number that JSON cannot hold", "put it in quotes")
        return json_lines.as_json(value)

    def _misfit(self, event: ScalarEvent) -> None:
        shown = str(event.tag).replace(TAGS, "!!")
        self._tell(f"the tag {shown} does not fit {_short(event.value)}", "remove the tag")

    def _alias(self, event: Any) -> Tree:
        held = self._anchors.get(event.anchor, self)
        if held is self:
            hint = f"write &{event.anchor} above, or put a value that begins with * in quotes"
            return self._tell(f"the alias *{event.anchor} has no anchor", hint)
        if type(held) is ScalarEvent:
            return self._scalar(held)
        if any(held is tree for tree in self._open):
            return self._tell(f"the alias *{event.anchor} contains itself", "write the value out")
        return self._copy(held, len(self._open))

    def _copy(self, tree: Tree, depth: int) -> Tree:
        """A copy for an alias, so that the tree shares nothing. Copies are counted: aliases cannot fill the memory."""
        self._copied += 1
        if self._copied > VALUES_MAX:
            if self._copied == VALUES_MAX + 1:
                self._tell(f"aliases add more than {VALUES_MAX} values to the document", "write the values out")
            return None
        if isinstance(tree, dict | list) and depth >= DEPTH_MAX:
            raise _TooDeep
        if isinstance(tree, dict):
            return {key: self._copy(value, depth + 1) for key, value in tree.items()}
        if isinstance(tree, list):
            return [self._copy(item, depth + 1) for item in tree]
        return tree

    def _path(self) -> str:
        opened = zip(self._open, self._keys, strict=True)
        return rendered(len(tree) if isinstance(tree, list) else key for tree, key in opened)

    def _tell(self, message: str, hint: str) -> None:
        self.problems.append(Problem(self._path(), message, hint, cause="Syntax"))


def _is_merge(event: Any) -> bool:
    if type(event) is not ScalarEvent or event.value != "<<":
        return False
    return event.tag == f"{TAGS}merge" or (event.tag is None and bool(event.implicit[0]))


def _set_twice(path: str, first: int, again: int) -> Problem:
    where = f"on lines {first} and {again}" if first != again else f"on line {first}"
    return Problem(path, f"the key is set twice, {where}", "keep one of them", cause="DuplicateField")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


# --- lines of YAML --------------------------------------------------------------------------------------------------


def _yaml_spots(chunk: str, line: int) -> LineSpot:
    """Reads a document once more, for its lines only; the first reading gave a tree."""
    loader = _Loader(chunk)
    try:
        loader.get_event()
        loader.get_event()
        return _Spotter(loader.get_event, line).spot(loader.get_event())
    finally:
        loader.dispose()


class _Spotter:
    def __init__(self, next_event: Callable[[], Any], line: int) -> None:
        self._next = next_event
        self._line = line
        self._anchors: dict[str, tuple[LineSpot, Any]] = {}

    def spot(self, event: Any) -> LineSpot:
        spot = LineSpot(self._line + event.start_mark.line)
        kind = type(event)
        if kind is AliasEvent:
            if event.anchor in self._anchors:
                spot.inside = self._anchors[event.anchor][0].inside  # seen by every alias
            return spot
        if event.anchor is not None:
            self._anchors[event.anchor] = (spot, event)
        if kind is MappingStartEvent:
            self._fill(spot.inside)
        elif kind is not ScalarEvent:
            while type(item := self._next()) is not SequenceEndEvent:
                spot.inside[str(len(spot.inside))] = self.spot(item)
        return spot

    def _fill(self, inside: dict[str, LineSpot]) -> None:
        while type(event := self._next()) is not MappingEndEvent:
            key = self.spot(event)
            name = self._name(event)
            following = self._next()
            value = self.spot(following)
            inside[name] = LineSpot(key.line, value.inside)
            if _is_merge(event):
                listed = type(following) not in (MappingStartEvent, AliasEvent)
                for part in reversed(value.inside.values()) if listed else [value]:
                    inside.update(part.inside.copy())

    def _name(self, event: Any) -> str:
        if type(event) is AliasEvent and event.anchor in self._anchors:
            event = self._anchors[event.anchor][1]
        if type(event) is not ScalarEvent:
            return "?"
        try:
            name = key_of(event)
        except ValueError:
            name = None
        return str(event.value) if name is None else name
