"""Which nodes a pod may use, and which it prefers, by properties of nodes: cordons, taints, labels (S-15.2.2).

No eviction can change these. The answers are kept per kind of pod until a node changes.

Not here: what other pods mean for it (``relations``); room, pod counts and host ports (``snapshot``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from makeway.core.model import selects
from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import Node, Pod

KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
SOFT = "PreferNoSchedule"
_SOFTLY_TAINTED = "softly tainted"  # key among kept preferences: which nodes have such a taint
UNWANTED = 100  # the weight of a PreferNoSchedule taint: that of the strongest preference for another node
_MOST_MASKS = 512


def usable(state: ClusterState, pod: Pod) -> Bools:
    """The nodes that are open to the pod, whatever runs there. Shared: not to be written to."""
    kind = (tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations)
    mask = state.nodes.usable.get(kind)
    if mask is None:
        if len(state.nodes.usable) >= _MOST_MASKS:
            state.nodes.usable.clear()
        mask = state.nodes.usable[kind] = np.fromiter(
            (_opens(node, pod) for node in state.nodes), bool, len(state.nodes)
        )
    return mask


def preference(state: ClusterState, pod: Pod) -> Ints | None:
    """How much the pod prefers each node (S-15.2.3); None: it has no preference. Not to be written to."""
    if not pod.preferred and not _has_soft_taints(state):
        return None
    kind, preferences = (pod.preferred, pod.tolerations), state.nodes.preferences
    if kind not in preferences:
        if len(preferences) >= _MOST_MASKS:
            preferences.clear()
        preferred: Ints = np.fromiter((_preferred(node, pod) for node in state.nodes), np.int64, len(state.nodes))
        preferences[kind] = preferred if preferred.any() else None
    return preferences[kind]


def _has_soft_taints(state: ClusterState) -> bool:
    """Whether a node has a PreferNoSchedule taint; most clusters have none."""
    preferences = state.nodes.preferences
    if _SOFTLY_TAINTED not in preferences:
        tainted = [
            i for i, node in enumerate(state.nodes) if node.taints and any(t.effect == SOFT for t in node.taints)
        ]
        preferences[_SOFTLY_TAINTED] = np.array(tainted, np.int64) if tainted else None
    return preferences[_SOFTLY_TAINTED] is not None


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
    """Whether the labels of the node match what the pod asks for."""
    if not _has(node.labels, pod.node_selector):
        return False
    return pod.affinity is None or any(selects(term, node.labels) for term in pod.affinity)


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
