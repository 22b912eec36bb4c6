"""Preemption settles: without change from outside there is a cycle after which nothing happens any more (S-19.5).

Recorded loops of the field, loops of the same kinds made by hand, and random worlds; with victims that leave at once,
and with victims that take their time.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api import codec
from makeway.api.quantity import Time
from makeway.core.cycle.cycle import carry_out, decide, departed, heads, reason_kept
from makeway.core.lowering import load_state
from makeway.core.model import FlavorGroup, Millis, Workload, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.preemption import claims
from makeway.core.state import State
from makeway.testing.builders import CPU, FLAVOR, cohort, holder, pod_set, queue, seconds, state, workload
from tests.core.cycle.test_cycle_properties import World, over, worlds

pytestmark = pytest.mark.slow

CYCLES = 80  # of which the last 30 must be quiet, as in the recorded runs
QUIET = 30
EVICTIONS_MAX = 3
STEP = 10_000
OURS = Policy.default()
WITHOUT = replace(OURS, gates=replace(OURS.gates, preemption_claims=False, preemption_epochs=False))

Delay = Callable[[str, int], int]  # uid and how often it was preempted -> cycles for which it still holds its quota


def instant(_: str, __: int) -> int:
    return 0


def desync(uid: str, times: int) -> int:
    return 1 + hashlib.sha256(f"{uid}/{times}".encode()).digest()[0] % 4


MODELS = pytest.mark.parametrize("delay", [instant, desync], ids=["instant", "desync"])


@dataclass
class Run:
    evictions: Counter[str]
    last: int = 0  # the last cycle in which quota was given or taken
    above: int = 0  # cycles whose admissions exceeded quota
    idle: bool = False  # no workload is due and there are no claims, at the end


def run(on: State, now: Millis, delay: Delay, cycles: int = CYCLES) -> Run:
    """Cycles of ten seconds; victims are released after the delay and wait again."""
    found = Run(Counter())
    leaving: dict[WorkloadKey, tuple[int, Workload, str, Millis]] = {}
    for number in range(1, cycles + 1):
        before = over(on)
        for claimant in claims.overdue(on, now):
            claims.end(on, claimant.key, "", now)
        plan = decide(on, now)
        carry_out(on, plan)
        found.above += bool(over(on) - before)
        for target in [target for verdict in plan.verdicts for target in verdict.targets]:
            key, uid = target.workload.key, target.workload.uid
            if key not in leaving:
                found.evictions[uid] += 1
                until = number + delay(uid, found.evictions[uid])
                leaving[key] = (until, target.workload, reason_kept(target), now)
                found.last = number
        found.last = number if plan.admitted else found.last
        release(on, leaving, number, now)
        now = Millis(now + STEP)
    found.idle = not heads(on) and not on.claims and not leaving
    return found


def release(on: State, leaving: dict[WorkloadKey, tuple[int, Workload, str, Millis]], number: int, now: Millis) -> None:
    gone = [key for key, (until, *_) in sorted(leaving.items()) if until <= number]
    for key in gone:
        _, victim, reason, evicted_at = leaving.pop(key)
        held = on.holders.by_key[key]
        on.release(held, now)
        on.push(departed(on, held, reason, evicted_at, now), now)
        assert held.queue == victim.queue
    for name in sorted({on.queues[line].name for line in on.queues} if gone else ()):
        on.wake(name, now)


def settles(found: Run) -> bool:
    return found.last <= CYCLES - QUIET and found.idle


# --- recorded loops --------------------------------------------------------------------------------------------------


def recorded(shared: Path) -> Iterator[dict[str, Any]]:
    folder = shared / "vectors" / "convergence"
    lines = (folder / "minimal.jsonl").read_text("utf-8").splitlines()
    lines += gzip.decompress((folder / "loops.jsonl.gz").read_bytes()).decode("utf-8").splitlines()
    for line in lines:
        loop = json.loads(line)
        if not (loop["scenario"].get("config") or {}).get("fairSharing"):
            yield loop["scenario"]


def load(scenario: dict[str, Any], policy: Policy) -> tuple[State, Millis]:
    policy = replace(policy, gates=policy.gates.turned(scenario.get("featureGates") or {}))
    objects = [codec.read(tree, "Ignore", limits=False).value for tree in scenario["objects"]]
    now = Millis(Time.parse(scenario["now"]).millis)
    return load_state([each for each in objects if each is not None], policy, now).state, now


@pytest.mark.conformance
@MODELS
def test_every_recorded_loop_without_fair_sharing_settles(shared: Path, delay: Delay) -> None:
    scenarios = list(recorded(shared))
    assert len(scenarios) >= 7
    for scenario in scenarios:
        on, now = load(scenario, OURS)
        found = run(on, now, delay)
        assert settles(found), scenario["name"]
        assert max(found.evictions.values(), default=0) <= EVICTIONS_MAX, scenario["name"]
        assert found.above == 0, scenario["name"]
        assert on.rounds.exhausted == {}, scenario["name"]


# --- loops made by hand ----------------------------------------------------------------------------------------------

LOWER_BORROWS: dict[str, Any] = {"reclaim": "LowerPriority", "borrow": "LowerPriority"}
ANY: dict[str, Any] = {"reclaim": "Any"}


def the_victim_borrows_less_far(policy: Policy) -> State:
    """p may evict a by priority; a comes first again, for it needs no gpu and so borrows only next door (M1)."""
    return state(
        cohort("l", parent="r"),
        cohort("m", parent="r"),
        queue("x", {FLAVOR: {"cpu": 0, "gpu": 0}}, cohort="l", **LOWER_BORROWS),
        queue("y", 0, cohort="l"),
        queue("lender", 4, cohort="l"),
        queue("gpus", {FLAVOR: {"gpu": 1}}, cohort="m"),
        holder("a", queue="y", cpu=4),
        workload("p", queue="x", requests={"cpu": 4, "gpu": 1}, priority=9, queued=5),
        policy=policy,
    )


def the_assignment_changes_once_the_victim_is_gone(policy: Policy) -> State:
    """p evicts a for an assignment on two flavors within its quota; then the first does for both, by borrowing (M2)."""
    groups = (FlavorGroup(resources=(CPU,), flavors=("f1", "f2")),)  # type: ignore[arg-type]
    two = (pod_set("one", cpu=1), pod_set("two", cpu=2))
    return state(
        queue("x", {"f1": 2, "f2": 1}, cohort="r", groups=groups, try_next_when_borrowing=True, **ANY),
        queue("y", {"f1": 0}, cohort="r"),
        queue("lender", {"f1": 2}, cohort="r"),
        holder("a", queue="y", cpu=4, usage={"f1": 4}),
        workload("p", queue="x", pod_sets=two, queued=5),
        policy=policy,
    )


def three_in_a_circle(policy: Policy) -> State:
    """p reclaims from a; b, older, evicts p in their queue; what that frees goes to a, older still (M3)."""
    return state(
        queue("x", 2, cohort="r", within="LowerOrNewerEqualPriority", reclaim="Any", borrow="LowerPriority"),
        queue("y", 0, cohort="r"),
        queue("lender", 1, cohort="r"),
        holder("a", queue="y", cpu=3, queued=1),
        workload("b", queue="x", cpu=3, queued=2),
        workload("p", queue="x", cpu=2, queued=3),
        policy=policy,
    )


def no_state_is_stable(policy: Policy) -> State:
    """p evicts a and b while their queue borrows; a alone is within its quota and reclaims; b borrows the rest (M4)."""
    return state(
        queue("x", 0, cohort="r", strict=True, **LOWER_BORROWS),
        queue("y", 1, cohort="r", **ANY),
        queue("lender", 2, cohort="r"),
        holder("a", queue="y", cpu=1),
        holder("b", queue="y", cpu=2, priority=5),
        workload("p", queue="x", cpu=3, priority=9),
        policy=replace(policy, strict_fifo_lends=True),
    )


LOOPS = [the_victim_borrows_less_far, the_assignment_changes_once_the_victim_is_gone, three_in_a_circle]
LOOPS += [no_state_is_stable]


@MODELS
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_of_the_field_settles(loop: Callable[[Policy], State], delay: Delay) -> None:
    found = run(loop(OURS), seconds(100), delay)
    assert settles(found)
    assert max(found.evictions.values()) <= EVICTIONS_MAX
    assert found.above == 0


@MODELS
@pytest.mark.parametrize("loop", LOOPS)
def test_without_claims_and_rounds_it_is_a_loop(loop: Callable[[Policy], State], delay: Delay) -> None:
    assert run(loop(WITHOUT), seconds(100), delay).last > CYCLES - QUIET


@MODELS
def test_claims_alone_do_not_settle_what_has_no_stable_state(delay: Delay) -> None:
    only = replace(OURS, gates=replace(OURS.gates, preemption_epochs=False))
    assert run(no_state_is_stable(only), seconds(100), delay).last > CYCLES - QUIET


# --- random worlds ---------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(world=worlds(), delays=st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_random_worlds_settle_and_no_admission_exceeds_quota(world: World, delays: list[int]) -> None:
    """Each victim takes its own time, from none to four cycles."""
    on = world.state(OURS)

    def drawn(uid: str, times: int) -> int:
        return delays[(int(uid[1:]) + times) % len(delays)]

    found = run(on, seconds(1000), drawn)
    assert settles(found)
    assert found.above == 0
    assert on.rounds.exhausted == {}
    on.tree.recount()


@pytest.mark.property
@given(world=worlds(), cycles=st.integers(1, 4))
def test_P35_a_trial_leaves_no_mark_where_claims_are(world: World, cycles: int) -> None:
    on = world.state(OURS)
    run(on, seconds(1000), lambda uid, times: 9, cycles)
    before, later = on.fingerprint(), seconds(1000 + 10 * cycles)
    plan = decide(on, later)
    assert on.fingerprint() == before, "a plan is a thought"
    with on.trial():
        carry_out(on, plan)
        for claimant in claims.overdue(on, seconds(9000)):
            claims.end(on, claimant.key, "", seconds(9000))
        assert len(on.claims) == 0, "none outlives its deadline"
        run(on, later, instant, 3)
    assert on.fingerprint() == before
