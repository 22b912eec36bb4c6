"""The lock of a data file, and a mark in it with the newest revision.

There are two locks, and both end with the process: one on a file beside the data file, because a tool that opens and
closes the data file itself would release our lock; and one on the folder, which protects against removal of the first.

The mark is the newest acknowledged revision. It is written after the commit without waiting for the disk: a crash of
the machine may lose the newest marks, but never more of the data than of the marks. Data that is older than its mark
has lost something: the end of its log, or it is an older copy, where revisions would be used twice.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from makeway.adapters.server.storage.checksums import checksum
from makeway.adapters.server.storage.own_folder import open_own

HOLDER_BYTES = 32
MARK_BYTES = 64


class LockHeld(Exception):
    """Another server has the lock; the message is its process id, or empty."""


class LockFile:
    """The lock. Raises ``LockHeld``, and OSError, ``FolderRefused`` among them."""

    def __init__(self, path: Path, folder: int) -> None:
        self._file = open_own(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            _lock(self._file, self._file)
            with suppress(OSError):  # some network file systems have no locks for folders
                _lock(folder, self._file)
            self.mark = self._read_mark()
            with suppress(OSError):  # a full disk: then the holder is not recorded
                os.pwrite(self._file, f"{os.getpid():<{HOLDER_BYTES - 1}}\n".encode(), 0)
        except BaseException:
            os.close(self._file)
            raise

    def _read_mark(self) -> int:
        """Return the mark, 0 if there is no readable one."""
        number, _, check = os.pread(self._file, MARK_BYTES, HOLDER_BYTES).decode(errors="replace").partition(" ")
        return int(number) if number.isdecimal() and check.strip() == _check(number) else 0

    def set_mark(self, revision: int) -> None:
        number = str(revision)
        with suppress(OSError):  # an old mark detects fewer losses
            os.pwrite(self._file, f"{number} {_check(number)}".ljust(MARK_BYTES - 1).encode() + b"\n", HOLDER_BYTES)
            self.mark = revision

    def close(self) -> None:
        os.close(self._file)


def _lock(file: int, told: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LockHeld(os.pread(told, HOLDER_BYTES, 0).decode(errors="replace").strip("\0 \n")) from error


def _check(number: str) -> str:
    return f"{checksum(('', '', '', ''), number.encode()):x}"
