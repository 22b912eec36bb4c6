"""From what happened to the queues that are woken (S-4.6, 7.9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.core.cycle.cycle import heads
from makeway.core.model import Expression, FlavorName, QueueName
from makeway.core.policy import Policy
from makeway.core.queueing import waking
from makeway.core.state import State
from makeway.testing.builders import cohort, cycle, holder, leave, outcomes, queue, seconds, state, workload

GOLD = (Expression("tier", "In", ("gold",)),)


def forest(policy: Policy | None = None) -> State:
    return state(
        queue("a", {"spot": 1}, cohort="l", strict=True, min_admit=600),
        queue("b", {"default": 1}, cohort="r", namespaces=GOLD),
        queue("alone", {"default": 1}, namespaces=None),
        cohort("l", parent="r"),
        holder("h1", queue="a", reserved=100),
        holder("h2", queue="a", reserved=300),
        policy=policy,
    )


A, B, ALONE = QueueName("a"), QueueName("b"), QueueName("alone")


@pytest.mark.parametrize(
    "trigger", [waking.after_release, waking.after_shrinking, waking.after_queue_change, waking.after_expiry]
)
def test_a_change_in_a_queue_wakes_its_whole_tree(trigger: object) -> None:
    assert callable(trigger)
    assert trigger(forest(), A) == {A, B}
    assert trigger(forest(), ALONE) == {ALONE}
    assert trigger(forest(), QueueName("unknown")) == frozenset()


def test_a_cohort_wakes_its_roots_tree() -> None:
    assert waking.after_cohort_change(forest(), "l") == {A, B}
    assert waking.after_cohort_change(forest(), "unknown") == frozenset()


def test_a_flavor_wakes_the_trees_of_its_users() -> None:
    assert waking.after_flavor_change(forest(), FlavorName("spot")) == {A, B}
    assert waking.after_flavor_change(forest(), FlavorName("default")) == {A, B, ALONE}
    assert waking.after_flavor_change(forest(), FlavorName("unused")) == frozenset()


def test_a_namespace_wakes_the_queues_that_it_newly_matches() -> None:
    gold = {"tier": "gold"}
    assert waking.after_namespace_change(forest(), {}, gold) == {A, B}
    assert waking.after_namespace_change(forest(), gold, gold) == frozenset()
    assert waking.after_namespace_change(forest(), gold, {}) == frozenset()


def test_S_4_6_8_an_admission_makes_strict_heads_due() -> None:
    assert waking.after_admission(forest(), B) == {A}


def test_S_7_9_the_next_expiry_is_one_second_after_the_span() -> None:
    made = forest()
    assert waking.next_expiry(made, A, seconds(0)) == seconds(701)
    assert waking.next_expiry(made, A, seconds(700)) == seconds(701)
    assert waking.next_expiry(made, A, seconds(701)) == seconds(901)
    assert waking.next_expiry(made, A, seconds(901)) is None
    assert waking.next_expiry(made, B, seconds(0)) is None


def test_without_the_gate_nothing_expires() -> None:
    policy = Policy.default()
    off = replace(policy, gates=replace(policy.gates, time_based_same_priority_preemption=False))
    assert waking.next_expiry(forest(off), A, seconds(0)) is None


def test_a_wake_returns_those_whose_namespace_matches() -> None:
    made = forest()
    parked = workload("w", queue="b", requeue_at=seconds(5))
    made.push(parked, seconds(0))
    assert made.wake(A, seconds(9)) == [], "the selector of b does not match"
    made.namespaces = {"default": {"tier": "gold"}}
    assert made.wake(A, seconds(4)) == [], "it backs off"
    assert made.wake(A, seconds(5)) == ["default/w"]


def test_S_3_11_a_claim_that_leaves_room_wakes_nobody_but_who_looks_may_count_on_it() -> None:
    """So a workload that is evaluated after a restart may find room sooner than its verdict would have ended."""
    on = state(queue("q", 4, within="LowerPriority"), holder("h", cpu=4), workload("small", cpu=1))
    assert outcomes(cycle(on)) == {"small": "PreemptionNoCandidates"}
    on.push(workload("p", cpu=2, priority=1), seconds(1))
    assert outcomes(cycle(on, 1)) == {"p": "PendingPreemption"}
    assert heads(on) == []
    with on.trial():
        on.wake(QueueName("q"), seconds(2))
        assert outcomes(cycle(on, 2)) == {"small": "PendingPreemption"}
    leave(on, "h", at=3, returns=False)
    assert outcomes(cycle(on, 3)) == {"p": "admitted", "small": "admitted"}
