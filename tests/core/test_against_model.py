"""The engine and the slow model of ``tests.model`` are told the same stories and must tell the same ends.

Random worlds, both profiles, several cycles each. Where the two differ, the text and the recorded decisions say who
is right; the seed of a difference is printed, and ``seeded`` makes the same world again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.api import codec
from makeway.api.quantity import Time
from makeway.core import claims
from makeway.core.cycle import Plan, Verdict, carry_out, decide, departed, heads, reason_kept
from makeway.core.lowering import Loaded, load_state, workload_of
from makeway.core.model import Millis, QueueName, Workload
from makeway.core.policy import Policy, Profile
from makeway.core.state import State
from makeway.core.waking import next_expiry
from tests.model.play import CYCLE_MILLIS, play
from tests.model.scenarios import seeded
from tests.soaking import InTime

pytestmark = pytest.mark.slow

FOUND = (5004,)  # seeds that once told a difference
INPUTS_PER_SCENARIO = 10  # a scenario is as much work as so many damaged files: 200 by default, 2,000 in a soak


def with_gates(scenario: dict[str, Any], *, stable: bool) -> dict[str, Any]:
    """The scenario with claims and rounds, or without either, whatever the profile says."""
    gates = dict.fromkeys(("PreemptionClaims", "PreemptionEpochs"), stable)
    return {**scenario, "featureGates": {**(scenario.get("featureGates") or {}), **gates}}


def load(scenario: dict[str, Any], profile: Profile) -> tuple[Loaded, Millis]:
    base = Policy.of_profile(profile)
    policy = replace(base, gates=base.gates.turned(scenario.get("featureGates") or {}))
    objects = [codec.read(tree, "Ignore", limits=False).value for tree in scenario["objects"]]
    now = Millis(Time.parse(scenario["now"]).millis)
    return load_state([each for each in objects if each is not None], policy, now), now


def entry_facts(verdict: Verdict) -> dict[str, Any]:
    deferred = verdict.mode == "DeferredFit"
    return {
        "workload": verdict.workload.key,
        "mode": verdict.mode,
        "borrow": verdict.assignment.level,
        "podSets": [
            {
                "name": part.name,
                "count": part.count,
                "flavors": {
                    resource: {
                        "flavor": choice.flavor,
                        "mode": "DeferredFit" if deferred and choice.mode.public == "Fit" else choice.mode.public,
                    }
                    for resource, choice in sorted(part.choices.items())
                },
            }
            for part in verdict.assignment.pod_sets
        ],
        "targets": [[target.workload.key, target.reason] for target in verdict.targets],
    }


def cycle_facts(state: State, plan: Plan, considered: list[Verdict]) -> dict[str, Any]:
    lines = state.pending.lines
    return {
        "entries": [entry_facts(each) for each in considered],
        "preempted": sorted([t.workload.key, v.workload.key, t.reason] for v in plan.verdicts for t in v.targets),
        "quotaReserved": sorted(v.workload.key for v in plan.admitted),
        "heap": {queue: state.pending.in_order(queue) for queue in sorted(lines) if lines[queue].waiting},
        "parked": {queue: sorted(lines[queue].parked) for queue in sorted(lines) if lines[queue].parked},
        "due": sorted(head.key for head in heads(state)),
    }


def between(loaded: Loaded, plan: Plan, events: list[dict[str, Any]], now: Millis) -> None:
    state, woken = loaded.state, set()
    victims = {t.workload.key: t for v in plan.verdicts for t in v.targets}
    for _, target in sorted(victims.items()):
        held = state.holders.find(target.workload.queue, target.workload.key)
        assert held is not None
        state.release(held)
        state.push(departed(state, held, reason_kept(target), now), now)
        woken.add(held.queue)
    for event in events:
        for key in event.get("delete") or []:
            gone = find(state, key)
            if gone is not None:
                (state.release if gone.usage is not None else state.pending.forget)(gone)
                state.forget_progress(gone)
                woken.add(gone.queue)
        for tree in event.get("create") or []:
            value = codec.read(tree, "Ignore", limits=False).value
            state.push(workload_of(value, loaded.around), now)  # type: ignore[arg-type]
    for queue in sorted(woken):
        state.wake(queue, now)


def find(state: State, key: str) -> Workload | None:
    for members in state.holders.of_queue.values():
        for each in members.values():
            if each.key == key:
                return each
    for line in state.pending.lines.values():
        for each in (*line.waiting.values(), *line.parked.values()):
            if each.key == key:
                return each
    return None


def tell(scenario: dict[str, Any], profile: Profile) -> list[dict[str, Any]]:
    loaded, now = load(scenario, profile)
    state, told = loaded.state, []
    state.shares_widely = False  # the model looks at everybody; that sharing changes nothing is a test of its own
    for i in range(scenario["cycles"]):
        expiries: dict[QueueName, Millis | None] = {queue: next_expiry(state, queue, now) for queue in state.queues}
        for claimant in claims.overdue(state, now):
            claims.end(state, claimant.key, "", now)
        plan = decide(state, now)
        carry_out(state, plan)
        considered = [each for each in plan.verdicts if each.requeue not in ("Generic", "NamespaceMismatch")]
        told.append(cycle_facts(state, plan, considered))
        between(loaded, plan, [e for e in scenario.get("events") or [] if e["afterCycle"] == i + 1], now)
        later = Millis(now + scenario.get("stepMillis", CYCLE_MILLIS))
        for queue in state.queues:
            due = next_expiry(state, queue, now)
            due = expiries[queue] if due is None else due
            if due is not None and now < due <= later:
                state.wake(queue, later)
        now = later
    return told


def expected(scenario: dict[str, Any], profile: Profile) -> list[dict[str, Any]]:
    """What the model tells, without what only it keeps."""
    told = play(scenario, profile)
    for cycle in told:
        cycle["quotaReserved"] = sorted(cycle["quotaReserved"])
        cycle["due"] = sorted(cycle["due"].values())
        for entry in cycle["entries"]:
            if entry["status"] == "skipped":
                entry["targets"] = []  # nobody was asked to leave
            for extra in ("clusterQueue", "status", "requeueReason"):
                del entry[extra]
        for extra in ("refused", "sticky"):
            del cycle[extra]
    return told


def without_levels_of_claims(told: list[dict[str, Any]]) -> None:
    """How far a redeemed claim borrows is shown, not decided by: the model keeps what it was, the engine looks anew."""
    claimants: set[str] = set()
    for cycle in told:
        for entry in cycle["entries"]:
            if entry["workload"] in claimants and entry["mode"] == "Fit":
                del entry["borrow"]
            claimants |= {entry["workload"]} if entry["targets"] or entry["mode"] == "DeferredFit" else set()


@pytest.mark.property
@pytest.mark.parametrize(("profile", "stable"), [("parity", False), ("default", False), ("default", True)])
def test_the_engine_and_the_model_tell_the_same_story(
    profile: Profile, stable: bool, fuzz_seed: int, fuzz_inputs: int, in_time: InTime
) -> None:
    """``stable``: with claims and rounds."""
    for seed in in_time((*FOUND, *range(fuzz_seed, fuzz_seed + fuzz_inputs // INPUTS_PER_SCENARIO))):
        scenario = with_gates(seeded(seed), stable=stable)
        ours, theirs = tell(scenario, profile), expected(scenario, profile)
        for told in (ours, theirs):
            without_levels_of_claims(told)
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True), start=1):
            for what in a:
                assert a[what] == b[what], f"seed {seed}, {profile}: cycle {number} differs in {what}"
