"""The files in a pod's folder: plan, record, order to stop. Plain JSON, for a process that imports little.

- ``plan.json``, from the agent, before anything starts: what to run. It never changes.
- ``record.jsonl``, from the supervisor: the state of the pod. A change is a new line; the last complete line counts.
- ``stop.json``, from the agent: the order to stop, and the time for it. A later order may only shorten the time.

Standard library only: supervisors share the memory of the process they are forked from, so that process stays small.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

PLAN, RECORD, STOP, LOCK, TROUBLE = "plan.json", "record.jsonl", "stop.json", "lock", "trouble.txt"
LOGS, VOLUMES, SCRATCH = "logs", "volumes", "scratch"
NOTES_MAX = 50
RECORD_BYTES_MAX = 256 * 1024  # then a new file is begun
READ_BYTES_MAX = 16 * 1024 * 1024  # ours are much smaller: a plan has some megabytes at most
PARTIAL = ".partial"  # a file that is still being written

Role = Literal["init", "sidecar", "app"]
Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
State = Literal["waiting", "running", "ended"]


# --- the plan --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Http:
    """A request to the pod, which shares the machine's network."""

    port: int
    host: str = "127.0.0.1"
    path: str = "/"
    is_tls: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Handler:
    """An action in a container: a command, a request, a connection, or a sleep. Exactly one field is set."""

    command: tuple[str, ...] = ()
    http: Http | None = None
    tcp: tuple[str, int] | None = None
    sleep_s: int | None = None


@dataclass(frozen=True)
class ProbePlan:
    handler: Handler
    delay_s: int = 0
    timeout_s: int = 1
    period_s: int = 10
    successes: int = 1
    failures: int = 3
    grace_s: int | None = None  # None: the grace period of the pod


@dataclass(frozen=True)
class ContainerPlan:
    name: str
    argv: tuple[str, ...]
    role: Role = "app"
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"  # the working directory
    memory_bytes: int | None = None  # the limit of each of its processes
    startup: ProbePlan | None = None
    readiness: ProbePlan | None = None
    liveness: ProbePlan | None = None
    pre_stop: Handler | None = None
    stop_signal: int = 15


@dataclass(frozen=True)
class PodPlan:
    uid: str
    containers: tuple[ContainerPlan, ...]  # init containers and sidecars in order, then the others
    restart: str = "Always"
    grace_s: int = 30
    deadline_s: int | None = None  # None: no deadline
    agent: str = ""  # the socket that is called on changes
    backoff_ms: int = 10_000  # before the second restart; doubles
    log_bytes: int = 64 * 1024 * 1024  # for each start of a container; the oldest part is dropped
    devices: tuple[str, ...] = ()  # of the machine, for this pod alone


# --- the record ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exit:
    code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_ms: int | None = None  # None: it never ran
    finished_ms: int = 0


@dataclass(frozen=True)
class ContainerRecord:
    name: str
    role: Role = "app"
    state: State = "waiting"
    reason: str = "ContainerCreating"  # the waiting reason
    message: str = ""
    pid: int = 0  # of the running process; also its process group and session
    ticks: int = 0  # when that process began, in the kernel's count
    started_ms: int | None = None
    end: Exit | None = None
    last: Exit | None = None  # the end of the previous start
    restarts: int = 0
    is_ready: bool = False
    has_started: bool = False


@dataclass(frozen=True)
class NoteRecord:
    """A note that becomes an event. ``number`` counts notes; a repeated note keeps its place and gets a new number."""

    number: int
    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True)
class PodRecord:
    uid: str
    pid: int  # of the supervisor
    ticks: int
    boot: str
    began_ms: int
    phase: Phase = "Pending"
    reason: str = ""
    message: str = ""
    finished_ms: int | None = None  # not None: no process of it is left, and none will come
    containers: tuple[ContainerRecord, ...] = ()
    notes: tuple[NoteRecord, ...] = ()
    clock_ms: int = 0  # its clock minus the uptime of the machine; 0: not recorded
    group: str = ""  # the control group of all its processes, if there is one


@dataclass(frozen=True)
class Stop:
    at_ms: int
    grace_ms: int
    reason: str = ""
    message: str = ""
    until_ms: int | None = None  # the same on a clock that cannot be set, shared by all processes of the machine


# --- reading and writing ---------------------------------------------------------------------------------------------


def read_plan(folder: Path) -> PodPlan:
    data = _read(folder / PLAN)
    containers = tuple(_container_plan(each) for each in data.pop("containers"))
    return PodPlan(**{**data, "containers": containers, "devices": tuple(data.get("devices", ()))})


def read_record(folder: Path) -> PodRecord | None:
    """Return the last record; None if the pod has not been started."""
    try:
        lines = read_plain(folder / RECORD)
    except FileNotFoundError:
        return None
    end = lines.rfind(b"\n")
    if end < 0:
        return None
    data: dict[str, Any] = json.loads(lines[lines.rfind(b"\n", 0, end) + 1 : end])
    containers = tuple(
        ContainerRecord(**{**each, "end": _exit(each["end"]), "last": _exit(each["last"])})
        for each in data.pop("containers")
    )
    notes = tuple(NoteRecord(**each) for each in data.pop("notes"))
    return PodRecord(**{**data, "containers": containers, "notes": notes})


def read_stop(folder: Path) -> Stop | None:
    """Return the order to stop; None if there is no valid one: then a new one may be written."""
    try:
        return Stop(**_read(folder / STOP))
    except (OSError, ValueError, TypeError):
        return None


def write(folder: Path, name: str, value: PodPlan | Stop) -> None:
    """Replace a file as a whole: a reader sees the old one or the new one."""
    path = f"{folder}/{name}"
    _write_new(f"{path}{PARTIAL}", json.dumps(asdict(value), separators=(",", ":")).encode())
    try:
        os.rename(f"{path}{PARTIAL}", path)
    except IsADirectoryError:
        _clear(path)
        os.rename(f"{path}{PARTIAL}", path)


class RecordFile:
    """The record of a pod, for its only writer. Appending is much cheaper than replacing."""

    def __init__(self, folder: Path) -> None:
        self._path = f"{folder}/{RECORD}"
        self._file = open_plain(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._size = os.fstat(self._file).st_size

    def write(self, record: PodRecord) -> None:
        line = _line(record)
        if self._size + len(line) > RECORD_BYTES_MAX:
            _write_new(f"{self._path}{PARTIAL}", line)
            os.rename(f"{self._path}{PARTIAL}", self._path)
            os.close(self._file)
            self._file = open_plain(self._path, os.O_WRONLY | os.O_APPEND)
            self._size = len(line)
        elif os.write(self._file, line) == len(line):
            self._size += len(line)
        else:  # a full disk: a partial line is ignored, and the next record begins a new line
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        os.fsync(self._file)


def _line(record: PodRecord) -> bytes:
    containers = [
        {
            **vars(container),
            "end": container.end and vars(container.end),
            "last": container.last and vars(container.last),
        }
        for container in record.containers
    ]
    whole = {**vars(record), "containers": containers, "notes": [vars(note) for note in record.notes]}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def _clear(path: str) -> None:
    """Remove whatever is at a path: a partial file of ours, or anything that the pod has made."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        import shutil

        shutil.rmtree(path)


def _write_new(path: str, data: bytes) -> None:
    _clear(path)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


@contextmanager
def opened(folder: Path) -> Iterator[str]:
    """A short name for a folder: the address of a socket has only about a hundred letters."""
    file = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(read_plain(path))
    return data


def open_plain(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Open a file in a pod's folder, where processes of the pod may have put anything. Raises OSError.

    Links are not followed and pipes not waited for: both count as unreadable.
    """
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "Not a plain file", str(path))
    return file


def read_plain(path: str | Path, bytes_max: int = READ_BYTES_MAX) -> bytes:
    """Read a small file. Raises OSError."""
    with os.fdopen(open_plain(path), "rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def _exit(data: dict[str, Any] | None) -> Exit | None:
    return None if data is None else Exit(**data)


def _container_plan(data: dict[str, Any]) -> ContainerPlan:
    probes = {name: _probe(data.get(name)) for name in ("startup", "readiness", "liveness")}
    return ContainerPlan(**{**data, **probes, "argv": tuple(data["argv"]), "pre_stop": _handler(data.get("pre_stop"))})


def _probe(data: dict[str, Any] | None) -> ProbePlan | None:
    return None if data is None else ProbePlan(**{**data, "handler": _handler(data["handler"])})


def _handler(data: dict[str, Any] | None) -> Handler | None:
    if data is None:
        return None
    http, tcp = data.get("http"), data.get("tcp")
    return Handler(
        command=tuple(data.get("command", ())),
        http=None if http is None else Http(**http),
        tcp=None if tcp is None else (tcp[0], tcp[1]),
        sleep_s=data.get("sleep_s"),
    )
