"""How the parts of an object are merged: as a whole or item by item, and by which keys items are identified.

A *node* describes one field. It is made from the types of our kinds and from the table of Kubernetes types, plus what
neither says: which types and lists are *atomic* (merged as a whole), which lists are sets, which have several keys.
Server-side apply (``field_ownership``) walks nodes, and ``openapi`` prints them as list and map types. Strategic merges
follow the older merge keys of the Kubernetes table (``patches``), which sometimes differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeVar

import msgspec

from makeway.api.objects.meta import ObjectMeta
from makeway.api.quantity import encode_hook
from makeway.api.schema.kubernetes_types import FieldType, fields_of
from makeway.api.schema.shapes import Field, Leaf, MapOf, Record, shape_of
from makeway.api.versions import Kind

Token = TypeVar("Token", bound=Hashable)
Sort = Literal["leaf", "record", "map", "list"]
Merge = Literal["atomic", "each", "keyed", "set"]

# Kubernetes types that are merged as a whole.
_ATOMIC_TYPES = frozenset({
    "ConfigMapKeySelector", "ConfigMapNodeConfigSource", "FileKeySelector", "LabelSelector", "LocalObjectReference",
    "NodeSelector", "NodeSelectorTerm", "ObjectFieldSelector", "ObjectReference", "OwnerReference",
    "ResourceFieldSelector", "SecretKeySelector", "TypedLocalObjectReference", "TypedObjectReference",
})  # fmt: skip
_ATOMIC_FIELDS = {
    ("PodSpec", "nodeSelector"), ("Scheduling", "nodeSelector"), ("JobStatus", "conditions"), ("PodStatus", "hostIPs"),
}  # fmt: skip
_SETS = {
    ("ObjectMeta", "finalizers"), ("NodeSpec", "podCIDRs"), ("UncountedTerminatedPods", "succeeded"),
    ("UncountedTerminatedPods", "failed"),
}  # fmt: skip
_KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    ("ResourceRequirements", "claims"): ("name",),
    ("PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("Container", "ports"): ("containerPort", "protocol"),
    ("EphemeralContainer", "ports"): ("containerPort", "protocol"),
}
_UNOWNED = frozenset({
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
})  # fmt: skip
_KEY_DEFAULTS = {("ContainerPort", "protocol"): "TCP"}


@dataclass(slots=True, eq=False)
class FieldNode:
    """One field. ``fields`` are those of a struct, with their names as they stand in a set of fields."""

    sort: Sort
    merge: Merge
    name: str = ""  # of the type of a leaf or struct
    fields: Mapping[str, tuple[str, FieldNode]] = field(default_factory=dict)
    item: FieldNode | None = None  # the items of a list or map
    keys: tuple[tuple[str, object], ...] = ()  # of a keyed list: names, and defaults for absent keys
    default: object = None  # of a leaf of ours, in JSON
    keeps_unknown: bool = False

    @property
    def by_field(self) -> bool:
        """Whether it is a mapping whose entries are owned one by one."""
        return self.merge == "each"


ANYTHING = FieldNode("leaf", "atomic", "any")


@cache
def node_of(kind: Kind) -> FieldNode:
    """Return the node of a kind in its stored version."""
    return _record(shape_of(kind.type)) if kind.ours else type_node(kind.type.__name__)


_PARTS: dict[tuple[str, str, str], FieldNode] = {}


def owned_part(kind: Kind, subresource: str) -> FieldNode:
    """Return the part of a kind that can be owned through its main resource, or through its status."""
    name = kind.group, kind.name, subresource  # every write asks, and hashing a kind is slow
    part = _PARTS.get(name)
    if part is None:
        part = _PARTS[name] = _owned_part(kind, subresource)
    return part


def _owned_part(kind: Kind, subresource: str) -> FieldNode:
    whole = node_of(kind)
    if subresource:
        return FieldNode(
            "record", "each", whole.name, {name: each for name, each in whole.fields.items() if name == "status"}
        )
    fields = {
        name: each
        for name, each in whole.fields.items()
        if name not in ("apiVersion", "kind") and not (name == "status" and kind.has_status)
    }
    step, meta = whole.fields["metadata"]
    known = {name: each for name, each in meta.fields.items() if name not in _UNOWNED}
    return FieldNode(
        "record", "each", whole.name, {**fields, "metadata": (step, FieldNode("record", "each", meta.name, known))}
    )


def in_place(tokens: Sequence[Token], wanted: Mapping[Token, int], before: Mapping[Token, int]) -> list[int]:
    """Return the order of a list's items after a merge, by their indexes.

    Items in the change have its order; other items stay in front of those that they stood in front of before.
    """
    named = sorted((i for i, token in enumerate(tokens) if token in wanted), key=lambda i: wanted[tokens[i]])
    others = [i for i, token in enumerate(tokens) if token not in wanted]
    result: list[int] = []
    taken = 0
    for i in named:
        while taken < len(others) and before.get(tokens[others[taken]], -1) < before.get(tokens[i], -1):
            result.append(others[taken])
            taken += 1
        result.append(i)
    return result + others[taken:]


# --- our own kinds ---------------------------------------------------------------------------------------------------


@cache
def _record(shape: Record) -> FieldNode:
    if shape.keeps_unknown:
        return type_node(shape.name)
    fields = {name: (f"f:{name}", _of_field(each, shape.name, name)) for name, each in shape.fields.items()}
    return FieldNode("record", "atomic" if shape.name in _ATOMIC_TYPES else "each", shape.name, fields)


def _of_field(each: Field, owner: str, name: str) -> FieldNode:
    shape, limit = each.shape, each.limit
    if isinstance(shape, Leaf):
        return FieldNode("leaf", "atomic", shape.name, default=_written(each.default))
    if isinstance(shape, Record):
        return _record(shape)
    item = _of_field(shape.item, owner, "")
    if isinstance(shape, MapOf):
        return FieldNode("map", "each", item=item)
    if limit.keyed_by:
        defaults = [item.fields[key][1].default for key in limit.keyed_by]
        return FieldNode("list", "keyed", item=item, keys=tuple(zip(limit.keyed_by, defaults, strict=True)))
    is_set = limit.unique or (owner, name) in _SETS
    return FieldNode("list", "set" if is_set else "atomic", item=item)


def _written(default: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(default, enc_hook=encode_hook))


# --- the types of Kubernetes -----------------------------------------------------------------------------------------


@cache
def type_node(name: str) -> FieldNode:
    """Return the node of a Kubernetes type."""
    if name == "ObjectMeta":
        return _record(shape_of(ObjectMeta))
    fields = {each: (f"f:{each}", _of_type(type_, name, each)) for each, type_ in fields_of(name).items()}
    return FieldNode("record", "atomic" if name in _ATOMIC_TYPES else "each", name, fields, keeps_unknown=True)


def _of_type(each: FieldType, owner: str, name: str) -> FieldNode:
    if each.kind == "object":
        return type_node(each.name)
    if each.kind == "scalar" or each.item is None:
        return FieldNode("leaf", "atomic", each.name)
    item = _of_type(each.item, owner, "")
    is_atomic = (owner, name) in _ATOMIC_FIELDS
    if each.kind == "map":
        return FieldNode("map", "atomic" if is_atomic else "each", item=item)
    keys = _KEYS.get((owner, name), (each.merge_key,) if each.merge_key else ())
    if keys and not is_atomic:
        return FieldNode(
            "list", "keyed", item=item, keys=tuple((key, _KEY_DEFAULTS.get((item.name, key))) for key in keys)
        )
    return FieldNode("list", "set" if (owner, name) in _SETS else "atomic", item=item)
