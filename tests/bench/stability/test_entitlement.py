"""Workloads that wait although they are entitled, and the cause."""

from __future__ import annotations

from typing import Any

from makeway.bench.stability.entitlement import FLAVOR_SCAN, RESERVATION, Entitled, LastEvaluation, entitled_waiting
from makeway.core.model import Millis, WorkloadKey
from makeway.core.state import State
from makeway.testing.builders import cycle, holder, queue, seconds, state, workload


def waits(on: State) -> dict[str, str]:
    """Name and cause of all entitled workloads that wait."""
    return {each.workload.partition("/")[2]: each.cause for each in entitled_waiting(on, seconds(100), {})}


def test_who_was_not_looked_at_yet_is_named_with_that() -> None:
    on = state(queue("q", 2), workload("w"))
    assert entitled_waiting(on, seconds(0), {}) == [
        Entitled(WorkloadKey("default/w"), "other:it fits and is not looked at")
    ]
    cycle(on)
    assert waits(on) == {}


def test_who_asks_for_more_than_its_queue_has_is_not_entitled() -> None:
    on = state(queue("q", 2, cohort="c"), queue("r", 2, cohort="c"), workload("w", cpu=3))
    assert waits(on) == {}


def test_what_the_own_queue_uses_counts() -> None:
    on = state(queue("q", 2, within="LowerPriority"), holder("h"), workload("w", cpu=2, priority=5))
    assert waits(on) == {}


def borrowed(**settings: Any) -> State:
    """All of ``q``'s quota is used by another queue."""
    return state(
        queue("q", 2, cohort="c", reclaim=settings.pop("reclaim", "Any")),
        queue("r", 0, cohort="c"),
        holder("h", queue="r", cpu=2, priority=1),
        workload("w", **settings),
    )


def test_what_was_lent_belongs_to_the_lender_if_it_may_take_it_back() -> None:
    assert waits(borrowed()) == {"w": "other:it could preempt and is not looked at"}
    assert waits(borrowed(reclaim="Never")) == {}
    assert waits(borrowed(gated=True)) == {}


def test_by_priority_only_from_those_below() -> None:
    assert waits(borrowed(reclaim="LowerPriority", priority=2)) != {}
    assert waits(borrowed(reclaim="LowerPriority", priority=1)) == {}


def test_nobody_takes_from_a_queue_within_its_own_quota() -> None:
    """``s`` uses ``q``'s quota and is too important to leave; ``r`` is not, but has only its own quota."""
    on = state(
        queue("q", 2, cohort="c", reclaim="LowerPriority"),
        queue("r", 2, cohort="c"),
        queue("s", 0, cohort="c"),
        holder("h", queue="r", cpu=2),
        holder("i", queue="s", cpu=2, priority=5),
        workload("w", cpu=2, priority=1),
    )
    assert waits(on) == {}


def test_who_stands_behind_a_strict_head_waits_as_its_queue_wants() -> None:
    on = state(queue("q", 2, strict=True), workload("big", cpu=3, queued=0), workload("w", queued=1))
    cycle(on)
    assert waits(on) == {}


def test_a_reservation_is_a_cause() -> None:
    """``x`` keeps its own quota for a head without candidates; ``z`` comes after it (S-5.10)."""
    on = state(
        queue("x", 6, cohort="c", reclaim="LowerPriority", strict=True),
        queue("y", 4, cohort="c"),
        queue("z", 2, cohort="c"),
        holder("hx", queue="x", cpu=3),
        holder("hy", queue="y", cpu=7, priority=9),
        workload("first", queue="x", cpu=3, priority=5),
        workload("w", queue="z", cpu=2, priority=1),
    )
    cycle(on)
    assert waits(on) == {"w": RESERVATION}


def test_a_scan_that_settles_on_another_flavor_is_a_cause() -> None:
    """It would preempt on the first flavor, for which its gate must open; the second one is not tried."""
    on = state(
        queue("q", {"spot": 2, "default": 2}, within="LowerPriority", try_next_when_preempting=False),
        holder("h", usage={"spot": 2}),
        workload("w", cpu=2, priority=1, gated=True),
    )
    cycle(on)
    assert waits(on) == {"w": FLAVOR_SCAN}


def test_what_a_scan_left_out_counts_as_its_cause_for_all_who_are_alike() -> None:
    on = state(queue("q", 2), workload("v"), workload("w"), workload("x", cpu=2))
    found = entitled_waiting(on, seconds(0), {WorkloadKey("default/v"): LastEvaluation(seconds(0), resumed=True)})
    assert [each.cause for each in found] == [FLAVOR_SCAN, FLAVOR_SCAN, "other:it fits and is not looked at"]


def test_whoever_a_rule_of_stability_bars_is_named() -> None:
    """Ten rounds are the limit, so an eleventh is refused to an entitled workload."""
    on = borrowed()
    for _ in range(10):
        on.rounds.add(workload("w"), "free", Millis(0))
    cycle(on)
    assert waits(on) == {"w": "other:barred by an epoch"}


def test_looking_for_them_leaves_no_mark() -> None:
    on = borrowed()
    before = on.fingerprint()
    entitled_waiting(on, seconds(100), {})
    assert on.fingerprint() == before
