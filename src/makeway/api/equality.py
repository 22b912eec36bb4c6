"""Whether two objects mean the same, however they are written: the semantic equality of Kubernetes.

A Go client decodes what it reads into structs and encodes those when it writes. On the way an empty map is dropped, a
zero is dropped where the struct has no pointer, and a quantity gets its canonical spelling: cpu ``1`` becomes ``"1"``.
Nothing was changed, so nothing that depends on a change may happen.

Promises: known fields are compared by their types, unknown fields (decision 0010) as they are written; the
order of keys never counts, that of list items always does; one pass over each part, and none where the bytes are equal.

Not here: whether a Job still asks for what its Workload says (``controllers.jobs.templates``), which counts only what
is acted on.
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
    """Two raw parts of a Kubernetes type as trees that are equal where they mean the same; both empty if none differs.

    In these trees quantities and times are exact values, and what absence tells as well is absent.
    """
    if bytes(before) == bytes(after):
        return {}, {}
    shape = kubernetes_shape(type_name)
    return _meaning(msgspec.json.decode(before), shape), _meaning(msgspec.json.decode(after), shape)


def is_same_spec(before: WorkloadSpec, after: WorkloadSpec) -> bool:
    """Whether two specs of a Workload mean the same."""
    if before is after or before == after:
        return True
    rest = (replace(each, pod_sets=()) for each in (before, after))
    return next(rest) == next(rest) and is_same_pod_sets(before.pod_sets, after.pod_sets)


def is_same_pod_sets(before: tuple[PodSet, ...], after: tuple[PodSet, ...]) -> bool:
    """Whether two lists of podSets mean the same, in the same order."""
    if before is after or before == after:
        return True
    return len(before) == len(after) and all(starmap(_is_same_pod_set, zip(before, after, strict=True)))


def _is_same_pod_set(before: PodSet, after: PodSet) -> bool:
    rest = (replace(each, template=_NO_TEMPLATE) for each in (before, after))
    was, will = meanings(before.template, after.template, "PodTemplateSpec")
    return next(rest) == next(rest) and was == will


# --- what a tree means ------------------------------------------------------------------------------------------------


def _meaning(tree: Mapping[str, Tree], shape: Record) -> Meaning:
    result: Meaning = {}
    for name, value in tree.items():
        field = shape.fields.get(name)
        if field is None:
            result[name] = msgspec.json.encode(value, order="sorted")  # true and 1 are not the same
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
            return [_meant(each, item.shape) for each in value]
        case MapOf(item) if isinstance(value, dict):
            return {name: _meant(each, item.shape) for name, each in value.items() if each is not None}
        case Leaf(name) if name in _PARSERS:
            return _exact(value, name)
    return value


def _exact(value: Tree, type_name: str) -> Any:
    try:
        return _PARSERS[type_name](value)
    except ValueError:  # stored by a server that did not judge it: it means what it says
        return value


def _is_zero(meant: Any) -> bool:
    return meant.nano == 0 if isinstance(meant, Quantity) else not meant
