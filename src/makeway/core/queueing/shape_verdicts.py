"""Verdicts that bind all workloads of a shape, parked or arriving later (S-4.5.3)."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from makeway.core.model import DAWN, Millis, Workload
from makeway.core.queueing.equivalence import Shape, is_at_least, place, shape

if TYPE_CHECKING:
    from makeway.core.queueing.waiting_list import WaitingList


class ShapeVerdicts:
    """The shape verdicts in force in one waiting list; a wake ends them."""

    __slots__ = ("_list", "by_age", "since")

    def __init__(self, waiting_list: WaitingList) -> None:
        self._list = waiting_list
        self.by_age = False  # an older workload may displace more than one that looks alike
        self.since: dict[Shape, Millis] = {}  # workloads of the shape that were queued before this time are not bound

    def binds(self, workload: Workload) -> bool:
        """Whether a verdict on its shape binds a workload, too; none does in a strict queue."""
        since = self.since.get(shape(workload)) if self.since and not self._list.strict else None
        return since is not None and workload.queued_at >= since

    def bind(self, bound: Shape, since: Millis) -> None:
        """Park all workloads of a shape, now and later; where age counts, not those queued before ``since``."""
        earliest = min(since if self.by_age else DAWN, self.since.get(bound, since))
        self._list.log.put(self.since, bound, earliest)
        for alike in list(self._list.classes.of_shape.get(bound, ())):
            self._list.park(alike, earliest)

    def bind_larger(self, workload: Workload) -> None:
        """Workloads behind this one that ask for no less get the same verdict, so none of them is evaluated."""
        classes, where = self._list.classes, place(workload)
        behind = classes.heads[bisect_left(classes.heads, where) :]
        if not behind:
            return
        own = shape(workload)
        for other in dict.fromkeys([classes.of[head[-1]][0] for head in behind]):
            if is_at_least(other, own) and min(classes.places[alike][0] for alike in classes.of_shape[other]) > where:
                self.bind(other, workload.queued_at)

    def unbind(self, bound: Shape) -> None:
        """The verdict holds no more: all that are parked for it return to the queue."""
        classes = self._list.classes
        self._list.turns.forget_shape(bound)
        self._list.log.drop(self.since, bound)
        classes.unpark([alike for alike in classes.of_shape.get(bound, ()) if alike in classes.parked])

    def forget_all(self) -> None:
        for bound in list(self.since) if self.since else ():
            self._list.log.drop(self.since, bound)
            self._list.turns.forget_shape(bound)

    def contents(self) -> object:
        return sorted((repr(bound), since) for bound, since in self.since.items())
