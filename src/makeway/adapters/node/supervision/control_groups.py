"""A control group for each pod, where the kernel allows it: a process in the group belongs to the pod.

A process cannot leave its group by sessions, parents or its environment, and a whole group can be killed at once, even
one that forks faster than it can be counted. Without control groups v2, or if ours cannot be divided, the processes of
a pod are found by parents, sessions and marks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from makeway.adapters.node.supervision import processes

_PREFIX = "makeway-"
_MEMBERS, _KILL = "cgroup.procs", "cgroup.kill"


def enter(uid: str) -> str:
    """Move this process into a new group for a pod; return its path, or "" if that is not possible."""
    parent = _own()
    if parent is None:
        return ""
    path = f"{parent}/{_PREFIX}{uid}"
    try:
        with suppress(FileExistsError):
            os.mkdir(path, 0o755)
        _write(f"{path}/{_MEMBERS}", b"0")
    except OSError:
        remove(path, uid)
        return ""
    return path


def leave(path: str, uid: str) -> None:
    """Move this process, the last of its pod, back to where it came from, and remove the group."""
    if _is_of(path, uid):
        with suppress(OSError):
            _write(f"{os.path.dirname(path)}/{_MEMBERS}", b"0")
        remove(path, uid)


def of(uid: str) -> str:
    """Return the pod's group, present or past, if this process is outside of it and shares its parent."""
    parent = _own()
    return "" if parent is None else f"{parent}/{_PREFIX}{uid}"


def members(path: str, uid: str) -> list[processes.Process]:
    """The processes in the group of a pod. Raises OSError if that is unknown."""
    if not _is_of(path, uid):
        return []
    try:
        pids = Path(path, _MEMBERS).read_text("ascii").split()
    except FileNotFoundError:
        return []
    found = (processes.find(int(pid)) for pid in pids if pid != "0")  # 0: a process that is not visible from here
    return [each for each in found if each is not None and not each.is_zombie]


def kill(path: str, uid: str) -> bool:
    """Kill all of a pod's group, its supervisor too; False if there is no such group, or the kernel is old."""
    if not _is_of(path, uid):
        return False
    try:
        _write(f"{path}/{_KILL}", b"1")
    except OSError:
        return False
    return True


def remove(path: str, uid: str) -> None:
    """Remove a group without processes."""
    if _is_of(path, uid):
        with suppress(OSError):
            os.rmdir(path)


def _is_of(path: str, uid: str) -> bool:
    """Check a path that was read from a file: it must be a group that we made for this pod."""
    return bool(path) and os.path.basename(path) == f"{_PREFIX}{uid}" and os.path.normpath(path) == path


def _own() -> str | None:
    """The group of this process, in control groups v2."""
    try:
        lines = Path("/proc/self/cgroup").read_text("utf-8").splitlines()
        mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    except OSError:
        return None
    group = next((line[3:] for line in lines if line.startswith("0::")), None)
    root = next((parts[1] for line in mounts if len(parts := line.split()) > 2 and parts[2] == "cgroup2"), None)
    return None if group is None or root is None else f"{root}{group}".rstrip("/")


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)
