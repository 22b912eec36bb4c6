"""When queues and their workloads are reconciled because of a time, and when queues are woken (S-4.6, 4.7)."""

from __future__ import annotations

from makeway.controllers.contract import Ref
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.queueing.waking import after_expiry, next_expiry
from makeway.runtime.scheduling.unevaluated import Unevaluated
from makeway.runtime.steps.context import StepContext
from makeway.runtime.steps.deadlines import Deadlines
from makeway.runtime.workqueue import Timers


class QueueTimers:
    """Timers of queues whose holders or spans change, and of workloads that back off."""

    def __init__(self, context: StepContext, figures_ms: int) -> None:
        """``figures_ms``: the figures of a queue change often; it is reconciled for them at most so often."""
        self._context = context
        self._figures_ms = figures_ms
        self._expiries: Timers[QueueName] = Timers()
        self._turns: Timers[QueueName] = Timers()  # queues in which a workload may displace its equals again
        self._backoffs: Timers[WorkloadKey] = Timers()
        self._figures: Timers[Ref] = Timers()  # queues to be reconciled because of their figures
        self._figured: dict[Ref, Millis] = {}  # when that was last

    def register(self, deadlines: Deadlines) -> None:
        deadlines.add_timers(self._expiries, self._expired)
        deadlines.add_timers(self._turns, self._turn_came)
        deadlines.add_timers(self._backoffs, self._context.updates.places.back_off_ended)
        deadlines.add_timers(self._figures, self._reconcile)

    def _expired(self, queue: QueueName) -> None:
        follow_ups = self._context.updates.follow_ups
        follow_ups.woken.update(after_expiry(self._context.state, queue))
        follow_ups.held.add(queue)

    def _turn_came(self, queue: QueueName) -> None:
        self._context.state.pending.list_of(queue).turns.end_at(self._context.now)
        self._context.updates.follow_ups.held.add(queue)

    def _reconcile(self, ref: Ref) -> None:
        self._figured[ref] = self._context.now
        self._context.updates.follow_ups.enqueue(ref)

    def arm(self) -> None:
        """Set the timers of all that has changed."""
        state, follow_ups = self._context.state, self._context.updates.follow_ups
        for queue in sorted(follow_ups.held):
            known = queue in state.queues
            self._expiries.set(queue, next_expiry(state, queue, self._context.now) if known else None)
            self._turns.set(queue, state.pending.list_of(queue).turns.next_at() if known else None)
        follow_ups.held.clear()
        for key, at in follow_ups.backoffs.items():
            self._backoffs.set(key, at)
        follow_ups.backoffs.clear()
        for ref in follow_ups.figures:
            self._pace(ref)
        follow_ups.figures.clear()

    def _pace(self, ref: Ref) -> None:
        """Its figures have changed: reconcile it, but at most once per ``figures_ms``."""
        last = self._figured.get(ref)
        if last is not None and self._context.now - last < self._figures_ms:
            stored = self._context.view.get(ref)
            if stored is None or stored.metadata.deletion_timestamp is None:
                self._figures.set(ref, Millis(last + self._figures_ms))
                return
        self._figures.set(ref, None)
        self._reconcile(ref)


class Wakes:
    """Wakes are gathered, and executed at the end of the step or of their interval (S-4.6)."""

    def __init__(self, context: StepContext, unevaluated: Unevaluated) -> None:
        self._context = context
        self._unevaluated = unevaluated
        self._at: Millis | None = None  # the end of the interval that is running

    def next_at(self) -> Millis | None:
        return self._at

    def work(self) -> None:
        state, follow_ups, now = self._context.state, self._context.updates.follow_ups, self._context.now
        if not follow_ups.woken and not follow_ups.released:
            return
        interval = state.policy.wake_batch_interval_ms
        if self._at is None and interval:
            self._at = Millis(now + interval)
        if self._at is not None and now < self._at:
            return
        released = follow_ups.released - follow_ups.woken
        self._unevaluated.stir(follow_ups.released | follow_ups.woken, now)
        if released:
            state.wake_after_release(released, now)
        if follow_ups.woken:
            state.pending.wake(follow_ups.woken, now, state.namespace_matches, lists_returned=False)
        follow_ups.woken.clear()
        follow_ups.released.clear()
        self._at = None
