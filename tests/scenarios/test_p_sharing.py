"""Traps of fair sharing (P2 to P4, P20, P22, P28 to P30, S12, row 8522-8) on the running engine.

Each is played to its end with every list of strategies that it is about, and with victims that leave at once, late,
or unsynchronised. Every pause checks that preemption has settled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.simulator.simulation import Linger
from makeway.core.policy import FairStrategy, Policy
from tests.scenarios.stage import Stage, Tree, named, queue, quotas, unsynchronised, work

FINAL: FairStrategy = "LessThanOrEqualToFinalShare"
INITIAL: FairStrategy = "LessThanInitialShare"
FAIR = replace(Policy.default(), fair_strategies=(FINAL, INITIAL))
LISTS = pytest.mark.parametrize(
    "policy", [replace(FAIR, fair_strategies=each) for each in ((FINAL, INITIAL), (FINAL,), (INITIAL,))],
    ids=["both", "final", "initial"],
)  # fmt: skip
ANY: dict[str, Any] = {"reclaim": "Any", "cohort": "r"}


def cohort(name: str, nominal: int = 0, **spec: Any) -> Tree:
    return named("Cohort", name, {"resourceGroups": quotas(nominal), **spec})


def weight(value: str) -> dict[str, Any]:
    return {"fairSharing": {"weight": value}}


def most_evictions(stage: Stage) -> int:
    return max(Counter(each.workload for each in stage.evictions).values(), default=0)


@LISTS
def test_p2_a_preemption_is_not_undone_by_the_order_of_admission(policy: Policy, leaving: Linger) -> None:
    """p lacks cpu only, of which its queue has enough; by gpus its queue is the richer one (M6)."""
    resources = ["cpu", "example.com/gpu"]

    def both(cpu: int, gpus: int) -> list[Tree]:
        amounts = zip(resources, (cpu, gpus), strict=True)
        quota = [{"name": name, "nominalQuota": str(amount)} for name, amount in amounts]
        return [{"coveredResources": resources, "flavors": [{"name": "default", "resources": quota}]}]

    def asks(name: str, where: str, cpu: int, gpus: int) -> Tree:
        tree = work(name, queue=where)
        container = tree["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
        container["resources"]["requests"] = {"cpu": str(cpu), "example.com/gpu": str(gpus)}
        return tree

    stage = Stage(
        queue("x", cohort="r", reclaim="Any", resourceGroups=both(4, 0), **weight("500m")),
        queue("y", cohort="r", resourceGroups=both(0, 0)), queue("lender", cohort="r", resourceGroups=both(0, 4)),
        policy=policy, leaving=leaving,
    )  # fmt: skip
    stage.arrive(asks("a", "y", 4, 1), asks("p", "x", 4, 3))
    stage.run("12:00")
    assert stage.running == {"p"}
    assert [(each.workload, each.reason) for each in stage.evictions] == [("a", "InCohortReclamation")]


@LISTS
def test_p3_nobody_leaves_on_the_ground_of_a_victim_that_stays(policy: Policy, leaving: Linger) -> None:
    """Without a5 of its own queue, a4 would be poor enough to displace p9; but a5 need not leave at all (M7)."""
    stage = Stage(
        cohort("r", 4), queue("x", 0, within="LowerPriority", **ANY), queue("y", 0, **ANY),
        policy=policy, leaving=leaving,
    )  # fmt: skip
    stage.arrive(work("a5", 2, queue="x"), work("p9", 2, queue="y"), work("a4", 2, queue="x", priority=1))
    stage.run("11:00")
    assert [(each.workload, each.reason) for each in stage.evictions] == [("a5", "InClusterQueue")]
    assert stage.running == {"p9", "a4"}


def test_p4_a_request_that_evens_things_out_preempts_once(leaving: Linger) -> None:
    """Four jobs of two each run; another project asks for 6, 5, 4, then 3."""
    stage = Stage(
        cohort("r", 8), queue("x", 0, **ANY), queue("y", 0, **ANY),
        policy=replace(FAIR, fair_strategies=(FINAL,)), leaving=leaving,
    )  # fmt: skip
    stage.arrive(*(work(f"run{i}", 2, queue="y") for i in range(4)))
    for size in (6, 5, 4, 3):
        stage.arrive(work(f"ask{size}", size, queue="x"))
        stage.rest(300)
    assert stage.running == {"run0", "run1", "ask4"}, "4 to 4"
    assert sorted(stage.victims()) == ["run2", "run3"], "and none twice"


@pytest.mark.parametrize("weights", [("0", "1"), ("1", "0"), ("0", "0"), ("2n", "1"), ("1", "1000000000")])
@LISTS
def test_p20_a_queue_within_nominal_never_loses_a_workload_to_another(policy: Policy, weights: tuple[str, str]) -> None:
    stage = Stage(
        queue("x", 4, **ANY, **weight(weights[0])), queue("y", 4, **ANY, **weight(weights[1])), queue("z", 2, **ANY),
        policy=policy, leaving=unsynchronised,
    )  # fmt: skip
    stage.arrive(*(work(f"y{i}", 1, queue="y") for i in range(4)))
    stage.arrive(*(work(f"x{i}", 1, queue="x", priority=9) for i in range(9)))
    stage.run("12:00")
    assert [each.workload for each in stage.evictions] == []
    assert {f"y{i}" for i in range(4)} <= stage.running
    stage.arrive(work("z", 2, queue="z"))
    stage.run("13:00")
    assert all(each.startswith("x") for each in stage.victims())
    assert {"z", *(f"y{i}" for i in range(4))} <= stage.running
    assert most_evictions(stage) <= 1


def test_p20_without_weight_one_borrows_only_what_nobody_else_wants(leaving: Linger) -> None:
    """And it displaces no borrower (S-9.13)."""
    stage = Stage(
        cohort("r", 4), queue("x", 0, **ANY, **weight("0")), queue("y", 0, **ANY), policy=FAIR, leaving=leaving
    )
    stage.arrive(*(work(f"x{i}", 1, queue="x") for i in range(4)))
    assert stage.running == {"x0", "x1", "x2", "x3"}
    stage.arrive(*(work(f"y{i}", 1, queue="y") for i in range(4)))
    stage.run("11:00")
    assert stage.running == {"y0", "y1", "y2", "y3"}
    assert most_evictions(stage) == 1


@LISTS
def test_p22_a_queue_without_a_cohort_looks_among_its_own(policy: Policy, leaving: Linger) -> None:
    stage = Stage(queue("q", 4, within="LowerPriority"), policy=policy, leaving=leaving)
    stage.arrive(*(work(f"low{i}", 1, priority=-1) for i in range(4)), work("too-much", 9), work("high", 3))
    stage.run("11:00")
    assert (len(stage.victims()), "high" in stage.running) == (3, True)


@LISTS
def test_p28_the_order_counts_what_is_on_its_way_out(policy: Policy, leaving: Linger) -> None:
    """y owns 3 and runs 4, x owns 5 and runs 1 and wants 4: y must not go first again because it has just lost one."""
    stage = Stage(queue("x", 5, **ANY), queue("y", 3, **ANY), policy=policy, leaving=leaving)
    stage.arrive(work("x0", 1, queue="x"), *(work(f"y{i}", 1, queue="y") for i in range(6)))
    assert len(stage.running) == 7
    stage.arrive(*(work(f"x{i}", 1, queue="x") for i in range(1, 5)))
    stage.run("12:00")
    assert sum(each.startswith("x") for each in stage.running) == 5
    assert sum(each.startswith("y") for each in stage.running) == 3
    assert sorted(stage.victims()) == ["y3", "y4", "y5"], "each once"


@LISTS
def test_p29_two_sides_never_take_the_same_back_and_forth(policy: Policy, leaving: Linger) -> None:
    """Two queues that own 5 of 11, and jobs of 2: one queue gets three places, the other two."""
    stage = Stage(cohort("r", 1), queue("x", 5, **ANY), queue("y", 5, **ANY), policy=policy, leaving=leaving)
    stage.arrive(*(work(f"x{i}", 2, queue="x") for i in range(5)))
    stage.arrive(*(work(f"y{i}", 2, queue="y") for i in range(5)))
    stage.run("14:00")
    by_queue = Counter(each[0] for each in stage.running)
    assert sorted(by_queue.values()) == [2, 3]
    assert most_evictions(stage) <= 1
    assert len(stage.evictions) <= 3


@LISTS
def test_p30_equals_that_do_not_fit_displace_nobody(policy: Policy, leaving: Linger) -> None:
    """24 jobs for 12 places, in three queues of equal weight."""
    stage = Stage(
        cohort("r", 12), *(queue(name, 0, within="LowerPriority", **ANY) for name in "xyz"),
        policy=policy, leaving=leaving,
    )  # fmt: skip
    stage.arrive(*(work(f"{'xyz'[i % 3]}{i:02}", 1, queue="xyz"[i % 3]) for i in range(24)))
    stage.run("14:00")
    assert stage.evictions == []
    assert Counter(each[0] for each in stage.running) == {"x": 4, "y": 4, "z": 4}


# --- time and shares -------------------------------------------------------------------------------------------------

EQUALS: dict[str, Any] = {"within": "LowerOrNewerEqualPriority", "min_admit": "30m"}


@LISTS
def test_s12_8522_8_time_matters_within_a_queue_only(policy: Policy, leaving: Linger) -> None:
    """x and y own four each, and all have run for hours; both queues rotate, and neither takes from the other."""
    stage = Stage(queue("x", 4, **EQUALS, **ANY), queue("y", 4, **EQUALS, **ANY), policy=policy, leaving=leaving)
    stage.arrive(work("xa", queue="x"), work("ya", queue="y"), work("xb", queue="x"))
    stage.run("16:00")
    assert {each.workload for each in stage.evictions} == {"xa", "xb"}
    assert {each.reason for each in stage.evictions} == {"InClusterQueueTimeBased"}
    assert [each.workload for each in stage.evictions] == ["xa", "xb"] * 5 + ["xa"], "as without fair sharing"
    assert stage.ran_s("ya") >= 6 * 3600 - 1, "it ran all day"


@LISTS
def test_s12_a_borrower_leaves_by_shares_however_long_it_ran(policy: Policy, leaving: Linger) -> None:
    """y borrows two and runs for hours; x borrows as much, so none of y leaves for it. z is poorer, and takes one."""
    stage = Stage(
        cohort("r", 4), queue("x", 0, **ANY), *(queue(name, 0, **EQUALS, **ANY) for name in "yz"),
        policy=policy, leaving=leaving,
    )  # fmt: skip
    stage.arrive(work("xa", 2, queue="x"), work("ya", 1, queue="y"), work("yb", 1, queue="y"))
    stage.run("13:00")
    stage.arrive(work("xc", 1, queue="x", priority=0))
    stage.run("13:10")
    assert stage.evictions == []
    stage.arrive(work("za", 1, queue="z"))
    stage.run("13:20")
    assert [(each.reason, each.by) for each in stage.evictions[:1]] == [("InCohortFairSharing", "za")]
    taking_turns = {(each.reason, each.workload[0], each.by[0]) for each in stage.evictions[1:]}
    assert taking_turns <= {("InClusterQueueTimeBased", "y", "y")}
