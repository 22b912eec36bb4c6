"""All times that the engine waits for, each registered once, with what happens then.

Promises: what is due is done in the order of registration; ``next_at`` names the first of all these times, so that a
driver misses none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from makeway.core.model import Millis

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

NextAt = Callable[[], Millis | None]  # when it is due; None: never, as things are
Work = Callable[[Millis], int]  # does what is due by then, if anything is; returns how much that was


class Due(Protocol[T_co]):
    """Timers that go off one by one."""

    def next_at(self) -> Millis | None: ...

    def due(self, now: Millis) -> Iterator[T_co]: ...


class Deadlines:
    def __init__(self) -> None:
        self._awaited: list[NextAt] = []
        self._works: list[Work] = []

    def await_only(self, next_at: NextAt) -> None:
        """A time that another part of the step handles by itself."""
        self._awaited.append(next_at)

    def add(self, next_at: NextAt, work: Work, *, awaited: bool = True) -> None:
        """``awaited``: whether the engine wakes for it; other work is done when the engine wakes for something else."""
        self._works.append(work)
        if awaited:
            self._awaited.append(next_at)

    def add_timers(self, timers: Due[T], act: Callable[[T], object], *, awaited: bool = True) -> None:
        """``act`` is called with the owner of every timer that goes off."""

        def work(now: Millis) -> int:
            count = 0
            for owner in timers.due(now):
                act(owner)
                count += 1
            return count

        self.add(timers.next_at, work, awaited=awaited)

    def next_at(self) -> Millis | None:
        return min((at for next_at in self._awaited if (at := next_at()) is not None), default=None)

    def work(self, now: Millis) -> int:
        """Do what is due; return how much that was."""
        count = 0
        for work in self._works:
            count += work(now)
        return count
