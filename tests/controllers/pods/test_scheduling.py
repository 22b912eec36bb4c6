"""Pods find a node by their requests, their tolerations and the free room; a pod that finds none is told why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from makeway.core.policy import Policy
from tests.controllers.pod_world import PODS, PodWorld, Tree, node

ON = "spec.nodeName"


def pod(name: str, cpu: str = "1", **spec: Any) -> Tree:
    resources = {"requests": {"cpu": cpu}}
    container = {"name": "work", "image": "x", "command": ["x"], "resources": resources, **spec.pop("container", {})}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }  # fmt: skip


def node_of(play: PodWorld, name: str) -> str:
    found: str = play.store.get(PODS, "default", name).tree()["spec"].get("nodeName", "")
    return found


def why(play: PodWorld, name: str) -> str:
    conditions = play.store.get(PODS, "default", name).tree()["status"].get("conditions", ())
    return next((str(each["message"]) for each in conditions if each["type"] == "PodScheduled"), "")


def test_pods_spread_over_nodes_and_wait_when_these_are_full() -> None:
    play = PodWorld(node("a", "3"), node("b", "2"))
    for n in range(6):
        play.create(pod(f"p{n}"))
        play.settle()
    assert [node_of(play, f"p{n}") for n in range(6)] == ["a", "b", "a", "a", "b", ""]
    assert why(play, "p5") == (
        "0/2 nodes are available: 2 Insufficient cpu. Preemption does not help: nobody runs with a priority below 0; "
        "on a too important to leave: default/p0 (priority 0), default/p2 (priority 0) and default/p3 (priority 0)."
    )
    play.store.delete(PODS, "default", "p1", grace=0)
    play.settle()
    assert node_of(play, "p5") == "b"


def test_a_pod_that_has_ended_makes_room() -> None:
    play = PodWorld(node("a", "1"))
    first = pod("p")
    first["metadata"]["annotations"] = {"test/runs": "10"}
    play.create(first, pod("q"))
    play.run(5)
    assert node_of(play, "q") == ""
    play.run(6)
    assert node_of(play, "q") == "a"


def test_what_was_bound_before_we_began_counts() -> None:
    play = PodWorld(node("a", "2"))
    play.create(pod("p", "2", nodeName="a"), pod("q"))
    play.settle()
    assert node_of(play, "q") == ""
    play.engine = play.new_engine()
    play.settle()
    assert node_of(play, "q") == ""


SPOT = {"key": "spot", "value": "true", "effect": "NoSchedule"}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "tier", "operator": "In", "values": ["spot"]}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("spec", "chosen", "told"),
    [
        ({}, "plain", ""),
        ({"nodeSelector": {"tier": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}, "spot", ""),
        ({"affinity": AFFINITY, "tolerations": [{"operator": "Exists"}]}, "spot", ""),
        (
            {"nodeSelector": {"tier": "spot"}}, "",
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint {spot: true}.",
        ),
        (
            {"nodeSelector": {"tier": "gold"}}, "",
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        ),
        (
            {"container": {"resources": {"requests": {"nvidia.com/gpu": "1"}}}}, "",
            "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {spot: true}.",
        ),
        ({"schedulingGates": [{"name": "wait"}]}, "", ""),
    ],
)  # fmt: skip
def test_where_a_pod_may_go(spec: Tree, chosen: str, told: str) -> None:
    play = PodWorld(node("plain"), node("spot", labels={"tier": "spot"}, taints=[SPOT]))
    play.create(pod("p", **spec))
    play.settle()
    assert (node_of(play, "p"), why(play, "p")) == (chosen, told)


def test_a_port_is_taken_by_one_pod_at_a_time() -> None:
    play = PodWorld(node("a"))
    web = {"ports": [{"containerPort": 8080}]}
    play.create(pod("p", container=web), pod("q", container=web))
    play.settle()
    assert [node_of(play, "p"), node_of(play, "q")] == ["a", ""]
    assert why(play, "q") == (
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. "
        "Preemption does not help: nobody runs with a priority below 0; "
        "on a too important to leave: default/p (priority 0)."
    )


def test_a_node_that_comes_is_used() -> None:
    play = PodWorld(node("a", "1"), node("b", "8", unschedulable=True))
    play.create(pod("p", "4"))
    play.settle()
    assert node_of(play, "p") == ""
    play.create(node("c", "8"))
    play.settle()
    assert node_of(play, "p") == "c"


def test_a_look_costs_what_it_touches_not_what_waits() -> None:
    play = PodWorld(node("a", "1"))
    for n in range(300):
        play.create(pod(f"p{n:03}"))
    play.settle()
    version = int(play.store.resource_version)
    play.store.delete(PODS, "default", "p000", grace=0)
    play.settle()
    assert int(play.store.resource_version) - version == 3  # it goes, another is bound and runs


@pytest.mark.parametrize(("scoring", "taken"), [("Spread", {"a", "b"}), ("Pack", {"a"})])
def test_which_of_the_free_nodes_is_for_the_policy_to_say(scoring: Literal["Spread", "Pack"], taken: set[str]) -> None:
    play = PodWorld(node("a", "4"), node("b", "4"), policy=replace(Policy.default(), scoring=scoring))
    play.create(*(pod(f"p{n}") for n in range(3)))
    play.settle()
    assert {node_of(play, f"p{n}") for n in range(3)} == taken


def test_what_is_not_heeded_is_told_once_when_the_pod_is_bound() -> None:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
    soft = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    play = PodWorld(node("a", "1"))
    play.create(pod("first"), pod("second", affinity=soft, volumes=claimed, resourceClaims=[{"name": "gpu"}]))
    play.settle()
    told = [each for each in play.engine.notes if each.reason == "NotHeeded"]
    assert told == [], "it waits, and may never be placed by us"
    play.store.delete(PODS, "default", "first", grace=0)
    play.settle()
    assert node_of(play, "second") == "a"
    (note,) = (each for each in play.engine.notes if each.reason == "NotHeeded")
    assert (note.about.name, note.type) == ("second", "Warning")
    assert note.message == (
        "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution: "
        "which pods stand on a node does not make it a better or worse one; "
        "spec.resourceClaims: no device is allocated, and every node is as good as another"
    ), "its node tells about the volume"


def test_a_toleration_with_an_operator_that_is_not_heeded_stops_nobody() -> None:
    play = PodWorld(node("a", "2"))
    play.create(pod("odd", tolerations=[{"key": "k", "operator": "Gt", "value": "1"}]), pod("plain"))
    play.settle()
    assert [node_of(play, name) for name in ("odd", "plain")] == ["a", "a"]
