"""Why a decision came out as it did: values the core returns, never lines it logs.

A step is ids and integers, so that taking one costs a tuple. Words are made when somebody reads it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Rule(StrEnum):
    """Stable ids: printed by ``makeway plan`` and ``explain``, documented one by one."""

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
    NO_TARGETS = "preempt/no-targets"
    NOT_EVEN_ALL = "preempt/not-even-all"
    ROUND_TOO_MANY = "preempt/round-too-many"
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
    Rule.NO_TARGETS: "nobody whom it may displace would free enough",
    Rule.NOT_EVEN_ALL: "{} are missing, and all it might displace hold {}",
    Rule.ROUND_TOO_MANY: "it has displaced others {} times, {} of them to borrow, and may not again",
    Rule.GATED: "a preemption gate is closed",
    Rule.LOST: "an entry before it took the room",
    Rule.HELD_BACK: "what it needs is kept free for another",
    Rule.OVERLAP: "an entry before it displaces the same workloads",
    Rule.DEFERRED: "it fits once those who were asked to leave are gone",
    Rule.CLAIMED: "those it waited for have left, and it gets what it was promised",
    Rule.RESERVED: "{} are kept free for it in this cycle",
    Rule.REFUSED: "it cannot be considered",
    Rule.MIGRATES: "it takes over from a less preferred Option of its family",
    Rule.PODS_NOT_READY: "an admitted workload is not ready, and admissions wait for it",
}


class Step(NamedTuple):
    """One line of an explanation: which rule, about whom, with which numbers."""

    rule: Rule
    subjects: tuple[str, ...]
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return WORDS[self.rule].format(*self.numbers)
