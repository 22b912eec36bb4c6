"""Decides: at most one cycle per step, the writes that come of it, and what becomes of them.

A head that makes a cycle fail is taken out of its queue, and a verdict that cannot be written is taken back: all others
go on (0081). A workload whose admission or evictions the Store refuses is decided about again, after a pause.

Not here: the decisions (``core.cycle``), the writes of a verdict (``scheduling.plans``).
"""

from __future__ import annotations

from typing import Literal

from makeway.api.objects.workload import Workload as WireWorkload
from makeway.controllers.contract import WORKLOAD, Action, Change, Ref, is_of, workload_ref
from makeway.controllers.workloads.edits import TellWhyWaiting
from makeway.controllers.workloads.eviction import holds_quota, says
from makeway.core.cycle.cycle import Heads, Plan, Verdict
from makeway.core.model import Millis, Workload, WorkloadKey
from makeway.core.preemption import claims
from makeway.core.queueing.standing import Trigger
from makeway.runtime.scheduling.cycles import carried_out, in_trouble
from makeway.runtime.scheduling.plans import PlanWriter, Reserve
from makeway.runtime.set_aside import REASON, words
from makeway.runtime.steps.context import StepContext
from makeway.runtime.steps.deadlines import Deadlines
from makeway.runtime.steps.observers import Cycle
from makeway.runtime.steps.reconciler import Reconciler
from makeway.runtime.updates.context import CYCLE, LOWERING
from makeway.runtime.workqueue import Timers, backoff_ms

TURNS_PER_STEP = 1000  # cycles per step in which all heads are only passed over
TELLING = "controllers.Scheduling"  # the part that may give up on an object here
PARITY_PAUSES_MS = (1, 2, 4, 8, 10)  # between cycles without an admission (S-5.1)

Turn = Literal["idle", "passed", "decided"]  # no head is due; heads were only passed over; a cycle decided something


class ClaimEnds:
    """Ends claims that no cycle ends, in the state and in what is stored."""

    def __init__(self, context: StepContext, plans: PlanWriter) -> None:
        self._context = context
        self._plans = plans

    def next_at(self) -> Millis | None:
        return claims.next_deadline(self._context.state)

    def work(self, now: Millis) -> int:
        """End the claims whose deadline has passed."""
        deadline = self.next_at()
        if deadline is None or now < deadline:
            return 0
        for claimant in claims.overdue(self._context.state, now):
            self.end(claimant.key, "expired")
        return 1

    def check(self) -> None:
        """End claims that an earlier engine stored without evicting the victims: those would wait for nothing (P15)."""
        state = self._context.state
        for known in list(state.claims.within(sorted(state.claims.of_queue))):
            if any(not victim.evicted for victim in claims.still_charged(state, known.claim)):
                self.end(known.key, "its evictions were not issued")

    def end(self, key: WorkloadKey, why: str) -> None:
        context = self._context
        workload = context.updates.places.find(key)
        if workload is None or workload.claim is None:
            return
        actions = list(self._plans.end_claim(workload, context.view, ""))
        claims.end(context.state, key, why, context.now)
        context.observer.claim_ended(key, workload.queue, why, context.now)
        for action in actions:
            context.submit(action)


class _ParityPause:
    """The recorded system evaluates every head in every cycle; it pauses so as not to spin."""

    def __init__(self) -> None:
        self._until: Millis | None = None
        self._idle_cycles = 0

    def next_at(self) -> Millis | None:
        return self._until

    def is_on(self, now: Millis) -> bool:
        if self._until is not None and now < self._until:
            return True
        self._until = None
        return False

    def heed(self, plan: Plan, now: Millis) -> None:
        """A cycle was carried out."""
        self._idle_cycles = 0 if plan.admitted else self._idle_cycles + 1
        if self._idle_cycles:
            self._until = Millis(now + PARITY_PAUSES_MS[min(self._idle_cycles, len(PARITY_PAUSES_MS)) - 1])


class Scheduler:
    def __init__(self, context: StepContext, reconciler: Reconciler) -> None:
        self._context = context
        self._reconciler = reconciler
        self.plans = PlanWriter()
        self.claims = ClaimEnds(context, self.plans)
        self._pause = _ParityPause() if context.state.policy.is_parity else None
        self._retries: Timers[WorkloadKey] = Timers()  # of workloads that are decided about again after a pause
        self._unadmitted: list[Ref] = []  # Workloads whose admission failed in this step
        self.cycles = 0
        self.decisions = 0

    def register(self, deadlines: Deadlines) -> None:
        deadlines.add_timers(self._retries, self._retry)
        deadlines.add(self.plans.next_at, self._tell_late)
        deadlines.add(self.claims.next_at, self.claims.work)
        if self._pause is not None:
            deadlines.await_only(self._pause.next_at)

    # --- what is due ---

    def _retry(self, key: WorkloadKey) -> None:
        workload = self._context.updates.places.find(key)
        if workload is not None:
            self._context.state.pending.happen(Trigger.RETRY, workload)

    def _retry_later(self, key: WorkloadKey, attempts: int) -> None:
        """Decide about it again, but not at once; not if it is no longer waiting."""
        waiting = self._context.updates.places.find(key)
        if waiting is not None and waiting.usage is None:
            self._context.state.pending.happen(Trigger.REFUSE, waiting)
            self._retries.set(key, Millis(self._context.now + backoff_ms(attempts)))

    def _tell_late(self, now: Millis) -> int:
        count = 0
        for action in list(self.plans.late(self._context.view, now)):
            self._context.submit(action)
            count += 1
        self._report_troubles()
        return count

    def tell_unevaluated(self) -> int:
        """No head is due: workloads that no cycle evaluates are told why they wait, a bounded number per step."""
        context = self._context
        if not self.plans.unevaluated.is_due(context.now):
            return 0
        for action in list(self.plans.tell_unevaluated(context.view, context.now)):
            context.submit(action)
        self._report_troubles()
        return 1

    def _report_troubles(self) -> None:
        """Report the workloads for which no reason could be computed."""
        troubles, self.plans.troubles[:] = list(self.plans.troubles), []
        for trouble in troubles:
            self._context.gave_up(trouble.about, TELLING, trouble.error)

    # --- what has changed ---

    def note_waiting(self, ref: Ref) -> None:
        """The status of a Workload may have to say why it waits."""
        if not is_of(ref, WORKLOAD):
            return
        stored = self._context.view.get(ref)
        if stored is not None and not holds_quota(stored) and not says(stored, "Finished"):
            self.plans.note(stored, self._context.view, self._context.now)

    def note_changes(self) -> None:
        """Note workloads that joined a queue or may need another status, and those that cannot be read."""
        follow_ups = self._context.updates.follow_ups
        for ref in follow_ups.queued:
            self.note_waiting(ref)
        follow_ups.queued.clear()
        for queue in sorted(follow_ups.reworded):
            self.plans.unevaluated.note_queue(queue, self._context.view, self._context.now)
        follow_ups.reworded.clear()
        for ref in follow_ups.unread:
            self._tell_set_aside(ref)
        follow_ups.unread.clear()

    def _tell_set_aside(self, ref: Ref[WireWorkload]) -> None:
        """A Workload cannot wait in any queue: its condition says so."""
        stored, aside = self._context.view.get(ref), self._context.set_aside
        told = [words(part, cause) for part in (LOWERING, CYCLE) if (cause := aside.cause(ref, part)) is not None]
        if stored is not None and told:
            edit = TellWhyWaiting(REASON, told[0], self._context.now)
            self._context.submit(Action(Change(ref, edit, uid=stored.metadata.uid)))

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone."""
        self.plans.forget(key)
        self.plans.issues.forget(key)
        self._retries.set(key, None)

    # --- the cycle ---

    def cycle(self) -> Turn:
        """Carry out the next cycle, if a head is due."""
        context = self._context
        if self._pause is not None and self._pause.is_on(context.now):
            return "idle"
        began = context.stopwatch()
        plan = self._next_plan()
        if plan is None:
            return "idle"
        if not plan.verdicts and not plan.ended:
            return "passed"
        self.cycles += 1
        self.decisions += len(plan.verdicts)
        for verdict in plan.verdicts:
            context.updates.places.moved(verdict.workload)
        cycle = Cycle(self.cycles, plan, context.stopwatch() - began)
        context.observer.cycled(cycle, context.now)
        self._write(cycle)
        if self._pause is not None:
            self._pause.heed(plan, context.now)
        return "decided"

    def _next_plan(self) -> Plan | None:
        """The plan of the next cycle, carried out; None: no head is due.

        Where all heads are only passed over, and nothing is under way that they could wait for, the next heads follow.
        """
        context, state = self._context, self._context.state
        plan: Plan | None = None
        for _ in range(TURNS_PER_STEP):
            heads = Heads.of(state)
            if not heads.ready and not heads.others:
                return None
            try:
                plan = carried_out(state, context.now, heads, self._test)
            except Exception as error:
                guilty = in_trouble(state, context.now, heads, error, self._test)
                if not guilty:
                    raise
                for workload, why in guilty:
                    self._take_out(workload, why)
                continue
            for workload in plan.passed:
                context.updates.places.passed(workload)
                self.plans.passed_over(workload.key)
            if plan.verdicts or plan.ended or context.executor.under_way or not self._reconciler.is_idle:
                break
        return plan

    def _test(self, workload: Workload) -> None:
        if self._context.probe is not None:
            self._context.probe(CYCLE, workload_ref(workload.key))

    def _write(self, cycle: Cycle) -> None:
        """All writes are made from the state that the plan left, before the first of them changes it."""
        context, plan = self._context, cycle.plan
        actions: list[Action] = []
        for index, verdict in enumerate(plan.verdicts):
            try:
                actions += self.plans.actions_of(verdict, context.view, context.now, cycle.decision(index))
            except Exception as error:
                self._take_back(verdict, error)
            else:
                if context.set_aside:  # rarely; a reference per verdict costs more than the question
                    context.set_aside.handled(workload_ref(verdict.workload.key), CYCLE)
        for ended in plan.ended:
            actions += self.plans.end_claim(ended.workload, context.view, f"{cycle.number}")
        for action in actions:
            context.submit(action)

    def _take_out(self, workload: Workload, error: Exception) -> None:
        """No cycle can decide about this head: it is out of its queue until it changes, and the next one follows."""
        ref = workload_ref(workload.key)
        self._context.gave_up(ref, CYCLE, error)
        self.plans.forget(workload.key)
        self._context.updates.workloads.take_out(ref)

    def _take_back(self, verdict: Verdict, error: Exception) -> None:
        """A verdict about a head cannot be written: the state forgets it, and the head is out of its queue."""
        if verdict.claim is not None:
            claims.end(self._context.state, verdict.workload.key, "it cannot be written", self._context.now)
        self._take_out(verdict.workload, error)
        for victim in (*(target.workload for target in verdict.targets), *filter(None, [verdict.replaces])):
            self._context.updates.try_again(workload_ref(victim.key))

    # --- answers ---

    def answered(self, action: Action, stored: bool) -> None:
        """A write is stored, or never will be.

        A preemptor that did not get all its evictions is planned anew, at once or after a pause (S-10.1).
        """
        failed = self.plans.answered(action, stored)
        if failed is not None:
            key = failed.workload.key
            self.claims.end(key, "an eviction failed")
            self._context.state.rounds.take_back(failed.workload, failed.round)
            if failed.pauses:
                self._retry_later(key, failed.attempts)
        write = action.write
        if not stored and isinstance(write, Change) and isinstance(write.edit, Reserve):
            self._unadmitted.append(write.ref)

    def pause_unadmitted(self) -> None:
        """A workload whose admission the Store refuses for good waits for a pause before it is admitted again.

        Called after the wakes, because taking its admission back wakes the workloads that had lost to it.
        """
        failed, self._unadmitted = self._unadmitted, []
        for ref in failed:
            refusals = self._context.executor.refusals.get(ref, 0)
            if refusals:
                self._retry_later(ref.key, refusals)
