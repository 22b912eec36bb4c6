"""Room on the disk that is kept for removals.

A removal is a write as well: on a disk that is full to the last byte nothing could be removed either. So some room is
taken while there is enough. When a removal finds none, it is given back: then what the log holds can be written into
the data file, and the log begins anew in the room it has. Until the reserve is whole again only removals are stored,
for anything else would take that room for good.
"""

from __future__ import annotations

import os

RESERVE_BYTES = 4 * 1024 * 1024  # about as much as the log holds before it is written back


class DiskReserve:
    """A file of the folder that ``folder`` has open."""

    def __init__(self, folder: int, name: str) -> None:
        self._folder, self._name = folder, name
        self.is_given = False  # back to the disk, by us
        self.fill()

    def fill(self) -> bool:
        """Take the room, where there is as much; whether we have it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(self._name, flags, 0o600, dir_fd=self._folder)
        except OSError:
            return False
        try:
            if os.fstat(file).st_blocks * 512 < RESERVE_BYTES:
                os.posix_fallocate(file, 0, RESERVE_BYTES)
        except OSError:
            os.truncate(file, 0)  # half of it helps nobody
            return False
        finally:
            os.close(file)
        self.is_given = False
        return True

    def give(self) -> bool:
        """Give the room back; whether there was any."""
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
