"""One clock for all that a server does: it goes on evenly, whoever sets the clock of the machine.

Two clocks stand behind it. That of the *wall* is right about the date, and may be set at any time, by any amount. That
of the *machine* counts the time since it was started, also while it slept, and nobody sets it, but it knows no date.
The steady clock begins with the date and then counts as the machine does. Where the wall has since come to differ, it
follows, faster or slower by at most a tenth.

Promises:

- It never goes back, and never jumps but for time in which the machine slept. So what lasts a minute lasts between 54
  and 67 seconds: nothing stalls because a clock was put back, nothing expires because one was put forward.
- All times of one server come from it, so that those in objects and those that it waits for agree with each other.
- A server that is started again does not begin before ``not_before``, what the one before it has told: no stored time
  lies ahead because a clock was put back in between.

Not here: what others judge by their own clocks, tokens and certificates; they go by the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from makeway.core.model import Millis

SLEW = 10  # it makes up for one part in so many

Nanos = Callable[[], int]


def machine_ns() -> int:
    """The time since this machine was started, the time that it slept too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def wall_ns() -> int:
    """The date, as this machine believes it to be."""
    return time.time_ns()


class SteadyClock:
    """See ``runtime.ports.Clock``; for any thread."""

    def __init__(self, wall: Nanos = wall_ns, machine: Nanos = machine_ns, not_before: Millis | None = None) -> None:
        self._wall = wall
        self._machine = machine
        self._lock = Lock()  # for the next two
        self._seen = machine()
        self._now = max(wall(), 0 if not_before is None else not_before * 1_000_000)

    def __call__(self) -> Millis:
        return Millis(self._read()[0] // 1_000_000)

    def behind_ms(self) -> int:
        """How far the wall is ahead of it; below 0 where it is ahead of the wall."""
        now, wall = self._read()
        return (wall - now) // 1_000_000

    def _read(self) -> tuple[int, int]:
        with self._lock:
            seen, wall = self._machine(), self._wall()
            passed = max(0, seen - self._seen)
            self._seen = max(seen, self._seen)
            most = passed // SLEW
            behind = wall - (self._now + passed)
            self._now += passed + max(-most, min(most, behind))
            return self._now, wall
