"""The nodes as one decision sees them: what is free for its members, and the units that might leave.

Members take places, units leave and come back. All these are deltas on arrays of the snapshot; the live state is never
written. Only what the members request is counted (``members.Columns``).

Not here: where members go (``fit``), which of the units that might leave must (``preemption``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from makeway.core.placement.cluster.arrays import NOWHERE, Bools, Ints
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.members import Columns, MemberKind, kinds_of
from makeway.core.placement.model import Pod, PodKey
from makeway.core.placement.relations import PodRelations, Relation, relations
from makeway.core.placement.scoring import ABOVE_ALL_SCORES, scores
from makeway.core.placement.units import Units

NOT_PLACED = -1
Places = list[int]  # by member the node, or NOT_PLACED
Saved = tuple[Ints, list[Ints]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What each unit that might leave holds on each node, by unit."""

    unit: Ints
    node: Ints
    use: Ints  # columns by parts
    bounds: Ints  # where each unit begins, and the end

    def of(self, unit: int) -> slice:
        return slice(int(self.bounds[unit]), int(self.bounds[unit + 1]))


class NodeSnapshot:
    """Nodes for ``members`` in queue order, only those ``within``; nominations of ``own`` pods do not count."""

    def __init__(
        self, state: ClusterState, members: Sequence[Pod], priority: int, *,
        within: Bools | None = None, own: frozenset[PodKey] = frozenset(), single: bool = False,
    ) -> None:  # fmt: skip
        self.state = state
        self.members = members
        self.single = single  # one pod by itself, not a gang of one
        self.looks = 0  # how often a unit was put back or a place was sought, for tests
        self.columns = Columns(state, members)
        self.kinds, self.kind_of = kinds_of(state, members, self.columns, within)
        self.alike = len(self.kinds) == 1
        self.allocatable: Ints = self.columns.allocatable()
        self.free: Ints = self.columns.free(self.allocatable)
        nominated = self._hold_for_nominated(priority, own | {pod.key for pod in members})
        self.relations = self._relate(nominated)
        self.related = bool(self.relations)  # other pods matter to a member beyond the room that they take
        self.units = _NO_UNITS
        self.parts = _parts(state, self.columns, _NO_UNITS)

    def _hold_for_nominated(self, priority: int, own: frozenset[PodKey]) -> list[tuple[Pod, int]]:
        """Waiting pods with a promised node count as if they ran there, unless they are less important (S-15.2.2)."""
        holders = []
        for key in self.state.nominated:
            pod = self.state.pods[key]
            node = self.state.nodes.index.get(pod.nominated or "")
            if node is not None and key not in own and self.state.gangs.priority_of(pod) >= priority:
                self.free[:, node] -= self.columns.of_pod(pod)
                holders.append((pod, node))
        return holders

    def _relate(self, nominated: list[tuple[Pod, int]]) -> PodRelations:
        state = self.state
        keep_away = [state.pods[key] for key in state.running.with_anti_affinity]
        keep_away += [pod for pod, _ in nominated if pod.anti_affinity]
        keep_away += [kind.pod for kind in self.kinds if kind.pod.anti_affinity]
        if not keep_away and not self.leaving_can_hurt:
            return PodRelations(())
        foreign = sorted({(pod.key[0], term) for pod in keep_away for term in pod.anti_affinity}, key=repr)
        shared: dict[object, Relation] = {}
        for kind in self.kinds:
            kind.relations = relations(state, kind.pod, foreign, shared)
        related = PodRelations(list(shared.values()))
        if related:
            related.count_pods(state, nominated)
        return related

    def attach(self, units: Units) -> None:
        """Set the units that might leave."""
        self.units = units
        self.parts = _parts(self.state, self.columns, units)
        if self.related:
            self.relations.attach(self.state, units)

    @property
    def leaving_can_hurt(self) -> bool:
        """Whether evictions can make a member's place invalid (S-15.4.5).

        It may need the pods that leave beside it, or a spread may count those of the domain with the fewest pods.
        """
        return any(kind.pod.spread or kind.pod.pod_affinity for kind in self.kinds)

    # --- changes -----------------------------------------------------------------------------------------------------

    def save(self) -> Saved:
        return self.free.copy(), self.relations.save()

    def load(self, saved: Saved) -> None:
        self.free = saved[0].copy()
        self.relations.load(saved[1])

    def empty(self) -> None:
        """All pods leave, including those that never would."""
        self.free = self.allocatable.copy()
        self.relations.empty()

    def take_out(self, leaving: Bools) -> None:
        """Many units leave at once."""
        chosen = leaving[self.parts.unit]
        node, use = self.parts.node[chosen], self.parts.use[:, chosen]
        for column in range(len(self.free)):
            np.add.at(self.free[column], node, use[column])
        self.relations.take_out(leaving)

    def shift(self, unit: int, sign: int) -> None:
        """One unit leaves (1) or comes back (-1)."""
        part = self.parts.of(unit)
        self.free[:, self.parts.node[part]] += sign * self.parts.use[:, part]
        self.relations.shift(unit, sign)

    def occupy(self, kind: MemberKind, node: int, change: int = 1) -> None:
        """A member of the kind takes its place, or gives it up (-1)."""
        self.free[:, node] -= change * kind.need
        if self.related:
            self.relations.stand(kind.pod, node, change)

    def occupy_all(self, places: Places) -> None:
        """All members take their places."""
        for kind, node in zip(self.kind_of, places, strict=True):
            if node != NOT_PLACED:
                self.occupy(kind, node)

    # --- questions ---------------------------------------------------------------------------------------------------

    def capacity(self, kind: MemberKind) -> Ints:
        """How many of the kind each node takes, relations aside."""
        least: Ints | None = None
        for column in kind.asked:
            count = self.free[column] // kind.need[column] if kind.need[column] > 1 else self.free[column]
            least = count if least is None else np.minimum(least, count)
        assert least is not None  # every pod is one pod
        return np.where(kind.open, np.maximum(least, 0), 0)

    def valid(self, kind: MemberKind) -> Bools:
        """The nodes that take one more of the kind now."""
        self.looks += 1
        mask: Bools = kind.open.copy()
        for column in kind.asked:
            mask &= self.free[column] >= kind.need[column]
        for relation in kind.relations:
            mask &= relation.open()
        return mask

    def valid_at(self, kind: MemberKind, node: int) -> bool:
        if not kind.open[node] or any(self.free[column, node] < kind.need[column] for column in kind.asked):
            return False
        return all(bool(relation.open()[node]) for relation in kind.relations)

    def scores(
        self, kind: MemberKind, *, already: int | Ints = 0, pack: bool = False, nodes: Ints | None = None
    ) -> Ints:
        """How good each node is for one more of the kind after ``already`` others of it.

        Pods that ask for neither cpu nor memory change no share of these: they are told apart by the number of pods.
        """
        rows = slice(1, 3) if kind.need[1:3].any() else slice(0, 1)
        free, have = self.free[rows], self.allocatable[rows]
        wish = None if pack else kind.preference  # packing is for all to fit, not for preferences
        if nodes is not None:
            free, have = free[:, nodes], have[:, nodes]
            wish = None if wish is None else wish[nodes]
        need = kind.need[rows, None]
        bare = scores("Pack" if pack else self.state.scoring, have, free - need * (already + 1))
        return bare if wish is None else bare + wish * ABOVE_ALL_SCORES

    def could_hold(self, need: int, within: Bools | None = None) -> bool:
        """Whether each kind by itself has room for as many members as must be placed of it, relations aside."""
        for kind in self.kinds:
            capacity = self.capacity(kind)
            places = int((capacity if within is None else capacity[within]).sum())
            if places < self.kind_of.count(kind) - (len(self.members) - need):
                return False
        return True

    def stands(self, places: Places, order: Iterable[int] | None = None) -> bool:
        """Whether all placed members are valid where they are, added one after another in queue order."""
        placed = [i for i in (range(len(places)) if order is None else order) if places[i] != NOT_PLACED]
        self.looks += len(placed)
        for i in placed:
            self.occupy(self.kind_of[i], places[i], -1)
        good = True
        for i in placed:
            good = good and self.valid_at(self.kind_of[i], places[i])
            self.occupy(self.kind_of[i], places[i])
        return good


def _parts(state: ClusterState, columns: Columns, units: Units) -> Parts:
    node, unit = state.running.node[units.rows], units.unit_of_rows()
    use = columns.of_rows(units.rows)
    here = node != NOWHERE
    if not here.all():
        node, unit, use = node[here], unit[here], use[:, here]
    if (unit[1:] == unit[:-1]).any():  # some units have several pods: add up those on the same node
        place = unit * max(1, len(state.nodes)) + node
        order = np.argsort(place, kind="stable")
        firsts = np.flatnonzero(np.diff(place[order], prepend=-1))
        unit, node = unit[order][firsts], node[order][firsts]
        use = np.add.reduceat(use[:, order], firsts, axis=1) if len(firsts) else use
    return Parts(unit, node, use, np.searchsorted(unit, np.arange(len(units) + 1)))


_NONE = np.zeros(0, np.int64)
_NO_UNITS = Units(_NONE, np.zeros(1, np.int64), _NONE, _NONE, _NONE, _NONE)
