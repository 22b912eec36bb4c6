"""Fair sharing (S-9), as plainly as it is written: shares as fractions, everything computed anew each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from tests.model.amounts import Amounts, FlavorResource, add, sub
from tests.model.preemption import Incoming, Need, Target, candidate_order, own_reason, passes, policy
from tests.model.quota import (
    ancestors,
    available_to_queue,
    borrowing,
    potential_available,
    subtree_quota,
    usage,
    within_nominal,
)
from tests.model.world import Holder, Snapshot, queue_node

Share = tuple[bool, Fraction]  # infinite or not, then how large
NONE: Share = (False, Fraction(0))


# shares


def below(snap: Snapshot, node: str) -> list[str]:
    """The node and all under it."""
    return [node] + [n for child in snap.tree[node].children for n in below(snap, child)]


def quota_pairs(snap: Snapshot, node: str) -> set[FlavorResource]:
    """The flavor-resources for which the node or one of its subtree has quota."""  # S-9.2
    return {fr for n in below(snap, node) for fr in snap.tree[n].nominal}


def root_of(snap: Snapshot, node: str) -> str:
    return ([node, *ancestors(snap, node)])[-1]


def share(snap: Snapshot, node: str, more: Amounts | None = None) -> Share:
    """The weighted dominant resource share, in thousandths, with ``more`` usage added."""  # S-9.2, S-9.3
    parent = snap.tree[node].parent
    if parent is None:
        return NONE
    known = quota_pairs(snap, root_of(snap, node))
    largest = Fraction(0)
    for resource in {r for _, r in known}:
        borrowed, lendable = 0, 0
        for fr in quota_pairs(snap, node):
            if fr[1] == resource:
                used = add(usage(snap, node, fr), (more or {}).get(fr, 0))
                borrowed = add(borrowed, max(0, sub(used, subtree_quota(snap, node, fr))))
        for fr in known:
            if fr[1] == resource:
                lendable = add(lendable, potential_available(snap, parent, fr))
        if lendable > 0:
            largest = max(largest, Fraction(borrowed * 1000, lendable))
    weight = snap.tree[node].weight
    if largest == 0:
        return NONE
    return (True, largest) if weight == 0 else (False, largest / weight)


def is_borrowing(snap: Snapshot, node: str) -> bool:  # S-9.2
    return any(borrowing(snap, node, fr, 0) for fr in quota_pairs(snap, node))


# the order of entries (S-9.4)


class Contestant(Protocol):
    """The part of an entry that the order reads: a head, or a standing reservation in its head's place."""

    @property
    def p(self) -> Incoming: ...

    @property
    def asks(self) -> Amounts: ...


E = TypeVar("E", bound=Contestant)


def with_usage(snap: Snapshot, queue: str, amounts: Amounts) -> Snapshot:
    found = snap.copy()
    found.charge(queue, amounts)
    return found


Key = tuple[bool, bool, Share, int, int, str]


def standing_of(snap: Snapshot, child: str, e: Contestant, preemptors: Iterable[str]) -> Key:
    """How an entry compares at one node of its path; the lowest wins."""
    gates, seen = snap.settings.gates, with_usage(snap, e.p.queue, e.asks)
    first = gates["PrioritizePreemptorWorkloads"] and e.p.key in preemptors
    borrows = any(v > 0 and borrowing(seen, child, fr, 0) for fr, v in e.asks.items())
    return (
        not first,
        borrows and gates["FairSharingPrioritizeNonBorrowing"],
        share(seen, child),
        -e.p.priority if gates["PrioritySortingWithinCohort"] else 0,
        e.p.queue_time,
        e.p.queue,
    )


def winner_of(snap: Snapshot, cohort: str, entries: list[E], preemptors: Iterable[str]) -> tuple[Key, E] | None:
    """The best of a cohort: of its queues' entries and its child cohorts' winners."""
    found: list[tuple[Key, E]] = []
    for child in snap.tree[cohort].children:
        if snap.tree[child].is_queue:
            best = next((e for e in entries if e.p.queue == snap.tree[child].name), None)
        else:
            won = winner_of(snap, child, entries, preemptors)
            best = None if won is None else won[1]
        if best is not None:
            found.append((standing_of(snap, child, best, preemptors), best))
    return min(found, key=lambda pair: pair[0]) if found else None


def next_of(snap: Snapshot, entries: list[E], preemptors: Iterable[str]) -> E:
    first = min(entries, key=lambda e: e.p.queue)
    root = root_of(snap, queue_node(first.p.queue))
    if snap.tree[root].is_queue:
        return first
    won = winner_of(snap, root, entries, preemptors)
    assert won is not None
    return won[1]


# targets (S-9.6 to S-9.10)


@dataclass(frozen=True)
class Chosen:
    """A target and the rule that admitted it: own, within, final, initial."""

    holder: Holder
    rule: str


First = Callable[[str], Holder | None]


def candidates(snap: Snapshot, p: Incoming, need: Need, left_out: frozenset[str]) -> dict[str, list[Holder]]:
    """By queue, each list in order."""  # S-9.6
    tree = {snap.tree[n].name for n in below(snap, root_of(snap, queue_node(p.queue))) if snap.tree[n].is_queue}
    found: dict[str, list[Holder]] = {}
    for t in sorted(snap.holders.values(), key=lambda t: candidate_order(snap, p, t)):
        if t.key == p.key or t.key in left_out or t.queue not in tree or t.queue not in snap.active:
            continue
        own = t.queue == p.queue
        how = policy(snap, p.queue, "withinClusterQueue" if own else "reclaimWithinCohort")
        if not own and within_nominal(snap, queue_node(t.queue), need):
            continue
        if passes(snap, p, t, how, need):
            found.setdefault(t.queue, []).append(t)
    return found


class TargetQueues:
    """The next queue to lose a workload."""  # S-9.7

    def __init__(self, p: Incoming) -> None:
        self._p = p
        self._discarded: set[str] = set()

    def discard(self, queue: str) -> None:
        self._discarded.add(queue_node(queue))

    def next(self, snap: Snapshot, left: dict[str, list[Holder]]) -> str | None:
        own = queue_node(self._p.queue)
        root = root_of(snap, own)
        if snap.tree[root].is_queue:
            return self._p.queue if left.get(self._p.queue) else None
        while root not in self._discarded:
            found = self._descend(snap, root, left)
            if found is not None:
                return found
        return None

    def _descend(self, snap: Snapshot, cohort: str, left: dict[str, list[Holder]]) -> str | None:
        own = queue_node(self._p.queue)
        path = {own, *ancestors(snap, own)}
        queues: list[str] = []
        cohorts: list[str] = []
        for child in snap.tree[cohort].children:
            if child in self._discarded:
                continue
            idle = not is_borrowing(snap, child) and child not in path
            if idle or (snap.tree[child].is_queue and not left.get(snap.tree[child].name)):
                self._discarded.add(child)
            else:
                (queues if snap.tree[child].is_queue else cohorts).append(child)
        if not queues and not cohorts:
            self._discarded.add(cohort)
            return None
        richest = max((share(snap, n) for n in queues + cohorts), default=NONE)
        for child in sorted(cohorts):
            if share(snap, child) == richest:
                return self._descend(snap, child, left)
        names = [snap.tree[n].name for n in queues if share(snap, n) == richest]
        return min(names, key=lambda name: candidate_order(snap, self._p, left[name][0]))


def sides(snap: Snapshot, a: str, b: str) -> tuple[str, str]:
    """The children of the lowest common ancestor on either side."""
    ways = [[queue_node(q), *ancestors(snap, queue_node(q))] for q in (a, b)]
    common = next(n for n in ways[0] if n in ways[1])
    left, right = (way[way.index(common) - 1] for way in ways)
    return left, right


def admits(snap: Snapshot, p: Incoming, t: Holder, rule: str) -> bool:
    """Whether a rule lets this one be a target; the incoming usage is in the snapshot."""  # S-9.8, S-9.9
    if rule in ("own", "within"):
        return True
    mine, theirs = sides(snap, p.queue, t.queue)
    if rule == "initial":
        return share(snap, mine) < share(snap, theirs)
    without = snap.copy()
    without.remove(t.key)
    return share(snap, mine) <= share(without, theirs)


def fits(snap: Snapshot, p: Incoming, req: Amounts) -> bool:
    """Whether it fits, with the incoming usage taken off meanwhile."""  # S-9.6
    seen = with_usage(snap, p.queue, {fr: -v for fr, v in req.items()})
    return all(v <= available_to_queue(seen, p.queue, fr) for fr, v in req.items())


def first_strategy(
    snap: Snapshot, p: Incoming, left: dict[str, list[Holder]], need: Need, req: Amounts, passing: frozenset[str]
) -> tuple[list[Chosen], dict[str, list[Holder]], bool]:  # S-9.8
    """The chosen ones, those set aside, and whether it fits now."""
    strategy = {"LessThanOrEqualToFinalShare": "final", "LessThanInitialShare": "initial"}[snap.settings.strategies[0]]
    gate = snap.settings.gates["FairSharingPreemptWithinNominal"]
    within = gate and within_nominal(snap, queue_node(p.queue), need)
    order, chosen, aside = TargetQueues(p), [], dict[str, list[Holder]]()
    while (queue := order.next(snap, left)) is not None:
        rule = "own" if queue == p.queue else "within" if within else strategy
        while left[queue]:
            t = left[queue].pop(0)
            asked = "initial" if t.key in passing and rule == strategy else rule  # S-9.14
            if admits(snap, p, t, asked):
                chosen.append(Chosen(t, asked))
                snap.remove(t.key)
                break
            if t.key not in passing:
                aside.setdefault(queue, []).append(t)
        else:
            continue
        if fits(snap, p, req):
            return chosen, aside, True
    return chosen, aside, False


def second_strategy(
    snap: Snapshot, p: Incoming, chosen: list[Chosen], aside: dict[str, list[Holder]], req: Amounts
) -> bool:  # S-9.9
    order = TargetQueues(p)
    while (queue := order.next(snap, aside)) is not None:
        t = aside[queue][0]
        if admits(snap, p, t, "initial"):
            chosen.append(Chosen(t, "initial"))
            snap.remove(t.key)
            if fits(snap, p, req):
                return True
        order.discard(queue)
    return False


def still_legal(start: Snapshot, p: Incoming, req: Amounts, chosen: list[Chosen]) -> bool:
    """Whether each passes its rule when they leave in order, from the untouched state."""  # S-19.2
    snap = with_usage(start, p.queue, req)
    for each in chosen:
        if not admits(snap, p, each.holder, each.rule):
            return False
        snap.remove(each.holder.key)
    return True


def fill_back(start: Snapshot, snap: Snapshot, p: Incoming, req: Amounts, chosen: list[Chosen]) -> list[Chosen]:
    kept = list(chosen)  # S-9.10, S-8.8
    for each in reversed(chosen[:-1]):
        snap.put_back(each.holder)
        others = [other for other in kept if other is not each]
        legal = not snap.settings.gates["PreemptionRevalidateTargets"] or still_legal(start, p, req, others)
        if fits(snap, p, req) and legal:
            kept = others
        else:
            snap.remove(each.holder.key)
    return kept


# claims that pass to a poorer side (S-9.14)


def could_displace(snap: Snapshot, p: Incoming, queue: str, priority: int) -> bool:
    """Whether the newcomer could displace a claim's victim itself."""
    if queue == p.queue:
        return policy(snap, p.queue, "withinClusterQueue") != "Never" and p.priority > priority
    how = policy(snap, p.queue, "reclaimWithinCohort")
    return how == "Any" or (how != "Never" and p.priority > priority)


def claimants(snap: Snapshot, p: Incoming, need: Need, left_out: frozenset[str]) -> dict[str, list[Holder]]:
    """By queue, each list in order."""
    if policy(snap, p.queue, "reclaimWithinCohort") == "Never":
        return {}
    tree = {snap.tree[n].name for n in below(snap, root_of(snap, queue_node(p.queue))) if snap.tree[n].is_queue}
    found: dict[str, list[Holder]] = {}
    for t in sorted(snap.holders.values(), key=lambda t: (t.priority, -t.claimed_at, t.uid, t.key)):
        done = snap.rounds.get(t.key)
        barred = t.key in left_out or p.uid in t.not_for or not t.claims or not t.counts_on
        barred = barred or (done is not None and done.passed_on > 0)
        if barred or t.queue not in tree or t.queue == p.queue or not any(fr in need for fr in t.usage):
            continue
        if all(could_displace(snap, p, *place) for place in t.counts_on):
            found.setdefault(t.queue, []).append(t)
    return found


REASONS = {"within": "InCohortReclamation", "final": "InCohortFairSharing", "initial": "InCohortFairSharing"}


def search(start: Snapshot, p: Incoming, need: Need, req: Amounts, left_out: frozenset[str]) -> list[Target]:
    """The workloads to evict, or none."""
    passing = claimants(start, p, need, left_out)
    keys = frozenset(t.key for each in passing.values() for t in each)
    left = candidates(start, p, need, left_out | keys)
    left = {queue: [*passing.get(queue, ()), *left.get(queue, ())] for queue in {*passing, *left}}
    if not left:
        return []
    snap = with_usage(start, p.queue, req)
    chosen, aside, done = first_strategy(snap, p, left, need, req, keys)
    if not done and len(snap.settings.strategies) == 2:
        done = second_strategy(snap, p, chosen, aside, req)
    if not done:
        return []
    return [
        Target(t.key, t.queue, REASONS.get(each.rule) or own_reason(start, p, t), t.claims)
        for each in fill_back(start, snap, p, req, chosen)
        for t in [each.holder]
    ]
