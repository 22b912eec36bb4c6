"""Durations and times as Go and Kubernetes read, value and print them; every row was answered by their own code."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from makeway.api.quantity import Duration, MicroTime, Time, decode_hook, encode_hook

# text, nanoseconds, what Go prints
DURATIONS = [
    ("0", 0, "0s"),
    ("+0", 0, "0s"),
    ("-0", 0, "0s"),
    ("0s", 0, "0s"),
    ("1ns", 1, "1ns"),
    ("1us", 1_000, "1\u00b5s"),
    ("1\u00b5s", 1_000, "1\u00b5s"),
    ("1\u03bcs", 1_000, "1\u00b5s"),
    ("1500ns", 1_500, "1.5\u00b5s"),
    ("1.5us", 1_500, "1.5\u00b5s"),
    ("300ms", 3 * 10**8, "300ms"),
    ("1.5s", 15 * 10**8, "1.5s"),
    ("59s", 59 * 10**9, "59s"),
    ("60s", 6 * 10**10, "1m0s"),
    ("61s", 61 * 10**9, "1m1s"),
    ("1m", 6 * 10**10, "1m0s"),
    ("90s", 9 * 10**10, "1m30s"),
    ("1h", 36 * 10**11, "1h0m0s"),
    ("4h", 144 * 10**11, "4h0m0s"),
    ("1h30m", 54 * 10**11, "1h30m0s"),
    ("1h0m5s", 3605 * 10**9, "1h0m5s"),
    ("24h", 864 * 10**11, "24h0m0s"),
    ("100h", 36 * 10**13, "100h0m0s"),
    ("-1m", -6 * 10**10, "-1m0s"),
    ("-1.5h", -54 * 10**11, "-1h30m0s"),
    ("+5s", 5 * 10**9, "5s"),
    (".5s", 5 * 10**8, "500ms"),
    ("5.s", 5 * 10**9, "5s"),
    ("1h1h", 72 * 10**11, "2h0m0s"),
    ("1s1h", 3601 * 10**9, "1h0m1s"),
    ("1.5h30m", 72 * 10**11, "2h0m0s"),
    ("0.3333333333333333333h", 12 * 10**11, "20m0s"),
    ("0.333333333333333h", 1_199_999_999_999, "19m59.999999999s"),
    ("0.9999999999999999999ns", 1, "1ns"),
    ("0.9999999999999999999s", 10**9, "1s"),
    ("0.100000000000000000000h", 36 * 10**10, "6m0s"),
    ("0.00000000000001h", 0, "0s"),
    ("1.0000000001s", 10**9, "1s"),
    ("2562047h47m16.854775807s", 9_223_372_036_854_775_807, "2562047h47m16.854775807s"),
    ("-2562047h47m16.854775808s", -9_223_372_036_854_775_808, "-2562047h47m16.854775808s"),
    ("9223372036854775807ns", 9_223_372_036_854_775_807, "2562047h47m16.854775807s"),
    ("-9223372036854775808ns", -9_223_372_036_854_775_808, "-2562047h47m16.854775808s"),
    ("0000000000000000000000001s", 10**9, "1s"),
    ("39h9m14.425s", 140_954_425 * 10**6, "39h9m14.425s"),
    ("9007199254740993ns", 9_007_199_254_740_993, "2501h59m59.254740993s"),
    ("0.830103483285477580700h", 2_988_372_539_827, "49m48.372539827s"),
    ("0.0000001h", 360_000, "360\u00b5s"),
    ("0.142077428181388888h", 511_478_741_453, "8m31.478741453s"),
    ("0.9780491401716665h", 3_520_976_904_617, "58m40.976904617s"),
    ("0.14310946788333333m", 8_586_568_072, "8.586568072s"),
    ("0.000004957625335881479815s", 4_957, "4.957\u00b5s"),
    ("0.9537731703649999999h", 3_433_583_413_313, "57m13.583413313s"),
    ("0.9424984220000000000m", 56_549_905_319, "56.549905319s"),
]

NO_DURATIONS = [
    "", "+", "-", "00", "1", "1d", "1 s", " 1s", "1s ", "s", ".s", "-.s", "1.", "1h-1m", "1S", "1M", "1\u00b5", "1e3s",
    "1_0s", "9223372036854775808ns", "2562048h", "9223372036854775.808us", "99999999999999999999s", "1.2.3s",
    "\u0661s", "--1s", "0.s0", "3000000h",
]  # fmt: skip

# text, nanoseconds since the epoch, what Kubernetes prints
TIMES = [
    ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
    ("2026-01-01T00:00:00Z", 17_672_256 * 10**11, "2026-01-01T00:00:00Z"),
    ("2026-01-01T00:00:00.999999999Z", 1_767_225_600_999_999_999, "2026-01-01T00:00:00Z"),
    ("2026-01-01T00:00:00.9999999999999Z", 1_767_225_600_999_999_999, "2026-01-01T00:00:00Z"),
    ("2026-01-01T00:00:00,5Z", 17_672_256_005 * 10**8, "2026-01-01T00:00:00Z"),
    ("2026-01-01T3:04:05Z", 1_767_236_645 * 10**9, "2026-01-01T03:04:05Z"),
    ("2026-01-01T00:00:00+01:00", 1_767_222 * 10**12, "2025-12-31T23:00:00Z"),
    ("2026-01-01T00:00:00-00:30", 17_672_274 * 10**11, "2026-01-01T00:30:00Z"),
    ("2026-01-01T00:00:00-00:00", 17_672_256 * 10**11, "2026-01-01T00:00:00Z"),
    ("2026-01-01T00:00:00+24:60", 17_671_356 * 10**11, "2025-12-30T23:00:00Z"),
    ("1969-12-31T23:59:59.5Z", -5 * 10**8, "1969-12-31T23:59:59Z"),
    ("2024-02-29T12:00:00Z", 1_709_208 * 10**12, "2024-02-29T12:00:00Z"),
    ("2000-02-29T00:00:00Z", 9_517_824 * 10**11, "2000-02-29T00:00:00Z"),
    ("0000-02-29T00:00:00Z", -621_621_216 * 10**11, "0000-02-29T00:00:00Z"),
    ("0000-01-01T00:00:00Z", -621_672_192 * 10**11, "0000-01-01T00:00:00Z"),
    ("0000-01-01T00:00:00+01:00", -621_672_228 * 10**11, "-0001-12-31T23:00:00Z"),
    ("9999-12-31T23:59:59Z", 253_402_300_799 * 10**9, "9999-12-31T23:59:59Z"),
    ("9999-12-31T23:59:59-01:00", 253_402_304_399 * 10**9, "10000-01-01T00:59:59Z"),
    ("0001-01-01T00:00:01Z", -62_135_596_799 * 10**9, "0001-01-01T00:00:01Z"),
    ("2026-12-31T23:59:59.1-11:30", 17_988_029_991 * 10**8, "2027-01-01T11:29:59Z"),
]

NO_TIMES = [
    "", "2026-01-01", "2026-01-01 00:00:00Z", "2026-01-01t00:00:00Z", "2026-01-01T00:00:00z", "2026-01-01T00:00:00",
    "2026-01-01T00:00Z", "2026-1-01T00:00:00Z", "2026-01-01T00:0:00Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T23:59:60Z", "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+01", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00+00:61",
    "2026-01-01T00:00:00ZZ", " 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n", "12026-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z", "\u0662026-01-01T00:00:00Z",
]  # fmt: skip

MICRO_TIMES = [
    ("2026-01-01T00:00:00.123456Z", 1_767_225_600_123_456_000, "2026-01-01T00:00:00.123456Z"),
    ("2026-01-01T00:00:00,123456Z", 1_767_225_600_123_456_000, "2026-01-01T00:00:00.123456Z"),
    ("2026-01-01T00:00:00.000000+02:00", 17_672_184 * 10**11, "2025-12-31T22:00:00.000000Z"),
    ("2026-01-01T3:04:05.000001Z", 1_767_236_645_000_001_000, "2026-01-01T03:04:05.000001Z"),
    ("1969-12-31T23:59:59.999999Z", -1_000, "1969-12-31T23:59:59.999999Z"),
    ("2026-01-01T00:00:00.+12345Z", 1_767_225_600_012_345_000, "2026-01-01T00:00:00.012345Z"),
    ("2026-01-01T00:00:00.-00000Z", 17_672_256 * 10**11, "2026-01-01T00:00:00.000000Z"),
]

NO_MICRO_TIMES = [
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.12345Z", "2026-01-01T00:00:00.1234567Z",
    "2026-01-01T00:00:00.-00001Z", "2026-01-01T00:00:00.123456",
]  # fmt: skip


@pytest.mark.parametrize(("text", "nanos", "canonical"), DURATIONS, ids=[ascii(row[0]) for row in DURATIONS])
def test_a_duration_is_valued_and_printed_as_go_does(text: str, nanos: int, canonical: str) -> None:
    duration = Duration.parse(text)
    assert (duration.nanos, str(duration)) == (nanos, canonical)


@pytest.mark.parametrize("text", NO_DURATIONS, ids=ascii)
def test_what_go_refuses_as_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        Duration.parse(text)


def test_durations_that_overflow_together_are_refused_although_go_wraps_them_to_zero() -> None:
    with pytest.raises(ValueError, match="longer than 64-bit nanoseconds"):
        Duration.parse("9223372036854775808ns9223372036854775808ns")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("4h", "4h"), ("60s", "1m"), ("90m", "1h30m"), ("59s", "59s"), ("-60s", "-1m"), ("0", "0s"), ("10m", "10m"),
        ("10h", "10h"), ("100s", "1m40s"), ("10s", "10s"), ("1h5s", "1h0m5s"), ("20h10m", "20h10m"), ("500ms", "500ms"),
        ("24h", "24h"),
    ],
)  # fmt: skip
def test_the_short_form_has_no_zero_tail(text: str, short: str) -> None:
    assert Duration.parse(text).short() == short


def test_milliseconds_of_a_duration_are_rounded_toward_zero() -> None:
    assert [Duration(n).millis for n in (1_999_999, -1_999_999, 999_999, -999_999, 0)] == [1, -1, 0, 0, 0]


def test_a_duration_of_seconds_is_exact() -> None:
    assert Duration.of_seconds(90) == Duration.parse("1m30s") > Duration.of_seconds(89)


@pytest.mark.parametrize("text", ["9" * 1_000_000 + "s", "1" + "s" * 1_000_000, "1." * 500_000], ids=range(3))
def test_a_long_text_that_is_no_duration_is_refused_briefly(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration") as refusal:
        Duration.parse(text)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(("text", "nanos", "canonical"), TIMES, ids=[row[0] for row in TIMES])
def test_a_time_is_valued_and_printed_as_kubernetes_does(text: str, nanos: int, canonical: str) -> None:
    time = Time.parse(text)
    assert (time.nanos, str(time)) == (nanos, canonical)


@pytest.mark.parametrize("text", NO_TIMES, ids=ascii)
def test_what_go_refuses_as_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        Time.parse(text)


@pytest.mark.parametrize(("text", "nanos", "canonical"), MICRO_TIMES, ids=[row[0] for row in MICRO_TIMES])
def test_a_micro_time_is_valued_and_printed_as_kubernetes_does(text: str, nanos: int, canonical: str) -> None:
    time = MicroTime.parse(text)
    assert (type(time), time.nanos, str(time)) == (MicroTime, nanos, canonical)


@pytest.mark.parametrize("text", NO_MICRO_TIMES)
def test_a_micro_time_needs_its_six_digits(text: str) -> None:
    with pytest.raises(ValueError, match=r"like 2026-01-01T00:00:00\.000000Z"):
        MicroTime.parse(text)


def test_the_zero_time_of_go_prints_as_a_time_and_not_as_null() -> None:
    assert str(Time.parse("0001-01-01T00:00:00Z")) == "0001-01-01T00:00:00Z"


def test_seconds_and_milliseconds_of_a_time_are_rounded_down() -> None:
    before = Time.parse("1969-12-31T23:59:59.9995Z")
    assert (before.seconds, before.millis, before.nanos) == (-1, -1, -500_000)
    assert str(Time.of_millis(-1)) == "1969-12-31T23:59:59Z"
    assert Time.of_millis(1_767_225_600_123).millis == 1_767_225_600_123


def test_times_are_equal_by_instant() -> None:
    times = {Time.parse("2026-01-01T00:00:00Z"), Time.parse("2026-01-01T01:00:00+01:00")}
    assert times == {MicroTime.parse("2026-01-01T00:00:00.000000Z")}
    assert Time.parse("2026-01-01T00:00:00Z") < Time.parse("2026-01-01T00:00:00.000000001Z")


def test_a_micro_time_and_a_time_of_the_same_text_do_not_share_a_cache_entry() -> None:
    text = "2026-03-01T00:00:00.250000Z"
    assert [str(Time.parse(text)), str(MicroTime.parse(text))] == ["2026-03-01T00:00:00Z", text]


@pytest.mark.parametrize("kind", [Duration, Time, MicroTime])
def test_only_a_text_is_a_duration_or_a_time(kind: Any) -> None:
    for value, got in ((None, "null"), (5, "a number"), (["1s"], "an array")):
        with pytest.raises(ValueError, match=f"^expected a {kind.noun}, got {got}$"):
            kind.parse(value)


def test_durations_and_times_cannot_be_changed_and_survive_a_copy() -> None:
    values: list[Any] = [Duration(5), Time(5), MicroTime(5)]
    for value in values:
        with pytest.raises(AttributeError):
            value.nanos = 6
        twin = copy.deepcopy(value)
        assert (type(twin), twin) == (type(value), value)


class Box(msgspec.Struct):
    at: Time | None = None
    exactly: MicroTime | None = None
    within: Duration | None = None


def test_msgspec_reads_and_writes_durations_and_times_through_the_hooks() -> None:
    text = b'{"at":"2026-01-01T00:00:00.7+01:00","exactly":"2026-01-01T00:00:00.123456Z","within":"90s"}'
    box = msgspec.json.decode(text, type=Box, dec_hook=decode_hook)
    written = msgspec.json.encode(box, enc_hook=encode_hook)
    assert written == b'{"at":"2025-12-31T23:00:00Z","exactly":"2026-01-01T00:00:00.123456Z","within":"1m30s"}'


def test_a_null_time_is_no_time() -> None:
    assert msgspec.json.decode(b'{"at":null}', type=Box, dec_hook=decode_hook).at is None
