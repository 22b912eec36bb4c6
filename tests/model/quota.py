"""The quota tree (S-2). Usage is kept at the leaves; everything above is computed when asked for."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.amounts import Amounts, FlavorResource, add, sub
from tests.model.world import Snapshot, queue_node


def subtree_quota(snap: Snapshot, node: str, fr: FlavorResource) -> int:  # S-2.4
    known = (node, *fr)
    if known not in snap.quota_memory:
        total = snap.tree[node].nominal.get(fr, 0)
        for child in snap.tree[node].children:
            total = add(total, sub(subtree_quota(snap, child, fr), local_quota(snap, child, fr)))
        snap.quota_memory[known] = total
    return snap.quota_memory[known]


def local_quota(snap: Snapshot, node: str, fr: FlavorResource) -> int:  # S-2.5
    limit = snap.tree[node].lending_limit.get(fr)
    return 0 if limit is None else max(0, sub(subtree_quota(snap, node, fr), limit))


def usage(snap: Snapshot, node: str, fr: FlavorResource) -> int:  # S-2.9 (S-2.7 and S-2.8 keep the same sums)
    if snap.tree[node].is_queue:
        return snap.used[snap.tree[node].name].get(fr, 0)
    total = 0
    for child in snap.tree[node].children:
        total = add(total, max(0, sub(usage(snap, child, fr), local_quota(snap, child, fr))))
    return total


def local_available(snap: Snapshot, node: str, fr: FlavorResource) -> int:  # S-2.6
    return max(0, sub(local_quota(snap, node, fr), usage(snap, node, fr)))


def available(snap: Snapshot, node: str, fr: FlavorResource) -> int:
    """The quota that is free for this node; negative when too much was admitted."""  # S-2.10
    this = snap.tree[node]
    quota, used = subtree_quota(snap, node, fr), usage(snap, node, fr)
    if this.parent is None:
        return sub(quota, used)
    from_parent = available(snap, this.parent, fr)
    if fr in this.borrowing_limit:
        local = local_quota(snap, node, fr)
        stored_and_unused = sub(sub(quota, local), max(0, sub(used, local)))
        from_parent = min(from_parent, add(stored_and_unused, this.borrowing_limit[fr]))
    return add(local_available(snap, node, fr), from_parent)


def available_to_queue(snap: Snapshot, queue: str, fr: FlavorResource) -> int:  # S-2.10: negatives read as 0
    return max(0, available(snap, queue_node(queue), fr))


def potential_available(snap: Snapshot, node: str, fr: FlavorResource) -> int:  # S-2.11
    this = snap.tree[node]
    quota = subtree_quota(snap, node, fr)
    if this.parent is None:
        return quota
    most = add(local_quota(snap, node, fr), potential_available(snap, this.parent, fr))
    return min(most, add(quota, this.borrowing_limit[fr])) if fr in this.borrowing_limit else most


def borrowing(snap: Snapshot, node: str, fr: FlavorResource, v: int) -> bool:  # S-2.12
    return add(usage(snap, node, fr), v) > subtree_quota(snap, node, fr)


def within_nominal(snap: Snapshot, node: str, frs: Iterable[FlavorResource]) -> bool:  # S-2.13
    return all(usage(snap, node, fr) <= subtree_quota(snap, node, fr) for fr in frs)


def fits(snap: Snapshot, queue: str, amounts: Amounts) -> bool:  # S-2.14
    return all(v <= available_to_queue(snap, queue, fr) for fr, v in amounts.items())


def height(snap: Snapshot, cohort: str) -> int:  # S-2.15; an inactive queue is no leaf (S-3.2)
    children = [snap.tree[c] for c in snap.tree[cohort].children]
    cohorts = [c for c in snap.tree[cohort].children if not snap.tree[c].is_queue]
    if not cohorts and not any(c.is_queue and c.name in snap.active for c in children):
        return 0
    return max([1] + [1 + height(snap, c) for c in cohorts])


def ancestors(snap: Snapshot, node: str) -> list[str]:
    """The cohorts above a node, from its parent up to the root."""
    found = []
    above = snap.tree[node].parent
    while above is not None:
        found.append(above)
        above = snap.tree[above].parent
    return found


def lowest_subtree(snap: Snapshot, queue: str, fr: FlavorResource, v: int) -> tuple[int, bool]:
    """The borrowing level of a request, and whether a subtree below the root could hold it."""  # S-2.16
    node = queue_node(queue)
    above = ancestors(snap, node)
    if not above or not borrowing(snap, node, fr, v):
        return 0, bool(above)
    rest = sub(v, local_available(snap, node, fr))
    for cohort in above:
        if not borrowing(snap, cohort, fr, rest):
            return height(snap, cohort), snap.tree[cohort].parent is not None
        rest = sub(rest, local_available(snap, cohort, fr))
    return height(snap, above[-1]), False


def tree_queues(snap: Snapshot, queue: str) -> list[str]:
    """All ClusterQueues of the whole tree of this one."""  # S-4.6
    above = ancestors(snap, queue_node(queue))
    waiting = [above[-1] if above else queue_node(queue)]
    found = []
    while waiting:
        node = waiting.pop()
        waiting.extend(snap.tree[node].children)
        if snap.tree[node].is_queue:
            found.append(snap.tree[node].name)
    return sorted(found)
