"""Claims and rounds: preemption that settles (S-19)."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.model import facts, queues, rounds
from tests.model.facts import Raw
from tests.model.flavors import FIT, Assignment, Choice, PodSetAssignment
from tests.model.preemption import Incoming, Target
from tests.model.quota import fits
from tests.model.rounds import rounds_of as rounds_of
from tests.model.targets import ends_above_nominal, newly_evicted
from tests.model.world import (
    Claim,
    Holder,
    Snapshot,
    World,
    deadline_of,
    identity,
    is_active_queue,
    is_overdue,
    queue_of,
    snapshot,
)


def oldest_first(world: World) -> list[Claim]:  # S-5.6
    return sorted(world.claims.values(), key=lambda c: (c.issued_at, c.uid))


def credited(world: World, claim: Claim, now: int) -> set[str]:
    """The victims whose quota is counted as free already."""  # claims 1, 4
    return {key for key in claim.charged if not is_overdue(world, key, now)}


def claimant(world: World, claim: Claim, now: int) -> Holder:
    """The claimant as if it ran with the claimed assignment, reserved now."""  # claims 3
    wl = world.workloads[claim.workload]
    return Holder(
        key=claim.workload,
        queue=claim.queue,
        priority=facts.priority(wl, world.settings.gates),
        uid=claim.uid,
        queue_time=facts.created_at(wl),  # S-4.3: while it runs no other time counts
        reserved_at=now // 1000 * 1000,
        evicted=False,
        usage=claim.assignment.usage,
        claims=True,
        not_for=frozenset(claim.victims.values()),
        past=facts.past_seconds(wl),
        counts_on=tuple(place_of(world, key) for key in sorted(credited(world, claim, now))),
        claimed_at=claim.issued_at,
    )


def place_of(world: World, key: str) -> tuple[str, int]:
    """Where a victim holds quota, and its priority."""
    wl = world.workloads[key]
    return str(wl["status"]["admission"]["clusterQueue"]), facts.priority(wl, world.settings.gates)


def as_it_will_be(world: World, as_it_is: Snapshot) -> Snapshot:
    """The tree once all claims have been redeemed."""  # claims 1
    found, now = as_it_is.copy(), as_it_is.now
    gone = {key for claim in world.claims.values() for key in credited(world, claim, now)}
    for key in sorted(gone & set(found.holders)):
        found.remove(key)
    for claim in oldest_first(world):
        found.put_back(claimant(world, claim, now))
    return found


def ready(world: World) -> list[Claim]:
    """Claims whose victims are gone. One that fitted only as the tree will be is evaluated again after a wake."""
    there = [c for c in oldest_first(world) if not c.charged and c.workload in world.heap[c.queue]]
    return [c for c in there if c.workload not in world.refused]  # claims 2, S-5.1


# making


def made_for(world: World, key: str) -> str:
    """The fields of the claimant's object that end the claim by a change."""  # claims 4
    wl, gates = world.workloads[key], world.settings.gates
    reclaimable = wl.get("status", {}).get("reclaimablePods") or []
    return json.dumps([wl["spec"], facts.priority(wl, gates), reclaimable], sort_keys=True)


def as_fit(assignment: Assignment) -> Assignment:
    """The claimed assignment: the same flavors and counts, with no more victims to wait for."""
    podsets = [
        PodSetAssignment(
            p.name, p.count, dict(p.requests), {r: Choice(c.flavor, FIT, c.level, -1) for r, c in p.flavors.items()}
        )
        for p in assignment.podsets
    ]
    return Assignment(podsets, "Fit", assignment.level, dict(assignment.usage))


def _make(
    world: World, p: Incoming, found: Assignment, victims: dict[str, str], charged: set[str], until: int, now: int
) -> Claim:
    claim = Claim(
        workload=p.key,
        uid=p.uid,
        queue=p.queue,
        assignment=as_fit(found),
        victims=victims,
        charged=charged,
        issued_at=now // 1000 * 1000,
        expires_at=until,
        preempts=False,
        made_for=made_for(world, p.key),
    )
    world.claims[p.key] = claim
    return claim


def make(world: World, p: Incoming, found: Assignment, targets: list[Target], now: int) -> list[Claim]:
    """The claim of an entry that issues preemptions; return the claims that it takes, which end."""  # claims 3
    taken = [world.claims.pop(t.key) for t in targets if t.claims]
    leaving = [t.key for t in targets if not t.claims]
    victims = {key: facts.uid_of(world.workloads[key]) for key in leaving}
    charged = set(leaving)
    for claim in taken:
        inherited = credited(world, claim, now)  # decisions 0014 and 0028: without victims that left or are overdue
        victims |= {key: uid for key, uid in claim.victims.items() if key in inherited}
        charged |= inherited
    until = [deadline_of(world, key, now) for key in victims] or [claim.expires_at for claim in taken]
    _make(world, p, found, victims, charged, max(until), now).preempts = True
    return taken


def leaving_in_tree(world: World, queue: str, now: int) -> list[str]:
    """All victims of the tree's claims that still hold quota, those of older claims first."""
    tree = set(queues.covered(world, queue))
    found: dict[str, None] = {}
    for claim in oldest_first(world):
        if claim.queue in tree:
            found |= dict.fromkeys(key for key in claim.victims if key in credited(world, claim, now))
    return list(found)


def make_deferred(world: World, p: Incoming, found: Assignment, now: int) -> None:
    """The claim of an entry that fits once others' victims are gone."""
    leaving = leaving_in_tree(world, p.queue, now)
    victims = {key: facts.uid_of(world.workloads[key]) for key in leaving}
    _make(world, p, found, victims, set(leaving), max(deadline_of(world, key, now) for key in leaving), now)


# ending


def why_over(world: World, claim: Claim, now: int) -> str | None:
    """Why a claim ends, without regard to its place in the tree and in its queue."""  # claims 4
    wl = world.workloads.get(claim.workload)
    if wl is None or facts.uid_of(wl) != claim.uid:
        return "gone"
    if not facts.is_queueable(wl) or queue_of(world, wl) != claim.queue:
        return "not queued"
    if not is_active_queue(world, claim.queue):
        return "queue stopped"
    if made_for(world, claim.workload) != claim.made_for:
        return "changed"
    gates = world.settings.gates
    if claim.preempts and gates["MultiKueueOrchestratedPreemption"] and facts.has_closed_gate(wl):
        return "gate closed"
    return "expired" if now >= claim.expires_at else None


def no_longer_head(world: World, claim: Claim) -> bool:  # claims 2
    ordered = queues.in_heap_order(world, claim.queue)
    return queues.is_strict(world, claim.queue) and ordered[:1] != [claim.workload]


def first_without_room(world: World, now: int) -> Claim | None:
    """The oldest claim that does not fit the tree as it will be beside those before it."""  # claims 4, decision 0014
    tree = snapshot(world, now)
    gone = {key for claim in world.claims.values() for key in credited(world, claim, now)}
    for key in sorted(gone & set(tree.holders)):
        tree.remove(key)
    for claim in oldest_first(world):
        if not fits(tree, claim.queue, claim.assignment.usage):
            return claim
        tree.put_back(claimant(world, claim, now))
    return None


def end(world: World, claim: Claim, now: int) -> None:
    """End a claim and wake its tree."""  # claims 4
    world.claims.pop(claim.workload, None)
    queues.wake(world, claim.queue, now)


def end_those_over(world: World, now: int) -> list[tuple[str, str]]:
    """End claims until all that are left are in force; return which and why."""  # claims 2, 4
    found: list[tuple[str, str]] = []
    while (over := first_over(world, now)) is not None:
        claim, why = over
        end(world, claim, now)
        found.append((claim.workload, why))
    return found


def first_over(world: World, now: int) -> tuple[Claim, str] | None:
    """The first claim to end. Reasons of its own come first: such a claim takes no room from the others."""
    for claim in oldest_first(world):
        why = why_over(world, claim, now)
        if why is None and no_longer_head(world, claim):
            why = "not head"
        if why is not None:
            return claim, why
    found = first_without_room(world, now)
    return None if found is None else (found, "does not fit")


# rounds


def count_round(world: World, tree: Snapshot, p: Incoming, found: Assignment, targets: list[Target]) -> bool:
    """Count an issue of preemptions or a taking of claims; ``tree`` is the one in which all other victims are gone.

    Return whether it ends above nominal.
    """
    done = rounds_of(world, p.key)
    above = ends_above_nominal(tree, p, targets, found.usage)
    done.total += bool(newly_evicted(tree, targets))
    done.above += above
    return above


def lose_by_share(world: World, claim: Claim) -> None:
    """The round that its claim was made in no longer counts as one above nominal."""  # S-9.14
    done = rounds_of(world, claim.workload)
    done.above = max(0, done.above - claim.above)
    done.passed_on += 1


def lose_to(world: World, key: str, by: str) -> None:  # epochs 2
    rounds_of(world, key).lost_to = by


def change(world: World, raw: Raw, now: int) -> None:
    """A pending workload's object is replaced; its counts end with a change that matters."""  # S-4.7, epochs 2
    key = facts.key_of(raw)
    before, queue = made_for(world, key), queue_of(world, world.workloads[key])
    world.workloads[key] = raw
    if made_for(world, key) != before:
        world.rounds[identity(world, key)] = replace(rounds_of(world, key), above=0, total=0, passed_on=0)
    claim, entitled = world.claims.get(key), key in world.entitled
    queues.leave(world, key)
    if claim is not None:
        world.claims[key] = claim
    if queue is not None:
        queues.arrive(world, key, now)
        if entitled:
            queues.wake_held_back(world, queue, set())  # S-5.14: what it held ends with the change
    queues.let_go(world, key, now)


# as stored


def stored(world: World, claim: Claim) -> Raw:
    """The claim as status.preemptionClaim shows it."""  # api 5.3
    names = [(key.split("/", 1), uid) for key, uid in claim.victims.items()]
    return {
        "podSetAssignments": [
            {"name": p.name, "flavors": {r: c.flavor for r, c in sorted(p.flavors.items())}, "count": p.count}
            for p in claim.assignment.podsets
        ],
        "victims": [{"namespace": space, "name": name, "uid": uid} for (space, name), uid in names],
        "victimCount": len(claim.victims),
        "issuedAt": facts.time_text(claim.issued_at),
        "expiresAt": facts.time_text(claim.expires_at),
    }


def claimed_assignment(world: World, key: str, block: Raw) -> Assignment:
    podsets = {p.name: p for p in facts.pod_sets(world.workloads[key], world.settings.gates)}
    found = Assignment()
    for part in block["podSetAssignments"]:
        requests = podsets[part["name"]].requests(part["count"]) | {"pods": part["count"]}
        requests = {r: v for r, v in requests.items() if r in part["flavors"]}
        choices = {r: Choice(flavor, FIT, 0, -1) for r, flavor in part["flavors"].items()}
        found.podsets.append(PodSetAssignment(part["name"], part["count"], requests, choices))
        for r, flavor in part["flavors"].items():
            found.usage[flavor, r] = found.usage.get((flavor, r), 0) + requests[r]
    return found


def take_up(world: World) -> None:
    """After a start: take up claims as stored; their claimants are sticky."""  # S-10.13, S-3.11
    for key, wl in sorted(world.workloads.items()):
        block, queue = wl.get("status", {}).get("preemptionClaim"), queue_of(world, wl)
        if block is None or queue is None or not world.settings.gates["PreemptionClaims"]:
            continue
        victims = {f"{v['namespace']}/{v['name']}": str(v["uid"]) for v in block["victims"]}
        world.claims[key] = Claim(
            workload=key,
            uid=facts.uid_of(wl),
            queue=queue,
            assignment=claimed_assignment(world, key, block),
            victims=victims,
            charged={k for k, uid in victims.items() if is_leaving(world, k, uid)},
            issued_at=facts.millis(block["issuedAt"]),
            expires_at=facts.millis(block["expiresAt"]),
            preempts=True,
            made_for=made_for(world, key),
        )
    for claim in oldest_first(world):
        claim.disturbs = rounds.disturbs(world, claim, {})
        if not queues.is_strict(world, claim.queue):
            world.sticky[claim.queue] = claim.workload


def is_leaving(world: World, key: str, uid: str) -> bool:
    wl = world.workloads.get(key)
    if wl is None or facts.uid_of(wl) != uid:
        return False
    return facts.is_accounted(wl, world.settings.parity) and facts.is_true(wl, "Evicted")
