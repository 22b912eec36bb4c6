"""Which workload may displace which, and on what ground (S-7.3 to 7.7, 8.4)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.model import Workload
from makeway.core.preemption.eligibility import equals_by_time, may_preempt, only_without_borrowing, own_queue_ground
from makeway.core.queue_policies import ReclaimWithinCohort, WithinClusterQueue
from makeway.core.trace import Rule
from makeway.testing.builders import clock, holder, queue, seconds, workload

NOON = seconds(clock("12:00"))
HOURS = 3600
NEWER_EQUAL = WithinClusterQueue.LOWER_OR_NEWER_EQUAL
LINE, _ = queue("q", 1, within="LowerOrNewerEqualPriority", min_admit=2 * HOURS)
EXPIRY = equals_by_time(LINE, NOON, time_based=True).expired_before
INCOMING = workload("in", priority=10, queued=clock("9:00"))


def runs(name: str, created: str, reserved: str | None, priority: int = 10) -> Workload:
    since = None if reserved is None else clock(reserved)
    return holder(name, priority=priority, queued=clock(created), reserved=since)


@dataclass(frozen=True)
class Case:
    name: str
    running: Workload
    ground: Rule | None  # None: it stays
    reason: str = "InClusterQueue"
    timed: bool = True


CASES = [
    Case("S-7.8 D has a lower priority", runs("d", "11:00", "11:30", 5), Rule.LOWER_PRIORITY),
    Case("S-7.8 A has had its time", runs("a", "7:00", "8:00"), Rule.TIME_EXPIRED, "InClusterQueueTimeBased"),
    Case("S-7.8 B has had it, and is newer", runs("b", "9:10", "9:30"), Rule.TIME_EXPIRED, "InClusterQueueTimeBased"),
    Case("S-7.8 C is newer", runs("c", "10:00", "11:00"), Rule.NEWER_EQUAL),
    Case("S-7.8 E has held for exactly two hours", runs("e", "8:30", "10:00:00"), None),
    Case("S-7.8 F has a higher priority", runs("f", "11:00", "8:00", 20), None),
    Case(
        "S2 one second later its time is over",
        runs("e", "8:30", "9:59:59"),
        Rule.TIME_EXPIRED,
        "InClusterQueueTimeBased",
    ),
    Case("S2 exactly two hours, and newer: not for its time", runs("e", "9:10", "10:00:00"), Rule.NEWER_EQUAL),
    Case("S5 queued in the same second is not newer", runs("s", "9:00", "11:00"), None),
    Case("R-6 older, and reserved lately", runs("r", "8:59", "11:59"), None),
    Case("assumed, no time yet", runs("g", "7:00", None), None),
    Case("assumed, no time yet, newer", runs("g", "9:10", None), Rule.NEWER_EQUAL),
    Case("without a span time plays no role", runs("a", "7:00", "8:00"), None, timed=False),
    Case("a reservation in the future has not expired", runs("h", "7:00", "13:00"), None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_within_one_queue(case: Case) -> None:
    expiry = EXPIRY if case.timed else None
    may = may_preempt(INCOMING, case.running, NEWER_EQUAL, expiry, NOON)
    assert may == (case.ground is not None)
    if case.ground is not None:
        ground = own_queue_ground(INCOMING, case.running, NEWER_EQUAL, expiry, NOON)
        assert (ground.step.rule, ground.reason) == (case.ground, case.reason), str(ground.step)


POLICIES = {
    "Never takes nobody": (WithinClusterQueue.NEVER, (False, False, False)),
    "LowerPriority takes the lower": (WithinClusterQueue.LOWER_PRIORITY, (True, False, False)),
    "LowerOrNewerEqualPriority takes newer equals too": (NEWER_EQUAL, (True, True, False)),
    "Any takes everybody": (ReclaimWithinCohort.ANY, (True, True, True)),
    "LowerPriority takes the lower of other queues": (ReclaimWithinCohort.LOWER_PRIORITY, (True, False, False)),
    "Never takes nobody of other queues": (ReclaimWithinCohort.NEVER, (False, False, False)),
}


@pytest.mark.parametrize(("policy", "takes"), POLICIES.values(), ids=POLICIES)
def test_S_7_3_policies(policy: WithinClusterQueue | ReclaimWithinCohort, takes: tuple[bool, ...]) -> None:
    running = [runs("w", "11:00", "11:00", priority) for priority in (9, 10, 11)]
    assert tuple(may_preempt(INCOMING, each, policy, None, NOON) for each in running) == takes


def test_S_7_5_the_gate_or_a_missing_span_turns_time_off() -> None:
    assert seconds(clock("10:00")) == EXPIRY
    assert equals_by_time(LINE, NOON, time_based=False).expired_before is None
    assert equals_by_time(queue("q", 1)[0], NOON, time_based=True).expired_before is None


def test_the_numbers_of_a_ground_explain_it() -> None:
    held = own_queue_ground(INCOMING, runs("a", "7:00", "8:00"), NEWER_EQUAL, EXPIRY, NOON)
    assert str(held.step) == f"held quota for {4 * HOURS * 1000} ms, more than its {2 * HOURS * 1000} ms"
    assert held.step.subjects == ("default/a",)


BORROWING = {
    "S-8.4 borrowWithinCohort Never": ("Never", None, 0, True),
    "S-8.4 lower, no threshold": ("LowerPriority", None, 9, False),
    "S-8.4 an equal": ("LowerPriority", None, 10, True),
    "S-8.4 at the threshold": ("LowerPriority", 5, 5, False),
    "S-8.4 above the threshold": ("LowerPriority", 5, 6, True),
}


@pytest.mark.parametrize(("policy", "threshold", "priority", "only"), BORROWING.values(), ids=BORROWING)
def test_who_leaves_only_for_one_within_its_quota(
    policy: str, threshold: int | None, priority: int, only: bool
) -> None:
    asking, _ = queue("q", 1, borrow=policy, threshold=threshold)
    assert only_without_borrowing(asking, INCOMING, runs("w", "8:00", "8:00", priority)) is only


@pytest.mark.property
@given(a=st.integers(0, 2), b=st.integers(0, 2), qa=st.integers(0, 3), qb=st.integers(0, 3))
def test_S5_two_never_displace_each_other_by_being_newer(a: int, b: int, qa: int, qb: int) -> None:
    one, two = holder("1", priority=a, queued=qa), holder("2", priority=b, queued=qb)
    assert not (may_preempt(one, two, NEWER_EQUAL, None, NOON) and may_preempt(two, one, NEWER_EQUAL, None, NOON))
