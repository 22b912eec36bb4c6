"""The dominant resource share: how much of what could be lent a queue or cohort has taken, exactly (S-9.2, 9.3).

Per resource it compares what the node uses above its own quota with all that its cohort could ever give. The largest of
these ratios counts, divided by the node's weight. A share is a fraction of whole numbers, compared by multiplying
crosswise. There is no rounding, so no two queues can each look the poorer one.

Promises: reads only usage and what was configured; a node within its own quota has share 0, whatever its weight; more
usage never makes a share smaller.

Not here: what follows from shares (``tournament``, ``preemption.fair_sharing``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import NamedTuple

from makeway.core.amounts import MOST, add, ratio_text, subtract
from makeway.core.model import FR, ResourceName, Usage
from makeway.core.quota.tree import WEIGHT_ONE, QuotaNode, QuotaTree

THOUSAND = 1000  # the share of a node that has taken all there is
NOTHING: Usage = {}


class Share:
    """One share: ``above`` of ``lendable``, by weight. Shares are totally ordered; equal ones may look different."""

    __slots__ = ("above", "lendable", "resource", "scale", "weight")

    def __init__(self, above: int = 0, lendable: int = 1, weight: int = WEIGHT_ONE, resource: str = "") -> None:
        self.above = above
        self.lendable = lendable
        self.weight = weight if above else WEIGHT_ONE  # a node that has taken nothing has share 0 with any weight
        self.scale = lendable * self.weight  # the denominator; 0: infinite
        self.resource = ResourceName(resource)  # the dominant one; "": none

    @property
    def is_infinite(self) -> bool:
        """It borrows with weight zero: above all others; among themselves such shares go by what was taken."""
        return not self.scale

    def __lt__(self, other: Share) -> bool:
        if self.scale and other.scale:
            return self.above * other.scale < other.above * self.scale
        if self.scale or other.scale:
            return not other.scale
        return self.above * other.lendable < other.above * self.lendable

    def __le__(self, other: Share) -> bool:
        return not other < self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Share):
            return NotImplemented
        if self.scale and other.scale:
            return self.above * other.scale == other.above * self.scale
        return not self.scale and not other.scale and self.above * other.lendable == other.above * self.lendable

    def __hash__(self) -> int:
        below = self.scale or self.lendable
        common = gcd(self.above, below)
        return hash((self.is_infinite, self.above // common, below // common))

    def fraction(self) -> tuple[int, int]:
        """Numerator and denominator of the weighted share in thousandths; a denominator of 0 means infinite."""
        return self.above * THOUSAND * WEIGHT_ONE, self.scale

    @property
    def status(self) -> int:
        """The share as a status shows it: rounded up, within 64 bits (S-9.3)."""
        if self.is_infinite:
            return MOST
        number, scale = self.fraction()
        return min(MOST, -(-number // scale))

    def __repr__(self) -> str:
        return f"Share({self})"

    def __str__(self) -> str:
        """The share with one decimal where it is not whole: ``111.1``."""
        return ratio_text(*self.fraction())


NO_SHARE = Share()


class ShareTerm(NamedTuple):
    """One resource of a node: how much of it could be lent to the node, and the node's own quota in each flavor."""

    resource: ResourceName
    lendable: int
    quotas: tuple[tuple[FR, int], ...]


def share(tree: QuotaTree, node: QuotaNode, more: Usage = NOTHING) -> Share:
    """The share of a node; ``more`` is what it would use besides its usage (``seen_at`` says how much that is)."""
    tree.shares += 1
    if node.parent is None:
        return NO_SHARE
    largest: Share | None = None
    usage = node.usage
    for resource, lendable, quotas in terms(tree, node):
        above = 0
        for fr, quota in quotas:
            used = usage.get(fr, 0)
            if more:
                used = add(used, more.get(fr, 0))
            if used > quota:
                above = add(above, subtract(used, quota))
        if above and lendable > 0 and (largest is None or above * largest.lendable > largest.above * lendable):
            largest = (tree.share_type or Share)(above, lendable, node.weight, resource)
    return NO_SHARE if largest is None else largest


def terms(tree: QuotaTree, node: QuotaNode) -> tuple[ShareTerm, ...]:
    """The terms of a node's share, by resource in order; made once per configuration."""
    if node.terms is None:
        by_resource: dict[ResourceName, list[tuple[FR, int]]] = {}
        for fr, quota in sorted(node.subtree.items()):
            by_resource.setdefault(fr[1], []).append((fr, quota))
        lent = {} if node.parent is None else _lendable(tree, node.parent)
        node.terms = tuple(
            ShareTerm(name, lent.get(name, 0), tuple(quotas)) for name, quotas in sorted(by_resource.items())
        )
    return node.terms


def _lendable(tree: QuotaTree, cohort: QuotaNode) -> Mapping[ResourceName, int]:
    """All that the members of a cohort could have, by resource: of every flavor that its tree knows."""
    if cohort.lendable is None:
        amounts: dict[ResourceName, int] = {}
        for fr in cohort.root.subtree:
            amounts[fr[1]] = add(amounts.get(fr[1], 0), tree.potential(cohort, fr))
        cohort.lendable = amounts
    return cohort.lendable


def is_borrowing(tree: QuotaTree, node: QuotaNode, more: Usage = NOTHING) -> bool:
    """Whether a node uses more than its own quota of anything; where nothing could be lent, its share is still 0."""
    return any(
        add(node.usage.get(fr, 0), more.get(fr, 0)) > quota for each in terms(tree, node) for fr, quota in each.quotas
    )


def borrows_of(node: QuotaNode, frs: Iterable[FR], more: Usage = NOTHING) -> bool:
    """Whether a node uses, or would use with ``more``, more than its own quota of one of these."""
    usage, quota = node.usage, node.subtree
    return any(add(usage.get(fr, 0), more.get(fr, 0)) > quota.get(fr, 0) for fr in frs)


def seen_at(tree: QuotaTree, node: QuotaNode, queue: QuotaNode, usage: Usage) -> Usage:
    """How much of what ``queue`` would use besides its usage reaches ``node`` above it (S-2.7)."""
    if node is queue:
        return usage
    seen: dict[FR, int] = {}
    for fr, amount in usage.items():
        rest, at = amount, queue
        while rest > 0 and at is not node:
            rest = subtract(rest, tree.local_available(at, fr)) if at.local else rest
            assert at.parent is not None, "the node is above the queue"
            at = at.parent
        if rest > 0:
            seen[fr] = rest
    return seen
