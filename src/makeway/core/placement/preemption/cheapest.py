"""Places for members where the least must leave (S-15.4.7).

Of each node it is known what one more member there would cost. The units that might leave it are walked by importance.
A unit that no longer fits beside the members adds its pods beyond budgets, its pods (a group counts whole, and once)
and their run time. The cheapest node is taken, of equal ones the best by score. A group that leaves one node leaves all
its nodes, so the costs of these are computed anew, and no others.
"""

from __future__ import annotations

import heapq

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.members import MemberKind
from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot, Places

Cost = tuple[int, int, int]  # pods beyond budgets, pods, run time up to a constant
Entry = tuple[int, int, int, int, int, int]  # cost, score, node, and the version of the node that it is about


class CheapestPlaces:
    """One placing of all members. In ``snapshot`` the units that ``may_leave`` are out, and no member has a place."""

    def __init__(self, snapshot: NodeSnapshot, may_leave: Bools, beyond: Ints) -> None:
        self._snapshot = snapshot
        self._order, self._first = by_node(snapshot, may_leave)
        self._beyond = beyond.tolist()
        self._pods = snapshot.units.size.tolist()
        self._lost = (-snapshot.units.started).tolist()
        self._gone: set[int] = set()
        self._asked: dict[int, set[int]] = {}  # columns that members placed on the node ask for
        self._version: dict[int, int] = {}
        self._units_on: dict[int, list[tuple[int, list[int]]]] = {}
        nodes_of_unit = np.diff(snapshot.parts.bounds)
        self._is_on_several: list[bool] = (nodes_of_unit > 1).tolist()
        self._heaps: dict[int, list[Entry]] = {}

    def places(self) -> Places:
        """A node for each member that fits somewhere; all of them take these places in the snapshot."""
        snapshot = self._snapshot
        places = [NOT_PLACED] * len(snapshot.members)
        for i, pod in enumerate(snapshot.members):
            node = snapshot.state.nodes.index.get(pod.nominated) if pod.nominated is not None else None
            if node is not None and snapshot.valid_at(snapshot.kind_of[i], node):
                places[i] = node
                self._take(snapshot.kind_of[i], node)
        for i, kind in enumerate(snapshot.kind_of):
            if places[i] == NOT_PLACED:
                places[i] = self._cheapest(kind)
                if places[i] != NOT_PLACED:
                    self._take(kind, places[i])
        return places

    def _cheapest(self, kind: MemberKind) -> int:
        heap = self._heaps.get(id(kind))
        if heap is None:
            heap = self._heaps[id(kind)] = self.costs_at_once(kind)
        while heap and heap[0][5] != self._version.get(heap[0][4], 0):
            heapq.heappop(heap)
        return heap[0][4] if heap else NOT_PLACED

    def _take(self, kind: MemberKind, node: int) -> None:
        cost = self.cost_at(kind, node)
        self._snapshot.occupy(kind, node)
        self._asked.setdefault(node, set()).update(kind.asked)
        touched = {node}
        parts = self._snapshot.parts
        for unit in cost[1] if cost is not None else ():
            self._gone.add(unit)
            if self._is_on_several[unit]:
                touched.update(parts.node[parts.of(unit)].tolist())
        for changed in touched:
            self._version[changed] = self._version.get(changed, 0) + 1
        for other in self._snapshot.kinds:
            heap = self._heaps.get(id(other))
            if heap is not None:
                self._update(other, heap, touched)

    def _update(self, kind: MemberKind, heap: list[Entry], touched: set[int]) -> None:
        costs = [(node, at[0]) for node in sorted(touched) if (at := self.cost_at(kind, node)) is not None]
        if costs:
            scores = self._snapshot.scores(kind, nodes=np.array([node for node, _ in costs])).tolist()
            for (node, cost), score in zip(costs, scores, strict=True):
                heapq.heappush(heap, (*cost, -score, node, self._version[node]))

    def cost_at(self, kind: MemberKind, node: int) -> tuple[Cost, list[int]] | None:
        """The cost of one more of the kind on the node, and the units that leave for it; None: no place there."""
        if not kind.open[node]:
            return None
        row = self._snapshot.free[:, node].tolist()
        slack = [have - need for have, need in zip(row, kind.need.tolist(), strict=True)]
        if any(slack[column] < 0 for column in kind.asked):
            return None
        asked = self._asked.get(node, set()).union(kind.asked)
        beyond = pods = lost = 0
        leaving = []
        for unit, use in self._units_on_node(node):
            if unit in self._gone:
                continue
            if all(slack[column] >= use[column] for column in asked):
                slack = [have - take for have, take in zip(slack, use, strict=True)]
            else:
                leaving.append(unit)
                beyond += self._beyond[unit]
                pods += self._pods[unit]
                lost += self._lost[unit]
        return (beyond, pods, lost), leaving

    def _units_on_node(self, node: int) -> list[tuple[int, list[int]]]:
        units = self._units_on.get(node)
        if units is None:
            parts = self._snapshot.parts
            here = self._order[self._first[node] : self._first[node + 1]]
            units = list(zip(parts.unit[here].tolist(), parts.use[:, here].T.tolist(), strict=True))
            self._units_on[node] = units
        return units

    def costs_at_once(self, kind: MemberKind) -> list[Entry]:
        """The cost of each node while no member is placed: the k-th units of all nodes are walked together."""
        if self._gone or self._asked:
            return self.costs_one_by_one(kind)
        snapshot, parts = self._snapshot, self._snapshot.parts
        slack = snapshot.free - kind.need[:, None]
        good = kind.open.copy()
        for column in kind.asked:
            good &= slack[column] >= 0
        cost = np.zeros((3, len(good)), np.int64)
        weights = np.array([self._beyond, self._pods, self._lost], np.int64)
        nodes, turn = np.flatnonzero(good), 0
        while len(nodes := nodes[self._first[nodes] + turn < self._first[nodes + 1]]):
            part = self._order[self._first[nodes] + turn]
            use = parts.use[:, part]
            fits = (slack[kind.asked][:, nodes] >= use[kind.asked]).all(axis=0)
            slack[:, nodes[fits]] -= use[:, fits]
            cost[:, nodes[~fits]] += weights[:, parts.unit[part[~fits]]]
            turn += 1
        nodes = np.flatnonzero(good)
        score = -snapshot.scores(kind, nodes=nodes)
        never = [0] * len(nodes)
        heap = list(zip(*cost[:, nodes].tolist(), score.tolist(), nodes.tolist(), never, strict=True))
        heapq.heapify(heap)
        return heap

    def costs_one_by_one(self, kind: MemberKind) -> list[Entry]:
        """The cost of each node where members are placed already."""
        heap = []
        nodes = np.flatnonzero(kind.open)
        scores = self._snapshot.scores(kind, nodes=nodes).tolist()
        for node, score in zip(nodes.tolist(), scores, strict=True):
            cost = self.cost_at(kind, node)
            if cost is not None:
                heap.append((*cost[0], -score, node, self._version.get(node, 0)))
        heapq.heapify(heap)
        return heap


def by_node(snapshot: NodeSnapshot, may_leave: Bools) -> tuple[Ints, Ints]:
    """The parts of the units that may leave, by node and importance, and where each node begins."""
    chosen = np.flatnonzero(may_leave[snapshot.parts.unit])
    node = snapshot.parts.node[chosen]
    order = np.argsort(node, kind="stable")  # parts are ordered by unit, so those of a node stay ordered by importance
    first = np.searchsorted(node[order], np.arange(len(snapshot.state.nodes) + 1))
    return chosen[order], first
