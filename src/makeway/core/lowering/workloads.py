"""Workloads as the scheduler sees them: what they request, what they hold, their place in the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from makeway.api.equality import is_same_spec
from makeway.api.names import ADMISSION_GATED_BY, OPTION_RANK, PRIORITY_BOOST
from makeway.api.objects import pods as wire_pods
from makeway.api.objects import workload as wire
from makeway.api.objects.kubernetes import LimitRange, LimitRangeItem, RuntimeClass, view
from makeway.api.objects.meta import Condition
from makeway.api.pod_request import ContainerRequest, PodRequest, pod_request
from makeway.api.quantity import Quantity, Time
from makeway.core.amounts import add, multiply
from makeway.core.lowering.queues import toleration_of
from makeway.core.model import (
    DAWN,
    FR,
    Claim,
    ClaimedSet,
    Expression,
    FlavorName,
    Millis,
    PodSet,
    PodSetUse,
    QueueName,
    ResourceName,
    Uid,
    Usage,
    Workload,
    WorkloadKey,
)
from makeway.core.policy import Policy
from makeway.core.preemption.departures import BY_TIME, queued_after
from makeway.core.requests import SummedLimits, adjusted, counted, summarised, units, violation

LOWERED_MAX = 10_000  # podSets that are remembered
Lowered = tuple[PodSet, str, int]  # a podSet, what is wrong with its requests, and how long its pods may take to end


@dataclass(frozen=True, slots=True)
class LoweringContext:
    """What a workload's meaning depends on besides itself."""

    policy: Policy
    queue_of: Mapping[tuple[str, str], QueueName] = field(default_factory=dict)  # (namespace, LocalQueue)
    limit_ranges: Mapping[str, tuple[LimitRange, ...]] = field(default_factory=dict)  # by namespace
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    lowered: dict[object, Lowered] = field(default_factory=dict, compare=False)  # equal podSets are lowered once

    def forget_lowered(self) -> None:
        """What pods mean has changed, although the pods have not."""
        self.lowered.clear()


def workload_of(
    workload: wire.Workload, context: LoweringContext, queue: QueueName | None = None, *, asks: bool = True
) -> Workload:
    """A Workload as the scheduler sees it; ``queue`` overrides what its LocalQueue says.

    Without ``asks`` its pods are ignored: what it holds is known without them, and must be counted.
    """
    meta, spec, status = workload.metadata, workload.spec, workload.status or wire.WorkloadStatus()
    conditions = {condition.type: condition for condition in status.conditions}
    holds = _is_true(conditions, "QuotaReserved")
    if queue is None and holds and status.admission is not None:
        queue = QueueName(status.admission.cluster_queue)
    reclaimed = {pod.name: pod.count for pod in status.reclaimable_pods}
    if not context.policy.gates.reclaimable_pods:
        reclaimed = {}
    pod_sets, broken, grace = _pod_sets(spec.pod_sets if asks else (), meta.namespace, reclaimed, context)
    usage, uses = _held(status.admission, spec.pod_sets, reclaimed) if holds else (None, ())
    refusal, words = _refusal(status, broken)
    controller = meta.controller
    owner = controller if controller is not None and controller.kind == "Workload" else None
    requeued = conditions.get("Requeued")
    state = status.requeue_state
    return Workload(
        key=WorkloadKey(f"{meta.namespace or 'default'}/{meta.name}"),
        uid=Uid(meta.uid),
        queue=queue or context.queue_of.get((meta.namespace or "default", spec.queue_name), QueueName("")),
        local_queue=spec.queue_name,
        priority=effective_priority(workload, context.policy),
        queued_at=queued_at(workload, context.policy),
        created_at=_created_at(workload),
        displaced_at=_displaced_at(conditions),
        ran_seconds=_ran_seconds(status, context.policy) if owner is None else 0,
        pod_sets=pod_sets,
        family=None if owner is None else Uid(owner.uid),
        option_rank=int(meta.annotations.get(OPTION_RANK, "0") or 0),
        owner="" if controller is None else f"{controller.kind}/{meta.namespace or 'default'}/{controller.name}",
        owner_uid="" if controller is None else controller.uid,
        usage=usage,
        uses=uses,
        reserved_at=_millis(conditions["QuotaReserved"].last_transition_time) if holds else None,
        evicted=_is_true(conditions, "Evicted"),
        evicted_at=_since(conditions, "Evicted"),
        preempted=_is_true(conditions, "Preempted") and _displaced_at(conditions) is None,
        grace_ms=grace,
        claim=None if holds else _claim(status.preemption_claim, spec.pod_sets),
        admitted=_is_true(conditions, "Admitted"),
        pods_ready=_is_true(conditions, "PodsReady"),
        checks=tuple((check.name, check.state == "Ready") for check in status.admission_checks),
        gated=_gated(workload, context.policy),
        refusal=refusal,
        refused=words,
        requeue_at=_millis(state.requeue_at) if state is not None else None,
        backing_off=requeued is not None and requeued.status == "False",
    )


def is_accounted(workload: wire.Workload) -> bool:
    """Whether its usage counts (S-3.6)."""
    if workload.status is None or workload.status.admission is None:
        return False
    conditions = {each.type: each for each in workload.status.conditions}
    if not _is_true(conditions, "QuotaReserved"):
        return False
    is_parent = workload.spec.workload_mode is not None and workload.spec.workload_mode.type == "Parent"
    alive = workload.spec.active or _is_true(conditions, "Admitted")
    return alive and not is_parent and not _is_true(conditions, "Finished")


def is_queueable(workload: wire.Workload, *, heeds_gates: bool = True) -> bool:
    """Whether it may wait in a queue at all (S-3.5); ``heeds_gates``: the gate AdmissionGatedBy is on.

    A workload that is being deleted waits for nothing any more, whatever finalizers keep it.
    """
    conditions = {each.type: each for each in (workload.status.conditions if workload.status else ())}
    reserved = conditions.get("QuotaReserved")
    on_hold = reserved is not None and reserved.status == "False" and reserved.reason == "OnHold"
    is_parent = workload.spec.workload_mode is not None and workload.spec.workload_mode.type == "Parent"
    return (
        workload.spec.active
        and workload.metadata.deletion_timestamp is None
        and not on_hold
        and not is_parent
        and not _is_true(conditions, "QuotaReserved")
        and not _is_true(conditions, "Finished")
        and not _is_true(conditions, "WaitingForReplacementPods")
        and not (heeds_gates and workload.metadata.annotations.get(ADMISSION_GATED_BY, "").strip())
    )


def is_worth_a_look(before: wire.Workload, after: wire.Workload, policy: Policy) -> bool:
    """Whether a change of a parked workload's own object brings it back into the queue (S-4.7)."""

    def seen(workload: wire.Workload) -> tuple[object, ...]:
        status = workload.status or wire.WorkloadStatus()
        conditions = {each.type: (each.status, each.reason) for each in status.conditions}
        return (
            status.reclaimable_pods, conditions.get("Evicted"), conditions.get("Requeued"),
            _gated(workload, policy), effective_priority(workload, policy),
        )  # fmt: skip

    return not is_same_spec(before.spec, after.spec) or seen(before) != seen(after)


def effective_priority(workload: wire.Workload, policy: Policy) -> int:
    boost = workload.metadata.annotations.get(PRIORITY_BOOST, "") if policy.gates.priority_boost else ""
    return (workload.spec.priority or 0) + (int(boost) if boost.lstrip("+-").isdigit() else 0)


def queued_at(workload: wire.Workload, policy: Policy) -> Millis:
    """Its queue-order timestamp (S-4.3)."""
    status = workload.status or wire.WorkloadStatus()
    conditions = {condition.type: condition for condition in status.conditions}
    if _is_true(conditions, "Evicted"):
        evicted = conditions["Evicted"]
        by_timeout = evicted.reason == "PodsReadyTimeout" and policy.requeuing.timestamp == "Eviction"
        if by_timeout or evicted.reason == "AdmissionCheck":
            return _millis(evicted.last_transition_time) or DAWN
    behind = None
    if _is_true(conditions, "Preempted"):
        preempted = conditions["Preempted"]
        behind = queued_after(preempted.reason, _millis(preempted.last_transition_time) or DAWN, policy)
    return _created_at(workload) if behind is None else behind


def _created_at(workload: wire.Workload) -> Millis:
    created = _millis(workload.metadata.creation_timestamp)
    return DAWN if created is None else created


def _is_true(conditions: Mapping[str, Condition], type_: str) -> bool:
    found = conditions.get(type_)
    return found is not None and found.status == "True"


def _since(conditions: Mapping[str, Condition], type_: str) -> Millis | None:
    return _millis(conditions[type_].last_transition_time) if _is_true(conditions, type_) else None


def _displaced_at(conditions: Mapping[str, Condition]) -> Millis | None:
    """Since when a workload is displaced by time, if it is (S-7.14)."""
    preempted = conditions.get("Preempted")
    if preempted is None or preempted.status != "True" or preempted.reason != BY_TIME:
        return None
    return _millis(preempted.last_transition_time) or DAWN


def _ran_seconds(status: wire.WorkloadStatus, policy: Policy) -> int:
    """How long a workload ran before, where that breaks ties (S-7.14); in the recorded system the UID does."""
    return status.accumulated_past_execution_time_seconds or 0 if policy.counts_time_run else 0


def _claim(claim: wire.PreemptionClaim | None, pod_sets: tuple[wire.PodSet, ...]) -> Claim | None:
    """The claim that is in force; one that waits for a sibling's claim to end is not (S-12.7.3)."""
    if claim is None or claim.issued_at is None or claim.expires_at is None:
        return None
    counts = {each.name: each.count for each in pod_sets}
    return Claim(
        sets=tuple(
            ClaimedSet(
                each.name,
                {ResourceName(resource): FlavorName(flavor) for resource, flavor in each.flavors.items()},
                counts.get(each.name, 0) if each.count is None else each.count,
            )
            for each in claim.pod_set_assignments
        ),
        victims=tuple((WorkloadKey(f"{v.namespace or 'default'}/{v.name}"), Uid(v.uid)) for v in claim.victims),
        issued_at=Millis(claim.issued_at.millis),
        expires_at=Millis(claim.expires_at.millis),
    )


def _millis(time: Time | None) -> Millis | None:
    return None if time is None else Millis(time.millis)


def _gated(workload: wire.Workload, policy: Policy) -> bool:
    """Whether a preemption gate is closed: it is in the spec, and the status does not say that it is open (S-14.4)."""
    if not policy.gates.multi_kueue_orchestrated_preemption and not policy.gates.concurrent_admission:
        return False
    status = workload.status or wire.WorkloadStatus()
    open_gates = {gate.name for gate in status.preemption_gates if gate.state == "Open"}
    return any(gate.name not in open_gates for gate in workload.spec.preemption_gates)


def _refusal(status: wire.WorkloadStatus, broken: str) -> tuple[str, str]:
    for check in status.admission_checks:
        if check.state in ("Retry", "Rejected"):
            return "PendingEvaluation", f"admission check {check.name} is {check.state}"
    return ("Misconfigured", broken) if broken else ("", "")


def _pod_sets(
    pod_sets: tuple[wire.PodSet, ...], namespace: str, reclaimed: Mapping[str, int], context: LoweringContext
) -> tuple[tuple[PodSet, ...], str, int]:
    """The podSets, what is wrong with their requests, and how long the slowest of their pods may take to end."""
    lowered, broken, grace = [], "", 0
    for pod_set in pod_sets:
        gone = min(reclaimed.get(pod_set.name, 0), pod_set.count)
        topology = None if pod_set.topology_request is None else pod_set.topology_request.pod_set_group_name
        key = (
            bytes(pod_set.template), pod_set.name, pod_set.count - gone, pod_set.min_count,
            pod_set.allowed_resource_flavors, topology, namespace,
        )  # fmt: skip
        known = context.lowered.get(key)
        if known is None:
            if len(context.lowered) >= LOWERED_MAX:
                context.forget_lowered()
            known = context.lowered[key] = _one_pod_set(pod_set, namespace, pod_set.count - gone, context)
        lowered.append(known[0])
        broken = broken or known[1]
        grace = max(grace, known[2])
    return tuple(lowered), broken, grace


def _one_pod_set(each: wire.PodSet, namespace: str, count: int, context: LoweringContext) -> Lowered:
    items = [item for each in context.limit_ranges.get(namespace or "default", ()) for item in each.spec.limits]
    container = summarised(_bounds(item) for item in items if item.type == "Container")
    whole = summarised(_bounds(item) for item in items if item.type == "Pod")
    spec = view(each.template, wire_pods.PodTemplate).spec
    overhead: Mapping[str, int] = {}
    runtime = context.runtime_classes.get(spec.runtime_class_name)
    if runtime is not None and runtime.overhead is not None:
        overhead = _nanos(runtime.overhead.pod_fixed)
    pod = adjusted(asked_by(spec), container=container, whole=whole, runtime_overhead=overhead)
    broken = violation(pod, container=container, whole=whole)
    lowered = _pod_set(each, spec, counted(pod_request(pod), context.policy.resources), count)
    return lowered, broken, spec.termination_grace_period_seconds * 1000


def _pod_set(each: wire.PodSet, spec: wire_pods.PodSpec, requests: Mapping[ResourceName, int], count: int) -> PodSet:
    required = spec.affinity.node_affinity.required
    topology = each.topology_request
    return PodSet(
        name=each.name,
        count=count,
        requests=requests,
        min_count=each.min_count,
        group=(topology.pod_set_group_name or "") if topology is not None else "",
        allowed=frozenset(map(FlavorName, each.allowed_resource_flavors)),
        tolerations=tuple(map(toleration_of, spec.tolerations)),
        node_selector=spec.node_selector or None,
        affinity=None
        if required is None
        else tuple(
            tuple(Expression(e.key, e.operator, e.values) for e in term.match_expressions)
            for term in required.node_selector_terms
        ),
    )


def _bounds(item: LimitRangeItem) -> SummedLimits:
    return SummedLimits(
        default=_nanos(item.default),
        default_request=_nanos(item.default_request),
        most=_nanos(item.max),
        least=_nanos(item.min),
    )


def _nanos(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: quantity.nano for name, quantity in amounts.items()}


def asked_by(spec: wire_pods.PodSpec) -> PodRequest:
    """What a pod's containers request, as written."""

    def container(each: wire_pods.Container) -> ContainerRequest:
        resources = each.resources
        return ContainerRequest(_nanos(resources.requests), _nanos(resources.limits), each.restart_policy == "Always")

    has_whole = bool(spec.resources.requests or spec.resources.limits)
    return PodRequest(
        containers=[container(each) for each in spec.containers],
        init_containers=[container(each) for each in spec.init_containers],
        whole=ContainerRequest(_nanos(spec.resources.requests), _nanos(spec.resources.limits)) if has_whole else None,
        overhead=_nanos(spec.overhead),
    )


def _held(
    admission: wire.Admission | None, pod_sets: tuple[wire.PodSet, ...], reclaimed: Mapping[str, int]
) -> tuple[Usage, tuple[PodSetUse, ...]]:
    """What a workload uses: its assignment, less the share of pods that no longer need it (S-1.8).

    A resource without a flavor there is part of the podSet's requests, but is charged to no quota.
    """
    counts = {pod_set.name: pod_set.count for pod_set in pod_sets}
    usage: dict[FR, int] = {}
    uses: list[PodSetUse] = []
    for assignment in admission.pod_set_assignments if admission is not None else ():
        all_of_them = counts.get(assignment.name, 0)
        needed = all_of_them - min(reclaimed.get(assignment.name, 0), all_of_them)
        assigned = all_of_them if assignment.count is None else assignment.count
        amounts: dict[ResourceName, int] = dict.fromkeys(map(ResourceName, assignment.flavors), 0)
        for resource, quantity in assignment.resource_usage.items():
            amount = units(quantity.nano, resource)
            amounts[ResourceName(resource)] = multiply(amount // assigned, needed) if needed < assigned else amount
        flavors = {ResourceName(resource): FlavorName(flavor) for resource, flavor in assignment.flavors.items()}
        for name, flavor in flavors.items():
            usage[flavor, name] = add(usage.get((flavor, name), 0), amounts[name])
        uses.append(PodSetUse(name=assignment.name, count=min(needed, assigned), flavors=flavors, amounts=amounts))
    return usage, tuple(uses)
