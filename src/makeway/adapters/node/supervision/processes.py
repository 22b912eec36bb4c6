"""Processes of this machine, as Linux shows them: which live, which belong together, how to end the right one.

A process is identified by its number and its start time: numbers are reused, and a signal must never reach another
process.

A process is gone only if the kernel says so. If the kernel cannot be asked (no free descriptor, no memory, a disk
error), ``OSError`` is raised: nothing is known, so the caller does nothing that depends on it, and asks again later.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

POD_MARK = "MAKEWAY_POD_UID"  # in the environment of every process of a pod
CONTAINER_MARK = "MAKEWAY_CONTAINER"
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)
_GONE = (errno.ENOENT, errno.ESRCH)
_NOT_OURS = (errno.EACCES, errno.EPERM)  # the processes of a pod are always readable for us


class Process(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    ticks: int  # its start time, in the kernel's count since the machine started
    is_zombie: bool


# --- what there is ---------------------------------------------------------------------------------------------------


def find(pid: int) -> Process | None:
    """Return the process, or None if there is none (any more). Raises OSError if that is unknown."""
    text = _read(f"/proc/{pid}/stat", 4096)
    if not text:
        return None
    parts = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything
    parent, group, session, ticks = (int(parts[place]) for place in (1, 2, 3, 19))
    return Process(pid, parent, group, session, ticks, parts[0] in (b"Z", b"X"))


def all_processes() -> list[Process]:
    """All visible processes. Raises OSError if one cannot be read: it might be the one that the caller needs."""
    found: list[Process] = []
    for name in os.listdir("/proc"):
        try:
            each = find(int(name)) if name.isdecimal() else None
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
            continue
        if each is not None:
            found.append(each)
    return found


def _read(path: str, most: int) -> bytes:
    """Read a file of a process in /proc; empty if the process is gone."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, most)
        finally:
            os.close(file)
    except OSError as error:
        if error.errno in _GONE:
            return b""
        raise


def descendants(of: int, among: Iterable[Process]) -> list[Process]:
    """All processes below a process, parents before their children."""
    children: dict[int, list[Process]] = {}
    for each in among:
        children.setdefault(each.parent, []).append(each)
    found = list(children.get(of, ()))
    for each in found:  # grows during the loop
        found.extend(children.get(each.pid, ()))
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty if we may not read it. Raises OSError as ``find`` does."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        if error.errno in (*_GONE, *_NOT_OURS):
            return {}
        raise
    pairs = (each.partition(b"=") for each in data.split(b"\0") if each)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def is_alive(pid: int, ticks: int, boot: str) -> bool:
    """Whether exactly this process still runs; one that has ended and is not reaped does not.

    Raises OSError if that is unknown.
    """
    if boot != boot_id():
        return False
    found = find(pid)
    return found is not None and found.ticks == ticks and not found.is_zombie


@cache
def boot_id() -> str:
    """The id of this boot of the machine: process numbers and start times of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def of_pod(uid: str, sessions: Iterable[int] = ()) -> Iterator[Process]:
    """The leftover processes of a pod: all with its mark, and all of its sessions."""
    wanted = set(sessions)
    for each in all_processes():
        if not each.is_zombie and (each.session in wanted or environment(each.pid).get(POD_MARK) == uid):
            yield each


def up_ms() -> int:
    """The uptime of the machine, including sleep; this clock cannot be set."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


# --- what is done to them --------------------------------------------------------------------------------------------


def send(process: Process, number: int) -> bool:
    """Signal exactly this process; return whether it existed. Raises OSError if that is unknown."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        found = find(process.pid)
        if found is None or found.ticks != process.ticks:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def adopt_orphans() -> None:
    """Make this process the parent of all orphans below it, also of those that called ``setsid``."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def collect_adopted() -> None:
    """Reap adopted processes that have ended.

    Processes that we started are in our session, and are reaped where they were started.
    """
    me, session = os.getpid(), os.getsid(0)
    with suppress(OSError):  # tried again later
        for each in all_processes():
            if each.parent == me and each.is_zombie and each.session != session:
                os.waitpid(each.pid, os.WNOHANG)


def die_with_parent() -> None:
    """Called by a new child: the kernel kills it when its parent is gone."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def take_name(name: str) -> None:
    """Set the name that tools show for this process; at most 15 letters."""
    with suppress(OSError):
        _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))


def _prctl(option: int, value: int | ctypes.c_char_p) -> None:
    nothing = ctypes.c_ulong(0)
    given = ctypes.c_ulong(value) if isinstance(value, int) else value
    if _libc.prctl(option, given, nothing, nothing, nothing) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
