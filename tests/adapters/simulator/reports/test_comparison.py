"""Two runs side by side: every measure has a direction, and the verdict follows it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.simulator.lives import Life
from makeway.adapters.simulator.reports.comparison import (
    DIRECTIONS,
    Comparison,
    Difference,
    Direction,
    MeasureScope,
    Value,
    Verdict,
    compare,
    measures_of,
    verdict,
)
from makeway.adapters.simulator.reports.measures import Run, measure
from tests.adapters.simulator.reports.test_measures import CPU, life, run

OPPOSITE: dict[Verdict, Verdict] = {"better": "worse", "worse": "better", "same": "same", "differs": "differs"}


def compared(this: Run, against: Run) -> Comparison:
    return compare(measure(this), measure(against))


def one(comparison: Comparison, name: str, scope: MeasureScope | None = None) -> Difference:
    (found,) = [each for each in comparison.differences if (each.name, each.scope) == (name, scope or MeasureScope())]
    return found


@pytest.mark.parametrize(
    ("direction", "this", "against", "expected"),
    [
        ("less", 1, 2, "better"),
        ("less", 2, 1, "worse"),
        ("more", 1, 2, "worse"),
        ("more", Fraction(1, 2), Fraction(1, 3), "better"),
        ("more", Fraction(2, 6), Fraction(1, 3), "same"),
        ("neither", 1, 2, "differs"),
        ("neither", 2, 2, "same"),
        ("less", None, 2, "differs"),
        ("more", 0, None, "differs"),
        ("less", None, None, "same"),
    ],
)
def test_a_verdict_follows_the_direction(direction: Direction, this: Value, against: Value, expected: Verdict) -> None:
    assert verdict(direction, this, against) == expected


FAST = run(
    life("one", (10, 60), finished=60, ran=50, priority=5),
    life("two", (20, 50), finished=50, ran=30),
    life("three", (0, 90), finished=90, ran=90),
)
SLOW = run(
    life("one", (10, 60), finished=60, ran=50, priority=5),
    life("two", (40, 60), (70, 95), finished=95, ran=45, lost=15, evictions=[(60, "one", "InClusterQueue")]),
    life("three", created=0),
)


def test_less_waiting_and_fewer_evictions_are_better_for_the_run_in_question() -> None:
    comparison = compared(FAST, SLOW)
    found = {each.name: each.verdict for each in comparison.differences if each.scope == MeasureScope()}
    assert found == {
        "admitted": "better", "finished": "better", "evictions": "better", "lost": "better", "waiting mean": "better",
        "waiting p50": "better", "waiting p95": "better", "waiting p99": "better", "virtual time": "same",
        "cycles": "same", "decisions": "same", "writes": "same", "cpu time": "same",
    }  # fmt: skip
    mean = one(comparison, "waiting mean")  # 10, 20 and 0 against 10, 40 + 10 and all the time
    assert (mean.this, mean.against, mean.change) == (10, Fraction(160, 3), Fraction(-130, 3))
    assert one(comparison, "utilisation", MeasureScope(queue="a", of=CPU)).verdict == "better"
    assert one(comparison, "waiting p99", MeasureScope(priority=5)).verdict == "same"
    jain, spread = (
        one(comparison, f"fairness {name}", MeasureScope(queue="a", priority=0)) for name in ("jain", "spread")
    )
    assert (jain.this, jain.against, jain.verdict) == (Fraction(4, 5), Fraction(1, 2), "better")
    assert (spread.this, spread.against, spread.verdict) == (60, 45, "worse")
    assert (comparison.sooner, comparison.later, comparison.alike) == (2, 0, 1)


def test_fewer_writes_are_better_fewer_cycles_and_decisions_are_not() -> None:
    busy = replace(FAST, writes=9, cycles=9, decisions=9)
    found = {each.name: each.verdict for each in compared(FAST, busy).differences if each.verdict != "same"}
    assert found == {"writes": "better", "cycles": "differs", "decisions": "differs"}


def test_borrowing_is_neither_good_nor_bad() -> None:
    lives = (life("one", (0, 50), cpu=12),)
    comparison = compared(run(*lives, own={"a": 10, "b": 9}), run(*lives, own={"a": 8, "b": 9}))
    assert one(comparison, "borrowed", MeasureScope(queue="a", of=CPU)).verdict == "differs"
    assert one(comparison, "lent", MeasureScope(queue="b", of=CPU)).verdict == "differs"


def test_a_run_against_itself_is_the_same_in_everything() -> None:
    comparison = compared(SLOW, SLOW)
    assert {each.verdict for each in comparison.differences} == {"same"}
    assert len(comparison.differences) == len(list(measures_of(measure(SLOW))))
    assert (comparison.sooner, comparison.later, comparison.alike) == (0, 0, 3)


def test_every_measure_has_a_direction_and_every_direction_a_measure() -> None:
    assert {each.name for each in measures_of(measure(SLOW))} == set(DIRECTIONS)


def test_no_measure_is_told_twice() -> None:
    told = [(each.scope, each.name) for each in measures_of(measure(run(*SLOW.lives, own={"a": 1, "b": 2})))]
    assert len(told) == len(set(told))


@pytest.mark.parametrize(("seconds", "expected"), [(10.0, "same"), (9.1, "same"), (8.9, "better"), (11.2, "worse")])
def test_cpu_time_may_differ_by_a_tenth(seconds: float, expected: Verdict) -> None:
    comparison = compared(replace(FAST, cpu_seconds=seconds), replace(FAST, cpu_seconds=10.0))
    assert one(comparison, "cpu time").verdict == expected


def test_to_be_done_earlier_is_better_only_where_as_much_is_done() -> None:
    assert one(compared(run(*FAST.lives, until=95), FAST), "virtual time").verdict == "better"
    assert one(compared(run(*SLOW.lives, until=99), FAST), "virtual time").verdict == "differs"


def test_what_only_one_of_the_runs_has_is_named() -> None:
    comparison = compared(run(*FAST.lives, own={"a": 10, "new": 1}), run(*FAST.lives[:2], own={"a": 10, "old": 1}))
    assert comparison.only_this == ("queue new", "workload ns/three")
    assert comparison.only_against == ("queue old",)
    assert {each.scope.queue for each in comparison.differences} == {None, "a"}
    assert (comparison.sooner, comparison.later, comparison.alike) == (0, 0, 2)


def test_lives_of_one_name_are_compared_together() -> None:
    twice = run(life("one", (5, 10), gone=10), life("one", (20, 30), created=15, finished=30))
    comparison = compared(twice, run(life("one", (10, 30), finished=30)))
    assert (comparison.sooner, comparison.later, comparison.alike) == (0, 0, 1)


lives = st.builds(
    lambda name, began, length, priority, evicted: life(
        name, (began, began + length), priority=priority, ran=length, finished=began + length,
        evictions=[(began, "x", "InClusterQueue")] * evicted,
    ),
    st.sampled_from(["one", "two", "three"]), st.integers(0, 50), st.integers(1, 49), st.integers(0, 1),
    st.integers(0, 2),
)  # fmt: skip
runs = st.lists(lives, max_size=4, unique_by=lambda each: each.workload)


@pytest.mark.property
@given(these=runs, those=runs)
def test_what_is_better_for_one_is_worse_for_the_other(these: list[Life], those: list[Life]) -> None:
    there, back = compared(run(*these), run(*those)), compared(run(*those), run(*these))
    verdicts = {(each.scope, each.name): each.verdict for each in back.differences}
    assert {(each.scope, each.name): OPPOSITE[each.verdict] for each in there.differences} == verdicts
    assert (there.sooner, there.only_this) == (back.later, back.only_against)
