"""What the life of a Workload writes: one edit per event of it (S-10, S-14.2).

Promises: each edit names what it changes and keeps all else; for an object that is no longer as the decision saw it,
it gives None or the same object; times are whole seconds.

Not here: when each is due (``lifecycle``), ``Evict`` and ``Release``, which others share (``eviction``).
"""

from __future__ import annotations

from dataclasses import dataclass

from makeway.api.conditions import remove
from makeway.api.names import RESOURCE_IN_USE
from makeway.api.objects.workload import PreemptionGateState, RequeueState, Workload
from makeway.api.quantity import Time
from makeway.controllers.contract import Edit, Object
from makeway.controllers.workloads.eviction import (
    DEACTIVATED,
    OUT_OF_TIME,
    Evict,
    condition,
    full_reason,
    holds_quota,
    message_of_eviction,
    replace,
    reset,
    says,
    stated,
    status_of,
)
from makeway.core.model import Millis, stored
from makeway.core.policy import Requeuing


@dataclass(frozen=True, slots=True)
class Aim:
    """Note that the workload is to be deactivated, and why; ``spec.active`` is written separately (S-10.10)."""

    reason: str
    message: str
    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        if not workload.spec.active or says(workload, "Finished"):
            return None
        status = status_of(workload)
        conditions = stated(
            workload, status.conditions, "DeactivationTarget", "True", self.reason, self.message, self.at
        )
        past = None if self.reason == OUT_OF_TIME else status.accumulated_past_execution_time_seconds
        after = replace(status, conditions=conditions, accumulated_past_execution_time_seconds=past)
        return replace(workload, status=after)


@dataclass(frozen=True, slots=True)
class SwitchOff:
    """``spec.active`` := false, as DeactivationTarget wants it."""

    def __call__(self, workload: Workload) -> Workload | None:
        if not says(workload, "DeactivationTarget") or says(workload, "Finished"):
            return None
        return replace(workload, spec=replace(workload.spec, active=False))


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Make a workload that was switched off leave, and forget its back-off (S-10.10).

    A workload without quota has nothing to leave and is Evicted all the same, uncounted: clients learn from that
    condition that it is deactivated (decision 0071). If makeway switched it off, the condition says so even where
    another eviction came first: its return depends on that (S-10.11, 12.6).
    """

    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        if workload.spec.active or says(workload, "Finished"):
            return None
        target = condition(workload, "DeactivationTarget")
        cause = target.reason if target is not None and target.status == "True" else ""
        message = target.message if cause and target is not None else message_of_eviction(DEACTIVATED)
        left = Evict(DEACTIVATED, message, self.at, cause)(workload) or workload
        now, status = Time.of_millis(stored(self.at)), status_of(left)
        conditions, checks = status.conditions, status.admission_checks
        if cause or not says(left, "Evicted"):
            if not holds_quota(left):
                conditions = remove(conditions, "Evicted")  # that eviction is over; this one begins now
                checks = tuple(reset(each, now) for each in checks)
            told = full_reason(DEACTIVATED, cause)
            conditions = stated(workload, conditions, "Evicted", "True", told, message, self.at)
        conditions = remove(conditions, "DeactivationTarget")
        after = replace(status, conditions=conditions, admission_checks=checks, requeue_state=None)
        return replace(left, status=after)


@dataclass(frozen=True, slots=True)
class InTurn:
    """Two edits in one write; if the first one no longer applies, neither is made."""

    first: Edit[Workload]
    second: Edit[Workload]

    def __call__(self, workload: Workload) -> Workload | None:
        changed = self.first(workload)
        return None if changed is None else self.second(changed) or changed


@dataclass(frozen=True, slots=True)
class BackOff:
    """Evict a workload whose pods are not ready, and let it wait longer each time (S-10.7, 10.8)."""

    cause: str
    message: str
    at: Millis
    requeuing: Requeuing

    def __call__(self, workload: Workload) -> Workload | None:
        if says(workload, "Evicted"):
            return None
        left = Evict("PodsReadyTimeout", self.message, self.at, self.cause)(workload)
        if left is None:
            return None
        status = status_of(left)
        before = status.requeue_state or RequeueState()
        count = (before.count or 0) + 1
        until = stored(self.at) + wait_ms(self.requeuing, count)
        if before.requeue_at is not None:
            until = max(until, before.requeue_at.millis)
        waiting = RequeueState(count=count, requeue_at=Time.of_millis(stored(Millis(until))))
        return replace(left, status=replace(status, requeue_state=waiting))


def wait_ms(requeuing: Requeuing, count: int) -> int:
    """How long the ``count``-th back-off lasts: twice the one before, up to the maximum."""
    doublings = min(count - 1, 62)  # beyond that every base is above every maximum
    return min(requeuing.backoff_base_ms << doublings, requeuing.backoff_max_ms)


@dataclass(frozen=True, slots=True)
class Requeue:
    """The workload may be considered again (S-10.5)."""

    reason: str
    message: str
    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        if holds_quota(workload) or says(workload, "Finished"):
            return None
        status = status_of(workload)
        conditions = stated(workload, status.conditions, "Requeued", "True", self.reason, self.message, self.at)
        state = status.requeue_state
        if self.reason == "BackoffFinished" and state is not None:
            state = RequeueState(count=state.count) if state.count is not None else None
        return replace(workload, status=replace(status, conditions=conditions, requeue_state=state))


@dataclass(frozen=True, slots=True)
class TellWhyWaiting:
    """Say why a workload without quota waits (api 14.1)."""

    reason: str
    message: str
    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        if holds_quota(workload) or says(workload, "Finished"):
            return None
        status = status_of(workload)
        conditions = stated(workload, status.conditions, "QuotaReserved", "False", self.reason, self.message, self.at)
        if condition(workload, "Admitted") is None or says(workload, "Admitted"):
            conditions = stated(workload, conditions, "Admitted", "False", "NoReservation", "No quota is held", self.at)
        return replace(workload, status=replace(status, conditions=conditions))


@dataclass(frozen=True, slots=True)
class ListGates:
    """Bring the states of preemption gates in line with the spec; new ones are closed (S-14.2)."""

    at: Millis

    def __call__(self, workload: Workload) -> Workload | None:
        status = status_of(workload)
        known = {gate.name: gate for gate in status.preemption_gates}
        if known.keys() == {gate.name for gate in workload.spec.preemption_gates}:
            return workload
        now = Time.of_millis(stored(self.at))
        gates = tuple(
            known.get(gate.name) or PreemptionGateState(name=gate.name, state="Closed", last_transition_time=now)
            for gate in workload.spec.preemption_gates
        )
        return replace(workload, status=replace(status, preemption_gates=gates))


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off an object that is being deleted."""

    def __call__(self, value: Object) -> Object | None:
        meta = value.metadata
        if meta.deletion_timestamp is None or RESOURCE_IN_USE not in meta.finalizers:
            return None
        left = tuple(each for each in meta.finalizers if each != RESOURCE_IN_USE)
        return replace(value, metadata=replace(meta, finalizers=left))
