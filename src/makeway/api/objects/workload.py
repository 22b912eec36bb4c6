"""The wire object of the queueing Workload: what a job asks for, and all decisions about it (api 5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Raw

from makeway.api.objects.meta import (
    LABEL,
    NOT_EMPTY,
    REQUIRED,
    SUBDOMAIN,
    KubernetesObject,
    Limit,
    OfType,
    Toleration,
    Wire,
    made,
    shown,
)
from makeway.api.objects.pods import Amounts
from makeway.api.objects.queueing import KUEUE, Conditions
from makeway.api.quantity import Time

PODSETS_MAX = 18
PODS_MAX = 2**31 - 1  # of one podSet: its count is an int32
PER_PODSET = Limit(max_items=PODSETS_MAX, keyed_by=("name",), too_many="Invalid")
GATES_MAX = 8


class TopologyRequest(Wire, frozen=True):
    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None


class PodSet(Wire, frozen=True):
    name: Annotated[str, LABEL] = shown("main")
    template: Annotated[Raw, OfType("PodTemplateSpec"), REQUIRED] = Raw(b"{}")
    count: Annotated[int, Limit(least=0)] = shown(1)
    min_count: Annotated[int | None, Limit(least=1)] = None
    topology_request: Annotated[TopologyRequest | None, Limit(unserved="topology-aware scheduling")] = None
    allowed_resource_flavors: Annotated[
        tuple[Annotated[str, SUBDOMAIN], ...], Limit(max_items=64, unique=True, too_many="Invalid")
    ] = ()  # empty: any


class PriorityClassRef(Wire, frozen=True):
    group: Annotated[Literal["kueue.x-k8s.io", "scheduling.k8s.io"] | None, REQUIRED] = None
    kind: Annotated[Literal["WorkloadPriorityClass", "PriorityClass"] | None, REQUIRED] = None
    name: Annotated[str, SUBDOMAIN, Limit(required=True, min_length=1)] = ""


class PreemptionGate(Wire, frozen=True):
    name: Annotated[str, Limit(required=True, min_length=1, max_length=63)] = ""


class WorkloadMode(Wire, frozen=True):
    type: Literal["Default", "ResourceFlavorOption", "Parent"] = shown("Default")


class WorkloadSpec(Wire, frozen=True):
    pod_sets: Annotated[
        tuple[PodSet, ...], Limit(min_items=1, max_items=PODSETS_MAX, keyed_by=("name",), too_many="Invalid")
    ] = ()
    queue_name: Annotated[str, SUBDOMAIN] = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None  # None reads as 0
    active: bool = shown(True)
    maximum_execution_time_seconds: Annotated[int | None, Limit(least=1)] = None
    preemption_gates: Annotated[
        tuple[PreemptionGate, ...],
        Limit(max_items=GATES_MAX, keyed_by=("name",), too_many="Invalid", told_at_list=True, immutable=True),
    ] = ()
    workload_mode: WorkloadMode | None = None


class PodSetAssignment(Wire, frozen=True):
    name: Annotated[str, LABEL] = shown("main")
    flavors: dict[str, str] = {}  # resource -> flavor
    resource_usage: Amounts = {}
    count: Annotated[int | None, Limit(least=0)] = None
    topology_assignment: Annotated[dict[str, Any] | None, Limit(unserved="topology-aware scheduling")] = None
    delayed_topology_request: Annotated[
        Literal["Pending", "Ready"] | None, Limit(unserved="topology-aware scheduling")
    ] = None


class Admission(Wire, frozen=True):
    cluster_queue: Annotated[str, SUBDOMAIN, REQUIRED] = ""
    pod_set_assignments: Annotated[tuple[PodSetAssignment, ...], PER_PODSET] = ()


class RequeueState(Wire, frozen=True):
    count: Annotated[int | None, Limit(least=0)] = None
    requeue_at: Time | None = None


class ReclaimablePod(Wire, frozen=True):
    name: Annotated[str, REQUIRED] = ""
    count: Annotated[int, Limit(required=True, least=0)] = shown(0)


class PodSetUpdate(Wire, frozen=True):
    name: Annotated[str, REQUIRED] = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: Annotated[tuple[Toleration, ...], Limit(max_items=8)] = ()


class AdmissionCheckState(Wire, frozen=True):
    name: Annotated[str, Limit(required=True, min_length=1, max_length=316)] = ""
    state: Annotated[Literal["Pending", "Ready", "Retry", "Rejected"], REQUIRED] = shown("Pending")
    last_transition_time: Annotated[Time | None, REQUIRED] = None
    message: Annotated[str, Limit(required=True, max_length=32768)] = shown("")
    requeue_after_seconds: Annotated[int | None, Limit(least=0)] = None
    retry_count: Annotated[int | None, Limit(least=0)] = None
    pod_set_updates: Annotated[tuple[PodSetUpdate, ...], Limit(max_items=PODSETS_MAX)] = ()


class PodSetRequest(Wire, frozen=True):
    name: Annotated[str, REQUIRED] = shown("main")
    resources: Amounts = {}


class EvictionCount(Wire, frozen=True):
    reason: Annotated[str, Limit(required=True, max_length=316)] = ""
    underlying_cause: Annotated[str, Limit(max_length=316)] = shown("")
    count: Annotated[int, Limit(required=True, least=0)] = shown(0)


class SchedulingStats(Wire, frozen=True):
    evictions: Annotated[tuple[EvictionCount, ...], Limit(max_items=256, keyed_by=("reason", "underlyingCause"))] = ()


class UnhealthyNode(Wire, frozen=True):
    name: Annotated[str, Limit(required=True, max_length=63)] = ""


class PreemptionGateState(Wire, frozen=True):
    name: Annotated[str, Limit(required=True, min_length=1, max_length=63)] = ""
    state: Annotated[Literal["Open", "Closed"], REQUIRED] = shown("Closed")
    last_transition_time: Annotated[Time | None, REQUIRED] = None


class PreemptionGateOpened(Wire, frozen=True):
    cluster: Annotated[str, Limit(required=True, min_length=1, max_length=256)] = ""
    time: Annotated[Time | None, REQUIRED] = None


class ClaimedAssignment(Wire, frozen=True):
    name: Annotated[str, LABEL] = shown("main")
    flavors: dict[str, str] = {}
    count: Annotated[int | None, Limit(least=0)] = None


class ClaimVictim(Wire, frozen=True):
    namespace: str = shown("")
    name: Annotated[str, NOT_EMPTY] = ""
    uid: Annotated[str, NOT_EMPTY] = ""


class ClaimAfter(Wire, frozen=True):
    name: Annotated[str, NOT_EMPTY] = ""
    uid: Annotated[str, NOT_EMPTY] = ""


class PreemptionClaim(Wire, frozen=True):
    pod_set_assignments: Annotated[tuple[ClaimedAssignment, ...], PER_PODSET] = ()
    victims: Annotated[tuple[ClaimVictim, ...], Limit(max_items=256, keyed_by=("uid",))] = ()
    victim_count: Annotated[int, Limit(least=0)] = 0
    issued_at: Annotated[Time | None, REQUIRED] = None
    expires_at: Time | None = None
    after: ClaimAfter | None = None


class OptionState(Wire, frozen=True):
    name: Annotated[str, NOT_EMPTY] = ""
    resource_flavors: tuple[str, ...] = ()
    status: Annotated[
        Literal["Pending", "QuotaReserved", "Admitted", "Evicted", "Deactivated", "NotCreated", "Discarded"],
        Limit(required=True),
    ] = shown("Pending")
    message: Annotated[str, Limit(max_length=32768)] = ""


class WorkloadStatus(Wire, frozen=True):
    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: Annotated[tuple[ReclaimablePod, ...], PER_PODSET] = ()
    admission_checks: Annotated[tuple[AdmissionCheckState, ...], Limit(max_items=8, keyed_by=("name",))] = ()
    resource_requests: Annotated[tuple[PodSetRequest, ...], PER_PODSET] = ()
    accumulated_past_execution_time_seconds: int | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: Annotated[
        tuple[Annotated[str, Limit(max_length=256)], ...], Limit(max_items=20, unique=True)
    ] = ()
    cluster_name: Annotated[str, Limit(max_length=256)] = ""
    unhealthy_nodes: Annotated[
        tuple[UnhealthyNode, ...], Limit(max_items=8, keyed_by=("name",), unserved="topology-aware scheduling")
    ] = ()
    preemption_gates: Annotated[
        tuple[PreemptionGateState, ...], Limit(max_items=GATES_MAX, keyed_by=("name",), too_many="Invalid")
    ] = ()
    preemption_gate_opened: PreemptionGateOpened | None = None
    preemption_claim: PreemptionClaim | None = None
    options: Annotated[tuple[OptionState, ...], Limit(max_items=16, keyed_by=("name",))] = ()
    admitted_since: Time | None = None


class Workload(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("Workload")
    spec: WorkloadSpec = made(WorkloadSpec)
    status: WorkloadStatus | None = None
