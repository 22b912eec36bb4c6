"""The *item*: what is placed as one. It is a pod by itself, or the waiting pods of a gang's replica.

Which pods an item has, what ranks it in the queue, and what it shares with others that get the same verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from makeway.controllers.pods.queue import Rank, Shape
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import ForGroup, ForPod, Pod, PodGang, Preemptor, SchedulingWorkload
from makeway.core.placement.relations import are_some_kept_away, has_relations

Signature = tuple[object, ...]


def item_of(state: ClusterState, pod: Pod) -> Preemptor:
    """The item of a pod; a pod whose reference resolves to nothing waits by itself."""
    group = state.gangs.group_of(pod)
    if pod.member is None or group is None or group.min_count is None:
        return ForPod(pod.key)
    return ForGroup(pod.key[0], pod.member)


def waiting_pods(state: ClusterState, item: Preemptor) -> list[Pod]:
    if isinstance(item, ForPod):
        pod = state.pods.get(item.key)
        return [pod] if pod is not None and pod.node is None and item_of(state, pod) == item else []
    group = group_of(state, item)
    if group is None or group.min_count is None:
        return []
    return [state.pods[key] for key in sorted(state.gangs.waiting.get((item.namespace, item.member), ()))]


def pods_on_nodes(state: ClusterState, item: Preemptor) -> list[Pod]:
    """Gang members that are on a node; a pod by itself has none."""
    if isinstance(item, ForPod):
        return []
    return [state.pods[key] for key in sorted(state.gangs.running.get((item.namespace, item.member), ()))]


def group_of(state: ClusterState, item: ForGroup) -> PodGang | None:
    return state.gangs.groups.get((item.namespace, item.member.workload, item.member.group))


def workload_of(state: ClusterState, item: Preemptor) -> SchedulingWorkload | None:
    if isinstance(item, ForGroup):
        return state.gangs.workloads.get((item.namespace, item.member.workload))
    pod = state.pods.get(item.key)
    return None if pod is None else state.gangs.workload_of(pod)


def priority_of(state: ClusterState, item: Preemptor) -> int:
    workload = workload_of(state, item)
    if workload is not None:
        return workload.priority
    return state.pods[item.key].priority if isinstance(item, ForPod) else 0


def min_count(state: ClusterState, item: Preemptor) -> int:
    """How many pods of the item must be on nodes."""
    group = group_of(state, item) if isinstance(item, ForGroup) else None
    return 1 if group is None else group.min_count or 1


def rank_of(state: ClusterState, item: Preemptor, waiting: Sequence[Pod]) -> Rank:
    """The rank of an item: by priority, of equal ones a gang that is partly on nodes, then by arrival."""
    priority, arrived = priority_of(state, item), min(pod.arrived for pod in waiting)
    if isinstance(item, ForPod):
        return -priority, 1, arrived, *item.key, ""
    member = item.member
    names = (item.namespace, member.workload, f"{member.group}/{member.replica}")
    return -priority, 0 if pods_on_nodes(state, item) else 1, arrived, *names


def shape_of(state: ClusterState, item: Preemptor, waiting: Sequence[Pod]) -> Shape:
    """What placement reads of an item, and nothing else."""
    heeds_labels = are_some_kept_away(state) or any(map(has_relations, waiting))
    kinds = Counter((pod.nominated, pod.policy, signature_of(pod, heeding_labels=heeds_labels)) for pod in waiting)
    workload = workload_of(state, item)
    priority, policy = priority_of(state, item), None if workload is None else workload.policy
    if isinstance(item, ForPod):
        is_unresolved = workload is None and any(pod.member is not None for pod in waiting)
        return priority, policy, is_unresolved, frozenset(kinds.items())
    only = item if heeds_labels or pods_on_nodes(state, item) else None  # then no other gang is in the same position
    return priority, policy, only, min_count(state, item), frozenset(kinds.items())


def is_stranded(state: ClusterState, item: Preemptor, waiting: Sequence[Pod]) -> bool:
    """Whether a gang is partly placed, with less than must be, and the rest has no place (decision 0058).

    Where its pods may be evicted one by one, that can be its normal state. Then a gang is stranded only if its waiting
    pods existed before the others were bound: so it was never placed as a whole.
    """
    standing, least = pods_on_nodes(state, item), min_count(state, item)
    if not isinstance(item, ForGroup) or not standing or not len(standing) < least <= len(standing) + len(waiting):
        return False
    group = group_of(state, item)
    if group is not None and group.whole:
        return True
    latest = max(pod.start for pod in standing)
    return all(pod.arrived <= latest for pod in waiting)


def kinds_of(pods: Iterable[Pod], *, heeding_labels: bool = False) -> dict[Signature, Pod]:
    """One pod of each kind; ``heeding_labels``: also by what other pods are to them."""
    return {signature_of(pod, heeding_labels=heeding_labels): pod for pod in pods}


def signature_of(pod: Pod, *, heeding_labels: bool) -> Signature:
    """What decides where a pod can go; ``heeding_labels``: including its relations to other pods."""
    own = (
        tuple(sorted(pod.requests.items())), tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations,
        pod.ports,
    )  # fmt: skip
    if not heeding_labels:
        return own
    return *own, pod.key[0], tuple(sorted(pod.labels.items())), pod.pod_affinity, pod.anti_affinity, pod.spread


def name_of(item: Preemptor) -> str:
    if isinstance(item, ForPod):
        return f"pod {'/'.join(item.key)}"
    member = item.member
    return f"gang {'/'.join(filter(None, (item.namespace, member.workload, member.group, member.replica)))}"
