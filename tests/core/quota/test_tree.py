"""The quota tree: local quota, lending, borrowing, levels (S-2)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.amounts import LEAST, MOST, UNLIMITED
from makeway.core.model import FR, InvariantError, ResourceName
from makeway.core.quota.tree import QuotaNode, QuotaSpec, QuotaTree
from makeway.core.undo import UndoLog
from makeway.testing.builders import FR_CPU, cohort, queue

Specs = list[QuotaSpec]


def tree(queues: Specs, cohorts: Specs = [], **usage: int) -> QuotaTree:  # noqa: B006 - never changed
    """Amounts and usage in cores."""
    made = QuotaTree(UndoLog())
    made.configure(queues, cohorts)
    for name, cores in usage.items():
        made.charge(made.queues[name], FR_CPU, cores * 1000)
    return made


def leaf(name: str, nominal: int, parent: str = "r", **limits: int) -> QuotaSpec:
    return queue(name, nominal, cohort=parent, **limits)[1]


def cores(amount: int) -> float:
    return amount / 1000


def used(node: QuotaNode) -> float:
    return cores(node.usage.get(FR_CPU, 0))


def free(on: QuotaTree, name: str) -> float:
    return cores(on.available(on.queues[name], FR_CPU))


def test_S_2_17_a_tree_with_limits() -> None:
    t = tree([leaf("a", 10, lending=4), leaf("b", 6, borrowing=3)], a=8, b=5)
    root = t.cohorts["r"]
    assert (cores(t.queues["a"].local[FR_CPU]), cores(root.subtree[FR_CPU]), used(root)) == (6, 10, 7)
    assert (cores(t.available(root, FR_CPU)), free(t, "a"), free(t, "b")) == (3, 3, 3)
    assert [cores(t.potential(t.queues[name], FR_CPU)) for name in "ab"] == [16, 9]
    t.release(t.queues["a"], FR_CPU, 5000)
    assert (used(t.queues["a"]), used(root), free(t, "a"), free(t, "b")) == (3, 5, 8, 4)


def test_S_2_7_and_2_8_what_stays_within_the_local_part_is_not_seen_above() -> None:
    t = tree([leaf("a", 10, lending=4), leaf("b", 6)], a=4, b=5)
    assert used(t.cohorts["r"]) == 5
    t.release(t.queues["a"], FR_CPU, 3000)
    assert (used(t.queues["a"]), used(t.cohorts["r"])) == (1, 5)


LEVELS = {
    "S-2.18 within its own quota": (2, (0, True)),
    "S-2.18 within its cohort's": (5, (1, True)),
    "S-2.18 beyond its cohort": (8, (2, False)),
    "S-2.18 more than there is": (20, (2, False)),
}


@pytest.mark.parametrize(("asked", "level"), LEVELS.values(), ids=LEVELS)
def test_levels(asked: int, level: tuple[int, bool]) -> None:
    t = tree(
        [leaf("a", 2, "l"), leaf("b", 4, "l"), leaf("c", 10, "m")], [cohort("l", parent="r"), cohort("m", parent="r")]
    )
    assert t.lowest_subtree(t.queues["a"], FR_CPU, asked * 1000) == level


def test_what_the_own_local_quota_covers_is_not_borrowed_from_above() -> None:
    queues = [leaf("a", 4, "l", lending=1), leaf("b", 2, "l"), leaf("c", 9, "m")]
    t = tree(queues, [cohort("l", parent="r"), cohort("m", parent="r")], b=1)
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 5000) == (1, True), "3 of its own, 2 of the 3 that the cohort has"
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 6000) == (2, False)


def test_what_is_used_of_the_local_quota_covers_nothing_more() -> None:
    queues = [leaf("a", 4, "l", lending=1), leaf("b", 2, "l"), leaf("c", 9, "m")]
    t = tree(queues, [cohort("l", parent="r"), cohort("m", parent="r")], a=2)
    assert t.local_available(t.queues["a"], FR_CPU) == 1000
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 4000) == (1, True), "1 of its own, 3 of the cohort's"
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 5000) == (2, False)


def test_S_2_13_within_nominal_means_on_each_of_them() -> None:
    gpu: FR = (FR_CPU[0], ResourceName("gpu"))
    t = tree([queue("a", {"default": {"cpu": 4, "gpu": 1}})[1]], a=4)
    t.charge(t.queues["a"], gpu, 2)
    assert t.within_nominal(t.queues["a"], (FR_CPU,))
    assert not t.within_nominal(t.queues["a"], (FR_CPU, gpu))
    assert not t.fits(t.queues["a"], {FR_CPU: 0, gpu: 1})


def test_a_cohorts_local_quota_counts_before_what_is_above_it() -> None:
    t = tree([leaf("a", 0, "l"), leaf("c", 2, "r")], [cohort("l", 4, parent="r", lending=1)])
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 4000) == (1, True)
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 6000) == (2, False), "it is the root's last core"
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 7000) == (2, False)


def test_what_a_cohort_keeps_for_itself_is_not_borrowed_from_further_up() -> None:
    cohorts = [cohort("l", 4, parent="m", lending=1), cohort("m", parent="r")]
    t = tree([leaf("a", 0, "l"), leaf("c", 2, "m"), leaf("d", 9, "r")], cohorts)
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 5000) == (2, True), "3 stay below, and m has 3 for the other 2"
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 7000) == (3, False)


def test_without_a_cohort_nobody_borrows_and_nobody_is_reclaimed_from() -> None:
    t = tree([leaf("a", 2, "")])
    assert t.lowest_subtree(t.queues["a"], FR_CPU, 5000) == (0, False)
    assert cores(t.potential(t.queues["a"], FR_CPU)) == 2


@dataclass(frozen=True)
class Case:
    name: str
    queues: Specs
    free: dict[str, float]
    cohorts: tuple[QuotaSpec, ...] = ()
    usage: tuple[tuple[str, int], ...] = ()


CASES = [
    Case("S-2.2 a cohort that is only named shares what its queues have", [leaf("a", 2), leaf("b", 3)], {"a": 5}),
    Case("S-2.19 a lending limit of 0 keeps quota private", [leaf("a", 2, lending=0), leaf("b", 3)], {"a": 5, "b": 3}),
    Case("S-2.19 who may not borrow may lend", [leaf("a", 2, borrowing=0), leaf("b", 3)], {"a": 2, "b": 5}),
    Case(
        "S-2.20 a cohort's borrowing limit binds all its queues together",
        [leaf("a", 1, "l"), leaf("b", 1, "l"), leaf("c", 20, "r")],
        {"a": 3, "b": 3, "c": 18},
        (cohort("l", parent="r", borrowing=5),),
        (("a", 4),),
    ),
    Case(
        "a cohort's lending limit keeps its quota inside",
        [leaf("a", 1, "l"), leaf("c", 2, "r")],
        {"a": 7, "c": 4},
        (cohort("l", 4, parent="r", lending=2),),
    ),
    Case(
        "S-2.10 what is used of the local part is not borrowed",
        [leaf("a", 10, lending=4, borrowing=1), leaf("b", 6)],
        {"a": 6, "b": 10},
        usage=(("a", 5),),
    ),
    Case("who lends all is left with nothing", [leaf("a", 2), leaf("b", 3)], {"a": 0, "b": 0}, usage=(("b", 5),)),
    Case(
        "S-2.10 more used than there is reads as below zero",
        [leaf("a", 2), leaf("b", 3)],
        {"a": -2, "b": -2},
        usage=(("b", 7),),
    ),
    Case(
        "a borrower's limit shrinks by what it borrows",
        [leaf("a", 2, borrowing=3), leaf("b", 9)],
        {"a": 1, "b": 7},
        usage=(("a", 4),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_available(case: Case) -> None:
    t = tree(case.queues, list(case.cohorts), **dict(case.usage))
    assert {name: free(t, name) for name in case.free} == case.free
    t.recount()


def test_below_zero_reads_as_nothing_so_what_asks_for_nothing_fits() -> None:
    t = tree([leaf("a", 2)], a=3)
    assert t.fits(t.queues["a"], {FR_CPU: 0})
    assert not t.fits(t.queues["a"], {FR_CPU: 1})


def test_unlimited_quota_stays_unlimited_up_the_tree() -> None:
    t = tree([QuotaSpec(name="a", parent="r", nominal={FR_CPU: UNLIMITED}), leaf("b", 1)], b=50)
    assert t.available(t.queues["b"], FR_CPU) == UNLIMITED
    assert t.potential(t.queues["b"], FR_CPU) == UNLIMITED


def test_P21_usage_beyond_64_bits_counts_as_the_most_and_who_leaves_takes_all_of_its_own_along() -> None:
    t = tree([leaf("a", 1, "r"), leaf("b", 1, "r")])
    for _ in range(3):
        t.charge(t.queues["a"], FR_CPU, MOST - 1)
    assert t.available(t.queues["b"], FR_CPU) == LEAST
    assert not t.fits(t.queues["a"], {FR_CPU: 1})
    for _ in range(3):
        t.release(t.queues["a"], FR_CPU, MOST - 1)
    assert t.available(t.queues["b"], FR_CPU) == 2000


@pytest.mark.parametrize("first", [MOST, 1])
def test_P21_of_unlimited_quota_that_is_not_lent_nothing_overflows_in_any_order(first: int) -> None:
    kept = QuotaSpec(name="a", parent="r", nominal={FR_CPU: UNLIMITED}, lending={FR_CPU: 0})
    t = tree([kept, leaf("b", 1, "r")])
    for amount in (first, MOST + 1 - first):
        t.charge(t.queues["a"], FR_CPU, amount)
    assert t.cohorts["r"].usage.get(FR_CPU, 0) == 0
    assert t.within_nominal(t.queues["a"], (FR_CPU,))


def test_heights_and_paths() -> None:
    t = tree([leaf("a", 1, "l"), leaf("c", 1)], [cohort("l", parent="r"), cohort("bare")])
    assert [t.cohorts[name].height for name in ("l", "r", "bare")] == [1, 2, 0]
    assert t.queues["a"].path() == "/r/l/a"
    assert t.queues["a"].root is t.cohorts["r"]
    assert [node.name for node in t.roots()] == ["bare", "r"]


@pytest.mark.parametrize("cut", ["l", "m"])
def test_S_2_3_queues_above_whom_cohorts_go_in_a_circle_are_marked(cut: str) -> None:
    queues = [leaf("a", 1, "l"), leaf("b", 1, "below"), leaf("c", 1, "fine")]
    circle = [cohort("l", parent="m"), cohort("m", parent="l"), cohort("below", parent="m"), cohort("fine")]
    t = tree(queues, circle)
    assert [t.queues[name].in_cycle for name in "abc"] == [True, True, False]
    mended = [each if each.name != cut else cohort(cut) for each in circle]
    t.configure(queues, mended)
    assert not any(node.in_cycle for node in t.queues.values())
    assert free(t, "a") == 2


def test_P19_without_a_child_cohort_its_quota_is_gone_from_those_above() -> None:
    """The queue of the deleted cohort keeps its usage under an implicit one; none may use quota that is gone."""
    queues = [leaf("a", 2, "l"), leaf("c", 2, "r")]
    t = tree(queues, [cohort("l", 6, parent="r")], c=8)
    assert (free(t, "a"), cores(t.cohorts["r"].subtree[FR_CPU])) == (2, 10)
    t.configure(queues, [])
    assert cores(t.cohorts["r"].subtree[FR_CPU]) == 2
    assert (free(t, "a"), free(t, "c")) == (2, -6), "what runs on shows as over-use"
    t.recount()


def test_P19_usage_of_a_resource_that_is_no_longer_covered_stays_visible() -> None:
    t = tree([leaf("a", 2)], a=2)
    t.configure([queue("a", {"other": 5}, cohort="r")[1]], [])
    assert (used(t.queues["a"]), used(t.cohorts["r"]), free(t, "a")) == (2, 2, -2)
    t.release(t.queues["a"], FR_CPU, 2000)
    assert (used(t.queues["a"]), used(t.cohorts["r"])) == (0, 0)


def test_a_recount_finds_usage_that_nobody_holds() -> None:
    t = tree([leaf("a", 2)], a=1)
    t.cohorts["r"].usage[FR_CPU] += 1
    with pytest.raises(InvariantError, match="its children show 1000"):
        t.recount()


@dataclass(frozen=True)
class Forest:
    queues: Specs
    cohorts: Specs


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    limit = st.none() | st.integers(0, 4)
    parents = st.sampled_from(["l", "m", "r"])
    queues = [
        queue(f"q{i}", draw(st.integers(0, 4)), cohort=draw(parents), borrowing=draw(limit), lending=draw(limit))[1]
        for i in range(draw(st.integers(1, 5)))
    ]
    cohorts = [
        cohort(name, draw(st.integers(0, 3)), parent=parent, borrowing=draw(limit), lending=draw(limit))
        for name, parent in (("l", "r"), ("m", draw(st.sampled_from(["l", "r"]))))
    ]
    return Forest(queues, cohorts)


Moves = list[tuple[int, int]]
moves = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5000)), max_size=10)


@pytest.mark.property
@given(forest=forests(), charged=moves, released=st.lists(st.integers(0, 9), max_size=10))
def test_usage_at_every_node_equals_the_recount(forest: Forest, charged: Moves, released: list[int]) -> None:
    t = tree(forest.queues, forest.cohorts)
    held = [(f"q{which % len(forest.queues)}", amount) for which, amount in charged]
    for name, amount in held:
        t.charge(t.queues[name], FR_CPU, amount)
        t.recount()
    for index in released:
        if held:
            name, amount = held.pop(index % len(held))
            t.release(t.queues[name], FR_CPU, amount)
            t.recount()
    for name, node in t.queues.items():
        assert node.usage.get(FR_CPU, 0) == sum(amount for owner, amount in held if owner == name)


@pytest.mark.property
@given(forest=forests(), charged=moves, asked=st.integers(1, 6000))
def test_what_is_available_can_be_charged_and_no_more(forest: Forest, charged: Moves, asked: int) -> None:
    """A workload that fits leaves every node on its path within its limits: what is available is really available."""
    t = tree(forest.queues, forest.cohorts)
    for which, amount in charged:
        node = t.queues[f"q{which % len(forest.queues)}"]
        if t.fits(node, {FR_CPU: amount}):
            t.charge(node, FR_CPU, amount)
    for node in [*t.queues.values(), *t.cohorts.values()]:
        assert t.available(node, FR_CPU) >= 0
    node = t.queues["q0"]
    assert t.available(node, FR_CPU) <= t.potential(node, FR_CPU)
    room = t.available(node, FR_CPU)
    t.charge(node, FR_CPU, asked)
    assert t.available(node, FR_CPU) == room - asked or room < asked


@pytest.mark.property
@given(forest=forests(), charged=moves, again=forests())
def test_a_rebuilt_tree_equals_one_that_was_charged_after_building(
    forest: Forest, charged: Moves, again: Forest
) -> None:
    built, fresh = tree(forest.queues, forest.cohorts), tree(again.queues, again.cohorts)
    for which, amount in charged:
        name = f"q{which % len(forest.queues)}"
        built.charge(built.queues[name], FR_CPU, amount)
        if name in fresh.queues:
            fresh.charge(fresh.queues[name], FR_CPU, amount)
    built.configure(again.queues, again.cohorts)
    assert built.contents() == fresh.contents()
