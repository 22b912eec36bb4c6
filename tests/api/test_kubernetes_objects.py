"""Kubernetes kinds as objects: unknown fields stay, views read what was written, ``amended`` changes only its keys."""

from __future__ import annotations

import inspect
import json
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from makeway.api.objects import kubernetes, pods
from makeway.api.objects.kubernetes import KINDS, Job, JobSpec, JobStatus, Pod, Secret, amended, view
from makeway.api.objects.meta import Condition, ObjectMeta, OfType, Wire
from makeway.api.quantity import MicroTime, Quantity, Time, decode_hook, encode_hook
from makeway.api.schema.kubernetes_types import FieldType, fields_of, type_names

SCALARS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,), "bytes": (bytes,), "int32": (int,), "int64": (int,), "intOrString": (int, str),
    "microTime": (MicroTime,), "quantity": (Quantity,), "string": (str,), "time": (Time,),
}  # fmt: skip
NAMED_OTHERWISE = {
    pods.PodTemplate: ("PodTemplateSpec",),
    pods.KeySelector: ("SecretKeySelector", "ConfigMapKeySelector"),
    pods.EnvSource: ("SecretEnvSource", "ConfigMapEnvSource"),
}
VIEWS = {  # in kubernetes.py, read with ``view``: they need not name every field
    kubernetes.NamespaceSpec, kubernetes.NamespaceStatus, kubernetes.NodeSpec, kubernetes.NodeStatus,
    kubernetes.NodeCondition, kubernetes.JobSpec, kubernetes.JobStatus, kubernetes.JobCondition,
    kubernetes.PodDisruptionBudgetSpec, kubernetes.PodDisruptionBudgetStatus,
}  # fmt: skip


def structs(module: Any) -> list[type[Wire]]:
    found = [value for _, value in inspect.getmembers(module, inspect.isclass)]
    return [cls for cls in found if issubclass(cls, Wire) and cls.__module__ == module.__name__]


def table_names(struct: type[Wire]) -> tuple[str, ...]:
    return NAMED_OTHERWISE.get(struct, (struct.__name__,))


def decoded(text: str | bytes, kind: type[Any]) -> Any:
    return msgspec.json.decode(text, type=kind, dec_hook=decode_hook)


def encoded(value: object) -> Any:
    return json.loads(msgspec.json.encode(value, enc_hook=encode_hook))


def raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def fits(hint: Any, field: FieldType) -> bool:
    """Whether a Python type holds what the table says that a field is."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated and inner[0] is Raw:
        return any(note == OfType(field.name) for note in inner[1:])
    if origin is Annotated:
        return fits(inner[0], field)
    if origin in (Union, UnionType):
        options = tuple(part for part in inner if part is not type(None))
        return fits(options[0], field) if len(options) == 1 else options == SCALARS.get(field.name)
    if origin is Literal:
        return field.name == "string"
    if origin in (tuple, dict):
        held = inner[0] if origin is tuple else inner[1]
        return field.item is not None and (field.kind == "list") == (origin is tuple) and fits(held, field.item)
    if field.kind == "object":
        return field.name in table_names(hint) or (hint is Condition and field.name.endswith("Condition"))
    return field.kind == "scalar" and (hint,) == SCALARS[field.name]


@pytest.mark.parametrize("struct", [*structs(pods), *structs(kubernetes)], ids=lambda struct: struct.__name__)
def test_a_struct_agrees_with_the_table_about_names_and_types(struct: type[Wire]) -> None:
    hints = get_type_hints(struct, include_extras=True)
    for name in table_names(struct):
        fields = fields_of(name)
        for own in msgspec.structs.fields(struct):
            if own.name == "observed_generation" and name.endswith("Condition"):
                continue  # of our Condition; some of Kubernetes' have none
            assert own.encode_name in fields, f"{name} has no {own.encode_name}"
            assert fits(hints[own.name], fields[own.encode_name]), f"{name}.{own.encode_name}"


@pytest.mark.parametrize(
    "struct", [cls for cls in structs(kubernetes) if cls not in VIEWS], ids=lambda struct: struct.__name__
)
def test_what_is_encoded_again_knows_every_field(struct: type[Wire]) -> None:
    assert {own.encode_name for own in msgspec.structs.fields(struct)} == set(fields_of(struct.__name__))


@pytest.mark.parametrize("struct", KINDS, ids=lambda struct: struct.__name__)
def test_an_empty_object_of_a_kind_says_what_it_is_and_little_else(struct: type[Wire]) -> None:
    told = encoded(struct())
    assert told["kind"] == struct.__name__
    assert told["apiVersion"]
    assert told["metadata"] == {}
    assert "status" not in told
    assert struct.__name__ in type_names()


JOB = """{
  "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team"},
  "spec": {
    "parallelism": 3, "suspend": true, "fromTomorrow": {"deep": [1, 2.50, null]},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
      "restartPolicy": "Never", "dnsPolicy": "None",
      "nodeSelector": {"zone": "z1"}, "overhead": {"cpu": "10m"},
      "workloadRef": {"name": "gang", "podGroup": "main"},
      "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1500m"}}}],
      "containers": [{
        "name": "main", "image": "busybox", "command": ["sleep"], "args": ["1"], "tty": true,
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}],
        "readinessProbe": {"httpGet": {"port": "web", "path": "/ok"}, "periodSeconds": 2},
        "resources": {"limits": {"memory": "2Gi", "example.com/gpu": 1}}}],
      "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64"]}]}]}},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
          {"topologyKey": "host", "labelSelector": {"matchLabels": {"a": "b"}}}]}},
      "tolerations": [{"key": "gpu", "operator": "Exists"}],
      "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}}}
}"""


def test_an_object_is_written_with_all_that_was_read_unknown_fields_included() -> None:
    assert encoded(decoded(JOB, Job)) == json.loads(JOB)


@pytest.mark.parametrize("status", ["", ', "status": {}', ', "status": {"active": 0, "new": null}'])
def test_a_status_stays_as_it_was_absent_empty_or_unknown(status: str) -> None:
    text = '{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}' + status + "}"
    assert encoded(decoded(text, Job)) == json.loads(text)


def test_a_view_of_a_job_reads_what_was_written_and_the_defaults_for_the_rest() -> None:
    job = decoded(JOB, Job)
    spec = view(job.spec, JobSpec)
    assert (spec.parallelism, spec.completions, spec.suspend, spec.completion_mode) == (3, None, True, "NonIndexed")
    status = view(job.status, JobStatus)
    assert (status.active, status.uncounted_terminated_pods.succeeded) == (0, ())


def test_a_view_of_a_pod_template_reads_requests_and_containers() -> None:
    template = view(view(decoded(JOB, Job).spec, JobSpec).template, pods.PodTemplate)
    assert template.metadata == ObjectMeta(labels={"a": "b"})
    assert template.spec.restart_policy == "Never"
    assert template.spec.overhead == {"cpu": Quantity.parse("10m")}
    assert template.spec.workload_ref == pods.WorkloadReference(name="gang", pod_group="main")
    (side,), (main,) = template.spec.init_containers, template.spec.containers
    assert (side.restart_policy, side.resources.requests) == ("Always", {"cpu": Quantity.parse("1.5")})
    assert main.resources.limits == {"memory": Quantity.parse("2Gi"), "example.com/gpu": Quantity.parse("1")}
    assert main.env[1].value_from == pods.EnvVarSource(secret_key_ref=pods.KeySelector(name="s", key="k"))
    assert main.ports == (pods.ContainerPort(container_port=80, host_port=8080, host_ip="127.0.0.1"),)
    assert main.readiness_probe == pods.Probe(
        http_get=pods.HTTPGetAction(port="web", path="/ok"), period_seconds=2, timeout_seconds=1
    )


def test_a_view_of_a_pod_template_reads_where_the_pod_may_run() -> None:
    spec = view(view(decoded(JOB, Job).spec, JobSpec).template, pods.PodTemplate).spec
    assert spec.node_selector == {"zone": "z1"}
    assert spec.tolerations[0].key == "gpu"
    assert spec.affinity.node_affinity.required == pods.NodeSelector(
        node_selector_terms=(
            pods.NodeSelectorTerm(
                match_expressions=(pods.NodeSelectorRequirement(key="arch", operator="In", values=("arm64",)),)
            ),
        )
    )
    assert [term.topology_key for term in spec.affinity.pod_anti_affinity.required] == ["host"]
    assert spec.affinity.pod_affinity.required == ()
    assert (spec.topology_spread_constraints[0].max_skew, spec.topology_spread_constraints[0].min_domains) == (2, 1)


def test_a_view_of_a_node_reads_amounts_taints_and_conditions() -> None:
    node = decoded(
        '{"spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]}, "status": {"allocatable":'
        ' {"cpu": "3500m", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime":'
        ' "2026-01-02T03:04:05Z"}], "nodeInfo": {"bootID": "x"}}}',
        kubernetes.Node,
    )
    spec, status = view(node.spec, kubernetes.NodeSpec), view(node.status, kubernetes.NodeStatus)
    assert (spec.unschedulable, spec.taints[0].effect) == (True, "NoExecute")
    assert status.allocatable == {"cpu": Quantity.parse("3.5"), "pods": Quantity.parse("110")}
    assert status.conditions[0].last_heartbeat_time == Time.parse("2026-01-02T03:04:05Z")


def test_a_view_of_a_budget_reads_numbers_and_percentages() -> None:
    spec = view(raw({"minAvailable": 2, "maxUnavailable": "50%"}), kubernetes.PodDisruptionBudgetSpec)
    assert (spec.min_available, spec.max_unavailable, spec.selector) == (2, "50%", None)
    status = view(
        raw({"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-02T03:04:05Z"}}),
        kubernetes.PodDisruptionBudgetStatus,
    )
    assert (status.disruptions_allowed, list(status.disrupted_pods)) == (1, ["p"])


def test_a_view_says_where_a_value_does_not_fit() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"containers\[0\]\.resources\.requests"):
        view(raw({"containers": [{"resources": {"requests": {"cpu": "much"}}}]}), pods.PodSpec)
    with pytest.raises(msgspec.ValidationError, match="priority"):
        view(raw({"priority": "high"}), pods.PodSpec)


@pytest.mark.parametrize("kind", [pods.PodSpec, pods.PodStatus, JobSpec, kubernetes.NodeStatus])
def test_a_view_of_nothing_has_only_defaults(kind: type[Wire]) -> None:
    assert view(Pod().spec, kind) == kind()


def test_the_values_of_a_secret_are_bytes_inside_and_base64_outside() -> None:
    text = '{"apiVersion": "v1", "kind": "Secret", "metadata": {}, "type": "Opaque", "data": {"k": "AP9oaQ=="}}'
    secret = decoded(text, Secret)
    assert secret.data == {"k": b"\x00\xffhi"}
    assert encoded(secret) == json.loads(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (kubernetes.PriorityClass, '{"value": 1000, "globalDefault": true, "preemptionPolicy": "Never"}'),
        (kubernetes.LimitRange, '{"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]}}'),
        (kubernetes.RuntimeClass, '{"handler": "kata", "overhead": {"podFixed": {"memory": "120Mi"}}}'),
        (kubernetes.Lease, '{"spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.123456Z"}}'),
        (kubernetes.ConfigMap, '{"data": {"a": ""}, "binaryData": {"b": "AA=="}, "immutable": false}'),
        (kubernetes.Event, '{"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started", "count": 2}'),
        (kubernetes.Eviction, '{"deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}}'),
        (kubernetes.Binding, '{"target": {"kind": "Node", "name": "n1"}}'),
        (
            kubernetes.SelfSubjectAccessReview,
            '{"spec": {"resourceAttributes": {"verb": "get", "labelSelector": {"rawSelector": "a=b"}}}}',
        ),
        (
            kubernetes.SelfSubjectRulesReview,
            '{"spec": {"namespace": "d"}, "status": {"resourceRules": [], "nonResourceRules": [{"verbs": ["get"],'
            ' "nonResourceURLs": ["/healthz"]}], "incomplete": false}}',
        ),
        (kubernetes.SelfSubjectReview, '{"status": {"userInfo": {"username": "me", "extra": {"a": ["b"]}}}}'),
    ],
)
def test_a_typed_kind_is_written_as_it_was_read(kind: type[Wire], text: str) -> None:
    told = encoded(decoded(text, kind))
    assert {key: told[key] for key in json.loads(text)} == json.loads(text)


# amended


def test_amending_merges_objects_replaces_lists_and_removes_what_is_none() -> None:
    before = Raw(b'{"keep": 1.0, "a": {"b": 1, "c": [1, 2], "d": {"e": true}}, "gone": {}}')
    after = amended(before, {"a": {"b": None, "c": [3], "d": {"f": "new"}}, "gone": None, "not": {"there": {"x": 1}}})
    assert bytes(after) == b'{"keep":1.0,"a":{"c":[3],"d":{"e":true,"f":"new"}},"not":{"there":{"x":1}}}'


def test_amending_replaces_a_whole_object_that_is_given_raw_or_as_a_struct() -> None:
    before = Raw(b'{"nodeSelector": {"old": "1"}, "workloadRef": {"name": "a", "podGroupReplicaKey": "0"}}')
    gang = pods.WorkloadReference(name="b", pod_group="main")
    after = amended(before, {"nodeSelector": Raw(b'{"new": "2"}'), "workloadRef": gang})
    assert json.loads(bytes(after)) == {"nodeSelector": {"new": "2"}, "workloadRef": {"name": "b", "podGroup": "main"}}


def test_amending_writes_amounts_and_times_as_text() -> None:
    at = Time.parse("2026-01-02T03:04:05Z")
    after = amended(Raw(b"{}"), {"capacity": {"cpu": Quantity.parse("1500m")}, "startTime": at})
    assert json.loads(bytes(after)) == {"capacity": {"cpu": "1500m"}, "startTime": "2026-01-02T03:04:05Z"}


@pytest.mark.parametrize("there", [b"null", b"[1]", b'"text"', b"3"])
def test_amending_makes_an_object_where_something_else_stood(there: bytes) -> None:
    assert bytes(amended(Raw(b'{"a":' + there + b"}"), {"a": {"b": 1}})) == b'{"a":{"b":1}}'


def test_amending_keeps_numbers_that_python_would_not_and_leaves_the_original_alone() -> None:
    text = b'{"big":123456789012345678901234567890.10,"exp":1E400,"x":1}'
    before = Raw(text)
    assert bytes(amended(before, {"x": 2})) == text.replace(b'"x":1', b'"x":2')
    assert bytes(before) == text


keys = st.sampled_from(["a", "b", "c", "d é"])
leaves = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=12
)
json_objects = st.dictionaries(keys, json_values, max_size=4)


def merged(before: Any, change: dict[str, Any]) -> dict[str, Any]:
    """The promise of ``amended`` in Python values."""
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value) if isinstance(value, dict) else value
    return result


@pytest.mark.property
@given(json_objects, json_objects)
def test_amending_changes_what_it_names_and_nothing_else(before: dict[str, Any], change: dict[str, Any]) -> None:
    after = amended(Raw(json.dumps(before, indent=1).encode()), change)
    assert json.loads(bytes(after)) == merged(before, change)


@pytest.mark.property
@given(json_objects, json_objects)
def test_amending_leaves_the_bytes_of_other_keys_as_they_were(before: dict[str, Any], change: dict[str, Any]) -> None:
    parts = msgspec.json.Decoder(dict[str, Raw])
    text = json.dumps(before, indent=1).encode()  # a spacing that no encoder of ours writes
    old, new = parts.decode(text), parts.decode(amended(Raw(text), change))
    untouched = [key for key in old if key not in change]
    assert [bytes(new[key]) for key in untouched] == [bytes(old[key]) for key in untouched]
    assert [key for key in new if key not in change] == untouched
