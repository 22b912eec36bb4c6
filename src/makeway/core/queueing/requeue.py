"""How a workload enters its waiting list: when it arrives, and when its cycle is over (S-4.5, S-4.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from makeway.core.model import Millis, Workload, WorkloadKey
from makeway.core.queueing.equivalence import shape
from makeway.core.queueing.standing import Trigger
from makeway.core.queueing.turn_waits import Turn
from makeway.core.queueing.waiting_list import WaitingList, may_queue

Requeue = Literal[
    "NamespaceMismatch", "Generic", "NoFit", "PreemptionNoCandidates", "PreemptionGated", "PendingPreemption",
    "PendingMigration", "PreemptionFailed", "FailedAfterNomination", "SiblingRuns",
]  # fmt: skip
PARKING: frozenset[Requeue] = frozenset(
    {"NamespaceMismatch", "Generic", "NoFit", "PreemptionNoCandidates", "PreemptionGated"}
)
SHAPE_MOVING: frozenset[Requeue] = frozenset({"NoFit", "PreemptionNoCandidates"})
STICKY: frozenset[Requeue] = frozenset({"PendingPreemption", "PendingMigration"})


@dataclass(frozen=True, slots=True)
class HeadReturn:
    """How a head goes back to its list after its cycle."""

    reason: Requeue
    woken: bool = False  # the queue was woken since it was taken out
    has_untried: bool = False  # it has flavors left to try
    binds_shape: bool = True  # workloads of its shape would get the same verdict
    binds_larger: bool = False  # as would all behind it that ask for as much or more
    held_back: bool = False  # it lost to what is kept free for another
    blocked: bool = False  # it waits until pods of others are ready, with all behind it

    @property
    def trigger(self) -> Trigger | None:
        """The trigger of its transition in the queue."""
        if self.held_back:
            return Trigger.HOLD_BACK
        if self.blocked:
            return Trigger.BLOCK
        is_due = self.reason == "FailedAfterNomination" or self.has_untried or self.woken
        return None if is_due else Trigger.REFUSE

    def parks(self, *, strict: bool) -> bool:
        """Whether it is parked for its reason."""
        if self.woken or self.has_untried:
            return False
        return self.reason == "NamespaceMismatch" or (self.reason in PARKING and not strict)


def arrive(waiting_list: WaitingList, workload: Workload, now: Millis, *, shapes_count: bool = True) -> None:
    """A workload arrives, or changed so that it is evaluated again."""
    waiting_list.leave(workload.key)
    if not may_queue(workload, now):
        waiting_list.park_singly(workload)
    else:
        waiting_list.enter(workload, parked=shapes_count and waiting_list.verdicts.binds(workload))
    waiting_list.turns.end_behind(workload.key)


def pop(waiting_list: WaitingList, key: WorkloadKey) -> None:
    """A head leaves the queue to be evaluated; the list remembers that it was found too large before."""
    if waiting_list.is_in_queue(key):
        was_judged = key in waiting_list.judged
        waiting_list.leave(key)
        if was_judged:
            waiting_list.log.put(waiting_list.judged, key, None)


def requeue(waiting_list: WaitingList, workload: Workload, how: HeadReturn, now: Millis) -> bool:
    """Put a head back after its cycle; returns whether it is parked. One that was not taken out stays."""
    key = workload.key
    if waiting_list.is_in_queue(key):
        return False
    was_judged = key in waiting_list.judged
    waiting_list.leave(key)
    if how.reason in STICKY:
        waiting_list.stick(key)
    stays_judged = was_judged and how.reason == "FailedAfterNomination" and not how.held_back
    if how.reason in SHAPE_MOVING or stays_judged:
        waiting_list.log.put(waiting_list.judged, key, None)
    if may_queue(workload, now) and not how.parks(strict=waiting_list.strict):
        waiting_list.enter(workload)
        if how.trigger is not None:
            waiting_list.happen(how.trigger, key)
    elif how.reason in SHAPE_MOVING and how.binds_shape and not waiting_list.strict:
        _park_with_shape(waiting_list, workload, how, now)
    else:
        waiting_list.park_singly(workload)
    if how.held_back:
        waiting_list.turns.end_behind(key)
    return waiting_list.is_parked(key)


def _park_with_shape(waiting_list: WaitingList, workload: Workload, how: HeadReturn, now: Millis) -> None:
    """Park all workloads of a shape for the verdict; one that backs off is itself parked for that."""
    waiting_list.verdicts.bind(shape(workload), workload.queued_at)
    if may_queue(workload, now):
        waiting_list.enter(workload, parked=True)
    else:
        waiting_list.park_singly(workload)
    if how.binds_larger:
        waiting_list.verdicts.bind_larger(workload)


def pass_over(
    waiting_list: WaitingList, workload: Workload, now: Millis, *, binds_larger: bool, turn: Turn | None = None
) -> None:
    """A head is not evaluated, as the verdict would be the same: it is too large, and no workload can leave for it.

    ``turn``: it was displaced by time, so the verdict is about this workload only.
    """
    if turn is None and not waiting_list.strict and len(waiting_list.classes.of[workload.key]) == 2:
        waiting_list.verdicts.bind(shape(workload), workload.queued_at)
        if binds_larger:
            waiting_list.verdicts.bind_larger(workload)
        return
    pop(waiting_list, workload.key)
    binds_shape = turn is None
    how = HeadReturn("NoFit", binds_shape=binds_shape, binds_larger=binds_larger and binds_shape)
    requeue(waiting_list, workload, how, now)
    if turn is not None:
        waiting_list.turns.wait(workload, turn)
