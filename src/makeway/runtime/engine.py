"""One step of the engine, the same under every driver: what was answered, what changed, who is due, what is decided.

A step takes in the answers to writes and the changes of objects, lets the controllers look at whom that concerns,
wakes the queues that may gain from it, and carries out at most one scheduling cycle. It never waits: whoever drives it
calls it again until nothing happens any more, and then at ``next_at``, or when the Store has news.

Promises: equal Stores, times and policies give equal journals, byte for byte; without news and timers nothing is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from makeway.api.versions import Kind
from makeway.controllers.contract import (
    Action,
    Change,
    Controller,
    Create,
    Note,
    Outcome,
    Ref,
    Write,
    workload_ref,
)
from makeway.controllers.pods.edits import PREEMPTED, Disrupt, whose
from makeway.controllers.workloads.edits import TellWhyWaiting
from makeway.controllers.workloads.eviction import Evict, holds_quota, says
from makeway.core.cycle.cycle import Heads, Plan, Verdict
from makeway.core.model import Millis, QueueName, Workload, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.preemption import claims
from makeway.core.queueing.standing import Trigger
from makeway.core.queueing.waking import after_expiry, next_expiry
from makeway.core.state import State
from makeway.runtime.executor import DirectWriter, Executor, Writer
from makeway.runtime.informers import INFORMERS, Informers
from makeway.runtime.journal import DecisionJournal
from makeway.runtime.journal_lines import note_placing, note_verdict
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.metrics.tally import TransitionTally
from makeway.runtime.objects import ObjectCache
from makeway.runtime.ports import Store
from makeway.runtime.scheduling.cycles import carried_out, in_trouble
from makeway.runtime.scheduling.plans import PlanWriter, Reserve
from makeway.runtime.set_aside import REASON, Probe, SetAside, Tolerates, nothing, words
from makeway.runtime.state_updates import CYCLE, LOWERING, StateUpdater
from makeway.runtime.workqueue import ReconcileQueue, Timers, backoff_ms

LOOKS_PER_STEP = 1000
TURNS_PER_STEP = 1000  # of heads that are only passed over
NOTES_MAX = 10_000
FIGURES_MS = 1000  # who holds and waits in a queue changes often; its controller is told at most so often
COUNTING, TELLING = "metrics", "controllers.Scheduling"  # who may give up on an object here
PARITY_PAUSES_MS = (1, 2, 4, 8, 10)  # between cycles without an admission (S-5.1)


class Engine:
    """Everything that decides, over one Store. It is also the ``View`` that controllers read."""

    def __init__(
        self, store: Store, policy: Policy, controllers: Sequence[Controller], *, writer: Writer | None = None,
        journal: DecisionJournal | None = None, metrics: MetricsRegistry | None = None, figures_ms: int = FIGURES_MS,
        kinds: Sequence[Kind] | None = None, stopwatch: Callable[[], float] = lambda: 0.0,
        tolerates: Tolerates = nothing, probe: Probe | None = None,
    ) -> None:  # fmt: skip
        """``tolerates``: errors that set one object aside (0081); any other ends the step.

        ``probe``: see ``StateUpdater``.
        """
        self._figures_ms = figures_ms
        self._stopwatch = stopwatch  # seconds; only figures depend on it
        self._figures: Timers[Ref] = Timers()  # queues to be looked at because of their figures
        self._figured: dict[Ref, Millis] = {}  # when that was last
        self._policy = policy
        self._tally = None if metrics is None else TransitionTally(metrics, self)
        self._state = State(policy)
        self.notes: deque[Note] = deque(maxlen=NOTES_MAX)  # events for whoever passes them on; the oldest are lost
        self.set_aside = SetAside(self.notes, metrics, tolerates)
        self._probe = probe
        self.updates = StateUpdater(self._state, self.set_aside, probe)
        self.objects = ObjectCache(self._on_stored, self.updates.changed, self._gave_up)
        self.updates.objects = self.objects
        self.journal = DecisionJournal(policy) if journal is None else journal
        self.informers = Informers(store, self.objects, kinds)
        self.executor = Executor(writer or DirectWriter(store), self.objects, self._done, kinds)
        self.scheduling = PlanWriter()
        self._controllers: dict[str, list[tuple[int, Controller, str]]] = {}
        for index, controller in enumerate(controllers):
            for kind in sorted(controller.kinds):
                known = (index, controller, f"controllers.{type(controller).__name__}")
                self._controllers.setdefault(kind, []).append(known)
        self._queue: ReconcileQueue[Ref] = ReconcileQueue()
        self._put_off: dict[Ref, dict[Ref, None]] = {}  # object with a write under way -> whose look wants another
        self._later: Timers[tuple[int, Ref]] = Timers()
        self._at_latest: Timers[tuple[int, Ref]] = Timers()  # nobody waits for these; they are not in ``next_at``
        self._expiries: Timers[QueueName] = Timers()
        self._turns: Timers[QueueName] = Timers()  # queues in which a workload may displace its equals again
        self._backoffs: Timers[WorkloadKey] = Timers()
        self._retries: Timers[WorkloadKey] = Timers()
        self._refused: Timers[Ref] = Timers()  # objects whose write the Store refused: looked at again, but not at once
        self._unadmitted: list[Ref] = []  # Workloads whose admission failed in this step
        self._wake_at: Millis | None = None
        self._has_begun = False
        self._now = Millis(0)
        self._idle_cycles = 0
        self._pause_until: Millis | None = None
        self.cycles = 0
        self.decisions = 0

    # --- the step ---

    def step(self, now: Millis) -> bool:
        """Do what there is to do at ``now``; whether there was anything."""
        self._now = self.updates.now = now
        happened = self.executor.work(now) + self.informers.poll(now)
        if not self._has_begun:
            self.updates.configure()
            if not self.informers.are_complete:
                return bool(happened)  # who does not know all yet would give away what others hold
            self._has_begun = True
            self._check_claims(now)
        happened += self._timers(now)
        self.updates.configure()
        happened += self._react(now)
        happened += self.executor.work(now)  # what is stored by now counts for the cycle: a queue may be gone
        self.updates.configure()
        self._arm(now)
        self._wake(now)
        self._pause_unadmitted(now)
        happened += self._cycle(now) or self._tell_rested(now)
        return bool(happened) or len(self._queue) > 0

    def next_at(self) -> Millis | None:
        """When something will be due, if nothing happens before."""
        times = [
            self.executor.next_at(), self.informers.next_at(), self._later.next_at(), self._expiries.next_at(),
            self._turns.next_at(),
            self._backoffs.next_at(), self._wake_at, claims.next_deadline(self._state),
            self.scheduling.next_at() if self._has_begun else None,
            self._pause_until, self._retries.next_at(), self._figures.next_at(), self._refused.next_at(),
            self.set_aside.next_at(),
        ]  # fmt: skip
        known = [at for at in times if at is not None]
        return min(known) if known else None

    @property
    def is_quiet(self) -> bool:
        """Whether no write is under way."""
        return self.executor.under_way == 0

    @property
    def metrics(self) -> MetricsRegistry | None:
        return None if self._tally is None else self._tally.metrics

    # --- what controllers read ---

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def state(self) -> State:
        return self._state

    def get(self, ref: Ref) -> Any | None:
        return self.objects.get(ref)

    def all(self, kind: str) -> Iterable[Any]:
        return self.objects.all(kind)

    def owned(self, uid: str, kind: str = "Workload") -> Iterable[Any]:
        return self.objects.owned(uid, kind)

    def in_local_queue(self, namespace: str, name: str) -> Iterable[Any]:
        return self.objects.in_local_queue(namespace, name)

    def queue_of(self, workload: Any) -> QueueName:
        status = workload.status
        if status is not None and status.admission is not None:
            return QueueName(status.admission.cluster_queue)
        local = self.objects.get(Ref("LocalQueue", workload.metadata.namespace, workload.spec.queue_name))
        return QueueName("" if local is None else local.spec.cluster_queue)

    # --- parts of a step ---

    def _gave_up(self, ref: Ref, part: str, error: Exception | None) -> None:
        if error is not None:
            self.set_aside.put(ref, part, error, self._now, again=part != INFORMERS)
        elif self.set_aside:
            self.set_aside.handled(ref, part)

    def _on_stored(self, ref: Ref, before: Any, after: Any) -> None:
        self.updates.stored(ref, before, after)
        if self.set_aside:
            self.set_aside.changed(ref)
        try:
            if self._tally is not None:
                self._tally.stored(ref, before, after, has_begun=self._has_begun)
            if ref.kind == "Workload":
                self._note_waiting(ref, self._now)
        except Exception as error:
            self._gave_up(ref, COUNTING, error)
        if after is None and self.set_aside:
            self.set_aside.forget(ref)
        if ref.kind == "Workload" and after is None:
            self.journal.forget(ref.key)
            self.scheduling.forget(ref.key)
            self.scheduling.issues.forget(ref.key)
            self._retries.set(ref.key, None)
            for index, _, _ in self._controllers.get("Workload", ()):
                self._later.set((index, ref), None)

    def _note_waiting(self, ref: Ref, now: Millis) -> None:
        """The status of a Workload may have to say why it waits."""
        stored = self.objects.get(ref)
        if stored is not None and not holds_quota(stored) and not says(stored, "Finished"):
            self.scheduling.note(stored, self, now)

    def _timers(self, now: Millis) -> int:
        count = 0
        for _, ref in (*self._later.due(now), *self._at_latest.due(now)):
            self.updates.enqueue(ref)
            count += 1
        for ref in self.set_aside.due(now):
            self.updates.try_again(ref)
            count += 1
        for ref in self._refused.due(now):
            self.updates.enqueue(ref)
            if ref.kind == "Workload":
                self._note_waiting(ref, now)
            count += 1
        for queue in self._expiries.due(now):
            self.updates.woken.update(after_expiry(self._state, queue))
            self.updates.held.add(queue)
            count += 1
        for queue in self._turns.due(now):
            self._state.pending.list_of(queue).turns.end_at(now)
            self.updates.held.add(queue)
            count += 1
        for key in self._backoffs.due(now):
            self.updates.back_off_ended(key)
            count += 1
        for ref in self._figures.due(now):
            self._figured[ref] = now
            self.updates.enqueue(ref)
            count += 1
        for key in self._retries.due(now):
            workload = self.updates.model_of(key)
            if workload is not None:
                self._state.pending.happen(Trigger.RETRY, workload)
            count += 1
        for action in list(self.scheduling.late(self, now)):
            self.executor.submit(action, now)
            count += 1
        self._heed_silence()
        deadline = claims.next_deadline(self._state)
        if deadline is not None and now >= deadline:
            for claimant in claims.overdue(self._state, now):
                self._end_claim(claimant.key, "expired", now)
            count += 1
        return count

    def _check_claims(self, now: Millis) -> None:
        """An engine before this one stored a claim and did not live to ask its victims: nobody waits for that (P15)."""
        for known in list(self._state.claims.within(sorted(self._state.claims.of_queue))):
            if any(not victim.evicted for victim in claims.still_charged(self._state, known.claim)):
                self._end_claim(known.key, "its evictions were not issued", now)

    def _end_claim(self, key: WorkloadKey, why: str, now: Millis) -> None:
        workload = self.updates.model_of(key)
        if workload is None or workload.claim is None:
            return
        actions = list(self.scheduling.end_claim(workload, self, ""))
        claims.end(self._state, key, why, now)
        self.journal.write(now, "claimEnded", key, queue=workload.queue, reason=why)
        for action in actions:
            self.executor.submit(action, now)

    def _react(self, now: Millis) -> int:
        """Look at those who are concerned, at most so many per step that others get their turn."""
        count = 0
        while count < LOOKS_PER_STEP:
            for ref in self.updates.enqueued:
                if ref.kind in self._controllers:
                    self._queue.add(ref)
            self.updates.enqueued.clear()
            if not len(self._queue):
                break
            ref = self._queue.take()
            if self.executor.is_busy(ref):
                continue  # it is looked at when its write is answered
            count += 1
            for index, controller, part in self._controllers[ref.kind]:
                began = self._stopwatch()
                try:
                    if self._probe is not None:
                        self._probe(part, ref)
                    outcome = controller.react(ref, self, now)
                except Exception as error:  # what it would have answered is dropped as a whole
                    self._gave_up(ref, part, error)
                    continue
                if outcome.attempts and self._tally is not None:
                    self._tally.placed(outcome.attempts, self._stopwatch() - began)
                if outcome.troubles or self.set_aside:
                    self._heed_troubles(ref, part, outcome)
                self._apply(index, ref, outcome, now)
        return count

    def _heed_troubles(self, ref: Ref, part: str, outcome: Outcome) -> None:
        for trouble in outcome.troubles:
            self._gave_up(trouble.about, part, trouble.error)
        if all(trouble.about != ref for trouble in outcome.troubles):
            self.set_aside.handled(ref, part)

    def _apply(self, index: int, ref: Ref, outcome: Outcome, now: Millis) -> None:
        self._later.set((index, ref), outcome.again_at)
        self._at_latest.set((index, ref), outcome.at_latest)
        for other in outcome.enqueue:
            self.updates.enqueue(other)
        self.notes.extend(outcome.notes)
        for placing in outcome.placings:
            note_placing(self.journal, placing, now)
        for action in outcome.actions:
            if self.executor.is_busy(action.write.ref):
                self._put_off.setdefault(action.write.ref, {})[ref] = None
            else:
                self.executor.submit(action, now)

    def _arm(self, now: Millis) -> None:
        """Set the timers of queues whose holders or spans have changed, and of those who back off."""
        if self._tally is not None:
            self._tally.configured()
            self._tally.metrics.touch(self.updates.held)
        for queue in sorted(self.updates.held):
            known = queue in self._state.queues
            self._expiries.set(queue, next_expiry(self._state, queue, now) if known else None)
            self._turns.set(queue, self._state.pending.list_of(queue).turns.next_at() if known else None)
        self.updates.held.clear()
        for key, at in self.updates.backoffs.items():
            self._backoffs.set(key, at)
        self.updates.backoffs.clear()
        for ref in self.updates.figures:
            self._pace(ref, now)
        self.updates.figures.clear()
        for ref in self.updates.queued:
            self._note_waiting(ref, now)
        self.updates.queued.clear()
        for queue in sorted(self.updates.reworded):
            self.scheduling.resting.note_queue(queue, self, now)
        self.updates.reworded.clear()
        for ref in self.updates.unread:
            self._say_aside(ref, now)
        self.updates.unread.clear()

    def _say_aside(self, ref: Ref, now: Millis) -> None:
        """A Workload cannot wait in any line: its condition says so."""
        stored, causes = self.objects.get(ref), {part: self.set_aside.cause(ref, part) for part in (LOWERING, CYCLE)}
        told = [words(part, cause) for part, cause in causes.items() if cause is not None]
        if stored is not None and told:
            edit = TellWhyWaiting(REASON, told[0], now)
            self.executor.submit(Action(Change(ref, edit, uid=stored.metadata.uid)), now)

    def _pace(self, ref: Ref, now: Millis) -> None:
        """Its figures have changed: look at it, but no more often than that makes sense to anybody."""
        last = self._figured.get(ref)
        if last is not None and now - last < self._figures_ms:
            stored = self.objects.get(ref)
            if stored is None or not _is_leaving(stored):
                self._figures.set(ref, Millis(last + self._figures_ms))
                return
        self._figured[ref] = now
        self._figures.set(ref, None)
        self.updates.enqueue(ref)

    def _wake(self, now: Millis) -> None:
        """Wakes are gathered, and executed at the end of the step or of their interval (S-4.6)."""
        if not self.updates.woken and not self.updates.released:
            return
        interval = self._policy.wake_batch_interval_ms
        if self._wake_at is None and interval:
            self._wake_at = Millis(now + interval)
        if self._wake_at is None or now >= self._wake_at:
            released = self.updates.released - self.updates.woken
            self.scheduling.resting.stir(self.updates.released | self.updates.woken, now)
            if released:
                self._state.wake_after_release(released, now)
            if self.updates.woken:
                self._state.pending.wake(self.updates.woken, now, self._state.namespace_matches, lists_returned=False)
            self.updates.woken.clear()
            self.updates.released.clear()
            self._wake_at = None

    def _pause_unadmitted(self, now: Millis) -> None:
        """A workload whose admission the Store refuses for good is not admitted again at once, time after time.

        After the wakes: to take its admission back was one, for those that had lost to it.
        """
        failed, self._unadmitted = self._unadmitted, []
        for ref in failed:
            refusals, waiting = self.executor.refusals.get(ref, 0), self.updates.model_of(ref.key)
            if refusals and waiting is not None and waiting.usage is None:
                self._state.pending.happen(Trigger.REFUSE, waiting)
                self._retries.set(waiting.key, Millis(now + backoff_ms(refusals)))

    def _cycle(self, now: Millis) -> int:
        parity = self._policy.is_parity
        if parity and self._pause_until is not None and now < self._pause_until:
            return 0
        self._pause_until = None
        plan = self._next_plan(now)
        if plan is None:
            return 0
        if not plan.verdicts and not plan.ended:
            return 1
        self.cycles += 1
        if self._tally is not None:
            self._tally.cycle(plan, 0.0)  # no clock here: whoever drives the engine measures
            self._tally.exhausted(self._state.rounds.exhausted)
        for index, verdict in enumerate(plan.verdicts):
            self._note_verdict(verdict, index, now)
        for ended in plan.ended:
            self.journal.write(now, "claimEnded", ended.workload.key, queue=ended.workload.queue, reason=ended.why)
        self._write_plan(plan, now)
        self._arm(now)
        if parity:
            self._pause(plan, now)
        return 1

    def _write_plan(self, plan: Plan, now: Millis) -> None:
        """All writes are made of the state that the plan left, before the first of them changes it."""
        actions: list[Action] = []
        for index, verdict in enumerate(plan.verdicts):
            try:
                actions += self.scheduling.actions_of(verdict, self, now, f"{self.cycles}/{index}")
            except Exception as error:
                self._take_back(verdict, error)
            else:
                if self.set_aside:
                    self.set_aside.handled(workload_ref(verdict.workload.key), CYCLE)
        for ended in plan.ended:
            actions += self.scheduling.end_claim(ended.workload, self, f"{self.cycles}")
        for action in actions:
            self.executor.submit(action, now)

    def _tell_rested(self, now: Millis) -> int:
        """No head is due: workloads that no cycle evaluates are told why they wait, a bounded number per step."""
        if not self.scheduling.resting.is_due(now):
            return 0
        for action in list(self.scheduling.rested(self, now)):
            self.executor.submit(action, now)
        self._heed_silence()
        return 1

    def _heed_silence(self) -> None:
        """Workloads of whom nobody could say why they wait."""
        troubles, self.scheduling.troubles[:] = list(self.scheduling.troubles), []
        for trouble in troubles:
            self._gave_up(trouble.about, TELLING, trouble.error)

    def _next_plan(self, now: Millis) -> Plan | None:
        """The plan of the next cycle, carried out; None: nobody is due.

        Where all heads only take their turns, and nothing is under way that they could wait for, the next ones follow.
        """
        plan: Plan | None = None
        for _ in range(TURNS_PER_STEP):
            found = Heads.of(self._state)
            if not found.ready and not found.others:
                return None
            try:
                plan = carried_out(self._state, now, found, self._probe_head)
            except Exception as error:
                guilty = in_trouble(self._state, now, found, error, self._probe_head)
                if not guilty:
                    raise
                for workload, why in guilty:
                    self._take_out(workload, why)
                continue
            for each in plan.passed:
                self.updates.passed(each)
                self.scheduling.passed_over(each.key)
            if plan.verdicts or plan.ended or not self.is_quiet or self.updates.enqueued or len(self._queue):
                break
        return plan

    def _probe_head(self, workload: Workload) -> None:
        if self._probe is not None:
            self._probe(CYCLE, workload_ref(workload.key))

    def _take_out(self, workload: Workload, error: Exception) -> None:
        """No cycle can decide about this head: it is out of the line until it changes, and others have its turn."""
        ref = workload_ref(workload.key)
        self._gave_up(ref, CYCLE, error)
        self.scheduling.forget(workload.key)
        self.updates.take_out(ref)

    def _take_back(self, verdict: Verdict, error: Exception) -> None:
        """What was decided about a head cannot be written: the state forgets it, and the head is out of the line."""
        if verdict.claim is not None:
            claims.end(self._state, verdict.workload.key, "it cannot be written", self._now)
        self._take_out(verdict.workload, error)
        for victim in (*(each.workload for each in verdict.targets), *filter(None, [verdict.replaces])):
            self.updates.try_again(workload_ref(victim.key))

    def _pause(self, plan: Plan, now: Millis) -> None:
        """The recorded system looks at every head in every cycle; it pauses so as not to spin."""
        self._idle_cycles = 0 if plan.admitted else self._idle_cycles + 1
        if self._idle_cycles:
            self._pause_until = Millis(now + PARITY_PAUSES_MS[min(self._idle_cycles, len(PARITY_PAUSES_MS)) - 1])

    def _note_verdict(self, verdict: Verdict, index: int, now: Millis) -> None:
        self.decisions += 1
        self.updates.moved(verdict.workload)
        note_verdict(self.journal, verdict, f"{self.cycles}/{index}", now)  # the id that its writes carry

    # --- answers ---

    def _answered(self, action: Action, stored: bool) -> None:
        """Whoever could not have all the evictions it asked for is planned anew, at once or after a pause (S-10.1)."""
        failed = self.scheduling.answered(action, stored)
        if failed is None:
            return
        key = failed.workload.key
        self._end_claim(key, "an eviction failed", self._now)
        self._state.rounds.take_back(failed.workload, failed.round)
        waiting = self.updates.model_of(key)
        if failed.pauses and waiting is not None and waiting.usage is None:
            self._state.pending.happen(Trigger.REFUSE, waiting)
            self._retries.set(key, Millis(self._now + backoff_ms(failed.attempts)))

    def _look_again(self, write: Write, stored: bool) -> None:
        """At the object, and at whoever wanted what could not be made; after a pause, where the Store said no."""
        whom = [write.ref, *self._put_off.pop(write.ref, ())]
        if isinstance(write, Create) and not stored:
            meta = write.body.metadata  # type: ignore[attr-defined]
            whom += [Ref(owner.kind, meta.namespace, owner.name) for owner in meta.owner_references]
        refusals = 0 if stored else self.executor.refusals.get(write.ref, 0)
        for ref in whom:
            if refusals:
                self._refused.set(ref, Millis(self._now + backoff_ms(refusals)))
            else:
                self.updates.enqueue(ref)

    def _done(self, action: Action, stored: bool) -> None:
        write = action.write
        self._look_again(write, stored)
        if not stored:
            self.journal.write(
                self._now, "failed", write.ref.key if write.ref.kind == "Workload" else None,
                decision=action.decision, reason=_called(action), by=action.by or "",
            )  # fmt: skip
            self._answered(action, stored)
            if isinstance(write, Change) and isinstance(write.edit, Reserve):
                self._unadmitted.append(write.ref)
            return
        self._answered(action, stored)
        self.notes.extend(action.notes)
        edit = write.edit if isinstance(write, Change) else None
        if isinstance(edit, Disrupt):
            self._displaced(write.ref, edit, action.decision)
        if isinstance(edit, Evict):
            self.journal.write(
                self._now, "evicted", write.ref.key, decision=action.decision, reason=edit.preempted or edit.reason,
                by=action.by or "", steps=action.because,
            )  # fmt: skip
            if self._tally is not None and action.by is not None and edit.preempted:
                preemptor = self.updates.model_of(action.by)
                self._tally.preempted(QueueName("") if preemptor is None else preemptor.queue, edit.preempted)

    def _displaced(self, pod: Ref, edit: Disrupt, decision: str) -> None:
        stored = self.objects.get(pod)
        self.journal.write(
            self._now, "displaced", None if stored is None else whose(stored), decision=decision, reason=edit.reason,
            by=edit.by, item=f"pod {pod.key}",
        )  # fmt: skip
        if edit.reason == PREEMPTED and self._tally is not None:
            self._tally.metrics.pods.evicted(max(0, self._now - edit.at) / 1000)


def _is_leaving(value: Any) -> bool:
    return value.metadata.deletion_timestamp is not None


def _called(action: Action) -> str:
    write = action.write
    return type(write.edit).__name__ if isinstance(write, Change) else type(write).__name__
