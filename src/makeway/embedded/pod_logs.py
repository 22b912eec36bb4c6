"""Logs of pods for clients of the server: read in blocks by separate threads, and watched together.

Two threads read for all clients, so the HTTP loop never gets much to send at a time, however many clients ask for much,
and requests take turns. A client that follows and has read everything is not polled alone: one check of all followed
files, ten times a second, finds those that have grown. They are read in small groups, so that a thousand followers of
one pod do not delay other clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.logs import LogQuery, LogReader, LogSpot, Mark, NoLogYet, log_of
from makeway.adapters.server.resources.pod_calls import LogOptions, NoLog
from makeway.embedded.local_node import FOLDER
from makeway.runtime.ports import Stored

READERS = 2
LOOK_SECONDS = 0.1  # between two checks of followed logs
AT_ONCE = 8  # logs that are read before others have their turn
TURN_SECONDS = 0.002
SURE_SECONDS = 5.0  # after this time a log is read anyway: a supervisor that was killed changes no file


class Logs:
    """``adapters.server.resources.pod_calls.PodLogs`` over the folders of pods. On one loop only."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / FOLDER
        self._threads = ThreadPoolExecutor(READERS, "makeway-logs")
        self._lookout = Lookout(self._threads)

    async def read(self, pod: Stored, options: LogOptions) -> AsyncIterator[bytes]:
        query = LogQuery(
            options.follow, options.previous, options.tail_lines, options.since, options.timestamps,
            options.limit_bytes,
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        folder = PodFolder(self._root, pod.uid)
        try:
            reader = await loop.run_in_executor(self._threads, log_of, folder, options.container, query)
        except NoLogYet as error:
            raise NoLog(str(error)) from None
        yield b""
        look = await loop.run_in_executor(self._threads, _looked, reader)
        while True:
            if look.part:
                yield look.part
            if reader.is_done:
                return
            if look.part:
                look = await loop.run_in_executor(self._threads, _looked, reader)
            else:
                look = await self._lookout.changed(reader, look)


class LogReading(NamedTuple):
    """What a reader returned, and the fingerprint of its files before, which later writes change."""

    part: bytes
    spot: LogSpot
    mark: Mark


def _looked(reader: LogReader) -> LogReading:
    spot = reader.spot
    mark = spot.mark()
    part = reader.read()
    return LogReading(part, reader.spot, mark if reader.spot == spot else ())


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    reader: LogReader
    mark: Mark
    until: float  # then it is read anyway
    found: asyncio.Future[LogReading]


class Lookout:
    """Waits for logs to grow, for all clients that follow one, and reads them."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._waiting: dict[LogSpot, dict[_Waiter, None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def changed(self, reader: LogReader, last: LogReading) -> LogReading:
        """Return the next reading of a log that has changed since the last one, or after a few seconds any."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(reader, last.mark, loop.time() + SURE_SECONDS, loop.create_future())
        self._waiting.setdefault(last.spot, {})[waiter] = None
        if self._task is None:
            self._task = loop.create_task(self._look_out())
        try:
            return await waiter.found
        finally:
            mine = self._waiting[last.spot]
            del mine[waiter]
            if not mine:
                del self._waiting[last.spot]

    async def _look_out(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(LOOK_SECONDS)
                woken = await self._woken()
                for at in range(0, len(woken), AT_ONCE):
                    await self._read(woken[at : at + AT_ONCE])
        finally:
            self._task = None

    async def _woken(self) -> Sequence[_Waiter]:
        loop, spots = asyncio.get_running_loop(), list(self._waiting)
        marks = await loop.run_in_executor(self._threads, _marks, spots)
        now = loop.time()
        return [
            waiter
            for spot, mark in zip(spots, marks, strict=True)
            for waiter in self._waiting.get(spot, ())
            if waiter.mark != mark or waiter.until <= now
        ]

    async def _read(self, waiters: Sequence[_Waiter]) -> None:
        readers = [each.reader for each in waiters]
        looks = await asyncio.get_running_loop().run_in_executor(self._threads, _looks, readers)
        for waiter, look in zip(waiters, looks, strict=True):
            if waiter.found.done():  # its client is gone
                continue
            if isinstance(look, Exception):
                waiter.found.set_exception(look)
            else:
                waiter.found.set_result(look)
        if len(waiters) == AT_ONCE:
            await asyncio.sleep(TURN_SECONDS)


def _marks(spots: Sequence[LogSpot]) -> list[Mark]:
    return [each.mark() for each in spots]


def _looks(readers: Sequence[LogReader]) -> list[LogReading | Exception]:
    """Read the logs; a log that cannot be read only fails its own reader."""
    found: list[LogReading | Exception] = []
    for reader in readers:
        try:
            found.append(_looked(reader))
        except Exception as error:
            found.append(error)
    return found
