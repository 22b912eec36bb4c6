"""Plays until preemption settles: recorded loops, random states, victims that never leave, a day of other jobs."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from makeway.api.quantity import Time
from makeway.bench.stability.entitlement import ADMISSION, ALLOWED, GATE, entitled_waiting
from makeway.bench.stability.settling import (
    GATES_OFF,
    GATES_ON,
    SLOW_MAX,
    SLOW_MIN,
    STEP,
    Leaving,
    Played,
    Settling,
    Use,
    delay,
    slow_delay,
)
from makeway.bench.stability.states import START, world
from makeway.core.lowering import load_state
from makeway.core.model import Claim, ClaimedSet, Millis, QueueName, Uid, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.testing.builders import CPU, FLAVOR, holder, queue, seconds, state, workload
from makeway.testing.vectors.facts import wire_of
from tests.soaking import InTime

pytestmark = pytest.mark.slow

MODELS: tuple[Leaving, ...] = ("instant", "unsynchronised")
EVICTIONS_MAX = 3  # of one workload, in any recorded loop


# --- the player ------------------------------------------------------------------------------------------------------


def full(*more: Any, policy: Policy = GATES_ON) -> State:
    """One queue, filled by a workload of low priority, and one of high priority that waits."""
    return state(
        queue("q", 2, within="LowerPriority"), holder("low", cpu=2), workload("high", cpu=2, priority=1), *more,
        policy=policy,
    )  # fmt: skip


def test_a_victim_leaves_and_waits_and_the_preemptor_gets_its_place() -> None:
    played = Settling(full(), seconds(0), "instant").run()
    assert (played.outcome, played.cycles, played.admissions) == ("settled", 2, 1)
    assert played.evictions == {"default/low": 1}
    assert played.over_quota == []


def test_unsynchronised_victims_take_one_to_four_cycles_by_uid_and_number() -> None:
    by_hand = sha256(b"low/1").digest()[0] % 4 + 1
    assert delay("low", 1) == by_hand
    assert {delay("low", n) for n in range(40)} == {1, 2, 3, 4}
    played = Settling(full(), seconds(0), "unsynchronised").run()
    assert (played.outcome, played.cycles) == ("settled", 1 + by_hand + 1)


def test_slow_victims_take_a_quarter_of_an_hour_to_an_hour() -> None:
    drawn = [slow_delay("low", n) for n in range(2_000)]
    assert (min(drawn), max(drawn)) == (SLOW_MIN, SLOW_MAX) == (90, 360)
    played = Settling(full(), seconds(0), "slow").run()
    assert (played.outcome, played.cycles) == ("settled", 1 + slow_delay("low", 1) + 1)
    assert played.overdue == [], "the claim ends long before"
    assert played.evaluated <= 4, "most cycles are passed over"


def test_who_was_leaving_at_the_start_leaves() -> None:
    on = state(queue("q", 2), holder("old", cpu=2, evicted=True), workload("new", cpu=2, priority=1))
    play = Settling(on, seconds(0), "instant")
    assert play.run().settled
    assert list(on.holders.of_queue[QueueName("q")]) == ["default/new"]
    assert play.played.evictions == {}


def test_time_passes_and_equals_who_have_had_their_time_leave() -> None:
    on = state(
        queue("q", 2, within="LowerOrNewerEqualPriority", min_admit=60),
        holder("old", cpu=2, reserved=0),
        workload("new", cpu=2, queued=1),
        workload("soon", cpu=1, priority=-1),
        at=1,
    )
    play = Settling(on, seconds(1), "instant")
    assert play.run(6).evictions == {}
    play.arrive(workload("later", cpu=2, priority=-1), after=8)
    assert play.run(12).evictions == {"default/old": 1}


def test_an_admission_into_room_that_victims_still_hold_is_found() -> None:
    """Both ``c`` and ``d`` fit alone; with ``a``'s victim counted as gone they fit together, but it is still there."""
    parts: tuple[Any, ...] = (
        queue("a", 4, cohort="all", reclaim="Any"),
        *(queue(name, 0, cohort="all") for name in "bcd"),
        holder("b", queue="b", cpu=3),
        workload("a", queue="a", cpu=2),
        workload("c", queue="c", cpu=1),
        workload("d", queue="d", cpu=1),
    )
    assert Settling(state(*parts, policy=GATES_OFF), seconds(0), "instant").run(1).over_quota == ["default/d"]
    assert Settling(state(*parts, policy=GATES_ON), seconds(0), "instant").run(1).over_quota == []


def test_a_play_that_only_looks_again_and_again_spins() -> None:
    """Without the gates two podSets out of phase are scanned for ever."""
    outcomes = {Settling(world(1, n).state(GATES_OFF), START, "instant").run().outcome for n in range(20)}
    assert "spins" in outcomes


def claiming(expires: int, **victim: Any) -> State:
    """``high`` claims what ``low`` holds."""
    sets = (ClaimedSet("main", {CPU: FLAVOR}, 1),)
    claim = Claim(sets, ((WorkloadKey("default/low"), Uid("low")),), seconds(1), seconds(expires))
    return state(
        queue("q", 2, within="LowerPriority"), holder("low", cpu=2, **victim),
        workload("high", cpu=2, priority=1, claim=claim), at=1,
    )  # fmt: skip


def test_a_claim_that_nobody_leaves_for_is_no_rest() -> None:
    """``low`` was never asked to leave, so the claimant is not due."""
    assert Settling(claiming(400), seconds(1), "instant").run().outcome == "claims"


def test_a_claim_that_outlasts_its_victims_deadline_is_found() -> None:
    """Half a minute to end, five minutes of patience: 331 seconds."""
    leaving = {"evicted": True, "evicted_at": seconds(1)}
    on_time = Settling(claiming(331, **leaving), seconds(1), "unsynchronised").run()
    assert (on_time.outcome, on_time.overdue) == ("settled", [])
    too_long = Settling(claiming(332, **leaving), seconds(1), "unsynchronised").run()
    assert set(too_long.overdue) == {"default/high"}


def test_who_never_leaves_keeps_a_claimant_waiting_until_the_deadline_and_nobody_else() -> None:
    on = state(
        queue("q", 3, within="LowerPriority"), holder("low", cpu=2), workload("high", cpu=2, priority=1),
        workload("other", cpu=1, priority=-1),
    )  # fmt: skip
    play = Settling(on, seconds(0), "never")
    assert play.run(30).outcome == "loops", "the claim is open"
    assert list(on.holders.of_queue[QueueName("q")]) == ["default/low", "default/other"]
    assert play.run().settled
    assert play.now == seconds(330)
    assert play.played.evictions == {"default/low": 1}
    assert play.played.evaluated <= 4


def test_utilisation_is_the_mean_over_cycles_of_what_may_stay() -> None:
    played = Played(uses=[Use(1, 1.0), Use(2, 0.0), Use(3, 0.5)])
    assert played.utilisation(1) == 1.0
    assert played.utilisation(2) == 0.5
    assert played.utilisation(4) == 0.5
    assert [use[:2] for use in Settling(full(), seconds(0), "instant").run().uses] == [(1, 1.0), (2, 0.0), (3, 1.0)]


def test_waiting_is_the_mean_over_cycles_of_those_without_a_place_to_stay() -> None:
    played = Settling(full(), seconds(0), "instant").run()
    assert [use.waiting for use in played.uses] == [0.5, 1.0, 0.5]
    assert played.waiting(4) == 0.625


# --- recorded loops ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loops(shared: Path) -> list[Mapping[str, Any]]:
    """All recorded loops without fair sharing, the minimal ones last."""
    folder = shared / "vectors" / "convergence"
    if not folder.is_dir():
        pytest.skip("the shared data has no recorded loops")
    with gzip.open(folder / "loops.jsonl.gz", "rt", encoding="utf-8") as found:
        records = [json.loads(line) for line in found]
    records += [json.loads(line) for line in (folder / "minimal.jsonl").read_text("utf-8").splitlines()]
    return [each for each in records if not each["scenario"]["config"].get("fairSharing")]


def begun(record: Mapping[str, Any], policy: Policy, leaving: Leaving, *more: Mapping[str, Any]) -> Settling:
    scenario = record["scenario"]
    now = Millis(Time.parse(scenario["now"]).millis)
    policy = replace(policy, gates=policy.gates.turned(scenario["featureGates"]))
    return Settling(load_state(map(wire_of, [*scenario["objects"], *more]), policy, now).state, now, leaving)


def recorded(record: Mapping[str, Any]) -> Leaving:
    return "instant" if record["evictionModel"] == "instant" else "unsynchronised"


@pytest.mark.conformance
def test_the_parity_profile_evicts_as_often_as_was_recorded(loops: list[Mapping[str, Any]]) -> None:
    for record in loops:
        if "preemptionsIn80" in record["kueue"]:
            evictions = begun(record, Policy.parity(), recorded(record)).run(80).evictions
            known = (record["kueue"]["preemptionsIn80"], record["kueue"]["maxEvictionsIn80"])
        else:
            evictions = begun(record, Policy.parity(), recorded(record)).run(24).evictions
            log = [
                each["workload"] for cycle in record["kueue"]["logFirst24Cycles"] for each in cycle.get("preempted", ())
            ]
            known = (len(log), max(map(log.count, log)))
        assert (evictions.total(), max(evictions.values())) == known, record["scenario"]["name"]


@pytest.mark.parametrize("leaving", MODELS)
def test_p1_every_recorded_loop_settles(loops: list[Mapping[str, Any]], leaving: Leaving) -> None:
    assert len(loops) >= 7
    for record in loops:
        played = begun(record, GATES_ON, leaving).run()
        name = record["scenario"]["name"]
        assert played.settled, f"{name}: {played.outcome} after {played.cycles} cycles"
        assert played.evictions_of_one <= EVICTIONS_MAX, f"{name}: {played.evictions}"
        assert played.over_quota == []
        assert played.breaker == 0


def neighbour(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A queue in the midst of the loop that neither lends nor borrows: its jobs do not concern other queues."""
    api = "kueue.x-k8s.io/v1beta2"
    objects = record["scenario"]["objects"]
    beside = next(each for each in objects if each["kind"] == "ClusterQueue")["spec"]
    group = beside["resourceGroups"][0]
    flavors = [
        {
            "name": flavor["name"],
            "resources": [
                {"name": each["name"], "nominalQuota": "2", "borrowingLimit": "0", "lendingLimit": "0"}
                for each in flavor["resources"]
            ],
        }
        for flavor in group["flavors"]
    ]
    group = {"coveredResources": group["coveredResources"], "flavors": flavors}
    spec = {"cohortName": beside["cohortName"], "namespaceSelector": {}, "resourceGroups": [group]}
    return [{"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "neighbour"}, "spec": spec}]


@pytest.mark.parametrize("leaving", MODELS)
@pytest.mark.parametrize("name", ["M1", "M2", "M3", "M4"])
def test_p2_a_day_of_other_jobs_starts_no_loop_anew(
    loops: list[Mapping[str, Any]], name: str, leaving: Leaving
) -> None:
    """Every ten minutes one comes and the one before it ends, which wakes the whole tree."""
    record = next(each for each in loops if each.get("id") == name)
    play = begun(record, GATES_ON, leaving, *neighbour(record))
    namespace = next(each["metadata"]["namespace"] for each in record["scenario"]["objects"] if "Local" in each["kind"])
    last: WorkloadKey | None = None
    for number, cycle in enumerate(range(60, 24 * 360, 60)):
        assert play.run(cycle).settled, f"not settled by cycle {cycle}"
        if last is not None:
            play.finish(last, after=cycle)
        job = workload(f"other-{number}", queue="neighbour", namespace=namespace, queued=play.now / 1000)
        play.arrive(job, after=cycle)
        last = job.key
    played = play.run(24 * 360)
    assert played.admissions >= 24 * 6 - 2, "the other jobs ran"
    assert played.evictions_of_one <= EVICTIONS_MAX, played.evictions
    assert not any("other" in key for key in played.evictions)


# --- random states ----------------------------------------------------------------------------------------------------


def states(fuzz_inputs: int, in_time: InTime) -> Iterator[int]:
    """300 of them by default, 3,000 in a soak; ``MAKEWAY_FUZZ_FIRST`` says where to begin."""
    first = int(os.environ.get("MAKEWAY_FUZZ_FIRST", "0"))
    yield from in_time(range(first, first + max(1, fuzz_inputs * 3 // 20)))


def replay(seed: int, number: int) -> str:
    return f"replay: makeway bench stability --seed {seed} --first {number} --states 1"


@pytest.mark.property
@pytest.mark.parametrize("leaving", MODELS)
def test_random_states_settle_within_quota_and_nobody_entitled_is_barred(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime, leaving: Leaving
) -> None:
    for number in states(fuzz_inputs, in_time):
        play = Settling(world(fuzz_seed, number).state(GATES_ON), START, leaving)
        played = play.run()
        where = replay(fuzz_seed, number)
        assert played.settled, f"{played.outcome}, {played.evictions_of_one} evictions of one; {where}"
        assert played.repeated == 0, where
        assert played.over_quota == [], where
        assert played.breaker == 0, where
        barred = [
            each for each in entitled_waiting(play.state, play.now, play.evaluations) if each.cause not in ALLOWED
        ]
        assert barred == [], where


@pytest.mark.property
def test_random_states_go_on_when_victims_never_leave(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """Every claim ends at its deadline, nothing spins, and every workload that fits is admitted."""
    for number in states(fuzz_inputs, in_time):
        play = Settling(world(fuzz_seed, number).state(GATES_ON), START, "never")
        played = play.run(3_000)
        where = replay(fuzz_seed, number)
        assert played.settled, f"{played.outcome}; {where}"
        assert played.repeated == 0, where
        assert played.overdue == [], where
        assert played.over_quota == [], where
        waits = [
            each
            for each in entitled_waiting(play.state, play.now, play.evaluations)
            if each.cause.startswith("other:it fits")
        ]
        assert waits == [], where


@pytest.mark.property
@pytest.mark.parametrize("evictions", ["slow", "late"])
def test_random_states_settle_when_evictions_are_slow(
    fuzz_inputs: int, fuzz_seed: int, in_time: InTime, evictions: str
) -> None:
    """15 to 60 minutes. Within the grace period no victim leaves in vain; beyond it claims end: at most ten rounds."""
    grace_ms = SLOW_MAX * STEP if evictions == "slow" else None
    for number in states(fuzz_inputs, in_time):
        played = Settling(world(fuzz_seed, number).state(GATES_ON, grace_ms), START, "slow").run()
        where = f"{replay(fuzz_seed, number)} --evictions {evictions}"
        assert played.settled, f"{played.outcome}, {played.evictions_of_one} evictions of one; {where}"
        assert played.repeated == 0, where
        assert played.over_quota == [], where
        assert played.overdue == [], where
        if evictions == "slow":
            assert played.breaker == 0, where
            assert played.evictions_of_one <= EVICTIONS_MAX, where


def test_who_stopped_its_scan_at_a_closed_gate_waits_for_those_who_leave() -> None:
    """Its scan ends where it could preempt (S-14.9), and it is evaluated again after the departures (S-5.1)."""
    state = world(1208746119, 1645).state(GATES_ON)
    stuck = Settling(state, START, "never")
    assert stuck.run(3_000).settled
    assert [each.cause for each in entitled_waiting(state, stuck.now, stuck.evaluations)] == [GATE]
    moving = Settling(world(1208746119, 1645).state(GATES_ON), START, "instant")
    assert moving.run().settled
    assert entitled_waiting(moving.state, moving.now, moving.evaluations) == []


def test_an_admission_in_the_cycle_of_its_last_look_wakes_nobody() -> None:
    """It could take from a workload admitted beside it, and is evaluated again when a workload leaves (S-4.6)."""
    state = world(1, 9730).state(GATES_ON)
    play = Settling(state, START, "instant")
    assert play.run().settled
    assert [each.cause for each in entitled_waiting(state, play.now, play.evaluations)] == [ADMISSION]
    play.finish(next(each.key for each in state.holders.by_key.values() if each.queue == "queue-0"), 10)
    play.run()
    assert [each.cause for each in entitled_waiting(state, play.now, play.evaluations) if each.cause == ADMISSION] == []
