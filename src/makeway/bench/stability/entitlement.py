"""Workloads that wait although their own queue's quota would hold them, and for what (S-19.5).

A workload is *entitled* if some choice of flavors keeps its queue within nominal quota, and that quota is free or is
used by others from which the queue may take it back. It may then wait for three things only: quota that is kept free
for a blocked head (``reservation``), a scan that settled on other flavors (``flavor scan``), or its next evaluation,
if those from which it could take were admitted in the cycle of its last one or later (``admission``): an admission
wakes no workload (S-4.6). A fourth one ends when the victims have left that were asked to: with a closed gate, it
stopped its scan at them (``gate``, S-14.9), and its next evaluation comes with their departure (S-5.1). Any other
cause is a fault and says so.

Entitlement is computed here anew, from quota and policies alone, so that a rule that bars a workload cannot also hide
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from makeway.core.cycle.flavors import Assignment, Mode
from makeway.core.cycle.nomination import find_assignment
from makeway.core.model import FR, FlavorName, Millis, Queue, QueueName, ResourceName, Workload, WorkloadKey
from makeway.core.preemption.classical import Victims
from makeway.core.queueing.pending import Standing, may_queue, shape
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State

RESERVATION = "reservation"
FLAVOR_SCAN = "flavor scan"
GATE = "gate"
ADMISSION = "admission"
ALLOWED = (RESERVATION, FLAVOR_SCAN, ADMISSION)  # may last as long as nothing changes


class Entitled(NamedTuple):
    """A workload that waits for its own queue's quota."""

    workload: WorkloadKey
    cause: str  # one of ``ALLOWED``, ``GATE``, or "other:…"


class LastEvaluation(NamedTuple):
    """The last evaluation of a workload."""

    at: Millis
    resumed: bool  # it began in the middle of its flavors: the ones before are not known (S-6.8)


def entitled_waiting(state: State, now: Millis, evaluations: Mapping[WorkloadKey, LastEvaluation]) -> list[Entitled]:
    """All entitled workloads that wait, by queue. One behind the head of a StrictFIFO queue waits for that head.

    An evaluation counts for all workloads that are alike and share its verdict (S-4.5.3).
    """
    found = []
    for name in sorted(state.pending.lists):
        if not state.is_active(name):
            continue
        line = state.pending.lists[name]
        members = [*line.waiting.values(), *line.parked.values()]
        of_shape = {shape(each): evaluations[each.key] for each in members if each.key in evaluations}
        for each in sorted(members, key=lambda workload: workload.key):
            if line.strict and each.key != state.pending.first(name):
                continue
            if may_queue(each, now) and not each.refusal and _is_entitled(state, each):
                found.append(Entitled(each.key, _cause(state, each, now, of_shape.get(shape(each)))))
    return found


# --- to what it is entitled ------------------------------------------------------------------------------------------


def _is_entitled(state: State, workload: Workload) -> bool:
    node = state.tree.queues[workload.queue]
    for usage in _ways(state.queues[workload.queue], workload):
        within = all(node.usage.get(fr, 0) + amount <= node.nominal.get(fr, 0) for fr, amount in usage.items())
        if within and _can_have(state, workload, node, usage):
            return True
    return False


def _ways(queue: Queue, workload: Workload) -> Iterator[dict[FR, int]]:
    """The usage of all its pods, for every choice of flavors; a podSet has one flavor per resource group."""
    asked: list[dict[ResourceName, int]] = []
    choices: list[tuple[FlavorName, ...]] = []
    for pod_set in workload.pod_sets:
        amounts = {resource: amount * pod_set.count for resource, amount in pod_set.requests.items()}
        if any(amount and queue.group_of(resource) is None for resource, amount in amounts.items()):
            return
        for group in queue.groups:
            part = {resource: amounts[resource] for resource in group.resources if resource in amounts}
            if part:
                asked.append(part)
                choices.append(tuple(name for name in group.flavors if not pod_set.allowed or name in pod_set.allowed))
    for flavors in product(*choices):
        usage: dict[FR, int] = {}
        for flavor, part in zip(flavors, asked, strict=True):
            for resource, amount in part.items():
                usage[flavor, resource] = usage.get((flavor, resource), 0) + amount
        yield usage


def _can_have(state: State, workload: Workload, node: QuotaNode, usage: Mapping[FR, int]) -> bool:
    """Whether it fits, or would fit without the holders from which its queue may take back quota (S-8.2, 8.3, 8.7)."""
    need = [fr for fr, amount in usage.items() if amount > state.tree.available(node, fr)]
    if not need:
        return True
    reclaim = state.queues[workload.queue].reclaim
    if not reclaim.preempts or node.parent is None or workload.gated:
        return False
    with state.trial():
        for holder, owner in _borrowers(state, node):
            is_lower = holder.priority < reclaim.below(workload.priority)
            if is_lower and any((holder.usage or {}).get(fr) for fr in need) and _borrows(state, owner, node, need):
                state.tree.release_all(owner, holder.usage or {})
                if all(amount <= state.tree.available(node, fr) for fr, amount in usage.items()):
                    return True
    return False


def _borrowers(state: State, node: QuotaNode) -> list[tuple[Workload, QuotaNode]]:
    """Holders in other queues of the tree, the first to leave first (S-7.6); not those that were asked to and stay."""
    others = [name for name in state.tree_of(QueueName(node.name)) if name != node.name and state.is_active(name)]
    found = [
        (holder, state.tree.queues[name])
        for name in others
        for holder in state.holders.of_queue.get(name, {}).values()
        if not holder.evicted
    ]
    return sorted(found, key=lambda pair: (pair[0].priority, -(pair[0].reserved_at or 0), pair[0].uid, pair[0].key))


def _borrows(state: State, owner: QuotaNode, node: QuotaNode, need: list[FR]) -> bool:
    """Whether the queue and all cohorts up to the common one use more than their own quota."""
    above = {id(each) for each in node.ancestors()}
    at: QuotaNode | None = owner
    while at is not None and id(at) not in above:
        if state.tree.within_nominal(at, need):
            return False
        at = at.parent
    return True


# --- for what it waits -----------------------------------------------------------------------------------------------


def _cause(state: State, workload: Workload, now: Millis, last: LastEvaluation | None) -> str:
    if workload.key in state.pending.lists[workload.queue].at[Standing.HELD_BACK]:
        return RESERVATION
    found = find_assignment(state, workload, now, tried={})
    if _succeeds(found, workload):
        if last is not None and last.resumed:
            return FLAVOR_SCAN
        if workload.gated and _some_are_leaving(state, workload):
            return GATE
        if last is not None and not _would_have_succeeded(state, workload, now, last):
            return ADMISSION
        fits = found[0].mode is Mode.FIT
        return "other:it fits and is not looked at" if fits else "other:it could preempt and is not looked at"
    with _without_stability(state):
        if _succeeds(find_assignment(state, workload, now, tried={}), workload):
            return "other:barred by an epoch"
    return FLAVOR_SCAN


def _would_have_succeeded(state: State, workload: Workload, now: Millis, last: LastEvaluation) -> bool:
    """Whether it would succeed without the workloads admitted in the cycle of its last evaluation or after it."""
    with state.trial():
        for name in state.tree_of(workload.queue):
            for holder in list(state.holders.of_queue.get(name, {}).values()):
                if (holder.reserved_at or 0) >= last.at:
                    state.release(holder)
        return _succeeds(find_assignment(state, workload, now, tried={}), workload)


def _some_are_leaving(state: State, workload: Workload) -> bool:
    """Whether its scan stops where it can preempt, and one that it could have found there is leaving."""
    if state.queues[workload.queue].try_next_when_preempting:
        return False
    holders = (state.holders.of_queue.get(name, {}).values() for name in state.tree_of(workload.queue))
    return any(each.evicted for those in holders for each in those)


def _succeeds(found: tuple[Assignment, Victims], workload: Workload) -> bool:
    assignment, victims = found
    return assignment.mode is Mode.FIT or (bool(victims.targets) and not workload.gated)


@contextmanager
def _without_stability(state: State) -> Iterator[None]:
    """Decide without the rules on claims and epochs."""
    policy = state.policy
    state.policy = replace(policy, gates=replace(policy.gates, preemption_claims=False, preemption_epochs=False))
    try:
        yield
    finally:
        state.policy = policy
