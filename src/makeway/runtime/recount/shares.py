"""Shares counted anew from what objects declare and hold, with fractions of their own (S-9.2).

Like all of ``recount`` this is a second path on purpose: it uses neither the quota tree nor its shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import inf
from typing import Protocol

from makeway.core.amounts import add, subtract
from makeway.core.model import FR

Amounts = Mapping[FR, int]


class Quota(Protocol):
    """Of one queue or cohort: what it declares, and what follows from that."""

    @property
    def parent(self) -> str: ...

    @property
    def borrowing(self) -> Amounts: ...

    @property
    def local(self) -> Amounts: ...

    @property
    def subtree(self) -> Amounts: ...

    @property
    def usage(self) -> Amounts: ...

    @property
    def weight(self) -> Fraction: ...


def share_of(quota: Quota, cohorts: Mapping[str, Quota]) -> float:
    """Its weighted share in thousandths; infinite where it borrows with weight zero."""
    if not quota.parent:
        return 0.0
    root = cohorts[quota.parent]
    while root.parent:
        root = cohorts[root.parent]
    largest = Fraction(0)
    for resource in {resource for _, resource in quota.subtree}:
        above = _sum(
            max(0, subtract(quota.usage.get(fr, 0), own)) for fr, own in quota.subtree.items() if fr[1] == resource
        )
        lendable = _sum(
            _potential(cohorts[quota.parent], fr, cohorts) for fr in root.subtree if fr[1] == resource
        )  # fmt: skip
        largest = max(largest, Fraction(above * 1000, lendable)) if lendable > 0 else largest
    if not largest:
        return 0.0
    return float(largest / quota.weight) if quota.weight else inf


def _potential(quota: Quota, fr: FR, cohorts: Mapping[str, Quota]) -> int:
    """The most that could be had of ``fr``: own quota and what is lent, and no more than may be borrowed (S-2.11)."""
    way = [quota]
    while way[-1].parent:
        way.append(cohorts[way[-1].parent])
    most = way.pop().subtree.get(fr, 0)
    for level in reversed(way):
        most, limit = add(level.local.get(fr, 0), most), level.borrowing.get(fr)
        most = most if limit is None else min(most, add(level.subtree.get(fr, 0), limit))
    return most


def _sum(amounts: Iterable[int]) -> int:
    total = 0
    for amount in amounts:
        total = add(total, amount)
    return total
