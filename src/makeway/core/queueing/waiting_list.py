"""The line of one queue: who waits, in which order, and who is parked beside it.

Workloads that look alike and live in one namespace are *kin*: they get the same verdict, so they are parked and return
together, however many they are. Of each kin that is in the line the first one stands at the *front*; the head of the
line is the first of these. A workload may also be parked alone, or stand apart from kin that rest.

Every change goes through the undo log.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Literal, NamedTuple

from makeway.core.model import DAWN, LocalName, Millis, ResourceName, Usage, Workload, WorkloadKey, invariant
from makeway.core.undo import UndoLog

Place = tuple[int, int, bool, int, str, int, str, WorkloadKey]  # the key comes last
Shape = tuple[object, ...]
EquivalenceClass = tuple[Any, ...]  # shape and namespace; and a key, of one who stands apart


def place(workload: Workload) -> Place:
    """Its place in its queue's line (S-4.1); no two are alike."""
    if workload.family is None:
        own, was_displaced, ran = workload.uid, workload.displaced_at is not None, workload.ran_seconds
    else:
        own, was_displaced, ran = workload.family, False, 0  # between Options their rank decides (S-4.1.4)
    return (
        -workload.priority, workload.queued_at, was_displaced, ran, own, workload.option_rank, workload.uid,
        workload.key,
    )  # fmt: skip


def shape(workload: Workload) -> Shape:
    """What a verdict depends on: who looks alike gets the same one (S-4.5.3)."""
    return (workload.priority, *[each.signature for each in workload.pod_sets])


def is_at_least(larger: Shape, smaller: Shape) -> bool:
    """Whether whoever has the first shape asks for all that the second asks for, and no more than that is free to it.

    Told of one podSet each; of everything else nothing is said, so the answer is no.
    """
    if len(larger) != 2 or len(smaller) != 2:
        return False
    return larger[1].covers(smaller[1])  # type: ignore[attr-defined, no-any-return]


class Least(NamedTuple):
    priority: int
    amounts: Mapping[ResourceName, int]


UNKNOWN = Least(0, {})


def _least(kins: Iterable[EquivalenceClass]) -> Least:
    """Of kin with one podSet each; resources that one of them does not ask for are left out."""
    priority, amounts = -(2**62), None
    for kin in kins:
        if len(kin[0]) != 2 or kin[0][1].is_partial:
            return UNKNOWN
        totals = kin[0][1].totals
        priority = max(priority, kin[0][0])
        if amounts is None:
            amounts = dict(totals)
        else:
            amounts = {name: min(amount, totals[name]) for name, amount in amounts.items() if name in totals}
    return Least(priority, amounts) if amounts else UNKNOWN


@dataclass(frozen=True, slots=True)
class HeadReservation:
    """Quota kept free for a refused head of a strict queue until it is looked at again (S-5.13)."""

    order: tuple[Any, ...]  # the head's place among the entries of a cycle
    amounts: Usage
    asked: Usage = field(default_factory=dict)  # what the head would use: by that its place is found where shares count


class Turn(NamedTuple):
    """What a workload waits for before it displaces equals of its queue (S-7.14)."""

    at: Millis | None = None  # it was displaced by time itself, and waits as long as those were safe
    behind: WorkloadKey | None = None  # one before it in the queue displaces by time first


Found = tuple[
    bool, bool, bool, HeadReservation | None, Turn | None, Usage | None
]  # all that was found about a waiting workload


@dataclass(slots=True)
class WaitingList:
    """The waiting workloads of one queue."""

    log: UndoLog
    strict: bool = False
    by_age: bool = False  # an older workload may displace more than one that looks alike (S-4.5.3)
    members: dict[WorkloadKey, Workload] = field(default_factory=dict)  # in the line, and parked
    class_of: dict[WorkloadKey, EquivalenceClass] = field(default_factory=dict)
    parked_singly: dict[WorkloadKey, None] = field(default_factory=dict)  # parked, each for a reason of its own
    classes: dict[EquivalenceClass, list[Place]] = field(default_factory=dict)  # each sorted, none empty
    of_shape: dict[Shape, dict[EquivalenceClass, None]] = field(default_factory=dict)
    class_heads: list[Place] = field(default_factory=list)  # the first of each kin in the line, sorted
    parked_classes: dict[EquivalenceClass, None] = field(default_factory=dict)  # kin that is parked together
    refused: dict[WorkloadKey, None] = field(default_factory=dict)  # in the line, but not due
    shapes: dict[Shape, Millis] = field(default_factory=dict)  # parked shapes: arrivals that are not older join them
    sticky: dict[Literal["it"], WorkloadKey] = field(default_factory=dict)  # at most one
    wakes: dict[Literal["count"], int] = field(default_factory=dict)
    _least: Least | None = None  # of those that rest, once somebody asked
    reservations: dict[WorkloadKey, HeadReservation] = field(default_factory=dict)  # of a refused strict head
    held_back: dict[WorkloadKey, None] = field(default_factory=dict)  # refused because of what is kept free
    blocked: dict[WorkloadKey, None] = field(default_factory=dict)  # found to wait until pods of others are ready
    count_by: dict[LocalName, int] = field(default_factory=dict)  # members by LocalQueue
    options: dict[WorkloadKey, None] = field(default_factory=dict)  # members that are Options of a family
    judged: dict[WorkloadKey, None] = field(default_factory=dict)  # looked at since they came, and found too large
    turns: dict[WorkloadKey, Turn] = field(default_factory=dict)  # refused because it is not their turn
    turn_shapes: dict[Shape, None] = field(default_factory=dict)  # parked shapes of which one waits for its turn
    entitled: dict[WorkloadKey, Usage] = field(default_factory=dict)  # kept out by lent quota alone: what they ask for

    # --- reading ---

    @property
    def waiting(self) -> Mapping[WorkloadKey, Workload]:
        """Those in the line."""
        return Members(self, parked=False)

    @property
    def parked(self) -> Mapping[WorkloadKey, Workload]:
        return Members(self, parked=True)

    def least_of_parked(self) -> Least | None:
        """No kin that rests has a higher priority or asks for less; None: that cannot be told of all of them."""
        if self._least is None:
            self._least = _least(self.parked_classes)
        return None if self._least is UNKNOWN else self._least

    @property
    def has_options(self) -> bool:
        return bool(self.options)

    def is_parked(self, key: WorkloadKey) -> bool:
        """Of one who waits: whether it is out of the line."""
        return key in self.parked_singly or self.class_of[key] in self.parked_classes

    def count_in_line(self) -> int:
        return sum(len(places) for kin, places in self.classes.items() if kin not in self.parked_classes)

    def ordered(self) -> Iterator[WorkloadKey]:
        """The line from its front; whoever stops early has not paid for the rest."""
        sticky = self.sticky.get("it")
        if sticky is not None and sticky in self.members and not self.is_parked(sticky):
            yield sticky
        if not self.class_heads:
            return
        if self.class_heads[0][-1] != sticky:
            yield self.class_heads[0][-1]
        heap = [(front, 0) for front in self.class_heads]
        heapify(heap)
        passed = 0
        while heap:
            at, index = heappop(heap)
            places = self.classes[self.class_of[at[-1]]]
            if index + 1 < len(places):
                heappush(heap, (places[index + 1], index + 1))
            if passed and at[-1] != sticky:
                yield at[-1]
            passed += 1

    # --- coming and going ---

    def binds(self, workload: Workload) -> bool:
        """Whether a verdict on its shape is in force that is a verdict on it, too (S-4.5.3)."""
        since = self.shapes.get(shape(workload)) if self.shapes else None
        return since is not None and workload.queued_at >= since

    def bind(self, bound: Shape, since: Millis) -> None:
        """All of this shape are parked, and those that come; where age counts those queued before ``since`` are not."""
        earliest = min(since if self.by_age else DAWN, self.shapes.get(bound, since))
        self.log.put(self.shapes, bound, earliest)
        for kin in list(self.of_shape.get(bound, ())):
            self.park(kin, earliest)

    def unbind(self, bound: Shape) -> None:
        """What was found about this shape holds no more: all that are parked for it are in the line again."""
        self.log.drop(self.turn_shapes, bound)
        self.log.drop(self.shapes, bound)
        self.unpark([kin for kin in self.of_shape.get(bound, ()) if kin in self.parked_classes])

    def enter(self, workload: Workload, *, parked: bool = False) -> None:
        """It joins its kin: in the line, or, if ``parked``, where they are parked."""
        kin: EquivalenceClass = (shape(workload), workload.namespace)
        if kin in self.parked_classes and not parked:
            kin = (*kin, workload.key)
        self._put_member(workload)
        self.log.drop(self.parked_singly, workload.key)
        self.log.put(self.class_of, workload.key, kin)
        places = self.classes.get(kin)
        if places is None:
            places = []
            self.log.put(self.classes, kin, places)
            self.log.put(self.of_shape.setdefault(kin[0], {}), kin, None)
        where = place(workload)
        is_first = not places or where < places[0]
        if is_first and kin not in self.parked_classes:
            if places:
                self._take(self.class_heads, places[0])
            self._put(self.class_heads, where)
        self._put(places, where)
        if parked:
            self.park(kin, self.shapes.get(kin[0], DAWN))

    def park_alone(self, workload: Workload) -> None:
        self._put_member(workload)
        self.log.put(self.parked_singly, workload.key, None)

    def _put_member(self, workload: Workload) -> None:
        known, local = self.members.get(workload.key), workload.local
        if known is None:
            self._count(local, 1)
        elif known.local != local:
            self._count(known.local, -1)
            self._count(local, 1)
        if workload.family is not None:
            self.log.put(self.options, workload.key, None)
        self.log.put(self.members, workload.key, workload)

    def _count(self, local: LocalName, more: int) -> None:
        total = self.count_by.get(local, 0) + more
        if total:
            self.log.put(self.count_by, local, total)
        else:
            self.log.drop(self.count_by, local)

    def leave(self, key: WorkloadKey) -> None:
        """It is neither in the line nor parked any more."""
        known = self.members.get(key)
        if known is not None:
            kin = self.class_of.get(key)
            if kin is not None:
                self._leave_kin(kin, place(known))
                self.log.drop(self.class_of, key)
            self.log.drop(self.parked_singly, key)
            self.log.drop(self.members, key)
            self._count(known.local, -1)
            self.log.drop(self.options, key)
        self.log.drop(self.judged, key)
        self._forget_verdict(key)

    def _leave_kin(self, kin: EquivalenceClass, where: Place) -> None:
        places = self.classes[kin]
        in_line = kin not in self.parked_classes
        was_first = places[0] == where
        self._take(places, where)
        if in_line and was_first:
            self._take(self.class_heads, where)
            if places:
                self._put(self.class_heads, places[0])
        if not places:
            self.log.drop(self.classes, kin)
            self.log.drop(self.parked_classes, kin)
            self._least = None
            self.log.drop(self.of_shape[kin[0]], kin)
            if not self.of_shape[kin[0]]:
                self.log.drop(self.of_shape, kin[0])

    def park(self, kin: EquivalenceClass, since: Millis = DAWN) -> None:
        """Park all of a kin, but for those queued before ``since``: these stay in the line, each by itself."""
        if kin in self.parked_classes:
            return
        places = self.classes[kin]
        older = bisect_left(places, (-kin[0][0], since))
        if older and len(kin) != 2:
            return
        for where in places[:older]:
            self._stand_apart(where[-1])
        if kin not in self.classes:
            return
        self._take(self.class_heads, self.classes[kin][0])
        self.log.put(self.parked_classes, kin, None)
        self._least = None
        if self.log.trials:
            self.log.save(self._forget_least)
        if self.refused or self.held_back or self.reservations or self.blocked:
            for key in [k for table in (self.refused, self.held_back, self.reservations, self.blocked) for k in table]:
                if self.class_of.get(key) == kin:
                    self._forget_refusal(key)

    def _stand_apart(self, key: WorkloadKey) -> None:
        """It leaves its kin, and keeps its place in the line and all that was found about it."""
        found, was_judged, workload = self.verdict_of(key), key in self.judged, self.members[key]
        kin = (*self.class_of[key][:2], key)
        self._leave_kin(self.class_of[key], place(workload))
        self.log.put(self.class_of, key, kin)
        places: list[Place] = []
        self.log.put(self.classes, kin, places)
        self.log.put(self.of_shape.setdefault(kin[0], {}), kin, None)
        self._put(self.class_heads, place(workload))
        self._put(places, place(workload))
        self.keep_verdict(key, found)
        if was_judged:
            self.log.put(self.judged, key, None)

    def verdict_of(self, key: WorkloadKey) -> Found:
        """What was found about one that waits: refused, held back, blocked, what is kept free for it, its turn."""
        standing, turn, entitled = self.reservations.get(key), self.turns.get(key), self.entitled.get(key)
        return key in self.refused, key in self.held_back, key in self.blocked, standing, turn, entitled

    def keep_verdict(self, key: WorkloadKey, found: Found) -> None:
        is_refused, is_held_back, is_blocked, standing, turn, entitled = found
        if is_refused:
            self.log.put(self.refused, key, None)
        if is_held_back:
            self.log.put(self.held_back, key, None)
        if is_blocked:
            self.log.put(self.blocked, key, None)
        if standing is not None:
            self.log.put(self.reservations, key, standing)
        if turn is not None:
            self.log.put(self.turns, key, turn)
        if entitled is not None:
            self.log.put(self.entitled, key, entitled)

    def _forget_verdict(self, key: WorkloadKey) -> None:
        self.log.drop(self.turns, key)
        self.log.drop(self.entitled, key)
        self._forget_refusal(key)

    def _forget_refusal(self, key: WorkloadKey) -> None:
        self.log.drop(self.refused, key)
        self.log.drop(self.held_back, key)
        self.log.drop(self.blocked, key)
        self.log.drop(self.reservations, key)

    def unpark(self, kins: Sequence[EquivalenceClass]) -> None:
        """All of these kin, who rest, are in the line again."""
        if not kins:
            return
        firsts = [self.classes[kin][0] for kin in kins]
        self.class_heads += firsts
        self.class_heads.sort()
        self._least = None
        for kin in kins:
            self.log.drop(self.parked_classes, kin)
        if self.log.trials:
            self.log.save(self._forget_least)
            for where in firsts:
                self.log.save(_take_out, self.class_heads, where)

    def _forget_least(self) -> None:
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
            list(self.ordered()), sorted(self.parked), sorted(self.refused),
            sorted((repr(known), since) for known, since in self.shapes.items()),
            dict(sorted(self.turns.items())), dict(sorted(self.entitled.items())), sorted(map(repr, self.turn_shapes)),
            dict(self.sticky), dict(self.wakes), sorted(self.reservations), sorted(self.held_back),
            sorted(self.blocked), self.class_heads[:],
            sorted((key, repr(kin)) for key, kin in self.class_of.items()), sorted(map(repr, self.parked_classes)),
            dict(sorted(self.count_by.items())), sorted(self.options), sorted(self.judged),
        )  # fmt: skip


class Members(Mapping[WorkloadKey, Workload]):
    """Those of a line who are in it, or those who are parked."""

    __slots__ = ("_line", "_parked")

    def __init__(self, line: WaitingList, *, parked: bool) -> None:
        self._line = line
        self._parked = parked

    def __getitem__(self, key: WorkloadKey) -> Workload:
        if key not in self:
            raise KeyError(key)
        return self._line.members[key]

    def __contains__(self, key: object) -> bool:
        return key in self._line.members and self._line.is_parked(key) is self._parked  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[WorkloadKey]:
        return (key for key in self._line.members if self._line.is_parked(key) is self._parked)

    def __len__(self) -> int:
        in_line = self._line.count_in_line()
        return len(self._line.members) - in_line if self._parked else in_line


def _take_out(places: list[Place], where: Place) -> None:
    index = bisect_left(places, where)
    if index >= len(places) or places[index] != where:
        invariant(False, "{} is not in the line", where)
    del places[index]
