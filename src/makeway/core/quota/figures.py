"""The figures that the status of a queue and its metrics show: counts, usage and demand (api 2 and 16, S-12.18)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from makeway.core.amounts import add, subtract
from makeway.core.model import FR, PODS, LocalName, PodSetSignature, QueueName, ResourceName, Workload
from makeway.core.queueing.waiting_list import Shape, WaitingList, shape
from makeway.core.quota.shares import Share, share
from makeway.core.quota.tree import QuotaNode, QuotaTree, downward
from makeway.core.state import State


@dataclass(frozen=True, slots=True)
class UsageFigure:
    """How much of a flavor-resource is in use, and how much of that is more than the queue's own quota."""

    total: int
    borrowed: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one ClusterQueue; tables go by the flavors and resources that it declares, in its order.

    Flavors and resources that are still held but no longer declared follow by name (P19).
    """

    reserving: int  # workloads with quota; a family of Options counts once
    admitted: int  # those of them whose checks are done
    reservation: dict[FR, UsageFigure]
    usage: dict[FR, UsageFigure]  # of the admitted ones only


def figures_of(state: State, queue: QueueName) -> Figures:
    holders = list(state.holders.of_queue.get(queue, {}).values())
    admitted = [holder for holder in holders if holder.admitted]
    return Figures(_count(holders), _count(admitted), _table(state, queue, holders), _table(state, queue, admitted))


def _count(workloads: list[Workload]) -> int:
    return len({workload.key if workload.family is None else workload.family for workload in workloads})


def _table(state: State, queue: QueueName, workloads: list[Workload]) -> dict[FR, UsageFigure]:
    """What workloads use. What the queue does not declare has no quota, so if it may borrow, all that is borrowed."""
    node = state.tree.queues[queue]
    lent = node.parent is not None
    totals = _totals(node.nominal, workloads).items()
    return {fr: UsageFigure(n, max(0, subtract(n, node.nominal.get(fr, 0))) if lent else 0) for fr, n in totals}


def share_of(state: State, node: QuotaNode) -> Share | None:
    """The share of a queue or cohort by what is really held (S-9.2); None: without fair sharing."""
    return share(state.tree, node) if state.policy.fair_sharing else None


class NodeShare(NamedTuple):
    """The share of one queue or cohort."""

    name: str
    is_queue: bool
    share: Share


def all_shares(state: State) -> tuple[NodeShare, ...]:
    """The shares of queues by name, then of cohorts. Only members of cohorts have one, and only with fair sharing."""
    if not state.policy.fair_sharing:
        return ()
    nodes = [*state.tree.queues.values(), *state.tree.cohorts.values()]
    within = sorted((not node.is_queue, node.name, node) for node in nodes if node.parent is not None)
    return tuple(NodeShare(name, not is_cohort, share(state.tree, node)) for is_cohort, name, node in within)


# --- whole subtrees --------------------------------------------------------------------------------------------------


def subtree_reservations(tree: QuotaTree) -> dict[str, dict[FR, int]]:
    """By cohort: all that the queues below it hold, from their own quota or borrowed.

    That is more than the usage of the cohort's node where a queue keeps quota to itself (S-2.9).
    """
    held: dict[str, dict[FR, int]] = {name: {} for name in tree.cohorts}
    for node in reversed(downward(tree.roots())):
        if node.parent is None:
            continue
        above = held[node.parent.name]
        for fr, amount in (node.usage if node.is_queue else held[node.name]).items():
            above[fr] = above.get(fr, 0) + amount
    return held


def subtree_counts(tree: QuotaTree, counts: Mapping[QueueName, int]) -> dict[str, int]:
    """By cohort: the sum over the queues below it."""
    sums = dict.fromkeys(tree.cohorts, 0)
    for node in reversed(downward(tree.roots())):
        if node.parent is not None:
            more = counts.get(QueueName(node.name), 0) if node.is_queue else sums[node.name]
            sums[node.parent.name] += more
    return sums


# --- what a status shows beside that ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """How many workloads are pending. A family counts once, and not while one of its Options has quota (S-12.18)."""

    active: int  # in the queue; a family has at least one Option there
    inadmissible: int  # parked, or in a queue that admits nothing

    @property
    def total(self) -> int:
        return self.active + self.inadmissible


@dataclass(frozen=True, slots=True)
class LocalFigures:
    """The figures of one LocalQueue; tables as in ``Figures``, by what its ClusterQueue declares."""

    waiting: PendingCounts
    reserving: int
    admitted: int
    reservation: dict[FR, int]
    usage: dict[FR, int]


def waiting_in(state: State, queue: QueueName) -> PendingCounts:
    """All pending workloads of a queue; an inactive queue has only inadmissible ones."""
    waiting_list = state.pending.lists.get(queue)
    if waiting_list is None:
        return PendingCounts(0, 0)
    if waiting_list.options:
        return _seen_from(state, queue, _waiting(state, waiting_list.waiting.values(), waiting_list.parked.values()))
    in_queue = waiting_list.classes.count_in_queue()
    return _seen_from(state, queue, PendingCounts(in_queue, len(waiting_list.members) - in_queue))


def _seen_from(state: State, queue: QueueName, waiting: PendingCounts) -> PendingCounts:
    return waiting if state.is_active(queue) else PendingCounts(0, waiting.total)


def equivalence_classes(state: State, queue: QueueName) -> PendingCounts:
    """How many classes of workloads that get the same verdict are pending; one may have members of both sorts."""
    waiting_list = state.pending.lists.get(queue)
    if waiting_list is None:
        return PendingCounts(0, 0)
    parked: set[Shape] = {alike[0] for alike in waiting_list.classes.parked}
    parked.update(shape(waiting_list.members[key]) for key in waiting_list.parked_singly)
    active = {alike[0] for alike in waiting_list.classes.places if alike not in waiting_list.classes.parked}
    return PendingCounts(len(active), len(parked)) if state.is_active(queue) else PendingCounts(0, len(active | parked))


def pending_requests(state: State, queue: QueueName) -> dict[ResourceName, int]:
    """What all pending workloads of a queue request together; zero for a declared resource that none requests.

    A family counts once, with the request of the first of its Options by name.
    """
    configured = state.queues.get(queue)
    total = {name: 0 for group in (configured.groups if configured is not None else ()) for name in group.resources}
    waiting_list = state.pending.lists.get(queue)
    for alike, count in () if waiting_list is None else _pending_shapes(state, waiting_list):
        for signature in alike[1:]:
            assert isinstance(signature, PodSetSignature)
            for name, amount in signature.totals.items():
                total[name] = total.get(name, 0) + amount * count
            if PODS in total:  # counted, not requested (S-1.9)
                total[PODS] += signature.count * count
    return total


def _pending_shapes(state: State, waiting_list: WaitingList) -> Iterable[tuple[Shape, int]]:
    """The shapes of pending workloads, and how many have each."""
    if not waiting_list.options:
        yield from ((alike[0], len(places)) for alike, places in waiting_list.classes.places.items())
        yield from ((shape(waiting_list.members[key]), 1) for key in waiting_list.parked_singly)
        return
    families = set()
    for key in sorted(waiting_list.members):
        workload = waiting_list.members[key]
        if workload.family is not None:
            if workload.family in families or state.holders.of_family.get(workload.family):
                continue
            families.add(workload.family)
        yield shape(workload), 1


@dataclass(frozen=True, slots=True)
class LocalTotals:
    """What the status of a LocalQueue shows; tables as in ``Figures``, by what its ClusterQueue declares."""

    waiting: int
    reserving: int
    admitted: int
    reservation: dict[FR, int]
    usage: dict[FR, int]


def local_totals(state: State, queue: QueueName, local: LocalName) -> LocalTotals:
    """The totals of a LocalQueue: workloads that wait in this queue through it, and all that hold quota through it."""
    waiting_list, node = state.pending.lists.get(queue), state.tree.queues.get(queue)
    waiting = 0
    if waiting_list is not None and not waiting_list.options:
        waiting = waiting_list.count_by.get(local, 0)
    elif waiting_list is not None:
        groups = [
            _by_local_queue(members.values()).get(local, []) for members in (waiting_list.waiting, waiting_list.parked)
        ]
        waiting = _waiting(state, groups[0], groups[1]).total
    holders = list(state.holders.of_local.get(local, {}).values())
    admitted = [holder for holder in holders if holder.admitted]
    declared: Iterable[FR] = () if node is None else node.nominal
    return LocalTotals(
        waiting, _count(holders), _count(admitted), _totals(declared, holders), _totals(declared, admitted)
    )


def no_figures(declared: Iterable[FR]) -> LocalFigures:
    """The figures of a LocalQueue that no workload uses."""
    return _local(declared, [], PendingCounts(0, 0))


def figures_by_local_queue(state: State, queue: QueueName) -> dict[LocalName, LocalFigures]:
    """The figures of every LocalQueue through which a workload holds quota or waits in this queue."""
    waiting_list = state.pending.lists.get(queue)
    holders = _by_local_queue(state.holders.of_queue.get(queue, {}).values())
    in_queue = _by_local_queue(() if waiting_list is None else waiting_list.waiting.values())
    parked = _by_local_queue(() if waiting_list is None else waiting_list.parked.values())
    node = state.tree.queues.get(queue)
    declared: Iterable[FR] = () if node is None else node.nominal
    figures = {}
    for name in sorted({*holders, *in_queue, *parked}):
        waiting = _seen_from(state, queue, _waiting(state, in_queue.get(name, []), parked.get(name, [])))
        figures[name] = _local(declared, holders.get(name, []), waiting)
    return figures


def _local(declared: Iterable[FR], holders: list[Workload], waiting: PendingCounts) -> LocalFigures:
    admitted = [holder for holder in holders if holder.admitted]
    tables = _totals(declared, holders), _totals(declared, admitted)
    return LocalFigures(waiting, _count(holders), _count(admitted), *tables)


def _by_local_queue(workloads: Iterable[Workload]) -> dict[LocalName, list[Workload]]:
    by_local: dict[LocalName, list[Workload]] = {}
    for workload in workloads:
        by_local.setdefault(workload.local, []).append(workload)
    return by_local


def _waiting(state: State, in_queue: Collection[Workload], parked: Collection[Workload]) -> PendingCounts:
    active = {workload.family for workload in in_queue}
    inadmissible = {workload.family for workload in parked}
    if active | inadmissible <= {None}:  # the usual case: no workload has Options
        return PendingCounts(len(in_queue), len(parked))
    with_quota = state.holders.of_family
    singles = [sum(workload.family is None for workload in group) for group in (in_queue, parked)]
    families = [
        sum(family is not None and not with_quota.get(family) for family in group)
        for group in (active, inadmissible - active)
    ]
    return PendingCounts(singles[0] + families[0], singles[1] + families[1])


def _totals(declared: Iterable[FR], workloads: Iterable[Workload]) -> dict[FR, int]:
    """What workloads use together: first the declared, in order, zero where none uses any; then all else by name."""
    totals = dict.fromkeys(declared, 0)
    others: dict[FR, int] = {}
    for workload in workloads:
        for fr, amount in (workload.usage or {}).items():
            table = totals if fr in totals else others
            table[fr] = add(table.get(fr, 0), amount)
    return {**totals, **{fr: amount for fr, amount in sorted(others.items()) if amount}}
