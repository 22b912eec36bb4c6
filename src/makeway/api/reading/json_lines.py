"""Paths and their lines, and JSON text: the part of ``documents`` that does not deal with YAML.

``json`` reads JSON into a tree. Its lines are read in a second pass, only on request. ``JsonReader`` reads one value of
a stream after the other; ``spots`` finds the line of every path in a value. Both are linear in the text that they read,
and neither reads beyond the value that it was asked for.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from makeway.api.problems import entry

_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s,:\[\]{}"]+')  # commas and colons are not needed
_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_INT_DIGITS_MAX = 309  # the longest integer that a float can hold


_HINTS = {
    "Expecting property name": "a key stands in double quotes, and no comma stands before a closing bracket",
    "Expecting ',' delimiter": "a comma is missing, or a bracket or quote is not closed",
    "Expecting ':' delimiter": "a key and its value are parted by a colon",
    "Expecting value": "a value is missing, or a text has no quotes",
    "Illegal trailing comma": "remove the comma before the closing bracket",
    "Invalid control character": r"write a line break in a text as \n, a tab as \t",
    "Invalid \\escape": r"write a backslash as \\",
    "Unterminated string": "close the quotes",
}


def decoded(data: bytes) -> tuple[str, str]:
    """The text, or why there is none. UTF-16 is recognised by the byte order mark of some editors and shells."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    start = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    try:
        text = data.decode("utf-16") if wide else data[start:].decode()
    except UnicodeDecodeError as error:
        at, encoding = start + error.start, "UTF-16" if wide else "UTF-8"
        return "", f"not a text file: byte 0x{data[at]:02x} at offset {at} is not {encoding}"
    if (nul := text.find("\0")) >= 0:
        return "", f"not a text file: a NUL character on line {text.count(chr(10), 0, nul) + 1}"
    return text.replace("\r\n", "\n"), ""


# --- paths ----------------------------------------------------------------------------------------------------------

_FIELD = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(r'\[("(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")\]|\[([^\]]*)\]|([^.\[\]]+)')


def joined(path: str, key: str) -> str:
    """``path`` and a key as one path: ``spec.count``; an odd key stands in brackets, a very odd one in quotes too."""
    if _FIELD.fullmatch(key):
        return f"{path}.{key}" if path else key
    return entry(path, key)


def tokens(path: str) -> Iterator[str]:
    """The keys and indexes of a path, outermost first."""
    for match in _TOKEN.finditer(path):
        quoted, bracketed, name = match.groups()
        yield json.loads(quoted) if quoted is not None else bracketed if bracketed is not None else name


def rendered(keys: Iterable[str | int]) -> str:
    path = ""
    for key in keys:
        path = f"{path}[{key}]" if isinstance(key, int) else joined(path, key)
    return path


@dataclass(slots=True)
class LineSpot:
    """The line of a value, and the spots of the values inside it, by key or by index."""

    line: int
    inside: dict[str, LineSpot] = field(default_factory=dict)


class PathLines:
    """The lines of the paths of one document; ``read`` is called for the first line that is asked for."""

    def __init__(self, read: Callable[[], LineSpot]) -> None:
        self._read = read
        self._root: LineSpot | None = None

    def line_of(self, path: str) -> int:
        if self._root is None:
            self._root = self._read()
        spot = self._root
        for token in tokens(path):
            if token not in spot.inside:
                break
            spot = spot.inside[token]
        return spot.line


# --- JSON -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonValue:
    tree: Any
    end: int  # where the text after it begins
    twice: bool  # a key in it is set twice
    too_large: str  # a number in it that no float can hold; "" if there is none


class JsonReader:
    """Decodes JSON values like Go: a lone surrogate becomes U+FFFD."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._twice = False
        self._too_large = ""
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=_refused, parse_int=self._integer, parse_float=self._float
        )

    def read(self, at: int) -> JsonValue:
        """The value that begins at ``at``. Raises ValueError, JSONDecodeError (with the place) or RecursionError."""
        self._twice, self._too_large = False, ""
        tree, end = self._decoder.raw_decode(self._text, at)
        if _SURROGATE_ESCAPE.search(self._text, at, end):
            tree = _mended(tree)
        return JsonValue(tree, end, self._twice, self._too_large)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        tree = dict(pairs)
        if len(tree) < len(pairs):
            self._twice = True
        return tree

    def _integer(self, digits: str) -> int | float:
        return int(digits) if len(digits) <= _INT_DIGITS_MAX else self._float(digits)

    def _float(self, digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            self._too_large = digits
        return value


def deeper_than(tree: Any, limit: int) -> bool:
    """Whether lists and mappings nest deeper than ``limit``. Goes level by level and needs no stack."""
    level, depth = [tree], 0
    while level := [value for value in level if value.__class__ in (dict, list)]:
        depth += 1
        if depth > limit:
            return True
        level = [item for value in level for item in (value.values() if value.__class__ is dict else value)]
    return False


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is a number that JSON cannot hold")


def _mended(tree: Any) -> Any:
    if isinstance(tree, str):
        return _LONE_SURROGATE.sub("\ufffd", tree)
    if isinstance(tree, list):
        return [_mended(item) for item in tree]
    if isinstance(tree, dict):
        return {_mended(key): _mended(value) for key, value in tree.items()}
    return tree


@dataclass(frozen=True, slots=True)
class Twice:
    """A key that is set twice: the keys and indexes that lead to it, and its lines."""

    keys: tuple[str | int, ...]
    first: int
    again: int


def spots(text: str, at: int, end: int, line: int) -> tuple[LineSpot, list[Twice]]:
    """The lines of all that is in ``text[at:end]``, a value that ``JsonReader`` has read which begins on ``line``."""
    scanner = _Scanner(text, at, end, line)
    return scanner.root(), scanner.twice


class _Scanner:
    def __init__(self, text: str, at: int, end: int, line: int) -> None:
        self.twice: list[Twice] = []
        self._marks = self._found(text, at, end, line)
        self._keys: list[str | int] = []

    def root(self) -> LineSpot:
        return self._spot(*next(self._marks))

    @staticmethod
    def _found(text: str, at: int, end: int, line: int) -> Iterator[tuple[str, int]]:
        for mark in _MARK.finditer(text, at, end):
            line += text.count("\n", at, mark.start())
            at = mark.start()
            yield mark.group(), line

    def _spot(self, mark: str, line: int) -> LineSpot:
        spot = LineSpot(line)
        if mark in ("{", "["):
            self._keys.append("")
            if mark == "{":
                self._mapping(spot.inside)
            else:
                self._sequence(spot.inside)
            self._keys.pop()
        return spot

    def _mapping(self, inside: dict[str, LineSpot]) -> None:
        for mark, line in self._marks:
            if mark == "}":
                return
            key = _LONE_SURROGATE.sub("\ufffd", json.loads(mark)) if "\\" in mark else mark[1:-1]
            self._keys[-1] = key
            if key in inside:
                self.twice.append(Twice(tuple(self._keys), inside[key].line, line))
            value, _ = next(self._marks)
            inside[key] = self._spot(value, line)

    def _sequence(self, inside: dict[str, LineSpot]) -> None:
        for mark, line in self._marks:
            if mark == "]":
                return
            self._keys[-1] = len(inside)
            inside[str(len(inside))] = self._spot(mark, line)


def after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def failure(error: ValueError, line: int) -> tuple[int, str, str]:
    """Line, message and hint for an exception of ``JsonReader.read`` about the value on ``line``."""
    if not isinstance(error, json.JSONDecodeError):
        return line, f"not valid JSON: {error}", "put it in quotes"
    hint = next((hint for start, hint in _HINTS.items() if error.msg.startswith(start)), "")
    what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at").removesuffix(" starting")
    return error.lineno, f"not valid JSON: {what} at column {error.colno}", hint


# --- numbers --------------------------------------------------------------------------------------------------------


def as_json(value: float) -> int | float:
    """The number that the JSON text of a float stands for: 1e3 is written 1000, shortest digits first."""
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < 1e21 else value


def float_name(value: float) -> str:
    """A 32-bit float as Go writes it: with the fewest digits that tell it from its neighbours."""
    if math.isnan(value):
        return ".nan"
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    written = (f"{single:.{digits}e}" for digits in range(9))
    shortest = next(text for text in written if struct.unpack("f", struct.pack("f", float(text)))[0] == single)
    exponent = int(shortest.partition("e")[2])
    return format(Decimal(shortest), "f") if -4 <= exponent < 6 else shortest
