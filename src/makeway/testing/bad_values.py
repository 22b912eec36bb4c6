"""Bad values for every field of every kind: each stands in an object that is otherwise small and good.

``places`` walks the shape of a kind and names every field that can be reached, through lists and maps too;
``bad_values`` lists values to try there; ``planted`` puts a value into its place. Code that reads such an object must
refuse it, or not be harmed by it.

Promises: equal calls give equal values, in the same order; ``good_value`` is one that its place can hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from makeway.api.names import QUEUE_LABEL
from makeway.api.reading.documents import Tree
from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record
from makeway.api.versions import Kind

ITEM, ENTRY = "[]", "{}"  # steps into the first item of a list, and to the value of a map's only key
KEY = "cpu"  # a label key and a resource, as maps have them
_LONG = "x" * 5_000
_ENVELOPE = ("apiVersion", "kind")


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field of a kind, and how it is reached."""

    kind: Kind
    version: str
    steps: tuple[str, ...]
    field: Field
    owner: str  # the type that has the field

    @property
    def path(self) -> str:
        text = "".join(
            f"[{0 if step == ITEM else KEY}]" if step in (ITEM, ENTRY) else f".{step}" for step in self.steps
        )
        return text.removeprefix(".")

    @property
    def is_status(self) -> bool:
        return self.kind.has_status and self.steps[0] == "status"

    def __str__(self) -> str:
        return f"{self.kind.served(self.version)} {self.kind.name} {self.path}"


def places(kind: Kind, version: str | None = None) -> Iterator[FieldPlace]:
    """Every field of a kind, each before the fields in it."""
    chosen = version or kind.versions[0]
    for place in _within(kind, chosen, kind.shape(chosen), ()):
        if place.steps[0] not in _ENVELOPE:
            yield place


def _within(kind: Kind, version: str, shape: Record, steps: tuple[str, ...]) -> Iterator[FieldPlace]:
    for name, field in shape.fields.items():
        yield from _at(kind, version, shape.name, field, (*steps, name))


def _at(kind: Kind, version: str, owner: str, field: Field, steps: tuple[str, ...]) -> Iterator[FieldPlace]:
    yield FieldPlace(kind, version, steps, field, owner)
    if isinstance(field.shape, Record):
        yield from _within(kind, version, field.shape, steps)
    elif isinstance(field.shape, ListOf):
        yield from _at(kind, version, owner, field.shape.item, (*steps, ITEM))
    elif isinstance(field.shape, MapOf):
        yield from _at(kind, version, owner, field.shape.item, (*steps, ENTRY))


# --- bad values ------------------------------------------------------------------------------------------------------

_TEXTS: tuple[Tree, ...] = (
    None, "", "Bogus", " x", "NaN", "-1", "../../../up", "a/../b", "/", "a=b", "x\0y", "\x1b[31m\n", "\u202e%s{0}",
    _LONG, 7, 1.5, True, [], {},
)  # fmt: skip
_NUMBERS: tuple[Tree, ...] = (
    None, -1, 0, 1, 65_536, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**63, 10**40, 1.5, float("nan"),
    float("inf"), "7", "", True, [], {},
)  # fmt: skip
_LEAVES: dict[str, tuple[Tree, ...]] = {
    "string": _TEXTS,
    "enum": _TEXTS,
    "boolean": (None, "true", "", 1, 0, [], {}, float("nan")),
    "int32": _NUMBERS,
    "int64": _NUMBERS,
    "number": _NUMBERS,
    "quantity": (
        None, "", "-1", -1, "0", "1n", "0.0000000001", "1e30", "1e999999999", "9E", "99999999999999999999", "NaN",
        "1Ki5", float("nan"), float("inf"), 2**63, _LONG, True, [], {},
    ),
    "intOrString": (
        None, -1, 0, 2**31, 10**40, "", "-5%", "101%", "99999999999%", "%", "Bogus", "8080", _LONG, 1.5, True, [], {},
    ),
    "duration": (None, "", "-1s", "0s", "1ns", "2562047h", "99999999999h", "1 fortnight", "1e9s", 5, _LONG, [], {}),
    "time": (
        None, "", "yesterday", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z",
        "1970-01-01T00:00:00+23:59", "10000-01-01T00:00:00Z", 0, _LONG, [], {},
    ),
    "bytes": (None, "", "%%%", "A", "gA==", "AAAA", 7, [], {}),
    "any": (None, "", 7, float("nan"), [[[[]]]], {"a": {"a": {}}}),
}  # fmt: skip
_LEAVES["microTime"] = _LEAVES["time"]
_BLOCKS: tuple[Tree, ...] = (None, {}, [], "", "x", 7, True, {"futureField": "x"}, {"": None})
_LISTS: tuple[Tree, ...] = (None, [], {}, "", "x", 7, True, [None], [[]], [{}], ["", ""], [7])
_MAPS: tuple[Tree, ...] = (
    None, {}, [], "", 7, {"": ""}, {KEY: None}, {KEY: []}, {"a b": "x"}, {"../up": "x"}, {"\0": "x"}, {_LONG: "x"},
    {"-": "-"}, {"a/b/c": "1"},
)  # fmt: skip


def bad_values(place: FieldPlace) -> Iterator[Tree]:
    """Values that are or may be wrong there: words, cases, numbers, types, sizes. A few may be good in some places."""
    shape, limit = place.field.shape, place.field.limit
    if isinstance(shape, Record):
        yield from _BLOCKS
    elif isinstance(shape, ListOf):
        yield from _LISTS
    elif isinstance(shape, MapOf):
        yield from _MAPS
    else:
        for word in (limit.words or shape.allowed)[:2]:
            yield from (word.swapcase(), f"{word} ", word[:-1])
        if limit.least is not None:
            yield limit.least - 1
        if limit.most is not None:
            yield limit.most + 1
        yield from _LEAVES[shape.name]


# --- good objects to put them in -------------------------------------------------------------------------------------

_QUOTAS: Tree = [{"coveredResources": ["cpu"], "flavors": [
    {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]},
]}]  # fmt: skip
_POD: Tree = {"restartPolicy": "Never", "containers": [
    {"name": "work", "image": "x", "command": ["x"], "resources": {"requests": {"cpu": "1"}}},
]}  # fmt: skip
_WHEN = "2026-01-01T00:00:00Z"
_OBJECTS: dict[tuple[str, str], dict[str, Tree]] = {
    ("", "Pod"): {"spec": _POD},
    ("", "Event"): {"involvedObject": {"namespace": "default"}},
    ("events.k8s.io", "Event"): {
        "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "r", "action": "a",
        "reportingController": "example.com/c", "reportingInstance": "i", "regarding": {"namespace": "default"},
    },
    ("batch", "Job"): {"spec": {"template": {"spec": _POD}}},
    ("kueue.x-k8s.io", "ClusterQueue"): {"spec": {"namespaceSelector": {}, "resourceGroups": _QUOTAS}},
    ("kueue.x-k8s.io", "LocalQueue"): {"spec": {"clusterQueue": "cq"}},
    ("kueue.x-k8s.io", "Workload"): {
        "spec": {"queueName": "main", "priority": 0, "podSets": [
            {"name": "main", "count": 1, "template": {"spec": _POD}},
        ]},
    },
    ("kueue.x-k8s.io", "MultiKueueCluster"): {"spec": {"clusterSource": {"kubeConfig": {"location": "worker"}}}},
}  # fmt: skip
_ASSIGNMENT: dict[str, Tree] = {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}
_BLOCKS_OF: dict[str, dict[str, Tree]] = {  # beyond what is required: fields that rules between fields demand
    "Admission": {"clusterQueue": "cq", "podSetAssignments": [_ASSIGNMENT]},
    "ClaimedAssignment": {"name": "main", "count": 1, "flavors": {"cpu": "f"}},
    "Condition": {"type": "Fine", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": _WHEN},
    "EnvVarSource": {"fieldRef": {"fieldPath": "metadata.name"}},
    "LabelSelectorRequirement": {"key": "a", "operator": "In", "values": ["b"]},
    "LifecycleHandler": {"exec": {"command": ["x"]}},
    "NodeSelectorRequirement": {"key": "a", "operator": "In", "values": ["1"]},
    "PodGroupPolicy": {"basic": {}},
    "PodSetAssignment": _ASSIGNMENT,
    "PodSetUpdate": {"name": "main"},
    "PreemptionClaim": {"issuedAt": _WHEN, "expiresAt": _WHEN},
    "Probe": {"exec": {"command": ["x"]}},
    "ReclaimablePod": {"name": "main", "count": 0},
    "Toleration": {"key": "a", "effect": "NoExecute"},
}
_ONE_OF: dict[str, tuple[str, ...]] = {  # one excludes the others
    "EnvVarSource": ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"),
    "LifecycleHandler": ("exec", "grpc", "httpGet", "sleep", "tcpSocket"),
    "Probe": ("exec", "grpc", "httpGet", "sleep", "tcpSocket"),
    "PodGroupPolicy": ("basic", "gang"),
    "ClusterSource": ("kubeConfig", "clusterProfileRef"),
}
_GOOD_LEAVES: dict[str, Tree] = {
    "string": "x", "boolean": True, "int32": 1, "int64": 1, "number": 1, "quantity": "1", "intOrString": 1,
    "duration": "60s", "time": _WHEN, "microTime": "2026-01-01T00:00:00.000000Z", "bytes": "YQ==", "any": {},
}  # fmt: skip
_GOOD_FORMS: dict[str, Tree] = {"address": "10.0.0.7", "port": 80}


def good_object(kind: Kind, version: str | None = None, name: str = "bad") -> dict[str, Tree]:
    """A small object of a kind that a server accepts, given a queue ``main``, a ClusterQueue ``cq``, a flavor ``f``."""
    chosen = version or kind.versions[0]
    meta: dict[str, Tree] = {"name": name, **({"namespace": "default"} if kind.namespaced else {})}
    if kind.key == ("batch", "Job"):
        meta["labels"] = {QUEUE_LABEL: "main"}
    body = deepcopy(_OBJECTS.get(kind.key, {}))
    if kind.name == "MultiKueueCluster" and chosen != kind.versions[0]:
        body["spec"] = body["spec"]["clusterSource"]
    whole = {"apiVersion": kind.served(chosen), "kind": kind.name, "metadata": meta}
    return {**whole, **_good_block(kind.shape(chosen), ("metadata", *_ENVELOPE, *body)), **body}


def good_value(field: Field) -> Tree:
    """A value that its place can hold, as far as its type and limits say."""
    shape = field.shape
    if isinstance(shape, Record):
        return _good_block(shape)
    if isinstance(shape, ListOf):
        return [good_value(shape.item)]
    if isinstance(shape, MapOf):
        return {KEY: good_value(shape.item)}
    return _good_leaf(shape, field)


def _good_leaf(shape: Leaf, field: Field) -> Tree:
    limit = field.limit
    words = [word for word in limit.words or shape.allowed if word]
    if words:
        return words[0]
    if limit.form in _GOOD_FORMS:
        return _GOOD_FORMS[limit.form]
    if limit.least is not None and shape.name in ("int32", "int64"):
        return max(1, limit.least)
    return _GOOD_LEAVES[shape.name]


def _good_block(shape: Record, skip: tuple[str, ...] = ()) -> dict[str, Tree]:
    """A block with its required fields."""
    made = {
        name: good_value(field)
        for name, field in shape.fields.items()
        if name not in skip and (field.limit.required or field.limit.min_items or _is_needed_spec(name, field))
    }
    return {**made, **deepcopy(_BLOCKS_OF.get(shape.name, {}))}


def _is_needed_spec(name: str, field: Field) -> bool:
    inner = field.shape.fields.values() if isinstance(field.shape, Record) and name == "spec" else ()
    return any(each.limit.required or each.limit.min_items for each in inner)


def planted(place: FieldPlace, value: Tree) -> dict[str, Tree]:
    """An object that is good but for ``value`` at its place."""
    whole = good_object(place.kind, place.version)
    at: Any = whole
    shape: Any = place.kind.shape(place.version)
    for step, following in zip(place.steps, (*place.steps[1:], None), strict=True):
        field: Field = shape.fields[step] if isinstance(shape, Record) else shape.item
        key: Any = 0 if step == ITEM else KEY if step == ENTRY else step
        if isinstance(shape, Record):
            rivals = _ONE_OF.get(shape.name, ())
            for other in rivals if step in rivals else ():
                if other != step:
                    at.pop(other, None)
        if following is None:
            if step == ITEM:
                at[:1] = [value]
            else:
                at[key] = value
            return whole
        if step == ITEM and not at:
            at.append(good_value(field))
        elif step != ITEM and not at.get(key):
            at[key] = good_value(field)
        at, shape = at[key], field.shape
    return whole
