"""One pod's processes, from the first to the last. It outlives makeway, and nothing that it starts outlives it.

A supervisor reads its plan, starts init containers one after the other and then the rest, restarts what ends as the
plan says, stops all when it is told to or when the time is up, and writes a record of every change. It is alone with
its folder: a lock keeps a second one out, and a folder with a record is never started again.

**Nothing is left behind.** Whoever loses its parent below the supervisor becomes its child, also what has left its
session; a container has ended when no process of it is left, the pod when the supervisor has no child at all. If the
supervisor itself is killed, first processes die with it, and what they leave is found by the zygote, whose child the
supervisor is, or by the agent, through sessions and the mark in the environment.

It is told to stop by ``stop.json`` and SIGUSR1; SIGTERM alone means the same with the pod's own grace period.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from makeway.adapters.node.supervision import control_groups, processes
from makeway.adapters.node.supervision.containers import Moment, RunningContainer, Terms
from makeway.adapters.node.supervision.records import (
    LOCK,
    LOGS,
    NOTES_MAX,
    NoteRecord,
    Phase,
    PodPlan,
    PodRecord,
    RecordFile,
    open_plain,
    opened,
    read_plan,
    read_record,
    read_stop,
)

WAIT_MS_MAX = 3_600_000  # the kernel counts the milliseconds of one sleep in 31 bits: a month would be none at all
SWEEP_MS = (5, 10, 20, 50, 100, 200, 500)  # between two looks at what is left
LAST_TRIES_MAX = 3600
DEADLINE = "DeadlineExceeded"


@dataclass(slots=True)
class _Stopping:
    until_ms: int
    reason: str
    message: str
    fails: bool = False  # the pod has failed, whatever its containers say


def supervise(folder: Path) -> None:
    """Run the pod of this folder to its end; nothing happens if another did or does."""
    lock = open_plain(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    if read_record(folder) is None:
        Supervisor(folder, read_plan(folder), clock()).run()


def clock() -> Callable[[], Moment]:
    """The time as it is now, and goes on from here evenly, whoever sets the clock of the machine meanwhile."""
    ahead_ms = time.time_ns() // 1_000_000 - processes.up_ms()
    return lambda: Moment(time.monotonic_ns() // 1_000_000, processes.up_ms() + ahead_ms)


class Supervisor:
    def __init__(self, folder: Path, plan: PodPlan, clock: Callable[[], Moment]) -> None:
        self._folder = folder
        self._plan = plan
        self._clock = clock
        self._began = clock()
        me = processes.find(os.getpid())
        terms = Terms(folder / LOGS, plan.log_bytes, plan.backoff_ms, plan.grace_s, self._note)
        self._containers = [RunningContainer(each, terms) for each in plan.containers]
        self._early = [each for each in self._containers if each.plan.role != "app"]
        self._apps = [each for each in self._containers if each.plan.role == "app"]
        self._record = PodRecord(
            plan.uid, os.getpid(), me.ticks if me else 0, processes.boot_id(), self._began.wall_ms,
            clock_ms=self._began.wall_ms - processes.up_ms(),
        )  # fmt: skip
        self._saved: PodRecord | None = None
        self._stopping: _Stopping | None = None
        self._failed_init: RunningContainer | None = None
        self._sweeps = 0  # looks at what is left since something was last seen to go
        self._sweep_at_ms: int | None = None
        self._has_children = False
        self._stop_is_news = True  # it may have been there before us

    # --- the loop ---

    def run(self) -> None:
        processes.take_name("makeway-pod")
        processes.adopt_orphans()
        self._record = replace(self._record, group=control_groups.enter(self._plan.uid))
        heard = self._listen()
        self._file = RecordFile(self._folder)
        self._file.write(self._present())  # from now on nobody starts this pod again
        while True:
            moment = self._clock()
            self._step(moment)
            if self._is_over():
                break
            self._save()
            self._wait(heard, moment)
        self._finish()

    def _listen(self) -> socket.socket:
        """Signals wake the loop through a socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        theirs.setblocking(False)
        self._wake = theirs  # kept open
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda number, frame: None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        return ours

    def _wait(self, heard: socket.socket, since: Moment) -> None:
        """Until a signal, some output, or the next thing that is due; takes in the first two."""
        poll = select.poll()
        poll.register(heard, select.POLLIN)
        outputs = {each.output: each for each in self._containers if each.output >= 0}
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
        times = [each.next_ms() for each in self._containers]
        times.append(self._sweep_at_ms)
        if self._plan.deadline_s is not None and self._stopping is None:
            times.append(self._began.ms + self._plan.deadline_s * 1000)
        known = [each for each in times if each is not None]
        return min(known) if known else None

    # --- one step ---

    def _step(self, moment: Moment) -> None:
        self._collect(moment)
        self._read_stop(moment)
        deadline = self._plan.deadline_s
        if deadline is not None and self._stopping is None and moment.ms >= self._began.ms + deadline * 1000:
            words = f"The pod was active for longer than the {deadline} seconds it may"
            self._stop(moment, self._plan.grace_s * 1000, DEADLINE, words, fails=True)
        self._sweep(moment)
        if self._stopping is None:
            self._advance(moment)
        if self._stopping is not None:
            self._wind_down(moment)
        for each in self._containers:
            each.look(moment)
        self._sweep(moment)  # what could not be started is over at once

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
            names = ", ".join(each.plan.name for each in self._containers if each.is_up)
            if names:
                self._note("Killing", f"Stopping container {names}", False)
        self._stopping.until_ms = min(self._stopping.until_ms, until)

    def _advance(self, moment: Moment) -> None:
        """Start what may start; without any left to run, wind down."""
        if not self._start_early(moment):
            if self._failed_init is not None:
                self._stop(moment, self._plan.grace_s * 1000, "", "")
            return
        for each in self._apps:
            if not each.has_begun:
                each.start(moment)
            else:
                self._start_again(each, moment)
        if all(each.record.state == "ended" and each.start_at_ms is None for each in self._apps):
            self._stop(moment, self._plan.grace_s * 1000, "", "")

    def _start_early(self, moment: Moment) -> bool:
        """Init containers and sidecars in their order; whether all of them are where the others may start."""
        for each in self._early:
            if not each.has_begun:
                each.start(moment)
            else:
                self._start_again(each, moment)
            if each.plan.role == "sidecar":
                if not each.record.has_started and not each.record.restarts:
                    return False
            elif each.record.state != "ended" or each.exit_code != 0:
                if each.record.state == "ended" and each.start_at_ms is None:
                    self._failed_init = each
                return False
        return True

    def _start_again(self, each: RunningContainer, moment: Moment) -> None:
        if each.start_at_ms is None and each.record.state == "ended" and self._restarts(each):
            each.start_again(moment)
        if each.start_at_ms is not None and each.start_at_ms <= moment.ms:
            each.start(moment)

    def _restarts(self, each: RunningContainer) -> bool:
        if each.plan.role == "sidecar":
            return True
        if each.exit_code == 0:
            return each.plan.role == "app" and self._plan.restart == "Always"
        return self._plan.restart != "Never"

    def _wind_down(self, moment: Moment) -> None:
        """Those who do the work end first, those beside them last; who is late is killed."""
        assert self._stopping is not None
        grace = max(0, self._stopping.until_ms - moment.ms)
        others = [each for each in self._containers if each.plan.role != "sidecar"]
        for each in others:
            each.stop(moment, grace)
        if grace == 0 or not any(each.is_up for each in others):
            for each in self._early:
                each.stop(moment, grace)

    # --- processes ---

    def _collect(self, moment: Moment) -> None:
        """Take in the ends of all children that have one."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self._has_children = False
                return
            self._has_children = True
            if found is None:
                return
            pid = found.si_pid
            if any(each.pid == pid for each in self._containers):
                with suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)  # its number is ours until it is collected
            _, status = os.waitpid(pid, 0)
            self._sweeps = 0
            self._sweep_at_ms = moment.ms if self._sweep_at_ms is not None else None
            for each in self._containers:
                if each.collected(pid, status, moment):
                    break

    def _sweep(self, moment: Moment) -> None:
        """End what first processes have left behind; when there is nothing more, their containers have ended."""
        sweeping = [each for each in self._containers if each.is_sweeping]
        is_last = self._stopping is not None and not any(each.is_up for each in self._containers)
        if not sweeping and not (is_last and self._has_children):
            self._sweep_at_ms = None
            return
        if not self._has_children:
            for each in sweeping:
                each.swept(moment)
            self._sweep_at_ms = None
            return
        if self._sweep_at_ms is not None and moment.ms < self._sweep_at_ms:
            return
        with suppress(OSError):  # nobody can say who is left: it is asked again
            left = self._left(sweeping)
            for each in sweeping:
                if not left.get(each.plan.name):
                    each.swept(moment)
            for process in (process for some in left.values() for process in some):
                processes.send(process, signal.SIGKILL)
        self._sweep_at_ms = moment.ms + SWEEP_MS[min(self._sweeps, len(SWEEP_MS) - 1)]
        self._sweeps += 1

    def _left(self, sweeping: list[RunningContainer]) -> dict[str, list[processes.Process]]:
        """What is to be killed, by container."""
        below = processes.descendants(os.getpid(), processes.all_processes())
        if not any(each.pid for each in self._containers):  # nobody else runs: all is to go
            alive = [each for each in below if not each.is_zombie]
            return {sweeping[0].plan.name if sweeping else "": alive}
        wanted = {each.plan.name for each in sweeping}
        owners: dict[int, str] = {}
        found: dict[str, list[processes.Process]] = {}
        for process in below:
            owner = owners[process.pid] = owners.get(process.parent) or self._owner(process)
            if owner in wanted and not process.is_zombie:
                found.setdefault(owner, []).append(process)
        return found

    def _owner(self, process: processes.Process) -> str:
        """The container it belongs to; "": nobody knows, so that it goes with the pod."""
        for each in self._containers:
            if process.session in each.sessions:
                return each.plan.name
        return processes.environment(process.pid).get(processes.CONTAINER_MARK, "")

    # --- what is told ---

    def _note(self, reason: str, message: str, is_warning: bool) -> None:
        number = max((each.number for each in self._record.notes), default=0) + 1
        kept = [each for each in self._record.notes if (each.reason, each.message) != (reason, message)]
        notes = (*kept, NoteRecord(number, reason, message, is_warning))[-NOTES_MAX:]
        self._record = replace(self._record, notes=notes)

    def _save(self, *, is_last: bool = False) -> None:
        """Write the record if it says something new, and call whoever listens.

        Who listens stores what he reads. Where nobody does, the last record must outlive the machine by itself.
        """
        record = replace(self._present(), phase=self._end() if is_last else self._phase())
        if record == self._saved:
            return
        self._record = record
        with suppress(OSError):  # a full disk: the pod goes on, and is written of when there is room
            self._file.write(record)
            self._saved = record
        if not self._call_agent() and is_last:
            self._file.sync()

    def _present(self) -> PodRecord:
        return replace(self._record, containers=tuple(each.record for each in self._containers))

    def _call_agent(self) -> bool:
        if not self._plan.agent:
            return False
        agent = Path(self._plan.agent)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, opened(agent.parent) as parent:
                line.setblocking(False)
                line.sendto(self._plan.uid.encode(), f"{parent}/{agent.name}")
        except OSError:
            return False  # it reads all records when it is back
        return True

    def _phase(self) -> Phase:
        return "Running" if any(each.has_begun for each in self._apps) else "Pending"

    def _end(self) -> Phase:
        stopping = self._stopping
        if (stopping is not None and stopping.fails) or self._failed_init is not None:
            return "Failed"
        return "Succeeded" if all(each.exit_code == 0 for each in self._apps) else "Failed"

    def _is_over(self) -> bool:
        if self._stopping is None or self._has_children:
            return False
        return not any(each.is_up for each in self._containers)

    def _finish(self) -> None:
        stopping = self._stopping
        assert stopping is not None
        self._record = replace(
            self._record, reason=stopping.reason, message=stopping.message, finished_ms=self._clock().wall_ms
        )
        control_groups.leave(self._record.group, self._plan.uid)
        for _ in range(LAST_TRIES_MAX):
            self._save(is_last=True)
            if self._saved is not None and self._saved.finished_ms is not None:
                return
            if not self._folder.exists():
                return  # nobody will ask
            time.sleep(1)  # the disk is full, and this must not be lost
