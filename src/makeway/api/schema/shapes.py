"""The shape of a kind: its fields with their types and limits.

Reading (``structure``), generated CRDs (``crds``) and generated test objects all use it. The shape of our own kinds is
made from the wire structs, that of Kubernetes kinds from ``kubernetes_types`` and ``kubernetes_limits``.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from makeway.api.objects.meta import Limit, ObjectMeta, OfType, Wire
from makeway.api.quantity import Duration, MicroTime, Quantity, Time
from makeway.api.schema.kubernetes_limits import NO_LIMIT, UNBOUND, FieldBounds, bounds_of
from makeway.api.schema.kubernetes_types import FieldType, fields_of

_LEAVES: dict[Any, str] = {
    str: "string", bool: "boolean", int: "int32", float: "number", Any: "any",
    bytes: "bytes", Quantity: "quantity", Duration: "duration", Time: "time", MicroTime: "microTime",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str  # "string", "int32", "quantity", "enum" …
    allowed: tuple[str, ...] = ()  # of an enum


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Field


@dataclass(frozen=True, slots=True)
class MapOf:
    item: Field


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    name: str
    fields: Mapping[str, Field]
    keeps_unknown: bool = False  # a Kubernetes type: a newer server may have fields that are unknown here


Shape = Leaf | ListOf | MapOf | Record


@dataclass(frozen=True, slots=True)
class Field:
    shape: Shape
    limit: Limit = NO_LIMIT
    default: object = None  # as an object shows it; None: not shown
    zero_is_absent: bool = False  # whether 0, "", false or an empty value means the same as no value

    @property
    def omits_empty(self) -> bool:
        """Whether an empty list or map is left out, like with ``omitempty`` in Go."""
        return self.zero_is_absent and isinstance(self.shape, ListOf | MapOf) and not self.limit.required


@cache
def shape_of(kind: type[Wire]) -> Record:
    """The shape of one of our wire structs."""
    hints = get_type_hints(kind, include_extras=True)
    return Record(
        kind.__name__,
        {
            info.encode_name: replace(
                _field(hints[info.name], default=_written_default(info)), zero_is_absent=_is_zero_absent(info)
            )
            for info in msgspec.structs.fields(kind)
        },
    )


@cache
def kubernetes_shape(type_name: str) -> Record:
    """The shape of a type that Kubernetes defines."""
    if type_name == "ObjectMeta":
        return shape_of(ObjectMeta)
    bounds = bounds_of(type_name)
    fields = {name: _kubernetes_field(field, bounds.get(name, UNBOUND)) for name, field in fields_of(type_name).items()}
    return Record(type_name, fields, True)


@cache
def kubernetes_kind(kind: type[Wire]) -> Record:
    """The shape of a kind that Kubernetes defines: its fields, with the limits of our struct."""
    return _within(kubernetes_shape(kind.__name__), shape_of(kind))


def _within(theirs: Record, ours: Record) -> Record:
    if theirs is ours:
        return theirs
    fields = {name: _field_within(field, ours.fields.get(name)) for name, field in theirs.fields.items()}
    return Record(theirs.name, fields, theirs.keeps_unknown)


def _field_within(theirs: Field, ours: Field | None) -> Field:
    if ours is None:
        return theirs
    shape, limit = theirs.shape, _both(theirs.limit, ours.limit)
    match shape, ours.shape:
        case Record(), Record():
            shape = _within(shape, ours.shape)
        case ListOf(), ListOf():
            shape = ListOf(_field_within(shape.item, ours.shape.item))
        case MapOf(), MapOf():
            shape = MapOf(_field_within(shape.item, ours.shape.item))
        case Leaf(), Leaf("enum"):
            shape = ours.shape
    return Field(shape, limit, zero_is_absent=theirs.zero_is_absent)


def renamed(shape: Record, changes: Mapping[str, Field | None]) -> Record:
    """``shape`` with some fields replaced, added or (None) removed: how an older version differs from ours."""
    kept = {name: field for name, field in shape.fields.items() if name not in changes}
    return Record(shape.name, kept | {name: field for name, field in changes.items() if field}, shape.keeps_unknown)


def _field(hint: Any, default: object = None) -> Field:
    limit, marked = NO_LIMIT, ""
    if get_origin(hint) is Annotated:
        hint, *marks = get_args(hint)
        for mark in marks:
            if isinstance(mark, Limit):
                limit = _both(limit, mark)
            elif isinstance(mark, OfType):
                marked = mark.name
    inner = _not_none(hint)
    if get_origin(inner) is Annotated:  # ``Annotated[…] | None`` around an alias
        field = _field(inner)
        return Field(field.shape, _both(limit, field.limit), default)
    return Field(_shape(inner, marked), limit, default)


def _shape(hint: Any, marked: str) -> Shape:
    if hint is msgspec.Raw:
        return kubernetes_shape(marked)
    if marked:
        return Leaf(marked)
    if hint in _LEAVES:
        return Leaf(_LEAVES[hint])
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return Leaf("enum", args)
    if origin is tuple:
        return ListOf(_field(args[0]))
    if origin is dict:
        return MapOf(_field(args[1]))
    return shape_of(hint)


def _not_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (part for part in get_args(hint) if part is not type(None))
        return inner
    return hint


def _both(first: Limit, second: Limit) -> Limit:
    changes = {f.name: value for f in fields(Limit) if (value := getattr(second, f.name)) != f.default}
    return replace(first, **changes)


def _written_default(info: msgspec.structs.FieldInfo) -> object:
    """The default if ``shown`` or ``made`` declares it; other defaults are not part of the shape."""
    if info.default_factory is msgspec.NODEFAULT or info.default_factory in (dict, list, set):
        return None
    return info.default_factory()


def _is_zero_absent(info: msgspec.structs.FieldInfo) -> bool:
    default = info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()
    return isinstance(default, msgspec.Struct) or (default is not None and default in ("", 0, False, (), {}))


def _kubernetes_field(field: FieldType, bounds: FieldBounds) -> Field:
    limit = bounds.own
    if field.required:
        limit = replace(limit, required=True)
    elif field.zero_is_absent and limit is not NO_LIMIT:
        limit = replace(limit, zero_passes=True)
    shape: Shape
    if field.kind == "list" and field.item is not None:
        shape = ListOf(_kubernetes_item(field.item, bounds.item))
    elif field.kind == "map" and field.item is not None:
        shape = MapOf(_kubernetes_item(field.item, bounds.item))
    else:
        shape = kubernetes_shape(field.name) if field.kind == "object" else Leaf(field.name)
    return Field(shape, limit, zero_is_absent=field.zero_is_absent)


def _kubernetes_item(field: FieldType, limit: Limit) -> Field:
    return replace(_kubernetes_field(field, UNBOUND), limit=limit, zero_is_absent=False)  # an item is never absent
