"""How the time of a soak is shared: a test gets a part of the remaining time when it begins.

It tries nothing after that time. Later tests get the time that a quick test leaves, and all tests have a turn, however
slow the machine is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

_until = os.environ.get("MAKEWAY_SOAK_UNTIL")
SOAK_UNTIL = float(_until) if _until else None  # monotonic seconds; nothing new is tried after it
OVERRUN = 0.1  # the part of a round for tests that end late: they finish what they have begun
SLOW_WEIGHT = 5.0  # a test that plays whole worlds gets this many times the share of others


class Shares:
    """The time of a round, on one of its workers; ``expected`` is the weight of all tests that will come to it."""

    def __init__(self, until: float, expected: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = until
        self._left = expected
        self.ends_at = until  # of the test that runs

    def begin(self, weight: float, now: float) -> None:
        part = weight / self._left if self._left > 2 * weight else 0.5  # an unexpected test may follow
        self.ends_at = now + max(0.0, self._until - now) * part
        self._left -= weight

    @property
    def is_over(self) -> bool:
        """Whether the test that runs has had its share."""
        return self._clock() > self.ends_at


class InTime:
    """Goes through seeds while there is time, at least one. A promise about all seeds only holds if it was not cut."""

    def __init__(self, shares: Shares | None) -> None:
        self._shares = shares
        self.was_cut = False

    def __call__(self, seeds: Iterable[int]) -> Iterator[int]:
        for index, each in enumerate(seeds):
            if index and self._shares is not None and self._shares.is_over:
                self.was_cut = True
                return
            yield each
