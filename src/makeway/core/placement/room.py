"""The room on the nodes as one decision sees it: only the columns that its pods ask for, and who might leave.

Columns are pod count, cpu, memory, what else the members ask for, and each host port they want (of which a node has
one). Removing and returning those who might leave are deltas on these arrays; the live state is never written to.

Not here: where pods go (``fit``), which of those who might leave must (``preemption``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from makeway.core.placement.filters import (
    Beside,
    Relation,
    are_some_kept_away,
    has_relations,
    preference,
    relations,
    usable,
)
from makeway.core.placement.model import Pod, PodKey
from makeway.core.placement.nodes import NOWHERE, Bools, Ints, Placement, amount
from makeway.core.placement.scoring import ABOVE_ALL_SCORES, scores
from makeway.core.placement.units import Units

NOT_PLACED = -1
MOST_DOMAINS = 64  # that are tried one by one
Seats = list[int]  # of each member the node, or NOT_PLACED
Saved = tuple[Ints, list[Ints]]


@dataclass(slots=True, eq=False)
class MemberKind:
    """Members that are alike: what one of them needs, and where it may go."""

    pod: Pod
    need: Ints
    asked: list[int]  # columns that are compared for it (S-15.2.2)
    open: Bools
    preference: Ints | None = None  # how much it would rather have each node; None: it is all the same
    relations: list[Relation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Parts:
    """What each unit that might leave holds on each node, by unit."""

    unit: Ints
    node: Ints
    use: Ints  # columns by parts
    bounds: Ints  # where each unit begins, and the end

    def of(self, unit: int) -> slice:
        return slice(int(self.bounds[unit]), int(self.bounds[unit + 1]))


class Room:
    """``members`` in queue order; ``within``: the only nodes for them; ``own``: whose nominations do not count."""

    def __init__(
        self, state: Placement, members: Sequence[Pod], priority: int, *,
        within: Bools | None = None, own: frozenset[PodKey] = frozenset(), single: bool = False,
    ) -> None:  # fmt: skip
        self.state = state
        self.members = members
        self.single = single  # one pod by itself, not a gang of one
        self.looks = 0  # how often somebody was put back or a place was sought, for tests
        self._ports = sorted({port for pod in members for port in pod.ports})
        asked = {name for pod in members for name, value in pod.requests.items() if value > 0}
        known = sorted(column for name, column in state.columns.items() if column > 2 and name in asked)
        self.columns = [0, 1, 2, *known]  # of the state; then come the ports
        self._picked = self.columns if known else slice(0, 3)  # the same; a slice costs less
        names = {column: name for name, column in state.columns.items()}
        self._names = [names[column] for column in self.columns]
        self._unknown = asked - state.columns.keys()  # no node has it and nobody uses it
        self.allocatable: Ints = np.concatenate(
            [state.allocatable[self._picked], np.ones((len(self._ports), len(state.nodes)), np.int64)]
        )
        self.free: Ints = self.allocatable.copy()
        self.free[: len(self.columns)] -= state.used[self._picked]
        for i, port in enumerate(self._ports, len(self.columns)):
            at = state.rows.node[list(state.ports.get(port, ()))]
            np.subtract.at(self.free[i], at[at != NOWHERE], 1)
        self.kinds: list[MemberKind] = []
        self._relations: list[Relation] = []  # of all kinds, each once
        self.kind_of: list[MemberKind] = []
        self._sort_by_kind(within)
        holders = self._hold_for_others(priority, own)
        self._relate(holders)
        self.units = _NOBODY
        self.parts = self._parts(_NOBODY)
        self._related_rows: dict[int, list[tuple[Relation, int]]] = {}

    def attach(self, units: Units) -> None:
        """Say who might leave."""
        self.units = units
        self.parts = self._parts(units)
        self._related_rows = self._related(units) if self.related else {}

    @property
    def related(self) -> bool:
        """Whether who else stands somewhere matters to a member beyond the room it takes."""
        return bool(self._relations)

    @property
    def leaving_can_hurt(self) -> bool:
        """Whether more that leave can take a member's place away (S-15.4.5): one that it must stand beside, or a
        domain that holds the least."""
        return any(kind.pod.spread or kind.pod.pod_affinity for kind in self.kinds)

    def is_related(self, unit: int) -> bool:
        """Whether a unit that might leave matters to a member beyond the room that it takes."""
        return bool(self._related_rows.get(unit))

    def common_domains(self) -> Iterator[Bools]:
        """Where members want each other beside them and none stands yet: the domains, one of which takes them all.

        The first one's choice would bind the others; it looks at its own score only (decision 0069).
        """
        unmet = [each.domain for each in self._relations if isinstance(each, Beside) and not each.counts.any()]
        tried: set[bytes] = set()
        for domain in unmet:
            for number in np.unique(domain[domain >= 0]).tolist():
                nodes: Bools = domain == number
                if len(tried) < MOST_DOMAINS and nodes.tobytes() not in tried:
                    tried.add(nodes.tobytes())
                    yield nodes
            if len(tried) >= MOST_DOMAINS:
                return

    def could_hold(self, need: int, within: Bools | None = None) -> bool:
        """Whether each kind by itself has room for as many as must be placed of it; relations are not asked."""
        for kind in self.kinds:
            capacity = self.capacity(kind)
            room = int((capacity if within is None else capacity[within]).sum())
            if room < sum(each is kind for each in self.kind_of) - (len(self.members) - need):
                return False
        return True

    @property
    def alike(self) -> bool:
        return len(self.kinds) == 1

    # --- what it is made of ------------------------------------------------------------------------------------------

    def _sort_by_kind(self, within: Bools | None) -> None:
        found: dict[object, MemberKind] = {}
        before: Pod | None = None
        apart = any(map(has_relations, self.members)) or are_some_kept_away(self.state)  # else labels say nothing
        for pod in self.members:
            if before is not None and _is_like(pod, before) and (not apart or pod.labels == before.labels):
                self.kind_of.append(self.kind_of[-1])
                continue
            before = pod
            look = (
                tuple(sorted(pod.requests.items())), tuple(sorted(pod.node_selector.items())), pod.affinity,
                pod.preferred, pod.tolerations, pod.ports, pod.pod_affinity, pod.anti_affinity, pod.spread,
                tuple(sorted(pod.labels.items())) if apart else (),
            )  # fmt: skip
            kind = found.get(look)
            if kind is None:
                kind = found[look] = self._kind(pod, within)
                self.kinds.append(kind)
            self.kind_of.append(kind)

    def _kind(self, pod: Pod, within: Bools | None) -> MemberKind:
        need = self._use(pod)
        mask = usable(self.state, pod) if within is None else usable(self.state, pod) & within
        if any(pod.requests.get(name, 0) > 0 for name in self._unknown):
            mask = np.zeros_like(mask)
        return MemberKind(pod, need, np.flatnonzero(need > 0).tolist(), mask, preference(self.state, pod))

    def _use(self, pod: Pod) -> Ints:
        """What a pod takes of each column; what the room does not look at is left out."""
        requests = [amount(pod.requests.get(name, 0)) for name in self._names[1:]]
        return np.array([1, *requests, *(int(port in pod.ports) for port in self._ports)], np.int64)

    def _hold_for_others(self, priority: int, own: frozenset[PodKey]) -> list[tuple[Pod, int]]:
        """Those who wait and were promised a node stand there already, unless they are less important (S-15.2.2)."""
        own |= {pod.key for pod in self.members}
        holders = []
        for key in self.state.nominated:
            pod = self.state.pods[key]
            node = self.state.index.get(pod.nominated or "")
            if node is not None and key not in own and self.state.priority_of(pod) >= priority:
                self.free[:, node] -= self._use(pod)
                holders.append((pod, node))
        return holders

    def _relate(self, holders: list[tuple[Pod, int]]) -> None:
        state = self.state
        wary = [state.pods[key] for key in state.wary]
        wary += [pod for pod, _ in holders if pod.anti_affinity]
        wary += [kind.pod for kind in self.kinds if kind.pod.anti_affinity]
        if not wary and not self.leaving_can_hurt:
            return
        foreign = sorted({(pod.key[0], term) for pod in wary for term in pod.anti_affinity}, key=repr)
        shared: dict[object, Relation] = {}
        for kind in self.kinds:
            kind.relations = relations(state, kind.pod, foreign, shared)
        self._relations = list(shared.values())
        if self.related:
            for pod, node in holders:
                for relation in self._mattering(pod):
                    relation.hold(node)
            for key, row in state.row_of.items():
                if state.rows.node[row] != NOWHERE:
                    self._stand(state.pods[key], int(state.rows.node[row]), 1)

    def _stand(self, pod: Pod, node: int, change: int) -> None:
        for relation in self._mattering(pod):
            relation.stand(node, change)

    def _mattering(self, pod: Pod) -> Iterator[Relation]:
        return (relation for relation in self._relations if relation.matters(pod))

    def _parts(self, units: Units) -> Parts:
        rows = self.state.rows
        node = rows.node[units.rows]
        unit = units.unit_of_rows()
        use = np.zeros((len(self.allocatable), len(node)), np.int64)
        use[: len(self.columns)] = rows.use[:, units.rows][self._picked]
        for i, port in enumerate(self._ports, len(self.columns)):
            holds = np.zeros(len(rows.alive), bool)
            holds[list(self.state.ports.get(port, ()))] = True
            use[i] = holds[units.rows]
        here = node != NOWHERE
        if not here.all():
            node, unit, use = node[here], unit[here], use[:, here]
        if (unit[1:] == unit[:-1]).any():  # some units have several pods: add up those on the same node
            place = unit * max(1, len(self.state.nodes)) + node
            order = np.argsort(place, kind="stable")
            firsts = np.flatnonzero(np.diff(place[order], prepend=-1))
            unit, node = unit[order][firsts], node[order][firsts]
            use = np.add.reduceat(use[:, order], firsts, axis=1) if len(firsts) else use
        return Parts(unit, node, use, np.searchsorted(unit, np.arange(len(units) + 1)))

    def _related(self, units: Units) -> dict[int, list[tuple[Relation, int]]]:
        """Of each unit what it is to the relations: which one, on which node."""
        found: dict[int, list[tuple[Relation, int]]] = {}
        for unit, row in zip(units.unit_of_rows().tolist(), units.rows.tolist(), strict=True):
            pod, node = self.state.rows.pods[row], int(self.state.rows.node[row])
            assert pod is not None
            if node != NOWHERE:
                found.setdefault(unit, []).extend((relation, node) for relation in self._mattering(pod))
        return found

    # --- changes -----------------------------------------------------------------------------------------------------

    def save(self) -> Saved:
        return self.free.copy(), [relation.counts.copy() for relation in self._relations]

    def load(self, saved: Saved) -> None:
        self.free = saved[0].copy()
        for relation, counts in zip(self._relations, saved[1], strict=True):
            relation.counts = counts.copy()

    def empty(self) -> None:
        """All pods leave, also those who never would."""
        self.free = self.allocatable.copy()
        for relation in self._relations:
            relation.counts[:] = 0

    def take_out(self, going: Bools) -> None:
        """Many units leave at once."""
        chosen = going[self.parts.unit]
        node, use = self.parts.node[chosen], self.parts.use[:, chosen]
        for column in range(len(self.free)):
            np.add.at(self.free[column], node, use[column])
        if self._related_rows:
            for unit in np.flatnonzero(going).tolist():
                self._shift_related(unit, 1)

    def shift(self, unit: int, sign: int) -> None:
        """One unit leaves (1) or comes back (-1)."""
        part = self.parts.of(unit)
        self.free[:, self.parts.node[part]] += sign * self.parts.use[:, part]
        self._shift_related(unit, sign)

    def _shift_related(self, unit: int, sign: int) -> None:
        for relation, node in self._related_rows.get(unit, ()):
            relation.stand(node, -sign)

    def occupy(self, kind: MemberKind, node: int, change: int = 1) -> None:
        """A member of the kind takes its place, or gives it up (-1)."""
        self.free[:, node] -= change * kind.need
        if self.related:
            self._stand(kind.pod, node, change)

    def seat(self, seats: Seats) -> None:
        """All members take their places."""
        for kind, node in zip(self.kind_of, seats, strict=True):
            if node != NOT_PLACED:
                self.occupy(kind, node)

    # --- questions ---------------------------------------------------------------------------------------------------

    def capacity(self, kind: MemberKind) -> Ints:
        """How many of the kind each node takes, as far as room goes."""
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
        """Of each node, if one more of the kind took its place there after ``already`` others of it.

        Pods that ask for neither cpu nor memory change no share of these: they are told apart by the number of pods.
        """
        rows = slice(1, 3) if kind.need[1:3].any() else slice(0, 1)
        free, have = self.free[rows], self.allocatable[rows]
        wish = None if pack else kind.preference  # who packs wants all to fit, not each to have its wish
        if nodes is not None:
            free, have = free[:, nodes], have[:, nodes]
            wish = None if wish is None else wish[nodes]
        need = kind.need[rows, None]
        found = scores("Pack" if pack else self.state.scoring, have, free - need * (already + 1))
        return found if wish is None else found + wish * ABOVE_ALL_SCORES

    def held(self, row: int, column: int) -> int:
        """What the pod of a row holds of a column."""
        if column < len(self.columns):
            return int(self.state.rows.use[self.columns[column], row])
        return int(row in self.state.ports.get(self._ports[column - len(self.columns)], ()))

    def column_name(self, column: int) -> str:
        """The resource that a column counts, or the port."""
        if column >= len(self.columns):
            protocol, number = self._ports[column - len(self.columns)]
            return f"port {number}/{protocol}"
        return self._names[column]

    def stands(self, seats: Seats, order: Iterable[int] | None = None) -> bool:
        """Whether all seated members are valid where they are, added one after another in queue order."""
        seated = [i for i in (range(len(seats)) if order is None else order) if seats[i] != NOT_PLACED]
        self.looks += len(seated)
        for i in seated:
            self.occupy(self.kind_of[i], seats[i], -1)
        good = True
        for i in seated:
            good = good and self.valid_at(self.kind_of[i], seats[i])
            self.occupy(self.kind_of[i], seats[i])
        return good


def _is_like(pod: Pod, other: Pod) -> bool:
    """What most members of a gang are to the one before, and is cheap to tell."""
    return (
        pod.requests == other.requests and pod.ports == other.ports
        and pod.node_selector == other.node_selector and pod.affinity == other.affinity
        and pod.preferred == other.preferred
        and pod.tolerations == other.tolerations and pod.pod_affinity == other.pod_affinity
        and pod.anti_affinity == other.anti_affinity and pod.spread == other.spread
    )  # fmt: skip


_NONE = np.zeros(0, np.int64)
_NOBODY = Units(_NONE, np.zeros(1, np.int64), _NONE, _NONE, _NONE, _NONE)
