"""Claims that others may or may not take: how long they last then, and how old their workload is (S-19.1.3)."""

from __future__ import annotations

from makeway.testing.builders import cycle, evictions, holder, leave, queue, seconds, state, workload

GRACE, TIMEOUT = 30, 300  # seconds


def test_a_taken_claim_lasts_no_longer_than_the_victims_that_are_left() -> None:
    on = state(
        queue("q", 4, within="LowerPriority"), holder("slow", cpu=2, priority=-1, grace_ms=600_000),
        holder("quick", cpu=2, priority=-1), workload("low", cpu=4),
    )  # fmt: skip
    cycle(on, 10)
    leave(on, "slow", at=15, returns=False)
    on.push(workload("high", cpu=4, priority=5), seconds(20))
    (verdict,) = cycle(on, 20).verdicts
    assert (verdict.took, verdict.claim is not None) == (("default/low",), True)
    assert verdict.claim is not None
    assert verdict.claim.expires_at == seconds(10 + GRACE + TIMEOUT), "that of quick; slow has left"


def test_a_claimant_that_was_displaced_by_time_is_as_old_as_it_would_be_running() -> None:
    """It has queued since 500 and was created at 1: one that came in between is not older, were it running."""
    rotated = workload("w", cpu=1).but(queued_at=seconds(500), created_at=seconds(1), displaced_at=seconds(500))
    on = state(
        queue("q", 1, within="LowerOrNewerEqualPriority", min_admit=60), holder("a", cpu=1, queued=1, reserved=1),
        rotated,
    )  # fmt: skip
    assert evictions(cycle(on, 600)) == [("a", "InClusterQueueTimeBased")]
    on.push(workload("between", cpu=1, queued=100), seconds(601))
    assert [each.took for each in cycle(on, 601).verdicts] == [()]
