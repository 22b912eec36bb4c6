"""The draws of the object fuzz: some of every kind are accepted, and then accepted again as they are stored."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from makeway.api import codec
from makeway.api.problems import has_errors
from makeway.api.validation import validate, validate_update
from tests.end_to_end.operations import MAKING, choices, drawn
from tests.end_to_end.test_object_fuzz import shrunk
from tests.soaking import InTime


@pytest.mark.property
def test_what_is_accepted_is_accepted_again_as_it_is_stored(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """Otherwise no client could change it any more, nor remove a finalizer from it."""
    seen = set()
    for step in in_time(range(fuzz_inputs * 4)):
        operation = drawn(fuzz_seed, 1, step)
        tree = json.loads(operation.body) if operation.verb in MAKING and operation.body else None
        if not isinstance(tree, dict):
            continue
        reading = codec.read(tree, "Warn")
        if reading.value is None or not reading.ok or has_errors(validate(reading.value)):
            continue
        seen.add((operation.kind.key, operation.version))
        again = codec.read(codec.to_tree(reading.value), "Warn")
        assert again.ok, (str(operation), again.problems)
        assert again.value == reading.value, str(operation)
        assert not has_errors(validate_update(reading.value, again.value)), str(operation)
    if not in_time.was_cut:
        assert seen == {(kind.key, version) for kind, version in choices()[0]}, "some of every kind"


def test_equal_seeds_draw_equal_steps_whatever_was_left_out() -> None:
    assert [drawn(1, 2, step) for step in range(40)] == [drawn(1, 2, step) for step in range(40)]
    assert drawn(1, 2, 39) != drawn(2, 2, 39)


@pytest.mark.parametrize("guilty", [{3}, {0, 99}, {10, 11, 12}, {5, 50, 77}])
def test_fewer_steps_are_found_that_still_fail(guilty: set[int]) -> None:
    assert set(shrunk(range(100), lambda some: guilty <= set(some), replays=500)) == guilty


def test_shrinking_ends_when_its_replays_are_used_up() -> None:
    asked: list[int] = []

    def passes(some: Sequence[int]) -> bool:
        asked.append(len(some))
        return False

    assert shrunk(range(1000), passes, replays=9) == list(range(1000))
    assert len(asked) == 9
