"""One clock for all that a server does: it goes on evenly when the clock of the machine is set.

Two clocks stand behind it. The *wall* clock is right about the date, and may be set at any time, by any amount. The
clock of the *machine* counts the time since its start, also while it slept. It cannot be set, and knows no date. The
steady clock begins with the date and then counts as the machine does. When the wall clock differs, the steady clock
follows it, faster or slower by at most a tenth.

Promises:

- It never goes back, and never jumps but for time in which the machine slept. So what lasts a minute lasts between 54
  and 67 seconds: nothing stalls because a clock was put back, nothing expires because one was put forward.
- All times of one server come from it, so that the times in objects and the times that it waits for agree.
- A server that is started again does not begin before ``not_before``, the last time of the server before it: no stored
  time lies ahead because a clock was put back in between.

Not here: what others judge by their own clocks, such as tokens and certificates; they go by the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from makeway.core.model import Millis

SLEW = 10  # it makes up for one part in so many

Nanos = Callable[[], int]


def machine_ns() -> int:
    """The time since this machine was started, with the time in which it slept."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def wall_ns() -> int:
    """The date, as this machine has it."""
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
        """How far the wall clock is ahead of it; below 0 where it is ahead of the wall clock."""
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
