"""Shares are exact, totally ordered, and those of S-9.2 and 9.3."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.amounts import MOST, UNLIMITED
from makeway.core.model import FR
from makeway.core.quota.shares import NO_SHARE, Share, borrows_of, is_borrowing, seen_at, share
from makeway.core.quota.tree import WEIGHT_ONE, QuotaNode, QuotaSpec, QuotaTree
from makeway.core.undo import UndoLog
from makeway.testing.builders import FLAVOR, FR_CPU, Part, cohort, holder, queue, state


def share_in(name: str, *parts: Part) -> Share:
    on = state(*parts)
    return share(on.tree, on.tree.queues.get(name) or on.tree.cohorts[name])


def test_S_9_3_what_is_above_nominal_against_all_that_could_be_lent() -> None:
    found = share_in(
        "q", queue("q", 4, cohort="r", weight=2), queue("other", 10, cohort="r"), cohort("r", 6),
        holder("a", queue="q", cpu=10),
    )  # fmt: skip
    assert (found.above, found.lendable, found.resource) == (6000, 20000, "cpu")
    assert (found.status, str(found)) == (150, "150")


@pytest.mark.parametrize(
    ("weight", "used", "status", "shown"),
    [
        (1, 4, 0, "0"),
        (1, 5, 100, "100"),
        (3, 5, 34, "33.3"),
        (0.3, 5, 334, "333.3"),
        (7, 6, 29, "28.6"),
        (0, 4, 0, "0"),
        (0, 5, MOST, "infinite"),
        (0.000000002, 5, 50_000_000_000, "50000000000"),
    ],
)
def test_P20_weights_of_all_sizes(weight: float, used: int, status: int, shown: str) -> None:
    found = share_in(
        "q", queue("q", 4, cohort="r", weight=weight), cohort("r", 6), holder("a", queue="q", cpu=used)
    )  # fmt: skip
    assert (found.status, str(found)) == (status, shown)


def test_P20_a_share_beyond_64_bits_is_shown_as_the_most_there_is() -> None:
    assert Share(MOST, 1, 2).status == MOST
    assert not Share(MOST, 1, 2).is_infinite


def test_who_is_part_of_no_cohort_has_no_share() -> None:
    alone = state(queue("q", 1), holder("a", queue="q", cpu=9))
    assert share(alone.tree, alone.tree.queues["q"]) == NO_SHARE
    root = state(queue("q", 1, cohort="r"), holder("a", queue="q", cpu=9))
    assert share(root.tree, root.tree.cohorts["r"]) == NO_SHARE


def test_S_9_2_where_nothing_can_be_lent_one_borrows_with_share_0() -> None:
    on = state(queue("q", 0, cohort="r"), holder("a", queue="q", cpu=1))
    node = on.tree.queues["q"]
    assert (share(on.tree, node), is_borrowing(on.tree, node)) == (NO_SHARE, True)


def test_the_dominant_resource_is_the_one_with_the_largest_ratio_and_of_equals_the_first_by_name() -> None:
    quota: Any = {FLAVOR: {"gpu": 0, "cpu": 0}}
    lender: Any = {FLAVOR: {"gpu": 4, "cpu": 8}}
    for gpus, cpus, dominant, status in ((1, 1, "gpu", 250), (1, 2, "cpu", 250), (0, 4, "cpu", 500)):
        use: Any = {FLAVOR: {"gpu": gpus, "cpu": cpus}}
        found = share_in(
            "q", queue("q", quota, cohort="r"), queue("l", lender, cohort="r"), holder("a", queue="q", usage=use)
        )  # fmt: skip
        assert (found.resource, found.status) == (dominant, status)


def test_flavors_of_a_resource_add_up_and_those_of_the_whole_tree_can_be_lent() -> None:
    """One above in each of two flavors; a third, which only the neighbour has, can be lent all the same."""
    found = share_in(
        "q", queue("q", {"a": 1, "b": 1}, cohort="r"), queue("other", {"a": 2, "c": 6}, cohort="r"),
        holder("x", queue="q", usage={"a": 2, "b": 2, "c": 5}),
    )  # fmt: skip
    assert (found.above, found.lendable) == (2000, 10000), "of c it has no quota, so that does not count"


def test_lending_and_borrowing_limits_of_the_cohort_bound_what_can_be_lent() -> None:
    """S-2.11: of 20 above it the inner cohort may borrow 3, and own 4."""
    parts = (
        cohort("top", 20), cohort("inner", 4, parent="top", borrowing=3), queue("q", 0, cohort="inner"),
        holder("a", queue="q", cpu=1),
    )  # fmt: skip
    assert share_in("q", *parts).lendable == 7000


def test_a_flavor_that_only_another_branch_of_the_tree_knows_can_be_lent_too() -> None:
    found = share_in(
        "q", cohort("inner", parent="top"), queue("q", {"a": 1}, cohort="inner"), queue("far", {"b": 6}, cohort="top"),
        holder("x", queue="q", usage={"a": 2}),
    )  # fmt: skip
    assert (found.above, found.lendable) == (1000, 7000)


def test_P21_without_limit_there_is_always_more() -> None:
    tree = QuotaTree(UndoLog())
    tree.configure(
        [QuotaSpec(name="q", parent="r", nominal={FR_CPU: 0})], [QuotaSpec(name="r", nominal={FR_CPU: UNLIMITED})]
    )
    tree.charge(tree.queues["q"], FR_CPU, 10**15)
    found = share(tree, tree.queues["q"])
    assert (found.status, found > NO_SHARE) == (1, True)


# --- an order ---------------------------------------------------------------------------------------------------------

ANY_SHARE = st.builds(
    Share, st.integers(0, 50), st.integers(1, 50), st.sampled_from([0, 1, 2, WEIGHT_ONE, 3 * WEIGHT_ONE])
)


def value(each: Share) -> tuple[bool, Fraction]:
    if each.is_infinite:
        return True, Fraction(each.above, each.lendable)
    return False, Fraction(*each.fraction())


@given(a=ANY_SHARE, b=ANY_SHARE)
def test_shares_compare_like_the_fractions_they_are(a: Share, b: Share) -> None:
    assert (a < b) == (value(a) < value(b))
    assert (a <= b) == (value(a) <= value(b))
    assert (a == b) == (value(a) == value(b))
    if a == b:
        assert hash(a) == hash(b)


def test_who_has_taken_nothing_has_share_0_with_any_weight() -> None:
    assert Share(0, 5, 0) == NO_SHARE
    assert Share(0, 5, 0) < Share(1, 10**9)


def test_a_share_equals_no_number() -> None:
    assert NO_SHARE != 0
    assert repr(Share(1, 2)) == "Share(500)"


# --- what reaches whom ------------------------------------------------------------------------------------------------


@st.composite
def trees(draw: st.DrawFn) -> tuple[QuotaTree, QuotaNode]:
    """A queue below up to three cohorts, all with quota, lending limits and weights here and there, and some usage."""
    tree = QuotaTree(UndoLog())
    small = st.integers(0, 8)

    def spec(name: str, parent: str) -> QuotaSpec:
        lending = {FR_CPU: draw(small)} if parent and draw(st.booleans()) else {}
        weight = draw(st.sampled_from([0, WEIGHT_ONE, 2 * WEIGHT_ONE]))
        return QuotaSpec(name=name, parent=parent, nominal={FR_CPU: draw(small)}, lending=lending, weight=weight)

    depth = draw(st.integers(1, 3))
    cohorts = [spec(f"c{i}", f"c{i + 1}" if i + 1 < depth else "") for i in range(depth)]
    tree.configure([spec("q", "c0"), spec("other", f"c{depth - 1}")], cohorts)
    for name in ("q", "other"):
        tree.charge(tree.queues[name], FR_CPU, draw(st.integers(0, 20)))
    return tree, tree.queues["q"]


@given(made=trees(), more=st.integers(0, 12))
def test_what_a_queue_would_use_is_seen_above_as_if_it_were_charged(
    made: tuple[QuotaTree, QuotaNode], more: int
) -> None:
    tree, node = made
    usage: dict[FR, int] = {FR_CPU: more}
    foreseen = [
        (share(tree, each, seen := seen_at(tree, each, node, usage)), borrows_of(each, usage, seen),
         is_borrowing(tree, each, seen))
        for each in (node, *node.ancestors())
    ]  # fmt: skip
    tree.charge_all(node, usage)
    then = [
        (share(tree, each), borrows_of(each, usage), is_borrowing(tree, each)) for each in (node, *node.ancestors())
    ]
    assert foreseen == then


@given(made=trees(), more=st.integers(1, 12))
def test_more_usage_never_makes_a_share_smaller(made: tuple[QuotaTree, QuotaNode], more: int) -> None:
    """Revalidation and the search rely on this."""
    tree, node = made
    path = (node, *node.ancestors())
    before = [share(tree, each) for each in path]
    tree.charge(node, FR_CPU, more)
    assert all(old <= share(tree, each) for old, each in zip(before, path, strict=True))
