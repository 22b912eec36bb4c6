"""A whole scenario: several cycles and what happens between them, as plain data to compare with."""

from __future__ import annotations

from typing import Any

from tests.model import facts, queues
from tests.model.cycle import Entry, Result, cycle
from tests.model.facts import Raw
from tests.model.flavors import FIT, OUTSIDE
from tests.model.world import World, load, make_settings

CYCLE_MILLIS = 10_000


def listing(lists: dict[str, set[str]]) -> dict[str, list[str]]:
    return {queue: sorted(keys) for queue, keys in sorted(lists.items()) if keys}


def entry_facts(e: Entry) -> dict[str, Any]:
    """One entry as recorded: the podsets of a deferred entry show its mode."""

    def shown(mode: int) -> str:
        return "DeferredFit" if e.mode == "DeferredFit" and mode == FIT else OUTSIDE[mode]

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


def between_cycles(world: World, victims: list[str], events: list[dict[str, Any]], now: int) -> None:
    """Victims are released, then events happen, then every tree that lost something wakes."""
    woken = {queues.release(world, key, now) for key in victims}
    for event in events:
        there = [key for key in event.get("delete") or [] if key in world.workloads]
        woken |= {q for key in there if (q := queues.delete(world, key)) is not None}
        for raw in event.get("create") or []:
            queues.create(world, raw, now)
    for queue in sorted(woken):
        queues.wake(world, queue, now)


def cycle_facts(world: World, result: Result) -> dict[str, Any]:
    """What one cycle did and left behind; targets are in the order in which they were chosen."""
    admissions = {key: world.workloads[key]["status"]["admission"] for key in sorted(result.reserved)}
    return {
        "entries": [entry_facts(e) | {"targets": [[t.key, t.reason] for t in e.targets]} for e in result.entries],
        "refused": dict(sorted(result.refused.items())),
        "preempted": sorted([victim, by, why] for victim, by, why in result.preempted),
        "quotaReserved": admissions,
        "heap": {queue: queues.in_heap_order(world, queue) for queue in sorted(world.heap) if world.heap[queue]},
        "parked": listing(world.parked),
        "sticky": dict(sorted(world.sticky.items())),
        "due": queues.heads(world),
    }


def start(scenario: Raw, profile: str) -> World:
    world = load(scenario["objects"], make_settings(profile, scenario.get("featureGates")))
    queues.fill(world, facts.millis(scenario["now"]))
    return world


def play(scenario: Raw, profile: str) -> list[dict[str, Any]]:
    """Run a scenario of ``scenarios`` (or of the oracle vectors) and tell each cycle."""
    world, told = start(scenario, profile), []
    at = facts.millis(scenario["now"])
    for i in range(scenario["cycles"]):
        result = cycle(world, at)
        told.append(cycle_facts(world, result))
        victims = sorted({victim for victim, _, _ in result.preempted})
        events = [e for e in scenario.get("events") or [] if e["afterCycle"] == i + 1]
        between_cycles(world, victims, events, at)
        last, at = at, at + scenario.get("stepMillis", CYCLE_MILLIS)
        queues.wake_expired(world, last, at)
    return told
