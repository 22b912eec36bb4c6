"""When a soak ends, for loops over seeds: they must end with it, as properties do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

_until = os.environ.get("MAKEWAY_SOAK_UNTIL")
SOAK_UNTIL = float(_until) if _until else None  # monotonic seconds; nothing new is tried after it
LOOP_SHARE = 0.1  # of the time of a round: so much one loop may take, for the others want theirs
_LOOP_SECONDS = 0.0 if SOAK_UNTIL is None else max(1.0, (SOAK_UNTIL - time.monotonic()) * LOOP_SHARE)


class InTime:
    """Goes through seeds while there is time; what is promised of all seeds together holds where it was not cut."""

    def __init__(self) -> None:
        self.was_cut = False

    def __call__(self, seeds: Iterable[int]) -> Iterator[int]:
        until = time.monotonic() + _LOOP_SECONDS
        for each in seeds:
            if SOAK_UNTIL is not None and time.monotonic() > min(until, SOAK_UNTIL):
                self.was_cut = True
                return
            yield each
