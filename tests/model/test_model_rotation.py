"""Turns in the model: S-7.14, S-4.5.3, S-4.6.9, and counts that end (S-19.3.2, 19.3.3)."""

from __future__ import annotations

from collections.abc import Sized
from itertools import pairwise
from typing import Any

import pytest

from tests.model import claims, facts, queues, rounds
from tests.model.builders import NOON, pending, policy, queue, running, world
from tests.model.cycle import Result, cycle
from tests.model.facts import Raw
from tests.model.play import between_cycles, cycles_of
from tests.model.scenarios import rotating
from tests.model.stories import Diary, live
from tests.model.world import World, make_settings

pytestmark = pytest.mark.slow

SECOND = 1000
HOUR = 3600
BY_TIME = "InClusterQueueTimeBased"


def at(seconds: int) -> int:
    return NOON + seconds * SECOND


def told(result: Result) -> dict[str, str]:
    return {e.p.key.removeprefix("ns/"): str(e.status or e.reason) for e in result.entries}


def turning(nominal: int, least: str = "1m", cohort: str | None = None, **spec: Any) -> list[Raw]:
    config = {"minAdmitDuration": least}
    rule = policy("LowerOrNewerEqualPriority", withinClusterQueueConfig=config)
    return queue("x", nominal, cohort, preemption=rule, **spec)


def displaced(name: str, size: int, seconds_ago: int, prio: int = 0, ran: int = 60) -> Raw:
    wl = pending(name, "x", size, prio)
    for kind, reason in (("Evicted", "Preempted"), ("Preempted", BY_TIME), ("Requeued", "Preempted")):
        facts.set_condition(wl, kind, True, reason, at(-seconds_ago))
    wl["status"]["accumulatedPastExecutionTimeSeconds"] = ran
    return wl


def hours(diary: Diary, name: str) -> float:
    return diary.ran[f"ns/{name}"] / SECOND / HOUR


# stories


def back_within(diary: Diary, seconds: int) -> list[str]:
    """The workloads that are back so soon after they were displaced by time."""
    return [
        who
        for when, who, _ in diary.evictions(BY_TIME)
        if any(0 <= start - when < seconds * SECOND for start in diary.started[who])
    ]


def test_three_equals_on_two_slots() -> None:
    objects = [*turning(2, "1h"), *(pending(name, "x", 1) for name in "abc")]
    diary = live(objects, 24 * HOUR)
    assert all(15 <= hours(diary, name) <= 17 for name in "abc"), diary.ran
    assert len(diary.evicted) <= 24
    assert back_within(diary, 90) == []


def test_three_equals_literally() -> None:
    """Without 7.14 a displaced one displaces the next at once, and one of the three is never displaced for long."""
    objects = [*turning(2, "1h"), *(pending(name, "x", 1) for name in "abc")]
    diary = live(objects, 24 * HOUR, rotation="Literal")
    assert len(diary.evicted) > 24


def test_a_large_one_among_small_ones() -> None:
    came = {"a": "00:00", "b": "00:30", "c": "00:31", "d": "00:32"}
    small = [pending(name, "x", 1, created=created) for name, created in came.items()]
    objects = [*turning(2, "1h"), *small, pending("big", "x", 2, created="00:33:20")]
    diary = live(objects, 24 * HOUR)
    times = [hours(diary, name) for name in ("a", "b", "c", "d", "big")]
    assert max(times) <= min(times) * 4 / 3, times
    gaps = [b - a for a, b in pairwise([*diary.started["ns/big"], facts.millis("2024-01-02T00:00:00Z")])]
    assert max(gaps) <= 5 * HOUR * SECOND  # d for itself, and for each of the four once


def test_the_tie_of_a_strict_queue() -> None:
    """A victim does not get its place back before its preemptor has run."""
    objects = [
        *turning(2, "10m", queueingStrategy="StrictFIFO"),
        pending("a", "x", 1, created="00:00"),
        pending("b", "x", 1, created="00:00:05"),
        pending("c", "x", 1, created="00:20"),
    ]
    diary = live(objects, 24 * HOUR, step=30)
    for when, who, by in diary.evictions(BY_TIME):
        later = [start for start in diary.started[by] if start >= when]
        mine = [start for start in diary.started[who] if start > when]
        assert later, (when, who, by)
        assert not mine or min(later) <= min(mine), (when, who, by)
    times = [diary.ran[f"ns/{name}"] for name in "abc"]
    assert max(times) - min(times) <= 31 * 60 * SECOND  # one period, and the head start of 20 minutes


def test_rounds_do_not_end_a_rotation() -> None:
    objects = [
        *turning(2, "1h"),
        pending("v", "x", 1, created="00:00"),
        pending("w", "x", 2, created="00:01"),
        pending("l", "x", 1, prio=-1, created="00:02"),
    ]
    diary = live(objects, 48 * HOUR)
    assert 23 <= hours(diary, "v") <= 25, diary.ran
    assert 23 <= hours(diary, "w") <= 25, diary.ran


def test_rounds_above_nominal_do_not_end_a_rotation() -> None:
    objects = [
        *turning(3, "1h", cohort="co"),
        *queue("lender", 1, "co"),
        pending("k", "x", 1, prio=1, created="00:00"),
        pending("v", "x", 1, created="00:00:10"),
        pending("w", "x", 3, created="00:01"),
        pending("l", "x", 1, prio=-1, created="00:02"),
    ]
    diary = live(objects, 24 * HOUR)
    assert hours(diary, "w") >= 11, diary.ran


# S-7.14 (a)


def test_who_was_displaced_by_time_rests() -> None:
    """No equal makes way before t + d, neither newer nor expired; then only it is due."""
    w = world(turning(2), running("old", "x", 2, created="08:00", reserved="10:00"), displaced("a", 2, 20))
    assert told(cycle(w, at(0))) == {"a": "PreemptionNoCandidates"}
    other = pending("other", "x", 9)
    queues.create(w, other, at(1))
    assert told(cycle(w, at(1))) == {"other": "NoFit"}
    assert queues.wake_turns(w, at(1), at(39)) == []
    assert queues.wake_turns(w, at(39), at(40)) == ["ns/a"]
    assert w.parked["x"] == {"ns/other"}
    assert told(cycle(w, at(40))) == {"a": "PendingPreemption"}


def test_a_resting_one_displaces_lower_priorities() -> None:
    w = world(turning(2), running("low", "x", 2, prio=-1), displaced("a", 2, 20))
    assert cycle(w, at(0)).preempted == [("ns/low", "ns/a", "InClusterQueue")]


def test_a_resting_one_displaces_nobody_newer() -> None:
    newer = running("young", "x", 2, created="13:00", reserved="11:59:50")
    w = world(turning(2), newer, displaced("a", 2, 20))
    assert told(cycle(w, at(0))) == {"a": "PreemptionNoCandidates"}


def test_a_resting_ones_verdict_is_its_own() -> None:
    """One of the same shape, though later, is evaluated (S-7.14d)."""
    w = world(turning(2), running("old", "x", 2, created="08:00", reserved="10:00"), displaced("a", 2, 20))
    cycle(w, at(0))
    queues.create(w, pending("later", "x", 2, created="12:00:01"), at(1))
    assert told(cycle(w, at(1))) == {"later": "PendingPreemption"}


def test_literally_there_is_no_rest() -> None:
    w = world(turning(2), running("old", "x", 2, created="08:00", reserved="10:00"), displaced("a", 2, 20))
    w.settings = make_settings("default", rotation="Literal")
    assert told(cycle(w, at(0))) == {"a": "PendingPreemption"}
    assert queues.wake_turns(w, at(0), at(60)) == []


# S-7.14 (b)


def staggered() -> World:
    """big came first and needs both slots, of which one has had its time; small would need only that one."""
    return world(
        turning(2),
        running("s1", "x", 1, created="08:00", reserved="11:58"),
        running("s2", "x", 1, created="08:00", reserved="11:59:30"),
        pending("big", "x", 2, created="09:00"),
        pending("small", "x", 1, created="09:01"),
    )


def test_a_small_one_waits_for_its_turn() -> None:
    w = staggered()
    assert told(cycle(w, at(0))) == {"big": "PreemptionNoCandidates"}
    assert told(cycle(w, at(1))) == {"small": "PreemptionNoCandidates"}
    assert w.turns == {"ns/small": "ns/big"}
    assert told(cycle(w, at(2))) == {}
    assert queues.wake_expired(w, at(2), at(31)) == ["x"]
    assert cycle(w, at(31)).evicted == ["ns/s1", "ns/s2"]


def test_lower_and_newer_ones_are_not_withheld() -> None:
    w = staggered()
    w.workloads["ns/s1"]["metadata"]["creationTimestamp"] = "2024-01-01T09:02:00Z"
    cycle(w, at(0))
    assert cycle(w, at(1)).preempted == [("ns/s1", "ns/small", "InClusterQueue")]  # newer; its time does not count


@pytest.mark.parametrize("event", ["delete", "gate", "admission elsewhere", "claim"])
def test_who_let_another_go_first_is_due_when_that_is_over(event: str) -> None:  # S-4.6.9
    w = staggered()
    queues.create(w, pending("tall", "x", 9, created="09:02"), at(0))
    for second in range(3):
        cycle(w, at(second))
    assert w.parked["x"] == {"ns/big", "ns/small", "ns/tall"}
    match event:
        case "delete":
            between_cycles(w, [], [{"delete": ["ns/big"]}], at(3))
        case "gate":
            gated = w.workloads["ns/big"] | {"status": {}}
            gated["spec"] = gated["spec"] | {"preemptionGates": [{"name": "example.com/gate"}]}
            claims.change(w, gated, at(3))
        case "admission elsewhere":
            queues.let_go_after_admission(w, "x", at(3))
            assert w.heap["x"] == {"ns/small"}  # they only
            return
        case "claim":
            for each in w.workloads["ns/s2"]["status"]["conditions"]:
                each["lastTransitionTime"] = facts.time_text(at(-90))
            w.shapes["x"].clear()
            queues.wake_one(w, "ns/big", at(3))
            assert told(cycle(w, at(3))) == {"big": "PendingPreemption"}
            assert queues.heads(w) == {"x": "ns/small"}
            return
    while "small" not in (seen := told(cycle(w, at(4)))):
        assert seen, event
    assert seen["small"] == "PendingPreemption"


def test_no_turn_for_who_could_not_go_anyway() -> None:
    """A closed gate, a rest, or no targets even if all had had their time."""
    for change in ("gate", "rest", "size"):
        w = staggered()
        big = w.workloads["ns/big"]
        match change:
            case "gate":
                big["spec"]["preemptionGates"] = [{"name": "example.com/gate"}]
            case "rest":
                w.workloads["ns/big"] = displaced("big", 2, 20)
            case "size":
                big["spec"]["podSets"][0]["count"] = 3
        seen = told(cycle(w, at(0))) | told(cycle(w, at(1)))
        assert seen["small"] == "PendingPreemption", change


# S-7.14 (c)


def test_the_order_of_equals() -> None:
    w = world(turning(2))
    for name, ran in (("a", 20), ("b", 10), ("c", 10)):
        queues.create(w, pending(name, "x", 1) | {"status": {"accumulatedPastExecutionTimeSeconds": ran}}, NOON)
    assert queues.in_heap_order(w, "x") == ["ns/b", "ns/c", "ns/a"]
    w.settings = make_settings("default", rotation="Literal")
    assert queues.in_heap_order(w, "x") == ["ns/a", "ns/b", "ns/c"]


def test_of_two_that_had_their_time_the_one_that_ran_more_goes() -> None:
    w = world(turning(2), running("a", "x", 1), running("b", "x", 1), pending("p", "x", 1, created="11:00"))
    w.workloads["ns/b"]["status"]["accumulatedPastExecutionTimeSeconds"] = 60
    assert cycle(w, at(0)).evicted == ["ns/b"]


def test_run_time_adds_up() -> None:  # S-10.3
    w = world(turning(1), running("a", "x", 1, created="08:00", reserved="11:00"), pending("p", "x", 1))
    assert cycle(w, at(0)).preempted == [("ns/a", "ns/p", BY_TIME)]
    between_cycles(w, ["ns/a"], [], at(7))
    assert facts.past_seconds(w.workloads["ns/a"]) == 3607


# S-4.5.3


def test_a_verdict_does_not_bind_an_older_one() -> None:
    """p is younger than the one that runs, q is older."""
    runs = running("a", "x", 2, created="08:30", reserved="11:59:50")
    w = world(turning(2), runs, pending("p", "x", 2, created="09:00"), pending("r", "x", 2, created="09:00"))
    assert told(cycle(w, at(0))) == {"p": "PreemptionNoCandidates"}
    assert w.parked["x"] == {"ns/p", "ns/r"}  # of the same second: bound
    queues.create(w, pending("s", "x", 2, created="09:01"), at(1))
    queues.create(w, pending("q", "x", 2, created="08:00"), at(1))
    assert (w.parked["x"], w.heap["x"]) == ({"ns/p", "ns/r", "ns/s"}, {"ns/q"})
    assert told(cycle(w, at(1))) == {"q": "PendingPreemption"}


def test_of_two_verdicts_the_earlier_binds() -> None:
    w = world(turning(2))
    shape = queues.shape_of(w, queues.create(w, pending("p", "x", 2), NOON))
    for since in (20, 10, 30):
        queues.move_shape(w, "x", shape, since)
    assert w.shapes["x"] == {shape: 10}


# counts that end (S-19.3.2, 19.3.3)


def with_counts(w: World, name: str, number: int = 5) -> None:
    counts = claims.rounds_of(w, f"ns/{name}")
    counts.above, counts.total, counts.lost_to = 1, number, "ns/other"


def total(w: World, name: str) -> int:
    return claims.rounds_of(w, f"ns/{name}").total


def evicted(name: str, reason: str, preempted: str | None = None, reserved: str = "11:55") -> World:
    w = world(turning(2), running(name, "x", 1, reserved=reserved))
    facts.set_condition(w.workloads[f"ns/{name}"], "Evicted", True, reason, at(0))
    if preempted is not None:
        facts.set_condition(w.workloads[f"ns/{name}"], "Preempted", True, preempted, at(0))
    with_counts(w, name)
    return w


@pytest.mark.parametrize(
    ("reason", "preempted", "left"),
    [
        ("Preempted", BY_TIME, 0),
        ("Preempted", "InClusterQueue", 5),
        ("Preempted", "InCohortReclamation", 5),
        ("ClusterQueueStopped", None, 0),
        ("LocalQueueStopped", None, 0),
        ("NodeFailures", None, 0),
        ("Deactivated", None, 0),
        ("DeactivatedDueToRequeuingLimitExceeded", None, 5),
        ("PodsReadyTimeout", None, 5),
        ("AdmissionCheck", None, 5),
    ],
)
def test_how_a_place_is_lost_decides_about_counts(reason: str, preempted: str | None, left: int) -> None:
    w = evicted("a", reason, preempted)
    queues.release(w, "ns/a", at(1))
    assert total(w, "a") == left


def test_a_hold_that_takes_a_reservation_ends_counts() -> None:
    w = world(turning(2), running("a", "x", 1, reserved="11:59"))
    with_counts(w, "a")
    queues.release(w, "ns/a", at(1))
    assert total(w, "a") == 0


@pytest.mark.parametrize(("seconds", "left"), [(599, 5), (600, 0)])
def test_counts_end_after_a_quiet_time(seconds: int, left: int) -> None:
    w = evicted("a", "PodsReadyTimeout", reserved="12:00")
    queues.release(w, "ns/a", at(seconds))
    assert total(w, "a") == left


def quarrelling(reserved: str = "11:00") -> World:
    """p reclaims from a, of another queue of its tree, which b is in too."""
    w = world(
        queue("x", 2, preemption=policy(reclaim="Any")),
        queue("y", 2),
        running("a", "y", 3, reserved=reserved),
        running("b", "y", 1, prio=5, reserved=reserved),
    )
    for name in "ab":
        with_counts(w, name)
    return w


@pytest.mark.parametrize(("reserved", "left"), [("11:50", 0), ("11:50:01", 5)])
def test_a_claim_ends_the_quiet_and_the_counts_of_those_who_held_in_it(reserved: str, left: int) -> None:
    w = quarrelling(reserved)
    queues.create(w, pending("p", "x", 2), NOON)
    assert cycle(w, at(0)).evicted == ["ns/a"]
    assert (total(w, "a"), total(w, "b")) == (left, left)
    assert claims.rounds_of(w, "ns/a").lost_to == "ns/p"


def test_no_quiet_while_somebody_claims() -> None:
    w = quarrelling("11:55")
    queues.create(w, pending("p", "x", 2), NOON)
    cycle(w, at(0))
    facts.set_condition(w.workloads["ns/b"], "Evicted", True, "PodsReadyTimeout", at(300))
    later = w.copy()
    between_cycles(w, ["ns/b"], [], at(310))
    assert total(w, "b") == 5
    between_cycles(later, ["ns/a"], [], at(310))
    cycle(later, at(310))  # p is admitted: its claim ends, and the quiet begins
    assert not later.claims
    for seconds, left in ((909, 5), (910, 0)):
        again = later.copy()
        queues.release(again, "ns/b", at(seconds))
        assert total(again, "b") == left, seconds


def test_a_claim_on_those_displaced_by_time_does_not_disturb() -> None:
    w = world(turning(2), running("a", "x", 2, created="08:00"), pending("p", "x", 2))
    cycle(w, at(0))
    (claim,) = w.claims.values()
    assert not claim.disturbs
    assert not rounds.in_quarrel(w, "x")


def test_a_claim_taken_up_disturbs_unless_its_victims_are_known() -> None:
    w = world(turning(2), running("a", "x", 2, created="08:00"), pending("p", "x", 2))
    cycle(w, at(0))
    w.workloads["ns/p"]["status"]["preemptionClaim"] = claims.stored(w, w.claims["ns/p"])
    for gone in (False, True):
        if gone:
            queues.delete(w, "ns/a")
        w.claims.clear()
        claims.take_up(w)
        assert w.claims["ns/p"].disturbs is gone


# names (epochs 3)


def owned(name: str, uid: str = "1") -> Raw:
    wl = pending(name, "x", 1)
    wl["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": uid, "controller": True}]
    return wl


def test_counts_go_by_the_owner_while_it_has_one_workload() -> None:
    w = world(turning(2))
    queues.create(w, owned("a"), NOON)
    with_counts(w, "a")
    assert list(w.rounds) == [("Job", "ns", "j")]
    queues.create(w, owned("b"), NOON)
    assert list(w.rounds) == [("Job", "ns", "j", "a")]
    assert (total(w, "a"), total(w, "b")) == (5, 0)
    with_counts(w, "b", 7)
    queues.delete(w, "ns/a")
    assert (total(w, "b"), w.rounds["Job", "ns", "j"].total) == (7, 7)
    queues.create(w, owned("c"), NOON)
    assert (total(w, "b"), total(w, "c")) == (7, 0)


def test_a_job_made_again_is_the_same() -> None:
    w = world(turning(2))
    queues.create(w, owned("a"), NOON)
    with_counts(w, "a")
    queues.create(w, owned("b", uid="2"), NOON)  # the old one is not gone yet
    assert (total(w, "a"), total(w, "b")) == (5, 5)
    queues.delete(w, "ns/a")
    assert total(w, "b") == 5


def parts_shown(seed: int) -> set[str]:
    seen: set[str] = set()
    for w, result, _ in cycles_of(rotating(seed), "default"):
        kinds: dict[str, Sized] = {
            "turns": w.turns,
            "entitled": w.entitled,
            "names": [known for known in w.rounds if len(known) == 4],
            "quiet": [claim for claim in w.claims.values() if not claim.disturbs],
            "held": [e for e in result.entries if e.lost_to],
            "by time": [victim for victim, _, why in result.preempted if why == BY_TIME],
        }
        seen |= {kind for kind, shown in kinds.items() if shown}
    return seen


def test_worlds_of_turns_show_every_part_of_the_rules() -> None:
    """Otherwise the comparisons that draw them compare nothing."""
    missing = {"turns", "entitled", "names", "quiet", "held", "by time"}
    for seed in range(400):
        missing -= parts_shown(seed)
        if not missing:
            return
    pytest.fail(f"never seen: {missing}")
