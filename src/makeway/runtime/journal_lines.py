"""The events of the engine, as lines of the journal."""

from __future__ import annotations

from makeway.api.objects.kubernetes import Pod
from makeway.api.objects.meta import KubernetesObject
from makeway.controllers.contract import Action, Change, Outcome, Placing, Ref
from makeway.controllers.pods.edits import whose
from makeway.core.cycle.cycle import Verdict
from makeway.core.messages import pending_reason
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.trace import Rule
from makeway.runtime.journal import DecisionJournal
from makeway.runtime.steps.observers import Cycle, Departed, Observer


class JournalKeeper(Observer):
    def __init__(self, journal: DecisionJournal) -> None:
        self._journal = journal

    def stored(
        self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None, *, has_begun: bool
    ) -> None:
        if after is None and ref.kind == "Workload":
            self._journal.forget(ref.key)

    def reconciled(self, outcome: Outcome, seconds: float, now: Millis) -> None:
        for placing in outcome.placings:
            note_placing(self._journal, placing, now)

    def cycled(self, cycle: Cycle, now: Millis) -> None:
        for index, verdict in enumerate(cycle.plan.verdicts):
            note_verdict(self._journal, verdict, cycle.decision(index), now)
        for ended in cycle.plan.ended:
            self.claim_ended(ended.workload.key, ended.workload.queue, ended.why, now)

    def claim_ended(self, key: WorkloadKey, queue: QueueName, why: str, now: Millis) -> None:
        self._journal.write(now, "claimEnded", key, queue=queue, reason=why)

    def departed(self, departed: Departed, now: Millis) -> None:
        action, why = departed.action, departed.why
        ref = action.write.ref
        if ref.kind == "Workload":
            self._journal.write(
                now, "evicted", ref.key, decision=action.decision, reason=why.reason, by=action.by or "",
                steps=action.because,
            )  # fmt: skip
        else:
            pod = departed.stored
            self._journal.write(
                now, "displaced", whose(pod) if isinstance(pod, Pod) else None, decision=action.decision,
                reason=why.reason, by=why.by, item=f"pod {ref.key}",
            )  # fmt: skip

    def failed(self, action: Action, now: Millis) -> None:
        write = action.write
        called = type(write.edit if isinstance(write, Change) else write).__name__
        self._journal.write(
            now, "failed", write.ref.key if write.ref.kind == "Workload" else None, decision=action.decision,
            reason=called, by=action.by or "",
        )  # fmt: skip


def note_verdict(journal: DecisionJournal, verdict: Verdict, decision: str, now: Millis) -> None:
    workload = verdict.workload
    if verdict.status == "admitted":
        journal.write(now, "admitted", workload.key, queue=workload.queue, decision=decision, steps=verdict.steps)
        return
    steps = (*verdict.steps, *verdict.assignment.steps)
    reason = pending_reason(verdict)
    if verdict.targets or verdict.claim is not None:
        victims = tuple(target.workload.key for target in verdict.targets)
        journal.write(
            now, verdict.status, workload.key, queue=workload.queue, decision=decision, reason=reason,
            victims=victims, steps=steps,
        )  # fmt: skip
        return
    meaning = (verdict.status, reason, tuple((step.rule, step.subjects) for step in steps))
    journal.refuse(
        now, workload.key, meaning, what=verdict.status, queue=workload.queue, decision=decision, reason=reason,
        steps=steps,
    )  # fmt: skip


def note_placing(journal: DecisionJournal, placing: Placing, now: Millis) -> None:
    steps, item = placing.steps, placing.item
    if placing.what == "gone":
        journal.forget(item)
    elif placing.what == "unplaced":
        lasting = [step for step in steps if step.rule is not Rule.PLACE_KEPT]  # its holder changes
        meaning = (placing.reason, tuple((step.rule, step.subjects) for step in lasting))
        journal.refuse(
            now, placing.workload, meaning, what=placing.what, decision=placing.decision, reason=placing.reason,
            steps=steps, item=item,
        )  # fmt: skip
    else:
        journal.write(
            now, placing.what, placing.workload, decision=placing.decision, reason=placing.reason,
            victims=placing.victims, steps=steps, item=item,
        )  # fmt: skip
