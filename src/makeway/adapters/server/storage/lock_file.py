"""The lock of a data file, and a mark in it that says how far the data had come.

Two locks are held, both end with the process: one on a file beside the data file, so that no tool that opens and closes
that file can lose it for us, and one on the folder itself, which nobody can remove to get past the first.

The mark is the newest revision that was acknowledged. It is written after the commit and not waited for: a crash of the
machine may take the newest marks, never more of the data than of them. Data that is older than its mark has lost
something: the end of its log, or it is an older copy, where revisions would be given a second time.
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
    """Another server has it; the message is its process id, or empty."""


class LockFile:
    """Raises ``LockHeld``, and OSError, ``FolderRefused`` among them."""

    def __init__(self, path: Path, folder: int) -> None:
        self._file = open_own(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            _lock(self._file, self._file)
            with suppress(OSError):  # some network file systems have no locks for folders
                _lock(folder, self._file)
            self.mark = self._read_mark()
            with suppress(OSError):  # a full disk: then the next one does not learn who we are
                os.pwrite(self._file, f"{os.getpid():<{HOLDER_BYTES - 1}}\n".encode(), 0)
        except BaseException:
            os.close(self._file)
            raise

    def _read_mark(self) -> int:
        """0 where there is none that can be read."""
        number, _, check = os.pread(self._file, MARK_BYTES, HOLDER_BYTES).decode(errors="replace").partition(" ")
        return int(number) if number.isdecimal() and check.strip() == _check(number) else 0

    def set_mark(self, revision: int) -> None:
        number = str(revision)
        with suppress(OSError):  # a mark that is too old warns later of less
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
