"""Embedded mode: pods of a node that is gone have to leave, so that their owners can make new ones elsewhere.

A missing node first has a *quarantine*: one that is deleted and recreated at once, as our own agent does with its
nodes, costs nothing. Then its pods are told and deleted in order. Where an agent still runs their processes, these get
their grace period, and the object goes last. Where there is none, the pod has failed when that time is over, and its
object goes at once.

Promises: a reconcile costs what has changed, not what runs; only the time at which a node went missing is remembered,
so its quarantine starts anew after a restart.

Not here: nodes that exist and are not ready, and what the loss of a pod means to its Job (``jobs.pods``,
``jobs.gangs``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from makeway.api.objects.kubernetes import Node, Pod, amended
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.meta import Wire, ready
from makeway.controllers.contract import NODE, NOTHING, POD, Action, Change, Delete, Note, Outcome, Ref, View, is_of
from makeway.controllers.jobs.counts import may_run
from makeway.controllers.pods.edits import NODE_LOST, Disrupt
from makeway.core.model import Millis

QUARANTINE_MS = 40_000
UNANSWERED_MS = 5_000  # beyond its grace period; then there is no agent that could end a pod

replace = msgspec.structs.replace


@ready
class _Bound(Wire, frozen=True):
    """The node of a pod's spec; the rest is not read for every change of every pod."""

    node_name: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """The end of a pod where there is no agent to report it."""

    message: str

    def __call__(self, pod: Pod) -> Pod:
        if not may_run(pod):
            return pod
        return replace(
            pod, status=amended(pod.status, {"phase": "Failed", "reason": "NodeLost", "message": self.message})
        )


class LostNodes:
    def __init__(self) -> None:
        self._pods_on: dict[str, dict[Ref, None]] = {}
        self._node_of: dict[Ref, str] = {}
        self._missing: dict[str, Millis] = {}  # nodes that pods name and that do not exist, since when

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"Pod", "Node"})

    def react(self, ref: Ref[Pod | Node], view: View, now: Millis) -> Outcome:
        if is_of(ref, NODE):
            return self._react_to_node(ref, view, now)
        pod = view.get(Ref(POD, ref.namespace, ref.name))
        name = "" if pod is None else read(pod.spec, _Bound).node_name
        self._note(ref, name)
        node = Ref(NODE, "", name)
        if pod is None or not name or view.get(node) is not None:
            return NOTHING
        since = self._missing.get(name)
        if since is None:
            return Outcome(enqueue=(node,))
        return _let_go(pod, name, now) if now >= since + QUARANTINE_MS else NOTHING

    def _react_to_node(self, node: Ref[Node], view: View, now: Millis) -> Outcome:
        pods = self._pods_on.get(node.name, {})
        if not pods or view.get(node) is not None:
            self._missing.pop(node.name, None)
            return NOTHING
        due = Millis(self._missing.setdefault(node.name, now) + QUARANTINE_MS)
        return Outcome(again_at=due) if now < due else Outcome(enqueue=tuple(pods))

    def _note(self, pod: Ref, node: str) -> None:
        before = self._node_of.get(pod, "")
        if before == node:
            return
        if before:
            left = self._pods_on[before]
            del left[pod], self._node_of[pod]
            if not left:
                del self._pods_on[before]
                self._missing.pop(before, None)
        if node:
            self._pods_on.setdefault(node, {})[pod] = None
            self._node_of[pod] = node


def _let_go(pod: Pod, node: str, now: Millis) -> Outcome:
    """The next step in removing a pod of a node that is gone; none if only a finalizer keeps it."""
    meta = pod.metadata
    if meta.deletion_timestamp is None:
        return Outcome(tuple(_told_to_leave(pod, node, now)))
    if may_run(pod):
        due = Millis(meta.deletion_timestamp.millis + UNANSWERED_MS)
        if now < due:
            return Outcome(again_at=due)
        change = Change(Ref.of(pod), Fail(f"Node {node} is gone; how the pod ended is unknown"), uid=meta.uid)
        return Outcome((Action(change, then=(_removed(pod),)),))
    return Outcome((_removed(pod),)) if meta.deletion_grace_period_seconds else NOTHING


def _told_to_leave(pod: Pod, node: str, now: Millis) -> Iterator[Action]:
    ref, uid = Ref.of(pod), pod.metadata.uid
    if not may_run(pod):
        yield Action(Delete(ref, uid))
        return
    message = f"Node {node} is gone"
    note = Note(ref, "Warning", "NodeLost", message)
    yield Action(
        Change(ref, Disrupt(NODE_LOST, message, now), uid=uid), then=(Action(Delete(ref, uid)),), notes=(note,)
    )


def _removed(pod: Pod) -> Action:
    return Action(Delete(Ref.of(pod), pod.metadata.uid, grace=0))
