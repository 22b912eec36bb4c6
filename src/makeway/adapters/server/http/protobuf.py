"""Bodies in protobuf: kubectl sends the Kubernetes kinds so where it knows their types, and takes JSON for an answer.

Only reading, and only the kinds that Kubernetes defines. A body is an envelope (``k8s\\0``, then a message with the
apiVersion, the kind and the bytes of the object) around a message whose fields have numbers instead of names
(``protobuf_numbers``). What comes out is the tree that JSON would have given.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from makeway.adapters.server.http.protobuf_numbers import TABLE
from makeway.api.quantity import MicroTime, Time
from makeway.api.reading.documents import Tree
from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record

MEDIA = "application/vnd.kubernetes.protobuf"
ANYTHING = Leaf("any")
UNREAD = "managedFields"
_MAGIC = b"k8s\x00"
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_SKIPPED = object()
Wire = int | bytes


class Misread(ValueError):
    """These bytes are not a valid message."""


@dataclass(slots=True)
class _Numbers:
    """Field numbers of a message: names, whether empty values count, and messages that JSON does not show."""

    names: dict[int, tuple[str, bool]] = field(default_factory=dict)
    hidden: dict[int, _Numbers] = field(default_factory=dict)


@cache
def _numbers() -> Mapping[str, _Numbers]:
    types: dict[str, _Numbers] = {}
    name = ""
    for line in TABLE.splitlines():
        if not line.startswith(" "):
            name, _, line = line.partition(":")
        numbers = types.setdefault(name, _Numbers())
        for part in line.split():
            called, _, where = part.partition("=")
            outer, _, inner = where.rstrip("*").partition(".")
            into = numbers.hidden.setdefault(int(outer), _Numbers()) if inner else numbers
            into.names[int(inner or outer)] = (called, where.endswith("*"))
    return types


def decoded(data: bytes, shape: Record) -> dict[str, Tree]:
    """Return the object in an envelope, as a tree with its apiVersion and kind. Raises ``Misread``."""
    if not data.startswith(_MAGIC):
        raise Misread("it does not begin like a Kubernetes object")
    named, raw = {}, b""
    for number, value in _fields(data[len(_MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            named = {n: _text(v) for n, v in _fields(value)}
        elif number == 2 and isinstance(value, bytes):
            raw = value
    tree = {"apiVersion": named.get(1, ""), "kind": named.get(2, "")}
    return {**{name: each for name, each in tree.items() if each}, **_message(raw, shape)}


def _message(data: bytes, shape: Record) -> dict[str, Tree]:
    numbers = _numbers().get(shape.name)
    if numbers is None:
        raise Misread(f"{shape.name} is not known in protobuf")
    tree: dict[str, Tree] = {}
    _fill(tree, data, shape, numbers)
    return tree


def _fill(tree: dict[str, Tree], data: bytes, shape: Record, numbers: _Numbers) -> None:
    for number, value in _fields(data):
        if number in numbers.hidden:
            _fill(tree, _bytes(value), shape, numbers.hidden[number])
            continue
        name, is_pointer = numbers.names.get(number, ("", False))
        known = shape.fields.get(name)
        if known is None or name == UNREAD:
            continue  # newer than this table, or a record that only the server writes
        held = known.shape
        if isinstance(held, ListOf):
            tree.setdefault(name, []).extend(_items(value, held.item))
        elif isinstance(held, MapOf) and held.item.shape == ANYTHING:
            tree[name] = {}  # a message without fields: its presence is its meaning
        elif isinstance(held, MapOf):
            key, each = _entry(_bytes(value), held.item)
            tree.setdefault(name, {})[key] = each
        else:
            each = _value(value, known)
            if each is not _SKIPPED and (is_pointer or each not in ("", 0, False, {})):
                tree[name] = each


def _items(value: Wire, item: Field) -> Iterator[Tree]:
    packs = isinstance(item.shape, Leaf) and item.shape.name in ("int32", "int64", "boolean")
    if packs and isinstance(value, bytes):
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            yield _value(number, item)
    else:
        each = _value(value, item)
        yield None if each is _SKIPPED else each


def _entry(data: bytes, item: Field) -> tuple[str, Tree]:
    key, each = "", _value(b"", item) if not isinstance(item.shape, Leaf) else ""
    for number, value in _fields(data):
        if number == 1:
            key = _text(value)
        elif number == 2:
            each = _value(value, item)
    return key, None if each is _SKIPPED else each


def _value(value: Wire, known: Field) -> Any:
    shape = known.shape
    if isinstance(shape, Record):
        return _message(_bytes(value), shape)
    if not isinstance(shape, Leaf):
        raise Misread("a list in a list")
    match shape.name:
        case "int32" | "int64":
            return _signed(value)
        case "boolean":
            return _signed(value) != 0
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "quantity":
            return next((_text(each) for number, each in _fields(_bytes(value)) if number == 1), "0")
        case "time" | "microTime":
            return _time(_bytes(value), shape.name)
        case "intOrString":
            parts = dict(_fields(_bytes(value)))
            return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))
        case "any" | "number":
            return _SKIPPED
    return _text(value)


def _time(data: bytes, name: str) -> Any:
    parts = {number: _signed(value) for number, value in _fields(data)}
    if not parts:
        return _SKIPPED  # not a time
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    try:
        nano = seconds * 10**9 + nanos
        return MicroTime(nano).text if name == "microTime" else Time(nano).text
    except (ValueError, OverflowError) as error:
        raise Misread("a time is out of range") from error


# --- the bytes -------------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_DOUBLE, _FLOAT):
            size = 8 if kind == _DOUBLE else 4
        else:
            raise Misread(f"a field of an unknown kind, {kind}")
        if size > len(data) - at:
            raise Misread("it ends in the midst of a field")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_BYTES_MAX):
        if at >= len(data):
            raise Misread("it ends in the midst of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise Misread("a number is too long")


def _signed(value: Wire) -> int:
    if isinstance(value, bytes):
        raise Misread("a number is expected")
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: Wire) -> bytes:
    if isinstance(value, int):
        raise Misread("a message is expected")
    return value


def _text(value: Wire) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as error:
        raise Misread("a text is not UTF-8") from error
