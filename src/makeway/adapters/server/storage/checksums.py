"""What tells that a data file gives back what was written: a checksum of each object, and one over all of them.

The first finds an object whose bytes have changed, the second one that is missing, or that is there in an older state.
They are sums for accidents (disks, cables, tools), not against somebody who can write to the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

BITS = 64
Key = tuple[str, str, str, str]  # group, kind, namespace, name


def checksum(key: Key, data: bytes) -> int:
    """Of one object, at home in SQLite's integers."""
    found = blake2b("\0".join(key).encode(), digest_size=BITS // 8)
    found.update(b"\0")
    found.update(data)
    return int.from_bytes(found.digest(), "little", signed=True)


def wrapped(number: int) -> int:
    """As an integer of SQLite: sums of checksums go round."""
    return (number + (1 << BITS - 1)) % (1 << BITS) - (1 << BITS - 1)


def checksum_in_sql(group: str, kind: str, namespace: str, name: str, data: bytes) -> int:
    return checksum((group, kind, namespace, name), data)


class SumInSql:
    """SQLite's own ``sum`` refuses to go round."""

    def __init__(self) -> None:
        self._sum = 0

    def step(self, number: int) -> None:
        self._sum = wrapped(self._sum + number)

    def finalize(self) -> int:
        return self._sum


def total(numbers: Iterable[int]) -> int:
    return wrapped(sum(numbers))
