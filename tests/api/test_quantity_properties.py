"""What holds for every quantity, duration and time, not only for those in the tables."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.quantity import MAX_AMOUNT, Duration, MicroTime, Quantity, Time, decode_hook, encode_hook

pytestmark = pytest.mark.property

FACTORS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18), "e3": Fraction(10**3), "E-4": Fraction(1, 10**4), "e+30": Fraction(10**30),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}  # fmt: skip

digits = st.text("0123456789", max_size=30)
numbers = st.builds(
    lambda sign, whole, fraction: f"{sign}{whole}.{fraction}",
    st.sampled_from(["", "+", "-"]),
    st.text("0123456789", min_size=1, max_size=30),
    digits,
)
quantities = st.builds(lambda number, suffix: f"{number}{suffix}", numbers, st.sampled_from(sorted(FACTORS)))
int64 = st.integers(-MAX_AMOUNT - 1, MAX_AMOUNT)
# years 0 to 9999: what parses is printed so that it parses again
instants = st.integers(-62_167_219_200 * 10**9, 253_402_300_800 * 10**9 - 1)


def meaning(text: str) -> int:
    """A second opinion on a quantity in 10^-9, by fractions."""
    suffix = text.lstrip("+-.0123456789")
    number = text.removesuffix(suffix)
    exact = abs(Fraction(number.rstrip(".") if number.endswith(".") else number)) * FACTORS[suffix] * 10**9
    nano = -(-exact.numerator // exact.denominator)
    if suffix.endswith("i"):
        nano = min(nano, MAX_AMOUNT * 10**9)
    return -nano if text.startswith("-") else nano


@given(quantities)
def test_a_quantity_means_its_fraction_rounded_away_from_zero(text: str) -> None:
    assert Quantity.parse(text).nano == meaning(text)


@given(quantities)
def test_a_printed_quantity_reads_back_as_itself_and_prints_the_same(text: str) -> None:
    quantity = Quantity.parse(text)
    again = Quantity.parse(str(quantity))
    assert (again, str(again)) == (quantity, str(quantity))


@given(quantities, quantities)
def test_quantities_are_ordered_as_their_fractions(left: str, right: str) -> None:
    a, b, x, y = Quantity.parse(left), Quantity.parse(right), meaning(left), meaning(right)
    assert (a < b, a <= b, a == b, a >= b, a > b) == (x < y, x <= y, x == y, x >= y, x > y)
    assert a != b or hash(a) == hash(b)


@given(quantities, st.sampled_from(["cpu", "memory"]))
def test_units_are_the_least_that_cover_the_amount(text: str, resource: str) -> None:
    quantity = Quantity.parse(text)
    size = 10**6 if resource == "cpu" else 10**9
    covered, asked = abs(quantity.in_units(resource)) * size, abs(quantity.nano)
    assert covered - size < asked <= covered or asked == covered == 0
    assert quantity.in_units(resource) * quantity.nano >= 0, "rounding keeps the sign"


@given(int64, st.sampled_from(["cpu", "memory", "pods", "hugepages-1Gi"]))
def test_shown_units_are_the_same_units(units: int, resource: str) -> None:
    assert Quantity.of_units(units, resource).in_units(resource) == units


@given(st.text("0123456789.+-eEinumkKMGTP \t\u00b5", max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    for kind in (Quantity, Duration, Time, MicroTime):
        try:
            value = kind.parse(text)
        except ValueError:
            continue
        assert kind.parse(str(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_as_the_decimal_that_is_printed_for_it(value: float) -> None:
    exact = abs(Fraction(repr(value))) * 10**9
    assert abs(Quantity.parse(value).nano) == -(-exact.numerator // exact.denominator)


@given(int64)
def test_a_printed_duration_reads_back_as_itself(nanos: int) -> None:
    duration = Duration(nanos)
    assert Duration.parse(str(duration)) == Duration.parse(duration.short()) == duration
    assert str(Duration.parse(str(duration))) == str(duration)


@given(int64, int64)
def test_durations_are_ordered_as_their_nanoseconds(left: int, right: int) -> None:
    assert (Duration(left) < Duration(right), Duration(left) == Duration(right)) == (left < right, left == right)


@given(st.integers(0, 10**5), st.text("0123456789", max_size=25), st.sampled_from(["us", "ms", "s", "m", "h"]))
def test_a_fraction_is_at_most_one_nanosecond_off_because_go_uses_doubles(whole: int, fraction: str, unit: str) -> None:
    size = {"us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}[unit]
    exact = Fraction(f"{whole}.{fraction}0") * size
    assert abs(Duration.parse(f"{whole}.{fraction}{unit}").nanos - exact) <= 1


@given(st.integers(1, 2**63 - 1), st.sampled_from(["us", "ms", "s", "m", "h"]))
def test_a_fraction_is_computed_as_doubles_would(digits_as_number: int, unit: str) -> None:
    size = {"us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}[unit]
    text = str(digits_as_number)
    by_doubles = int(float(digits_as_number) * (float(size) / float(10 ** len(text))))
    assert Duration.parse(f"0.{text}{unit}").nanos == by_doubles


@given(instants)
def test_a_printed_time_reads_back_cut_to_what_it_prints(nanos: int) -> None:
    time, micro = Time(nanos), MicroTime(nanos)
    assert Time.parse(str(time)).nanos == nanos - nanos % 10**9
    assert MicroTime.parse(str(micro)).nanos == nanos - nanos % 1000
    assert (str(Time.parse(str(time))), str(MicroTime.parse(str(micro)))) == (str(time), str(micro))


@given(instants, st.integers(-23, 23), st.integers(0, 59))
def test_an_offset_moves_the_clock_and_not_the_instant(nanos: int, hours: int, minutes: int) -> None:
    sign = "-" if hours < 0 else "+"
    moved = (abs(hours) * 60 + minutes) * (-1 if hours < 0 else 1) * 60 * 10**9
    text = str(Time(nanos)).removesuffix("Z")
    assert Time.parse(f"{text}{sign}{abs(hours):02}:{minutes:02}").nanos == nanos - nanos % 10**9 - moved


@given(instants, instants)
def test_printed_micro_times_sort_as_the_instants(left: int, right: int) -> None:
    a, b = MicroTime(left - left % 1000), MicroTime(right - right % 1000)
    assert (a < b, a == b) == (str(a) < str(b), str(a) == str(b))


@given(st.lists(quantities, max_size=5))
def test_what_msgspec_writes_it_reads_again(texts: list[str]) -> None:
    values = [Quantity.parse(text) for text in texts]
    written = msgspec.json.encode(values, enc_hook=encode_hook)
    assert msgspec.json.decode(written, type=list[Quantity], dec_hook=decode_hook) == values
