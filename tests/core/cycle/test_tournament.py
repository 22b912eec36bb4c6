"""Entries in the order of shares (S-9.4): the examples, against a plain recomputation, and how little is computed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.cycle.cycle import decide
from makeway.core.cycle.tournament import Contestant, Tournament
from makeway.core.model import InvariantError, Workload
from makeway.core.policy import Policy
from makeway.core.quota.shares import borrows_of, share
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import Part, cohort, cycle, holder, outcomes, queue, seconds, state, workload

FAIR = replace(Policy.default(), fair_strategies=("LessThanOrEqualToFinalShare",))


def contestants(on: State, waiting: list[Workload]) -> list[Contestant[Workload]]:
    frs = next(iter(on.tree.queues.values())).nominal
    return [
        Contestant(each, on.tree.queues[each.queue], dict.fromkeys(frs, each.pod_sets[0].requests["cpu"]), each)  # type: ignore[index]
        for each in waiting
    ]


def picked(on: State, *waiting: Workload) -> list[tuple[str, Rule]]:
    """The entries in order, each charged before the next is picked; and what decided."""
    known = contestants(on, list(waiting))
    tournament = Tournament(on, known, lambda root: nullcontext())
    usage = {each.workload.uid: each for each in known}
    found: list[tuple[str, Rule]] = []
    while (turn := tournament.pick()) is not None:
        one = usage[turn[0].uid]
        on.tree.charge_all(one.node, one.usage)
        tournament.refresh(())
        found.append((turn[0].uid, turn[1].rule))
    return found


def order(on: State, *waiting: Workload) -> list[str]:
    return [uid for uid, _ in picked(on, *waiting)]


def lab(**y: Any) -> State:
    """S-9.5: a cohort that owns six; x owns two and uses four, with weight two; y owns two."""
    parts: list[Part] = [cohort("r", 6), queue("x", 2, cohort="r", weight=2), queue("y", 2, cohort="r")]
    used = y.get("used", 3)
    parts += [holder("h", queue="x", cpu=4)] + ([holder("g", queue="y", cpu=used)] if used else [])
    return state(*parts, policy=replace(FAIR, gates=replace(FAIR.gates, **y.get("gates", {}))))


def x(cpu: float = 2, **more: Any) -> Workload:
    return workload("x", queue="x", cpu=cpu, **more)


def y(cpu: float = 2, **more: Any) -> Workload:
    return workload("y", queue="y", cpu=cpu, **more)


@pytest.mark.parametrize(
    ("world", "entries", "first", "rule"),
    [
        ({}, (x(), y()), "x", Rule.ORDER_LOWER_SHARE),
        ({}, (x(), y(1, priority=1)), "y", Rule.ORDER_PRIORITY),
        ({}, (x(queued=2), y(1, queued=1)), "y", Rule.ORDER_EARLIER),
        ({}, (x(), y(1)), "x", Rule.ORDER_NAME),
        ({"used": 0}, (x(priority=9), y()), "y", Rule.ORDER_WITHIN_NOMINAL),
        ({"used": 0, "gates": {"fair_sharing_prioritize_non_borrowing": False}}, (x(), y()), "y",
         Rule.ORDER_LOWER_SHARE),
        ({"gates": {"priority_sorting_within_cohort": False}}, (x(), y(1, priority=1)), "x", Rule.ORDER_NAME),
    ],
)  # fmt: skip
def test_S_9_5_whose_side_would_be_the_poorer_goes_first(
    world: dict[str, Any], entries: tuple[Workload, ...], first: str, rule: Rule
) -> None:
    """x would have 200; y 300 with 2, 200 with 1, and stay within its own where it uses nothing."""
    found = picked(lab(**world), *entries)
    assert found[0] == (first, rule)
    assert found[1][1] is Rule.ORDER_ALONE


def test_a_request_for_nothing_borrows_nothing() -> None:
    """x uses more than its own, but asks for no more of it."""
    assert picked(lab(), x(0), y())[0] == ("x", Rule.ORDER_WITHIN_NOMINAL)


def test_with_the_gate_who_displaced_others_goes_before_all() -> None:
    on = lab(used=0, gates={"prioritize_preemptor_workloads": True})
    on.preemptors.mark(x())
    assert picked(on, x(), y())[0] == ("x", Rule.ORDER_PREEMPTOR)


def test_in_a_hierarchy_sides_compete_at_every_level() -> None:
    """l is the richer side, though a itself uses nothing; within l a is poorer than b."""
    on = state(
        cohort("r", 20), cohort("l", parent="r"), cohort("m", parent="r"),
        *(queue(name, 0, cohort="l") for name in "ab"), queue("c", 0, cohort="m"),
        holder("h", queue="b", cpu=3), policy=FAIR,
    )  # fmt: skip
    entries = [workload(name, queue=name, cpu=1) for name in "abc"]
    assert picked(on, *entries) == [
        ("c", Rule.ORDER_LOWER_SHARE), ("a", Rule.ORDER_LOWER_SHARE), ("b", Rule.ORDER_ALONE),
    ]  # fmt: skip


def test_what_one_took_counts_for_the_next() -> None:
    """Two queues of one side, two entries of the other: they take turns."""
    on = state(
        cohort("r", 20), cohort("l", parent="r"), cohort("m", parent="r"),
        *(queue(name, 0, cohort="l") for name in ("a1", "a2")), *(queue(name, 0, cohort="m") for name in ("b1", "b2")),
        policy=FAIR,
    )  # fmt: skip
    assert order(on, *(workload(name, queue=name) for name in ("a1", "a2", "b1", "b2"))) == ["a1", "b1", "a2", "b2"]


def test_trees_do_not_compete_and_the_first_name_says_which_goes_on() -> None:
    """q0 and q2 are of one tree, where q2 is poorer; q1 and q3 are alone."""
    on = state(
        cohort("r", 8), queue("q0", 0, cohort="r"), queue("q2", 0, cohort="r", weight=9),
        queue("q1", 9), queue("q3", 9), policy=FAIR,
    )  # fmt: skip
    assert order(on, *(workload(f"q{i}", queue=f"q{i}") for i in range(4))) == ["q2", "q0", "q1", "q3"]


def test_of_a_queue_there_is_one_and_what_it_took_must_be_counted() -> None:
    on = lab()
    with pytest.raises(InvariantError, match="two entries of queue x"):
        Tournament(on, contestants(on, [x(), workload("x2", queue="x")]), lambda root: nullcontext())
    tournament = Tournament(on, contestants(on, [x(), y()]), lambda root: nullcontext())
    tournament.pick()
    with pytest.raises(InvariantError, match="not counted yet"):
        tournament.pick()


# --- against the plain way --------------------------------------------------------------------------------------------


def plainly(on: State, waiting: list[Workload]) -> list[str]:
    """S-9.4 to the letter: everything is computed anew for every pick."""
    left, found = {each.queue: each for each in waiting}, []
    while left:
        root = on.tree.queues[min(left)].root
        best = on.tree.queues[min(left)] if root.is_queue else _best(on, root, left)
        assert best is not None
        winner = left.pop(best.name)  # type: ignore[call-overload]
        found.append(winner.uid)
        on.tree.charge_all(best, contestants(on, [winner])[0].usage)
    return found


def _best(on: State, cohort: QuotaNode, left: dict[Any, Workload]) -> QuotaNode | None:
    found = []
    for child in cohort.children:
        leaf = (child if child.name in left else None) if child.is_queue else _best(on, child, left)
        if leaf is not None:
            each = contestants(on, [left[leaf.name]])[0]
            with on.trial():
                on.tree.charge_all(leaf, each.usage)
                borrows = borrows_of(child, [fr for fr, amount in each.usage.items() if amount])
                key = (borrows, share(on.tree, child), -each.workload.priority, each.workload.queued_at, leaf.name)
            found.append((key, leaf))
    return min(found, key=lambda pair: pair[0])[1] if found else None


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Part], list[Workload]]:
    small, parts = st.integers(0, 4), list[Part]()
    cohorts = [f"c{i}" for i in range(draw(st.integers(1, 4)))]
    for i, name in enumerate(cohorts):
        parent = draw(st.sampled_from(["", *cohorts[:i]]))
        lending = draw(small) if parent and draw(st.booleans()) else None
        parts.append(cohort(name, draw(small), parent=parent, weight=draw(small), lending=lending))
    waiting = []
    for i in range(draw(st.integers(1, 6))):
        lending = draw(small) if draw(st.booleans()) else None
        where = draw(st.sampled_from([*cohorts, ""]))
        parts.append(queue(f"q{i}", draw(small), cohort=where, weight=draw(small), lending=lending if where else None))
        parts.append(holder(f"h{i}", queue=f"q{i}", cpu=draw(small)))
        settings: dict[str, Any] = {
            "cpu": draw(small),
            "priority": draw(st.integers(0, 1)),
            "queued": draw(st.integers(0, 2)),
        }
        if draw(st.booleans()):
            waiting.append(workload(f"w{i}", queue=f"q{i}", **settings))
    return parts, waiting


@pytest.mark.property
@given(made=worlds())
def test_the_order_is_that_of_asking_everybody_again_for_every_pick(made: tuple[list[Part], list[Workload]]) -> None:
    parts, waiting = made
    assert order(state(*parts, policy=FAIR), *waiting) == plainly(state(*parts, policy=FAIR), waiting)


# --- how little is asked ----------------------------------------------------------------------------------------------


def crowd(queues: int, cohorts: int) -> State:
    return state(
        *(cohort(f"c{i}", 50, parent="all", weight=1 + i % 3) for i in range(cohorts)),
        *(queue(f"q{i:04}", 1, cohort=f"c{i % cohorts}", weight=1 + i % 4) for i in range(queues)),
        *(holder(f"h{i:04}", queue=f"q{i:04}", cpu=i % 3) for i in range(queues) if i % 3),
        policy=FAIR,
    )


@pytest.mark.parametrize("queues", [100, 1_000])
def test_a_pick_asks_few_shares_however_many_queues_there_are(queues: int) -> None:
    on = crowd(queues, 10)
    waiting = [workload(f"w{i:04}", queue=f"q{i:04}", cpu=1 + i % 2, queued=i * 7 % 11) for i in range(queues)]
    assert len(order(on, *waiting)) == queues
    assert on.tree.shares <= 3 * queues, "40 for each pick would be allowed"


def test_a_whole_cycle_asks_few_shares_too() -> None:
    on = crowd(300, 10)
    for i in range(300):
        on.push(workload(f"w{i:04}", queue=f"q{i:04}", cpu=1), seconds(0))
    before = on.tree.shares
    assert len(decide(on, seconds(1)).verdicts) == 300
    assert on.tree.shares - before <= 40 * 300


# --- in a cycle -------------------------------------------------------------------------------------------------------


def test_S_5_13_a_standing_reservation_takes_part_at_its_heads_place() -> None:
    """x's head needs more than is free and none may leave for it; what is left of x's own is kept, in its turn."""
    on = state(
        queue("x", 4, cohort="r", strict=True), queue("y", 2, cohort="r", reclaim="Any"), queue("z", 2, cohort="r"),
        holder("h", queue="z", cpu=6), workload("head", queue="x", cpu=4), policy=FAIR,
    )  # fmt: skip
    assert outcomes(cycle(on, 1)) == {"head": "PreemptionNoCandidates"}
    on.push(workload("late", queue="z", cpu=2), seconds(2))
    assert outcomes(cycle(on, 2)) == {"late": "FailedAfterNomination"}, "it would borrow, so the reservation goes first"
    on.push(workload("owner", queue="y", cpu=2, queued=-1), seconds(3))
    plan = cycle(on, 3)
    assert (outcomes(plan), plan.verdicts[0].steps[-1].rule) == ({"owner": "admitted"}, Rule.ORDER_EARLIER)
