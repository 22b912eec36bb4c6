"""Cohorts as deep as a user likes: nothing recurs over them, and the work grows with their number and no faster.

The tests count visited nodes, never times. A chain of ``n`` has its queue at one end and its quota at the other, so
that every query and charge goes all the way.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest

from makeway.core.model import FR, FlavorName, ResourceName
from makeway.core.preemption.candidates import find_lenders
from makeway.core.preemption.richest import Richest
from makeway.core.quota.shares import share
from makeway.core.quota.tree import PATH_MAX, QuotaSpec, QuotaTree
from makeway.core.undo import UndoLog

CPU: FR = (FlavorName("f"), ResourceName("cpu"))
DEPTH = 3_000  # tests of the whole engine go to ten thousand
GROWTH_MAX = 2.3


@pytest.fixture(autouse=True)
def _no_room_to_recur() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    yield
    sys.setrecursionlimit(before)


def chain(depth: int, *, lending: bool = False, order: int | None = None) -> QuotaTree:
    """``order``: a seed for the order in which they are given; None: from the bottom."""
    cohorts = [QuotaSpec(name=f"c{i}", parent=f"c{i + 1}" if i + 1 < depth else "") for i in range(depth)]
    if lending:
        cohorts = [
            QuotaSpec(name=each.name, parent=each.parent, nominal={CPU: 2}, lending={CPU: 1}, borrowing={CPU: 10**6})
            for each in cohorts
        ]
    cohorts[-1] = QuotaSpec(name=f"c{depth - 1}", nominal={CPU: 8})
    if order is not None:
        random.Random(order).shuffle(cohorts)
    queues = [QuotaSpec(name="q", parent="c0"), QuotaSpec(name="r", parent="c0", nominal={CPU: 2})]
    tree = QuotaTree(UndoLog())
    tree.configure(queues, cohorts)
    return tree


@pytest.mark.parametrize("order", [None, 1])
def test_a_deep_chain_is_built_asked_and_charged(order: int | None) -> None:
    tree = chain(DEPTH, order=order)
    queue = tree.queues["q"]
    assert queue.root is tree.cohorts[f"c{DEPTH - 1}"]
    assert queue.root.height == DEPTH
    assert tree.potential(queue, CPU) == tree.available(queue, CPU) == 10
    tree.charge(queue, CPU, 7)
    assert tree.available(tree.queues["r"], CPU) == 3
    tree.recount()
    assert tree.lowest_subtree(tree.queues["r"], CPU, 4) == (DEPTH, False)


def test_quota_that_each_keeps_to_itself_adds_up() -> None:
    tree = chain(DEPTH, lending=True)
    queue = tree.queues["q"]
    assert tree.available(queue, CPU) == tree.potential(queue, CPU)
    before = tree.available(queue, CPU)
    tree.charge(queue, CPU, 100)
    assert tree.available(queue, CPU) == before - 100
    tree.recount()


def test_who_borrows_is_found_below_any_depth() -> None:
    cohorts = [QuotaSpec(name=f"c{i}", parent=f"c{i + 1}") for i in range(DEPTH)]
    queues = [
        QuotaSpec(name="deep", parent="c0"),
        QuotaSpec(name="owner", parent=f"c{DEPTH}", nominal={CPU: 4}),
    ]
    tree = QuotaTree(UndoLog())
    tree.configure(queues, cohorts)
    tree.charge(tree.queues["deep"], CPU, 4)
    lenders = find_lenders(tree, tree.queues["owner"], (CPU,), {CPU: 4}, lambda name: True)
    assert list(lenders.advantaged) == ["deep"]


def test_a_long_ring_is_marked_with_all_below_it() -> None:
    cohorts = [QuotaSpec(name=f"c{i}", parent=f"c{(i + 1) % DEPTH}") for i in range(DEPTH)]
    cohorts += [QuotaSpec(name=f"b{i}", parent=f"b{i + 1}" if i < DEPTH else "c7") for i in range(DEPTH + 1)]
    tree = QuotaTree(UndoLog())
    tree.configure([QuotaSpec(name="q", parent="b0"), QuotaSpec(name="free", parent="other")], cohorts)
    assert tree.queues["q"].in_cycle
    assert all(each.in_cycle for each in tree.cohorts.values() if each.name != "other")
    assert not tree.queues["free"].in_cycle


def test_a_path_is_short_however_deep() -> None:
    """It is part of conditions and events, which are bounded."""
    path = chain(DEPTH).queues["q"].path()
    assert path.startswith(f"/c{DEPTH - 1}/")
    assert path.endswith("/c0/q")
    assert path.count("/") == PATH_MAX + 1
    assert chain(PATH_MAX - 1).queues["q"].path().count("/") == PATH_MAX


# --- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lending", [False, True])
def test_twice_the_depth_is_twice_the_work(lending: bool) -> None:
    """To build the forest, to read and charge at its end, and to find the shares of all of it."""
    built, asked = [], []
    for depth in (1000, 2000):
        tree = chain(depth, lending=lending)
        built.append(tree.steps)
        tree.available(tree.queues["q"], CPU)
        tree.charge(tree.queues["q"], CPU, 5)
        asked.append(tree.questions)
        for node in (*tree.queues.values(), *tree.cohorts.values()):
            share(tree, node)
        built.append(tree.steps)
    assert built[2] <= GROWTH_MAX * built[0]
    assert built[3] <= GROWTH_MAX * built[1]
    assert asked[1] <= GROWTH_MAX * asked[0]


def test_whoever_is_richest_is_sought_once_down_and_once_up() -> None:
    looks = []
    for depth in (500, 1000):
        tree = chain(depth)
        tree.charge(tree.queues["q"], CPU, 5)
        search = Richest(tree, tree.queues["r"], lambda queue: None)  # no queue has a candidate, so all are dropped
        assert search.next() is None
        looks.append(search.looks)
    assert looks[1] <= GROWTH_MAX * looks[0]
