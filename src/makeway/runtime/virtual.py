"""The virtual driver: time stands still while there is something to do, then jumps to the next time that is due.

Actors step in their order until none of them has anything left to do at the present time. So a run depends on its
actors and its start alone, and hours pass in the time it takes to decide what happens in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from makeway.core.model import Millis, invariant

ROUNDS_MAX = 1_000_000  # rounds at one point in time; a run that needs more will never end


class Actor(Protocol):
    """A part that acts in time: the engine, the outside world."""

    def step(self, now: Millis) -> bool:
        """Do what there is to do; return whether there was anything."""

    def next_at(self) -> Millis | None:
        """When there will be something to do, if no other actor does anything."""


class VirtualClock:
    """A clock that is set, never read from the machine."""

    def __init__(self, now: Millis) -> None:
        self.now = now

    def __call__(self) -> Millis:
        return self.now


class Virtual:
    """``watching`` is called with the time after each point in time is worked off."""

    def __init__(
        self, clock: VirtualClock, actors: Sequence[Actor], watching: Callable[[Millis], None] | None = None
    ) -> None:
        self._clock = clock
        self.actors = list(actors)
        self._watching = watching
        self.turns = 0

    def settle(self) -> None:
        """Work off the present point in time."""
        for _ in range(ROUNDS_MAX):
            happened = False
            for actor in self.actors:
                self.turns += 1
                happened |= actor.step(self._clock.now)
            if not happened:
                return
        invariant(False, "no end of things to do at {}", self._clock.now)

    def run(self, until: Millis | None = None) -> None:
        """Go on until ``until``, or until nothing will ever happen by itself; times that have passed are now."""
        while True:
            self.settle()
            if self._watching is not None:
                self._watching(self._clock.now)
            times = [at for actor in self.actors if (at := actor.next_at()) is not None]
            following = max(min(times), self._clock.now + 1) if times else None
            if following is None or (until is not None and following > until):
                if until is not None:
                    self._clock.now = max(self._clock.now, until)
                return
            self._clock.now = Millis(following)
