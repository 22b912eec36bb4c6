"""Follows a Job to its end: its status in words, and the output of its pods.

Status goes to stderr, output to stdout, as if the Job ran here. A preempted Job is followed on: its log goes on where
it starts again. A server that is away for a while is waited for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import resource_of
from makeway.adapters.kubernetes.streams import Bytes
from makeway.adapters.kubernetes.transport import Object
from makeway.api.objects.kubernetes import Job, Pod
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.cli.terminal.screen import echo, plain, plural
from makeway.runtime.ports import NotFound, Retryable, StoreError

JOBS, PODS, WORKLOADS = (resource_of(kind_of(each)) for each in (Job, Pod, Workload))
LOOK_SECONDS = 0.25
AWAY_SECONDS = 300.0  # a server may be away this long
LOG_END_SECONDS = 10.0  # the last output of a Job may take this long
TIMED_OUT, LOST = 124, 1  # exit codes


# --- what the server says ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobSeen:
    """A Job with all objects that tell its status; ``job`` is None if there is none (any more)."""

    job: Object | None
    workload: Object | None = None
    pods: tuple[Object, ...] = ()


def seen(client: Client, namespace: str, name: str) -> JobSeen:
    try:
        job = client.get(JOBS, namespace, name)
    except NotFound:
        return JobSeen(None)
    uid = str(job["metadata"]["uid"])
    owned = client.list(WORKLOADS, namespace, labels=f"kueue.x-k8s.io/job-uid={uid}").get("items") or []
    pods = client.list(PODS, namespace, labels=f"batch.kubernetes.io/controller-uid={uid}").get("items") or []
    return JobSeen(job, owned[0] if owned else None, tuple(pods))


def condition(tree: Object | None, type_: str) -> Object | None:
    """Return a condition that is True."""
    found = ((tree or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == type_ and each["status"] == "True"), None)


def exit_codes(pods: tuple[Object, ...]) -> Iterator[tuple[str, int, Object]]:
    """Yield pods with the code and end of their first container that failed, else of the last one."""
    for pod in sorted(pods, key=lambda each: str(each["metadata"]["name"])):
        status = pod.get("status") or {}
        both = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
        ends = [each["state"]["terminated"] for each in both if "terminated" in (each.get("state") or {})]
        if ends:
            end = next((each for each in ends if each["exitCode"] != 0), ends[-1])
            yield str(pod["metadata"]["name"]), int(end["exitCode"]), end


@dataclass(frozen=True)
class Ended:
    code: int
    words: str


def ended(found: JobSeen) -> Ended | None:
    """How it ended; None while it may still run."""
    if found.job is None:
        return Ended(LOST, "the job was deleted")
    if condition(found.job, "Complete") is not None:
        return Ended(0, "complete")
    failed = condition(found.job, "Failed")
    if failed is not None:
        bad = [(name, code, end) for name, code, end in exit_codes(found.pods) if code]
        if not bad:
            return Ended(TIMED_OUT if failed.get("reason") == "DeadlineExceeded" else LOST, _failure(failed))
        name, code, end = bad[0]
        words = str(end.get("message") or "") or f"pod {name} ended with exit code {code}"
        return Ended(code, words)
    return _deactivated(found.workload)


def _failure(failed: Object) -> str:
    return str(failed.get("message") or failed.get("reason") or "the job failed")


def _deactivated(workload: Object | None) -> Ended | None:
    """Whether makeway stopped it for good."""
    if workload is None or workload["spec"].get("active", True):
        return None
    evicted = condition(workload, "Evicted") or {}
    if not evicted and condition(workload, "Admitted") is not None:
        return None  # the eviction has the reason
    is_late = "MaximumExecutionTime" in str(evicted.get("reason", ""))
    words = str(evicted.get("message") or "it was deactivated")
    return Ended(TIMED_OUT if is_late else LOST, f"stopped: {words}")


def standing(found: JobSeen) -> str:
    """The status of a Job that has not ended, in a sentence; "" if there is nothing to report yet."""
    workload = found.workload
    if workload is None:
        return ""
    queue = workload["spec"].get("queueName", "")
    evicted, admitted = condition(workload, "Evicted"), condition(workload, "Admitted")
    if evicted is not None and admitted is not None:
        return f"has to stop: {evicted.get('message') or evicted.get('reason')}"
    if admitted is None:
        conditions = (workload.get("status") or {}).get("conditions") or ()
        why = next((str(each.get("message") or "") for each in conditions if each["type"] == "QuotaReserved"), "")
        return f"waits in queue {queue}: {why}" if why else f"waits in queue {queue}"
    phases = [(pod.get("status") or {}).get("phase") for pod in found.pods]
    there = [phase for phase in phases if phase not in ("Succeeded", "Failed")]
    if there and all(phase == "Running" for phase in there):
        return f"runs ({plural(len(there), 'pod')})" if len(phases) > 1 else "runs"
    stuck = _stuck(found.pods)
    return stuck or "starts"


def evictions(workload: Object | None) -> int:
    """How often it was evicted."""
    stats = ((workload or {}).get("status") or {}).get("schedulingStats") or {}
    return sum(int(each.get("count") or 0) for each in stats.get("evictions") or ())


def _stuck(pods: tuple[Object, ...]) -> str:
    """Why a pod of an admitted Job does not start."""
    for pod in pods:
        status = pod.get("status") or {}
        for each in status.get("containerStatuses") or ():
            waiting = (each.get("state") or {}).get("waiting") or {}
            if waiting.get("message"):
                return f"cannot start: {waiting.get('reason')}: {waiting['message']}"
        for each in status.get("conditions") or ():
            if each["type"] == "PodScheduled" and each["status"] == "False":
                return f"waits for a node: {each.get('message')}"
    return ""


# --- logs ------------------------------------------------------------------------------------------------------------


@dataclass
class PodLog:
    """One container's log on its way to stdout, in a thread of its own; it reconnects, and shows nothing twice."""

    client: Client
    namespace: str
    pod: str
    query: dict[str, str]
    write: Callable[[bytes], None]
    _count: int = 0
    _stream: Bytes | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    problem: StoreError | None = None

    def start(self) -> PodLog:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        if self._stream is not None:
            self._stream.close()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        until = time.monotonic() + AWAY_SECONDS
        while not self._stopped.is_set() and time.monotonic() < until:
            try:
                self._copy()
                return
            except Retryable as error:
                self.problem = error
                time.sleep(LOOK_SECONDS * 2)
            except StoreError as error:  # the log is gone with its pod
                self.problem = error
                return

    def _copy(self) -> None:
        self._stream = self.client.log(PODS, self.namespace, self.pod, self.query)
        skip = self._count
        for part in self._stream:
            shown = part[skip:]
            skip = max(0, skip - len(part))
            if shown:
                self.write(shown)
                self._count += len(shown)


def to_stdout(prefix: str = "") -> Callable[[bytes], None]:
    """Write bytes as they are; with a prefix line by line, because several pods write at once."""
    out = sys.stdout.buffer
    rest = b""

    def plainly(part: bytes) -> None:
        with _LOCK:
            out.write(part)
            out.flush()

    def by_line(part: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + part).split(b"\n")
        if lines:
            plainly(b"".join(f"[{prefix}] ".encode() + line + b"\n" for line in lines))

    return by_line if prefix else plainly


_LOCK = threading.Lock()


# --- following -------------------------------------------------------------------------------------------------------


class JobFollower:
    """Reports on a Job and shows its log until it has ended."""

    def __init__(self, client: Client, namespace: str, name: str, *, many: bool = False) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._many = many
        self._logs: dict[str, PodLog] = {}  # by the uid of the pod
        self._told = ""
        self._evictions = 0

    def follow(self) -> Ended:
        while True:
            found = self._look()
            self._attach(found)
            self._tell_eviction(found.workload)
            end = ended(found)
            if end is not None:
                for log in self._logs.values():
                    log.join(LOG_END_SECONDS)
                return end
            self._tell(standing(found))
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        for log in self._logs.values():
            log.stop()

    def _look(self) -> JobSeen:
        until = time.monotonic() + AWAY_SECONDS
        while True:
            try:
                return seen(self._client, self._namespace, self._name)
            except Retryable:
                if time.monotonic() > until:
                    raise
                self._tell("the server cannot be reached; the job goes on, and is looked for again")
                time.sleep(LOOK_SECONDS * 4)

    def _attach(self, found: JobSeen) -> None:
        for pod in found.pods:
            uid, status = str(pod["metadata"]["uid"]), pod.get("status") or {}
            if uid in self._logs or not _has_begun(status):
                continue
            name = str(pod["metadata"]["name"])
            write = to_stdout(name.removeprefix(f"{self._name}-") if self._many else "")
            self._logs[uid] = PodLog(self._client, self._namespace, name, {"follow": "true"}, write).start()

    def _tell_eviction(self, workload: Object | None) -> None:
        """Report evictions, also if the Job waits or runs again by now."""
        count = evictions(workload)
        if count > self._evictions:
            evicted: Object = next(
                (each for each in ((workload or {}).get("status") or {}).get("conditions") or ()
                 if each["type"] == "Evicted"), {},
            )  # fmt: skip
            self._tell(f"makes way: {evicted.get('message') or 'it was evicted'}; it will start again")
        self._evictions = max(count, self._evictions)

    def _tell(self, words: str) -> None:
        if words and words != self._told:
            self._told = words
            echo(click.style(f"{self._name}: {plain(words)}", dim=True), err=True)


def _has_begun(status: Any) -> bool:
    found = status.get("containerStatuses") or ()
    return any("running" in (each.get("state") or {}) or "terminated" in (each.get("state") or {}) for each in found)
