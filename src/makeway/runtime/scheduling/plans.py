"""A plan becomes writes: admissions, evictions, and the statuses of workloads that wait.

The claim of a preemptor is stored before the evictions of its victims; they follow that write, and are never made if it
fails. Workloads that no cycle evaluates get a status as well, while no head is due, a bounded number at a time (0076).

Not here: the decisions (``core.cycle.cycle``), whether a status is news and when it may be written (``statuses``), when
workloads that no cycle evaluates get one (``unevaluated``), and what becomes of an eviction (``workloads.lifecycle``,
``jobs.running``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from makeway.api.conditions import set_condition
from makeway.api.names import JOB_UID_LABEL
from makeway.api.objects.meta import Condition
from makeway.api.objects.workload import (
    Admission,
    ClaimedAssignment,
    ClaimVictim,
    PodSetAssignment,
    PodSetRequest,
    PreemptionClaim,
    WorkloadStatus,
)
from makeway.api.objects.workload import Workload as WireWorkload
from makeway.api.quantity import Quantity, Time
from makeway.controllers.contract import Action, Change, Note, Ref, Trouble, View
from makeway.controllers.contract import workload_ref as _ref
from makeway.controllers.workloads.edits import TellWhyWaiting
from makeway.controllers.workloads.eviction import Evict, event_of_eviction, generation_of, says, status_of
from makeway.core.cycle.cycle import Plan, Verdict, is_admitted
from makeway.core.cycle.flavors import Assignment
from makeway.core.cycle.why_waiting import Unseen
from makeway.core.messages import (
    HUMAN_REASONS,
    Conditions,
    conditions_after,
    conditions_with_quota,
    conditions_without_quota,
    pending_message,
    preempted_message,
    reserved_message,
)
from makeway.core.model import Claim, Millis, Workload, WorkloadKey, stored
from makeway.core.preemption.classical import Target
from makeway.core.trace import Rule
from makeway.runtime.scheduling.eviction_batches import EvictionBatches, Failed
from makeway.runtime.scheduling.statuses import StatusWrites, Words
from makeway.runtime.scheduling.unevaluated import Unevaluated

CLAIM_VICTIMS_MAX = 256
MAY_BLOCK = ("PreemptionGated", "NoFit", "PreemptionNoCandidates")  # after these QuotaReservationBlocked may change
SETTLES_MS = 1000  # a head that only lost its turn is evaluated again at once: its status waits for a better one
TOLD_MAX = 100  # statuses of workloads that no cycle evaluates: so many are written in one step
CHECKED_MAX = 1000  # and so many workloads are checked for one

replace = msgspec.structs.replace


# --- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reserve:
    """Give a workload the quota that was decided (S-5.7.14, 10.6)."""

    admission: Admission
    admitted: bool
    message: str
    at: Millis

    def __call__(self, workload: WireWorkload) -> WireWorkload | None:
        status = status_of(workload)
        if says(workload, "QuotaReserved") or says(workload, "Finished") or not workload.spec.active:
            return None
        messages = {each.type: f"Previously: {each.message}" for each in status.conditions if each.status == "True"}
        messages["QuotaReserved"] = self.message
        messages["Admitted"] = "The workload is admitted" if self.admitted else "Not all admission checks are Ready"
        changes = conditions_with_quota(_statuses(status), checks_done=self.admitted)
        conditions = _with_conditions(workload, changes, messages, self.at)
        after = replace(
            status, conditions=conditions, admission=self.admission, preemption_claim=None, resource_requests=()
        )
        return replace(workload, status=after)


@dataclass(frozen=True, slots=True)
class TellPending:
    """Say why a workload waits (S-5.12); with a claim, or without the one it had."""

    reason: str
    message: str
    at: Millis
    requests: tuple[PodSetRequest, ...]
    blocked: Literal["True", "False", ""] = ""  # status of QuotaReservationBlocked, where it changes
    blocked_reason: str = ""
    claim: PreemptionClaim | None = None

    def __call__(self, workload: WireWorkload) -> WireWorkload | None:
        status = status_of(workload)
        if says(workload, "QuotaReserved") or says(workload, "Finished") or not workload.spec.active:
            return None
        changes = conditions_without_quota(_statuses(status), self.reason)
        if self.blocked:
            changes["QuotaReservationBlocked"] = (self.blocked, self.blocked_reason)
        messages = dict.fromkeys(changes, self.message) | {"Admitted": "No quota is held"}
        conditions = _with_conditions(workload, changes, messages, self.at)
        after = replace(status, conditions=conditions, resource_requests=self.requests, preemption_claim=self.claim)
        return replace(workload, status=after)


@dataclass(frozen=True, slots=True)
class EndClaim:
    """Remove a claim that ended without admission; another one that was made since stays."""

    issued_at: Millis

    def __call__(self, workload: WireWorkload) -> WireWorkload | None:
        claim = status_of(workload).preemption_claim
        if claim is None or claim.issued_at is None or claim.issued_at.millis != self.issued_at:
            return workload
        return replace(workload, status=replace(status_of(workload), preemption_claim=None))


# --- what an edit is made of ------------------------------------------------------------------------------------------


def _statuses(status: WorkloadStatus) -> dict[str, str]:
    return {each.type: each.status for each in status.conditions}


def _with_conditions(
    workload: WireWorkload, changes: Conditions, messages: Mapping[str, str], at: Millis
) -> tuple[Condition, ...]:
    """The conditions of a workload with some changed, since ``at`` as it is stored."""
    conditions = status_of(workload).conditions
    now, generation = Time.of_millis(stored(at)), generation_of(workload)
    for name, (status, reason) in changes.items():
        conditions = set_condition(
            conditions, type=name, status=status, reason=reason, message=messages[name], now=now,
            observed_generation=generation,
        )  # fmt: skip
    return conditions


def admission_of(queue: str, assignment: Assignment) -> Admission:
    """An assignment as it is stored (S-6.13)."""
    return Admission(
        cluster_queue=queue,
        pod_set_assignments=tuple(
            PodSetAssignment(
                name=part.name,
                flavors={resource: choice.flavor for resource, choice in sorted(part.choices.items())},
                resource_usage={
                    resource: Quantity.of_units(part.requests[resource], resource) for resource in sorted(part.choices)
                },
                count=part.count,
            )
            for part in assignment.pod_sets
        ),
    )


def claim_of(claim: Claim) -> PreemptionClaim:
    return PreemptionClaim(
        pod_set_assignments=tuple(
            ClaimedAssignment(name=each.name, flavors=dict(sorted(each.flavors.items())), count=each.count)
            for each in claim.sets
        ),
        victims=tuple(
            ClaimVictim(namespace=key.partition("/")[0], name=key.partition("/")[2], uid=uid)
            for key, uid in claim.victims[:CLAIM_VICTIMS_MAX]
        ),
        victim_count=len(claim.victims),
        issued_at=Time.of_millis(claim.issued_at),
        expires_at=Time.of_millis(claim.expires_at),
    )


def _requests(verdict: Verdict) -> tuple[PodSetRequest, ...]:
    """The requests of the pod sets at this evaluation."""
    return tuple(
        PodSetRequest(
            name=part.name,
            resources={name: Quantity.of_units(amount, name) for name, amount in sorted(part.requests.items())},
        )
        for part in verdict.assignment.pod_sets
    )


# --- the controller --------------------------------------------------------------------------------------------------


class PlanWriter:
    """Turns plans into actions, and tells waiting workloads why they wait."""

    def __init__(self) -> None:
        self._statuses = StatusWrites()
        self.troubles: list[Trouble] = []  # workloads for which no reason could be computed
        self.unevaluated = Unevaluated(self.troubles)
        self.issues = EvictionBatches()

    def actions(self, plan: Plan, view: View, cycle: int) -> Iterator[Action]:
        """The writes of a plan, in the order in which it was decided."""
        for index, verdict in enumerate(plan.verdicts):
            yield from self.actions_of(verdict, view, plan.now, f"{cycle}/{index}")
        for ended in plan.ended:
            yield from self.end_claim(ended.workload, view, f"{cycle}")

    def actions_of(self, verdict: Verdict, view: View, now: Millis, decision: str) -> list[Action]:
        """The writes of one verdict; the verdicts of a plan are asked in their order."""
        if verdict.status == "admitted":
            self.forget(verdict.workload.key)
            return [self._admission(verdict, view, now, decision)]
        return list(self._waiting(verdict, view, now, decision))

    def late(self, view: View, now: Millis) -> Iterator[Action]:
        """Statuses that were held back and are due now."""
        for key, found in self._statuses.due(now):
            try:
                has_written = self._statuses.has_written(key, view)
                actions = list(self._tell(found, view, now, "", ())) if has_written else []
            except Exception as error:
                self.troubles.append(Trouble(_ref(key), error))
                continue
            yield from actions

    def next_at(self) -> Millis | None:
        times = (self._statuses.next_at(), self.unevaluated.next_at())
        return min((at for at in times if at is not None), default=None)

    def forget(self, key: WorkloadKey) -> None:
        """The workload has quota, or is gone: no status is due any more."""
        self._statuses.forget(key)
        self.unevaluated.forget(key)

    def passed_over(self, key: WorkloadKey) -> None:
        """Its last "no" is still true: that it lost its turn in between is not told any more (0018)."""
        self._statuses.passed_over(key)

    def answered(self, action: Action, stored: bool) -> Failed | None:
        """A write is stored, or never will be; return what follows if it was the last eviction of a decision."""
        self._statuses.answered(action.write, stored)
        return self.issues.answered(action, stored)

    # --- workloads that no cycle evaluates ---

    def note(self, workload: WireWorkload, view: View, now: Millis) -> None:
        """A waiting workload is stored anew. Unless we wrote its status, that may be missing or outdated."""
        if not self._statuses.is_writing(Ref.of(workload).key):
            self.unevaluated.note(workload, view, now)

    def tell_unevaluated(self, view: View, now: Millis) -> Iterator[Action]:
        """Statuses for some of the workloads that no cycle evaluates; to be called while no head is due."""
        told = 0
        for _, (key, found) in zip(range(CHECKED_MAX), self.unevaluated.found(view, now), strict=False):
            for action in () if found is None else self._tell_as_it_stands(key, found, view, now):
                told += 1
                yield action
            if told >= TOLD_MAX:
                return

    def _tell_as_it_stands(
        self, key: WorkloadKey, found: Verdict | Unseen, view: View, now: Millis
    ) -> Iterator[Action]:
        self._heed_time(found, now)
        due = self._statuses.due_at(key, view, now)
        if not self._statuses.is_news(key, Words.of(found, view.policy), view):
            self._statuses.drop(key)
        elif now < due:
            self._statuses.hold_back(key, found, due)
        else:
            yield from self._tell(found, view, now, "", ())

    # --- admitted ---

    def _admission(self, verdict: Verdict, view: View, now: Millis, decision: str) -> Action:
        workload = verdict.workload
        ref = _ref(workload.key)
        waited = max(0, now - workload.queued_at) // 1000
        message = reserved_message(workload.queue, waited)
        admitted = is_admitted(view.state, verdict)
        edit = Reserve(admission_of(workload.queue, verdict.assignment), admitted, message, now)
        notes = [Note(ref, "Normal", "QuotaReserved", message)]
        if admitted:
            notes.append(
                Note(ref, "Normal", "Admitted", f"Admitted by ClusterQueue {workload.queue}, waited {waited}s")
            )
        return Action(
            Change(ref, edit, uid=workload.uid, strict=True, assumed="quietly"),
            notes=tuple(notes), because=verdict.steps, decision=decision,
        )  # fmt: skip

    # --- waiting ---

    def _waiting(self, verdict: Verdict, view: View, now: Millis, decision: str) -> Iterator[Action]:
        evictions = tuple(self._evictions(verdict, view, now, decision))
        self.issues.note(decision, verdict, len(evictions))
        key = verdict.workload.key
        self.unevaluated.forget(key)
        self._heed_time(verdict, now)
        at_once = verdict.claim is not None or self._blocks(verdict, view) != ("", "")
        if not at_once and not self._statuses.is_verdict_news(verdict, view):
            self._statuses.drop(key)
            yield from evictions
            return
        due = self._statuses.due_at(key, view, now)
        if verdict.only_lost_its_turn and self._statuses.has_written(key, view):
            due = max(due, Millis(now + SETTLES_MS))
        if not at_once and now < due:
            self._statuses.hold_back(key, verdict, due)
            yield from evictions
            return
        yield from self._tell(verdict, view, now, decision, evictions)

    def _heed_time(self, found: Verdict | Unseen, now: Millis) -> None:
        """The status may speak of a time, and no cycle evaluates the workload at that time."""
        until = None if isinstance(found, Unseen) else _until(found)
        if until is not None and now < until:
            self.unevaluated.note_later(found.workload, until)

    def _tell(
        self, found: Verdict | Unseen, view: View, now: Millis, decision: str, evictions: tuple[Action, ...]
    ) -> Iterator[Action]:
        key, words = found.workload.key, Words.of(found, view.policy)
        if isinstance(found, Unseen):
            wait = TellWhyWaiting(words.reason, found.message, now)
            self._statuses.writing(found, words, now, wait)
            yield Action(Change(_ref(key), wait, uid=found.workload.uid, assumed="quietly"), decision=decision)
            return
        message = pending_message(found)
        claim = None if found.claim is None else claim_of(found.claim)
        edit = TellPending(words.reason, message, now, _requests(found), *self._blocks(found, view), claim=claim)
        self._statuses.writing(found, words, now, edit)
        yield Action(
            Change(_ref(key), edit, uid=found.workload.uid, assumed="quietly"),
            then=evictions if claim is not None else (),
            notes=(Note(_ref(key), "Warning", words.reason, message),),
            because=found.steps, decision=decision,
        )  # fmt: skip
        if claim is None:
            yield from evictions

    def _blocks(self, verdict: Verdict, view: View) -> tuple[Literal["True", "False", ""], str]:
        """The new QuotaReservationBlocked: status and reason, both "" where it stays (S-14.4)."""
        if verdict.requeue not in MAY_BLOCK:
            return "", ""
        before = view.get(_ref(verdict.workload.key))
        statuses = {} if before is None else _statuses(status_of(before))
        found = conditions_after(verdict, statuses, checks_done=False).get("QuotaReservationBlocked")
        if found is None or (found[0] == "True" and statuses.get("QuotaReservationBlocked") == "True"):
            return "", ""
        return found

    def _evictions(self, verdict: Verdict, view: View, now: Millis, decision: str) -> Iterator[Action]:
        for target in verdict.targets:
            if not target.workload.evicted:
                yield _preemption(verdict, target, view, now, decision)
        if verdict.replaces is not None and not verdict.replaces.evicted and not verdict.targets:
            ref = _ref(verdict.replaces.key)
            message = (
                f"Evicted to accommodate a workload (UID: {verdict.workload.uid}) due to migration to more favorable "
                "resource flavor"
            )
            yield Action(
                Change(
                    ref, Evict("FlavorMigration", message, now), uid=verdict.replaces.uid, strict=True,
                    assumed="counted",
                ),
                notes=(event_of_eviction(ref, "FlavorMigration", message),), decision=decision,
                by=verdict.workload.key,
            )  # fmt: skip

    # --- claims ---

    def end_claim(self, workload: Workload, view: View, decision: str) -> Iterator[Action]:
        """Remove the claim of a workload from its stored status."""
        if workload.claim is not None:
            edit = EndClaim(workload.claim.issued_at)
            yield Action(Change(_ref(workload.key), edit, uid=workload.uid, assumed="quietly"), decision=decision)


def _preemption(verdict: Verdict, target: Target, view: View, now: Millis, decision: str) -> Action:
    victim, preemptor = target.workload, verdict.workload
    tree = view.state.tree
    stored_preemptor = view.get(_ref(preemptor.key))
    job_uid = "" if stored_preemptor is None else stored_preemptor.metadata.labels.get(JOB_UID_LABEL, "")
    message = preempted_message(
        uid=preemptor.uid, job_uid=job_uid, reason=target.reason, preemptor=tree.queues[preemptor.queue].path(),
        preemptee=tree.queues[victim.queue].path(),
    )  # fmt: skip
    ref, by = _ref(victim.key), _ref(preemptor.key)
    edit = Evict("Preempted", message, now, preempted=target.reason, preempted_message=message)
    words = f"Preempted {victim.key} (UID: {victim.uid}) due to {HUMAN_REASONS[target.reason]}"
    return Action(
        Change(ref, edit, uid=victim.uid, assumed="counted"),
        notes=(
            Note(ref, "Normal", "Preempted", message), event_of_eviction(ref, "Preempted", message),
            Note(by, "Normal", "PreemptedWorkload", words),
        ),
        because=(target.step,), decision=decision, by=preemptor.key,
    )  # fmt: skip


def _until(verdict: Verdict) -> Millis | None:
    """The time that the status speaks of, where a workload was displaced by time itself."""
    times = (step.numbers[0] for step in verdict.steps if step.rule is Rule.DISPLACED_BY_TIME)
    return next((Millis(at) for at in times), None)
