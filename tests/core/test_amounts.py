"""64-bit arithmetic that saturates, and the one amount that is unlimited (S-1.2, 1.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.amounts import LEAST, MOST, UNLIMITED, add, multiply, subtract

U = UNLIMITED
ADDED = {
    "small numbers add up": (2, 3, 5),
    "negative ones too": (-2, -3, -5),
    "S-1.3 unlimited plus something is unlimited": (U, 5, U),
    "S-1.3 something plus unlimited is unlimited": (-5, U, U),
    "S-1.3 unlimited less something is unlimited": (U, -5, U),
    "the top is reached, not passed": (MOST - 1, 5, MOST),
    "the bottom is reached, not passed": (LEAST + 1, -5, LEAST),
    "next to the top nothing is lost": (MOST - 2, 1, MOST - 1),
}
SUBTRACTED = {
    "small numbers": (5, 3, 2),
    "below zero": (3, 5, -2),
    "S-1.3 unlimited less something is unlimited": (U, 5, U),
    "S-1.3 unlimited less unlimited is nothing": (U, U, 0),
    "S-1.3 something less unlimited is the least there is": (5, U, LEAST),
    "the bottom is reached, not passed": (LEAST + 1, 5, LEAST),
    "the top is reached, not passed": (MOST - 1, -5, MOST),
}
MULTIPLIED = {
    "small numbers": (5, 3, 15),
    "P21 a product beyond 64 bits stops at the top": (2**40, 2**40, MOST),
    "P21 and at the bottom": (2**40, -(2**40), LEAST),
}


@pytest.mark.parametrize(("a", "b", "total"), ADDED.values(), ids=ADDED)
def test_adding(a: int, b: int, total: int) -> None:
    assert add(a, b) == total


@pytest.mark.parametrize(("a", "b", "rest"), SUBTRACTED.values(), ids=SUBTRACTED)
def test_subtracting(a: int, b: int, rest: int) -> None:
    assert subtract(a, b) == rest


@pytest.mark.parametrize(("a", "b", "product"), MULTIPLIED.values(), ids=MULTIPLIED)
def test_multiplying(a: int, b: int, product: int) -> None:
    assert multiply(a, b) == product


amounts = st.integers(LEAST, MOST) | st.integers(-5, 5) | st.sampled_from([LEAST, MOST - 1, MOST])


@pytest.mark.property
@given(a=amounts, b=amounts)
def test_no_result_leaves_the_64_bits(a: int, b: int) -> None:
    assert all(LEAST <= result <= MOST for result in (add(a, b), subtract(a, b), multiply(a, b)))
