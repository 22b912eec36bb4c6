"""References of an object to other objects (flavors, queues, classes, gangs): the path of each, and what happens if the
other object is missing.

Not here: whether it is missing (``together``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec

from makeway.api.names import (
    MULTIKUEUE_CONTROLLER,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    SYSTEM_CLASSES,
    WORKLOAD_REF,
)
from makeway.api.objects import queueing
from makeway.api.objects.kubernetes import Job, JobSpec, Pod, PriorityClass, view
from makeway.api.objects.meta import Wire
from makeway.api.objects.pods import PodSpec, PodStatus, PodTemplate
from makeway.api.objects.queueing import ClusterQueue, LocalQueue
from makeway.api.objects.scheduling import GangWorkload, GangWorkloadStatus
from makeway.api.objects.workload import Workload, WorkloadStatus

ENDED = ("Succeeded", "Failed")


class Reference(NamedTuple):
    path: str
    kind: type[Wire]
    name: str
    outcome: str  # what happens if it is missing
    namespace: str = ""
    group: str = ""  # a group that the scheduling Workload must have


def references_of(value: Wire | None, namespace: str) -> Iterator[Reference]:
    """All references of an object; ``namespace`` is that of the object."""
    try:
        for reference in chain(
            _queue_references(value), _job_references(value, namespace), _pod_references(value, namespace)
        ):
            if reference.name:
                yield reference
    except msgspec.MsgspecError:  # a part of a pod that no rule has checked
        return


def _queue_references(value: Wire | None) -> Iterator[Reference]:
    match value:
        case ClusterQueue(spec=spec):
            outcome = "the queue stays inactive (FlavorNotFound)"
            for i, group in enumerate(spec.resource_groups):
                for j, flavor in enumerate(group.flavors):
                    path = f"spec.resourceGroups[{i}].flavors[{j}].name"
                    yield Reference(path, queueing.ResourceFlavor, flavor.name, outcome)
            checks = spec.admission_checks_strategy.admission_checks if spec.admission_checks_strategy else ()
            outcome = "the queue stays inactive (AdmissionCheckNotFound)"
            for i, check in enumerate(checks):
                path = f"spec.admissionChecksStrategy.admissionChecks[{i}].name"
                yield Reference(path, queueing.AdmissionCheck, check.name, outcome)
        case LocalQueue(spec=spec):
            outcome = "the workloads of this queue wait (ClusterQueueDoesNotExist)"
            yield Reference("spec.clusterQueue", ClusterQueue, spec.cluster_queue, outcome)
        case queueing.AdmissionCheck(spec=spec):
            if spec.controller_name == MULTIKUEUE_CONTROLLER and spec.parameters is not None:
                outcome = "the check stays inactive (BadConfig), and every ClusterQueue that uses it"
                yield Reference("spec.parameters.name", queueing.MultiKueueConfig, spec.parameters.name, outcome)
        case queueing.MultiKueueConfig(spec=spec):
            for i, name in enumerate(spec.clusters):
                path = f"spec.clusters[{i}]"
                yield Reference(path, queueing.MultiKueueCluster, name, "nothing is dispatched to it")


def _job_references(value: Wire | None, namespace: str) -> Iterator[Reference]:
    match value:
        case Job(metadata=meta) if meta.labels.get(QUEUE_LABEL):
            queue, priority = meta.labels[QUEUE_LABEL], meta.labels.get(PRIORITY_CLASS_LABEL, "")
            yield Reference(f"metadata.labels[{QUEUE_LABEL}]", LocalQueue, queue, "the job waits", namespace)
            path = f"metadata.labels[{PRIORITY_CLASS_LABEL}]"
            yield Reference(path, queueing.WorkloadPriorityClass, priority, "the job is not queued")
        case Workload(spec=spec):
            if _waits(value):
                yield Reference("spec.queueName", LocalQueue, spec.queue_name, "the Workload waits", namespace)
            reference = spec.priority_class_ref
            if reference is not None and reference.name not in SYSTEM_CLASSES:
                ours = reference.kind != "PriorityClass"
                kind: type[Wire] = queueing.WorkloadPriorityClass if ours else PriorityClass
                outcome = f"the Workload keeps the priority that is written here, {spec.priority or 0}"
                yield Reference("spec.priorityClassRef", kind, reference.name, outcome)


def _pod_references(value: Wire | None, namespace: str) -> Iterator[Reference]:
    """Classes and gangs that pods and scheduling Workloads name. A class counts until its priority is known."""
    match value:
        case GangWorkload(spec=spec) if not is_ranked(value):
            yield _class("spec.priorityClassName", spec.priority_class_name, "the Workload is refused")
            path, name = "spec.preemptionPriorityClassName", spec.preemption_priority_class_name
            yield _class(path, name, "the Workload is refused")
        case Pod(metadata=meta):
            pod = view(value.spec, PodSpec)
            if view(value.status, PodStatus).phase not in ENDED:
                outcome = "it is taken for a pod without a gang" if pod.node_name else "the Pod waits"
                yield from _of_pod(pod, meta.annotations, "", "the Pod is refused", outcome, namespace)
        case Job():
            template = view(view(value.spec, JobSpec).template, PodTemplate)
            marks = template.metadata.annotations
            outcomes = ("its pods are refused", "its pods wait")
            yield from _of_pod(template.spec, marks, "spec.template.", *outcomes, namespace)


def _of_pod(
    spec: PodSpec, annotations: Mapping[str, str], path: str, refused: str, waits: str, namespace: str
) -> Iterator[Reference]:
    if spec.priority is None:
        yield _class(f"{path}spec.priorityClassName", spec.priority_class_name, refused)
    reference, mark = spec.workload_ref, annotations.get(WORKLOAD_REF, "")
    if reference is not None:
        yield Reference(f"{path}spec.workloadRef", GangWorkload, reference.name, waits, namespace, reference.pod_group)
    elif mark:
        name, _, group = mark.partition("/")
        here = f"{path}metadata.annotations[{WORKLOAD_REF}]"
        yield Reference(here, GangWorkload, name, waits, namespace, group.partition("/")[0])


def _class(path: str, name: str, outcome: str) -> Reference:
    return Reference(path, PriorityClass, "" if name in SYSTEM_CLASSES else name, outcome)


def is_ranked(workload: GangWorkload) -> bool:
    """Whether the priorities of its classes are known."""
    status = workload.status or GangWorkloadStatus()
    return status.priority is not None and status.preemption_priority is not None


def _waits(workload: Workload) -> bool:
    return not is_finished(workload) and (workload.status or WorkloadStatus()).admission is None


def is_finished(workload: Workload) -> bool:
    status = workload.status or WorkloadStatus()
    return any(condition.type == "Finished" and condition.status == "True" for condition in status.conditions)
