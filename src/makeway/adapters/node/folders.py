"""The folder of a pod, from the agent's side: the plan, the record of the supervisor, and the order to stop.

``<root>/<uid>/`` holds the plan, the record, the logs and the pod's own volumes. It stays until the pod object is gone,
so that logs can be read after the end.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from makeway.adapters.node.fields import PlannedPod
from makeway.adapters.node.supervision import control_groups, processes
from makeway.adapters.node.supervision.records import (
    LOGS,
    PLAN,
    SCRATCH,
    TROUBLE,
    PodPlan,
    PodRecord,
    Stop,
    read_plain,
    read_plan,
    read_record,
    read_stop,
    write,
)
from makeway.adapters.node.supervision.records import STOP as STOP_FILE
from makeway.adapters.node.volumes import make

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
TROUBLE_MAX = 2000


def supervised(root: Path) -> Iterator[processes.Process]:
    """The running supervisors that work in the folders of a server."""
    for folder in PodFolder.all(root) if root.is_dir() else ():
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = folder.record()
            if record is not None and record.finished_ms is None and record.boot == processes.boot_id():
                found = processes.find(record.pid)
                if found is not None and found.ticks == record.ticks and not found.is_zombie:
                    yield found


class PodFolder:
    def __init__(self, root: Path, uid: str) -> None:
        if not _UID.fullmatch(uid):
            raise ValueError(f"{uid!r} cannot name a folder")
        self.uid = uid
        self.path = root / uid
        self._record: PodRecord | None = None

    @classmethod
    def all(cls, root: Path) -> Iterator[PodFolder]:
        for path in sorted(root.iterdir()):
            if path.is_dir() and _UID.fullmatch(path.name):
                yield cls(root, path.name)

    # --- before the start ---

    @property
    def is_planned(self) -> bool:
        return (self.path / PLAN).exists()

    def prepare(self, planned: PlannedPod) -> None:
        """Make all that the pod needs; the plan is written last. Raises NotThere."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / SCRATCH).mkdir(exist_ok=True)
        for folder in planned.folders:
            make(folder)
        write(self.path, PLAN, planned.plan)

    def plan(self) -> PodPlan | None:
        try:
            return read_plan(self.path)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    # --- while it runs ---

    def record(self) -> PodRecord | None:
        """The newest record that could be read: processes of the pod may have replaced the file."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = read_record(self.path)
            self._record = found or self._record
            return found
        return self._record

    def trouble(self) -> str:
        """Why a supervisor ended before it could begin."""
        try:
            text = read_plain(self.path / TROUBLE).decode("utf-8", "replace")
        except OSError:
            return ""
        return text.strip().rpartition("\n")[2][:TROUBLE_MAX]

    def stop(self, grace_ms: int, now_ms: int, reason: str = "", message: str = "") -> int:
        """Order the supervisor to stop, unless an earlier order leaves less time; return the time left (late: below 0).

        The time is counted by a clock that cannot be set: setting the machine's clock forward takes no time from a pod.
        """
        steady_ms = time.monotonic_ns() // 1_000_000
        order, left = read_stop(self.path), grace_ms
        if order is not None:
            until = order.at_ms + order.grace_ms - now_ms if order.until_ms is None else order.until_ms - steady_ms
            left = min(until, order.grace_ms)
        if order is None or left > grace_ms:
            left = grace_ms
            write(self.path, STOP_FILE, Stop(now_ms, grace_ms, reason, message, steady_ms + grace_ms))
        self.call()
        return left

    def call(self) -> None:
        """Make the supervisor read its orders, also a suspended one."""
        found = self._supervisor(self.record())
        if found is not None:
            processes.send(found, signal.SIGUSR1)
            processes.send(found, signal.SIGCONT)

    def kill(self, record: PodRecord) -> None:
        """Kill a pod whose supervisor does not end it: first the supervisor, so that it starts nothing, then
        all below.
        """
        found = self._supervisor(record)
        below = processes.descendants(record.pid, processes.all_processes()) if found is not None else []
        if found is not None and not control_groups.kill(record.group, self.uid):
            for each in (found, *below):
                processes.send(each, signal.SIGKILL)

    def _supervisor(self, record: PodRecord | None) -> processes.Process | None:
        if record is None or record.finished_ms is not None or record.boot != processes.boot_id():
            return None
        found = processes.find(record.pid)
        return found if found is not None and found.ticks == record.ticks else None

    # --- after the end ---

    def end_strays(self, record: PodRecord) -> int:
        """Kill the processes of a lost supervisor; return how many there were."""
        sessions = {
            container.pid
            for container in record.containers
            if container.pid and _is_ours(container.pid, container.ticks)
        }
        if record.boot != processes.boot_id():
            return 0
        found = {*processes.of_pod(self.uid, sessions), *control_groups.members(record.group, self.uid)}
        if found:
            control_groups.kill(record.group, self.uid)
        for each in found:
            processes.send(each, signal.SIGKILL)
        return len(found)

    def logs(self, container: str) -> Path:
        return self.path / LOGS / container

    def remove(self) -> None:
        """Remove the folder, also read-only files in it."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            record = self.record()
            if record is not None:
                control_groups.remove(record.group, self.uid)
        shutil.rmtree(self.path, onerror=_allow_and_retry)


def _is_ours(session: int, ticks: int) -> bool:
    """Return whether a session still belongs to the process that began it: its number is reused only when all
    are gone.
    """
    leader = processes.find(session)
    return leader is None or leader.ticks == ticks


def _allow_and_retry(function: object, path: str, _error: object) -> None:
    try:
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        pass  # tried again at the next start
