"""What keeps a pod from its nodes, and which news of a node is worth another look."""

from __future__ import annotations

import random

import pytest

from makeway.core.model import Expression, Taint
from makeway.core.placement.hindrances import hindrances, might_take
from makeway.core.placement.model import Cluster, ForPod, Node, Pod, Term
from makeway.core.placement.nodes import Placement
from makeway.core.placement.preemption import decide


def node(name: str, cpu: int = 4, **more: object) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "memory": 10, "pods": 3}, **more)  # type: ignore[arg-type]


def pod(name: str, cpu: int = 1, on: str | None = None, **more: object) -> Pod:
    return Pod(key=("d", name), requests={"cpu": cpu}, node=on, **more)  # type: ignore[arg-type]


def test_each_node_is_counted_once_by_what_rules_it_out() -> None:
    app = (Expression("app", "In", ("x",)),)
    state = Placement.of(Cluster(
        nodes=(
            node("away", unschedulable=True), node("gone", unschedulable=True), node("small", 1), node("full"),
            node("tainted", taints=(Taint("k", "v", "NoExecute"),)), node("zone", labels={"zone": "z"}),
            node("port"), node("wary", labels={"host": "wary"}), node("fits"),
        ),
        pods=(
            pod("a", 0, "full"), pod("b", 0, "full"), pod("c", 0, "full"),
            pod("p", 0, "port", ports=frozenset({("TCP", 80)})),
            pod("w", 0, "wary", anti_affinity=(Term(app, "host"),)),
            pod("new", 2, labels={"app": "x"}, ports=frozenset({("TCP", 80)})),
        ),
    ))  # fmt: skip
    assert hindrances(state, state.pods[("d", "new")], {"gone"}) == {
        "node(s) were unschedulable": 1,
        "node(s) were not ready": 1,
        "Insufficient cpu": 1,
        "Too many pods": 1,
        "node(s) had untolerated taint {k: v}": 1,
        "node(s) didn't have free ports for the requested pod ports": 1,
        "node(s) didn't satisfy anti-affinity or topology spread rules": 1,
        "node(s) had room, but not for enough pods of the gang": 2,
    }


def test_what_no_node_has_is_short_everywhere() -> None:
    state = Placement.of(Cluster(nodes=(node("a"), node("b")), pods=(pod("new", 9),)))
    asks = Pod(key=("d", "more"), requests={"cpu": 9, "gpu": 1})
    state.add_pod(asks)
    assert hindrances(state, asks) == {"Insufficient cpu, gpu": 2}


@pytest.mark.parametrize("seed", range(20))
def test_a_node_that_could_not_take_a_pod_takes_it_in_no_way(seed: int) -> None:
    dice = random.Random(seed)
    nodes = tuple(node(f"n{i}", dice.randint(1, 4)) for i in range(3))
    standing = tuple(
        pod(f"p{i}", dice.randint(0, 2), f"n{dice.randrange(3)}", priority=dice.randint(0, 5)) for i in range(6)
    )
    waiting = pod("new", dice.randint(1, 4), priority=dice.randint(0, 5))
    state = Placement.of(Cluster(nodes=nodes, pods=(*standing, waiting)))
    for each in nodes:
        answer = decide(state, ForPod(waiting.key), domain=each.name)
        if answer.feasible:
            assert might_take(state, each.name, [waiting], waiting.priority)
    assert not might_take(state, "none", [waiting], 9)
