"""Which workloads a ClusterQueue may displace: the values of its preemption policies, and the rules behind them.

Each rule is stated here and nowhere else. Most are about priorities: holders of quota *below* a priority may be
displaced; ``ABOVE_ALL`` and ``BELOW_ALL`` are the ends.
"""

from __future__ import annotations

from enum import StrEnum

from makeway.core.amounts import MOST
from makeway.core.trace import Rule

ABOVE_ALL = 2**62  # above every priority
BELOW_ALL = -ABOVE_ALL


class _PreemptionPolicy(StrEnum):
    """The values are those of the API."""

    preempts: bool  # whether any workload may be displaced at all; found once, for every search asks

    def __init__(self, value: str) -> None:
        self.preempts = value != "Never"


class WithinClusterQueue(_PreemptionPolicy):
    """Which workloads of its own queue a workload may displace (S-7.3)."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL = "LowerOrNewerEqualPriority"

    @property
    def takes_equals(self) -> bool:
        """Whether some workloads of the same priority may be displaced, as may those whose time is up (S-7.4)."""
        return self is WithinClusterQueue.LOWER_OR_NEWER_EQUAL

    @property
    def favours_age(self) -> bool:
        """Whether an older workload may displace more than one of the same priority that looks alike (S-4.5.3)."""
        return self is WithinClusterQueue.LOWER_OR_NEWER_EQUAL

    @property
    def equals_rule(self) -> Rule:
        """The ground on which equals are displaced whose time is not up."""
        return Rule.NEWER_EQUAL

    def equals_queued(self, queued_at: int) -> range:
        """The queueing times of the equals that a workload queued at ``queued_at`` may displace."""
        return range(queued_at + 1, MOST + 1) if self is WithinClusterQueue.LOWER_OR_NEWER_EQUAL else range(0)

    def below(self, priority: int, *, equals: bool = False) -> int:
        """The priority below which a workload of ``priority`` may displace others; ``equals``: including its equals."""
        if self is WithinClusterQueue.NEVER:
            return BELOW_ALL
        return priority + (equals and self.takes_equals)


class ReclaimWithinCohort(_PreemptionPolicy):
    """Which workloads of other queues may be displaced where those queues borrow (S-8.1)."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"

    @property
    def takes_any(self) -> bool:
        """Whether priority plays no role, so that what was lent comes back whenever it is needed."""
        return self is ReclaimWithinCohort.ANY

    def below(self, priority: int) -> int:
        """The priority below which a workload of ``priority`` may displace others."""
        if self is ReclaimWithinCohort.NEVER:
            return BELOW_ALL
        return ABOVE_ALL if self.takes_any else priority


class BorrowWithinCohortPolicy(_PreemptionPolicy):
    """Which workloads of other queues may be displaced by one that borrows itself (S-8.4)."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"

    def below(self, priority: int, threshold: int | None) -> int:
        """The priority below which a borrower of ``priority`` may displace others, but not above ``threshold``."""
        if self is BorrowWithinCohortPolicy.NEVER:
            return BELOW_ALL
        return priority if threshold is None else min(priority, threshold + 1)
