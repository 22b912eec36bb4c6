"""Relations between pods: being together, apart, spread; and the pods that such a term is about (0069)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from makeway.core.model import Expression, Taint
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import cycle
from makeway.core.placement.fit import place_gang
from makeway.core.placement.model import AffinityTerm, Cluster, Namespace, Node, Pod, Spread
from makeway.core.placement.preemption.decision import decide
from makeway.core.placement.preemption.single_pod import candidate_nodes
from makeway.core.placement.preemption.victims import select_victims
from makeway.core.placement.relations import MOST_DOMAINS, RelationKind
from makeway.core.placement.snapshot import NodeSnapshot
from makeway.core.placement.units import units_below
from makeway.core.trace import Rule
from makeway.testing.placement_checker import check
from tests.core.placement.scene import HIGH, HOST, PRE, gang, lone, names, node, pod, workload

ZONE, RACK = "zone", "rack"


def selector(app: str) -> tuple[Expression, ...]:
    return (Expression("app", "In", (app,)),)


def term(app: str, key: str = ZONE, **more: Any) -> AffinityTerm:
    return AffinityTerm(selector(app), key, **more)


def zoned(**zones: str) -> list[Node]:
    return [node(name, labels={ZONE: zone} if zone else {}) for name, zone in zones.items()]


def seeking(app: str = "web", **asks: Any) -> Pod:
    return replace(pod("p", priority=HIGH, labels={"app": app}), **asks)


def standing(name: str, app: str, at: str, namespace: str = "d", **more: Any) -> Pod:
    return replace(pod(name, at=at, labels={"app": app}, priority=HIGH), key=(namespace, name), **more)


def cluster(nodes: list[Node], *pods: Pod, namespaces: Mapping[str, str] | None = None) -> Cluster:
    known = tuple(Namespace(name, {"team": team}) for name, team in (namespaces or {}).items())
    return Cluster(nodes=tuple(nodes), pods=pods, namespaces=known)


def place(world: Cluster, name: str = "p") -> str | None:
    answer = decide(ClusterState.of(world), lone(name))
    assert check(world, lone(name), answer) == []
    return answer.nominated.get(("d", name))


AB = zoned(a="x", b="y")


@pytest.mark.parametrize(
    ("pods", "terms", "chosen"),
    [
        ([standing("db", "db", "b")], [term("db")], "b"),
        ([], [term("db")], None),
        ([standing("db", "db", "b")], [term("db", RACK)], None),  # no node has the key
        ([], [term("web")], "a"),  # it matches itself: it may be the first
        ([standing("w", "web", "b")], [term("web")], "b"),  # and is not, where there is one
        ([standing("w", "web", "b", "other")], [term("web")], "a"),  # pods of another namespace do not count
        ([standing("w", "web", "b")], [term("web"), term("web", HOST)], "b"),
        ([], [term("web"), term("db")], None),  # it must match all of its terms to be the first
        ([standing("w", "web", "a"), standing("db", "db", "a")], [term("web"), term("db")], None),  # no pod matches all
        ([pod("w", nominated="b", labels={"app": "db"}, priority=HIGH)], [term("db")], None),  # it may not come
        ([pod("w", nominated="b", labels={"app": "web"}, priority=HIGH)], [term("web")], "b"),  # but the first one goes
    ],
)
def test_required_affinity(pods: list[Pod], terms: list[AffinityTerm], chosen: str | None) -> None:
    assert place(cluster(AB, *pods, seeking(pod_affinity=tuple(terms)))) == chosen


def test_a_node_without_the_key_is_no_place_beside_anybody() -> None:
    world = cluster(zoned(a="", b="y"), standing("w", "web", "a"), seeking(pod_affinity=(term("web"),)))
    assert place(world) == "b"  # a pod on a node without the key is in no domain, so it is the first


TEAMS = {"other": "x", "third": "y"}


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        ({}, {"d"}),
        ({"namespaces": frozenset({"other"})}, {"other"}),
        ({"namespace_selector": ()}, {"d", "other", "third", "unknown"}),
        ({"namespace_selector": (Expression("team", "In", ("x",)),)}, {"other"}),
        ({"namespace_selector": (Expression("team", "In", ("x",)),), "namespaces": frozenset({"d"})}, {"d", "other"}),
        ({"namespace_selector": (Expression("kubernetes.io/metadata.name", "In", ("unknown",)),)}, {"unknown"}),
    ],
)
def test_of_which_namespaces_a_term_speaks(scope: dict[str, Any], seen: set[str]) -> None:
    about = term("db", **scope)
    for namespace in ("d", "other", "third", "unknown"):
        other = standing("db", "db", "b", namespace)
        beside = cluster(AB, other, seeking(pod_affinity=(about,)), namespaces=TEAMS)
        assert place(beside) == ("b" if namespace in seen else None), namespace
        apart = cluster(AB[1:], other, seeking(anti_affinity=(about,)), namespaces=TEAMS)
        assert place(apart) == (None if namespace in seen else "b"), namespace


def test_terms_of_pods_in_place_speak_of_other_namespaces_too() -> None:
    keeper = standing("k", "k", "b", "other", anti_affinity=(term("web", namespace_selector=()),))
    assert place(cluster(AB[1:], keeper, seeking())) is None
    mine = replace(keeper, anti_affinity=(term("web"),))
    assert place(cluster(AB[1:], mine, seeking())) == "b"


def test_a_gang_whose_pods_want_each_other_stands_in_one_zone() -> None:
    members = [replace(each, labels={"app": "g"}, pod_affinity=(term("g"),)) for each in gang(3, 2)]
    world = Cluster(
        nodes=tuple(zoned(a="x", b="y", c="y")), pods=(pod("full", 3, "a", priority=HIGH), *members),
        workloads=(workload("pre", HIGH, min_count=3),),
    )  # fmt: skip
    answer = decide(ClusterState.of(world), PRE)
    assert set(answer.nominated.values()) == {"b", "c"}
    assert check(world, PRE, answer) == []


def test_nobody_is_evicted_whom_the_preemptor_needs() -> None:
    """Both nodes are full of lower pods; it fits only beside the pod that it wants, once the other leaves."""
    wanted = pod("db", 2, "b", labels={"app": "db"}, priority=5)
    filling = [pod("u", 2, "b", priority=1), pod("v", 4, "a", priority=1)]
    world = cluster(AB, wanted, *filling, seeking(pod_affinity=(term("db"),), requests={"cpu": 2}))
    answer = decide(ClusterState.of(world), lone())
    assert not answer.feasible  # with all below it gone, the pod it needs is gone too (S-15.4.2)
    stays = replace(wanted, priority=HIGH)
    world = cluster(AB, stays, *filling, seeking(pod_affinity=(term("db"),), requests={"cpu": 2}))
    answer = decide(ClusterState.of(world), lone())
    assert (names(answer.victims), answer.nominated) == ("u", {("d", "p"): "b"})


def test_a_gang_does_not_evict_whom_it_stands_beside() -> None:
    """Priorities are probed upwards: with all gone they could be the first anywhere, with less there is a place."""
    members = [replace(each, labels={"app": "g"}, pod_affinity=(term("g"),)) for each in gang(2, 2)]
    old = pod("g-old", 1, "b", labels={"app": "g"}, priority=5)
    low = [pod("u", 3, "b", priority=1), pod("v", 4, "c", priority=1)]
    nodes = [node("b", 4, labels={ZONE: "y"}), node("c", 4, labels={ZONE: "y"}), node("a", 1, labels={ZONE: "x"})]
    world = Cluster(nodes=tuple(nodes), pods=(old, *low, *members), workloads=(workload("pre", HIGH, min_count=2),))
    answer = decide(ClusterState.of(world), PRE)
    assert check(world, PRE, answer) == []
    assert ("d", "g-old") not in answer.victims
    assert answer.n == 1


def spread(**more: Any) -> Spread:
    return Spread(1, ZONE, selector("web"), **more)


@pytest.mark.parametrize(
    ("asks", "chosen"),
    [
        (spread(), "b"),  # zone z has a taint that it does not tolerate, and counts all the same
        (spread(heeds_taints=True), "b"),
        (spread(heeds_affinity=False), None),  # zone w, which it does not ask for, counts: no pod is there
    ],
)
def test_which_nodes_count_for_a_spread(asks: Spread, chosen: str | None) -> None:
    nodes = [
        *zoned(a="x", b="y", c="w"),
        Node(name="t", allocatable={"cpu": 4, "pods": 9}, labels={ZONE: "z"}, taints=(Taint("t", "", "NoSchedule"),)),
    ]
    pods = [standing(f"w{i}", "web", at) for i, at in enumerate("aab")]
    pods += [standing("w3", "web", "t")] if not asks.heeds_taints else []
    wanted = (Expression(ZONE, "In", ("x", "y", "z")),)
    assert place(cluster(nodes, *pods, seeking(spread=(asks,), affinity=(wanted,)))) == chosen


def test_each_relation_says_what_it_is() -> None:
    keeper = standing("k", "k", "b", anti_affinity=(term("web"),))
    me = seeking(pod_affinity=(term("db"),), anti_affinity=(term("x"),), spread=(spread(),))
    snapshot = NodeSnapshot(ClusterState.of(cluster(AB, keeper, me)), (me,), HIGH)
    assert [each.kind for each in snapshot.kinds[0].relations] == list(RelationKind)


def test_a_preemption_under_way_for_members_that_want_each_other_is_not_begun_again() -> None:
    """The worker is first in the queue and wants the leader, which was promised a node as well."""
    worker, leader = gang(2, 4, nominated=("a", "b"))
    worker = replace(worker, pod_affinity=(term("lead"),))
    leader = replace(leader, labels={"app": "lead"})
    leaving = [pod("u", 4, "a", leaving=True), pod("v", 4, "b", leaving=True)]
    both = (workload("pre", HIGH, min_count=2),)
    world = Cluster(nodes=tuple(zoned(a="x", b="x")), pods=(*leaving, worker, leader), workloads=both)
    found = cycle(ClusterState.of(world), PRE)
    assert (found.reason, found.actuated) == ("ongoingPreemption", ())


def test_a_worker_that_comes_before_the_leader_it_wants_waits_for_its_turn() -> None:
    worker, leader = gang(2, 2)
    worker = replace(worker, pod_affinity=(term("lead"),))
    leader = replace(leader, labels={"app": "lead"})
    world = Cluster(nodes=tuple(AB), pods=(worker, leader), workloads=(workload("pre", HIGH, min_count=2),))
    answer = decide(ClusterState.of(world), PRE)
    assert answer.nominated == {("d", "pre-0"): "a", ("d", "pre-1"): "a"}


def test_a_gang_whose_pods_want_each_other_goes_where_all_of_them_have_room() -> None:
    """The emptiest node is in a zone that takes two of the three."""
    members = [replace(each, labels={"app": "g"}, pod_affinity=(term("g"),)) for each in gang(3, 4)]
    nodes = [node("a", 8, labels={ZONE: "x"}), *(node(name, 5, labels={ZONE: "y"}) for name in "bcd")]
    taken = [pod(f"u{name}", 1, name, priority=HIGH) for name in "bcd"]
    world = Cluster(nodes=tuple(nodes), pods=(*taken, *members), workloads=(workload("pre", HIGH, min_count=3),))
    assert set(decide(ClusterState.of(world), PRE).nominated.values()) == {"b", "c", "d"}
    assert not decide(ClusterState.of(world, thorough=False), PRE).feasible  # one after another, to the letter


# --- what it costs ---------------------------------------------------------------------------------------------------


def indexed(count: int, **asks: Any) -> list[Pod]:
    """Members as an indexed Job makes them: each has a label of its own."""
    return [replace(each, labels={"app": "web", "index": str(i)}, **asks) for i, each in enumerate(gang(count))]


def room_of(nodes: list[Node], members: list[Pod], *others: Pod) -> NodeSnapshot:
    state = ClusterState.of(Cluster(nodes=tuple(nodes), pods=(*members, *others), workloads=(workload("pre", HIGH),)))
    return NodeSnapshot(state, members, HIGH)


def test_labels_tell_members_apart_only_where_somebody_heeds_them() -> None:
    assert len(room_of(AB, indexed(9)).kinds) == 1
    repelling = standing("w", "db", "a", anti_affinity=(term("web"),))
    assert len(room_of(AB, indexed(9), repelling).kinds) == 9
    assert len(room_of(AB, indexed(9, anti_affinity=(term("web"),))).kinds) == 9


def test_members_that_ask_for_the_same_share_what_is_counted_for_it() -> None:
    """Every pod of the cluster is checked against each relation, so there may not be one for each member."""
    snapshot = room_of(AB, indexed(9, anti_affinity=(term("web", HOST),), spread=(spread(),)))
    assert (
        len({id(each) for kind in snapshot.kinds for each in kind.relations}) == 3
    )  # its own term, as theirs, the spread


def test_units_that_matter_to_nobody_are_judged_by_their_room() -> None:
    machines = [node(f"n{i:02}", 8, labels={ZONE: f"z{i % 2}"}) for i in range(20)]
    low = [pod(f"v{i}", at=f"n{i % 20:02}", labels={"app": "low"}) for i in range(160)]
    snapshot = room_of(machines, indexed(20, pod_affinity=(term("web"),)), *low)
    snapshot.attach(units_below(snapshot.state, HIGH))
    result = select_victims(snapshot, 20, np.ones(len(snapshot.units), bool))
    assert result is not None
    assert result.victims.sum() == 20
    assert snapshot.looks < 1000  # one by one, all members for each of the 160, it was five times that


def test_all_domains_of_the_last_term_are_tried_and_not_more_than_a_bound() -> None:
    many = [node(f"n{i:03}", labels={ZONE: f"z{i % 3}"}) for i in range(100)]
    both = room_of(many, indexed(3, pod_affinity=(term("web", HOST), term("web"))))
    assert len(list(both.relations.common_domains())) == 3
    hosts = room_of(many, indexed(3, pod_affinity=(term("web", HOST),)))
    assert len(list(hosts.relations.common_domains())) == MOST_DOMAINS


def test_a_chain_of_members_in_the_wrong_order_is_placed() -> None:
    """Each wants the next one beside it; only the last one wants none."""

    def wants(i: int) -> AffinityTerm:
        return AffinityTerm((Expression("index", "In", (str(i),)),), ZONE)

    members = [replace(each, pod_affinity=(wants(i + 1),) if i < 19 else ()) for i, each in enumerate(indexed(20))]
    machines = [node(f"n{i}", 9, labels={ZONE: f"z{i % 2}"}) for i in range(6)]
    places = place_gang(room_of(machines, members), 20)
    assert places is not None
    assert len({machines[at].labels[ZONE] for at in places}) == 1


def test_a_pod_with_terms_is_held_against_nodes_one_by_one_only_where_somebody_matters_to_it() -> None:
    machines = [node(f"n{i:03}", 1) for i in range(100)]
    low = [pod(f"v{i:03}", at=f"n{i:03}", labels={"app": "web" if i < 3 else "low"}) for i in range(100)]
    request_of = seeking(anti_affinity=(term("web", HOST),))
    state = ClusterState.of(cluster(machines, *low, request_of))
    snapshot = NodeSnapshot(state, (request_of,), HIGH, single=True)
    snapshot.attach(units_below(state, HIGH))
    assert len(candidate_nodes(snapshot).nodes) == 100
    assert snapshot.looks < 50  # three contests, not a hundred


def test_what_no_node_has_is_the_reason_also_for_a_pod_with_terms() -> None:
    asks = seeking(requests={"cpu": 1, "gpu": 1}, anti_affinity=(term("web", HOST),))
    answer = decide(ClusterState.of(cluster(AB, pod("v", 4, "a"), asks)), lone())
    assert [step.rule for step in answer.why] == [Rule.PLACE_CLOSED]
