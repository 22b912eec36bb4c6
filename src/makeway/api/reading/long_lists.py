"""Cuts a list that is too long for one document into its items: ``kubectl get -A`` prints such lists.

The text is cut before a tree is made of it. The rest of the list, its *head*, is a small document on the same lines:
line breaks stand where the items were. So only one item at a time has to become a tree.

Promises: time linear in the text; the answer None for any other text, which then is a document like any other.

Not here: what the parts mean (``documents``), and whether the head belongs to a list (``manifests``).
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from makeway.api.reading.json_lines import after_space

ITEMS_MAX = 500_000  # 256 MiB hold no more objects, since each needs bytes for its kind and name
_ANY = json.JSONDecoder(parse_int=float).raw_decode  # only finds the end of a value, so long integers are fine
_ITEMS = re.compile(r"^items:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*( *)-(?=[ \n])", re.MULTILINE)


class ItemSpan(NamedTuple):
    """One item."""

    start: int
    end: int
    line: int  # the number of lines of the list before it


class Cut(NamedTuple):
    head: str  # the list without its items
    end: int  # where the text after the list begins
    pieces: list[ItemSpan]


# --- JSON -----------------------------------------------------------------------------------------------------------


def cut_json(text: str, start: int) -> Cut | None:
    """Cut the object at ``start``. Raises JSONDecodeError (with the place) for bad JSON, and RecursionError."""
    items: tuple[int, int] | None = None
    pieces: list[ItemSpan] = []
    at = after_space(text, start + 1)
    if not text.startswith("{", start) or text.startswith("}", at):
        return None
    while True:
        if not text.startswith('"', at):
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        key, at = _ANY(text, at)
        begin = at = _after(":", text, at)
        if key == "items" and text.startswith("[", at):
            if items is not None:
                return None
            pieces, at = _json_pieces(text, start, at)
            items = (begin, at)
        else:
            _, at = _ANY(text, at)
        at = after_space(text, at)
        if text.startswith("}", at):
            break
        at = _after(",", text, at)
    if items is None or len(pieces) > ITEMS_MAX:
        return None
    breaks = "\n" * text.count("\n", *items)
    return Cut(f"{text[start : items[0]]}[{breaks}]{text[items[1] : at + 1]}", at + 1, pieces)


def _json_pieces(text: str, start: int, at: int) -> tuple[list[ItemSpan], int]:
    """The items of the array at ``at``, and the end of the array."""
    pieces: list[ItemSpan] = []
    line, counted = 0, start
    at = after_space(text, at + 1)
    if text.startswith("]", at):
        return pieces, at + 1
    while True:
        line, counted = line + text.count("\n", counted, at), at
        _, end = _ANY(text, at)
        if len(pieces) <= ITEMS_MAX:
            pieces.append(ItemSpan(at, end, line))
        at = after_space(text, end)
        if text.startswith("]", at):
            return pieces, at + 1
        at = _after(",", text, at)


def _after(mark: str, text: str, at: int) -> int:
    at = after_space(text, at)
    if not text.startswith(mark, at):
        raise json.JSONDecodeError(f"Expecting '{mark}' delimiter", text, at)
    return after_space(text, at + 1)


# --- YAML -----------------------------------------------------------------------------------------------------------


def cut_yaml(chunk: str) -> Cut | None:
    """Cut a document in block style: a line ``items:``, and below it dashes that all have the same indent.

    All further lines of an item have a deeper indent, also a text of several lines.
    """
    items = _ITEMS.search(chunk)
    if items is None:
        return None
    indent = len(items.group(1))
    mark = re.compile(rf"^ {{{indent}}}(-)(?=[ \n])|^ {{0,{indent}}}(?!-[ \n])[^ #\n]", re.MULTILINE)
    pieces: list[ItemSpan] = []
    line, at, last = 0, 0, len(chunk)
    start: int | None = None
    for dash in mark.finditer(chunk, items.start(1)):
        if len(pieces) >= ITEMS_MAX:
            return None
        if start is not None:
            pieces.append(ItemSpan(start, dash.start(), line))
        if dash.group(1) is None:
            last, start = dash.start(), None
            break
        line, at = line + chunk.count("\n", at, dash.start()), dash.start()
        start = dash.end()
    if start is not None:
        pieces.append(ItemSpan(start, last, line))
    breaks = "\n" * chunk.count("\n", items.start(), last)
    return Cut(f"{chunk[: items.start()]}items: []{breaks}{chunk[last:]}", len(chunk), pieces)


def yaml_item(chunk: str, piece: ItemSpan) -> str:
    """The text of an item as a document of its own; every word stays in its column."""
    before = chunk.rfind("\n", 0, piece.start) + 1
    return " " * (piece.start - before) + chunk[piece.start : piece.end]
