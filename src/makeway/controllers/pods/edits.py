"""What the pod scheduler writes: a pod's node, what it waits for, and that it has to leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from makeway.api.names import WORKLOAD
from makeway.api.objects.kubernetes import Pod, amended
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.pods import PodSpec, PodStatus
from makeway.api.quantity import Time
from makeway.controllers.contract import Departure
from makeway.core.lowering.placement import member_of
from makeway.core.model import Millis, WorkloadKey, stored

PREEMPTED = "PreemptionByScheduler"
NOT_WHOLE = "GangNotWhole"  # ours: its gang was placed in part, and the rest has no place
NODE_LOST = "DeletionByPodGC"  # as in Kubernetes: the node of the pod is gone

replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Bind:
    """Give a pod its node, once."""

    node: str

    def __call__(self, pod: Pod) -> Pod | None:
        spec = read(pod.spec, PodSpec)
        if spec.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        return replace(pod, spec=amended(pod.spec, {"nodeName": self.node}))


@dataclass(frozen=True, slots=True)
class TellWhyNoNode:
    """Why a pod has no node yet, and which one it is promised; "": none. Without a message the old one stays."""

    message: str | None
    nominated: str
    at: Millis

    def __call__(self, pod: Pod) -> Pod | None:
        if read(pod.spec, PodSpec).node_name:
            return None
        changes: dict[str, object] = {}
        if read(pod.status, PodStatus).nominated_node_name != self.nominated:
            changes["nominatedNodeName"] = self.nominated or None
        if self.message is not None and said(pod) != self.message:
            changes["conditions"] = _with(pod.status, "PodScheduled", "False", "Unschedulable", self.message, self.at)
        return replace(pod, status=amended(pod.status, changes)) if changes else pod


@dataclass(slots=True, eq=False)
class Promise:
    """An item gets the room of the pods that leave for it; once the promise is broken, none of them is told to leave.

    It is broken when it is taken back, and when the pod with which it was stored is gone.
    """

    holds: bool = True
    is_there: Callable[[], bool] = lambda: True

    @property
    def is_kept(self) -> bool:
        return self.holds and self.is_there()


@dataclass(frozen=True, slots=True)
class Disrupt:
    """Say that a pod has to leave, and for what; its deletion follows. Not once the promise is broken."""

    reason: str
    message: str
    at: Millis
    promise: Promise | None = None
    by: str = ""  # the item that it leaves for, as the journal names it

    @property
    def departure(self) -> Departure:
        return Departure(self.reason, self.at, preempts=self.reason == PREEMPTED, by=self.by)

    def __call__(self, pod: Pod) -> Pod | None:
        status = read(pod.status, PodStatus)
        if self.promise is not None and not self.promise.is_kept:
            return None
        if status.phase in ("Succeeded", "Failed"):
            return None
        if any(each.type == "DisruptionTarget" and each.reason == self.reason for each in status.conditions):
            return pod
        conditions = _with(pod.status, "DisruptionTarget", "True", self.reason, self.message, self.at)
        return replace(pod, status=amended(pod.status, {"conditions": conditions}))


def whose(pod: Pod) -> WorkloadKey | None:
    """The Workload of a pod: that of its queue, else that of its gang; None: it has none."""
    name = pod.metadata.annotations.get(WORKLOAD, "")
    member = None if name else member_of(pod)
    name = name if member is None else member.workload
    return WorkloadKey(f"{pod.metadata.namespace}/{name}") if name else None


def said(pod: Pod) -> str:
    """Why it waits, according to its status; "": that says nothing."""
    conditions = read(pod.status, PodStatus).conditions
    return next((each.message for each in conditions if each.type == "PodScheduled" and each.status == "False"), "")


def _with(raw: Raw, type_: str, status: str, reason: str, message: str, at: Millis) -> list[dict[str, object]]:
    before: list[dict[str, object]] = msgspec.json.decode(raw).get("conditions") or []
    old: dict[str, object] = next((each for each in before if each["type"] == type_), {})
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    told = {
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since or str(Time.of_millis(stored(at))),
    }  # fmt: skip
    return [*(each for each in before if each["type"] != type_), told]
