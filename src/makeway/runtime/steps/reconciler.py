"""Controllers reconcile objects, and their answers are carried out.

An object is reconciled when it or one that concerns it has changed, when its write is answered, and when a controller
asked for that time. While a write of it is under way it is not reconciled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from makeway.controllers.contract import Controller, Create, Outcome, Ref, Write
from makeway.core.model import Millis
from makeway.runtime.steps.context import StepContext
from makeway.runtime.steps.deadlines import Deadlines
from makeway.runtime.workqueue import ReconcileQueue, Timers, backoff_ms

RECONCILES_PER_STEP = 1000


class _Registered(NamedTuple):
    """A controller of a kind; ``part`` is its name where it gives up on an object."""

    number: int
    controller: Controller
    part: str


class Reconciler:
    def __init__(self, context: StepContext, controllers: Sequence[Controller]) -> None:
        self._context = context
        self._controllers: dict[str, list[_Registered]] = {}
        for number, controller in enumerate(controllers):
            for kind in sorted(controller.kinds):
                known = _Registered(number, controller, f"controllers.{type(controller).__name__}")
                self._controllers.setdefault(kind, []).append(known)
        self._queue: ReconcileQueue[Ref] = ReconcileQueue()
        self._put_off: dict[Ref, dict[Ref, None]] = {}  # object with a write under way -> objects that want another
        self._later: Timers[tuple[int, Ref]] = Timers()
        self._at_latest: Timers[tuple[int, Ref]] = Timers()  # the engine does not wake for these
        self._refused: Timers[Ref] = Timers()  # objects whose write the Store refused: reconciled again after a pause

    def register(self, deadlines: Deadlines, refused: Callable[[Ref], None]) -> None:
        """``refused`` is called, too, with an object whose write was refused, when its pause is over."""
        enqueue = self._context.updates.follow_ups.enqueue
        deadlines.add_timers(self._later, lambda asked: enqueue(asked[1]))
        deadlines.add_timers(self._at_latest, lambda asked: enqueue(asked[1]), awaited=False)
        deadlines.add_timers(self._context.set_aside, self._context.updates.try_again)

        def look_again(ref: Ref) -> None:
            enqueue(ref)
            refused(ref)

        deadlines.add_timers(self._refused, look_again)

    @property
    def is_idle(self) -> bool:
        """Whether no object waits to be reconciled."""
        return not self._queue and not self._context.updates.follow_ups.enqueued

    @property
    def has_more(self) -> bool:
        """Whether the last step had no time for all objects."""
        return len(self._queue) > 0

    def react(self) -> int:
        """Reconcile objects that are due, but not too many, because other work waits; return how many there were."""
        context = self._context
        enqueued, executor = context.updates.follow_ups.enqueued, context.executor
        count = 0
        while count < RECONCILES_PER_STEP:
            for ref in enqueued:
                if ref.kind in self._controllers:
                    self._queue.add(ref)
            enqueued.clear()
            if not len(self._queue):
                break
            ref = self._queue.take()
            if executor.is_busy(ref):
                continue  # it is reconciled when its write is answered
            count += 1
            for known in self._controllers[ref.kind]:
                self._look(known, ref)
        return count

    def _look(self, known: _Registered, ref: Ref) -> None:
        context = self._context
        began = context.stopwatch()
        try:
            if context.probe is not None:
                context.probe(known.part, ref)
            outcome = known.controller.react(ref, context.view, context.now)
        except Exception as error:  # its whole answer is dropped
            context.gave_up(ref, known.part, error)
            return
        seconds = context.stopwatch() - began if outcome.attempts else 0.0
        if outcome.troubles or context.set_aside:
            self._heed_troubles(ref, known.part, outcome)
        self._apply(known.number, ref, outcome, seconds)

    def _heed_troubles(self, ref: Ref, part: str, outcome: Outcome) -> None:
        for trouble in outcome.troubles:
            self._context.gave_up(trouble.about, part, trouble.error)
        if all(trouble.about != ref for trouble in outcome.troubles):
            self._context.handled(ref, part)

    def _apply(self, number: int, ref: Ref, outcome: Outcome, seconds: float) -> None:
        context = self._context
        if outcome.again_at is not None or self._later:  # mostly there is no timer to set or to stop
            self._later.set((number, ref), outcome.again_at)
        if outcome.at_latest is not None or self._at_latest:
            self._at_latest.set((number, ref), outcome.at_latest)
        for other in outcome.enqueue:
            context.updates.follow_ups.enqueue(other)
        if outcome.notes or outcome.placings or outcome.attempts:
            context.observer.reconciled(outcome, seconds, context.now)
        for action in outcome.actions:
            if context.executor.is_busy(action.write.ref):
                self._put_off.setdefault(action.write.ref, {})[ref] = None
            else:
                context.submit(action)

    def answered(self, write: Write, stored: bool) -> None:
        """Reconcile the object again, and the owners of one that could not be made; after a pause, if refused."""
        context = self._context
        again = [write.ref, *self._put_off.pop(write.ref, ())]
        if isinstance(write, Create) and not stored:
            meta = write.body.metadata
            again += [Ref.named(owner.kind, meta.namespace, owner.name) for owner in meta.owner_references]
        refusals = 0 if stored else context.executor.refusals.get(write.ref, 0)
        for ref in again:
            if refusals:
                self._refused.set(ref, Millis(context.now + backoff_ms(refusals)))
            else:
                context.updates.follow_ups.enqueue(ref)

    def forget(self, ref: Ref) -> None:
        """The object is gone: its timers stop."""
        for known in self._controllers.get(ref.kind, ()):
            self._later.set((known.number, ref), None)
