"""The edits that start and stop a Job and tell its Workload of it, and what a Job says of itself (api 18.3 to 18.6).

Each edit looks at the object that it finds, not at the one that somebody decided about: what no longer applies is
left out, so that done twice is done once.

Not here: which of them is due (``running``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from makeway.api.conditions import set_condition
from makeway.api.names import ADMISSION_GATED_BY, COMPLETIONS_EQUAL_PARALLELISM, JOB_UID_LABEL
from makeway.api.objects.kubernetes import Job, JobSpec, JobStatus, amended, view
from makeway.api.objects.meta import OwnerReference
from makeway.api.objects.workload import PodSet, ReclaimablePod, Workload
from makeway.api.quantity import Time
from makeway.controllers.jobs.priority import Revalue, may_become
from makeway.controllers.jobs.templates import is_started, restored
from makeway.controllers.jobs.workloads import Priority, count_of, end_of, status_of_job
from makeway.controllers.workloads.eviction import Release, condition, generation_of, holds_quota, says, status_of
from makeway.core.model import Millis, stored

NOT_READY = "Not all pods are ready or have succeeded"

replace = msgspec.structs.replace


# --- what a Job says --------------------------------------------------------------------------------------------------


def has_pods(status: JobStatus) -> bool:
    """Whether something of it may run: pods that are on their way out still take their place (S-10.4)."""
    return status.active + status.terminating > 0


def is_stopped(job: Job) -> bool:
    """Whether a Job is as if it had never started: its Workload can go without leaving a trace in its template."""
    spec, status = view(job.spec, JobSpec), status_of_job(job)
    return spec.suspend and not has_pods(status) and status.start_time is None and not is_started(spec.template)


def lets_go(job: Job) -> bool:
    """Whether its Workload may disappear: nobody else knows how its template was. One that goes itself needs none."""
    if job.metadata.deletion_timestamp is not None or end_of(job) is not None:
        return not has_pods(status_of_job(job))
    return is_stopped(job)


def is_ready(spec: JobSpec, status: JobStatus) -> bool:
    """Whether all its pods are there, or done (api 18.5)."""
    done = status.succeeded + len(status.uncounted_terminated_pods.succeeded)
    return not spec.suspend and status.ready + done >= count_of(spec)


def reclaimable(spec: JobSpec, status: JobStatus, count: int) -> int:
    """How many of the ``count`` pods that quota was asked for never come back: less is left to do (api 18.6).

    Not of the Job's parallelism, which is smaller once only some were admitted, and may be larger than what is left
    to do from the beginning.
    """
    done = status.succeeded
    if spec.completion_mode == "Indexed":
        done = indexes_in(status.completed_indexes) + indexes_in(status.failed_indexes)
    if count <= 1 or done <= 0:
        return 0
    whole = spec.parallelism if spec.completions is None else spec.completions
    return max(0, count - max(0, whole - done))


def indexes_in(text: str) -> int:
    """How many indexes ``1,3-5,7`` names; what is no index counts for none."""
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            count += max(0, int(last or first) - int(first) + 1)
    return count


# --- edits of a Job ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Suspend:
    def __call__(self, job: Any) -> Any:
        if view(job.spec, JobSpec).suspend:
            return None
        return replace(job, spec=amended(job.spec, {"suspend": True}))


@dataclass(frozen=True, slots=True)
class ForgetStart:
    """A suspended Job as if it had never started; before that a server takes no other template (api 18.4)."""

    def __call__(self, job: Any) -> Any:
        if not view(job.spec, JobSpec).suspend or status_of_job(job).start_time is None:
            return None
        return replace(job, status=amended(job.status, {"startTime": None}))


@dataclass(frozen=True, slots=True)
class Start:
    """Unsuspend, with the pods that were admitted (api 18.3). ``count`` is None where it stays as it is."""

    template: Raw
    count: int | None = None

    def __call__(self, job: Any) -> Any:
        spec = view(job.spec, JobSpec)
        if not spec.suspend or is_started(spec.template):
            return None
        changes = {"suspend": False, "template": self.template, **_counts(job, self.count)}
        return replace(job, spec=amended(job.spec, changes))


@dataclass(frozen=True, slots=True)
class Restore:
    """Template and parallelism as before the start (api 18.4)."""

    original: Raw
    count: int | None = None

    def __call__(self, job: Any) -> Any:
        spec = view(job.spec, JobSpec)
        if not spec.suspend or not is_started(spec.template):
            return None
        changes = {"template": restored(spec.template, self.original), **_counts(job, self.count)}
        return replace(job, spec=amended(job.spec, changes))


def _counts(job: Job, count: int | None) -> dict[str, object]:
    if count is None:
        return {}
    tied = job.metadata.annotations.get(COMPLETIONS_EQUAL_PARALLELISM) == "true"
    is_indexed = view(job.spec, JobSpec).completion_mode == "Indexed"
    return {"parallelism": count, **({"completions": count} if tied and is_indexed else {})}


# --- edits of its Workload --------------------------------------------------------------------------------------------


class End(NamedTuple):
    reason: str  # Succeeded, Failed, FailedToStart, OutOfSync
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """How the Job fares, on its Workload's status; all that is due at once."""

    at: Millis
    ready: bool = False
    reclaimable: int | None = None  # None: nobody counts them
    is_gone: bool = False  # stopped, and without pods: if it was evicted its quota is free
    end: End | None = None

    def __call__(self, workload: Any) -> Any:
        if says(workload, "Finished"):
            return None
        if self.end is not None:
            return self._told(workload, "Finished", "True", self.end.reason, self.end.message)
        if self.is_gone and says(workload, "Evicted") and holds_quota(workload):
            workload = Release(self.at)(workload)
        return self._reclaimed(self._pods_ready(workload))

    def _told(self, workload: Workload, type: str, status: Any, reason: str, message: str) -> Workload:
        before, now = status_of(workload), Time.of_millis(stored(self.at))
        after = set_condition(
            before.conditions, type=type, status=status, reason=reason, message=message, now=now,
            observed_generation=generation_of(workload),
        )  # fmt: skip
        return workload if after is before.conditions else replace(workload, status=replace(before, conditions=after))

    def _pods_ready(self, workload: Workload) -> Workload:
        """A Workload that is leaving keeps its last word; one that never was admitted has none yet (S-10.12)."""
        found = next(_pods_ready(workload, self.ready), None)
        return workload if found is None else self._told(workload, "PodsReady", *found)

    def _reclaimed(self, workload: Workload) -> Workload:
        if self.reclaimable is None:
            return workload
        name, status = workload.spec.pod_sets[0].name, status_of(workload)
        before = max((each.count for each in status.reclaimable_pods if each.name == name), default=0)
        # What was given back while quota is held is not taken again (api 5.3).
        count = max(before, self.reclaimable) if holds_quota(workload) else self.reclaimable
        if count == before:
            return workload
        pods = (ReclaimablePod(name=name, count=count),) if count else ()
        return replace(workload, status=replace(status, reclaimable_pods=pods))


def _pods_ready(workload: Workload, ready: bool) -> Iterator[tuple[str, str, str]]:
    """The condition PodsReady where it is to be written: status, reason, message."""
    before = condition(workload, "PodsReady")
    was_ready, reason = before is not None and before.status == "True", before.reason if before else ""
    if not says(workload, "Admitted"):
        if before is not None and (was_ready or reason != "WaitForStart"):
            yield "False", "WaitForStart", NOT_READY
    elif says(workload, "Evicted"):
        return
    elif ready and not was_ready:
        recovered = reason == "WaitForRecovery"
        words = "All pods are ready or have succeeded" + (" again" if recovered else "")
        yield "True", "Recovered" if recovered else "Started", words
    elif not ready and was_ready:
        yield "False", "WaitForRecovery", "A pod that was ready is no longer"
    elif before is None:
        yield "False", "WaitForStart", NOT_READY


@dataclass(frozen=True, slots=True)
class Follow:
    """What the Job says now, as far as its Workload may still change; None: that stays."""

    pod_sets: tuple[PodSet, ...] | None = None
    queue: str | None = None
    seconds: int | None = None
    priority: Priority | None = None
    revalue: Revalue | None = None
    gates: frozenset[str] = frozenset()  # who may still hold it back

    def __call__(self, workload: Any) -> Any:
        if says(workload, "Finished"):
            return None
        spec = workload.spec
        if not holds_quota(workload):
            spec = replace(
                spec,
                pod_sets=spec.pod_sets if self.pod_sets is None else self.pod_sets,
                queue_name=spec.queue_name if self.queue is None else self.queue,
                maximum_execution_time_seconds=self.seconds or spec.maximum_execution_time_seconds,
            )
        workload = self._ungated(replace(workload, spec=spec))
        if self.priority is not None and may_become(workload, self.priority.ref):
            new = replace(spec, priority=self.priority.value, priority_class_ref=self.priority.ref)
            return replace(workload, spec=new)
        return workload if self.revalue is None else self.revalue(workload) or workload

    def _ungated(self, workload: Workload) -> Workload:
        annotations = workload.metadata.annotations
        before = gates_of(annotations.get(ADMISSION_GATED_BY, ""))
        kept = [name for name in before if name in self.gates]
        if kept == before:
            return workload
        rest = {key: value for key, value in annotations.items() if key != ADMISSION_GATED_BY}
        gated = {ADMISSION_GATED_BY: ",".join(kept)} if kept else {}
        return replace(workload, metadata=replace(workload.metadata, annotations={**rest, **gated}))


def gates_of(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Bind a Workload that was there before its Job to it; one that belongs to somebody is left alone."""

    owner: OwnerReference

    def __call__(self, workload: Any) -> Any:
        meta = workload.metadata
        if any(each.controller for each in meta.owner_references):
            return None
        owners, labels = (*meta.owner_references, self.owner), {**meta.labels, JOB_UID_LABEL: self.owner.uid}
        return replace(workload, metadata=replace(meta, owner_references=owners, labels=labels))
