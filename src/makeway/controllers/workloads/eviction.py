"""Asking a workload to leave, and releasing its quota once it has: the two edits that all share (S-10.2, 10.3).

``Evict`` only asks: the quota stays charged until all that runs has stopped. ``Release`` is the end of it.

Promises: an eviction is counted once, with the reason and the time of the first request; conditions, checks and fields
that these rules do not name are left as they are; done twice is done once.

Not here: which workloads to evict and when (``runtime.scheduling``, ``lifecycle``, ``over_quota``), stopping jobs
(``jobs.running``).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from makeway.api.conditions import Status, find, is_true, set_condition
from makeway.api.names import CONCURRENT_ADMISSION_GATE
from makeway.api.objects.meta import Condition
from makeway.api.objects.workload import (
    AdmissionCheckState,
    EvictionCount,
    PreemptionGateState,
    SchedulingStats,
    Workload,
    WorkloadStatus,
)
from makeway.api.quantity import Time
from makeway.controllers.contract import Departure, Note, Ref
from makeway.core.model import Millis, stored

NO_STATUS = WorkloadStatus()
DEACTIVATED = "Deactivated"
RETURNS_AT_ONCE = frozenset({"Preempted", "NodeFailures", "FlavorMigration", "OverQuota", "OptionEvicted"})
OUT_OF_TIME = "MaximumExecutionTimeExceeded"
COUNTERS_MAX = 256  # the limit of an object
SECONDS_MAX = 2**31 - 1

replace = msgspec.structs.replace


# --- what a Workload says --------------------------------------------------------------------------------------------


def status_of(workload: Workload) -> WorkloadStatus:
    return NO_STATUS if workload.status is None else workload.status


def condition(workload: Workload, type: str) -> Condition | None:
    return find(status_of(workload).conditions, type)


def says(workload: Workload, type: str) -> bool:
    """Whether that condition is there and True."""
    return workload.status is not None and is_true(workload.status.conditions, type)


def holds_quota(workload: Workload) -> bool:
    return workload.status is not None and is_true(workload.status.conditions, "QuotaReserved")


def mode_of(workload: Workload) -> str:
    """Default, Parent or ResourceFlavorOption (KEP-8691)."""
    mode = workload.spec.workload_mode
    return "Default" if mode is None else mode.type


def since(found: Condition | None, otherwise: Millis) -> Millis:
    """When a condition took its status; ``otherwise`` if it has no time."""
    if found is None or found.last_transition_time is None:
        return otherwise
    return Millis(found.last_transition_time.millis)


def generation_of(workload: Workload) -> int | None:
    """The generation for its conditions; None: no server has counted any."""
    return workload.metadata.generation or None


def stated(
    workload: Workload, conditions: tuple[Condition, ...], type: str, status: Status, reason: str, message: str,
    at: Millis,
) -> tuple[Condition, ...]:  # fmt: skip
    """``conditions`` of a workload with one of them set, about the generation that is judged."""
    return set_condition(
        conditions, type=type, status=status, reason=reason, message=message, now=Time.of_millis(stored(at)),
        observed_generation=generation_of(workload),
    )  # fmt: skip


# --- words -----------------------------------------------------------------------------------------------------------


def full_reason(reason: str, cause: str = "") -> str:
    """The reason in condition and event. Only a deactivation names its cause there (api 14.1)."""
    return f"{reason}DueTo{cause}" if cause and reason == DEACTIVATED else reason


_MESSAGES = {
    ("PodsReadyTimeout", ""): "Not all pods were ready in time",
    ("PodsReadyTimeout", "WaitForStart"): "Not all pods were ready in time after the admission",
    ("PodsReadyTimeout", "WaitForRecovery"): "Pods that were lost were not ready again in time",
    ("AdmissionCheck", ""): "An admission check asks for another try",
    ("ClusterQueueStopped", ""): "The ClusterQueue is stopped",
    ("LocalQueueStopped", ""): "The LocalQueue is stopped",
    ("NodeFailures", ""): "Nodes that its pods ran on have failed",
    ("FlavorMigration", ""): "The workload moves to a more favorable resource flavor",
    ("OverQuota", ""): "The quota was lowered below what is in use",
    ("OptionEvicted", ""): "The Option that the workload ran by was evicted",
    ("Deleted", ""): "The Option is being deleted",
    ("Deactivated", ""): "The workload is deactivated",
    ("Deactivated", "AdmissionCheck"): "The workload is deactivated: an admission check rejected it",
    ("Deactivated", "RequeuingLimitExceeded"): "The workload is deactivated: it was requeued as often as allowed",
    ("Deactivated", OUT_OF_TIME): "The workload is deactivated: its maximum execution time is used up",
    ("Deactivated", "EvictedOnManagerCluster"): "The workload is deactivated: it was evicted on the manager cluster",
}


def message_of_eviction(reason: str, cause: str = "") -> str:
    """Why it has to leave, in words, where only the reason is known."""
    found = _MESSAGES.get((reason, cause)) or _MESSAGES.get((reason, ""))
    return found or f"Evicted: {full_reason(reason, cause)}"


def event_of_eviction(about: Ref, reason: str, message: str, cause: str = "") -> Note:
    """The event that goes with every eviction (api 15)."""
    return Note(about, "Normal", f"EvictedDueTo{full_reason(reason, cause)}", message)


# --- the two edits ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask a workload to leave (S-10.2). One that was asked before is left as it is."""

    reason: str
    message: str
    at: Millis
    cause: str = ""
    preempted: str = ""  # why it had to make way, where another workload needs its room
    preempted_message: str = ""

    @property
    def departure(self) -> Departure:
        return Departure(self.preempted or self.reason, self.at, preempts=bool(self.preempted))

    def __call__(self, workload: Workload) -> Workload | None:
        if says(workload, "Finished") or not holds_quota(workload):
            return None
        if says(workload, "Evicted"):
            return workload
        status = status_of(workload)
        after = replace(
            status,
            conditions=self._conditions(workload, status),
            cluster_name="",
            nominated_cluster_names=(),
            unhealthy_nodes=(),
            admission_checks=tuple(reset(each, self._now) for each in status.admission_checks),
            preemption_gates=self._gates(workload, status),
            scheduling_stats=self._counted(status.scheduling_stats or SchedulingStats()),
        )
        return replace(workload, status=after)

    @property
    def _now(self) -> Time:
        return Time.of_millis(stored(self.at))

    def _conditions(self, workload: Workload, status: WorkloadStatus) -> tuple[Condition, ...]:
        told = full_reason(self.reason, self.cause)
        conditions = stated(workload, status.conditions, "Evicted", "True", told, self.message, self.at)
        if self.preempted:
            words = self.preempted_message or self.message
            conditions = stated(workload, conditions, "Preempted", "True", self.preempted, words, self.at)
        if is_true(conditions, "QuotaReservationBlocked"):
            conditions = stated(workload, conditions, "QuotaReservationBlocked", "False", told, self.message, self.at)
        return conditions

    def _gates(self, workload: Workload, status: WorkloadStatus) -> tuple[PreemptionGateState, ...]:
        """All gates closed, except those that follow others: an Option's copies, a migrating Parent's (S-12.19)."""
        mode = mode_of(workload)
        if mode == "Parent" and self.reason == "FlavorMigration":
            return status.preemption_gates
        return tuple(
            gate
            if gate.state == "Closed" or (mode == "ResourceFlavorOption" and gate.name != CONCURRENT_ADMISSION_GATE)
            else replace(gate, state="Closed", last_transition_time=self._now)
            for gate in status.preemption_gates
        )

    def _counted(self, stats: SchedulingStats) -> SchedulingStats:
        key = (self.reason, self.cause)
        counts = {(each.reason, each.underlying_cause): each.count for each in stats.evictions}
        if key not in counts and len(counts) >= COUNTERS_MAX:
            return stats  # better uncounted than a status that no server accepts
        counts[key] = counts.get(key, 0) + 1
        entries = (EvictionCount(reason=r, underlying_cause=c, count=n) for (r, c), n in counts.items())
        return replace(stats, evictions=tuple(entries))


def reset(check: AdmissionCheckState, now: Time) -> AdmissionCheckState:
    """A check as the next attempt finds it: its answer belongs to a reservation that ends."""
    if check.state == "Pending":
        return check
    return replace(
        check,
        state="Pending",
        last_transition_time=now,
        message=f"Pending again since the eviction; it was {check.state}",
        retry_count=(check.retry_count or 0) + 1 if check.state == "Retry" else None,
        pod_set_updates=(),
    )


@dataclass(frozen=True, slots=True)
class Release:
    """Release the quota of a workload of which nothing runs any more, and put it where it waits (S-10.3).

    ``reason`` and ``message`` are those of QuotaReserved=False; without a message it is that of the eviction.
    """

    at: Millis
    reason: str = "PendingEvaluation"
    message: str = ""

    def __call__(self, workload: Workload) -> Workload | None:
        status = status_of(workload)
        if not holds_quota(workload) and status.admission is None:
            return None
        now = Time.of_millis(stored(self.at))
        evicted = find(status.conditions, "Evicted")
        conditions = status.conditions
        words = self.message or "The reservation has ended"
        if evicted is not None and evicted.status == "True":
            words = self.message or evicted.message
            requeued: Status = "True" if evicted.reason in RETURNS_AT_ONCE else "False"
            conditions = stated(workload, conditions, "Requeued", requeued, evicted.reason, evicted.message, self.at)
        conditions = stated(workload, conditions, "QuotaReserved", "False", self.reason, words, self.at)
        conditions = stated(workload, conditions, "Admitted", "False", "NoReservation", "No quota is held", self.at)
        seconds = _seconds_run(status, now)
        after = replace(status, conditions=conditions, admission=None, accumulated_past_execution_time_seconds=seconds)
        return replace(workload, status=after)


def _seconds_run(status: WorkloadStatus, now: Time) -> int | None:
    """The admitted seconds of all attempts so far; after a stop for running too long they start anew (S-10.9)."""
    past = status.accumulated_past_execution_time_seconds
    admitted, evicted = find(status.conditions, "Admitted"), find(status.conditions, "Evicted")
    if evicted is not None and evicted.status == "True" and evicted.reason == full_reason(DEACTIVATED, OUT_OF_TIME):
        return None
    if admitted is None or admitted.status != "True" or admitted.last_transition_time is None:
        return past
    return min(SECONDS_MAX, (past or 0) + max(0, now.seconds - admitted.last_transition_time.seconds))
