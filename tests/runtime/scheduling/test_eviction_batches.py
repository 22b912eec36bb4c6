"""Evictions that fail: whether the preemptor is planned anew at once, and whether a round counts (S-10.1, P15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.controllers.contract import WORKLOAD, Action, Change, Ref
from makeway.controllers.workloads.eviction import Evict
from makeway.core.cycle.cycle import Verdict
from makeway.core.model import Millis, WorkloadKey
from makeway.runtime.scheduling.eviction_batches import RETRIES_AT_ONCE, EvictionBatches, Failed
from makeway.testing.builders import cycle, holder, queue, state, workload

BY = WorkloadKey("default/p")
VICTIM = Ref(WORKLOAD, "default", "v")


def verdict(*, leaving: bool = False) -> Verdict:
    """``p`` displaces two; ``leaving``: one of them was asked to leave before."""
    on = state(
        queue("q", 2, within="LowerPriority"), holder("a", evicted=leaving), holder("b"),
        workload("p", cpu=2, priority=1),
    )  # fmt: skip
    return cycle(on).verdicts[0]


def eviction(decision: str = "1/0") -> Action:
    return Action(Change(VICTIM, Evict("Preempted", "", Millis(0))), decision=decision, by=BY)


def told(issues: EvictionBatches, *stored: bool, leaving: bool = False) -> Failed | None:
    """What follows from an issue with these answers; only the last answer tells."""
    issues.note("1/0", verdict(leaving=leaving), len(stored))
    *before, last = [issues.answered(eviction(), each) for each in stored]
    assert before == [None] * len(before)
    return last


CASES = {
    "all came through": ((True, True), False, None),
    "all failed: no round was used, and a pause comes first": ((False, False), False, ("free", True)),
    "one failed: at once, for the other is leaving": ((True, False), False, ("", False)),
    "the other one too": ((False, True), False, ("", False)),
    "all that were asked now failed, but one was leaving before": ((False,), True, ("", False)),
}


@pytest.mark.parametrize(("stored", "leaving", "expected"), CASES.values(), ids=CASES)
def test_what_follows_when_evictions_fail(
    stored: tuple[bool, ...], leaving: bool, expected: tuple[str, bool] | None
) -> None:
    found = told(EvictionBatches(), *stored, leaving=leaving)
    assert (None if found is None else (found.round, found.pauses)) == expected
    assert found is None or (found.workload.key, found.attempts) == (BY, 1)


def test_who_fails_again_and_again_pauses_and_a_success_ends_the_count() -> None:
    issues = EvictionBatches()
    found = [told(issues, True, False) for _ in range(RETRIES_AT_ONCE + 2)]
    assert [each and each.attempts for each in found] == [1, 2, 3, 4, 5]
    assert [each and each.pauses for each in found] == [False, False, False, True, True]
    assert told(issues, True, True) is None
    again = told(issues, True, False)
    assert again is not None
    assert again.attempts == 1
    told(issues, True, False)
    issues.forget(BY)
    last = told(issues, True, False)
    assert last is not None
    assert last.attempts == 1, "one that is made anew is another"


def test_other_writes_and_other_decisions_concern_nobody() -> None:
    issues = EvictionBatches()
    issues.note("1/0", verdict(), 1)
    issues.note("1/1", verdict(), 0)
    assert issues.answered(eviction("1/1"), False) is None
    assert issues.answered(replace(eviction(), by=None), False) is None
    assert issues.answered(eviction(), False) is not None
    assert issues.answered(eviction(), False) is None, "it is over"
