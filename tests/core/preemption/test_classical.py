"""Victims of the classical search (S-8), by scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from makeway.core.model import Workload
from makeway.core.preemption.classical import Victims, find_victims
from makeway.core.preemption.eligibility import NO_EQUALS
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import FR_CPU, Part, amounts, cohort, holder, queue, seconds, state, workload

LOWER: dict[str, Any] = {"within": "LowerPriority"}
ANY: dict[str, Any] = {"reclaim": "Any"}
NOW = seconds(10_000)


def search(on: State, incoming: Workload, **more: Any) -> Victims:
    """The victims for a workload that asks for cpu of the only flavor, which lacks room."""
    asked = {FR_CPU: sum(each.count * each.requests[FR_CPU[1]] for each in incoming.pod_sets)}
    return find_victims(on, incoming, (FR_CPU,), asked, NOW, **more)


@dataclass(frozen=True)
class Case:
    name: str
    parts: tuple[Part, ...]
    incoming: Workload
    victims: tuple[tuple[str, str], ...]


def own(*uids: str) -> tuple[tuple[str, str], ...]:
    return tuple((uid, "InClusterQueue") for uid in uids)


def timed(*uids: str) -> tuple[tuple[str, str], ...]:
    return tuple((uid, "InClusterQueueTimeBased") for uid in uids)


def reclaimed(*uids: str) -> tuple[tuple[str, str], ...]:
    return tuple((uid, "InCohortReclamation") for uid in uids)


def borrowing(*uids: str) -> tuple[tuple[str, str], ...]:
    return tuple((uid, "InCohortReclaimWhileBorrowing") for uid in uids)


EIGHT_NINE = (
    queue("q", 6, **LOWER),
    holder("w1", cpu=4, reserved=1),
    holder("w2", cpu=1, reserved=2),
    holder("w3", cpu=1, priority=1, reserved=1),
)
THRESHOLD = (
    queue("c", 0, cohort="r", reclaim="LowerPriority", borrow="LowerPriority", threshold=5),
    queue("y", 10, cohort="r"),
    queue("z", 0, cohort="r"),
    holder("t1", queue="z", cpu=5, priority=3),
    holder("t2", queue="z", cpu=5, priority=8),
)
TIMED: dict[str, Any] = {"within": "LowerOrNewerEqualPriority", "min_admit": 600}


def tree(b: int, c: int) -> tuple[Part, ...]:
    """The tree of the example: a reclaims from b and c, which hold what they do not own (S-8.11)."""
    return (
        queue("a", 4, cohort="l", **ANY),
        queue("b", 0, cohort="l"),
        queue("c", 0, cohort="m"),
        cohort("l", 2, parent="r"),
        cohort("m", parent="r"),
        *(holder(f"b{i}", queue="b", reserved=10 * i) for i in range(b)),
        *(holder(f"c{i}", queue="c", reserved=10 * i + 5) for i in range(c)),
    )


CASES = [
    Case(
        "S-8.9 a small one is spared once a big one is enough", EIGHT_NINE, workload("p", cpu=4, priority=5), own("w1")
    ),
    Case("S-8.9 all of them, if need be", EIGHT_NINE, workload("p", cpu=6, priority=5), own("w2", "w1", "w3")),
    Case("nobody of its own priority", EIGHT_NINE, workload("p", cpu=1), ()),
    Case(
        "S-8.10 a borrower displaces whoever is below the threshold",
        THRESHOLD,
        workload("p", queue="c", cpu=4, priority=10),
        borrowing("t1"),
    ),
    Case("S-8.10 and nobody above it", THRESHOLD, workload("p", queue="c", cpu=6, priority=10), ()),
    Case(
        "S-8.11 within its quota it takes from near and far alike",
        tree(3, 3),
        workload("p", queue="a", cpu=3),
        reclaimed("c2", "b2", "c1"),
    ),
    Case("S-8.11 beyond its cohort's it takes from nobody", tree(3, 3), workload("p", queue="a", cpu=5), ()),
    Case(
        "S-8.11 within its cohort's it takes from outside",
        tree(1, 5),
        workload("p", queue="a", cpu=5),
        reclaimed("c4", "c3", "c2", "c1", "c0"),
    ),
    Case(
        "8522-1 an equal that has had its time makes way",
        (queue("q", 4, **TIMED), holder("a", cpu=4, queued=1, reserved=9399)),
        workload("p", cpu=4, queued=5),
        timed("a"),
    ),
    Case(
        "8522-3 S6 a lower priority goes first, and alone if that is enough",
        (queue("q", 4, **TIMED), holder("a", cpu=2, queued=1, reserved=5), holder("low", cpu=2, priority=-1)),
        workload("p", cpu=2, queued=5),
        own("low"),
    ),
    Case(
        "8522-3 S6 if it is not enough the expired one follows",
        (queue("q", 4, **TIMED), holder("a", cpu=2, queued=1, reserved=5), holder("low", cpu=2, priority=-1)),
        workload("p", cpu=4, queued=5),
        own("low") + timed("a"),
    ),
    Case(
        "8522-4 without a span only newer ones make way",
        (
            queue("q", 4, within="LowerOrNewerEqualPriority"),
            holder("old", cpu=2, queued=1, reserved=2),
            holder("new", cpu=2, queued=9, reserved=2),
        ),
        workload("p", cpu=2, queued=5),
        own("new"),
    ),
    Case(
        "8522-5 S2 exactly the span is not more than the span",
        (queue("q", 4, **TIMED), holder("a", cpu=4, queued=1, reserved=9400)),
        workload("p", cpu=4, queued=5),
        (),
    ),
    Case(
        "8522-7 S7 of several the longest running goes first",
        (queue("q", 3, **TIMED), *(holder(uid, queued=1, reserved=at) for uid, at in (("b", 7), ("a", 9), ("c", 7)))),
        workload("p", cpu=2, queued=5),
        timed("b", "c"),
    ),
    Case(
        "S7 an expired one goes before a newer one",
        (queue("q", 2, **TIMED), holder("new", queued=99, reserved=9990), holder("old", queued=1, reserved=3)),
        workload("p", queued=5),
        timed("old"),
    ),
    Case(
        "S5 two of the same second do not displace each other",
        (queue("q", 1, within="LowerOrNewerEqualPriority"), holder("a", queued=5)),
        workload("p", queued=5),
        (),
    ),
    Case(
        "P9 equals in everything go by uid, and not one too many",
        (queue("q", 4, **LOWER), *(holder(uid, reserved=7) for uid in ("d", "b", "a", "c"))),
        workload("p", cpu=2, priority=1),
        own("a", "b"),
    ),
    Case(
        "P9 who reserved last goes first",
        (queue("q", 3, **LOWER), *(holder(uid, reserved=at) for uid, at in (("a", 1), ("b", 3), ("c", 2)))),
        workload("p", cpu=2, priority=1),
        own("b", "c"),
    ),
    Case(
        "83-c nobody is taken from a queue that is back at its quota",
        (
            queue("x", 4, cohort="r", **ANY),
            queue("y", 2, cohort="r"),
            *(holder(f"y{i}", queue="y", reserved=i) for i in range(5)),
            holder("mine", queue="x", priority=9),
        ),
        workload("p", queue="x", cpu=3),
        reclaimed("y4", "y3", "y2"),
    ),
    Case(
        "S-8.12 the last one taken may bring its queue below its quota",
        (queue("x", 4, cohort="r", **ANY), queue("y", 4, cohort="r"), holder("big", queue="y", cpu=6)),
        workload("p", queue="x", cpu=3),
        reclaimed("big"),
    ),
    Case(
        "P31 a candidate that cannot be used does not end the search",
        (
            queue("x", 3, cohort="r", **ANY, borrow="LowerPriority", threshold=1),
            queue("y", 3, cohort="r"),
            queue("z", 0, cohort="r"),
            holder("mine", queue="x", cpu=1, priority=9),
            holder("barred", queue="z", cpu=1, priority=3, evicted=True),
            holder("low", queue="z", cpu=3, priority=1, reserved=1),
            holder("at quota", queue="y", priority=-5),
        ),
        workload("p", queue="x", cpu=3, priority=5),
        borrowing("low"),
    ),
    Case(
        "P31 a queue that is at its quota meanwhile is passed over",
        (
            queue("x", 4, cohort="r", **ANY),
            queue("y", 1, cohort="r"),
            queue("z", 0, cohort="r"),
            holder("y1", queue="y", priority=-2, reserved=2),
            holder("y2", queue="y", priority=-2, reserved=1),
            holder("z1", queue="z", cpu=3, priority=1),
        ),
        workload("p", queue="x", cpu=4),
        reclaimed("y1", "z1"),
    ),
    Case(
        "P32 a queue without quota reclaims from nobody",
        (queue("x", 0, cohort="r", **ANY), queue("y", 2, cohort="r"), holder("y1", queue="y", cpu=3)),
        workload("p", queue="x", priority=9),
        (),
    ),
    Case(
        "within a cohort of two levels a cohort at its quota is passed over",
        (
            queue("x", 4, cohort="r", **ANY),
            queue("b", 0, cohort="m"),
            cohort("m", 1, parent="r"),
            holder("b1", queue="b", cpu=1, reserved=3),
            holder("b2", queue="b", cpu=1, reserved=2),
            holder("mine", queue="x", cpu=3, priority=9),
        ),
        workload("p", queue="x", cpu=1),
        reclaimed("b1"),
    ),
    Case(
        "S-8.7 a cohort that is at its quota by now shields a queue of it that is not",
        (
            queue("x", 4, cohort="r", **ANY),
            queue("b", 0, cohort="m"),
            cohort("m", 1, parent="r"),
            queue("z", 0, cohort="r"),
            *(holder(f"b{i}", queue="b", priority=-1, reserved=i) for i in range(3)),
            *(holder(f"z{i}", queue="z", reserved=i) for i in range(2)),
        ),
        workload("p", queue="x", cpu=4),
        reclaimed("b2", "b1", "z1", "z0"),
    ),
    Case(
        "S-8.8 one that cannot stay does not keep a smaller one from staying",
        (
            queue("q", 7, **LOWER),
            holder("small", cpu=1, priority=-3),
            holder("big", cpu=3, priority=-2),
            holder("last", cpu=3, priority=-1),
        ),
        workload("p", cpu=6),
        own("big", "last"),
    ),
    Case(
        "S-8.8 one of the cohort gets its place back in its own queue",
        (
            queue("x", 4, cohort="r", **ANY, **LOWER),
            queue("y", 2, cohort="r"),
            queue("w", 1, cohort="r"),
            holder("x1", queue="x", cpu=3, priority=-1),
            holder("ya", queue="y", cpu=1, reserved=5),
            holder("yb", queue="y", cpu=2, reserved=1),
        ),
        workload("p", queue="x", cpu=4),
        own("x1"),
    ),
    Case(
        "S-8.6 a where nobody lends it may borrow at once",
        (
            queue("x", 4, cohort="r", **ANY, **LOWER),
            queue("y", 2, cohort="r"),
            holder("small", queue="x", cpu=1, priority=-2),
            holder("large", queue="x", cpu=2, priority=-1),
            holder("theirs", queue="y", cpu=1),
        ),
        workload("p", queue="x", cpu=3),
        own("small"),
    ),
    Case(
        "S-8.6 b where nobody is at a disadvantage it first tries not to borrow",
        (
            queue("x", 4, cohort="r", **ANY, **LOWER),
            queue("y", 2, cohort="r"),
            holder("x1", queue="x", cpu=2, priority=-2),
            holder("x2", queue="x", cpu=1, priority=-1),
            *(holder(f"y{i}", queue="y", reserved=i) for i in range(3)),
        ),
        workload("p", queue="x", cpu=3),
        reclaimed("y2") + own("x1"),
    ),
    Case(
        "who leaves already is counted on before anyone else",
        (queue("q", 6, **LOWER), holder("low", cpu=3, priority=-2), holder("gone", cpu=3, priority=-1, evicted=True)),
        workload("p", cpu=3),
        own("gone"),
    ),
    Case(
        "reclaiming first tries not to borrow, then the own queue's help",
        (
            queue("x", 2, cohort="r", **ANY, **LOWER),
            queue("y", 2, cohort="r"),
            holder("x1", queue="x", priority=-1),
            holder("y1", queue="y", cpu=3),
        ),
        workload("p", queue="x", cpu=2),
        (("y1", "InCohortReclamation"), ("x1", "InClusterQueue")),
    ),
    Case(
        "a queue above its quota helps itself only from its own",
        (
            queue("x", 1, cohort="r", **ANY, **LOWER),
            queue("y", 1, cohort="r"),
            queue("z", 3, cohort="r"),
            holder("x1", queue="x", cpu=2, priority=-1),
            holder("y1", queue="y", cpu=3, reserved=9),
        ),
        workload("p", queue="x", cpu=2),
        own("x1"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_victims(case: Case) -> None:
    on = state(*case.parts)
    before = on.fingerprint()
    found = search(on, case.incoming)
    assert tuple((each.workload.uid, each.reason) for each in found.targets) == case.victims, found.steps
    assert on.fingerprint() == before, "P35 a search leaves no mark"
    assert found == search(on, case.incoming), "P9 the same question has the same answer"


@pytest.mark.parametrize(("borrow", "victims"), [("LowerPriority", ["y2", "x1"]), ("Never", [])])
def test_S_8_6_a_full_queue_tries_without_borrowing_only_if_it_might_have_borrowed(
    borrow: str, victims: list[str]
) -> None:
    """Over quota as things are: its own victim is not enough, and y's leave only for a workload within its quota."""
    made = state(
        queue("x", 2, cohort="r", **ANY, **LOWER, borrow=borrow),
        queue("y", 2, cohort="r"),
        holder("x1", queue="x", cpu=2, priority=-1),
        *(holder(f"y{i}", queue="y", priority=9, reserved=i) for i in range(3)),
    )
    assert [each.workload.uid for each in search(made, workload("p", queue="x", cpu=2)).targets] == victims


@pytest.mark.parametrize(("priority", "victims"), [(9, own("a")), (-1, own("a", "b"))])
def test_S_8_6_a_queue_that_borrows_is_not_yet_somebody_to_reclaim(
    priority: int, victims: tuple[tuple[str, str], ...]
) -> None:
    """x may take 3 with a alone, if it borrows; that it must not is tried first only where y's could be reclaimed."""
    made = state(
        queue("x", 3, cohort="r", within="LowerPriority", reclaim="LowerPriority"),
        queue("y", 0, cohort="r"),
        queue("lender", 3, cohort="r"),
        holder("a", queue="x", priority=-2, reserved=2),
        holder("b", queue="x", priority=-2, reserved=1),
        holder("y1", queue="y", cpu=2, priority=priority),
    )
    found = search(made, workload("p", queue="x", cpu=3))
    assert tuple((each.workload.uid, each.reason) for each in found.targets if each.workload.queue == "x") == victims


def test_who_is_excluded_is_not_taken() -> None:
    made = state(queue("q", 2, **LOWER), holder("a"), holder("b"))
    found = search(made, workload("p", priority=1), excluded=frozenset({"default/a"}))
    assert [each.workload.uid for each in found.targets] == ["b"]
    assert search(made, workload("p", cpu=2, priority=1), excluded=frozenset({"default/a"})).targets == ()


def test_a_family_that_runs_takes_no_equals() -> None:
    made = state(queue("q", 2, **TIMED), holder("a", reserved=1, queued=1), holder("b", reserved=9999, queued=9))
    assert search(made, workload("p", queued=5)).targets
    assert not search(made, workload("p", queued=5), equals=NO_EQUALS).targets


def test_P10_asking_for_none_of_a_resource_that_is_over_quota_blocks_nothing() -> None:
    made = state(
        queue("x", {"default": {"cpu": 4, "gpu": 2}}, cohort="r", **ANY),
        queue("y", {"default": {"cpu": 2, "gpu": 0}}, cohort="r"),
        holder("over", queue="x", priority=9, usage={"default": {"gpu": 5}}),
        holder("y1", queue="y", usage={"default": {"cpu": 6}}),
    )
    request = amounts({"default": {"cpu": 3, "gpu": 0}})
    found = find_victims(made, workload("p", queue="x"), (FR_CPU,), request, NOW)
    assert [(each.workload.uid, each.reason) for each in found.targets] == [("y1", "InCohortReclamation")]


def test_the_reasons_say_why_each_must_go() -> None:
    made = state(queue("x", 2, cohort="r", **ANY), queue("y", 1, cohort="r"), holder("y1", queue="y", cpu=3))
    (target,) = search(made, workload("p", queue="x", cpu=2)).targets
    assert (target.step.rule, target.step.numbers) == (Rule.RECLAIM, (2000,))
    made = state(*THRESHOLD)
    (target,) = search(made, workload("p", queue="c", cpu=4, priority=10)).targets
    assert (target.step.rule, target.step.numbers) == (Rule.RECLAIM_WHILE_BORROWING, (3, 10))


# --- how much it looks at --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crowd", [1_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_a_search_for_ten_victims_looks_at_few_however_many_there_are(crowd: int) -> None:
    """In the own queue and in twenty others."""
    holding = [holder(f"w{i:05}", queue=f"y{i % 20}", priority=i % 7 - 7, reserved=i) for i in range(crowd)]
    lenders = [queue(f"y{i}", 0, cohort="r") for i in range(20)]
    made = state(queue("x", crowd, cohort="r", **ANY), *lenders, *holding)
    assert len(search(made, workload("p", queue="x", cpu=10)).targets) == 10
    assert made.holders.looks <= 60
    made = state(queue("y0", crowd // 20, **LOWER), *(each for each in holding if each.queue == "y0"))
    assert len(search(made, workload("p", queue="y0", cpu=10)).targets) == 10
    assert made.holders.looks <= 60


@pytest.mark.parametrize("queued", [10, 400, 990])
def test_a_search_among_equals_looks_at_few_wherever_it_stands_in_the_queue(queued: int) -> None:
    holding = [holder(f"w{i:05}", queued=i, reserved=i) for i in range(1000)]
    made = state(queue("q", 1000, within="LowerOrNewerEqualPriority"), *holding)
    assert len(search(made, workload("p", cpu=9, queued=queued)).targets) == 9
    assert made.holders.looks <= 60


def test_a_hopeless_search_looks_at_nobody() -> None:
    made = state(
        queue("x", 5, cohort="r", **ANY, **TIMED),
        queue("y", 5, cohort="r"),
        *(holder(f"x{i}", queue="x", priority=9) for i in range(4)),
        *(holder(f"y{i}", queue="y") for i in range(6)),
    )
    found = search(made, workload("p", queue="x", cpu=7))
    assert [(step.rule, step.numbers) for step in found.steps] == [(Rule.NOT_EVEN_ALL, (7000, 6000))]
    assert made.holders.looks == 0


def test_a_search_that_could_free_enough_only_by_borrowing_skips_the_attempt_without() -> None:
    made = state(
        queue("x", 1, cohort="r", reclaim="LowerPriority", borrow="LowerPriority"),
        queue("y", 9, cohort="r"),
        queue("z", 0, cohort="r"),
        holder("x1", queue="x", priority=5),
        holder("z1", queue="z", cpu=9, priority=5),
    )
    found = search(made, workload("p", queue="x", cpu=2, priority=5))
    assert [step.rule for step in found.steps] == [Rule.NOT_EVEN_ALL]
    assert made.holders.looks == 0


@pytest.mark.parametrize("policy", ["Never", "LowerPriority"])
def test_a_search_whose_candidates_would_not_leave_for_a_borrower_looks_at_nobody(policy: str) -> None:
    """All together hold enough, but none may be taken: within its quota it does not fit, and it may not borrow."""
    made = state(
        queue("x", 1, cohort="r", reclaim="LowerPriority", borrow=policy, threshold=-50),
        queue("y", 9, cohort="r"),
        queue("z", 0, cohort="r"),
        *(holder(f"z{i}", queue="z", priority=-1) for i in range(10)),
    )
    assert [step.rule for step in search(made, workload("p", queue="x", cpu=2)).steps] == [Rule.NO_TARGETS]
    assert made.holders.looks == 0


def test_each_queue_that_lends_costs_one_look_more() -> None:
    """The first of each queue is compared, so sixty reads suffice for ten victims of up to fifty queues, no more."""
    lenders = [queue(f"y{i}", 0, cohort="r") for i in range(200)]
    holding = [holder(f"w{i:03}", queue=f"y{i % 200}", reserved=i) for i in range(1000)]
    made = state(queue("x", 1000, cohort="r", **ANY), *lenders, *holding)
    assert len(search(made, workload("p", queue="x", cpu=10)).targets) == 10
    assert made.holders.looks < 10 + len(lenders)


def test_a_search_for_one_flavor_does_not_look_at_holders_of_another() -> None:
    quotas = {"default": 10, "spot": 1000}
    made = state(
        queue("q", quotas, **LOWER),
        *(holder(f"s{i}", usage={"spot": 1}, priority=-5) for i in range(1000)),
        *(holder(f"w{i}", priority=-1) for i in range(10)),
    )
    assert len(search(made, workload("p", cpu=3)).targets) == 3
    assert made.holders.looks <= 4


def test_nobody_who_could_go_would_free_enough() -> None:
    """The sums promise enough, but the holders are excluded: then the answer names no number."""
    made = state(*THRESHOLD)
    found = search(made, workload("p", queue="c", cpu=6, priority=10))
    assert [step.rule for step in found.steps] == [Rule.NO_TARGETS]
