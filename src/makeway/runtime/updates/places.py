"""Where the state has a workload, and the moves from place to place (S-3.7).

A workload has one of three places: absent, waiting in its queue, or among the holders of quota. A change of its object
is handled by where it is and where it belongs; ``_MOVES`` has all nine cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from makeway.api.objects.workload import Workload as WireWorkload
from makeway.controllers.contract import Ref
from makeway.core.lowering import is_worth_a_look
from makeway.core.model import QueueName, Workload, WorkloadKey
from makeway.core.queueing import waking
from makeway.core.queueing.pending import may_queue
from makeway.runtime.updates.comparing import is_blameless, is_same_shape
from makeway.runtime.updates.context import UpdateContext

Place = Literal["absent", "waiting", "holding"]


def place_of(known: Workload | None) -> Place:
    """The place of a workload that the state knows, or does not know."""
    if known is None:
        return "absent"
    return "waiting" if known.usage is None else "holding"


class Move(NamedTuple):
    """A Workload whose object has changed."""

    ref: Ref[WireWorkload]
    before: WireWorkload | None
    after: WireWorkload | None
    known: Workload | None  # as the state has it
    lowered: Workload | None  # what its object is lowered to now

    @property
    def old(self) -> Workload:
        """The workload as the state has it, where it is not absent."""
        assert self.known is not None
        return self.known

    @property
    def new(self) -> Workload:
        """The workload that its object is lowered to, where it does not belong to the absent."""
        assert self.lowered is not None
        return self.lowered


class WorkloadPlaces:
    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._follow_ups = context.follow_ups
        self._state = context.state
        self._where: dict[WorkloadKey, QueueName] = {}  # the queue in which a workload waits or holds quota

    def find(self, key: WorkloadKey) -> Workload | None:
        """A workload as the state has it, waiting or holding."""
        queue = self._where.get(key)
        if queue is None:
            return None
        held = self._state.holders.find(queue, key)
        if held is not None:
            return held
        return self._state.pending.list_of(queue).members.get(key)

    def queue_of(self, key: WorkloadKey) -> QueueName | None:
        """The queue in which it waits or holds quota."""
        return self._where.get(key)

    def put_back(self, key: WorkloadKey, queue: QueueName | None) -> None:
        """The state has undone its change of a workload, which is again in this queue."""
        if queue is None:
            self._where.pop(key, None)
        else:
            self._where[key] = queue

    def move(self, move: Move, belongs: Place) -> None:
        """Put a workload where it belongs."""
        _MOVES[place_of(move.known), belongs](self, move)

    def moved(self, workload: Workload) -> None:
        """The state has moved a workload by itself: it now waits or holds quota in its queue."""
        self._where[workload.key] = workload.queue
        self._follow_ups.note_held(workload)

    def passed(self, workload: Workload) -> None:
        """It was passed over: the numbers of waiting and parked workloads may have changed."""
        self._follow_ups.note_figures(workload)
        if self._state.pending.list_of(workload.queue).turns.of:
            self._follow_ups.held.add(workload.queue)  # the time when it may displace equals changes

    def back_off_ended(self, key: WorkloadKey) -> None:
        """Its backoff is over: just this workload returns to the queue (S-4.7)."""
        known = self.find(key)
        if known is not None and known.usage is None and key in self._state.pending.list_of(known.queue).parked:
            self._state.push(known, self._context.now)

    def forget(self, known: Workload) -> None:
        """Remove a workload from the state."""
        if place_of(known) == "holding":
            self._release(known)
        else:
            self._state.forget(known, self._context.now)
        self._where.pop(known.key, None)
        self._follow_ups.note_held(known)

    def _release(self, known: Workload) -> None:
        """It holds quota no more; release and wake are one step (S-3.7)."""
        self._state.release(known, self._context.now)
        self._follow_ups.released.update(waking.after_release(self._state, known.queue))
        self._follow_ups.note_held(known)

    # --- the nine moves ---

    def _stay_absent(self, move: Move) -> None:
        pass

    def _join(self, move: Move) -> None:
        self._state.push(move.new, self._context.now)
        self._waits(move)

    def _begin_to_hold(self, move: Move) -> None:
        if move.known is not None:
            self._state.pending.forget(move.known)
        self._state.hold(move.new)
        self.moved(move.new)

    def _wait_on(self, move: Move) -> None:
        state, known, lowered = self._state, move.old, move.new
        before, after = move.before, move.after
        if known.queue != lowered.queue:
            state.forget(known, self._context.now)
            self._follow_ups.note_held(known)
            state.push(lowered, self._context.now)
        elif before is None or after is None:
            state.push(lowered, self._context.now)
        elif is_worth_a_look(before, after, state.policy) or known.claim != lowered.claim:
            state.push(lowered, self._context.now)
            if not is_same_shape(before, after):
                state.rounds.end_for(lowered)
        else:
            state.pending.refresh(lowered)
        self._waits(move)

    def _leave_queue(self, move: Move) -> None:
        self.forget(move.old)

    def _hold_on(self, move: Move) -> None:
        state, known, lowered = self._state, move.old, move.new
        if known.queue == lowered.queue and known.usage == lowered.usage:
            state.holders.renew(known, lowered)
            state.note_leaving(lowered)
        else:
            state.release(known, self._context.now)
            state.hold(lowered)
        if known.usage != lowered.usage or known.priority != lowered.priority:
            self._follow_ups.wake(waking.after_shrinking(state, lowered.queue))
            self._follow_ups.wake(waking.after_shrinking(state, known.queue))
            state.rounds.end_for(lowered)
        self.moved(lowered)

    def _wait_again(self, move: Move) -> None:
        self._release(move.old)
        if move.after is not None and is_blameless(move.after):
            self._state.rounds.end_for(move.new)
        self._state.push(move.new, self._context.now)
        self._waits(move)

    def _give_quota_back(self, move: Move) -> None:
        known = move.old
        self.forget(known)
        if move.after is not None and is_blameless(move.after):
            self._state.rounds.end_for(known)

    def _waits(self, move: Move) -> None:
        new = move.new
        waits_for_nothing = may_queue(new, self._context.now) or new.backing_off
        self._follow_ups.backoffs[new.key] = None if waits_for_nothing else new.requeue_at
        self.moved(new)


_MOVES: dict[tuple[Place, Place], Callable[[WorkloadPlaces, Move], None]] = {
    # where it is, where it belongs
    ("absent", "absent"): WorkloadPlaces._stay_absent,
    ("absent", "waiting"): WorkloadPlaces._join,
    ("absent", "holding"): WorkloadPlaces._begin_to_hold,
    ("waiting", "absent"): WorkloadPlaces._leave_queue,
    ("waiting", "waiting"): WorkloadPlaces._wait_on,
    ("waiting", "holding"): WorkloadPlaces._begin_to_hold,
    ("holding", "absent"): WorkloadPlaces._give_quota_back,
    ("holding", "waiting"): WorkloadPlaces._wait_again,
    ("holding", "holding"): WorkloadPlaces._hold_on,
}
