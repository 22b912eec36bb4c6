"""How the agent and supervisors reach each other.

The agent asks a zygote for supervisors (``Launcher``). The zygote is started when it is first needed, and again when it
is gone. A supervisor calls the agent when its record has changed (``CallSocket``).
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
CALLS_MAX = 200  # taken at a time
MESSAGE_MAX = 4096
_PACKAGES = str(Path(makeway.__file__).parents[1])
_PROGRAM = (
    f"import sys; sys.path.insert(0, {_PACKAGES!r}); from makeway.adapters.node.supervision.zygote import main; main()"
)


class Launcher:
    """``files``: soft and hard limit of descriptors for pods, where this process has raised its own."""

    def __init__(self, files: tuple[int, int] | None = None) -> None:
        self._files = files
        self._asked: dict[Path, None] = {}  # without an answer so far
        self._line: socket.socket | None = None
        self._pid = 0
        self._former: dict[int, None] = {}  # zygotes that were given up and are not reaped yet

    def fileno(self) -> int:
        """Readable when ``ended`` has news; -1 if there is no zygote yet."""
        return -1 if self._line is None else self._line.fileno()

    def prepare(self) -> None:
        """Start the zygote."""
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
            if self._files is not None:  # it makes no pod before this
                resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._files)
        finally:
            theirs.close()
        self._line = ours

    def launch(self, folder: Path) -> bool:
        """Ask for a supervisor; False: not possible now, ask again."""
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
        """Give up a zygote that does not answer; its supervisors keep running without it."""
        with suppress(ProcessLookupError):
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)  # our child: its number is not reused until it is reaped
        self._forget()

    def ended(self) -> list[Path]:
        """Return supervisors that have ended, and those whose zygote is gone, so that their end is unknown."""
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
        """Ask for no more. Supervisors keep running, and the zygote as long as they do."""
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
        """Reap former zygotes: a child that has ended must not stay in the process table.

        The socket closes before the process has ended, so ``ended`` asks for them until they are gone.
        """
        for pid in list(self._former):
            try:
                found, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                found = pid
            if found:
                del self._former[pid]


class CallSocket:
    """The socket on which supervisors call when their record has changed."""

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
        """Return the uids of the pods whose supervisors have called, at most ``CALLS_MAX`` at a time."""
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
        """Close and unlink the socket."""
        self.close()
        with suppress(OSError):
            self._path.unlink()


def _plain_environment() -> dict[str, str]:
    """A small environment: pods inherit nothing of ours, they get what is planned."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
