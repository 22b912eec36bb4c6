"""Requests about objects, parsed, and threads for slow work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from makeway.adapters.server.http.answers import AnswerForm
from makeway.adapters.server.http.bodies import Query
from makeway.adapters.server.http.routes import Route
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.versions import Kind

T = TypeVar("T")
LARGE_BYTES = 64 * 1024
MANY = 5_000  # objects
THREADS = 2


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed request about objects."""

    route: Route
    query: Query
    form: AnswerForm
    body: bytes = b""
    content_type: str = ""
    user_agent: str = ""


class ReaderThreads:
    """Threads for work that would block the loop: searching many objects, and parsing a large body."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(THREADS, "makeway-reader")

    def close(self) -> None:
        self._threads.shutdown()

    async def among_many(self, kind: Kind, look: Callable[[], T]) -> T:
        """Run a search over all objects of a kind; in a thread of its own if they are many."""
        if self._store.count(kind) < MANY:
            return look()
        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def apart(self, call: Call, work: Callable[[], T]) -> T:
        """Run work that needs no state; in a thread of its own if the body is large or YAML."""
        if len(call.body) < LARGE_BYTES and "yaml" not in call.content_type:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
