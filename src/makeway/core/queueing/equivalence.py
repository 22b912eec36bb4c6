"""The waiting workloads of one queue by equivalence class: how they are sorted, and what is parked together.

Workloads of one shape and namespace are a *class*: they get the same verdict, so they are parked and return together,
however many they are. The first workload of a class in the queue is the class's *head*; the first of these heads is the
head of the queue. A workload that has to be in the queue while its class is parked is a class of its own.

Every change goes through the undo log.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from makeway.core.model import DAWN, Millis, ResourceName, Workload, WorkloadKey, invariant
from makeway.core.undo import UndoLog

Place = tuple[int, int, bool, int, str, int, str, WorkloadKey]  # the key comes last
Shape = tuple[object, ...]
EquivalenceClass = tuple[Any, ...]  # shape and namespace; and a key, for a workload that stands apart


def place(workload: Workload) -> Place:
    """The place of a workload in the order of its queue (S-4.1); no two are equal."""
    if workload.family is None:
        own, was_displaced, ran = workload.uid, workload.displaced_at is not None, workload.ran_seconds
    else:
        own, was_displaced, ran = workload.family, False, 0  # the rank orders Options (S-4.1.4)
    return (
        -workload.priority, workload.queued_at, was_displaced, ran, own, workload.option_rank, workload.uid,
        workload.key,
    )  # fmt: skip


def shape(workload: Workload) -> Shape:
    """What a verdict depends on: workloads that look alike get the same one (S-4.5.3)."""
    return (workload.priority, *[pod_set.signature for pod_set in workload.pod_sets])


def class_of(workload: Workload) -> EquivalenceClass:
    return (shape(workload), workload.namespace)


def is_at_least(larger: Shape, smaller: Shape) -> bool:
    """Whether a workload of the first shape asks for at least what the second asks for, and has no more to choose from.

    Known for shapes of one podSet each; for all others the answer is no.
    """
    if len(larger) != 2 or len(smaller) != 2:
        return False
    return larger[1].covers(smaller[1])  # type: ignore[attr-defined, no-any-return]


class Least(NamedTuple):
    """The lower bound of some classes: none of their workloads has a higher priority, or asks for less."""

    priority: int
    amounts: Mapping[ResourceName, int]


UNKNOWN = Least(0, {})


def _least(classes: Iterable[EquivalenceClass]) -> Least:
    """The lower bound of classes with one podSet each, without resources that one of them does not ask for."""
    priority, amounts = -(2**62), None
    for alike in classes:
        if len(alike[0]) != 2 or alike[0][1].is_partial:
            return UNKNOWN
        totals = alike[0][1].totals
        priority = max(priority, alike[0][0])
        if amounts is None:
            amounts = dict(totals)
        else:
            amounts = {name: min(amount, totals[name]) for name, amount in amounts.items() if name in totals}
    return Least(priority, amounts) if amounts else UNKNOWN


@dataclass(slots=True)
class EquivalenceClasses:
    """The classes of one waiting list. Read the tables freely; only the methods write."""

    log: UndoLog
    of: dict[WorkloadKey, EquivalenceClass] = field(default_factory=dict)
    places: dict[EquivalenceClass, list[Place]] = field(default_factory=dict)  # each sorted, none empty
    of_shape: dict[Shape, dict[EquivalenceClass, None]] = field(default_factory=dict)
    heads: list[Place] = field(default_factory=list)  # the first of each class in the queue, sorted
    parked: dict[EquivalenceClass, None] = field(default_factory=dict)
    _least: Least | None = None  # of the parked ones, once computed

    def in_order(self) -> Iterator[WorkloadKey]:
        """All workloads in the queue; the order is computed only as far as it is read."""
        if not self.heads:
            return
        yield self.heads[0][-1]
        heap = [(head, 0) for head in self.heads]
        heapify(heap)
        is_first = True
        while heap:
            at, index = heappop(heap)
            places = self.places[self.of[at[-1]]]
            if index + 1 < len(places):
                heappush(heap, (places[index + 1], index + 1))
            if not is_first:
                yield at[-1]
            is_first = False

    def count_in_queue(self) -> int:
        return sum(len(places) for alike, places in self.places.items() if alike not in self.parked)

    def least_of_parked(self) -> Least | None:
        """The lower bound of all parked classes; None: unknown for some of them."""
        if self._least is None:
            self._least = _least(self.parked)
        return None if self._least is UNKNOWN else self._least

    def add(self, workload: Workload, *, apart_from_parked: bool) -> EquivalenceClass:
        """A workload joins its class, parked or not; ``apart_from_parked``: it has to be in the queue."""
        alike = class_of(workload)
        if apart_from_parked and alike in self.parked:
            alike = (*alike, workload.key)
        self._join(alike, place(workload))
        return alike

    def _join(self, alike: EquivalenceClass, where: Place) -> None:
        self.log.put(self.of, where[-1], alike)
        places = self.places.get(alike)
        if places is None:
            places = []
            self.log.put(self.places, alike, places)
            self.log.put(self.of_shape.setdefault(alike[0], {}), alike, None)
        if (not places or where < places[0]) and alike not in self.parked:
            if places:
                self._take(self.heads, places[0])
            self._put(self.heads, where)
        self._put(places, where)

    def remove(self, workload: Workload) -> None:
        where = place(workload)
        alike = self.of[workload.key]
        places = self.places[alike]
        was_head = places[0] == where and alike not in self.parked
        self._take(places, where)
        if was_head:
            self._take(self.heads, where)
            if places:
                self._put(self.heads, places[0])
        if not places:
            self._forget(alike)
        self.log.drop(self.of, workload.key)

    def _forget(self, alike: EquivalenceClass) -> None:
        self.log.drop(self.places, alike)
        if alike in self.parked:
            self.log.drop(self.parked, alike)
            self._forget_least()
        self.log.drop(self.of_shape[alike[0]], alike)
        if not self.of_shape[alike[0]]:
            self.log.drop(self.of_shape, alike[0])

    def park(self, alike: EquivalenceClass, older: Sequence[Workload] = ()) -> bool:
        """All of a class leave the queue, except ``older`` ones, which stand apart; returns whether there are any."""
        for workload in older:
            self.remove(workload)
            self._join((*alike[:2], workload.key), place(workload))
        if alike not in self.places or alike in self.parked:
            return False
        self._take(self.heads, self.places[alike][0])
        self.log.put(self.parked, alike, None)
        self._forget_least()
        return True

    def queued_before(self, alike: EquivalenceClass, since: Millis) -> list[WorkloadKey]:
        """The members of a class that were queued before that time."""
        if since == DAWN:
            return []
        places = self.places[alike]
        return [where[-1] for where in places[: bisect_left(places, (-alike[0][0], since))]]

    def unpark(self, classes: Sequence[EquivalenceClass]) -> None:
        """Bring these parked classes back into the queue."""
        if not classes:
            return
        firsts = [self.places[alike][0] for alike in classes]
        self.heads += firsts
        self.heads.sort()
        for alike in classes:
            self.log.drop(self.parked, alike)
        self._forget_least()
        if self.log.trials:
            for where in firsts:
                self.log.save(_take_out, self.heads, where)

    def parked_of(self, matches: Callable[[WorkloadKey], bool]) -> list[EquivalenceClass]:
        """The parked classes whose namespace matches; one workload of each namespace is tested."""
        may: dict[str, bool] = {}
        for alike in self.parked:
            if alike[1] not in may:
                may[alike[1]] = matches(self.places[alike][0][-1])
        return [alike for alike in self.parked if may[alike[1]]]

    def _forget_least(self) -> None:
        """The bound is void, also after a trial in which it was computed."""
        self.log.save(setattr, self, "_least", None)
        self._least = None

    def _put(self, places: list[Place], where: Place) -> None:
        insort(places, where)
        if self.log.trials:
            self.log.save(_take_out, places, where)

    def _take(self, places: list[Place], where: Place) -> None:
        _take_out(places, where)
        if self.log.trials:
            self.log.save(insort, places, where)

    def contents(self) -> object:
        return (
            list(self.in_order()), self.heads[:], sorted((key, repr(alike)) for key, alike in self.of.items()),
            sorted(map(repr, self.parked)),
        )  # fmt: skip


def _take_out(places: list[Place], where: Place) -> None:
    index = bisect_left(places, where)
    if index >= len(places) or places[index] != where:
        invariant(False, "{} is not in the line", where)
    del places[index]
