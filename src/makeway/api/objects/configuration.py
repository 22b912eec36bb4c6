"""The configuration file, in which the administrator says how the system behaves (api 9)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from makeway.api.objects.meta import NOT_EMPTY, REQUIRED, LabelSelector, Limit, ObjectMeta, Wire, made, shown
from makeway.api.quantity import Duration, Quantity

CONFIG = "config.kueue.x-k8s.io/v1beta2"
ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"

FairStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
Elsewhere = Annotated[dict[str, Any] | None, Limit(unserved="the upstream operator")]  # known, kept, not acted on


class FairSharingConfig(Wire, frozen=True):
    preemption_strategies: Annotated[tuple[FairStrategy, ...], REQUIRED] = ()


class RequeuingStrategy(Wire, frozen=True):
    timestamp: Literal["Eviction", "Creation"] = shown("Eviction")
    backoff_base_seconds: Annotated[int, Limit(least=0)] = shown(60)
    backoff_max_seconds: Annotated[int, Limit(least=0)] = shown(3600)
    backoff_limit_count: Annotated[int | None, Limit(least=0)] = None  # None: no limit


class WaitForPodsReady(Wire, frozen=True):
    timeout: Duration = shown(Duration.parse("30m"))
    recovery_timeout: Duration | None = None  # None: as timeout; 0s: off
    block_admission: bool = shown(False)
    requeuing_strategy: RequeuingStrategy = made(RequeuingStrategy)


class Integrations(Wire, frozen=True):
    frameworks: Annotated[tuple[str, ...], Limit(unique=True)] = shown(("batch/job",))
    external_frameworks: Annotated[tuple[str, ...], Limit(unique=True)] = ()
    label_keys_to_copy: tuple[str, ...] = ()
    pod_options: Elsewhere = None


class IncrementalDispatcher(Wire, frozen=True):
    step_size: Annotated[int, Limit(least=1)] = shown(3)


class MultiKueue(Wire, frozen=True):
    gc_interval: Duration = shown(Duration.parse("1m"))
    origin: str = shown("multikueue")
    worker_lost_timeout: Duration = shown(Duration.parse("15m"))
    dispatcher_name: str = shown(ALL_AT_ONCE)
    incremental_dispatcher_config: IncrementalDispatcher | None = None
    single_cluster_preemption_timeout: Duration = shown(Duration.parse("5m"))
    external_frameworks: Annotated[tuple[Any, ...], Limit(unserved="the upstream operator")] = ()
    cluster_profile: Elsewhere = None


class ResourceTransformation(Wire, frozen=True):
    input: Annotated[str, NOT_EMPTY] = ""
    strategy: Literal["Retain", "Replace"] = shown("Retain")
    multiply_by: str = ""
    outputs: dict[str, Quantity] = {}


class Resources(Wire, frozen=True):
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: Annotated[tuple[ResourceTransformation, ...], Limit(keyed_by=("input",))] = ()
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = shown("BlockUndeclared")
    device_class_mappings: Annotated[tuple[Any, ...], Limit(unserved="dynamic resource allocation")] = ()


class WorkloadRetention(Wire, frozen=True):
    after_finished: Duration | None = None  # None: kept for ever
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Wire, frozen=True):
    workloads: WorkloadRetention = made(WorkloadRetention)


class LocalQueueMetrics(Wire, frozen=True):
    enable: bool = shown(True)
    local_queue_selector: Elsewhere = None


class Metrics(Wire, frozen=True):
    enable_cluster_queue_resources: bool = shown(False)
    local_queue_metrics: LocalQueueMetrics = made(LocalQueueMetrics)
    bind_address: Annotated[str, Limit(unserved="the upstream operator")] = ""
    custom_labels: Annotated[Any, Limit(unserved="the upstream operator")] = None


class Journal(Wire, frozen=True):
    max_age: Duration = shown(Duration.parse("720h"))
    max_size: Quantity = shown(Quantity.parse("512Mi"))


class Events(Wire, frozen=True):
    ttl: Duration = shown(Duration.parse("1h"))


class MakewaySettings(Wire, frozen=True):
    """Settings that only makeway has (api 9.1)."""

    claim_timeout: Duration = shown(Duration.parse("5m"))
    wake_batch_interval: Duration = shown(Duration.parse("0s"))
    status_write_interval: Duration = shown(Duration.parse("30s"))
    option_min_stay: Duration = shown(Duration.parse("0s"))
    option_evaluation_timeout: Duration = shown(Duration.parse("1m"))
    option_upgrade_preempts: bool = shown(False)
    journal: Journal = made(Journal)
    events: Events = made(Events)
    scoring: Literal["Spread", "Pack"] = shown("Spread")
    over_quota: Literal["Keep", "Evict"] = shown("Keep")
    strict_fifo_lends: bool = msgspec.field(default_factory=bool, name="strictFIFOLends")
    entitled_hold: Literal["All", "StrictFIFO"] = shown("All")
    rotation: Literal["Fair", "Literal"] = shown("Fair")
    rounds_end_after: Duration = shown(Duration.parse("10m"))
    images: dict[str, tuple[str, ...]] = {}  # image glob -> command prefix


class Configuration(Wire, frozen=True):
    api_version: str = shown(CONFIG)
    kind: str = shown("Configuration")
    metadata: ObjectMeta | None = None
    namespace: str = shown("kueue-system")
    manage_jobs_without_queue_name: bool = shown(False)
    managed_jobs_namespace_selector: LabelSelector | None = None  # None: all but kube-system and our own
    fair_sharing: FairSharingConfig | None = None  # None: classical preemption
    wait_for_pods_ready: WaitForPodsReady | None = None
    integrations: Integrations = made(Integrations)
    multi_kueue: MultiKueue = made(MultiKueue)
    resources: Resources = made(Resources)
    object_retention_policies: ObjectRetentionPolicies | None = None
    metrics: Metrics = made(Metrics)
    admission_fair_sharing: Annotated[dict[str, Any] | None, Limit(unserved="LocalQueue usage fair sharing")] = None
    client_connection: Elsewhere = None
    leader_election: Elsewhere = None
    internal_cert_management: Elsewhere = None
    webhook: Elsewhere = None
    health: Elsewhere = None
    controller: Elsewhere = None
    tls: Elsewhere = None
    visibility_server: Elsewhere = None
    pprof_bind_address: Annotated[str, Limit(unserved="the upstream operator")] = ""
    feature_gates: dict[str, bool] = {}
    makeway: MakewaySettings = made(MakewaySettings)
