"""Views of pods: the fields that makeway acts on, read from the raw part of a Pod or of a pod template.

A view is for reading (``objects.kubernetes.view``). It skips all other fields, and gives absent fields the default of
Kubernetes. Encoding a view would lose fields, so changes go through ``amended``. Where Kubernetes has a closed set of
words a view has plain text: the object may come from a newer Kubernetes with more words.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Raw

from makeway.api.objects.meta import Condition, LabelSelector, ObjectMeta, OfType, Wire, made
from makeway.api.quantity import Quantity, Time

Amounts = dict[str, Quantity]  # resource -> how much


class ResourceRequirements(Wire, frozen=True):
    requests: Amounts = {}
    limits: Amounts = {}


# Where a pod may run.


class NodeSelectorRequirement(Wire, frozen=True):
    key: str = ""
    operator: str = ""  # In, NotIn, Exists, DoesNotExist, Gt, Lt
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    """It matches if all requirements hold; a term without requirements matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    """It matches a node if one of its terms does."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = made(NodeSelectorTerm)


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None  # None: no pod
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None  # None: the pod's own, or ``namespaces``
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = made(PodAffinityTerm)


class PodAffinity(Wire, frozen=True):
    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAntiAffinity(PodAffinity, frozen=True):
    """The same terms as for affinity: where they match, the pod must not or would rather not run."""


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity = made(NodeAffinity)
    pod_affinity: PodAffinity = made(PodAffinity)
    pod_anti_affinity: PodAntiAffinity = made(PodAntiAffinity)


class TopologySpreadConstraint(Wire, frozen=True):
    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"  # or ScheduleAnyway
    label_selector: LabelSelector | None = None  # None: no pod
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class Toleration(Wire, frozen=True):
    """A toleration of a pod, which may have more operators than a toleration of a flavor."""

    key: str = ""
    operator: str = ""  # Equal if not set; Exists, Lt, Gt
    value: str = ""
    effect: str = ""  # "": any
    toleration_seconds: int | None = None


class PodSchedulingGate(Wire, frozen=True):
    name: str = ""


class WorkloadReference(Wire, frozen=True):
    """The gang that a pod belongs to (api 12)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


# Containers.


class KeySelector(Wire, frozen=True):
    """One key of a Secret or ConfigMap."""

    name: str = ""
    key: str = ""
    optional: bool = False


class ObjectFieldSelector(Wire, frozen=True):
    field_path: str = ""


class ResourceFieldSelector(Wire, frozen=True):
    resource: str = ""
    container_name: str = ""
    divisor: Quantity | None = None  # None: 1


class EnvVarSource(Wire, frozen=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(Wire, frozen=True):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvSource(Wire, frozen=True):
    """All keys of a Secret or ConfigMap."""

    name: str = ""
    optional: bool = False


class EnvFromSource(Wire, frozen=True):
    prefix: str = ""
    config_map_ref: EnvSource | None = None
    secret_ref: EnvSource | None = None


class ContainerPort(Wire, frozen=True):
    container_port: int = 0
    host_port: int = 0  # 0: no port of the node
    host_ip: str = msgspec.field(default="", name="hostIP")
    name: str = ""
    protocol: str = "TCP"


class ExecAction(Wire, frozen=True):
    command: tuple[str, ...] = ()


class HTTPHeader(Wire, frozen=True):
    name: str = ""
    value: str = ""


class HTTPGetAction(Wire, frozen=True):
    port: int | str = 0  # a number, or the name of one of the container's ports
    host: str = ""
    path: str = "/"
    scheme: str = "HTTP"
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Wire, frozen=True):
    port: int | str = 0
    host: str = ""


class SleepAction(Wire, frozen=True):
    seconds: int = 0


class Probe(Wire, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None  # None: that of the pod


class LifecycleHandler(Wire, frozen=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Wire, frozen=True):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str = ""


class VolumeMount(Wire, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class Container(Wire, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = made(ResourceRequirements)
    restart_policy: str = ""  # Always on an init container: it keeps running beside the others
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle = made(Lifecycle)
    volume_mounts: tuple[VolumeMount, ...] = ()
    security_context: Annotated[Raw, OfType("SecurityContext")] = Raw(b"{}")


# Volumes.


class KeyToPath(Wire, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class EmptyDirVolumeSource(Wire, frozen=True):
    medium: str = ""
    size_limit: Quantity | None = None


class HostPathVolumeSource(Wire, frozen=True):
    path: str = ""
    type: str = ""


class SecretVolumeSource(Wire, frozen=True):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()  # empty: all keys
    default_mode: int = 0o644
    optional: bool = False


class ConfigMapVolumeSource(Wire, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()  # empty: all keys
    default_mode: int = 0o644
    optional: bool = False


class PersistentVolumeClaimVolumeSource(Wire, frozen=True):
    """Only read to warn that no volume is bound."""

    claim_name: str = ""


class EphemeralVolumeSource(Wire, frozen=True):
    """A claim that is created for the pod; only read for the same warning."""


class Volume(Wire, frozen=True):
    """One volume; all sources are None if makeway does not know its source."""

    name: str = ""
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


# The pod.


class PodResourceClaim(Wire, frozen=True):
    """A device that is allocated by a claim; only read to warn that it is ignored."""

    name: str = ""


class PodSchedulingGroup(Wire, frozen=True):
    """The gang of a pod if gangs are PodGroup objects; only read to warn that it is ignored."""

    pod_group_name: str = ""


class PodSpec(Wire, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    host_network: bool = False
    hostname: str = ""
    service_account_name: str = ""
    security_context: Annotated[Raw, OfType("PodSecurityContext")] = Raw(b"{}")
    resources: ResourceRequirements = made(ResourceRequirements)  # of the whole pod; mostly empty
    overhead: Amounts = {}
    runtime_class_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = made(Affinity)
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: int | None = None  # None: not resolved yet
    priority_class_name: str = ""
    preemption_policy: str = ""  # "": that of the class
    workload_ref: WorkloadReference | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None


class PodTemplate(Wire, frozen=True):
    metadata: ObjectMeta = made(ObjectMeta)
    spec: PodSpec = made(PodSpec)


# The status of a pod.


class ContainerStateWaiting(Wire, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Wire, frozen=True):
    started_at: Time | None = None


class ContainerStateTerminated(Wire, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(Wire, frozen=True):
    """The state of a container: at most one of the three is set, and none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Wire, frozen=True):
    name: str = ""
    state: ContainerState = made(ContainerState)
    last_state: ContainerState = made(ContainerState)
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")


class PodCondition(Condition, frozen=True):
    last_probe_time: Time | None = None


class PodStatus(Wire, frozen=True):
    phase: str = "Pending"
    conditions: tuple[PodCondition, ...] = ()
    reason: str = ""
    message: str = ""
    start_time: Time | None = None
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    qos_class: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
