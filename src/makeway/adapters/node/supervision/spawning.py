"""Starts a command as a process in its own session, or returns a reason why not.

The new process dies with its parent. It has an empty input, one pipe for all output, and the planned environment; it
inherits no open files, ignored signals or signal mask.

Only for processes with a single thread: other code runs between fork and exec.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from makeway.adapters.node.supervision.processes import die_with_parent

NOT_FOUND, NOT_RUNNABLE = 127, 126  # exit codes of a shell
_REPORT = struct.Struct("=Bi")  # which step failed, and how
_FOLDER, _MEMORY, _COMMAND = range(3)
_SHORT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # processes, memory, descriptors
_RESET = tuple(  # exec keeps ignored signals ignored, and our own parent may have ignored any
    number for number in range(1, 32) if number not in (signal.SIGKILL, signal.SIGSTOP)
)


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    memory_bytes: int | None = None


class NotStarted(Exception):
    """No process was started. ``code`` is the exit code to report, the message has the reason.

    ``is_short``: the machine has no resources at present; it may be tried again.
    """

    def __init__(self, code: int, message: str, *, is_short: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_short = is_short


def short_of(error: OSError) -> NotStarted:
    """The error to report if not even a fork was possible."""
    return NotStarted(NOT_RUNNABLE, f"no process could be made: {error.strerror}", is_short=error.errno in _SHORT)


def spawn(command: Command, output: int) -> int:
    """Return the pid of the new process, which already runs the command. Raises NotStarted."""
    try:
        heard, told = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise short_of(error) from error
    try:
        pid = _forked(lambda: _become(command, output, told))
        os.close(told)
        told = -1
        report = os.read(heard, _REPORT.size)
    except OSError as error:  # no fork: too many processes
        raise short_of(error) from error
    finally:
        os.close(heard)
        if told >= 0:
            os.close(told)
    if len(report) == _REPORT.size:
        os.waitpid(pid, 0)
        raise _reason(command, *_REPORT.unpack(report))
    return pid


def call(work: Callable[[], bool]) -> int:
    """Return the pid of a process that runs a function of ours, and exits with 0 for success, else with 1.

    Raises NotStarted.
    """

    def run() -> NoReturn:
        with suppress(BaseException):
            os._exit(0 if work() else 1)
        os._exit(1)

    try:
        return _forked(run)
    except OSError as error:
        raise short_of(error) from error


def _forked(child: Callable[[], NoReturn]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() == parent:  # the parent was gone before it could be set
            child()
    finally:
        os._exit(NOT_RUNNABLE)


def _become(command: Command, output: int, told: int) -> NoReturn:
    step = _FOLDER
    try:
        _leave_nothing(output)
        os.chdir(command.folder)
        step = _MEMORY
        if command.memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (command.memory_bytes, command.memory_bytes))
        step = _COMMAND
        os.execvpe(command.argv[0], command.argv, dict(command.env))
    except OSError as error:
        os.write(told, _REPORT.pack(step, error.errno or 0))
    except ValueError:  # a zero byte in a word, or too little memory
        os.write(told, _REPORT.pack(step, errno.EINVAL))
    os._exit(NOT_RUNNABLE)


def _leave_nothing(output: int) -> None:
    """Reset files, signals and mask to what a new process expects."""
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.set_wakeup_fd(-1)
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)


def _reason(command: Command, step: int, number: int) -> NotStarted:
    why, word = os.strerror(number), command.argv[0]
    if (step == _FOLDER and number in (errno.EMFILE, errno.ENFILE)) or (step == _COMMAND and number == errno.EAGAIN):
        return short_of(OSError(number, why))
    if step == _FOLDER:
        return NotStarted(NOT_RUNNABLE, f"the working directory {command.folder} cannot be entered: {why}")
    if step == _MEMORY:
        return NotStarted(NOT_RUNNABLE, f"the memory limit of {command.memory_bytes} bytes cannot be set: {why}")
    if number == errno.ENOENT and "/" not in word:
        return NotStarted(NOT_FOUND, f'the command "{word}" is not in the PATH of this machine')
    if number == errno.ENOENT:
        return NotStarted(NOT_FOUND, f'the command "{word}" is not on this machine, or its interpreter is not')
    if number == errno.EACCES:
        return NotStarted(NOT_RUNNABLE, f'the command "{word}" may not be run: {why}')
    return NotStarted(NOT_RUNNABLE, f'the command "{word}" cannot be run: {why}')
