"""The wire objects of queueing: flavors, queues, cohorts, priorities, checks, MultiKueue (api 1-4, 6-8)."""

from __future__ import annotations

from typing import Annotated, Literal

from makeway.api.objects.meta import (
    INT64,
    LABEL,
    NOT_EMPTY,
    REQUIRED,
    SUBDOMAIN,
    Condition,
    KubernetesObject,
    LabelSelector,
    Limit,
    Taint,
    Toleration,
    Wire,
    made,
    shown,
)
from makeway.api.quantity import Duration, Quantity, Time

KUEUE = "kueue.x-k8s.io/v1beta2"

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
ReclaimPolicy = Literal["Never", "LowerPriority", "Any"]
WithinPolicy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
Conditions = Annotated[tuple[Condition, ...], Limit(max_items=16, keyed_by=("type",))]


class Stoppable:
    """What the stop policy of a queue means."""

    __slots__ = ()
    stop_policy: StopPolicy

    @property
    def is_stopped(self) -> bool:
        """Whether it takes no more workloads."""
        return self.stop_policy != "None"

    @property
    def drains(self) -> bool:
        """Whether the workloads that were admitted through it are evicted, too."""
        return self.stop_policy == "HoldAndDrain"


class ResourceFlavorSpec(Wire, frozen=True):
    node_labels: Annotated[dict[str, str], Limit(max_items=8)] = {}
    node_taints: Annotated[tuple[Taint, ...], Limit(max_items=8)] = ()
    tolerations: Annotated[tuple[Toleration, ...], Limit(max_items=8)] = ()
    topology_name: Annotated[str, SUBDOMAIN, Limit(unserved="topology-aware scheduling")] = ""


class ResourceFlavor(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("ResourceFlavor")
    spec: ResourceFlavorSpec = made(ResourceFlavorSpec)


class ResourceQuota(Wire, frozen=True):
    name: Annotated[str, NOT_EMPTY] = ""
    nominal_quota: Annotated[Quantity, Limit(required=True, least=0)] = shown(Quantity.parse("0"))
    borrowing_limit: Annotated[Quantity | None, Limit(least=0)] = None  # None: as much as the cohort has
    lending_limit: Annotated[Quantity | None, Limit(least=0)] = None  # None: all of nominalQuota


class FlavorQuotas(Wire, frozen=True):
    name: Annotated[str, SUBDOMAIN, REQUIRED] = ""
    resources: Annotated[
        tuple[ResourceQuota, ...], Limit(required=True, min_items=1, max_items=64, keyed_by=("name",))
    ] = ()


class ResourceGroup(Wire, frozen=True):
    covered_resources: Annotated[tuple[str, ...], Limit(required=True, min_items=1, max_items=64)] = ()
    flavors: Annotated[tuple[FlavorQuotas, ...], Limit(required=True, min_items=1, max_items=64)] = ()


class FairSharing(Wire, frozen=True):
    weight: Quantity = shown(Quantity.parse("1"))


class FairSharingStatus(Wire, frozen=True):
    weighted_share: Annotated[int, INT64] = shown(0)


class FlavorFungibility(Wire, frozen=True):
    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = shown("MayStopSearch")
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = shown("TryNextFlavor")
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


class BorrowWithinCohort(Wire, frozen=True):
    policy: Literal["Never", "LowerPriority"] = shown("Never")
    max_priority_threshold: int | None = None


class WithinClusterQueueConfig(Wire, frozen=True):
    min_admit_duration: Duration | None = None  # None: an equal is never preempted for having run long


class Preemption(Wire, frozen=True):
    reclaim_within_cohort: ReclaimPolicy = shown("Never")
    borrow_within_cohort: BorrowWithinCohort = made(BorrowWithinCohort)
    within_cluster_queue: WithinPolicy = shown("Never")
    within_cluster_queue_config: WithinClusterQueueConfig | None = None  # validated even if it is empty


class AdmissionCheckStrategyRule(Wire, frozen=True):
    name: Annotated[str, Limit(required=True, min_length=1, max_length=316)] = ""
    on_flavors: Annotated[tuple[str, ...], Limit(max_items=64, unique=True)] = ()  # empty: all flavors


class AdmissionChecksStrategy(Wire, frozen=True):
    admission_checks: Annotated[
        tuple[AdmissionCheckStrategyRule, ...], Limit(required=True, min_items=1, max_items=64, keyed_by=("name",))
    ] = ()


class AdmissionScope(Wire, frozen=True):
    admission_mode: Annotated[
        Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"] | None, Limit(required=True)
    ] = None


class ExplicitOption(Wire, frozen=True):
    name: Annotated[str, LABEL, REQUIRED] = ""
    create_delay_seconds: Annotated[int | None, Limit(least=0)] = None  # None: at once
    delete_delay_seconds: Annotated[int | None, Limit(least=1)] = None  # None: never
    allowed_resource_flavors: Annotated[
        tuple[str, ...], Limit(required=True, min_items=1, unique=True, too_many="Invalid")
    ] = ()


class RemoveBelowTargetConfig(Wire, frozen=True):
    target_resource_flavor: Annotated[str, NOT_EMPTY] = ""


class ConcurrentAdmission(Wire, frozen=True):
    on_success: Annotated[Literal["RemoveOther", "RemoveLower", "RemoveBelowTarget"] | None, Limit(required=True)] = (
        None
    )
    explicit_options: Annotated[tuple[ExplicitOption, ...], Limit(max_items=16, keyed_by=("name",))] = ()
    remove_below_target_config: RemoveBelowTargetConfig | None = None


class ClusterQueueSpec(Stoppable, Wire, frozen=True):
    resource_groups: Annotated[tuple[ResourceGroup, ...], Limit(max_items=16)] = ()
    cohort_name: Annotated[str, SUBDOMAIN] = ""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = shown("BestEffortFIFO")
    namespace_selector: LabelSelector | None = None  # None: no namespace; an empty one: every namespace
    flavor_fungibility: FlavorFungibility = made(FlavorFungibility)
    preemption: Preemption = made(Preemption)
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = shown("None")
    fair_sharing: FairSharing | None = None
    admission_scope: Annotated[AdmissionScope | None, Limit(unserved="LocalQueue usage fair sharing")] = None
    concurrent_admission: Annotated[ConcurrentAdmission | None, Limit(immutable=True)] = None


class ResourceUsage(Wire, frozen=True):
    name: str = shown("")
    total: Quantity = shown(Quantity.parse("0"))
    borrowed: Quantity = shown(Quantity.parse("0"))


class FlavorUsage(Wire, frozen=True):
    name: str = shown("")
    resources: Annotated[tuple[ResourceUsage, ...], Limit(max_items=64)] = ()


class ClusterQueueStatus(Wire, frozen=True):
    conditions: Conditions = ()
    flavors_reservation: Annotated[tuple[FlavorUsage, ...], Limit(max_items=64)] = ()
    flavors_usage: Annotated[tuple[FlavorUsage, ...], Limit(max_items=64)] = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("ClusterQueue")
    spec: ClusterQueueSpec = made(ClusterQueueSpec)
    status: ClusterQueueStatus | None = None


class CohortSpec(Wire, frozen=True):
    parent_name: Annotated[str, SUBDOMAIN] = ""
    resource_groups: Annotated[tuple[ResourceGroup, ...], Limit(max_items=16)] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Wire, frozen=True):
    fair_sharing: FairSharingStatus | None = None


class Cohort(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("Cohort")
    spec: CohortSpec = made(CohortSpec)
    status: CohortStatus | None = None


class LocalQueueSpec(Stoppable, Wire, frozen=True):
    cluster_queue: Annotated[str, SUBDOMAIN, Limit(immutable=True)] = ""
    stop_policy: StopPolicy = shown("None")
    fair_sharing: Annotated[FairSharing | None, Limit(unserved="LocalQueue usage fair sharing")] = None


class LocalQueueResourceUsage(Wire, frozen=True):
    name: str = shown("")
    total: Quantity = shown(Quantity.parse("0"))


class LocalQueueFlavorUsage(Wire, frozen=True):
    name: str = shown("")
    resources: Annotated[tuple[LocalQueueResourceUsage, ...], Limit(max_items=64)] = ()


class AdmissionFairSharingStatus(Wire, frozen=True):
    consumed_resources: dict[str, Quantity] = {}
    last_update: Time | None = None


class LocalQueueFairSharingStatus(Wire, frozen=True):
    weighted_share: Annotated[int, INT64] = shown(0)
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(Wire, frozen=True):
    conditions: Conditions = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    flavors_reservation: Annotated[tuple[LocalQueueFlavorUsage, ...], Limit(max_items=64)] = ()
    flavors_usage: Annotated[tuple[LocalQueueFlavorUsage, ...], Limit(max_items=64)] = ()
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("LocalQueue")
    spec: LocalQueueSpec = made(LocalQueueSpec)
    status: LocalQueueStatus | None = None


class WorkloadPriorityClass(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("WorkloadPriorityClass")
    value: Annotated[int, REQUIRED] = shown(0)
    description: Annotated[str, Limit(max_length=2048)] = ""


class AdmissionCheckParameters(Wire, frozen=True):
    api_group: Annotated[str, SUBDOMAIN, Limit(required=True, min_length=1)] = ""
    kind: Annotated[str, Limit(required=True, min_length=1, max_length=63)] = ""
    name: Annotated[str, LABEL, Limit(required=True, min_length=1)] = ""


class AdmissionCheckSpec(Wire, frozen=True):
    controller_name: Annotated[str, Limit(required=True, min_length=1, max_length=253, immutable=True)] = ""
    parameters: AdmissionCheckParameters | None = None


class AdmissionCheckStatus(Wire, frozen=True):
    conditions: Conditions = ()


class AdmissionCheck(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("AdmissionCheck")
    spec: AdmissionCheckSpec = made(AdmissionCheckSpec)
    status: AdmissionCheckStatus | None = None


class MultiKueueConfigSpec(Wire, frozen=True):
    clusters: Annotated[
        tuple[Annotated[str, Limit(min_length=1, max_length=256)], ...],
        Limit(required=True, min_items=1, max_items=20, unique=True, too_many="Invalid"),
    ] = ()  # in order of preference, which breaks ties between clusters
    quota_management: Literal["Manual", "Automated"] = shown("Manual")


class MultiKueueConfig(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("MultiKueueConfig")
    spec: MultiKueueConfigSpec = made(MultiKueueConfigSpec)


class KubeConfig(Wire, frozen=True):
    location: Annotated[str, Limit(required=True, min_length=1, max_length=256)] = ""
    location_type: Literal["Secret", "Path"] = shown("Secret")


class ClusterProfileReference(Wire, frozen=True):
    name: Annotated[str, Limit(required=True, min_length=1, max_length=256)] = ""


class ClusterSource(Wire, frozen=True):
    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Wire, frozen=True):
    cluster_source: Annotated[ClusterSource | None, REQUIRED] = None


class MultiKueueClusterStatus(Wire, frozen=True):
    conditions: Conditions = ()


class MultiKueueCluster(KubernetesObject, frozen=True):
    api_version: str = shown(KUEUE)
    kind: str = shown("MultiKueueCluster")
    spec: MultiKueueClusterSpec = made(MultiKueueClusterSpec)
    status: MultiKueueClusterStatus | None = None
