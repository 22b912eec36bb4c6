"""The engine on a Store that calls, with its writer, its events and its queue of questions, in a thread of its own.

The Store calls after every commit, and the writer after every answer. Between two calls only timers are served. A
restart is a new LiveEngine over the same Store, and takes up where the other was.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from makeway.api.versions import Kind
from makeway.controllers.contract import Controller, Note, Ref
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.engine import FIGURES_MS, Engine
from makeway.runtime.events import Recorder
from makeway.runtime.journal import DecisionJournal
from makeway.runtime.live.driver import Live, LiveThread
from makeway.runtime.live.queries import QueryQueue
from makeway.runtime.live.writer import LiveWriter
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.ports import Clock, Store
from makeway.runtime.set_aside import anything, logged
from makeway.runtime.virtual import Actor

T = TypeVar("T")

LOOK_SECONDS = 0.002
REST_MS_MAX = 20  # between two long steps: the delay that an admission may have from it
TROUBLES_MAX = 1000  # troubles of other parts that wait for the next step; the oldest are lost
POLL_MS = 30_000  # seldom, because the Store calls: only a clock that was set is noticed so


class CallingStore(Store, Protocol):
    """A Store in this process, which takes writes without waiting and calls after every commit."""

    def submit(self, decision: Callable[[Store], T]) -> Future[T]: ...

    def on_commit(self, listener: Callable[[Sequence[object]], None]) -> None: ...


class LiveEngine:
    """``failed`` is called with an error that ended it. An error of one object alone does not end it (0081).

    ``kinds``: what is watched, where that is more than usual.
    """

    def __init__(
        self, store: CallingStore, policy: Policy, controllers: Sequence[Controller], clock: Clock,
        failed: Callable[[BaseException], None], *, metrics: MetricsRegistry | None = None,
        journal: DecisionJournal | None = None, figures_ms: int = FIGURES_MS, kinds: Sequence[Kind] | None = None,
    ) -> None:  # fmt: skip
        self.metrics = MetricsRegistry() if metrics is None else metrics
        self.writer = LiveWriter(store.submit, self.poke)
        self.engine = Engine(
            store, policy, controllers, writer=self.writer, journal=journal, metrics=self.metrics,
            figures_ms=figures_ms, kinds=kinds, stopwatch=time.perf_counter, tolerates=anything,
        )  # fmt: skip
        self.engine.set_aside.listeners.append(logged)
        self.recorder = Recorder(self.engine.notes, self.engine.view.get, store.submit, self.poke)
        self.queries = QueryQueue(self.engine.view, self.poke)
        self._troubles: deque[tuple[Ref, str, Exception | None]] = deque(maxlen=TROUBLES_MAX)
        actors: list[Actor] = [self, self.engine, self.recorder, self.queries]
        self.live = Live(clock, actors, poll_ms=POLL_MS, rest_ms_max=REST_MS_MAX)
        self._thread = LiveThread(self.live, failed)
        self._stopped = False
        store.on_commit(lambda changes: self.poke())

    def poke(self) -> None:
        self.live.poke()

    def tell(self, note: Note) -> None:
        """Let a note of another part of this process become an Event; from any thread."""
        self.engine.notes.append(note)
        self.poke()

    def gave_up(self, ref: Ref, part: str, error: Exception | None) -> None:
        """Another part of this process cannot handle an object; None: it can again. From any thread."""
        self._troubles.append((ref, part, error))
        self.poke()

    def step(self, now: Millis) -> bool:
        """As an actor: set aside the objects that other parts could not handle."""
        count = len(self._troubles)
        for _ in range(count):
            ref, part, error = self._troubles.popleft()
            if error is None:
                self.engine.set_aside.handled(ref, part)
            else:
                self.engine.set_aside.put(ref, part, error, now, again=False)
        return count > 0

    def next_at(self) -> Millis | None:
        return None  # a part that gives up calls

    def start(self) -> None:
        self._thread.start()

    def read_all(self) -> None:
        """Wait until it has read all objects, or has ended."""
        while self._thread.is_alive and self.not_ready():
            time.sleep(LOOK_SECONDS)

    def stop(self, seconds: float) -> bool:
        """Finish the step that runs; return whether that was in time. The Store finishes writes that are under way."""
        self._stopped = True
        in_time = self._thread.stop(seconds)
        self.queries.close()
        return in_time

    def not_ready(self) -> str:
        """Why nothing is decided; "" when all is well."""
        if self._stopped or not self._thread.is_alive:
            return "the engine has stopped"
        return "" if self.engine.informers.are_complete else "the engine has not read all objects yet"
