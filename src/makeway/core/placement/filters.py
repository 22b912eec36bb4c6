"""Which nodes a pod may use (S-15.2.2, 15.2.6): by what they are, and by who else stands there.

``usable`` answers for what no eviction can cure: cordons, taints, labels. It is kept per kind of pod until a node
changes. A ``Relation`` counts by domain the pods that a kind of pod must keep away from, stand beside, or be spread
among; most pods have none. What the rules leave open about them is in decision 0069.

Not here: room, pod counts and host ports, which are columns of ``room.Room``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial

import numpy as np

from makeway.api.names import NAMESPACE_LABEL
from makeway.core.model import Selector, selects
from makeway.core.placement.model import AffinityTerm, Node, Pod, Spread
from makeway.core.placement.nodes import Bools, Ints, Placement

KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
SOFT = "PreferNoSchedule"
_SOFTLY_TAINTED = "softly tainted"  # among what is kept of preferences: which nodes have such a taint
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
    if not pod.preferred and not _has_soft_taints(state):
        return None
    look = (pod.preferred, pod.tolerations)
    if look not in state.preferences:
        if len(state.preferences) >= _MOST_MASKS:
            state.preferences.clear()
        found: Ints = np.fromiter((_preferred(node, pod) for node in state.nodes), np.int64, len(state.nodes))
        state.preferences[look] = found if found.any() else None
    return state.preferences[look]


def _has_soft_taints(state: Placement) -> bool:
    """Whether a node asks pods to go elsewhere if they can; most clusters have none."""
    if _SOFTLY_TAINTED not in state.preferences:
        found = [i for i, node in enumerate(state.nodes) if node.taints and any(t.effect == SOFT for t in node.taints)]
        state.preferences[_SOFTLY_TAINTED] = np.array(found, np.int64) if found else None
    return state.preferences[_SOFTLY_TAINTED] is not None


def _preferred(node: Node, pod: Pod) -> int:
    wanted = sum(weight for weight, term in pod.preferred if selects(term, node.labels))
    unwanted = sum(
        taint.effect == SOFT and not any(t.tolerates(taint) for t in pod.tolerations) for taint in node.taints
    )
    return wanted - UNWANTED * unwanted


def _opens(node: Node, pod: Pod) -> bool:
    return not node.unschedulable and not (node.taints and is_kept_away(node, pod)) and matches(node, pod)


def is_kept_away(node: Node, pod: Pod) -> bool:
    """Whether a taint of the node is one that the pod does not tolerate."""
    return any(
        taint.effect in KEEPS_AWAY and not any(t.tolerates(taint) for t in pod.tolerations) for taint in node.taints
    )


def matches(node: Node, pod: Pod) -> bool:
    """Whether the labels of the node are those that the pod asks for."""
    if not _has(node.labels, pod.node_selector):
        return False
    return pod.affinity is None or any(selects(term, node.labels) for term in pod.affinity)


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def has_relations(pod: Pod) -> bool:
    """Whether other pods matter to it beyond the room that they take."""
    return bool(pod.pod_affinity or pod.anti_affinity or pod.spread)


def are_some_kept_away(state: Placement) -> bool:
    """Whether a pod that stands on a node, or was promised one, keeps others away."""
    return bool(state.wary) or any(state.pods[key].anti_affinity for key in state.nominated)


class RelationKind(Enum):
    """Which filter a relation is."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    ANTI_AFFINITY_OF_OTHERS = "anti-affinity of pods in place"
    SPREAD = "topology spread"


class Relation(ABC):
    """How many pods that matter to a kind of pod stand in each domain, and where that leaves it a place."""

    kind: RelationKind

    def __init__(self, domain: Ints, matters: Callable[[Pod], bool]) -> None:
        self.domain = domain  # of each node; -1: none
        self.matters = matters
        self.counts: Ints = np.zeros(int(domain.max(initial=-1)) + 1, np.int64)

    def stand(self, node: int, change: int) -> None:
        if self.domain[node] >= 0:
            self.counts[self.domain[node]] += change

    def hold(self, node: int) -> None:
        """One that waits is promised the node, and stands there already (S-15.2.2)."""
        self.stand(node, 1)

    @abstractmethod
    def open(self) -> Bools:
        """The nodes where it leaves a place."""


class Apart(Relation):
    """Nobody that matters may be in the domain; a node without the key is in none."""

    def __init__(self, kind: RelationKind, domain: Ints, matters: Callable[[Pod], bool]) -> None:
        super().__init__(domain, matters)
        self.kind = kind

    def open(self) -> Bools:
        if not len(self.counts):
            return self.domain < 0
        nobody: Bools = self.counts[self.domain] == 0  # of a node without a domain: anything
        return (self.domain < 0) | nobody


class Even(Relation):
    kind = RelationKind.SPREAD

    def __init__(self, domain: Ints, matters: Callable[[Pod], bool], spread: Spread, own: int) -> None:
        super().__init__(domain, matters)
        self._spread = spread
        self._own = own  # 1: a pod that is placed counts for the next of its kind

    def open(self) -> Bools:
        if not len(self.counts):
            return np.zeros(len(self.domain), bool)
        least = 0 if len(self.counts) < self._spread.min_domains else int(self.counts.min())
        even: Bools = self.counts[self.domain] + self._own - least <= self._spread.max_skew
        return (self.domain >= 0) & even


class Beside(Relation):
    """Of every term somebody must be in the domain: all terms of a pod at once.

    Only who matches all of them counts. While nobody does, anywhere, one that matches them itself may be the first.
    Who is only promised a node may not come, so it satisfies nobody; but who would be the first goes to it.
    """

    kind = RelationKind.AFFINITY

    def __init__(self, domains: list[Ints], matters: Callable[[Pod], bool], *, may_be_first: bool) -> None:
        numbered: list[Ints] = []
        before = 0
        for domain in domains:  # each term counts by itself
            numbered.append(np.where(domain >= 0, domain + before, -1))
            before += int(domain.max(initial=-1)) + 1
        self._domains = np.stack(numbered)
        super().__init__(self._domains[-1], matters)
        self.counts = np.zeros(before, np.int64)
        self._promised: Ints = np.zeros(before, np.int64)
        self._may_be_first = may_be_first
        self._has_keys: Bools = np.logical_and.reduce(self._domains >= 0, axis=0)

    def stand(self, node: int, change: int) -> None:
        at = self._domains[:, node]
        self.counts[at[at >= 0]] += change

    def hold(self, node: int) -> None:
        at = self._domains[:, node]
        self._promised[at[at >= 0]] += 1

    def open(self) -> Bools:
        if not self._has_keys.any():
            return self._has_keys
        if self.counts.any():
            return self._met_by(self.counts)
        if not self._may_be_first:
            return np.zeros(len(self._has_keys), bool)
        return self._met_by(self._promised) if self._promised.any() else self._has_keys

    def _met_by(self, counts: Ints) -> Bools:
        met: Bools = np.logical_and.reduce(counts[self._domains] > 0, axis=0)
        return self._has_keys & met


Foreign = tuple[str, AffinityTerm]  # the namespace of a pod that keeps others away, and its term


def relations(
    state: Placement, pod: Pod, foreign: Iterable[Foreign], shared: dict[object, Relation]
) -> list[Relation]:  # fmt: skip
    """What ``pod`` heeds in others: its own terms and spreads, and the terms of those who stand or will stand there.

    What is the same for several kinds of pods is one relation: ``shared`` has those made so far.
    """
    namespace = pod.key[0]
    found: list[Relation] = []

    def add(key: object, made: Callable[[], Relation]) -> None:
        relation = shared.get(key)
        if relation is None:
            relation = shared[key] = made()
        found.append(relation)

    if pod.pod_affinity:
        first = _selected_by_all(state, pod)(pod)
        add((namespace, pod.pod_affinity, first), partial(_beside, state, pod, first))
    for term in pod.anti_affinity:
        selected = _selected(state, pod, term)
        add((namespace, term), partial(_apart, state, RelationKind.ANTI_AFFINITY, term, selected))
    for other, term in foreign:
        if concerns(state, term, other, pod):
            key, away = (RelationKind.ANTI_AFFINITY_OF_OTHERS, other, term), _keeps_away(other, term)
            add(key, partial(_apart, state, RelationKind.ANTI_AFFINITY_OF_OTHERS, term, away))
    for spread in pod.spread:
        own = int(matches_labels(spread.selector, pod))
        add((namespace, spread, _where(pod), own), partial(_even, state, pod, spread, own))
    return found


def _where(pod: Pod) -> object:
    """What decides which nodes count for its spreads."""
    keys = tuple(spread.topology_key for spread in pod.spread)
    return keys, tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations


def _beside(state: Placement, pod: Pod, may_be_first: bool) -> Relation:
    domains = [_domains(state, term.topology_key) for term in pod.pod_affinity]
    return Beside(domains, _selected_by_all(state, pod), may_be_first=may_be_first)


def _apart(state: Placement, kind: RelationKind, term: AffinityTerm, matters: Callable[[Pod], bool]) -> Relation:
    return Apart(kind, _domains(state, term.topology_key), matters)


def _even(state: Placement, pod: Pod, spread: Spread, own: int) -> Relation:
    return Even(_domains(state, spread.topology_key, _counting(pod, spread)), _counted(pod, spread), spread, own)


def _domains(state: Placement, key: str, counts: Callable[[Node], bool] | None = None) -> Ints:
    """Numbers the values of a label over the nodes; of a node that has it not, or does not count: -1."""
    numbers: dict[str, int] = {}
    domain: Ints = np.full(len(state.nodes), -1)
    for i, node in enumerate(state.nodes):
        value = node.labels.get(key)
        if value is not None and (counts is None or counts(node)):
            domain[i] = numbers.setdefault(value, len(numbers))
    return domain


def _counting(pod: Pod, spread: Spread) -> Callable[[Node], bool]:
    """Which nodes are in a domain of a spread: they have the keys of all, and are not ruled out as the spread says."""
    keys = [each.topology_key for each in pod.spread]

    def counts(node: Node) -> bool:
        if not all(key in node.labels for key in keys):
            return False
        if spread.heeds_affinity and not matches(node, pod):
            return False
        return not spread.heeds_taints or not (node.unschedulable or is_kept_away(node, pod))

    return counts


def concerns(state: Placement, term: AffinityTerm, namespace: str, pod: Pod) -> bool:
    """Whether a pod is one that the term of a pod in ``namespace`` speaks of."""
    return matches_labels(term.selector, pod) and _reaches(state, term, namespace, pod.key[0])


def _reaches(state: Placement, term: AffinityTerm, namespace: str, other: str) -> bool:
    if term.namespace_selector is None:
        return other in (term.namespaces or (namespace,))
    labels = {NAMESPACE_LABEL: other, **state.namespaces.get(other, {})}
    return other in term.namespaces or selects(term.namespace_selector, labels)


def matches_labels(selector: Selector | None, pod: Pod) -> bool:
    return selector is not None and selects(selector, pod.labels)


def _selected(state: Placement, pod: Pod, term: AffinityTerm) -> Callable[[Pod], bool]:
    namespace = pod.key[0]
    return lambda other: concerns(state, term, namespace, other)


def _selected_by_all(state: Placement, pod: Pod) -> Callable[[Pod], bool]:
    namespace, terms = pod.key[0], pod.pod_affinity
    return lambda other: all(concerns(state, term, namespace, other) for term in terms)


def _keeps_away(namespace: str, term: AffinityTerm) -> Callable[[Pod], bool]:
    return lambda other: other.key[0] == namespace and term in other.anti_affinity


def _counted(pod: Pod, spread: Spread) -> Callable[[Pod], bool]:
    namespace, selector = pod.key[0], spread.selector
    return lambda other: other.key[0] == namespace and matches_labels(selector, other)
