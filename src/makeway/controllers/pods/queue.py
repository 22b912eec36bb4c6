"""Who waits for a node: those who are due, by rank, and those who were refused, by shape.

Items of one *shape* get one verdict: they differ in nothing that placement looks at. So of those who were refused only
the first of each shape is tried again when something happens that could help it, and the next when that one has found
a place. A shape that is refused again and again pauses longer each time.

Below that is a net: of a shape that nothing has woken for long, one is tried anyway, each of them in turn. Who finds
a place so was missed by whoever should have woken it. One that was woken and only pauses is not.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from makeway.core.model import DAWN, Millis
from makeway.core.placement.model import Preemptor

Rank = tuple[int, int, int, str, str, str]  # smaller goes first; its last three are unique
Shape = Hashable

FREE_REFUSALS = 3  # of a shape in a row, before it pauses
PAUSE_MS, PAUSE_MS_MAX = 1000, 10_000
NET_MS = 300_000  # since anybody of a shape was last refused


def pause_ms(refusals: int) -> int:
    """How long a shape pauses after so many refusals in a row: 1 s, doubling, at most ten."""
    beyond = refusals - FREE_REFUSALS
    return min(PAUSE_MS_MAX, PAUSE_MS << min(beyond - 1, 10)) if beyond > 0 else 0


@dataclass(slots=True)
class RefusedShape:
    """Those of one shape who were refused."""

    members: dict[Preemptor, Rank] = field(default_factory=dict)
    refusals: int = 0  # in a row, of those who were tried again
    not_before: Millis = DAWN

    def first(self) -> Preemptor:
        return min(self.members, key=self.members.__getitem__)


class PodQueue:
    def __init__(self) -> None:
        self._heap: list[tuple[Rank, Preemptor]] = []
        self._ready: dict[Preemptor, Rank] = {}
        self._lines: dict[Shape, RefusedShape] = {}
        self._line_of: dict[Preemptor, Shape] = {}  # of those who were refused
        self._tried: dict[Preemptor, Shape] = {}  # of those of them who are tried again
        self._due: dict[Shape, Millis] = {}  # shapes that are to be tried again then, whatever happens
        self._last: dict[Shape, Millis] = {}  # when one of them was refused, the longest ago first
        self._heeding: dict[Shape, None] = {}  # shapes to whom other pods matter beyond the room that these take
        self._unasked: set[Preemptor] = set()  # of those who are tried again: nothing had happened that could help

    # --- those who are due ---

    def put(self, item: Preemptor, rank: Rank) -> None:
        """It is due: it is new, or has changed, so what was said of it no longer counts."""
        self._unasked.discard(item)
        self._leave(item)
        self._make_ready(item, rank)

    def take(self, now: Millis) -> Preemptor | None:
        """The one whose turn it is."""
        for shape in [each for each, at in self._due.items() if at <= now]:
            del self._due[shape]
            self._try_first(shape)
        self._try_those_of_long_ago(now)
        while self._heap:
            rank, item = heappop(self._heap)
            if self._ready.get(item) == rank:
                del self._ready[item]
                return item
        return None

    def remove(self, item: Preemptor) -> None:
        self._ready.pop(item, None)
        self._unasked.discard(item)
        self._leave(item)

    def _make_ready(self, item: Preemptor, rank: Rank) -> None:
        if self._ready.get(item) != rank:
            self._ready[item] = rank
            heappush(self._heap, (rank, item))

    def _leave(self, item: Preemptor) -> None:
        shape = self._line_of.pop(item, None)
        if shape is not None:
            del self._lines[shape].members[item]
            self._tidy(shape)
        shape = self._tried.pop(item, None)
        if shape is not None:  # what woke it may help the next one
            self._try_first(shape)
            self._tidy(shape)

    def _tidy(self, shape: Shape) -> None:
        if not self._lines[shape].members and shape not in self._tried.values():
            del self._lines[shape]
            self._due.pop(shape, None)
            self._last.pop(shape, None)
            self._heeding.pop(shape, None)

    # --- those who were refused ---

    def refuse(
        self, item: Preemptor, rank: Rank, shape: Shape, now: Millis, *, counts: bool = True, heeds: bool = False
    ) -> None:  # fmt: skip
        """It has no place for now. Without ``counts`` that is no failure: it waits for somebody who leaves.

        ``heeds``: other pods matter to it beyond the room that these take.
        """
        line = self._lines.setdefault(shape, RefusedShape())
        line.members[item] = rank
        if heeds:
            self._heeding[shape] = None
        self._last.pop(shape, None)
        self._last[shape] = now
        is_unasked = item in self._unasked
        self._unasked.discard(item)
        before = self._tried.pop(item, None)
        if before == shape:
            line.refusals = line.refusals + 1 if counts else 0
            line.not_before = Millis(now + pause_ms(line.refusals))
        self._line_of[item] = shape
        if before is not None and before != shape:
            following = self._try_first(before)
            if is_unasked and following is not None:
                self._unasked.add(following)
            self._tidy(before)

    def placed(self, item: Preemptor) -> None:
        """It has found a place, so the next of its shape may find one too."""
        self._unasked.discard(item)
        shape = self._tried.pop(item, None)
        if shape is not None:
            line = self._lines[shape]
            line.refusals, line.not_before = 0, DAWN
            self._try_first(shape)
            self._tidy(shape)

    def refused(self, *, heeding: bool = False) -> list[tuple[Shape, Preemptor]]:
        """Of each shape the first. ``heeding``: only of those to whom other pods matter."""
        lines = ((shape, self._lines[shape]) for shape in (self._heeding if heeding else self._lines))
        return [(shape, line.first()) for shape, line in lines if line.members]

    def wake(self, shape: Shape, now: Millis) -> None:
        """Something happened that could help this shape: its first one is tried, once its pause is over."""
        line = self._lines.get(shape)
        if line is not None and now < line.not_before:
            self.wake_at(shape, line.not_before)
        elif line is not None:
            self._try_first(shape)
        self._unasked -= {item for item, tried in self._tried.items() if tried == shape}

    def wake_at(self, shape: Shape, at: Millis) -> None:
        if shape in self._lines:
            self._due[shape] = min(at, self._due.get(shape, at))

    def next_at(self) -> Millis | None:
        return min(self._due.values(), default=None)

    def net_at(self) -> Millis | None:
        """When somebody is tried again of whom nothing was heard for long."""
        oldest = next(iter(self._last.values()), None)
        return None if oldest is None else Millis(oldest + NET_MS)

    def _try_those_of_long_ago(self, now: Millis) -> None:
        for shape, at in list(self._last.items()):
            if now < at + NET_MS:
                break
            del self._last[shape]
            line = self._lines[shape]
            if shape in self._due or shape in self._tried.values():  # it was woken, and its turn comes
                self._last[shape] = now
            elif line.members:
                item = next(iter(line.members))  # who was refused the longest ago
                self._try(item, shape)
                self._unasked.add(item)

    def _try_first(self, shape: Shape) -> Preemptor | None:
        line = self._lines.get(shape)
        if line is None or not line.members or shape in self._tried.values():
            return None
        item = line.first()
        self._try(item, shape)
        return item

    def _try(self, item: Preemptor, shape: Shape) -> None:
        line = self._lines[shape]
        rank = line.members.pop(item)
        del self._line_of[item]
        self._tried[item] = shape
        self._make_ready(item, rank)

    # --- questions ---

    def is_unasked(self, item: Preemptor) -> bool:
        """Whether it is tried though nothing happened that could help it."""
        return item in self._unasked

    @property
    def is_due(self) -> bool:
        return bool(self._ready)

    def __contains__(self, item: Preemptor) -> bool:
        return item in self._ready or item in self._line_of

    def __len__(self) -> int:
        return len(self._ready) + len(self._line_of)
