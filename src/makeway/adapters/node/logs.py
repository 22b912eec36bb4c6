"""The log of a container, read: from the start or near the end, with times, as far as it is, or as it grows.

A reader follows the pieces that ``logbook`` writes. It never waits: whoever wants to follow asks again. Pieces that
are dropped meanwhile are skipped.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.logbook import ENTRY, TIMES_APART_MS, piece_name
from makeway.adapters.node.processes import is_alive
from makeway.adapters.node.records import open_plain, read_plain
from makeway.api.quantity import Time

CHUNK = 64 * 1024
PIECE_BYTES_MAX = 1 << 30


@dataclass(frozen=True)
class LogQuery:
    follows: bool = False
    previous: bool = False  # of the start before the present one
    tail: int | None = None  # None: all lines
    since_ms: int | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


class NoLogYet(Exception):
    """There is nothing to read; the message says why."""


def log_of(folder: PodFolder, container: str, query: LogQuery) -> LogReader:
    """Raises NoLogYet."""
    record = folder.record()
    found = next((each for each in record.containers if each.name == container), None) if record is not None else None
    if found is None or not (found.started_ms is not None or found.end is not None or found.last is not None):
        raise NoLogYet("ContainerCreating" if found is None else found.reason or "ContainerCreating")
    restart = found.restarts - 1 if query.previous else found.restarts
    if restart < 0:
        raise NoLogYet(f'previous terminated container "{container}" not found')

    def is_over() -> bool:
        now = folder.record()
        if now is None or now.finished_ms is not None or not is_alive(now.pid, now.ticks, now.boot):
            return True
        same = next((each for each in now.containers if each.name == container), found)
        return same.restarts != restart or same.state != "running"

    return LogReader(folder.logs(container), restart, query, is_over)


class _Place(NamedTuple):
    piece: int
    offset: int


class LogReader:
    """``is_over``: whether nothing more will be written; asked anew each time."""

    def __init__(self, folder: Path, restart: int, query: LogQuery, is_over: Callable[[], bool]) -> None:
        self._folder = folder
        self._restart = restart
        self._query = query
        self._is_over = is_over
        self._left = query.limit_bytes
        self._at_line_start = True
        self._file = -1
        self._times: list[tuple[int, int]] = []
        self._place = self._first_place()
        self.is_done = self._left is not None and self._left <= 0

    def read(self) -> bytes:
        """What there is, at most some kilobytes; empty: nothing at present, or for good if ``is_done``."""
        while not self.is_done:
            is_over = not self._query.follows or self._is_over()  # asked first: what is written after it is not missed
            start = self._place
            data = self._next()
            if data:
                shown = self._dated(data, start) if self._query.timestamps else data
                return self._limited(shown)
            following = self._following()
            if following is not None:
                self._turn_to(following)
            elif is_over:
                self.close()
            else:
                break
        return b""

    def close(self) -> None:
        self.is_done = True
        self._shut()

    # --- where it is ---

    def _pieces(self) -> list[int]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        parts = (name.split(".") for name in names if name.endswith(".log"))
        return sorted(int(piece) for restart, piece, _ in parts if restart == str(self._restart))

    def _following(self) -> int | None:
        """The piece after this one, once this one is read and will not grow any more."""
        later = [each for each in self._pieces() if each > self._place.piece]
        if not later:
            return None
        if self._file >= 0 and os.fstat(self._file).st_size > self._place.offset:
            return None  # the last of it came just before the next was begun
        return later[0]

    def _turn_to(self, piece: int) -> None:
        self._shut()
        self._place = _Place(piece, 0)

    def _shut(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _next(self) -> bytes:
        piece, offset = self._place
        if self._file < 0:
            path = self._folder / piece_name(self._restart, piece, "log")
            try:
                self._file = open_plain(path)
            except OSError:
                return b""
        data = os.pread(self._file, CHUNK, offset)
        self._place = _Place(piece, offset + len(data))
        return data

    # --- where it begins ---

    def _first_place(self) -> _Place:
        pieces = self._pieces()
        if not pieces:
            return _Place(0, 0)
        first = _Place(pieces[0], 0)
        if self._query.since_ms is not None:
            first = self._since(pieces, self._query.since_ms)
        if self._query.tail is not None:
            first = max(first, self._tail(pieces, max(0, self._query.tail)))
        return first

    def _since(self, pieces: list[int], since_ms: int) -> _Place:
        """The first line that began then or later, as exactly as times are noted: none is missed."""
        for piece in pieces:
            entries = self._entries(piece)
            index = bisect_left([ms for _, ms in entries], since_ms - TIMES_APART_MS + 1)
            if index < len(entries):
                return self._line_from(pieces, piece, entries[index][0])
        return _Place(pieces[-1], self._size(pieces[-1]))

    def _line_from(self, pieces: list[int], piece: int, offset: int) -> _Place:
        """The beginning of a line, here or after."""
        if offset == 0 and piece == pieces[0]:
            return _Place(piece, 0)
        back, at = (piece, offset - 1) if offset else (piece - 1, max(0, self._size(piece - 1) - 1))
        for each in (number for number in pieces if number >= back):
            data = self._bytes(each)
            found = data.find(b"\n", at if each == back else 0)
            if found >= 0:
                return _Place(each, found + 1)
        return _Place(pieces[-1], self._size(pieces[-1]))

    def _tail(self, pieces: list[int], lines: int) -> _Place:
        """The beginning of the last so many lines; what follows the last line end is a line too."""
        end = _Place(pieces[-1], self._size(pieces[-1]))
        if lines == 0:
            return end
        is_last = True
        for piece in reversed(pieces):
            data = self._bytes(piece)
            at = len(data)
            if is_last and data.endswith(b"\n"):
                at -= 1
            is_last = is_last and not data
            while lines and (found := data.rfind(b"\n", 0, at)) >= 0:
                lines -= 1
                if not lines:
                    return _Place(piece, found + 1)
                at = found
        return _Place(pieces[0], 0)

    def _bytes(self, piece: int) -> bytes:
        try:
            return read_plain(self._folder / piece_name(self._restart, piece, "log"), PIECE_BYTES_MAX)
        except OSError:
            return b""

    def _size(self, piece: int) -> int:
        try:
            return (self._folder / piece_name(self._restart, piece, "log")).stat().st_size
        except OSError:
            return 0

    # --- when it came ---

    def _entries(self, piece: int) -> list[tuple[int, int]]:
        """Offsets and times, as far as they are whole."""
        try:
            data = read_plain(self._folder / piece_name(self._restart, piece, "times"), PIECE_BYTES_MAX)
        except OSError:
            return []
        whole = len(data) - len(data) % ENTRY.size
        return [(offset, ms) for offset, ms in ENTRY.iter_unpack(data[:whole])]

    def _dated(self, data: bytes, start: _Place) -> bytes:
        entries = self._entries(start.piece)
        offsets = [offset for offset, _ in entries]
        shown, at = [], 0
        while at < len(data):
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end + 1
            if self._at_line_start:
                index = bisect_right(offsets, start.offset + at) - 1
                shown.append(_stamp(entries[index][1] if index >= 0 else 0))
            shown.append(data[at:end])
            self._at_line_start = data[end - 1 : end] == b"\n"
            at = end
        return b"".join(shown)

    def _limited(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        data = data[: self._left]
        self._left -= len(data)
        if self._left <= 0:
            self.close()
        return data


def _stamp(ms: int) -> bytes:
    whole = str(Time.of_millis(ms - ms % 1000)).removesuffix("Z")
    return f"{whole}.{ms % 1000:03d}000000Z ".encode()
