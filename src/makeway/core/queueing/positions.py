"""Who waits before whom: the whole order of a queue, as those who wait in it ask for it.

All who wait are in it, parked or not, by the order of the queue (S-4.1); one who comes first whatever its place (S-4.9)
is first here too. A position says who is looked at before whom, not who is admitted before whom: somebody small may
fit where others do not.
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
    """Both count from 0."""

    workload: Workload
    in_queue: int
    in_local_queue: int


def positions(state: State, queue: QueueName) -> Iterator[Position]:
    """From the front; whoever stops early has not paid for the rest."""
    line = state.pending.lists.get(queue)
    if line is None:
        return
    before: Counter[tuple[str, str]] = Counter()
    for index, key in enumerate(_in_order(line)):
        workload = line.members[key]
        local = (workload.namespace, workload.local_queue)
        yield Position(workload, index, before[local])
        before[local] += 1


def _in_order(line: WaitingList) -> Iterator[WorkloadKey]:
    first = line.sticky
    if first is not None and not line.is_in_queue(first):
        first = None
    if first is not None:
        yield first
    alone = sorted(place(line.members[key]) for key in line.parked_singly)
    for where in merge(*line.classes.places.values(), alone):
        if where[-1] != first:
            yield where[-1]
