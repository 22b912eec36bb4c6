"""Quota lowered below usage: which workloads leave, in which order, and when none does (S-10.14, P27)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import Cohort, CohortSpec
from makeway.controllers.contract import CLUSTER_QUEUE, COHORT, NOTHING, WORKLOAD, Ref
from makeway.controllers.workloads.eviction import condition, says
from makeway.controllers.workloads.over_quota import OverQuota, in_excess
from makeway.core.model import QueueName
from makeway.core.policy import Policy
from makeway.testing.builders import FR_CPU, cohort, holder, queue, state
from tests.controllers.views import FakeView, at, cluster_queue, flavor, local_queue, workload

EVICT = Policy(over_quota="Evict")
CQ = Ref(CLUSTER_QUEUE, "", "cq")


def leaving(*parts: Any, of: str = "q") -> list[str]:
    it = state(*parts)
    before = it.fingerprint()
    found: list[str] = [each.uid for each in in_excess(it, QueueName(of))]
    assert it.fingerprint() == before
    return found


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ((queue("q", 4), holder("a", cpu=4)), []),
        ((queue("q", 3), holder("a", cpu=2, reserved=1), holder("b", cpu=2, reserved=2)), ["b"]),
        ((queue("q", 3), holder("a", cpu=2, reserved=1), holder("b", cpu=2, reserved=2, priority=5)), ["a"]),
        ((queue("q", 0), holder("a", cpu=2, reserved=1), holder("b", cpu=2, reserved=2)), ["b", "a"]),
        ((queue("q", 3), holder("a", cpu=2), holder("b", cpu=2, evicted=True)), []),
        ((queue("q", 1), holder("a", cpu=2), holder("b", cpu=2, evicted=True)), ["a"]),
        ((queue("q", 0, cohort="c"), queue("p", 1, cohort="c"), holder("a"), holder("b", queue="p", evicted=True)), []),
        ((queue("q", 0, active=False), holder("a", cpu=2)), []),
    ],
    ids=[
        "it fits", "the newest goes", "priority comes first", "nothing is left", "who leaves is enough",
        "who leaves is not enough", "who leaves from its own quota is enough", "an inactive queue loses nobody",
    ],
)  # fmt: skip
def test_s10_14_as_many_leave_as_are_needed(parts: Any, wanted: list[str]) -> None:
    assert leaving(*parts) == wanted


def test_s10_14_what_the_cohort_covers_is_ordinary_borrowing() -> None:
    parts = (queue("q", 1, cohort="c"), queue("p", 3, cohort="c"), holder("a", cpu=4))
    assert leaving(*parts) == []
    assert leaving(queue("q", 1, cohort="c"), queue("p", 2, cohort="c"), holder("a", cpu=4)) == ["a"]


def test_s10_14_others_above_their_quota_go_first_and_those_within_it_stay() -> None:
    parts = (
        queue("q", 1, cohort="c"), queue("p", 1, cohort="c"), queue("r", 2, cohort="c"),
        holder("own", cpu=2), holder("other", queue="p", cpu=2), holder("entitled", queue="r", cpu=2),
    )  # fmt: skip
    assert leaving(*parts) == ["other"]


def test_s10_14_a_queue_that_is_back_at_its_quota_loses_no_more() -> None:
    parts = (
        queue("q", 1, cohort="c"), queue("p", 1, cohort="c"),
        holder("own", cpu=3, reserved=9), holder("p1", queue="p", reserved=1), holder("p2", queue="p", reserved=2),
    )  # fmt: skip
    assert leaving(*parts) == ["p2", "own"]


def test_s10_14_whose_leaving_does_not_help_stays() -> None:
    """Above its borrowing limit the queue itself is the obstacle, whatever the others give back."""
    parts = (
        queue("q", 1, cohort="c", borrowing=0), queue("p", 1, cohort="c"), queue("r", 9, cohort="c"),
        holder("own", cpu=2), holder("other", queue="p", cpu=2),
    )  # fmt: skip
    assert leaving(*parts) == ["own"]


def test_a_lender_that_uses_nothing_still_asks_for_its_share() -> None:
    assert leaving(queue("q", 1, cohort="c"), queue("p", 1, cohort="c"), holder("a", queue="p", cpu=3)) == ["a"]


def view(policy: Policy) -> FakeView:
    return FakeView.of(
        flavor(), cluster_queue(cpu="1"), local_queue(), workload("a", admitted=-9), workload("b", admitted=-5),
        policy=policy,
    )  # fmt: skip


def test_p27_keep_lets_them_run_and_evict_does_not() -> None:
    assert OverQuota().react(CQ, view(Policy()), at(0)) == NOTHING
    lowered = view(EVICT)
    lowered.settle(OverQuota(), CQ, now=at(0.5))
    a, b = (lowered.workload(Ref(WORKLOAD, "default", name)) for name in "ab")
    assert (says(a, "Evicted"), says(b, "Evicted")) == (False, True)
    assert condition(b, "Evicted").reason == "OverQuota"  # type: ignore[union-attr]
    assert [note.reason for note in lowered.notes] == ["EvictedDueToOverQuota"]


def test_a_cohort_has_all_queues_of_its_tree_looked_at() -> None:
    tree = FakeView.of(
        flavor(), cluster_queue("x", cohortName="low"), cluster_queue("y", cohortName="top"), cluster_queue("z"),
        _cohort("low", "top"), _cohort("top"), policy=EVICT,
    )  # fmt: skip
    asked = OverQuota().react(Ref(COHORT, "", "low"), tree, at(0))
    assert asked.enqueue == (Ref(CLUSTER_QUEUE, "", "x"), Ref(CLUSTER_QUEUE, "", "y"))
    assert OverQuota().react(Ref(COHORT, "", "none"), tree, at(0)) == NOTHING


def _cohort(name: str, parent: str = "") -> Cohort:
    return Cohort(metadata=ObjectMeta(name=name), spec=CohortSpec(parent_name=parent))


names = st.sampled_from(["q", "p", "r"])


@pytest.mark.property
@given(
    st.lists(st.tuples(names, st.integers(1, 4), st.integers(0, 2), st.booleans()), max_size=8),
    st.tuples(*[st.integers(0, 6)] * 3),
    st.booleans(),
)
def test_afterwards_nothing_is_short_or_nobody_is_left_to_leave(
    held: list[tuple[str, int, int, bool]], nominal: tuple[int, ...], deep: bool
) -> None:
    it = state(
        cohort("top"), cohort("c", parent="top" if deep else ""),
        *(queue(name, quota, cohort="c") for name, quota in zip("qpr", nominal, strict=True)),
        *(
            holder(f"w{i}", queue=name, cpu=cpu, priority=priority, reserved=i, evicted=evicted)
            for i, (name, cpu, priority, evicted) in enumerate(held)
        ),
    )  # fmt: skip
    chosen = in_excess(it, QueueName("q"))
    gone = [*chosen, *(each for members in it.holders.of_queue.values() for each in members.values() if each.evicted)]
    short = it.tree.available(it.tree.queues["q"], FR_CPU) < 0
    assert not chosen or short
    with it.trial():
        for each in gone:
            it.release(each)
        assert it.tree.available(it.tree.queues["q"], FR_CPU) >= 0
        if chosen:  # the last of them was needed
            it.hold(chosen[-1])
            assert it.tree.available(it.tree.queues["q"], FR_CPU) < 0
