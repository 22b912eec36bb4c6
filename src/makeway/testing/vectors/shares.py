"""Suites about shares: how large they are, and which queue loses a workload next."""

from __future__ import annotations

from fractions import Fraction

from makeway.core.model import QueueName, Workload
from makeway.core.preemption.richest import Richest
from makeway.core.quota.shares import Share, is_borrowing, share
from makeway.core.quota.tree import QuotaNode, QuotaTree
from makeway.testing.vectors.facts import Findings, load, rows, table, usage_of
from makeway.testing.vectors.reading import Case

TOLERANCE = Fraction(1, 10**9)  # theirs are doubles written as decimals


def dominant(case: Case) -> Findings:
    """The share of every node, as if it used so much more; an addition to one node does not reach the others."""
    found = Findings()
    tree = load(case).state.tree
    more = usage_of(case.given.get("additionalUsageOnEveryNode"))
    for name, want in table(case.want, "nodes").items():
        kind, _, bare = name.partition("/")
        node = (tree.queues if kind == "ClusterQueue" else tree.cohorts)[bare]
        got = share(tree, node, more)
        found.same(f"{name}: share", got.status, want["share"])
        found.same(f"{name}: resource", got.resource, want.get("resource", ""))
        compare(found, f"{name}: exact share", got, want["precise"])
        found.same(f"{name}: borrows", node.parent is not None and is_borrowing(tree, node, more), want["borrowing"])
    return found


def compare_recorded(found: Findings, tree: QuotaTree, node: QuotaNode, want: str | None) -> None:
    """Compare the share of a node, if the record has one."""
    if want is not None:
        compare(found, f"{node.name}: share", share(tree, node), want)


def compare(found: Findings, what: str, got: Share, want: str) -> None:
    if got.is_infinite or want == "+Inf":
        found.same(what, "+Inf" if got.is_infinite else str(got), want)
        return
    ours, theirs = Fraction(*got.fraction()), Fraction(want)
    if abs(ours - theirs) > TOLERANCE * max(ours, theirs):
        found.same(what, str(got), want)


def target_order(case: Case) -> Findings:
    """The queues in the order in which they would lose a workload; usage stays as it is meanwhile."""
    found = Findings()
    state, given = load(case).state, case.given
    left = {
        state.tree.queues[name]: sorted(state.holders.of_queue.get(QueueName(name), {}).values(), key=_leaves_first)
        for name in rows(given, "candidateClusterQueues")
    }
    order = Richest(
        state.tree, state.tree.queues[given["clusterQueue"]], lambda queue: next(iter(left.get(queue, ())), None)
    )
    actions = iter(rows(given, "actions"))
    visited = []
    while (queue := order.next()) is not None:
        visited.append(queue.name)
        if next(actions, "pop") == "drop":
            order.drop(queue)
        else:
            del left[queue][0]
    found.same("visited", visited, rows(case.want, "visited"))
    return found


def _leaves_first(workload: Workload) -> tuple[bool, int, int, str]:
    return not workload.evicted, workload.priority, -(workload.reserved_at or 0), workload.uid
