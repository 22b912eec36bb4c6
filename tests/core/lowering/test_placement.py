"""Nodes, pods, scheduling Workloads and budgets from the wire (api 12, S-15.1)."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.codec import read
from makeway.core.lowering.placement import NODE_NAME, cluster_of, pod_of
from makeway.core.model import Expression, Millis, Taint
from makeway.core.placement.model import AffinityTerm, Budget, Cluster, Member, Namespace, Pod, PodGang, Spread
from makeway.core.placement.resolution import known_classes
from makeway.core.policy import Gates

NOW = Millis(1_700_000_000_000)
API = {
    "Node": "v1", "Pod": "v1", "PriorityClass": "scheduling.k8s.io/v1", "PodDisruptionBudget": "policy/v1",
    "Workload": "scheduling.k8s.io/v1alpha1", "Namespace": "v1",
}  # fmt: skip


def parsed(kind: str, name: str, meta: dict[str, Any] | None = None, **parts: Any) -> Any:
    tree = {"apiVersion": API[kind], "kind": kind, "metadata": {"name": name, **(meta or {})}, **parts}
    found = read(tree, limits=False)
    assert found.value is not None, found.problems
    return found.value


def wire_pod(name: str = "p", meta: dict[str, Any] | None = None, status: Any = None, **spec: Any) -> Any:
    parts = {"status": status} if status else {}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "500.2m", "memory": "0"}}}]
    return parsed("Pod", name, meta, spec={"containers": containers, **spec}, **parts)


def lowered(*objects: Any) -> Cluster:
    return cluster_of(objects, NOW)


def the_pod(*objects: Any) -> Pod:
    (found,) = lowered(*objects).pods
    return found


def workload(**spec: Any) -> Any:
    status = {"status": spec.pop("status")} if "status" in spec else {}
    return parsed("Workload", "w", spec={"podGroups": [{"name": "g", "policy": {"basic": {}}}], **spec}, **status)


def test_a_node() -> None:
    (found,) = lowered(
        parsed(
            "Node",
            "n",
            {"labels": {"zone": "a"}},
            spec={"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
            status={"allocatable": {"cpu": "1500m", "memory": "1Gi", "pods": "110"}, "capacity": {"cpu": "9"}},
        )
    ).nodes
    assert found.allocatable == {"cpu": 1500, "memory": 2**30, "pods": 110}
    assert found.labels == {"zone": "a", NODE_NAME: "n"}
    assert found.taints == (Taint("k", "v", "PreferNoSchedule"),)
    assert not found.unschedulable


def test_nodes_that_take_no_pods() -> None:
    def ready(status: str) -> dict[str, Any]:
        return {"conditions": [{"type": "Ready", "status": status}]}

    nodes = lowered(
        parsed("Node", "cordoned", spec={"unschedulable": True}),
        parsed("Node", "lost", status=ready("Unknown")),
        parsed("Node", "leaving", {"deletionTimestamp": "2024-01-01T00:00:00Z"}, status=ready("True")),
        parsed("Node", "ready", status=ready("True")),
        parsed("Node", "silent"),
    ).nodes
    assert [each.name for each in nodes if each.unschedulable] == ["cordoned", "lost", "leaving"]


def test_what_a_pod_asks_for_is_rounded_up_and_nothing_is_not_asked_for() -> None:
    found = the_pod(wire_pod())
    assert (found.key, found.requests, found.node, found.start) == (("default", "p"), {"cpu": 501}, None, NOW)


def test_where_a_pod_may_stand() -> None:
    selector = {"matchLabels": {"app": "x"}}
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
    ]
    found = the_pod(
        wire_pod(
            nodeSelector={"pool": "a"},
            affinity={
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "h", "labelSelector": selector}]
                },
            },
            topologySpreadConstraints=[
                {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
            tolerations=[{"key": "k", "operator": "Exists"}],
        )
    )
    app = (Expression("app", "In", ("x",)),)
    assert found.affinity == ((Expression("zone", "In", ("a",)),), (Expression("metadata.name", "In", ("n",)),))
    assert found.anti_affinity == (AffinityTerm(app, "h"),)
    assert found.spread == (Spread(2, "z", app),)
    assert found.node_selector == {"pool": "a"}
    assert found.tolerations[0].tolerates(Taint("k", "v", "NoExecute"))


def test_ports_of_the_node() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "UDP"}]
    pod = wire_pod(containers=[{"name": "c", "ports": ports}])
    classes = known_classes([])
    assert pod_of(pod, classes, NOW).ports == {("UDP", 8081)}
    assert pod_of(pod, classes, NOW, shares_network=True).ports == {("TCP", 80), ("UDP", 8081)}


def test_a_group_is_referred_to_by_the_field_or_else_the_annotation() -> None:
    noted = {"annotations": {"makeway.dev/workload-ref": "w/g/r1"}}
    field = {"name": "v", "podGroup": "h"}
    assert the_pod(wire_pod(meta=noted)).member == Member("w", "g", "r1")
    assert the_pod(wire_pod(meta={"annotations": {"makeway.dev/workload-ref": "w/g"}})).member == Member("w", "g", "")
    assert the_pod(wire_pod(meta=noted, workloadRef=field)).member == Member("v", "h", "")
    assert the_pod(wire_pod()).member is None


def test_what_ranks_a_plain_pod() -> None:
    polite = parsed("PriorityClass", "polite", value=7, preemptionPolicy="Never")
    usual = parsed("PriorityClass", "usual", value=3, globalDefault=True)
    named = the_pod(polite, usual, wire_pod(priorityClassName="polite"))
    assert (named.priority, named.policy) == (7, "Never")
    unnamed = the_pod(polite, usual, wire_pod())
    assert (unnamed.priority, unnamed.policy) == (3, "PreemptLowerPriority")
    said = the_pod(polite, wire_pod(priorityClassName="polite", priority=9, preemptionPolicy="PreemptLowerPriority"))
    assert (said.priority, said.policy) == (9, "PreemptLowerPriority")
    assert (the_pod(wire_pod()).priority, the_pod(wire_pod()).policy) == (0, None)


def test_pods_that_have_ended_are_left_out_and_the_others_stand_in_order_of_arrival() -> None:
    def at(second: int) -> dict[str, Any]:
        return {"creationTimestamp": f"2024-01-01T00:00:{second:02}Z"}

    found = lowered(
        wire_pod("late", at(9)), wire_pod("done", at(1), {"phase": "Succeeded"}), wire_pod("early", at(2)),
        wire_pod("failed", at(1), {"phase": "Failed"}), wire_pod("early-too", at(2)),
    ).pods  # fmt: skip
    assert [each.key[1] for each in sorted(found, key=lambda each: each.arrived)] == ["early", "early-too", "late"]


def test_a_pod_that_was_preempted_and_one_that_was_promised_a_node() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving = {"deletionTimestamp": "2024-01-01T00:00:00Z"}
    started = "2023-11-14T22:00:00Z"
    going = the_pod(wire_pod(meta=leaving, status={"conditions": [target], "startTime": started}, nodeName="n"))
    assert (going.terminating, going.preempted_by_scheduler, going.node) == (True, True, "n")
    assert going.start < NOW
    otherwise = the_pod(wire_pod(meta=leaving))
    assert (otherwise.terminating, otherwise.preempted_by_scheduler) == (True, False)
    assert not the_pod(wire_pod(status={"conditions": [target]})).preempted_by_scheduler
    assert the_pod(wire_pod(status={"nominatedNodeName": "n"})).nominated == "n"


def test_groups_of_a_workload() -> None:
    groups = [
        {"name": "a", "policy": {"basic": {}}},
        {"name": "b", "policy": {"gang": {"minCount": 2}}},
        {"name": "c", "policy": {"gang": {"minCount": 3, "preemptionMode": "PodGroup"}}},
    ]
    (found,) = lowered(workload(podGroups=groups)).workloads
    assert found.groups == (
        PodGang(key=("default", "w", "a")),
        PodGang(key=("default", "w", "b"), min_count=2),
        PodGang(key=("default", "w", "c"), min_count=3, whole=True),
    )


def test_the_priorities_of_a_workload_are_those_of_its_status_or_else_of_its_classes() -> None:
    low = parsed("PriorityClass", "low", value=7, preemptionPolicy="Never")
    high = parsed("PriorityClass", "high", value=70)
    named = workload(priorityClassName="low", preemptionPriorityClassName="high")
    (found,) = lowered(low, high, named).workloads
    assert (found.priority, found.preemption_priority, found.policy) == (7, 70, "Never")
    said = workload(
        priorityClassName="low",
        status={"priority": 8, "preemptionPriority": 80, "preemptionPolicy": "PreemptLowerPriority"},
    )
    (found,) = lowered(low, high, said).workloads
    assert (found.priority, found.preemption_priority, found.policy) == (8, 80, "PreemptLowerPriority")
    (found,) = lowered(named).workloads
    assert (found.priority, found.preemption_priority) == (0, 0), "its classes are gone since it was let in"


def test_what_belongs_to_a_gate_that_is_off_is_not_in_the_cluster() -> None:
    groups = [{"name": "g", "policy": {"gang": {"minCount": 2, "preemptionMode": "PodGroup"}}}]
    found = workload(podGroups=groups, status={"priority": 8, "preemptionPriority": 80})
    member = wire_pod(workloadRef={"name": "w", "podGroup": "g"})
    without_units = cluster_of((found, member), NOW, Gates(workload_aware_preemption=False))
    (lone,) = without_units.workloads
    assert (lone.priority, lone.preemption_priority) == (8, 8)
    assert lone.groups == (PodGang(key=("default", "w", "g"), min_count=2, whole=False),)
    assert without_units.pods[0].member == Member("w", "g")
    without_gangs = cluster_of((found, member), NOW, Gates(generic_workload=False))
    assert (without_gangs.workloads, without_gangs.pods[0].member) == ((), None)


def test_a_budget() -> None:
    written = parsed(
        "PodDisruptionBudget", "b", spec={"selector": {"matchLabels": {"a": "b"}}},
        status={"disruptionsAllowed": 2, "disruptedPods": {"p": "2024-01-01T00:00:00Z"}},
    )  # fmt: skip
    (found,) = lowered(written).budgets
    selector = (Expression("a", "In", ("b",)),)
    disrupted = frozenset({"p"})
    assert found == Budget(namespace="default", name="b", selector=selector, allowed=2, disrupted=disrupted)
    (empty,) = lowered(parsed("PodDisruptionBudget", "b")).budgets
    assert (empty.selector, empty.allowed) == (None, 0)


def test_what_a_pod_would_rather_have() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": term}, {"weight": 9, "preference": {}},
    ]}  # fmt: skip
    found = the_pod(wire_pod(affinity={"nodeAffinity": wish}))
    assert found.preferred == ((7, (Expression("disk", "In", ("ssd",)),)),), (
        "a term without requirements matches no node"
    )


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_of_whom_a_term_speaks() -> None:
    """Label keys become part of the selector, with the pod's own values; keys that it lacks are left out."""
    asked = {
        "labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone", "namespaces": ["n"],
        "namespaceSelector": {"matchLabels": {"team": "x"}}, "matchLabelKeys": ["rev", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }  # fmt: skip
    nobody = {"topologyKey": "zone", "matchLabelKeys": ["rev"]}
    affinity = {"podAffinity": {REQUIRED: [asked]}, "podAntiAffinity": {REQUIRED: [nobody]}}
    found = the_pod(wire_pod(meta={"labels": {"rev": "1", "tenant": "t"}}, affinity=affinity))
    selector = (Expression("app", "In", ("a",)), Expression("rev", "In", ("1",)), Expression("tenant", "NotIn", ("t",)))
    teams = (Expression("team", "In", ("x",)),)
    assert found.pod_affinity == (AffinityTerm(selector, "zone", frozenset({"n"}), teams),)
    assert found.anti_affinity == (AffinityTerm(None, "zone"),)


def test_which_nodes_and_pods_a_spread_counts() -> None:
    even = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["rev"]}
    constraints = [{**even, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}, even]
    found = the_pod(wire_pod(meta={"labels": {"rev": "1"}}, topologySpreadConstraints=constraints))
    like = (Expression("rev", "In", ("1",)),)
    assert found.spread == (
        Spread(1, "zone", like, heeds_affinity=False, heeds_taints=True),
        Spread(1, "zone", like),
    )


def test_namespaces_and_their_labels() -> None:
    assert lowered(parsed("Namespace", "n", {"labels": {"team": "x"}})).namespaces == (Namespace("n", {"team": "x"}),)


def container(name: str = "c", requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"containers": [container(limits={"nvidia.com/gpu": "2"})]}, {"nvidia.com/gpu": 2}),
        ({"containers": [container(requests={"cpu": "1"}, limits={"cpu": "4"})]}, {"cpu": 1000}),
        (
            {"containers": [container(requests={"cpu": "1"})], "initContainers": [container("i", limits={"cpu": "3"})]},
            {"cpu": 3000},
        ),
        ({"containers": [container()], "resources": {"limits": {"cpu": "2"}}}, {"cpu": 2000}),
        ({"containers": [container(requests={"cpu": "1"})], "resources": {"limits": {"cpu": "2"}}}, {"cpu": 1000}),
        (
            {"containers": [container(limits={"cpu": "3"})], "resources": {"requests": {"cpu": "4"}}},
            {"cpu": 4000},
        ),
    ],
)  # fmt: skip
def test_a_limit_counts_where_there_is_no_request(spec: dict[str, Any], asked: dict[str, int]) -> None:
    assert the_pod(wire_pod(**spec)).requests == asked
