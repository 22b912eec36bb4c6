"""Reserved disk space for removals.

A removal is a write too: on a completely full disk nothing could be removed. So some space is reserved while there is
enough. When a removal finds no space, the reserve is released: then the log can be written into the data file, and
begins anew in its own space. Until the reserve is complete again only removals are stored, because other writes would
use the space for good.
"""

from __future__ import annotations

import os

RESERVE_BYTES = 4 * 1024 * 1024  # about the size of the log before it is written back


class DiskReserve:
    """A file in the folder that ``folder`` has open."""

    def __init__(self, folder: int, name: str) -> None:
        self._folder, self._name = folder, name
        self.is_given = False  # released by us
        self.fill()

    def fill(self) -> bool:
        """Reserve the space, if there is enough; return whether we have it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(self._name, flags, 0o600, dir_fd=self._folder)
        except OSError:
            return False
        try:
            if os.fstat(file).st_blocks * 512 < RESERVE_BYTES:
                os.posix_fallocate(file, 0, RESERVE_BYTES)
        except OSError:
            os.truncate(file, 0)  # half of it is of no use
            return False
        finally:
            os.close(file)
        self.is_given = False
        return True

    def give(self) -> bool:
        """Release the space; return whether there was any."""
        try:
            file = os.open(self._name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            return False
        try:
            had = os.fstat(file).st_blocks > 0
            os.ftruncate(file, 0)
        finally:
            os.close(file)
        self.is_given |= had
        return had
