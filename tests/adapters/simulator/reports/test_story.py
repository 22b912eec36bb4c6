"""A run as a story: all events, causes before effects, in lines of any width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.simulator.lives import Life, PastEviction, Spell
from makeway.adapters.simulator.reports import story
from makeway.core.model import FlavorName, Millis, ResourceName, WorkloadKey
from tests.adapters.simulator.reports.test_measures import T, life, run


def told(*lives: Life, until: int = 100_000, **options: object) -> list[str]:
    lines = story.lines(run(*lives, until=until), **options)  # type: ignore[arg-type]
    return [line.strip().replace("ns/", "") for line in lines]


def words(*lives: Life, until: int = 100_000) -> list[str]:
    found = story.events(run(*lives, until=until))
    return [f"{event.workload} {event.words}".replace("ns/", "") for event in found]


EVENING = (
    life(
        "low", (0, 10_000), (40_000, 90_000), cpu=4000, ran=60_000, lost=10_000, finished=90_000,
        evictions=[(10_000, "high", "InCohortReclamation")],
    ),
    life("high", (10_000, 40_000), queue="b", priority=100, created=10_000, cpu=9000, ran=30_000, finished=40_000),
)  # fmt: skip


def test_of_what_happens_at_once_causes_come_before_effects() -> None:
    """At 10 s a workload arrives, another makes way, and the first gets its quota; at 40 s it ends first."""
    assert words(*EVENING) == [
        "low arrives in a, priority 0",
        "low gets 4 cpu on default",
        "high arrives in b, priority 100",
        "low makes way for high: reclamation within the cohort",
        "high gets 9 cpu on default",
        "high is done; it ran 30s",
        "low gets 4 cpu on default again",
        "low is done; it ran 1m, 10s of it lost",
    ]


def test_who_takes_no_time_still_comes_before_it_ends() -> None:
    at_once = life("w", (5000, 5000), created=5000, finished=5000)
    assert [event.split()[1] for event in words(at_once)] == ["arrives", "gets", "is"]
    deleted = life("w", created=5000, gone=5000)
    assert [event.split()[1] for event in words(deleted)] == ["arrives", "is"]


@pytest.mark.parametrize(
    ("one", "ending"),
    [
        (life("w", (0, None), ran=100_000), "w has its quota to the end; it ran 1m40s"),
        (life("w"), "w still waits at the end"),
        (life("w", (0, 10_000), evictions=[(10_000, "", "Deactivated")]), "w still waits at the end"),
        (life("w", gone=3000), "w is deleted"),
    ],
)
def test_how_things_stand_at_the_end(one: Life, ending: str) -> None:
    assert words(one)[-1] == ending


def test_an_eviction_that_nobody_asked_for_is_told_by_its_reason() -> None:
    assert "w is evicted: Deactivated" in words(life("w", (0, 10_000), evictions=[(10_000, "", "Deactivated")]))


def test_a_change_of_the_amount_is_no_new_beginning() -> None:
    assert sum("gets" in each for each in words(life("w", (0, 10_000), (10_000, 20_000), (30_000, 40_000)))) == 2


def test_all_that_is_held_is_told_by_flavor() -> None:
    usage = {
        (FlavorName("b"), ResourceName("cpu")): 1500,
        (FlavorName("a"), ResourceName("nvidia.com/gpu")): 8,
        (FlavorName("b"), ResourceName("memory")): 2 << 30,
    }
    one = replace(life("w"), spells=(Spell(Millis(T), None, usage),))
    assert "w gets 8 nvidia.com/gpu on a; 1500m cpu, 2Gi memory on b" in words(one)
    assert "w gets quota" in words(replace(one, spells=(Spell(Millis(T), None, {}),)))


def test_workloads_go_by_the_names_of_their_jobs() -> None:
    lines = told(*EVENING, names={"ns/low": "team/sweep", "ns/high": "team/hotfix"})
    assert lines[3].endswith("team/sweep makes way for team/hotfix: reclamation within the cohort")


def test_times_are_of_one_day_or_have_their_date_and_never_look_equal_if_they_differ() -> None:
    midnight = T - T % 86_400_000 - T
    assert told(life("w", created=midnight + 1000), until=midnight + 2000) == [
        "00:00:01  w arrives in a, priority 0",
        "00:00:02  w still waits at the end",
    ]
    odd = told(life("w", created=midnight + 1005), until=midnight + 2000)
    assert [line.split("  ", 1)[0] for line in odd] == ["00:00:01.005", "00:00:02"]
    assert len({line.index("w ") for line in odd}) == 1
    days = told(life("w", created=midnight + 1000), until=midnight + 86_400_000)
    assert [line.partition("T")[2][:11] for line in days] == ["00:00:01Z  ", "00:00:00Z  "]


@pytest.mark.parametrize(
    "lives",
    [
        [life(f"w{i}") for i in range(story.WORKLOADS_MAX + 1)],
        [life("w", *((i, i + 1) for i in range(0, 2 * story.EVENTS_MAX, 2)))],
    ],
    ids=["of too many", "too long"],
)
def test_what_nobody_would_read_is_not_told(lives: list[Life]) -> None:
    assert told(*lives) == []


def test_as_much_as_can_be_read_is_told() -> None:
    assert len(told(*(life(f"w{i}") for i in range(story.WORKLOADS_MAX)))) == 2 * story.WORKLOADS_MAX
    spells = [(i, i + 1) for i in range(0, 2 * story.EVENTS_MAX - 4, 2)]
    assert len(told(life("w", *spells))) == story.EVENTS_MAX


def test_a_pipe_is_told_exact_spans_and_a_terminal_short_ones() -> None:
    one = life("w", (0, 7_199_400), ran=7_199_400, finished=7_199_400)
    assert told(one)[-1].endswith("it ran 1h59m59.4s")
    assert told(one, width=80)[-1].endswith("it ran 2h")


def test_names_do_not_steer_the_terminal() -> None:
    evil = replace(
        life("w\x1b[31m", queue="q\x07"),
        evictions=(PastEviction(Millis(T), "v\x1b[0m", "why\n"),),
        workload=WorkloadKey("w\x1b[31m"),
    )
    assert all(line.isprintable() for line in told(evil))


@pytest.mark.property
@given(
    spans=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5),
    width=st.integers(40, 100),
)
def test_lines_are_in_order_fit_and_lose_nothing(spans: list[tuple[int, int, int]], width: int) -> None:
    lives = [
        life(f"w{i}", (came + wait, came + wait + ran), created=came, finished=came + wait + ran)
        for i, (came, wait, ran) in enumerate(spans)
    ]
    found = story.events(run(*lives))
    assert [event.at for event in found] == sorted(event.at for event in found)
    for name in {event.workload for event in found}:
        assert [event.words.split()[0] for event in found if event.workload == name] == ["arrives", "gets", "is"]
    lines = list(story.lines(run(*lives), width))
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(story.lines(run(*lives))).split())
