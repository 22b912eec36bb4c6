"""Where the rules lead by themselves: cycles in memory, victims that return, and an end to it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.api import codec
from makeway.api.quantity import Time
from makeway.core.lowering import load_state
from makeway.core.model import FlavorGroup, Millis, ResourceName
from makeway.core.planning import CYCLES_MAX, PlannedCycle, PlannedCycles, StillWaiting, needs, plan_cycles
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.testing.builders import FLAVOR, Part, clock, cohort, holder, queue, seconds, state, workload
from tests.model.play import play, strategies_of
from tests.model.scenarios import seeded

NOW = seconds(clock("12:00"))
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"
Raw = dict[str, Any]


def planned(*parts: Part, cycles: int | None = None, policy: Policy | None = None) -> PlannedCycles:
    return plan_cycles(state(*parts, policy=policy), NOW, cycles=cycles)


def admitted(plan: PlannedCycles) -> list[list[str]]:
    return [[each.workload.uid for each in cycle.plan.admitted] for cycle in plan.cycles]


def preempted(plan: PlannedCycles) -> list[list[tuple[str, str, str]]]:
    return [[(each.workload.uid, each.by.uid, each.reason) for each in cycle.preempted] for cycle in plan.cycles]


def waiting(cycle: PlannedCycle) -> dict[str, StillWaiting]:
    return {each.workload.removeprefix("default/"): each for each in cycle.pending}


# --- how it goes on, and when it ends ---------------------------------------------------------------------------------


def test_a_head_per_queue_and_cycle_until_all_are_in() -> None:
    plan = planned(queue("q", 4), workload("a"), workload("b", queued=1), workload("c", queued=2))
    assert admitted(plan) == [["a"], ["b"], ["c"]]
    assert plan.settled
    assert plan.cycles[-1].pending == ()


def test_nothing_to_do_is_one_cycle_that_says_so() -> None:
    plan = planned(queue("q", 4), holder("runs"))
    assert len(plan.cycles) == 1
    assert not plan.cycles[0].changes
    assert plan.settled


def test_victims_leave_between_cycles_and_wait_again() -> None:
    parts = queue("q", 4, within="LowerPriority"), holder("low", cpu=4), workload("high", cpu=4, priority=9)
    plan = planned(*parts)
    assert preempted(plan) == [[("low", "high", "InClusterQueue")], []]
    assert admitted(plan) == [[], ["high"]]
    assert waiting(plan.cycles[0])["high"].reason == "WaitingForPreemptedWorkloads"
    for cycle in plan.cycles[1:]:  # evaluated beside the claimant of what it left, and again when that is admitted
        assert (waiting(cycle)["low"].reason, waiting(cycle)["low"].message) == ("WaitingForQuota", SHORT.format(4))


def test_a_victim_that_was_not_looked_at_yet_is_told_who_displaced_it() -> None:
    plan = planned(
        queue("q", 4, within="LowerPriority"),
        holder("low", cpu=4),
        workload("high", cpu=4, priority=9),
        workload("next", cpu=4, priority=1, queued=1),
    )
    returned = waiting(plan.cycles[1])["low"]
    assert (returned.reason, returned.message) == (
        "PendingEvaluation", "Preempted by default/high, waits to be looked at again",
    )  # fmt: skip


def test_who_had_its_time_comes_back_behind_those_who_waited() -> None:
    """Time stands still, so the workload that took over stays."""
    plan = planned(
        queue("q", 4, within="LowerOrNewerEqualPriority", min_admit=60),
        holder("first", cpu=4, reserved=clock("11:00")),
        workload("second", cpu=4, queued=clock("11:30")),
    )
    assert preempted(plan)[0] == [("first", "second", "InClusterQueueTimeBased")]
    assert admitted(plan) == [[], ["second"]]
    assert plan.settled


def test_a_number_of_cycles_is_kept_also_when_nothing_happens_any_more() -> None:
    plan = planned(queue("q", 4), workload("a"), cycles=3)
    assert admitted(plan) == [["a"], [], []]
    assert plan.settled


def test_a_plan_that_is_cut_short_says_so() -> None:
    plan = planned(queue("q", 4), workload("a"), workload("b", queued=1), cycles=1)
    assert not plan.settled


def test_a_plan_without_end_stops_at_the_limit() -> None:
    plan = planned(queue("q", CYCLES_MAX + 1), *(workload(f"w{i:03}", queued=i) for i in range(CYCLES_MAX + 1)))
    assert len(plan.cycles) == CYCLES_MAX
    assert not plan.settled


def test_a_strict_head_that_parity_judges_in_every_cycle_does_not_go_on_for_ever() -> None:
    plan = planned(queue("q", 4, strict=True), workload("large", cpu=9), workload("small"), policy=Policy.parity())
    assert len(plan.cycles) == 1
    assert plan.settled


def test_an_admission_makes_a_refused_strict_head_look_again() -> None:
    """An admitted workload may be a victim; here it is none, so the second evaluation is the last."""
    plan = planned(
        cohort("all"),
        queue("strict", 4, cohort="all", borrowing=0, strict=True, within="LowerPriority"),
        queue("other", 4, cohort="all"),
        holder("stays", queue="strict", cpu=2, priority=9),
        workload("head", queue="strict", cpu=4, priority=5),
        workload("small", queue="other", cpu=1, queued=1),
        cycles=2,
    )
    judged = [[each.workload.uid for each in cycle.plan.verdicts] for cycle in plan.cycles]
    assert judged == [["small", "head"], ["head"]]
    assert plan.settled


def test_equal_states_give_equal_plans() -> None:
    parts = (
        cohort("all"),
        queue("a", 4, cohort="all", reclaim="Any"),
        queue("b", 4, cohort="all"),
        holder("lent", queue="b", cpu=8),
        workload("back", queue="a", cpu=2),
        workload("more", queue="b", cpu=2),
    )
    assert told(planned(*parts)) == told(planned(*reversed(parts)))


def told(plan: PlannedCycles) -> object:
    return admitted(plan), preempted(plan), [cycle.pending for cycle in plan.cycles]


# --- what those who wait are told -------------------------------------------------------------------------------------


def test_a_parked_workload_keeps_its_last_reason() -> None:
    plan = planned(queue("q", 4), workload("large", cpu=9), workload("a", queued=1), workload("b", queued=2))
    last = waiting(plan.cycles[-1])["large"]
    assert (last.reason, last.parked) == ("ExceedsMaxQuota", True)
    assert last == waiting(plan.cycles[0])["large"]
    assert last.message == (
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered "
        "podsets requests (0) + current podset request (9) > maximum capacity (4)"
    )


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ("b", "Waits behind default/a in ClusterQueue q"),
        ("c", "Waits behind default/a and 1 more in ClusterQueue q"),
    ],
)
def test_who_was_not_looked_at_waits_behind_the_first(who: str, message: str) -> None:
    parts = queue("q", 4, strict=True), workload("a", cpu=9), workload("b", queued=1), workload("c", queued=2)
    found = waiting(planned(*parts).cycles[0])[who]
    assert (found.reason, found.message, found.parked) == ("PendingEvaluation", message, False)


def test_an_inactive_queue_is_the_reason() -> None:
    parts = queue("q", 4, active=False, inactive_because="FlavorNotFound"), workload("a")
    found = waiting(planned(*parts).cycles[0])["a"]
    assert (found.reason, found.message) == ("PendingEvaluation", "ClusterQueue q is inactive: FlavorNotFound")


def test_a_queue_that_is_not_there_is_the_reason() -> None:
    found = waiting(planned(workload("a", queue="gone")).cycles[0])["a"]
    assert (found.reason, found.message) == ("Misconfigured", "ClusterQueue gone not found")


def test_a_back_off_says_until_when() -> None:
    parts = queue("q", 4), workload("a", requeue_at=Millis(NOW + 60_000))
    found = waiting(planned(*parts).cycles[0])["a"]
    assert (found.message, found.parked) == ("Backs off until 1970-01-01T12:01:00Z", True)


def test_equals_of_a_refused_one_share_its_reason() -> None:
    parts = queue("q", 4), holder("runs", cpu=4), workload("a", cpu=2), workload("b", cpu=2, queued=1)
    found = waiting(planned(*parts).cycles[0])["b"]
    assert found.reason == "PendingEvaluation"
    assert found.message == f"Asks for the same as default/a: {SHORT.format(2)}"
    assert [need.missing for need in found.needs] == [2000]


# --- what it would take -----------------------------------------------------------------------------------------------


def test_what_is_missing_and_who_holds_it() -> None:
    plan = planned(
        cohort("all"),
        queue("q", 4, cohort="all"),
        queue("other", 4, cohort="all"),
        holder("large", queue="other", cpu=5),
        holder("small", cpu=1),
        workload("a", cpu=4),
    )
    (need,) = waiting(plan.cycles[0])["a"].needs
    assert need[:7] == ("main", "cpu", "default", 4000, 2000, 2000, 8000)
    assert need.holders == (("default/large", 5000), ("default/small", 1000))


def test_the_five_largest_are_named_equals_by_name() -> None:
    running = [holder(name, cpu=cpu) for name, cpu in zip("gfedcba", (1, 2, 1, 1, 3, 1, 1), strict=True)]
    plan = planned(queue("q", 10), *running, workload("in", cpu=2))
    (need,) = waiting(plan.cycles[0])["in"].needs
    assert [each.workload for each in need.holders] == [f"default/{name}" for name in "cfabd"]


def test_a_resource_without_quota_needs_it_in_any_flavor() -> None:
    plan = planned(queue("q", 4), workload("a", requests={"gpu": 1}))
    found = waiting(plan.cycles[0])["a"]
    assert found.message == "couldn't assign flavors to pod set main: resource gpu unavailable in ClusterQueue"
    assert [(need.resource, need.flavor, need.missing) for need in found.needs] == [("gpu", "", 1)]


def test_who_lost_the_room_is_told_what_is_missing_now() -> None:
    plan = planned(
        cohort("all", 4),
        queue("a", {FLAVOR: 0}, cohort="all"),
        queue("b", {FLAVOR: 0}, cohort="all"),
        workload("first", queue="a", cpu=3),
        workload("second", queue="b", cpu=3, queued=1),
    )
    found = waiting(plan.cycles[0])["second"]
    assert found.message == "Workload no longer fits after processing another workload"
    assert [(need.free, need.missing) for need in found.needs] == [(1000, 2000)]


def test_a_scan_that_went_on_is_told_about_the_flavors_before_too() -> None:
    groups = (FlavorGroup(resources=(ResourceName("cpu"),), flavors=(FLAVOR, "tight")),)  # type: ignore[arg-type]
    plan = planned(
        cohort("all", 4),
        queue("a", {FLAVOR: 0, "tight": 0}, cohort="all", groups=groups),
        queue("b", {FLAVOR: 0, "tight": 0}, cohort="all", groups=groups),
        workload("first", queue="a", cpu=3),
        workload("second", queue="b", cpu=3, queued=1),
    )
    assert {need.flavor for need in waiting(plan.cycles[-1])["second"].needs} == {FLAVOR, "tight"}


def test_needs_of_a_verdict_are_those_of_its_steps() -> None:
    on: State = state(queue("q", 4), holder("runs", cpu=3), workload("a", cpu=2))
    (verdict,) = plan_cycles(on, NOW).cycles[0].plan.verdicts
    assert [(need.needed, need.free, need.missing) for need in needs(on, verdict)] == [(2000, 1000, 1000)]


# --- a second opinion -------------------------------------------------------------------------------------------------


def facts_of(plan: PlannedCycles) -> list[object]:
    return [
        (
            sorted(each.workload.key for each in cycle.plan.admitted),
            sorted([each.workload.key, each.by.key, each.reason] for each in cycle.preempted),
            sorted(each.workload for each in cycle.pending if each.parked),
        )
        for cycle in plan.cycles
    ]


def model_facts(scenario: Raw, profile: str) -> list[object]:
    return [
        (
            sorted(each["quotaReserved"]),
            each["preempted"],
            sorted(key for keys in each["parked"].values() for key in keys),
        )
        for each in play({**scenario, "stepMillis": 0, "events": []}, profile)
    ]


def plan_of(scenario: Raw) -> PlannedCycles:
    policy = Policy.parity()
    policy = replace(
        policy,
        gates=policy.gates.turned(scenario.get("featureGates") or {}),
        fair_strategies=strategies_of(scenario),  # type: ignore[arg-type]
    )
    objects = [value for raw in scenario["objects"] if (value := codec.read(raw, limits=False).value) is not None]
    now = Millis(Time.parse(scenario["now"]).millis)
    return plan_cycles(load_state(objects, policy, now).state, now, cycles=scenario["cycles"])


@pytest.mark.parametrize("seed", range(60))
def test_the_model_plans_the_same(seed: int) -> None:
    scenario = seeded(seed)
    assert facts_of(plan_of(json.loads(json.dumps(scenario)))) == model_facts(scenario, "parity")


@pytest.mark.conformance
def test_the_model_plans_the_recorded_scenarios_alike(shared: Path) -> None:
    with gzip.open(shared / "vectors" / "kueue" / "oracle_small.jsonl.gz", "rt", encoding="utf-8") as file:
        cases = [json.loads(line) for line in file][:200]
    for case in cases:
        scenario = {**case, "cycles": len(case["want"]["cycles"])}
        assert facts_of(plan_of(json.loads(json.dumps(scenario)))) == model_facts(scenario, "parity"), case["name"]
