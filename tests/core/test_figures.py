"""What a queue's status shows: who holds how much of what."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.core.figures import Figure, figures_of
from makeway.core.model import QueueName, Uid
from makeway.testing.builders import FR_CPU, holder, queue, state

Q = QueueName("q")


def test_reservations_and_usage_are_told_apart_and_what_is_borrowed_too() -> None:
    on = state(
        queue("q", 2, cohort="r"),
        queue("y", 9, cohort="r"),
        holder("a", cpu=2, admitted=True),
        holder("b", cpu=1),
    )
    found = figures_of(on, Q)
    assert (found.reserving, found.admitted) == (2, 1)
    assert found.reservation == {FR_CPU: Figure(3000, 1000)}
    assert found.usage == {FR_CPU: Figure(2000, 0)}


@pytest.mark.parametrize(("cohort", "borrowed"), [("r", 5000), ("", 0)])
def test_P19_what_is_declared_no_longer_comes_last_and_is_all_over_use(cohort: str, borrowed: int) -> None:
    old: Any = {"zebra": 1, "old": 5}
    on = state(queue("q", 2, cohort=cohort), holder("a"), holder("b", usage=old))
    found = figures_of(on, Q)
    assert list(found.reservation) == [FR_CPU, ("old", "cpu"), ("zebra", "cpu")]
    assert found.reservation["old", "cpu"] == Figure(5000, borrowed)  # type: ignore[index]
    assert found.usage == {FR_CPU: Figure(0, 0)}


def test_without_a_cohort_nothing_is_borrowed_and_a_family_counts_once() -> None:
    on = state(queue("q", 1), holder("a", family=Uid("f")), holder("b", family=Uid("f")))
    found = figures_of(on, Q)
    assert (found.reserving, found.reservation[FR_CPU]) == (1, Figure(2000, 0))
