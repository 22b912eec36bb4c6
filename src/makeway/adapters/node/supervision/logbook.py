"""Writes the log of one start of a container: bytes in pieces of bounded size, with the times at which they came.

A piece is two files: ``3.000001.log`` holds the bytes of the second piece of the fourth start, ``3.000001.times`` has
pairs of (offset, milliseconds): when the bytes from that offset on came. Only the newest pieces are kept. No file is
made before the first byte.

On a full disk output is lost, but the process that prints it goes on. Not here: reading (``logs``).
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

from makeway.adapters.node.supervision.records import open_plain

ENTRY = struct.Struct("<QQ")  # offset, milliseconds
TIMES_APART_MS = 10  # bytes that come sooner get the same time
PIECES = 8  # of one start


def piece_name(restart: int, piece: int, kind: str) -> str:
    return f"{restart}.{piece:06d}.{kind}"


class LogBook:
    def __init__(self, folder: Path, restart: int, size_max: int) -> None:
        self._folder = folder
        self._restart = restart
        self._piece_max = max(4096, size_max // PIECES)
        self._piece = -1
        self._size = 0
        self._last_ms = -TIMES_APART_MS
        self._files: tuple[int, int] | None = None
        self.lost_bytes = 0  # that could not be written

    def write(self, data: bytes, now_ms: int) -> None:
        try:
            if self._files is None or self._size >= self._piece_max:
                self._turn()
            assert self._files is not None
            if self._size == 0 or now_ms - self._last_ms >= TIMES_APART_MS:
                os.write(self._files[1], ENTRY.pack(self._size, now_ms))
                self._last_ms = now_ms
            written = os.write(self._files[0], data)
            self._size += written
            self.lost_bytes += len(data) - written
        except OSError:
            self.lost_bytes += len(data)

    def close(self) -> None:
        for file in self._files or ():
            os.close(file)
        self._files = None

    def _turn(self) -> None:
        """Begin the next piece, and remove the oldest."""
        self.close()
        if self._piece < 0:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._piece += 1
        self._size = 0
        log, times = (self._folder / piece_name(self._restart, self._piece, kind) for kind in ("log", "times"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        first = open_plain(log, flags)
        try:
            self._files = (first, open_plain(times, flags))
        except OSError:
            os.close(first)
            raise
        self._drop(self._restart, self._piece - PIECES)

    def _drop(self, restart: int, piece: int) -> None:
        for kind in ("log", "times"):
            with suppress(OSError):
                os.unlink(self._folder / piece_name(restart, piece, kind))


def drop_start(folder: Path, restart: int) -> None:
    """Remove the log of a start."""
    for path in folder.glob(f"{restart}.*"):
        with suppress(OSError):
            path.unlink()
