"""One step of the engine, the same under every driver: answers, changes, timers, and what is decided.

A step takes in the answers to writes and the changes of objects, lets controllers reconcile the objects concerned,
wakes the queues that may gain from it, and carries out at most one scheduling cycle. It never waits. The driver calls
it again until nothing happens any more, and then at ``next_at``, or when the Store has news.

Promises: equal Stores, times and policies give equal journals, byte for byte; without news and timers nothing is done.

Not here: what the parts of a step do (``steps``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from makeway.api.objects.meta import KubernetesObject
from makeway.api.versions import Kind
from makeway.controllers.contract import Action, Controller, Note, Ref, departure_of
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.runtime.executor import DirectWriter, Executor, Writer
from makeway.runtime.informers import INFORMERS, Informers
from makeway.runtime.journal import DecisionJournal
from makeway.runtime.journal_lines import JournalKeeper
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.objects import ObjectCache
from makeway.runtime.ports import Store
from makeway.runtime.set_aside import Probe, SetAside, Tolerates, nothing
from makeway.runtime.state_updates import StateUpdater
from makeway.runtime.steps.context import StepContext
from makeway.runtime.steps.deadlines import Deadlines
from makeway.runtime.steps.observers import Departed, NoteKeeper, Observer, Observers
from makeway.runtime.steps.queue_timers import QueueTimers, Wakes
from makeway.runtime.steps.reconciler import Reconciler
from makeway.runtime.steps.scheduler import Scheduler
from makeway.runtime.steps.view import EngineView

NOTES_MAX = 10_000
FIGURES_MS = 1000  # the workloads of a queue change often; its controller is notified at most so often
COUNTING = "metrics"  # the part that may give up on an object here


class Engine:
    """Everything that decides, over one Store."""

    def __init__(
        self, store: Store, policy: Policy, controllers: Sequence[Controller], *, writer: Writer | None = None,
        journal: DecisionJournal | None = None, metrics: MetricsRegistry | None = None, figures_ms: int = FIGURES_MS,
        kinds: Sequence[Kind] | None = None, stopwatch: Callable[[], float] = lambda: 0.0,
        tolerates: Tolerates = nothing, probe: Probe | None = None,
    ) -> None:  # fmt: skip
        """``stopwatch``: seconds of the machine, for measuring; only figures depend on it.

        ``tolerates``: errors that set one object aside (0081); any other ends the step.

        ``probe``: see ``StateUpdater``.
        """
        self.state = State(policy)
        self.notes: deque[Note] = deque(maxlen=NOTES_MAX)  # events, until a recorder takes them; the oldest are lost
        self.journal = DecisionJournal(policy) if journal is None else journal
        self.metrics = metrics
        self.set_aside = SetAside(self.notes, metrics, tolerates)
        self.updates = StateUpdater(self.state, self.set_aside, probe)
        self.objects = ObjectCache(self._stored, self.updates.changed, self._gave_up)
        self.updates.follow(self.objects)
        self.view = EngineView(self.state, self.objects)
        self.informers = Informers(store, self.objects, kinds)
        self.executor = Executor(writer or DirectWriter(store), self.objects, self._answered, kinds)
        observers: list[Observer] = [JournalKeeper(self.journal), NoteKeeper(self.notes)]
        if metrics is not None:
            observers += metrics.observers(self.view)
        self._observer = Observers(observers)
        self._context = StepContext(
            self.state, self.view, self.updates, self.executor, self.set_aside, self._observer, stopwatch, probe
        )
        self._reconciler = Reconciler(self._context, controllers)
        self.scheduler = Scheduler(self._context, self._reconciler)
        self._queue_timers = QueueTimers(self._context, figures_ms)
        self._wakes = Wakes(self._context, self.scheduler.plans.unevaluated)
        self._deadlines = self._all_deadlines()
        self._has_begun = False

    def _all_deadlines(self) -> Deadlines:
        """Everything that happens at a time, in the order in which it is done; the scheduler's work comes last."""
        deadlines = Deadlines()
        deadlines.await_only(self.executor.next_at)
        deadlines.await_only(self.informers.next_at)
        self._reconciler.register(deadlines, refused=self.scheduler.note_waiting)
        self._queue_timers.register(deadlines)
        deadlines.await_only(self._wakes.next_at)
        return deadlines

    def step(self, now: Millis) -> bool:
        """Do what there is to do at ``now``; return whether there was anything."""
        self._context.begin(now)
        happened = self.executor.work(now) + self.informers.poll(now)
        if not self._has_begun:
            self.updates.configure()
            if not self.informers.are_complete:
                return bool(happened)  # with half of the objects unknown, quota that others hold would be given away
            self._has_begun = True
            self.scheduler.register(self._deadlines)
            self.scheduler.claims.check()
        happened += self._deadlines.work(now)
        self.updates.configure()
        happened += self._reconciler.react()
        happened += self.executor.work(now)  # what is stored by now counts for the cycle: a queue may be gone
        self.updates.configure()
        self._follow_up()
        self._wakes.work()
        self.scheduler.pause_unadmitted()
        turn = self.scheduler.cycle()
        if turn == "decided":
            self._follow_up()
        happened += self.scheduler.tell_unevaluated() if turn == "idle" else 1
        return bool(happened) or self._reconciler.has_more

    def next_at(self) -> Millis | None:
        """The next time at which something is due, if nothing happens before."""
        return self._deadlines.next_at()

    @property
    def now(self) -> Millis:
        """The time of the last step."""
        return self._context.now

    @property
    def is_quiet(self) -> bool:
        """Whether no write is under way."""
        return self.executor.under_way == 0

    @property
    def cycles(self) -> int:
        return self.scheduler.cycles

    @property
    def decisions(self) -> int:
        return self.scheduler.decisions

    # --- what the parts of a step tell each other ---

    def _follow_up(self) -> None:
        """Heed what changes have left to do: timers are set anew, and statuses may have to say something else."""
        self._observer.queues_changed(self.updates.follow_ups.held)
        self._queue_timers.arm()
        self.scheduler.note_changes()

    def _gave_up(self, ref: Ref, part: str, error: Exception | None) -> None:
        if error is None:
            self._context.handled(ref, part)
        else:
            self._context.gave_up(ref, part, error, again=part != INFORMERS)

    def _stored(self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        """A newer state of an object is known."""
        self.updates.stored(ref, before, after)
        if self.set_aside:
            self.set_aside.changed(ref)
        try:
            self._observer.stored(ref, before, after, has_begun=self._has_begun)
            self.scheduler.note_waiting(ref)
        except Exception as error:
            self._gave_up(ref, COUNTING, error)
        if after is None and self.set_aside:
            self.set_aside.forget(ref)
        if ref.kind == "Workload" and after is None:
            self.scheduler.forget(ref.key)
            self._reconciler.forget(ref)

    def _answered(self, action: Action, stored: bool) -> None:
        """A write is stored, or never will be."""
        self._reconciler.answered(action.write, stored)
        if not stored:
            self._observer.failed(action, self.now)
        self.scheduler.answered(action, stored)
        if not stored:
            return
        self._observer.wrote(action, self.now)
        why = departure_of(action.write)
        if why is not None:
            preemptor = None if action.by is None else self.updates.places.find(action.by)
            departed = Departed(action, why, self.objects.get(action.write.ref), preemptor)
            self._observer.departed(departed, self.now)
