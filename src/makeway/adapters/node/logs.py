"""Reads the log of a container: from the start or near the end, with times, up to now or as it grows.

A reader follows the pieces that ``logbook`` writes. It never waits: a client that follows asks again. Pieces that are
dropped meanwhile are skipped. Between two calls a reader holds no open file, only a position.

Promises: without following, a client reads up to where the log ended at its request, however fast it grows. The end is
searched backwards in blocks, a time by bisection. So a call costs a few blocks plus its answer, and the first call
reads the log once at most.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.supervision.logbook import ENTRY, TIMES_APART_MS, piece_name
from makeway.adapters.node.supervision.processes import is_alive
from makeway.adapters.node.supervision.records import RECORD, open_plain
from makeway.api.quantity import Time

BLOCK = 64 * 1024


@dataclass(frozen=True)
class LogQuery:
    follows: bool = False
    previous: bool = False  # of the previous start
    tail: int | None = None  # None: all lines
    since_ms: int | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


class NoLogYet(Exception):
    """There is no log to read; the message says why."""


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

    return LogReader(folder.logs(container), restart, query, is_over, beside=folder.path / RECORD)


class _LogPlace(NamedTuple):
    piece: int
    offset: int


Mark = tuple[tuple[int, int], ...]


class LogSpot(NamedTuple):
    """The files that change when there is more to read; readers in the same place have equal spots."""

    piece: Path
    folder: Path
    record: Path | None

    def mark(self) -> Mark:
        """A fingerprint of the files, equal as long as nothing was written."""
        return tuple(_looks(path) for path in self if path is not None)


def _looks(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (-1, -1)
    return (found.st_size, found.st_mtime_ns)


class LogReader:
    """``is_over``: whether nothing more will be written; asked anew each time. ``beside``: a file that changes at the
    end.
    """

    def __init__(
        self, folder: Path, restart: int, query: LogQuery, is_over: Callable[[], bool], *, beside: Path | None = None
    ) -> None:
        self._folder = folder
        self._restart = restart
        self._query = query
        self._is_over = is_over
        self._beside = beside
        self._left = query.limit_bytes
        self._at_line_start = True
        self.bytes_read = 0  # from all files
        pieces = self._pieces()
        end = _LogPlace(pieces[-1], self._size(pieces[-1])) if pieces else _LogPlace(0, 0)
        self._end = None if query.follows else end  # None: no end
        self._place = self._first_place(pieces, end)
        self.is_done = self._left is not None and self._left <= 0

    def read(self) -> bytes:
        """Return some kilobytes at most; empty: nothing at present, or for good if ``is_done``."""
        while not self.is_done:
            start, is_over = self._place, self._end is not None
            data = self._next()
            if not data and not is_over:
                is_over = self._is_over()
                data = self._next()  # after ``is_over``, so that nothing written before is missed
            if data:
                shown = self._dated(data, start) if self._query.timestamps else data
                return self._limited(shown)
            following = self._following()
            if following is not None:
                self._place = _LogPlace(following, 0)
            elif is_over:
                self.close()
            else:
                break
        return b""

    def close(self) -> None:
        self.is_done = True

    @property
    def spot(self) -> LogSpot:
        """The spot that changes when there is more to read."""
        return LogSpot(self._path(self._place.piece), self._folder, self._beside)

    # --- where it is ---

    def _path(self, piece: int, kind: str = "log") -> Path:
        return self._folder / piece_name(self._restart, piece, kind)

    def _pieces(self) -> list[int]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        parts = (name.split(".") for name in names if name.endswith(".log"))
        return sorted(int(piece) for restart, piece, _ in parts if restart == str(self._restart))

    def _following(self) -> int | None:
        """Return the next piece, once this one is read and no longer grows."""
        later = [each for each in self._pieces() if each > self._place.piece]
        if not later or (self._end is not None and later[0] > self._end.piece):
            return None
        if self._size(self._place.piece) > self._place.offset:
            return None  # its last bytes came just before the next piece was begun
        return later[0]

    def _next(self) -> bytes:
        piece, offset = self._place
        most = BLOCK
        if self._end is not None and piece >= self._end.piece:
            most = min(BLOCK, self._end.offset - offset) if piece == self._end.piece else 0
        data = self._block(piece, offset, most)
        self._place = _LogPlace(piece, offset + len(data))
        return data

    def _block(self, piece: int, offset: int, size: int) -> bytes:
        """As much of a piece as exists; nothing of a dropped one."""
        if size <= 0:
            return b""
        with self._opened(piece, "log") as file:
            data = b"" if file is None else os.pread(file, size, offset)
        self.bytes_read += len(data)
        return data

    @contextmanager
    def _opened(self, piece: int, kind: str) -> Iterator[int | None]:
        try:
            file = open_plain(self._path(piece, kind))
        except OSError:
            yield None
            return
        try:
            yield file
        finally:
            os.close(file)

    def _size(self, piece: int) -> int:
        with suppress(OSError):
            return self._path(piece).stat().st_size
        return 0

    # --- where it begins ---

    def _first_place(self, pieces: list[int], end: _LogPlace) -> _LogPlace:
        if not pieces:
            return _LogPlace(0, 0)
        first = _LogPlace(pieces[0], 0)
        if self._query.since_ms is not None:
            first = self._since(pieces, self._query.since_ms, end)
        if self._query.tail is not None:
            first = max(first, self._tail(pieces, max(0, self._query.tail), end))
        return first

    def _since(self, pieces: list[int], since_ms: int, end: _LogPlace) -> _LogPlace:
        """The position of the first line at or after a time, as exact as times are recorded; no line is missed."""
        for piece in pieces:
            with self._opened(piece, "times") as file:
                times = _Times(self, file)
                index = bisect_left(times, since_ms - TIMES_APART_MS + 1, key=lambda entry: entry[1])
                offset = times[index][0] if index < len(times) else None
            if offset is not None:
                return self._line_from(pieces, _LogPlace(piece, offset), end)
        return end

    def _line_from(self, pieces: list[int], place: _LogPlace, end: _LogPlace) -> _LogPlace:
        """The next beginning of a line, at this position or after it."""
        if place == (pieces[0], 0):
            return place
        before = place.piece - 1
        back = (
            _LogPlace(place.piece, place.offset - 1)
            if place.offset
            else _LogPlace(before, max(0, self._size(before) - 1))
        )
        for piece in (number for number in pieces if number >= back.piece):
            at, stop = back.offset if piece == back.piece else 0, self._stop(piece, end)
            while data := self._block(piece, at, min(BLOCK, stop - at)):
                found = data.find(b"\n")
                if found >= 0:
                    return _LogPlace(piece, at + found + 1)
                at += len(data)
        return end

    def _stop(self, piece: int, end: _LogPlace) -> int:
        return end.offset if piece == end.piece else self._size(piece)

    def _tail(self, pieces: list[int], lines: int, end: _LogPlace) -> _LogPlace:
        """The beginning of the last ``lines`` lines; bytes after the last line end count as a line too."""
        if lines == 0:
            return end
        is_last = True
        for piece in reversed(pieces):
            at = self._stop(piece, end)
            while at > 0:
                begin = max(0, at - BLOCK)
                data = self._block(piece, begin, at - begin)
                stop = len(data) - 1 if is_last and data.endswith(b"\n") else len(data)
                is_last = is_last and not data
                count = data.count(b"\n", 0, stop)
                if count >= lines:
                    return _LogPlace(piece, begin + _nth_from_end(data, lines, stop) + 1)
                lines -= count
                at = begin
        return _LogPlace(pieces[0], 0)

    # --- when it came ---

    def _entries(self, piece: int, begin: int, end: int) -> list[tuple[int, int]]:
        """The recorded offsets and times between two offsets of a piece."""
        with self._opened(piece, "times") as file:
            times = _Times(self, file)
            first = max(0, bisect_right(times, begin, key=lambda entry: entry[0]) - 1)
            return times.some(first, bisect_left(times, end, key=lambda entry: entry[0]))

    def _dated(self, data: bytes, start: _LogPlace) -> bytes:
        entries = self._entries(start.piece, start.offset, start.offset + len(data))
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


class _Times:
    """The times of a piece as a sequence of (offset, milliseconds), read on demand."""

    def __init__(self, reader: LogReader, file: int | None) -> None:
        self._reader, self._file = reader, file
        self._count = 0 if file is None else os.fstat(file).st_size // ENTRY.size

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[int, int]:
        found = self.some(index, index + 1)
        if not found:
            raise IndexError(index)
        return found[0]

    def some(self, first: int, stop: int) -> list[tuple[int, int]]:
        if self._file is None or stop <= first:
            return []
        data = os.pread(self._file, (stop - first) * ENTRY.size, first * ENTRY.size)
        self._reader.bytes_read += len(data)
        whole = len(data) - len(data) % ENTRY.size
        return [(offset, ms) for offset, ms in ENTRY.iter_unpack(data[:whole])]


def _nth_from_end(data: bytes, number: int, stop: int) -> int:
    """The position of the ``number``-th line end before ``stop``, counted backwards; there are that many."""
    for _ in range(number):
        stop = data.rfind(b"\n", 0, stop)
    return stop


def _stamp(ms: int) -> bytes:
    whole = str(Time.of_millis(ms - ms % 1000)).removesuffix("Z")
    return f"{whole}.{ms % 1000:03d}000000Z ".encode()
