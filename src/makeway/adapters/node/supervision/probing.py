"""Probes and hooks: commands, requests and connections to a container, each in a process with a deadline.

A network probe runs in a process of its own too, like a command: a peer that is slow or sends nonsense can only hurt
that process. ``Checks`` decides when a probe is due and what its results mean; it uses neither processes nor clocks.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace

from makeway.adapters.node.supervision.records import ContainerPlan, Handler, Http, ProbePlan
from makeway.adapters.node.supervision.spawning import Command, call, spawn

ANSWER_MAX = 4096  # bytes of an answer that are read
CONNECT_S = 30.0  # no socket outlives this; the deadline of a probe comes first


# --- asking ----------------------------------------------------------------------------------------------------------


def begin(handler: Handler, command: Command, output: int) -> int:
    """Return the pid of a process that runs the handler, in the environment of ``command``. Raises NotStarted."""
    if handler.command:
        return spawn(replace(command, argv=handler.command), output)
    http, tcp = handler.http, handler.tcp
    if http is not None:
        return call(lambda: answers(http))
    if tcp is not None:
        return call(lambda: connects(*tcp))
    return spawn(replace(command, argv=("sleep", str(handler.sleep_s or 0))), output)


def connects(host: str, port: int) -> bool:
    with socket.create_connection((host, port), timeout=CONNECT_S):
        return True


def answers(http: Http) -> bool:
    """Whether a GET gets a code from 200 to 399."""
    lines = [f"GET {http.path} HTTP/1.1", f"Host: {http.host}:{http.port}", "Connection: close"]
    named = {name.lower() for name in http.headers}
    lines = [line for line in lines if line.partition(":")[0].lower() not in named]
    lines += [f"{name}: {value}" for name, value in http.headers.items()]
    with socket.create_connection((http.host, http.port), timeout=CONNECT_S) as plain:
        connection = _wrapped(plain, http.host) if http.is_tls else plain
        connection.sendall("\r\n".join((*lines, "", "")).encode())
        answer = b""
        while b"\n" not in answer and len(answer) < ANSWER_MAX:
            part = connection.recv(ANSWER_MAX)
            if not part:
                break
            answer += part
    words = answer.split(b"\n", 1)[0].split()
    return len(words) >= 2 and words[0].startswith(b"HTTP/") and words[1].isdigit() and 200 <= int(words[1]) < 400


def _wrapped(plain: socket.socket, host: str) -> socket.socket:
    import ssl  # a megabyte that most pods do not need

    context = ssl.create_default_context()
    context.check_hostname = False  # a probe tests that the server answers, not its identity
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain, server_hostname=host)


# --- what the results mean -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Check:
    """One probe of a container."""

    what: str  # startup, readiness, liveness
    probe: ProbePlan
    due_ms: int
    passes: bool  # its present verdict
    in_a_row: int = 0  # consecutive results that contradict the verdict
    is_running: bool = False

    def result(self, ok: bool, now_ms: int) -> bool:
        """Count a result; return whether it changes the verdict."""
        self.is_running = False
        self.due_ms = now_ms + max(1, self.probe.period_s) * 1000
        if ok == self.passes:
            self.in_a_row = 0
            return False
        self.in_a_row += 1
        if self.in_a_row < (self.probe.successes if ok else self.probe.failures):
            return False
        self.passes, self.in_a_row = ok, 0
        return True


class Checks:
    """The probes of one start of a container: the startup probe alone first, then readiness and liveness.

    Without a startup probe a container has started when it runs; without a readiness probe it is ready then.
    """

    def __init__(self, plan: ContainerPlan, now_ms: int) -> None:
        self._checks: dict[str, _Check] = {}
        self._plan = plan
        self.has_started = plan.startup is None
        self._began_ms = now_ms  # delays count from here, also those of later probes
        self.is_failed = False  # the container must be stopped; ``failed`` names the probe
        self.failed: _Check | None = None
        if plan.startup is not None:
            self._add("startup", plan.startup, passes=False)
        else:
            self._go_on()

    @property
    def is_ready(self) -> bool:
        readiness = self._checks.get("readiness")
        return self.has_started and (self._plan.readiness is None or (readiness is not None and readiness.passes))

    def next_ms(self) -> int | None:
        times = [check.due_ms for check in self._checks.values() if not check.is_running]
        return min(times) if times and not self.is_failed else None

    def due(self, now_ms: int) -> list[tuple[str, ProbePlan]]:
        """Return the probes that are due; each counts as under way until its ``result``."""
        if self.is_failed:
            return []
        found = [check for check in self._checks.values() if not check.is_running and check.due_ms <= now_ms]
        for each in found:
            each.is_running = True
        return [(each.what, each.probe) for each in found]

    def skipped(self, what: str, now_ms: int) -> None:
        """Handle that a probe could not be run; it runs at its next time."""
        check = self._checks.get(what)
        if check is not None:
            check.is_running, check.due_ms = False, now_ms + max(1, check.probe.period_s) * 1000

    def result(self, what: str, ok: bool, now_ms: int) -> bool:
        """Count a result; return whether it changed anything."""
        check = self._checks.get(what)
        if check is None:
            return False
        if what == "startup":
            return self._startup(check, ok, now_ms)
        changed = check.result(ok, now_ms)
        if what == "liveness" and not check.passes:
            self.is_failed, self.failed = True, check
        return changed

    def _startup(self, check: _Check, ok: bool, now_ms: int) -> bool:
        """Count a result of the startup probe, which begins as not passed."""
        check.is_running = False
        check.due_ms = now_ms + max(1, check.probe.period_s) * 1000
        if ok:
            del self._checks["startup"]
            self.has_started = True
            self._go_on()
            return True
        check.in_a_row += 1
        if check.in_a_row >= check.probe.failures:
            self.is_failed, self.failed = True, check
        return self.is_failed

    def _go_on(self) -> None:
        if self._plan.readiness is not None:
            self._add("readiness", self._plan.readiness, passes=False)
        if self._plan.liveness is not None:
            self._add("liveness", self._plan.liveness, passes=True)

    def _add(self, what: str, probe: ProbePlan, *, passes: bool) -> None:
        due = self._began_ms + probe.delay_s * 1000
        self._checks[what] = _Check(what, probe, due, passes)
