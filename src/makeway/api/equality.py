"""Whether two objects mean the same although they are written differently: the semantic equality of Kubernetes.

A Go client decodes what it reads into structs and encodes those when it writes. On the way an empty map is dropped, a
zero is dropped where the struct has no pointer, and a quantity gets its canonical spelling: cpu ``1`` becomes ``"1"``.
None of that is a change, so it must not be treated as one.

Promises: known fields are compared by their types, unknown fields (decision 0010) as they are written; the
order of keys never counts, that of list items always does; equal bytes cost no pass over the parts, others one.

Not here: whether a Job still asks for what its Workload says (``controllers.jobs.templates``), which compares only the
fields that makeway acts on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import starmap
from typing import Any

import msgspec
from msgspec import Raw

from makeway.api.objects.workload import PodSet, WorkloadSpec
from makeway.api.quantity import MicroTime, Quantity, Time
from makeway.api.reading.documents import Tree
from makeway.api.schema.shapes import Leaf, ListOf, MapOf, Record, Shape, kubernetes_shape

Meaning = dict[str, Any]
_PARSERS: dict[str, Callable[[Any], object]] = {
    "quantity": Quantity.parse, "time": Time.parse, "microTime": MicroTime.parse,
}  # fmt: skip
_NO_TEMPLATE = Raw(b"{}")

replace = msgspec.structs.replace


def meanings(before: Raw, after: Raw, type_name: str) -> tuple[Meaning, Meaning]:
    """Two raw parts of a Kubernetes type as trees that are equal if the parts mean the same; empty for equal bytes.

    In these trees quantities and times are exact values, and a value that means the same as its absence is left out.
    """
    if bytes(before) == bytes(after):
        return {}, {}
    shape = kubernetes_shape(type_name)
    return _meaning(msgspec.json.decode(before), shape), _meaning(msgspec.json.decode(after), shape)


def is_same_spec(before: WorkloadSpec, after: WorkloadSpec) -> bool:
    """Whether two specs of a Workload mean the same."""
    if before is after or before == after:
        return True
    rest = (replace(spec, pod_sets=()) for spec in (before, after))
    return next(rest) == next(rest) and is_same_pod_sets(before.pod_sets, after.pod_sets)


def is_same_pod_sets(before: tuple[PodSet, ...], after: tuple[PodSet, ...]) -> bool:
    """Whether two lists of podSets mean the same, in the same order."""
    if before is after or before == after:
        return True
    return len(before) == len(after) and all(starmap(_is_same_pod_set, zip(before, after, strict=True)))


def _is_same_pod_set(before: PodSet, after: PodSet) -> bool:
    rest = (replace(pod_set, template=_NO_TEMPLATE) for pod_set in (before, after))
    was, will = meanings(before.template, after.template, "PodTemplateSpec")
    return next(rest) == next(rest) and was == will


# --- what a tree means ------------------------------------------------------------------------------------------------


def _meaning(tree: Mapping[str, Tree], shape: Record) -> Meaning:
    result: Meaning = {}
    for name, value in tree.items():
        field = shape.fields.get(name)
        if field is None:
            result[name] = msgspec.json.encode(value, order="sorted")  # so that true and 1 differ
        elif value is not None:
            meant = _meant(value, field.shape)
            if not (field.zero_is_absent and _is_zero(meant)):
                result[name] = meant
    return result


def _meant(value: Tree, shape: Shape) -> Any:
    match shape:
        case Record() if isinstance(value, dict):
            return _meaning(value, shape)
        case ListOf(item) if isinstance(value, list):
            return [_meant(member, item.shape) for member in value]
        case MapOf(item) if isinstance(value, dict):
            return {name: _meant(member, item.shape) for name, member in value.items() if member is not None}
        case Leaf(name) if name in _PARSERS:
            return _exact(value, name)
    return value


def _exact(value: Tree, type_name: str) -> Any:
    try:
        return _PARSERS[type_name](value)
    except ValueError:  # stored by a server that did not validate it: compared as text
        return value


def _is_zero(meant: Any) -> bool:
    return meant.nano == 0 if isinstance(meant, Quantity) else not meant
