"""The table of Kubernetes types: it parses, has every type that it names, and no type that no kind needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from makeway.api.schema import kubernetes_types
from makeway.api.schema.kubernetes_types import SCALARS, FieldType, fields_of, type_names

KINDS = (
    "Namespace", "Node", "Pod", "Secret", "ConfigMap", "Event", "EventsV1Event", "LimitRange", "Binding", "Job",
    "PriorityClass", "PodDisruptionBudget", "Eviction", "RuntimeClass", "Lease", "SelfSubjectAccessReview",
    "SelfSubjectRulesReview", "SelfSubjectReview",
)  # fmt: skip
ELSEWHERE = "ObjectMeta"  # described by a struct of ours, not by the table


def within(field: FieldType) -> Iterator[FieldType]:
    """The type itself and those of its items, inwards."""
    yield field
    if field.item is not None:
        yield from within(field.item)


def all_fields() -> Iterator[tuple[str, FieldType]]:
    for owner in type_names():
        for name, field in fields_of(owner).items():
            yield f"{owner}.{name}", field


def at(path: str) -> FieldType:
    """Follow field names through lists, maps and objects: ``PodSpec.containers.env``."""
    owner, *names, last = path.split(".")
    for name in names:
        owner = fields_of(owner)[name].name
    return fields_of(owner)[last]


def test_every_line_says_fields_of_types_that_exist() -> None:
    for path, field in all_fields():
        for part in within(field):
            known = {"scalar": SCALARS, "object": {*type_names(), ELSEWHERE}}.get(part.kind)
            assert known is None or part.name in known, f"{path}: {part.name} is no {part.kind}"


def test_a_list_or_a_map_and_nothing_else_has_items() -> None:
    for path, field in all_fields():
        for part in within(field):
            assert (part.kind in ("list", "map")) == (part.item is not None), path


def test_no_type_and_no_field_is_told_twice() -> None:
    text = kubernetes_types._TABLE.replace("\n    ", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(type_names())
    for line in lines:
        names = [entry.partition("=")[0] for entry in line.split()[1:]]
        assert len(names) == len(set(names)), line


def test_no_type_is_there_that_no_kind_leads_to() -> None:
    seen: set[str] = set()
    waiting = list(KINDS)
    while waiting:
        owner = waiting.pop()
        if owner in seen or owner == ELSEWHERE:
            continue
        seen.add(owner)
        waiting += [part.name for field in fields_of(owner).values() for part in within(field) if part.kind == "object"]
    assert seen == set(type_names())


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_what_every_kind_has(kind: str) -> None:
    fields = fields_of(kind)
    assert str(fields["apiVersion"]) == str(fields["kind"]) == "string"
    assert str(fields["metadata"]) == ELSEWHERE


def test_a_merge_key_is_a_plain_field_of_the_items() -> None:
    keyed = [(path, field) for path, field in all_fields() if field.merge_key is not None]
    assert keyed
    for path, field in keyed:
        assert fields_of(field.name)[field.merge_key or ""].kind == "scalar", path


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("PodSpec.containers.resources.requests", "{quantity}"),
        ("PodSpec.resources.limits", "{quantity}"),
        ("PodSpec.overhead", "{quantity}"),
        ("PodSpec.volumes.emptyDir.sizeLimit", "quantity"),
        ("PodSpec.containers.env.valueFrom.resourceFieldRef.divisor", "quantity"),
        ("PodSpec.volumes.ephemeral.volumeClaimTemplate.spec.resources.requests", "{quantity}"),
        ("PodSpec.containers.livenessProbe.httpGet.port", "intOrString"),
        ("PodSpec.containers.livenessProbe.tcpSocket.port", "intOrString"),
        ("PodSpec.containers.livenessProbe.grpc.port", "int32"),
        ("PodSpec.containers.lifecycle.preStop.exec.command", "[string]"),
        ("PodSpec.nodeSelector", "{string}"),
        ("PodSpec.terminationGracePeriodSeconds", "int64"),
        ("PodSpec.workloadRef", "WorkloadReference"),
        ("PodStatus.startTime", "time"),
        ("NodeStatus.allocatable", "{quantity}"),
        ("NodeStatus.capacity", "{quantity}"),
        ("NodeStatus.nodeInfo.swap.capacity", "int64"),
        ("LimitRangeSpec.limits.defaultRequest", "{quantity}"),
        ("LimitRangeSpec.limits.maxLimitRequestRatio", "{quantity}"),
        ("RuntimeClass.overhead.podFixed", "{quantity}"),
        ("PodDisruptionBudgetSpec.minAvailable", "intOrString"),
        ("PodDisruptionBudgetSpec.maxUnavailable", "intOrString"),
        ("PodDisruptionBudgetStatus.disruptedPods", "{time}"),
        ("Secret.data", "{bytes}"),
        ("Secret.stringData", "{string}"),
        ("ConfigMap.binaryData", "{bytes}"),
        ("LeaseSpec.renewTime", "microTime"),
        ("Event.eventTime", "microTime"),
        ("Event.firstTimestamp", "time"),
        ("JobSpec.template.spec", "PodSpec"),
        ("JobSpec.activeDeadlineSeconds", "int64"),
        ("JobSpec.parallelism", "int32"),
        ("SelfSubjectReview.status.userInfo.extra", "{[string]}"),
    ],
)
def test_a_field_is_of_the_type_that_kubernetes_gives_it(path: str, written: str) -> None:
    assert str(at(path)) == written


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("PodSpec.containers", "name"),
        ("PodSpec.initContainers", "name"),
        ("PodSpec.volumes", "name"),
        ("PodSpec.containers.env", "name"),
        ("PodSpec.containers.ports", "containerPort"),
        ("PodSpec.containers.volumeMounts", "mountPath"),
        ("PodSpec.hostAliases", "ip"),
        ("PodSpec.topologySpreadConstraints", "topologyKey"),
        ("PodStatus.conditions", "type"),
        ("NodeStatus.addresses", "type"),
        ("PodSpec.tolerations", None),
        ("PodSpec.containers.envFrom", None),
        ("PodSpec.containers.args", None),
        ("PodStatus.containerStatuses", None),
        ("NodeSpec.taints", None),
        ("LabelSelector.matchExpressions", None),
    ],
)
def test_a_list_is_merged_by_its_key_or_replaced(path: str, key: str | None) -> None:
    assert at(path).merge_key == key


def test_required_is_what_kubernetes_requires() -> None:
    def required(owner: str) -> set[str]:
        return {name for name, field in fields_of(owner).items() if field.required}

    assert required("PodSpec") == {"containers"}
    assert required("Container") == {"name"}
    assert required("JobSpec") == {"template"}
    assert required("WorkloadReference") == {"name", "podGroup"}
    assert required("TopologySpreadConstraint") == {"maxSkew", "topologyKey", "whenUnsatisfiable"}


def test_a_field_type_carries_its_items_its_key_and_whether_it_is_required() -> None:
    container = FieldType("object", "Container")  # as an item; what its absence would mean is not asked
    assert fields_of("PodSpec")["containers"] == FieldType("list", "Container", container, True, "name")
    assert fields_of("PodSpec")["hostNetwork"] == FieldType("scalar", "boolean")
    assert fields_of("UserInfo")["extra"] == FieldType(
        "map", "string", FieldType("list", "string", FieldType("scalar", "string"))
    )


@pytest.mark.parametrize(("table", "kind"), [("_POINTERS", "scalar"), ("_VALUES", "object")])
def test_what_absence_means_is_told_of_fields_that_exist(table: str, kind: str) -> None:
    lines = kubernetes_types.lines_of(getattr(kubernetes_types, table))
    told = [(owner, name) for owner, text in lines.items() for name in text.split()]
    assert len(told) == len(set(told)) > 10
    assert [(owner, name) for owner, name in told if fields_of(owner)[name].kind != kind] == []


def test_a_zero_is_as_good_as_nothing_where_go_has_no_pointer() -> None:
    pod, container = fields_of("PodSpec"), fields_of("Container")
    absent = [pod["hostNetwork"], pod["nodeName"], pod["nodeSelector"], pod["containers"], container["resources"]]
    assert all(each.zero_is_absent for each in absent)
    told = [pod["priority"], pod["hostUsers"], pod["securityContext"], fields_of("Volume")["emptyDir"]]
    told.append(fields_of("WorkloadPodGroupSchedulingPolicy")["basic"])
    assert not any(each.zero_is_absent for each in told)


@pytest.mark.parametrize("name", ["", "Deployment", ELSEWHERE])
def test_asking_for_a_type_outside_the_table_is_an_error(name: str) -> None:
    with pytest.raises(KeyError):
        fields_of(name)


def test_the_import_parses_nothing() -> None:
    code = (
        f"import sys; sys.path[:0] = {[entry for entry in sys.path if entry]!r}\n"
        "from makeway.api.schema import kubernetes_types as types\n"
        "print(types.lines_of.cache_info().misses, types._parsed.cache_info().misses)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["0", "0"]
