"""What keeps a pod from its nodes, and which changes of a node are worth a retry."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from makeway.core.model import Expression, Taint
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.hindrances import NOT_FOR_ALL, hindrances, might_take
from makeway.core.placement.model import AffinityTerm, Cluster, ForPod, Node, Pod, Spread
from makeway.core.placement.preemption.decision import decide

APP = (Expression("app", "In", ("x",)),)


def node(name: str, cpu: int = 4, **more: object) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "memory": 10, "pods": 3}, **more)  # type: ignore[arg-type]


def pod(name: str, cpu: int = 1, on: str | None = None, **more: object) -> Pod:
    return Pod(key=("d", name), requests={"cpu": cpu}, node=on, **more)  # type: ignore[arg-type]


def test_each_node_is_counted_once_by_what_rules_it_out() -> None:
    state = ClusterState.of(Cluster(
        nodes=(
            node("away", unschedulable=True), node("gone", unschedulable=True), node("small", 1), node("full"),
            node("tainted", taints=(Taint("k", "v", "NoExecute"),)), node("zone", labels={"zone": "z"}),
            node("port"), node("wary", labels={"host": "wary"}), node("fits"),
        ),
        pods=(
            pod("a", 0, "full"), pod("b", 0, "full"), pod("c", 0, "full"),
            pod("p", 0, "port", ports=frozenset({("TCP", 80)})),
            pod("w", 0, "wary", anti_affinity=(AffinityTerm(APP, "host"),)),
            pod("new", 2, labels={"app": "x"}, ports=frozenset({("TCP", 80)})),
        ),
    ))  # fmt: skip
    assert hindrances(state, [state.pods[("d", "new")]], {"gone"})[0] == {
        "node(s) were unschedulable": 1,
        "node(s) were not ready": 1,
        "Insufficient cpu": 1,
        "Too many pods": 1,
        "node(s) had untolerated taint {k: v}": 1,
        "node(s) didn't have free ports for the requested pod ports": 1,
        "node(s) didn't satisfy existing pods anti-affinity rules": 1,
        "node(s) had room, but not for enough pods of the gang": 2,
    }


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"pod_affinity": (AffinityTerm(APP, "host"),)}, {"node(s) didn't match pod affinity rules": 1}),
        ({"anti_affinity": (AffinityTerm(APP, "host"),)}, {"node(s) didn't match pod anti-affinity rules": 1}),
        ({"spread": (Spread(1, "host", APP),)}, {"node(s) didn't match pod topology spread constraints": 1}),
    ],
    ids=["affinity", "anti-affinity", "spread"],
)
def test_which_rule_between_pods_rules_out_how_many_nodes(asked: dict[str, object], told: dict[str, int]) -> None:
    """a has two pods of the app, b none: the rule rules out one of the two nodes."""
    state = ClusterState.of(Cluster(
        nodes=(node("a", labels={"host": "a"}), node("b", labels={"host": "b"})),
        pods=(pod("x", 0, "a", labels={"app": "x"}), pod("y", 0, "a", labels={"app": "x"}), pod("new", 9, **asked)),  # type: ignore[arg-type]
    ))  # fmt: skip
    waiting = replace(state.pods[("d", "new")], requests={})
    (found,) = hindrances(state, [waiting])
    assert {why: number for why, number in found.items() if why != NOT_FOR_ALL} == told


def test_what_no_node_has_is_short_everywhere() -> None:
    state = ClusterState.of(Cluster(nodes=(node("a"), node("b")), pods=(pod("new", 9),)))
    asks = Pod(key=("d", "more"), requests={"cpu": 9, "gpu": 1})
    state.add_pod(asks)
    assert hindrances(state, [asks]) == [{"Insufficient cpu, gpu": 2}]


@pytest.mark.parametrize("seed", range(20))
def test_a_node_that_could_not_take_a_pod_takes_it_in_no_way(seed: int) -> None:
    dice = random.Random(seed)
    nodes = tuple(node(f"n{i}", dice.randint(1, 4)) for i in range(3))
    standing = tuple(
        pod(f"p{i}", dice.randint(0, 2), f"n{dice.randrange(3)}", priority=dice.randint(0, 5)) for i in range(6)
    )
    waiting = pod("new", dice.randint(1, 4), priority=dice.randint(0, 5))
    state = ClusterState.of(Cluster(nodes=nodes, pods=(*standing, waiting)))
    for each in nodes:
        answer = decide(state, ForPod(waiting.key), domain=each.name)
        if answer.feasible:
            assert might_take(state, each.name, [waiting], waiting.priority)
    assert not might_take(state, "none", [waiting], 9)
