"""Units that may stay after all: they come back one by one, most important first (S-15.4.4, 15.4.8).

A unit that comes back stays if every placed member is still valid where it is. Without relations only the nodes of
placed members matter, so all units on other nodes come back at once.
"""

from __future__ import annotations

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot, Places


def reprieve(snapshot: NodeSnapshot, places: Places, candidates: Bools) -> Bools:
    """The candidates, already taken out of the snapshot, that stay. The snapshot is of no use afterwards."""
    if snapshot.related:
        return _one_by_one(snapshot, places, candidates)
    asked = _asked(snapshot, places)
    parts = snapshot.parts
    is_taken = np.zeros(len(snapshot.state.nodes), bool)
    is_taken[list(asked)] = True
    matters = np.flatnonzero(candidates[parts.unit] & is_taken[parts.node])
    staying = candidates.copy()
    staying[parts.unit[matters]] = False
    rows = {node: snapshot.free[:, node].tolist() for node in asked}
    snapshot.looks += len(matters)
    for unit, here in _by_unit(parts.unit[matters], parts.node[matters], parts.use[:, matters]):
        if all(rows[node][column] >= use[column] for node, use in here for column in asked[node]):
            staying[unit] = True
            for node, use in here:
                rows[node] = [have - take for have, take in zip(rows[node], use, strict=True)]
    return staying


def _by_unit(units: Ints, nodes: Ints, uses: Ints) -> list[tuple[int, list[tuple[int, list[int]]]]]:
    by_unit: list[tuple[int, list[tuple[int, list[int]]]]] = []
    for unit, node, use in zip(units.tolist(), nodes.tolist(), uses.T.tolist(), strict=True):
        if not by_unit or by_unit[-1][0] != unit:
            by_unit.append((unit, []))
        by_unit[-1][1].append((node, use))
    return by_unit


def _asked(snapshot: NodeSnapshot, places: Places) -> dict[int, list[int]]:
    """By node with a placed member, the columns that such a member asks for."""
    asked: dict[int, set[int]] = {}
    for node, kind in zip(places, snapshot.kind_of, strict=True):
        if node != NOT_PLACED:
            asked.setdefault(node, set()).update(kind.asked)
    return {node: sorted(columns) for node, columns in asked.items()}


def _one_by_one(snapshot: NodeSnapshot, places: Places, candidates: Bools) -> Bools:
    """Units come back one by one where that can make a place for one that was refused before; it is retried.

    A unit that matters to no member beyond the room it takes is judged by that room alone, once all members are placed.
    """
    staying = np.zeros_like(candidates)
    asked = _asked(snapshot, places)
    stands = snapshot.stands(places)
    again = True
    while again:
        again = False
        for unit in np.flatnonzero(candidates & ~staying).tolist():
            snapshot.looks += 1
            snapshot.shift(unit, -1)
            is_related = snapshot.relations.concern(unit)
            if snapshot.stands(places) if is_related or not stands else _has_room(snapshot, unit, asked):
                staying[unit] = stands = True
                again |= is_related and snapshot.leaving_can_hurt and not snapshot.single
            else:
                snapshot.shift(unit, 1)
    return staying


def _has_room(snapshot: NodeSnapshot, unit: int, asked: dict[int, list[int]]) -> bool:
    """Whether a unit that is back leaves the members on its nodes the room that they have taken."""
    nodes: list[int] = snapshot.parts.node[snapshot.parts.of(unit)].tolist()
    return all(snapshot.free[column, node] >= 0 for node in nodes for column in asked.get(node, ()))
