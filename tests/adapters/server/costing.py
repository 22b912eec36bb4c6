"""A server without a network, whose steps are counted: requests go straight to the application, on all of its threads.

A step is a call, of Python or of C, that any thread makes between a request and its answer; so the count is the same on
a slow and on a fast machine. What happens inside a single call of C is not counted: for that, ``seconds`` has the CPU
time.
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

from makeway.adapters.server.access.tokens import Access
from makeway.adapters.server.http.app import App, application
from makeway.adapters.server.http.connections import bounded
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.server.storage.beginning import admin_token, open_store
from makeway.adapters.server.storage.store import SqliteStore
from makeway.runtime.ports import Revision
from tests.adapters.server.serving import NoExtras, clock

HEARD_SECONDS = 60


@dataclass(frozen=True)
class Asked:
    """A request and its expected answer."""

    method: str
    path: str
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    code: int = 200  # 0: any code but a server error
    accept: str = ""
    told: bytes = b""  # what listeners must get before it is over; for a watch: its last event

    def data(self) -> bytes:
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Cost:
    steps: int
    made: int  # bytes of the answer, and of all stored objects
    seconds: float  # CPU time of all threads


class Counter:
    """Counts while it is on, on every thread that begins while it is set."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if self.is_on and event in ("call", "c_call"):
            self.steps += 1


class Listener:
    """An open watch; ``heard`` is done when its client got the bytes that it waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, hears: bool) -> None:
        self.begun: asyncio.Future[None] = loop.create_future()
        self.heard: asyncio.Future[None] = loop.create_future()
        self.hears = hears
        self.got = bytearray()
        self.awaited = b""
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message
        elif not self.begun.done():
            self.begun.set_result(None)
        self.got += message.get("body", b"")
        if self.awaited and self.awaited in self.got and not self.heard.done():
            self.heard.set_result(None)


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
        self._listeners: list[Listener] = []
        store.on_commit(self._note)
        self._loop.run_until_complete(self._begin())

    async def _begin(self) -> None:
        """Start the bell of the watches alone: other background work would depend on the clock."""
        self._app._watches.bell.begin()

    def _note(self, changes: Sequence[Revision]) -> None:
        self._stored += sum(len(each.after.data) for each in changes)

    def close(self) -> None:
        self.let_go()
        self._loop.close()

    def listen(self, asked: Asked, *, hears: bool = True) -> None:
        """Open a watch, and keep it; ``hears``: it gets the changes of the requests that are measured."""
        each = Listener(self._loop, hears=hears)
        each.task = self._loop.create_task(self._app(self._scope(asked, b""), each.receive, each.send))
        self._listeners.append(each)
        self._loop.run_until_complete(asyncio.wait({each.task, each.begun}, return_when=asyncio.FIRST_COMPLETED))
        assert each.begun.done(), each.task.exception()

    def let_go(self) -> None:
        """End all watches."""
        tasks = [each.task for each in self._listeners if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._listeners = []

    def do(self, asked: Asked) -> tuple[int, bytes]:
        """Send a request, and take any answer."""
        return self._loop.run_until_complete(self._asked(asked))

    def cost(self, asked: Asked) -> Cost:
        """Return the cost of a request, which must get the expected answer."""
        self._loop.run_until_complete(self._at_rest())
        counter = self._counter
        stored = self._stored
        data = asked.data()
        if counter is None:
            gc.collect()
        gc.disable()  # its time and work are random
        began, before = time.process_time(), counter.steps if counter else 0
        if counter is not None:
            counter.is_on = True
        for each in self._listeners:
            each.got.clear()
            each.awaited = asked.told
        try:
            code, answer = self._loop.run_until_complete(self._heard(asked, data))
        finally:
            gc.enable()
            if counter is not None:
                counter.is_on = False
        seconds = time.process_time() - began
        assert code == asked.code or (code < 500 and not asked.code), (
            f"{asked.method} {asked.path}: {code} {answer[:400]!r}"
        )
        made = len(answer) + self._stored - stored + sum(len(each.got) for each in self._listeners)
        return Cost((counter.steps if counter else 0) - before, made, seconds)

    async def _at_rest(self) -> None:
        """Wait for the work of earlier requests, which would be counted at random.

        The bell of the watches rings up to ``gather_seconds`` after a write, and garbage is collected after the answer.
        """
        bell, ahead = self._app._watches.bell, self.store._writer._ahead
        async with asyncio.timeout(HEARD_SECONDS):
            while (
                bell._timer is not None
                or ahead.has_suspects
                or any(called.is_set() for waiting in bell._waiting.values() for called in waiting)
            ):
                await asyncio.sleep(0.001)

    async def _heard(self, asked: Asked, data: bytes) -> tuple[int, bytes]:
        """The answer, once all listeners have theirs too."""
        found = await self._asked(asked, data)
        async with asyncio.timeout(HEARD_SECONDS):
            await asyncio.gather(*(each.heard for each in self._listeners if each.hears and asked.told))
        return found

    def _scope(self, asked: Asked, body: bytes) -> dict[str, Any]:
        return {
            "type": "http", "method": asked.method, "raw_path": asked.path.encode(),
            "query_string": urlencode(asked.query).encode(),
            "headers": [
                (b"authorization", f"Bearer {self._token}".encode()), (b"content-type", asked.content_type.encode()),
                (b"content-length", str(len(body)).encode()), (b"accept", asked.accept.encode()),
            ],
            "state": {"connection": self._line},
        }  # fmt: skip

    async def _asked(self, asked: Asked, data: bytes | None = None) -> tuple[int, bytes]:
        body = asked.data() if data is None else data
        sent: list[Any] = []
        messages = iter([{"type": "http.request", "body": body}])
        enough = asyncio.Event()

        async def receive() -> Any:
            message = next(messages, None)
            if message is None:
                await enough.wait()
            return message or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if asked.method == "GET" and asked.told and asked.told in message.get("body", b""):
                enough.set()  # of a watch, which has no end of its own

        await self._app(self._scope(asked, body), receive, send)
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


@contextmanager
def counted(folder: Path, *, counts: bool = True) -> Iterator[World]:
    """A server of its own. Without ``counts`` it runs at full speed, and only the time is measured."""
    counter = Counter() if counts else None
    threading.setprofile(counter)
    try:
        store = open_store(folder, clock, admission=AdmissionPlugins())
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
