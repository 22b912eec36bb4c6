"""What keeps a pod from each node, in the words of users, and whether a change of one node could open it.

Counting uses arrays; only nodes that are closed to the pod for good are read one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from makeway.core.placement.cluster.arrays import Ints, amount
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.filters import KEEPS_AWAY, matches, usable
from makeway.core.placement.members import MemberKind
from makeway.core.placement.model import Node, Pod
from makeway.core.placement.relations import RelationKind
from makeway.core.placement.snapshot import NodeSnapshot

NOT_READY = "node(s) were not ready"
UNSCHEDULABLE = "node(s) were unschedulable"
OTHER_LABELS = "node(s) didn't match Pod's node affinity/selector"
NO_PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY = "Too many pods"
OTHER_PODS = {
    RelationKind.AFFINITY: "node(s) didn't match pod affinity rules",
    RelationKind.ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    RelationKind.ANTI_AFFINITY_OF_OTHERS: "node(s) didn't satisfy existing pods anti-affinity rules",
    RelationKind.SPREAD: "node(s) didn't match pod topology spread constraints",
}
NOT_FOR_ALL = "node(s) had room, but not for enough pods of the gang"


def hindrances(state: ClusterState, pods: Sequence[Pod], unready: Collection[str] = ()) -> list[dict[str, int]]:
    """How many nodes are ruled out by what, for each of the waiting pods of one gang, or a single one.

    ``unready``: nodes that are known to be not ready. What the pods have in common is looked up once.
    """
    snapshot = NodeSnapshot(state, pods, state.gangs.priority_of(pods[0]))
    counts = {id(kind): _of_kind(snapshot, kind, unready) for kind in snapshot.kinds}
    return [counts[id(kind)] for kind in snapshot.kind_of]


def _of_kind(snapshot: NodeSnapshot, kind: MemberKind, unready: Collection[str]) -> dict[str, int]:
    state, pod = snapshot.state, kind.pod
    counts: Counter[str] = Counter()
    is_open = usable(state, pod)
    for at in np.flatnonzero(~is_open).tolist():
        counts[_closed(state.nodes[at], pod, unready)] += 1
    nodes = np.flatnonzero(is_open)
    if len(nodes):
        _count_room(snapshot, kind, nodes, counts)
    return dict(counts)


def _closed(node: Node, pod: Pod, unready: Collection[str]) -> str:
    if node.unschedulable:
        return NOT_READY if node.name in unready else UNSCHEDULABLE
    if not matches(node, pod):
        return OTHER_LABELS
    taint = next(
        taint
        for taint in node.taints
        if taint.effect in KEEPS_AWAY and not any(toleration.tolerates(taint) for toleration in pod.tolerations)
    )
    return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"


def _count_room(snapshot: NodeSnapshot, kind: MemberKind, nodes: Ints, counts: Counter[str]) -> None:
    known = snapshot.state.nodes.columns
    unknown = [name for name, value in kind.pod.requests.items() if value > 0 and name not in known]
    short = snapshot.free[kind.asked][:, nodes] < kind.need[kind.asked, None]
    closed = [~relation.open()[nodes] for relation in kind.relations]
    pattern, count = np.unique(np.vstack([short, *closed]), axis=1, return_counts=True)
    for column, times in zip(pattern.T.tolist(), count.tolist(), strict=True):
        lacks = [at for at, lacking in zip(kind.asked, column, strict=False) if lacking]
        keeps = [
            relation.kind
            for relation, is_closed in zip(kind.relations, column[len(kind.asked) :], strict=True)
            if is_closed
        ]
        names = sorted(
            [*unknown, *(snapshot.columns.name(at) for at in lacks if 0 < at < len(snapshot.columns.resources))]
        )
        if names:
            counts[f"Insufficient {', '.join(names)}"] += times
        elif lacks:
            counts[TOO_MANY if 0 in lacks else NO_PORTS] += times
        else:
            counts[OTHER_PODS[keeps[0]] if keeps else NOT_FOR_ALL] += times


def might_take(state: ClusterState, node: str, pods: Iterable[Pod], priority: int) -> bool:
    """Whether one of these pods could run on the node if all pods of lower priority left it.

    Never false where it could; where other pods matter to them beyond the room they take, do not ask.
    """
    at = state.nodes.index.get(node)
    if at is None:
        return False
    rows = state.running
    stays = rows.alive & (rows.node == at) & (rows.priority >= priority)
    left = state.nodes.allocatable[:, at] - rows.requests[:, stays].sum(axis=1)
    if left[0] < 1:
        return False
    for pod in pods:
        if usable(state, pod)[at] and all(
            name in state.nodes.columns and amount(value) <= left[state.nodes.columns[name]]
            for name, value in pod.requests.items()
            if value > 0
        ):
            return True
    return False
