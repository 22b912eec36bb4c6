"""The live driver: the same steps by the wall clock. It sleeps until something is due, or until somebody calls.

``poke`` may be called from any thread: whoever changes the Store calls it, so that news while idle is noticed at once.
A Store that cannot call is asked every ``poll_ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from makeway.runtime.ports import Clock
from makeway.runtime.virtual import Actor

Sleep = Callable[[asyncio.Event, float], Awaitable[None]]


async def sleep_until_called(called: asyncio.Event, seconds: float) -> None:
    """Wait for a call, at most so long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(called.wait(), seconds)


class Live:
    """Runs actors until ``stop``. The clock and the way to sleep are given, so that a test can own the time."""

    def __init__(
        self, clock: Clock, actors: Sequence[Actor], *, poll_ms: int = 1000, sleep: Sleep = sleep_until_called
    ) -> None:
        self._clock = clock
        self._actors = list(actors)
        self._poll_ms = poll_ms
        self._sleep = sleep
        self._called = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self.turns = 0

    def poke(self) -> None:
        """There is news."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._called.set)

    def stop(self) -> None:
        self._stopping = True
        self.poke()

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self._stopping:
            self._called.clear()
            if self._turn():
                await asyncio.sleep(0)  # others share the loop
                continue
            await self._sleep(self._called, self._pause_ms() / 1000)

    def _turn(self) -> bool:
        happened = False
        for actor in self._actors:
            self.turns += 1
            happened |= actor.step(self._clock())
        return happened

    def _pause_ms(self) -> int:
        times = [at for actor in self._actors if (at := actor.next_at()) is not None]
        due = min(times) - self._clock() if times else self._poll_ms
        return max(1, min(due, self._poll_ms))
