"""Why a decision came out as it did: values that the core returns, never log lines.

A step is ids and integers, so that making one costs no more than a tuple. Words are made when a step is read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from makeway.api.quantity import Quantity
from makeway.core.amounts import ratio_text


class Rule(StrEnum):
    """The reasons that a decision can have, with stable ids; ``docs/reference/rules.md`` describes each of them."""

    NOT_COVERED = "flavor/not-covered"
    NOT_ALLOWED = "flavor/not-allowed"
    NOT_FOUND = "flavor/not-found"
    TAINT = "flavor/untolerated-taint"
    AFFINITY = "flavor/affinity"
    EXCEEDS_MAX = "flavor/exceeds-max-quota"
    SHORT = "flavor/insufficient-unused-quota"
    FITS = "flavor/fits"
    LOWER_PRIORITY = "preempt/lower-priority"
    TIME_EXPIRED = "preempt/time-expired"
    NEWER_EQUAL = "preempt/newer-equal"
    RECLAIM = "preempt/reclaim"
    RECLAIM_WHILE_BORROWING = "preempt/reclaim-while-borrowing"
    FAIR_WITHIN_NOMINAL = "preempt/fair-within-nominal"
    FAIR_FINAL_SHARE = "preempt/fair-final-share"
    FAIR_INITIAL_SHARE = "preempt/fair-initial-share"
    FAIR_CLAIM = "preempt/fair-claim"
    NO_TARGETS = "preempt/no-targets"
    NOT_BY_SHARES = "preempt/not-by-shares"
    NOT_EVEN_ALL = "preempt/not-even-all"
    ROUND_TOO_MANY = "preempt/round-too-many"
    DISPLACED_BY_TIME = "preempt/displaced-by-time"
    NOT_ITS_TURN = "preempt/not-its-turn"
    NO_NOMINAL_QUOTA = "preempt/no-nominal-quota"
    GATED = "cycle/preemption-gated"
    LOST = "cycle/no-longer-fits"
    HELD_BACK = "cycle/held-back"
    OVERLAP = "cycle/overlapping-targets"
    DEFERRED = "cycle/deferred-fit"
    CLAIMED = "cycle/claim-redeemed"
    RESERVED = "cycle/capacity-reserved"
    REFUSED = "cycle/refused"
    MIGRATES = "cycle/migration"
    PODS_NOT_READY = "cycle/pods-not-ready"
    ORDER_PREEMPTOR = "order/preemptor"
    ORDER_WITHIN_NOMINAL = "order/within-nominal"
    ORDER_LOWER_SHARE = "order/lower-share"
    ORDER_PRIORITY = "order/priority"
    ORDER_EARLIER = "order/earlier"
    ORDER_NAME = "order/name"
    ORDER_ALONE = "order/alone"
    PLACE_FITS = "place/fits"
    PLACE_NODE = "place/node"
    PLACE_CHEAPEST = "place/cheapest-node"
    PLACE_TOO_FEW = "place/too-few-pods"
    PLACE_UNRESOLVED = "place/no-such-group"
    PLACE_NEVER = "place/preemption-policy-never"
    PLACE_ONGOING = "place/preemption-under-way"
    PLACE_NONE_LOWER = "place/nobody-lower"
    PLACE_SHORT = "place/no-place-even-then"
    PLACE_LACKS = "place/lacks"
    PLACE_CLOSED = "place/no-open-node"
    PLACE_TOO_SMALL = "place/too-small-even-empty"
    PLACE_APART = "place/other-pods"
    PLACE_KEPT = "place/too-important"
    PLACE_THRESHOLD = "place/threshold"
    PLACE_NOT_ENOUGH = "place/below-threshold"
    PLACE_ABOVE = "place/above-threshold"
    PLACE_SPARED_BY_BUDGET = "place/spared-by-budget"
    PLACE_SPARED = "place/spared"
    PLACE_MAKES_WAY = "place/makes-way"
    PLACE_MORE = "place/and-more"


WORDS = {
    Rule.NOT_COVERED: "the queue has no quota for the resource",
    Rule.NOT_ALLOWED: "the podSet does not allow the flavor",
    Rule.NOT_FOUND: "there is no such ResourceFlavor",
    Rule.TAINT: "the pods do not tolerate the flavor's taint",
    Rule.AFFINITY: "the flavor's labels do not match the pods' node selection",
    Rule.EXCEEDS_MAX: "{} are asked for, beside {} of earlier podSets; at most {} can ever be had",
    Rule.SHORT: "{} are asked for, {} are free, {} are missing",
    Rule.FITS: "{} are asked for, {} are free, borrowing level {}",
    Rule.LOWER_PRIORITY: "priority {} is below {}",
    Rule.TIME_EXPIRED: "held quota for {} ms, more than its {} ms",
    Rule.NEWER_EQUAL: "queued at {}, after {}",
    Rule.RECLAIM: "its queue uses {} more than its own quota",
    Rule.RECLAIM_WHILE_BORROWING: "priority {} is below {}, so a borrower may displace it",
    Rule.FAIR_WITHIN_NOMINAL: "its side has share {2}, {3} without it; the newcomer stays within its own quota",
    Rule.FAIR_FINAL_SHARE: "its side's share falls from {2} to {3}, the newcomer's rises from {0} to {1}, no higher",
    Rule.FAIR_INITIAL_SHARE: "the newcomer's share rises from {0} to {1}, below the {2} of its side, {3} without it",
    Rule.FAIR_CLAIM: "the newcomer's share rises from {0} to {1}, below the {2} of who claims, {3} without the claim",
    Rule.NO_TARGETS: "nobody whom it may displace would free enough",
    Rule.NOT_BY_SHARES: "its share would rise from {} to {}; nobody of the richest side, with {}, may leave for that",
    Rule.NOT_EVEN_ALL: "{} are missing, and all it might displace hold {}",
    Rule.ROUND_TOO_MANY: "it has displaced others {} times, {} of them to borrow, and may not again",
    Rule.DISPLACED_BY_TIME: "it was displaced by time, and displaces no equals before {}",
    Rule.NOT_ITS_TURN: "a workload before it in the queue displaces equals by time first",
    Rule.NO_NOMINAL_QUOTA: "its queue has no nominal quota of it, and may not preempt to borrow",
    Rule.GATED: "a preemption gate is closed",
    Rule.LOST: "an entry before it took the room",
    Rule.HELD_BACK: "what it needs is kept free for another",
    Rule.OVERLAP: "an entry before it displaces the same workloads",
    Rule.DEFERRED: "it fits once those who were asked to leave are gone",
    Rule.CLAIMED: "those it waited for have left, and it gets what it was promised",
    Rule.RESERVED: "{} are kept free for it in this cycle",
    Rule.REFUSED: "it cannot be considered",
    Rule.MIGRATES: "it takes over from a less preferred Option of its family",
    Rule.PODS_NOT_READY: "a workload with quota is not ready, and admissions wait for it",
    Rule.ORDER_PREEMPTOR: "it displaced others before, so it goes first; shares would be {} and {}",
    Rule.ORDER_WITHIN_NOMINAL: "with it its side stays within its own quota, the next one borrows; shares {} and {}",
    Rule.ORDER_LOWER_SHARE: "with it the share of its side is {}, lower than the {} of the next",
    Rule.ORDER_PRIORITY: "shares would be equal, {} and {}; its priority {} is above {}",
    Rule.ORDER_EARLIER: "shares would be equal, {} and {}; queued {} ms earlier",
    Rule.ORDER_NAME: "shares would be equal, {} and {}, and all else; the name of the queue decides",
    Rule.ORDER_ALONE: "nobody else of its tree is left",
    Rule.PLACE_FITS: "{} of {} pods have a place as things stand, {} are needed",
    Rule.PLACE_NODE: "it goes there: {} pods leave the node, and then {} ‰ of its cpu and memory are free",
    Rule.PLACE_CHEAPEST: "of {} nodes that could take it the one where least is lost: {} pods leave, {} beyond budgets",
    Rule.PLACE_TOO_FEW: "{} pods exist, {} are needed",
    Rule.PLACE_UNRESOLVED: "it refers to a Workload or group that does not exist",
    Rule.PLACE_NEVER: "its preemption policy is Never",
    Rule.PLACE_ONGOING: "those who were asked to leave for it are still there, and its place holds",
    Rule.PLACE_NONE_LOWER: "nobody runs with a priority below {}",
    Rule.PLACE_SHORT: "with all below priority {} gone fewer than {} of {} pods have a place",
    Rule.PLACE_LACKS: "the nearest miss: {} are asked for, {} would be free, {} are missing",
    Rule.PLACE_CLOSED: "no node is open to it, whoever leaves",
    Rule.PLACE_TOO_SMALL: "even if all pods left, {} of the {} pods needed would have a place",
    Rule.PLACE_APART: "there is room, but rules between pods keep it away",
    Rule.PLACE_KEPT: "it is too important to leave: priority {} is not below {}",
    Rule.PLACE_THRESHOLD: "nobody above priority {} has to leave",
    Rule.PLACE_NOT_ENOUGH: "with only priorities up to {} gone fewer than {} pods have a place",
    Rule.PLACE_ABOVE: "{} pods stay because their priority is above {}",
    Rule.PLACE_SPARED_BY_BUDGET: "budgets protect {} of its pods, and there is a place without it leaving; priority {}",
    Rule.PLACE_SPARED: "there is a place without it leaving; priority {}",
    Rule.PLACE_MAKES_WAY: "priority {} is below {}; pods that leave: {}, beyond a budget: {}",
    Rule.PLACE_MORE: "and {} more",
}
SHARES_IN = {  # how many shares a rule has among its numbers; they come first, and each takes two numbers
    Rule.FAIR_WITHIN_NOMINAL: 4, Rule.FAIR_FINAL_SHARE: 4, Rule.FAIR_INITIAL_SHARE: 4, Rule.FAIR_CLAIM: 4,
    Rule.NOT_BY_SHARES: 3,
    Rule.ORDER_PREEMPTOR: 2, Rule.ORDER_WITHIN_NOMINAL: 2, Rule.ORDER_LOWER_SHARE: 2, Rule.ORDER_PRIORITY: 2,
    Rule.ORDER_EARLIER: 2, Rule.ORDER_NAME: 2,
}  # fmt: skip


AMOUNTS = (Rule.PLACE_LACKS,)  # their numbers are amounts of the resource that is their last subject


class Step(NamedTuple):
    """One line of an explanation: the rule, the objects that it is about, and the numbers that go with it."""

    rule: Rule
    subjects: tuple[str, ...]
    numbers: tuple[int, ...] = ()

    @property
    def shares(self) -> tuple[tuple[int, int], ...]:
        """The shares among its numbers, as fractions. A denominator of 0 means an infinite share."""
        count = 2 * SHARES_IN.get(self.rule, 0)
        return tuple(zip(self.numbers[:count:2], self.numbers[1:count:2], strict=True))

    def __str__(self) -> str:
        shares = self.shares
        if self.rule in AMOUNTS:
            resource = self.subjects[-1] if self.subjects else ""
            return WORDS[self.rule].format(*(Quantity.of_units(number, resource) for number in self.numbers))
        return WORDS[self.rule].format(*(ratio_text(*share) for share in shares), *self.numbers[2 * len(shares) :])
