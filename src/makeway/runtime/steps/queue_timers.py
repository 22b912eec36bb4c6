"""When queues and their workloads are looked at because of a time, and when queues are woken (S-4.6, 4.7)."""

from __future__ import annotations

from makeway.controllers.contract import Ref
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.queueing.waking import after_expiry, next_expiry
from makeway.runtime.scheduling.resting import Resting
from makeway.runtime.steps.context import StepContext
from makeway.runtime.steps.deadlines import Deadlines
from makeway.runtime.workqueue import Timers


class QueueTimers:
    """Timers of queues whose holders or spans change, and of workloads that back off."""

    def __init__(self, context: StepContext, figures_ms: int) -> None:
        """``figures_ms``: who holds and waits in a queue changes often; it is looked at at most so often for that."""
        self._context = context
        self._figures_ms = figures_ms
        self._expiries: Timers[QueueName] = Timers()
        self._turns: Timers[QueueName] = Timers()  # queues in which a workload may displace its equals again
        self._backoffs: Timers[WorkloadKey] = Timers()
        self._figures: Timers[Ref] = Timers()  # queues to be looked at because of their figures
        self._figured: dict[Ref, Millis] = {}  # when that was last

    def register(self, deadlines: Deadlines) -> None:
        deadlines.add_timers(self._expiries, self._expired)
        deadlines.add_timers(self._turns, self._turn_came)
        deadlines.add_timers(self._backoffs, self._context.updates.back_off_ended)
        deadlines.add_timers(self._figures, self._look)

    def _expired(self, queue: QueueName) -> None:
        updates = self._context.updates
        updates.woken.update(after_expiry(self._context.state, queue))
        updates.held.add(queue)

    def _turn_came(self, queue: QueueName) -> None:
        self._context.state.pending.turns_come(queue, self._context.now)
        self._context.updates.held.add(queue)

    def _look(self, ref: Ref) -> None:
        self._figured[ref] = self._context.now
        self._context.updates.enqueue(ref)

    def arm(self) -> None:
        """Set the timers of all that has changed."""
        state, updates = self._context.state, self._context.updates
        for queue in sorted(updates.held):
            known = queue in state.queues
            self._expiries.set(queue, next_expiry(state, queue, self._context.now) if known else None)
            self._turns.set(queue, state.pending.next_turn(queue) if known else None)
        updates.held.clear()
        for key, at in updates.backoffs.items():
            self._backoffs.set(key, at)
        updates.backoffs.clear()
        for ref in updates.figures:
            self._pace(ref)
        updates.figures.clear()

    def _pace(self, ref: Ref) -> None:
        """Its figures have changed: look at it, but no more often than that makes sense to anybody."""
        last = self._figured.get(ref)
        if last is not None and self._context.now - last < self._figures_ms:
            stored = self._context.view.get(ref)
            if stored is None or stored.metadata.deletion_timestamp is None:
                self._figures.set(ref, Millis(last + self._figures_ms))
                return
        self._figures.set(ref, None)
        self._look(ref)


class Wakes:
    """Wakes are gathered, and executed at the end of the step or of their interval (S-4.6)."""

    def __init__(self, context: StepContext, resting: Resting) -> None:
        self._context = context
        self._resting = resting
        self._at: Millis | None = None  # the end of the interval that is running

    def next_at(self) -> Millis | None:
        return self._at

    def work(self) -> None:
        state, updates, now = self._context.state, self._context.updates, self._context.now
        if not updates.woken and not updates.released:
            return
        interval = state.policy.wake_batch_interval_ms
        if self._at is None and interval:
            self._at = Millis(now + interval)
        if self._at is not None and now < self._at:
            return
        released = updates.released - updates.woken
        self._resting.stir(updates.released | updates.woken, now)
        if released:
            state.wake_after_release(released, now)
        if updates.woken:
            state.pending.wake(updates.woken, now, state.namespace_matches, lists_returned=False)
        updates.woken.clear()
        updates.released.clear()
        self._at = None
