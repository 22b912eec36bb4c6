"""Shapes: one description of every kind, from our structs and from the Kubernetes types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest

from makeway.api.objects import configuration, kubernetes, queueing, scheduling, workload
from makeway.api.objects.meta import INT64, LABEL, REQUIRED, Limit, ObjectMeta, Wire, made, shown
from makeway.api.quantity import Duration, MicroTime, Quantity, Time
from makeway.api.schema.kubernetes_types import SCALARS
from makeway.api.schema.shapes import (
    Field,
    Leaf,
    ListOf,
    MapOf,
    Record,
    Shape,
    kubernetes_kind,
    kubernetes_shape,
    renamed,
    shape_of,
)
from makeway.api.versions import KINDS, Kind

Named = Annotated[tuple[str, ...], Limit(max_items=3)]


class Part(Wire, frozen=True):
    size: int = 0


class Sample(Wire, frozen=True):
    text: str = ""
    flag: bool | None = None
    small: int = 0
    large: Annotated[int, INT64] = 0
    ratio: float = 0.0
    anything: Any = None
    data: bytes = b""
    amount: Quantity | None = None
    wait: Duration = shown(Duration.parse("1m"))
    at: Time | None = None
    exactly: MicroTime | None = None
    mode: Literal["A", "B"] = shown("A")
    named: Named = ()
    maybe_named: Annotated[Named | None, REQUIRED] = None
    label: Annotated[str, LABEL, Limit(max_length=5)] = ""
    parts: tuple[Part, ...] = ()
    part: Part = made(Part)
    by_name: dict[str, Part] = {}  # noqa: RUF012


FIELDS = shape_of(Sample).fields


@pytest.mark.parametrize(
    ("name", "leaf"),
    [
        ("text", "string"), ("flag", "boolean"), ("small", "int32"), ("large", "int64"), ("ratio", "number"),
        ("anything", "any"), ("data", "bytes"), ("amount", "quantity"), ("wait", "duration"), ("at", "time"),
        ("exactly", "microTime"),
    ],
)  # fmt: skip
def test_a_plain_type_is_a_leaf(name: str, leaf: str) -> None:
    assert FIELDS[name].shape == Leaf(leaf)


def test_a_literal_is_a_closed_set() -> None:
    assert FIELDS["mode"] == Field(Leaf("enum", ("A", "B")), default="A")


def test_lists_maps_and_blocks_hold_fields() -> None:
    assert FIELDS["parts"].shape == ListOf(Field(shape_of(Part)))
    assert FIELDS["byName"].shape == MapOf(Field(shape_of(Part)))
    assert FIELDS["part"].shape is shape_of(Part)


def test_only_defaults_that_are_written_out_are_told() -> None:
    told = {name: field.default for name, field in FIELDS.items() if field.default is not None}
    assert told == {"wait": Duration.parse("1m"), "mode": "A", "part": Part()}


def test_limits_on_one_field_add_up_and_the_later_wins() -> None:
    assert FIELDS["label"].limit == Limit(pattern=LABEL.pattern, pattern_name="a DNS label", max_length=5)
    assert FIELDS["maybeNamed"].limit == Limit(required=True, max_items=3)
    assert FIELDS["named"].limit == Limit(max_items=3)


def test_a_shape_is_made_once() -> None:
    assert shape_of(Sample) is shape_of(Sample)
    assert kubernetes_shape("PodSpec") is kubernetes_shape("PodSpec")


def test_a_kubernetes_type_keeps_what_it_does_not_know_and_tells_what_it_requires() -> None:
    spec = kubernetes_shape("PodSpec")
    assert spec.keeps_unknown
    containers = spec.fields["containers"]
    assert containers.limit.required
    assert isinstance(containers.shape, ListOf)
    assert containers.shape.item.shape is kubernetes_shape("Container")
    assert spec.fields["nodeSelector"].shape == MapOf(Field(Leaf("string"), Limit(form="labelValue")))
    assert kubernetes_shape("CSIVolumeSource").fields["volumeAttributes"].shape == MapOf(Field(Leaf("string")))
    assert kubernetes_shape("ObjectMeta") is shape_of(ObjectMeta)


def test_a_raw_part_has_the_shape_of_its_kubernetes_type() -> None:
    pod_set = shape_of(workload.PodSet)
    assert pod_set.fields["template"].shape is kubernetes_shape("PodTemplateSpec")


def test_a_kubernetes_kind_has_their_fields_within_our_limits() -> None:
    shape = kubernetes_kind(kubernetes.PriorityClass)
    assert shape.keeps_unknown
    assert set(shape.fields) == set(kubernetes_shape("PriorityClass").fields)
    assert shape.fields["preemptionPolicy"].shape == Leaf("enum", ("PreemptLowerPriority", "Never"))
    assert shape.fields["value"].limit.immutable
    runtime = kubernetes_kind(kubernetes.RuntimeClass)
    assert runtime.fields["handler"].limit.required
    scheduling_block = runtime.fields["scheduling"].shape
    assert isinstance(scheduling_block, Record)
    tolerations = scheduling_block.fields["tolerations"].shape
    assert isinstance(tolerations, ListOf)
    assert isinstance(tolerations.item.shape, Record)
    assert tolerations.item.shape.fields["operator"].shape == Leaf("enum", ("", "Equal", "Exists"))
    secret = kubernetes_kind(kubernetes.Secret)
    assert secret.fields["data"].shape == MapOf(Field(Leaf("bytes")))


def test_renaming_replaces_adds_and_removes() -> None:
    before = Record("R", {"a": Field(Leaf("string")), "b": Field(Leaf("int32"))}, keeps_unknown=True)
    after = renamed(before, {"a": None, "b": Field(Leaf("int64")), "c": Field(Leaf("any"))})
    assert after.fields == {"b": Field(Leaf("int64")), "c": Field(Leaf("any"))}
    assert (after.name, after.keeps_unknown) == ("R", True)
    assert set(before.fields) == {"a", "b"}


def leaves(shape: Shape, seen: set[int]) -> Iterator[Leaf]:
    match shape:
        case Leaf():
            yield shape
        case ListOf(item) | MapOf(item):
            yield from leaves(item.shape, seen)
        case Record(fields=fields) if id(shape) not in seen:
            seen.add(id(shape))
            for field in fields.values():
                yield from leaves(field.shape, seen)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.group}/{kind.name}")
def test_every_kind_has_a_shape_in_every_version_down_to_known_leaves(kind: Kind) -> None:
    for version in kind.versions:
        found = list(leaves(kind.shape(version), set()))
        assert {leaf.name for leaf in found} <= SCALARS | {"duration", "enum"}
        assert all((leaf.name == "enum") == bool(leaf.allowed) for leaf in found)
    shape_of(kind.type)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (queueing.ResourceFlavorSpec, "nodeLabels nodeTaints tolerations topologyName"),
        (
            queueing.ClusterQueueSpec,
            "resourceGroups cohortName queueingStrategy namespaceSelector flavorFungibility preemption "
            "admissionChecksStrategy stopPolicy fairSharing admissionScope concurrentAdmission",
        ),
        (queueing.ResourceGroup, "coveredResources flavors"),
        (queueing.FlavorQuotas, "name resources"),
        (queueing.ResourceQuota, "name nominalQuota borrowingLimit lendingLimit"),
        (queueing.FlavorFungibility, "whenCanBorrow whenCanPreempt preference"),
        (queueing.Preemption, "reclaimWithinCohort borrowWithinCohort withinClusterQueue withinClusterQueueConfig"),
        (queueing.BorrowWithinCohort, "policy maxPriorityThreshold"),
        (queueing.WithinClusterQueueConfig, "minAdmitDuration"),
        (queueing.ConcurrentAdmission, "onSuccess explicitOptions removeBelowTargetConfig"),
        (queueing.ExplicitOption, "name createDelaySeconds deleteDelaySeconds allowedResourceFlavors"),
        (queueing.CohortSpec, "parentName resourceGroups fairSharing"),
        (queueing.LocalQueueSpec, "clusterQueue stopPolicy fairSharing"),
        (queueing.AdmissionCheckSpec, "controllerName parameters"),
        (queueing.MultiKueueConfigSpec, "clusters quotaManagement"),
        (queueing.ClusterSource, "kubeConfig clusterProfileRef"),
        (
            workload.WorkloadSpec,
            "podSets queueName priorityClassRef priority active maximumExecutionTimeSeconds preemptionGates "
            "workloadMode",
        ),
        (workload.PodSet, "name template count minCount topologyRequest allowedResourceFlavors"),
        (
            workload.WorkloadStatus,
            "conditions admission requeueState reclaimablePods admissionChecks resourceRequests "
            "accumulatedPastExecutionTimeSeconds schedulingStats nominatedClusterNames clusterName unhealthyNodes "
            "preemptionGates preemptionGateOpened preemptionClaim options admittedSince",
        ),
        (
            workload.AdmissionCheckState,
            "name state lastTransitionTime message requeueAfterSeconds retryCount podSetUpdates",
        ),
        (
            workload.PreemptionClaim,
            "podSetAssignments victims victimCount issuedAt expiresAt after",
        ),
        (scheduling.GangWorkloadSpec, "controllerRef podGroups priorityClassName preemptionPriorityClassName"),
        (scheduling.GangPolicy, "minCount preemptionMode"),
        (
            configuration.MakewaySettings,
            "claimTimeout wakeBatchInterval statusWriteInterval optionMinStay optionEvaluationTimeout "
            "optionUpgradePreempts journal events scoring overQuota strictFIFOLends entitledHold rotation "
            "roundsEndAfter images",
        ),
        (configuration.WaitForPodsReady, "timeout recoveryTimeout blockAdmission requeuingStrategy"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_blocks_have_the_fields_of_the_reference_and_no_others(kind: type[Wire], names: str) -> None:
    assert set(shape_of(kind).fields) == set(names.split())
