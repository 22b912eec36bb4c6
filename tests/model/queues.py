"""Heap, parking, stickiness, wakes, and what happens to workloads between cycles (sections 3 and 4)."""

from __future__ import annotations

import copy

from tests.model import facts, rounds
from tests.model.facts import Raw
from tests.model.quota import tree_queues
from tests.model.world import World, is_active_queue, on_cycle, parents, queue_node, queue_of, snapshot

HEAP_REASONS = ("PendingPreemption", "PreemptionFailed", "FailedAfterNomination")  # S-4.5
SHAPE_REASONS = ("NoFit", "PreemptionNoCandidates")  # S-4.5


def is_strict(world: World, queue: str) -> bool:  # S-4.4
    return bool(world.queues[queue].get("queueingStrategy", "BestEffortFIFO") == "StrictFIFO")


def selector_matches(selector: Raw | None, labels: dict[str, str]) -> bool:
    """Kubernetes: no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    for e in selector.get("matchExpressions") or []:
        value, wanted = labels.get(e["key"]), e.get("values") or []
        holds = {
            "In": value in wanted,
            "NotIn": value not in wanted,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[e["operator"]]:
            return False
    return True


def namespace_matches(world: World, queue: str, key: str) -> bool:
    labels = world.namespaces.get(key.split("/")[0])
    return labels is not None and selector_matches(world.queues[queue].get("namespaceSelector"), labels)


def queue_time(world: World, key: str) -> int:
    return facts.queue_time(world.workloads[key], world.settings.gates, world.settings.pods_ready_timestamp)


def order_key(world: World, queue: str, key: str) -> tuple[bool, int, int, bool, int, str, str]:  # S-4.1, S-7.14c
    wl, s = world.workloads[key], world.settings
    return (
        world.sticky.get(queue) != key,
        -facts.priority(wl, s.gates),
        queue_time(world, key),
        s.fair_rotation and facts.displaced_at(wl) is not None,
        facts.past_seconds(wl) if s.fair_ties else 0,
        facts.uid_of(wl),
        key,
    )


def in_heap_order(world: World, queue: str) -> list[str]:
    return sorted(world.heap[queue], key=lambda key: order_key(world, queue, key))


def is_due(world: World, key: str) -> bool:
    """Whether it may be the head; a claimant waits for its victims and comes beside the head."""  # S-5.1, S-4.2
    if key in world.claims:
        return False
    return world.settings.parity or key not in world.refused  # parity: every head in every cycle


def head(world: World, queue: str) -> str | None:  # S-4.2
    ordered = in_heap_order(world, queue)
    if not ordered:
        return None
    if is_strict(world, queue):
        return ordered[0] if is_due(world, ordered[0]) else None
    sticky_first = world.sticky.get(queue) == ordered[0] and not is_due(world, ordered[0])
    if sticky_first and not world.settings.gates["PreemptionClaims"]:
        return None
    return next((key for key in ordered if is_due(world, key)), None)


def heads(world: World) -> dict[str, str]:
    """ClusterQueue -> its head in this cycle."""  # S-4.2, S-3.2
    found = {queue: head(world, queue) for queue in sorted(world.queues) if is_active_queue(world, queue)}
    return {queue: key for queue, key in found.items() if key is not None}


def shape_of(world: World, key: str) -> str:
    return facts.shape(world.workloads[key], world.settings.gates)


def has_untried_flavors(world: World, key: str) -> bool:  # S-6.8
    progress = world.progress.get(key)
    if progress is None:
        return False
    ended = world.ended.get(key, set()) if world.settings.gates["PreemptionClaims"] else set()
    tried = {(i, r): index for i, podset in enumerate(progress.tried) for r, index in podset.items()}
    return any(index != -1 and scan not in ended for scan, index in tried.items())


def push(world: World, queue: str, key: str, now: int) -> bool:
    """To the heap if its backoff is over, else parked; return whether it is in the heap."""  # S-4.5.2
    over = facts.backoff_is_over(world.workloads[key], now)
    (world.heap if over else world.parked)[queue].add(key)
    return over


def park(world: World, queue: str, key: str) -> None:
    world.heap[queue].discard(key)
    world.parked[queue].add(key)


def arrive(world: World, key: str, now: int) -> None:
    """A pending workload enters its queue."""  # S-3.7, S-4.5.3
    wl = world.workloads[key]
    queue = queue_of(world, wl)
    if queue is None or not facts.is_queueable(wl):
        return
    since = world.shapes[queue].get(shape_of(world, key))
    if since is not None and queue_time(world, key) >= since:
        park(world, queue, key)
    else:
        push(world, queue, key, now)


def fill(world: World, now: int) -> None:
    """Queue all waiting workloads."""
    for key in sorted(world.workloads):
        arrive(world, key, now)


def requeue(world: World, queue: str, key: str, reason: str, now: int, shared: bool = True) -> None:
    """Decide where a head goes after its cycle; ``shared``: its shape would get the same verdict."""  # S-4.5, S-4.9
    strict = is_strict(world, queue)
    to_heap = reason in HEAP_REASONS or (strict and reason != "NamespaceMismatch") or has_untried_flavors(world, key)
    if not strict and reason == "PendingPreemption":
        world.sticky[queue] = key
    if reason == "PendingPreemption":
        world.preemptors.add(key)  # S-5.6.2
        world.last_preemptor[queue] = key
    if reason != "FailedAfterNomination" and not has_untried_flavors(world, key):
        world.refused.add(key)  # S-5.1
    if to_heap:
        push(world, queue, key, now)
        return
    park(world, queue, key)
    if shared and not strict and reason in SHAPE_REASONS and world.settings.gates["SchedulingEquivalenceHashing"]:
        move_shape(world, queue, shape_of(world, key), binds_from(world, queue, key))


def binds_from(world: World, queue: str, key: str) -> int:
    """The queue time from which on the verdict of a workload binds its shape: an older one may have more candidates."""
    within = (world.queues[queue].get("preemption") or {}).get("withinClusterQueue")  # S-4.5.3
    by_age = within == "LowerOrNewerEqualPriority" and not world.settings.parity
    return queue_time(world, key) if by_age else facts.BEFORE_ALL_TIME


def move_shape(world: World, queue: str, shape: str, since: int) -> None:  # S-4.5.3
    since = min(since, world.shapes[queue].get(shape, since))
    world.shapes[queue][shape] = since
    for key in sorted(world.heap[queue]):
        if shape_of(world, key) == shape and queue_time(world, key) >= since:
            park(world, queue, key)


def covered(world: World, queue: str) -> list[str]:
    """The ClusterQueues that a wake of this one reaches; none if its cohorts form a cycle, without a root."""  # S-4.6
    if on_cycle(queue_node(queue), parents(world)):
        return []
    return tree_queues(snapshot(world, 0), queue)


def wake(world: World, queue: str, now: int) -> None:
    """Parked workloads of the whole tree return, refused heads become due."""  # S-4.6
    for name in covered(world, queue):
        world.shapes[name].clear()
        for key in sorted(world.parked[name]):
            if namespace_matches(world, name, key) and facts.backoff_is_over(world.workloads[key], now):
                world.parked[name].discard(key)
                world.heap[name].add(key)
        for key in world.heap[name]:
            forget_verdict(world, key)


def forget_verdict(world: World, key: str) -> None:
    """It is evaluated as if for the first time, but for the flavors it has tried; whether it is entitled stays."""
    world.ended.pop(key, None)
    world.turns.pop(key, None)
    world.refused.discard(key)
    world.held_back.discard(key)


def wake_one(world: World, key: str, now: int) -> None:
    """A single workload is due; from parking it returns as if it arrived. A claimant waits for other things."""
    queue = queue_of(world, world.workloads[key])  # S-4.7
    if queue is None or key in world.claims:
        return
    forget_verdict(world, key)
    if key in world.parked[queue]:
        world.parked[queue].discard(key)
        arrive(world, key, now)


def let_go(world: World, first: str, now: int) -> None:
    """Workloads that let this one go first are due."""  # S-4.6.9
    for key in sorted(key for key, before in world.turns.items() if before == first):
        wake_one(world, key, now)


def let_go_after_admission(world: World, queue: str, now: int) -> None:
    """Workloads of the tree that let another go first are due, and no others."""  # S-4.6.9
    tree = covered(world, queue)
    for key in sorted(key for key in world.turns if queue_of(world, world.workloads[key]) in tree):
        wake_one(world, key, now)


def wake_strict_heads(world: World, queue: str) -> None:
    """After an admission refused StrictFIFO heads of the tree are due."""  # S-4.6.8
    for name in covered(world, queue):
        if is_strict(world, name):
            world.refused -= world.heap[name]
            world.held_back -= world.heap[name]


def wake_held_back(world: World, queue: str, but: set[str]) -> None:
    """A reservation of the tree changed: workloads that lost to it are due."""  # S-5.1
    for name in covered(world, queue):
        lost = (world.heap[name] & world.held_back) - but
        world.refused -= lost
        world.held_back -= lost


def leave(world: World, key: str) -> None:
    """Leave every queue, which forgets it."""
    for queue in world.queues:
        world.heap[queue].discard(key)
        world.parked[queue].discard(key)
        if world.sticky.get(queue) == key:
            del world.sticky[queue]
    world.progress.pop(key, None)
    world.ended.pop(key, None)
    world.claims.pop(key, None)
    world.turns.pop(key, None)
    world.entitled.pop(key, None)
    world.refused.discard(key)
    world.held_back.discard(key)


def departed(world: World, key: str) -> None:
    """No claim waits for it any more, even should it hold quota again before the others have left."""  # P16
    for claim in world.claims.values():
        claim.charged.discard(key)


def release(world: World, key: str, now: int) -> str:
    """A victim loses its quota and waits again; return its queue, to be woken."""  # S-10.3, S-3.7
    wl = world.workloads[key]
    queue = str(wl["status"]["admission"]["clusterQueue"])
    rounds.lose_quota(world, key, now)
    facts.count_run(wl, now)
    facts.set_condition(wl, "QuotaReserved", False, "PendingEvaluation", now)
    facts.set_condition(wl, "Requeued", True, "Preempted", now)
    if facts.condition(wl, "Admitted"):
        facts.set_condition(wl, "Admitted", False, "NoReservation", now)
    del wl["status"]["admission"]
    departed(world, key)
    world.generation[queue] += 1  # S-3.8
    arrive(world, key, now)
    return queue


def delete(world: World, key: str) -> str | None:
    """A workload is deleted; return its queue, to be woken."""  # S-3.7, S-4.6.1
    wl = world.workloads[key]
    queue = queue_of(world, wl)
    if facts.is_accounted(wl, world.settings.parity):
        queue = str(wl["status"]["admission"]["clusterQueue"])
        world.generation[queue] += 1  # S-3.8
    leave(world, key)
    departed(world, key)
    for counts in world.rounds.values():
        if counts.lost_to == key:  # S-19.3.2
            counts.above, counts.total, counts.lost_to = 0, 0, None
    world.preemptors.discard(key)
    before = rounds.identities(world)
    del world.workloads[key]
    rounds.rename(world, before)
    return queue


def create(world: World, raw: Raw, now: int) -> str:
    """A workload is created; return its key."""
    key, before = facts.key_of(raw), rounds.identities(world)
    world.workloads[key] = copy.deepcopy(raw)
    rounds.rename(world, before)
    arrive(world, key, now)
    return key


def expiries(world: World) -> list[tuple[int, str]]:
    """The times at which a ClusterQueue is woken because a holder's minAdmitDuration is over."""  # S-7.9
    found = []
    for wl in world.workloads.values():
        reserved = facts.reserved_at(wl)
        if reserved is None or not facts.is_accounted(wl, world.settings.parity):
            continue
        queue = wl["status"]["admission"]["clusterQueue"]
        least = facts.min_admit(world.queues.get(queue, {}), world.settings.gates)
        if least is not None:
            found.append((int(reserved + least + 1000), queue))
    return sorted(found)


def wake_expired(world: World, since: int, now: int) -> list[str]:
    """Wake the queues whose expiry lies in (since, now]; return them."""  # S-7.9
    due = sorted({queue for at, queue in expiries(world) if since < at <= now})
    for queue in due:
        wake(world, queue, now)
    return due


def wake_turns(world: World, since: int, now: int) -> list[str]:
    """Wake only the workloads whose rest after a displacement by time ends in (since, now]."""  # S-7.14a
    due = []
    for key, wl in sorted(world.workloads.items()):
        queue, displaced = queue_of(world, wl), facts.displaced_at(wl)
        if queue is None or displaced is None or not facts.is_queueable(wl) or not world.settings.fair_rotation:
            continue
        least = facts.min_admit(world.queues[queue], world.settings.gates)
        if least is not None and since < displaced + least <= now:
            due.append(key)
    for key in due:
        wake_one(world, key, now)
    return due
