"""What a queue's status shows: who holds how much of what."""

from __future__ import annotations

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
        holder("elsewhere", usage={"other": 5}),
    )
    found = figures_of(on, Q)
    assert (found.reserving, found.admitted) == (3, 1)
    assert found.reservation == {FR_CPU: Figure(3000, 1000)}
    assert found.usage == {FR_CPU: Figure(2000, 0)}


def test_without_a_cohort_nothing_is_borrowed_and_a_family_counts_once() -> None:
    on = state(queue("q", 1), holder("a", family=Uid("f")), holder("b", family=Uid("f")))
    found = figures_of(on, Q)
    assert (found.reserving, found.reservation[FR_CPU]) == (1, Figure(2000, 0))
