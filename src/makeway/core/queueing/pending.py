"""Which workloads wait: a waiting list for each queue, and what must happen before one is evaluated again (S-4).

A waiting list is always sorted. *Parked* workloads are out of the queue until their tree is woken or they change
themselves. A refused workload in the queue is not *due* until then either, so that nothing is evaluated twice in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from functools import partial

from makeway.core.model import Millis, QueueName, Workload, WorkloadKey
from makeway.core.queueing.kept_quota import Entitlements, HeadReservations
from makeway.core.queueing.requeue import SHAPE_MOVING, HeadReturn, Requeue, arrive, pass_over, pop, requeue
from makeway.core.queueing.standing import Standing, Trigger
from makeway.core.queueing.waiting_list import (
    HeadReservation,
    Least,
    Place,
    Shape,
    Turn,
    WaitingList,
    may_queue,
    place,
    shape,
)
from makeway.core.undo import UndoLog

__all__ = [
    "SHAPE_MOVING",
    "HeadReservation",
    "HeadReturn",
    "Pending",
    "Place",
    "Requeue",
    "Shape",
    "Standing",
    "Trigger",
    "Turn",
    "WaitingList",
    "may_queue",
    "place",
    "shape",
]


class Pending:
    """The waiting lists of all queues."""

    def __init__(
        self, log: UndoLog, on_forget: Callable[[Workload], None] = lambda _: None,
        waits_for_pods: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._log = log
        self._waits_for_pods = waits_for_pods  # whether nothing is admitted until pods are ready
        self._on_forget = on_forget  # called when a workload stops waiting
        self.lists: dict[QueueName, WaitingList] = {}
        self._names: list[QueueName] = []  # of the lists, sorted
        self.reservations = HeadReservations(self.lists)
        self.entitlements = Entitlements(self.lists)

    def list_of(self, queue: QueueName) -> WaitingList:
        waiting_list = self.lists.get(queue)
        if waiting_list is None:
            waiting_list = self.lists[queue] = WaitingList(self._log)
        return waiting_list

    # --- coming and going ---

    def push(self, workload: Workload, now: Millis, *, shapes_count: bool = True) -> None:
        """A workload arrives, or changed so that it is evaluated again (S-4.7)."""
        arrive(self.list_of(workload.queue), workload, now, shapes_count=shapes_count)

    def refresh(self, workload: Workload) -> None:
        """An object changed in nothing that matters to a verdict: whether it waits or is parked stays (S-4.7)."""
        self.list_of(workload.queue).renew(workload)

    def forget(self, workload: Workload) -> None:
        """A workload got quota, was deleted or left the queue: workloads that waited for its turn are due."""
        waiting_list = self.list_of(workload.queue)
        waiting_list.leave(workload.key)
        self._on_forget(workload)
        if waiting_list.sticky == workload.key:
            self._log.set(waiting_list, "sticky", None)
        waiting_list.turns.end_behind(workload.key)

    def pop(self, workload: Workload) -> int:
        """Take a head out of its queue; returns how often the queue was woken so far."""
        waiting_list = self.list_of(workload.queue)
        pop(waiting_list, workload.key)
        return waiting_list.wakes

    def requeue(self, workload: Workload, how: HeadReturn, now: Millis) -> bool:
        """Put a head back after its cycle (S-4.5); returns whether it is parked."""
        return requeue(self.list_of(workload.queue), workload, how, now)

    def pass_over(self, workload: Workload, now: Millis, *, binds_larger: bool, turn: Turn | None = None) -> None:
        pass_over(self.list_of(workload.queue), workload, now, binds_larger=binds_larger, turn=turn)

    # --- heads ---

    def in_use(self) -> list[QueueName]:
        """The queues that are not empty, by name."""
        if len(self._names) != len(self.lists):
            self._names = sorted(self.lists)
        return [name for name in self._names if self.lists[name].classes.heads]

    def find(self, queue: QueueName, key: WorkloadKey) -> Workload | None:
        waiting_list = self.lists.get(queue)
        return None if waiting_list is None else waiting_list.members.get(key)

    def head(
        self, queue: QueueName, *, due_only: bool, sticky_blocks: bool, but: Container[WorkloadKey] = ()
    ) -> Workload | None:
        """The workload that is evaluated next (S-4.2); ``due_only``: refused ones wait for a wake, as ``but`` do."""
        waiting_list = self.lists.get(queue)
        if waiting_list is None or not waiting_list.classes.heads:
            return None
        blocks = bool(waiting_list.blocked) and self._waits_for_pods()
        return waiting_list.head(due_only=due_only, sticky_blocks=sticky_blocks, blocks=blocks, but=but)

    def first(self, queue: QueueName) -> WorkloadKey | None:
        return next(self.list_of(queue).ordered(), None)

    def in_order(self, queue: QueueName) -> list[WorkloadKey]:
        """The workloads of a queue, in order."""
        return list(self.list_of(queue).ordered())

    def happen(self, trigger: Trigger, workload: Workload) -> None:
        """Something happened to one waiting workload; ``TRANSITIONS`` says what follows."""
        self.list_of(workload.queue).happen(trigger, workload.key)

    # --- waking ---

    def wake(
        self, queues: Iterable[QueueName], now: Millis, matches: Callable[[Workload], bool], *,
        lists_returned: bool = True, is_hopeless: Callable[[QueueName, Least], bool] | None = None,
    ) -> list[WorkloadKey]:  # fmt: skip
        """Parked workloads of these queues return to them, refused heads become due (S-4.6).

        The returned ones are listed only on demand: they may be very many. ``is_hopeless`` says whether all parked ones
        of a queue would certainly be refused again: then they stay parked.
        """
        returned: list[WorkloadKey] = []
        for queue in sorted(set(queues)):
            waiting_list = self.lists.get(queue)
            if waiting_list is not None:
                in_vain = None if is_hopeless is None else partial(is_hopeless, queue)
                returned += waiting_list.wake(now, matches, lists_returned=lists_returned, is_hopeless=in_vain)
        return returned

    def due(self, queues: Iterable[QueueName]) -> None:
        """Refused workloads in these queues are evaluated again; parked ones are not."""
        for queue in queues:
            self.list_of(queue).make_due()

    def free_again(self, queues: Iterable[QueueName], but: Container[WorkloadKey]) -> None:
        """What was kept free in the tree of these queues has changed: all that lost to it are due, except ``but``."""
        for waiting_list in map(self.list_of, queues):
            for key in [key for key in waiting_list.at[Standing.HELD_BACK] if key not in but]:
                waiting_list.happen(Trigger.FREE, key)

    def end_turns_behind_others(self, queues: Collection[QueueName]) -> None:
        """A workload was admitted in a tree: only those that wait for another's turn are due (S-4.6.9)."""
        for queue in queues:
            waiting_list = self.lists.get(queue)
            if waiting_list is not None and waiting_list.turns.of:
                waiting_list.turns.end_behind_others()

    def contents(self) -> object:
        return {queue: waiting_list.contents() for queue, waiting_list in sorted(self.lists.items())}
