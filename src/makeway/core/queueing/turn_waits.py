"""Workloads that wait for their turn to displace equals of their queue (S-7.14).

Not here: whose turn it is (``preemption.turns``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from makeway.core.model import Millis, Workload, WorkloadKey
from makeway.core.queueing.equivalence import Shape, place, shape
from makeway.core.queueing.standing import Trigger

if TYPE_CHECKING:
    from makeway.core.queueing.waiting_list import WaitingList


class Turn(NamedTuple):
    """What a workload waits for before it displaces equals of its queue (S-7.14)."""

    at: Millis | None = None  # it was displaced by time itself, and waits as long as equals are safe
    behind: WorkloadKey | None = None  # one before it in the queue displaces by time first


class TurnWaits:
    """The members of one waiting list that wait for a turn, and what ends that beside a wake (S-4.6.9)."""

    __slots__ = ("_list", "_shapes", "of")

    def __init__(self, waiting_list: WaitingList) -> None:
        self._list = waiting_list
        self.of: dict[WorkloadKey, Turn] = {}
        self._shapes: dict[Shape, None] = {}  # parked shapes with a workload that waits for its turn

    def __len__(self) -> int:
        return len(self.of)

    def wait(self, workload: Workload, turn: Turn, *, shared: bool = False) -> None:
        """A workload was just refused, and displaces no equals before its turn.

        ``shared``: those behind it that look alike wait with it, because they would get the same verdict.
        """
        waiting_list = self._list
        waiting_list.log.put(self.of, workload.key, turn)
        is_alone = workload.key in waiting_list.parked_singly
        if shared and turn.behind is not None and is_alone and not waiting_list.options:
            waiting_list.log.put(self._shapes, shape(workload), None)
            waiting_list.verdicts.bind(shape(workload), workload.queued_at)

    def end_behind(self, key: WorkloadKey) -> None:
        """A workload that others wait for has changed, or waits no more: those are due."""
        if self.of:
            self._end([waiting for waiting, turn in self.of.items() if turn.behind == key])

    def end_behind_others(self) -> None:
        """A workload was admitted in the tree: only those that wait for another's turn are due."""
        if self.of:
            self._end([key for key, turn in self.of.items() if turn.behind is not None])

    def end_at(self, now: Millis) -> None:
        """Workloads that wait because time displaced them are due once they have waited long enough.

        Where a verdict on their shape is in force, it binds them, too.
        """
        members = self._list.members
        come = [key for key, turn in self.of.items() if turn.at is not None and now >= turn.at]
        self._end(sorted(come, key=lambda key: place(members[key])), may_bind=True)

    def next_at(self) -> Millis | None:
        """When ``end_at`` has something to do."""
        return min((turn.at for turn in self.of.values() if turn.at is not None), default=None)

    def forget(self, keys: Iterable[WorkloadKey]) -> None:
        for key in keys:
            self._list.log.drop(self.of, key)

    def forget_all(self) -> None:
        if self.of:
            self.forget(list(self.of))

    def forget_shape(self, alike: Shape) -> None:
        self._list.log.drop(self._shapes, alike)

    def _end(self, keys: list[WorkloadKey], *, may_bind: bool = False) -> None:
        waiting_list = self._list
        for key in keys:
            workload = waiting_list.members[key]
            is_bound = may_bind and waiting_list.verdicts.binds(workload)
            self.forget((key,))
            waiting_list.happen(Trigger.RETRY, key)
            if self._shapes and shape(workload) in self._shapes:
                waiting_list.verdicts.unbind(shape(workload))
            if key in waiting_list.parked_singly:
                waiting_list.enter(workload, parked=is_bound)

    def contents(self) -> object:
        return dict(sorted(self.of.items())), sorted(map(repr, self._shapes))
