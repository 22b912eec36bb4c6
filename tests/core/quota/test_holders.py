"""The index of holders: sorted runs, sums, and how little of them a reader reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.amounts import MOST
from makeway.core.model import FR, FlavorName, InvariantError, QueueName, Workload
from makeway.core.quota.holders import Holders
from makeway.core.undo import UndoLog
from makeway.testing.builders import CPU, FR_CPU, holder, seconds

Q, OTHER = QueueName("q"), QueueName("other")
SPOT: FR = (FlavorName("spot"), CPU)


def index(*holding: Workload) -> Holders:
    made = Holders(UndoLog())
    for each in holding:
        made.add(each)
    return made


def uids(found: Iterator[Workload]) -> list[str]:
    return [each.uid for each in found]


def test_the_lowest_priority_comes_first_then_the_latest_then_the_uid() -> None:
    made = index(
        holder("old", reserved=1),
        holder("b", reserved=5),
        holder("a", reserved=5),
        holder("assumed", reserved=None),
        holder("low", priority=-1, reserved=3),
        holder("high", priority=2, reserved=3),
    )
    assert uids(made.upto((Q,), (FR_CPU,), 1, evicted=False)) == ["low", "assumed", "a", "b", "old"]


def test_those_who_leave_are_kept_apart() -> None:
    made = index(holder("stays"), holder("leaves", evicted=True))
    assert uids(made.upto((Q,), (FR_CPU,), 9, evicted=True)) == ["leaves"]
    assert uids(made.upto((Q,), (FR_CPU,), 9, evicted=False)) == ["stays"]


@pytest.mark.parametrize(
    "change",
    [{}, {"evicted": True}, {"reserved_at": seconds(9)}, {"priority": 3}, {"local_queue": "lq"}, {"admitted": True}],
)
def test_who_is_known_anew_is_where_it_would_be_had_it_come_so(change: dict[str, Any]) -> None:
    before, others = holder("w", reserved=2), [holder("a", reserved=1), holder("c", reserved=3)]
    after = before.but(**change)
    made, log = index(before, *others), UndoLog()
    made.renew(before, after)
    assert made.contents() == index(after, *others).contents()
    assert made.find(Q, before.key) is after is made.by_key[before.key]
    assert {name: sorted(each) for name, each in made.of_local.items() if each} == {
        name: sorted(each) for name, each in index(*others, after).of_local.items() if each
    }
    tried = Holders(log)
    tried.add(before)
    with log.trial():
        tried.renew(before, after)
    assert tried.find(Q, before.key) is before


def test_who_uses_two_of_the_flavors_comes_once() -> None:
    made = index(
        holder("both", reserved=2, usage={"default": 1, "spot": 1}),
        holder("one", reserved=1, usage={"spot": 1}),
        holder("three", reserved=3, usage={"default": 1}),
    )
    assert uids(made.upto((Q,), (FR_CPU, SPOT), 9, evicted=False)) == ["three", "both", "one"]


def test_several_queues_are_one_stream() -> None:
    made = index(holder("a", reserved=1), holder("b", queue="other", reserved=2), holder("c", reserved=3))
    assert uids(made.upto((Q, OTHER), (FR_CPU,), 9, evicted=False)) == ["c", "b", "a"]


def test_the_longest_of_the_expired_comes_first() -> None:
    made = index(holder("b", reserved=4), holder("a", reserved=4), holder("c", reserved=1), holder("edge", reserved=5))
    expired = made.expired(Q, (FR_CPU,), 0, seconds(5), evicted=False)
    assert uids(expired) == ["c", "a", "b"]
    assert uids(made.expired(Q, (SPOT,), 0, seconds(5), evicted=False)) == []
    assert uids(made.expired(Q, (FR_CPU,), 1, seconds(5), evicted=False)) == []


def after(queued: float) -> range:
    """All workloads that queued later."""
    return range(seconds(queued) + 1, MOST + 1)


def newer(made: Holders, queued: float, since: float = -1) -> Iterator[Workload]:
    return made.equals(Q, (FR_CPU,), 0, after(queued), seconds(since), evicted=False)


def test_only_those_queued_later_are_newer() -> None:
    made = index(
        holder("older", queued=1, reserved=9),
        holder("same second", queued=2, reserved=9),
        holder("newer", queued=3, reserved=4),
        holder("newest", queued=3, reserved=None),
        holder("had its time", queued=3, reserved=3),
    )
    assert uids(newer(made, queued=2, since=4)) == ["newest", "newer"]
    assert uids(made.equals(Q, (SPOT,), 0, after(2), seconds(4), evicted=False)) == []


@pytest.mark.parametrize("queued", [10, 500, 990])
def test_however_many_are_newer_the_first_ten_take_few_looks(queued: int) -> None:
    """Those at the front of the run are newer as a rule; where they are not, few are, and these are read instead."""
    made = index(*(holder(f"w{i:04}", queued=i, reserved=i) for i in range(1000)))
    found = uids(islice(newer(made, queued), 9))
    assert found == [f"w{999 - i:04}" for i in range(9)]
    assert made.looks <= 20


def test_protected_equals_are_hardly_looked_at() -> None:
    """All reserved late and were queued early, but three."""
    late = [holder(f"w{i:04}", queued=i, reserved=5000 + i) for i in range(1000)]
    made = index(*late, *(holder(f"n{i}", queued=2000, reserved=2000 + i) for i in range(3)))
    assert uids(newer(made, queued=1999)) == ["n2", "n1", "n0"]
    assert made.looks <= 10


def test_sums_say_what_could_be_freed() -> None:
    made = index(holder("a", cpu=2), holder("b", cpu=3, priority=1, evicted=True), holder("c", cpu=5, priority=2))
    assert [made.freed_at_most(Q, FR_CPU, below) for below in (0, 1, 2, 3)] == [0, 2000, 5000, 10000]
    assert made.freed_at_most(OTHER, FR_CPU, 9) == 0
    assert made.looks == 0


def test_the_next_reservation_after_a_time() -> None:
    made = index(holder("a", reserved=1), holder("b", reserved=3), holder("none", reserved=None))
    assert made.first_reserved_after(Q, seconds(0)) == seconds(1)
    assert made.first_reserved_after(Q, seconds(1)) == seconds(3)
    assert made.first_reserved_after(Q, seconds(3)) is None
    assert made.first_reserved_after(OTHER, seconds(0)) is None


def test_who_holds_quota_cannot_hold_it_twice() -> None:
    made = index(holder("a"))
    with pytest.raises(InvariantError, match="default/a holds quota already"):
        made.add(holder("a"))


def test_who_is_removed_is_in_no_run_and_no_sum() -> None:
    a, b = holder("a", priority=1, evicted=True, usage={"spot": 1, "default": 2}), holder("b")
    made = index(a, b)
    made.remove(a)
    assert made.contents() == index(b).contents()
    assert made.find(Q, a.key) is None
    assert made.find(Q, b.key) is b
    assert made.find(OTHER, a.key) is None


def test_an_index_that_lost_somebody_is_found_out() -> None:
    made = index(holder("a", reserved=1))
    next(iter(made._runs.values())).newest.clear()
    with pytest.raises(InvariantError, match="is not in the index"):
        made.remove(holder("a", reserved=1))


times = st.none() | st.integers(0, 4)
crowd = st.lists(st.tuples(st.integers(-1, 1), times, st.integers(0, 4), st.booleans()), max_size=14)
Crowd = list[tuple[int, int | None, int, bool]]


@pytest.mark.property
@given(holding=crowd, queued=st.integers(0, 4), since=st.integers(0, 4))
def test_reading_runs_equals_filtering_and_sorting_everybody(holding: Crowd, queued: int, since: int) -> None:
    everybody = [
        holder(f"w{i}", priority=priority, reserved=reserved, queued=at, evicted=evicted)
        for i, (priority, reserved, at, evicted) in enumerate(holding)
    ]
    made = index(*everybody)
    end = seconds(99)
    for evicted in (True, False):
        those = [each for each in everybody if each.evicted is evicted]
        latest = sorted(those, key=lambda each: (each.priority, -each.held_since(end), each.uid))
        equals = [each for each in latest if each.priority == 0]
        kept = [e for e in equals if e.queued_at > seconds(queued) and e.held_since(end) >= seconds(since)]
        gone = sorted((e.held_since(end), e.uid) for e in equals if e.held_since(end) < seconds(since))
        assert uids(made.upto((Q,), (FR_CPU,), 1, evicted=evicted)) == [e.uid for e in latest if e.priority < 1]
        found = made.equals(Q, (FR_CPU,), 0, after(queued), seconds(since), evicted=evicted)
        assert uids(found) == [each.uid for each in kept]
        expired = made.expired(Q, (FR_CPU,), 0, seconds(since), evicted=evicted)
        assert uids(expired) == [uid for _, uid in gone]
