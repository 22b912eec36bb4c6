"""What the status of a Job says of its pods: while it runs or is suspended, at its end, and while it is being deleted.

Each function returns the new status; parts that it does not set stay byte for byte.

Not here: how far the Job is (``progress``), when each status is due (``pods``).
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from makeway.api.conditions import Status, find, is_true, set_condition
from makeway.api.objects.kubernetes import Job, JobCondition, amended
from makeway.api.objects.meta import Condition
from makeway.api.quantity import Time
from makeway.controllers.jobs.counts import PodCounts, print_indexes
from makeway.controllers.jobs.progress import JobEnd, JobProgress
from makeway.core.model import Millis, stored

Conditions = tuple[Condition, ...]


def status_now(job: Job, progress: JobProgress, *, making: int = 0, failing: JobEnd | None = None) -> Raw:
    """``making``: pods that are about to be made count already; ``failing``: its pods have to go before it fails."""
    pods = progress.pods
    succeeded, failed = progress.counted
    uncounted = progress.uncounted
    changes: dict[str, object] = {
        "active": (len(pods.active) + making) or None,
        "ready": _ready(pods),
        "terminating": len(pods.terminating) or None,
        "succeeded": succeeded or None,
        "failed": failed or None,
        "uncountedTerminatedPods": Raw(msgspec.json.encode(uncounted)) if uncounted else None,
        "conditions": _trees(_conditions(progress, failing)) or None,
    }
    if begins(progress):
        changes["startTime"] = _time(progress.now)
    if progress.is_indexed:
        changes["completedIndexes"] = print_indexes(progress.done) or None
    return amended(job.status, changes)


def final_status(job: Job, progress: JobProgress, end: JobEnd) -> Raw:
    """The status at the end: everything is counted at once, and there is no counting afterwards."""
    conditions = _with(progress.status.conditions, end.type, "True", end.reason, end.message, progress.now)
    if end.type == "Failed":
        conditions = _with_target(conditions, end, progress.now)
    changes: dict[str, object] = {
        "active": None, "ready": 0, "terminating": None, "uncountedTerminatedPods": None,
        "succeeded": progress.succeeded or None, "failed": progress.failed or None, "conditions": _trees(conditions),
    }  # fmt: skip
    if end.type == "Complete":
        changes["completionTime"] = _time(progress.now)
    if progress.is_indexed:
        changes["completedIndexes"] = print_indexes(progress.done)
    return amended(job.status, changes)


def status_while_going(job: Job, progress: JobProgress) -> Raw | None:
    """The status of a Job that is being deleted: only how many pods are left; None: it says so already."""
    pods, status = progress.pods, progress.status
    left = (len(pods.active), _ready(pods), len(pods.terminating))
    if left == (status.active, status.ready, status.terminating):
        return None
    return amended(job.status, {"active": left[0] or None, "ready": left[1], "terminating": left[2] or None})


def begins(progress: JobProgress) -> bool:
    """Whether it starts now, for the first time or again."""
    status = progress.status
    return not progress.spec.suspend and (status.start_time is None or is_true(status.conditions, "Suspended"))


def _ready(pods: PodCounts) -> int:
    return sum(each.is_ready for each in pods.active)


def _time(now: Millis) -> str:
    return str(Time.of_millis(stored(now)))


# --- conditions -------------------------------------------------------------------------------------------------------


def _conditions(progress: JobProgress, failing: JobEnd | None) -> Conditions:
    conditions: Conditions = progress.status.conditions
    if failing is not None and failing.type == "Failed":
        conditions = _with_target(conditions, failing, progress.now)
    if progress.spec.suspend:
        return _with(conditions, "Suspended", "True", "JobSuspended", "Job suspended", progress.now)
    if find(conditions, "Suspended") is None:
        return conditions
    return _with(conditions, "Suspended", "False", "JobResumed", "Job resumed", progress.now)


def _with_target(conditions: Conditions, end: JobEnd, now: Millis) -> Conditions:
    return _with(conditions, "FailureTarget", "True", end.reason, end.message, now)


def _with(conditions: Conditions, type_: str, status: Status, reason: str, message: str, now: Millis) -> Conditions:
    at = Time.of_millis(stored(now))
    return set_condition(conditions, type=type_, status=status, reason=reason, message=message, now=at)


def _trees(conditions: Conditions) -> list[dict[str, object]]:
    return [_tree(each) for each in conditions]


def _tree(condition: Condition) -> dict[str, object]:
    probed = condition.last_probe_time if isinstance(condition, JobCondition) else None
    times = {"lastTransitionTime": condition.last_transition_time, "lastProbeTime": probed}
    words = {"reason": condition.reason, "message": condition.message}
    return {
        "type": condition.type, "status": condition.status,
        **{name: str(time) for name, time in times.items() if time is not None},
        **{name: text for name, text in words.items() if text},
    }  # fmt: skip
