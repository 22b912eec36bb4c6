"""Which nodes a pod may use (S-15.2.2, 15.2.6): by what they are, and by who else stands there.

``usable`` answers for what no eviction can cure: cordons, taints, labels. It is kept per kind of pod until a node
changes. A ``Relation`` counts by domain the pods that a kind of pod must keep away from, or be spread among; most pods
have none.

Not here: room, pod counts and host ports, which are columns of ``room.Room``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from makeway.core.model import Selector, selects
from makeway.core.placement.model import Node, Pod, Spread, Term
from makeway.core.placement.nodes import Bools, Ints, Placement

KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
UNWANTED = 100  # what a PreferNoSchedule taint weighs: as much as the strongest preference for another node
_MOST_MASKS = 512


def usable(state: Placement, pod: Pod) -> Bools:
    """The nodes that are open to the pod whoever stands there. Shared: not to be written to."""
    look = (tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations)
    mask = state.masks.get(look)
    if mask is None:
        if len(state.masks) >= _MOST_MASKS:
            state.masks.clear()
        mask = state.masks[look] = np.fromiter((_opens(node, pod) for node in state.nodes), bool, len(state.nodes))
    return mask


def preference(state: Placement, pod: Pod) -> Ints | None:
    """How much the pod would rather have each node (S-15.2.3); None: it is all the same to it. Not to be written to."""
    look = (pod.preferred, pod.tolerations)
    if look not in state.preferences:
        if len(state.preferences) >= _MOST_MASKS:
            state.preferences.clear()
        found: Ints = np.fromiter((_preferred(node, pod) for node in state.nodes), np.int64, len(state.nodes))
        state.preferences[look] = found if found.any() else None
    return state.preferences[look]


def _preferred(node: Node, pod: Pod) -> int:
    wanted = sum(weight for weight, term in pod.preferred if selects(term, node.labels))
    unwanted = sum(
        taint.effect == "PreferNoSchedule" and not any(t.tolerates(taint) for t in pod.tolerations)
        for taint in node.taints
    )
    return wanted - UNWANTED * unwanted


def _opens(node: Node, pod: Pod) -> bool:
    if node.unschedulable:
        return False
    if any(
        taint.effect in KEEPS_AWAY and not any(t.tolerates(taint) for t in pod.tolerations) for taint in node.taints
    ):
        return False
    return matches(node, pod)


def matches(node: Node, pod: Pod) -> bool:
    """Whether the labels of the node are those that the pod asks for."""
    if not _has(node.labels, pod.node_selector):
        return False
    return pod.affinity is None or any(selects(term, node.labels) for term in pod.affinity)


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


class Relation:
    """How many pods that matter to a kind of pod stand in each domain, and where that leaves it a place."""

    def __init__(
        self, domain: Ints, matters: Callable[[Pod], bool], spread: Spread | None = None, own: int = 0
    ) -> None:
        self.domain = domain  # of each node; -1: none
        self.matters = matters
        self.counts: Ints = np.zeros(int(domain.max(initial=-1)) + 1, np.int64)
        self._spread = spread
        self._own = own  # 1: a pod that is placed counts for the next of its kind

    def stand(self, node: int, change: int) -> None:
        if self.domain[node] >= 0:
            self.counts[self.domain[node]] += change

    def open(self) -> Bools:
        """The nodes where it leaves a place."""
        if not len(self.counts):
            return self.domain < 0 if self._spread is None else np.zeros(len(self.domain), bool)
        here = self.counts[self.domain]  # of a node without a domain: anything
        if self._spread is None:
            nobody: Bools = here == 0
            return (self.domain < 0) | nobody
        least = 0 if len(self.counts) < self._spread.min_domains else int(self.counts.min())
        even: Bools = here + self._own - least <= self._spread.max_skew
        return (self.domain >= 0) & even


def relations(state: Placement, pod: Pod, others: Iterable[Pod]) -> list[Relation]:
    """What ``pod`` heeds in others: its own terms and spreads, and the terms of those who stand or will stand there."""
    found = [Relation(_domains(state, term.topology_key), _selected(pod, term.selector)) for term in pod.anti_affinity]
    foreign = {
        term for other in others if other.key[0] == pod.key[0]
        for term in other.anti_affinity if _matches(term.selector, pod)
    }  # fmt: skip
    theirs = sorted(foreign, key=repr)
    found += [Relation(_domains(state, term.topology_key), _keeps_away(pod, term)) for term in theirs]
    keys = [spread.topology_key for spread in pod.spread]
    for spread in pod.spread:
        domain = _domains(state, spread.topology_key, keys, pod.node_selector)
        found.append(Relation(domain, _selected(pod, spread.selector), spread, int(_matches(spread.selector, pod))))
    return found


def _domains(
    state: Placement, key: str, all_keys: Iterable[str] = (), selector: Mapping[str, str] | None = None
) -> Ints:
    """Numbers the values of a label over the nodes; of a node that has it not, or is not asked about: -1."""
    numbers: dict[str, int] = {}
    domain: Ints = np.full(len(state.nodes), -1)
    for i, node in enumerate(state.nodes):
        value = node.labels.get(key)
        if value is not None and all(each in node.labels for each in all_keys) and _has(node.labels, selector or {}):
            domain[i] = numbers.setdefault(value, len(numbers))
    return domain


def _matches(selector: Selector | None, pod: Pod) -> bool:
    return selector is not None and selects(selector, pod.labels)


def _selected(pod: Pod, selector: Selector | None) -> Callable[[Pod], bool]:
    namespace = pod.key[0]
    return lambda other: other.key[0] == namespace and _matches(selector, other)


def _keeps_away(pod: Pod, term: Term) -> Callable[[Pod], bool]:
    namespace = pod.key[0]
    return lambda other: other.key[0] == namespace and term in other.anti_affinity
