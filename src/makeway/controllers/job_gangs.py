"""Jobs whose pods are one gang: quota decides whether they run, placement where, and each hears of the other (api 10).

A Job with the annotation ``makeway.dev/gang: "true"`` gets a scheduling Workload while it is admitted, named like its
queueing Workload: as many pods as were admitted are placed together and make way together, with the priority that they
have in the queue. Its pods refer to it from their start on (``job_running``).

If placement evicts one of its pods, or the node of one is lost, the queueing Workload is evicted too, once: the Job
stops in order, its quota comes back, and it is queued again. A gang that finds no place is evicted like everybody
whose pods are not ready in time.

Promises: nothing is remembered between two looks; an eviction is asked for only because of pods of this admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from makeway.api.names import GANG, WORKLOAD, WORKLOAD_REF
from makeway.api.objects.kubernetes import Job, JobSpec, Pod
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.pods import PodSpec
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
from makeway.controllers.contract import GANG_WORKLOAD, NOTHING, Action, Change, Create, Delete, Outcome, Ref, View
from makeway.controllers.eviction import Evict, condition, event_of_eviction, holds_quota, says, since, status_of
from makeway.controllers.job_counts import may_run, status_of_pod
from makeway.controllers.jobs import owner_of, status_of_job
from makeway.controllers.pod_edits import NODE_LOST, PREEMPTED
from makeway.core.lowering.workloads import effective_priority
from makeway.core.model import Millis

EVICTED = {PREEMPTED: "Preempted", NODE_LOST: "NodeFailures"}  # why a pod had to leave -> why its Workload has to

replace = msgspec.structs.replace


def is_gang(job: Job) -> bool:
    return job.metadata.annotations.get(GANG) == "true"


def gang_update(job: Job, workload: Workload, pod_set: str) -> Iterator[tuple[str, PodSetUpdate]]:
    """What the pods of a gang get at their start: to whom they belong."""
    if is_gang(job):
        reference = f"{workload.metadata.name}/{pod_set}"
        yield f"annotation {GANG}", PodSetUpdate(annotations={WORKLOAD_REF: reference})


def priority_in_queue(gang: GangWorkload, view: View) -> int | None:
    """The priority that counts for a scheduling Workload that was made for a Job; None: nobody's gang, or its own.

    Its status says so too, but later: who makes it cannot write both at once.
    """
    meta = gang.metadata
    workload = view.get(Ref("Workload", meta.namespace, meta.name))
    if not isinstance(workload, Workload):
        return None
    job = _job_of(workload, view)
    if job is None or not is_gang(job) or not _is_owned(gang, job):
        return None
    return effective_priority(workload, view.policy)


@dataclass(frozen=True, slots=True)
class Rank:
    """The priority that a gang has in the queue, as a preemptor and as a victim (api 12)."""

    priority: int

    def __call__(self, gang: Any) -> Any:
        status = gang.status or GangWorkloadStatus()
        after = replace(
            status, priority=self.priority, preemption_priority=self.priority, preemption_policy="PreemptLowerPriority"
        )
        return gang if after == status else replace(gang, status=after)


class JobGangs:
    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"Job", "Workload"})

    def react(self, whom: Ref, view: View, now: Millis) -> Outcome:
        found = view.get(whom)
        job = _job_of(found, view) if isinstance(found, Workload) else found
        if not isinstance(job, Job) or not is_gang(job) or job.metadata.deletion_timestamp is not None:
            return NOTHING
        workload = found if isinstance(found, Workload) else next(iter(view.owned(job.metadata.uid)), None)
        if not isinstance(workload, Workload):
            return NOTHING
        return Outcome(tuple(_Looking(job, workload, view, now).actions()))


def _job_of(workload: Workload, view: View) -> Job | None:
    owner = next((each for each in workload.metadata.owner_references if each.controller), None)
    if owner is None or owner.kind != "Job":
        return None
    job = view.get(Ref("Job", workload.metadata.namespace, owner.name))
    return job if isinstance(job, Job) and job.metadata.uid == owner.uid else None


@dataclass(frozen=True, slots=True)
class _Looking:
    """One look at a Job that is a gang, and at its queueing Workload."""

    job: Job
    workload: Workload
    view: View
    now: Millis

    def actions(self) -> Iterator[Action]:
        meta = self.workload.metadata
        ref = Ref(GANG_WORKLOAD, meta.namespace, meta.name)
        gang = self.view.get(ref)
        is_ours = _is_owned(gang, self.job)
        pods = [each for each in self.view.owned(self.job.metadata.uid, "Pod") if _is_of(each, meta.name)]
        if self._stays:
            yield from self._evict(pods)
        if not self._stays or gang is None:
            if gang is None and self._stays:
                yield Action(Create(self._gang(self._least(pods))))
            elif gang is not None and is_ours and (not holds_quota(self.workload) or says(self.workload, "Finished")):
                yield Action(Delete(ref, gang.metadata.uid))
            return
        if not is_ours:
            return  # somebody else's: his groups are not ours to change
        yield from self._kept(ref, gang, pods)

    @property
    def _stays(self) -> bool:
        workload = self.workload
        return (
            says(workload, "Admitted")
            and not says(workload, "Evicted")
            and not says(workload, "Finished")
            and workload.metadata.deletion_timestamp is None
        )

    def _kept(self, ref: Ref, gang: GangWorkload, pods: Sequence[Pod]) -> Iterator[Action]:
        policy = gang.spec.pod_groups[0].policy.gang
        stored, least = 0 if policy is None else policy.min_count, self._least(pods)
        if least < stored or (least > stored and not any(may_run(each) for each in pods)):
            yield Action(Delete(ref, gang.metadata.uid))  # what it says cannot be changed; it is made anew
            return
        rank = Rank(effective_priority(self.workload, self.view.policy))
        if rank(gang) is not gang:
            yield Action(Change(ref, rank, uid=gang.metadata.uid))

    # --- how many ---

    def _least(self, pods: Sequence[Pod]) -> int:
        """The pods that were admitted; of a Job that has fewer left to run, and has to place them, those."""
        admission = status_of(self.workload).admission
        pod_set = self.workload.spec.pod_sets[0]
        assigned = () if admission is None else admission.pod_set_assignments
        counts = [each.count for each in assigned if each.name == pod_set.name and each.count is not None]
        admitted = counts[0] if counts else pod_set.count
        live = [each for each in pods if may_run(each)]
        completions = read(self.job.spec, JobSpec).completions
        waits = any(not read(each.spec, PodSpec).node_name for each in live)
        if completions is None or not waits or len(live) >= admitted:
            return admitted
        return max(1, min(admitted, completions - status_of_job(self.job).succeeded))

    def _gang(self, least: int) -> GangWorkload:
        meta, job = self.workload.metadata, self.job.metadata
        policy = PodGroupPolicy(gang=GangPolicy(min_count=least, preemption_mode="PodGroup"))
        return GangWorkload(
            metadata=ObjectMeta(
                name=meta.name, namespace=meta.namespace, owner_references=(owner_of(job.name, job.uid),)
            ),
            spec=GangWorkloadSpec(
                controller_ref=ControllerReference(api_group="batch", kind="Job", name=job.name),
                pod_groups=(PodGroup(name=self.workload.spec.pod_sets[0].name, policy=policy),),
            ),
        )

    # --- who had to leave ---

    def _evict(self, pods: Sequence[Pod]) -> Iterator[Action]:
        admitted = since(condition(self.workload, "Admitted"), self.now)
        for each in pods:
            created = each.metadata.creation_timestamp
            told = next((c for c in status_of_pod(each).conditions if c.reason in EVICTED), None)
            if told is None or created is None or created.millis < admitted:
                continue
            ref = Ref.of(self.workload)
            message = f"Its pod {each.metadata.name} had to leave. {told.message}"
            reason = EVICTED[told.reason]
            edit = Evict(reason, message, self.now, cause=told.reason)
            note = event_of_eviction(ref, reason, message)
            yield Action(Change(ref, edit, uid=self.workload.metadata.uid), notes=(note,))
            return


def _is_owned(gang: Any, job: Job) -> bool:
    return gang is not None and any(each.uid == job.metadata.uid for each in gang.metadata.owner_references)


def _is_of(pod: Pod, workload: str) -> bool:
    return pod.metadata.annotations.get(WORKLOAD) == workload
