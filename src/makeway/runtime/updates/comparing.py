"""Which changes of a Workload count: for the state, for its place in the queue, and for the rounds it takes part in."""

from __future__ import annotations

from makeway.api.conditions import is_true
from makeway.api.equality import is_same_spec
from makeway.api.objects.meta import Condition
from makeway.api.objects.workload import Workload, WorkloadStatus

NO_STATUS = WorkloadStatus()
ENDS_ROUNDS = frozenset({"ClusterQueueStopped", "LocalQueueStopped", "NodeFailures", "Deactivated"})


def is_seen_alike(before: Workload, after: Workload) -> bool:
    """Whether two states of a Workload are equal in all that lowering reads, and so in all that decisions depend on."""
    old, new = before.status or NO_STATUS, after.status or NO_STATUS
    if old is new and before.spec is after.spec:
        was, now = before.metadata, after.metadata
        return (
            was.annotations == now.annotations
            and was.owner_references == now.owner_references
            and _is_leaving(before) == _is_leaving(after)
        )
    return (
        len(old.conditions) == len(new.conditions)
        and old.admission == new.admission
        and all(map(_is_condition_seen_alike, old.conditions, new.conditions))
        and _seen(before, old) == _seen(after, new)
    )


def _seen(workload: Workload, status: WorkloadStatus) -> tuple[object, ...]:
    """The other fields of a Workload that are compared."""
    meta, spec = workload.metadata, workload.spec
    return (
        meta.generation, _is_leaving(workload), meta.annotations, meta.owner_references,
        spec.active, spec.priority, spec.queue_name,
        status.requeue_state, status.reclaimable_pods, status.admission_checks, status.preemption_gates,
        status.preemption_claim, status.accumulated_past_execution_time_seconds,
    )  # fmt: skip


def _is_condition_seen_alike(a: Condition, b: Condition) -> bool:
    """Of the reasons for having no quota only OnHold counts; a time counts only where the condition is True."""
    if a.type != b.type or a.status != b.status:
        return False
    if a.status == "True" and a.last_transition_time != b.last_transition_time:
        return False
    return a.reason == b.reason or (a.type == "QuotaReserved" and "OnHold" not in (a.reason, b.reason))


def is_same_shape(before: Workload, after: Workload) -> bool:
    old, new = before.status or NO_STATUS, after.status or NO_STATUS
    return old.reclaimable_pods == new.reclaimable_pods and is_same_spec(before.spec, after.spec)


def is_blameless(workload: Workload) -> bool:
    """Whether a workload lost its quota by no contention and no failure of its own: its rounds end (S-19.3.2)."""
    status = workload.status or NO_STATUS
    conditions = {each.type: each for each in status.conditions}
    reserved, evicted = conditions.get("QuotaReserved"), conditions.get("Evicted")
    if evicted is not None and evicted.status == "True":
        return evicted.reason in ENDS_ROUNDS
    is_suspended = reserved is not None and reserved.status == "False" and reserved.reason == "Suspended"
    return is_suspended or not (workload.spec.active or is_true(status.conditions, "DeactivationTarget"))


def is_finished(workload: Workload) -> bool:
    return workload.status is not None and is_true(workload.status.conditions, "Finished")


def _is_leaving(workload: Workload) -> bool:
    return workload.metadata.deletion_timestamp is not None
