"""The kinds of jobs that makeway knows. A new kind is added to ``JOB_KINDS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from makeway.api.objects.meta import KubernetesObject, OwnerReference
from makeway.controllers.contract import Ref, View
from makeway.controllers.jobs.kinds.batch import BATCH_JOB
from makeway.controllers.jobs.kinds.generic import GenericJob, JobKind, has_started_templates
from makeway.controllers.jobs.kinds.jobset import JOBSET
from makeway.controllers.jobs.kinds.rayjob import RAYJOB

JOB_KINDS: Final[Mapping[str, JobKind]] = {kind.name: kind for kind in (BATCH_JOB, JOBSET, RAYJOB)}


def job_kind_of(value: KubernetesObject) -> JobKind | None:
    """The kind of a wire object that is a job."""
    return JOB_KINDS.get(value.kind)


def read_job(value: KubernetesObject) -> GenericJob:
    return JOB_KINDS[value.kind].read(value)


def kind_of_owner(reference: OwnerReference) -> JobKind | None:
    """The kind of the job that a reference names; None: it names no job."""
    kind = JOB_KINDS.get(reference.kind)
    return kind if kind is not None and kind.owns(reference) else None


def job_of(value: KubernetesObject, view: View) -> KubernetesObject | None:
    """The job that controls an object, as it is stored; None: no job does, or it is gone."""
    owner = value.metadata.controller
    if owner is None:
        return None
    kind = kind_of_owner(owner)
    if kind is None:
        return None
    found = view.get(Ref(kind.name, value.metadata.namespace, owner.name))
    return found if found is not None and found.metadata.uid == owner.uid else None


def is_stopped(value: KubernetesObject) -> bool:
    """Whether a job is as if it had never started: its Workload can go, and its templates need no restoring."""
    job = read_job(value)
    return job.is_suspended and not job.has_pods and not job.remembers_start and not has_started_templates(job)


def lets_go(value: KubernetesObject) -> bool:
    """Whether its Workload may disappear: it alone knows the original templates. A job that is deleted needs none."""
    job = read_job(value)
    if value.metadata.deletion_timestamp is not None or job.end is not None:
        return not job.has_pods
    return is_stopped(value)
