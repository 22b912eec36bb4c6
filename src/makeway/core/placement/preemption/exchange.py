"""Better places than the cheapest one after another, where the search is small (decision 0052).

Taking the cheapest node again and again is short-sighted: it may pay for many small units where one large one would do,
and the other way round. So other placements are tried. Each is judged by the units that would leave in the end, in the
same order, and the best one is kept. They come from

- sets: units come back in several orders while there is a place somewhere for all, then members go where room is;
- moves: one member moves, or two swap places, while that helps; then two such moves at once.

The search is bounded: judged units by ``MOST_LOOKS``, passes of unlike members by ``MOST_PASSES``. A placement of fewer
members is never taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.fit import count_placed, place_gang
from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot, Places, Saved

MOST_LOOKS = 24_000  # units judged, and members tried elsewhere
MOST_PASSES = 200  # members times units, where members are unlike and have to be placed for every answer
MOST_UNITS = 64
MOST_NODES = 64
MOST_MEMBERS = 32

Cost = tuple[int, int, int]  # pods beyond budgets, pods, run time up to a constant
Row = list[int]


def improved(
    snapshot: NodeSnapshot, emptied: Saved, places: Places, victims: Bools, beyond: Ints, may_leave: Bools
) -> Places:
    """The best placement found, at least as good as ``places``. In ``emptied`` the units that ``may_leave`` are out."""
    if victims.sum() < 1 or may_leave.sum() > MOST_UNITS or len(snapshot.members) > MOST_MEMBERS:
        return places
    if len(snapshot.state.nodes) > MOST_NODES:
        return places
    costs = _Costs(snapshot, emptied, may_leave, beyond)
    best, cost = places, costs.of(places)
    for other in _from_sets(snapshot, count_placed(places), emptied, may_leave, beyond):
        if count_placed(other) >= count_placed(best) and (better := costs.of(other)) < cost:
            best, cost = other, better
    return _by_moves(costs, best, cost)


class _Costs:
    """The cost of a placement in plain integers: for many small questions they are faster than arrays."""

    def __init__(self, snapshot: NodeSnapshot, emptied: Saved, may_leave: Bools, beyond: Ints) -> None:
        self.free: list[Row] = emptied[0].T.tolist()
        self.kinds = snapshot.kind_of
        self.needs: list[Row] = [kind.need.tolist() for kind in snapshot.kind_of]
        self.looks = 0
        parts = snapshot.parts
        self._units: list[tuple[Cost, list[tuple[int, Row]]]] = []
        for unit in np.flatnonzero(may_leave).tolist():
            part = parts.of(unit)
            price = (int(beyond[unit]), int(snapshot.units.size[unit]), -int(snapshot.units.started[unit]))
            where = list(zip(parts.node[part].tolist(), parts.use[:, part].T.tolist(), strict=True))
            self._units.append((price, where))

    def of(self, places: Places) -> Cost:
        self.looks += len(self._units)
        rows: dict[int, Row] = {}
        asked: dict[int, set[int]] = {}
        for i, node in enumerate(places):
            if node != NOT_PLACED:
                row = rows.get(node) or self.free[node]
                rows[node] = [have - take for have, take in zip(row, self.needs[i], strict=True)]
                asked.setdefault(node, set()).update(self.kinds[i].asked)
        beyond = pods = lost = 0
        for price, where in self._units:
            here = [(node, use) for node, use in where if node in rows]
            if all(rows[node][column] >= use[column] for node, use in here for column in asked[node]):
                for node, use in here:
                    rows[node] = [have - take for have, take in zip(rows[node], use, strict=True)]
            else:
                beyond, pods, lost = beyond + price[0], pods + price[1], lost + price[2]
        return beyond, pods, lost

    def valid(self, places: Places, nodes: set[int]) -> bool:
        """Whether the members on these nodes have room there with all units gone that may leave."""
        self.looks += len(places)
        for node in nodes:
            row = self.free[node]
            asked: set[int] = set()
            for i, at in enumerate(places):
                if at == node:
                    if not self.kinds[i].open[node]:
                        return False
                    row = [have - take for have, take in zip(row, self.needs[i], strict=True)]
                    asked.update(self.kinds[i].asked)
            if any(row[column] < 0 for column in asked):
                return False
        return True


def _from_sets(snapshot: NodeSnapshot, need: int, emptied: Saved, may_leave: Bools, beyond: Ints) -> Iterator[Places]:
    """Places beside units that can all come back together, for several orders of coming back."""
    units = np.flatnonzero(may_leave).tolist()
    if not snapshot.alike and len(units) * len(snapshot.members) > MOST_PASSES:
        return
    size, lost = snapshot.units.size, snapshot.units.started
    orders: list[Callable[[int], tuple[int, ...]]] = [
        lambda unit: (-int(beyond[unit]), unit),
        lambda unit: (-int(beyond[unit]), -int(size[unit]), int(lost[unit])),
        lambda unit: (-int(beyond[unit]), int(size[unit]), int(lost[unit])),
        lambda unit: (-int(beyond[unit]), int(lost[unit]), unit),
    ]
    for order in orders:
        snapshot.load(emptied)
        for unit in sorted(units, key=order):
            snapshot.shift(unit, -1)
            if not _has_places(snapshot, need):
                snapshot.shift(unit, 1)
        places = place_gang(snapshot, need)
        if places is not None:
            yield places


def _has_places(snapshot: NodeSnapshot, need: int) -> bool:
    if snapshot.alike:
        return int(np.minimum(snapshot.capacity(snapshot.kinds[0]), len(snapshot.members)).sum()) >= need
    before = snapshot.save()
    have_places = place_gang(snapshot, need, search=False) is not None
    snapshot.load(before)
    return have_places


def _by_moves(costs: _Costs, places: Places, cost: Cost) -> Places:
    """The best single move while one helps; where none does, the first pair of moves that helps."""
    while cost[1]:
        best = None
        for moved, nodes in _moves(costs, places):
            if costs.looks >= MOST_LOOKS:
                return best or places
            if costs.valid(moved, nodes) and (better := costs.of(moved)) < cost:
                best, cost = moved, better
        if best is None:
            best = _pair_of_moves(costs, places, cost)
            if best is None:
                return places
            cost = costs.of(best)
        places = best
    return places


def _pair_of_moves(costs: _Costs, places: Places, cost: Cost) -> Places | None:
    for moved, nodes in _moves(costs, places):
        for twice, more in _moves(costs, moved):
            if costs.looks >= MOST_LOOKS:
                return None
            if costs.valid(twice, nodes | more) and costs.of(twice) < cost:
                return twice
    return None


def _moves(costs: _Costs, places: Places) -> Iterator[tuple[Places, set[int]]]:
    """One member moved, equals once; then two unlike members swapped."""
    seen = set()
    for i, at in enumerate(places):
        if at == NOT_PLACED or (id(costs.kinds[i]), at) in seen:
            continue
        seen.add((id(costs.kinds[i]), at))
        for node in range(len(costs.free)):
            if node != at:
                yield [*places[:i], node, *places[i + 1 :]], {node}
        for j in range(i + 1, len(places)):
            if costs.kinds[j] is not costs.kinds[i] and places[j] not in (at, NOT_PLACED):
                moved = list(places)
                moved[i], moved[j] = places[j], at
                yield moved, {at, places[j]}
