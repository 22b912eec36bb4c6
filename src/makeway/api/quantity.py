"""Kubernetes quantities, Go durations and RFC 3339 times <-> exact integers.

A value is one immutable integer in 10^-9 units (of an amount, of a second) together with its printed text:
``Quantity``, ``Duration``, ``Time`` and ``MicroTime``. Texts are parsed once and kept in bounded caches, since
objects repeat them; ``decode_hook`` and ``encode_hook`` connect the four to msgspec.

Promises: a text is accepted, parsed and printed as Kubernetes does it (resource.Quantity, metav1.Duration, metav1.Time,
metav1.MicroTime), oddities included. What differs, on purpose:

- ``str`` is always the canonical form; Kubernetes prints some other spellings (``+1``, ``1.500``) as written;
- a DecimalSI amount from 10^21 on prints as ``1000E``, where Kubernetes loses the suffix and prints ``1``;
- an amount with more than 4000 digits before the point is refused, so that no text causes much work;
- a sum of durations that overflows is always refused, where Go's sum can wrap around to zero.

Values are equal and ordered by amount alone. A JSON float counts as its shortest decimal text; no other float occurs.

Not here: what amounts mean for quotas (``core.model``), whether they are allowed (``validation``), the current time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, Self

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

MAX_AMOUNT: Final = 2**63 - 1
MIN_AMOUNT: Final = -(2**63)
_NANO: Final = 10**9
_MILLI_IN_NANO: Final = 10**6


def clamped(amount: int) -> int:
    """The nearest integer that fits into signed 64 bits (S-1.2)."""
    return max(MIN_AMOUNT, min(MAX_AMOUNT, amount))


class _Exact:
    """An immutable integer and its text, made at once so that encoding is quick; comparable with its own type."""

    __slots__ = ("_amount", "text")
    _amount: int
    text: str
    noun: ClassVar[str]

    def __init__(self, amount: int) -> None:
        object.__setattr__(self, "_amount", amount)
        object.__setattr__(self, "text", self._print())

    def _print(self) -> str:
        raise NotImplementedError

    def _is_kin(self, other: _Exact) -> bool:
        return isinstance(other, _Exact) and other.noun == self.noun

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {self.noun} cannot be changed")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self._amount,)

    def __hash__(self) -> int:
        return hash(self._amount)

    def __eq__(self, other: object) -> bool:
        return self._amount == other._amount if isinstance(other, _Exact) and self._is_kin(other) else NotImplemented

    def __lt__(self, other: Self) -> bool:
        return self._amount < other._amount if self._is_kin(other) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._amount <= other._amount if self._is_kin(other) else NotImplemented


_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX_OF: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_RANKS: Final = ("", *_BINARY_SUFFIXES)
_SUFFIX_HELP: Final = "allowed are n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent like e3"

# Possessive quantifiers: a long text costs one pass, whatever follows the number.
_NUMBER: Final = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?")
_EXPONENT: Final = re.compile(r"[eE]([+-]?)(?=[0-9])0*+([0-9]{0,19})")

# The white space that Kubernetes trims, without tabs and line breaks: JSON escapes those, and so they are refused.
_SPACES: Final = " \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"

_MAX_DIGITS: Final = 4000  # before the point; Python itself turns integers into text up to 4300 digits
_LIMIT: Final = 10**_MAX_DIGITS
_BINARY_FRACTION_DIGITS: Final = 60 + 9  # the most decimal places that a multiple of 10^-9 / 2^60 has
_MAX_CACHED_LENGTH: Final = 64  # bounds the memory of a cache; longer texts are parsed every time


class Quantity(_Exact):
    """A quantity of Kubernetes, exact to 10^-9; ``format`` says how it prints."""

    __slots__ = ("format",)
    format: Format
    noun = "quantity"

    def __init__(self, nano: int, format: Format = "DecimalSI") -> None:
        object.__setattr__(self, "format", format)
        super().__init__(nano)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Quantity, (self._amount, self.format)

    @classmethod
    def parse(cls, value: str | int | float) -> Quantity:
        """Parse a value that stands in an object where a quantity is expected; ``ValueError`` says why it is none."""
        if isinstance(value, str):
            return _cached_quantity(value) if len(value) <= _MAX_CACHED_LENGTH else _read_quantity(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _wrong_type(cls, value)
        if isinstance(value, int) and abs(value) >= _LIMIT:
            raise _too_large("this number")
        return cls.parse(repr(value))

    @classmethod
    def of_units(cls, amount: int, resource: str) -> Quantity:
        """The quantity to show for an amount in the units of ``in_units`` (S-1.11)."""
        return _cached_units(amount, resource)

    @property
    def nano(self) -> int:
        return self._amount

    def in_units(self, resource: str) -> int:
        """Thousandths of a cpu, whole units of all else, rounded away from zero; not clamped (S-1.1)."""
        unit = _MILLI_IN_NANO if resource == "cpu" else _NANO
        return -(-self._amount // unit) if self._amount > 0 else self._amount // unit

    def _print(self) -> str:
        whole, rest = divmod(self._amount, _NANO)
        if self.format == "BinarySI" and rest == 0 and abs(whole) >= 1024:
            rank = 0
            while whole % 1024 == 0 and rank < len(_BINARY_RANKS) - 1:
                whole //= 1024
                rank += 1
            return f"{whole}{_BINARY_RANKS[rank]}"
        return _print_decimal(self._amount, with_exponent=self.format == "DecimalExponent")


def _print_decimal(nano: int, *, with_exponent: bool) -> str:
    """The text with the fewest digits and no fraction; the exponent is a multiple of three."""
    if nano == 0:
        return "0"
    mantissa, exponent = nano, -9
    while mantissa % 1000 == 0 and (with_exponent or exponent < 18):
        mantissa //= 1000
        exponent += 3
    if with_exponent:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX_OF[exponent]}"


def _read_quantity(text: str) -> Quantity:
    trimmed = text.strip(_SPACES)
    number = _NUMBER.match(trimmed)
    if not trimmed or number is None:
        raise ValueError("an empty text is not a quantity")
    whole, fraction, suffix = number[2].lstrip("0"), number[3] or "", trimmed[number.end() :]
    format: Format
    if suffix in _BINARY_SUFFIXES:
        format, exponent = "BinarySI", _BINARY_SUFFIXES[suffix]
    elif suffix in _DECIMAL_SUFFIXES:
        format, exponent = "DecimalSI", _DECIMAL_SUFFIXES[suffix]
    else:
        format, exponent = "DecimalExponent", _read_exponent(suffix, text)
    if not number[2] and not fraction:
        # Kubernetes reads a missing number as zero, but only in its fast path.
        if exponent < -9 or (format == "BinarySI" and exponent > 40):
            raise ValueError(f"{_shown(text)} is not a quantity: it has no digits")
        return Quantity(0, format)
    if format == "BinarySI":
        nano = _binary_nano(whole, fraction, exponent)
        if 0 < nano < _NANO:
            format = "DecimalSI"
    else:
        nano = _decimal_nano(whole, fraction, exponent, text)
    return Quantity(-nano if number[1] == "-" else nano, format)


def _read_exponent(suffix: str, text: str) -> int:
    match = _EXPONENT.fullmatch(suffix)
    exponent = int(f"{match[1]}{match[2] or '0'}") if match else 2**63
    if exponent != clamped(exponent):
        raise ValueError(f"{_shown(text)} is not a quantity: unknown suffix {_shown(suffix)}, {_SUFFIX_HELP}")
    return (exponent + 2**31) % 2**32 - 2**31  # Kubernetes keeps the low 32 bits


def _decimal_nano(whole: str, fraction: str, exponent: int, text: str) -> int:
    """The amount without its sign, rounded up to whole nanos."""
    digits = (whole + fraction).lstrip("0")
    shift = exponent - len(fraction) + 9
    if not digits:
        return 0
    if len(digits) + shift > _MAX_DIGITS + 9:  # decided by length, so that no large number is computed
        raise _too_large(_shown(text))
    if shift >= 0:
        return int(digits + "0" * shift)
    return int(digits[:shift] or "0") + bool(digits[shift:].strip("0"))


def _binary_nano(whole: str, fraction: str, exponent: int) -> int:
    """As ``_decimal_nano``, but capped to a 64-bit integer of whole units."""
    if len(whole) > 19:  # above the cap even without the suffix
        return MAX_AMOUNT * _NANO
    kept, dropped = fraction[:_BINARY_FRACTION_DIGITS], fraction[_BINARY_FRACTION_DIGITS:]
    nano, rest = divmod((int(f"0{whole}{kept}") << exponent) * _NANO, int("1" + "0" * len(kept)))
    return min(nano + bool(rest or dropped.strip("0")), MAX_AMOUNT * _NANO)


_UNITS: Final = {
    "ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6,
    "s": _NANO, "m": 60 * _NANO, "h": 3600 * _NANO,
}  # fmt: skip
_SEGMENT: Final = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?([^0-9.]++)")


class Duration(_Exact):
    """A duration of Go: 64-bit nanoseconds when parsed, any integer when computed."""

    __slots__ = ()
    noun = "duration"

    @classmethod
    def parse(cls, text: str) -> Duration:
        if not isinstance(text, str):
            raise _wrong_type(cls, text)
        return _cached_duration(text) if len(text) <= _MAX_CACHED_LENGTH else _read_duration(text)

    @classmethod
    def of_seconds(cls, seconds: int) -> Duration:
        return cls(seconds * _NANO)

    @property
    def nanos(self) -> int:
        return self._amount

    @property
    def millis(self) -> int:
        """Whole milliseconds, rounded toward zero."""
        return self._amount // 10**6 if self._amount >= 0 else -(-self._amount // 10**6)

    def short(self) -> str:
        """The text without trailing zero units, for people: ``4h``, ``1h30m``, ``59s``."""
        return re.sub("(?<=h)0m$", "", re.sub("(?<=m)0s$", "", str(self)))

    def _print(self) -> str:
        sign, nanos = ("-" if self._amount < 0 else ""), abs(self._amount)
        for unit, size in (("ns", 1), ("\u00b5s", 10**3), ("ms", 10**6)):
            if 0 < nanos < size * 1000:
                return f"{sign}{_point(nanos, size)}{unit}"
        minutes, rest = divmod(nanos, 60 * _NANO)
        hours, minutes = divmod(minutes, 60)
        prefix = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
        return f"{sign}{prefix}{_point(rest, _NANO)}s"


def _point(amount: int, unit: int) -> str:
    """``amount / unit`` in decimals, without trailing zeros; the unit is a power of ten."""
    whole, rest = divmod(amount, unit)
    return f"{whole}.{unit + rest}".replace(".1", ".", 1).rstrip("0") if rest else str(whole)


def _read_duration(text: str) -> Duration:
    negative, rest = text.startswith("-"), text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest) or not rest:
        segment = _SEGMENT.match(rest, position)
        if segment is None or not (segment[1] or segment[2]):
            raise ValueError(f"{_shown(text)} is not a duration: expected numbers with units, like 45s or 1h30m")
        unit = _UNITS.get(segment[3])
        if unit is None:
            unknown = _shown(segment[3])
            raise ValueError(f"{_shown(text)} is not a duration: unknown unit {unknown}, allowed are ns us ms s m h")
        whole = segment[1].lstrip("0")[:20]  # 20 digits are too many in any unit
        total += int(whole or "0") * unit + _fraction_nanos(segment[2] or "", unit)
        position = segment.end()
    if total > MAX_AMOUNT + negative:
        raise ValueError(f"{_shown(text)} is not a duration: it is longer than 64-bit nanoseconds")
    return Duration(-total if negative else total)


def _fraction_nanos(digits: str, unit: int) -> int:
    """The nanoseconds of the digits after a point. Go computes them in doubles (0.333... of an hour is 20m)."""
    significant = digits.lstrip("0")
    zeros = len(digits) - len(significant)
    if not significant or zeros > 13:  # below 10^-13 h
        return 0
    kept = significant[:19] if int(significant[:19]) <= 2**63 else significant[:18]
    places = zeros + len(kept)
    power = int("1" + "0" * places)
    if unit % power == 0:
        return int(kept) * (unit // power)
    scale = min(power, 10**22)  # 10^22 is the last power of ten that is exact as a double
    for _ in range(places - 22):
        scale = _as_double(scale * 10, 1)[0]
    value, factor = _as_double(int(kept), 1), _as_double(unit, scale)
    product = _as_double(value[0] * factor[0], value[1] * factor[1])
    return product[0] // product[1]


def _as_double(numerator: int, denominator: int) -> tuple[int, int]:
    """The positive ratio rounded to 53 bits, half to even: the IEEE 754 double nearest to it, again as a ratio."""
    shift = numerator.bit_length() - denominator.bit_length() - 53
    if numerator << max(0, -shift) >= denominator << max(0, shift) + 53:
        shift += 1
    divisor = denominator << max(0, shift)
    mantissa, rest = divmod(numerator << max(0, -shift), divisor)
    mantissa += 2 * rest > divisor or (2 * rest == divisor and mantissa % 2 == 1)
    return mantissa << max(0, shift), 1 << max(0, -shift)


_CLOCK: Final = r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
_ZONE: Final = r"(?:Z|([+-][0-9]{2}):([0-9]{2}))"  # Go takes offsets up to 24:60
_RFC3339: Final = re.compile(rf"{_CLOCK}(?:[.,]([0-9]++))?{_ZONE}")
_RFC3339_MICRO: Final = re.compile(rf"{_CLOCK}[.,]([0-9]{{6}}|\+[0-9]{{5}}|-00000){_ZONE}")  # Go takes the signs too
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # the Gregorian calendar repeats after these; ``date`` has no year 0
_FIRST_MILLIS: Final = -62_167_219_200_000  # 0000-01-01T00:00:00Z
LAST_MILLIS: Final = 253_402_300_799_000  # 9999-12-31T23:59:59Z


class Time(_Exact):
    """A point in time. It prints whole seconds of UTC, rounded down; comparisons use everything that was parsed."""

    __slots__ = ()
    noun = "time"
    layout: ClassVar[re.Pattern[str]] = _RFC3339

    @classmethod
    def parse(cls, text: str) -> Self:
        if not isinstance(text, str):
            raise _wrong_type(cls, text)
        time: Self = _cached_time(cls, text) if len(text) <= _MAX_CACHED_LENGTH else _read_time(cls, text)
        return time

    @classmethod
    def of_millis(cls, millis: int) -> Self:
        """A time that was computed; one outside the printable range becomes the first or last of that range."""
        time: Self = _cached_millis(cls, millis)
        return time

    @property
    def nanos(self) -> int:
        """Nanoseconds since 1970-01-01T00:00:00Z."""
        return self._amount

    @property
    def millis(self) -> int:
        return self._amount // 10**6

    @property
    def seconds(self) -> int:
        return self._amount // _NANO

    def _print(self) -> str:
        return f"{_print_seconds(self.seconds)}Z"


class MicroTime(Time):
    """A time that prints microseconds, rounded down. A text needs all six digits of them, as in Kubernetes."""

    __slots__ = ()
    layout = _RFC3339_MICRO

    def _print(self) -> str:
        return f"{_print_seconds(self.seconds)}.{self._amount % _NANO // 1000:06}Z"


def _read_time(kind: type[Time], text: str) -> Any:
    match = kind.layout.fullmatch(text)
    if match is None:
        example = "2026-01-01T00:00:00Z" if kind is Time else "2026-01-01T00:00:00.000000Z"
        raise ValueError(f"{_shown(text)} is not a time: expected RFC 3339, like {example}")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    offset_hour, offset_minute = int(match[8] or "0"), int(match[9] or "0")
    if hour > 23 or minute > 59 or second > 59 or abs(offset_hour) > 24 or offset_minute > 60:
        raise ValueError(f"{_shown(text)} is not a time: its clock or offset is out of range")
    try:
        days = date(year or _CYCLE_YEARS, month, day).toordinal() - (0 if year else _CYCLE_DAYS) - _EPOCH_DAY
    except ValueError:
        raise ValueError(f"{_shown(text)} is not a time: there is no such day") from None
    offset = offset_hour * 3600 + (-offset_minute if (match[8] or "").startswith("-") else offset_minute) * 60
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset
    fraction = match[7] or "0"
    return kind(seconds * _NANO + int(fraction[:9]) * 10 ** max(0, 9 - len(fraction)))


@lru_cache(maxsize=4096)
def _print_seconds(seconds: int) -> str:
    days, clock = divmod(seconds, 86_400)
    cycles, day_of_cycle = divmod(days + _EPOCH_DAY - 1, _CYCLE_DAYS)
    day = date.fromordinal(day_of_cycle + 1)
    year = day.year + cycles * _CYCLE_YEARS
    year_text = f"{year:04}" if year >= 0 else f"{year:05}"
    return f"{year_text}-{day.month:02}-{day.day:02}T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"


def _of_units(amount: int, resource: str) -> Quantity:
    if resource == "cpu":
        return Quantity(amount * _MILLI_IN_NANO)
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return Quantity(amount * _NANO, "BinarySI" if binary else "DecimalSI")


def _of_millis(kind: type[Time], millis: int) -> Any:
    return kind(min(max(millis, _FIRST_MILLIS), LAST_MILLIS) * 10**6)


_cached_units = lru_cache(maxsize=4096)(_of_units)
_cached_millis: Callable[[type, int], Any] = lru_cache(maxsize=1024)(_of_millis)
_cached_quantity = lru_cache(maxsize=4096)(_read_quantity)
_cached_duration = lru_cache(maxsize=1024)(_read_duration)
_cached_time: Callable[[type, str], Any] = lru_cache(maxsize=4096)(_read_time)

_READERS: Final[dict[type, Callable[[Any], object]]] = {
    kind: kind.parse for kind in (Quantity, Duration, Time, MicroTime)
}


def decode_hook(kind: type, value: object) -> object:
    """For msgspec's ``dec_hook``: a JSON value -> one of the four types; msgspec adds the path to a ``ValueError``."""
    reader = _READERS.get(kind)
    if reader is None:
        raise NotImplementedError(f"no way to decode {kind!r}")
    return reader(value)


encode_hook: Final = attrgetter("text")
"""For msgspec's ``enc_hook``: one of the four types -> its text. A getter in C, since encoding spends its time here."""


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}\u2026")


def _too_large(what: str) -> ValueError:
    return ValueError(f"{what} is too large: at most {_MAX_DIGITS} digits before the point are allowed")


def _wrong_type(kind: type[_Exact], value: object) -> ValueError:
    names = {
        type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string",
        list: "an array", tuple: "an array", dict: "an object",
    }  # fmt: skip
    return ValueError(f"expected a {kind.noun}, got {names.get(type(value), type(value).__name__)}")
