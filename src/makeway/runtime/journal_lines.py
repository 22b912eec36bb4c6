"""What was decided about a workload, a pod or a gang, as lines of the journal."""

from __future__ import annotations

from makeway.controllers.contract import Placing
from makeway.core.cycle.cycle import Verdict
from makeway.core.messages import pending_reason
from makeway.core.model import Millis
from makeway.core.trace import Rule
from makeway.runtime.journal import DecisionJournal


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
        lasting = [step for step in steps if step.rule is not Rule.PLACE_KEPT]  # who holds it changes
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
