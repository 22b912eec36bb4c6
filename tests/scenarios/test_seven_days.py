"""Seven virtual days in random worlds: no entitled workload waits longer than its bound, whatever comes and goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.core.policy import Policy
from tests.scenarios.fairness import Judged, judged
from tests.scenarios.stage import MIDNIGHT
from tests.scenarios.turns import HOUR, MINUTE, lives_of
from tests.scenarios.weeks import Queue, Stop, Week, Work, week
from tests.soaking import InTime

pytestmark = pytest.mark.slow

PARTS = 4  # so that workers share them


def replay(seed: int) -> str:
    settings = f"MAKEWAY_FUZZ_SEED={seed} MAKEWAY_FUZZ_INPUTS=34"
    return f"replay: {settings} python -m pytest tests/scenarios/test_seven_days.py"


@pytest.mark.property
@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_waits_longer_than_its_bound_in_seven_days(
    part: int, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    """60 worlds by default, 600 in a round of a soak."""
    found = Judged()
    count = max(1, fuzz_inputs * 3 // 100)
    for seed in in_time(range(fuzz_seed + part, fuzz_seed + count, PARTS)):
        drawn = week(seed)
        of_this = judged(drawn, lives_of(drawn.played(Policy.default())))
        wrong = of_this.wrong()
        assert not wrong, "\n".join([f"week {seed}:", *wrong[:10], "", replay(seed)])
        found.add(of_this)
    if count >= 60 and not in_time.was_cut:
        assert len(found.waited) > 500, "they take turns"
        assert len(found.spreads) > 200, "some of them are alike"


# --- the judges can say no -------------------------------------------------------------------------------------------


def taking_turns(nominal: int, *sizes: int, apart_ms: int = 0) -> Week:
    """A week of equals that take turns by the hour."""
    works = [Work(f"w{i}", "q", size, MIDNIGHT + i * apart_ms) for i, size in enumerate(sizes)]
    return Week(0, (Queue("q", nominal, period_ms=HOUR),), tuple(works))


def found_in(drawn: Week, policy: Policy) -> Judged:
    return judged(drawn, lives_of(drawn.played(policy)))


def test_turns_to_the_letter_are_found_at_fault() -> None:
    """Without the rules of fair rotation the large one starves, and one of three is always back at once."""
    literal = replace(Policy.default(), rotation="Literal")
    large, three = taking_turns(2, 1, 1, 1, 1, 2, apart_ms=20 * MINUTE), taking_turns(2, 1, 1, 1)
    starved = [each.work.name for each in found_in(large, literal).waited if each.ms > each.allowed_ms]
    assert starved == ["w4"]
    found = found_in(three, literal)
    assert sum(bool(each.displaced) for each in found.returns) > 50
    assert max(each.ms for each in found.spreads) > 24 * HOUR
    for drawn in (large, three):
        assert found_in(drawn, Policy.default()).wrong() == []


# --- what was found --------------------------------------------------------------------------------------------------


def a_minute_apart(*works: tuple[str, int, int]) -> tuple[Work, ...]:
    """Name, size and priority of each; its queue is the first part of its name."""
    return tuple(
        Work(name, name.partition("-")[0], size, MIDNIGHT + i * MINUTE, priority)
        for i, (name, size, priority) in enumerate(works)
    )


def test_who_is_kept_out_by_a_reservation_blocks_nobody() -> None:
    """``q-big`` would have to borrow what is kept free for the head of ``s``, so others need not wait for its turn."""
    works = a_minute_apart(
        ("q-a", 1, 0),
        ("s-run", 2, 0),
        ("s-head", 3, 0),
        ("q-b", 1, 0),
        ("q-high", 1, 1),
        ("q-c", 1, 0),
        ("q-big", 2, 0),
    )  # fmt: skip
    queues = (
        Queue("q", 2, period_ms=90 * MINUTE, cohort="all", reclaim="Any"),
        Queue("s", 3, period_ms=90 * MINUTE, cohort="all", strict=True),
    )
    stop = Stop("q", MIDNIGHT + 223_841_000, MIDNIGHT + 423_641_000)
    assert found_in(Week(0, queues, works, (stop,), eviction_ms=20_000), Policy.default()).wrong() == []
