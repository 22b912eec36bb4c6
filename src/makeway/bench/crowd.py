"""The crowd of ``makeway bench neighbours``: a process that reads too little, waits too long and asks for too much.

It is told what to do as a line of JSON, says when all clients have come, and answers every further line with figures
until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import uvloop

from makeway.adapters.server.http.limits import raise_files
from makeway.bench.clients import Endpoint

MANY = "neighbours"  # the namespace of the objects that are watched
MAPS = "/api/v1/namespaces/{}/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POD = "talker-{}"
AT_ONCE = 32  # clients that come at a time
READ_BYTES = 64 * 1024
AGAIN_SECONDS = 10.0  # before a client that was turned away comes again
COMING_SECONDS = 60.0
WATCH_SECONDS = 40.0  # then an unread watch begins anew: the server has ended it by then
BOMB_SECONDS = 1.0
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Crowd:
    endpoint: Endpoint
    watches: int
    follows: int
    idle: int
    watcher: str  # a token
    followers: list[str]  # tokens
    bomber: str  # a token
    logs: int  # pods whose logs are read


def bomb() -> bytes:
    """A patch within all limits of a body that would double an object again and again."""
    seed = [{"op": "add", "path": "/data/seed", "value": "x" * 500_000}]
    copies = [{"op": "copy", "from": "/data", "path": f"/data/copy-{number}"} for number in range(40)]
    return json.dumps(seed + copies).encode()


class _Doings:
    """What the clients of the crowd do. A client that is turned away comes again after a while."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self.trust = crowd.endpoint.trust()
        self.open: Counter[str] = Counter()
        self.came: Counter[str] = Counter()  # clients that came at least once, whatever became of them
        self.counts: Counter[str] = Counter()
        self._door = asyncio.Semaphore(AT_ONCE)

    async def connected(self, trust: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.crowd.endpoint.url)
        async with self._door:
            return await asyncio.open_connection(parts.hostname, parts.port, ssl=trust, limit=READ_BYTES)

    async def asked(self, what: str, token: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """An answer that has begun; None: the request was refused."""
        reader, writer = await self.connected(self.trust)
        endpoint = Endpoint(self.crowd.endpoint.url, token, self.crowd.endpoint.authority)
        writer.write(endpoint.head("GET", path) + b"0\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        if head[9:12] == b"200":
            self.came[what] += 1
            return reader, writer
        self.counts["refused"] += 1
        writer.transport.abort()
        return None

    async def watch(self) -> None:
        """Watch everything, and read nothing of it."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                found = await self.asked("watches", self.crowd.watcher, f"{MAPS.format(MANY)}?watch=1")
                if found is not None:
                    found[1].transport.pause_reading()  # type: ignore[attr-defined]
                    self.open["watches"] += 1
                    await asyncio.sleep(WATCH_SECONDS)
                    self.open["watches"] -= 1
                    found[1].transport.abort()
                    continue
            await asyncio.sleep(AGAIN_SECONDS)

    async def follow(self, number: int) -> None:
        token = self.crowd.followers[number % len(self.crowd.followers)]
        path = f"{PODS}/{POD.format(number % self.crowd.logs)}/log?follow=true&tailLines=1"
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                found = await self.asked("follows", token, path)
                if found is not None:
                    self.open["follows"] += 1
                    while await found[0].read(READ_BYTES):
                        pass
                    self.open["follows"] -= 1
                    self.counts["followsEnded"] += 1
            await asyncio.sleep(AGAIN_SECONDS)

    async def idle(self, number: int) -> None:
        """Connect, every other one with TLS, and say nothing."""
        while True:
            with suppress(OSError):
                reader, writer = await self.connected(self.trust if number % 2 else None)
                self.came["idle"] += 1
                self.open["idle"] += 1
                with suppress(OSError):
                    await reader.read(READ_BYTES)
                self.open["idle"] -= 1
                writer.transport.abort()
            await asyncio.sleep(AGAIN_SECONDS)

    async def throw(self) -> None:
        endpoint = Endpoint(self.crowd.endpoint.url, self.crowd.bomber, self.crowd.endpoint.authority)
        head, body = endpoint.head("PATCH", f"{MAPS.format(MANY)}/large-0", JSON_PATCH), bomb()
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await self.connected(self.trust)
                try:
                    writer.write(b"%b%d\r\n\r\n%b" % (head, len(body), body))
                    answer = await reader.readuntil(b"\r\n\r\n")
                    self.counts["bombs"] += 1
                    self.counts["bombsRefused"] += answer[9:10] == b"4"
                finally:
                    writer.transport.abort()
            await asyncio.sleep(BOMB_SECONDS)

    def figures(self) -> dict[str, int]:
        names = ("refused", "followsEnded", "bombs", "bombsRefused")
        return {each: self.open[each] for each in ("watches", "follows", "idle")} | {
            name: self.counts[name] for name in names
        }


async def _play(crowd: Crowd) -> None:
    doings = _Doings(crowd)
    tasks = [asyncio.ensure_future(doings.throw())]
    tasks += [asyncio.ensure_future(doings.watch()) for _ in range(crowd.watches)]
    tasks += [asyncio.ensure_future(doings.follow(number)) for number in range(crowd.follows)]
    tasks += [asyncio.ensure_future(doings.idle(number)) for number in range(crowd.idle)]
    loop = asyncio.get_running_loop()
    until = loop.time() + COMING_SECONDS
    wanted = {"watches": crowd.watches, "follows": crowd.follows, "idle": crowd.idle}
    while loop.time() < until and any(doings.came[each] < count for each, count in wanted.items()):
        await asyncio.sleep(0.05)
    print(json.dumps(doings.figures()), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(doings.figures()), flush=True)
    for task in tasks:
        task.cancel()


def main() -> None:
    raise_files()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it need not be logged how its connections end
    tree = json.loads(sys.stdin.readline())
    crowd = Crowd(Endpoint(**tree.pop("endpoint")), **tree)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_play(crowd))
