"""Options of one family: which yield, which take over (S-12.4, 12.5, 12.7). Their controller comes later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.cycle.options import preference, stays_beside
from makeway.core.model import FlavorName, Uid, Workload
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.testing.builders import cycle, evictions, holder, outcomes, pod_set, queue, seconds, state, workload

FLAVORS = {"best": 2, "good": 2, "poor": 2}


def option(rank: int, **settings: Any) -> Workload:
    name = list(FLAVORS)[rank]
    part = pod_set(cpu=2, allowed=frozenset({FlavorName(name)}))
    return workload(f"o{rank}", family=Uid("w"), option_rank=rank, pod_sets=(part,), **settings)


def runs(rank: int, **settings: Any) -> Workload:
    name = list(FLAVORS)[rank]
    made = holder(f"o{rank}", family=Uid("w"), option_rank=rank, usage={name: 2}, admitted=True, **settings)
    return made.but(pod_sets=option(rank).pod_sets)


def world(*parts: Workload, policy: Policy | None = None, **settings: Any) -> State:
    on_success = settings.pop("on_success", "RemoveLower")
    return state(queue("q", FLAVORS, on_success=on_success, **settings), *parts, policy=policy)


def test_S_12_4_the_place_of_its_best_flavor_is_its_preference() -> None:
    line = queue("q", FLAVORS)[0]
    assert preference(line, frozenset({FlavorName("good"), FlavorName("poor")})) == (1,)
    assert preference(line, frozenset({FlavorName("other")})) > (2,)


KEPT = {
    "S-12.5 a better one may go on": ("RemoveLower", None, 0, 1, True),
    "S-12.5 a worse one may not": ("RemoveLower", None, 2, 1, False),
    "S-12.5 nobody beside RemoveOther": ("RemoveOther", None, 0, 1, False),
    "S-12.5 the target and what is better may": ("RemoveBelowTarget", "good", 1, 2, True),
    "S-12.5 what is below the target may not": ("RemoveBelowTarget", "best", 1, 2, False),
    "S-12.5 a target that is nowhere is no bar": ("RemoveBelowTarget", "lost", 1, 2, True),
}


@pytest.mark.parametrize(("on_success", "target", "rank", "running", "stays"), KEPT.values(), ids=KEPT)
def test_who_stays_beside(on_success: str, target: str | None, rank: int, running: int, stays: bool) -> None:
    line = queue("q", FLAVORS, on_success=on_success, target_flavor=target)[0]
    assert stays_beside(line, option(rank), runs(running)) is stays


def test_S_5_7_1_a_worse_option_stands_back() -> None:
    on = world(runs(0), option(1))
    plan = cycle(on)
    assert outcomes(plan) == {"o1": "SiblingRuns"}
    assert plan.verdicts[0].steps[0].subjects[1] == "PendingEvaluation"


def test_S_12_7_1_a_better_option_that_fits_takes_over() -> None:
    on = world(runs(1), option(0))
    plan = cycle(on)
    assert outcomes(plan) == {"o0": "PendingMigration"}
    assert evictions(plan) == []
    assert plan.verdicts[0].replaces is not None
    (sibling,) = on.holders.of_queue[plan.verdicts[0].workload.queue].values()
    assert (sibling.uid, sibling.evicted) == ("o1", True)


@pytest.mark.parametrize(("preempts", "became"), [(False, "NoFit"), (True, "PendingPreemption")])
def test_R_50_a_running_family_preempts_to_move_up_only_on_request(preempts: bool, became: str) -> None:
    policy = replace(Policy.default(), option_upgrade_preempts=preempts)
    low = holder("low", usage={"best": 2}, priority=-1)
    plan = cycle(world(runs(1), low, option(0), policy=policy, within="LowerPriority"))
    assert outcomes(plan) == {"o0": became}


def test_S_7_4_and_never_its_equals() -> None:
    policy = replace(Policy.default(), option_upgrade_preempts=True)
    newer = holder("newer", usage={"best": 2}, queued=99)
    plan = cycle(world(runs(1), newer, option(0), policy=policy, within="LowerOrNewerEqualPriority"), 100)
    assert evictions(plan) == []


def test_S_12_7_2_with_checks_to_pass_the_sibling_goes_on() -> None:
    checks = (("look", frozenset({FlavorName("best")})),)
    on = world(runs(1), option(0), checks=checks)
    assert outcomes(cycle(on)) == {"o0": "admitted"}
    held = on.holders.find(option(0).queue, option(0).key)
    assert held is not None
    assert not held.admitted
    both = state(queue("q", {"best": 2, "good": 0}, on_success="RemoveLower", checks=checks), runs(1))
    both.hold(holder("full", usage={"best": 2}))
    both.push(option(0), seconds(0))
    assert outcomes(cycle(both)) == {"o0": "NoFit"}


def test_a_sibling_that_only_holds_a_reservation_keeps_nobody_away() -> None:
    on = world(runs(0).but(admitted=False), option(1))
    assert outcomes(cycle(on)) == {"o1": "admitted"}
