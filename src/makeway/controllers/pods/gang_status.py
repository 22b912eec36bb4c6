"""What a scheduling Workload shows: its priorities, how much of it is placed, and why it waits (S-15.8, decision 0064).

Its condition ``Placed`` gathers the messages of its pods. A change of state or reason is written at once, one of
numbers and words at most once a second, so that a large gang costs a few writes and not one for each pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from makeway.api.conditions import Status, find, set_condition
from makeway.api.objects.meta import Condition
from makeway.api.objects.scheduling import GangWorkload, GangWorkloadStatus
from makeway.api.quantity import Time
from makeway.controllers.contract import GANG_WORKLOAD, NOTHING, Action, Change, Note, Outcome, Ref, View
from makeway.controllers.jobs.gangs import gang_in_queue, priority_in_queue
from makeway.controllers.pods.cluster import PodCluster
from makeway.controllers.pods.items import waiting_pods
from makeway.controllers.pods.messages import too_few
from makeway.core.model import Millis, stored
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import ForPod, Pod, Preemptor, SchedulingWorkload
from makeway.core.placement.resolution import NOT_MATCHING, Divergence, divergence

MESSAGE_MAX = 32_768  # the limit of a condition's message
COUNTS_MS = 1000  # the least time between writes of numbers and words alone

PLACED = "Placed"  # the condition, and its reason while it holds
UNSCHEDULABLE = "Unschedulable"
FOR_PODS = "WaitingForPods"
FOR_MEMBERS = "WaitingForMembers"
FOR_VICTIMS = "WaitingForVictims"
PREEMPTED = "Preempted"

replace = msgspec.structs.replace

Name = tuple[str, str]  # namespace and name of a Workload


class Said(NamedTuple):
    """Why pods of a gang wait."""

    reason: str
    message: str


class ToldCondition(NamedTuple):
    """A condition without its times."""

    type: str
    status: Status
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GangProgress:
    """How much of a Workload is on nodes. ``why`` the rest is not; None: that is not decided yet."""

    gang: str
    placed: str
    state: Literal["Waiting", "Partly", "Placed", "Leaving"]
    why: Said | None


def standing(known: SchedulingWorkload, state: ClusterState, said: Mapping[Preemptor, Said]) -> GangProgress:
    """``said``: the last decisions about its waiting pods."""
    pods = [state.pods[key] for key in state.gangs.referring(known.namespace, known.name)]
    on_nodes = sum(pod.node is not None for pod in pods)
    lacking = _lacking(known, pods)
    why: Said | None = lacking
    if on_nodes < len(pods):
        why = said[min(said, key=_name_of)] if said else None
    what: Literal["Waiting", "Partly", "Placed", "Leaving"] = "Partly" if on_nodes else "Waiting"
    if any(pod.terminating and pod.preempted_by_scheduler for pod in pods):
        what, why = "Leaving", Said(PREEMPTED, "Pods of it had to make way.")
    elif on_nodes == len(pods) and lacking is None:
        what = "Placed"
    counts = ["-" if group.min_count is None else str(group.min_count) for group in known.groups]
    return GangProgress(",".join(counts), f"{on_nodes}/{len(pods)}", what, why)


def _name_of(item: Preemptor) -> tuple[str, ...]:
    return item.key if isinstance(item, ForPod) else (item.namespace, item.member.group, item.member.replica)


def _lacking(known: SchedulingWorkload, pods: list[Pod]) -> Said | None:
    """The pods that its groups need and that do not exist; each replica is a gang of its own."""
    if not pods:
        return Said(FOR_PODS, "No pod of it exists.")
    exist: dict[tuple[str, str], int] = {}
    for pod in pods:
        if pod.member is not None:
            which = (pod.member.group, pod.member.replica)
            exist[which] = exist.get(which, 0) + 1
    for group in known.groups:
        name = group.key[2]
        counts = [count for (of, _), count in sorted(exist.items()) if of == name]
        if group.min_count is not None and min(counts, default=0) < group.min_count:
            return Said(FOR_PODS, too_few(min(counts, default=0), group.min_count))
    return None


@dataclass(frozen=True, slots=True)
class TellGang:
    """Its progress and conditions, and the priorities of ``known`` where the status has none."""

    known: SchedulingWorkload
    standing: GangProgress
    conditions: tuple[ToldCondition, ...]
    at: Millis

    def __call__(self, gang: GangWorkload) -> GangWorkload:
        status = gang.status or GangWorkloadStatus()
        conditions = status.conditions
        for told in self.conditions:
            if not _says(find(conditions, told.type), told):
                now = Time.of_millis(stored(self.at))
                conditions = set_condition(
                    conditions, now=now, observed_generation=gang.metadata.generation or None, **told._asdict()
                )
        shown = self.standing
        after = replace(
            self._filled(status), conditions=conditions, gang=shown.gang, placed=shown.placed, state=shown.state
        )
        return gang if after == gang.status else replace(gang, status=after)

    def _filled(self, status: GangWorkloadStatus) -> GangWorkloadStatus:
        known = self.known
        return replace(
            status,
            priority=known.priority if status.priority is None else status.priority,
            preemption_priority=(
                known.preemption_priority if status.preemption_priority is None else status.preemption_priority
            ),
            preemption_policy=status.preemption_policy or known.policy,
        )


def _says(condition: Condition | None, told: ToldCondition) -> bool:
    return condition is not None and (condition.status, condition.reason, condition.message) == told[1:]


class GangBoard:
    """The last decisions about the waiting pods of each Workload, and when its numbers were written."""

    def __init__(self) -> None:
        self._said: dict[Name, dict[Preemptor, Said]] = {}
        self._shown: dict[Name, Millis] = {}
        self._short: dict[Name, Millis] = {}  # since when pods are missing of what was placed

    def say(self, name: Name, item: Preemptor, said: Said) -> None:
        self._said.setdefault(name, {})[item] = said

    def react(self, ref: Ref[GangWorkload], cluster: PodCluster, view: View, now: Millis) -> Outcome:
        """The status of a Workload, where it differs from the stored one."""
        name = (ref.namespace, ref.name)
        gang = view.get(ref)
        known = cluster.state.gangs.workloads.get(name)
        said = {item: each for item, each in self._said.pop(name, {}).items() if waiting_pods(cluster.state, item)}
        if said and known is not None:
            self._said[name] = said
        if gang is None or known is None or gang.metadata.deletion_timestamp is not None or _is_a_stranger(gang, view):
            self._shown.pop(name, None)
            self._short.pop(name, None)
            return NOTHING
        shown = standing(known, cluster.state, said)
        edit = TellGang(known, shown, tuple(_conditions(gang, known, shown, cluster.state, view)), now)
        fresh = edit(gang)
        due = self._due(name, gang.status or GangWorkloadStatus(), fresh.status or GangWorkloadStatus(), now)
        if fresh is gang or now < due:
            return Outcome(again_at=None if fresh is gang else due)
        self._shown[name] = now
        return Outcome((Action(Change(ref, edit, uid=gang.metadata.uid), notes=tuple(_notes(gang, fresh))),))

    def _due(self, name: Name, before: GangWorkloadStatus, after: GangWorkloadStatus, now: Millis) -> Millis:
        """When to write this status. A placed gang may lack pods only until its Job has counted them."""
        told = find(after.conditions, PLACED)
        if before.state == "Placed" and told is not None and told.reason == FOR_PODS:
            return Millis(self._short.setdefault(name, now) + COUNTS_MS)
        self._short.pop(name, None)
        if _weighty(before) != _weighty(after) or name not in self._shown:
            return now
        return Millis(self._shown[name] + COUNTS_MS)


def _weighty(status: GangWorkloadStatus) -> GangWorkloadStatus:
    """A status without what may be written a little later: how many pods, and in which words."""
    conditions = tuple(replace(condition, message="") for condition in status.conditions)
    return replace(status, gang="", placed="", conditions=conditions)


def _is_a_stranger(gang: GangWorkload, view: View) -> bool:
    """Whether it only has the name of a Job's gang: then its content does not count, and it is left alone."""
    made = gang_in_queue(gang.metadata.namespace, gang.metadata.name, view)
    return made is not None and priority_in_queue(gang, view) is None


def _conditions(
    gang: GangWorkload, known: SchedulingWorkload, shown: GangProgress, state: ClusterState, view: View
) -> Iterator[ToldCondition]:
    if shown.state == "Placed":
        yield ToldCondition(PLACED, "True", PLACED, "Every pod of it is on a node.")
    elif shown.why is not None:
        yield ToldCondition(PLACED, "False", shown.why.reason, shown.why.message[:MESSAGE_MAX])
    diverging = Divergence(())  # where the queue sets the priority, that of the pods was never meant to be equal
    if priority_in_queue(gang, view) is None:
        pods = (state.pods[key] for key in state.gangs.referring(known.namespace, known.name))
        diverging = divergence(known.namespace, known.name, known.priority, pods)
    yield ToldCondition(NOT_MATCHING, diverging.status, diverging.reason, diverging.message[:MESSAGE_MAX])


def _notes(before: GangWorkload, after: GangWorkload) -> Iterator[Note]:
    """An Event where the reason of ``Placed`` has changed; none for a new Workload that only waits for pods."""
    old = find(before.status.conditions if before.status is not None else (), PLACED)
    new = find(after.status.conditions if after.status is not None else (), PLACED)
    if new is None or (old is not None and old.reason == new.reason) or (old is None and new.reason == FOR_PODS):
        return
    ref = Ref(GANG_WORKLOAD, after.metadata.namespace, after.metadata.name)
    yield Note(ref, "Warning" if new.reason == UNSCHEDULABLE else "Normal", new.reason, new.message)
