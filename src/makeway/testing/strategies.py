"""Hypothesis strategies for every kind: objects that are well-formed and within their limits, made from the shapes.

``objects`` draws trees, as users write them; ``values`` draws typed objects. Both are small: a few fields of a block,
few items of a list, so that hundreds of them cost seconds. What they draw passes ``codec.read`` without an error; it
need not make sense beyond that, because the rules between fields are for ``validation``.

With ``unknown=True`` the parts that Kubernetes defines also carry unknown fields: they must be kept.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from makeway.api.objects import kubernetes, pods, queueing
from makeway.api.objects.meta import DNS_LABEL, DNS_SUBDOMAIN, SUBDOMAIN, Limit, Wire
from makeway.api.quantity import Duration, MicroTime, Quantity, Time, decode_hook
from makeway.api.reading.documents import Tree
from makeway.api.schema.shapes import Field, Leaf, ListOf, MapOf, Record, shape_of
from makeway.api.versions import CLASS_SOURCES, KINDS, Kind

T = TypeVar("T", bound=Wire)

OPTIONAL_MAX = 4  # optional fields of a block, at most
ITEMS_MAX = 2
DEPTH_MAX = 9  # below it only required fields are drawn

_LAST_SECOND = 253_402_300_799  # of the year 9999
_ENVELOPE = ("apiVersion", "kind")


def objects(kind: Kind, version: str | None = None, *, unknown: bool = False) -> SearchStrategy[dict[str, Tree]]:
    """Trees of a kind in one of its versions, by default the stored one."""
    chosen = version or kind.versions[0]
    api_version = f"{kind.group}/{chosen}" if kind.group else chosen
    whole = _agreeing(kind.shape(chosen), kind)

    def finished(tree: dict[str, Tree]) -> dict[str, Tree]:
        _reconcile(kind, chosen, tree)
        return {"apiVersion": api_version, "kind": kind.name, **tree}

    return _records(whole, _Draw(unknown=unknown), skip=_ENVELOPE).map(finished)


def objects_of(
    served: Sequence[tuple[Kind, str]], *, unknown: bool = False
) -> SearchStrategy[tuple[Kind, str, dict[str, Tree]]]:
    """Trees of several kinds and versions, each with its own. All is drawn before a test begins: a soak that ends at a
    draw within a test would look like a test that behaves differently the second time."""
    return st.sampled_from(served).flatmap(
        lambda case: st.tuples(st.just(case[0]), st.just(case[1]), objects(*case, unknown=unknown))
    )


def values(type_: type[T], *, unknown: bool = False) -> SearchStrategy[T]:
    """Typed objects: whole kinds, and any part of one."""

    kind = next((kind for kind in KINDS if kind.type is type_), None)
    trees = objects(kind, unknown=unknown) if kind else _records(shape_of(type_), _Draw(unknown=unknown))
    return trees.map(lambda tree: typed(tree, type_))


def typed(tree: dict[str, Tree], type_: type[T]) -> T:
    """A tree of the stored version as an object, neither validated nor converted."""
    return msgspec.json.decode(msgspec.json.encode(tree), type=type_, dec_hook=decode_hook)


# --- blocks, lists, maps --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Draw:
    """How to draw: passed down, with one more level of depth each time."""

    unknown: bool = False
    depth: int = 0

    def inside(self) -> _Draw:
        return replace(self, depth=self.depth + 1)


class _Block:
    """One sort of block. It has a short name, because hypothesis quotes what a strategy was made from."""

    def __init__(self, shape: Record, how: _Draw, skip: tuple[str, ...]) -> None:
        self.shape, self.how = shape, how
        names = [name for name in shape.fields if name not in skip]
        self.needed = [name for name in names if _is_needed(name, shape.fields[name])]
        self.free = [name for name in names if name not in self.needed] if how.depth < DEPTH_MAX else []

    def __repr__(self) -> str:
        return self.shape.name

    @cached_property
    def fields(self) -> dict[str, SearchStrategy[Tree]]:
        """Made when first drawn from, because types of Kubernetes contain each other without end."""
        return {name: _trees(self.shape.fields[name], self.how.inside()) for name in self.needed + self.free}

    @cached_property
    def choice(self) -> SearchStrategy[set[str]]:
        return st.sets(_weighted(self.shape, self.free), max_size=OPTIONAL_MAX) if self.free else st.just(set())


@cache
def _records(shape: Record, how: _Draw, skip: tuple[str, ...] = ()) -> SearchStrategy[dict[str, Tree]]:
    return _drawn(_Block(shape, how, skip))


@st.composite
def _drawn(draw: DrawFn, block: _Block) -> dict[str, Tree]:
    chosen = draw(block.choice)
    tree = {name: draw(each) for name, each in block.fields.items() if name in block.needed or name in chosen}
    if block.shape.keeps_unknown:
        _keep_rules(block.shape.name, tree)
    if block.how.unknown and block.shape.keeps_unknown and draw(st.booleans()):
        tree[draw(st.sampled_from(("futureField", "x-vendor")))] = draw(ANYTHING)
    return tree


def _weighted(shape: Record, free: list[str]) -> SearchStrategy[str]:
    """Fields that we read come up as often as all the others of a large Kubernetes type together."""
    used = [name for name in free if name in _used_fields().get(shape.name, ())] if shape.keeps_unknown else []
    return st.sampled_from(used) | st.sampled_from(free) if used else st.sampled_from(free)


@cache
def _used_fields() -> dict[str, frozenset[str]]:
    views = [each for module in (pods, kubernetes) for each in vars(module).values() if isinstance(each, type)]
    return {
        each.__name__: frozenset(field.encode_name for field in msgspec.structs.fields(each))
        for each in views
        if issubclass(each, Wire)
    }


def _trees(field: Field, how: _Draw) -> SearchStrategy[Tree]:
    shape, limit = field.shape, field.limit
    if isinstance(shape, Leaf):
        return _leaves(shape, limit)
    if isinstance(shape, Record):
        return _records(shape, how)
    least = limit.min_items or int(limit.required)  # an empty list is not written out, and is missing later
    most = min(least + ITEMS_MAX, limit.max_items) if limit.max_items is not None else least + ITEMS_MAX
    if how.depth >= DEPTH_MAX:
        most = least
    items = _trees(shape.item, how.inside())
    if isinstance(shape, MapOf):
        keys = _FORMED[limit.key_form].map(str) if limit.key_form else KEYS
        return st.dictionaries(keys, items, min_size=least, max_size=most)
    return st.lists(items, min_size=least, max_size=most, unique_by=_identity(shape, limit))


def _identity(shape: ListOf, limit: Limit) -> Callable[[Tree], object] | None:
    if limit.unique:
        return lambda item: item
    if not limit.keyed_by:
        return None
    fields = shape.item.shape.fields if isinstance(shape.item.shape, Record) else {}
    absent = {name: fields[name].default or "" for name in limit.keyed_by}  # an absent field counts with its default
    return lambda item: tuple(item.get(name, absent[name]) for name in limit.keyed_by)


def _is_needed(name: str, field: Field) -> bool:
    """Required, or a spec with a required field in it, which cannot be left out as a whole either."""
    if field.limit.required or field.limit.min_items:
        return True
    inner = field.shape.fields.items() if isinstance(field.shape, Record) and name == "spec" else ()
    return any(_is_needed(*each) for each in inner)


# --- leaves ---------------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=8)
LABELS = st.from_regex(re.compile(r"[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?", re.ASCII), fullmatch=True)
SUBDOMAINS = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
KEYS = st.one_of(
    st.sampled_from(("cpu", "memory", "pods", "example.com/gpu", "kubernetes.io/os")),
    LABELS,
    st.tuples(SUBDOMAINS, LABELS).map("/".join),
)
ANYTHING: SearchStrategy[Tree] = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(LABELS, inner, max_size=2),
    max_leaves=4,
)
# A Time is stored in seconds, a MicroTime in microseconds: finer values would not come back.
_SECONDS = st.integers(0, 4_102_444_800) | st.integers(0, _LAST_SECOND)
TIMES = _SECONDS.map(lambda seconds: str(Time.of_millis(seconds * 1000)))
MICRO_TIMES = st.integers(0, _LAST_SECOND * 10**6).map(lambda micros: str(MicroTime(micros * 1000)))
DURATIONS = st.one_of(
    st.sampled_from(("0s", "90s", "1h30m", "300ms", "1.5h")),
    st.integers(0, 2**62).map(lambda nanos: str(Duration(nanos))),
)
QUANTITIES = st.one_of(
    st.sampled_from(("0", "1", "500m", "1.5", "32Gi", "1e3", "100n", "2E")),
    st.integers(0, 2**40),
    st.integers(0, 10**24).map(lambda nano: str(Quantity(nano))),
    st.integers(0, 2**50).map(lambda amount: str(Quantity(amount * 10**9, "BinarySI"))),
)
_FIXED_LEAVES: dict[str, SearchStrategy[Tree]] = {
    "boolean": st.booleans(),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "number": st.integers(-1000, 1000) | st.sampled_from((0.5, -1.25)),
    "any": ANYTHING,
    "duration": DURATIONS,
    "time": TIMES,
    "microTime": MICRO_TIMES,
    "intOrString": st.integers(0, 2**31 - 1) | st.sampled_from(("50%", "http")),
    "bytes": st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode()),
}
_FORMED: dict[str, SearchStrategy[Tree]] = {
    **dict.fromkeys(("labelKey", "resource", "qualified", "topologyKey", "someKey"), KEYS),
    **dict.fromkeys(("label", "labelValue", "fileName", "inside", "variable", "header"), LABELS),
    "subdomain": SUBDOMAINS,
    "portName": st.sampled_from(("http", "grpc-2")),
    "port": st.integers(1, 65535) | st.just("http"),
    "count": st.integers(0, 2**31 - 1) | st.sampled_from(("0%", "50%", "100%")),
    "address": st.sampled_from(("10.0.0.7", "fd00::1")),
}


@cache
def _leaves(shape: Leaf, limit: Limit) -> SearchStrategy[Tree]:
    if limit.words or shape.allowed:
        return st.sampled_from(limit.words or shape.allowed)
    if limit.form:
        return _FORMED[limit.form]
    if shape.name == "string":
        return _texts(limit)
    if shape.name == "quantity":
        return QUANTITIES if limit.least is not None else QUANTITIES | st.sampled_from(("-1", "-500m"))
    if shape.name == "int32" or limit.least is not None:
        edge = 2 ** (63 if shape.name == "int64" else 31)
        least = -edge if limit.least is None else limit.least
        most = edge - 1 if limit.most is None else limit.most
        return st.integers(least, min(least + 9, most)) | st.integers(least, most)
    return _FIXED_LEAVES[shape.name]


def _texts(limit: Limit) -> SearchStrategy[str]:
    """Texts within a limit. A required text is not empty: an empty text is not written out, and is missing later."""
    patterns = {None: WORDS, DNS_LABEL: LABELS, DNS_SUBDOMAIN: SUBDOMAINS}
    texts = patterns[limit.pattern] if limit.pattern in patterns else st.from_regex(str(limit.pattern), fullmatch=True)
    most = limit.max_length
    if most is not None and limit.pattern is not None:
        texts = texts.filter(lambda text: len(text) <= most)
    if limit.min_length or limit.required:
        return texts.filter(bool)
    return st.just("") | texts


# --- where a shape alone does not say enough ------------------------------------------------------------------------


def _agreeing(shape: Record, kind: Kind) -> Record:
    """The shape with the limits that an older field meets only after its conversion."""
    spec = shape.fields.get("spec")
    if spec is None or not isinstance(spec.shape, Record) or not kind.ours:
        return shape
    stricter: dict[str, Field] = {}
    if "priorityClassName" in spec.shape.fields and "podSets" in spec.shape.fields:
        stricter["priorityClassName"] = Field(Leaf("string"), replace(SUBDOMAIN, min_length=1))
        stricter["priorityClassSource"] = Field(Leaf("enum", tuple(CLASS_SOURCES)))
    if "admissionChecks" in spec.shape.fields:
        name = shape_of(queueing.AdmissionCheckStrategyRule).fields["name"]
        stricter["admissionChecks"] = Field(ListOf(name), Limit(unique=True))
    fields = {name: stricter.get(name, field) for name, field in spec.shape.fields.items()}
    return replace(shape, fields={**shape.fields, "spec": replace(spec, shape=replace(spec.shape, fields=fields))})


def _keep_rules(type_name: str, tree: dict[str, Any]) -> None:
    """Make a block of Kubernetes agree with the rules of its type (``kubernetes_rules``)."""
    match type_name:
        case "LabelSelectorRequirement" | "NodeSelectorRequirement":
            tree.pop("values", None)
            if tree["operator"] not in ("Exists", "DoesNotExist"):
                tree["values"] = ["1"]
        case "Toleration":
            tree |= {"operator": "Exists", "effect": "NoExecute"}
            tree.pop("value", None)
            if "key" in tree:
                tree["key"] = "example.com/key"
        case "EnvVarSource" | "LifecycleHandler" | "Probe":
            handler, default = _ONE_OF[type_name]
            first = next((name for name in handler if name in tree), "")
            for name in handler:
                if name != first:
                    tree.pop(name, None)
            if not first:
                tree |= copy.deepcopy(default)  # the drawn block may be given more fields


_HANDLERS = ("exec", "grpc", "httpGet", "sleep", "tcpSocket")
_ONE_OF: dict[str, tuple[tuple[str, ...], dict[str, Tree]]] = {
    "EnvVarSource": (
        ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"),
        {"fieldRef": {"fieldPath": "metadata.name"}},
    ),
    "LifecycleHandler": (_HANDLERS, {"exec": {"command": ["true"]}}),
    "Probe": (_HANDLERS, {"exec": {"command": ["true"]}}),
}


def _reconcile(kind: Kind, version: str, tree: dict[str, Any]) -> None:
    """Make fields agree that belong together, where one of them alone cannot be converted."""
    spec = tree.get("spec")
    if not kind.ours or not isinstance(spec, dict):
        return
    if kind.name == "Workload" and len(kind.versions) > 1:
        if "priorityClassRef" in spec:
            groups = {kind_: group for group, kind_ in CLASS_SOURCES.values()}
            spec["priorityClassRef"]["group"] = groups[spec["priorityClassRef"]["kind"]]
        if ("priorityClassName" in spec) != ("priorityClassSource" in spec):
            spec.pop("priorityClassName", None)
            spec.pop("priorityClassSource", None)
    elif kind.name == "ClusterQueue" and "admissionChecksStrategy" in spec:
        spec.pop("admissionChecks", None)
    elif kind.name == "MultiKueueCluster":
        source = spec if version != kind.versions[0] else spec["clusterSource"]
        if "kubeConfig" in source:
            source.pop("clusterProfileRef", None)
        elif "clusterProfileRef" not in source:
            source["kubeConfig"] = {"location": "worker"}
