"""What changed in the cluster, and whom of those who wait for a node that could help.

Room is gained on nodes. Relations between pods reach further: a pod that comes, leaves or is labelled otherwise in
another domain may lift the least of a spread, be the one to stand beside, or keep others away no longer. So each change
is noted by where it was and who it was, and held against what the waiting pods ask for.

Promise: whoever could have a place after a change that is noted here, and had none before, could be helped by it. Who
could not mostly is not: it would be tried in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.hindrances import might_take
from makeway.core.placement.model import AffinityTerm, ForGroup, Pod, PodKey, Preemptor
from makeway.core.placement.relations import are_some_kept_away, concerns, has_relations, matches_labels

NOBODY: PodKey = ("", "")
MANY_NODES = 16  # where more have changed, nobody asks whom that could help
Look = tuple[object, ...]


@dataclass(slots=True)
class News:
    """Pods count from where they stand, or where they were promised a node."""

    freed: dict[str, set[PodKey]] = field(default_factory=dict)  # nodes with more room, by whom
    taken: dict[str, set[PodKey]] = field(default_factory=dict)  # nodes that somebody came to
    left: list[Pod] = field(default_factory=list)  # as they were
    came: list[Pod] = field(default_factory=list)  # as they are
    are_nodes_others: bool = False  # one came or went, or is labelled or tainted otherwise
    are_namespaces_others: bool = False

    def __bool__(self) -> bool:
        return bool(self.freed or self.taken or self.are_nodes_others or self.are_namespaces_others)

    @property
    def is_of_arrivals(self) -> bool:
        """Whether nothing happened but that pods came: that helps those only who heed other pods."""
        return not (self.freed or self.are_nodes_others or self.are_namespaces_others)

    @property
    def are_of_the_wary(self) -> bool:
        """Whether somebody left, or came, who keeps others away."""
        return any(pod.anti_affinity for pod in (*self.left, *self.came))

    def changed(self, known: Pod | None, fresh: Pod | None) -> None:
        """A pod came, left, or is another than it was."""
        before, after = _place(known), _place(fresh)
        if known is not None and fresh is not None and before == after and _stays_alike(known, fresh):
            if known.node == fresh.node:
                return
            if fresh.node is not None:  # what it was promised it has
                before = None
        if known is not None and before is not None:
            self._leaves(known, before)
        if fresh is not None and after is not None:
            self._comes(fresh, after)

    def revalued(self, pod: Pod) -> None:
        """What a pod counts for has changed, or where its node belongs: as if it had left and come."""
        place = _place(pod)
        if place is not None:
            self._leaves(pod, place)
            self._comes(pod, place)

    def opened(self, node: str) -> None:
        """A node came, or is another than it was."""
        self.freed.setdefault(node, set()).add(NOBODY)

    def _leaves(self, pod: Pod, node: str) -> None:
        self.freed.setdefault(node, set()).add(pod.key)
        self.left.append(pod)

    def _comes(self, pod: Pod, node: str) -> None:
        self.taken.setdefault(node, set()).add(pod.key)
        self.came.append(pod)

    def of_others(self, own: frozenset[PodKey]) -> News:
        """Without what these pods did themselves: where they are promised a node is known to them."""
        if own.isdisjoint(pod.key for pod in (*self.left, *self.came)):
            return self
        return News(
            {node: by for node, by in self.freed.items() if not by <= own},
            {node: by for node, by in self.taken.items() if not by <= own},
            [pod for pod in self.left if pod.key not in own],
            [pod for pod in self.came if pod.key not in own],
            self.are_nodes_others,
            self.are_namespaces_others,
        )


def _place(pod: Pod | None) -> str | None:
    return None if pod is None else pod.node or pod.nominated


def _stays_alike(known: Pod, fresh: Pod) -> bool:
    """Whether a pod counts for what it did. One that begins to leave holds its room; one that stays after all, or no
    longer leaves for a preemption, is another."""
    if known.terminating > fresh.terminating or known.preempted_by_scheduler > fresh.preempted_by_scheduler:
        return False
    now = replace(
        fresh, node=known.node, nominated=known.nominated, start=known.start, arrived=known.arrived,
        terminating=known.terminating, preempted_by_scheduler=known.preempted_by_scheduler,
    )  # fmt: skip
    return now == known


# --- whom it could help ----------------------------------------------------------------------------------------------


def heeds_others(state: ClusterState, item: Preemptor, members: Sequence[Pod]) -> bool:
    """Whether pods that come somewhere could be good news: they are what it waits for, or spoil what it waits for."""
    if any(pod.nominated is not None or has_relations(pod) for pod in members):
        return True
    return are_some_kept_away(state) and _is_chancy(state, item, members, kinds_of(members, apart=True).values())


def could_help(state: ClusterState, item: Preemptor, members: Sequence[Pod], priority: int, news: News) -> bool:
    """Whether what happened could have brought a place for those of an item who wait."""
    news = news.of_others(frozenset(pod.key for pod in members))
    if not news:
        return False
    promised = {pod.nominated for pod in members if pod.nominated is not None}
    if len(news.freed) > MANY_NODES or promised & (news.freed.keys() | news.taken.keys()):
        return True
    plain = kinds_of(members).values()
    if any(might_take(state, node, plain, priority) for node in news.freed):
        return True
    if not any(map(has_relations, members)) and not are_some_kept_away(state) and not news.are_of_the_wary:
        return False
    kinds = kinds_of(members, apart=True).values()
    if news.are_nodes_others and any(pod.spread for pod in kinds):
        return True
    if news.are_namespaces_others and _heeds_namespaces(state, kinds):
        return True
    is_moved = any(_is_moved(state, pod, news, both=bool(promised)) for pod in kinds)
    return is_moved or _is_chancy(state, item, members, kinds)


def kinds_of(members: Iterable[Pod], *, apart: bool = False) -> dict[Look, Pod]:
    """One of each that are alike; ``apart``: also to other pods."""
    return {(*look_of(pod), *(labels_of(pod) if apart else ())): pod for pod in members}


def look_of(pod: Pod) -> Look:
    return (
        tuple(sorted(pod.requests.items())), tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations,
        pod.ports,
    )  # fmt: skip


def labels_of(pod: Pod) -> Look:
    """What a pod is to other pods, and they to it."""
    return pod.key[0], tuple(sorted(pod.labels.items())), pod.pod_affinity, pod.anti_affinity, pod.spread


def _is_moved(state: ClusterState, pod: Pod, news: News, *, both: bool) -> bool:
    """Whether somebody came or left who matters to the pod. Who comes keeps it away at most; where it was promised a
    node that may be news too (``both``): the promise is worth nothing then."""
    namespace = pod.key[0]
    for other in (*news.left, *news.came):
        if pod.pod_affinity and all(concerns(state, term, namespace, other) for term in pod.pod_affinity):
            return True
        if any(other.key[0] == namespace and matches_labels(each.selector, other) for each in pod.spread):
            return True
    for other in (*news.left, *news.came) if both else news.left:
        if any(concerns(state, term, namespace, other) for term in pod.anti_affinity):
            return True
        if any(concerns(state, term, other.key[0], pod) for term in other.anti_affinity):
            return True
    return False


def _heeds_namespaces(state: ClusterState, kinds: Iterable[Pod]) -> bool:
    terms: list[AffinityTerm] = [term for pod in kinds for term in (*pod.pod_affinity, *pod.anti_affinity)]
    terms += [
        term for key in (*state.running.with_anti_affinity, *state.nominated) for term in state.pods[key].anti_affinity
    ]
    return any(term.namespace_selector is not None for term in terms)


def _is_chancy(state: ClusterState, item: Preemptor, members: Sequence[Pod], kinds: Iterable[Pod]) -> bool:
    """Whether a gang's places depend on which of its pods goes where first, so that any change may bring luck.

    Members are placed one after another. Where they are alike and ask for one thing only, no order is better than
    another; nor where nobody matters to them beyond the room that is taken, for then a search makes sure.
    """
    if not isinstance(item, ForGroup) or len(members) < 2:
        return False
    pods = list(kinds)
    if any(pod.pod_affinity or len(pod.anti_affinity) + len(pod.spread) > 1 for pod in pods):
        return True
    if len(pods) < 2:
        return False
    if any(has_relations(pod) for pod in pods):
        return True
    repelling = (state.pods[key] for key in (*state.running.with_anti_affinity, *state.nominated))
    return any(
        concerns(state, term, other.key[0], pod) for other in repelling for term in other.anti_affinity for pod in pods
    )
