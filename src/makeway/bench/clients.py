"""Clients that cost as little as possible: what a bench measures is the server, and both share a machine.

Requests are written as bytes on connections that stay open, one at a time on each; of an answer only its code and
length are read. A watch looks for names in what arrives and takes the time; nothing is decoded.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

READ_BYTES = 256 * 1024
TAIL_BYTES = 64  # a name may be cut by the end of what has arrived
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a server, and the token to show."""

    url: str
    token: str
    authority: str  # a file

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)

    def head(self, method: str, path: str, content_type: str = "application/json") -> bytes:
        host = urlsplit(self.url).netloc
        lines = (f"{method} {path} HTTP/1.1", f"host: {host}", f"authorization: Bearer {self.token}")
        return "\r\n".join((*lines, f"content-type: {content_type}", "content-length: ")).encode()


class BenchConnection:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, endpoint: Endpoint, trust: ssl.SSLContext) -> BenchConnection:
        parts = urlsplit(endpoint.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=trust, limit=READ_BYTES)
        return cls(reader, writer)

    async def send(self, head: bytes, body: bytes = b"") -> tuple[int, bytes]:
        """The code and the body of the answer."""
        self._writer.write(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        answer = await self._reader.readuntil(b"\r\n\r\n")
        found = LENGTH.search(answer)
        length = int(found[1]) if found else 0
        return int(answer[9:12]), await self._reader.readexactly(length) if length else b""

    async def follow(self, head: bytes, heard: Callable[[bytes], None]) -> None:
        """Send a watch and hand on what arrives, until it ends."""
        self._writer.write(head + b"0\r\n\r\n")
        await self._reader.readuntil(b"\r\n\r\n")
        while data := await self._reader.read(READ_BYTES):
            heard(data)

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def connections(endpoint: Endpoint, count: int) -> AsyncIterator[list[BenchConnection]]:
    trust = endpoint.trust()
    lines: list[BenchConnection] = []
    try:
        for _ in range(count):
            lines.append(await BenchConnection.open(endpoint, trust))  # noqa: PERF401
        yield lines
    finally:
        for line in lines:
            line.close()
        await asyncio.sleep(0)


@dataclass(slots=True)
class Spotter:
    """Reads a watch and notes how long each named object took to arrive. The pattern captures its number."""

    pattern: re.Pattern[bytes]
    sent_at: list[float]
    took: list[float] = field(default_factory=list)  # seconds
    _tail: bytes = b""

    def __call__(self, data: bytes) -> None:
        now = time.perf_counter()
        data = self._tail + data
        end = 0
        for found in self.pattern.finditer(data):
            self.took.append(now - self.sent_at[int(found[1])])
            end = found.end()
        self._tail = data[max(end, len(data) - TAIL_BYTES) :]


class WatchLines:
    """Reads a watch in chunks (RFC 9112) and hands on its lines."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._raw = b""  # has arrived and is not taken out of its chunk yet
        self._text = b""  # the beginning of a line

    def __call__(self, data: bytes) -> None:
        self._raw += data
        while (end := self._raw.find(b"\r\n")) >= 0:
            size = int(self._raw[:end], 16)
            if len(self._raw) < end + 2 + size + 2:
                return
            self._take(self._raw[end + 2 : end + 2 + size])
            self._raw = self._raw[end + 2 + size + 2 :]

    def _take(self, text: bytes) -> None:
        *lines, self._text = (self._text + text).split(b"\n")
        for line in lines:
            self._heard(line)


def config_map(name: str) -> bytes:
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"note": "x" * 100}}
    )


async def at_a_pace(
    count: int, per_second: float, lines: list[BenchConnection], ask: Callable[[int], tuple[bytes, bytes]]
) -> None:
    """Send so many requests, each at its time or as soon as a connection is free; ``ask`` gives head and body."""
    free: asyncio.Queue[BenchConnection] = asyncio.Queue()
    for line in lines:
        free.put_nowait(line)
    begin, tasks = time.perf_counter(), set()

    async def one(number: int, line: BenchConnection) -> None:
        code, answer = await line.send(*ask(number))
        if code >= 300:
            raise RuntimeError(f"the server answered {code}: {answer[:200]!r}")
        free.put_nowait(line)

    for number in range(count):
        wait = begin + number / per_second - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(number, await free.get()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def percentile(values: Iterable[float], share: float) -> float:
    """The value that this share of the values does not exceed; 0 where there is none."""
    found = sorted(values)
    return found[min(len(found) - 1, int(len(found) * share / 100))] if found else 0.0
