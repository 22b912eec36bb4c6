"""Which waiting workloads are preemptors: requeued with preemptions pending, and without quota since (S-5.6.2)."""

from __future__ import annotations

from makeway.core.model import QueueName, Workload, WorkloadKey
from makeway.core.undo import UndoLog


class Preemptors:
    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._marked: dict[WorkloadKey, None] = {}
        self._last: dict[QueueName, WorkloadKey] = {}  # of each queue, the newest of them

    def mark(self, workload: Workload) -> None:
        self._log.put(self._marked, workload.key, None)
        self._log.put(self._last, workload.queue, workload.key)

    def forget(self, workload: Workload) -> None:
        """The workload has quota, so it is no preemptor any more."""
        self._log.drop(self._marked, workload.key)

    def __contains__(self, workload: Workload) -> bool:
        return workload.key in self._marked

    def is_last(self, workload: Workload) -> bool:
        """Whether no other workload of its queue has become one since."""
        return workload in self and self._last.get(workload.queue) == workload.key

    def contents(self) -> object:
        return sorted(self._marked), dict(sorted(self._last.items()))
