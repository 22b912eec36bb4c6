"""Gang members that are leaving, and those that have to go with them: a unit goes as a whole (S-15.1.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import ForGroup, Member, Pod, PodKey

Replica = tuple[str, Member]  # namespace, and a replica of a group


class LeavingMembers:
    def __init__(self) -> None:
        self._leaving: dict[Replica, dict[PodKey, bool]] = {}  # whether we evicted them
        self._bereft: dict[PodKey, str] = {}  # uids of pods in a unit that has lost a pod which we evicted

    def came(self, pod: Pod) -> None:
        if pod.member is not None and pod.node is not None and pod.terminating:
            self._leaving.setdefault((pod.key[0], pod.member), {})[pod.key] = pod.preempted_by_scheduler

    def left(self, pod: Pod) -> None:
        if pod.member is not None:
            replica = (pod.key[0], pod.member)
            leaving = self._leaving.get(replica, {})
            leaving.pop(pod.key, None)
            if not leaving:
                self._leaving.pop(replica, None)

    def of(self, item: ForGroup) -> Mapping[PodKey, bool]:
        """The leaving members of an item, and whether we evicted them."""
        return self._leaving.get((item.namespace, item.member), {})

    def note_gone(self, state: ClusterState, known: Pod, fresh: Pod | None) -> None:
        """A pod that we evicted is gone: the rest of its unit has to go, even if the preemptor no longer needs it."""
        if fresh is not None and fresh.uid == known.uid:
            return
        self._bereft.pop(known.key, None)
        group = state.gangs.group_of(known)
        if known.member is None or known.node is None or not known.preempted_by_scheduler:
            return
        if group is not None and group.whole:
            mates = state.gangs.running.get((known.key[0], known.member), set()) - {known.key}
            self._bereft.update({key: state.pods[key].uid for key in mates})

    def half_evicted(self, state: ClusterState, key: PodKey) -> Sequence[PodKey]:
        """Pods that go with this one and were not told to."""
        pod = state.pods.get(key)
        group = None if pod is None else state.gangs.group_of(pod)
        if pod is None or pod.node is None or pod.member is None or group is None or not group.whole:
            return ()
        if self._bereft.get(key) == pod.uid and not pod.terminating:
            return (key,)
        replica = (key[0], pod.member)
        if not any(self._leaving.get(replica, {}).values()):
            return ()
        mates = state.gangs.running.get(replica, set()) if pod.terminating else {key}
        return sorted(mate for mate in mates if not state.pods[mate].terminating)
