"""A bad value in any field of any kind is refused at its path, or is harmless for all readers of the object.

A soak tries all of about 127,000 values; ``MAKEWAY_BAD_VALUES`` says how many to try at once, or ``all``. The figures
are printed (``pytest -s``).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from makeway.api import codec
from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree
from makeway.api.schema.shapes import Leaf
from makeway.api.validation import validate
from makeway.api.versions import KINDS
from makeway.testing.bad_values import FieldPlace, bad_values, good_value, places, planted
from tests.end_to_end.taking_in import Taking
from tests.soaking import SOAK_UNTIL, InTime

QUICK, MORE = 120, 350
PLAIN_SHARE = 0.95  # of all fields; the others need more fields than a valid object here has


@cache
def all_places() -> Sequence[FieldPlace]:
    return [place for kind in KINDS for version in kind.versions for place in places(kind, version)]


@cache
def each_field() -> Sequence[FieldPlace]:
    """One place for each field of each type."""
    found = {(place.owner, *[step for step in place.steps if step[0] not in "[{"][-1:], place.steps[-1]): place
             for place in reversed(all_places())}  # fmt: skip
    return list(found.values())


def errors(tree: dict[str, Tree]) -> list[Problem]:
    reading = codec.read(tree)
    rules = validate(reading.value, created_as=reading.kind) if reading.value is not None else []
    return [each for each in reading.problems + rules if each.severity == "error"]


def test_nearly_every_field_can_be_reached_with_a_good_value() -> None:
    """Else the refusal would be about another field."""
    assert len(all_places()) > 8_000
    assert len(each_field()) > 1_200
    odd = [
        str(place)
        for place in each_field()
        if place.steps != ("metadata",) and errors(planted(place, good_value(place.field)))
    ]
    assert len(odd) <= (1 - PLAIN_SHARE) * len(each_field()), odd


def outside(place: FieldPlace) -> Iterator[Tree]:
    """A value that is certainly beyond the limits of a field."""
    limit, shape = place.field.limit, place.field.shape
    assert isinstance(shape, Leaf)
    allowed = limit.words or shape.allowed
    if allowed:
        yield from (word for each in allowed for word in (each.swapcase(), f"{each} ", f"{each}x", f"\0{each}"))
        yield 7
    if limit.least is not None and not (limit.zero_passes and limit.least == 1):
        yield limit.least - 1
    if limit.most is not None:
        yield limit.most + 1
    if limit.form not in ("", "someKey"):
        yield "\0"


def test_no_word_beside_a_closed_set_and_no_number_beyond_its_range_passes() -> None:
    tried = 0
    for place in each_field():
        if not isinstance(place.field.shape, Leaf) or not place.kind.is_stored_as(place.version):
            continue
        for value in outside(place):
            if value in place.field.shape.allowed or value in place.field.limit.words or value == " ":
                continue
            tried += 1
            told = [each.path for each in errors(planted(place, value))]
            assert any(each.startswith(place.path) for each in told), f"{place}: {value!r} passes: {told}"
    assert tried > 1_000


# --- the whole way ---------------------------------------------------------------------------------------------------


def cases(seed: int, count: int | None) -> Iterator[tuple[FieldPlace, Tree]]:
    """Places and values in random order, or this many of them."""
    found = [(place, value) for place in all_places() for value in bad_values(place)]
    random.Random(seed).shuffle(found)
    yield from found[:count]


def asked_for(count: int) -> int | None:
    asked = os.environ.get("MAKEWAY_BAD_VALUES", "")
    if asked == "all" or (SOAK_UNTIL is not None and not asked):
        return None
    return int(asked or count)


def try_all(folder: Path, seed: int, count: int | None, in_time: InTime) -> None:
    taking, fates, fields = Taking(folder), Counter[str](), set[str]()
    found = list(cases(seed, count))
    for number in in_time(range(len(found))):
        place, value = found[number]
        fields.add(str(place))
        try:
            fates[taking.fate(place, value)] += 1
        except Exception as error:
            raise AssertionError(f"{place}: {value!r} was taken, and then {type(error).__name__}: {error}") from error
    print(f"\nfields {len(fields)}, values {fates.total()}, refused {fates['refused']}, harmless {fates['harmless']}")
    assert fates["refused"] > fates["harmless"]
    assert not taking.misplaced, [(str(place), value, paths) for place, value, paths in taking.misplaced[:10]]


@pytest.mark.property
def test_a_bad_value_is_refused_or_harmless(tmp_path: Path, in_time: InTime, fuzz_seed: int) -> None:
    try_all(tmp_path, fuzz_seed, asked_for(QUICK), in_time)


@pytest.mark.slow
def test_more_bad_values_are_refused_or_harmless(tmp_path: Path, in_time: InTime) -> None:
    try_all(tmp_path, 1, MORE, in_time)
