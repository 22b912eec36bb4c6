"""The generated definitions: structural by the rules of Kubernetes, true to the shapes, the same on every run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from makeway.api.objects.scheduling import GROUPS_STAY
from makeway.api.reading.documents import Tree
from makeway.api.schema.crds import QUANTITY, QUANTITY_FROM_ZERO, crds, openapi
from makeway.api.versions import KINDS, Kind, find_kind
from makeway.testing.strategies import objects_of

Schema = dict[str, Any]
CRDS = {crd["metadata"]["name"]: crd for crd in crds()}
DEFINED = [kind for kind in KINDS if f"{kind.plural}.{kind.group}" in CRDS]
SCHEMAS = [(kind, version) for kind in DEFINED for version in kind.versions]
QUEUEING_PLURALS = (
    "admissionchecks", "clusterqueues", "cohorts", "localqueues", "multikueueclusters", "multikueueconfigs",
    "resourceflavors", "workloadpriorityclasses", "workloads",
)  # fmt: skip
for_all_kinds = settings(max_examples=settings().max_examples * 5)


def named(case: object) -> str:
    return f"{case.group}/{case.name}" if isinstance(case, Kind) else str(case)


def version_of(crd: str, version: str) -> Schema:
    (found,) = (each for each in CRDS[crd]["spec"]["versions"] if each["name"] == version)
    return dict(found)


def at(kind: str, path: str, version: str = "v1beta2", group: str = "kueue.x-k8s.io") -> Schema:
    """The node at a path; ``[]`` goes into the items of a list."""
    found = find_kind(f"{group}/{version}", kind)
    assert found is not None
    node = openapi(found, version)
    for step in path.replace("[]", ".[]").split("."):
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


# --- a checker of the structural rules ------------------------------------------------------------------------------


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def structural_faults(schema: Schema) -> list[str]:
    return [f"{path}: {fault}" for path, node in nodes(schema) for fault in node_faults(path, node)]


def node_faults(path: str, node: Schema) -> Iterator[str]:
    kind = node.get("type")
    if kind is None and not (
        node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
    ):
        yield "has no type"
    if node.get("x-kubernetes-int-or-string") and node.get("anyOf") != [{"type": "integer"}, {"type": "string"}]:
        yield "is an int-or-string without saying so"
    if "properties" in node and "additionalProperties" in node:
        yield "has properties and additionalProperties"
    if not set(node.get("required", ())) <= set(node.get("properties", {})):
        yield "requires what it does not have"
    if {"allOf", "oneOf", "not", "$ref", "definitions", "uniqueItems"} & set(node):
        yield "uses what is forbidden"
    if "default" in node:
        if path in ("", ".apiVersion", ".kind") or path.startswith(".metadata"):
            yield "has a default in a forbidden place"
        yield from value_faults(node, node["default"], "default")
    if kind == "array":
        yield from list_faults(node)


def list_faults(node: Schema) -> Iterator[str]:
    items = node["items"]
    if "default" in items:
        yield "has a default for an item"
    list_type = node.get("x-kubernetes-list-type")
    if list_type == "set" and items.get("type") in ("object", "array"):
        yield "is a set of what cannot be compared"
    keys = node.get("x-kubernetes-list-map-keys", [])
    if (list_type == "map") != bool(keys):
        yield "is a map without keys, or has keys without being one"
    for key in keys:
        field = items.get("properties", {}).get(key)
        if field is None or field.get("type") not in ("string", "integer", "boolean"):
            yield f"has no scalar key {key}"
        elif key not in items.get("required", ()) and "default" not in field:
            yield f"has a key {key} that may be missing"


# --- a walker that judges a value as a server would ----------------------------------------------------------------

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float),
}  # fmt: skip


def value_faults(schema: Schema, value: Tree, path: str = "") -> Iterator[str]:
    kinds = [schema["type"]] if "type" in schema else [each["type"] for each in schema.get("anyOf", ())]
    if kinds and not any(
        isinstance(value, TYPES[kind]) and isinstance(value, bool) == (kind == "boolean") for kind in kinds
    ):
        yield f"{path}: {value!r} is not of type {' or '.join(kinds)}"
    elif isinstance(value, dict):
        yield from object_faults(schema, value, path)
    elif isinstance(value, list):
        yield from bound_faults(schema, len(value), "minItems", "maxItems", path)
        for i, each in enumerate(value):
            yield from value_faults(schema["items"], each, f"{path}[{i}]")
        yield from repetition_faults(schema, value, path)
    elif isinstance(value, str):
        yield from bound_faults(schema, len(value), "minLength", "maxLength", path)
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{path}: {value!r} does not match {schema['pattern']}"
        if "enum" in schema and value not in schema["enum"]:
            yield f"{path}: {value!r} is none of {schema['enum']}"
    elif not isinstance(value, bool):
        yield from bound_faults(schema, value, "minimum", "maximum", path)


def object_faults(schema: Schema, value: dict[str, Tree], path: str) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from bound_faults(schema, len(value), "minProperties", "maxProperties", path)
    yield from (f"{path}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, each in value.items():
        inner = known.get(name, schema.get("additionalProperties"))
        if inner is not None:
            yield from value_faults(inner, each, f"{path}.{name}")
        elif path != ".metadata" and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}: {name} would be pruned"


def bound_faults(schema: Schema, size: float, least: str, most: str, path: str) -> Iterator[str]:
    if least in schema and size < schema[least]:
        yield f"{path}: {size} is below {least} {schema[least]}"
    if most in schema and size > schema[most]:
        yield f"{path}: {size} is above {most} {schema[most]}"


def repetition_faults(schema: Schema, value: list[Tree], path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-list-type") == "set" and len(set(value)) < len(value):
        yield f"{path}: an item is repeated"
    if keys := schema.get("x-kubernetes-list-map-keys"):
        fields = schema["items"]["properties"]
        found = [tuple(item.get(key, fields[key].get("default")) for key in keys) for item in value]
        if len(set(found)) < len(found):
            yield f"{path}: a key is repeated"


# --- the definitions ------------------------------------------------------------------------------------------------


def test_our_kinds_are_defined_and_no_others() -> None:
    queueing = {f"{plural}.kueue.x-k8s.io" for plural in QUEUEING_PLURALS}
    assert set(CRDS) == {*queueing, "workloads.scheduling.makeway.dev"}


@pytest.mark.parametrize(("kind", "version"), SCHEMAS, ids=named)
def test_schemas_are_structural(kind: Kind, version: str) -> None:
    assert structural_faults(openapi(kind, version)) == []


@pytest.mark.slow
@pytest.mark.property
@for_all_kinds
@given(case=objects_of(SCHEMAS))
def test_what_we_accept_a_server_accepts_and_keeps_whole(case: tuple[Kind, str, dict[str, Tree]]) -> None:
    kind, version, tree = case
    assert list(value_faults(openapi(kind, version), tree)) == []


def test_every_version_is_served_and_the_first_is_stored() -> None:
    versions = CRDS["workloads.kueue.x-k8s.io"]["spec"]["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1beta2", True, True),
        ("v1beta1", True, False),
    ]


def test_two_versions_are_converted_by_the_webhook_and_one_is_not() -> None:
    conversion = CRDS["cohorts.kueue.x-k8s.io"]["spec"]["conversion"]
    service = {"namespace": "makeway-system", "name": "makeway-webhooks", "path": "/convert"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    assert conversion == {"strategy": "Webhook", "webhook": webhook}
    assert "conversion" not in CRDS["workloads.scheduling.makeway.dev"]["spec"]


def test_names_and_scope_are_those_of_the_kind() -> None:
    spec = CRDS["localqueues.kueue.x-k8s.io"]["spec"]
    assert spec["names"] == {
        "kind": "LocalQueue",
        "listKind": "LocalQueueList",
        "plural": "localqueues",
        "singular": "localqueue",
        "shortNames": ["queue", "queues", "lq"],
    }
    assert spec["scope"] == "Namespaced"
    assert CRDS["clusterqueues.kueue.x-k8s.io"]["spec"]["scope"] == "Cluster"


def test_kinds_without_a_status_have_no_subresource() -> None:
    without = {name for name, crd in CRDS.items() if "subresources" not in crd["spec"]["versions"][0]}
    assert without == {
        f"{n}.kueue.x-k8s.io" for n in ("resourceflavors", "workloadpriorityclasses", "multikueueconfigs")
    }


def test_columns_say_what_is_wide_and_use_the_spelling_of_their_version() -> None:
    columns = version_of("clusterqueues.kueue.x-k8s.io", "v1beta2")["additionalPrinterColumns"]
    assert [(each["name"], each["jsonPath"], each.get("priority", 0)) for each in columns] == [
        ("Cohort", ".spec.cohortName", 0),
        ("Strategy", ".spec.queueingStrategy", 1),
        ("Pending Workloads", ".status.pendingWorkloads", 0),
        ("Admitted Workloads", ".status.admittedWorkloads", 1),
    ]
    older = version_of("clusterqueues.kueue.x-k8s.io", "v1beta1")["additionalPrinterColumns"]
    assert older[0]["jsonPath"] == ".spec.cohort"


def test_workloads_can_be_selected_by_where_they_are_reserved() -> None:
    version = version_of("workloads.kueue.x-k8s.io", "v1beta2")
    assert version["selectableFields"] == [{"jsonPath": ".status.admission.clusterQueue"}]
    assert "selectableFields" not in version_of("workloads.kueue.x-k8s.io", "v1beta1")


def test_every_kind_says_what_it_is() -> None:
    for kind, version in SCHEMAS:
        assert 10 < len(openapi(kind, version)["description"]) < 120, kind.name


def test_quantities_are_numbers_or_texts() -> None:
    quota = at("ClusterQueue", "spec.resourceGroups[].flavors[].resources[].nominalQuota")
    assert quota["x-kubernetes-int-or-string"] is True
    assert quota["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert quota["minimum"] == 0
    assert "default" not in quota, "it is required"


@pytest.mark.parametrize("text", ["0", "1.5", ".5", "1.", "500m", "32Gi", "1e3", "1E-3", "+1", "2E", "100n"])
def test_the_pattern_of_quantities_takes(text: str) -> None:
    assert re.search(QUANTITY, text)
    assert re.search(QUANTITY, f"-{text.lstrip('+')}")
    assert re.search(QUANTITY_FROM_ZERO, text)
    assert not re.search(QUANTITY_FROM_ZERO, f"-{text.lstrip('+')}")


@pytest.mark.parametrize("text", ["", "m", "1Kib", "1 Gi", "one", "1e", "--1", "1,5"])
def test_the_pattern_of_quantities_leaves_out(text: str) -> None:
    assert not re.search(QUANTITY, text)


def test_an_optional_name_may_be_empty_and_a_required_one_not() -> None:
    cohort = at("ClusterQueue", "spec.cohortName")
    assert cohort["maxLength"] == 253
    assert re.search(cohort["pattern"], "")
    assert re.search(cohort["pattern"], "team-a.example")
    assert not re.search(cohort["pattern"], "Team")
    assert not re.search(at("ClusterQueue", "spec.resourceGroups[].flavors[].name")["pattern"], "")


def test_lists_that_are_maps_and_sets_say_so() -> None:
    pod_sets = at("Workload", "spec.podSets")
    assert (pod_sets["minItems"], pod_sets["maxItems"]) == (1, 18)
    assert pod_sets["x-kubernetes-list-map-keys"] == ["name"]
    assert pod_sets["items"]["properties"]["name"]["default"] == "main"
    evictions = at("Workload", "status.schedulingStats.evictions")
    assert evictions["x-kubernetes-list-map-keys"] == ["reason", "underlyingCause"]
    assert at("MultiKueueConfig", "spec.clusters")["x-kubernetes-list-type"] == "set"
    assert at("ResourceFlavor", "spec.tolerations")["x-kubernetes-list-type"] == "atomic"


def test_pod_templates_are_open() -> None:
    template = at("Workload", "spec.podSets[].template")
    words = {"description": "What the pods are like."}
    assert template == words | {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_defaults_are_those_of_the_minimal_cluster_queue() -> None:
    assert at("ClusterQueue", "spec.queueingStrategy")["default"] == "BestEffortFIFO"
    assert at("ClusterQueue", "spec.preemption")["default"] == {
        "reclaimWithinCohort": "Never",
        "borrowWithinCohort": {"policy": "Never"},
        "withinClusterQueue": "Never",
    }
    fungibility = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    assert at("ClusterQueue", "spec")["default"]["flavorFungibility"] == fungibility


def test_a_block_with_something_required_in_it_has_no_default() -> None:
    assert "default" not in at("Workload", "spec")
    assert "default" not in at("AdmissionCheck", "spec")


def test_bounds_of_numbers_are_those_of_their_width_or_tighter() -> None:
    count = at("Workload", "spec.podSets[].count")
    bounds = {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1, "default": 1}
    assert count == {"description": "How many pods.", **bounds}
    assert at("ClusterQueue", "status.fairSharing.weightedShare")["format"] == "int64"


def test_what_cannot_be_changed_says_so() -> None:
    rule = [{"rule": "self == oldSelf", "message": "cannot be changed"}]
    assert at("LocalQueue", "spec.clusterQueue")["x-kubernetes-validations"] == rule
    groups = at("Workload", "spec.podGroups", "v1alpha1", "scheduling.makeway.dev")
    assert groups["x-kubernetes-validations"] == [{"rule": GROUPS_STAY[0], "message": GROUPS_STAY[1]}]
    assert "minCount" not in GROUPS_STAY[0]


def test_the_older_version_has_its_older_spellings() -> None:
    spec = at("ClusterQueue", "spec", "v1beta1")["properties"]
    assert "cohort" in spec
    assert "cohortName" not in spec
    assert spec["admissionChecks"]["type"] == "array"
    assert "Borrow" in spec["flavorFungibility"]["properties"]["whenCanBorrow"]["enum"]


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_every_kind_has_a_schema_for_the_server_to_show(kind: Kind) -> None:
    for version in kind.versions:
        schema = openapi(kind, version)
        assert schema["type"] == "object"
        assert list(schema["properties"])[:3] == ["apiVersion", "kind", "metadata"]


def test_no_definition_is_too_large_for_kubectl_apply() -> None:
    assert max(len(json.dumps(crd)) for crd in CRDS.values()) < 128 * 1024


def test_the_text_is_the_same_on_every_run() -> None:
    program = "import json; from makeway.api.schema.crds import crds; print(json.dumps(crds()))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert texts == {json.dumps(list(CRDS.values())).encode() + b"\n"}


# --- the checkers themselves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "required": ["a"]},
        {"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}},
        {"type": "object", "properties": {"a": {"type": "string", "default": 1}}},
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"},
        {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ],
)
def test_schemas_that_are_not_structural_are_found(schema: Schema) -> None:
    assert structural_faults(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, True),
        ({"type": "integer", "minimum": 1}, 0),
        ({"type": "string", "pattern": "^a$"}, "b"),
        ({"type": "string", "enum": ["a"]}, "b"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"]),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, ["a", "a"]),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}, {}),
        ({"type": "object"}, {"a": 1}),
    ],
)
def test_values_that_a_schema_refuses_are_found(schema: Schema, value: Tree) -> None:
    assert list(value_faults(schema, value))
