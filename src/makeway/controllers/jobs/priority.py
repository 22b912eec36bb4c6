"""Priorities that move: a class gets another number, a job another class (api 6).

A Workload keeps the class that it got at its creation until its job's label names another one: a default class that is
added or removed later changes none. The number follows the class at any time, unless it follows another object: an
Option follows its Parent (S-12.2), a copy from another cluster follows the original (S-13.7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from makeway.api.names import DEFAULT_PRIORITY_CLASS, ORIGIN_LABEL, PRIORITY_CLASS_LABEL
from makeway.api.objects.meta import KubernetesObject, ObjectMeta
from makeway.api.objects.workload import PriorityClassRef, Workload
from makeway.controllers.contract import PRIORITY_CLASS, WORKLOAD, WORKLOAD_PRIORITY_CLASS, Ref, View
from makeway.controllers.jobs.kinds.generic import pod_priority_class
from makeway.controllers.jobs.kinds.registry import JOB_KINDS, read_job
from makeway.controllers.jobs.workloads import KUBERNETES, OURS, Classes
from makeway.controllers.workloads.eviction import holds_quota, mode_of, says

replace = msgspec.structs.replace


def classes_of(around: View) -> Classes:
    classes = [*around.all(WORKLOAD_PRIORITY_CLASS), *around.all(PRIORITY_CLASS)]
    return Classes.among(classes, defaulting=around.policy.gates.workload_priority_class_defaulting)


def value_of(ref: PriorityClassRef | None, classes: Classes) -> int | None:
    """The number of a class; None: there is no such class, or none is named."""
    if ref is None:
        return None
    return (classes.pods if ref.kind == KUBERNETES[1] else classes.ours).get(ref.name)


def is_renamed(workload: Workload, meta: ObjectMeta) -> bool:
    """Whether the job's label asks for a class that the Workload does not have."""
    label, ref = meta.labels.get(PRIORITY_CLASS_LABEL, ""), workload.spec.priority_class_ref
    ours = ref.name if ref is not None and ref.kind == OURS[1] else ""
    return ours != label if label else ours not in ("", DEFAULT_PRIORITY_CLASS)


def may_become(workload: Workload, ref: PriorityClassRef | None) -> bool:
    """Whether a Workload may change to that class in its present state (api 5.1)."""
    before = workload.spec.priority_class_ref
    if not holds_quota(workload) or before == ref:
        return True
    return before is not None and ref is not None and before.kind == ref.kind == OURS[1]


def follows_class(workload: Workload) -> bool:
    """Whether its number is ours to keep in step with its class."""
    copied = ORIGIN_LABEL in workload.metadata.labels or mode_of(workload) == "ResourceFlavorOption"
    return not copied and not says(workload, "Finished")


@dataclass(frozen=True, slots=True)
class Revalue:
    """Set the present number of a class, for a Workload that still names it."""

    ref: PriorityClassRef
    value: int

    def __call__(self, workload: Workload) -> Workload | None:
        if workload.spec.priority_class_ref != self.ref or not follows_class(workload):
            return None
        return replace(workload, spec=replace(workload.spec, priority=self.value))


def concerned_by_class(named: Ref, around: View) -> Iterator[Ref]:
    """All that a class concerns: Workloads that have it, and jobs that need it to get a Workload."""
    for workload in around.all(WORKLOAD):
        ref = workload.spec.priority_class_ref
        if ref is not None and (ref.kind, ref.name) == (named.kind, named.name) and follows_class(workload):
            yield Ref.of(workload)
    for job in (job for kind in JOB_KINDS.values() for job in around.all(kind.name)):
        if not any(around.owned(job.metadata.uid, WORKLOAD)) and _asked_for(job, named.kind) == named.name:
            yield Ref.of(job)


def _asked_for(job: KubernetesObject, kind: str) -> str:
    if kind == OURS[1]:
        return job.metadata.labels.get(PRIORITY_CLASS_LABEL, "")
    return pod_priority_class(read_job(job))
