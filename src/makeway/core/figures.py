"""The figures that a queue's status shows: who holds how much of what (api 2, S-12.18)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from makeway.core.amounts import add, subtract
from makeway.core.model import FR, QueueName, Workload, WorkloadKey
from makeway.core.state import State

NOBODY: Mapping[WorkloadKey, Workload] = {}


@dataclass(frozen=True, slots=True)
class Figure:
    """How much of a flavor-resource is in use, and how much of that is more than the queue's own quota."""

    total: int
    borrowed: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one ClusterQueue; tables go by the flavors and resources that it declares, in its order."""

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
    node = state.tree.queues[queue]
    totals = dict.fromkeys(node.nominal, 0)
    for workload in workloads:
        for fr, amount in (workload.usage or {}).items():
            if fr in totals:
                totals[fr] = add(totals[fr], amount)
    lent = node.parent is not None
    return {fr: Figure(total, max(0, subtract(total, node.nominal[fr])) if lent else 0) for fr, total in totals.items()}


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


def all_figures_of(state: State, queue: QueueName) -> Figures:
    """As ``figures_of``, followed by what is held of a flavor or resource that the queue no longer declares (P19).

    The queue has no quota of that, so where it may borrow, all of it is borrowed.
    """
    node = state.tree.queues[queue]
    lent = node.parent is not None

    def table(workloads: list[Workload]) -> dict[FR, Figure]:
        totals = _totals(node.nominal, workloads).items()
        return {fr: Figure(n, max(0, subtract(n, node.nominal.get(fr, 0))) if lent else 0) for fr, n in totals}

    holders = list(state.holders.of_queue.get(queue, {}).values())
    admitted = [each for each in holders if each.admitted]
    return Figures(_count(holders), _count(admitted), table(holders), table(admitted))


def waiting_in(state: State, queue: QueueName) -> Waiting:
    line = state.pending.lines.get(queue)
    if line is None:
        return Waiting(0, 0)
    if not line.has_families:  # the usual case: they need not be looked at one by one
        in_line = line.count_in_line()
        return Waiting(in_line, len(line.members) - in_line)
    return _waiting(state, line.waiting.values(), line.parked.values())


def local_figures(
    state: State, members: Iterable[tuple[QueueName, WorkloadKey]], declared: Iterable[FR] = ()
) -> LocalFigures:
    """Of these workloads, each looked up in the queue that is named with it; who neither waits nor holds is nobody."""
    holders: list[Workload] = []
    in_line: list[Workload] = []
    parked: list[Workload] = []
    held_in, lines = state.holders.of_queue, state.pending.lines
    for queue, key in members:  # there may be very many
        held = held_in.get(queue, NOBODY).get(key)
        if held is not None:
            holders.append(held)
            continue
        line = lines.get(queue)
        waiting = None if line is None else line.members.get(key)
        if line is not None and waiting is not None:
            (parked if line.is_parked(key) else in_line).append(waiting)
    return _local(state, declared, holders, in_line, parked)


def figures_by_local_queue(state: State, queue: QueueName) -> dict[tuple[str, str], LocalFigures]:
    """Of every LocalQueue, as (namespace, name), that somebody holds or waits by in this queue."""
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


def _by_local_queue(workloads: Iterable[Workload]) -> dict[tuple[str, str], list[Workload]]:
    found: dict[tuple[str, str], list[Workload]] = {}
    for each in workloads:
        found.setdefault((each.namespace, each.local_queue), []).append(each)
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
