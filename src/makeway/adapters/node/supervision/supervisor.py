"""The processes of one pod, from first to last. A supervisor outlives makeway, and no process outlives its supervisor.

A supervisor reads its plan, starts init containers one after the other and then the rest, restarts containers as the
plan says, stops all on an order or when the time is up, and records every change. It is alone with its folder: a lock
keeps a second supervisor out, and a folder with a record is never started again.

**No process is left behind.** A process that loses its parent becomes a child of the supervisor, also one that has left
its session. A container has ended when no process of it is left, the pod when the supervisor has no child at all. If
the supervisor itself is killed, the first processes of its containers die with it. The others are found through
sessions and the mark in the environment, by the zygote, which is the supervisor's parent, or by the agent.

The order to stop is ``stop.json`` and SIGUSR1; SIGTERM alone means the same with the pod's own grace period.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from makeway.adapters.node.supervision import control_groups, processes
from makeway.adapters.node.supervision.containers import Moment, RunningContainer, Terms
from makeway.adapters.node.supervision.recording import RecordKeeper
from makeway.adapters.node.supervision.records import (
    LOCK,
    LOGS,
    ContainerRecord,
    Phase,
    PodPlan,
    open_plain,
    read_plan,
    read_record,
    read_stop,
)
from makeway.adapters.node.supervision.starting import StartOrder
from makeway.adapters.node.supervision.sweeping import Sweeper

WAIT_MS_MAX = 3_600_000  # the kernel counts the milliseconds of one sleep in 31 bits: a month would not wait at all
DEADLINE = "DeadlineExceeded"


@dataclass(slots=True)
class _Stopping:
    until_ms: int
    reason: str
    message: str
    fails: bool = False  # the pod has failed, whatever its containers' results


def supervise(folder: Path) -> None:
    """Run the pod of this folder to its end, unless another supervisor did or does."""
    lock = open_plain(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    if read_record(folder) is None:
        Supervisor(folder, read_plan(folder), clock()).run()


def clock() -> Callable[[], Moment]:
    """A clock that starts at the wall clock time and then runs steadily, even if the machine's clock is set
    meanwhile.
    """
    ahead_ms = time.time_ns() // 1_000_000 - processes.up_ms()
    return lambda: Moment(time.monotonic_ns() // 1_000_000, processes.up_ms() + ahead_ms)


class Supervisor:
    def __init__(self, folder: Path, plan: PodPlan, clock: Callable[[], Moment]) -> None:
        self._folder = folder
        self._plan = plan
        self._clock = clock
        self._began = clock()
        self._records = RecordKeeper(folder, plan, self._began)
        terms = Terms(folder / LOGS, plan.log_bytes, plan.backoff_ms, plan.grace_s, self._records.note)
        self._containers = [RunningContainer(container, terms) for container in plan.containers]
        self._order = StartOrder(plan, self._containers)
        self._sweeper = Sweeper(self._containers)
        self._stopping: _Stopping | None = None
        self._stop_is_news = True  # an order may have come before this process

    # --- the loop ---

    def run(self) -> None:
        processes.take_name("makeway-pod")
        processes.adopt_orphans()
        group = control_groups.enter(self._plan.uid)
        heard = self._listen()
        self._records.begin(group, self._container_records())
        while True:
            moment = self._clock()
            self._step(moment)
            if self._is_over():
                break
            self._records.save("Running" if self._order.has_begun else "Pending", self._container_records())
            self._wait(heard, moment)
        control_groups.leave(group, self._plan.uid)
        self._finish()

    def _listen(self) -> socket.socket:
        """Make signals wake the loop through a socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        theirs.setblocking(False)
        self._wake = theirs  # keeps it open
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda number, frame: None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        return ours

    def _wait(self, heard: socket.socket, since: Moment) -> None:
        """Wait for a signal, output, or the next due time; handle the first two."""
        poll = select.poll()
        poll.register(heard, select.POLLIN)
        outputs = {container.output: container for container in self._containers if container.output >= 0}
        for output in outputs:
            poll.register(output, select.POLLIN)
        due = self._next_ms()
        ready = poll.poll(None if due is None else max(0, min(WAIT_MS_MAX, due - since.ms)))
        moment = self._clock()
        for file, _ in ready:
            if file in outputs:
                outputs[file].pump(moment)
            else:
                self._heard(heard.recv(4096), moment)

    def _heard(self, numbers: bytes, moment: Moment) -> None:
        if signal.SIGTERM in numbers:
            self._stop(moment, self._plan.grace_s * 1000, "Terminated", "The supervisor of the pod was told to end")
        self._stop_is_news = self._stop_is_news or signal.SIGUSR1 in numbers

    def _next_ms(self) -> int | None:
        times = [container.next_ms() for container in self._containers]
        times.append(self._sweeper.next_ms)
        if self._plan.deadline_s is not None and self._stopping is None:
            times.append(self._began.ms + self._plan.deadline_s * 1000)
        known = [at for at in times if at is not None]
        return min(known) if known else None

    # --- one step ---

    def _step(self, moment: Moment) -> None:
        self._sweeper.collect(moment)
        self._read_stop(moment)
        deadline = self._plan.deadline_s
        if deadline is not None and self._stopping is None and moment.ms >= self._began.ms + deadline * 1000:
            words = f"The pod was active for longer than the {deadline} seconds it may"
            self._stop(moment, self._plan.grace_s * 1000, DEADLINE, words, fails=True)
        self._sweeper.sweep(moment, is_stopping=self._stopping is not None)
        if self._stopping is None and not self._order.advance(moment):
            self._stop(moment, self._plan.grace_s * 1000, "", "")
        if self._stopping is not None:
            self._wind_down(moment)
        for container in self._containers:
            container.look(moment)
        self._sweeper.sweep(moment, is_stopping=self._stopping is not None)  # what could not be started is over at once

    def _read_stop(self, moment: Moment) -> None:
        if not self._stop_is_news:
            return
        self._stop_is_news = False
        order = read_stop(self._folder)
        if order is not None:
            left = order.at_ms + order.grace_ms - moment.wall_ms
            if order.until_ms is not None:
                left = order.until_ms - moment.ms
            self._stop(moment, max(0, min(left, order.grace_ms)), order.reason, order.message)

    def _stop(self, moment: Moment, grace_ms: int, reason: str, message: str, *, fails: bool = False) -> None:
        until = moment.ms + grace_ms
        if self._stopping is None:
            self._stopping = _Stopping(until, reason, message, fails)
            names = ", ".join(container.plan.name for container in self._containers if container.is_up)
            if names:
                self._records.note("Killing", f"Stopping container {names}", False)
        self._stopping.until_ms = min(self._stopping.until_ms, until)

    def _wind_down(self, moment: Moment) -> None:
        """Stop the containers that do the work first, sidecars last; kill what is late."""
        assert self._stopping is not None
        grace = max(0, self._stopping.until_ms - moment.ms)
        others = [container for container in self._containers if container.plan.role != "sidecar"]
        for container in others:
            container.stop(moment, grace)
        if grace == 0 or not any(container.is_up for container in others):
            for container in self._order.early:
                container.stop(moment, grace)

    # --- what is told ---

    def _container_records(self) -> tuple[ContainerRecord, ...]:
        return tuple(container.record for container in self._containers)

    def _is_over(self) -> bool:
        if self._stopping is None or self._sweeper.has_children:
            return False
        return not any(container.is_up for container in self._containers)

    def _finish(self) -> None:
        stopping = self._stopping
        assert stopping is not None
        phase: Phase = "Succeeded" if self._order.has_succeeded and not stopping.fails else "Failed"
        self._records.finish(phase, self._container_records(), stopping.reason, stopping.message, self._clock())
