"""The checker of placements finds faults: each of its rules refuses an answer that breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from makeway.core.model import Expression, Millis, Taint, Toleration
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import (
    AffinityTerm,
    Budget,
    Cluster,
    ForGroup,
    ForPod,
    Member,
    Node,
    NodeCandidate,
    PlacementAnswer,
    Pod,
    PodGang,
    PodKey,
    Preemptor,
    SchedulingWorkload,
    Spread,
)
from makeway.core.placement.preemption.decision import decide
from makeway.testing.placement_checker import CheckedCluster, check


def key(name: str) -> PodKey:
    return "d", name


def node(name: str, cpu: int = 4, **fields: Any) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "pods": 10}, labels={"host": name, "zone": "z"}, **fields)


def pod(name: str, cpu: int = 2, **fields: Any) -> Pod:
    return Pod(key=key(name), requests={"cpu": cpu}, **fields)


def workload(name: str, priority: int, *, least: int = 1, whole: bool = False) -> SchedulingWorkload:
    group = PodGang(key=("d", name, "g"), min_count=least, whole=whole)
    return SchedulingWorkload(
        namespace="d", name=name, groups=(group,), priority=priority, preemption_priority=priority
    )


# S-15.7.1: two nodes of 4; a gang over both, and two plain pods below it.
GANG = Cluster(
    nodes=(node("n1"), node("n2")),
    pods=(
        pod("g1", node="n1", member=Member("old", "g")),
        pod("g2", node="n2", member=Member("old", "g")),
        pod("p1", node="n1", priority=3),
        pod("p2", node="n2", priority=1),
        pod("in-0", member=Member("in", "g")),
        pod("in-1", member=Member("in", "g"), arrived=1),
    ),
    workloads=(workload("old", 5, whole=True), workload("in", 10, least=2)),
)
FOR_GANG = ForGroup("d", Member("in", "g"))
GANG_WANT = {
    "preemptionNeeded": True, "feasible": True, "minNominated": 2, "nAllowed": [3],
    "outcomes": [{"victims": ["d/p1", "d/p2"]}],
}  # fmt: skip
GANG_ANSWER = PlacementAnswer(
    needed=True, feasible=True, victims=(key("p1"), key("p2")), nominated={key("in-0"): "n1", key("in-1"): "n2"}, n=3
)
# S-15.7.2: the same for one pod.
SINGLE = replace(GANG, pods=(*GANG.pods[:4], pod("in", priority=10)))
FOR_POD = ForPod(key("in"))
ON_N1 = NodeCandidate(node="n1", victims=(key("p1"),), violations=0, n=3)
ON_N2 = NodeCandidate(node="n2", victims=(key("p2"),), violations=0, n=1)
SINGLE_WANT = {
    "preemptionNeeded": True, "feasible": True, "chosen": ["n2"],
    "candidates": [
        {"node": "n1", "victims": ["d/p1"], "numPDBViolations": 0, "n": 3},
        {"node": "n2", "victims": ["d/p2"], "numPDBViolations": 0, "n": 1},
    ],
}  # fmt: skip
SINGLE_ANSWER = PlacementAnswer(
    needed=True, feasible=True, victims=(key("p2"),), nominated={key("in"): "n2"}, candidates=(ON_N1, ON_N2), n=1
)


def test_good_answers_pass_with_and_without_a_record() -> None:
    for want in (GANG_WANT, None):
        assert check(GANG, FOR_GANG, GANG_ANSWER, want) == []
    for want in (SINGLE_WANT, None):
        assert check(SINGLE, FOR_POD, SINGLE_ANSWER, want) == []
    ours = decide(ClusterState.of(GANG), FOR_GANG)
    assert (ours.victims, ours.n) == (GANG_ANSWER.victims, 3)


@dataclass(frozen=True)
class Wrong:
    what: str
    rule: str
    changes: Mapping[str, Any]
    single: bool = False
    recorded: bool = True


WRONG = [
    Wrong("says that nobody need leave", "R1", {"needed": False, "victims": ()}),
    Wrong("needs nobody and evicts", "R1", {"needed": False}),
    Wrong("finds no place", "R2", {"feasible": False, "victims": (), "nominated": {}}),
    Wrong("finds no place and evicts all the same", "R2", {"feasible": False}, recorded=False),
    Wrong("gives another reason", "R2", {"reason": "ongoingPreemption"}),
    Wrong("evicts who is not below", "R3", {"victims": (key("in-0"), key("p1"), key("p2"))}),
    Wrong("evicts half a unit", "R3", {"victims": (key("g1"), key("p2"))}, recorded=False),
    Wrong("evicts nobody", "R4", {"victims": ()}, recorded=False),
    Wrong("takes the worse node", "R5", {"nominated": {key("in"): "n1"}, "victims": (key("p1"),)}, single=True),
    Wrong("evicts others than recorded", "R5", {"victims": (key("p1"),)}, single=True),
    Wrong("forgets a candidate", "R6", {"candidates": (ON_N2,)}, single=True),
    Wrong("miscounts violations", "R6", {"candidates": (ON_N1, replace(ON_N2, violations=1))}, single=True),
    Wrong("mistakes N of a node", "R6", {"candidates": (ON_N1, replace(ON_N2, n=3))}, single=True),
    Wrong("places too few", "R7", {"nominated": {key("in-0"): "n1"}}),
    Wrong("leaves a node unused", "R7", {"nominated": {key("in-0"): "n1"}, "victims": (key("p1"), key("p2"))}),
    Wrong("puts both on one node", "R8", {"nominated": {key("in-0"): "n1", key("in-1"): "n1"}}, recorded=False),
    Wrong("names a node that is not there", "R8", {"nominated": {key("in-0"): "n1", key("in-1"): "nowhere"}}),
    Wrong("goes above N", "R9", {"victims": (key("g1"), key("g2"))}),
    Wrong("names a lower N", "R9", {"n": 1}, recorded=False),
    Wrong("evicts who could stay", "R10", {"victims": (key("g1"), key("g2"), key("p1"), key("p2"))}, recorded=False),
    Wrong("has an outcome of its own", "R11", {"victims": (key("g1"), key("g2"))}),
]


@pytest.mark.parametrize("wrong", WRONG, ids=[each.what for each in WRONG])
def test_an_answer_that_breaks_a_rule_is_refused_by_that_rule(wrong: Wrong) -> None:
    cluster, preemptor = (SINGLE, FOR_POD) if wrong.single else (GANG, FOR_GANG)
    answer = replace(SINGLE_ANSWER if wrong.single else GANG_ANSWER, **wrong.changes)
    want = None
    if wrong.recorded:
        want = {**(SINGLE_WANT if wrong.single else GANG_WANT)}
        if "reason" in wrong.changes:
            want["reason"] = "preemptionPolicyNever"
    rules = [each.partition(":")[0] for each in check(cluster, preemptor, answer, want)]
    assert wrong.rule in rules


def test_every_rule_is_broken_once() -> None:
    assert {each.rule for each in WRONG} == {f"R{number}" for number in range(1, 12)}


def test_a_node_that_is_given_is_compared_as_it_is_recorded() -> None:
    want = {"preemptionNeeded": True, "feasible": True, "victims": ["d/p1"], "numPDBViolations": 0, "n": 3}
    good = PlacementAnswer(needed=True, feasible=True, victims=(key("p1"),), nominated={key("in"): "n1"}, n=3)
    assert check(SINGLE, FOR_POD, good, want, domain="n1") == []
    for wrong in (replace(good, victims=(key("p2"),)), replace(good, violations=1), replace(good, n=1)):
        assert check(SINGLE, FOR_POD, wrong, want, domain="n1")


# --- what fits where -------------------------------------------------------------------------------------------------


def fits(placed: Pod, *others: Pod, at: str = "n1", nodes: tuple[Node, ...] = (node("n1"), node("n2"))) -> bool:
    ground = CheckedCluster(Cluster(nodes=nodes, pods=(placed, *others)))
    return ground.valid(placed, at, ground.standing([placed], placed.priority))


APP = (Expression("app", "In", ("x",)),)


@pytest.mark.parametrize(
    ("what", "it_fits"),
    [
        ("room", fits(pod("in", 4))),
        ("no more than a promise of less", fits(pod("in", 4, priority=5), pod("o", nominated="n1", priority=4))),
        ("taint tolerated", fits(
            pod("in", tolerations=(Toleration("k", "Exists"),)),
            nodes=(node("n1", taints=(Taint("k", "v", "NoExecute"),)),),
        )),
        ("apart on other hosts", fits(
            pod("in", anti_affinity=(AffinityTerm(APP, "host"),)), pod("o", node="n2", labels={"app": "x"})
        )),
        ("even", fits(
            pod("in", labels={"app": "x"}, spread=(Spread(1, "host", APP),)), pod("o", node="n2", labels={"app": "x"})
        )),
    ],
)  # fmt: skip
def test_what_fits(what: str, it_fits: bool) -> None:
    assert it_fits, what


@pytest.mark.parametrize(
    ("what", "it_fits"),
    [
        ("no such node", fits(pod("in"), at="n9")),
        ("cordoned", fits(pod("in"), nodes=(node("n1", unschedulable=True),))),
        ("too large", fits(pod("in", 3), pod("o", 2, node="n1"))),
        ("a resource the node has none of", fits(replace(pod("in"), requests={"gpu": 1}))),
        ("as many pods as it takes", fits(pod("in", 0), *(pod(f"o{i}", 0, node="n1") for i in range(10)))),
        ("promised to another", fits(pod("in", 4), pod("o", nominated="n1"))),
        ("other labels", fits(pod("in", node_selector={"host": "n2"}))),
        ("no term holds", fits(pod("in", affinity=()))),
        ("taint", fits(pod("in"), nodes=(node("n1", taints=(Taint("k", "v", "NoSchedule"),)),))),
        ("port taken", fits(
            pod("in", ports=frozenset({("TCP", 80)})), pod("o", node="n1", ports=frozenset({("TCP", 80)}))
        )),
        ("kept apart by its own term", fits(
            pod("in", anti_affinity=(AffinityTerm(APP, "zone"),)), pod("o", node="n2", labels={"app": "x"})
        )),
        ("kept apart by the term of another", fits(
            pod("in", labels={"app": "x"}), pod("o", node="n2", anti_affinity=(AffinityTerm(APP, "zone"),))
        )),
        ("uneven", fits(
            pod("in", 1, labels={"app": "x"}, spread=(Spread(1, "host", APP),)),
            pod("o", 1, node="n1", labels={"app": "x"}),
        )),
    ],
)  # fmt: skip
def test_what_does_not_fit(what: str, it_fits: bool) -> None:
    assert not it_fits, what


def test_units_and_budgets() -> None:
    ground = CheckedCluster(
        replace(
            GANG,
            pods=(
                *GANG.pods,
                pod("lost", node="n1", member=Member("gone", "g"), priority=5, start=Millis(1), labels={"app": "x"}),
                pod("late", node="n1", priority=5, start=Millis(2), labels={"app": "x"}),
            ),
            budgets=(Budget(namespace="d", name="b", selector=APP, allowed=1),),
        )
    )
    units = ground.units()
    assert [sorted(name for _, name in unit.keys) for unit in units] == [
        ["g1", "g2"],
        ["lost"],
        ["late"],
        ["p1"],
        ["p2"],
    ]
    beyond = ground.violations(units)
    assert {name for unit in units if beyond[unit.keys] for _, name in unit.keys} == {"late"}


def members_of(preemptor: Preemptor) -> list[str]:
    return [each.key[1] for each in CheckedCluster(GANG).members(preemptor)]


def test_members_stand_in_queue_order() -> None:
    assert members_of(FOR_GANG) == ["in-0", "in-1"]
    assert CheckedCluster(GANG).need(FOR_GANG) == 2
