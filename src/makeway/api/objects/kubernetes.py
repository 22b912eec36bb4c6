"""The Kubernetes kinds that we read and serve: what is deep travels as raw JSON, what is simple is typed.

A raw part keeps every field that its writer set, also those we do not know. ``view`` reads it as a struct with the
fields that we act on; ``amended`` changes some keys and leaves the other bytes as they came. Views of pods are in
``objects.pods``, those of the other kinds follow the kinds here; ``OfType`` says which type of
``kubernetes_types`` describes a raw part.

Not here: what Kubernetes defaults on create, and which values it refuses (``kubernetes_limits``, ``validation``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Raw

from makeway.api.objects.meta import (
    INT64,
    LABEL,
    NOT_EMPTY,
    REQUIRED,
    Condition,
    KubernetesObject,
    LabelSelector,
    Limit,
    OfType,
    Taint,
    Toleration,
    Wire,
    made,
    shown,
)
from makeway.api.objects.pods import Amounts
from makeway.api.quantity import MicroTime, Time, decode_hook, encode_hook

T = TypeVar("T", bound=msgspec.Struct)

NOTHING = Raw(b"{}")  # a raw part that is absent: encoding recognises this very object and leaves it out
FIXED = Limit(immutable=True)


# The functions.


def view(raw: Raw, kind: type[T]) -> T:
    """Read a raw part as ``kind``; fields that ``kind`` does not name are skipped.

    A null where ``kind`` knows no None fails like any wrong type: the codec has pruned nulls before. Raises
    ``msgspec.ValidationError`` with the path of the first value that does not fit.
    """
    result: T = _decoder(kind).decode(raw)
    return result


def amended(raw: Raw, changes: Mapping[str, object]) -> Raw:
    """A copy of a JSON object with some keys changed and every other value byte for byte as it was.

    None removes a key, a mapping is merged into the object that is there (or into a new one), anything else
    replaces, lists too. To replace an object as a whole give it as ``Raw`` or as a struct.
    """
    parts: dict[str, Raw] = _parts_decoder.decode(raw)
    for key, change in changes.items():
        if change is None:
            parts.pop(key, None)
        elif isinstance(change, Mapping):
            parts[key] = amended(_object_at(parts, key), change)
        else:
            parts[key] = Raw(_encoder.encode(change))
    return Raw(_encoder.encode(parts))


def _object_at(parts: Mapping[str, Raw], key: str) -> Raw:
    found = parts.get(key, NOTHING)
    return found if bytes(found)[:1] == b"{" else NOTHING


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_hook)


_encoder = msgspec.json.Encoder(enc_hook=encode_hook)
_parts_decoder = msgspec.json.Decoder(dict[str, Raw])


# Workloads and where they run.


class Namespace(KubernetesObject, frozen=True):
    api_version: str = shown("v1")
    kind: str = shown("Namespace")
    spec: Annotated[Raw, OfType("NamespaceSpec")] = NOTHING
    status: Annotated[Raw, OfType("NamespaceStatus")] = NOTHING


class NamespaceSpec(Wire, frozen=True):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Wire, frozen=True):
    phase: str = "Active"
    conditions: tuple[Condition, ...] = ()


class Node(KubernetesObject, frozen=True):
    api_version: str = shown("v1")
    kind: str = shown("Node")
    spec: Annotated[Raw, OfType("NodeSpec")] = NOTHING
    status: Annotated[Raw, OfType("NodeStatus")] = NOTHING


class NodeSpec(Wire, frozen=True):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeCondition(Condition, frozen=True):
    last_heartbeat_time: Time | None = None


class NodeAddress(Wire, frozen=True):
    type: str = ""
    address: str = ""


class NodeStatus(Wire, frozen=True):
    capacity: Amounts = {}
    allocatable: Amounts = {}
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Pod(KubernetesObject, frozen=True):
    """Views: ``pods.PodSpec``, ``pods.PodStatus``."""

    api_version: str = shown("v1")
    kind: str = shown("Pod")
    spec: Annotated[Raw, OfType("PodSpec")] = NOTHING
    status: Annotated[Raw, OfType("PodStatus")] = NOTHING


class Job(KubernetesObject, frozen=True):
    api_version: str = shown("batch/v1")
    kind: str = shown("Job")
    spec: Annotated[Raw, OfType("JobSpec")] = NOTHING
    status: Annotated[Raw, OfType("JobStatus")] = NOTHING


class JobSpec(Wire, frozen=True):
    parallelism: int = 1
    completions: int | None = None  # None: one success is enough for all
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    backoff_limit: int | None = None  # None: 6, or no limit beside backoffLimitPerIndex
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    managed_by: str = ""
    manual_selector: bool = False
    selector: LabelSelector | None = None
    pod_replacement_policy: str = ""
    pod_failure_policy: Annotated[Raw, OfType("PodFailurePolicy")] = NOTHING
    success_policy: Annotated[Raw, OfType("SuccessPolicy")] = NOTHING
    template: Annotated[Raw, OfType("PodTemplateSpec")] = NOTHING  # raw, as podSets and pods copy it; view: PodTemplate


class PodFailurePolicyOnExitCodesRequirement(Wire, frozen=True):
    container_name: str | None = None  # None: any container
    operator: str = "In"  # or NotIn
    values: tuple[int, ...] = ()


class PodFailurePolicyOnPodConditionsPattern(Wire, frozen=True):
    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(Wire, frozen=True):
    action: str = ""  # FailJob, Ignore, Count, FailIndex
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Wire, frozen=True):
    """The first rule that fits a failed pod decides; without one it counts as always."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class UncountedTerminatedPods(Wire, frozen=True):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobCondition(Condition, frozen=True):
    last_probe_time: Time | None = None


class JobStatus(Wire, frozen=True):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    start_time: Time | None = None
    completion_time: Time | None = None
    completed_indexes: str = ""  # "1,3-5,7"
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedTerminatedPods = made(UncountedTerminatedPods)
    conditions: tuple[JobCondition, ...] = ()


# What bounds and ranks pods.


class PriorityClass(KubernetesObject, frozen=True):
    api_version: str = shown("scheduling.k8s.io/v1")
    kind: str = shown("PriorityClass")
    value: Annotated[int, FIXED] = shown(0)
    global_default: bool = False
    description: str = ""
    preemption_policy: Annotated[Literal["PreemptLowerPriority", "Never"], FIXED] = shown("PreemptLowerPriority")


class PodDisruptionBudget(KubernetesObject, frozen=True):
    api_version: str = shown("policy/v1")
    kind: str = shown("PodDisruptionBudget")
    spec: Annotated[Raw, OfType("PodDisruptionBudgetSpec")] = NOTHING
    status: Annotated[Raw, OfType("PodDisruptionBudgetStatus")] = NOTHING


class PodDisruptionBudgetSpec(Wire, frozen=True):
    selector: LabelSelector | None = None  # None or empty: no pod (api 12)
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetStatus(Wire, frozen=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, Time] = {}  # pod -> when its eviction was granted
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class LimitRangeItem(Wire, frozen=True):
    type: Annotated[str, NOT_EMPTY] = ""  # Container, Pod, PersistentVolumeClaim
    default: Amounts = {}
    default_request: Amounts = {}
    max: Amounts = {}
    min: Amounts = {}
    max_limit_request_ratio: Amounts = {}


class LimitRangeSpec(Wire, frozen=True):
    limits: Annotated[tuple[LimitRangeItem, ...], REQUIRED] = shown(())


class LimitRange(KubernetesObject, frozen=True):
    api_version: str = shown("v1")
    kind: str = shown("LimitRange")
    spec: LimitRangeSpec = made(LimitRangeSpec)


class Overhead(Wire, frozen=True):
    pod_fixed: Amounts = {}


class Scheduling(Wire, frozen=True):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(KubernetesObject, frozen=True):
    api_version: str = shown("node.k8s.io/v1")
    kind: str = shown("RuntimeClass")
    handler: Annotated[str, LABEL, REQUIRED, FIXED] = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


# Configuration, coordination, news.


class Secret(KubernetesObject, frozen=True):
    api_version: str = shown("v1")
    kind: str = shown("Secret")
    type: Annotated[str, FIXED] = shown("Opaque")
    data: dict[str, bytes] = {}  # base64 outside
    string_data: dict[str, str] = {}  # only ever written: the server moves it into ``data``
    immutable: bool | None = None


class ConfigMap(KubernetesObject, frozen=True):
    api_version: str = shown("v1")
    kind: str = shown("ConfigMap")
    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}
    immutable: bool | None = None


class LeaseSpec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: Annotated[int | None, Limit(least=1)] = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Annotated[int | None, Limit(least=0)] = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(KubernetesObject, frozen=True):
    api_version: str = shown("coordination.k8s.io/v1")
    kind: str = shown("Lease")
    spec: LeaseSpec = made(LeaseSpec)


class ObjectReference(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Wire, frozen=True):
    component: str = ""
    host: str = ""


class EventSeries(Wire, frozen=True):
    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(KubernetesObject, frozen=True):
    api_version: str = shown("v1")
    kind: str = shown("Event")
    involved_object: ObjectReference = made(ObjectReference)
    related: ObjectReference | None = None
    type: str = ""
    reason: str = ""
    action: str = ""
    message: str = ""
    source: EventSource | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: MicroTime | None = None
    count: int = 0
    series: EventSeries | None = None


class EventsV1EventSeries(Wire, frozen=True):
    count: int = 0
    last_observed_time: MicroTime | None = None


class EventsV1Event(KubernetesObject, frozen=True):
    """An Event as events.k8s.io/v1 spells it; stored is the ``Event`` above."""

    api_version: str = shown("events.k8s.io/v1")
    kind: str = shown("Event")
    event_time: MicroTime | None = None
    series: EventsV1EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = made(ObjectReference)
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource | None = None
    deprecated_first_timestamp: Time | None = None
    deprecated_last_timestamp: Time | None = None
    deprecated_count: int = 0


# Requests in the shape of an object: created, answered, never stored.


class Binding(KubernetesObject, frozen=True):
    api_version: str = shown("v1")
    kind: str = shown("Binding")
    target: ObjectReference = made(ObjectReference)


class Preconditions(Wire, frozen=True):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    grace_period_seconds: Annotated[int | None, INT64] = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    dry_run: tuple[str, ...] = ()
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class Eviction(KubernetesObject, frozen=True):
    api_version: str = shown("policy/v1")
    kind: str = shown("Eviction")
    delete_options: DeleteOptions | None = None


class NonResourceAttributes(Wire, frozen=True):
    path: str = ""
    verb: str = ""


class ResourceAttributes(Wire, frozen=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: Annotated[Raw, OfType("FieldSelectorAttributes")] = NOTHING
    label_selector: Annotated[Raw, OfType("LabelSelectorAttributes")] = NOTHING


class SelfSubjectAccessReviewSpec(Wire, frozen=True):
    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None


class SubjectAccessReviewStatus(Wire, frozen=True):
    allowed: bool = shown(False)
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SelfSubjectAccessReview(KubernetesObject, frozen=True):
    api_version: str = shown("authorization.k8s.io/v1")
    kind: str = shown("SelfSubjectAccessReview")
    spec: SelfSubjectAccessReviewSpec = made(SelfSubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus | None = None


class SelfSubjectRulesReviewSpec(Wire, frozen=True):
    namespace: str = ""


class ResourceRule(Wire, frozen=True):
    verbs: tuple[str, ...] = shown(())
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class NonResourceRule(Wire, frozen=True):
    verbs: tuple[str, ...] = shown(())
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class SubjectRulesReviewStatus(Wire, frozen=True):
    resource_rules: tuple[ResourceRule, ...] = shown(())
    non_resource_rules: tuple[NonResourceRule, ...] = shown(())
    incomplete: bool = shown(False)
    evaluation_error: str = ""


class SelfSubjectRulesReview(KubernetesObject, frozen=True):
    api_version: str = shown("authorization.k8s.io/v1")
    kind: str = shown("SelfSubjectRulesReview")
    spec: SelfSubjectRulesReviewSpec = made(SelfSubjectRulesReviewSpec)
    status: SubjectRulesReviewStatus | None = None


class UserInfo(Wire, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class SelfSubjectReviewStatus(Wire, frozen=True):
    user_info: UserInfo = made(UserInfo)


class SelfSubjectReview(KubernetesObject, frozen=True):
    api_version: str = shown("authentication.k8s.io/v1")
    kind: str = shown("SelfSubjectReview")
    status: SelfSubjectReviewStatus | None = None


KINDS: tuple[type[Wire], ...] = (
    Namespace, Node, Pod, Job, PriorityClass, PodDisruptionBudget, LimitRange, RuntimeClass, Secret, ConfigMap, Lease,
    Event, Binding, Eviction, SelfSubjectAccessReview, SelfSubjectRulesReview, SelfSubjectReview,
)  # fmt: skip
