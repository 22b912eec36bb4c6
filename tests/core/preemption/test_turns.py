"""Whose turn it is to displace equals by time (KEP-8522, S-7.14)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.cycle.cycle import Heads, carry_out, decide, heads
from makeway.core.messages import pending_message
from makeway.core.model import QueueName, Workload
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import (
    Amount,
    Part,
    cycle,
    evictions,
    holder,
    leave,
    outcomes,
    queue,
    seconds,
    state,
    workload,
)

Q = QueueName("q")
LITERAL = replace(Policy.default(), rotation="Literal")
SPAN = 100  # seconds for which an equal is safe


def rotating(cpu: Amount, *parts: Part, policy: Policy | None = None, **settings: Any) -> State:
    made = queue("q", cpu, within="LowerOrNewerEqualPriority", min_admit=SPAN, **settings)
    return state(made, *parts, policy=policy)


def displaced(name: str, at: Amount, **more: Any) -> Workload:
    """A workload that waits since it was displaced by time."""
    return workload(name, queued=at, **more).but(
        displaced_at=seconds(at),
        queued_at=seconds(at),
        created_at=seconds(1),
    )


def running(*names: str, since: int, cpu: Amount = 1) -> tuple[Workload, ...]:
    return tuple(holder(name, cpu=cpu, queued=1, reserved=since, admitted=True) for name in names)


# --- who was displaced by time ---------------------------------------------------------------------------------------


def test_a_workload_displaced_by_time_displaces_no_equal_before_it_has_waited_as_long() -> None:
    on = rotating(1, *running("a", since=0), displaced("w", 500))
    plan = cycle(on, 599)
    assert (outcomes(plan), evictions(plan)) == ({"w": "PreemptionNoCandidates"}, [])
    on.pending.list_of(Q).turns.end_at(seconds(599))
    assert heads(on) == []
    on.pending.list_of(Q).turns.end_at(seconds(600))
    assert evictions(cycle(on, 600)) == [("a", "InClusterQueueTimeBased")]


def test_nor_one_that_is_newer() -> None:
    """a came back to its queue with an older time than b has; b is newer, and a may not take its place yet."""
    on = rotating(1, holder("b", cpu=1, queued=550, reserved=550), displaced("w", 500))
    assert evictions(cycle(on, 551)) == []
    literal = rotating(1, holder("b", cpu=1, queued=550, reserved=550), displaced("w", 500), policy=LITERAL)
    assert evictions(cycle(literal, 551)) == [("b", "InClusterQueue")]


def test_but_lower_priorities_leave_for_it_as_always() -> None:
    on = rotating(2, *running("a", since=0), holder("low", cpu=1, priority=-1), displaced("w", 500))
    assert evictions(cycle(on, 501)) == [("low", "InClusterQueue")]


def test_it_is_due_alone_and_told_until_when() -> None:
    on = rotating(1, *running("a", since=0), displaced("w", 500), workload("other", queued=520, cpu=9))
    first = cycle(on, 550)
    assert [each.turn and each.turn.at for each in first.verdicts] == [seconds(600)]
    assert "displaces no workload of its priority before 1970-01-01T00:10:00Z" in pending_message(first.verdicts[0])
    cycle(on, 551)
    assert (heads(on), on.pending.list_of(Q).turns.next_at()) == ([], seconds(600))
    on.pending.list_of(Q).turns.end_at(seconds(600))
    assert [each.uid for each in heads(on)] == ["w"]


def test_its_verdict_is_its_own() -> None:
    on = rotating(1, *running("a", since=450), displaced("w", 500), workload("alike", queued=510))
    cycle(on, 552)
    assert evictions(cycle(on, 553)) == [("a", "InClusterQueueTimeBased")], "alike has its turn"


def test_literally_it_displaces_the_next_whose_time_is_up_at_once() -> None:
    on = rotating(1, *running("a", since=0), displaced("w", 500), policy=LITERAL)
    assert evictions(cycle(on, 501)) == [("a", "InClusterQueueTimeBased")]


@pytest.mark.parametrize(
    "on",
    [
        state(queue("q", 1, within="LowerOrNewerEqualPriority"), holder("b", queued=550), displaced("w", 500)),
        rotating(
            1, holder("b", queued=550, reserved=550), displaced("w", 500),
            policy=replace(
                Policy.default(), gates=replace(Policy.default().gates, time_based_same_priority_preemption=False)
            ),
        ),
    ],
    ids=["no span", "gate off"],
)  # fmt: skip
def test_where_time_plays_no_role_nobody_waits_for_it(on: State) -> None:
    assert evictions(cycle(on, 551)) == [("b", "InClusterQueue")]


# --- turns in the order of the queue ---------------------------------------------------------------------------------


def large_among_small(policy: Policy | None = None) -> State:
    """big needs both slots, and only the time of one is up."""
    return rotating(
        2, *running("a", since=0), *running("b", since=450), workload("big", queued=10, cpu=2),
        workload("small", queued=20), policy=policy,
    )  # fmt: skip


def test_a_later_one_displaces_nobody_by_time_while_an_earlier_one_could_be_served() -> None:
    on = large_among_small()
    assert outcomes(cycle(on, 500)) == {"big": "PreemptionNoCandidates"}
    plan = cycle(on, 501)
    assert (outcomes(plan), evictions(plan)) == ({"small": "PreemptionNoCandidates"}, [])
    assert "default/big comes before it in the queue" in pending_message(plan.verdicts[0])
    on.wake(Q, seconds(551))
    assert evictions(cycle(on, 551)) == [("a", "InClusterQueueTimeBased"), ("b", "InClusterQueueTimeBased")]


def test_literally_it_does() -> None:
    on = large_among_small(LITERAL)
    cycle(on, 500)
    assert evictions(cycle(on, 501)) == [("a", "InClusterQueueTimeBased")]


BEFORE = {
    "gated": {"gated": True},
    "too large for ever": {"cpu": 3},
    "of higher priority": {"priority": 1, "cpu": 3},
    "backs off": {"requeue_at": seconds(900)},
    "refused before any search": {"refusal": "Misconfigured", "refused": "words"},
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=list(BEFORE))
def test_one_that_could_not_be_served_anyway_stands_in_nobodys_way(before: dict[str, Any]) -> None:
    on = rotating(
        2, *running("a", since=0), *running("b", since=450), workload("small", queued=20),
        workload("big", queued=10, **{"cpu": 2, **before}),
    )  # fmt: skip
    found = [evictions(cycle(on, at)) for at in (500, 501)]
    assert [("a", "InClusterQueueTimeBased")] in found


def test_nor_one_that_waits_for_its_own_time() -> None:
    on = rotating(
        2, *running("a", since=0), *running("b", since=450), displaced("big", 480, cpu=2), workload("small", queued=490)
    )
    cycle(on, 500)
    assert evictions(cycle(on, 501)) == [("a", "InClusterQueueTimeBased")]


def test_nor_one_that_has_had_its_turn_and_waits_for_those_who_leave() -> None:
    on = rotating(2, *running("a", "b", since=0), workload("first", queued=10), workload("second", queued=20))
    assert [evictions(cycle(on, at)) for at in (500, 501)] == [
        [("a", "InClusterQueueTimeBased")],
        [("b", "InClusterQueueTimeBased")],
    ]


def test_out_of_turn_a_newer_equal_may_still_leave_as_newer() -> None:
    on = rotating(
        3, *running("a", since=0), *running("b", since=450), holder("new", cpu=1, queued=400, reserved=410),
        workload("big", queued=10, cpu=3), workload("small", queued=20),
    )  # fmt: skip
    cycle(on, 500)
    assert evictions(cycle(on, 501)) == [("new", "InClusterQueue")]


def waiting_behind_big() -> State:
    on = large_among_small()
    cycle(on, 500)
    cycle(on, 501)
    assert heads(on) == []
    return on


def test_those_behind_it_are_due_when_it_leaves_changes_or_gets_a_claim() -> None:
    big = workload("big", queued=10, cpu=2)
    on = waiting_behind_big()
    on.forget(on.pending.list_of(Q).members[big.key], seconds(502))
    assert [each.uid for each in heads(on)] == ["small"]
    on = waiting_behind_big()
    on.push(big.but(gated=True), seconds(502))
    assert {each.key for each in on.pending.list_of(Q).waiting.values()} >= {"default/small"}


def test_and_after_every_admission_in_their_tree_they_only() -> None:
    on = rotating(
        2, *running("a", since=0), *running("b", since=450), workload("big", queued=10, cpu=2),
        workload("small", queued=20), workload("huge", queued=5, cpu=9), queue("other", 1, cohort="c", lending=0),
        cohort="c",
    )  # fmt: skip
    for at in (500, 501, 502):
        cycle(on, at)
    assert heads(on) == []
    on.push(workload("fits", queue="other", cpu=1, queued=30), seconds(503))
    cycle(on, 503)
    assert [each.uid for each in heads(on)] == ["small"]


# --- ties ------------------------------------------------------------------------------------------------------------


def test_of_equal_times_the_shorter_run_goes_first_and_the_longer_one_leaves_first() -> None:
    long, short = (workload(name, queued=5).but(ran_seconds=ran) for name, ran in (("a-long", 90), ("b-short", 30)))
    on = rotating(1, long, short)
    assert on.pending.in_order(Q) == ["default/b-short", "default/a-long"]
    held = [holder(name, cpu=1, queued=1, reserved=0).but(ran_seconds=ran) for name, ran in (("x", 30), ("y", 90))]
    on = rotating(2, *held, workload("w", queued=10))
    assert evictions(cycle(on, 500)) == [("y", "InClusterQueueTimeBased")]


def test_what_it_ran_is_counted_when_it_leaves() -> None:
    on = rotating(1, *running("a", since=100), workload("w", queued=50))
    cycle(on, 500)
    leave(on, "a", reason="InClusterQueueTimeBased", at=520)
    waits = on.pending.list_of(Q).members[workload("a").key]
    assert (waits.ran_seconds, waits.displaced_at, waits.queued_at) == (420, seconds(520), seconds(520) + 1)


# --- cost ------------------------------------------------------------------------------------------------------------


def play(on: State, at: Amount) -> int:
    """Run cycles until no workload is due; returns how many verdicts they took."""
    count = 0
    while (found := Heads.of(on)).ready or found.others:
        plan = decide(on, seconds(at), found, passing=True)
        carry_out(on, plan)
        count += len(plan.verdicts)
    return count


def test_a_crowd_that_looks_alike_is_told_once_whose_turn_it_is() -> None:
    def crowd(size: int) -> State:
        small = (workload(f"w{i:04}", queued=20 + i / 1000) for i in range(size))
        return rotating(
            2, *running("a", since=0), *running("b", since=450), workload("big", queued=10, cpu=2), *small
        )  # fmt: skip

    assert play(crowd(10), 500) == play(crowd(1000), 500) == 2
    on = crowd(1000)
    play(on, 500)
    on.wake(Q, seconds(501))
    assert play(on, 501) == 2
    on.forget(on.pending.list_of(Q).members[workload("big").key], seconds(502))
    assert evictions(cycle(on, 502)) == [("a", "InClusterQueueTimeBased")], "they come back with the first of them"


def test_those_displaced_by_time_are_passed_over_without_a_look() -> None:
    on = rotating(2, *running("a", "b", since=450), *(displaced(f"w{i:03}", 480 + i / 100) for i in range(100)))
    assert play(on, 500) == 100
    on.wake(Q, seconds(510))
    assert play(on, 510) == 0
    assert on.pending.list_of(Q).turns.next_at() == seconds(580), "and are due when their time has come"


def test_every_reason_is_a_step() -> None:
    on = large_among_small()
    rules = {step.rule for at in (500, 501) for each in cycle(on, at).verdicts for step in each.steps}
    assert Rule.NOT_ITS_TURN in rules
