"""Shares as the recorded system compares them: in doubles.

Ours are fractions: equal shares are equal, and the next rule decides. In doubles two equal shares may differ in their
last bit, and then that bit decides: 1/9 with weight 1 and 3/9 with weight 3, for example. We do not repeat that
(decision 0078). A recorded fair decision that differs from ours is judged once more by these shares. If it agrees then,
rounding is the only cause, and the difference is a deliberate one.
"""

from __future__ import annotations

from typing import Any

from makeway.core.quota.shares import THOUSAND, Share
from makeway.core.quota.tree import WEIGHT_ONE

WHY = "shares that are equal differ there by the rounding of doubles"


class RoundedShare(Share):
    """A share in doubles: multiplied by 1000, divided by what could be lent, then by the weight, in this order."""

    __slots__ = ("rounded",)

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        taken = float(self.above) * THOUSAND / float(self.lendable)
        self.rounded = taken if self.is_infinite else taken / (self.weight / WEIGHT_ONE)

    def __lt__(self, other: Share) -> bool:
        if self.is_infinite != other.is_infinite:
            return other.is_infinite
        return self.rounded < _rounded(other)

    def __le__(self, other: Share) -> bool:
        return self < other or self == other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Share):
            return NotImplemented
        return self.is_infinite == other.is_infinite and self.rounded == _rounded(other)

    def __hash__(self) -> int:
        return hash((self.is_infinite, self.rounded))


def _rounded(share: Share) -> float:
    """The share in doubles. Other shares are those of nodes that use nothing of others, and 0 either way."""
    return share.rounded if isinstance(share, RoundedShare) else 0.0
