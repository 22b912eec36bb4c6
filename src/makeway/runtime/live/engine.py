"""The engine on a Store that calls, with its writer, its events and its queue of questions, in a thread of its own.

The Store calls after every commit, and so does whoever was answered: between two calls nothing is done, but for what
was to happen at a time. A restart is a new one over the same Store, and takes up where the other was.
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
REST_MS_MAX = 20  # between two long steps; what an admission may be late by
TROUBLES_MAX = 1000  # of others that wait to be told; the oldest are lost
POLL_MS = 30_000  # nobody is asked in vain: only clocks that were set are noticed so


class CallingStore(Store, Protocol):
    """A Store in this process, which takes writes without waiting and tells of every commit."""

    def submit(self, decision: Callable[[Store], T]) -> Future[T]: ...

    def on_commit(self, listener: Callable[[Sequence[object]], None]) -> None: ...


class LiveEngine:
    """``failed`` hears of an error that ended it; that of one object alone does not (0081).

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
        self.engine.set_aside.heard.append(logged)
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
        """Let a note of somebody else become an Event; from any thread."""
        self.engine.notes.append(note)
        self.poke()

    def gave_up(self, whom: Ref, part: str, error: Exception | None) -> None:
        """Somebody else in this process cannot handle an object; None: it can again. From any thread."""
        self._troubles.append((whom, part, error))
        self.poke()

    def step(self, now: Millis) -> bool:
        """As an actor: what others could not handle."""
        count = len(self._troubles)
        for _ in range(count):
            whom, part, error = self._troubles.popleft()
            if error is None:
                self.engine.set_aside.handled(whom, part)
            else:
                self.engine.set_aside.put(whom, part, error, now, again=False)
        return count > 0

    def next_at(self) -> Millis | None:
        return None  # who gives up calls

    def start(self) -> None:
        self._thread.start()

    def read_all(self) -> None:
        """Wait until it has read all objects, or has ended."""
        while self._thread.is_alive and self.not_ready():
            time.sleep(LOOK_SECONDS)

    def stop(self, seconds: float) -> bool:
        """Finish the step that runs; whether that was in time. Writes that are under way are the Store's to finish."""
        self._stopped = True
        in_time = self._thread.stop(seconds)
        self.queries.close()
        return in_time

    def not_ready(self) -> str:
        """Why nothing is decided; "" when all is well."""
        if self._stopped or not self._thread.is_alive:
            return "the engine has stopped"
        return "" if self.engine.informers.are_complete else "the engine has not read all objects yet"
