"""Kinds of jobs that are data: where their templates, counts and switch are, and which words say how they fare.

A ``Description`` is all that is written for such a kind; ``DescribedJob`` answers the questions about a job from it.

Paths are dotted, from the root of the object. ``groups[*].replicas`` is that field of every item of a list or map,
``status.conditions[Completed].status`` that of the items whose ``type`` is Completed.

Promises: what a start does not change keeps every byte; a template that is put back is the one that was taken out, and
one that a start wrote where there was none is gone after the stop. A value of another type than expected counts as
absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from makeway.api.objects.custom import CustomObject
from makeway.api.objects.workload import PODS_MAX
from makeway.api.versions import Kind
from makeway.controllers.jobs.kinds.generic import AskedPods, End, JobKind, NewPods

Tree = Any  # what JSON holds
Says = Callable[[Tree], bool]  # a predicate of a whole object
Steps = tuple[str | int, ...]  # to one place in an object

replace = msgspec.structs.replace


# --- what an object says ----------------------------------------------------------------------------------------------


def values(tree: Tree, path: str) -> Iterator[Tree]:
    """All values at a path, without those that are absent."""
    part, _, rest = path.partition(".")
    name, _, which = part.removesuffix("]").partition("[")
    found = tree.get(name) if isinstance(tree, dict) else None
    for item in _chosen(found, which) if which else (found,):
        if rest:
            yield from values(item, rest)
        elif item is not None:
            yield item


def _chosen(items: Tree, which: str) -> Iterator[Tree]:
    if isinstance(items, dict):
        items = list(items.values())
    for item in items if isinstance(items, list) else ():
        if which == "*" or (isinstance(item, dict) and item.get("type") == which):
            yield item


def word(tree: Tree, path: str) -> str:
    """The text at a path; "": there is none."""
    return next((found for found in values(tree, path) if isinstance(found, str)), "")


def numbers(tree: Tree, path: str) -> Iterator[int]:
    return (found for found in values(tree, path) if isinstance(found, int))


@dataclass(frozen=True, slots=True)
class Is:
    """Whether the text at a path is one of these; "": it is absent, or empty."""

    path: str
    words: tuple[str, ...]

    def __call__(self, tree: Tree) -> bool:
        return word(tree, self.path) in self.words


@dataclass(frozen=True, slots=True)
class IsNot:
    path: str
    words: tuple[str, ...]

    def __call__(self, tree: Tree) -> bool:
        return word(tree, self.path) not in self.words


@dataclass(frozen=True, slots=True)
class IsSet:
    """Whether there is something at a path that is neither empty nor false."""

    path: str

    def __call__(self, tree: Tree) -> bool:
        return any(values(tree, self.path))


@dataclass(frozen=True, slots=True)
class All:
    says: tuple[Says, ...]

    def __call__(self, tree: Tree) -> bool:
        return all(says(tree) for says in self.says)


@dataclass(frozen=True, slots=True)
class AreAllThere:
    """Whether numbers of the status add up to the number asked for: that of each item, 1 where it has none."""

    there: tuple[str, ...]
    items: str
    number: str

    def __call__(self, tree: Tree) -> bool:
        asked = sum(next(numbers(item, self.number), 1) for item in values(tree, self.items))
        return sum(found for path in self.there for found in numbers(tree, path)) >= asked


def condition(type_: str) -> Is:
    """Whether the object has this condition with the status True."""
    return Is(f"status.conditions[{type_}].status", ("True",))


# --- a kind -----------------------------------------------------------------------------------------------------------


class Done(NamedTuple):
    """Where the status counts how many units of a podSet have succeeded, so that their pods never come back."""

    items: str
    name: str  # of an item: the podSet that it is about
    number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSets:
    """Pods of one template, or one podSet for each item of a list (``at`` ends in ``[*]``) or of a map (``keys``)."""

    at: str = "spec"  # the block that the other paths begin at
    keys: tuple[str, ...] = ()  # the items of a map that are podSets, in their order
    template: str = "template"
    name: str = ""  # of the only podSet, or the path to it; of a map it is the key. In small letters
    count: tuple[tuple[str, ...], ...] = ()  # factors: the least number among paths; the first of them is 1 if absent
    done: Done | None = None  # a unit is one of the first factor
    where: Says | None = None  # None: always
    otherwise: Callable[[Tree], Tree] = lambda tree: {}  # the template of an object that has none


@dataclass(frozen=True, slots=True)
class Ending:
    reason: str  # Succeeded, Failed
    says: Says
    message: str  # path


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    resource: Kind
    framework: str
    pod_sets: tuple[PodSets, ...]
    has_pods: Says
    is_ready: Says  # for a job that is not suspended
    endings: tuple[Ending, ...]  # the first that applies
    refused: tuple[tuple[Says, str], ...] = ()  # jobs that no Workload can be made for, and why, in words
    suspend: str = "spec.suspend"
    managed_by: str = "spec.managedBy"

    def kind(self) -> JobKind:
        return JobKind(self.resource, self.framework, partial(DescribedJob, self))


@dataclass(frozen=True, slots=True)
class _TemplatePlace:
    """Where one podSet is in an object."""

    pod_sets: PodSets
    name: str
    block: Tree
    steps: Steps  # to its template

    def factors(self) -> list[int]:
        return [self._least(paths) for paths in self.pod_sets.count]

    def _least(self, paths: tuple[str, ...]) -> int:
        first, *others = paths
        found = [next(numbers(self.block, first), 1), *(n for path in others for n in numbers(self.block, path))]
        return max(0, min(found))


def _places(description: Description, tree: Tree) -> Iterator[_TemplatePlace]:
    for pod_sets in description.pod_sets:
        if pod_sets.where is not None and not pod_sets.where(tree):
            continue
        within = tuple(pod_sets.template.split("."))
        at = pod_sets.at.removesuffix("[*]")
        here = tuple(at.split("."))
        found = next(values(tree, at), None)
        if at != pod_sets.at:
            for i, block in enumerate(found if isinstance(found, list) else ()):
                yield _TemplatePlace(pod_sets, word(block, pod_sets.name).lower(), block, (*here, i, *within))
        elif pod_sets.keys:
            for key in pod_sets.keys:
                if isinstance(found, dict) and key in found:
                    yield _TemplatePlace(pod_sets, key.lower(), found[key], (*here, key, *within))
        else:
            yield _TemplatePlace(pod_sets, pod_sets.name, found, (*here, *within))


class DescribedJob:
    """A job of a described kind: ``generic.GenericJob``."""

    __slots__ = ("_description", "_object", "_parts", "_places", "_tree")

    def __init__(self, description: Description, value: CustomObject) -> None:
        self._description = description
        self._object = value
        self._tree: dict[str, Tree] = {
            "spec": msgspec.json.decode(value.spec), "status": msgspec.json.decode(value.status),
        }  # fmt: skip
        self._places = tuple(_places(description, self._tree))

    # --- what it asks for ---

    @property
    def pod_sets(self) -> tuple[AskedPods, ...]:
        return tuple(AskedPods(place.name, self._template(place), prod(place.factors())) for place in self._places)

    def _template(self, place: _TemplatePlace) -> Raw:
        found = piece(self._object.spec, place.steps[1:])
        return self._otherwise(place) if found is None else found

    def _otherwise(self, place: _TemplatePlace) -> Raw:
        return Raw(msgspec.json.encode(place.pod_sets.otherwise(self._tree)))

    @property
    def problem(self) -> str:
        names = [place.name for place in self._places]
        if not all(names) or len(set(names)) < len(names):
            return f"its podSets would be called {', '.join(name or 'nothing' for name in names)}"
        for place in self._places:
            if prod(place.factors()) > PODS_MAX:  # not told how many: the number may have thousands of digits
                return f"its podSet {place.name} would have more than {PODS_MAX} pods"
        return next((words for says, words in self._description.refused if says(self._tree)), "")

    @property
    def managed_by(self) -> str:
        return word(self._tree, self._description.managed_by)

    # --- how it fares ---

    @property
    def is_suspended(self) -> bool:
        return next(values(self._tree, self._description.suspend), False) is True

    @property
    def has_pods(self) -> bool:
        return self._description.has_pods(self._tree)

    @property
    def is_ready(self) -> bool:
        return not self.is_suspended and self._description.is_ready(self._tree)

    @property
    def end(self) -> End | None:
        for ending in self._description.endings:
            if ending.says(self._tree):
                words = word(self._tree, ending.message)
                return End(ending.reason, words or f"The job has {ending.reason.lower()}")
        return None

    def reclaimable(self, asked: Mapping[str, int]) -> Mapping[str, int]:
        return {place.name: self._given_back(place) for place in self._places}

    def _given_back(self, place: _TemplatePlace) -> int:
        done = place.pod_sets.done
        if done is None:
            return 0
        mine = (item for item in values(self._tree, done.items) if word(item, done.name).lower() == place.name)
        units, *others = place.factors()
        count = sum(next(numbers(item, done.number), 0) for item in mine)
        return count * prod(others) if 0 < count <= units else 0

    # --- what is changed in it ---

    @property
    def remembers_start(self) -> bool:
        return False

    def suspended(self) -> CustomObject:
        return self._switched(self._object.spec, suspend=True)

    def without_start(self) -> CustomObject:
        return self._object

    def with_pods(self, pods: Sequence[NewPods], *, suspend: bool) -> CustomObject:
        """Counts stay as they are: none of these kinds runs with fewer pods than it asks for."""
        spec = self._object.spec
        named = {new.name: new for new in pods}
        for place, new in ((place, named[place.name]) for place in self._places if place.name in named):
            is_made_up = msgspec.json.decode(new.template) == msgspec.json.decode(self._otherwise(place))
            spec = with_piece(spec, place.steps[1:], None if is_made_up else new.template)
        return replace(self._object, spec=spec) if suspend else self._switched(spec, suspend=False)

    def _switched(self, spec: Raw, *, suspend: bool) -> CustomObject:
        steps = self._description.suspend.split(".")[1:]
        return replace(self._object, spec=with_piece(spec, tuple(steps), Raw(msgspec.json.encode(suspend))))


# --- pieces of raw JSON -----------------------------------------------------------------------------------------------


def piece(raw: Raw, steps: Steps) -> Raw | None:
    """The bytes at a place; None: nothing is there."""
    for step in steps:
        found = _parts(raw).get(step)
        if found is None:
            return None
        raw = found
    return None if bytes(raw) == b"null" else Raw(bytes(raw))


def with_piece(raw: Raw, steps: Steps, new: Raw | None) -> Raw:
    """JSON with another piece at a place, and all other values byte for byte as they were; None removes a key."""
    step, *rest = steps
    parts = _parts(raw)
    if rest:
        new = with_piece(parts.get(step, Raw(b"{}")), tuple(rest), new)
    if new is None:
        parts.pop(step, None)
    else:
        parts[step] = new
    return Raw(msgspec.json.encode(list(parts.values()) if bytes(raw)[:1] == b"[" else parts))


def _parts(raw: Raw) -> dict[str | int, Raw]:
    """What an object holds by key, or a list by index."""
    if bytes(raw)[:1] == b"[":
        return dict(enumerate(msgspec.json.decode(raw, type=list[Raw])))
    return msgspec.json.decode(raw, type=dict[str, Raw]) if bytes(raw)[:1] == b"{" else {}
