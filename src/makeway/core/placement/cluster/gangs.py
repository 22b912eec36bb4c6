"""Workloads of the pod scheduler, their groups, and the pods that refer to them."""

from __future__ import annotations

from makeway.core.placement.model import GroupKey, Member, Pod, PodGang, PodKey, SchedulingWorkload

WorkloadName = tuple[str, str]  # namespace, name
Replica = tuple[str, Member]  # namespace, and a replica of a group


class Gangs:
    def __init__(self) -> None:
        self.workloads: dict[WorkloadName, SchedulingWorkload] = {}
        self.groups: dict[GroupKey, PodGang] = {}
        self.waiting: dict[Replica, set[PodKey]] = {}
        self.running: dict[Replica, set[PodKey]] = {}
        self.by_workload: dict[WorkloadName, set[PodKey]] = {}
        self._number: dict[Replica, int] = {}

    def set_workload(self, name: WorkloadName, workload: SchedulingWorkload | None) -> SchedulingWorkload | None:
        """Set or remove (None) a Workload; returns the previous one."""
        before = self.workloads.pop(name, None)
        for group in before.groups if before is not None else ():
            self.groups.pop(group.key, None)
        if workload is not None:
            self.workloads[name] = workload
            self.groups.update({group.key: group for group in workload.groups})
        return before

    def add_pod(self, pod: Pod) -> None:
        if pod.member is not None:
            namespace = pod.key[0]
            self.by_workload.setdefault((namespace, pod.member.workload), set()).add(pod.key)
            members = self.waiting if pod.node is None else self.running
            members.setdefault((namespace, pod.member), set()).add(pod.key)

    def remove_pod(self, pod: Pod) -> None:
        if pod.member is not None:
            namespace = pod.key[0]
            name, replica = (namespace, pod.member.workload), (namespace, pod.member)
            referring = self.by_workload[name]
            referring.discard(pod.key)
            if not referring:
                del self.by_workload[name]
            members = self.waiting if pod.node is None else self.running
            members[replica].discard(pod.key)
            if not members[replica]:
                del members[replica]

    def workload_of(self, pod: Pod) -> SchedulingWorkload | None:
        """The Workload that the pod's reference resolves to: it exists, and so does the group (S-15.1.1)."""
        if self.group_of(pod) is None or pod.member is None:
            return None
        return self.workloads[(pod.key[0], pod.member.workload)]

    def group_of(self, pod: Pod) -> PodGang | None:
        if pod.member is None:
            return None
        return self.groups.get((pod.key[0], pod.member.workload, pod.member.group))

    def priority_of(self, pod: Pod) -> int:
        """The priority with which a pod seeks a place; as a victim it may have another one."""
        workload = self.workload_of(pod)
        return pod.priority if workload is None else workload.priority

    def victim_priority_of(self, pod: Pod) -> int:
        workload = self.workload_of(pod)
        return pod.priority if workload is None else workload.preemption_priority

    def unit_of(self, pod: Pod) -> int:
        """The number of the replica with which the pod makes way; -1: it makes way by itself (S-15.1.2)."""
        group = self.group_of(pod)
        if group is None or not group.whole or pod.member is None:
            return -1
        return self._number.setdefault((pod.key[0], pod.member), len(self._number))

    def referring(self, namespace: str, workload: str) -> frozenset[PodKey]:
        """The pods that name this Workload, whether it exists or not."""
        return frozenset(self.by_workload.get((namespace, workload), ()))
