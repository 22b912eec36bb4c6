"""A soak that finds something says how to get it back; one that runs out of time says so."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.conftest import trying_within
from tests.soaking import InTime, Shares
from tools import branch_coverage, soak


def test_the_fixed_round_comes_first_then_new_seeds() -> None:
    source = soak.rounds(None)
    first, second, third = next(source), next(source), next(source)
    assert first == soak.Round("soak", seed=0)
    assert second.profile == third.profile == "search"
    assert second.seed != third.seed


def test_the_rounds_of_a_seed_are_the_same_each_time() -> None:
    one, same, other = (list(islice(soak.rounds(seed), 4)) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_replay_names_profile_seed_and_the_tests_that_failed() -> None:
    output = (
        "x\nFAILED tests/api/test_a.py::test_one[k-1.5] - boom\nERROR tests/b.py::TestB::runTest\n"
        "FAILED tests/c.py::test_two[k = 1]\n3 failed in 1s\n"
    )
    command = soak.Round("search", seed=7).replay(output)
    assert command == (
        "HYPOTHESIS_PROFILE=search MAKEWAY_FUZZ_INPUTS=20000 MAKEWAY_FUZZ_SEED=7 "
        ".venv/bin/python -m pytest -q -m property --hypothesis-seed=7 "
        "-k 'TestB and runTest or test_one[k-1.5] or test_two[k'"
    )


def test_a_replay_without_a_named_test_is_the_whole_round() -> None:
    assert " -k " not in soak.Round("soak", seed=0).replay("the round did not end\n")


def test_a_part_can_be_asked_for_by_its_count() -> None:
    command, settings = soak.counted({"kills": 1000}, seed=3, jobs=2)
    assert settings == {"MAKEWAY_KILLS": "1000", "MAKEWAY_FUZZ_SEED": "3"}
    assert command[-2:] == ["tests/cli/test_kills.py", "tests/end_to_end/test_kills.py"]
    for _, files in soak.COUNTED.values():
        assert all("os.environ.get" in (soak.ROOT / file).read_text() for file in files)


# --- how its time is shared -------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_test_gets_its_part_of_what_is_left_by_its_weight(clock: Clock) -> None:
    shares = Shares(until=1100, expected=20, clock=clock)
    ends = []
    for weight, takes in ((1, 100), (5, 100), (4, 0), (2, 100), (4, 100), (4, 100), (1, 100)):
        shares.begin(weight, clock.now)
        ends.append(shares.ends_at)
        clock.now = min(shares.ends_at, clock.now + takes)
    assert ends[:5] == [1005, 1030, 1050, 1044, 1072], "what one leaves is for those after it"
    assert ends[5:] == [1086, 1093], "the last one gets half, and so does one that was not expected"
    shares.begin(1, 1200)
    assert shares.ends_at == 1200


def test_seeds_are_tried_while_there_is_time_and_one_at_least(clock: Clock) -> None:
    shares = Shares(until=1100, expected=10, clock=clock)
    shares.begin(1, clock.now)
    whole, cut, late = InTime(shares), InTime(shares), InTime(shares)
    assert list(whole(range(3))) == [0, 1, 2]
    assert not whole.was_cut
    tried = []
    for seed in cut(range(9)):
        tried.append(seed)
        clock.now += 6
    assert (tried, cut.was_cut) == ([0, 1], True)
    assert list(late(range(9))) == [0]
    assert list(InTime(None)(range(9))) == list(range(9))


def test_a_property_tries_nothing_new_once_its_time_is_up(clock: Clock) -> None:
    shares = Shares(until=1100, expected=2, clock=clock)
    shares.begin(1, clock.now)
    tried: list[int] = []
    body = trying_within(shares, tried.append)
    body(1)
    body(2)
    clock.now += 51
    with pytest.raises(pytest.skip.Exception):
        body(3)
    assert tried == [1, 2]


def test_a_property_that_has_failed_goes_on_shrinking(clock: Clock) -> None:
    def inner() -> None:
        raise ValueError("found")

    body = trying_within(Shares(until=1100, expected=1, clock=clock), inner)
    for _ in range(2):
        with pytest.raises(ValueError, match="found"):
            body()
        clock.now += 3600


@pytest.mark.parametrize(("covered", "total", "enough"), [(95, 100, True), (949, 1000, False), (0, 0, False)])
def test_the_floor_of_branch_coverage(covered: int, total: int, enough: bool) -> None:
    assert branch_coverage.verdict("api", covered, total)[0] is enough
