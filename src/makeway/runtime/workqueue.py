"""Which objects to reconcile, now or later: each object at most once, in the order in which it was first added.

It is given the time and never asks for it. A timer has an owner: setting it again replaces the earlier one, so that
there are never more timers than objects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

from makeway.core.model import Millis

T = TypeVar("T", bound=Hashable)

BACKOFF_BASE_MS = 1000
BACKOFF_MAX_MS = 60_000


def backoff_ms(attempts: int) -> int:
    """How long to wait after so many failures in a row: 1 s, doubling, at most a minute."""
    return min(BACKOFF_MAX_MS, BACKOFF_BASE_MS << min(attempts - 1, 10)) if attempts > 0 else 0


class ReconcileQueue(Generic[T]):
    """An ordered set: adding an object twice is adding it once."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[T, None] = OrderedDict()  # a dict gets slow where its first ones are taken out

    def add(self, item: T) -> None:
        self._waiting.setdefault(item)

    def take(self) -> T:
        return self._waiting.popitem(last=False)[0]

    def __len__(self) -> int:
        return len(self._waiting)


class Timers(Generic[T]):
    """One timer per owner; equal times go off in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[Millis, int, T]] = []
        self._set: dict[T, tuple[Millis, int]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        """Whether any timer is set."""
        return bool(self._set)

    def set(self, owner: T, at: Millis | None) -> None:
        """Set the timer of an owner; None stops it."""
        if at is None:
            self._set.pop(owner, None)
            return
        known = self._set.get(owner)
        if known is not None and known[0] == at:
            return
        self._count += 1
        self._set[owner] = (at, self._count)
        heappush(self._heap, (at, self._count, owner))

    def at(self, owner: T) -> Millis | None:
        """When the timer of an owner goes off."""
        known = self._set.get(owner)
        return None if known is None else known[0]

    def next_at(self) -> Millis | None:
        while self._heap and self._set.get(self._heap[0][2]) != self._heap[0][:2]:
            heappop(self._heap)  # it was stopped or set anew
        return self._heap[0][0] if self._heap else None

    def due(self, now: Millis) -> Iterator[T]:
        """Owners whose time has come; each goes off once."""
        return self._due(now) if self._heap and self._heap[0][0] <= now else iter(())

    def _due(self, now: Millis) -> Iterator[T]:
        while (at := self.next_at()) is not None and at <= now:
            owner = heappop(self._heap)[2]
            del self._set[owner]
            yield owner

    def __len__(self) -> int:
        return len(self._set)
