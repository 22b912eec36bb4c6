"""What becomes of running work when quota is lowered below it (S-10.14, ``overQuota: Evict``).

A queue is short where even its whole tree cannot cover what it uses; use that the cohort covers is ordinary borrowing.
Then workloads of queues above their own quota leave, in the order in which a preemptor of that queue would choose them,
each only if it helps, until the queue is short no more. Workloads that are leaving already count as gone.

Promise: a reconcile leaves the state unchanged, and one that follows its own answer finds nothing to do.
"""

from __future__ import annotations

from makeway.controllers.contract import CLUSTER_QUEUE, NOTHING, WORKLOAD, Action, Change, Outcome, Ref, View
from makeway.controllers.workloads.eviction import Evict, event_of_eviction, message_of_eviction
from makeway.core.model import FR, Millis, QueueName, Workload
from makeway.core.queue_policies import ABOVE_ALL
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State

REASON = "OverQuota"


class OverQuota:
    """Notified of a ClusterQueue, it checks whether that is short; of a Cohort, it enqueues all queues of the tree."""

    kinds = frozenset({"ClusterQueue", "Cohort"})

    def react(self, ref: Ref, view: View, now: Millis) -> Outcome:
        if view.policy.over_quota != "Evict":
            return NOTHING
        state = view.state
        if ref.kind == "Cohort":
            return Outcome(enqueue=tuple(Ref(CLUSTER_QUEUE, "", name) for name in _below(state, ref.name)))
        leaving = in_excess(state, QueueName(ref.name))
        return Outcome(actions=tuple(_eviction(each, ref.name, now) for each in leaving))


def in_excess(state: State, queue: QueueName) -> list[Workload]:
    """The workloads that must leave so that ``queue`` is short of nothing, without those that were asked already."""
    node = state.tree.queues.get(queue)
    if node is None or not state.is_active(queue):
        return []
    used = set(node.usage) | set(node.root.usage)  # a lender's quota may be missing where only others use it
    short = sorted(fr for fr in used if state.tree.available(node, fr) < 0)
    chosen: list[Workload] = []
    if short:
        with state.trial():
            for each in list(state.holders.upto(state.tree_of(queue), short, ABOVE_ALL, evicted=True)):
                state.release(each)
            for fr in short:
                chosen.extend(_cover(state, node, fr))
    return chosen


def _cover(state: State, node: QuotaNode, fr: FR) -> list[Workload]:
    """Release workloads until the queue is no longer short of ``fr``; those that would not help stay."""
    released = []
    for each in _in_order(state, QueueName(node.name), fr):
        before = state.tree.available(node, fr)
        if before >= 0:
            break
        if not state.tree.borrows(state.tree.queues[each.queue], fr):
            continue  # others of its queue have left, and it is within its own quota again
        state.release(each)
        if state.tree.available(node, fr) > before:
            released.append(each)
        else:
            state.hold(each)
    return released


def _in_order(state: State, queue: QueueName, fr: FR) -> list[Workload]:
    """Users of ``fr`` in queues above their own quota, in the order of S-7.6 for a preemptor of ``queue``."""
    above = [
        name
        for name in state.tree_of(queue)
        if state.is_active(name) and state.tree.borrows(state.tree.queues[name], fr)
    ]
    others, own = [name for name in above if name != queue], [name for name in above if name == queue]
    return [each for queues in (others, own) for each in state.holders.upto(queues, (fr,), ABOVE_ALL, evicted=False)]


def _eviction(workload: Workload, queue: str, now: Millis) -> Action:
    ref = Ref(WORKLOAD, *workload.key.split("/", 1))
    message = f"{message_of_eviction(REASON)}: ClusterQueue {queue} is short"
    return Action(
        Change(ref, Evict(REASON, message, now), uid=workload.uid),
        notes=(event_of_eviction(ref, REASON, message),),
    )


def _below(state: State, cohort: str) -> list[QueueName]:
    """The queues of the cohort's whole tree: what the cohort lends is missing above it, too."""
    node = state.tree.cohorts.get(cohort)
    return [] if node is None else node.root.queues_below()
