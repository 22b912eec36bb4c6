"""One container of a pod: its starts, its output, its probes and hooks, and the end of each start.

A start has ended when its first process has ended and no other process of it is left: leftover processes are killed,
and the rest of the pipe is written to the log. Only then the end is recorded.

Not here: which container starts when (``starting``), and which container leftover processes belong to (``sweeping``).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.logbook import LogBook, drop_start
from makeway.adapters.node.supervision.probing import Checks, begin
from makeway.adapters.node.supervision.records import ContainerPlan, ContainerRecord, Exit, Handler
from makeway.adapters.node.supervision.spawning import Command, NotStarted, short_of, spawn

CHUNK = 64 * 1024
DRAIN_MAX = 4 * 1024 * 1024  # more than a pipe can hold
BACKOFF_MAX_MS = 300_000
BACKOFF_FORGIVEN_MS = 600_000  # a start that lasted this long resets the count
SHORTAGE_MS, SHORTAGE_MAX_MS = 500, 60_000  # before the next try if the machine had no resources; doubles
HOOK_EXTRA_MS = 2_000  # for the process itself, if a hook has used up the time


class Moment(NamedTuple):
    ms: int  # of a clock that only goes forward
    wall_ms: int  # wall clock time


@dataclass(frozen=True)
class Terms:
    """What all containers of a pod share."""

    folder: Path  # of the pod's logs
    log_bytes: int
    backoff_ms: int
    grace_s: int
    note: Callable[[str, str, bool], None]  # reason, message, whether it is a warning


@dataclass(slots=True)
class _Ask:
    """A probe or hook that is under way."""

    what: str
    until_ms: int


class RunningContainer:
    def __init__(self, plan: ContainerPlan, terms: Terms) -> None:
        self.plan = plan
        self._terms = terms
        self.record = ContainerRecord(plan.name, plan.role, reason="PodInitializing")
        self.has_begun = False
        self.sessions: set[int] = set()  # all that it had: a process in one of them belongs to it
        self.output = -1  # our end of its pipe
        self.is_sweeping = False  # its first process has ended, others may be left
        self.start_at_ms: int | None = None  # when it is to be started again
        self._command = Command(plan.argv, plan.env, plan.folder, plan.memory_bytes)
        self._log: LogBook | None = None
        self._checks: Checks | None = None
        self._asks: dict[int, _Ask] = {}
        self._end: Exit | None = None  # kept while leftover processes are ended
        self._backoffs = 0
        self._shortages = 0  # consecutive starts that failed because the machine had no resources
        self._started_ms = self._ran_ms = 0  # of its last start
        self._kill_at_ms: int | None = None  # not None: it was told to stop
        self._hooked = False  # the preStop hook is under way: the signal follows

    # --- what others ask ---

    @property
    def pid(self) -> int:
        """The pid of its first process; 0 when that has ended."""
        return self.record.pid if self.record.state == "running" and not self.is_sweeping else 0

    @property
    def is_up(self) -> bool:
        """Whether a process of it may still run."""
        return self.record.state == "running"

    @property
    def exit_code(self) -> int | None:
        return None if self.record.end is None else self.record.end.code

    @property
    def is_stopping(self) -> bool:
        return self._kill_at_ms is not None

    def next_ms(self) -> int | None:
        """When it must be looked at again, even without events."""
        times = [ask.until_ms for ask in self._asks.values()]
        if self._checks is not None and not self.is_stopping:
            times += [at for at in (self._checks.next_ms(),) if at is not None]
        times += [at for at in (self._kill_at_ms if self.pid else None, self.start_at_ms) if at is not None]
        return min(times) if times else None

    # --- a start ---

    def start(self, now: Moment) -> None:
        self.has_begun, self.start_at_ms, self._ran_ms = True, None, 0
        before = self.record
        restarts = self.record.restarts + (self.record.end is not None)
        last = self.record.end or self.record.last
        self._log = LogBook(self._terms.folder / self.plan.name, restarts, self._terms.log_bytes)
        if restarts > 1:
            drop_start(self._terms.folder / self.plan.name, restarts - 2)
        self.record = ContainerRecord(
            self.plan.name, self.plan.role, "running", reason="", last=last, restarts=restarts
        )
        try:
            pid = self._spawned()
        except NotStarted as error:
            self._terms.note("Failed", str(error), True)
            if error.is_short:
                self._start_later(before, str(error), now)
                return
            self._end = Exit(error.code, reason="StartError", message=str(error), finished_ms=now.wall_ms)
            self.is_sweeping = True
            return
        self._shortages = 0
        self.sessions.add(pid)
        self._started_ms = now.ms
        self.record = replace(self.record, pid=pid, ticks=_ticks(pid), started_ms=now.wall_ms)
        self._checks = Checks(self.plan, now.ms)
        self._tell_checks()
        self._terms.note("Started", f"Started container {self.plan.name}", False)

    def _spawned(self) -> int:
        """Start the first process and hold its output; return its pid. Raises NotStarted."""
        try:
            self.output, ours = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            raise short_of(error) from error
        os.set_blocking(self.output, False)
        try:
            return spawn(self._command, ours)
        finally:
            os.close(ours)

    def _start_later(self, before: ContainerRecord, words: str, now: Moment) -> None:
        """Try again later: the machine has no resources, which is not the container's fault, so this start does not
        count.
        """
        self._shortages += 1
        self.start_at_ms = now.ms + min(SHORTAGE_MAX_MS, SHORTAGE_MS << min(self._shortages - 1, 12))
        self.record = replace(before, state="waiting", reason="CreateContainerError", message=words)
        if self.output >= 0:
            os.close(self.output)
            self.output = -1
        self._log = None

    def start_again(self, now: Moment) -> None:
        """Schedule the next start of an ended container: at once the first time, then after growing pauses."""
        if self._ran_ms >= BACKOFF_FORGIVEN_MS:
            self._backoffs = 0
        pause = min(BACKOFF_MAX_MS, self._terms.backoff_ms << min(self._backoffs - 1, 12)) if self._backoffs else 0
        self._backoffs += 1
        self.start_at_ms = now.ms + pause
        if pause:
            words = f"back-off {pause / 1000:g}s restarting failed container {self.plan.name}"
            self.record = replace(self.record, state="waiting", reason="CrashLoopBackOff", message=words)
            self._terms.note("BackOff", f"Back-off restarting failed container {self.plan.name}", True)

    # --- its output ---

    def pump(self, now: Moment, most: int = CHUNK) -> int:
        """Write output to the log; return the number of bytes. At the end of the pipe, close it."""
        taken = 0
        while taken < most and self.output >= 0:
            try:
                data = os.read(self.output, CHUNK)
            except BlockingIOError:
                break
            if not data:
                os.close(self.output)
                self.output = -1
            elif self._log is not None:
                self._log.write(data, now.wall_ms)
                taken += len(data)
        return taken

    # --- what is asked of it ---

    def look(self, now: Moment) -> None:
        """Do what is due."""
        for pid, ask in list(self._asks.items()):
            if ask.until_ms <= now.ms:
                _kill_group(pid)
                ask.until_ms = now.ms + 1000  # its result is taken when it is reaped
        if self.pid and self._kill_at_ms is not None and self._kill_at_ms <= now.ms and not self._hooked:
            self._kill_at_ms = now.ms + 1000
            _kill_group(self.pid)
        if self.pid and self._checks is not None and not self.is_stopping:
            for what, probe in self._checks.due(now.ms):
                self._ask(what, probe.handler, now.ms + max(1, probe.timeout_s) * 1000, now)

    def _ask(self, what: str, handler: Handler, until_ms: int, now: Moment) -> None:
        empty = -1
        try:
            empty = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            pid = begin(handler, self._command, empty)
        except (NotStarted, OSError) as error:
            is_short = isinstance(error, OSError) or error.is_short
            if is_short and what != "preStop" and self._checks is not None:
                self._checks.skipped(what, now.ms)  # it was not run, so it has no result
            else:
                self._answered(what, False, now)
            return
        finally:
            if empty >= 0:
                os.close(empty)
        self.sessions.add(pid)
        self._asks[pid] = _Ask(what, until_ms)

    def _answered(self, what: str, ok: bool, now: Moment) -> None:
        if what == "preStop":
            if not ok:
                self._terms.note("FailedPreStopHook", f"The preStop hook of {self.plan.name} failed", True)
            self._after_hook(now)
        elif self._checks is not None and self.pid:
            if not ok:
                self._terms.note("Unhealthy", f"{what.capitalize()} probe of {self.plan.name} failed", True)
            self._checks.result(what, ok, now.ms)
            self._tell_checks()
            if self._checks.failed is not None and not self.is_stopping:
                words = f"Container {self.plan.name} failed its {what} probe, it will be ended"
                self._terms.note("Killing", words, False)
                own = self._checks.failed.probe.grace_s
                self.stop(now, (self._terms.grace_s if own is None else own) * 1000)

    def _tell_checks(self) -> None:
        checks = self._checks
        if checks is not None:
            self.record = replace(self.record, is_ready=checks.is_ready, has_started=checks.has_started)

    # --- its end ---

    def stop(self, now: Moment, grace_ms: int) -> None:
        """Tell the container to stop, and kill it when the time is up; a later call may only shorten the time."""
        self.start_at_ms = None
        at = now.ms + grace_ms
        was_asked = self.is_stopping
        if not was_asked or (self._kill_at_ms is not None and at < self._kill_at_ms):
            self._kill_at_ms = at
            self._hooked = self._hooked and grace_ms > 0  # no time is left for it
            for ask in self._asks.values():
                ask.until_ms = min(ask.until_ms, at)
        if not self.pid or was_asked:
            return
        self.record = replace(self.record, is_ready=False)
        hook = self.plan.pre_stop
        if hook is not None and grace_ms > 0:
            self._hooked = True
            self._ask("preStop", hook, at, now)
        elif grace_ms > 0:
            self._signal()

    def _after_hook(self, now: Moment) -> None:
        if self._hooked and self._kill_at_ms is not None:
            self._hooked = False
            self._kill_at_ms = max(self._kill_at_ms, now.ms + HOOK_EXTRA_MS)
            self._signal()

    def _signal(self) -> None:
        if self.pid:
            with suppress(OSError):
                os.killpg(self.pid, self.plan.stop_signal)

    def collected(self, pid: int, status: int, now: Moment) -> bool:
        """Handle a child of the supervisor that has ended; return whether it was one of this container."""
        code = os.waitstatus_to_exitcode(status)
        if pid == self.pid:
            self._end = _exit(code, self.record.started_ms, now.wall_ms)
            self._ran_ms = now.ms - self._started_ms
            self.is_sweeping = True
            for other in self._asks:
                _kill_group(other)
            self._asks.clear()  # their results no longer matter
            return True
        ask = self._asks.pop(pid, None)
        if ask is None:
            return False
        self._answered(ask.what, code == 0, now)
        return True

    def swept(self, now: Moment) -> None:
        """Handle that no process is left: this start is over."""
        self.pump(now, DRAIN_MAX)
        if self.output >= 0:  # a process outside of the pod holds the pipe; it is not waited for
            os.close(self.output)
            self.output = -1
        if self._log is not None:
            self._log.close()
        self.record = replace(
            self.record, state="ended", pid=0, ticks=0, end=self._end, is_ready=False, reason="", message=""
        )
        self.is_sweeping, self._end, self._log, self._checks = False, None, None, None
        self._kill_at_ms, self._hooked = None, False


def _ticks(pid: int) -> int:
    """When a process began; 0 if unknown: then only the mark ties it to its pod."""
    with suppress(OSError):
        found = processes.find(pid)
        return found.ticks if found else 0
    return 0


def _kill_group(pid: int) -> None:
    """Kill a process group. Only for children that are not reaped yet: their number is still theirs."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _exit(code: int, started_ms: int | None, finished_ms: int) -> Exit:
    number = -code if code < 0 else 0
    return Exit(
        code=128 + number if number else code,
        signal=number,
        reason="Completed" if code == 0 else "Error",
        message=f"ended by signal {number} ({signal.strsignal(number)})" if number else "",
        started_ms=started_ms,
        finished_ms=finished_ms,
    )
