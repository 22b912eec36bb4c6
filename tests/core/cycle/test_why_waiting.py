"""Why a workload waits as things stand, where no cycle evaluates it."""

from __future__ import annotations

import pytest

from makeway.core.cycle.cycle import Verdict
from makeway.core.cycle.why_waiting import Unseen, found_about, unseen
from makeway.core.messages import pending_message, pending_reason
from makeway.core.model import QueueName, Workload, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.testing.builders import cycle, holder, outcomes, queue, seconds, state, workload

Q = QueueName("q")
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"


def waiting(on: State, name: str) -> Workload:
    found = on.pending.find(Q, WorkloadKey(f"default/{name}"))
    assert found is not None
    return found


def words(on: State, name: str, at: int = 2) -> tuple[str, str]:
    """The reason and message that it would get."""
    before = on.fingerprint()
    one = waiting(on, name)
    found = unseen(on, one, seconds(at)) or found_about(on, one, seconds(at))
    assert on.fingerprint() == before, "nothing is decided"
    if isinstance(found, Verdict):
        assert found.claim is None
        return pending_reason(found), pending_message(found)
    return found.reason, found.message


def test_S_4_5_3_one_that_is_parked_with_an_equivalent_one_lacks_what_that_one_lacks() -> None:
    on = state(queue("q", 4), holder("h", cpu=3), workload("a", cpu=2), workload("b", cpu=2, queued=1))
    assert outcomes(cycle(on, 2)) == {"a": "PreemptionNoCandidates"}
    assert outcomes(cycle(on, 2)) == {}, "b is not evaluated"
    assert words(on, "b") == words(on, "a") == ("WaitingForQuota", SHORT.format(1))


def test_one_that_asks_for_more_is_told_what_it_lacks_itself() -> None:
    larger = (workload("b", cpu=3, queued=1), workload("c", cpu=9, queued=2))
    on = state(queue("q", 4), holder("h", cpu=4), workload("a", cpu=2), *larger)
    cycle(on, 3)
    assert outcomes(cycle(on, 3)) == {}, "the larger ones are parked with it"
    assert words(on, "b") == ("WaitingForQuota", SHORT.format(3))
    assert words(on, "c")[0] == "ExceedsMaxQuota"


def test_S_4_4_one_behind_a_strict_head_waits_for_its_turn() -> None:
    on = state(queue("q", 4, strict=True), holder("h", cpu=3), workload("a", cpu=2), workload("b", queued=1))
    assert outcomes(cycle(on, 2)) == {"a": "PreemptionNoCandidates"}
    behind = "Waits behind the head of ClusterQueue q, whose queueingStrategy is StrictFIFO"
    assert words(on, "b") == ("PendingEvaluation", behind)
    assert words(on, "a") == ("WaitingForQuota", SHORT.format(1)), "the head itself is told what it lacks"


@pytest.mark.parametrize("fair", [False, True])
def test_S_5_13_what_is_kept_free_for_a_strict_head_does_not_count_against_itself(fair: bool) -> None:
    policy = Policy(fair_strategies=("LessThanOrEqualToFinalShare",) if fair else ())
    strict = queue("q", 4, strict=True, within="LowerPriority", cohort="all")
    on = state(
        strict,
        queue("p", 4, cohort="all"),
        holder("h", cpu=3),
        holder("o", queue="p", cpu=4),
        workload("a", cpu=2),
        policy=policy,
    )
    assert outcomes(cycle(on, 2)) == {"a": "PreemptionNoCandidates"}
    assert on.pending.list_of(Q).reservations
    assert words(on, "a") == ("WaitingForQuota", SHORT.format(1))


def test_S_4_5_2_one_that_backs_off_waits_for_that() -> None:
    on = state(queue("q", 4), workload("a", requeue_at=seconds(60)), workload("b", backing_off=True))
    assert words(on, "a") == ("PendingEvaluation", "Backs off until 1970-01-01T00:01:00Z")
    assert words(on, "b") == ("PendingEvaluation", "Backs off: its condition Requeued is False")


def test_one_that_claims_waits_for_those_to_leave() -> None:
    on = state(queue("q", 4, within="LowerPriority"), holder("h", cpu=4), workload("a", cpu=2, priority=1))
    assert outcomes(cycle(on, 2)) == {"a": "PendingPreemption"}
    assert words(on, "a") == ("WaitingForPreemptedWorkloads", "Pending the preemption of 1 workload(s)")


def test_one_that_would_fare_better_by_now_gets_no_claim_and_is_told_what_it_lacks() -> None:
    """Here a victim has come that its verdict did not know of; the queue was not woken since."""
    on = state(queue("q", 4, within="LowerPriority"), holder("h", cpu=4, priority=5), workload("a", cpu=2, priority=1))
    assert outcomes(cycle(on, 2)) == {"a": "PreemptionNoCandidates"}
    on.release(waiting_holder(on, "h"))
    on.hold(holder("low", cpu=4).but())
    assert words(on, "a") == ("WaitingForQuota", SHORT.format(2))
    on.release(waiting_holder(on, "low"))
    found = found_about(on, waiting(on, "a"), seconds(2))
    assert isinstance(found, Unseen)
    assert (found.reason, found.message.endswith("waits for a change in q")) == ("WaitingForQuota", True)


def test_one_that_will_fit_once_the_victims_of_another_are_gone_gets_no_claim_outside_of_a_cycle() -> None:
    on = state(queue("q", 4, within="LowerPriority"), holder("low", cpu=4), workload("a", cpu=2))
    assert outcomes(cycle(on, 2)) == {"a": "PreemptionNoCandidates"}
    on.push(workload("high", cpu=2, priority=1), seconds(3))
    assert outcomes(cycle(on, 3)) == {"high": "PendingPreemption"}
    assert words(on, "a", 3) == ("WaitingForQuota", SHORT.format(2))


def waiting_holder(on: State, name: str) -> Workload:
    return on.holders.by_key[WorkloadKey(f"default/{name}")]
