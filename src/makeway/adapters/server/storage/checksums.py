"""Checksums that show whether a data file returns what was written: one per object, and one over all objects.

The first finds an object whose bytes have changed; the second finds an object that is missing or in an older state.
They detect accidents (disks, cables, tools), not an attacker with access to the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

BITS = 64
Key = tuple[str, str, str, str]  # group, kind, namespace, name


def checksum(key: Key, data: bytes) -> int:
    """Return the checksum of one object, in the range of SQLite's integers."""
    found = blake2b("\0".join(key).encode(), digest_size=BITS // 8)
    found.update(b"\0")
    found.update(data)
    return int.from_bytes(found.digest(), "little", signed=True)


def wrapped(number: int) -> int:
    """Return a number in the range of SQLite's integers: sums of checksums wrap around."""
    return (number + (1 << BITS - 1)) % (1 << BITS) - (1 << BITS - 1)


def checksum_in_sql(group: str, kind: str, namespace: str, name: str, data: bytes) -> int:
    return checksum((group, kind, namespace, name), data)


class SumInSql:
    """An aggregate for SQL that wraps around; SQLite's own ``sum`` fails on overflow."""

    def __init__(self) -> None:
        self._sum = 0

    def step(self, number: int) -> None:
        self._sum = wrapped(self._sum + number)

    def finalize(self) -> int:
        return self._sum


def total(numbers: Iterable[int]) -> int:
    return wrapped(sum(numbers))
