"""The evictions of a decision, until all of them are answered: what becomes of it when some fail (S-10.1).

A preemptor that did not get all its evictions loses its claim and is planned anew. If some victims are leaving, that
happens at once, so that the quota they free is not lost to others meanwhile; a pause follows only when it fails again
and again. If no victim leaves, the pause comes first, and no round was used.

Not here: how long a pause is (``runtime.workqueue``); the evictions themselves (``scheduling``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from makeway.controllers.contract import Action
from makeway.core.cycle.cycle import Verdict
from makeway.core.model import Workload, WorkloadKey
from makeway.core.preemption.rounds import Round

RETRIES_AT_ONCE = 3  # fresh plans without a pause, where only some of the evictions were stored


class Failed(NamedTuple):
    """An issue of evictions that were not all stored."""

    workload: Workload  # the preemptor, as it was then
    round: Round  # what was counted for it and has not been used; "": nothing
    attempts: int  # issues in a row that failed
    pauses: bool  # whether it is planned anew only after a pause


@dataclass(slots=True)
class _Issue:
    verdict: Verdict
    count: int
    waiting: int
    stored: int = 0

    @property
    def displaced_nobody(self) -> bool:
        return not self.stored and not any(target.workload.evicted for target in self.verdict.targets)


class EvictionBatches:
    def __init__(self) -> None:
        self._open: dict[str, _Issue] = {}  # by decision
        self._failures: dict[WorkloadKey, int] = {}  # issues in a row of which not all evictions were stored

    def note(self, decision: str, verdict: Verdict, evictions: int) -> None:
        """So many evictions are asked for."""
        if evictions:
            self._open[decision] = _Issue(verdict, evictions, evictions)

    def answered(self, action: Action, stored: bool) -> Failed | None:
        """One of them is stored, or never will be. The last answer tells what follows."""
        issue = self._open.get(action.decision)
        if issue is None or action.by is None:
            return None
        issue.waiting -= 1
        issue.stored += stored
        if issue.waiting:
            return None
        del self._open[action.decision]
        if issue.stored == issue.count:
            self._failures.pop(action.by, None)
            return None
        attempts = self._failures[action.by] = self._failures.get(action.by, 0) + 1
        unused = issue.displaced_nobody
        return Failed(
            issue.verdict.workload, issue.verdict.round if unused else "", attempts,
            pauses=unused or attempts > RETRIES_AT_ONCE,
        )  # fmt: skip

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone."""
        self._failures.pop(key, None)
