"""Queues of one parent reclaim by their weights while their victims leave, whatever the order of arrival (S-9.14).

12 cpu of the root; best-effort has weight 0.5 beside research with 1. Within research chemistry and physics have 1,
llm has 2. By weights best-effort gets 4, chemistry and physics 2 each, llm 4.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.simulator.simulation import Linger
from makeway.core.policy import Policy
from tests.scenarios.stage import Stage, Tree, after_20_s, at_once, flavor, named, queue, quotas, unsynchronised, work

pytestmark = pytest.mark.slow

FAIR = replace(Policy.default(), fair_strategies=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))
PARITY = replace(Policy.of_profile("parity"), fair_strategies=FAIR.fair_strategies)
BY_WEIGHTS = {"best": 4, "chemistry": 2, "physics": 2, "llm": 4}
ROUNDS = 6  # of arrivals, one in each queue


def cohort(name: str, parent: str = "", weight: str = "", cpu: int = 0) -> Tree:
    spec: Tree = {"resourceGroups": quotas(cpu)}
    spec |= {"parentName": parent} if parent else {}
    return named("Cohort", name, spec | ({"fairSharing": {"weight": weight}} if weight else {}))


def full(first: str, second: str, **settings: Any) -> Stage:
    """All 12 cpu are held by work of low priority in two queues."""
    research = [cohort(name, "research", weight) for name, weight in (("chemistry", ""), ("physics", ""), ("llm", "2"))]
    stage = Stage(
        flavor(), cohort("root", cpu=12), cohort("research", "root"), cohort("best", "root", "500m"), *research,
        *(queue(name, 0, cohort=name, reclaim="LowerPriority") for name in ("chemistry", "physics", "llm")),
        queue("best", 0, cohort="best"), **{"policy": FAIR, **settings},
    )  # fmt: skip
    stage.arrive(*(work(f"{name}-old-{i}", 1, queue=name, priority=-1) for i, name in enumerate((first, second) * 6)))
    assert len(stage.running) == 12
    return stage


def come(stage: Stage, gap_s: int) -> None:
    """Work of high priority, more than there is room for."""
    for i in range(ROUNDS):
        for name in ("chemistry", "physics", "llm", "best"):
            stage.create(work(f"{name}-new-{i}", 1, queue=name, priority=100))
            if gap_s:
                stage.rest(gap_s)
    stage.rest(1800)


def running(stage: Stage) -> dict[str, int]:
    return dict(Counter(name.partition("-")[0] for name in stage.running))


@pytest.mark.parametrize("gap_s", [0, 1, 5])
@pytest.mark.parametrize("leaving", [after_20_s, unsynchronised], ids=lambda each: each.__name__)
def test_weights_decide_and_nobody_leaves_in_vain(leaving: Linger, gap_s: int) -> None:
    stage = full("best", "physics", leaving=leaving)
    come(stage, gap_s)
    assert running(stage) == BY_WEIGHTS
    assert Counter(name.partition("-")[0] for name in stage.victims()) == {"best": 2, "physics": 4}


@pytest.mark.parametrize("leaving", [after_20_s, unsynchronised], ids=lambda each: each.__name__)
def test_one_that_holds_all_gives_up_what_is_not_its_share(leaving: Linger) -> None:
    stage = full("best", "best", leaving=leaving, begins="10:00")
    come(stage, 1)
    assert running(stage) == BY_WEIGHTS
    assert len(stage.evictions) == 8


def test_a_restart_in_between_changes_nothing() -> None:
    stage = full("best", "physics", leaving=after_20_s)
    for i in range(ROUNDS):
        for name in ("chemistry", "physics", "llm", "best"):
            stage.create(work(f"{name}-new-{i}", 1, queue=name, priority=100))
            stage.rest(1)
        if i in (1, 3):
            stage.restart()
    stage.rest(1800)
    assert running(stage) == BY_WEIGHTS


@pytest.mark.parametrize("policy", [FAIR, PARITY], ids=["default", "parity"])
def test_what_runs_already_stays_where_the_policy_protects_it(policy: Policy) -> None:
    """Victims that leave at once make room at once: the third of chemistry runs before llm has asked for its fourth.

    LowerPriority keeps equals from displacing each other, so arrival decides; the recorded system does the same.
    """
    stage = full("best", "physics", leaving=at_once, policy=policy)
    come(stage, 1)
    assert running(stage) == {"best": 4, "chemistry": 3, "physics": 2, "llm": 3}
