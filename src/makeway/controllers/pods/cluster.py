"""The cluster as placement sees it, kept in step with the stored objects and with our decisions.

A decision counts as soon as it is made: a pod that we bind is on its node, one that we evict is leaving. When the write
is answered the pod is read as stored, so what did not happen is undone by itself.

An object that cannot be read (``reading``) counts as missing, but a pod keeps the room that it was known to have, and a
budget what it was known to ask for.

Each change is noted three times: the items that are to be decided anew (``changed_items``), what could help refused
items (``changes``), and the Workloads whose status may have to change (``stale_gangs``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from makeway.api.conditions import is_true
from makeway.api.objects import kubernetes as wire
from makeway.controllers.contract import (
    GANG_WORKLOAD,
    NAMESPACE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    WORKLOAD,
    Ref,
    View,
    is_of,
)
from makeway.controllers.pods.changes import ClusterChanges
from makeway.controllers.pods.items import item_of
from makeway.controllers.pods.leaving import LeavingMembers
from makeway.controllers.pods.reading import PodObjectReader
from makeway.core.lowering.placement import budget_of, classes_of, namespace_of, node_of
from makeway.core.model import Millis
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import Cluster, Pod, PodKey, Preemptor
from makeway.core.policy import Gates

WORKLOADS = (GANG_WORKLOAD, WORKLOAD)  # there may be one of each kind with a name; together they are one gang


class PodCluster:
    def __init__(self) -> None:
        self.state = ClusterState()
        self.reader = PodObjectReader({}, Gates())
        self.leaving = LeavingMembers()
        self.changes = ClusterChanges()  # what could help items that were refused
        self.changed_items: dict[Preemptor, None] = {}  # those that are to be decided anew, or are gone
        self.stale_gangs: dict[tuple[str, str], None] = {}  # those whose status may have to change
        self.unready: set[str] = set()  # nodes
        self._has_begun = False

    # --- as stored ---

    def begin(self, view: View, now: Millis) -> None:
        """Read all objects for the first time."""
        if self._has_begun:
            return
        self._has_begun = True
        reader = self.reader = PodObjectReader(classes_of(view.all(PRIORITY_CLASS)), view.policy.gates)
        names = {(each.metadata.namespace, each.metadata.name) for kind in WORKLOADS for each in view.all(kind)}
        nodes = list(view.all(NODE))
        self.unready = {each.metadata.name for each in nodes if not reader.read(Ref.of(each), _is_ready, each)}
        lowered = reader.read_all(view.all(POD), lambda pod: reader.pod(pod, None, now))
        self.state = ClusterState.of(Cluster(
            nodes=reader.read_all(nodes, node_of),
            workloads=tuple(gang for key in sorted(names) if (gang := reader.workload(key, view)) is not None),
            budgets=reader.read_all(view.all(POD_DISRUPTION_BUDGET), budget_of),
            namespaces=reader.read_all(view.all(NAMESPACE), namespace_of),
        ), scoring=view.policy.scoring)  # fmt: skip
        for pod in lowered:
            self._put(pod)
            if pod.node is None:
                self.mark_changed(pod)

    def see(self, ref: Ref, view: View, now: Millis) -> None:
        """Read one object as it is stored now."""
        if is_of(ref, POD):
            self._see_pod((ref.namespace, ref.name), view.get(ref), now)
        elif is_of(ref, NODE):
            self._see_node(ref.name, view.get(ref))
        elif ref.kind in WORKLOADS:
            self._see_workload((ref.namespace, ref.name), view)
        elif ref.kind == "Job" and (stored := view.get(ref)) is not None:
            for each in view.owned(stored.metadata.uid, WORKLOAD):
                self._see_workload((each.metadata.namespace, each.metadata.name), view)
        elif is_of(ref, POD_DISRUPTION_BUDGET):
            self._see_budget((ref.namespace, ref.name), view.get(ref))
        elif is_of(ref, NAMESPACE):
            self._see_namespace(ref.name, view.get(ref))
        elif ref.kind == "PriorityClass":
            self.reader.classes = classes_of(view.all(PRIORITY_CLASS))
            for gang in view.all(GANG_WORKLOAD):
                self._see_workload((gang.metadata.namespace, gang.metadata.name), view)
            for pod in view.all(POD):
                self._see_pod((pod.metadata.namespace, pod.metadata.name), pod, now)

    def _see_pod(self, key: PodKey, pod: wire.Pod | None, now: Millis) -> None:
        known, ref = self.state.pods.get(key), Ref(POD, *key)
        fresh = None if pod is None else self.reader.read(ref, self.reader.pod, pod, known, now)
        if fresh == known or (self.reader.is_set_aside(ref) and known is not None and known.node is not None):
            return
        for each, other in ((known, fresh), (fresh, known)):
            if each is not None and _is_shown_otherwise(each, other):
                self.mark_stale(each)
        self.changes.pod_changed(known, fresh)
        if known is not None:
            self.leaving.note_gone(self.state, known, fresh)
            if _matters(known, fresh):
                self.mark_changed(known)
            self._drop(known)
        if fresh is not None:
            self._put(fresh)
            if _matters(fresh, known):
                self.mark_changed(fresh)

    def _see_node(self, name: str, node: wire.Node | None) -> None:
        state = self.state
        known, ref = state.nodes.get(name), Ref(NODE, "", name)
        fresh = None if node is None else self.reader.read(ref, node_of, node)
        self.unready.discard(name)
        if node is not None and not (fresh is not None and self.reader.read(ref, _is_ready, node)):
            self.unready.add(name)
        if known == fresh:
            return
        if fresh is None:
            state.remove_node(name)
        else:
            state.add_node(fresh)
            self.changes.node_opened(name)
        self.changes.have_nodes_changed = True
        promised = sorted(key for key in state.nominated if state.pods[key].nominated == name)
        if known is None or fresh is None or known.labels != fresh.labels:  # its pods are in other domains now
            for key in (*sorted(state.running.on_node(name)), *promised):
                self.changes.pod_revalued(state.pods[key])
        for key in promised:
            self.mark_changed(state.pods[key])

    def _see_workload(self, key: tuple[str, str], view: View) -> None:
        state = self.state
        known = state.gangs.workloads.get(key)
        fresh = self.reader.workload(key, view)
        if known == fresh:
            return
        pods = [state.pods[each] for each in sorted(state.gangs.referring(*key))]
        self._mark_waiting(pods)  # as they were
        self.stale_gangs[key] = None
        state.set_workload(key, fresh)
        self._mark_waiting(pods)
        for pod in pods:
            self.changes.pod_revalued(
                pod
            )  # its priority may be lower now, as a victim or where a node is promised to it

    def _mark_waiting(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.node is None:
                self.mark_changed(pod)

    def _see_namespace(self, name: str, namespace: wire.Namespace | None) -> None:
        ref, known = Ref(NAMESPACE, "", name), self.state.namespaces.get(name)
        fresh = None if namespace is None else self.reader.read(ref, namespace_of, namespace)
        if known == (None if fresh is None else fresh.labels):
            return
        self.state.set_namespace(name, None if fresh is None else fresh.labels)
        self.changes.have_namespaces_changed = True

    def _see_budget(self, key: tuple[str, str], budget: wire.PodDisruptionBudget | None) -> None:
        ref, known = Ref(POD_DISRUPTION_BUDGET, *key), self.state.budgets.get(key)
        fresh = None if budget is None else self.reader.read(ref, budget_of, budget)
        if fresh is None and budget is not None:
            return  # what it was known to ask for still counts
        if known != fresh:
            self.state.set_budget(key, fresh)

    # --- as decided ---

    def bound(self, key: PodKey, node: str, now: Millis) -> None:
        self._exchange(replace(self.state.pods[key], node=node, nominated=None, start=now))
        self.mark_stale(self.state.pods[key])

    def nominated(self, key: PodKey, node: str | None) -> None:
        self._exchange(replace(self.state.pods[key], nominated=node))

    def evicted(self, key: PodKey, *, for_others: bool) -> None:
        known = self.state.pods[key]
        for_others = for_others or known.preempted_by_scheduler
        self._exchange(replace(known, terminating=True, preempted_by_scheduler=for_others))
        self.mark_stale(self.state.pods[key])

    def mark_changed(self, pod: Pod) -> None:
        """The item of a pod has to be decided anew."""
        self.changed_items[item_of(self.state, pod)] = None

    def mark_stale(self, pod: Pod) -> None:
        """The status of the pod's Workload may have to change."""
        if pod.member is not None:
            self.stale_gangs[(pod.key[0], pod.member.workload)] = None

    def _exchange(self, fresh: Pod) -> None:
        known = self.state.pods[fresh.key]
        self.changes.pod_changed(known, fresh)
        self._drop(known)
        self._put(fresh)

    def _put(self, pod: Pod) -> None:
        self.state.add_pod(pod)
        self.leaving.came(pod)

    def _drop(self, pod: Pod) -> None:
        self.state.remove_pod(pod.key)
        self.leaving.left(pod)


def _is_shown_otherwise(pod: Pod, other: Pod | None) -> bool:
    if other is None:
        return True
    return (pod.priority, pod.node is None, pod.terminating) != (other.priority, other.node is None, other.terminating)


def _matters(pod: Pod, other: Pod | None) -> bool:
    """Whether the difference between a pod and what it was before or after is a reason to decide its item anew."""
    if other is None or pod.uid != other.uid or (pod.node is None) != (other.node is None):
        return pod.node is None or pod.member is not None
    if pod.node is not None:
        return pod.member is not None and pod.terminating != other.terminating
    return pod != other  # what others wrote of its nomination counts too: a preemption under way may have lost its aim


def _is_ready(node: wire.Node) -> bool:
    status = wire.view(node.status, wire.NodeStatus)
    return node.metadata.deletion_timestamp is None and is_true(status.conditions, "Ready")
