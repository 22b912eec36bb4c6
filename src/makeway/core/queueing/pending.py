"""Who waits: one line per queue, the parked beside it, and what must happen before somebody is looked at again (S-4).

A line is always sorted. *Parked* workloads are out of it until a wake of their tree or a change of their own; a
workload in the line that was refused is not *due* until then either, so that nothing is evaluated twice in vain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable
from typing import Literal

from makeway.core.model import Millis, QueueName, Usage, Workload, WorkloadKey
from makeway.core.queueing.waiting_list import (
    EquivalenceClass,
    HeadReservation,
    Least,
    Place,
    Shape,
    Turn,
    WaitingList,
    is_at_least,
    place,
    shape,
)
from makeway.core.undo import UndoLog

__all__ = [
    "HeadReservation",
    "Pending",
    "Place",
    "Requeue",
    "Shape",
    "Turn",
    "WaitingList",
    "may_queue",
    "place",
    "shape",
]

Requeue = Literal[
    "NamespaceMismatch", "Generic", "NoFit", "PreemptionNoCandidates", "PreemptionGated", "PendingPreemption",
    "PendingMigration", "PreemptionFailed", "FailedAfterNomination", "SiblingRuns",
]  # fmt: skip
PARKING: frozenset[Requeue] = frozenset(
    {"NamespaceMismatch", "Generic", "NoFit", "PreemptionNoCandidates", "PreemptionGated"}
)
SHAPE_MOVING: frozenset[Requeue] = frozenset({"NoFit", "PreemptionNoCandidates"})
STICKY: frozenset[Requeue] = frozenset({"PendingPreemption", "PendingMigration"})


def may_queue(workload: Workload, now: Millis) -> bool:
    """Whether its back-off is over (S-4.5.2)."""
    return not workload.backing_off and (workload.requeue_at is None or now >= workload.requeue_at)


class Pending:
    def __init__(
        self, log: UndoLog, on_forget: Callable[[Workload], None] = lambda _: None,
        waits_for_pods: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._log = log
        self._waits_for_pods = waits_for_pods  # whether nothing is admitted until pods are ready
        self._on_forget = on_forget  # what else ends with a workload's waiting
        self.lists: dict[QueueName, WaitingList] = {}
        self._names: list[QueueName] = []  # of the lines, sorted
        self._kept_free = False  # whether anything was ever kept free for a refused head
        self._of_interest: dict[QueueName, None] = {}  # lines in which somebody is entitled, or waits for its turn

    def list_of(self, queue: QueueName) -> WaitingList:
        found = self.lists.get(queue)
        if found is None:
            found = self.lists[queue] = WaitingList(self._log)
        return found

    # --- coming and going ---

    def push(self, workload: Workload, now: Millis, *, shapes_count: bool = True) -> None:
        """A workload arrives, or changed in a way that makes it worth another look (S-4.7)."""
        self.remove(workload)
        line = self.list_of(workload.queue)
        if not may_queue(workload, now):
            line.park_alone(workload)
        else:
            line.enter(workload, parked=shapes_count and not line.strict and line.binds(workload))
        self.next_turns(workload)

    def refresh(self, workload: Workload) -> None:
        """Its object changed in nothing that matters to a verdict: whether it waits or is parked stays (S-4.7)."""
        line = self.list_of(workload.queue)
        if workload.key not in line.members:
            return
        kin = line.class_of.get(workload.key)
        if kin is None:
            line.park_alone(workload)
        elif kin in line.parked_classes:
            kept = line.verdict_of(workload.key)
            line.leave(workload.key)
            if (shape(workload), workload.namespace) in line.parked_classes:
                line.enter(workload, parked=True)
            else:
                line.park_alone(workload)
            line.keep_verdict(workload.key, kept)
        else:
            kept = line.verdict_of(workload.key)
            line.leave(workload.key)
            line.enter(workload)
            line.keep_verdict(workload.key, kept)

    def remove(self, workload: Workload) -> None:
        """It is gone, or holds quota now."""
        self.list_of(workload.queue).leave(workload.key)

    def forget(self, workload: Workload) -> None:
        """It reserved quota, was deleted or left the queue: who waited for it to come first need not any more."""
        self.remove(workload)
        self._on_forget(workload)
        line = self.list_of(workload.queue)
        if line.sticky.get("it") == workload.key:
            self._log.drop(line.sticky, "it")
        self.next_turns(workload)

    # --- heads ---

    def in_use(self) -> list[QueueName]:
        """Queues with somebody in their line, by name."""
        if len(self._names) != len(self.lists):
            self._names = sorted(self.lists)
        return [name for name in self._names if self.lists[name].class_heads]

    def find(self, queue: QueueName, key: WorkloadKey) -> Workload | None:
        line = self.lists.get(queue)
        return None if line is None else line.members.get(key)

    def head(
        self, queue: QueueName, *, due_only: bool, sticky_blocks: bool, but: Container[WorkloadKey] = ()
    ) -> Workload | None:
        """The workload that is looked at next (S-4.2); ``due_only``: refused ones wait for a wake, as ``but`` do."""
        line = self.lists.get(queue)
        if line is None or not line.class_heads:
            return None
        blocked = line.blocked if line.blocked and due_only and self._waits_for_pods() else {}
        if not line.sticky:  # the usual case, told without a search
            first = line.class_heads[0][-1]
            if first not in but and first not in blocked and (not due_only or first not in line.refused):
                return line.members[first]
        for key in line.ordered():
            if key not in but and key not in blocked and (not due_only or key not in line.refused):
                return line.members[key]
            if line.strict or key in blocked or (sticky_blocks and line.sticky.get("it") == key):
                return None
        return None

    def first(self, queue: QueueName) -> WorkloadKey | None:
        return next(self.list_of(queue).ordered(), None)

    def in_order(self, queue: QueueName) -> list[WorkloadKey]:
        """The whole line, for those who ask for positions."""
        return list(self.list_of(queue).ordered())

    def pop(self, workload: Workload) -> int:
        """Take a head out of its line; returns how often the queue was woken so far."""
        line = self.list_of(workload.queue)
        if workload.key in line.members and not line.is_parked(workload.key):
            was_judged = workload.key in line.judged
            line.leave(workload.key)
            if was_judged:
                self._log.put(line.judged, workload.key, None)
        return line.wakes.get("count", 0)

    def requeue(
        self, workload: Workload, reason: Requeue, now: Millis, *, woken: bool, has_untried: bool, shapes_count: bool,
        binds_larger: bool = False,
    ) -> bool:  # fmt: skip
        """Put a head back after its cycle (S-4.5); returns whether it is parked. Who was not taken out stays.

        ``binds_larger``: nobody behind it who asks for as much or more can fare better, so all these are parked too.
        """
        line = self.list_of(workload.queue)
        if workload.key in line.members and not line.is_parked(workload.key):
            return False
        was_judged = workload.key in line.judged
        line.leave(workload.key)
        wants_park = reason == "NamespaceMismatch" or (reason in PARKING and not line.strict)
        backs_off = not may_queue(workload, now)
        parks = (wants_park and not woken and not has_untried) or backs_off
        if reason in STICKY:
            self.stick(workload)
        if reason in SHAPE_MOVING or (was_judged and reason == "FailedAfterNomination"):
            self._log.put(line.judged, workload.key, None)
        if not parks:
            line.enter(workload)
            if reason != "FailedAfterNomination" and not has_untried and not woken:
                self._log.put(line.refused, workload.key, None)
            return False
        moves = reason in SHAPE_MOVING and shapes_count and not line.strict and wants_park
        if moves:
            line.bind(shape(workload), workload.queued_at)
        if moves and not backs_off:
            line.enter(workload, parked=True)
        else:
            line.park_alone(workload)
        if moves and binds_larger:
            self._park_larger(line, workload)
        return True

    def pass_over(self, workload: Workload, now: Millis, *, binds_larger: bool, turn: Turn | None = None) -> None:
        """A head is not looked at, for the verdict would be the same: it too large, nobody to leave.

        ``turn``: it was displaced by time, so that the verdict is its own.
        """
        line = self.list_of(workload.queue)
        if turn is not None:
            self.pop(workload)
            self.requeue(workload, "NoFit", now, woken=False, has_untried=False, shapes_count=False)
            self.wait_turn(workload, turn)
            return
        if line.strict or len(line.class_of[workload.key]) != 2:
            self.pop(workload)
            self.requeue(
                workload, "NoFit", now, woken=False, has_untried=False, shapes_count=True, binds_larger=binds_larger
            )
            return
        line.bind(shape(workload), workload.queued_at)
        if binds_larger:
            self._park_larger(line, workload)

    def stick(self, workload: Workload) -> None:
        """It comes first in its line from now on; a strict line keeps its order (S-4.9)."""
        line = self.list_of(workload.queue)
        if not line.strict:
            self._log.put(line.sticky, "it", workload.key)

    def _park_larger(self, line: WaitingList, workload: Workload) -> None:
        """Those behind it who ask for no less get the same verdict: look at none of them (S-4.5.3)."""
        where = place(workload)
        behind = line.class_heads[bisect_left(line.class_heads, where) :]
        if not behind:
            return
        own, kin_of = shape(workload), line.class_of
        for each in dict.fromkeys([kin_of[front[-1]][0] for front in behind]):
            if is_at_least(each, own) and min(line.classes[kin][0] for kin in line.of_shape[each]) > where:
                line.bind(each, workload.queued_at)

    def keep_free(self, workload: Workload, standing: HeadReservation) -> None:
        self._kept_free = True
        self._log.put(self.list_of(workload.queue).reservations, workload.key, standing)

    def standing(self) -> dict[QueueName, dict[WorkloadKey, HeadReservation]]:
        """What is kept free for refused heads, queue by queue."""
        if not self._kept_free:
            return {}
        return {queue: dict(line.reservations) for queue, line in self.lists.items() if line.reservations}

    def end_standing_in(self, queue: QueueName) -> None:
        """A head of the queue is looked at: what was kept free for one before it is so no more (S-5.13)."""
        line = self.list_of(queue)
        for key in list(line.reservations) if line.reservations else ():
            self._log.drop(line.reservations, key)

    def end_standing(self) -> None:
        """Nothing is kept free any more for who is no longer first."""
        for queue, line in self.lists.items() if self._kept_free else ():
            for key in [key for key in line.reservations if key != self.first(queue)]:
                self._log.drop(line.reservations, key)

    def hold_back(self, workload: Workload) -> None:
        """It lost to what is kept free for another, and is due when that changes (S-5.1)."""
        line = self.list_of(workload.queue)
        self._log.put(line.refused, workload.key, None)
        self._log.put(line.held_back, workload.key, None)
        self._log.drop(line.judged, workload.key)  # it heard something else
        self.next_turns(workload)

    def free_again(self, queues: Iterable[QueueName], but: frozenset[WorkloadKey]) -> None:
        """What was kept free in the tree of these queues has changed: who lost to it is due, but for ``but``."""
        for queue in queues:
            line = self.list_of(queue)
            for key in [key for key in line.held_back if key not in but]:
                self._log.drop(line.held_back, key)
                self._log.drop(line.refused, key)

    def free_alone(self, workload: Workload) -> None:
        """What this one lost to has changed since: it is due."""
        line = self.list_of(workload.queue)
        self._log.drop(line.held_back, workload.key)
        self._log.drop(line.refused, workload.key)

    def block(self, workload: Workload) -> None:
        """It would be admitted, and waits until pods of other workloads are ready, with all behind it (S-5.7.12).

        Those behind it would hear the same, one after the other, whenever an admission begins to block again.
        """
        self._log.put(self.list_of(workload.queue).blocked, workload.key, None)

    def is_blocked(self, line: WaitingList, key: WorkloadKey) -> bool:
        """Whether it was found to wait for pods, and there are still pods to wait for."""
        return key in line.blocked and self._waits_for_pods()

    # --- waking ---

    def wake(
        self, queues: Iterable[QueueName], now: Millis, matches: Callable[[Workload], bool], *,
        lists_returned: bool = True, is_hopeless: Callable[[QueueName, Least], bool] | None = None,
    ) -> list[WorkloadKey]:  # fmt: skip
        """Parked workloads of these queues return to their lines, refused heads become due (S-4.6).

        Who returned is told only where somebody asks: they may be very many. ``is_hopeless`` says whether the verdict
        of all who rest in a line stands, whatever happened: then they go on resting.
        """
        returned: list[WorkloadKey] = []
        for queue in sorted(set(queues)):
            line = self.lists.get(queue)
            if line is None:
                continue
            self._due(line)
            if is_hopeless is not None and line.parked_classes and not line.parked_singly:
                least = line.least_of_parked()
                if least is not None and is_hopeless(queue, least):
                    continue
            self._log.put(line.wakes, "count", line.wakes.get("count", 0) + 1)
            for known in list(line.shapes) if line.shapes else ():
                self._log.drop(line.shapes, known)
                self._log.drop(line.turn_shapes, known)
            rising = _of_matching(line, matches)
            for kin in rising if lists_returned else ():
                returned += [where[-1] for where in line.classes[kin]]
            line.unpark(rising)
            for each in [line.members[key] for key in line.parked_singly]:
                if may_queue(each, now) and matches(each):
                    line.enter(each)
                    returned.append(each.key)
        return returned

    def due(self, queues: Iterable[QueueName]) -> None:
        """Refused workloads of these queues are worth another look; the parked ones are not."""
        for queue in queues:
            self._due(self.list_of(queue))

    def _due(self, line: WaitingList) -> None:
        for table in (line.refused, line.held_back, line.blocked):
            for key in list(table) if table else ():
                self._log.drop(table, key)
        for key in list(line.turns) if line.turns else ():
            self._log.drop(line.turns, key)

    def refuse(self, workload: Workload) -> None:
        """It is not looked at again before something happens, or ``due_again`` is called."""
        line = self.list_of(workload.queue)
        if workload.key in line.members and not line.is_parked(workload.key):
            self._log.put(line.refused, workload.key, None)

    def due_again(self, workload: Workload) -> None:
        """Something that concerns only this workload has changed."""
        self._log.drop(self.list_of(workload.queue).refused, workload.key)

    # --- turns and holds ---

    def wait_turn(self, workload: Workload, turn: Turn, *, shared: bool = False) -> None:
        """It displaces no equals before its turn (S-7.14); it was just refused.

        ``shared``: those behind it that look alike wait with it, for they would be told the same.
        """
        line = self.list_of(workload.queue)
        self._of_interest[workload.queue] = None
        self._log.put(line.turns, workload.key, turn)
        if shared and turn.behind is not None and workload.key in line.parked_singly and not line.has_options:
            self._log.put(line.turn_shapes, shape(workload), None)
            line.bind(shape(workload), workload.queued_at)

    def next_turns(self, workload: Workload) -> None:
        """A workload that others stood behind has changed, or waits no more: they are due (S-4.6.9)."""
        line = self.list_of(workload.queue)
        if line.turns:
            for key in [key for key, turn in line.turns.items() if turn.behind == workload.key]:
                self._end_turn(line, key)

    def turns_after_admission(self, queues: Collection[QueueName]) -> None:
        """Somebody was admitted in a tree: those that stand behind others in it are due, they only (S-4.6.9)."""
        for queue in self._of_interest if len(self._of_interest) < len(queues) else queues:
            line = self.lists.get(queue)
            if line is not None and line.turns and queue in queues:
                for key in [key for key, turn in line.turns.items() if turn.behind is not None]:
                    self._end_turn(line, key)

    def turns_come(self, queue: QueueName, now: Millis) -> None:
        """Those that waited because they were displaced by time are due, once they have waited long enough."""
        line = self.list_of(queue)
        come = [key for key, turn in line.turns.items() if turn.at is not None and now >= turn.at]
        for workload in sorted((line.members[key] for key in come), key=place):
            self._end_turn(line, workload.key, parked=not line.strict and line.binds(workload))

    def next_turn(self, queue: QueueName) -> Millis | None:
        """When ``turns_come`` has somebody to look at."""
        line = self.lists.get(queue)
        return None if line is None else min((t.at for t in line.turns.values() if t.at is not None), default=None)

    def _end_turn(self, line: WaitingList, key: WorkloadKey, *, parked: bool = False) -> None:
        self._log.drop(line.turns, key)
        self._log.drop(line.refused, key)
        self._log.drop(line.held_back, key)
        workload = line.members[key]
        if line.turn_shapes and shape(workload) in line.turn_shapes:
            line.unbind(shape(workload))
        if key in line.parked_singly:
            line.enter(workload, parked=parked)

    def entitle(self, workload: Workload, usage: Usage) -> None:
        """Only lent quota keeps it out: while it waits, what it asks for is not lent again (S-5.14)."""
        self._of_interest[workload.queue] = None
        self._log.put(self.list_of(workload.queue).entitled, workload.key, usage)

    def holds(self) -> dict[QueueName, tuple[WorkloadKey, Usage]]:
        """By queue, the first that is entitled, and what it asks for."""
        found = {}
        for queue in self._of_interest:
            line = self.lists.get(queue)
            if line is not None and line.entitled:
                sticky = line.sticky.get("it")
                first = min(line.entitled, key=lambda key: (key != sticky, place(line.members[key])))
                found[queue] = (first, line.entitled[first])
        return found

    def contents(self) -> object:
        return {queue: line.contents() for queue, line in sorted(self.lists.items())}


def _of_matching(line: WaitingList, matches: Callable[[Workload], bool]) -> list[EquivalenceClass]:
    """Kin at rest whose namespace may use the queue; kin of one namespace need not be asked about twice."""
    may: dict[str, bool] = {}
    for kin in line.parked_classes:
        if kin[1] not in may:
            may[kin[1]] = matches(line.members[line.classes[kin][0][-1]])
    return [kin for kin in line.parked_classes if may[kin[1]]]
