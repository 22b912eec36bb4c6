"""Candidates and targets of classical preemption (sections 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model import facts
from tests.model.amounts import Amounts, FlavorResource, add, sub
from tests.model.facts import Raw
from tests.model.quota import (
    ancestors,
    available_to_queue,
    borrowing,
    local_available,
    subtree_quota,
    usage,
    within_nominal,
)
from tests.model.world import Holder, Settings, Snapshot, queue_node

Need = frozenset[FlavorResource]


@dataclass(frozen=True)
class Incoming:
    """The workload that wants quota."""

    key: str
    queue: str
    priority: int
    queue_time: int
    uid: str
    displaced_at: int | None = None  # by time


def incoming_of(wl: Raw, queue: str, settings: Settings) -> Incoming:
    return Incoming(
        key=facts.key_of(wl),
        queue=queue,
        priority=facts.priority(wl, settings.gates),
        queue_time=facts.queue_time(wl, settings.gates, settings.pods_ready_timestamp),
        uid=facts.uid_of(wl),
        displaced_at=facts.displaced_at(wl),
    )


@dataclass(frozen=True)
class Target:
    """A victim, with the reason of its Preempted condition."""

    key: str
    queue: str
    reason: str
    claims: bool = False  # not evicted: its claim is taken


@dataclass(frozen=True)
class Candidate:
    """A workload that may be evicted. ``common`` is the ancestor through which it was found, none in the own queue."""

    holder: Holder
    kind: str  # WithinCQ, HierarchicalReclaim, ReclaimWithoutBorrowing, ReclaimWhileBorrowing
    reason: str
    common: str | None


def policy(snap: Snapshot, queue: str, which: str) -> str:
    return str((snap.queues[queue].get("preemption") or {}).get(which, "Never"))


def borrow_within_cohort(snap: Snapshot, queue: str) -> tuple[str, int | None]:
    block = (snap.queues[queue].get("preemption") or {}).get("borrowWithinCohort") or {}
    return str(block.get("policy", "Never")), block.get("maxPriorityThreshold")


def has_expired(snap: Snapshot, holder: Holder) -> bool:  # S-7.5
    least = facts.min_admit(snap.queues[holder.queue], snap.settings.gates)
    if least is None or holder.reserved_at is None:
        return False
    return snap.now - holder.reserved_at > least


def is_equal(p: Incoming, t: Holder) -> bool:
    return t.queue == p.queue and t.priority == p.priority


def counts_as_expired(snap: Snapshot, p: Incoming, t: Holder) -> bool:
    """Whether it has had its time, or a question of turns is asked as if all or none had."""  # S-7.5, S-7.14b
    if snap.expired == "by time" or not is_equal(p, t):
        return has_expired(snap, t)
    return snap.expired == "all"


def rests(snap: Snapshot, p: Incoming) -> bool:
    """Whether it was displaced by time so lately that no equal makes way for it yet."""  # S-7.14a
    least = facts.min_admit(snap.queues[p.queue], snap.settings.gates)
    if not snap.settings.fair_rotation or least is None or p.displaced_at is None:
        return False
    return snap.now < p.displaced_at + least


def is_newer(p: Incoming, queue_time: int) -> bool:  # S-7.4
    return p.queue_time < queue_time


def policy_allows(how: str, p: Incoming, t_priority: int, newer_or_expired: bool) -> bool:  # S-7.3
    match how:
        case "Never":
            return False
        case "LowerPriority":
            return p.priority > t_priority
        case "Any":
            return True
        case "LowerOrNewerEqualPriority":
            return p.priority > t_priority or (p.priority == t_priority and newer_or_expired)
    raise ValueError(f"unknown policy {how}")


def passes(snap: Snapshot, p: Incoming, t: Holder, how: str, need: Need) -> bool:  # S-7.2, S-7.3
    uses_contested = any(fr in need for fr in t.usage)
    if t.overdue or p.uid in t.not_for:  # S-19.1.3, 19.1.4
        return False
    if is_equal(p, t) and rests(snap, p):
        return False
    newer_or_expired = is_newer(p, t.queue_time) or counts_as_expired(snap, p, t)
    return uses_contested and policy_allows(how, p, t.priority, newer_or_expired)


def is_withheld(snap: Snapshot, p: Incoming, t: Holder, need: Need) -> bool:
    """Whether it would be a candidate for having had its time, were it not another workload's turn."""  # S-7.14b
    barred = t.overdue or p.uid in t.not_for or t.key == p.key or not is_equal(p, t)
    return not barred and any(fr in need for fr in t.usage) and has_expired(snap, t)


def own_reason(snap: Snapshot, p: Incoming, t: Holder) -> str:  # S-7.7
    timed = t.priority == p.priority and counts_as_expired(snap, p, t)
    return "InClusterQueueTimeBased" if timed else "InClusterQueue"


OrderKey = tuple[bool, bool, int, bool, int, int, int, str, str]


def candidate_order(snap: Snapshot, p: Incoming, t: Holder) -> OrderKey:  # S-7.6, S-7.14c
    own = t.queue == p.queue
    q = snap.now if t.reserved_at is None else t.reserved_at
    timed = is_equal(p, t) and counts_as_expired(snap, p, t)
    past = t.past if timed and snap.settings.fair_ties else 0
    return (not t.evicted, own, t.priority, not timed, q if timed else 0, -past, -q, t.uid, t.key)


def same_queue_candidates(snap: Snapshot, p: Incoming, need: Need) -> list[Candidate]:  # S-8.1
    how = policy(snap, p.queue, "withinClusterQueue")
    mine = [t for t in snap.holders.values() if t.queue == p.queue and t.key != p.key]
    found = [t for t in mine if passes(snap, p, t, how, need)]
    return [Candidate(t, "WithinCQ", own_reason(snap, p, t), None) for t in found]


def collect(snap: Snapshot, p: Incoming, node: str, visited: str, need: Need) -> list[Holder]:  # S-8.3
    how = policy(snap, p.queue, "reclaimWithinCohort")
    found: list[Holder] = []
    for child in snap.tree[node].children:
        if child == visited or within_nominal(snap, child, need):
            continue
        if not snap.tree[child].is_queue:
            found += collect(snap, p, child, visited, need)
        elif snap.tree[child].name != p.queue and snap.tree[child].name in snap.active:
            theirs = [t for t in snap.holders.values() if t.queue == snap.tree[child].name]
            found += [t for t in theirs if passes(snap, p, t, how, need)]
    return found


def classify(snap: Snapshot, p: Incoming, t: Holder, advantage: bool, common: str) -> Candidate:  # S-8.4
    if advantage:
        return Candidate(t, "HierarchicalReclaim", "InCohortReclamation", common)
    how, threshold = borrow_within_cohort(snap, p.queue)
    barred = t.priority >= p.priority or (threshold is not None and t.priority > threshold)
    if how == "Never" or barred:
        return Candidate(t, "ReclaimWithoutBorrowing", "InCohortReclamation", common)
    return Candidate(t, "ReclaimWhileBorrowing", "InCohortReclaimWhileBorrowing", common)


def cohort_candidates(
    snap: Snapshot, p: Incoming, need: Need, req: Amounts
) -> tuple[list[Candidate], list[Candidate]]:  # S-8.2
    """Candidates over which the preemptor has a hierarchical advantage, and the others."""
    node = queue_node(p.queue)
    with_advantage: list[Candidate] = []
    others: list[Candidate] = []
    if policy(snap, p.queue, "reclaimWithinCohort") == "Never":
        return with_advantage, others
    advantage = all(not borrowing(snap, node, fr, v) for fr, v in req.items())
    rest = {fr: max(0, sub(v, local_available(snap, node, fr))) for fr, v in req.items()}
    visited = node
    for cohort in ancestors(snap, node):
        for t in collect(snap, p, cohort, visited, need):
            (with_advantage if advantage else others).append(classify(snap, p, t, advantage, cohort))
        fits_here = all(add(usage(snap, cohort, fr), v) <= subtree_quota(snap, cohort, fr) for fr, v in rest.items())
        rest = {fr: max(0, sub(v, local_available(snap, cohort, fr))) for fr, v in rest.items()}
        advantage = advantage or fits_here
        visited = cohort
    return with_advantage, others


def in_order(snap: Snapshot, p: Incoming, groups: list[list[Candidate]]) -> list[Candidate]:  # S-8.5
    groups = [sorted(group, key=lambda c: candidate_order(snap, p, c.holder)) for group in groups]
    evicted = [c for group in groups for c in group if c.holder.evicted]
    return evicted + [c for group in groups for c in group if not c.holder.evicted]


def attempts(snap: Snapshot, p: Incoming, need: Need, some_h: bool, some_p: bool) -> list[bool]:  # S-8.6
    never = borrow_within_cohort(snap, p.queue)[0] == "Never"
    node = queue_node(p.queue)
    below_nominal = all(usage(snap, node, fr) < subtree_quota(snap, node, fr) for fr in need)
    if (not some_h and not some_p) or (never and not below_nominal):
        return [True]
    return [False, True] if never and not some_h else [True, False]


def still_usable(snap: Snapshot, p: Incoming, c: Candidate, may_borrow: bool, need: Need) -> bool:  # S-8.7
    if c.holder.queue == p.queue:
        return True
    if may_borrow and c.kind == "ReclaimWithoutBorrowing":
        return False
    path = [queue_node(c.holder.queue)]
    for cohort in ancestors(snap, path[0]):
        if cohort == c.common:
            break
        path.append(cohort)
    return not any(within_nominal(snap, node, need) for node in path)


def request_fits(snap: Snapshot, p: Incoming, req: Amounts, may_borrow: bool) -> bool:  # S-8.7
    node = queue_node(p.queue)
    return all(
        (may_borrow or not borrowing(snap, node, fr, v)) and v <= available_to_queue(snap, p.queue, fr)
        for fr, v in req.items()
    )


def attempt(
    start: Snapshot, p: Incoming, candidates: list[Candidate], need: Need, req: Amounts, may_borrow: bool
) -> list[Candidate]:  # S-8.7
    snap = start.copy()
    chosen: list[Candidate] = []
    for c in candidates:
        if not still_usable(snap, p, c, may_borrow, need):
            continue
        snap.remove(c.holder.key)
        chosen.append(c)
        if request_fits(snap, p, req, may_borrow):
            return fill_back(snap, p, chosen, req, may_borrow)
    return []


def fill_back(
    snap: Snapshot, p: Incoming, chosen: list[Candidate], req: Amounts, may_borrow: bool
) -> list[Candidate]:  # S-8.8
    kept = list(chosen)
    for c in reversed(chosen[:-1]):
        snap.put_back(c.holder)
        if request_fits(snap, p, req, may_borrow):
            kept.remove(c)
        else:
            snap.remove(c.holder.key)
    return kept


def search(snap: Snapshot, p: Incoming, need: Need, req: Amounts, left_out: frozenset[str]) -> list[Target]:
    """The targets without fair sharing."""  # S-8
    groups = [*cohort_candidates(snap, p, need, req), same_queue_candidates(snap, p, need)]
    with_advantage, others, own = ([c for c in group if c.holder.key not in left_out] for group in groups)
    candidates = in_order(snap, p, [with_advantage, others, own])
    for may_borrow in attempts(snap, p, need, bool(with_advantage), bool(others)):
        found = attempt(snap, p, candidates, need, req, may_borrow)
        if found:
            return [Target(c.holder.key, c.holder.queue, c.reason, c.holder.claims) for c in found]
    return []
