"""Quantities as Kubernetes reads, values and prints them; every row was answered by its own library."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import msgspec
import pytest

from makeway.api.quantity import MAX_AMOUNT, MIN_AMOUNT, Duration, Format, Quantity, clamped, decode_hook, encode_hook

SI: Format = "DecimalSI"
BI: Format = "BinarySI"
EX: Format = "DecimalExponent"

# text, amount in 10^-9, canonical text, format
ACCEPTED: list[tuple[str, int, str, Format]] = [
    ("0", 0, "0", SI),
    ("00", 0, "0", SI),
    ("-0", 0, "0", SI),
    ("+0", 0, "0", SI),
    ("0Ki", 0, "0", BI),
    ("1", 10**9, "1", SI),
    ("+1", 10**9, "1", SI),
    ("01", 10**9, "1", SI),
    ("007", 7 * 10**9, "7", SI),
    ("-1", -(10**9), "-1", SI),
    ("1.", 10**9, "1", SI),
    (".5", 5 * 10**8, "500m", SI),
    ("5.", 5 * 10**9, "5", SI),
    ("0.5", 5 * 10**8, "500m", SI),
    ("-.5", -5 * 10**8, "-500m", SI),
    ("1.500", 15 * 10**8, "1500m", SI),
    ("1000m", 10**9, "1", SI),
    ("1500m", 15 * 10**8, "1500m", SI),
    ("100.5m", 100_500_000, "100500u", SI),
    ("0.1m", 100_000, "100u", SI),
    ("1u", 1_000, "1u", SI),
    ("1000n", 1_000, "1u", SI),
    ("1n", 1, "1n", SI),
    ("0.5n", 1, "1n", SI),
    ("0.1n", 1, "1n", SI),
    ("-0.1n", -1, "-1n", SI),
    ("1.0000000001", 1_000_000_001, "1000000001n", SI),
    ("999999999n", 999_999_999, "999999999n", SI),
    ("1000000u", 10**9, "1", SI),
    ("k", 0, "0", SI),
    ("1k", 10**12, "1k", SI),
    ("1000k", 10**15, "1M", SI),
    ("1.5k", 15 * 10**11, "1500", SI),
    ("12M", 12 * 10**15, "12M", SI),
    ("1500M", 15 * 10**17, "1500M", SI),
    ("1G", 10**18, "1G", SI),
    ("1T", 10**21, "1T", SI),
    ("1P", 10**24, "1P", SI),
    ("1E", 10**27, "1E", SI),
    ("999E", 999 * 10**27, "999E", SI),
    ("0.001E", 10**24, "1P", SI),
    ("1000P", 10**27, "1E", SI),
    ("123456789", 123_456_789 * 10**9, "123456789", SI),
    ("1000000", 10**15, "1M", SI),
    ("1001000", 1001 * 10**12, "1001k", SI),
    ("1Ki", 1024 * 10**9, "1Ki", BI),
    ("512Ki", 524_288 * 10**9, "512Ki", BI),
    ("1023Ki", 1_047_552 * 10**9, "1023Ki", BI),
    ("1024Ki", 1_048_576 * 10**9, "1Mi", BI),
    ("1536Ki", 1_572_864 * 10**9, "1536Ki", BI),
    ("1024Mi", 1_073_741_824 * 10**9, "1Gi", BI),
    ("1.5Gi", 1_610_612_736 * 10**9, "1536Mi", BI),
    ("0.5Gi", 536_870_912 * 10**9, "512Mi", BI),
    ("0.5Ki", 512 * 10**9, "512", BI),
    ("1.1Ki", 11_264 * 10**8, "1126400m", BI),
    ("0.0005Ki", 512 * 10**6, "512m", SI),
    ("-0.5Ki", -512 * 10**9, "-512", BI),
    ("-1.5Gi", -1_610_612_736 * 10**9, "-1536Mi", BI),
    ("1Ei", 1_152_921_504_606_846_976 * 10**9, "1Ei", BI),
    ("7Ei", 8_070_450_532_247_928_832 * 10**9, "7Ei", BI),
    ("8Ei", 9_223_372_036_854_775_807 * 10**9, "9223372036854775807", BI),
    ("-8Ei", -9_223_372_036_854_775_807 * 10**9, "-9223372036854775807", BI),
    ("9999Ei", 9_223_372_036_854_775_807 * 10**9, "9223372036854775807", BI),
    ("0.1Ei", 1_152_921_504_606_846_976 * 10**8, "115292150460684697600m", BI),
    ("1000Ki", 1024 * 10**12, "1000Ki", BI),
    ("4Ti", 4_398_046_511_104 * 10**9, "4Ti", BI),
    ("1024Pi", 1_152_921_504_606_846_976 * 10**9, "1Ei", BI),
    ("1e3", 10**12, "1e3", EX),
    ("1E3", 10**12, "1e3", EX),
    ("1e+3", 10**12, "1e3", EX),
    ("1e-3", 10**6, "1e-3", EX),
    ("1e0", 10**9, "1", EX),
    ("12e6", 12 * 10**15, "12e6", EX),
    ("1.5e3", 15 * 10**11, "1500", EX),
    ("15e2", 15 * 10**11, "1500", EX),
    ("1e1", 10**10, "10", EX),
    ("1e2", 10**11, "100", EX),
    ("1e-9", 1, "1e-9", EX),
    ("1e-10", 1, "1e-9", EX),
    ("1e-400", 1, "1e-9", EX),
    ("1e18", 10**27, "1e18", EX),
    ("1e21", 10**30, "1e21", EX),
    ("1e22", 10**31, "10e21", EX),
    ("1e100", 10**109, "10e99", EX),
    ("100e-2", 10**9, "1", EX),
    ("-2e3", -2 * 10**12, "-2e3", EX),
    ("1e03", 10**12, "1e3", EX),
    ("1e4294967299", 10**12, "1e3", EX),
    ("9223372036854775807", 9_223_372_036_854_775_807 * 10**9, "9223372036854775807", SI),
    ("9223372036854775808", 9_223_372_036_854_775_808 * 10**9, "9223372036854775808", SI),
    ("-9223372036854775808", -9_223_372_036_854_775_808 * 10**9, "-9223372036854775808", SI),
    ("18446744073709551616", 18_446_744_073_709_551_616 * 10**9, "18446744073709551616", SI),
    ("123456789012345678901", 123_456_789_012_345_678_901 * 10**9, "123456789012345678901", SI),
    ("0.000000000000000000000000001Ei", 2, "2n", SI),
    ("1.00000000000000000001Ki", 1_024_000_000_001, "1024000000001n", BI),
    (
        "1.000000000000000000000000000000000000000000000000000000000000000000000000000000001Ki",
        1_024_000_000_001,
        "1024000000001n",
        BI,
    ),
    ("0.000000000000000000000000000867361737988403547205962240695953369140625Ei", 1, "1n", SI),
    ("0.0000000000000000000000000008673617379884035472059622406959533691406251Ei", 2, "2n", SI),
    ("+", 0, "0", SI),
    ("-", 0, "0", SI),
    (".", 0, "0", SI),
    ("Ki", 0, "0", BI),
    ("Ti", 0, "0", BI),
    ("e5", 0, "0", EX),
    ("e-9", 0, "0", EX),
    ("-k", 0, "0", SI),
    (" 1 ", 10**9, "1", SI),
    ("\u00a01Gi\u3000", 1_073_741_824 * 10**9, "1Gi", BI),
]

REFUSED = [
    "", " ", "1 Gi", "1 1", "--1", "+-1", "1-", "1+", "1..2", "1.2.3", "1e", "1ee3", "1e+", "1e1.5", "e-10", "Pi",
    "Ei", "1i", "1K", "1ki", "1g", "1Gb", "1GB", "1Kim", "1mm", "1m5", "1Ki3", "1e9223372036854775808", "0x10",
    "1_000", "1,5", "abc", "NaN", "inf", "\t1", "1\n", "\u0661", "\uff11", "\u001c1", "\u200b1", "1\u00b5", "1Zi",
]  # fmt: skip


@pytest.mark.parametrize(("text", "nano", "canonical", "format"), ACCEPTED, ids=[ascii(row[0]) for row in ACCEPTED])
def test_a_quantity_is_valued_and_printed_as_kubernetes_does(
    text: str, nano: int, canonical: str, format: Format
) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.nano, str(quantity), quantity.format) == (nano, canonical, format)


@pytest.mark.parametrize("text", REFUSED, ids=ascii)
def test_what_kubernetes_refuses_as_a_quantity_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as refusal:
        Quantity.parse(text)
    assert "\n" not in str(refusal.value)


def test_a_refusal_names_the_unknown_suffix_and_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'1GB' is not a quantity: unknown suffix 'GB', allowed are n u m k M G"):
        Quantity.parse("1GB")


def test_a_decimal_amount_beyond_exa_keeps_its_suffix_where_kubernetes_drops_it() -> None:
    assert [str(Quantity.parse(text)) for text in ("1000E", "1500000E", "1" + "0" * 21)] == [
        "1000E",
        "1500000E",
        "1000E",
    ]


@pytest.mark.parametrize(
    ("value", "nano", "canonical"),
    [
        (0, 0, "0"),
        (-3, -3 * 10**9, "-3"),
        (1000, 10**12, "1k"),
        (2**64, 2**64 * 10**9, "18446744073709551616"),
        (0.1, 10**8, "100m"),
        (2.50, 25 * 10**8, "2500m"),
        (1000.0, 10**12, "1k"),
        (1e16, 10**25, "10e15"),
        (1e-7, 100, "100e-9"),
        (1.7976931348623157e308, 17976931348623157 * 10**301, "179769313486231570e291"),
    ],
)
def test_a_json_number_counts_as_its_shortest_text(value: float, nano: int, canonical: str) -> None:
    quantity = Quantity.parse(value)
    assert (quantity.nano, str(quantity)) == (nano, canonical)


@pytest.mark.parametrize(
    ("value", "got"),
    [(None, "null"), (True, "a boolean"), ([1], "an array"), ({}, "an object"), (b"1", "bytes")],
)
def test_a_value_that_cannot_be_a_quantity_is_named(value: Any, got: str) -> None:
    with pytest.raises(ValueError, match=f"^expected a quantity, got {got}$"):
        Quantity.parse(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_float_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity.parse(value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0" * 1_000_000 + "1", "1"),
        ("0." + "0" * 1_000_000 + "1", "1n"),
        ("1e-999999999", "1e-9"),
        ("0e999999999", "0"),
        ("9" * 1_000_000 + "Ki", str(MAX_AMOUNT)),
        ("0." + "3" * 1_000_000 + "Ki", "341333333334n"),
        ("1e" + "0" * 1_000_000 + "3", "1e3"),
        ("9" * 4000, "9" * 4000),
    ],
    ids=range(8),
)
def test_a_long_text_with_a_small_meaning_is_read(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    "value", ["1e999999999", "9" * 4001, "9" * 1_000_000, "1e4000", 10**4000, 10**9000], ids=range(6)
)
def test_an_amount_of_too_many_digits_is_refused_unseen(value: str | int) -> None:
    with pytest.raises(ValueError, match="is too large: at most 4000 digits") as refusal:
        Quantity.parse(value)
    assert len(str(refusal.value)) < 200, "the text itself is not repeated"


@pytest.mark.parametrize(
    ("text", "resource", "units"),
    [
        ("100.5m", "cpu", 101),
        ("-100.5m", "cpu", -101),
        ("2", "cpu", 2000),
        ("1n", "cpu", 1),
        ("0", "cpu", 0),
        ("1.5", "nvidia.com/gpu", 2),
        ("-1.5", "nvidia.com/gpu", -2),
        ("1Gi", "memory", 2**30),
        ("1n", "memory", 1),
        ("10E", "memory", 10**19),
    ],
)
def test_units_round_away_from_zero(text: str, resource: str, units: int) -> None:
    assert Quantity.parse(text).in_units(resource) == units


@pytest.mark.parametrize(
    ("units", "resource", "text"),
    [
        (1500, "cpu", "1500m"),
        (3000, "cpu", "3"),
        (2**30, "memory", "1Gi"),
        (1000, "memory", "1k"),
        (2048, "ephemeral-storage", "2Ki"),
        (2**21, "hugepages-2Mi", "2Mi"),
        (2048, "pods", "2048"),
        (1000, "pods", "1k"),
        (0, "memory", "0"),
        (MAX_AMOUNT, "memory", "9223372036854775807"),
        (MIN_AMOUNT, "memory", "-8Ei"),
    ],
)
def test_units_are_shown_the_way_of_their_resource(units: int, resource: str, text: str) -> None:
    quantity = Quantity.of_units(units, resource)
    assert (str(quantity), quantity.in_units(resource)) == (text, units)


def test_amounts_are_clamped_to_64_bits() -> None:
    assert [clamped(n) for n in (2**63, -(2**63) - 1, 5, -5)] == [MAX_AMOUNT, MIN_AMOUNT, 5, -5]


def test_quantities_are_equal_by_amount_whatever_the_format() -> None:
    one = {Quantity.parse(text) for text in ("1024", "1Ki", "1.024k", "1024e0", "1024000m")}
    assert len(one) == 1
    assert Quantity.parse("1Ki") > Quantity.parse("1k") >= Quantity.parse("1e3") <= Quantity.parse("1000")


def test_a_quantity_is_comparable_with_quantities_only() -> None:
    other: Any = Duration(1)
    assert Quantity(1) != other
    assert Quantity(1) != 1
    with pytest.raises(TypeError):
        assert Quantity(1) < other


def test_a_quantity_cannot_be_changed() -> None:
    quantity: Any = Quantity.parse("1")
    with pytest.raises(AttributeError):
        quantity.format = "BinarySI"
    with pytest.raises(AttributeError):
        quantity.nano = 2
    with pytest.raises(AttributeError):
        quantity.remark = "new"


def test_a_copied_or_pickled_quantity_is_the_same() -> None:
    quantity = Quantity.parse("1536Mi")
    for twin in (copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))):
        assert (twin, str(twin), twin.format) == (quantity, "1536Mi", "BinarySI")


def test_the_same_text_gives_the_same_object() -> None:
    assert Quantity.parse("77m") is Quantity.parse("77m")


class Box(msgspec.Struct):
    amounts: dict[str, Quantity]


def test_msgspec_reads_and_writes_quantities_through_the_hooks() -> None:
    box = msgspec.json.decode(b'{"amounts":{"a":"0.5","b":1024,"c":1.5,"d":"1.5Gi"}}', type=Box, dec_hook=decode_hook)
    written = msgspec.json.encode(box, enc_hook=encode_hook)
    assert written == b'{"amounts":{"a":"500m","b":"1024","c":"1500m","d":"1536Mi"}}'


def test_msgspec_adds_the_path_to_what_we_say() -> None:
    with pytest.raises(
        msgspec.ValidationError, match=r"^expected a quantity, got an array - at `\$\.amounts\[\.\.\.\]`$"
    ):
        msgspec.json.decode(b'{"amounts":{"a":[]}}', type=Box, dec_hook=decode_hook)


def test_the_hooks_leave_foreign_types_to_others() -> None:
    with pytest.raises(NotImplementedError):
        decode_hook(complex, "1")
    with pytest.raises(AttributeError):
        encode_hook(1j)
