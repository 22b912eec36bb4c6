"""A server without a net, whose steps are counted: requests go straight to the application, on all of its threads.

A step is a call, of Python or of C, that any thread makes between a request and its answer; so the count is the same
on a slow machine and on a fast one. What a single call of C does inside is not seen: for that ``seconds`` has the time
that the processor worked.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlencode

from uvicorn import Config
from uvicorn.server import ServerState

from makeway.adapters.server.access import Access
from makeway.adapters.server.admission import Admission
from makeway.adapters.server.app import App, application
from makeway.adapters.server.beginning import admin_token, open_store
from makeway.adapters.server.connections import bounded
from makeway.adapters.server.limits import Limits
from makeway.adapters.server.storage import SqliteStore
from makeway.runtime.ports import Change
from tests.adapters.server.serving import NoExtras, clock


@dataclass(frozen=True)
class Asked:
    """One request, and which answer it gets."""

    method: str
    path: str
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    code: int = 200  # 0: whatever it is, but no fault of the server's

    def data(self) -> bytes:
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Cost:
    steps: int
    made: int  # bytes of the answer, and of all that was stored
    seconds: float  # of the processor, by all threads


class Counter:
    """Counts while it is on; every thread that begins while it is set has it."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if self.is_on and event in ("call", "c_call"):
            self.steps += 1


class World:
    def __init__(self, store: SqliteStore, app: App, token: str, counter: Counter | None) -> None:
        self.store = store
        self._app = app
        self._token = token
        self._counter = counter
        self._loop = asyncio.new_event_loop()
        config = Config(app, log_config=None, lifespan="off")
        config.load()
        self._line = bounded(Limits(), app.connections)(config, ServerState(), {}, self._loop)  # with nobody behind it
        self._stored = 0  # bytes, so far
        store.on_commit(self._note)

    def _note(self, changes: Sequence[Change]) -> None:
        self._stored += sum(len(each.after.data) for each in changes)

    def close(self) -> None:
        self._loop.close()

    def do(self, asked: Asked) -> tuple[int, bytes]:
        """Ask, and take the answer; whatever it is."""
        return self._loop.run_until_complete(self._asked(asked))

    def cost(self, asked: Asked) -> Cost:
        """What a request costs, which must be answered as it says."""
        counter = self._counter
        stored = self._stored
        data = asked.data()
        if counter is None:
            gc.collect()
        gc.disable()  # when it comes, and what it finds, is chance
        began, before = time.process_time(), counter.steps if counter else 0
        if counter is not None:
            counter.is_on = True
        try:
            code, answer = self._loop.run_until_complete(self._asked(asked, data))
        finally:
            gc.enable()
            if counter is not None:
                counter.is_on = False
        seconds = time.process_time() - began
        assert code == asked.code or (code < 500 and not asked.code), (
            f"{asked.method} {asked.path}: {code} {answer[:400]!r}"
        )
        return Cost((counter.steps if counter else 0) - before, len(answer) + self._stored - stored, seconds)

    async def _asked(self, asked: Asked, data: bytes | None = None) -> tuple[int, bytes]:
        body = asked.data() if data is None else data
        scope = {
            "type": "http", "method": asked.method, "raw_path": asked.path.encode(),
            "query_string": urlencode(asked.query).encode(),
            "headers": [
                (b"authorization", f"Bearer {self._token}".encode()), (b"content-type", asked.content_type.encode()),
                (b"content-length", str(len(body)).encode()),
            ],
            "state": {"connection": self._line},
        }  # fmt: skip
        sent: list[Any] = []
        messages = iter([{"type": "http.request", "body": body}])

        async def receive() -> Any:
            message = next(messages, None)
            return message if message is not None else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


@contextmanager
def counted(folder: Path, *, counts: bool = True) -> Iterator[World]:
    """A server of its own. Without ``counts`` it runs at its full speed, and only time is told."""
    counter = Counter() if counts else None
    threading.setprofile(counter)
    try:
        store = open_store(folder, clock, admission=Admission())
        try:
            access = Access(store)
            token = admin_token(folder, access)
            app = application(store, access, NoExtras(), Limits(), clock)
            world = World(store, app, token, counter)
            sys.setprofile(counter)
            try:
                yield world
            finally:
                sys.setprofile(None)
                world.close()
        finally:
            store.close()
    finally:
        threading.setprofile(None)
