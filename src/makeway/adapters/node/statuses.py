"""The status of a pod, from the record of its supervisor: phase, conditions, container statuses.

Pure: equal records give equal statuses. Conditions of other writers are kept; the time of a condition changes only with
its status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Raw

from makeway.adapters.node.environment import NodePlace
from makeway.adapters.node.supervision.records import ContainerRecord, Exit, PodRecord
from makeway.api.conditions import cut
from makeway.api.objects.kubernetes import Pod, amended, view
from makeway.api.objects.pods import Container, PodSpec
from makeway.api.quantity import Time

Tree = dict[str, Any]
MESSAGE_BYTES_MAX = 1024  # one container's reason for waiting
MESSAGES_BYTES_MAX = 256 * 1024  # of all containers: each message names all missing objects
SUPERVISOR_LOST, SUPERVISOR_STUCK, NODE_RESTARTED = "SupervisorLost", "SupervisorStuck", "NodeRestarted"
CLOCKS_APART_MS = 1000  # two clocks may differ by this much before times are corrected


@dataclass(frozen=True)
class SupervisorLost:
    """The supervisor is gone, and nobody knows how its containers ended."""

    reason: str
    message: str
    at_ms: int


def lost_supervisor(at_ms: int, *, same_boot: bool) -> SupervisorLost:
    if same_boot:
        words = (
            "the supervisor of the pod was killed; the processes of the pod were ended, their exit codes are unknown"
        )
        return SupervisorLost(SUPERVISOR_LOST, words, at_ms)
    return SupervisorLost(NODE_RESTARTED, "the machine was restarted while the pod ran", at_ms)


def stuck_supervisor(at_ms: int) -> SupervisorLost:
    words = (
        "the supervisor of the pod did not end it within its grace period; it and all processes of the pod were "
        "killed, their exit codes are unknown"
    )
    return SupervisorLost(SUPERVISOR_STUCK, words, at_ms)


def dated(record: PodRecord, clock_ms: int) -> PodRecord:
    """Return the record of a pod that has ended, with times of a clock that is ``clock_ms`` ahead of the machine's.

    A supervisor uses the wall time of its beginning. Controllers count from the end of a pod (back-off, time to live)
    by the server's clock, and must not wait because one of the two clocks was set meanwhile.
    """
    apart = clock_ms - record.clock_ms
    if record.finished_ms is None or not record.clock_ms or abs(apart) < CLOCKS_APART_MS:
        return record
    containers = tuple(
        replace(container, end=_moved(container.end, apart), last=_moved(container.last, apart))
        for container in record.containers
    )
    finished, began = record.finished_ms + apart, record.began_ms + apart
    return replace(record, began_ms=began, finished_ms=finished, containers=containers)


def _moved(end: Exit | None, ms: int) -> Exit | None:
    if end is None:
        return None
    started = None if end.started_ms is None else end.started_ms + ms
    return replace(end, started_ms=started, finished_ms=end.finished_ms + ms)


def status_of(pod: Pod, record: PodRecord, place: NodePlace, now_ms: int, lost: SupervisorLost | None = None) -> Raw:
    """The whole status, made from the stored one. Changes without a recorded time get ``now_ms``."""
    spec = view(pod.spec, PodSpec)
    containers = {container.name: container for container in record.containers}
    if lost is not None:
        containers = {name: _ended_with(each, lost) for name, each in containers.items()}
    phase = "Failed" if lost is not None else record.phase
    reason, message = (record.reason, record.message) if lost is None else (lost.reason, lost.message)
    has_ended = lost is not None or record.finished_ms is not None
    changes = {
        "phase": phase,
        "reason": (reason or None) if has_ended else None,
        "message": (message or None) if has_ended else None,
        "startTime": _time(record.began_ms),
        "hostIP": place.address,
        "hostIPs": [{"ip": place.address}],
        "podIP": place.address,
        "podIPs": [{"ip": place.address}],
        "qosClass": qos_class(spec),
        "initContainerStatuses": _statuses(spec.init_containers, containers, record.uid),
        "containerStatuses": _statuses(spec.containers, containers, record.uid),
    }
    at_ms = record.finished_ms or (now_ms if lost is None else lost.at_ms)
    conditions = _conditions(spec, containers, phase, has_ended)
    return amended(pod.status, {**changes, "conditions": _merged(pod.status, conditions, at_ms)})


def waiting_status(pod: Pod, reason: str, message: str, at_ms: int) -> Raw:
    """The status of a pod that has not begun, and why not."""
    spec = view(pod.spec, PodSpec)
    every = tuple(_all(spec))
    words = cut(message, min(MESSAGE_BYTES_MAX, MESSAGES_BYTES_MAX // max(1, len(every))))
    records = {each.name: ContainerRecord(each.name, reason=reason, message=words) for each in every}
    conditions = _conditions(spec, records, "Pending", False)
    return amended(pod.status, {
        "phase": "Pending", "qosClass": qos_class(spec),
        "initContainerStatuses": _statuses(spec.init_containers, records, pod.metadata.uid),
        "containerStatuses": _statuses(spec.containers, records, pod.metadata.uid),
        "conditions": _merged(pod.status, conditions, at_ms),
    })  # fmt: skip


def _all(spec: PodSpec) -> Iterable[Container]:
    return (*spec.init_containers, *spec.containers)


# --- containers ------------------------------------------------------------------------------------------------------


def _statuses(containers: Sequence[Container], records: Mapping[str, ContainerRecord], uid: str) -> list[Tree] | None:
    found = [
        _status(container, records.get(container.name) or ContainerRecord(container.name), uid)
        for container in containers
    ]
    return found or None


def _status(container: Container, record: ContainerRecord, uid: str) -> Tree:
    has_begun = record.started_ms is not None or record.end is not None or record.last is not None
    name = f"makeway://{uid}/{record.name}/{record.restarts}"
    last = record.last if record.state != "waiting" else record.end or record.last
    return {
        "name": record.name,
        "state": _state(record, name),
        "lastState": {} if last is None else {"terminated": _terminated(last, "")},
        "ready": record.is_ready or (record.role == "init" and record.end is not None and record.end.code == 0),
        "started": record.has_started and record.state == "running",
        "restartCount": record.restarts,
        "image": container.image,
        "imageID": "",
        **({"containerID": name} if has_begun else {}),
    }


def _state(record: ContainerRecord, name: str) -> Tree:
    if record.state == "running" and record.started_ms is not None:
        return {"running": {"startedAt": _time(record.started_ms)}}
    if record.state == "ended" and record.end is not None:
        return {"terminated": _terminated(record.end, name)}
    words = {"message": record.message} if record.message else {}
    return {"waiting": {"reason": record.reason or "ContainerCreating", **words}}


def _terminated(end: Exit, name: str) -> Tree:
    return {
        "exitCode": end.code,
        **({"signal": end.signal} if end.signal else {}),
        "reason": end.reason,
        **({"message": end.message} if end.message else {}),
        **({} if end.started_ms is None else {"startedAt": _time(end.started_ms)}),
        "finishedAt": _time(end.finished_ms),
        **({"containerID": name} if name else {}),
    }


def _ended_with(record: ContainerRecord, lost: SupervisorLost) -> ContainerRecord:
    """The end of a container whose end was not recorded; a container that had ended before keeps its own end."""
    if record.state == "ended":
        return record
    end = Exit(137, 9, lost.reason, "its end was not seen", record.started_ms, lost.at_ms)
    return ContainerRecord(
        record.name, record.role, "ended", reason="", started_ms=record.started_ms, end=end, last=record.last,
        restarts=record.restarts,
    )  # fmt: skip


# --- the pod ---------------------------------------------------------------------------------------------------------


def _conditions(
    spec: PodSpec, records: Mapping[str, ContainerRecord], phase: str, has_ended: bool
) -> list[tuple[str, str, str, str]]:
    """The conditions as type, status, reason, message."""
    early = [records[init_container.name] for init_container in spec.init_containers if init_container.name in records]
    late = [each.name for each in early if not _is_through(each)]
    unready = [
        container.name
        for container in spec.containers
        if container.name not in records or not records[container.name].is_ready
    ]
    unready += [each.name for each in early if each.role == "sidecar" and not each.is_ready]
    if late:
        words = ("False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(late)}]")
    else:
        words = ("True", "PodCompleted" if has_ended and phase == "Succeeded" else "", "")
    ready = _readiness(unready, phase, has_ended)
    return [
        ("PodScheduled", "True", "", ""), ("Initialized", *words), ("ContainersReady", *ready), ("Ready", *ready),
    ]  # fmt: skip


def _is_through(record: ContainerRecord) -> bool:
    if record.role == "sidecar":
        return record.has_started or record.end is not None
    return record.end is not None and record.end.code == 0


def _readiness(unready: list[str], phase: str, has_ended: bool) -> tuple[str, str, str]:
    if has_ended and phase == "Succeeded":
        return "False", "PodCompleted", ""
    if has_ended:
        return "False", "PodFailed", ""
    if unready:
        return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return "True", "", ""


def _merged(status: Raw, wanted: Iterable[tuple[str, str, str, str]], at_ms: int) -> list[Tree]:
    before: list[Tree] = msgspec.json.decode(status).get("conditions") or []
    found = {each["type"]: each for each in before}
    for type_, value, reason, message in wanted:
        old = found.get(type_, {})
        since = old["lastTransitionTime"] if old.get("status") == value else _time(at_ms)
        new = {"type": type_, "status": value, "lastTransitionTime": since}
        found[type_] = {**new, **({"reason": reason} if reason else {}), **({"message": message} if message else {})}
    return list(found.values())


def qos_class(spec: PodSpec) -> str:
    """Guaranteed, Burstable or BestEffort, from the containers' requests and limits of cpu and memory."""
    asked = [
        (each.resources.requests.get(name), each.resources.limits.get(name))
        for each in _all(spec)
        for name in ("cpu", "memory")
    ]
    if not any(request or limit for request, limit in asked):
        return "BestEffort"
    whole = all(limit is not None and request in (None, limit) for request, limit in asked)
    return "Guaranteed" if whole else "Burstable"


def _time(ms: int) -> str:
    return str(Time.of_millis(ms - ms % 1000))
