"""A control group for each pod, where the kernel lets us make one: a process in it belongs to the pod.

Nothing that a process does with sessions, parents or its environment takes it out of its group, and all of a group can
be killed at once, also what forks faster than it can be counted. Where there is no second version of control groups, or
where ours may not be divided, pods are found by parents, sessions and marks as before.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from makeway.adapters.node.supervision import processes

_PREFIX = "makeway-"
_MEMBERS, _KILL = "cgroup.procs", "cgroup.kill"


def enter(uid: str) -> str:
    """Move this process into a new group for a pod; its path, or "" where that is not to be had."""
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
    """Move this process, the last of its pod, back to where it came from, and forget the group."""
    if _is_of(path, uid):
        with suppress(OSError):
            _write(f"{os.path.dirname(path)}/{_MEMBERS}", b"0")
        remove(path, uid)


def of(uid: str) -> str:
    """The group that a pod has or had, if this process is outside of it and shares its parent."""
    parent = _own()
    return "" if parent is None else f"{parent}/{_PREFIX}{uid}"


def members(path: str, uid: str) -> list[processes.Process]:
    """The processes in the group of a pod. Raises OSError where that cannot be said."""
    if not _is_of(path, uid):
        return []
    try:
        pids = Path(path, _MEMBERS).read_text("ascii").split()
    except FileNotFoundError:
        return []
    found = (processes.find(int(pid)) for pid in pids if pid != "0")  # 0: one that is not seen from here
    return [each for each in found if each is not None and not each.is_zombie]


def kill(path: str, uid: str) -> bool:
    """Kill all of a pod's group, its supervisor too; False where there is no such group, or an old kernel."""
    if not _is_of(path, uid):
        return False
    try:
        _write(f"{path}/{_KILL}", b"1")
    except OSError:
        return False
    return True


def remove(path: str, uid: str) -> None:
    """Forget a group that nobody is in any more."""
    if _is_of(path, uid):
        with suppress(OSError):
            os.rmdir(path)


def _is_of(path: str, uid: str) -> bool:
    """A path comes from a file: it must be one that we have made for this pod."""
    return bool(path) and os.path.basename(path) == f"{_PREFIX}{uid}" and os.path.normpath(path) == path


def _own() -> str | None:
    """The group that this process is in, in the second version of control groups."""
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
