"""The cluster as placement sees it, kept in step with the stored objects and with what we have decided.

A decision counts from when it is made: a pod that we bind stands on its node, one that we evict is leaving. When the
write is answered the pod is seen as it is stored, so what did not happen is taken back by itself.

An object that cannot be read is passed by and named in ``troubles``: it counts as not there, but a pod keeps the room
that it was known to have, and a budget what it was known to ask for.

What changed is noted twice: for whoever else it could help (``news``), and by items that are to be looked at anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from makeway.api.conditions import is_true
from makeway.api.names import SCHEDULERS
from makeway.api.objects import kubernetes as wire
from makeway.api.objects.pods import PodSpec, PodStatus
from makeway.api.objects.scheduling import GangWorkload
from makeway.controllers.contract import GANG_WORKLOAD, Ref, Trouble, View
from makeway.controllers.jobs.counts import may_run
from makeway.controllers.jobs.gangs import gang_in_queue, priority_in_queue
from makeway.controllers.pods.news import News
from makeway.core.lowering.placement import (
    budget_of,
    classes_of,
    gated,
    namespace_of,
    node_of,
    pod_of,
    scheduling_workload_of,
)
from makeway.core.model import Millis
from makeway.core.placement.model import (
    Cluster,
    ForGroup,
    ForPod,
    GroupKey,
    Member,
    Pod,
    PodKey,
    Preemptor,
    SchedulingWorkload,
)
from makeway.core.placement.nodes import Placement
from makeway.core.placement.resolution import Classes
from makeway.core.policy import Gates

WORKLOADS = (GANG_WORKLOAD, "Workload")  # of either kind there may be one of a name; together they are one gang

Place = tuple[str, Member]  # namespace, and a replica of a group
T = TypeVar("T")


class PodCluster:
    def __init__(self) -> None:
        self.state = Placement()
        self.news = News()  # for those who were refused
        self.touched: dict[Preemptor, None] = {}  # who is to be looked at anew, or is no more
        self.remustered: dict[tuple[str, str], None] = {}  # Workloads that may show something else by what changed
        self.unready: set[str] = set()
        self.leaving: dict[Place, dict[PodKey, bool]] = {}  # members on their way out; whether we evicted them
        self._begun: dict[PodKey, str] = {}  # uids of those who go with a unit of which somebody we evicted is gone
        self._troubles: dict[Ref, Exception] = {}  # since they were last asked for
        self._classes: Classes = {}
        self._gates = Gates()
        self._has_begun = False

    # --- as stored ---

    def begin(self, view: View, now: Millis) -> None:
        """All that is known, at the first look."""
        if self._has_begun:
            return
        self._has_begun = True
        self._classes, self._gates = classes_of(view.all("PriorityClass")), view.policy.gates
        names = {(each.metadata.namespace, each.metadata.name) for kind in WORKLOADS for each in view.all(kind)}
        nodes = list(view.all("Node"))
        self.unready = {each.metadata.name for each in nodes if not self._reads(Ref.of(each), _is_ready, each)}
        lowered = self._all(view.all("Pod"), lambda pod: self._lowered(pod, None, now))
        self.state = Placement.of(Cluster(
            nodes=self._all(nodes, node_of),
            workloads=tuple(gang for key in sorted(names) if (gang := self._lowered_workload(key, view)) is not None),
            budgets=self._all(view.all("PodDisruptionBudget"), budget_of),
            namespaces=self._all(view.all("Namespace"), namespace_of),
        ), scoring=view.policy.scoring)  # fmt: skip
        for pod in lowered:
            self._put(pod)
            if pod.node is None:
                self.touched[self.item_of(pod)] = None

    def _reads(self, whom: Ref, lower: Callable[..., T], *of: Any) -> T | None:
        """What an object comes to; None: it cannot be read."""
        self._troubles.pop(whom, None)
        try:
            return lower(*of)
        except Exception as error:
            self._troubles[whom] = error
            return None

    def _all(self, stored: Iterable[Any], lower: Callable[[Any], T | None]) -> tuple[T, ...]:
        found = (self._reads(Ref.of(each), lower, each) for each in stored)
        return tuple(each for each in found if each is not None)

    def take_troubles(self) -> tuple[Trouble, ...]:
        """Objects that could not be read since this was last asked."""
        troubles, self._troubles = self._troubles, {}
        return tuple(Trouble(ref, error) for ref, error in troubles.items())

    def see(self, whom: Ref, view: View, now: Millis) -> None:
        """One object as it is stored now."""
        found = view.get(whom)
        if whom.kind == "Pod":
            self._see_pod((whom.namespace, whom.name), found, now)
        elif whom.kind == "Node":
            self._see_node(whom.name, found)
        elif whom.kind in WORKLOADS:
            self._see_workload((whom.namespace, whom.name), view)
        elif whom.kind == "Job" and found is not None:
            for each in view.owned(found.metadata.uid):
                self._see_workload((each.metadata.namespace, each.metadata.name), view)
        elif whom.kind == "PodDisruptionBudget":
            self._see_budget((whom.namespace, whom.name), found)
        elif whom.kind == "Namespace":
            self._see_namespace(whom.name, found)
        elif whom.kind == "PriorityClass":
            self._classes = classes_of(view.all("PriorityClass"))
            for each in view.all(GANG_WORKLOAD):
                self._see_workload((each.metadata.namespace, each.metadata.name), view)
            for each in view.all("Pod"):
                self._see_pod((each.metadata.namespace, each.metadata.name), each, now)

    def _see_pod(self, key: PodKey, pod: wire.Pod | None, now: Millis) -> None:
        known, whom = self.state.pods.get(key), Ref("Pod", *key)
        fresh = None if pod is None else self._reads(whom, self._lowered, pod, known, now)
        if fresh == known or (whom in self._troubles and known is not None and known.node is not None):
            return
        for each, other in ((known, fresh), (fresh, known)):
            if each is not None and _is_shown_otherwise(each, other):
                self.remuster(each)
        self.news.changed(known, fresh)
        if known is not None:
            self._note_begun(known, fresh)
            if _matters(known, fresh):
                self.touched[self.item_of(known)] = None
            self._drop(known)
        if fresh is not None:
            self._put(fresh)
            if _matters(fresh, known):
                self.touched[self.item_of(fresh)] = None

    def _lowered(self, pod: wire.Pod, known: Pod | None, now: Millis) -> Pod | None:
        """A pod that stands on a node, or waits for one from us."""
        spec = wire.view(pod.spec, PodSpec)
        if not may_run(pod):
            return None
        if not spec.node_name and (
            pod.metadata.deletion_timestamp is not None
            or spec.scheduling_gates
            or spec.scheduler_name not in SCHEDULERS
        ):
            return None
        created = pod.metadata.creation_timestamp
        arrived = 0 if created is None else created.millis
        fresh = gated(pod_of(pod, self._classes, now, arrived=arrived, shares_network=True), self._gates)
        is_same = known is not None and known.uid == fresh.uid and (known.node is None) == (fresh.node is None)
        if known is not None and is_same and wire.view(pod.status, PodStatus).start_time is None:
            fresh = replace(fresh, start=known.start)  # it has no time yet: that of its binding, or of the first look
        return fresh if fresh.node is None or fresh.nominated is None else replace(fresh, nominated=None)

    def _note_begun(self, known: Pod, fresh: Pod | None) -> None:
        """Whom we evicted is gone: those who go with it have to, whatever becomes of what they make way for."""
        if fresh is not None and fresh.uid == known.uid:
            return
        self._begun.pop(known.key, None)
        group = self.state.group_of(known)
        if known.member is None or known.node is None or not known.preempted_by_scheduler:
            return
        if group is not None and group.whole:
            mates = self.state.running.get((known.key[0], known.member), set()) - {known.key}
            self._begun.update({key: self.state.pods[key].uid for key in mates})

    def _see_node(self, name: str, node: wire.Node | None) -> None:
        state = self.state
        at, whom = state.index.get(name), Ref("Node", "", name)
        known = None if at is None else state.nodes[at]
        fresh = None if node is None else self._reads(whom, node_of, node)
        self.unready.discard(name)
        if node is not None and not (fresh is not None and self._reads(whom, _is_ready, node)):
            self.unready.add(name)
        if known == fresh:
            return
        if fresh is None:
            state.remove_node(name)
        else:
            state.add_node(fresh)
            self.news.opened(name)
        self.news.are_nodes_others = True
        promised = sorted(key for key in state.nominated if state.pods[key].nominated == name)
        if known is None or fresh is None or known.labels != fresh.labels:  # they stand in other domains now
            for key in (*sorted(state.standing_on(name)), *promised):
                self.news.revalued(state.pods[key])
        for key in promised:
            self.touched[self.item_of(state.pods[key])] = None

    def _lowered_workload(self, key: tuple[str, str], view: View) -> SchedulingWorkload | None:
        """The gang of a queueing Workload is what its queue says it is, whatever is stored of it, or is not."""
        if not self._gates.generic_workload:
            return None
        stored: GangWorkload | None = view.get(Ref(GANG_WORKLOAD, *key))
        whom = Ref("Workload" if stored is None else GANG_WORKLOAD, *key)

        def lower() -> SchedulingWorkload | None:
            made = gang_in_queue(*key, view)
            gang = stored if made is None else made
            if gang is None:
                return None
            priority = priority_in_queue(gang, view)
            return scheduling_workload_of(gang, self._classes, in_queue=priority, gates=self._gates)

        return self._reads(whom, lower)

    def _see_workload(self, key: tuple[str, str], view: View) -> None:
        state = self.state
        known = state.workloads.get(key)
        fresh = self._lowered_workload(key, view)
        if known == fresh:
            return
        pods = [state.pods[each] for each in sorted(state.referring(*key))]
        self._touch(pods)  # as they were
        self.remustered[key] = None
        if fresh is None:
            state.remove_workload(*key)
        else:
            state.put_workload(fresh)
        self._touch(pods)
        for pod in pods:
            self.news.revalued(pod)  # as a victim, or as one that a node was promised, it may be a lesser one by now

    def _touch(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.node is None:
                self.touched[self.item_of(pod)] = None

    def _see_namespace(self, name: str, namespace: wire.Namespace | None) -> None:
        whom, known = Ref("Namespace", "", name), self.state.namespaces.get(name)
        fresh = None if namespace is None else self._reads(whom, namespace_of, namespace)
        if known == (None if fresh is None else fresh.labels):
            return
        if fresh is None:
            self.state.remove_namespace(name)
        else:
            self.state.put_namespace(fresh)
        self.news.are_namespaces_others = True

    def _see_budget(self, key: tuple[str, str], budget: wire.PodDisruptionBudget | None) -> None:
        whom, known = Ref("PodDisruptionBudget", *key), self.state.budgets.get(key)
        fresh = None if budget is None else self._reads(whom, budget_of, budget)
        if fresh is None and budget is not None:
            return  # what it was known to ask for still counts
        if fresh is None:
            self.state.remove_budget(*key)
        elif known != fresh:
            self.state.put_budget(fresh)

    # --- as decided ---

    def bound(self, key: PodKey, node: str, now: Millis) -> None:
        self._exchange(key, node=node, nominated=None, start=now)
        self.remuster(self.state.pods[key])

    def nominated(self, key: PodKey, node: str | None) -> None:
        self._exchange(key, nominated=node)

    def evicted(self, key: PodKey, *, for_others: bool) -> None:
        for_others = for_others or self.state.pods[key].preempted_by_scheduler
        self._exchange(key, terminating=True, preempted_by_scheduler=for_others)
        self.remuster(self.state.pods[key])

    def remuster(self, pod: Pod) -> None:
        """What its Workload shows may be another by this pod."""
        if pod.member is not None:
            self.remustered[(pod.key[0], pod.member.workload)] = None

    def _exchange(self, key: PodKey, **changes: Any) -> None:
        known = self.state.pods[key]
        fresh = replace(known, **changes)
        self.news.changed(known, fresh)
        self._drop(known)
        self._put(fresh)

    def _put(self, pod: Pod) -> None:
        self.state.add_pod(pod)
        if pod.member is not None and pod.node is not None and pod.terminating:
            self.leaving.setdefault((pod.key[0], pod.member), {})[pod.key] = pod.preempted_by_scheduler

    def _drop(self, pod: Pod) -> None:
        self.state.remove_pod(pod.key)
        if pod.member is not None:
            place = (pod.key[0], pod.member)
            going = self.leaving.get(place, {})
            going.pop(pod.key, None)
            if not going:
                self.leaving.pop(place, None)

    # --- items ---

    def item_of(self, pod: Pod) -> Preemptor:
        """With whom it is placed: its gang, or nobody; one whose reference resolves to nothing waits by itself."""
        group = self.state.group_of(pod)
        if pod.member is None or group is None or group.min_count is None:
            return ForPod(pod.key)
        return ForGroup(pod.key[0], pod.member)

    def members(self, item: Preemptor) -> list[Pod]:
        """Those of an item who wait."""
        pods = self.state.pods
        if isinstance(item, ForPod):
            pod = pods.get(item.key)
            return [pod] if pod is not None and pod.node is None and self.item_of(pod) == item else []
        workload = self.state.groups.get((item.namespace, item.member.workload, item.member.group))
        if workload is None or workload.min_count is None:
            return []
        return [pods[key] for key in sorted(self.state.waiting.get((item.namespace, item.member), ()))]

    def workload(self, item: Preemptor) -> SchedulingWorkload | None:
        if isinstance(item, ForGroup):
            return self.state.workloads.get((item.namespace, item.member.workload))
        pod = self.state.pods.get(item.key)
        return None if pod is None else self.state.workload_of(pod)

    def running(self, item: Preemptor) -> list[Pod]:
        """Members of a gang who stand on a node."""
        if isinstance(item, ForPod):
            return []
        return [self.state.pods[key] for key in sorted(self.state.running.get((item.namespace, item.member), ()))]

    def need_more(self, key: GroupKey, more: int) -> None:
        """Within a trial: let a gang need so many pods more. So those of it that leave count for nothing."""
        workload = self.state.workloads[key[:2]]
        self.state.put_workload(replace(workload, groups=tuple(
            replace(each, min_count=each.min_count + more) if each.key == key and each.min_count is not None else each
            for each in workload.groups
        )))  # fmt: skip

    def half_evicted(self, key: PodKey) -> Iterable[PodKey]:
        """Pods that go with this one and have not been told to: a unit goes as a whole (S-15.1.2)."""
        pod = self.state.pods.get(key)
        group = None if pod is None else self.state.group_of(pod)
        if pod is None or pod.node is None or pod.member is None or group is None or not group.whole:
            return ()
        place = (key[0], pod.member)
        if self._begun.get(key) == pod.uid and not pod.terminating:
            return (key,)
        if not any(self.leaving.get(place, {}).values()):
            return ()
        mates = self.state.running.get(place, set()) if pod.terminating else {key}
        return sorted(each for each in mates if not self.state.pods[each].terminating)


def _is_shown_otherwise(pod: Pod, other: Pod | None) -> bool:
    if other is None:
        return True
    return (pod.priority, pod.node is None, pod.terminating) != (other.priority, other.node is None, other.terminating)


def _matters(pod: Pod, other: Pod | None) -> bool:
    """Whether this pod, after or before it was ``other``, is a reason to look at its item anew."""
    if other is None or pod.uid != other.uid or (pod.node is None) != (other.node is None):
        return pod.node is None or pod.member is not None
    if pod.node is not None:
        return pod.member is not None and pod.terminating != other.terminating
    return pod != other  # what others wrote of its nomination too: a preemption under way may have lost its aim


def _is_ready(node: wire.Node) -> bool:
    status = wire.view(node.status, wire.NodeStatus)
    return node.metadata.deletion_timestamp is None and is_true(status.conditions, "Ready")
