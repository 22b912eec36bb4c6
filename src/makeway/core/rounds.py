"""How often a workload has displaced others: what bounds preemption, so that it settles (design 4, epochs).

A *round* is one issue of preemptions, or taking of claims, by a workload. One round that leaves its queue above its
own quota is allowed, and ten of any kind: the first number ends quarrels over what is nobody's by right, the second
is a circuit breaker and never reached in earnest. Who it is goes by root owner, so a job made anew is the same.
In memory only: a restart starts the counts anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from makeway.core.model import QueueName, Workload
from makeway.core.undo import UndoLog

ABOVE_NOMINAL_MAX = 1
ROUNDS_MAX = 10

Round = Literal["", "free", "above"]  # none at all, one that ends within nominal quota, one that ends above it


@dataclass(frozen=True, slots=True)
class Count:
    queue: QueueName  # where it was seen last
    above: int = 0
    total: int = 0
    evicted_by: str = ""  # root owner of who last evicted it or took its claim


class Rounds:
    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._counts: dict[str, Count] = {}
        self._evicted: dict[str, dict[str, None]] = {}  # root owner -> those whom it evicted last
        self.exhausted: dict[QueueName, int] = {}  # verdicts that only the circuit breaker made

    def of(self, workload: Workload) -> Count:
        return self._counts.get(workload.root) or Count(workload.queue)

    def is_too_many(self, workload: Workload, kind: Round) -> bool:
        """Whether it may not have one more of this kind."""
        count = self.of(workload)
        return (kind == "above" and count.above >= ABOVE_NOMINAL_MAX) or (kind != "" and self.is_exhausted(workload))

    def is_exhausted(self, workload: Workload) -> bool:
        return self.of(workload).total >= ROUNDS_MAX

    def add(self, workload: Workload, kind: Round) -> None:
        if kind:
            count = self.of(workload)
            above = count.above + (kind == "above")
            self._put(workload.root, replace(count, queue=workload.queue, above=above, total=count.total + 1))

    def take_back(self, workload: Workload, kind: Round) -> None:
        """Nobody was displaced after all: every eviction of that round failed."""
        count = self._counts.get(workload.root)
        if kind and count is not None:
            above = max(0, count.above - (kind == "above"))
            self._put(workload.root, replace(count, above=above, total=max(0, count.total - 1)))

    def evicted(self, workload: Workload, by: Workload) -> None:
        """It was asked to leave, or its claim was taken."""
        count = self.of(workload)
        if count.evicted_by in self._evicted:
            self._log.drop(self._evicted[count.evicted_by], workload.root)
        self._put(workload.root, replace(count, queue=workload.queue, evicted_by=by.root))
        self._log.put(self._evicted.setdefault(by.root, {}), workload.root, None)

    def barred(self, workload: Workload) -> None:
        """The circuit breaker, and nothing else, kept it from displacing others."""
        self._log.put(self.exhausted, workload.queue, self.exhausted.get(workload.queue, 0) + 1)

    # --- ends ---

    def end_for(self, workload: Workload) -> None:
        self._drop(workload.root)

    def end_in(self, queues: Iterable[QueueName]) -> None:
        within = frozenset(queues)
        for root in [root for root, count in self._counts.items() if count.queue in within]:
            self._drop(root)

    def end_after(self, workload: Workload) -> None:
        """It is finished or deleted: whom it evicted last begins anew."""
        for root in list(self._evicted.get(workload.root, ())):
            self._drop(root)

    def contents(self) -> object:
        evicted = {by: sorted(roots) for by, roots in sorted(self._evicted.items()) if roots}
        return dict(sorted(self._counts.items())), evicted, dict(sorted(self.exhausted.items()))

    def _put(self, root: str, count: Count) -> None:
        self._log.put(self._counts, root, count)

    def _drop(self, root: str) -> None:
        count = self._counts.get(root)
        if count is None:
            return
        if count.evicted_by in self._evicted:
            self._log.drop(self._evicted[count.evicted_by], root)
        self._log.drop(self._counts, root)
