"""How far the flavor scans of waiting workloads have come, and how long that counts (S-6.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from makeway.core.cycle.flavors import AT_END, Scan, Tried
from makeway.core.model import QueueName, Workload, WorkloadKey
from makeway.core.queueing.equivalence import Shape, shape
from makeway.core.undo import UndoLog

if TYPE_CHECKING:
    from makeway.core.state import State


@dataclass(frozen=True, slots=True)
class FlavorProgress:
    """How far a workload's flavor scan has come, and when."""

    tried: Tried
    shape: Shape
    cycle: int
    generation: int
    ended: frozenset[Scan]  # those that have reached the end of their list since ``wakes``
    wakes: int


class FlavorScans:
    """The progress of all waiting workloads, and what makes it obsolete: quota that was released, and later cycles."""

    def __init__(self, log: UndoLog, state: State) -> None:
        self._log = log
        self._state = state
        self._progress: dict[WorkloadKey, FlavorProgress] = {}
        self._generations: dict[QueueName, int] = {}  # S-3.8
        self.cycle = 0  # the number of the last cycle that was carried out

    def next_cycle(self) -> None:
        self._log.set(self, "cycle", self.cycle + 1)

    def next_generation(self, queue: QueueName) -> None:
        """Quota of the queue was released, or it was configured: what scans found there becomes obsolete."""
        self._log.put(self._generations, queue, self._generations.get(queue, 0) + 1)

    def tried(self, workload: Workload) -> Tried:
        """Where the workload's scan goes on, unless what it found has become obsolete."""
        known = self._progress.get(workload.key)
        if known is None or known.shape != shape(workload):
            return {}
        has_changed = known.generation != self._generations.get(workload.queue, 0)
        return {} if has_changed and known.cycle < self.cycle else known.tried

    def remember(self, workload: Workload, tried: Tried, ended: frozenset[Scan] = frozenset()) -> bool:
        """Note where its scans stopped; returns whether flavors are left to try.

        ``ended``: scans that came to their end and are not in ``tried`` as such.
        """
        unfinished = {scan for scan, index in tried.items() if index != AT_END}
        ended |= tried.keys() - unfinished
        wakes = self._state.pending.list_of(workload.queue).wakes
        before = self._progress.get(workload.key)
        if before is not None and before.wakes == wakes:
            ended |= before.ended
        generation = self._generations.get(workload.queue, 0)
        progress = FlavorProgress(tried, shape(workload), self.cycle, generation, ended, wakes)
        self._log.put(self._progress, workload.key, progress)
        if self._state.policy.gates.preemption_claims:
            return bool(unfinished - ended)  # two scans out of phase must not keep the workload from being parked
        return bool(unfinished)

    def forget(self, workload: Workload) -> None:
        self._log.drop(self._progress, workload.key)

    def contents(self) -> object:
        return dict(sorted(self._progress.items())), dict(sorted(self._generations.items())), self.cycle
