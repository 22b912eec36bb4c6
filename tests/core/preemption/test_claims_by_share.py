"""Claims that pass to a poorer side (S-9.14): when, to which newcomer, and what the workload that lost it may do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.model import QueueName, Workload, WorkloadKey
from makeway.core.policy import FairStrategy, Policy
from makeway.core.preemption.rounds import Count
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import cohort, cycle, evictions, holder, leave, queue, seconds, state, workload

FINAL: FairStrategy = "LessThanOrEqualToFinalShare"
FAIR = replace(Policy.default(), fair_strategies=(FINAL, "LessThanInitialShare"))
LOWER: dict[str, Any] = {"cohort": "r", "reclaim": "LowerPriority"}
CLAIMED_BY = "default/r1"  # the newest claim


def claimed(weight: float = 2, **poor: Any) -> State:
    """The hog held all 4 cpu; two of ``rich`` have a claim each, and their victims have not left.

    Shares as they will be: rich 500, hog 417; with a newcomer of one cpu poor has 250 by its weight.
    """
    on = state(
        cohort("r", 4), queue("rich", 0, **LOWER), queue("poor", 0, weight=weight, **{**LOWER, **poor}),
        queue("hog", 0, cohort="r", weight=1.2),
        *(holder(f"h{i}", queue="hog", priority=-1, reserved=i) for i in range(4)),
        workload("r0", queue="rich", priority=10), workload("r1", queue="rich", priority=10, queued=1), policy=FAIR,
    )  # fmt: skip
    assert evictions(cycle(on, 10)) == [("h3", "InCohortFairSharing")]
    assert evictions(cycle(on, 11)) == [("h2", "InCohortFairSharing")]
    return on


def arrives(on: State, at: float = 20, **settings: Any) -> tuple[tuple[str, ...], list[str]]:
    """The claimants whose claims a newcomer takes, and the workloads that it asks to leave."""
    newcomer = workload("p", **{"queue": "poor", "priority": 10, "queued": at, **settings})
    on.push(newcomer, seconds(at))
    verdict = next(each for each in cycle(on, at).verdicts if each.workload.uid == "p")
    return verdict.took, [target.workload.uid for target in verdict.targets]


def waiting(on: State, uid: str) -> Workload:
    lines = on.pending.lists.values()
    return next(each for line in lines for each in line.members.values() if each.uid == uid)


def rounds_of(on: State, uid: str) -> Count:
    return on.rounds.of(waiting(on, uid))


def test_it_passes_to_a_side_that_stays_poorer_and_nobody_leaves_for_that() -> None:
    on = claimed()
    assert arrives(on) == ((CLAIMED_BY,), [])
    (p, *_) = [each for each in on.claims.within(sorted(on.claims.of_queue)) if each.uid == "p"]
    assert [uid for _, uid in p.claim.victims] == ["h2"], "it waits for the same victim"


def test_the_reason_names_both_sides_and_their_shares() -> None:
    on = claimed()
    on.push(workload("p", queue="poor", priority=10, queued=20), seconds(20))
    (verdict,) = [each for each in cycle(on, 20).verdicts if each.workload.uid == "p"]
    (step,) = [each for each in verdict.steps if each.rule is Rule.FAIR_CLAIM]
    assert step.subjects == (CLAIMED_BY, "poor", "rich")
    assert str(step) == "the newcomer's share rises from 0 to 125, below the 500 of who claims, 250 without the claim"


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("its side would be as rich", {"weight": 0.5}, {}),
    ("it may not reclaim at all", {"reclaim": "Never"}, {}),
    ("it could not displace the victims itself", {}, {"priority": -1}),
    ("it is of the same queue", {}, {"queue": "rich"}),
]


@pytest.mark.parametrize(("settings", "newcomer"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_it_stays_where_it_is(settings: dict[str, Any], newcomer: dict[str, Any]) -> None:
    took, _ = arrives(claimed(**settings), **newcomer)
    assert took == ()


def test_a_policy_that_does_not_let_equals_leave_is_no_hindrance_for_a_claim() -> None:
    """Both have priority 10 and reclaim from lower priorities only; were r1 running it would stay."""
    on = claimed()
    leave(on, "h2", "h3", at=15)
    cycle(on, 15)
    assert {"r0", "r1"} <= {each.uid for each in on.holders.of_queue[QueueName("rich")].values()}
    assert arrives(on) == ((), ["h1"])


def test_the_round_that_it_was_made_for_is_given_back_to_the_workload_that_lost_it() -> None:
    on = claimed()
    assert (rounds_of(on, "r1").above, rounds_of(on, "r1").total) == (1, 1)
    arrives(on)
    assert (rounds_of(on, "r1").above, rounds_of(on, "r1").total) == (0, 1), "the circuit breaker counts on"
    assert rounds_of(on, "p").above == 1


def test_one_that_has_lost_a_claim_keeps_the_next() -> None:
    on = claimed()
    on.rounds.passed_on(waiting(on, "r1"), "")
    assert arrives(on) == (("default/r0",), [])


def test_a_queue_that_is_not_the_richest_keeps_its_claims() -> None:
    """With one claim less rich has 250, and the hog 417: there are no claims there, so a running workload leaves."""
    on = claimed()
    on.unclaim(WorkloadKey(CLAIMED_BY))
    on.pending.forget(waiting(on, "r1"))
    assert arrives(on) == ((), ["h2"])


def test_a_larger_newcomer_takes_from_whoever_is_the_richest_at_each_step() -> None:
    assert arrives(claimed(weight=8), cpu=2) == ((CLAIMED_BY,), ["h1"])
    assert arrives(claimed(weight=8), cpu=3) == ((CLAIMED_BY, "default/r0"), ["h1"])
    assert arrives(claimed(weight=8), cpu=5) == ((), []), "not even all of it would do"


def test_a_newcomer_within_nominal_quota_takes_claims_without_a_test_of_shares() -> None:
    on = state(
        cohort("r"), queue("rich", 0, **LOWER), queue("owner", 1, **LOWER), queue("hog", 3, cohort="r", weight=0.5),
        *(holder(f"h{i}", queue="hog", priority=-1, reserved=i) for i in range(4)),
        workload("r0", queue="rich", priority=10), policy=FAIR,
    )  # fmt: skip
    assert evictions(cycle(on, 10)) == [("h3", "InCohortFairSharing")]
    assert arrives(on, queue="owner") == (("default/r0",), [])
    assert rounds_of(on, "r0").above == 1, "what is owned was taken back: that is not by shares"
