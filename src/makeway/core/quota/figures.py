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
    """Of one ClusterQueue; tables go by the flavors and resources that it declares, in its order.

    What is held of others, which it declares no longer, follows by name (P19).
    """

    reserving: int  # workloads with quota; a family of Options counts once
    admitted: int  # those of them whose checks are done
    reservation: dict[FR, UsageFigure]
    usage: dict[FR, UsageFigure]  # of the admitted ones only


def figures_of(state: State, queue: QueueName) -> Figures:
    holders = list(state.holders.of_queue.get(queue, {}).values())
    admitted = [each for each in holders if each.admitted]
    return Figures(_count(holders), _count(admitted), _table(state, queue, holders), _table(state, queue, admitted))


def _count(workloads: list[Workload]) -> int:
    return len({each.key if each.family is None else each.family for each in workloads})


def _table(state: State, queue: QueueName, workloads: list[Workload]) -> dict[FR, UsageFigure]:
    """The queue has no quota of what it does not declare, so where it may borrow, all of that is borrowed."""
    node = state.tree.queues[queue]
    lent = node.parent is not None
    totals = _totals(node.nominal, workloads).items()
    return {fr: UsageFigure(n, max(0, subtract(n, node.nominal.get(fr, 0))) if lent else 0) for fr, n in totals}


def share_of(state: State, node: QuotaNode) -> Share | None:
    """Of a queue or cohort, by what is really held (S-9.2); None: fair sharing is off, and shares mean nothing."""
    return share(state.tree, node) if state.policy.fair_sharing else None


class NodeShare(NamedTuple):
    """The share of one queue or cohort."""

    name: str
    is_queue: bool
    share: Share


def all_shares(state: State) -> tuple[NodeShare, ...]:
    """Of all that can have one, being part of a cohort: queues by name, then cohorts; nothing without fair sharing."""
    if not state.policy.fair_sharing:
        return ()
    nodes = [*state.tree.queues.values(), *state.tree.cohorts.values()]
    within = sorted((not node.is_queue, node.name, node) for node in nodes if node.parent is not None)
    return tuple(NodeShare(name, not is_cohort, share(state.tree, node)) for is_cohort, name, node in within)


# --- whole subtrees --------------------------------------------------------------------------------------------------


def subtree_reservations(tree: QuotaTree) -> dict[str, dict[FR, int]]:
    """By cohort: all that the queues below it hold, whether from their own quota or borrowed.

    That is more than the usage of the cohort's node where a queue keeps quota to itself (S-2.9).
    """
    found: dict[str, dict[FR, int]] = {name: {} for name in tree.cohorts}
    for node in reversed(downward(tree.roots())):
        if node.parent is None:
            continue
        above = found[node.parent.name]
        for fr, amount in (node.usage if node.is_queue else found[node.name]).items():
            above[fr] = above.get(fr, 0) + amount
    return found


def subtree_counts(tree: QuotaTree, counts: Mapping[QueueName, int]) -> dict[str, int]:
    """By cohort: the sum over the queues below it."""
    found = dict.fromkeys(tree.cohorts, 0)
    for node in reversed(downward(tree.roots())):
        if node.parent is not None:
            more = counts.get(QueueName(node.name), 0) if node.is_queue else found[node.name]
            found[node.parent.name] += more
    return found


# --- what a status shows beside that ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """How many workloads are pending. A family counts once, and not while one of its Options has quota (S-12.18)."""

    active: int  # in the queue; of a family one Option at least
    inadmissible: int  # parked, or in a queue that admits nothing

    @property
    def total(self) -> int:
        return self.active + self.inadmissible


@dataclass(frozen=True, slots=True)
class LocalFigures:
    """Of one LocalQueue; tables as in ``Figures``, by what its ClusterQueue declares."""

    waiting: PendingCounts
    reserving: int
    admitted: int
    reservation: dict[FR, int]
    usage: dict[FR, int]


def waiting_in(state: State, queue: QueueName) -> PendingCounts:
    """All pending workloads of a queue; an inactive queue has only inadmissible ones."""
    line = state.pending.lists.get(queue)
    if line is None:
        return PendingCounts(0, 0)
    if line.options:
        return _seen_from(state, queue, _waiting(state, line.waiting.values(), line.parked.values()))
    in_line = line.classes.count_in_queue()
    return _seen_from(state, queue, PendingCounts(in_line, len(line.members) - in_line))


def _seen_from(state: State, queue: QueueName, waiting: PendingCounts) -> PendingCounts:
    return waiting if state.is_active(queue) else PendingCounts(0, waiting.total)


def equivalence_classes(state: State, queue: QueueName) -> PendingCounts:
    """How many classes of workloads that get the same verdict are pending; one may have members of both sorts."""
    line = state.pending.lists.get(queue)
    if line is None:
        return PendingCounts(0, 0)
    parked: set[Shape] = {kin[0] for kin in line.classes.parked}
    parked.update(shape(line.members[key]) for key in line.parked_singly)
    active = {kin[0] for kin in line.classes.places if kin not in line.classes.parked}
    return PendingCounts(len(active), len(parked)) if state.is_active(queue) else PendingCounts(0, len(active | parked))


def pending_requests(state: State, queue: QueueName) -> dict[ResourceName, int]:
    """What all pending workloads of a queue ask for together, zero for a resource of its quota that none asks for.

    A family asks once, for what the first of its Options by name asks for.
    """
    configured = state.queues.get(queue)
    total = {name: 0 for group in (configured.groups if configured is not None else ()) for name in group.resources}
    line = state.pending.lists.get(queue)
    for alike, count in () if line is None else _pending_shapes(state, line):
        for look in alike[1:]:
            assert isinstance(look, PodSetSignature)
            for name, amount in look.totals.items():
                total[name] = total.get(name, 0) + amount * count
            if PODS in total:  # counted, not asked for (S-1.9)
                total[PODS] += look.count * count
    return total


def _pending_shapes(state: State, line: WaitingList) -> Iterable[tuple[Shape, int]]:
    """What pending workloads look like, and how many look so."""
    if not line.options:
        yield from ((kin[0], len(places)) for kin, places in line.classes.places.items())
        yield from ((shape(line.members[key]), 1) for key in line.parked_singly)
        return
    families = set()
    for key in sorted(line.members):
        workload = line.members[key]
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
    """Of a LocalQueue to this queue: who waits there by it, and who holds anywhere by it."""
    line, node = state.pending.lists.get(queue), state.tree.queues.get(queue)
    waiting = 0
    if line is not None and not line.options:
        waiting = line.count_by.get(local, 0)
    elif line is not None:
        groups = [_by_local_queue(each.values()).get(local, []) for each in (line.waiting, line.parked)]
        waiting = _waiting(state, groups[0], groups[1]).total
    holders = list(state.holders.of_local.get(local, {}).values())
    admitted = [each for each in holders if each.admitted]
    declared: Iterable[FR] = () if node is None else node.nominal
    return LocalTotals(
        waiting, _count(holders), _count(admitted), _totals(declared, holders), _totals(declared, admitted)
    )


def no_figures(declared: Iterable[FR]) -> LocalFigures:
    """Of a LocalQueue that nobody uses."""
    return _local(declared, [], PendingCounts(0, 0))


def figures_by_local_queue(state: State, queue: QueueName) -> dict[LocalName, LocalFigures]:
    """Of every LocalQueue that somebody holds or waits by in this queue."""
    line = state.pending.lists.get(queue)
    holders = _by_local_queue(state.holders.of_queue.get(queue, {}).values())
    in_line = _by_local_queue(() if line is None else line.waiting.values())
    parked = _by_local_queue(() if line is None else line.parked.values())
    node = state.tree.queues.get(queue)
    declared: Iterable[FR] = () if node is None else node.nominal
    found = {}
    for name in sorted({*holders, *in_line, *parked}):
        waiting = _seen_from(state, queue, _waiting(state, in_line.get(name, []), parked.get(name, [])))
        found[name] = _local(declared, holders.get(name, []), waiting)
    return found


def _local(declared: Iterable[FR], holders: list[Workload], waiting: PendingCounts) -> LocalFigures:
    admitted = [each for each in holders if each.admitted]
    tables = _totals(declared, holders), _totals(declared, admitted)
    return LocalFigures(waiting, _count(holders), _count(admitted), *tables)


def _by_local_queue(workloads: Iterable[Workload]) -> dict[LocalName, list[Workload]]:
    found: dict[LocalName, list[Workload]] = {}
    for each in workloads:
        found.setdefault(each.local, []).append(each)
    return found


def _waiting(state: State, in_line: Collection[Workload], parked: Collection[Workload]) -> PendingCounts:
    active = {each.family for each in in_line}
    rest = {each.family for each in parked}
    if active | rest <= {None}:  # the usual case: nobody has Options
        return PendingCounts(len(in_line), len(parked))
    with_quota = state.holders.of_family
    alone = [sum(each.family is None for each in group) for group in (in_line, parked)]
    families = [
        sum(each is not None and not with_quota.get(each) for each in group) for group in (active, rest - active)
    ]
    return PendingCounts(alone[0] + families[0], alone[1] + families[1])


def _totals(declared: Iterable[FR], workloads: Iterable[Workload]) -> dict[FR, int]:
    """What they use together: the declared first, in their order, zero where nobody uses any; then all else by name."""
    totals = dict.fromkeys(declared, 0)
    others: dict[FR, int] = {}
    for workload in workloads:
        for fr, amount in (workload.usage or {}).items():
            table = totals if fr in totals else others
            table[fr] = add(table.get(fr, 0), amount)
    return {**totals, **{fr: amount for fr, amount in sorted(others.items()) if amount}}
