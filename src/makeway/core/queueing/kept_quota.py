"""What is kept free for waiting workloads: for refused heads (S-5.13), and of lent quota (S-5.14)."""

from __future__ import annotations

from collections.abc import Mapping

from makeway.core.model import QueueName, Usage, Workload, WorkloadKey
from makeway.core.queueing.waiting_list import HeadReservation, WaitingList, place

Lists = Mapping[QueueName, WaitingList]


class HeadReservations:
    """Quota that is kept free for refused heads of strict queues until they are evaluated again (S-5.13)."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._queues: dict[QueueName, None] = {}  # queues that ever had one

    def keep(self, workload: Workload, reservation: HeadReservation) -> None:
        self._queues[workload.queue] = None
        waiting_list = self._lists[workload.queue]
        waiting_list.log.put(waiting_list.reservations, workload.key, reservation)

    def by_queue(self) -> dict[QueueName, dict[WorkloadKey, HeadReservation]]:
        lists = ((queue, self._lists[queue]) for queue in self._queues)
        return {queue: dict(waiting_list.reservations) for queue, waiting_list in lists if waiting_list.reservations}

    def end_in(self, queue: QueueName) -> None:
        """A head of the queue is evaluated: what was kept free for an earlier head is free again."""
        if queue in self._queues:
            _drop(self._lists[queue], list(self._lists[queue].reservations))

    def end_behind_heads(self) -> None:
        """Nothing is kept free any more for a workload that is no longer the head."""
        for waiting_list in (self._lists[queue] for queue in self._queues):
            if waiting_list.reservations:
                first = next(waiting_list.ordered(), None)
                _drop(waiting_list, [key for key in waiting_list.reservations if key != first])


def _drop(waiting_list: WaitingList, keys: list[WorkloadKey]) -> None:
    for key in keys:
        waiting_list.log.drop(waiting_list.reservations, key)


class Entitlements:
    """What workloads request that only lent quota keeps out: while they wait, that much is not lent again (S-5.14)."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._queues: dict[QueueName, None] = {}  # queues in which a workload was ever entitled

    def entitle(self, workload: Workload, usage: Usage) -> None:
        self._queues[workload.queue] = None
        waiting_list = self._lists[workload.queue]
        waiting_list.log.put(waiting_list.entitled, workload.key, usage)

    def firsts(self) -> dict[QueueName, tuple[WorkloadKey, Usage]]:
        """By queue, the first entitled workload, and what it requests."""
        firsts = {}
        for queue in self._queues:
            waiting_list = self._lists[queue]
            if waiting_list.entitled:
                members, sticky = waiting_list.members, waiting_list.sticky
                first = min(waiting_list.entitled, key=lambda key: (key != sticky, place(members[key])))
                firsts[queue] = (first, waiting_list.entitled[first])
        return firsts
