"""The figures that a queue's status shows: who holds how much of what (api 2, S-12.18)."""

from __future__ import annotations

from dataclasses import dataclass

from makeway.core.amounts import add, subtract
from makeway.core.model import FR, QueueName, Workload
from makeway.core.state import State


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
