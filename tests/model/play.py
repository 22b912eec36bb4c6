"""A whole scenario: several cycles and what happens between them, as plain data to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model import claims, facts, queues, rounds
from tests.model.cycle import Entry, Result, cycle
from tests.model.facts import Raw
from tests.model.flavors import OUTSIDE
from tests.model.world import Claim, World, load, make_settings

CYCLE_MILLIS = 10_000
BOTH_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


def listing(lists: dict[str, set[str]]) -> dict[str, list[str]]:
    return {queue: sorted(keys) for queue, keys in sorted(lists.items()) if keys}


def entry_facts(e: Entry) -> dict[str, Any]:
    """One entry as recorded: all resources of a deferred entry show its mode."""

    def shown(mode: int) -> str:
        return "DeferredFit" if e.mode == "DeferredFit" else OUTSIDE[mode]

    return {
        "workload": e.p.key,
        "clusterQueue": e.p.queue,
        "mode": e.mode,
        "borrow": e.assignment.level,
        "status": e.status,
        "requeueReason": e.reason,
        "podSets": [
            {
                "name": p.name,
                "count": p.count,
                "flavors": {r: {"flavor": c.flavor, "mode": shown(c.mode)} for r, c in sorted(p.flavors.items())},
            }
            for p in e.assignment.podsets
        ],
    }


def claim_facts(world: World, claim: Claim) -> dict[str, Any]:
    """A claim as it is stored, with the keys of its victims (``leaving``: those that still hold their quota)."""
    block = claims.stored(world, claim)
    leaving = sorted(claim.charged)
    return block | {"victims": sorted(claim.victims), "leaving": leaving}


def between_cycles(world: World, victims: list[str], events: list[dict[str, Any]], now: int) -> None:
    """Victims are released, then events happen, then every tree that lost usage wakes."""
    rounds.note(world, now)
    woken = {queues.release(world, key, now) for key in victims}
    for event in events:
        there = [key for key in event.get("delete") or [] if key in world.workloads]
        woken |= {q for key in there if (q := queues.delete(world, key)) is not None}
        for raw in event.get("create") or []:
            queues.create(world, raw, now)
    for queue in sorted(woken):
        queues.wake(world, queue, now)


def cycle_facts(world: World, result: Result) -> dict[str, Any]:
    """The effects of one cycle; targets are in the order in which they were chosen."""
    admissions = {key: world.workloads[key]["status"]["admission"] for key in sorted(result.reserved)}
    return {
        "entries": [entry_facts(e) | {"targets": [[t.key, t.reason] for t in e.targets]} for e in result.entries],
        "refused": dict(sorted(result.refused.items())),
        "preempted": sorted([victim, by, why] for victim, by, why in result.preempted),
        "evicted": sorted(result.evicted),
        "taken": sorted([claimant, by, why] for claimant, by, why in result.taken),
        "claims": {key: claim_facts(world, claim) for key, claim in sorted(world.claims.items())},
        "claimsOver": sorted([key, why] for key, why in result.over),
        "quotaReserved": admissions,
        "heap": {queue: queues.in_heap_order(world, queue) for queue in sorted(world.heap) if world.heap[queue]},
        "parked": listing(world.parked),
        "sticky": dict(sorted(world.sticky.items())),
        "due": queues.heads(world),
        "ready": [claim.workload for claim in claims.ready(world)],
    }


class Leaving:
    """When victims release their quota: the n-th eviction of a workload takes ``leaving[key][n - 1]`` further cycles.

    The list starts again at its end; a workload without one leaves before the next cycle.
    """

    def __init__(self, leaving: dict[str, list[int]]) -> None:
        self._cycles = leaving
        self._times: dict[str, int] = {}
        self._after: dict[str, int] = {}  # workload -> the cycle after which it leaves

    def evicted(self, key: str, number: int) -> None:
        """A victim was chosen in this cycle; one that leaves already goes on leaving."""
        if key not in self._after:
            cycles = self._cycles.get(key) or [0]
            self._after[key] = number + cycles[self._times.get(key, 0) % len(cycles)]
            self._times[key] = self._times.get(key, 0) + 1

    def gone_after(self, world: World, number: int) -> list[str]:
        """The workloads that release their quota after this cycle."""
        gone = sorted(key for key, after in self._after.items() if after <= number)
        for key in gone:
            del self._after[key]
        accounted = [key for key in gone if key in world.workloads]
        return [key for key in accounted if facts.is_accounted(world.workloads[key], world.settings.parity)]

    def deleted(self, key: str) -> None:
        self._after.pop(key, None)


def strategies_of(scenario: Raw) -> tuple[str, ...]:
    """The strategies of fair sharing, if it is on: an empty list means both."""
    fair = (scenario.get("config") or {}).get("fairSharing")
    return () if fair is None else tuple(fair.get("preemptionStrategies") or BOTH_STRATEGIES)


def start(scenario: Raw, profile: str) -> World:
    settings = make_settings(profile, scenario.get("featureGates"), strategies=strategies_of(scenario))
    world = load(scenario["objects"], settings)
    queues.fill(world, facts.millis(scenario["now"]))
    claims.take_up(world)
    return world


def cycles_of(scenario: Raw, profile: str) -> Iterator[tuple[World, Result, int]]:
    """Run a scenario; yield after each cycle the world, the result and the time."""
    world, leaving = start(scenario, profile), Leaving(scenario.get("leaving") or {})
    at = facts.millis(scenario["now"])
    for number in range(1, scenario["cycles"] + 1):
        result = cycle(world, at)
        yield world, result, at
        for victim, _, _ in result.preempted:
            leaving.evicted(victim, number)
        events = [e for e in scenario.get("events") or [] if e["afterCycle"] == number]
        between_cycles(world, leaving.gone_after(world, number), events, at)
        for key in (key for e in events for key in e.get("delete") or []):
            leaving.deleted(key)
        last, at = at, at + scenario.get("stepMillis", CYCLE_MILLIS)
        queues.wake_expired(world, last, at)
        queues.wake_turns(world, last, at)


def play(scenario: Raw, profile: str) -> list[dict[str, Any]]:
    """Run a scenario of ``scenarios`` (or of the oracle vectors); return the facts of each cycle."""
    return [cycle_facts(world, result) for world, result, _ in cycles_of(scenario, profile)]
