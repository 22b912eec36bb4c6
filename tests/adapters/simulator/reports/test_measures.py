"""The measures of a run, in numbers that can be worked out by hand, and against a model that looks at every moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.simulator.lives import Life, PastEviction, Spell
from makeway.adapters.simulator.reports import usage
from makeway.adapters.simulator.reports.measures import Fairness, Measures, Run, fairness, measure, percentile, waiting
from makeway.adapters.simulator.reports.usage import Course, QuotaUse
from makeway.core.model import FR, FlavorName, InvariantError, Millis, ResourceName, WorkloadKey

CPU: FR = (FlavorName("default"), ResourceName("cpu"))
GPU: FR = (FlavorName("fast"), ResourceName("nvidia.com/gpu"))
T = 1_767_268_800_000
When = tuple[int, int | None]


def life(
    name: str, *spells: When, queue: str = "a", priority: int = 0, created: int = 0, finished: int | None = None,
    gone: int | None = None, cpu: int = 1, ran: int = 0, lost: int = 0, evictions: Sequence[tuple[int, str, str]] = (),
    parent: str = "",
) -> Life:  # fmt: skip
    """Times are milliseconds since the beginning of the run."""
    return Life(
        workload=WorkloadKey(f"ns/{name}"),
        queue=queue,
        priority=priority,
        created_at=Millis(T + created),
        spells=tuple(Spell(Millis(T + b), None if e is None else Millis(T + e), {CPU: cpu}) for b, e in spells),
        evictions=tuple(PastEviction(Millis(T + at), by and f"ns/{by}", reason) for at, by, reason in evictions),
        ran_ms=ran,
        lost_ms=lost,
        finished_at=None if finished is None else Millis(T + finished),
        gone_at=None if gone is None else Millis(T + gone),
        parent=parent and f"ns/{parent}",
    )


def run(
    *lives: Life, until: int = 100, own: Mapping[str, int] | None = None, limits: Mapping[str, int] | None = None
) -> Run:
    """``own``: the nominal cpu of each queue; all of them are in one cohort."""
    owned = own or {"a": 10}
    return Run(
        lives=lives,
        queues={name: {CPU: amount} for name, amount in owned.items()},
        cohorts=dict.fromkeys(owned, "all"),
        began_at=Millis(T),
        ended_at=Millis(T + until),
        lending_limits={name: {CPU: amount} for name, amount in (limits or {}).items()},
    )


def use(measures: Measures, queue: str) -> QuotaUse:
    (found,) = [quota for each in measures.queues if each.queue == queue for quota in each.quotas if quota.of == CPU]
    return found


# --- waiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [
        (1, 50, 1),
        (1, 99, 1),
        (2, 50, 1),
        (3, 50, 2),
        (4, 50, 2),
        (20, 95, 19),
        (21, 95, 20),
        (31, 95, 30),
        (100, 99, 99),
    ],
)
def test_a_percentile_is_the_value_of_the_nearest_rank(count: int, percent: int, rank: int) -> None:
    assert percentile(range(1, count + 1), percent) == rank


def test_waiting_is_told_by_mean_and_percentiles_in_any_order_of_arrival() -> None:
    found = waiting([40, 10, 30, 21])
    assert (found.count, found.total_ms, found.mean_ms, found.percentiles_ms) == (
        4,
        101,
        Fraction(101, 4),
        (21, 40, 40),
    )
    nobody = waiting([])
    assert (nobody.count, nobody.mean_ms, nobody.percentiles_ms) == (0, None, ())


@pytest.mark.parametrize(
    ("waited", "one"),
    [
        (10, life("finished after one spell", (10, 60), finished=60)),
        (35, life("waits again after an eviction", (10, 40), (65, 90), finished=90)),
        (80, life("created late, never admitted", created=20)),
        (10, life("still has quota at the end", (10, None))),
        (10, life("was there before the run", (10, 20), created=-500, finished=20)),
        (0, life("had quota before the run and keeps it", (-50, None), created=-60)),
        (5, life("deleted while it waited", created=10, gone=15)),
        (0, life("deleted with quota", (10, 15), created=10, gone=15)),
        (10, life("a stored time was cut: two spells seem to overlap", (10, 40), (30, 60), finished=60)),
        (0, life("it seems to have quota before it is there", (10, 60), created=12, finished=60)),
        (10, life("it keeps quota after its end", (10, 80), finished=60)),
        (0, life("it came after the end", created=101)),
    ],
    ids=lambda value: value.workload if isinstance(value, Life) else None,
)  # fmt: skip
def test_waiting_is_the_time_without_quota(waited: int, one: Life) -> None:
    assert measure(run(one)).seen[0].waited_ms == waited


def test_groups_are_queues_priorities_and_both() -> None:
    measures = measure(
        run(
            life("one", (10, 20), queue="a", priority=5, finished=20),
            life("two", (30, 40), queue="a", priority=0, finished=40),
            life("three", queue="b", priority=5, created=50),
            own={"a": 10, "b": 10, "idle": 3},
        )
    )
    assert [(each.queue, each.tally.workloads) for each in measures.queues] == [("a", 2), ("b", 1), ("idle", 0)]
    assert [(p.priority, p.tally.waiting.total_ms) for p in measures.queues[0].priorities] == [(5, 10), (0, 30)]
    assert [(p.priority, p.tally.waiting.total_ms) for p in measures.priorities] == [(5, 60), (0, 30)]
    assert [p.fairness for p in measures.priorities] == [None, None]
    total = measures.total
    assert (total.workloads, total.admitted, total.finished, total.waiting.total_ms) == (3, 2, 2, 90)


def test_a_workload_in_no_queue_is_counted() -> None:
    measures = measure(run(life("stray", queue="")))
    assert [(each.queue, each.tally.workloads, len(each.quotas)) for each in measures.queues] == [
        ("", 1, 0),
        ("a", 0, 1),
    ]


def test_a_run_that_took_no_time_has_no_utilisation() -> None:
    measures = measure(run(life("one", (0, None)), until=0))
    assert (use(measures, "a").used, use(measures, "a").offered) == (0, 0)
    assert measures.total.admitted == 1


def test_a_run_cannot_end_before_it_began() -> None:
    with pytest.raises(InvariantError, match="before it began"):
        measure(run(until=-1))


# --- quota -----------------------------------------------------------------------------------------------------------


def test_what_is_used_above_nominal_is_borrowed() -> None:
    found = use(measure(run(life("one", (0, 50), cpu=8), life("two", (20, 40), cpu=5))), "a")
    assert found == QuotaUse(
        of=CPU, nominal=10, peak=13, offered=1000, used=8 * 50 + 5 * 20, borrowed=3 * 20, lent=0
    )  # fmt: skip


def test_one_leaves_in_the_moment_another_comes() -> None:
    assert use(measure(run(life("two", (50, 90), cpu=7), life("one", (0, 50), cpu=7))), "a").peak == 7


def test_lenders_lend_in_proportion_to_what_they_leave_idle() -> None:
    lives = (life("big", (0, 100), queue="b", cpu=12), life("small", (50, 100), queue="a", cpu=7))
    measures = measure(run(*lives, own={"a": 10, "b": 6, "c": 2}))
    # first half: 6 borrowed, idle are 10 of a and 2 of c; second half: 3 of a and 2 of c, which is 1 too few
    assert [use(measures, name).lent for name in "abc"] == [5 * 50 + 3 * 50, 0, 1 * 50 + 2 * 50]
    assert [use(measures, name).borrowed for name in "abc"] == [0, 600, 0]
    assert [(q.nominal, q.peak, q.used, q.borrowed, q.lent) for q in measures.quotas] == [(18, None, 1550, 600, 550)]


def test_nobody_lends_more_than_the_lending_limit() -> None:
    measures = measure(
        run(life("big", (0, 100), queue="b", cpu=12), limits={"a": 4, "c": 0}, own={"a": 10, "b": 6, "c": 2})
    )
    assert [use(measures, name).lent for name in "abc"] == [400, 0, 0]


def test_a_queue_without_a_cohort_lends_to_nobody_even_if_a_cohort_has_its_name() -> None:
    one = run(life("big", (0, 100), queue="b", cpu=12), own={"a": 10, "b": 6})
    alone = Run(lives=one.lives, queues=one.queues, cohorts={"b": "a"}, began_at=one.began_at, ended_at=one.ended_at)
    assert [use(measure(alone), name).lent for name in "ab"] == [0, 0]


def test_each_flavor_resource_is_counted_for_itself_owned_or_not() -> None:
    spell = Spell(Millis(T), None, {CPU: 4, GPU: 2})
    both = Life(WorkloadKey("ns/one"), "a", 0, Millis(T), (spell,))
    (queue,) = measure(run(both)).queues
    assert [(q.of, q.nominal, q.used, q.borrowed) for q in queue.quotas] == [(CPU, 10, 400, 0), (GPU, 0, 200, 200)]


def test_a_change_looks_at_one_queue_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    settle = usage._Sweep._settle

    def counted(self: usage._Sweep, account: usage._Account) -> None:
        nonlocal looks
        looks += 1
        settle(self, account)

    monkeypatch.setattr(usage._Sweep, "_settle", counted)
    queues = {f"q{number}": 1 for number in range(50)}
    measure(run(*(life(f"w{n}", (n, n + 5), queue=f"q{n % 50}", cpu=2) for n in range(90)), own=queues))
    assert looks == 2 * 90 + 50


# --- against a model that looks at every millisecond -----------------------------------------------------------------

SPAN = 12
spells = st.tuples(
    st.sampled_from("abc"), st.integers(-3, SPAN), st.integers(1, SPAN + 3), st.booleans(), st.integers(0, 9)
)
quotas = st.lists(st.integers(0, 6), min_size=3, max_size=3)


@pytest.mark.property
@given(drawn=st.lists(spells, max_size=8), nominal=quotas, limits=quotas)
def test_quota_over_time_is_the_sum_of_its_moments(
    drawn: list[tuple[str, int, int, bool, int]], nominal: list[int], limits: list[int]
) -> None:
    lives = [
        life(f"w{number}", (began, None if is_open else began + length), queue=queue, created=began, cpu=cpu)
        for number, (queue, began, length, is_open, cpu) in enumerate(drawn)
    ]
    owned, limit = dict(zip("abc", nominal, strict=True)), dict(zip("abc", limits, strict=True))
    measures = measure(run(*lives, until=SPAN, limits=limit, own=owned))
    used, borrowed = dict.fromkeys("abc", 0), dict.fromkeys("abc", 0)
    peak, lent = dict.fromkeys("abc", 0), dict.fromkeys("abc", Fraction(0))
    for at in range(T, T + SPAN):
        level = dict.fromkeys("abc", 0)
        for each in lives:
            for spell in each.spells:
                if spell.began_at <= at and (spell.ended_at is None or at < spell.ended_at):
                    level[each.queue] += spell.usage[CPU]
        over = {name: max(0, level[name] - owned[name]) for name in "abc"}
        idle = {name: max(0, min(owned[name] - level[name], limit[name])) for name in "abc"}
        taken = min(sum(over.values()), sum(idle.values()))
        for name in "abc":
            used[name] += level[name]
            borrowed[name] += over[name]
            peak[name] = max(peak[name], level[name])
            lent[name] += Fraction(taken * idle[name], sum(idle.values()) or 1)
    for name in "abc":
        found = use(measures, name)
        assert (found.used, found.borrowed, found.peak) == (used[name], borrowed[name], peak[name])
        assert abs(found.lent - lent[name]) <= Fraction(1, 2)


@pytest.mark.property
@given(
    span=st.integers(0, 40),
    parts=st.integers(1, 50),
    held=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 5)), max_size=6),
)
def test_a_course_puts_every_millisecond_into_its_part(span: int, parts: int, held: list[tuple[int, int, int]]) -> None:
    course = Course(T, T + span, parts)
    moments = [0] * span
    for began, length, amount in held:
        began, ended = min(began, span), min(began + length, span)
        course.add(T + began, T + ended, amount)
        for at in range(began, ended):
            moments[at] += amount
    edges = [course.edge(part) - T for part in range(course.parts + 1)]
    assert (edges[0], edges[-1], len(edges) - 1) == (0, span, max(1, min(parts, span)))
    expected = [sum(moments[a:b]) // (b - a) if b > a else 0 for a, b in pairwise(edges)]
    assert course.means() == expected
    assert [course.part_of(T + at) for at in range(span)] == [
        part for part in range(course.parts) for _ in range(edges[part], edges[part + 1])
    ]
    assert course.part_of(T + span) == course.parts - 1


@pytest.mark.property
@given(
    created=st.integers(-10, 110),
    cuts=st.lists(st.integers(-10, 120), max_size=6),
    finished=st.none() | st.integers(-10, 120),
)
def test_time_with_and_without_quota_is_the_time_it_was_there(
    created: int, cuts: list[int], finished: int | None
) -> None:
    times = sorted(cuts)
    pairs: list[When] = [(began, ended) for began, ended in zip(times[::2], times[1::2], strict=False)]
    (each,) = measure(run(life("one", *pairs, created=created, finished=finished))).seen
    came, left = max(0, created), 100 if finished is None else min(100, finished)
    there = range(came, left)
    with_quota = sum(1 for at in there if any(began <= at < ended for began, ended in pairs if ended is not None))
    assert each.waited_ms + with_quota == len(there)


# --- evictions, lost work, fairness ----------------------------------------------------------------------------------


def test_evictions_are_counted_by_reason_and_by_who_asked() -> None:
    lives = (
        life("low", (0, 10), (30, 60), queue="a", evictions=[(10, "high", "InCohortReclamation")], lost=7, ran=9),
        life(
            "mid", (0, 20), queue="a", evictions=[(20, "low", "InClusterQueue"), (25, "", "PodsReadyTimeout")], lost=3
        ),
        life("high", (10, 30), queue="b", evictions=[(30, "unheard-of", "InClusterQueue")]),
    )
    measures = measure(run(*lives, own={"a": 10, "b": 10}))
    assert dict(measures.total.evictions) == {"InClusterQueue": 2, "InCohortReclamation": 1, "PodsReadyTimeout": 1}
    assert list(measures.total.evictions) == sorted(measures.total.evictions)
    assert (measures.total.evicted, measures.total.lost_ms, measures.total.ran_ms) == (4, 10, 9)
    assert [dict(each.tally.evictions) for each in measures.queues] == [
        {"InClusterQueue": 1, "InCohortReclamation": 1, "PodsReadyTimeout": 1},
        {"InClusterQueue": 1},
    ]
    assert measures.preemptions == {("", "b"): 1, ("a", "a"): 1, ("b", "a"): 1}


def test_equals_that_ran_alike_are_served_fairly() -> None:
    assert fairness([5, 5, 5]) == Fairness(0, Fraction(1))
    assert fairness([9, 0, 0]) == Fairness(9, Fraction(1, 3))
    assert fairness([0, 0]) == Fairness(0, None)
    assert fairness([1, 3]).jain == Fraction(16, 20)


@pytest.mark.property
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_jain_lies_between_one_of_all_and_all(ran: list[int]) -> None:
    found = fairness(ran)
    assert (found.jain is None) == (not any(ran))
    if found.jain is not None:
        assert Fraction(1, len(ran)) <= found.jain <= 1
        assert (found.jain == 1) == (found.spread_ms == 0)


def test_options_are_told_with_their_parent() -> None:
    lives = (
        life("parent", (10, 60), evictions=[(30, "", "Preempted")], finished=60, cpu=0, ran=40),
        life(
            "parent-spot", (10, 30), parent="parent", cpu=4, evictions=[(30, "rival", "InClusterQueue")], lost=5, ran=2
        ),
        life("parent-reserved", (30, 60), parent="parent", cpu=4),
        life("rival", (30, 40), finished=40),
        life("orphan", (0, 10), parent="nobody", finished=10),
    )
    measures = measure(run(*lives))
    assert [each.life.workload for each in measures.seen] == ["ns/parent", "ns/rival", "ns/orphan"]
    assert dict(measures.total.evictions) == {"InClusterQueue": 1}
    assert measures.preemptions == {("a", "a"): 1}
    assert (measures.total.lost_ms, measures.total.ran_ms, measures.seen[0].waited_ms) == (5, 42, 10)
    assert use(measures, "a").used == 4 * 50 + 1 * 10 + 1 * 10


def test_of_two_lives_of_one_name_each_is_counted() -> None:
    measures = measure(run(life("one", (0, 10), gone=10), life("one", (20, 30), created=15, finished=30)))
    assert [each.waited_ms for each in measures.seen] == [0, 5]
