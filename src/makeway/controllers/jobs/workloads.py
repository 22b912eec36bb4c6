"""Jobs as Workloads: what they ask for, in which queue and with which priority (api 18).

``workload_for`` answers for one job, ``prepared`` for a whole set of objects as in files: Jobs without their Workloads,
objects without names, times or UIDs. What a server would add is made up there, always in the same way:

- A UID is made from kind, namespace and name.
- An object without ``creationTimestamp`` came shortly before now, the earlier in the files the older: the *i*-th of
  *n* such objects (from 0) at ``now - (n - i)`` milliseconds.
- A ``generateName`` is completed by the object's number among those of its kind.

Promises: nothing raises for what users write; equal objects in equal order give equal Workloads; where all objects
have names and times, the order does not matter.

Not here: which jobs are managed (``managed``), starting and stopping them (``running``), what a start adds to
their pods (``templates``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

import msgspec

from makeway.api.names import (
    ADMISSION_GATED_BY,
    CHECKPOINT_INTERVAL,
    DEFAULT_NAMESPACE,
    DEFAULT_PRIORITY_CLASS,
    DEFAULT_QUEUE,
    JOB_UID_LABEL,
    MAX_EXEC_TIME_LABEL,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    RESOURCE_IN_USE,
    RUNTIME,
    SYSTEM_CLASSES,
)
from makeway.api.objects.kubernetes import Namespace, PriorityClass
from makeway.api.objects.meta import KubernetesObject, ObjectMeta, Wire
from makeway.api.objects.queueing import LocalQueue, WorkloadPriorityClass
from makeway.api.objects.workload import PodSet, PriorityClassRef, Workload, WorkloadSpec
from makeway.api.quantity import Time
from makeway.controllers.contract import Object, Ref
from makeway.controllers.jobs.kinds.generic import AskedPods, GenericJob, pod_priority_class, wrong_number
from makeway.controllers.jobs.kinds.registry import JOB_KINDS, job_kind_of, kind_of_owner, read_job
from makeway.controllers.jobs.managed import why_unmanaged
from makeway.controllers.jobs.templates import own_template
from makeway.core.lowering.workloads import is_accounted, is_queueable
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.planning import StillWaiting
from makeway.core.policy import Policy

COPIED_ANNOTATIONS = (ADMISSION_GATED_BY, RUNTIME, CHECKPOINT_INTERVAL)
OURS = ("kueue.x-k8s.io", "WorkloadPriorityClass")
KUBERNETES = ("scheduling.k8s.io", "PriorityClass")


class LeftOut(NamedTuple):
    """An object that is left out, and why."""

    kind: str
    name: str  # "namespace/name"
    why: str


# --- priority ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes that priorities come from (api 6)."""

    ours: Mapping[str, int] = field(default_factory=dict)  # WorkloadPriorityClass -> value
    pods: Mapping[str, int] = field(default_factory=dict)  # PriorityClass -> value
    global_defaults: Mapping[str, int] = field(default_factory=dict)
    defaulting: bool = True  # gate WorkloadPriorityClassDefaulting

    @classmethod
    def among(cls, objects: Iterable[Wire], *, defaulting: bool = True) -> Classes:
        everything = list(objects)
        pods = [each for each in everything if isinstance(each, PriorityClass)]
        return cls(
            ours={each.metadata.name: each.value for each in everything if isinstance(each, WorkloadPriorityClass)},
            pods={**SYSTEM_CLASSES, **{each.metadata.name: each.value for each in pods}},
            global_defaults={each.metadata.name: each.value for each in pods if each.global_default},
            defaulting=defaulting,
        )


class Priority(NamedTuple):
    value: int
    ref: PriorityClassRef | None
    problem: str = ""  # not "": there is no such class


def priority_of(meta: ObjectMeta, pods: str, classes: Classes) -> Priority:
    """The first source that says something wins (api 6); a class that is named but does not exist is a problem.

    ``pods`` is the PriorityClass that the job's pods name.
    """
    ours = meta.labels.get(PRIORITY_CLASS_LABEL, "")
    if ours:
        return _of_class(OURS, ours, classes.ours)
    if classes.defaulting and DEFAULT_PRIORITY_CLASS in classes.ours:
        return _of_class(OURS, DEFAULT_PRIORITY_CLASS, classes.ours)
    if pods:
        return _of_class(KUBERNETES, pods, classes.pods)
    if classes.global_defaults:
        name = min(classes.global_defaults, key=lambda name: (classes.global_defaults[name], name))
        return _of_class(KUBERNETES, name, classes.global_defaults)
    return Priority(0, None)


def _of_class(source: tuple[str, str], name: str, values: Mapping[str, int]) -> Priority:
    group, kind = source
    ref = PriorityClassRef(group=group, kind=kind, name=name)  # type: ignore[arg-type]
    if name not in values:
        return Priority(0, ref, f"there is no {kind} {name}")
    return Priority(values[name], ref)


def with_priority(workload: Workload, classes: Classes) -> tuple[Workload, str]:
    """A Workload that names a class and no number, with the number; and the problem if there is no such class."""
    ref = workload.spec.priority_class_ref
    if ref is None or workload.spec.priority is not None:
        return workload, ""
    source, values = (KUBERNETES, classes.pods) if ref.kind == KUBERNETES[1] else (OURS, classes.ours)
    found = _of_class(source, ref.name, values)
    if found.problem:
        return workload, f"{found.problem}: its priority is 0"
    return msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, priority=found.value)), ""


# --- one job ----------------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What a job asks for by itself, in any queue."""

    pod_sets: tuple[PodSet, ...]
    priority: Priority
    seconds: int | None  # how long it may run
    problem: str  # not "": why it gets no Workload


def asked_by(meta: ObjectMeta, job: GenericJob, classes: Classes) -> Asked:
    priority = priority_of(meta, pod_priority_class(job), classes)
    problem = priority.problem or wrong_number(MAX_EXEC_TIME_LABEL, meta.labels, 2**31 - 1) or job.problem
    if problem:
        return Asked((), priority, None, problem)
    seconds = meta.labels.get(MAX_EXEC_TIME_LABEL)
    return Asked(tuple(map(_pod_set, job.pod_sets)), priority, None if seconds is None else int(seconds), "")


class Made(NamedTuple):
    workload: Workload | None
    problem: str = ""  # why there is no Workload


def workload_for(
    value: KubernetesObject,
    *,
    classes: Classes,
    queues: Collection[tuple[str, str]] = (),
    copied_labels: Collection[str] = (),
) -> Made:
    """The Workload of a managed job (api 18.2). ``queues`` are the LocalQueues there are, as (namespace, name).

    A job without a UID, as in a file, gets one that is made from its namespace and name; so does the Workload.
    """
    meta, kind = value.metadata, JOB_KINDS[value.kind]
    asked = asked_by(meta, kind.read(value), classes)
    if asked.problem:
        return Made(None, f"{asked.problem}: it is not queued")
    namespace = meta.namespace or DEFAULT_NAMESPACE
    uid = meta.uid or made_uid(kind.name, namespace, meta.name)
    queue = meta.labels.get(QUEUE_LABEL, "")
    if not queue and (namespace, DEFAULT_QUEUE) in queues:
        queue = DEFAULT_QUEUE
    name = kind.workload_name(meta.name, uid)
    labels = {key: meta.labels[key] for key in sorted(copied_labels) if key in meta.labels}
    return Made(
        Workload(
            metadata=ObjectMeta(
                name=name,
                namespace=namespace,
                uid=made_uid("Workload", namespace, f"{name} {uid}"),
                creation_timestamp=meta.creation_timestamp,
                labels={**labels, JOB_UID_LABEL: uid},
                annotations={key: meta.annotations[key] for key in COPIED_ANNOTATIONS if key in meta.annotations},
                finalizers=(RESOURCE_IN_USE,),
                owner_references=(kind.owner(meta.name, uid),),
            ),
            spec=WorkloadSpec(
                pod_sets=asked.pod_sets,
                queue_name=queue,
                priority_class_ref=asked.priority.ref,
                priority=asked.priority.value,
                maximum_execution_time_seconds=asked.seconds,
            ),
        )
    )


def _pod_set(pods: AskedPods) -> PodSet:
    template = own_template(pods.template)
    return PodSet(name=pods.name, template=template, count=pods.count, min_count=pods.min_count)


def made_uid(kind: str, namespace: str, name: str) -> str:
    """A UID for an object of a file: equal names give equal ones."""
    digest = hashlib.sha1("\n".join((kind, namespace, name)).encode(), usedforsecurity=False).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def prebuilt_of(meta: ObjectMeta) -> str:
    """The Workload that a Job is bound to by name; "" where it gets its own."""
    return meta.annotations.get(PREBUILT_WORKLOAD) or meta.labels.get(PREBUILT_WORKLOAD) or ""


# --- a set of objects -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """Objects as a server would have them: every managed Job has its Workload."""

    objects: list[Wire]
    jobs: Mapping[WorkloadKey, str]  # Workload -> "namespace/name" of its Job
    left_out: list[LeftOut]


def prepared(objects: Iterable[Wire], policy: Policy, now: Millis) -> Prepared:
    """The input for ``load_state``; ``objects`` are validated, in the order in which they were read."""
    everything = _dated(_named(objects), now)
    classes = Classes.among(everything, defaulting=policy.gates.workload_priority_class_defaulting)
    making = _WorkloadMaking(everything, policy, classes)
    for each in everything:
        if _is_job(each):
            making.take_job(each)
        elif isinstance(each, Workload):
            making.take_workload(each)
        else:
            making.result.objects.append(each)
    return making.result


class _WorkloadMaking:
    def __init__(self, objects: list[Wire], policy: Policy, classes: Classes) -> None:
        self._policy = policy
        self._classes = classes
        self._queues = {_place(each.metadata) for each in objects if isinstance(each, LocalQueue)}
        self._known: dict[Ref, KubernetesObject] = {
            _ref(each): each for each in objects if isinstance(each, Namespace) or _is_job(each)
        }
        workloads = [each for each in objects if isinstance(each, Workload)]
        self._workloads = {_place(each.metadata) for each in workloads}
        self._owned: dict[tuple[str, str, str], WorkloadKey] = {}  # by namespace, and the UID or name of the Job
        for each in workloads:
            for owner in each.metadata.owner_references:
                if kind_of_owner(owner) is not None:
                    namespace = each.metadata.namespace or DEFAULT_NAMESPACE
                    self._owned[namespace, "uid", owner.uid] = _key(each.metadata)
                    self._owned[namespace, "name", owner.name] = _key(each.metadata)
        self._shown: dict[WorkloadKey, str] = {}
        self.result = Prepared([], self._shown, [])

    def take_workload(self, workload: Workload) -> None:
        found, problem = with_priority(workload, self._classes)
        if problem:
            self._leave_out("Workload", workload.metadata, problem)
        self.result.objects.append(found)

    def take_job(self, job: KubernetesObject) -> None:
        why = self._why_not(job)
        if why:
            self._leave_out(job.kind, job.metadata, why)
            return
        if self._is_there(job):
            return
        made = workload_for(
            job, classes=self._classes, queues=self._queues, copied_labels=self._policy.jobs.copied_labels
        )
        if made.workload is None:
            self._leave_out(job.kind, job.metadata, made.problem)
        elif _place(made.workload.metadata) not in self._workloads:
            self.result.objects.append(made.workload)
            self._shown[_key(made.workload.metadata)] = _key(job.metadata)

    def _leave_out(self, kind: str, meta: ObjectMeta, why: str) -> None:
        self.result.left_out.append(LeftOut(kind, _key(meta), why))

    def _why_not(self, job: KubernetesObject) -> str:
        """Why a job gets no Workload (api 18.1); "": it gets one, or has one."""
        meta = job.metadata
        namespace = meta.namespace or DEFAULT_NAMESPACE
        if read_job(job).end is not None:
            return "it is finished"
        why = why_unmanaged(job, self._policy.jobs, self._known.get)
        prebuilt = prebuilt_of(meta)
        if not why and prebuilt and (namespace, prebuilt) not in self._workloads:
            return f"it waits for the Workload {prebuilt}, which is not there"
        return why

    def _is_there(self, job: KubernetesObject) -> bool:
        """Whether the set has its Workload already, as an export of a running system does."""
        meta = job.metadata
        namespace = meta.namespace or DEFAULT_NAMESPACE
        if prebuilt_of(meta):
            return True
        by = ("uid", meta.uid) if meta.uid else ("name", meta.name)
        owned = self._owned.get((namespace, *by))
        if owned is not None:
            self._shown[owned] = _key(meta)
        return owned is not None


def _is_job(each: Wire) -> TypeGuard[KubernetesObject]:
    return isinstance(each, KubernetesObject) and job_kind_of(each) is not None


def _ref(each: KubernetesObject) -> Ref:
    namespace = "" if isinstance(each, Namespace) else each.metadata.namespace or DEFAULT_NAMESPACE
    return Ref.named(each.kind, namespace, each.metadata.name)


def _place(meta: ObjectMeta) -> tuple[str, str]:
    return meta.namespace or DEFAULT_NAMESPACE, meta.name


def _key(meta: ObjectMeta) -> WorkloadKey:
    return WorkloadKey("/".join(_place(meta)))


def _named(objects: Iterable[Wire]) -> list[Wire]:
    """All objects with names: a server would complete a ``generateName``."""
    counts: dict[str, int] = {}
    found: list[Wire] = []
    for each in objects:
        if (isinstance(each, Workload) or _is_job(each)) and not each.metadata.name:
            counts[each.kind] = counts.get(each.kind, 0) + 1
            each = _with_meta(each, name=f"{each.metadata.generate_name}{counts[each.kind]}")
        found.append(each)
    return found


def _dated(objects: list[Wire], now: Millis) -> list[Wire]:
    """All objects with times: their order in the files stands in for the order in which they came."""
    undated = [(i, each) for i, each in enumerate(objects) if _is_undated(each)]
    found = list(objects)
    for rank, (i, each) in enumerate(undated):
        found[i] = _with_meta(each, creation_timestamp=Time.of_millis(now - (len(undated) - rank)))
    return found


def _is_undated(each: Wire) -> TypeGuard[KubernetesObject]:
    return (isinstance(each, Workload) or _is_job(each)) and each.metadata.creation_timestamp is None


def _with_meta(each: Object, **changes: object) -> Object:
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, **changes))


# --- workloads in no queue --------------------------------------------------------------------------------------------


def outside(objects: Iterable[Wire], policy: Policy) -> list[StillWaiting]:
    """Unfinished workloads that wait and are in no ClusterQueue, and what keeps each of them out."""
    everything = list(objects)
    queues = {_place(each.metadata): each for each in everything if isinstance(each, LocalQueue)}
    found = []
    for each in everything:
        if isinstance(each, Workload) and not is_accounted(each):
            kept_out = _kept_out(each, queues, heeds_gates=policy.gates.admission_gated_by)
            if kept_out is not None:
                reason, message = kept_out
                found.append(
                    StillWaiting(
                        workload=_key(each.metadata), queue=QueueName(""), reason=reason, message=message, parked=True
                    )
                )
    return sorted(found, key=lambda waiting: waiting.workload)


def _kept_out(
    workload: Workload, queues: Mapping[tuple[str, str], LocalQueue], *, heeds_gates: bool
) -> tuple[str, str] | None:
    conditions = {each.type: each for each in (workload.status.conditions if workload.status else ())}
    finished, reserved = conditions.get("Finished"), conditions.get("QuotaReserved")
    if finished is not None and finished.status == "True":
        return None
    if not workload.spec.active:
        return "Deactivated", "The workload is deactivated"
    if reserved is not None and reserved.reason == "OnHold":
        return "OnHold", reserved.message
    gate = workload.metadata.annotations.get(ADMISSION_GATED_BY, "").strip()
    if gate and heeds_gates:
        return "AdmissionGated", f"Admission is gated by {gate}"
    if not is_queueable(workload, heeds_gates=heeds_gates):
        return "PendingEvaluation", "The workload cannot be queued as it is"
    name = workload.spec.queue_name
    queue = queues.get((workload.metadata.namespace or DEFAULT_NAMESPACE, name))
    if queue is None:
        return "Misconfigured", f"LocalQueue {name} doesn't exist" if name else "The workload names no LocalQueue"
    if queue.spec.is_stopped:
        return "Suspended", f"LocalQueue {name} is inactive"
    return None
