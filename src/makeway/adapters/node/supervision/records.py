"""What lies in a pod's folder: the plan, the record, the order to stop. Plain JSON, for a process that imports little.

- ``plan.json``, from the agent, before anything starts: what to run. It never changes.
- ``record.jsonl``, from the supervisor: what became of it. Each change is a new line, and the last whole line counts.
- ``stop.json``, from the agent: end it, and how long that may take. A later one may only shorten the time.

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
READ_BYTES_MAX = 16 * 1024 * 1024  # ours are much smaller: a plan holds what its pod does, at most some megabytes
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
    """Something to do to a container: a command, a request, a connection, or just waiting. One of them is set."""

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
    grace_s: int | None = None  # None: that of the pod


@dataclass(frozen=True)
class ContainerPlan:
    name: str
    argv: tuple[str, ...]
    role: Role = "app"
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"  # where it starts
    memory_bytes: int | None = None  # of each of its processes
    startup: ProbePlan | None = None
    readiness: ProbePlan | None = None
    liveness: ProbePlan | None = None
    pre_stop: Handler | None = None
    stop_signal: int = 15


@dataclass(frozen=True)
class PodPlan:
    uid: str
    containers: tuple[ContainerPlan, ...]  # init containers and sidecars in their order, then the others
    restart: str = "Always"
    grace_s: int = 30
    deadline_s: int | None = None  # None: it may run for ever
    agent: str = ""  # the socket that is told of changes
    backoff_ms: int = 10_000  # before the second restart; doubles
    log_bytes: int = 64 * 1024 * 1024  # of each start of a container; the oldest part goes
    devices: tuple[str, ...] = ()  # of the machine, that nobody else gets meanwhile


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
    reason: str = "ContainerCreating"  # of waiting
    message: str = ""
    pid: int = 0  # while it runs: also its process group and session
    ticks: int = 0  # when that process began, in the kernel's count
    started_ms: int | None = None
    end: Exit | None = None
    last: Exit | None = None  # of the start before
    restarts: int = 0
    is_ready: bool = False
    has_started: bool = False


@dataclass(frozen=True)
class NoteRecord:
    """Something worth an event. ``number`` counts them; one that is repeated keeps its place and gets a new number."""

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
    clock_ms: int = 0  # what its clock is ahead of the time that the machine is up; 0: nobody noted it
    group: str = ""  # the control group of all its processes, where there is one


@dataclass(frozen=True)
class Stop:
    at_ms: int
    grace_ms: int
    reason: str = ""
    message: str = ""
    until_ms: int | None = None  # the same by a clock that nobody sets, which all processes of the machine share


# --- reading and writing ---------------------------------------------------------------------------------------------


def read_plan(folder: Path) -> PodPlan:
    data = _read(folder / PLAN)
    containers = tuple(_container_plan(each) for each in data.pop("containers"))
    return PodPlan(**{**data, "containers": containers, "devices": tuple(data.get("devices", ()))})


def read_record(folder: Path) -> PodRecord | None:
    """None where nothing has been started yet."""
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
    """None where there is no order, or what lies there is none: then a new one takes its place."""
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
    """The record of a pod, for its only writer. To append is much cheaper than to replace."""

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
        else:  # a full disk: what is half written is no line, and the next one must begin a new one
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """What was written outlives a crash of the machine."""
        os.fsync(self._file)


def _line(record: PodRecord) -> bytes:
    containers = [
        {**vars(each), "end": each.end and vars(each.end), "last": each.last and vars(each.last)}
        for each in record.containers
    ]
    whole = {**vars(record), "containers": containers, "notes": [vars(each) for each in record.notes]}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def _clear(path: str) -> None:
    """What lies there may be half a file of ours, or anything that the pod has made."""
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
    """A short name for a folder: the address of a socket has room for little more than a hundred letters."""
    file = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(read_plain(path))
    return data


def open_plain(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Open a file of a pod's folder, where its processes may have put anything. Raises OSError.

    A link is not followed, a pipe is not waited for: both are told as what cannot be read.
    """
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "Not a plain file", str(path))
    return file


def read_plain(path: str | Path, bytes_max: int = READ_BYTES_MAX) -> bytes:
    """All of a small file. Raises OSError."""
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
