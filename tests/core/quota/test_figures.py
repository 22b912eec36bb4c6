"""What the status and the metrics of a queue show: counts, usage and demand."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from makeway.core.model import Millis, QueueName, Uid
from makeway.core.quota.figures import (
    PendingCounts,
    UsageFigure,
    equivalence_classes,
    figures_by_local_queue,
    figures_of,
    pending_requests,
    subtree_counts,
    subtree_reservations,
    waiting_in,
)
from makeway.core.quota.tree import QuotaNode, QuotaTree
from makeway.core.undo import UndoLog
from makeway.testing.builders import FR_CPU, cohort, cycle, holder, queue, state, workload

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
    assert found.reservation == {FR_CPU: UsageFigure(3000, 1000)}
    assert found.usage == {FR_CPU: UsageFigure(2000, 0)}


@pytest.mark.parametrize(("cohort", "borrowed"), [("r", 5000), ("", 0)])
def test_P19_what_is_declared_no_longer_comes_last_and_is_all_over_use(cohort: str, borrowed: int) -> None:
    old: Any = {"zebra": 1, "old": 5}
    on = state(queue("q", 2, cohort=cohort), holder("a"), holder("b", usage=old))
    found = figures_of(on, Q)
    assert list(found.reservation) == [FR_CPU, ("old", "cpu"), ("zebra", "cpu")]
    assert found.reservation["old", "cpu"] == UsageFigure(5000, borrowed)  # type: ignore[index]
    assert found.usage == {FR_CPU: UsageFigure(0, 0)}


def test_without_a_cohort_nothing_is_borrowed_and_a_family_counts_once() -> None:
    on = state(queue("q", 1), holder("a", family=Uid("f")), holder("b", family=Uid("f")))
    found = figures_of(on, Q)
    assert (found.reserving, found.reservation[FR_CPU]) == (1, UsageFigure(2000, 0))


# --- pending ---------------------------------------------------------------------------------------------------------

LATER = Millis(10**6)


@pytest.mark.parametrize("is_active", [True, False])
def test_members_of_a_class_may_be_active_or_parked_or_both(is_active: bool) -> None:
    on = state(
        queue("q", 4, active=is_active),
        workload("a"), workload("b"), workload("apart", requeue_at=LATER), workload("large", cpu=5),
        workload("later", cpu=3, requeue_at=LATER),
    )  # fmt: skip
    assert waiting_in(on, Q) == (PendingCounts(3, 2) if is_active else PendingCounts(0, 5))
    assert equivalence_classes(on, Q) == (PendingCounts(2, 2) if is_active else PendingCounts(0, 3))
    local = figures_by_local_queue(on, Q)["default", ""]
    assert local.waiting == waiting_in(on, Q)


def test_a_class_that_is_refused_is_parked_as_a_whole() -> None:
    on = state(queue("q", 4), *(workload(f"large-{i}", cpu=5) for i in range(3)), workload("odd", cpu=6))
    for _ in range(4):
        cycle(on)
    assert (waiting_in(on, Q), equivalence_classes(on, Q)) == (PendingCounts(0, 4), PendingCounts(0, 2))
    assert pending_requests(on, Q) == {"cpu": 21_000}


def test_what_is_asked_for_is_the_same_wherever_a_workload_waits() -> None:
    parts = (
        workload("a", cpu=2, count=3), workload("b", cpu=2, count=3), workload("c", requests={"gpu": 1}),
        workload("later", requeue_at=LATER),
    )  # fmt: skip
    for more in ((), (holder("x", family=Uid("x")), workload("y", family=Uid("x"), cpu=9))):
        on = state(queue("q", {"spot": 1}), *parts, *more)
        assert pending_requests(on, Q) == {"cpu": 13_000, "gpu": 1}
    assert pending_requests(on, QueueName("nowhere")) == {}


# --- subtrees --------------------------------------------------------------------------------------------------------


def test_reservations_of_a_subtree_are_more_than_what_its_cohorts_are_charged() -> None:
    on = state(
        cohort("r", parent="top"), queue("q", 4, cohort="r", lending=2), queue("p", 4, cohort="r", lending=2),
        queue("alone", 1), holder("a", cpu=3), holder("b", cpu=3, queue="p"), holder("c", queue="alone"),
    )  # fmt: skip
    assert subtree_reservations(on.tree) == {"r": {FR_CPU: 6000}, "top": {FR_CPU: 6000}}
    assert on.tree.cohorts["top"].usage == {FR_CPU: 2000}
    counts = {Q: 2, QueueName("p"): 3, QueueName("alone"): 9}
    assert subtree_counts(on.tree, counts) == {"r": 5, "top": 5}


def test_a_chain_of_any_depth_is_summed_up() -> None:
    tree = QuotaTree(UndoLog())
    chain = [QuotaNode(f"c{i}", is_queue=False) for i in range(3000)] + [QuotaNode("q", is_queue=True)]
    for above, below in itertools.pairwise(chain):
        below.parent = above
        above.children.append(below)
    chain[-1].usage = {FR_CPU: 7}
    tree.queues, tree.cohorts = {"q": chain[-1]}, {each.name: each for each in chain[:-1]}
    assert subtree_counts(tree, {Q: 4})["c0"] == 4
    assert subtree_reservations(tree)["c0"] == {FR_CPU: 7}
