"""Measures in display form: spans, amounts, shares. Input is exact; only this module rounds."""

from __future__ import annotations

from fractions import Fraction

from makeway.api.quantity import Duration, Quantity, Time
from makeway.core.messages import amount

NOTHING = "-"  # nothing to measure
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_SHORT = 6  # characters of an exact amount


def number(value: Fraction | int, digits: int = 3) -> int | float:
    """A JSON number: an integer if the value is one, else rounded to so many decimals."""
    rounded = round(Fraction(value), digits)
    return int(rounded) if rounded.denominator == 1 else float(rounded)


def seconds(millis: Fraction | int) -> int | float:
    if isinstance(millis, int):  # a shortcut for the many integers
        return millis / 1000 if millis % 1000 else millis // 1000
    return number(millis / 1000)


def unit_seconds(amount_millis: Fraction | int, resource: str) -> int | float:
    """Amount times milliseconds in units times seconds: for cpu, cores times seconds."""
    return number(Fraction(amount_millis) / (1000 * units(resource)))


def units(resource: str) -> int:
    """The number of our integers in one unit of a resource."""
    return Quantity.parse("1").in_units(resource)


def moment(at: int) -> str:
    """RFC 3339; with thousandths if there are any, so that different times look different."""
    text = str(Time.of_millis(at))
    return text if at % 1000 == 0 else f"{text[:-1]}.{at % 1000:03}Z"


def span(millis: Fraction | int, *, exact: bool = False) -> str:
    """A duration: exact to the millisecond as ``1h23m20.5s``, else its two leading units: ``1h23m``."""
    whole = round(millis)
    size = abs(whole)
    if not exact:
        grain = 60_000 if size >= 3_600_000 else 1000 if size >= 60_000 else 100 if size >= 10_000 else 1
        whole = (-1 if whole < 0 else 1) * ((size + grain // 2) // grain * grain)
    return Duration(whole * 10**6).short()


def level(value: Fraction | int, resource: str) -> str:
    """An amount in few characters: exact if that is short, else with one decimal: ``1500m``, ``1.2Gi``."""
    whole = round(value)
    text = amount(whole, resource)
    if whole == value and len(text) <= _SHORT:
        return text
    is_binary = Quantity.of_units(1, resource).format == "BinarySI"
    base, ranks = (1024, _BINARY) if is_binary else (1000, _DECIMAL)
    size, rank = abs(Fraction(value) / units(resource)), 0
    while size >= base and rank < len(ranks) - 1:
        size /= base
        rank += 1
    return f"{'-' if value < 0 else ''}{number(size, 2 if size < 10 else 1)}{ranks[rank]}"


def percent(share: Fraction | None) -> str:
    return NOTHING if share is None else f"{number(share * 100, 1)}%"


def ratio(part: int, whole: int) -> Fraction | None:
    return Fraction(part, whole) if whole else None


def plain(text: str) -> str:
    """A text without control characters: a name must not steer a terminal nor break a line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
