"""Scalars of YAML, as kubectl reads them: which are texts, and which are numbers, booleans or null."""

from __future__ import annotations

import base64
import math
import re
from functools import lru_cache
from typing import Any

from makeway.api.reading.json_lines import float_name

TAGS = "tag:yaml.org,2002:"
RESOLVED_STARTS = frozenset(["", *"+-.0123456789yYnNtTfFoO~"])  # a plain scalar with any other start is a text
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TIME = re.compile(r"\d{4}-\d\d?-\d\d?(?:[Tt]\d\d?:\d\d?:\d\d?(\.\d+)?(Z|[-+]\d\d:\d\d)| +\d\d?:\d\d?:\d\d?(\.\d+)?)?")
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_CACHED_LENGTH_MAX = 40


def plain(text: str) -> Any:
    """An unquoted scalar, as kubectl reads it: YAML 1.1 words, Go's integers (0x, 0o, 0b, leading 0), floats."""
    return _resolved(text) if len(text) <= _CACHED_LENGTH_MAX else _resolved.__wrapped__(text)


@lru_cache(maxsize=16_384)
def _resolved(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    if text[0] != "." and (match := _INTEGER.fullmatch(digits)) is not None:
        number = _integer(*match.groups(""))
        if number is not None:
            return number
    if not text.startswith("._") and _FLOAT.fullmatch(digits):
        value = float(digits)
        return text if math.isinf(value) else value
    return text


def _integer(sign: str, hexadecimal: str, octal: str, binary: str, decimal: str) -> int | None:
    """The integer if it fits 64 bits, unsigned ones only without a sign; otherwise None."""
    if decimal and len(decimal) > 20:
        return None
    base = 16 if hexadecimal else 8 if octal else 2 if binary else 10
    size = int(hexadecimal or octal or binary or decimal, base)
    value = -size if sign == "-" else size
    return value if -(2**63) <= value < (2**63 if sign else 2**64) else None


def tagged(tag: str, text: str) -> Any:
    """A scalar with a tag; raises ValueError if the tag asks for what the text is not. Unknown tags are ignored."""
    kind = tag.removeprefix(TAGS) if tag.startswith(TAGS) else ""
    if kind == "binary":
        return base64.b64decode(text.replace("\n", ""), validate=True).decode("utf-8", "replace")
    if kind == "timestamp":
        if _TIME.fullmatch(text) is None:
            raise ValueError(text)
        return text
    if kind not in _KINDS:
        return text
    value = plain(text)
    if type(value) not in _KINDS[kind] or (kind == "float" and value >= 2**63 and type(value) is int):
        raise ValueError(text)
    return float(value) if kind == "float" else value


def key_of(event: Any) -> str | None:
    """A scalar as the key of a mapping; None if it cannot be one. Raises ValueError if its tag does not fit."""
    if event.tag is None and not event.implicit[0]:
        return str(event.value)
    value = plain(event.value) if event.tag is None else tagged(event.tag, event.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or (isinstance(value, int) and value >= 2**63):
        return None
    return float_name(value) if isinstance(value, float) else str(value)
