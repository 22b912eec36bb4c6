"""The queue of pods and gangs that wait for nodes: ready ones by rank, refused ones by shape.

Items of one *shape* get one verdict: they differ in nothing that placement reads. An item is in one of these states:

====== ================================================== ================================================
state  it                                                 leaves it by
====== ================================================== ================================================
ready  is new, has changed, or is retried                 ``take``: its turn
taken  is decided, or its writes are under way            ``refuse``, ``placed``, ``put``: it has changed
parked was refused, and nothing has happened since that   ``wake``: its shape is retried; ``put``
       could help it
====== ================================================== ================================================

Of the parked items of a shape, one at a time is *retried*: the first by rank, and the next one when that has found a
place. A shape that is refused again and again pauses longer each time.

Below that is a net: of a shape that was not woken for long, one item is retried anyway, all of them in turn. An item
that finds a place this way was missed by what should have woken it. A shape that was woken and only pauses is not.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from makeway.core.model import DAWN, Millis
from makeway.core.placement.model import Preemptor

Rank = tuple[int, int, int, str, str, str]  # smaller goes first; its last three are unique
Shape = Hashable

FREE_REFUSALS = 3  # refusals of a shape in a row before it pauses
PAUSE_MS, PAUSE_MS_MAX = 1000, 10_000
NET_MS = 300_000  # since the last refusal of an item of a shape


def pause_ms(refusals: int) -> int:
    """How long a shape pauses after so many refusals in a row: 1 s, doubling, at most ten."""
    beyond = refusals - FREE_REFUSALS
    return min(PAUSE_MS_MAX, PAUSE_MS << min(beyond - 1, 10)) if beyond > 0 else 0


@dataclass(slots=True, eq=False)
class RefusedShape:
    """The items of one shape that were refused: the parked ones, and the one that is retried."""

    shape: Shape
    parked: dict[Preemptor, Rank] = field(default_factory=dict)  # the one with the oldest refusal first
    retried: Preemptor | None = None
    is_unprompted: bool = False  # the retried item is tried without any change that could help it
    refusals: int = 0  # in a row, of retried items
    not_before: Millis = DAWN

    def first(self) -> Preemptor:
        return min(self.parked, key=self.parked.__getitem__)

    def end_retry(self) -> None:
        self.retried, self.is_unprompted = None, False


class PodQueue:
    def __init__(self) -> None:
        self._heap: list[tuple[Rank, Preemptor]] = []
        self._ready: dict[Preemptor, Rank] = {}
        self._shapes: dict[Shape, RefusedShape] = {}
        self._shape_of: dict[Preemptor, RefusedShape] = {}  # of items that are parked or retried
        self._retry_at: dict[RefusedShape, Millis] = {}  # shapes that are retried at that time in any case
        self._refused_at: dict[RefusedShape, Millis] = {}  # the last refusal of each, the oldest first
        self._heeding: dict[RefusedShape, None] = {}  # items depend on other pods beyond their room

    # --- items that are ready ---

    def put(self, item: Preemptor, rank: Rank) -> None:
        """An item is ready: it is new, or has changed, so earlier refusals no longer count."""
        self._leave_shape(item)
        self._make_ready(item, rank)

    def take(self, now: Millis) -> Preemptor | None:
        """The next item; it is taken until it is refused, placed or put again."""
        for shape in [shape for shape, at in self._retry_at.items() if at <= now]:
            del self._retry_at[shape]
            self._retry_first(shape)
        self._retry_long_parked(now)
        while self._heap:
            rank, item = heappop(self._heap)
            if self._ready.get(item) == rank:
                del self._ready[item]
                return item
        return None

    def remove(self, item: Preemptor) -> None:
        self._ready.pop(item, None)
        self._leave_shape(item)

    def _make_ready(self, item: Preemptor, rank: Rank) -> None:
        if self._ready.get(item) != rank:
            self._ready[item] = rank
            heappush(self._heap, (rank, item))

    def _leave_shape(self, item: Preemptor) -> None:
        shape = self._shape_of.pop(item, None)
        if shape is None:
            return
        if shape.retried == item:
            shape.end_retry()
            self._retry_first(shape)  # what woke it may help the next item, too
        else:
            del shape.parked[item]
        self._drop_if_empty(shape)

    def _drop_if_empty(self, shape: RefusedShape) -> None:
        if not shape.parked and shape.retried is None:
            del self._shapes[shape.shape]
            self._retry_at.pop(shape, None)
            self._refused_at.pop(shape, None)
            self._heeding.pop(shape, None)

    # --- items that were refused ---

    def refuse(
        self, item: Preemptor, rank: Rank, shape: Shape, now: Millis, *, counts: bool = True, heeds: bool = False
    ) -> None:  # fmt: skip
        """An item has no place for now. Without ``counts`` that is no failure: it waits for pods that leave.

        ``heeds``: other pods matter to it beyond the room that they take.
        """
        refused = self._shapes.get(shape)
        if refused is None:
            refused = self._shapes[shape] = RefusedShape(shape)
        before = self._shape_of.get(item)  # the shape that it was retried for
        self._shape_of[item] = refused
        refused.parked[item] = rank
        if heeds:
            self._heeding[refused] = None
        self._refused_at.pop(refused, None)
        self._refused_at[refused] = now
        if before is refused:
            refused.end_retry()
            refused.refusals = refused.refusals + 1 if counts else 0
            refused.not_before = Millis(now + pause_ms(refused.refusals))
        elif before is not None:
            is_unprompted = before.is_unprompted
            before.end_retry()
            self._retry_first(before, is_unprompted=is_unprompted)
            self._drop_if_empty(before)

    def placed(self, item: Preemptor) -> None:
        """An item has found a place, so the next one of its shape may find one too."""
        shape = self._shape_of.pop(item, None)
        if shape is not None:
            shape.end_retry()
            shape.refusals, shape.not_before = 0, DAWN
            self._retry_first(shape)
            self._drop_if_empty(shape)

    def refused(self, *, heeding: bool = False) -> list[tuple[Shape, Preemptor]]:
        """The first parked item of each shape. ``heeding``: only of shapes to which other pods matter."""
        shapes = self._heeding if heeding else self._shapes.values()
        return [(shape.shape, shape.first()) for shape in shapes if shape.parked]

    def wake(self, shape: Shape, now: Millis) -> None:
        """A change could help this shape: its first item is retried, once the pause is over."""
        refused = self._shapes.get(shape)
        if refused is None:
            return
        if now < refused.not_before:
            self.wake_at(shape, refused.not_before)
        else:
            self._retry_first(refused)
        refused.is_unprompted = False

    def wake_at(self, shape: Shape, at: Millis) -> None:
        refused = self._shapes.get(shape)
        if refused is not None:
            self._retry_at[refused] = min(at, self._retry_at.get(refused, at))

    def next_at(self) -> Millis | None:
        return min(self._retry_at.values(), default=None)

    def net_at(self) -> Millis | None:
        """When an item is retried that nothing has woken for long."""
        oldest = next(iter(self._refused_at.values()), None)
        return None if oldest is None else Millis(oldest + NET_MS)

    def _retry_long_parked(self, now: Millis) -> None:
        for shape, at in list(self._refused_at.items()):
            if now < at + NET_MS:
                break
            del self._refused_at[shape]
            if shape in self._retry_at or shape.retried is not None:  # it was woken, and will be retried
                self._refused_at[shape] = now
            elif shape.parked:
                self._retry(next(iter(shape.parked)), shape)
                shape.is_unprompted = True

    def _retry_first(self, shape: RefusedShape, *, is_unprompted: bool = False) -> None:
        if shape.parked and shape.retried is None:
            self._retry(shape.first(), shape)
            shape.is_unprompted = is_unprompted

    def _retry(self, item: Preemptor, shape: RefusedShape) -> None:
        rank = shape.parked.pop(item)
        shape.retried = item
        self._make_ready(item, rank)

    # --- questions ---

    def is_unprompted(self, item: Preemptor) -> bool:
        """Whether the item is retried without any change that could help it."""
        shape = self._shape_of.get(item)
        return shape is not None and shape.retried == item and shape.is_unprompted

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def __contains__(self, item: Preemptor) -> bool:
        """Whether the item is ready or parked, and not taken."""
        shape = self._shape_of.get(item)
        return item in self._ready or (shape is not None and item in shape.parked)
