"""There is a warning for every wish of a pod that our pod scheduler does not fulfil, and none for others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from makeway.api import codec
from makeway.api.objects.kubernetes import view
from makeway.api.objects.pods import PodSpec
from makeway.api.validation.placement import PREFERRED, advise_pods, in_one_line, not_heeded

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
SOFT = [{"weight": 1, "podAffinityTerm": TERM}]
NEAR = {"podAffinity": {PREFERRED: SOFT}}


def spread(**more: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, **more}


def spec_of(**spec: Any) -> PodSpec:
    return view(msgspec.Raw(msgspec.json.encode(spec)), PodSpec)


def paths(**spec: Any) -> list[str]:
    return [each.path for each in not_heeded(spec_of(**spec))]


def ports(*found: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "c"}, {"name": "d", "ports": [{"containerPort": 1}, *found]}]


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ({"affinity": NEAR}, f"affinity.podAffinity.{PREFERRED}", "does not make it a better or worse one"),
        (
            {"affinity": {"podAntiAffinity": {PREFERRED: SOFT}}},
            f"affinity.podAntiAffinity.{PREFERRED}",
            "does not make it a better or worse one",
        ),
        (
            {"topologySpreadConstraints": [spread(), spread(whenUnsatisfiable="ScheduleAnyway")]},
            "topologySpreadConstraints[1].whenUnsatisfiable",
            "does not spread the pods",
        ),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]}, "resourceClaims", "no device is allocated"),
        (
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "b"}}]},
            "volumes[1].persistentVolumeClaim",
            "no volume is bound",
        ),
        ({"volumes": [{"name": "a", "ephemeral": {}}]}, "volumes[0].ephemeral", "no volume is bound"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "schedulingGroup", "placed by itself"),
        ({"runtimeClassName": "kata"}, "runtimeClassName", "of RuntimeClass kata are not added"),
        (
            {"containers": ports({"containerPort": 2, "hostPort": 2, "hostIP": "10.0.0.1"})},
            "containers[1].ports[1].hostIP",
            "port 2 is taken on all addresses",
        ),
        (
            {"initContainers": ports({"containerPort": 2, "hostPort": 2, "hostIP": "10.0.0.1"})},
            "initContainers[1].ports[1].hostIP",
            "port 2 is taken on all addresses",
        ),
        ({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]}, "tolerations[0].operator", "read as Equal"),
    ],
)
def test_what_is_not_heeded_is_told(spec: dict[str, Any], path: str, words: str) -> None:
    (found,) = not_heeded(spec_of(**spec))
    assert (found.path, found.severity) == (path, "warning")
    assert words in found.message
    assert paths(schedulerName="volcano", **spec) == [], "the other one may heed it"


def test_what_is_heeded_is_not_told() -> None:
    assert paths() == []
    node_terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    preferred = [{"weight": 1, "preference": node_terms["nodeSelectorTerms"][0]}]
    found = paths(
        affinity={
            "nodeAffinity": {REQUIRED: node_terms, PREFERRED: preferred},
            "podAffinity": {REQUIRED: [{**TERM, "namespaceSelector": {}, "matchLabelKeys": ["x"]}]},
            "podAntiAffinity": {REQUIRED: [{**TERM, "namespaces": ["y"], "mismatchLabelKeys": ["x"]}]},
        },
        topologySpreadConstraints=[spread(minDomains=3, matchLabelKeys=["x"], nodeTaintsPolicy="Honor")],
        nodeSelector={"a": "b"},
        tolerations=[{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "PreferNoSchedule"}],
        containers=ports({"containerPort": 2, "hostPort": 2}, {"containerPort": 3, "hostIP": "10.0.0.1"}),
        resources={"requests": {"cpu": "1"}},
        overhead={"cpu": "1"},
        runtimeClassName="kata",  # with what its class adds
        volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "b"}}, {"name": "c", "nfs": {}}],
        workloadRef={"name": "w", "podGroup": "g"},
        priorityClassName="high",
        preemptionPolicy="Never",
    )
    assert found == []


def advice(kind: str, api_version: str, **spec: Any) -> list[tuple[str, str]]:
    tree = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "default"}, "spec": spec}
    reading = codec.read(tree)
    assert reading.ok, reading.problems
    return [(each.path, each.message.partition(":")[0]) for each in advise_pods(reading.value)]


def test_pods_that_wait_and_templates_of_jobs_and_workloads_are_looked_at() -> None:
    inner = {"containers": [{"name": "c", "image": "i"}], "affinity": NEAR}
    told = (f"affinity.podAffinity.{PREFERRED}", "not heeded")
    assert advice("Pod", "v1", **inner) == [(f"spec.{told[0]}", told[1])]
    assert advice("Pod", "v1", nodeName="n", **inner) == [], "its place is found"
    template = {"spec": {**inner, "restartPolicy": "Never"}}
    assert advice("Job", "batch/v1", template=template) == [(f"spec.template.spec.{told[0]}", told[1])]
    sets = [{"name": "a", "count": 1, "template": {"spec": {"containers": inner["containers"]}}}]
    sets.append({"name": "b", "count": 1, "template": template})
    found = advice("Workload", "kueue.x-k8s.io/v1beta2", podSets=sets, queueName="q")
    assert found == [(f"spec.podSets[1].template.spec.{told[0]}", told[1])]
    assert list(advise_pods(None)) == []


def test_an_event_is_one_line_of_bounded_length() -> None:
    many = [spread(topologyKey=f"k{n}", whenUnsatisfiable="ScheduleAnyway") for n in range(50)]
    found = in_one_line(spec_of(topologySpreadConstraints=many))
    assert len(found) == 1000
    assert found.endswith("…")
    assert in_one_line(spec_of()) == ""
