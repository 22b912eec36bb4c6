"""The figures that a queue's status shows: who holds how much of what (api 2, S-12.18)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from makeway.core.amounts import add, subtract
from makeway.core.model import FR, LocalName, QueueName, Workload
from makeway.core.quota import Node
from makeway.core.shares import Share, share
from makeway.core.state import State


@dataclass(frozen=True, slots=True)
class Figure:
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
    reservation: dict[FR, Figure]
    usage: dict[FR, Figure]  # of the admitted ones only


def figures_of(state: State, queue: QueueName) -> Figures:
    holders = list(state.holders.of_queue.get(queue, {}).values())
    admitted = [each for each in holders if each.admitted]
    return Figures(_count(holders), _count(admitted), _table(state, queue, holders), _table(state, queue, admitted))


def _count(workloads: list[Workload]) -> int:
    return len({each.key if each.family is None else each.family for each in workloads})


def _table(state: State, queue: QueueName, workloads: list[Workload]) -> dict[FR, Figure]:
    """The queue has no quota of what it does not declare, so where it may borrow, all of that is borrowed."""
    node = state.tree.queues[queue]
    lent = node.parent is not None
    totals = _totals(node.nominal, workloads).items()
    return {fr: Figure(n, max(0, subtract(n, node.nominal.get(fr, 0))) if lent else 0) for fr, n in totals}


def share_of(state: State, node: Node) -> Share | None:
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


# --- what a status shows beside that ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait. A family counts once, and not at all while one of its Options has quota (S-12.18)."""

    active: int  # in the line; of a family one Option at least
    inadmissible: int  # parked

    @property
    def total(self) -> int:
        return self.active + self.inadmissible


@dataclass(frozen=True, slots=True)
class LocalFigures:
    """Of one LocalQueue; tables as in ``Figures``, by what its ClusterQueue declares."""

    waiting: Waiting
    reserving: int
    admitted: int
    reservation: dict[FR, int]
    usage: dict[FR, int]


def waiting_in(state: State, queue: QueueName) -> Waiting:
    line = state.pending.lines.get(queue)
    if line is None:
        return Waiting(0, 0)
    if line.has_options:
        return _waiting(state, line.waiting.values(), line.parked.values())
    in_line = line.count_in_line()
    return Waiting(in_line, len(line.members) - in_line)


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
    line, node = state.pending.lines.get(queue), state.tree.queues.get(queue)
    waiting = 0
    if line is not None and not line.has_options:
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


def no_figures(state: State, declared: Iterable[FR]) -> LocalFigures:
    """Of a LocalQueue that nobody uses."""
    return _local(state, declared, [], [], [])


def figures_by_local_queue(state: State, queue: QueueName) -> dict[LocalName, LocalFigures]:
    """Of every LocalQueue that somebody holds or waits by in this queue."""
    line = state.pending.lines.get(queue)
    holders = _by_local_queue(state.holders.of_queue.get(queue, {}).values())
    in_line = _by_local_queue(() if line is None else line.waiting.values())
    parked = _by_local_queue(() if line is None else line.parked.values())
    node = state.tree.queues.get(queue)
    declared: Iterable[FR] = () if node is None else node.nominal
    return {
        name: _local(state, declared, holders.get(name, []), in_line.get(name, []), parked.get(name, []))
        for name in sorted({*holders, *in_line, *parked})
    }


def _local(
    state: State, declared: Iterable[FR], holders: list[Workload], in_line: list[Workload], parked: list[Workload]
) -> LocalFigures:
    admitted = [each for each in holders if each.admitted]
    waiting = _waiting(state, in_line, parked)
    tables = _totals(declared, holders), _totals(declared, admitted)
    return LocalFigures(waiting, _count(holders), _count(admitted), *tables)


def _by_local_queue(workloads: Iterable[Workload]) -> dict[LocalName, list[Workload]]:
    found: dict[LocalName, list[Workload]] = {}
    for each in workloads:
        found.setdefault(each.local, []).append(each)
    return found


def _waiting(state: State, in_line: Collection[Workload], parked: Collection[Workload]) -> Waiting:
    active = {each.family for each in in_line}
    rest = {each.family for each in parked}
    if active | rest <= {None}:  # the usual case: nobody has Options
        return Waiting(len(in_line), len(parked))
    with_quota = state.holders.of_family
    alone = [sum(each.family is None for each in group) for group in (in_line, parked)]
    families = [
        sum(each is not None and not with_quota.get(each) for each in group) for group in (active, rest - active)
    ]
    return Waiting(alone[0] + families[0], alone[1] + families[1])


def _totals(declared: Iterable[FR], workloads: Iterable[Workload]) -> dict[FR, int]:
    """What they use together: the declared first, in their order, zero where nobody uses any; then all else by name."""
    totals = dict.fromkeys(declared, 0)
    others: dict[FR, int] = {}
    for workload in workloads:
        for fr, amount in (workload.usage or {}).items():
            table = totals if fr in totals else others
            table[fr] = add(table.get(fr, 0), amount)
    return {**totals, **{fr: amount for fr, amount in sorted(others.items()) if amount}}
