"""The OpenAPI document of version 2 in protobuf, the only form that kubectl reads.

kubectl asks for it if version 3 has no answer: for kinds that are not served, and for the patch types of a kind. Only
the parts that our documents use are implemented; the numbers are those of the published message types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import msgspec

from makeway.api.reading.documents import Tree

Encode = Callable[[Tree], bytes]
_BYTES, _VARINT, _DOUBLE = 2, 0, 1


def document(tree: Mapping[str, Tree]) -> bytes:
    info = _text(1, tree["info"]["title"]) + _text(2, tree["info"]["version"])
    paths = b"".join(_named(2, name, _path_item(each)) for name, each in tree["paths"].items())
    schemas = b"".join(_named(1, name, _schema(each)) for name, each in tree["definitions"].items())
    return _text(1, tree["swagger"]) + _message(2, info) + _message(8, paths) + _message(9, schemas)


# --- the wire --------------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _whole(number: int, value: int) -> bytes:
    """Encode an integer from 0 on, or a truth value."""
    return _varint(number << 3 | _VARINT) + _varint(int(value))


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def _named(number: int, name: str, content: bytes) -> bytes:
    """Encode an entry of a map."""
    return _message(number, _text(1, name) + _message(2, content))


def _any(number: int, value: Tree) -> bytes:
    """Encode a value of any type, as YAML, of which JSON is a part."""
    return _message(number, _text(2, msgspec.json.encode(value).decode()))


def _extensions(number: int, tree: Mapping[str, Tree]) -> bytes:
    words = ((name, msgspec.json.encode(each).decode()) for name, each in tree.items() if name.startswith("x-"))
    return b"".join(_named(number, name, _text(2, yaml)) for name, yaml in words)


# --- schemas ---------------------------------------------------------------------------------------------------------

_SCHEMA: dict[str, Encode] = {
    "$ref": lambda v: _text(1, v),
    "format": lambda v: _text(2, v),
    "description": lambda v: _text(4, v),
    "default": lambda v: _any(5, v),
    "maximum": lambda v: _double(7, v),
    "minimum": lambda v: _double(9, v),
    "maxLength": lambda v: _whole(11, v),
    "minLength": lambda v: _whole(12, v),
    "pattern": lambda v: _text(13, v),
    "maxItems": lambda v: _whole(14, v),
    "minItems": lambda v: _whole(15, v),
    "maxProperties": lambda v: _whole(17, v),
    "minProperties": lambda v: _whole(18, v),
    "required": lambda v: b"".join(_text(19, each) for each in v),
    "enum": lambda v: b"".join(_any(20, each) for each in v),
    "additionalProperties": lambda v: _message(21, _message(1, _schema(v))),
    "type": lambda v: _message(22, _text(1, v)),
    "items": lambda v: _message(23, _message(1, _schema(v))),
    "properties": lambda v: _message(25, b"".join(_named(1, name, _schema(each)) for name, each in v.items())),
}


def _schema(tree: Mapping[str, Tree]) -> bytes:
    known = b"".join(_SCHEMA[name](each) for name, each in tree.items() if not name.startswith("x-"))
    return known + _extensions(31, tree)


# --- paths -----------------------------------------------------------------------------------------------------------

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(tree: Mapping[str, Tree]) -> bytes:
    methods = (_message(number, _operation(tree[name])) for name, number in _METHODS.items() if name in tree)
    return b"".join(methods) + b"".join(_parameter(9, each) for each in tree["parameters"])


def _operation(tree: Mapping[str, Tree]) -> bytes:
    produces = b"".join(_text(6, each) for each in tree["produces"])
    consumes = b"".join(_text(7, each) for each in tree["consumes"])
    parameters = b"".join(_parameter(8, each) for each in tree["parameters"])
    responses = b"".join(_named(1, code, _message(1, _response(each))) for code, each in tree["responses"].items())
    return produces + consumes + parameters + _message(9, responses) + _extensions(13, tree)


def _response(tree: Mapping[str, Tree]) -> bytes:
    return _text(1, tree["description"]) + _message(2, _message(1, _schema(tree["schema"])))


def _parameter(number: int, tree: Mapping[str, Tree]) -> bytes:
    """Encode a parameter: one of several messages, told apart by the field numbers on the way to it."""
    name, place, required = tree["name"], tree["in"], bool(tree.get("required"))
    if place == "body":
        body = _text(2, name) + _text(3, place) + _whole(4, required) + _message(5, _schema(tree["schema"]))
        return _message(number, _message(1, _message(1, body)))
    type_number, unique_number, sort = (5, 19, 4) if place == "path" else (6, 20, 3)
    plain = _whole(1, required) + _text(2, place) + _text(4, name)
    plain += _text(type_number, tree["type"]) + _whole(unique_number, bool(tree.get("uniqueItems")))
    return _message(number, _message(1, _message(2, _message(sort, plain))))
