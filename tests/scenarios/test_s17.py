"""What the test plans of KEP-83 and KEP-8522 demand (S-17), on the running engine; and the worked traces (S-18)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from makeway.adapters.simulator.simulation import Linger
from makeway.runtime.ports import Invalid
from tests.scenarios.stage import Planned, Stage, after_20_s, clock, queue, work

EQUALS = "LowerOrNewerEqualPriority"
HOUR = 3_600_000
TIME = "InClusterQueueTimeBased"


# --- KEP-83 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False], ids=["StrictFIFO", "BestEffortFIFO"])
def test_83_a_a_borrower_does_not_take_what_a_blocked_head_is_entitled_to(strict: bool) -> None:
    """No workload may be displaced for x's head; its entitlement is not lent for as long as it waits (S-5.14)."""
    stage = Stage(
        queue("x", 4, cohort="r", strict=strict, reclaim="LowerPriority"),
        queue("y", 2, cohort="r"),
        queue("z", 0, cohort="r"),
        work("lent", 4, queue="y", priority=9),
    )
    stage.create(work("entitled", 4, queue="x"), work("borrower", 2, queue="z"))
    stage.rest(60)
    first_entry = stage.entries("borrower")[0]
    assert (first_entry.what, stage.evictions) == ("skipped", [])
    assert stage.running == {"lent"}
    stage.finish("lent")
    stage.rest(1)
    assert "entitled" in stage.running


@pytest.mark.parametrize("strict", [True, False], ids=["StrictFIFO", "BestEffortFIFO"])
def test_83_a_nor_what_is_being_reclaimed_for_it(strict: bool, leaving: Linger) -> None:
    stage = Stage(
        queue("x", 4, cohort="r", strict=strict, reclaim="Any"),
        queue("y", 2, cohort="r"),
        work("lent-1", 2, queue="y"),
        work("lent-2", 2, queue="y"),
        leaving=leaving,
    )
    stage.create(work("entitled", 4, queue="x"), work("borrower", 2, queue="y"))
    stage.run("10:10")
    assert "entitled" in stage.running
    assert [each for each in stage.story("borrower") if each == "admitted"] == []
    assert len(stage.evictions) == 1, "one of the two is enough, for two are free"


def test_83_b_lower_priority_makes_way_in_its_own_queue(leaving: Linger) -> None:
    stage = Stage(queue("q", 4, within="LowerPriority"), work("low-1", 2), work("low-2", 2), leaving=leaving)
    stage.create(work("high", 4, priority=1))
    stage.run("10:00")
    assert {(each.workload, each.reason) for each in stage.evictions} == {
        ("low-1", "InClusterQueue"),
        ("low-2", "InClusterQueue"),
    }
    stage.run("10:10")
    assert stage.running == {"high"}
    assert len(stage.evictions) == 2
    assert stage.condition("low-1", "QuotaReserved")[0] == "False"


def test_83_c_what_was_lent_is_reclaimed_newest_first_and_not_below_the_lenders_own(leaving: Linger) -> None:
    """The worked trace S-18.1 too: six of size one on a quota of four, two must go."""
    stage = Stage(queue("x", 4, cohort="r", reclaim="Any"), queue("y", 4, cohort="r"), leaving=leaving)
    stage.arrive(*(work(f"y{i}", 1, queue="y") for i in range(1, 7)))
    stage.create(work("p", 4, queue="x"))
    stage.run("10:10")
    assert [(each.workload, each.reason) for each in stage.evictions] == [
        ("y6", "InCohortReclamation"),
        ("y5", "InCohortReclamation"),
    ]
    assert stage.running == {"p", "y1", "y2", "y3", "y4"}
    assert (stage.used("x"), stage.used("y")) == ("4", "4")


def test_18_2_overlapping_targets_in_one_cycle(leaving: Linger) -> None:
    stage = Stage(
        *(queue(name, 2, cohort="r", reclaim="Any") for name in ("x", "z", "u")),
        queue("y", 4, cohort="r"),
        leaving=leaving,
    )
    stage.arrive(work("y1", 6, queue="y"), work("y2", 4, queue="y"))
    for name in ("x", "z", "u"):
        stage.patch("ClusterQueue", name, {"spec": {"stopPolicy": "Hold"}})
    stage.arrive(work("p", 2, queue="x"), work("q", 2, queue="z"), work("r", 2, queue="u"))
    for name in ("x", "z", "u"):
        stage.patch("ClusterQueue", name, {"spec": {"stopPolicy": "None"}})
    stage.rest(0)
    assert {(each.workload, each.by) for each in stage.evictions} == {("y2", "p"), ("y1", "r")}
    stage.run("10:10")
    assert {"p", "q", "r"} <= stage.running
    assert len(stage.evictions) == 2


# --- KEP-8522 --------------------------------------------------------------------------------------------------------


def equals(nominal: int = 4, min_admit: str = "10m", leaving: Linger = after_20_s, **settings: object) -> Stage:
    return Stage(queue("q", nominal, within=EQUALS, min_admit=min_admit), leaving=leaving, **settings)  # type: ignore[arg-type]


def test_8522_1_an_equal_that_had_its_time_is_evicted(leaving: Linger) -> None:
    stage = equals(leaving=leaving)
    stage.arrive(work("a"), work("b"))
    stage.run("10:10:00")
    assert stage.evictions == []
    stage.run("10:12:00")
    assert stage.evictions == [("10:10:01", "a", TIME, "b")]
    assert stage.running == {"b"}


def test_8522_2_equals_take_turns_as_in_7_10(leaving: Linger) -> None:
    """No workload takes its place back before the one that displaced it has had its time."""
    stage = Stage(queue("q", 4, within=EQUALS, min_admit="4h"), leaving=leaving, begins="0:00")
    stage.create(work("a"))
    stage.run("0:05")
    stage.create(work("b"))
    stage.run("0:10")
    stage.create(work("c"))
    stage.run("4:00:01")
    assert stage.evictions == [("04:00:01", "a", TIME, "b")]
    stage.run("13:00")
    assert [(each.workload, each.by) for each in stage.evictions] == [("a", "b"), ("b", "c"), ("c", "a")]
    times = [clock(each.at) for each in stage.evictions]
    assert all(4 * HOUR < later - earlier <= 4 * HOUR + 41_000 for earlier, later in pairwise(times))
    assert stage.running == {"a"}


def test_8522_3_lower_priority_goes_before_an_equal_that_had_its_time(leaving: Linger) -> None:
    stage = equals(8, leaving=leaving)
    stage.arrive(work("equal", priority=5), work("low"))
    stage.run("10:30")
    stage.create(work("new", priority=5))
    stage.run("10:35")
    assert [(each.workload, each.reason) for each in stage.evictions] == [("low", "InClusterQueue")]
    assert stage.running == {"equal", "new"}


def test_8522_4_without_the_setting_only_newer_equals_make_way(leaving: Linger) -> None:
    """``old`` could not run at first and was overtaken; no other workload ever moves, however long they run."""
    stage = Stage(queue("q", 4, within=EQUALS), work("first", 3, priority=9), leaving=leaving)
    stage.arrive(work("old", 4), work("newer", 1), work("later", 4))
    assert stage.running == {"first", "newer"}
    stage.finish("first")
    stage.run("10:05")
    assert [(each.workload, each.reason, each.by) for each in stage.evictions] == [("newer", "InClusterQueue", "old")]
    assert stage.running == {"old"}
    stage.run("34:00")
    assert len(stage.evictions) == 1


def test_8522_5_exactly_the_duration_is_not_enough(leaving: Linger) -> None:
    """A workload comes in that very second, so that the queue is evaluated then."""
    stage = equals(leaving=leaving)
    stage.arrive(work("a"))
    stage.run("10:10:00")
    stage.create(work("b"))
    stage.rest(0)
    assert stage.evictions == []
    stage.run("10:10:01")
    assert stage.victims() == ["a"]


@pytest.mark.parametrize("at", ["10:00:30", "10:10:00", "10:10:01", "10:10:10", "10:15:00"])
def test_8522_6_a_restart_changes_no_decision(at: str) -> None:
    """At any time: while no holder has expired, just before, between eviction and release, and after."""
    told = []
    for restarts in (False, True):
        stage = equals()
        stage.arrive(work("a"), work("b"), work("c"))
        stage.run(at)
        if restarts:
            stage.restart()
        stage.run("10:45:00")
        told.append(stage.evictions)
    assert told[0] == told[1]
    assert [each.workload for each in told[0]] == ["a", "b", "c", "a"]


WRITES = 10  # of the first rotation


def rotation_that_ends(point: str, write: int) -> Stage:
    """Two equals take turns once, and the engine ends once, before or after one of its writes."""
    faults = Planned()
    stage = equals(faults=faults)
    faults.plan(point, skips=write)
    stage.arrive(work("a"), work("b"))
    stage.run("10:18:00")
    assert faults.fired[point] == 1
    return stage


@pytest.mark.parametrize("point", ["crash.before", "crash.after"])
def test_8522_6_nor_does_the_end_of_the_engine_at_any_write(point: str) -> None:
    for write in range(WRITES):
        stage = rotation_that_ends(point, write)
        assert stage.condition("a", "Preempted") == ("True", TIME), write
        assert stage.running == {"b"}, write


def test_8522_6_and_nobody_waits_for_an_eviction_that_was_never_issued() -> None:
    """The engine may end after it stored a claim and before it evicts the victims (P15)."""
    for point in ("crash.before", "crash.after"):
        for write in range(WRITES):
            stage = rotation_that_ends(point, write)
            assert stage.since("a", "Preempted") == "10:10:01", (point, write)
            assert stage.since("b", "QuotaReserved") == "10:10:21", (point, write)


def test_8522_7_of_several_the_longest_running_goes_first(leaving: Linger) -> None:
    stage = equals(12, leaving=leaving)
    stage.arrive(work("a"), work("b"), work("c"))
    stage.run("10:30")
    stage.create(work("p"), work("q"))
    stage.run("10:35")
    assert [(each.workload, each.by) for each in stage.evictions] == [("a", "p"), ("b", "q")]
    assert "c" in stage.running, "a, displaced by time, displaces none by time before it has waited as long (S-7.14)"
    stage.run("10:45")
    assert [(each.workload, each.by) for each in stage.evictions[2:3]] == [("c", "b")], "b has run a second less than a"


def test_8522_7_and_of_equally_long_running_ones_the_uid_decides() -> None:
    for names in (("a", "b", "c"), ("c", "a", "b")):
        stage = equals(12)
        stage.create(*(work(name) for name in names))
        stage.run("10:30")
        uids = {stage.get("Workload", name).metadata.uid: name for name in names}
        stage.create(work("p"))
        stage.rest(0)
        assert stage.victims() == [uids[min(uids)]]


@pytest.mark.parametrize(
    ("within", "config", "path"),
    [
        (EQUALS, {"minAdmitDuration": "59s"}, "minAdmitDuration"),
        (EQUALS, {"minAdmitDuration": "0s"}, "minAdmitDuration"),
        (EQUALS, {"minAdmitDuration": "-1m"}, "minAdmitDuration"),
        ("Never", {"minAdmitDuration": "10m"}, "withinClusterQueueConfig"),
        ("LowerPriority", {"minAdmitDuration": "10m"}, "withinClusterQueueConfig"),
        ("Never", {}, "withinClusterQueueConfig"),
    ],
)
def test_8522_9_what_makes_no_sense_is_rejected(within: str, config: dict[str, str], path: str) -> None:
    stage = Stage()
    preemption = {"withinClusterQueue": within, "withinClusterQueueConfig": config}
    with pytest.raises(Invalid) as refused:
        stage.create(queue("q", preemption=preemption))
    assert [each.path for each in refused.value.problems if each.path.endswith(path)]


def test_8522_9_one_minute_is_the_least() -> None:
    Stage(queue("q", within=EQUALS, min_admit="60s"))


# --- worked traces ---------------------------------------------------------------------------------------------------


def test_18_3_rotation_with_parking_second_by_second() -> None:
    stage = equals(leaving=lambda workload: 19_000)
    stage.create(work("a"))
    stage.run("10:01")
    assert stage.since("a", "QuotaReserved") == "10:00:00"
    stage.create(work("b"))
    stage.rest(0)
    assert stage.condition("b", "QuotaReserved") == ("False", "WaitingForQuota")
    cycles = stage.cycles
    stage.run("10:10:00")
    assert (stage.evictions, stage.cycles) == ([], cycles), "600 s is not more than 600 s"
    stage.run("10:10:01")
    assert stage.evictions == [("10:10:01", "a", TIME, "b")]
    assert stage.condition("b", "QuotaReserved") == ("False", "WaitingForPreemptedWorkloads")
    stage.run("10:10:19")
    assert (stage.holders, stage.running) == ({"a"}, set())
    stage.run("10:10:20")
    assert (stage.holders, stage.since("b", "QuotaReserved")) == ({"b"}, "10:10:20")
    assert stage.story("a")[-1] == "waiting"
    cycles = stage.cycles
    stage.run("10:20:00")
    assert (len(stage.evictions), stage.cycles) == (1, cycles)
    stage.run("10:20:20")
    assert (len(stage.evictions), stage.cycles) == (1, cycles + 1), "a has waited its time, and is looked at"
    stage.run("10:20:21")
    assert stage.evictions[1:] == [("10:20:21", "b", TIME, "a")]
