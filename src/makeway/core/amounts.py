"""Integers that never wrap: 64 bits, saturating, with one value that means unlimited (S-1.2, 1.3).

Usage of many workloads is an exact sum (``quota.tree``), so that a workload can be subtracted from it again. It is cut
to 64 bits here, only where it is compared. A value at or above the largest counts as unlimited.
"""

from __future__ import annotations

MOST = 2**63 - 1
LEAST = -(2**63)
UNLIMITED = MOST


def add(a: int, b: int) -> int:
    total = a + b
    if a >= UNLIMITED or b >= UNLIMITED or total >= MOST:
        return UNLIMITED
    return total if total > LEAST else LEAST


def subtract(a: int, b: int) -> int:
    if a >= UNLIMITED:
        return 0 if b >= UNLIMITED else UNLIMITED
    if b >= UNLIMITED:
        return LEAST
    difference = a - b
    return LEAST if difference < LEAST else MOST if difference > MOST else difference


def multiply(a: int, b: int) -> int:
    return max(LEAST, min(MOST, a * b))


def ratio_text(number: int, scale: int) -> str:
    """A fraction as people read it: whole, with one decimal, or ``infinite`` where the denominator is 0."""
    if not scale:
        return "infinite"
    if number % scale == 0:
        return str(number // scale)
    tenths = (20 * number + scale) // (2 * scale)
    return f"{tenths // 10}.{tenths % 10}"
