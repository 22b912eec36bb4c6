"""Quantities, saturating arithmetic and pod requests (S-1)."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

FlavorResource = tuple[str, str]
Amounts = dict[FlavorResource, int]

MAX = 2**63 - 1
MIN = -(2**63)
UNLIMITED = MAX  # S-1.2: what reaches the maximum is unlimited

QUANTITY = re.compile(r"^([+-]?[0-9]*\.?[0-9]*)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$")
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def parse_quantity(value: str | int | float) -> Fraction:
    """Read a Kubernetes quantity exactly."""
    found = QUANTITY.match(str(value))
    if found is None or not any(c.isdigit() for c in found[1]):
        raise ValueError(f"not a quantity: {value!r}")
    number, suffix = Fraction(found[1]), found[2] or ""
    if suffix in BINARY:
        return number * Fraction(1024 ** BINARY[suffix])
    exponent = DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:] or 0)
    return number * (Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent))


def clamp(value: int) -> int:  # S-1.2
    return max(MIN, min(MAX, value))


def to_units(resource: str, exact: Fraction) -> int:  # S-1.1, S-1.2
    scaled = exact * 1000 if resource == "cpu" else exact
    away_from_zero = math.ceil(scaled) if scaled > 0 else math.floor(scaled)
    return clamp(away_from_zero)


def amount(resource: str, value: str | int | float) -> int:  # S-1.1
    return to_units(resource, parse_quantity(value))


def add(a: int, b: int) -> int:  # S-1.2, S-1.3
    return UNLIMITED if UNLIMITED in (a, b) else clamp(a + b)


def sub(a: int, b: int) -> int:  # S-1.2, S-1.3
    if a == UNLIMITED:
        return 0 if b == UNLIMITED else UNLIMITED
    return MIN if b == UNLIMITED else clamp(a - b)


def mul(a: int, b: int) -> int:  # S-1.2
    return clamp(a * b)


def plus(a: Amounts, b: Amounts) -> Amounts:
    return {fr: add(a.get(fr, 0), b.get(fr, 0)) for fr in sorted({*a, *b})}


def _requests(container: dict[str, Any]) -> dict[str, Fraction]:
    named = container.get("resources", {}).get("requests") or {}
    return {r: parse_quantity(q) for r, q in named.items()}


def _sum(parts: list[dict[str, Fraction]]) -> dict[str, Fraction]:
    names = sorted({r for part in parts for r in part})
    return {r: sum((part.get(r, Fraction(0)) for part in parts), Fraction(0)) for r in names}


def _max(parts: list[dict[str, Fraction]]) -> dict[str, Fraction]:
    names = sorted({r for part in parts for r in part})
    return {r: max(part.get(r, Fraction(0)) for part in parts) for r in names}


def pod_requests(pod: dict[str, Any]) -> dict[str, int]:
    """The requests of one pod, in units."""  # S-1.4, S-1.7 (negative values become 0)
    containers = [_requests(c) for c in pod.get("containers") or []]
    sidecars: list[dict[str, Fraction]] = []
    start_up: list[dict[str, Fraction]] = []
    for init in pod.get("initContainers") or []:
        if init.get("restartPolicy") == "Always":
            sidecars.append(_requests(init))
        else:
            start_up.append(_sum([_requests(init), *sidecars]))
    request = _max([_sum([*containers, *sidecars]), *start_up])
    request.update(_requests(pod))
    overhead = {r: parse_quantity(q) for r, q in (pod.get("overhead") or {}).items()}
    total = _sum([request, overhead])
    return {r: max(0, to_units(r, q)) for r, q in total.items()}
