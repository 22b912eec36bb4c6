"""The process that supervisors are forked from, kept ready so that a pod starts in milliseconds.

makeway starts it once. It imports what a supervisor needs, and forks one for each folder it gets. When makeway is gone
it stays until its last supervisor has ended: it becomes the parent of processes that a killed supervisor left, and ends
them at once. A suspended supervisor is continued: it has a pod to end.

Messages go over the socket that is its standard input: a folder in, and the same folder back when its supervisor has
ended.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
import traceback
from contextlib import suppress
from pathlib import Path

from makeway.adapters.node.supervision import control_groups, processes
from makeway.adapters.node.supervision.records import TROUBLE, open_plain
from makeway.adapters.node.supervision.supervisor import supervise

MESSAGE_MAX = 4096
STRAYS_MS = 20  # between two checks for processes that a killed supervisor left
STOPPED_MS = 100  # until a suspended supervisor is continued; so suspending it in a loop costs us little


class Zygote:
    def __init__(self, line: socket.socket) -> None:
        self._line: socket.socket | None = line
        self._folders: dict[int, bytes] = {}  # pid of a supervisor -> its folder
        self._has_strays = False
        self._killed: dict[str, None] = {}  # pods whose supervisors were killed
        self._stopped: dict[int, int] = {}  # pid of a supervisor -> when it is continued

    def run(self) -> None:
        processes.take_name("makeway-pods")
        processes.adopt_orphans()
        heard, wake = socket.socketpair()
        heard.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # it ends when nothing is left to do
            signal.signal(number, signal.SIG_IGN)
        self._files = (heard, wake)
        processes.boot_id()  # read once, shared by all
        gc.collect()
        gc.freeze()  # present objects are shared with all supervisors: leave their pages alone
        while self._line is not None or self._folders or self._has_strays:
            self._wait(heard)
            self._collect()
            self._let_go_on()

    def _wait(self, heard: socket.socket) -> None:
        poll = select.poll()
        poll.register(heard, select.POLLIN)
        if self._line is not None:
            poll.register(self._line, select.POLLIN)
        for file, _ in poll.poll(STRAYS_MS if self._has_strays else STOPPED_MS if self._stopped else None):
            if file == heard.fileno():
                heard.recv(4096)
            elif self._line is not None:
                self._take(self._line)

    def _take(self, line: socket.socket) -> None:
        folder = b""
        with suppress(OSError):
            folder = line.recv(MESSAGE_MAX)
        if not folder:  # makeway is gone
            line.close()
            self._line = None
            return
        try:
            pid = os.fork()
        except OSError as error:
            self._note(folder, f"no process could be made: {error.strerror}")
            self._tell(folder)  # it will be requested again
            return
        if pid == 0:
            self._become(folder)
        self._folders[pid] = folder

    def _become(self, folder: bytes) -> None:
        code = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            if self._line is not None:
                self._line.close()
            for file in self._files:
                file.close()
            supervise(Path(os.fsdecode(folder)))
            code = 0
        except BaseException:
            self._note(folder, traceback.format_exc())
        finally:
            os._exit(code)

    def _let_go_on(self) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        for pid in [pid for pid, at_ms in self._stopped.items() if at_ms <= now_ms]:
            del self._stopped[pid]
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)  # our child: its number is not reused until it is reaped

    def _note(self, folder: bytes, words: str) -> None:
        """Record why no supervisor began; the next request reads it."""
        with suppress(OSError):
            told = open_plain(Path(os.fsdecode(folder), TROUBLE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(told, "wb") as file:
                file.write(words.encode("utf-8", "replace"))

    def _collect(self) -> None:
        has_children = True
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                has_children = False
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                if pid in self._folders:
                    self._stopped.setdefault(pid, time.monotonic_ns() // 1_000_000 + STOPPED_MS)
                continue
            self._stopped.pop(pid, None)
            folder = self._folders.pop(pid, None)
            if folder is not None:
                self._tell(folder)
                if status != 0:  # one that ends by itself leaves no process
                    self._has_strays = True
                    self._killed[os.path.basename(os.fsdecode(folder))] = None
        if self._has_strays:
            with suppress(OSError):  # leftovers are unknown: the kernel is asked again
                self._has_strays = has_children and self._end_strays()
            if not self._has_strays:
                self._forget_groups()

    def _forget_groups(self) -> None:
        for uid in self._killed:
            control_groups.remove(control_groups.of(uid), uid)
        self._killed.clear()

    def _end_strays(self) -> bool:
        """Kill all children that are no supervisors; return whether there were any."""
        me = os.getpid()
        strays = [each for each in processes.all_processes() if each.parent == me and each.pid not in self._folders]
        for stray in strays:
            processes.send(stray, signal.SIGKILL)
        return bool(strays)

    def _tell(self, folder: bytes) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.send(folder)


def main() -> None:
    os.setsid()  # keys typed at makeway's terminal do not concern pods
    os.chdir("/")
    line = socket.socket(fileno=os.dup(0))
    empty = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1):
        os.dup2(empty, file)
    os.close(empty)
    Zygote(line).run()


if __name__ == "__main__":
    main()
