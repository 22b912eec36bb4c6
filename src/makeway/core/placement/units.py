"""Which pods are evicted together, their order of importance, and what budgets protect (S-15.1.2, 15.4.3, 15.4.4).

A unit is all running pods of one replica of a gang in mode PodGroup, or one pod. Units are numbered by importance: 0 is
the most important one, the first to be spared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import Budget, Pod, PodKey

_LONG = 2**44  # ms, 557 years: starts are cut to within that, so that 2¹⁸ of them sum up within 64 bits


@dataclass(frozen=True, slots=True)
class Units:
    """The units below a priority, by importance."""

    rows: Ints  # of their pods, by unit, then start, then identity
    bounds: Ints  # where each unit begins in ``rows``, and the end
    size: Ints  # how many pods
    priority: Ints
    start: Ints  # of the earliest pod
    started: Ints  # by unit the sum over its pods: of equally many pods, the larger sum is the smaller loss

    def __len__(self) -> int:
        return len(self.priority)

    def rows_of(self, unit: int) -> Ints:
        return self.rows[self.bounds[unit] : self.bounds[unit + 1]]

    def unit_of_rows(self) -> Ints:
        return np.repeat(np.arange(len(self)), self.size)


def units_below(state: ClusterState, priority: int) -> Units:
    """All units with a victim priority strictly below ``priority`` (S-15.1.5)."""
    rows = state.running
    below: Ints = np.flatnonzero(rows.alive & (rows.priority < priority))
    group = rows.group[below]
    if (group >= 0).any():
        order = np.lexsort((rows.rank[below], rows.start[below]))
        below, group = below[order], group[order]
        heads, unit = _first_of_each(np.where(group >= 0, group, int(group.max()) + 1 + below))
    else:
        heads = unit = np.arange(len(below))
    size = np.bincount(unit, minlength=len(heads))
    head = below[heads]
    importance = np.lexsort((rows.rank[head], rows.start[head], -size, ~rows.workload[head], -rows.priority[head]))
    place = np.empty(len(heads), np.int64)
    place[importance] = np.arange(len(heads))
    by_unit = np.argsort(place[unit], kind="stable")
    bounds = np.concatenate([[0], np.cumsum(size[importance])])
    below = below[by_unit]
    started = np.zeros(len(heads), np.int64)
    np.add.at(started, place[unit][by_unit], np.clip(rows.start[below], -_LONG, _LONG))
    return Units(
        below, bounds, size[importance], rows.priority[head][importance], rows.start[head][importance], started
    )


def _first_of_each(keys: Ints) -> tuple[Ints, Ints]:
    """Where each key comes first, and for every place the number of its key in that order."""
    first = np.zeros(int(keys.max()) + 1, np.int64)
    first[keys[::-1]] = np.arange(len(keys))[::-1]
    mine = first[keys]
    is_first = mine == np.arange(len(keys))
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[mine]


def importance(priority: int, workload: bool, pods: int, start: int, uid: str, key: PodKey) -> tuple[object, ...]:
    """The sort key of ``units_below`` for one unit; the least is the most important."""
    return -priority, not workload, -pods, start, uid, key


def violations(walk: Iterable[tuple[int, Pod, Sequence[Budget]]]) -> dict[int, int]:
    """How many pods of each unit are beyond their budgets, walking all units that might leave, most important first.

    ``walk`` has (unit, pod, the budgets that select it). A pod uses one of each, even if another is used up already.
    """
    left: dict[tuple[str, str], int] = {}
    beyond: dict[int, int] = {}
    for unit, pod, budgets in walk:
        violates = False
        for budget in budgets:
            if pod.key[1] in budget.disrupted:
                continue
            name = (budget.namespace, budget.name)
            left[name] = left.get(name, budget.allowed) - 1
            violates = violates or left[name] < 0
        if violates:
            beyond[unit] = beyond.get(unit, 0) + 1
    return beyond


def violating_pods(state: ClusterState, units: Units, may_leave: Bools) -> Ints:
    """How many pods of each unit would leave beyond their budgets, if the units ``may_leave``."""
    count = np.zeros(len(units), np.int64)
    guarded = guarded_pods(state, units)
    walk = ((unit, *pod) for unit, pods in guarded.items() if may_leave[unit] for pod in pods)
    for unit, number in violations(walk).items():
        count[unit] = number
    return count


def guarded_pods(state: ClusterState, units: Units) -> dict[int, list[tuple[Pod, Sequence[Budget]]]]:
    """The pods of each unit that some budget selects, with these budgets; units by importance."""
    by_unit: dict[int, list[tuple[Pod, Sequence[Budget]]]] = {}
    guarded = np.flatnonzero(state.running.guarded[units.rows])
    if not len(guarded):
        return by_unit
    for row, unit in zip(units.rows[guarded].tolist(), units.unit_of_rows()[guarded].tolist(), strict=True):
        pod = state.running.pods[row]
        assert pod is not None
        by_unit.setdefault(unit, []).append((pod, list(state.budgets.of(pod))))
    return by_unit
