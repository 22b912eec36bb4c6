"""Units, their importance, and the pods that budgets protect (S-15.1.2, 15.4.3, 15.4.4)."""

from __future__ import annotations

import numpy as np

from makeway.core.model import Expression
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import Budget
from makeway.core.placement.units import units_below, violating_pods
from tests.core.placement.scene import HIGH, budget, cluster, nodes, pod, workload


def order(state: ClusterState, below: int = HIGH) -> list[str]:
    units = units_below(state, below)
    pods = state.running.pods
    members = [[each for row in units.rows_of(unit).tolist() if (each := pods[row])] for unit in range(len(units))]
    return ["+".join(each.key[1] for each in unit) for unit in members]


def test_s15_4_3_importance_is_priority_then_workload_then_size_then_age_then_uid() -> None:
    pods = [
        pod("young", at="n0", start=9), pod("b", at="n0", start=5), pod("a", at="n0", start=5),
        pod("high", at="n0", priority=2, start=99),
        pod("member", at="n0", start=50, of="w"),
        pod("x1", at="n0", start=70, of="x"), pod("x0", at="n0", start=60, of="x"),
        pod("dangling", at="n0", start=1, of="nobody"),
    ]  # fmt: skip
    state = ClusterState.of(cluster(nodes(1), pods, [workload("w"), workload("x", whole=True)]))
    assert order(state) == ["high", "x0+x1", "member", "dangling", "a", "b", "young"]


def test_s15_1_2_a_unit_is_one_replica_of_one_group_and_only_where_the_mode_says_so() -> None:
    both = [f"{name}-{replica}" for name in ("whole", "single") for replica in "ab"]
    pods = [pod(f"{of.replace('-', '')}{i}", at="n0", of=of, start=i) for of in both for i in (0, 1)]
    state = ClusterState.of(cluster(nodes(1), pods, [workload("whole", whole=True), workload("single")]))
    assert order(state) == ["wholea0+wholea1", "wholeb0+wholeb1", "singlea0", "singleb0", "singlea1", "singleb1"]


def test_g2_the_workload_decides_whatever_the_pod_says_and_only_lower_ones_count() -> None:
    pods = [pod("says-high", at="n0", priority=500, of="w"), pod("plain", at="n0", priority=7)]
    state = ClusterState.of(cluster(nodes(1), pods, [workload("w", 3, as_victim=5)]))
    assert order(state, 7) == ["says-high"]
    assert order(state, 5) == []
    assert order(state, 8) == ["plain", "says-high"]


def beyond(state: ClusterState) -> dict[str, int]:
    units = units_below(state, HIGH)
    counts = violating_pods(state, units, np.ones(len(units), bool)).tolist()
    return dict(zip(order(state), counts, strict=True))


def test_s15_4_4_the_more_important_uses_the_budget_up_and_the_less_important_violates() -> None:
    pods = [pod("hi", at="n0", priority=5, labels={"app": "a"}), pod("lo", at="n0", labels={"app": "a"})]
    assert beyond(ClusterState.of(cluster(nodes(1), pods, budgets=[budget(1)]))) == {"hi": 0, "lo": 1}
    assert beyond(ClusterState.of(cluster(nodes(1), pods, budgets=[budget(0)]))) == {"hi": 1, "lo": 1}


def test_s15_4_4_a_pod_uses_one_of_every_budget_and_a_unit_counts_its_pods() -> None:
    group = [pod(f"g{i}", at="n0", of="g", labels={"app": "a"}) for i in range(3)]
    both = pod("both", at="n0", priority=0, labels={"app": "a", "tier": "t"})
    tier = Budget(namespace="d", name="t", selector=(Expression("tier", "Exists"),), allowed=1)
    later = pod("later", at="n0", priority=-1, labels={"tier": "t"})
    world = cluster(nodes(1), [*group, both, later], [workload("g", whole=True)], [budget(1), tier])
    assert beyond(ClusterState.of(world)) == {"g0+g1+g2": 2, "both": 1, "later": 1}


def test_s15_4_4_what_a_budget_does_not_count() -> None:
    pods = [pod("bare", at="n0"), pod("done", at="n0", labels={"app": "a"})]
    none = Budget(namespace="d", name="none", selector=None, allowed=0)
    empty = Budget(namespace="d", name="empty", selector=(), allowed=0)
    absent = Budget(namespace="d", name="absent", selector=(Expression("tier", "DoesNotExist"),), allowed=0,
                    disrupted=frozenset({"done"}))  # fmt: skip
    elsewhere = Budget(namespace="e", name="other", selector=(Expression("app", "Exists"),), allowed=0)
    state = ClusterState.of(cluster(nodes(1), pods, budgets=[none, empty, absent, elsewhere]))
    assert beyond(state) == {"bare": 0, "done": 0}
