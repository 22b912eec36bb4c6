"""What changed in the cluster since the last decision, by place and by pod.

Room is gained on nodes. Relations between pods reach further: a pod that comes, leaves or is relabelled in another
domain may raise the least of a spread, be the pod to be placed beside, or keep others away no longer.

Not here: which waiting items a change could help (``hints``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from makeway.core.placement.model import Pod, PodKey

NO_POD: PodKey = ("", "")  # instead of a pod, where a node itself has changed


@dataclass(slots=True)
class ClusterChanges:
    """Pods count on the node where they are, or that they were promised."""

    freed: dict[str, set[PodKey]] = field(default_factory=dict)  # nodes with more room, and the pods that left them
    taken: dict[str, set[PodKey]] = field(default_factory=dict)  # nodes that pods came to, and these pods
    left: list[Pod] = field(default_factory=list)  # as they were
    came: list[Pod] = field(default_factory=list)  # as they are
    have_nodes_changed: bool = False  # a node was added or removed, or has other labels or taints
    have_namespaces_changed: bool = False

    def __bool__(self) -> bool:
        return bool(self.freed or self.taken or self.have_nodes_changed or self.have_namespaces_changed)

    @property
    def are_arrivals_only(self) -> bool:
        """Whether the only changes are pods that came: these help only items to which other pods matter."""
        return not (self.freed or self.have_nodes_changed or self.have_namespaces_changed)

    @property
    def have_anti_affinity(self) -> bool:
        """Whether a pod that keeps others away left or came."""
        return any(pod.anti_affinity for pod in (*self.left, *self.came))

    def pod_changed(self, known: Pod | None, fresh: Pod | None) -> None:
        """A pod came, left, or is different."""
        before, after = _node_of(known), _node_of(fresh)
        if known is not None and fresh is not None and before == after and _is_same_to_others(known, fresh):
            if known.node == fresh.node:
                return
            if fresh.node is not None:  # it is on its promised node
                before = None
        if known is not None and before is not None:
            self._leaves(known, before)
        if fresh is not None and after is not None:
            self._comes(fresh, after)

    def pod_revalued(self, pod: Pod) -> None:
        """What a pod counts for has changed, or the domain of its node: as if it had left and come again."""
        node = _node_of(pod)
        if node is not None:
            self._leaves(pod, node)
            self._comes(pod, node)

    def node_opened(self, node: str) -> None:
        """A node was added, or is different."""
        self.freed.setdefault(node, set()).add(NO_POD)

    def _leaves(self, pod: Pod, node: str) -> None:
        self.freed.setdefault(node, set()).add(pod.key)
        self.left.append(pod)

    def _comes(self, pod: Pod, node: str) -> None:
        self.taken.setdefault(node, set()).add(pod.key)
        self.came.append(pod)

    def of_others(self, own: frozenset[PodKey]) -> ClusterChanges:
        """Without the changes that these pods made themselves: they know which nodes they are promised."""
        if own.isdisjoint(pod.key for pod in (*self.left, *self.came)):
            return self
        return ClusterChanges(
            {node: by for node, by in self.freed.items() if not by <= own},
            {node: by for node, by in self.taken.items() if not by <= own},
            [pod for pod in self.left if pod.key not in own],
            [pod for pod in self.came if pod.key not in own],
            self.have_nodes_changed,
            self.have_namespaces_changed,
        )


def _node_of(pod: Pod | None) -> str | None:
    return None if pod is None else pod.node or pod.nominated


def _is_same_to_others(known: Pod, fresh: Pod) -> bool:
    """Whether a pod counts for other pods as before.

    One that begins to leave keeps its room. One that stays after all, or no longer leaves for a preemption, does not.
    """
    if known.terminating > fresh.terminating or known.preempted_by_scheduler > fresh.preempted_by_scheduler:
        return False
    now = replace(
        fresh, node=known.node, nominated=known.nominated, start=known.start, arrived=known.arrived,
        terminating=known.terminating, preempted_by_scheduler=known.preempted_by_scheduler,
    )  # fmt: skip
    return now == known
