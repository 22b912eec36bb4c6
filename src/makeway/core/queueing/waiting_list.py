"""The waiting list of one queue: which workloads wait, the standing of each, and which is evaluated next.

A member of the list has one ``Standing``, a ``Trigger`` happens to it, and ``TRANSITIONS`` says what follows
(``standing``). A class of equivalent workloads is parked as a whole, at the same cost however many they are.

Every change goes through the undo log.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from makeway.core.model import DAWN, LocalName, Millis, Usage, Workload, WorkloadKey
from makeway.core.queueing.equivalence import (
    EquivalenceClass,
    EquivalenceClasses,
    Least,
    Place,
    Shape,
    class_of,
    is_at_least,
    place,
    shape,
)
from makeway.core.queueing.shape_verdicts import ShapeVerdicts
from makeway.core.queueing.standing import AWAITS_WAKE, TRANSITIONS, Standing, Trigger
from makeway.core.queueing.turn_waits import Turn, TurnWaits
from makeway.core.undo import UndoLog

__all__ = [
    "EquivalenceClass",
    "HeadReservation",
    "Least",
    "Place",
    "Shape",
    "Standing",
    "Trigger",
    "Turn",
    "WaitingList",
    "class_of",
    "is_at_least",
    "may_queue",
    "place",
    "shape",
]


def may_queue(workload: Workload, now: Millis) -> bool:
    """Whether its back-off is over (S-4.5.2)."""
    return not workload.backing_off and (workload.requeue_at is None or now >= workload.requeue_at)


@dataclass(frozen=True, slots=True)
class HeadReservation:
    """Quota kept free for a refused head of a strict queue until it is evaluated again (S-5.13)."""

    order: tuple[Any, ...]  # the head's place among the entries of a cycle
    amounts: Usage
    asked: Usage = field(default_factory=dict)  # what the head would use; where shares count it decides the place


class WaitingList:
    """The waiting workloads of one queue. Read the tables freely; only the list and its parts write them."""

    __slots__ = (
        "_refused", "_standing", "at", "blocked", "classes", "count_by", "entitled", "judged", "log", "members",
        "options", "parked", "parked_singly", "reservations", "sticky", "strict", "turns", "verdicts", "waiting",
        "wakes",
    )  # fmt: skip

    def __init__(self, log: UndoLog) -> None:
        self.log = log
        self.strict = False
        self.members: dict[WorkloadKey, Workload] = {}
        self.waiting: Mapping[WorkloadKey, Workload] = Members(self, parked=False)  # the members in the queue
        self.parked: Mapping[WorkloadKey, Workload] = Members(self, parked=True)
        self._standing: dict[WorkloadKey, Standing] = {}  # the member's own; absent: due
        self.at: dict[Standing, dict[WorkloadKey, None]] = {own: {} for own in Standing}  # the members by standing
        self.parked_singly: Mapping[WorkloadKey, None] = self.at[Standing.PARKED_SINGLY]
        self.blocked: Mapping[WorkloadKey, None] = self.at[Standing.BLOCKED]
        self._refused = tuple(self.at[standing] for standing in AWAITS_WAKE)
        self.classes = EquivalenceClasses(log)  # of all members that are not parked singly
        self.verdicts = ShapeVerdicts(self)
        self.sticky: WorkloadKey | None = None  # comes first whatever its place, while it is in the queue (S-4.9)
        self.wakes = 0
        self.judged: dict[WorkloadKey, None] = {}  # members that were evaluated since they came, and found too large
        self.turns = TurnWaits(self)
        self.entitled: dict[WorkloadKey, Usage] = {}  # what members ask for that only lent quota keeps out (S-5.14)
        self.reservations: dict[WorkloadKey, HeadReservation] = {}  # of a refused strict head
        self.count_by: dict[LocalName, int] = {}  # members by LocalQueue
        self.options: dict[WorkloadKey, None] = {}  # members that are Options of a family

    # --- reading ---

    def standing_of(self, key: WorkloadKey) -> Standing:
        """The standing of a member: its own, or that of its class."""
        own = self._standing.get(key)
        if own is not None:
            return own
        return Standing.PARKED_WITH_CLASS if self.classes.of[key] in self.classes.parked else Standing.DUE

    def is_parked(self, key: WorkloadKey) -> bool:
        """Whether a member is out of the queue."""
        return key in self.parked_singly or self.classes.of[key] in self.classes.parked

    def is_in_queue(self, key: WorkloadKey) -> bool:
        return key in self.members and not self.is_parked(key)

    def is_due(self, key: WorkloadKey, *, blocks: bool) -> bool:
        """Whether a member in the queue may be evaluated; ``blocks``: there are pods to wait for."""
        own = self._standing.get(key)
        return own is None or (own is Standing.BLOCKED and not blocks)

    def ordered(self) -> Iterator[WorkloadKey]:
        """The members in the queue, in order; computed only as far as they are read."""
        sticky = self.sticky
        if sticky is None or not self.is_in_queue(sticky):
            yield from self.classes.in_order()
            return
        yield sticky
        yield from (key for key in self.classes.in_order() if key != sticky)

    def head(
        self, *, due_only: bool, sticky_blocks: bool, blocks: bool, but: Container[WorkloadKey] = ()
    ) -> Workload | None:
        """The workload that is evaluated next, of a queue that is not empty (S-4.2).

        ``due_only``: refused ones wait for a wake, as ``but`` do. ``blocks``: there are pods of others to wait for, so
        one that waits for these blocks all behind it.
        """
        first = self.classes.heads[0][-1]
        if self.sticky is None and first not in self._standing and first not in but:
            return self.members[first]  # the usual case needs no search
        for key in self.ordered():
            if key not in but and (not due_only or self.is_due(key, blocks=blocks)):
                return self.members[key]
            is_blocked = blocks and due_only and self._standing.get(key) is Standing.BLOCKED
            if self.strict or is_blocked or (sticky_blocks and key == self.sticky):
                return None
        return None

    # --- coming and going ---

    def enter(self, workload: Workload, *, parked: bool = False) -> None:
        """A workload joins its class: in the queue or, if ``parked``, among the parked."""
        self._put_member(workload)
        self._stand(workload.key, Standing.DUE)
        alike = self.classes.add(workload, apart_from_parked=not parked)
        if parked:
            self.park(alike, self.verdicts.since.get(alike[0], DAWN))

    def park_singly(self, workload: Workload) -> None:
        self._put_member(workload)
        self._stand(workload.key, Standing.PARKED_SINGLY)

    def leave(self, key: WorkloadKey) -> None:
        """A workload is neither in the queue nor parked any more, and all that was found about it is forgotten."""
        self.log.drop(self.judged, key)
        known = self.members.get(key)
        if known is None:
            return
        if key in self.classes.of:
            self.classes.remove(known)
        self._stand(key, Standing.DUE)
        self.log.drop(self.members, key)
        self._count(known.local, -1)
        self.log.drop(self.options, key)
        self.turns.forget((key,))
        self.log.drop(self.entitled, key)
        self.log.drop(self.reservations, key)

    def renew(self, workload: Workload) -> None:
        """An object changed in nothing that matters to a verdict: its standing stays (S-4.7)."""
        key = workload.key
        if key not in self.members:
            return
        if key in self.classes.of:
            is_parked = self.is_parked(key)
            self.classes.remove(self.members[key])
            self.log.drop(self.judged, key)
            if is_parked and class_of(workload) not in self.classes.parked:
                self._stand(key, Standing.PARKED_SINGLY)
            else:
                self.classes.add(workload, apart_from_parked=not is_parked)
        self._put_member(workload)

    def park(self, alike: EquivalenceClass, since: Millis = DAWN) -> None:
        """Park a class, except members queued before ``since``: each of these stays in the queue by itself."""
        if alike in self.classes.parked:
            return
        older = self.classes.queued_before(alike, since)
        if older and len(alike) != 2:
            return  # it stands apart already
        if self.classes.park(alike, [self.members[key] for key in older]):
            refused = [key for table in self._refused for key in table]
            for key in (*refused, *self.reservations):
                if self.classes.of.get(key) == alike:
                    self._stand(key, Standing.DUE)  # from now on the standing of its class counts
                    self.log.drop(self.reservations, key)

    def stick(self, key: WorkloadKey) -> None:
        """A workload comes first from now on; a strict queue keeps its order (S-4.9)."""
        if not self.strict:
            self.log.set(self, "sticky", key)

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

    # --- standings ---

    def happen(self, trigger: Trigger, key: WorkloadKey) -> None:
        after = TRANSITIONS[trigger].get(self.standing_of(key)) if key in self.members else None
        if after is not None:
            self._stand(key, after)

    def _stand(self, key: WorkloadKey, standing: Standing) -> None:
        """Set a member's own standing: the one place where it changes."""
        before = self._standing.get(key)
        if before is not None:
            self.log.drop(self.at[before], key)
            self.log.drop(self._standing, key)
        if standing is not Standing.DUE:
            self.log.put(self._standing, key, standing)
            self.log.put(self.at[standing], key, None)

    # --- waking ---

    def make_due(self) -> None:
        """All refused workloads in the queue are evaluated again; parked ones are not."""
        for table in self._refused:
            for key in list(table) if table else ():
                self.happen(Trigger.WAKE, key)
        self.turns.forget_all()

    def wake(
        self, now: Millis, matches: Callable[[Workload], bool], *, lists_returned: bool = True,
        is_hopeless: Callable[[Least], bool] | None = None,
    ) -> list[WorkloadKey]:  # fmt: skip
        """Parked workloads return to the queue, refused ones become due; returns those that did, on demand.

        ``is_hopeless`` says whether all parked ones would certainly be refused again: then they stay parked.
        """
        self.make_due()
        if is_hopeless is not None and self.classes.parked and not self.parked_singly:
            least = self.classes.least_of_parked()
            if least is not None and is_hopeless(least):
                return []
        self.log.set(self, "wakes", self.wakes + 1)
        self.verdicts.forget_all()
        returned: list[WorkloadKey] = []
        classes = self.classes.parked_of(lambda key: matches(self.members[key]))
        for alike in classes if lists_returned else ():
            returned += [where[-1] for where in self.classes.places[alike]]
        self.classes.unpark(classes)
        for workload in [self.members[key] for key in self.parked_singly]:
            if may_queue(workload, now) and matches(workload):
                self.enter(workload)
                returned.append(workload.key)
        return returned

    def contents(self) -> object:
        return (
            sorted(self.members), sorted(self._standing.items(), key=lambda item: item[0]), self.classes.contents(),
            self.verdicts.contents(), self.turns.contents(), dict(sorted(self.entitled.items())), self.sticky,
            self.wakes, sorted(self.reservations), dict(sorted(self.count_by.items())), sorted(self.options),
            sorted(self.judged), {standing: sorted(keys) for standing, keys in self.at.items()},
        )  # fmt: skip


class Members(Mapping[WorkloadKey, Workload]):
    """The members of a waiting list that are in the queue, or those that are parked."""

    __slots__ = ("_list", "_parked")

    def __init__(self, waiting_list: WaitingList, *, parked: bool) -> None:
        self._list = waiting_list
        self._parked = parked

    def __getitem__(self, key: WorkloadKey) -> Workload:
        if key not in self:
            raise KeyError(key)
        return self._list.members[key]

    def __contains__(self, key: object) -> bool:
        return key in self._list.members and self._list.is_parked(key) is self._parked  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[WorkloadKey]:
        return (key for key in self._list.members if self._list.is_parked(key) is self._parked)

    def __len__(self) -> int:
        in_queue = self._list.classes.count_in_queue()
        return len(self._list.members) - in_queue if self._parked else in_queue
