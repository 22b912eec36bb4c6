"""Embedded mode: pods that wait for a node get one whose free resources, labels and taints suit them.

The node with the most free cpu is taken, so that work spreads; of equals the first by name. A pod that fits nowhere is
told why, and looked at again when something leaves or a node changes. More than that, gangs and preemption among pods,
is placement.

Who uses what is kept from look to look, so that a pod costs what it touches: the engine looks at every pod that has
changed. A binding is counted when it is decided; if its write fails, the pod is looked at and counted anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from makeway.api.conditions import is_true
from makeway.api.objects.kubernetes import Node, NodeSpec, NodeStatus, Pod, amended
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.pods import PodSpec
from makeway.api.pod_request import Container, pod_request
from makeway.api.pod_request import Pod as Asked
from makeway.api.quantity import Quantity, Time
from makeway.controllers.contract import NOTHING, Action, Change, Note, Outcome, Ref, View
from makeway.controllers.job_counts import may_run, status_of_pod
from makeway.core.lowering.queues import toleration_of
from makeway.core.model import Expression, Millis, Taint, selects, stored

KEEPING_AWAY = ("NoSchedule", "NoExecute")
WOKEN_AT_ONCE = 50

replace = msgspec.structs.replace
Nanos = Mapping[str, int]


# --- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bind:
    node: str

    def __call__(self, pod: Any) -> Any:
        spec = read(pod.spec, PodSpec)
        if spec.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        return replace(pod, spec=amended(pod.spec, {"nodeName": self.node}))


@dataclass(frozen=True, slots=True)
class TellUnschedulable:
    message: str
    at: Millis

    def __call__(self, pod: Any) -> Any:
        before = msgspec.json.decode(pod.status).get("conditions") or []
        old: dict[str, Any] = next((each for each in before if each["type"] == "PodScheduled"), {})
        since = old.get("lastTransitionTime") if old.get("status") == "False" else None
        told = {
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": self.message,
            "lastTransitionTime": since or str(Time.of_millis(stored(self.at))),
        }  # fmt: skip
        others = [each for each in before if each["type"] != "PodScheduled"]
        return replace(pod, status=amended(pod.status, {"conditions": [*others, told]}))


# --- what a pod asks for, and a node has ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Need:
    """What a pod takes from its node."""

    amounts: Nanos
    ports: frozenset[tuple[str, int]]


def _need(spec: PodSpec) -> _Need:
    def asked(each: Any) -> Container:
        return Container(
            _nanos(each.resources.requests), _nanos(each.resources.limits), each.restart_policy == "Always"
        )

    has_whole = bool(spec.resources.requests or spec.resources.limits)
    amounts = pod_request(Asked(
        containers=[asked(each) for each in spec.containers],
        init_containers=[asked(each) for each in spec.init_containers],
        whole=Container(_nanos(spec.resources.requests), _nanos(spec.resources.limits)) if has_whole else None,
        overhead=_nanos(spec.overhead),
    ))  # fmt: skip
    every = (*spec.containers, *spec.init_containers)
    # Pods share the network of their machine, so that a port is taken whether it is called a host port or not.
    ports = {(port.protocol, port.host_port or port.container_port) for each in every for port in each.ports}
    return _Need({**amounts, "pods": 10**9}, frozenset(ports))


def _nanos(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: quantity.nano for name, quantity in amounts.items()}


@dataclass(slots=True)
class _Room:
    """What is used of a node."""

    pods: dict[Ref, _Need] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)

    def add(self, ref: Ref, need: _Need) -> None:
        self.remove(ref)
        self.pods[ref] = need
        for name, amount in need.amounts.items():
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, ref: Ref) -> bool:
        need = self.pods.pop(ref, None)
        for name, amount in need.amounts.items() if need is not None else ():
            self.used[name] -= amount
        return need is not None


# --- the controller --------------------------------------------------------------------------------------------------


class Binding:
    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}
        self._node_of: dict[Ref, str] = {}
        self._waiting: dict[Ref, None] = {}  # pods that fit nowhere, in the order in which that was seen
        self._has_seen_all = False

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"Pod", "Node"})

    def react(self, whom: Ref, view: View, now: Millis) -> Outcome:
        if not self._has_seen_all:
            self._has_seen_all = True
            for pod in view.all("Pod"):
                self._see(Ref.of(pod), pod)
        if whom.kind == "Node":
            return self._wake()
        pod = view.get(whom)
        has_freed = self._see(whom, pod)
        if pod is None or not _waits_for_node(pod):
            self._waiting.pop(whom, None)
            return self._wake() if has_freed else NOTHING
        return self._place(whom, pod, view, now)

    def _see(self, ref: Ref, pod: Pod | None) -> bool:
        """Count what a pod uses; whether something got free."""
        node = "" if pod is None or not may_run(pod) else read(pod.spec, PodSpec).node_name
        before = self._node_of.get(ref, "")
        if node == before:
            return False
        if before:
            self._rooms[before].remove(ref)
            del self._node_of[ref]
        if node and pod is not None:
            self._take(ref, node, _need(read(pod.spec, PodSpec)))
        return bool(before)

    def _take(self, ref: Ref, node: str, need: _Need) -> None:
        self._rooms.setdefault(node, _Room()).add(ref, need)
        self._node_of[ref] = node

    def _wake(self) -> Outcome:
        woken = [ref for ref, _ in zip(list(self._waiting), range(WOKEN_AT_ONCE), strict=False)]
        for ref in woken:  # they come to the end of the line again if they still fit nowhere
            del self._waiting[ref]
        return Outcome(look=tuple(woken))

    def _place(self, whom: Ref, pod: Pod, view: View, now: Millis) -> Outcome:
        spec = read(pod.spec, PodSpec)
        need = _need(spec)
        refusals: dict[str, int] = {}
        fitting = []
        for node in view.all("Node"):
            why = self._why_not(node, spec, need)
            if why:
                refusals[why] = refusals.get(why, 0) + 1
            else:
                fitting.append(node)
        if not fitting:
            return self._refuse(whom, pod, refusals, now)
        best = min(fitting, key=lambda node: (-self._free(node).get("cpu", 0), node.metadata.name))
        name = best.metadata.name
        self._waiting.pop(whom, None)
        self._take(whom, name, need)
        words = f"Successfully assigned {whom.namespace}/{whom.name} to {name}"
        change = Change(whom, Bind(name), status=False, uid=pod.metadata.uid)
        return Outcome((Action(change, notes=(Note(whom, "Normal", "Scheduled", words),)),))

    def _free(self, node: Node) -> dict[str, int]:
        room = self._rooms.get(node.metadata.name) or _Room()
        allocatable = _nanos(read(node.status, NodeStatus).allocatable)
        return {name: amount - room.used.get(name, 0) for name, amount in allocatable.items()}

    def _why_not(self, node: Node, spec: PodSpec, need: _Need) -> str:
        """What speaks against a node, as users know it; "": nothing does."""
        against = why_unsuitable(node, spec)
        if against:
            return against
        free = self._free(node)
        short = sorted(name for name, amount in need.amounts.items() if amount > max(0, free.get(name, 0)))
        if short:
            return (
                "Too many pods" if short == ["pods"] else f"Insufficient {', '.join(x for x in short if x != 'pods')}"
            )
        room = self._rooms.get(node.metadata.name)
        taken = {port for each in (room.pods.values() if room is not None else ()) for port in each.ports}
        return "node(s) didn't have free ports for the requested pod ports" if taken & need.ports else ""

    def _refuse(self, whom: Ref, pod: Pod, refusals: Mapping[str, int], now: Millis) -> Outcome:
        self._waiting[whom] = None
        count = sum(refusals.values())
        told = ", ".join(f"{number} {why}" for why, number in sorted(refusals.items()))
        message = f"0/{count} nodes are available: {told}." if told else "0/0 nodes are available."
        edit = TellUnschedulable(message, now)
        if edit(pod) == pod or _said(pod) == message:
            return NOTHING
        note = Note(whom, "Warning", "FailedScheduling", message)
        return Outcome((Action(Change(whom, edit, uid=pod.metadata.uid), notes=(note,)),))


def _said(pod: Pod) -> str:
    conditions = status_of_pod(pod).conditions
    return next((each.message for each in conditions if each.type == "PodScheduled" and each.status == "False"), "")


def _waits_for_node(pod: Pod) -> bool:
    spec = read(pod.spec, PodSpec)
    return not spec.node_name and not spec.scheduling_gates and pod.metadata.deletion_timestamp is None and may_run(pod)


def why_unsuitable(node: Node, spec: PodSpec) -> str:
    """What a node is and a pod does not want, or the other way round; room is another matter."""
    node_spec, status = read(node.spec, NodeSpec), read(node.status, NodeStatus)
    if node.metadata.deletion_timestamp is not None or not is_true(status.conditions, "Ready"):
        return "node(s) were not ready"
    if node_spec.unschedulable:
        return "node(s) were unschedulable"
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    required = spec.affinity.node_affinity.required
    if required is not None and not any(
        selects(tuple(_expressions(term.match_expressions)), labels)
        and selects(tuple(_expressions(term.match_fields)), {"metadata.name": node.metadata.name})
        and (term.match_expressions or term.match_fields)
        for term in required.node_selector_terms
    ):
        return "node(s) didn't match Pod's node affinity/selector"
    tolerations = [toleration_of(each) for each in spec.tolerations]
    for taint in node_spec.taints:
        if taint.effect in KEEPING_AWAY:
            lowered = Taint(taint.key, taint.value, taint.effect)
            if not any(each.tolerates(lowered) for each in tolerations):
                return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def _expressions(requirements: Iterable[Any]) -> Iterable[Expression]:
    return (Expression(each.key, each.operator, each.values) for each in requirements)
