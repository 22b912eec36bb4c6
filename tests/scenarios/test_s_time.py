"""Traps of time-based preemption (S1 to S13) on the running engine: equals take turns, and no more often."""

from __future__ import annotations

import gc
from itertools import pairwise
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

from makeway.adapters.simulator.simulation import Linger
from tests.scenarios.stage import Planned, Stage, after_20_s, clock, named, queue, work

EQUALS = "LowerOrNewerEqualPriority"
TIME = "InClusterQueueTimeBased"
MINUTE = 60
HOUR = 60 * MINUTE


def equals(nominal: int = 4, min_admit: str = "30m", **settings: Any) -> Stage:
    strict = settings.pop("strict", False)
    return Stage(queue("q", nominal, within=EQUALS, min_admit=min_admit, strict=strict), **settings)


# --- S1, S8: taking turns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True], ids=["BestEffortFIFO", "StrictFIFO"])
def test_s1_two_equals_share_a_place_fairly(strict: bool, leaving: Linger) -> None:
    stage = equals(strict=strict, leaving=leaving)
    stage.arrive(work("a"), work("b"))
    stage.run("16:00")
    assert len(stage.evictions) == 11, "one in each window, and never more"
    assert {each.reason for each in stage.evictions} == {TIME}
    assert [each.workload for each in stage.evictions] == ["a", "b"] * 5 + ["a"]
    a, b = stage.ran_s("a"), stage.ran_s("b")
    assert abs(a - b) * 20 <= max(a, b), f"within 5 %: {a} s and {b} s"
    assert a + b > 6 * HOUR - 12 * 41, "the place is idle only while a victim leaves"
    assert stage.cycles <= 60


def test_s1_ten_waiters_get_the_same_time_up_to_one_turn(leaving: Linger) -> None:
    """In a day and a half each has six or seven turns."""
    stage = equals(leaving=leaving)
    names = [f"w{i}" for i in range(11)]
    stage.arrive(*(work(name) for name in names))
    stage.run("46:00")
    ran = [stage.ran_s(name) for name in names]
    assert max(ran) - min(ran) <= 30 * MINUTE + 1
    assert min(ran) >= 6 * 30 * MINUTE
    assert len(stage.evictions) <= 72


def test_s1_without_the_setting_nobody_is_displaced_by_time(leaving: Linger) -> None:
    stage = equals(min_admit="", leaving=leaving)
    stage.arrive(work("a"), work("b"))
    cycles = stage.cycles
    stage.run("34:00")
    assert (stage.running, stage.evictions, stage.cycles) == ({"a"}, [], cycles)


def test_s8_ten_waiters_and_one_place_that_expires(leaving: Linger) -> None:
    """One goes, for the head; the next one waits until that one has had its time in full."""
    stage = equals(leaving=leaving)
    stage.arrive(work("a"), *(work(f"w{i}") for i in range(10)))
    stage.run("10:35")
    assert stage.evictions == [("10:30:01", "a", TIME, "w0")]
    stage.run("11:40")
    assert [(each.workload, each.by) for each in stage.evictions] == [("a", "w0"), ("w0", "w1"), ("w1", "w2")]
    times = [clock(each.at) for each in stage.evictions]
    assert all(later - earlier > 30 * MINUTE * 1000 for earlier, later in pairwise(times))


# --- S2 to S4: when ---------------------------------------------------------------------------------------------------


def test_s2_at_the_threshold_not_yet_and_one_tick_later() -> None:
    """A workload arrives at each of the two seconds, so that not only a timer decides."""
    stage = equals(8)
    stage.create(work("a", 8))
    stage.run("10:30:00")
    stage.create(work("b", 8))
    stage.rest(0)
    assert stage.evictions == []
    stage.simulation.run(clock("10:30:01"))
    stage.create(work("c", 8))
    stage.rest(0)
    assert stage.evictions == [("10:30:01", "a", TIME, "b")]


@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("strict", [False, True], ids=["parked", "StrictFIFO head"])
def test_s3_the_threshold_passes_while_nothing_else_happens(strict: bool, restarts: bool) -> None:
    stage = equals(strict=strict)
    stage.arrive(work("a"), work("b"))
    if restarts:
        stage.run("10:15")
        stage.restart()
    stage.run("10:30:00")
    assert stage.evictions == []
    stage.run("10:30:01")
    assert stage.victims() == ["a"]


def test_s4_a_clock_that_steps_back_expires_nobody_early() -> None:
    """The engine's clock loses ten minutes: by that clock a has held its place for thirty at 10:40:01 of ours."""
    faults = Planned()
    stage = equals(faults=faults)
    stage.arrive(work("a"), work("b"))
    stage.run("10:05")
    faults.plan("clock.back", span_ms=10 * MINUTE * 1000)
    stage.create(work("passer-by", 1))
    stage.run("10:40:00")
    assert (faults.fired["clock.back"], stage.evictions) == (1, [])
    stage.run("10:40:01")
    assert stage.victims() == ["a"]
    stage.run("10:45")
    assert stage.running == {"b"}


def test_s4_a_reservation_in_the_future_is_no_age_at_all() -> None:
    """As with the clock of another machine that is ahead: it has its full time from then on."""
    stage = equals()
    stage.arrive(work("a"))
    stage.condition_set("a", "QuotaReserved", "True", "QuotaReserved", at="10:20:00")
    stage.arrive(work("b"))
    stage.run("10:50:00")
    assert stage.evictions == []
    stage.run("10:50:01")
    assert stage.victims() == ["a"]


def test_s4_a_clock_that_jumps_ahead_expires_no_more_than_are_needed() -> None:
    faults = Planned()
    stage = equals(12, faults=faults, leaving=after_20_s)
    stage.arrive(work("a"), work("b"), work("c"), work("p"))
    stage.run("10:05")
    faults.plan("clock.forward", span_ms=10 * HOUR * 1000)
    stage.create(work("far-too-large", 99))
    stage.run("10:05:10")
    assert faults.fired["clock.forward"] == 1
    assert stage.victims() == ["a"]
    stage.run("10:10")
    assert stage.running >= {"p"}


# --- S5 to S7: victims ------------------------------------------------------------------------------------------------


def test_s5_two_of_the_same_second_never_displace_each_other_as_newer(leaving: Linger) -> None:
    """Six come at once and two find room; no workload moves before its time."""
    stage = equals(8, leaving=leaving)
    stage.create(*(work(f"w{i}") for i in range(6)))
    stage.run("10:30:00")
    uids = {stage.get("Workload", f"w{i}").metadata.uid: f"w{i}" for i in range(6)}
    assert stage.running == {uids[uid] for uid in sorted(uids)[:2]}
    assert stage.evictions == []
    stage.run("10:35:00")
    assert len(stage.evictions) == 2
    assert stage.running == {uids[uid] for uid in sorted(uids)[2:4]}


def test_s6_lower_priority_goes_first_even_if_an_equal_has_expired(leaving: Linger) -> None:
    """The low one has only just begun; where it does not suffice the equal goes too."""
    stage = equals(8, leaving=leaving)
    stage.arrive(work("equal", priority=5))
    stage.run("12:00")
    stage.arrive(work("low"), work("p", priority=5))
    stage.rest(60)
    assert [(each.workload, each.reason) for each in stage.evictions] == [("low", "InClusterQueue")]
    assert stage.running == {"equal", "p"}


def test_s7_expired_ones_go_longest_running_first_then_newer_ones_newest_first() -> None:
    """S-7.8 on the engine: while p was switched off, four that came after it began to run; p needs the room of all."""
    stage = equals(16, min_admit="1h")
    stage.create(work("p", 16, active=False))
    for at, name in (("10:30", "longest"), ("11:00", "long"), ("11:40", "newer"), ("11:50", "newest")):
        stage.run(at)
        stage.create(work(name))
    stage.run("12:20")
    stage.patch("Workload", "p", {"spec": {"active": True}})
    stage.rest(0)
    entry = next(each for each in stage.entries("p") if each.what == "preempting")
    assert [each.partition("/")[2] for each in entry.victims] == ["longest", "long", "newest", "newer"]
    reasons = {each.workload: each.reason for each in stage.evictions}
    assert reasons == {"longest": TIME, "long": TIME, "newest": "InClusterQueue", "newer": "InClusterQueue"}


# --- S9 to S11, S13 ---------------------------------------------------------------------------------------------------


def with_min_admit(span: str) -> dict[str, Any]:
    return {"spec": {"preemption": {"withinClusterQueueConfig": {"minAdmitDuration": span}}}}


def test_s9_a_shorter_duration_counts_from_the_next_decision(leaving: Linger) -> None:
    """One is asked to leave, because one waits; and in one window none is asked twice."""
    stage = equals(12, leaving=leaving)
    stage.arrive(work("a"), work("b"), work("c"), work("p"))
    stage.run("10:10")
    stage.patch("ClusterQueue", "q", with_min_admit("5m"))
    stage.rest(0)
    assert stage.evictions[0] == ("10:10:00", "a", TIME, "p")
    assert [each.victims for each in stage.entries("p") if each.victims] == [("default/a",)]
    stage.run("10:15")
    assert len(set(stage.victims())) == len(stage.victims())


def test_s9_and_evicts_nobody_where_nobody_waits() -> None:
    stage = equals(12)
    stage.arrive(work("a"), work("b"), work("c"))
    stage.run("10:10")
    stage.patch("ClusterQueue", "q", with_min_admit("5m"))
    stage.run("12:00")
    assert (stage.evictions, stage.running) == ([], {"a", "b", "c"})


def test_s9_a_longer_one_too(leaving: Linger) -> None:
    stage = equals(leaving=leaving)
    stage.arrive(work("a"), work("b"))
    stage.run("10:29")
    stage.patch("ClusterQueue", "q", with_min_admit("45m"))
    stage.run("10:45:00")
    assert stage.evictions == []
    stage.run("10:45:01")
    assert stage.victims() == ["a"]


def test_s9_and_so_does_taking_it_away() -> None:
    stage = equals()
    stage.arrive(work("a"), work("b"))
    stage.run("10:29")
    stage.patch("ClusterQueue", "q", {"spec": {"preemption": {"withinClusterQueueConfig": None}}})
    stage.run("20:00")
    assert stage.evictions == []


def test_s10_a_start_that_comes_during_the_eviction_does_not_undo_it() -> None:
    """The victim holds quota but waits for a check; the check passes just when it is asked to leave."""
    stage = Stage(
        named("AdmissionCheck", "audit", {"controllerName": "example.com/audit"}),
        queue(
            "q", within=EQUALS, min_admit="30m",
            admissionChecksStrategy={"admissionChecks": [{"name": "audit"}]},
        ),
        leaving=after_20_s,
    )  # fmt: skip
    at = "2026-01-01T10:00:00Z"
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": at}
    stage.patch("AdmissionCheck", "audit", {"status": {"conditions": [active]}}, status=True)
    stage.arrive(work("a"), work("b"))
    assert (stage.holders, stage.running) == ({"a"}, set())
    stage.run("10:30:05")
    assert stage.victims() == ["a"]
    ready = {"name": "audit", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T10:30:05Z"}
    stage.patch("Workload", "a", {"status": {"admissionChecks": [ready]}}, status=True)
    stage.rest(0)
    assert (stage.running, stage.condition("a", "Evicted")) == (set(), ("True", "Preempted"))
    assert stage.since("a", "QuotaReserved") == "10:00:00", "the clock is that of the reservation"
    stage.run("10:31:00")
    assert stage.holders == {"b"}
    stage.run("11:02:00")
    assert stage.victims() == ["a", "b"], "and a waits for its turn like any other"


CODE = (type, ModuleType, FunctionType, BuiltinFunctionType)


def reachable(*roots: object) -> int:
    """How many objects can be reached from these, without code."""
    seen: set[int] = set()
    found = list(roots)
    while found:
        each = found.pop()
        if id(each) not in seen and gc.is_tracked(each) and not isinstance(each, CODE):
            seen.add(id(each))
            found.extend(gc.get_referents(each))
    return len(seen)


def test_s11_who_is_protected_from_whom_is_not_remembered() -> None:
    """As many again of running and of waiting workloads cost as much again: pairs would cost ever more."""

    def cost(count: int) -> int:
        stage = equals(4 * count)
        stage.create(*(work(f"runs-{i}") for i in range(count)))
        stage.rest(0)
        stage.create(*(work(f"waits-{i}", 4 + i) for i in range(count)))
        stage.run("10:20")
        assert len(stage.running) == count
        state = stage.simulation.engine.engine.state
        return reachable(state)

    few, some, many = cost(10), cost(20), cost(30)
    assert some - few > 0
    assert (many - some) - (some - few) < 100, "two hundred pairs more the second time"


def test_s13_each_is_told_and_counted_once_with_its_rule(leaving: Linger) -> None:
    stage = equals(leaving=leaving)
    stage.arrive(work("a"), work("b"))
    stage.run("10:35")
    assert stage.evictions == [("10:30:01", "a", TIME, "b")]
    assert stage.condition("a", "Preempted") == ("True", TIME)
    assert stage.condition("a", "Evicted") == ("True", "Preempted")
    assert stage.notes("a", "Preempted") == stage.notes("b", "PreemptedWorkload") == 1
    assert stage.counted("kueue_preempted_workloads_total", "q", TIME) == 1
    (because,) = [each for each in stage.entries("a") if each.what == "evicted"]
    assert because.steps[0][0] == "preempt/time-expired"


# --- nothing spins ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False], ids=["StrictFIFO", "BestEffortFIFO"])
def test_s_5_1_a_blocked_head_costs_nothing_while_nothing_changes(strict: bool) -> None:
    stage = Stage(queue("q", 4, strict=strict, within="LowerPriority"))
    stage.arrive(work("too-large", 6), work("runs", 4, priority=5), work("waits", 4))
    stage.run("10:01")
    cycles, writes, turns = stage.cycles, stage.simulation.engine.writes, stage.simulation.driver.turns
    stage.run("11:01")
    assert stage.cycles == cycles
    assert stage.simulation.engine.writes == writes
    assert stage.simulation.driver.turns - turns < 10, "not even a look at the clock"


def test_s_5_1_nor_does_a_strict_head_that_waits_for_a_time_of_its_own() -> None:
    """Only the one cycle at the end of the duration."""
    stage = equals(strict=True, min_admit="45m")
    stage.arrive(work("a"), work("b"))
    stage.run("10:01")
    cycles = stage.cycles
    stage.run("10:45:00")
    assert stage.cycles == cycles
    stage.run("10:45:01")
    assert stage.victims() == ["a"]
