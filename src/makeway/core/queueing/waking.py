"""Which waiting workloads a fact may concern: from what happened to the queues that are woken (S-4.6, 7.9).

Each function is one trigger and returns the queues whose trees are woken. ``WaitingList.wake`` decides which workloads
really return.
"""

from __future__ import annotations

from collections.abc import Mapping

from makeway.core.model import FlavorName, Millis, QueueName, selects
from makeway.core.state import State

Woken = frozenset[QueueName]
NO_QUEUES: Woken = frozenset()


def after_release(state: State, queue: QueueName) -> Woken:
    """A workload of ``queue`` is gone, finished, deactivated, or lost its reservation (triggers 1, 2)."""
    return frozenset(state.tree_of(queue))


def after_shrinking(state: State, queue: QueueName) -> Woken:
    """A holder of ``queue`` needs less than before, or changed its priority (trigger 3)."""
    return frozenset(state.tree_of(queue))


def after_queue_change(state: State, queue: QueueName) -> Woken:
    """A ClusterQueue was created or its spec changed (trigger 4)."""
    return frozenset(state.tree_of(queue))


def after_cohort_change(state: State, cohort: str) -> Woken:
    """A Cohort was created or updated: all of its root's tree (trigger 4)."""
    node = state.tree.cohorts.get(cohort)
    return NO_QUEUES if node is None else frozenset(node.root.queues_below())


def after_flavor_change(state: State, flavor: FlavorName) -> Woken:
    """A ResourceFlavor appeared, or its labels, taints or tolerations changed: queues that use it (trigger 5)."""
    users = [name for name, queue in state.queues.items() if any(flavor in group.flavors for group in queue.groups)]
    return frozenset(woken for name in users for woken in state.tree_of(name))


def after_namespace_change(state: State, before: Mapping[str, str], after: Mapping[str, str]) -> Woken:
    """A namespace's labels changed: queues that it newly matches (trigger 6)."""
    newly = [
        name
        for name, queue in state.queues.items()
        if queue.namespaces is not None and selects(queue.namespaces, after) and not selects(queue.namespaces, before)
    ]
    return frozenset(woken for name in newly for woken in state.tree_of(name))


def after_expiry(state: State, queue: QueueName) -> Woken:
    """The time of an equal is up (trigger 7): its queue's tree."""
    return frozenset(state.tree_of(queue))


def after_admission(state: State, queue: QueueName) -> Woken:
    """A workload was admitted and may be a victim now: refused heads of strict queues become due (trigger 8, ours)."""
    return frozenset(name for name in state.tree_of(queue) if state.queues[name].strict)


def next_expiry(state: State, queue: QueueName, now: Millis) -> Millis | None:
    """When to wake ``queue`` because the time of an equal will be up; None: never, as things are (S-7.9).

    Stored times have whole seconds and the comparison is strict, so one second is added.
    """
    span = state.queues[queue].min_admit
    if span is None or not state.policy.gates.time_based_same_priority_preemption:
        return None
    reserved = state.holders.first_reserved_after(queue, Millis(now - span - 1000))
    return None if reserved is None else Millis(reserved + span + 1000)
