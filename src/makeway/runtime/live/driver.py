"""The live driver: the same steps by the wall clock. It sleeps until something is due, or until it is called.

``poke`` may be called from any thread, after every change of the Store, so that news is noticed at once while idle.
A Store that cannot call is asked every ``poll_ms``. A Store that can is asked too, at a long interval, because the
clock of a machine may be set, or stand still while it sleeps.

``LiveThread`` runs the driver in a thread of its own, beside those that serve and those that write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from threading import Thread

from makeway.core.model import Millis
from makeway.runtime.ports import Clock
from makeway.runtime.virtual import Actor

SHORT_SECONDS = 0.002  # a pass that took no longer needs no rest

Sleep = Callable[[asyncio.Event, float], Awaitable[None]]
Rest = Callable[[float], Awaitable[None]]


def wall_clock() -> Millis:
    """The time of this machine."""
    return Millis(time.time_ns() // 1_000_000)


async def sleep_until_called(called: asyncio.Event, seconds: float) -> None:
    """Wait for a call, at most so long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(called.wait(), seconds)


class Live:
    """Runs actors until ``stop``. The clock and the way to sleep are given, so that a test can own the time.

    ``rest_ms_max``: after a long pass over the actors it rests for as long as the pass took, at most so long. Meanwhile
    the interpreter belongs to the threads that serve and write, and their news is handled together: under load passes
    become fewer and larger, not more.
    """

    def __init__(
        self, clock: Clock, actors: Sequence[Actor], *, poll_ms: int = 1000, sleep: Sleep = sleep_until_called,
        rest_ms_max: int = 0, stopwatch: Callable[[], float] = time.perf_counter, rest: Rest = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._actors = list(actors)
        self._poll_ms = poll_ms
        self._sleep = sleep
        self._rest_max = rest_ms_max / 1000
        self._stopwatch = stopwatch
        self._rest = rest
        self._called = asyncio.Event()
        self._poked = False  # a call is on its way: another one would add nothing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self.turns = 0

    def add(self, actor: Actor) -> None:
        """Add an actor, which steps after the others; before ``run``."""
        self._actors.append(actor)

    def poke(self) -> None:
        """There is news. Many calls while it works cost as much as one."""
        loop = self._loop
        if loop is not None and not self._poked:
            self._poked = True
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(self._called.set)

    def stop(self) -> None:
        self._stopping = True
        self._poked = False
        self.poke()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            while not self._stopping:
                self._poked = False  # news from here on may come too late for this pass
                self._called.clear()
                began = self._stopwatch()
                if self._turn():
                    await self._rest(self._rest_after(self._stopwatch() - began))  # other tasks share the loop
                    continue
                await self._sleep(self._called, self._pause_ms() / 1000)
        finally:
            self._loop = None

    def _turn(self) -> bool:
        happened = False
        for actor in self._actors:
            self.turns += 1
            happened |= actor.step(self._clock())
        return happened

    def _rest_after(self, took: float) -> float:
        return 0 if took < SHORT_SECONDS else min(took, self._rest_max)

    def _pause_ms(self) -> int:
        times = [at for actor in self._actors if (at := actor.next_at()) is not None]
        due = min(times) - self._clock() if times else self._poll_ms
        return max(1, min(due, self._poll_ms))


class LiveThread:
    """A live driver in a thread of its own. ``failed`` is called with the error that ended it, in that thread."""

    def __init__(self, live: Live, failed: Callable[[BaseException], None], name: str = "makeway-engine") -> None:
        self._live = live
        self._failed = failed
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Let the step that runs come to its end; return whether it did so in time."""
        self._live.stop()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._live.run())
        except BaseException as error:  # nothing above this frame could report it
            self._failed(error)
