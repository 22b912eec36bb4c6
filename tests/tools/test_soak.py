"""A soak that finds something says how to get it back; one that runs out of time says so."""

from __future__ import annotations

import time

import pytest

from tests.conftest import trying_for
from tools import branch_coverage, soak


def test_the_fixed_round_comes_first_then_new_seeds() -> None:
    source = soak.rounds()
    first, second, third = next(source), next(source), next(source)
    assert first == soak.Round("soak", seed=0)
    assert second.profile == third.profile == "search"
    assert second.seed != third.seed


def test_a_replay_names_profile_seed_and_the_tests_that_failed() -> None:
    output = "x\nFAILED tests/api/test_a.py::test_one[k] - boom\nERROR tests/b.py::TestB::runTest\n2 failed in 1s\n"
    command = soak.Round("search", seed=7).replay(output)
    assert command == (
        "HYPOTHESIS_PROFILE=search MAKEWAY_FUZZ_INPUTS=20000 MAKEWAY_FUZZ_SEED=7 "
        ".venv/bin/python -m pytest -q -m property --hypothesis-seed=7 -k 'TestB or test_one'"
    )


def test_a_replay_without_a_named_test_is_the_whole_round() -> None:
    assert " -k " not in soak.Round("soak", seed=0).replay("the round did not end\n")


def test_a_property_tries_nothing_new_once_its_time_is_up() -> None:
    tried: list[int] = []
    body = trying_for(60, tried.append)
    body(1)
    body(2)
    assert tried == [1, 2]
    late = trying_for(-1, tried.append)
    with pytest.raises(pytest.skip.Exception):
        late(3)
    assert tried == [1, 2]


def test_a_property_that_has_failed_goes_on_shrinking(monkeypatch: pytest.MonkeyPatch) -> None:
    def inner() -> None:
        raise ValueError("found")

    body = trying_for(60, inner)
    with pytest.raises(ValueError, match="found"):
        body()
    later = time.monotonic() + 3600
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with pytest.raises(ValueError, match="found"):
        body()


@pytest.mark.parametrize(("covered", "total", "enough"), [(95, 100, True), (949, 1000, False), (0, 0, False)])
def test_the_floor_of_branch_coverage(covered: int, total: int, enough: bool) -> None:
    assert branch_coverage.verdict("api", covered, total)[0] is enough
