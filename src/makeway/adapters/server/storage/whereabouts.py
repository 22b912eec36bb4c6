"""Whether the files that a server has open are still those in its folder.

A process can still write to a file that was removed, renamed or replaced, and all such writes are lost when it ends.
SQLite does not notice. So we check the names, and what only we may change, before and after each commit, and once in a
second. A check is a handful of ``stat`` calls.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LOG_HEAD = 32  # bytes; they identify one generation of the log


class FilesGone(Exception):
    """The open files are not those in the folder; the message says what happened."""


class Whereabouts:
    """Watches a data file, its log, its index and its lock, from ``begin`` on. They must all exist by then."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._open = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name, self._log = path.name, f"{path.name}-wal"
        self._names = (self._name, self._log, f"{path.name}-shm", f"{path.name}.lock")
        self._log_file = -1
        self._found: dict[str, os.stat_result] = {}
        self._head = b""

    @property
    def file(self) -> int:
        """The folder, opened."""
        return self._open

    def begin(self) -> None:
        """Take the present files as ours."""
        self._log_file = os.open(self._log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._open)
        self._found = {name: self._stat(name) for name in self._names}
        self.note()

    def note(self) -> None:
        """Take changes since the last check as our own. Raises FilesGone if they cannot be."""
        self._look(is_ours=True)

    def check(self) -> None:
        """Raises FilesGone if something has changed that only we may change."""
        self._look(is_ours=False)

    def close(self) -> None:
        for file in (self._log_file, self._open):
            if file >= 0:
                os.close(file)

    def _look(self, *, is_ours: bool) -> None:
        self._look_at_folder()
        for name in self._names:
            before, now = self._found[name], self._stat(name)
            if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
                raise FilesGone(f"another file was put in the place of {name}")
            if not is_ours:
                if now.st_size < before.st_size:
                    raise FilesGone(f"{name} was cut short, from {before.st_size} to {now.st_size} bytes")
                if name == self._name and (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                    raise FilesGone(f"another program has written to {name}")
            self._found[name] = now
        head = os.pread(self._log_file, LOG_HEAD, 0)
        if not is_ours and head != self._head:
            raise FilesGone(f"another program has written to {self._log}")
        self._head = head

    def _look_at_folder(self) -> None:
        here = os.fstat(self._open)
        with suppress(OSError):
            there = os.stat(self._folder)
            if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                return
        raise FilesGone(f"the folder {self._folder} was removed or replaced")

    def _stat(self, name: str) -> os.stat_result:
        try:
            return os.stat(name, dir_fd=self._open, follow_symlinks=False)
        except OSError as error:
            raise FilesGone(f"{name} was removed or renamed ({error.strerror})") from error
