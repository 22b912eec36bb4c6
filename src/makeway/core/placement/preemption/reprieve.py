"""Who may stay after all: those who might leave come back one by one, most important first (S-15.4.4, 15.4.8).

Who comes back stays if every seated member is still valid where it is. Without relations only the nodes of seated
members matter, so all who stand elsewhere come back at once.
"""

from __future__ import annotations

import numpy as np

from makeway.core.placement.nodes import Bools, Ints
from makeway.core.placement.room import NOT_PLACED, Room, Seats


def reprieve(room: Room, seats: Seats, going: Bools) -> Bools:
    """Which of the units ``going`` (taken out of the room) stay. What the room says afterwards is of no use."""
    if room.related:
        return _one_by_one(room, seats, going)
    asked = _asked(room, seats)
    parts = room.parts
    hot = np.zeros(len(room.state.nodes), bool)
    hot[list(asked)] = True
    matters = np.flatnonzero(going[parts.unit] & hot[parts.node])
    staying = going.copy()
    staying[parts.unit[matters]] = False
    rows = {node: room.free[:, node].tolist() for node in asked}
    room.looks += len(matters)
    for unit, here in _by_unit(parts.unit[matters], parts.node[matters], parts.use[:, matters]):
        if all(rows[node][column] >= use[column] for node, use in here for column in asked[node]):
            staying[unit] = True
            for node, use in here:
                rows[node] = [have - take for have, take in zip(rows[node], use, strict=True)]
    return staying


def _by_unit(units: Ints, nodes: Ints, uses: Ints) -> list[tuple[int, list[tuple[int, list[int]]]]]:
    found: list[tuple[int, list[tuple[int, list[int]]]]] = []
    for unit, node, use in zip(units.tolist(), nodes.tolist(), uses.T.tolist(), strict=True):
        if not found or found[-1][0] != unit:
            found.append((unit, []))
        found[-1][1].append((node, use))
    return found


def _asked(room: Room, seats: Seats) -> dict[int, list[int]]:
    """Of each node with a seated member the columns that one of them asks for."""
    found: dict[int, set[int]] = {}
    for node, kind in zip(seats, room.kind_of, strict=True):
        if node != NOT_PLACED:
            found.setdefault(node, set()).update(kind.asked)
    return {node: sorted(columns) for node, columns in found.items()}


def _one_by_one(room: Room, seats: Seats, going: Bools) -> Bools:
    """Where leaving can hurt, a unit that comes back can make a place for one refused before: these are asked again.

    A unit that matters to no member beyond the room it takes is judged by that room alone, once the members stand.
    """
    staying = np.zeros_like(going)
    asked = _asked(room, seats)
    stands = room.stands(seats)
    again = True
    while again:
        again = False
        for unit in np.flatnonzero(going & ~staying).tolist():
            room.looks += 1
            room.shift(unit, -1)
            is_related = room.is_related(unit)
            if room.stands(seats) if is_related or not stands else _has_room(room, unit, asked):
                staying[unit] = stands = True
                again |= is_related and room.leaving_can_hurt and not room.single
            else:
                room.shift(unit, 1)
    return staying


def _has_room(room: Room, unit: int, asked: dict[int, list[int]]) -> bool:
    """Whether a unit that is back leaves the members on its nodes the room that they have taken."""
    nodes: list[int] = room.parts.node[room.parts.of(unit)].tolist()
    return all(room.free[column, node] >= 0 for node in nodes for column in asked.get(node, ()))
