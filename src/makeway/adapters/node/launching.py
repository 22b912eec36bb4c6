"""How the agent and supervisors reach each other.

They are asked of a zygote, which is started when it is first needed and again when it is gone (``Launcher``), and call
when their record has changed (``CallSocket``).
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import makeway
from makeway.adapters.node.supervision.records import opened

SOCKET = "agent.sock"
UID_BYTES_MAX = 256
CALLS_MAX = 200  # that are taken at a time
MESSAGE_MAX = 4096
_PACKAGES = str(Path(makeway.__file__).parents[1])
_PROGRAM = (
    f"import sys; sys.path.insert(0, {_PACKAGES!r}); from makeway.adapters.node.supervision.zygote import main; main()"
)


class Launcher:
    """``files``: how many descriptors pods may have, soft and hard, where this process has allowed itself more."""

    def __init__(self, files: tuple[int, int] | None = None) -> None:
        self._files = files
        self._asked: dict[Path, None] = {}  # and not heard of again
        self._line: socket.socket | None = None
        self._pid = 0
        self._former: dict[int, None] = {}  # zygotes that were given up and have not been collected

    def fileno(self) -> int:
        """Readable when ``ended`` has something to tell; -1 where there is no zygote yet."""
        return -1 if self._line is None else self._line.fileno()

    def prepare(self) -> None:
        """Have a zygote ready."""
        if self._line is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        files = [
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            command = [sys.executable, "-I", "-S", "-c", _PROGRAM]
            self._pid = os.posix_spawn(sys.executable, command, _plain_environment(), file_actions=files)
            if self._files is not None:  # it makes no pod before it is asked for one
                resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._files)
        finally:
            theirs.close()
        self._line = ours

    def launch(self, folder: Path) -> bool:
        """Ask for a supervisor; False: not now, ask again."""
        self.prepare()
        assert self._line is not None
        try:
            self._line.send(os.fsencode(folder))
            self._asked[folder] = None
        except BlockingIOError:
            return False
        except OSError:
            self._forget()
            return False
        return True

    def replace(self) -> None:
        """Give up a zygote that does not do what it is asked; the supervisors there are go on without it."""
        with suppress(ProcessLookupError):
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)  # it is our child: its number is its own until it is collected
        self._forget()

    def ended(self) -> list[Path]:
        """Supervisors that have ended, and those that nobody can tell of because their zygote is gone."""
        self._collect()
        found: list[Path] = []
        while self._line is not None:
            try:
                message = self._line.recv(MESSAGE_MAX)
            except BlockingIOError:
                break
            except OSError:
                message = b""
            if not message:
                self._forget()
                found.extend(self._asked)
                self._asked.clear()
                break
            folder = Path(os.fsdecode(message))
            self._asked.pop(folder, None)
            found.append(folder)
        return found

    def close(self) -> None:
        """Ask for no more; the supervisors there are go on, and the zygote as long as they do."""
        self._forget()

    def _forget(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._pid:
            self._former[self._pid] = None
            self._pid = 0
        self._collect()

    def _collect(self) -> None:
        """They are our children: once they have ended they must not stay in the table of processes.

        Their end is heard of before it has come: the line closes first. So they are asked for until they are gone.
        """
        for pid in list(self._former):
            try:
                found, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                found = pid
            if found:
                del self._former[pid]


class CallSocket:
    """Where supervisors call when their record has changed."""

    def __init__(self, root: Path) -> None:
        self._path = root / SOCKET
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.setblocking(False)
        with opened(self._path.parent) as parent:
            self._line.bind(f"{parent}/{self._path.name}")
        os.chmod(self._path, 0o600)

    def fileno(self) -> int:
        return self._line.fileno()

    def take(self) -> list[str]:
        """The uids of the pods whose supervisors have called, at most so many at a time."""
        uids: list[str] = []
        while len(uids) < CALLS_MAX:
            try:
                uids.append(self._line.recv(UID_BYTES_MAX).decode("utf-8", "replace"))
            except BlockingIOError:
                break
        return uids

    def close(self) -> None:
        self._line.close()

    def remove(self) -> None:
        """Close it, and let nobody find it."""
        self.close()
        with suppress(OSError):
            self._path.unlink()


def _plain_environment() -> dict[str, str]:
    """Nothing of ours is for pods to inherit; what they get is planned."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
