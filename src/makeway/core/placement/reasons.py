"""Why a decision of placement came out as it did, as steps: ids and integers, taken when the decision is made.

Lists are bounded: after ``MOST`` of a kind one step says how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from makeway.core.placement.fit import in_queue_order
from makeway.core.placement.nodes import Bools, Ints
from makeway.core.placement.preemption.contest import Result
from makeway.core.placement.preemption.single_pod import Offers
from makeway.core.placement.room import NOT_PLACED, Room, Seats
from makeway.core.placement.scoring import scores
from makeway.core.trace import Rule, Step

MOST = 50
MOST_KEPT = 3  # of those who are too important to leave
Why = tuple[Step, ...]


def for_places(room: Room, seats: Seats, need: int) -> Why:
    """Everybody has a place as things stand."""
    found = sum(node != NOT_PLACED for node in seats)
    first = Step(Rule.PLACE_FITS, (_name(room, 0),), (found, len(seats), need))
    return (first, *_bounded(_places(room, seats, room.free, np.zeros(len(room.units), bool)), found))


def for_no_place(room: Room, name: str, need: int, priority: int, among: Bools) -> Why:
    """Why nobody is asked to leave: the nodes are too small even if empty, or those who stay are too important.

    ``among``: who might leave. With what the nearest node lacks, and who holds that there.
    """
    before = room.save()
    try:
        room.empty()
        seats = in_queue_order(room)
        found = sum(node != NOT_PLACED for node in seats)
        if found < need:
            miss = _nearest_miss(room, _unseated(seats))
            return (miss.step,) if miss.node is None else (_too_small(name, found, need), miss.step)
        room.load(before)
        room.take_out(among)
        miss = _nearest_miss(room, _unseated(in_queue_order(room)))
        if among.any():
            first = Step(Rule.PLACE_SHORT, (name,), (priority, need, len(room.members)))
            return (first, miss.step, *_kept(room, miss, priority))
        return (Step(Rule.PLACE_NOBODY_LOWER, (name,), (priority,)), *_kept(room, miss, priority))
    finally:
        room.load(before)


def _too_small(name: str, found: int, need: int) -> Step:
    return Step(Rule.PLACE_TOO_SMALL, (name,), (found, need))


def _unseated(seats: Seats) -> list[int]:
    return [i for i, node in enumerate(seats) if node == NOT_PLACED] or list(range(len(seats)))


class _Miss(NamedTuple):
    """The nearest miss: which node, and which column of the room is short there; None: that is not the cause."""

    step: Step
    node: int | None = None
    column: int | None = None


def _nearest_miss(room: Room, left: list[int]) -> _Miss:
    """The node that lacks the least for the first of these members, the others being in their places."""
    for i in left:
        kind = room.kind_of[i]
        nodes = np.flatnonzero(kind.open)
        if not len(nodes):
            return _Miss(Step(Rule.PLACE_CLOSED, (_name(room, i),)))
        need = kind.need[kind.asked, None]
        lacks = np.maximum(need - room.free[kind.asked][:, nodes], 0) / need
        if (lacks.max(axis=0) > 0).all() or i == left[-1]:
            at = int(np.argmin(lacks.max(axis=0)))
            node, name = int(nodes[at]), room.state.nodes[int(nodes[at])].name
            if not lacks[:, at].any():
                return _Miss(Step(Rule.PLACE_APART, (_name(room, i), name)), node)
            column = int(np.argmax(lacks[:, at]))
            asked, free = int(need[column, 0]), int(room.free[kind.asked[column], node])
            subjects = (_name(room, i), name, room.column_name(kind.asked[column]))
            step = Step(Rule.PLACE_LACKS, subjects, (asked, free, max(0, asked - free)))
            return _Miss(step, node, kind.asked[column])
    raise AssertionError("a gang has members")


def _kept(room: Room, miss: _Miss, priority: int) -> list[Step]:
    """Who stands on the nearest node and is too important to leave it, the largest holders of what is short first."""
    if miss.node is None:
        return []
    state = room.state
    node = state.nodes[miss.node].name
    found: dict[str, tuple[int, int]] = {}
    for key in state.standing_on(node):
        row = state.row_of[key]
        if state.rows.priority[row] >= priority and not state.pods[key].terminating:
            holds = 1 if miss.column is None else room.held(row, miss.column)
            name = _standing_name(room, row)
            found[name] = (found.get(name, (0, 0))[0] + holds, int(state.rows.priority[row]))
    holders = sorted((-holds, name, rank) for name, (holds, rank) in found.items() if holds)
    steps = [Step(Rule.PLACE_KEPT, (node, name), (rank, priority)) for _, name, rank in holders[:MOST_KEPT]]
    more = len(holders) - MOST_KEPT
    return [*steps, Step(Rule.PLACE_MORE, (), (more,))] if more > 0 else steps


def for_result(room: Room, result: Result, priority: int) -> Why:
    units, size = room.units, room.units.size
    steps = [Step(Rule.PLACE_THRESHOLD, (_name(room, 0),), (result.n,))]
    if result.failed_at:
        steps.append(Step(Rule.PLACE_NOT_ENOUGH, (_name(room, 0),), (max(result.failed_at), len(room.members))))
    if result.above.any():
        steps.append(Step(Rule.PLACE_ABOVE, (_name(room, 0),), (int(size[result.above].sum()), result.n)))
    after = _free_after(room, result)
    steps += _bounded(_places(room, result.seats, after, result.going), sum(at != NOT_PLACED for at in result.seats))
    going = np.flatnonzero(result.going)
    steps += _bounded(_leaving(room, going, result.beyond[going], priority), len(going))
    saved = np.flatnonzero(result.saved_by_budget).tolist()
    protected = (
        Step(Rule.PLACE_SPARED_BY_BUDGET, (unit_name(room, u),), (int(result.beyond[u]), int(units.priority[u])))
        for u in saved
    )
    steps += _bounded(protected, len(saved))
    spared = np.flatnonzero(~(result.going | result.above | result.saved_by_budget) & (units.priority <= result.n))
    stay = (Step(Rule.PLACE_SPARED, (unit_name(room, u),), (int(units.priority[u]),)) for u in spared.tolist())
    steps += _bounded(stay, len(spared))
    return tuple(steps)


def for_offer(room: Room, found: Offers, best: int, name: str, priority: int) -> Why:
    units = found.victims_of(best)
    beyond = found.beyond[found.bounds[best] : found.bounds[best + 1]]
    node = room.state.nodes[int(found.nodes[best])].name
    numbers = (len(found.nodes), int(room.units.size[units].sum()), int(beyond.sum()))
    leaving = _bounded(_leaving(room, units, beyond, priority), len(units))
    return (
        Step(Rule.PLACE_CHEAPEST, (name, node), numbers),
        *leaving,
        *_spared_on(room, int(found.nodes[best]), units),
    )


def _spared_on(room: Room, node: int, victims: Ints) -> list[Step]:
    here = room.parts.unit[room.parts.node == node]
    stay = here[~np.isin(here, victims)].tolist()
    steps = (Step(Rule.PLACE_SPARED, (unit_name(room, u),), (int(room.units.priority[u]),)) for u in stay)
    return _bounded(steps, len(stay))


def _free_after(room: Room, result: Result) -> Ints:
    """What is free where once the victims are gone and the members are there."""
    before = room.save()
    room.take_out(result.going)
    room.seat(result.seats)
    free = room.free
    room.load(before)
    return free


def _places(room: Room, seats: Seats, free: Ints, going: Bools) -> Iterable[Step]:
    """Why each node: how many pods leave it for its members, and what share of it stays free."""
    parts = room.parts
    leaving = np.zeros(len(room.state.nodes), np.int64)
    chosen = going[parts.unit]
    np.add.at(leaving, parts.node[chosen], parts.use[0, chosen])
    share = scores("Spread", room.allocatable[1:3], free[1:3])
    for i, node in enumerate(seats):
        if node != NOT_PLACED:
            numbers = (int(leaving[node]), (1000 * int(share[node])) >> 30)
            yield Step(Rule.PLACE_NODE, (_name(room, i), room.state.nodes[node].name), numbers)


def _leaving(room: Room, units: Ints, beyond: Ints, priority: int) -> Iterable[Step]:
    size = room.units.size
    for unit, over in zip(units.tolist(), beyond.tolist(), strict=True):
        numbers = (int(room.units.priority[unit]), priority, int(size[unit]), over)
        yield Step(Rule.PLACE_MAKES_WAY, (unit_name(room, unit),), numbers)


def _bounded(steps: Iterable[Step], count: int) -> list[Step]:
    found = [step for _, step in zip(range(MOST), steps, strict=False)]
    if count > MOST:
        found.append(Step(Rule.PLACE_MORE, (), (count - MOST,)))
    return found


def unit_name(room: Room, unit: int) -> str:
    return _standing_name(room, int(room.units.rows_of(unit)[0]))


def _standing_name(room: Room, row: int) -> str:
    """Of a pod that goes with its group: of its Workload, group and replica; else of the pod."""
    rows = room.state.rows
    pod = rows.pods[row]
    assert pod is not None
    if rows.group[row] < 0 or pod.member is None:
        return "/".join(pod.key)
    return "/".join(part for part in (pod.key[0], pod.member.workload, pod.member.group, pod.member.replica) if part)


def _name(room: Room, member: int) -> str:
    return "/".join(room.members[member].key)
