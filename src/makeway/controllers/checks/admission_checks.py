"""The second phase of admission: which checks a workload must pass, and what follows from their answers (S-11).

A check answers in its own entry of the list; entries of others are never touched. Rejected beats Retry, Retry beats
Ready.

Promises: no workload becomes Admitted before all checks of its flavors are listed and Ready, nor once it was asked to
leave; a Retry that comes together with another eviction, or after it, is answered too: the check is reset, and the time
it asks for is kept for a later attempt (P25).

Not here: the checks themselves (``multikueue`` is one), when a back-off ends (``workloads``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from makeway.api.objects.workload import AdmissionCheckState, RequeueState, Workload
from makeway.api.quantity import Time
from makeway.controllers.workloads.eviction import (
    Evict,
    condition,
    holds_quota,
    message_of_eviction,
    mode_of,
    replace,
    reset,
    says,
    since,
    stated,
    status_of,
)
from makeway.core.model import FlavorName, Millis, Queue, stored

REASON = "AdmissionCheck"


def required(queue: Queue, workload: Workload) -> tuple[str, ...]:
    """The checks that it must list (S-11.2): by name; before it has flavors, those of every flavor."""
    if mode_of(workload) == "Parent":  # its Options pass them
        return ()
    admission = status_of(workload).admission
    if admission is not None:
        assigned = {FlavorName(name) for each in admission.pod_set_assignments for name in each.flavors.values()}
        return tuple(sorted(set(queue.checks_for(assigned))))
    everywhere = {flavor for group in queue.groups for flavor in group.flavors}
    return tuple(sorted({name for name, where in queue.checks if not where or where >= everywhere}))


def in_state(workload: Workload, state: str) -> list[AdmissionCheckState]:
    """Its checks in this state."""
    return [check for check in status_of(workload).admission_checks if check.state == state]


def may_be_admitted(queue: Queue, workload: Workload, siblings: Iterable[Workload] = ()) -> bool:
    """Whether it is reserved, complete and all its checks are Ready (S-11.1); an Option also waits for its siblings."""
    if mode_of(workload) == "Parent" or not workload.spec.active or not holds_quota(workload):
        return False
    if any(says(workload, each) for each in ("Evicted", "Finished", "DeactivationTarget")):
        return False
    checks = status_of(workload).admission_checks
    if any(check.state != "Ready" for check in checks):
        return False
    if not {check.name for check in checks}.issuperset(required(queue, workload)):
        return False
    return not any(says(each, "Admitted") for each in siblings if each.metadata.uid != workload.metadata.uid)


@dataclass(frozen=True, slots=True)
class ListChecks:
    """Bring the list in line with the queue (S-11.2). Entries that stay are not changed."""

    queue: Queue
    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        status = status_of(workload)
        known = {check.name: check for check in status.admission_checks}
        now = Time.of_millis(stored(self.at))
        listed = tuple(
            known.get(name) or AdmissionCheckState(name=name, state="Pending", last_transition_time=now)
            for name in required(self.queue, workload)
        )
        if listed == status.admission_checks:
            return workload
        return replace(workload, status=replace(status, admission_checks=listed))


@dataclass(frozen=True, slots=True)
class Admit:
    """Set Admitted=True, if the object is still as it must be for that; its siblings are checked beforehand."""

    queue: Queue
    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        if not may_be_admitted(self.queue, workload):
            return None
        status = status_of(workload)
        message = admitted_message(workload, self.at)
        conditions = stated(workload, status.conditions, "Admitted", "True", "Admitted", message, self.at)
        return replace(workload, status=replace(status, conditions=conditions))


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Answer all Retry checks (S-11.3): note the earliest time of the next attempt, evict, reset them.

    A workload that was asked to leave for another reason keeps that reason; one without quota has nothing to leave.
    Both still wait as long as their checks ask for. An unanswered check would keep them out of the queue for ever.
    """

    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        retrying = in_state(workload, "Retry")
        if not retrying or says(workload, "Finished"):
            return None
        status = status_of(workload)
        held_back = replace(workload, status=replace(status, requeue_state=self._wait(status.requeue_state, retrying)))
        left = Evict(REASON, retry_message(retrying), self.at)(held_back) or held_back
        now = Time.of_millis(stored(self.at))
        after = status_of(left)
        checks = tuple(reset(check, now) if check.state == "Retry" else check for check in after.admission_checks)
        return replace(left, status=replace(after, admission_checks=checks))

    def _wait(self, state: RequeueState | None, retrying: list[AdmissionCheckState]) -> RequeueState | None:
        wishes = [
            check.last_transition_time.millis + check.requeue_after_seconds * 1000
            for check in retrying
            if check.last_transition_time is not None and check.requeue_after_seconds is not None
        ]
        wish = max(wishes, default=self.at)
        before = state or RequeueState()
        known = self.at if before.requeue_at is None else before.requeue_at.millis
        if wish <= max(self.at, known):
            return state
        return replace(before, requeue_at=Time.of_millis(stored(Millis(wish))))


# --- words -----------------------------------------------------------------------------------------------------------


def admitted_message(workload: Workload, at: Millis) -> str:
    admission = status_of(workload).admission
    waited = max(0, at - since(condition(workload, "QuotaReserved"), at)) // 1000
    queue = admission.cluster_queue if admission is not None else ""
    return f"Admitted in ClusterQueue {queue}, wait time since the quota reservation was {waited}s"


def retry_message(checks: Iterable[AdmissionCheckState]) -> str:
    return _with_words(message_of_eviction(REASON), checks)


def rejected_message(checks: Iterable[AdmissionCheckState]) -> str:
    return _with_words("An admission check rejected the workload", checks)


def _with_words(text: str, checks: Iterable[AdmissionCheckState]) -> str:
    told = (f"{check.name}: {check.message}" if check.message else check.name for check in checks)
    return f"{text} ({'; '.join(told)})"
