"""Real pods for tests: plans become processes, and a test that leaves a process behind fails."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from makeway.adapters.node.launching import Launcher
from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.logbook import piece_name
from makeway.adapters.node.supervision.records import (
    LOGS,
    PLAN,
    STOP,
    ContainerPlan,
    ContainerRecord,
    PodPlan,
    PodRecord,
    Stop,
    read_record,
    write,
)

LONG_S = 20.0  # for what must happen; no test waits this long for what must not happen
PATH = os.environ.get("PATH", "/usr/bin:/bin")


def wait_for(what: Callable[[], bool], seconds: float = LONG_S) -> None:
    """Wait until the condition holds; a failure names what did not happen."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, f"this did not happen within {seconds} s: {what.__doc__ or what}"
        time.sleep(0.005)


def container(*argv: str, name: str = "work", **more: object) -> ContainerPlan:
    env = {"PATH": PATH, processes.CONTAINER_MARK: name}
    return ContainerPlan(name, argv, **{"env": env, **more})  # type: ignore[arg-type]


def script(text: str, name: str = "work", **more: object) -> ContainerPlan:
    return container("sh", "-c", text, name=name, **more)


class Pods:
    """Plans in, records out."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.folder = folder
        self.launcher = launcher
        self._count = 0
        self._uids: dict[str, None] = {}

    def start(self, *containers: ContainerPlan, restart: str = "Never", **more: object) -> Path:
        self._count += 1
        uid = f"{self._count}-{secrets.token_hex(4)}"  # other runs of these tests may use this machine
        self._uids[uid] = None
        folder = self.folder / uid
        folder.mkdir()
        marked = tuple(replace(each, env={**each.env, processes.POD_MARK: uid}) for each in containers)
        plan = PodPlan(uid, marked, **{"restart": restart, "grace_s": 5, "backoff_ms": 50, **more})  # type: ignore[arg-type]
        write(folder, PLAN, plan)
        assert self.launcher.launch(folder)
        return folder

    def run(self, *containers: ContainerPlan, **more: object) -> PodRecord:
        """Run a pod to its end."""
        return self.ended(self.start(*containers, **more))  # type: ignore[arg-type]

    def ended(self, folder: Path, seconds: float = LONG_S) -> PodRecord:
        wait_for(lambda: (found := read_record(folder)) is not None and found.finished_ms is not None, seconds)
        record = read_record(folder)
        assert record is not None
        return record

    def stop(self, folder: Path, grace_s: float = 5) -> None:
        write(folder, STOP, Stop(time.time_ns() // 1_000_000, int(grace_s * 1000)))
        record = read_record(folder)
        assert record is not None
        os.kill(record.pid, signal.SIGUSR1)

    def close(self) -> None:
        """End the test: remaining pods are ended, and reported as a failure."""
        left = [each for uid in self._uids for each in processes.of_pod(uid)]
        supervisors = [record for uid in self._uids if (record := read_record(self.folder / uid)) is not None]
        for each in supervisors:
            if each.finished_ms is not None:  # it is only ending
                wait_for(lambda each=each: not processes.is_alive(each.pid, each.ticks, each.boot))  # type: ignore[misc]
        running = [each for each in supervisors if processes.is_alive(each.pid, each.ticks, each.boot)]
        for record in running:
            os.kill(record.pid, signal.SIGTERM)
        for process in left:
            processes.send(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not left, f"processes were left behind: {left}"
        assert not running, f"supervisors were left behind: {running}"


def one(record: PodRecord | None, name: str = "work") -> ContainerRecord:
    assert record is not None
    return next(each for each in record.containers if each.name == name)


def code(record: PodRecord, name: str = "work") -> int:
    end = one(record, name).end
    assert end is not None
    return end.code


def log(folder: Path, name: str = "work", restart: int = 0) -> bytes:
    """The whole log of a container."""
    pieces = sorted((folder / LOGS / name).glob(f"{restart}.*.log"))
    return b"".join(each.read_bytes() for each in pieces)


def pieces(folder: Path, name: str = "work") -> Sequence[str]:
    return sorted(each.name for each in (folder / LOGS / name).glob("*.log"))


__all__ = [
    "LONG_S", "PATH", "Pods", "code", "container", "log", "one", "piece_name", "pieces", "script", "wait_for",
]  # fmt: skip
