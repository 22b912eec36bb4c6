"""Relations between pods: affinity, anti-affinity and topology spread (S-15.2.6).

A ``Relation`` counts by topology domain the pods that a kind of pod must keep away from, be beside, or be spread among;
most pods have none. Decision 0069 settles what the rules leave open about them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial

import numpy as np

from makeway.api.names import NAMESPACE_LABEL
from makeway.core.model import Selector, selects
from makeway.core.placement.cluster.arrays import NOWHERE, Bools, Ints
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.filters import is_kept_away, matches
from makeway.core.placement.model import AffinityTerm, Node, Pod, Spread
from makeway.core.placement.units import Units

MOST_DOMAINS = 64  # domains that are tried one by one


def has_relations(pod: Pod) -> bool:
    """Whether other pods matter to it beyond the room that they take."""
    return bool(pod.pod_affinity or pod.anti_affinity or pod.spread)


def are_some_kept_away(state: ClusterState) -> bool:
    """Whether a pod that runs on a node, or has a promised one, keeps others away."""
    return bool(state.running.with_anti_affinity) or any(state.pods[key].anti_affinity for key in state.nominated)


class RelationKind(Enum):
    """The filter that a relation is."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    ANTI_AFFINITY_OF_OTHERS = "anti-affinity of pods in place"
    SPREAD = "topology spread"


class Relation(ABC):
    """By domain, how many pods matter to a kind of pod, and where they leave it a place."""

    kind: RelationKind

    def __init__(self, domain: Ints, matters: Callable[[Pod], bool]) -> None:
        self.domain = domain  # of each node; -1: none
        self.matters = matters
        self.counts: Ints = np.zeros(int(domain.max(initial=-1)) + 1, np.int64)

    def stand(self, node: int, change: int) -> None:
        if self.domain[node] >= 0:
            self.counts[self.domain[node]] += change

    def hold(self, node: int) -> None:
        """Count a waiting pod as if it already ran on its promised node (S-15.2.2)."""
        self.stand(node, 1)

    @abstractmethod
    def open(self) -> Bools:
        """The nodes where the relation leaves a place."""


class AntiAffinityRelation(Relation):
    """No pod that matters may be in the domain; a node without the key is in none."""

    def __init__(self, kind: RelationKind, domain: Ints, matters: Callable[[Pod], bool]) -> None:
        super().__init__(domain, matters)
        self.kind = kind

    def open(self) -> Bools:
        if not len(self.counts):
            return self.domain < 0
        is_empty: Bools = self.counts[self.domain] == 0  # for a node without a domain: any value
        return (self.domain < 0) | is_empty


class SpreadRelation(Relation):
    """The domain may have only so many more matching pods than the least of all domains has."""

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


class AffinityRelation(Relation):
    """A matching pod must be in the domain of every term: all terms of a pod at once.

    Only pods that match all terms count. While there are none, anywhere, a pod that matches them itself may be the
    first. A pod that is only promised a node may not come, so it counts for no other; but the first goes to its node.
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


class PodRelations:
    """The relations of all members of a snapshot, each once, with the pods on its nodes counted."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._relations = relations
        self._of_unit: dict[int, list[tuple[Relation, int]]] = {}  # where pods of units matter, by relation and node

    def __bool__(self) -> bool:
        return bool(self._relations)

    def count_pods(self, state: ClusterState, nominated: Iterable[tuple[Pod, int]]) -> None:
        """Count running pods, and pods of other preemptors that are ``nominated`` to a node."""
        for pod, node in nominated:
            for relation in self._mattering(pod):
                relation.hold(node)
        for key, row in state.running.row_of.items():
            if state.running.node[row] != NOWHERE:
                self.stand(state.pods[key], int(state.running.node[row]), 1)

    def attach(self, state: ClusterState, units: Units) -> None:
        """Look up where the pods of units that might leave matter."""
        running = state.running
        self._of_unit = {}
        for unit, row in zip(units.unit_of_rows().tolist(), units.rows.tolist(), strict=True):
            pod, node = running.pods[row], int(running.node[row])
            assert pod is not None
            if node != NOWHERE:
                self._of_unit.setdefault(unit, []).extend((relation, node) for relation in self._mattering(pod))

    def concern(self, unit: int) -> bool:
        """Whether a unit that might leave matters to a member beyond the room that it takes."""
        return bool(self._of_unit.get(unit))

    def stand(self, pod: Pod, node: int, change: int) -> None:
        for relation in self._mattering(pod):
            relation.stand(node, change)

    def shift(self, unit: int, sign: int) -> None:
        """One unit leaves (1) or comes back (-1)."""
        for relation, node in self._of_unit.get(unit, ()):
            relation.stand(node, -sign)

    def take_out(self, leaving: Bools) -> None:
        if self._of_unit:
            for unit in np.flatnonzero(leaving).tolist():
                self.shift(unit, 1)

    def empty(self) -> None:
        for relation in self._relations:
            relation.counts[:] = 0

    def save(self) -> list[Ints]:
        return [relation.counts.copy() for relation in self._relations]

    def load(self, saved: list[Ints]) -> None:
        for relation, counts in zip(self._relations, saved, strict=True):
            relation.counts = counts.copy()

    def common_domains(self) -> Iterator[Bools]:
        """Domains, one of which takes all members that want each other beside them while none of them runs yet.

        The choice of the first member would bind the others, but it only follows its own score (decision 0069).
        """
        affinities = (relation for relation in self._relations if isinstance(relation, AffinityRelation))
        unmet = [affinity.domain for affinity in affinities if not affinity.counts.any()]
        tried: set[bytes] = set()
        for domain in unmet:
            for number in np.unique(domain[domain >= 0]).tolist():
                nodes: Bools = domain == number
                if len(tried) < MOST_DOMAINS and nodes.tobytes() not in tried:
                    tried.add(nodes.tobytes())
                    yield nodes
            if len(tried) >= MOST_DOMAINS:
                return

    def _mattering(self, pod: Pod) -> Iterator[Relation]:
        return (relation for relation in self._relations if relation.matters(pod))


Foreign = tuple[str, AffinityTerm]  # the namespace of a pod that keeps others away, and its term


def relations(
    state: ClusterState, pod: Pod, foreign: Iterable[Foreign], shared: dict[object, Relation]
) -> list[Relation]:  # fmt: skip
    """What ``pod`` heeds in others: its own terms and spreads, and the terms of pods that run or will run there.

    Equal relations of several kinds of pods are one relation: ``shared`` has those made so far.
    """
    namespace = pod.key[0]
    heeded: list[Relation] = []

    def add(key: object, made: Callable[[], Relation]) -> None:
        relation = shared.get(key)
        if relation is None:
            relation = shared[key] = made()
        heeded.append(relation)

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
    return heeded


def _where(pod: Pod) -> object:
    """What decides which nodes count for its spreads."""
    keys = tuple(spread.topology_key for spread in pod.spread)
    return keys, tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations


def _beside(state: ClusterState, pod: Pod, may_be_first: bool) -> Relation:
    domains = [_domains(state, term.topology_key) for term in pod.pod_affinity]
    return AffinityRelation(domains, _selected_by_all(state, pod), may_be_first=may_be_first)


def _apart(state: ClusterState, kind: RelationKind, term: AffinityTerm, matters: Callable[[Pod], bool]) -> Relation:
    return AntiAffinityRelation(kind, _domains(state, term.topology_key), matters)


def _even(state: ClusterState, pod: Pod, spread: Spread, own: int) -> Relation:
    return SpreadRelation(
        _domains(state, spread.topology_key, _counting(pod, spread)), _counted(pod, spread), spread, own
    )


def _domains(state: ClusterState, key: str, counts: Callable[[Node], bool] | None = None) -> Ints:
    """By node, the number of its value of a label; -1 for a node that lacks the label, or does not count."""
    numbers: dict[str, int] = {}
    domain: Ints = np.full(len(state.nodes), -1)
    for i, node in enumerate(state.nodes):
        value = node.labels.get(key)
        if value is not None and (counts is None or counts(node)):
            domain[i] = numbers.setdefault(value, len(numbers))
    return domain


def _counting(pod: Pod, spread: Spread) -> Callable[[Node], bool]:
    """Which nodes are in a domain of a spread: they have the keys of all spreads, and it does not rule them out."""
    keys = [other.topology_key for other in pod.spread]

    def counts(node: Node) -> bool:
        if not all(key in node.labels for key in keys):
            return False
        if spread.heeds_affinity and not matches(node, pod):
            return False
        return not spread.heeds_taints or not (node.unschedulable or is_kept_away(node, pod))

    return counts


def concerns(state: ClusterState, term: AffinityTerm, namespace: str, pod: Pod) -> bool:
    """Whether the term of a pod in ``namespace`` applies to a pod."""
    return matches_labels(term.selector, pod) and _reaches(state, term, namespace, pod.key[0])


def _reaches(state: ClusterState, term: AffinityTerm, namespace: str, other: str) -> bool:
    if term.namespace_selector is None:
        return other in (term.namespaces or (namespace,))
    labels = {NAMESPACE_LABEL: other, **state.namespaces.get(other, {})}
    return other in term.namespaces or selects(term.namespace_selector, labels)


def matches_labels(selector: Selector | None, pod: Pod) -> bool:
    return selector is not None and selects(selector, pod.labels)


def _selected(state: ClusterState, pod: Pod, term: AffinityTerm) -> Callable[[Pod], bool]:
    namespace = pod.key[0]
    return lambda other: concerns(state, term, namespace, other)


def _selected_by_all(state: ClusterState, pod: Pod) -> Callable[[Pod], bool]:
    namespace, terms = pod.key[0], pod.pod_affinity
    return lambda other: all(concerns(state, term, namespace, other) for term in terms)


def _keeps_away(namespace: str, term: AffinityTerm) -> Callable[[Pod], bool]:
    return lambda other: other.key[0] == namespace and term in other.anti_affinity


def _counted(pod: Pod, spread: Spread) -> Callable[[Pod], bool]:
    namespace, selector = pod.key[0], spread.selector
    return lambda other: other.key[0] == namespace and matches_labels(selector, other)
