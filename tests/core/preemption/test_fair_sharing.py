"""Victims of the search by shares (S-9.6 to 9.10), by scenario; what it reads; that all victims stay legal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from makeway.core.model import FR, ResourceName, Usage, Workload
from makeway.core.policy import FairStrategy, Policy
from makeway.core.preemption.classical import Target, Victims
from makeway.core.preemption.fair_sharing import find_victims
from makeway.core.preemption.richest import Richest, sides
from makeway.core.quota.shares import share
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import FLAVOR, FR_CPU, Part, cohort, holder, queue, seconds, state, workload

FINAL: FairStrategy = "LessThanOrEqualToFinalShare"
INITIAL: FairStrategy = "LessThanInitialShare"
ANY: dict[str, Any] = {"reclaim": "Any", "cohort": "r"}
LOWER: dict[str, Any] = {"within": "LowerPriority"}
NOW = seconds(10_000)
GPU: FR = (FLAVOR, ResourceName("gpu"))


def fair(*strategies: FairStrategy, **gates: bool) -> Policy:
    base = Policy.default()
    return replace(base, fair_strategies=strategies or (FINAL, INITIAL), gates=replace(base.gates, **gates))


def search(on: State, incoming: Workload, **more: Any) -> Victims:
    """The victims for a workload that asks for cpu of the only flavor, which lacks room."""
    asked = {FR_CPU: sum(each.count * each.requests[FR_CPU[1]] for each in incoming.pod_sets)}
    return find_victims(on, incoming, (FR_CPU,), asked, NOW, **more)


def told(found: Victims) -> tuple[tuple[str, str], ...]:
    return tuple((target.workload.uid, target.reason) for target in found.targets)


BOTH = fair()


@dataclass(frozen=True)
class Case:
    name: str
    parts: tuple[Part, ...]
    incoming: Workload
    victims: tuple[tuple[str, str], ...]
    policy: Policy = BOTH


def own(*uids: str) -> tuple[tuple[str, str], ...]:
    return tuple((uid, "InClusterQueue") for uid in uids)


def reclaimed(*uids: str) -> tuple[tuple[str, str], ...]:
    return tuple((uid, "InCohortReclamation") for uid in uids)


def by_share(*uids: str) -> tuple[tuple[str, str], ...]:
    return tuple((uid, "InCohortFairSharing") for uid in uids)


def many(name: str, count: int, *, cpu: float = 1, **more: Any) -> tuple[Part, ...]:
    """Holders of queue ``name``, each newer than the one before."""
    return tuple(holder(f"{name}{i}", queue=name, cpu=cpu, reserved=10 + i, **more) for i in range(count))


THREE = (queue("a", 3, **ANY), queue("b", 3, **ANY), queue("c", 3, **ANY), holder("a0", queue="a", cpu=3))
FOUR = (  # S-18.4
    cohort("r", 4), queue("a", 2, **ANY), queue("b", 2, weight=2, **ANY), queue("c", 2, **ANY), *many("c", 4),
)  # fmt: skip
TREE = (  # S-9.12
    cohort("l", parent="top"), cohort("m", parent="top"), queue("a", 2, reclaim="Any", cohort="l"),
    queue("b", 2, cohort="l"), queue("c", 4, cohort="m"), *many("a", 2), *many("b", 4), *many("c", 2),
)  # fmt: skip
ONE = workload("in", queue="a", cpu=1)

CASES = [
    Case("S-9.11 the newest of the richest, if it stays as rich", (*THREE, *many("b", 6)), ONE, by_share("b5")),
    Case("S-9.11 a big one only by the second strategy", (*THREE, *many("b", 2, cpu=3)), ONE, by_share("b1")),
    Case("S-9.11 and not where there is only the first", (*THREE, *many("b", 2, cpu=3)), ONE, (), fair(FINAL)),
    Case("S-9.11 the second alone", (*THREE, *many("b", 2, cpu=3)), ONE, by_share("b1"), fair(INITIAL)),
    Case("S-9.12 in a hierarchy the sides below the common cohort are compared", TREE, ONE, by_share("b3")),
    Case(
        "S-18.4 within nominal the richest loses, whatever the shares",
        (*FOUR, *many("a", 1), *many("b", 5)), ONE, reclaimed("c3"),
    ),
    Case(
        "S-18.4 above it only who stays as rich",
        (*FOUR, *many("a", 2), *many("b", 4)), ONE, by_share("c3"),
    ),
    Case(
        "without the gate shares are asked within nominal too",
        (queue("a", 3, **ANY), queue("b", 1, **ANY), queue("c", 0, **ANY), *many("b", 2), *many("c", 2)),
        workload("in", queue="a", cpu=1), by_share("c1"), fair(fair_sharing_preempt_within_nominal=False),
    ),
    Case(
        "S-9.13 without weight one takes from nobody who has one",
        (cohort("r", 4), queue("a", 0, weight=0, **ANY), queue("b", 0, **ANY), *many("b", 4)), ONE, (),
    ),
    Case(
        "S-9.13 but from one without weight who has more",
        (cohort("r", 4), queue("a", 0, weight=0, **ANY), queue("b", 0, weight=0, **ANY), *many("b", 4)), ONE,
        by_share("b3"),
    ),
    Case("who may not reclaim looks among its own", (queue("a", 1, cohort="r", **LOWER), queue("b", 0, cohort="r"),
         queue("c", 3, cohort="r"), *many("b", 3), holder("low", queue="a", priority=-1)), ONE, own("low")),
    Case("P22 and so does a queue without a cohort", (queue("a", 2, **LOWER), *many("a", 2, priority=-1)),
         workload("in", queue="a", cpu=2), own("a1", "a0")),
    Case("P22 which may be in vain", (queue("a", 2, **LOWER), *many("a", 2)), ONE, ()),
    Case(
        "LowerPriority bars equals of other queues",
        (cohort("r", 4), queue("a", 0, cohort="r", reclaim="LowerPriority"), queue("b", 0, cohort="r"),
         *many("b", 3), holder("low", queue="b", priority=-1)),
        ONE, by_share("low"),
    ),
    Case(
        "who was asked before goes first",
        (cohort("r", 4), queue("a", 0, **ANY), queue("b", 0, **ANY), *many("b", 3),
         holder("going", queue="b", reserved=1, evicted=True, priority=9)),
        ONE, by_share("going"),
    ),
    Case(
        "of equally rich queues the one whose first would leave first",
        (cohort("r", 4), *(queue(name, 0, **ANY) for name in "abc"), *many("b", 2),
         *(holder(f"c{i}", queue="c", reserved=20 + i) for i in range(2))),
        ONE, by_share("c1"),
    ),
    Case(
        "an own candidate comes after those of others who are as rich",
        (cohort("r", 4), queue("a", 0, **ANY, **LOWER), queue("b", 0, **ANY), *many("b", 3),
         *many("a", 1, priority=-1)),
        workload("in", queue="a", cpu=2), own("a0") + by_share("b2"),
    ),
    Case(
        "P31 who is too big to use does not end the search",
        (cohort("r", 11), queue("a", 0, **ANY), queue("b", 0, **ANY), holder("big", queue="b", cpu=5, reserved=99),
         *many("b", 3), *many("a", 3)),
        ONE, by_share("b2"), fair(FINAL),
    ),
    Case(
        "S-9.9 the second strategy takes one of each queue",
        (cohort("r", 12), *(queue(name, 0, **ANY) for name in "abc"), *many("b", 2, cpu=3), *many("c", 2, cpu=3)),
        workload("in", queue="a", cpu=5), by_share("b1", "c1"),
    ),
    Case(
        "S-9.9 and no more than that",
        (cohort("r", 12), *(queue(name, 0, **ANY) for name in "ab"), *many("b", 4, cpu=3)),
        workload("in", queue="a", cpu=8), (), fair(FINAL, INITIAL),
    ),
    Case(
        "S-9.9 who was out of reach may be the second's once another has left",
        (cohort("top", 20), cohort("l", parent="top", weight=4), cohort("m", parent="top"),
         queue("a", 0, cohort="l", reclaim="Any", weight=10), queue("z", 0, cohort="l"), queue("c", 0, cohort="m"),
         holder("z0", queue="z", cpu=6), holder("c0", queue="c", cpu=5)),
        workload("in", queue="a", cpu=16), by_share("z0", "c0"),
    ),
    Case(
        "an inactive queue loses nobody",
        (cohort("r", 4), queue("a", 0, **ANY), queue("b", 0, active=False, **ANY), *many("b", 4)), ONE, (),
    ),
    Case(
        "a cohort that does not borrow is passed over, with all below it",
        (cohort("r", 2), cohort("m", 4, parent="r"), queue("a", 0, **ANY), queue("b", 0, cohort="m", reclaim="Any"),
         queue("c", 0, **ANY), *many("b", 4), *many("c", 2)),
        ONE, by_share("c1"),
    ),
    Case(
        "what was taken too much is given back",
        (cohort("r", 6), queue("a", 0, **ANY), *(queue(name, 0, **ANY) for name in "bc"), *many("b", 2, cpu=1),
         holder("big", queue="c", cpu=4)),
        workload("in", queue="a", cpu=2), by_share("big"), fair(INITIAL),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_victims(case: Case) -> None:
    on = state(*case.parts, policy=case.policy)
    before = on.fingerprint()
    found = search(on, case.incoming)
    assert told(found) == case.victims, [str(step) for step in found.steps]
    assert on.fingerprint() == before


def test_a_need_of_one_resource_counts_for_within_nominal() -> None:
    """cpu is contested, and of that the newcomer has enough; that it borrows gpus is no matter (M6)."""
    quota: Any = {FLAVOR: {"cpu": 2, "gpu": 0}}
    on = state(
        queue("a", quota, **ANY), queue("b", {FLAVOR: {"cpu": 0, "gpu": 4}}, **ANY), *many("b", 2), policy=fair()
    )  # fmt: skip
    found = find_victims(on, ONE, (FR_CPU,), {FR_CPU: 1000, GPU: 3}, NOW)
    assert told(found) == reclaimed("b1")


def test_P10_asking_for_nothing_of_what_is_over_used_bars_nobody() -> None:
    on = state(*THREE, *many("b", 6), policy=fair())
    on.tree.charge(on.tree.queues["a"], GPU, 5)
    asked: Usage = {FR_CPU: 1000, GPU: 0}
    assert told(find_victims(on, ONE, (FR_CPU,), asked, NOW)) == by_share("b5")


# --- reasons ----------------------------------------------------------------------------------------------------------


def shown(target: Target) -> tuple[Rule, str]:
    return target.step.rule, str(target.step)


def test_a_step_tells_both_shares_before_and_after() -> None:
    on = state(*FOUR, *many("a", 2), *many("b", 4), policy=fair())
    (target,) = search(on, ONE).targets
    words = "its side's share falls from 200 to 100, the newcomer's rises from 0 to 100, no higher"
    assert shown(target) == (Rule.FAIR_FINAL_SHARE, words)
    assert target.step.subjects == ("default/c3", "a", "c")


def test_a_step_of_the_second_strategy_and_of_one_within_nominal() -> None:
    on = state(*THREE, *many("b", 2, cpu=3), policy=fair())
    (target,) = search(on, ONE).targets
    words = "the newcomer's share rises from 0 to 111.1, below the 333.3 of its side, 0 without it"
    assert shown(target) == (Rule.FAIR_INITIAL_SHARE, words)
    on = state(*FOUR, *many("a", 1), *many("b", 5), policy=fair())
    (target,) = search(on, ONE).targets
    words = "its side has share 200, 100 without it; the newcomer stays within its own quota"
    assert shown(target) == (Rule.FAIR_WITHIN_NOMINAL, words)


def test_the_steps_are_those_of_who_must_leave_after_all() -> None:
    """The small one is taken first and given back: the shares in the steps are those with it in its place."""
    on = state(
        cohort("r", 6), queue("a", 0, **ANY), queue("b", 0, **ANY), holder("big", queue="b", cpu=4),
        holder("small", queue="b", cpu=1, reserved=9), policy=fair(INITIAL),
    )  # fmt: skip
    (target,) = search(on, workload("in", queue="a", cpu=3)).targets
    words = "the newcomer's share rises from 0 to 500, below the 833.3 of its side, 166.7 without it"
    assert (target.workload.uid, str(target.step)) == ("big", words)


@pytest.mark.parametrize(
    ("parts", "rule", "words"),
    [
        ((*THREE, *many("b", 2, cpu=3)), Rule.NOT_BY_SHARES,
         "its share would rise from 0 to 111.1; nobody of the richest side, with 333.3, may leave for that"),
        ((*THREE, holder("b0", queue="b", cpu=3), holder("c0", queue="c", cpu=3)), Rule.NOT_EVEN_ALL,
         "1000 are missing, and all it might displace hold 0"),
        ((queue("a", 1, within="LowerOrNewerEqualPriority"), holder("older", queue="a", reserved=-1)), Rule.NO_TARGETS,
         "nobody whom it may displace would free enough"),
    ],
)  # fmt: skip
def test_no_is_a_reason_too(parts: tuple[Part, ...], rule: Rule, words: str) -> None:
    found = search(state(*parts, policy=fair(FINAL)), ONE)
    assert [(step.rule, str(step)) for step in found.steps] == [(rule, words)]


# --- what it looks at -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holders", [1_000, pytest.param(50_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("owned", [0, 10])
def test_a_search_for_ten_victims_looks_at_few_however_many_there_are(holders: int, owned: int) -> None:
    on = state(
        cohort("r", holders - owned), queue("a", owned, **ANY), *(queue(f"b{i}", 0, **ANY) for i in range(10)),
        *(holder(f"h{i}", queue=f"b{i % 10}", reserved=i) for i in range(holders)), policy=fair(),
    )  # fmt: skip
    found = search(on, workload("in", queue="a", cpu=10))
    assert len(found.targets) == 10
    assert on.holders.looks <= 80
    assert on.tree.shares <= 200


def test_a_hopeless_search_looks_at_nobody() -> None:
    on = state(cohort("r", 4), queue("a", 0, **ANY), queue("b", 0, **ANY), *many("b", 4), policy=fair())
    assert search(on, workload("in", queue="a", cpu=5)).steps[0].rule is Rule.NOT_EVEN_ALL
    assert (on.holders.looks, on.tree.shares) == (0, 0)


def test_whose_share_would_be_too_high_looks_at_one() -> None:
    """The newcomer would be richer than b is, so no workload of b passes: only the first one is set aside."""
    on = state(
        cohort("r", 100), queue("a", 0, **ANY), queue("b", 0, **ANY), *many("b", 40), *many("a", 60), policy=fair()
    )  # fmt: skip
    assert search(on, workload("in", queue="a", cpu=1)).targets == ()
    assert on.holders.looks == 1


def test_where_all_are_too_big_one_of_each_size_is_looked_at() -> None:
    """Nearly even: a has 9 and asks for 2, b has 11 in two sizes, none of which it may lose."""
    on = state(
        cohort("r", 220), queue("a", 0, **ANY), queue("b", 0, **ANY), *many("a", 9, cpu=10), *many("b", 8, cpu=10),
        *(holder(f"c{i}", queue="b", cpu=5) for i in range(8)), policy=fair(),
    )  # fmt: skip
    assert search(on, workload("in", queue="a", cpu=27)).targets == ()
    assert on.holders.looks <= 8 + 2, "those of 10 come first, then one of 5"


def test_who_asks_for_more_may_fare_better() -> None:
    """So a refused workload says nothing about larger ones (0041).

    With 5 the own queue is the richest and gives first, which makes it poor enough for b0; with 4 b is tried first, and
    not again.
    """
    on = state(
        cohort("r", 10), queue("a", 0, **ANY, **LOWER), queue("b", 0, **ANY),
        holder("x", queue="a", cpu=3, priority=-1), holder("b0", queue="b", cpu=2, reserved=9),
        holder("b1", queue="b", cpu=5), policy=fair(FINAL),
    )  # fmt: skip
    assert told(search(on, workload("in", queue="a", cpu=4))) == ()
    assert told(search(on, workload("in", queue="a", cpu=5))) == own("x") + by_share("b0")
    assert not on.propagates_refusals


# --- the order of queues ----------------------------------------------------------------------------------------------


def test_sides_are_the_children_of_the_lowest_common_cohort() -> None:
    on = state(*TREE)
    queues, cohorts = on.tree.queues, on.tree.cohorts
    assert sides(queues["a"], queues["b"]) == (queues["a"], queues["b"])
    assert sides(queues["a"], queues["c"]) == (cohorts["l"], cohorts["m"])


def test_a_cohort_goes_before_a_queue_that_is_as_rich() -> None:
    on = state(
        cohort("r", 8), cohort("deep", parent="r"), *(queue(name, 0, **ANY) for name in "ab"),
        queue("c", 0, cohort="deep"), *many("b", 2), *many("c", 2), policy=fair(),
    )  # fmt: skip
    left = {name: list(on.holders.of_queue[on.queues[name].name].values()) for name in ("b", "c")}  # type: ignore[index]
    order = Richest(on.tree, on.tree.queues["a"], lambda queue: next(iter(left.get(queue.name, ())), None))
    visited = []
    while (found := order.next()) is not None:
        visited.append(found.name)
        left[found.name].pop()
    assert visited == ["c", "c", "b", "b"]


# --- always legal -----------------------------------------------------------------------------------------------------


def passes_in_turn(on: State, incoming: Workload, targets: tuple[Target, ...]) -> list[bool]:
    """The result of each target's own test, when only those before it have left."""
    tree, asked = on.tree, incoming.pod_sets[0].requests[FR_CPU[1]]
    found = []
    with on.trial():
        tree.charge(tree.queues[incoming.queue], FR_CPU, asked)
        for target in targets:
            node = tree.queues[target.workload.queue]
            usage = target.workload.usage or {}
            if target.step.rule in (Rule.FAIR_FINAL_SHARE, Rule.FAIR_INITIAL_SHARE):
                mine, theirs = sides(tree.queues[incoming.queue], node)
                new, old = share(tree, mine), share(tree, theirs)
                tree.release_all(node, usage)
                is_final = target.step.rule is Rule.FAIR_FINAL_SHARE
                found.append(new <= share(tree, theirs) if is_final else new < old)
            else:
                tree.release_all(node, usage)
                found.append(True)
    return found


@st.composite
def quarrels(draw: st.DrawFn) -> tuple[list[Part], Workload]:
    """A full tree of two levels whose preemptor has candidates in its own queue, on its side, and elsewhere."""
    small = st.integers(0, 4)
    weight = st.sampled_from([1, 2, 0.5, 0])
    parts: list[Part] = [
        cohort("top", draw(small)),
        *(cohort(n, draw(small), parent="top", weight=draw(weight)) for n in "lm"),
    ]
    names = ["a", *(f"q{i}" for i in range(draw(st.integers(1, 4))))]
    for name in names:
        where = "l" if name == "a" else draw(st.sampled_from(["l", "m", "top"]))
        parts.append(queue(name, draw(small), cohort=where, weight=draw(weight), reclaim="Any", within="LowerPriority"))
        for i in range(draw(st.integers(0, 4))):
            cpu = draw(st.integers(1, 3))
            parts.append(holder(f"{name}-{i}", queue=name, cpu=cpu, priority=draw(st.integers(-1, 0)), reserved=i))
    parts.append(queue("spare", 0, cohort="top"))
    return parts, workload("in", queue="a", cpu=draw(st.integers(1, 5)))


@pytest.mark.property
@given(made=quarrels(), strategies=st.sampled_from([(FINAL, INITIAL), (FINAL,), (INITIAL,)]))
def test_P3_every_victim_would_be_one_if_only_those_before_it_left(
    made: tuple[list[Part], Workload], strategies: tuple[FairStrategy, ...]
) -> None:
    parts, incoming = made
    on = state(*parts, policy=fair(*strategies))
    targets = search(on, incoming).targets
    assume(targets)
    assert all(passes_in_turn(on, incoming, targets))
    with on.trial():
        for target in targets:
            on.tree.release_all(on.tree.queues[target.workload.queue], target.workload.usage or {})
        assert on.tree.available(on.tree.queues["a"], FR_CPU) >= incoming.pod_sets[0].requests[FR_CPU[1]]


def test_P3_without_the_gate_one_leaves_whose_ground_has_stayed() -> None:
    """Only because x of its own queue left was the newcomer poorer than b.

    But the one of b is enough, so x gets its place back, and with it the newcomer is as rich as b (M7).
    """
    parts = (
        cohort("r", 4), queue("a", 0, **ANY, **LOWER), queue("b", 0, **ANY),
        holder("x", queue="a", cpu=1, priority=-1), holder("b0", queue="b", cpu=3),
    )  # fmt: skip
    incoming = workload("in", queue="a", cpu=2)
    careless = state(*parts, policy=fair(preemption_revalidate_targets=False))
    found = search(careless, incoming)
    assert (told(found), passes_in_turn(careless, incoming, found.targets)) == (by_share("b0"), [False])
    assert told(search(state(*parts, policy=fair()), incoming)) == own("x") + by_share("b0")


def test_P3_who_made_nobody_else_a_victim_is_given_back_as_ever() -> None:
    """A workload of the own queue is taken first, and proves needless; b's stays as legal as it was."""
    on = state(
        cohort("r", 9), queue("a", 0, **ANY, **LOWER), queue("b", 0, **ANY), holder("x", queue="a", priority=-1),
        *many("b", 2, cpu=4), policy=fair(),
    )  # fmt: skip
    assert told(search(on, workload("in", queue="a", cpu=4))) == by_share("b1")
