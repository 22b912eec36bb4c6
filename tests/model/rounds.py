"""The identity of a workload in counted rounds, and when its counts end (S-19.3.2, 19.3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.model import facts
from tests.model.world import Claim, Rounds, World, identity, on_cycle, parents, queue_node

PLACE_LOST_WITHOUT_QUARREL = ("ClusterQueueStopped", "LocalQueueStopped", "NodeFailures", "Deactivated")  # epochs 2
BY_TIME = "InClusterQueueTimeBased"


def rounds_of(world: World, key: str) -> Rounds:  # epochs 3
    return world.rounds.setdefault(identity(world, key), Rounds())


def end_counts(world: World, key: str) -> None:
    found = world.rounds.get(identity(world, key))
    if found is not None:
        found.above, found.total, found.passed_on, found.lost_to = 0, 0, 0, None


# names


def identities(world: World) -> dict[str, tuple[str, ...]]:
    return {key: identity(world, key) for key in world.workloads}


def rename(world: World, before: Mapping[str, tuple[str, ...]]) -> None:
    """Counts go with the workload: an owner got a second one, or was left with one."""  # epochs 3
    for key, known in before.items():
        if key in world.workloads and (now_known := identity(world, key)) != known and known in world.rounds:
            world.rounds[now_known] = world.rounds.pop(known)


# quiet times (epochs 2)


def root_of(world: World, queue: str) -> str:
    above = parents(world)
    node = queue_node(queue)
    while not on_cycle(queue_node(queue), above) and (parent := above[node]) is not None:
        node = parent
    return node


def tree_of(world: World, queue: str) -> list[str]:
    root = root_of(world, queue)
    return [name for name in sorted(world.queues) if root_of(world, name) == root]


def was_by_time(world: World, key: str, uid: str, reasons: Mapping[str, str]) -> bool:
    """Whether a victim was displaced by time; ``reasons``: of victims that are asked to leave in this cycle."""
    wl = world.workloads.get(key)
    if wl is None or facts.uid_of(wl) != uid:
        return False
    if facts.is_true(wl, "Evicted"):
        return facts.displaced_at(wl) is not None
    return reasons.get(key) == BY_TIME


def disturbs(world: World, claim: Claim, reasons: Mapping[str, str]) -> bool:
    """Whether a claim is part of a quarrel: it has victims that were not displaced by time, or none at all."""
    return not claim.victims or not all(was_by_time(world, k, uid, reasons) for k, uid in claim.victims.items())


def leaving_in_quarrel(world: World) -> list[str]:
    """Queues with a victim that is leaving, and was not preempted by time."""
    held = [wl for wl in world.workloads.values() if facts.is_accounted(wl, world.settings.parity)]
    preempted = [wl for wl in held if facts.is_true(wl, "Evicted") and facts.is_true(wl, "Preempted")]
    told = [wl for wl in preempted if facts.displaced_at(wl) is None]
    return [str(wl["status"]["admission"]["clusterQueue"]) for wl in told]


def note(world: World, now: int) -> None:
    """Claims are in force, or victims leave: until now there was no quiet in their trees."""
    where = [claim.queue for claim in world.claims.values() if claim.disturbs] + leaving_in_quarrel(world)
    for queue in {name for each in where if each in world.queues for name in tree_of(world, each)}:
        world.disturbed[queue] = now


def in_quarrel(world: World, queue: str) -> bool:
    tree = tree_of(world, queue)
    where = [claim.queue for claim in world.claims.values() if claim.disturbs] + leaving_in_quarrel(world)
    return any(each in tree for each in where)


def has_held_in_quiet(world: World, key: str, now: int) -> bool:
    """Whether it has held its quota for long since it got it and since the last quarrel of its tree."""
    wl = world.workloads[key]
    reserved = facts.reserved_at(wl)
    if reserved is None or not facts.is_accounted(wl, world.settings.parity):
        return False
    since = max(reserved, world.disturbed.get(wl["status"]["admission"]["clusterQueue"], reserved))
    return now - since >= world.settings.rounds_end_after


def claims_made(world: World, made: Iterable[Claim], reasons: Mapping[str, str], now: int) -> None:
    """New claims: the first that disturbs ends the quiet, and with it the counts of all that held quota in quiet."""
    for claim in made:
        claim.disturbs = disturbs(world, claim, reasons)
        if not claim.disturbs:
            continue
        tree = tree_of(world, claim.queue)
        for key, wl in sorted(world.workloads.items()):
            there = (wl.get("status", {}).get("admission") or {}).get("clusterQueue") in tree
            if there and has_held_in_quiet(world, key, now):
                end_counts(world, key)
        for queue in tree:
            world.disturbed[queue] = now


def lose_quota(world: World, key: str, now: int) -> None:
    """Its quota is taken: how, and how long it was held in quiet, may end its counts."""  # epochs 2
    wl = world.workloads[key]
    evicted = facts.condition(wl, "Evicted")
    told = evicted is not None and evicted["status"] == "True"
    suspended = not told  # its queue was put on hold, which is no eviction
    peacefully = evicted is not None and told and evicted["reason"] in PLACE_LOST_WITHOUT_QUARREL
    queue = str(wl["status"]["admission"]["clusterQueue"])
    in_quiet = not in_quarrel(world, queue) and has_held_in_quiet(world, key, now)
    if suspended or peacefully or facts.displaced_at(wl) is not None or in_quiet:
        end_counts(world, key)
