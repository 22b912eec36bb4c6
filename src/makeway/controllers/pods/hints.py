"""Which waiting items a change could help, so that they are retried; kube-scheduler calls this a queueing hint.

Promise: if an item could have a place after a change, and had none before, the change could help it. Most of the items
that could still have none are left out: retrying them would be in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.controllers.pods.changes import ClusterChanges
from makeway.controllers.pods.items import kinds_of
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.hindrances import might_take
from makeway.core.placement.model import AffinityTerm, ForGroup, Pod, Preemptor
from makeway.core.placement.relations import are_some_kept_away, concerns, has_relations, matches_labels

MANY_NODES = 16  # if more nodes changed, items are retried without a check


def heeds_others(state: ClusterState, item: Preemptor, members: Sequence[Pod]) -> bool:
    """Whether arriving pods could help the item: it waits to be beside them, or they end a promise that held it."""
    if any(pod.nominated is not None or has_relations(pod) for pod in members):
        return True
    kinds = kinds_of(members, heeding_labels=True).values()
    return are_some_kept_away(state) and _depends_on_order(state, item, members, kinds)


def could_help(
    state: ClusterState, item: Preemptor, members: Sequence[Pod], priority: int, changes: ClusterChanges
) -> bool:
    """Whether the changes could have brought a place for the waiting pods of an item."""
    changes = changes.of_others(frozenset(pod.key for pod in members))
    if not changes:
        return False
    promised = {pod.nominated for pod in members if pod.nominated is not None}
    if len(changes.freed) > MANY_NODES or promised & (changes.freed.keys() | changes.taken.keys()):
        return True
    plain = kinds_of(members).values()
    if any(might_take(state, node, plain, priority) for node in changes.freed):
        return True
    if not any(map(has_relations, members)) and not are_some_kept_away(state) and not changes.have_anti_affinity:
        return False
    kinds = kinds_of(members, heeding_labels=True).values()
    if changes.have_nodes_changed and any(pod.spread for pod in kinds):
        return True
    if changes.have_namespaces_changed and _heeds_namespaces(state, kinds):
        return True
    is_affected = any(_is_affected(state, pod, changes, both=bool(promised)) for pod in kinds)
    return is_affected or _depends_on_order(state, item, members, kinds)


def _is_affected(state: ClusterState, pod: Pod, changes: ClusterChanges, *, both: bool) -> bool:
    """Whether a pod that matters to this one came or left.

    A pod that comes can only keep it away. If this one was promised a node, that counts too (``both``), because the
    promise may no longer hold.
    """
    namespace = pod.key[0]
    for other in (*changes.left, *changes.came):
        if pod.pod_affinity and all(concerns(state, term, namespace, other) for term in pod.pod_affinity):
            return True
        if any(other.key[0] == namespace and matches_labels(each.selector, other) for each in pod.spread):
            return True
    for other in (*changes.left, *changes.came) if both else changes.left:
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


def _depends_on_order(state: ClusterState, item: Preemptor, members: Sequence[Pod], kinds: Iterable[Pod]) -> bool:
    """Whether a gang's places depend on the order in which its pods are placed, so that any change may help it.

    Members are placed one after another. Where they are alike and ask for one thing only, no order is better than
    another; nor where no pod matters to them beyond the room that it takes, for then a search makes sure.
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
