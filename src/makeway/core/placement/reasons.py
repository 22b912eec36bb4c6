"""Why a decision of placement came out as it did, as steps: ids and integers, taken when the decision is made.

Lists are bounded: after ``MOST`` of a kind one step says how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.fit import in_queue_order
from makeway.core.placement.preemption.single_pod import CandidateNodes
from makeway.core.placement.preemption.victims import VictimSelection
from makeway.core.placement.scoring import scores
from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot, Places
from makeway.core.trace import Rule, Step

MOST = 50
MOST_KEPT = 3  # pods that are too important to leave
Why = tuple[Step, ...]


def for_places(snapshot: NodeSnapshot, places: Places, need: int) -> Why:
    """The steps of a placement without evictions."""
    placed = sum(node != NOT_PLACED for node in places)
    first = Step(Rule.PLACE_FITS, (_name(snapshot, 0),), (placed, len(places), need))
    return (first, *_bounded(_places(snapshot, places, snapshot.free, np.zeros(len(snapshot.units), bool)), placed))


def for_no_place(snapshot: NodeSnapshot, name: str, need: int, priority: int, may_leave: Bools) -> Why:
    """Why no pod has to leave: the nodes are too small even if empty, or the pods that stay are too important.

    ``may_leave``: units. Includes what the nearest node lacks, and which pods hold that there.
    """
    before = snapshot.save()
    try:
        snapshot.empty()
        places = in_queue_order(snapshot)
        placed = sum(node != NOT_PLACED for node in places)
        if placed < need:
            miss = _nearest_miss(snapshot, _unseated(places))
            return (miss.step,) if miss.node is None else (_too_small(name, placed, need), miss.step)
        snapshot.load(before)
        snapshot.take_out(may_leave)
        miss = _nearest_miss(snapshot, _unseated(in_queue_order(snapshot)))
        if may_leave.any():
            first = Step(Rule.PLACE_SHORT, (name,), (priority, need, len(snapshot.members)))
            return (first, miss.step, *_kept(snapshot, miss, priority))
        return (Step(Rule.PLACE_NONE_LOWER, (name,), (priority,)), *_kept(snapshot, miss, priority))
    finally:
        snapshot.load(before)


def _too_small(name: str, placed: int, need: int) -> Step:
    return Step(Rule.PLACE_TOO_SMALL, (name,), (placed, need))


def _unseated(places: Places) -> list[int]:
    return [i for i, node in enumerate(places) if node == NOT_PLACED] or list(range(len(places)))


class _Miss(NamedTuple):
    """The nearest miss: the node, and the column that is short there; None: that is not the cause."""

    step: Step
    node: int | None = None
    column: int | None = None


def _nearest_miss(snapshot: NodeSnapshot, left: list[int]) -> _Miss:
    """The node that lacks the least for the first of these members, the others being in their places."""
    for i in left:
        kind = snapshot.kind_of[i]
        nodes = np.flatnonzero(kind.open)
        if not len(nodes):
            return _Miss(Step(Rule.PLACE_CLOSED, (_name(snapshot, i),)))
        need = kind.need[kind.asked, None]
        lacks = np.maximum(need - snapshot.free[kind.asked][:, nodes], 0) / need
        if (lacks.max(axis=0) > 0).all() or i == left[-1]:
            at = int(np.argmin(lacks.max(axis=0)))
            node, name = int(nodes[at]), snapshot.state.nodes[int(nodes[at])].name
            if not lacks[:, at].any():
                return _Miss(Step(Rule.PLACE_APART, (_name(snapshot, i), name)), node)
            column = int(np.argmax(lacks[:, at]))
            asked, free = int(need[column, 0]), int(snapshot.free[kind.asked[column], node])
            subjects = (_name(snapshot, i), name, snapshot.columns.name(kind.asked[column]))
            step = Step(Rule.PLACE_LACKS, subjects, (asked, free, max(0, asked - free)))
            return _Miss(step, node, kind.asked[column])
    raise AssertionError("a gang has members")


def _kept(snapshot: NodeSnapshot, miss: _Miss, priority: int) -> list[Step]:
    """The pods on the nearest node that are too important to leave it, the largest holders of what is short first."""
    if miss.node is None:
        return []
    state = snapshot.state
    node = state.nodes[miss.node].name
    holds_of: dict[str, tuple[int, int]] = {}
    for key in state.running.on_node(node):
        row = state.running.row_of[key]
        if state.running.priority[row] >= priority and not state.pods[key].terminating:
            holds = 1 if miss.column is None else snapshot.columns.held(row, miss.column)
            name = _standing_name(snapshot, row)
            holds_of[name] = (holds_of.get(name, (0, 0))[0] + holds, int(state.running.priority[row]))
    holders = sorted((-holds, name, rank) for name, (holds, rank) in holds_of.items() if holds)
    steps = [Step(Rule.PLACE_KEPT, (node, name), (rank, priority)) for _, name, rank in holders[:MOST_KEPT]]
    more = len(holders) - MOST_KEPT
    return [*steps, Step(Rule.PLACE_MORE, (), (more,))] if more > 0 else steps


def for_victims(snapshot: NodeSnapshot, result: VictimSelection, priority: int) -> Why:
    units, size = snapshot.units, snapshot.units.size
    steps = [Step(Rule.PLACE_THRESHOLD, (_name(snapshot, 0),), (result.n,))]
    if result.failed_at:
        steps.append(Step(Rule.PLACE_NOT_ENOUGH, (_name(snapshot, 0),), (max(result.failed_at), len(snapshot.members))))
    if result.above.any():
        steps.append(Step(Rule.PLACE_ABOVE, (_name(snapshot, 0),), (int(size[result.above].sum()), result.n)))
    after = _free_after(snapshot, result)
    steps += _bounded(
        _places(snapshot, result.places, after, result.victims), sum(at != NOT_PLACED for at in result.places)
    )
    victims = np.flatnonzero(result.victims)
    steps += _bounded(_leaving(snapshot, victims, result.beyond[victims], priority), len(victims))
    saved = np.flatnonzero(result.saved_by_budget).tolist()
    protected = (
        Step(Rule.PLACE_SPARED_BY_BUDGET, (unit_name(snapshot, u),), (int(result.beyond[u]), int(units.priority[u])))
        for u in saved
    )
    steps += _bounded(protected, len(saved))
    spared = np.flatnonzero(~(result.victims | result.above | result.saved_by_budget) & (units.priority <= result.n))
    stay = (Step(Rule.PLACE_SPARED, (unit_name(snapshot, u),), (int(units.priority[u]),)) for u in spared.tolist())
    steps += _bounded(stay, len(spared))
    return tuple(steps)


def for_candidate(snapshot: NodeSnapshot, nodes: CandidateNodes, best: int, name: str, priority: int) -> Why:
    units = nodes.victims_of(best)
    beyond = nodes.beyond[nodes.bounds[best] : nodes.bounds[best + 1]]
    node = snapshot.state.nodes[int(nodes.nodes[best])].name
    numbers = (len(nodes.nodes), int(snapshot.units.size[units].sum()), int(beyond.sum()))
    leaving = _bounded(_leaving(snapshot, units, beyond, priority), len(units))
    return (
        Step(Rule.PLACE_CHEAPEST, (name, node), numbers),
        *leaving,
        *_spared_on(snapshot, int(nodes.nodes[best]), units),
    )


def _spared_on(snapshot: NodeSnapshot, node: int, victims: Ints) -> list[Step]:
    here = snapshot.parts.unit[snapshot.parts.node == node]
    stay = here[~np.isin(here, victims)].tolist()
    steps = (Step(Rule.PLACE_SPARED, (unit_name(snapshot, u),), (int(snapshot.units.priority[u]),)) for u in stay)
    return _bounded(steps, len(stay))


def _free_after(snapshot: NodeSnapshot, result: VictimSelection) -> Ints:
    """What is free on each node once the victims are gone and the members are placed."""
    before = snapshot.save()
    snapshot.take_out(result.victims)
    snapshot.occupy_all(result.places)
    free = snapshot.free
    snapshot.load(before)
    return free


def _places(snapshot: NodeSnapshot, places: Places, free: Ints, victims: Bools) -> Iterable[Step]:
    """Why each node was chosen: how many pods leave it for its members, and what share of it stays free."""
    parts = snapshot.parts
    leaving = np.zeros(len(snapshot.state.nodes), np.int64)
    chosen = victims[parts.unit]
    np.add.at(leaving, parts.node[chosen], parts.use[0, chosen])
    share = scores("Spread", snapshot.allocatable[1:3], free[1:3])
    for i, node in enumerate(places):
        if node != NOT_PLACED:
            numbers = (int(leaving[node]), (1000 * int(share[node])) >> 30)
            yield Step(Rule.PLACE_NODE, (_name(snapshot, i), snapshot.state.nodes[node].name), numbers)


def _leaving(snapshot: NodeSnapshot, units: Ints, beyond: Ints, priority: int) -> Iterable[Step]:
    size = snapshot.units.size
    for unit, over in zip(units.tolist(), beyond.tolist(), strict=True):
        numbers = (int(snapshot.units.priority[unit]), priority, int(size[unit]), over)
        yield Step(Rule.PLACE_MAKES_WAY, (unit_name(snapshot, unit),), numbers)


def _bounded(steps: Iterable[Step], count: int) -> list[Step]:
    bounded = [step for _, step in zip(range(MOST), steps, strict=False)]
    if count > MOST:
        bounded.append(Step(Rule.PLACE_MORE, (), (count - MOST,)))
    return bounded


def unit_name(snapshot: NodeSnapshot, unit: int) -> str:
    return _standing_name(snapshot, int(snapshot.units.rows_of(unit)[0]))


def _standing_name(snapshot: NodeSnapshot, row: int) -> str:
    """The name of a running pod: of a pod that goes with its group, that of Workload, group and replica."""
    rows = snapshot.state.running
    pod = rows.pods[row]
    assert pod is not None
    if rows.group[row] < 0 or pod.member is None:
        return "/".join(pod.key)
    return "/".join(part for part in (pod.key[0], pod.member.workload, pod.member.group, pod.member.replica) if part)


def _name(snapshot: NodeSnapshot, member: int) -> str:
    return "/".join(snapshot.members[member].key)
