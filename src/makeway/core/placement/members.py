"""The members of a preemptor by kind, and the columns that are counted for them.

Equal members are of one *kind*: its requests and possible nodes are looked up once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from makeway.core.placement.cluster.arrays import NOWHERE, Bools, Ints, amount
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.filters import preference, usable
from makeway.core.placement.model import Pod
from makeway.core.placement.relations import Relation, are_some_kept_away, has_relations


class Columns:
    """What is counted on nodes: pods, cpu, memory, the other requests of members, and each host port that they want."""

    def __init__(self, state: ClusterState, members: Sequence[Pod]) -> None:
        self._state = state
        known = state.nodes.columns
        asked = {name for pod in members for name, value in pod.requests.items() if value > 0}
        more = sorted(column for name, column in known.items() if column > 2 and name in asked)
        names = {column: name for name, column in known.items()}
        self.resources = [names[column] for column in (0, 1, 2, *more)]
        self.ports = sorted({port for pod in members for port in pod.ports})
        self.unknown = asked - known.keys()  # no node has it and no pod uses it
        self._picked = [0, 1, 2, *more] if more else slice(0, 3)  # the same; a slice costs less

    def allocatable(self) -> Ints:
        """What each node has; it has one of each port."""
        ports = np.ones((len(self.ports), len(self._state.nodes)), np.int64)
        return np.concatenate([self._state.nodes.allocatable[self._picked], ports])

    def free(self, allocatable: Ints) -> Ints:
        """What running pods leave free of each node."""
        free = allocatable.copy()
        free[: len(self.resources)] -= self._state.nodes.requested[self._picked]
        for i, port in enumerate(self.ports, len(self.resources)):
            at = self._state.running.node[list(self._state.running.ports.get(port, ()))]
            np.subtract.at(free[i], at[at != NOWHERE], 1)
        return free

    def of_rows(self, rows: Ints) -> Ints:
        """What the pods of these rows use."""
        running = self._state.running
        taken = np.zeros((len(self.resources) + len(self.ports), len(rows)), np.int64)
        taken[: len(self.resources)] = running.requests[:, rows][self._picked]
        for i, port in enumerate(self.ports, len(self.resources)):
            holds = np.zeros(len(running.alive), bool)
            holds[list(running.ports.get(port, ()))] = True
            taken[i] = holds[rows]
        return taken

    def of_pod(self, pod: Pod) -> Ints:
        """What a pod uses of the counted columns."""
        requests = [amount(pod.requests.get(name, 0)) for name in self.resources[1:]]
        return np.array([1, *requests, *(int(port in pod.ports) for port in self.ports)], np.int64)

    def held(self, row: int, column: int) -> int:
        """What the running pod of a row uses of a column."""
        running = self._state.running
        if column < len(self.resources):
            return int(running.requests[self._state.nodes.columns[self.resources[column]], row])
        return int(row in running.ports.get(self.ports[column - len(self.resources)], ()))

    def name(self, column: int) -> str:
        """The resource that a column counts, or the port."""
        if column >= len(self.resources):
            protocol, number = self.ports[column - len(self.resources)]
            return f"port {number}/{protocol}"
        return self.resources[column]


@dataclass(slots=True, eq=False)
class MemberKind:
    """Equal members: what one of them requests, and where it may go."""

    pod: Pod
    need: Ints
    asked: list[int]  # columns that are compared for it (S-15.2.2)
    open: Bools
    preference: Ints | None = None  # how much it prefers each node; None: it has no preference
    relations: list[Relation] = field(default_factory=list)


def kinds_of(
    state: ClusterState, members: Sequence[Pod], columns: Columns, within: Bools | None
) -> tuple[list[MemberKind], list[MemberKind]]:
    """The kinds, and the kind of each member."""
    by_signature: dict[object, MemberKind] = {}
    kind_of: list[MemberKind] = []
    before: Pod | None = None
    heeds_labels = any(map(has_relations, members)) or are_some_kept_away(state)
    for pod in members:
        if before is not None and _is_like(pod, before) and (not heeds_labels or pod.labels == before.labels):
            kind_of.append(kind_of[-1])
            continue
        before = pod
        signature = (
            tuple(sorted(pod.requests.items())), tuple(sorted(pod.node_selector.items())), pod.affinity,
            pod.preferred, pod.tolerations, pod.ports, pod.pod_affinity, pod.anti_affinity, pod.spread,
            tuple(sorted(pod.labels.items())) if heeds_labels else (),
        )  # fmt: skip
        kind = by_signature.get(signature)
        if kind is None:
            kind = by_signature[signature] = _kind(state, pod, columns, within)
        kind_of.append(kind)
    return list(by_signature.values()), kind_of


def _kind(state: ClusterState, pod: Pod, columns: Columns, within: Bools | None) -> MemberKind:
    need = columns.of_pod(pod)
    nodes = usable(state, pod) if within is None else usable(state, pod) & within
    if any(pod.requests.get(name, 0) > 0 for name in columns.unknown):
        nodes = np.zeros_like(nodes)
    return MemberKind(pod, need, np.flatnonzero(need > 0).tolist(), nodes, preference(state, pod))


def _is_like(pod: Pod, other: Pod) -> bool:
    """A quick test for two equal pods, as most neighbours in a gang are."""
    return (
        pod.requests == other.requests and pod.ports == other.ports
        and pod.node_selector == other.node_selector and pod.affinity == other.affinity
        and pod.preferred == other.preferred
        and pod.tolerations == other.tolerations and pod.pod_affinity == other.pod_affinity
        and pod.anti_affinity == other.anti_affinity and pod.spread == other.spread
    )  # fmt: skip
