"""The same plays with fair sharing: recorded loops, a day of other jobs, random states (S-19.5, P2, P4, P28)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.bench.stability.entitlement import ALLOWED, entitled_waiting
from makeway.bench.stability.settling import GATES_ON, Leaving, Settling
from makeway.bench.stability.states import START, STRATEGIES, world
from makeway.core.policy import FairStrategy, Policy
from makeway.testing.builders import workload
from tests.bench.stability.test_settling import EVICTIONS_MAX, MODELS, begun, neighbour, recorded, replay, states
from tests.soaking import InTime

pytestmark = pytest.mark.slow

UNREPEATABLE = ("fair-cv1-0149", "fair-cv1-0245")  # a second run of the recorded system gave another result
BOTH: tuple[FairStrategy, ...] = STRATEGIES[0]  # the meaning of an empty list


@pytest.fixture(scope="module")
def loops(shared: Path) -> list[Mapping[str, Any]]:
    """All recorded loops with fair sharing, the minimal ones last."""
    folder = shared / "vectors" / "convergence"
    if not folder.is_dir():
        pytest.skip("the shared data has no recorded loops")
    with gzip.open(folder / "loops.jsonl.gz", "rt", encoding="utf-8") as found:
        records = [json.loads(line) for line in found]
    records += [json.loads(line) for line in (folder / "minimal.jsonl").read_text("utf-8").splitlines()]
    return [each for each in records if "fairSharing" in each["scenario"]["config"]]


def fairly(record: Mapping[str, Any], policy: Policy) -> Policy:
    named = record["scenario"]["config"]["fairSharing"].get("preemptionStrategies")
    return replace(policy, fair_strategies=tuple(named or BOTH))


@pytest.mark.conformance
def test_the_parity_profile_evicts_as_often_as_was_recorded(loops: list[Mapping[str, Any]]) -> None:
    """Where several runs of the recorded system agreed with each other."""
    compared = 0
    for record in loops:
        kueue, policy = record["kueue"], fairly(record, Policy.parity())
        if record["scenario"]["name"] in UNREPEATABLE:
            continue
        policy = replace(policy, gates=policy.gates.turned(record["scenario"]["featureGates"]))
        if "preemptionsIn80" in kueue:
            evictions = begun(record, policy, recorded(record)).run(80).evictions
            known = (kueue["preemptionsIn80"], kueue["maxEvictionsIn80"])
        else:
            evictions = begun(record, policy, recorded(record)).run(24).evictions
            log = [each["workload"] for cycle in kueue["logFirst24Cycles"] for each in cycle.get("preempted", ())]
            known = (len(log), max(map(log.count, log)))
        assert (evictions.total(), max(evictions.values())) == known, record["scenario"]["name"]
        compared += 1
    assert compared >= 30


@pytest.mark.parametrize("leaving", MODELS)
def test_P2_every_recorded_loop_settles(loops: list[Mapping[str, Any]], leaving: Leaving) -> None:
    assert len(loops) >= 20
    for record in loops:
        played = begun(record, fairly(record, GATES_ON), leaving).run()
        name = record["scenario"]["name"]
        assert played.settled, f"{name}: {played.outcome} after {played.cycles} cycles"
        assert played.evictions_of_one <= EVICTIONS_MAX, f"{name}: {played.evictions}"
        assert played.over_quota == []
        assert played.breaker == 0


@pytest.mark.parametrize("leaving", MODELS)
@pytest.mark.parametrize("name", ["M5", "M6", "M7", "M8", "M9"])
def test_P2_a_day_of_other_jobs_starts_no_loop_anew(
    loops: list[Mapping[str, Any]], name: str, leaving: Leaving
) -> None:
    """Every ten minutes one comes and the one before it ends, which wakes the whole tree."""
    record = next(each for each in loops if each.get("id") == name)
    beside = neighbour(record)
    one = {beside[0]["spec"]["resourceGroups"][0]["coveredResources"][0]: 1}
    play = begun(record, fairly(record, GATES_ON), leaving, *beside)
    namespace = next(each["metadata"]["namespace"] for each in record["scenario"]["objects"] if "Local" in each["kind"])
    last = None
    for number, cycle in enumerate(range(60, 24 * 360, 60)):
        assert play.run(cycle).settled, f"not settled by cycle {cycle}"
        if last is not None:
            play.finish(last, after=cycle)
        job = workload(f"other-{number}", queue="neighbour", namespace=namespace, queued=play.now / 1000, requests=one)
        play.arrive(job, after=cycle)
        last = job.key
    played = play.run(24 * 360)
    assert played.admissions >= 24 * 6 - 2, "the other jobs ran"
    assert played.evictions_of_one <= EVICTIONS_MAX, played.evictions
    assert not any("other" in key for key in played.evictions)


@pytest.mark.property
@pytest.mark.parametrize("leaving", MODELS)
def test_random_states_settle_within_quota_and_nobody_entitled_is_barred(
    fuzz_inputs: int, fuzz_seed: int, leaving: Leaving, in_time: InTime
) -> None:
    """The lists of strategies in turn, with weights and hierarchies."""
    for number in states(fuzz_inputs, in_time):
        play = Settling(world(fuzz_seed, number, fair=True).state(GATES_ON), START, leaving)
        played = play.run()
        where = f"{replay(fuzz_seed, number)} --fair"
        assert played.settled, f"{played.outcome}, {played.evictions_of_one} evictions of one; {where}"
        assert played.repeated == 0, where
        assert played.over_quota == [], where
        assert played.breaker == 0, where
        barred = [
            each for each in entitled_waiting(play.state, play.now, play.evaluations) if each.cause not in ALLOWED
        ]
        assert barred == [], where


@pytest.mark.parametrize(("seed", "number"), [(0, 1134), (7, 339), (7, 1542), (7, 1641)])
@pytest.mark.parametrize("fair", [True, False])
def test_states_in_which_somebody_once_ran_out_of_rounds(seed: int, number: int, fair: bool) -> None:
    """Two queues displaced lower ones of their own to borrow, and took the quota back, again and again (0042)."""
    start = world(seed, number, fair=True)
    for leaving in MODELS:
        begun_with = start if fair else replace(start, strategies=())
        played = Settling(begun_with.state(GATES_ON), START, leaving).run()
        assert (played.settled, played.breaker) == (True, 0)
        assert played.evictions_of_one <= EVICTIONS_MAX
