"""Which workloads a ClusterQueue may displace, by its policies (S-7.3, 8.1, 8.4)."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from makeway.api.objects import queueing as wire
from makeway.core.amounts import MOST
from makeway.core.model import DAWN
from makeway.core.queue_policies import (
    ABOVE_ALL,
    BELOW_ALL,
    BorrowWithinCohortPolicy,
    ReclaimWithinCohort,
    WithinClusterQueue,
)
from makeway.core.trace import Rule

WRITTEN = {
    WithinClusterQueue: get_type_hints(wire.Preemption)["within_cluster_queue"],
    ReclaimWithinCohort: get_type_hints(wire.Preemption)["reclaim_within_cohort"],
    BorrowWithinCohortPolicy: get_type_hints(wire.BorrowWithinCohort)["policy"],
}


@pytest.mark.parametrize("policy", WRITTEN, ids=lambda policy: policy.__name__)
def test_every_value_that_may_be_written_is_known_and_no_other(policy: type[WithinClusterQueue]) -> None:
    assert tuple(policy) == get_args(WRITTEN[policy])
    assert [each for each in policy if not each.preempts] == ["Never"]


def test_within_its_own_queue() -> None:
    asked = [(each.below(7), each.below(7, equals=True)) for each in WithinClusterQueue]
    assert asked == [(BELOW_ALL, BELOW_ALL), (7, 7), (7, 8)]
    assert [each for each in WithinClusterQueue if each.takes_equals] == ["LowerOrNewerEqualPriority"]
    assert [each for each in WithinClusterQueue if each.favours_age] == ["LowerOrNewerEqualPriority"]


EQUALS: dict[WithinClusterQueue, tuple[list[int], Rule | None]] = {
    WithinClusterQueue.NEVER: ([], None),
    WithinClusterQueue.LOWER_PRIORITY: ([], None),
    WithinClusterQueue.LOWER_OR_NEWER_EQUAL: ([1001, MOST], Rule.NEWER_EQUAL),
}


@pytest.mark.parametrize("policy", WithinClusterQueue)
def test_which_equals_by_when_they_queued(policy: WithinClusterQueue) -> None:
    taken, rule = EQUALS[policy]
    queued = policy.equals_queued(1000)
    assert [at for at in (DAWN, 999, 1000, 1001, MOST) if at in queued] == taken
    assert bool(queued) is policy.takes_equals
    assert rule is None or policy.equals_rule is rule


def test_in_the_cohort() -> None:
    assert [each.below(7) for each in ReclaimWithinCohort] == [BELOW_ALL, 7, ABOVE_ALL]
    assert [each for each in ReclaimWithinCohort if each.takes_any] == ["Any"]


@pytest.mark.parametrize(("threshold", "below"), [(None, 7), (3, 4), (6, 7), (9, 7)])
def test_while_borrowing(threshold: int | None, below: int) -> None:
    assert BorrowWithinCohortPolicy.LOWER_PRIORITY.below(7, threshold) == below
    assert BorrowWithinCohortPolicy.NEVER.below(7, threshold) == BELOW_ALL
