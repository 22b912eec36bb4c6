"""The order of waiting workloads, parked or not, in the queue and in one LocalQueue."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.model import Millis, QueueName, Workload
from makeway.core.policy import Policy
from makeway.core.queueing.positions import positions
from makeway.core.queueing.waiting_list import WaitingList, place, shape
from makeway.core.state import State
from makeway.testing.builders import workload

Q = QueueName("q")


def state_of(*members: Workload) -> tuple[State, WaitingList]:
    state = State(Policy.default())
    line = state.pending.list_of(Q)
    for each in members:
        line.enter(each)
    return state, line


def names(state: State) -> list[str]:
    return [each.workload.key.partition("/")[2] for each in positions(state, Q)]


def test_those_of_higher_priority_come_first_then_those_who_came_first() -> None:
    state, _ = state_of(
        workload("late", queued=3), workload("urgent", queued=9, priority=5), workload("early", queued=1)
    )
    assert names(state) == ["urgent", "early", "late"]


def test_who_is_parked_keeps_its_place() -> None:
    a, b, c = workload("a", queued=1), workload("b", queued=2, cpu=7), workload("c", queued=3)
    state, line = state_of(a, b)
    line.park((shape(a), a.namespace))
    line.park_singly(c)
    assert names(state) == ["a", "b", "c"]


def test_one_who_comes_first_is_first_while_it_is_in_the_line() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2, cpu=7)
    state, line = state_of(a, b)
    line.stick(b.key)
    assert names(state) == ["b", "a"]
    line.park((shape(b), b.namespace))
    assert names(state) == ["a", "b"]


def test_positions_count_from_zero_in_the_queue_and_in_each_local_queue() -> None:
    state, _ = state_of(*(
        workload(name, queued=i).but(local_queue=local)
        for i, (name, local) in enumerate([("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")])
    ))  # fmt: skip
    found = [(each.workload.local_queue, each.in_queue, each.in_local_queue) for each in positions(state, Q)]
    assert found == [("x", 0, 0), ("y", 1, 0), ("x", 2, 1), ("y", 3, 1)]


def test_nobody_waits_in_a_queue_that_nobody_knows() -> None:
    assert list(positions(State(Policy.default()), QueueName("unknown"))) == []


def test_to_ask_for_the_first_few_touches_nothing_of_the_rest() -> None:
    state, _ = state_of(*(workload(f"w{i}", queued=i) for i in range(50)))
    before = state.pending.contents()
    assert [each.in_queue for each in islice(positions(state, Q), 3)] == [0, 1, 2]
    assert state.pending.contents() == before


@pytest.mark.property
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(1, 3), st.booleans()), max_size=12),
    st.integers(0, 11),
)
def test_everybody_has_one_position_and_the_order_is_that_of_the_queue(
    drawn: list[tuple[int, int, int, bool]], stuck: int
) -> None:
    members = [
        workload(f"w{i}", priority=priority, queued=Millis(queued), cpu=cpu)
        for i, (priority, queued, cpu, _) in enumerate(drawn)
    ]
    state, line = state_of(*members)
    for each, (*_, rests) in zip(members, drawn, strict=True):
        if rests:
            line.park((shape(each), each.namespace))
    expected = [each.key for each in sorted(members, key=place)]
    if stuck < len(members) and not line.is_parked(members[stuck].key):
        line.stick(members[stuck].key)
        expected = [members[stuck].key, *(key for key in expected if key != members[stuck].key)]
    assert [each.workload.key for each in positions(state, Q)] == expected
    assert [each.in_queue for each in positions(state, Q)] == list(range(len(members)))
