"""The traps of gangs on nodes (scenarios G1 to G10) and the outcomes that the design demands (5710-a to d)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from makeway.core.model import Expression, Millis
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import cycle
from makeway.core.placement.model import (
    Budget,
    Cluster,
    ForGroup,
    ForPod,
    Member,
    Node,
    PlacementAnswer,
    Pod,
    PodGang,
    PodKey,
    Preemptor,
    SchedulingWorkload,
)
from makeway.core.placement.preemption.decision import decide
from makeway.core.placement.resolution import PriorityClass, PriorityRefused, known_classes, resolve
from makeway.core.trace import Rule

IN = ForPod(("d", "in"))
GANG = ForGroup("d", Member("in", "g"))


def node(name: str, cpu: int = 4) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "pods": 10})


def pod(name: str, cpu: int = 2, at: str | None = None, of: str = "", **fields: Any) -> Pod:
    member = Member(of, "g") if of else None
    return Pod(key=("d", name), requests={"cpu": cpu}, node=at, member=member, **fields)


def workload(
    name: str, priority: int, *, as_victim: int | None = None, least: int = 1, whole: bool = False
) -> SchedulingWorkload:  # fmt: skip
    group = PodGang(key=("d", name, "g"), min_count=least, whole=whole)
    return SchedulingWorkload(
        namespace="d", name=name, groups=(group,), priority=priority,
        preemption_priority=priority if as_victim is None else as_victim,
    )  # fmt: skip


def members(count: int, cpu: int = 2, **fields: Any) -> list[Pod]:
    return [pod(f"in-{i}", cpu, of="in", arrived=i, **fields) for i in range(count)]


def cluster(nodes: list[Node], pods: list[Pod], *workloads: SchedulingWorkload, budget: int | None = None) -> Cluster:
    guard = Budget(namespace="d", name="b", selector=(Expression("app", "In", ("x",)),), allowed=budget or 0)
    budgets = () if budget is None else (guard,)
    return Cluster(nodes=tuple(nodes), pods=tuple(pods), workloads=workloads, budgets=budgets)


def asked(given: Cluster, preemptor: Preemptor) -> PlacementAnswer:
    return decide(ClusterState.of(given), preemptor)


def names(keys: Any) -> list[str]:
    return sorted(name for _, name in keys)


def test_g1_5710_d_a_victim_below_its_preemptor_is_refused() -> None:
    classes = known_classes([PriorityClass(name="low", value=1), PriorityClass(name="high", value=10)])
    assert resolve("high", "low", classes) == PriorityRefused("preemptionPriorityBelowPriority", "low")


def test_g2_the_priority_of_the_group_decides_not_that_of_its_pod() -> None:
    pods = [pod("a", at="n1", of="old", priority=99), pod("b", at="n1", of="old", priority=0), pod("in", priority=10)]
    assert asked(cluster([node("n1")], pods, workload("old", 20)), IN).feasible is False
    below = asked(cluster([node("n1")], pods, workload("old", 5)), IN)
    assert len(below.victims) == 1


def test_g3_a_node_is_scored_by_the_highest_of_its_victims_whoever_violates() -> None:
    """On a the violating victim has priority 1 and hides one of 8; on b the highest is 5."""
    guarded: dict[str, Any] = {"labels": {"app": "x"}, "priority": 1}
    pods = [
        pod("a-lo", at="a", **guarded), pod("a-hi", at="a", priority=8),
        pod("b-lo", at="b", **guarded), pod("b-hi", at="b", priority=5), pod("in", 4, priority=10),
    ]  # fmt: skip
    found = asked(cluster([node("a"), node("b")], pods, budget=0), IN)
    assert {each.node: (each.violations, each.n) for each in found.candidates} == {"a": (1, 8), "b": (1, 5)}
    assert found.nominated == {("d", "in"): "b"}


def test_g4_nobody_else_leaves_while_those_who_were_asked_to_still_terminate() -> None:
    going = pod("old", 4, "n1", priority=1, terminating=True, preempted_by_scheduler=True)
    other = pod("other", 4, "n2", priority=1)
    (first,) = members(1, 4, nominated="n1")
    held = cluster([node("n1"), node("n2")], [going, other, first], workload("in", 10))
    found = cycle(ClusterState.of(held), GANG)
    assert (found.reason, found.actuated, found.nominated) == ("ongoingPreemption", (), {("d", "in-0"): "n1"})
    taken = replace(held, pods=(*held.pods, pod("higher", 1, "n1", priority=50)))
    again = cycle(ClusterState.of(taken), GANG)
    assert (names(again.actuated), dict(again.nominated)) == (["other"], {("d", "in-0"): "n2"}), "its place is gone"


def test_g5_a_budget_may_save_the_lower_one_and_the_steps_tell_it() -> None:
    """S-15.7.8, and the cascade: the higher one comes back and evicts the protected one."""
    guarded: dict[str, Any] = {"labels": {"app": "x"}}
    low, high = pod("lo", at="n1", priority=1, **guarded), pod("hi", at="n1", priority=5, **guarded)
    found = asked(cluster([node("n1")], [low, high, pod("in", priority=10)], budget=1), IN)
    assert (names(found.victims), found.violations, found.n) == (["hi"], 0, 5)
    after = [low, pod("in", at="n1", priority=10), replace(high, node=None)]
    back = asked(cluster([node("n1")], after, budget=1), ForPod(("d", "hi")))
    assert names(back.victims) == ["lo"]
    gang = asked(cluster([node("n1")], [low, high, *members(1)], workload("in", 10), budget=1), GANG)
    assert (names(gang.victims), Rule.PLACE_SPARED_BY_BUDGET in {step.rule for step in gang.why}) == (["hi"], True)


def test_g6_what_fits_binds_first_and_what_is_left_preempts_in_a_later_cycle() -> None:
    pods = [pod("run", at="n1", of="in"), pod("low", at="n2"), *members(2)]
    state = ClusterState.of(cluster([node("n1"), node("n2", 2)], pods, workload("in", 10)))
    first = cycle(state, GANG)
    assert (dict(first.bound), first.actuated, names(first.requeued)) == ({("d", "in-0"): "n1"}, (), ["in-1"])
    state.bind(("d", "in-0"), "n1")
    second = cycle(state, GANG)
    assert (names(second.actuated), dict(second.nominated)) == (["low"], {("d", "in-1"): "n2"})


def test_g7_5710_b_room_for_three_of_four_evicts_nobody() -> None:
    pods = [*(pod(f"low-{i}", 4, f"n{i}") for i in range(3)), pod("high", 4, "n3", priority=90), *members(4, 4)]
    given = cluster([node(f"n{i}") for i in range(4)], pods, workload("in", 10, least=4))
    for pod_by_pod in (False, True):
        found = cycle(ClusterState.of(given), GANG, pod_by_pod=pod_by_pod)
        assert (found.feasible, found.actuated, found.bound, found.nominated) == (False, (), {}, {})


def test_g8_a_straddling_gang_counts_whole_but_frees_room_only_where_it_is_sought() -> None:
    pods = [
        pod("g-0", 4, "a", "old"), pod("g-1", 4, "far", "old"), pod("g-2", 4, "far", "old"),
        pod("b-0", at="b"), pod("b-1", at="b"), pod("in", 4, priority=10),
    ]  # fmt: skip
    given = cluster([node("a"), node("b"), node("far", 8)], pods, workload("old", 0, whole=True))
    found = asked(replace(given, nodes=given.nodes[:2]), IN)
    assert {each.node: len(each.victims) for each in found.candidates} == {"a": 3, "b": 2}
    assert found.nominated == {("d", "in"): "b"}, "two pods are fewer than three"
    large = replace(given, pods=(*given.pods[:-1], pod("in", 5, priority=10)))
    assert [each.node for each in asked(large, IN).candidates] == ["far"], "what leaves far frees nothing on a"


def test_g9_the_order_of_the_input_changes_nothing_and_n_is_the_least() -> None:
    pods = [pod(f"p{i}", 4, f"n{i}", priority=priority) for i, priority in enumerate((7, 3, 3, 5))] + members(2, 4)
    given = cluster([node(f"n{i}") for i in range(4)], pods, workload("in", 10, least=2))
    answers = {
        (asked(replace(given, pods=tuple(order)), GANG).victims, asked(replace(given, pods=tuple(order)), GANG).n)
        for order in itertools.islice(itertools.permutations(given.pods), 0, 720, 31)
    }
    assert answers == {((("d", "p1"), ("d", "p2")), 3)}


def test_g10_5710_a_a_group_goes_as_a_whole_and_in_mode_pod_one_by_one() -> None:
    pods = [pod("a", at="n1", of="old"), pod("b", at="n1", of="old"), pod("in", priority=10)]
    whole = asked(cluster([node("n1")], pods, workload("old", 5, least=2, whole=True)), IN)
    assert names(whole.victims) == ["a", "b"]
    single = asked(cluster([node("n1")], pods, workload("old", 5, least=2)), IN)
    assert len(single.victims) == 1, "also below its minCount"


def test_5710_c_a_higher_preemption_priority_protects_also_against_a_tie() -> None:
    pods = [pod("old", 4, "n1", "old"), pod("in", 4, priority=15)]
    protected = cluster([node("n1")], pods, workload("old", 10, as_victim=20))
    assert asked(protected, IN).feasible is False, "15 is above 10, but not above 20"
    tie = replace(protected, pods=(pods[0], replace(pods[1], priority=20)))
    assert asked(tie, IN).feasible is False
    above = replace(protected, pods=(pods[0], replace(pods[1], priority=21)))
    assert names(asked(above, IN).victims) == ["old"]


def test_who_started_last_goes_first_among_equals() -> None:
    pods = [pod("old", at="n1", start=Millis(1)), pod("new", at="n1", start=Millis(2)), pod("in", priority=10)]
    key: PodKey = ("d", "new")
    assert asked(cluster([node("n1")], pods), IN).victims == (key,)
