"""No process is left behind: ended children are reaped, and leftovers of a container's first process are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.containers import Moment, RunningContainer

SWEEP_MS = (5, 10, 20, 50, 100, 200, 500)  # between two checks for leftovers


class Sweeper:
    """The children of the supervisor, and all below them."""

    def __init__(self, containers: Sequence[RunningContainer]) -> None:
        self.has_children = False
        self.next_ms: int | None = None  # the next check for leftovers
        self._containers = containers
        self._sweeps = 0  # checks since a leftover was last seen to end

    def collect(self, moment: Moment) -> None:
        """Reap all children that have ended."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self.has_children = False
                return
            self.has_children = True
            if ended is None:
                return
            pid = ended.si_pid
            if any(container.pid == pid for container in self._containers):
                with suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)  # its number is ours until it is reaped
            _, status = os.waitpid(pid, 0)
            self._sweeps = 0
            self.next_ms = moment.ms if self.next_ms is not None else None
            for container in self._containers:
                if container.collected(pid, status, moment):
                    break

    def sweep(self, moment: Moment, *, is_stopping: bool) -> None:
        """Kill leftovers of first processes; a container without leftovers has ended."""
        sweeping = [container for container in self._containers if container.is_sweeping]
        is_last = is_stopping and not any(container.is_up for container in self._containers)
        if not sweeping and not (is_last and self.has_children):
            self.next_ms = None
            return
        if not self.has_children:
            for container in sweeping:
                container.swept(moment)
            self.next_ms = None
            return
        if self.next_ms is not None and moment.ms < self.next_ms:
            return
        with suppress(OSError):  # leftovers are unknown: the kernel is asked again
            left = self._left(sweeping)
            for container in sweeping:
                if not left.get(container.plan.name):
                    container.swept(moment)
            for process in (process for some in left.values() for process in some):
                processes.send(process, signal.SIGKILL)
        self.next_ms = moment.ms + SWEEP_MS[min(self._sweeps, len(SWEEP_MS) - 1)]
        self._sweeps += 1

    def _left(self, sweeping: list[RunningContainer]) -> dict[str, list[processes.Process]]:
        """The processes to kill, by container."""
        below = processes.descendants(os.getpid(), processes.all_processes())
        if not any(container.pid for container in self._containers):  # no container runs: all processes are leftovers
            alive = [process for process in below if not process.is_zombie]
            return {sweeping[0].plan.name if sweeping else "": alive}
        wanted = {container.plan.name for container in sweeping}
        owners: dict[int, str] = {}
        left: dict[str, list[processes.Process]] = {}
        for process in below:
            owner = owners[process.pid] = owners.get(process.parent) or self._owner(process)
            if owner in wanted and not process.is_zombie:
                left.setdefault(owner, []).append(process)
        return left

    def _owner(self, process: processes.Process) -> str:
        """The container that a process belongs to; "" if unknown: then it ends with the pod."""
        for container in self._containers:
            if process.session in container.sessions:
                return container.plan.name
        return processes.environment(process.pid).get(processes.CONTAINER_MARK, "")
