"""The whole order of a queue, as users whose workloads wait in it ask for it.

It has all waiting workloads, parked or not, in the order of the queue (S-4.1). A sticky workload (S-4.9) is first here,
too. A position says which workload is evaluated first, not which is admitted first: a small one may fit where others
do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge

from makeway.core.model import QueueName, Workload, WorkloadKey
from makeway.core.queueing.waiting_list import WaitingList, place
from makeway.core.state import State


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a workload; both numbers count from 0."""

    workload: Workload
    in_queue: int
    in_local_queue: int


def positions(state: State, queue: QueueName) -> Iterator[Position]:
    """All positions from the front; they are computed only as far as they are read."""
    waiting_list = state.pending.lists.get(queue)
    if waiting_list is None:
        return
    before: Counter[tuple[str, str]] = Counter()
    for index, key in enumerate(_in_order(waiting_list)):
        workload = waiting_list.members[key]
        local = (workload.namespace, workload.local_queue)
        yield Position(workload, index, before[local])
        before[local] += 1


def _in_order(waiting_list: WaitingList) -> Iterator[WorkloadKey]:
    first = waiting_list.sticky
    if first is not None and not waiting_list.is_in_queue(first):
        first = None
    if first is not None:
        yield first
    singly = sorted(place(waiting_list.members[key]) for key in waiting_list.parked_singly)
    for where in merge(*waiting_list.classes.places.values(), singly):
        if where[-1] != first:
            yield where[-1]
