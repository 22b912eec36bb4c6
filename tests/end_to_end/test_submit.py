"""submit, logs, cancel, wait: commands as jobs, followed to their end, from several terminals at once."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.end_to_end.machine import JOBS, Machine, flavor, job, priority, queue

pytestmark = pytest.mark.slow


def test_commands_as_jobs(machine: Machine) -> None:
    machine.apply(flavor(), priority("high", 100), *queue("all", 9, preemption={"withinClusterQueue": "LowerPriority"}))
    stories: list[Callable[[Machine], None]] = [exit_codes, several, too_long, logs_and_wait, cancelled, interrupted]
    with ThreadPoolExecutor(len(stories)) as pool:
        for done in [pool.submit(story, machine) for story in stories]:
            done.result()
    preempted(machine)


def exit_codes(machine: Machine) -> None:
    """Output and exit code of a job are those of the command that submitted it."""
    done = machine.run("submit", "--name", "seven", "--env", "WORD=a $(b) c", "--", "sh", "-c",
                       'pwd; echo "$WORD"; echo err >&2; exit 7')  # fmt: skip
    assert (done.returncode, done.stdout) == (7, f"{os.getcwd()}\na $(b) c\nerr\n")
    assert done.stderr.splitlines()[0] == "submitted job seven to queue main"
    assert done.stderr.splitlines()[-1].endswith("ended with exit code 7")
    lost = machine.run("submit", "--", "no-such-command")
    assert lost.returncode == 127
    assert "not in the PATH" in lost.stderr


def several(machine: Machine) -> None:
    done = machine.run("submit", "--parallelism", "3", "--", "sh", "-c", "echo I am $JOB_COMPLETION_INDEX")
    lines = sorted(line.split("] ")[1] for line in done.stdout.splitlines())
    assert (done.returncode, lines) == (0, ["I am 0", "I am 1", "I am 2"])


def too_long(machine: Machine) -> None:
    done = machine.run("submit", "--time", "1s", "--", "sleep", "600")
    assert done.returncode == 124
    assert "maximum execution time" in done.stderr


def logs_and_wait(machine: Machine) -> None:
    name = machine.run("submit", "-d", "--", "sh", "-c", "echo one; echo two; sleep 1; exit 3").stdout.strip()
    waited = machine.run("wait", name)
    assert (waited.returncode, waited.stdout.split(":")[0]) == (3, f"job {name}")
    assert machine.log(name) == b"one\ntwo\n"
    assert machine.run("logs", "--tail", "1", "-f", f"job/{name}").stdout == "two\n"


def cancelled(machine: Machine) -> None:
    name = machine.run("submit", "-d", "--", "sleep", "600").stdout.strip()
    machine.until_running(name)
    assert machine.run("wait", name, "--timeout", "1s").returncode == 124
    assert machine.run("cancel", name).stdout == f"cancelled job {name}\n"
    assert machine.pods(name) == []


def preempted(machine: Machine) -> None:
    """It reports the preemption, and goes on when it runs again."""
    script = 'trap "exit 0" TERM; echo begins; sleep 3 & wait $!; echo ends'
    command = [sys.executable, "-m", "makeway", "submit", "--data", str(machine.folder), "--cpu", "9", "--name", "low"]
    with subprocess.Popen(
        [*command, "--", "sh", "-c", script], env=machine.environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as low:  # fmt: skip
        assert low.stdout is not None
        assert low.stdout.readline() == "begins\n"
        machine.apply(job("high", "sleep", "0.5", cpu="9", priority="high"))
        printed, told = low.communicate(timeout=60)
    rest = [line for line in printed.splitlines() if line != "Terminated"]  # a shell may print that about its child
    assert (low.returncode, rest) == (0, ["begins", "ends"])
    assert "low: makes way: " in told


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


class Terminal:
    """A user at a keyboard."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.shown = ""

    def until(self, text: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < end, f"{text!r} was not shown: {self.shown!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self._master, 4096).decode(errors="replace")
                except OSError:  # the other end is closed
                    time.sleep(0.1)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())


@contextmanager
def at_terminal(machine: Machine, *arguments: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    master, slave = os.openpty()
    command = [sys.executable, "-m", "makeway", arguments[0], "--data", str(machine.folder), *arguments[1:]]

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell in the background tells its children to ignore it

    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**machine.environment, "TERM": "dumb"},
        preexec_fn=own_terminal,
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(master), process
    finally:
        process.kill()
        process.wait()
        os.close(master)


def interrupted(machine: Machine) -> None:
    """Ctrl-C asks: follow it on, let it run alone, or cancel it."""
    with at_terminal(machine, "submit", "--name", "asked", "--", "sh", "-c", "echo begun; sleep 600") as (
        terminal,
        process,
    ):
        terminal.until("begun")
        terminal.type("\x03")
        terminal.until("cancel it, detach")
        terminal.type("f\n")
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.until("(c, d, f) [d]: f")
        terminal.type("d\n")
        assert process.wait(20) == 130
        terminal.until("makeway cancel asked")
    machine.until_running("asked")
    machine.run("cancel", "asked")
    with at_terminal(machine, "submit", "--name", "ended", "--", "sh", "-c", "echo begun; sleep 600") as (
        terminal,
        process,
    ):
        terminal.until("begun")
        terminal.type("\x03")
        terminal.until("cancel it, detach")
        terminal.type("c\n")
        assert process.wait(20) == 130
    machine.until(lambda: "ended" not in [each["metadata"]["name"] for each in machine.all(JOBS)], "it is gone")
