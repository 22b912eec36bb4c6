"""The edits that start and stop a job, of whatever kind, and tell its Workload of it (api 18.3 to 18.6).

Each edit is made on the object as stored, not on the one that was decided about. It leaves out what no longer applies,
so that doing it twice equals doing it once.

Not here: which of them is due (``running``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from makeway.api.conditions import Status, set_condition
from makeway.api.names import ADMISSION_GATED_BY, JOB_UID_LABEL
from makeway.api.objects.meta import KubernetesObject, OwnerReference
from makeway.api.objects.workload import PodSet, ReclaimablePod, Workload
from makeway.api.quantity import Time
from makeway.controllers.jobs.kinds.generic import AskedPods, End, NewPods, has_started_templates
from makeway.controllers.jobs.kinds.registry import read_job
from makeway.controllers.jobs.priority import Revalue, may_become
from makeway.controllers.jobs.templates import own_template, restored
from makeway.controllers.jobs.workloads import Priority
from makeway.controllers.workloads.eviction import Release, condition, generation_of, holds_quota, says, status_of
from makeway.core.model import Millis, stored

NOT_READY = "Not all pods are ready or have succeeded"

replace = msgspec.structs.replace


# --- edits of a job ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Suspend:
    def __call__(self, value: KubernetesObject) -> KubernetesObject | None:
        job = read_job(value)
        return None if job.is_suspended else job.suspended()


@dataclass(frozen=True, slots=True)
class ForgetStart:
    """Make a suspended job as if it had never started; a server accepts no other template before that (api 18.4)."""

    def __call__(self, value: KubernetesObject) -> KubernetesObject | None:
        job = read_job(value)
        return job.without_start() if job.is_suspended and job.remembers_start else None


@dataclass(frozen=True, slots=True)
class Start:
    """Unsuspend, with the pods that were admitted (api 18.3)."""

    pods: tuple[NewPods, ...]

    def __call__(self, value: KubernetesObject) -> KubernetesObject | None:
        job = read_job(value)
        if not job.is_suspended or has_started_templates(job):
            return None
        return job.with_pods(self.pods, suspend=False)


@dataclass(frozen=True, slots=True)
class Restore:
    """Put templates and counts back as before the start (api 18.4): ``originals``, from its Workload's podSets."""

    originals: tuple[NewPods, ...]

    def __call__(self, value: KubernetesObject) -> KubernetesObject | None:
        job = read_job(value)
        if not job.is_suspended or not has_started_templates(job):
            return None
        return job.with_pods([self._restored(pods) for pods in job.pod_sets], suspend=True)

    def _restored(self, pods: AskedPods) -> NewPods:
        original = next((each for each in self.originals if each.name == pods.name), None)
        if original is None:  # its Workload does not know them: at least the marks of the start go
            return NewPods(pods.name, own_template(pods.template))
        return NewPods(pods.name, restored(pods.template, original.template), original.count)


# --- edits of its Workload --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """How the Job fares, on its Workload's status; all changes at once."""

    at: Millis
    ready: bool = False
    reclaimable: tuple[tuple[str, int], ...] | None = None  # by podSet; None: they are not counted
    is_gone: bool = False  # stopped, and without pods: if it was evicted its quota is free
    end: End | None = None

    def __call__(self, workload: Workload) -> Workload | None:
        if says(workload, "Finished"):
            return None
        if self.end is not None:
            return self._told(workload, "Finished", "True", self.end.reason, self.end.message)
        if self.is_gone and says(workload, "Evicted") and holds_quota(workload):
            workload = Release(self.at)(workload) or workload
        return self._reclaimed(self._pods_ready(workload))

    def _told(self, workload: Workload, type: str, status: Status, reason: str, message: str) -> Workload:
        before, now = status_of(workload), Time.of_millis(stored(self.at))
        after = set_condition(
            before.conditions, type=type, status=status, reason=reason, message=message, now=now,
            observed_generation=generation_of(workload),
        )  # fmt: skip
        return workload if after is before.conditions else replace(workload, status=replace(before, conditions=after))

    def _pods_ready(self, workload: Workload) -> Workload:
        """A Workload that is leaving keeps its last condition; one that never was admitted has none yet (S-10.12)."""
        found = next(_pods_ready(workload, self.ready), None)
        return workload if found is None else self._told(workload, "PodsReady", *found)

    def _reclaimed(self, workload: Workload) -> Workload:
        if self.reclaimable is None:
            return workload
        status = status_of(workload)
        before = {each.name: each.count for each in status.reclaimable_pods}
        counts = {name: count for name, count in self.reclaimable if count}
        if holds_quota(workload):  # what was given back while quota is held is not taken again (api 5.3)
            names = [each.name for each in workload.spec.pod_sets]
            most = {name: max(before.get(name, 0), counts.get(name, 0)) for name in names}
            counts = {name: count for name, count in most.items() if count}
        if counts == before:
            return workload
        pods = tuple(ReclaimablePod(name=name, count=count) for name, count in counts.items())
        return replace(workload, status=replace(status, reclaimable_pods=pods))


def _pods_ready(workload: Workload, ready: bool) -> Iterator[tuple[Status, str, str]]:
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
    """What the Job asks for now, as far as its Workload may still change; None: that stays."""

    pod_sets: tuple[PodSet, ...] | None = None
    queue: str | None = None
    seconds: int | None = None
    priority: Priority | None = None
    revalue: Revalue | None = None
    gates: frozenset[str] = frozenset()  # gates that may still hold it back

    def __call__(self, workload: Workload) -> Workload | None:
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
    """Bind a Workload to its Job, which came later; one with another owner is left alone."""

    owner: OwnerReference

    def __call__(self, workload: Workload) -> Workload | None:
        meta = workload.metadata
        if any(each.controller for each in meta.owner_references):
            return None
        owners, labels = (*meta.owner_references, self.owner), {**meta.labels, JOB_UID_LABEL: self.owner.uid}
        return replace(workload, metadata=replace(meta, owner_references=owners, labels=labels))
