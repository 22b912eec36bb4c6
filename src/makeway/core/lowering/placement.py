"""Nodes, pods, scheduling Workloads, budgets and namespaces as placement sees them (S-15, api 12).

Pods that have ended are left out: they take up no room and no place in the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from makeway.api.names import DEFAULT_NAMESPACE, WORKLOAD_REF
from makeway.api.objects import kubernetes as wire
from makeway.api.objects.meta import ObjectMeta, Wire
from makeway.api.objects.pods import (
    Amounts,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    TopologySpreadConstraint,
)
from makeway.api.objects.scheduling import GangWorkload, GangWorkloadStatus
from makeway.api.pod_request import ContainerRequest, pod_request
from makeway.core.lowering.queues import selector_of, toleration_of
from makeway.core.lowering.workloads import asked_by
from makeway.core.model import Expression, Millis, Selector, Taint
from makeway.core.placement.model import (
    AffinityTerm,
    Budget,
    Cluster,
    Member,
    Namespace,
    Node,
    Pod,
    PodGang,
    PodKey,
    Port,
    PreemptionPolicy,
    SchedulingWorkload,
    Spread,
)
from makeway.core.placement.resolution import (
    Classes,
    Priorities,
    PriorityClass,
    PriorityRefused,
    default_class,
    known_classes,
    resolve,
)
from makeway.core.policy import Gates
from makeway.core.requests import units

T = TypeVar("T", bound=Wire)

NODE_NAME = "metadata.name"  # the one field that a required node affinity may ask for; kept beside the labels
OURS = Gates()  # the gates with their defaults
ENDED = ("Succeeded", "Failed")


def cluster_of(objects: Iterable[Wire], now: Millis, gates: Gates = OURS) -> Cluster:
    """The cluster that these objects describe; objects of other kinds are ignored. Equal arrivals keep the given order.

    What belongs to a gate that is off has no effect, so it is not in the cluster (api 9.2).
    """
    everything = list(objects)
    classes = classes_of(_of(everything, wire.PriorityClass))
    live = [each for each in _of(everything, wire.Pod) if is_live(each)]
    live.sort(key=lambda each: _millis_of(each.metadata))
    return Cluster(
        nodes=tuple(map(node_of, _of(everything, wire.Node))),
        pods=tuple(gated(pod_of(each, classes, now, arrived=place), gates) for place, each in enumerate(live)),
        workloads=tuple(
            scheduling_workload_of(each, classes, gates=gates)
            for each in _of(everything, GangWorkload)
            if gates.generic_workload
        ),
        budgets=tuple(map(budget_of, _of(everything, wire.PodDisruptionBudget))),
        namespaces=tuple(map(namespace_of, _of(everything, wire.Namespace))),
    )


def _of(objects: list[Wire], kind: type[T]) -> list[T]:
    return [each for each in objects if isinstance(each, kind)]


def _millis_of(meta: ObjectMeta) -> int:
    return 0 if meta.creation_timestamp is None else meta.creation_timestamp.millis


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {name: units(quantity.nano, name) for name, quantity in amounts.items()}


# --- nodes -----------------------------------------------------------------------------------------------------------


def node_of(node: wire.Node) -> Node:
    """A node that is being deleted or is not ready takes no pods, like one that is cordoned."""
    spec, status = wire.view(node.spec, wire.NodeSpec), wire.view(node.status, wire.NodeStatus)
    ready = [each.status for each in status.conditions if each.type == "Ready"]
    is_leaving = node.metadata.deletion_timestamp is not None
    return Node(
        name=node.metadata.name,
        allocatable=_amounts(status.allocatable or status.capacity),
        labels={**node.metadata.labels, NODE_NAME: node.metadata.name},
        taints=tuple(Taint(each.key, each.value, each.effect) for each in spec.taints),
        unschedulable=spec.unschedulable or is_leaving or (bool(ready) and ready != ["True"]),
    )


# --- pods ------------------------------------------------------------------------------------------------------------


def is_live(pod: wire.Pod) -> bool:
    return wire.view(pod.status, PodStatus).phase not in ENDED


def key_of(meta: ObjectMeta) -> PodKey:
    return meta.namespace or DEFAULT_NAMESPACE, meta.name


def pod_of(pod: wire.Pod, classes: Classes, now: Millis, *, arrived: int = 0, shares_network: bool = False) -> Pod:
    """A live pod. ``shares_network``: pods are processes of their machine, so that every port is one of its node."""
    meta, spec, status = pod.metadata, wire.view(pod.spec, PodSpec), wire.view(pod.status, PodStatus)
    asked = classes.get(spec.priority_class_name) if spec.priority_class_name else default_class(classes)
    disrupted = [each for each in status.conditions if each.type == "DisruptionTarget" and each.status == "True"]
    is_leaving = meta.deletion_timestamp is not None
    return Pod(
        key=key_of(meta),
        requests={name: amount for name, nano in _asked(spec).items() if (amount := units(nano, name))},
        node=spec.node_name or None,
        priority=spec.priority if spec.priority is not None else asked.value if asked else 0,
        start=now if status.start_time is None else Millis(status.start_time.millis),
        arrived=arrived,
        uid=meta.uid,
        labels=meta.labels,
        member=member_of(pod),
        node_selector=spec.node_selector,
        affinity=_affinity(spec.affinity.node_affinity.required),
        preferred=tuple(
            (each.weight, term) for each in spec.affinity.node_affinity.preferred for term in _terms((each.preference,))
        ),
        tolerations=tuple(map(toleration_of, spec.tolerations)),
        ports=_ports(spec, every=shares_network or spec.host_network),
        pod_affinity=tuple(_term(each, meta.labels) for each in spec.affinity.pod_affinity.required),
        anti_affinity=tuple(_term(each, meta.labels) for each in spec.affinity.pod_anti_affinity.required),
        spread=tuple(
            _spread(each, meta.labels)
            for each in spec.topology_spread_constraints
            if each.when_unsatisfiable == "DoNotSchedule"
        ),
        policy=_policy(spec.preemption_policy) or (asked.policy if asked else None),
        terminating=is_leaving,
        preempted_by_scheduler=is_leaving and any(each.reason == "PreemptionByScheduler" for each in disrupted),
        nominated=status.nominated_node_name or None,
    )


def gated(pod: Pod, gates: Gates) -> Pod:
    """A pod as it counts: without gangs its reference is ignored, and it is a plain pod (api 9.2)."""
    return pod if gates.generic_workload or pod.member is None else replace(pod, member=None)


def _asked(spec: PodSpec) -> dict[str, int]:
    """What the pod needs at its peak. A resource that has only a limit counts with that limit.

    An API server has filled this in already: a container's request from its limit, then the pod's own from its
    containers, or else from its limit. A manifest that no server has seen means the same.
    """

    def filled(each: ContainerRequest) -> ContainerRequest:
        return replace(each, requests={**each.limits, **each.requests})

    asked = asked_by(spec)
    asked = replace(
        asked, containers=list(map(filled, asked.containers)), init_containers=list(map(filled, asked.init_containers))
    )
    if asked.whole is None:
        return pod_request(asked)
    of_containers = pod_request(replace(asked, whole=None, overhead={}))
    limits = {name: amount for name, amount in asked.whole.limits.items() if name not in of_containers}
    return pod_request(replace(asked, whole=replace(asked.whole, requests={**limits, **asked.whole.requests})))


def _term(term: PodAffinityTerm, labels: Mapping[str, str]) -> AffinityTerm:
    selector = selector_of(term.label_selector)
    if selector is not None:
        selector = (*selector, *_like(labels, term.match_label_keys), *_like(labels, term.mismatch_label_keys, "NotIn"))
    return AffinityTerm(selector, term.topology_key, frozenset(term.namespaces), selector_of(term.namespace_selector))


def _spread(spread: TopologySpreadConstraint, labels: Mapping[str, str]) -> Spread:
    selector = selector_of(spread.label_selector)
    return Spread(
        max_skew=spread.max_skew,
        topology_key=spread.topology_key,
        selector=None if selector is None else (*selector, *_like(labels, spread.match_label_keys)),
        min_domains=spread.min_domains,
        heeds_affinity=spread.node_affinity_policy != "Ignore",
        heeds_taints=spread.node_taints_policy == "Honor",
    )


def _like(labels: Mapping[str, str], keys: Iterable[str], operator: str = "In") -> Selector:
    """Whether a label has, or has not, the value it has on the pod itself; labels that the pod lacks are left out."""
    return tuple(Expression(key, operator, (labels[key],)) for key in keys if key in labels)


def _policy(text: str) -> PreemptionPolicy | None:
    return "Never" if text == "Never" else "PreemptLowerPriority" if text == "PreemptLowerPriority" else None


def _affinity(required: NodeSelector | None) -> tuple[Selector, ...] | None:
    """The terms that can match: one without requirements matches no node."""
    return None if required is None else tuple(_terms(required.node_selector_terms))


def _terms(terms: Iterable[NodeSelectorTerm]) -> Iterator[Selector]:
    for term in terms:
        if term.match_expressions or term.match_fields:
            yield tuple(map(_expression, (*term.match_expressions, *term.match_fields)))


def _expression(requirement: NodeSelectorRequirement) -> Expression:
    return Expression(requirement.key, requirement.operator, requirement.values)


def _ports(spec: PodSpec, *, every: bool) -> frozenset[Port]:
    asked = [port for each in (*spec.containers, *spec.init_containers) for port in each.ports]
    taken = [(each.protocol, each.host_port or (each.container_port if every else 0)) for each in asked]
    return frozenset(each for each in taken if each[1])


def member_of(pod: wire.Pod) -> Member | None:
    """The group that a pod refers to: by the field, else by the annotation (api 12)."""
    reference = wire.view(pod.spec, PodSpec).workload_ref
    if reference is not None:
        return Member(reference.name, reference.pod_group, reference.pod_group_replica_key)
    written = pod.metadata.annotations.get(WORKLOAD_REF)
    if not written:
        return None
    workload, group, replica = [*written.split("/"), ""][:3]
    return Member(workload, group, replica)


# --- what ranks and protects them ------------------------------------------------------------------------------------


def classes_of(classes: Iterable[wire.PriorityClass]) -> dict[str, PriorityClass]:
    return known_classes(
        PriorityClass(
            name=each.metadata.name,
            value=each.value,
            is_default=each.global_default,
            policy=each.preemption_policy,
        )
        for each in classes
    )


def scheduling_workload_of(
    workload: GangWorkload, classes: Classes, *, in_queue: int | None = None, gates: Gates = OURS
) -> SchedulingWorkload:
    """The Workload that its status describes; what the status lacks comes from the classes (S-15.1.1).

    ``in_queue``: the priority of the queueing Workload that it was made for; it comes before both of these (api 12).
    Without workload-aware preemption its pods make way one by one, with the priority they are placed with (api 9.2).
    """
    has_units = gates.workload_aware_preemption
    namespace, name = key_of(workload.metadata)
    spec, status = workload.spec, workload.status or GangWorkloadStatus()
    resolved = resolve(spec.priority_class_name, spec.preemption_priority_class_name, classes)
    if isinstance(resolved, PriorityRefused):  # its class was deleted after it was created
        resolved = Priorities()
    if in_queue is not None:
        status, resolved = GangWorkloadStatus(), Priorities(priority=in_queue, preemption_priority=in_queue)
    priority = resolved.priority if status.priority is None else status.priority
    as_victim = resolved.preemption_priority if status.preemption_priority is None else status.preemption_priority
    return SchedulingWorkload(
        namespace=namespace,
        name=name,
        groups=tuple(
            PodGang(
                key=(namespace, name, each.name),
                min_count=None if each.policy.gang is None else each.policy.gang.min_count,
                whole=has_units and each.policy.gang is not None and each.policy.gang.preemption_mode == "PodGroup",
            )
            for each in spec.pod_groups
        ),
        priority=priority,
        preemption_priority=max(priority, as_victim) if has_units else priority,
        policy=status.preemption_policy or resolved.policy,
    )


def namespace_of(namespace: wire.Namespace) -> Namespace:
    return Namespace(namespace.metadata.name, namespace.metadata.labels)


def budget_of(budget: wire.PodDisruptionBudget) -> Budget:
    spec = wire.view(budget.spec, wire.PodDisruptionBudgetSpec)
    status = wire.view(budget.status, wire.PodDisruptionBudgetStatus)
    namespace, name = key_of(budget.metadata)
    return Budget(
        namespace=namespace,
        name=name,
        selector=selector_of(spec.selector),
        allowed=status.disruptions_allowed,
        disrupted=frozenset(status.disrupted_pods),
    )
