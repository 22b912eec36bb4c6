"""Jobs whose pods are one gang: quota decides whether they run, placement decides where (api 10).

A Job with the annotation ``makeway.dev/gang: "true"`` gets a scheduling Workload while it is admitted, named like its
queueing Workload: as many pods as were admitted are placed together and make way together, with the priority that they
have in the queue. Its pods refer to it from their start on (``running``).

What that gang is follows from the Job and its queueing Workload alone (``gang_in_queue``). The pod scheduler calls the
same function, so the pods always have their priority: the stored object only shows it (decision 0062).

If placement evicts one of its pods, or the node of one is lost, the queueing Workload is evicted too, once: the Job
stops in order, its quota is returned, and it is queued again. A gang without a place is evicted like all workloads
whose pods are not ready in time.

Promises: no memory between reconciles; an eviction is only asked for because of pods of this admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from makeway.api.names import GANG, WORKLOAD_REF
from makeway.api.names import WORKLOAD as WORKLOAD_ANNOTATION
from makeway.api.objects.kubernetes import Job, JobSpec, Pod
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.meta import KubernetesObject, ObjectMeta
from makeway.api.objects.scheduling import (
    ControllerReference,
    GangPolicy,
    GangWorkload,
    GangWorkloadSpec,
    GangWorkloadStatus,
    PodGroup,
    PodGroupPolicy,
)
from makeway.api.objects.workload import PodSetUpdate, Workload
from makeway.controllers.contract import (
    GANG_WORKLOAD,
    NOTHING,
    POD,
    WORKLOAD,
    Action,
    Change,
    Create,
    Delete,
    Outcome,
    Ref,
    View,
)
from makeway.controllers.jobs.counts import may_run, status_of_pod
from makeway.controllers.jobs.kinds.batch import BATCH_JOB, indexes_in, status_of_job
from makeway.controllers.jobs.kinds.registry import job_of
from makeway.controllers.pods.edits import NODE_LOST, PREEMPTED
from makeway.controllers.workloads.eviction import (
    Evict,
    condition,
    event_of_eviction,
    holds_quota,
    says,
    since,
    status_of,
)
from makeway.core.lowering.workloads import effective_priority
from makeway.core.model import Millis
from makeway.core.policy import Policy

EVICTED = {PREEMPTED: "Preempted", NODE_LOST: "NodeFailures"}  # why a pod had to leave -> why its Workload has to

replace = msgspec.structs.replace


def is_gang(job: Job) -> bool:
    return job.metadata.annotations.get(GANG) == "true"


def gang_update(
    job: KubernetesObject, workload: Workload, pod_set: str, policy: Policy
) -> Iterator[tuple[str, PodSetUpdate]]:
    """What the pods of a gang get at their start: the group that they belong to."""
    if isinstance(job, Job) and is_gang(job) and policy.gates.generic_workload:
        reference = f"{workload.metadata.name}/{pod_set}"
        yield f"annotation {GANG}", PodSetUpdate(annotations={WORKLOAD_REF: reference})


# --- what the gang is ------------------------------------------------------------------------------------------------


def gang_of(job: Job, workload: Workload, policy: Policy) -> GangWorkload:
    """The gang of a Job, as its scheduling Workload shows it, with the priority of its queue."""
    meta, owner = workload.metadata, job.metadata
    gang = PodGroupPolicy(gang=GangPolicy(min_count=_least(job, workload), preemption_mode="PodGroup"))
    priority = effective_priority(workload, policy)
    return GangWorkload(
        metadata=ObjectMeta(
            name=meta.name, namespace=meta.namespace, owner_references=(BATCH_JOB.owner(owner.name, owner.uid),)
        ),
        spec=GangWorkloadSpec(
            controller_ref=ControllerReference(api_group="batch", kind="Job", name=owner.name),
            pod_groups=(PodGroup(name=workload.spec.pod_sets[0].name, policy=gang),),
        ),
        status=GangWorkloadStatus(
            priority=priority, preemption_priority=priority, preemption_policy="PreemptLowerPriority"
        ),
    )


def gang_in_queue(namespace: str, name: str, view: View) -> GangWorkload | None:
    """The gang of the queueing Workload of this name while that holds quota: until the last of its pods is gone.

    It counts whether or not its scheduling Workload is stored, and whatever that says. None: there is none.
    """
    pair = _pair(namespace, name, view)
    if pair is None or not view.policy.gates.generic_workload:
        return None
    job, workload = pair
    if not holds_quota(workload) or says(workload, "Finished"):
        return None
    return gang_of(job, workload, view.policy)


def priority_in_queue(gang: GangWorkload, view: View) -> int | None:
    """The priority of a scheduling Workload that was made for a Job; None: it was not, or its own priority counts.

    Its status shows the priority too, but later: both cannot be written at once.
    """
    pair = _pair(gang.metadata.namespace, gang.metadata.name, view)
    return effective_priority(pair[1], view.policy) if pair is not None and is_owned(gang, pair[0]) else None


def _pair(namespace: str, name: str, view: View) -> tuple[Job, Workload] | None:
    """The queueing Workload of this name and its Job, if that is to be a gang."""
    workload = view.get(Ref(WORKLOAD, namespace, name))
    job = None if workload is None else _job_of(workload, view)
    return (job, workload) if workload is not None and job is not None and is_gang(job) else None


def _least(job: Job, workload: Workload) -> int:
    """The number of pods that were admitted, or of those left to run if the Job has fewer."""
    admission = status_of(workload).admission
    pod_set = workload.spec.pod_sets[0]
    assigned = () if admission is None else admission.pod_set_assignments
    counts = [each.count for each in assigned if each.name == pod_set.name and each.count is not None]
    admitted = counts[0] if counts else pod_set.count
    completions = read(job.spec, JobSpec).completions
    if completions is None:
        return max(1, admitted)
    status = status_of_job(job)
    return max(1, min(admitted, completions - status.succeeded - indexes_in(status.failed_indexes)))


# --- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rank:
    """The priority that a gang has in the queue, as a preemptor and as a victim (api 12)."""

    priority: int

    def __call__(self, gang: GangWorkload) -> GangWorkload:
        status = gang.status or GangWorkloadStatus()
        after = replace(
            status, priority=self.priority, preemption_priority=self.priority, preemption_policy="PreemptLowerPriority"
        )
        return gang if after == status else replace(gang, status=after)


@dataclass(frozen=True, slots=True)
class Resize:
    """How many pods of its first group must have a place together: the only number of it that may change."""

    least: int

    def __call__(self, gang: GangWorkload) -> GangWorkload:
        first, *others = gang.spec.pod_groups
        policy = first.policy.gang
        if policy is None or policy.min_count == self.least:
            return gang
        resized = replace(first, policy=replace(first.policy, gang=replace(policy, min_count=self.least)))
        return replace(gang, spec=replace(gang.spec, pod_groups=(resized, *others)))


class JobGangs:
    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"Job", "Workload", GANG_WORKLOAD})

    def react(self, ref: Ref[Job | Workload | GangWorkload], view: View, now: Millis) -> Outcome:
        found = view.get(Ref(WORKLOAD, ref.namespace, ref.name) if ref.kind == GANG_WORKLOAD else ref)
        job = _job_of(found, view) if isinstance(found, Workload) else found
        if not isinstance(job, Job) or not is_gang(job) or job.metadata.deletion_timestamp is not None:
            return NOTHING
        workload = found if isinstance(found, Workload) else next(iter(view.owned(job.metadata.uid, WORKLOAD)), None)
        if workload is None:
            return NOTHING
        return Outcome(tuple(_GangOfJob(job, workload, view, now).actions()))


def _job_of(workload: Workload, view: View) -> Job | None:
    job = job_of(workload, view)
    return job if isinstance(job, Job) else None


@dataclass(frozen=True, slots=True)
class _GangOfJob:
    """A Job that is a gang, its queueing Workload, and what is due for its scheduling Workload."""

    job: Job
    workload: Workload
    view: View
    now: Millis

    def actions(self) -> Iterator[Action]:
        meta = self.workload.metadata
        ref = Ref(GANG_WORKLOAD, meta.namespace, meta.name)
        gang = self.view.get(ref)
        if self._stays:
            pods = [each for each in self.view.owned(self.job.metadata.uid, POD) if _is_of(each, meta.name)]
            yield from self._evict(pods)
            if gang is None:
                yield Action(Create(gang_of(self.job, self.workload, self.view.policy)))
        if gang is None or not is_owned(gang, self.job) or gang.metadata.deletion_timestamp is not None:
            return  # the object of another owner is not ours to change
        if self._stays:
            yield from self._kept(ref, gang)
        elif not holds_quota(self.workload) or says(self.workload, "Finished"):
            yield Action(Delete(ref, gang.metadata.uid))

    @property
    def _stays(self) -> bool:
        workload = self.workload
        return (
            self.view.policy.gates.generic_workload
            and says(workload, "Admitted")
            and not says(workload, "Evicted")
            and not says(workload, "Finished")
            and workload.metadata.deletion_timestamp is None
        )

    def _kept(self, ref: Ref[GangWorkload], gang: GangWorkload) -> Iterator[Action]:
        resize = Resize(_least(self.job, self.workload))
        rank = Rank(effective_priority(self.workload, self.view.policy))
        if resize(gang) is not gang:
            yield Action(Change(ref, resize, status=False, uid=gang.metadata.uid))
        elif rank(gang) is not gang:
            yield Action(Change(ref, rank, uid=gang.metadata.uid))

    # --- pods that had to leave ---

    def _evict(self, pods: Sequence[Pod]) -> Iterator[Action]:
        admitted = since(condition(self.workload, "Admitted"), self.now)
        for each in pods:
            told = next((c for c in status_of_pod(each).conditions if c.reason in EVICTED), None)
            if told is None or self._is_of_earlier_admission(each, admitted):
                continue
            ref = Ref.of(self.workload)
            message = f"Its pod {each.metadata.name} had to leave. {told.message}"
            reason = EVICTED[told.reason]
            edit = Evict(reason, message, self.now, cause=told.reason)
            note = event_of_eviction(ref, reason, message)
            yield Action(Change(ref, edit, uid=self.workload.metadata.uid), notes=(note,))
            return

    def _is_of_earlier_admission(self, pod: Pod, admitted: Millis) -> bool:
        """Whether a pod was made before the Workload was admitted, as far as whole seconds can tell.

        Of pods made in the second of a later admission those that have ended are earlier: a Workload comes back only
        when no pod of it runs.
        """
        created = pod.metadata.creation_timestamp
        if created is None or created.millis < admitted:
            return True
        return created.millis == admitted and not may_run(pod) and condition(self.workload, "Evicted") is not None


def is_owned(gang: GangWorkload | None, job: Job) -> bool:
    return gang is not None and any(each.uid == job.metadata.uid for each in gang.metadata.owner_references)


def _is_of(pod: Pod, workload: str) -> bool:
    return pod.metadata.annotations.get(WORKLOAD_ANNOTATION) == workload
