"""Equals that take turns: KEP-8522 over several cycles (S-7.9, 7.10, 18.3)."""

from __future__ import annotations

from typing import Any

from makeway.core.model import QueueName
from makeway.core.queueing import waking
from makeway.core.state import State
from makeway.testing.builders import clock, cycle, evictions, holder, leave, outcomes, queue, seconds, state, workload

TIMED: dict[str, Any] = {"within": "LowerOrNewerEqualPriority"}


def expire(on: State, name: str, now: int) -> int:
    """Let time pass until the next wake for an equal whose time is up; returns when that is."""
    due = waking.next_expiry(on, QueueName(name), seconds(now))
    assert due is not None
    on.wake(QueueName(name), due)
    return due // 1000


def test_S_18_3_rotation_with_parking() -> None:
    on = state(
        queue("q", 4, **TIMED, min_admit=600),
        holder("a", cpu=4, reserved=clock("10:00"), queued=clock("9:00")),
        workload("b", cpu=4, queued=clock("10:01")),
    )
    assert outcomes(cycle(on, clock("10:01"))) == {"b": "PreemptionNoCandidates"}
    assert outcomes(cycle(on, clock("10:10"))) == {}
    at = expire(on, "q", clock("10:10"))
    assert at == clock("10:10:01")
    assert evictions(cycle(on, at)) == [("a", "InClusterQueueTimeBased")]
    leave(on, "a", reason="InClusterQueueTimeBased", at=at)
    at = clock("10:10:20")
    assert outcomes(cycle(on, at)) == {"b": "admitted", "a": "PreemptionNoCandidates"}, "a is looked at beside b"
    assert outcomes(cycle(on, at)) == {"a": "PreemptionNoCandidates"}
    assert expire(on, "q", at) == clock("10:20:21")


def test_S_7_10_three_take_turns() -> None:
    hours = 3600
    on = state(
        queue("q", 1, **TIMED, min_admit=4 * hours),
        holder("a", reserved=0, queued=0),
        workload("b", queued=300),
        workload("c", queued=600),
    )
    order, now = [], 700
    cycle(on, now)
    for _ in range(6):
        now = expire(on, "q", now)
        gone = evictions(cycle(on, now))
        assert len(gone) == 1, "one preemption per window"
        leave(on, gone[0][0], reason=gone[0][1], at=now)
        order += [each.workload.uid for each in cycle(on, now + 20).admitted]
        cycle(on, now + 21)
        now += 21
    assert order == ["b", "c", "a", "b", "c", "a"]


def test_8522_1_and_5_exactly_at_its_time_nobody_leaves_one_second_later_it_does() -> None:
    for at, gone in ((clock("10:10"), []), (clock("10:10:01"), [("a", "InClusterQueueTimeBased")])):
        on = state(
            queue("q", 4, **TIMED, min_admit=600),
            holder("a", cpu=4, reserved=clock("10:00"), queued=clock("9:00")),
            workload("b", cpu=4, queued=clock("10:01")),
        )
        assert evictions(cycle(on, at)) == gone


def test_8522_4_without_a_span_time_changes_nothing() -> None:
    on = state(queue("q", 1, **TIMED), holder("a", reserved=0, queued=0), workload("b", queued=5))
    assert outcomes(cycle(on, 10**6)) == {"b": "PreemptionNoCandidates"}
    on = state(queue("q", 1, **TIMED), holder("a", reserved=0, queued=9), workload("b", queued=5))
    assert evictions(cycle(on, 10**6)) == [("a", "InClusterQueue")]
