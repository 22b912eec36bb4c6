"""One pod against all nodes at once (S-15.4 per node, 15.5 between them).

On one node the least sufficient priority changes nothing: units that come back by importance are exactly those that it
keeps. So the k-th units of all nodes come back together, by vector operations. Pods of a group on other nodes count in
the choice between nodes, never for room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.members import MemberKind
from makeway.core.placement.preemption.cheapest import by_node
from makeway.core.placement.preemption.victims import select_victims
from makeway.core.placement.snapshot import NodeSnapshot
from makeway.core.placement.units import Units, guarded_pods, violations

_SHIFT = 2**31  # makes priorities positive, so that their sum ranks the number of pods first


@dataclass(frozen=True, slots=True)
class CandidateNodes:
    """The nodes where evictions make a place, by name, and the units that leave them."""

    nodes: Ints
    bounds: Ints  # where the victims of each node begin, and the end
    victims: Ints  # units, by importance
    beyond: Ints  # by victim, its pods beyond budgets

    def victims_of(self, number: int) -> Ints:
        return self.victims[self.bounds[number] : self.bounds[number + 1]]

    def violations(self) -> Ints:
        return self._sums(self.beyond)

    def _sums(self, values: Ints) -> Ints:
        return np.add.reduceat(values, self.bounds[:-1]) if len(self.nodes) else values

    def best_first(self, units: Units) -> Ints:
        """The numbers of the nodes, the best one first (S-15.5)."""
        if not len(self.nodes):
            return self.nodes
        priority, size = units.priority[self.victims], units.size[self.victims]
        highest = np.maximum.reduceat(priority, self.bounds[:-1])
        top = priority == np.repeat(highest, np.diff(self.bounds))
        start = np.where(top, units.start[self.victims], np.iinfo(np.int64).max)
        earliest = np.minimum.reduceat(start, self.bounds[:-1])
        total = self._sums((priority + _SHIFT) * size)
        late = -np.clip(earliest, -(2**62), 2**62)
        return np.lexsort((self.nodes, late, self._sums(size), total, highest, self.violations()))


def candidate_nodes(snapshot: NodeSnapshot) -> CandidateNodes:
    """What each node would cost a single pod, the only member of ``snapshot``, which is unchanged."""
    if not snapshot.related:
        return _without_relations(snapshot)
    kind = snapshot.kinds[0]
    everywhere = kind.open
    special = _nodes_of_related(snapshot)
    open_now = np.logical_and.reduce([relation.open() for relation in kind.relations], axis=0)
    kind.open = everywhere & open_now & ~special  # whatever leaves these, the relations stay as they are
    plain = _without_relations(snapshot)
    kind.open = everywhere
    nodes = _merged(plain, _node_by_node(snapshot, np.flatnonzero(everywhere & special)))
    kind.open = everywhere
    return nodes


def _nodes_of_related(snapshot: NodeSnapshot) -> Bools:
    """Nodes with a unit that matters to the pod, there or elsewhere."""
    related = np.array([snapshot.relations.concern(unit) for unit in range(len(snapshot.units))], bool)
    nodes = np.zeros(len(snapshot.state.nodes), bool)
    nodes[snapshot.parts.node[related[snapshot.parts.unit]]] = True
    return nodes


def _merged(one: CandidateNodes, other: CandidateNodes) -> CandidateNodes:
    if not len(other.nodes):
        return one
    both = [(some, i) for some in (one, other) for i in range(len(some.nodes))]
    both.sort(key=lambda node: int(node[0].nodes[node[1]]))
    parts = [(some.nodes[i], slice(int(some.bounds[i]), int(some.bounds[i + 1])), some) for some, i in both]
    sizes = [part.stop - part.start for _, part, _ in parts]
    return CandidateNodes(
        np.array([node for node, _, _ in parts], np.int64),
        np.cumsum([0, *sizes]),
        np.concatenate([some.victims[part] for _, part, some in parts]),
        np.concatenate([some.beyond[part] for _, part, some in parts]),
    )


def _without_relations(snapshot: NodeSnapshot) -> CandidateNodes:
    kind, parts = snapshot.kinds[0], snapshot.parts
    everyone = np.ones(len(snapshot.units), bool)
    order, first = by_node(snapshot, everyone)
    before = snapshot.save()
    snapshot.take_out(everyone)
    slack = snapshot.free - kind.need[:, None]
    snapshot.load(before)
    good = kind.open & (np.diff(first) > 0)
    for column in kind.asked:
        good &= slack[column] >= 0
    nodes = np.flatnonzero(good)
    beyond = _beyond(snapshot, nodes, order, first)
    stays = np.zeros(len(order), bool)
    if beyond.any():
        _sweep(snapshot, kind, slack, nodes, (order, first), beyond > 0, stays)
    _sweep(snapshot, kind, slack, nodes, (order, first), np.ones(len(order), bool), stays)
    leaving = np.flatnonzero(~stays & good[parts.node[order]])
    at = parts.node[order[leaving]]
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    return CandidateNodes(at[starts], np.append(starts, len(at)), parts.unit[order[leaving]], beyond[leaving])


def _sweep(
    snapshot: NodeSnapshot, kind: MemberKind, slack: Ints, nodes: Ints, lie: tuple[Ints, Ints], may: Bools, stays: Bools
) -> None:
    """Let the units that ``may`` come back do so, by importance on each node; ``stays`` says which did."""
    order, first = lie
    turn = 0
    while len(nodes := nodes[first[nodes] + turn < first[nodes + 1]]):
        place = first[nodes] + turn
        use = snapshot.parts.use[:, order[place]]
        fits = may[place] & ~stays[place]
        for column in kind.asked:
            fits &= slack[column, nodes] >= use[column]
        slack[:, nodes[fits]] -= use[:, fits]
        stays[place[fits]] = True
        turn += 1


def _beyond(snapshot: NodeSnapshot, nodes: Ints, order: Ints, first: Ints) -> Ints:
    """By place in ``order``, the pods beyond budgets, counted anew for every node, those elsewhere included."""
    beyond = np.zeros(len(order), np.int64)
    guarded = guarded_pods(snapshot.state, snapshot.units)
    if not guarded:
        return beyond
    unit = snapshot.parts.unit[order]
    concerned = np.zeros(len(snapshot.units), bool)
    concerned[list(guarded)] = True
    for node in nodes.tolist():
        here = np.arange(first[node], first[node + 1])
        here = here[concerned[unit[here]]]
        walk = ((place, *pod) for place in here.tolist() for pod in guarded[int(unit[place])])
        for place, count in violations(walk).items():
            beyond[place] = count
    return beyond


def _node_by_node(snapshot: NodeSnapshot, nodes_to_try: Ints) -> CandidateNodes:
    """For nodes where evictions change what the pod heeds, select victims node by node."""
    nodes, victims, beyond, bounds = [], [], [], [0]
    for node in nodes_to_try.tolist():
        may_leave = np.zeros(len(snapshot.units), bool)
        may_leave[snapshot.parts.unit[snapshot.parts.node == node]] = True
        only = np.zeros(len(snapshot.state.nodes), bool)
        only[node] = True
        snapshot.kinds[0].open = only
        result = select_victims(snapshot, 1, may_leave)
        if result is not None and result.victims.any():
            leaving = np.flatnonzero(result.victims)
            nodes.append(node)
            victims.extend(leaving.tolist())
            beyond.extend(result.beyond[leaving].tolist())
            bounds.append(len(victims))
    arrays = [np.array(values, np.int64) for values in (nodes, bounds, victims, beyond)]
    return CandidateNodes(*arrays)
