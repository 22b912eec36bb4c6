"""Fair rotation: the turns of several equals (S-7.14)."""

from __future__ import annotations

from dataclasses import replace

from tests.model import facts, queues
from tests.model.flavors import Assignment, Only
from tests.model.nomination import nominate, refusal
from tests.model.preemption import Incoming, Target, incoming_of, rests
from tests.model.world import Snapshot, World, queue_of


def waiting(world: World, queue: str) -> list[str]:
    """The workloads that wait in a queue without a claim, in order; a claimant has had its turn."""
    found = [k for k, wl in world.workloads.items() if facts.is_queueable(wl) and queue_of(world, wl) == queue]
    return sorted((k for k in found if k not in world.claims), key=lambda k: queues.order_key(world, queue, k))


def could_go(world: World, snap: Snapshot, key: str, queue: str) -> bool:
    """Whether it would be evaluated, and would have targets if all its queue's equals had had their time."""  # S-7.14b
    wl, gates = world.workloads[key], world.settings.gates
    p = incoming_of(wl, queue, world.settings)
    gated = gates["MultiKueueOrchestratedPreemption"] and facts.has_closed_gate(wl)
    if gated or rests(snap, p) or refusal(world, queue, key) or not facts.backoff_is_over(wl, snap.now):
        return False
    if key in world.held_back:  # reserved quota keeps it out (0061)
        return False
    as_if = replace(snap, expired="all", limited=set())
    return bool(nominate(as_if, p, facts.pod_sets(wl, gates), [])[1])


def first_in_turn(world: World, snap: Snapshot, p: Incoming) -> str | None:
    """The first equal before this one that only waits until another one's time is over."""  # S-7.14b
    if not world.settings.fair_rotation or facts.min_admit(snap.queues[p.queue], snap.settings.gates) is None:
        return None
    mine = queues.order_key(world, p.queue, p.key)
    for key in waiting(world, p.queue):
        earlier = queues.order_key(world, p.queue, key) < mine
        same = facts.priority(world.workloads[key], world.settings.gates) == p.priority
        if key != p.key and earlier and same and could_go(world, snap, key, p.queue):
            return key
    return None


def search(
    world: World, snap: Snapshot, p: Incoming, resume: list[dict[str, int]], only: Only | None = None
) -> tuple[Assignment, list[Target], str | None]:
    """Assignment and targets of a head in its turn, and the equal that goes first if that barred a target."""  # S-5.4
    podsets = facts.pod_sets(world.workloads[p.key], world.settings.gates)
    if rests(snap, p):
        snap.limited.add(p.key)  # S-7.14d
        return *nominate(snap, p, podsets, resume, only), None
    first = first_in_turn(world, snap, p)
    if first is None:
        return *nominate(snap, p, podsets, resume, only), None
    seen = replace(snap, expired="none", withheld=set())
    found, targets = nominate(seen, p, podsets, resume, only)
    if p.key not in seen.withheld:
        return found, targets, None
    snap.limited.add(p.key)  # S-7.14d
    return found, targets, first
