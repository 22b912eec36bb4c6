"""Two runs on the same arrivals side by side: what differs, and whether that is better or worse.

One table, ``DIRECTIONS``, says which way a measure is better. A verdict is about *this* run, compared with the other
one. Numbers are compared exactly; only CPU time, which always differs, may differ by a tenth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from makeway.adapters.simulator.reports.measures import (
    PERCENTILES,
    Measures,
    PriorityMeasures,
    QueueMeasures,
    WorkloadTotals,
)
from makeway.adapters.simulator.reports.usage import QuotaUse
from makeway.adapters.simulator.reports.words import ratio
from makeway.core.model import FR

Direction = Literal["less", "more", "neither"]
Verdict = Literal["better", "worse", "same", "differs"]
Unit = Literal["count", "millis", "share", "amount-millis"]
Value = Fraction | int | None  # None: there was nothing to measure

DIRECTIONS: Mapping[str, Direction] = {
    "admitted": "more",
    "finished": "more",
    "evictions": "less",
    "lost": "less",
    "waiting mean": "less",
    **{f"waiting p{percent}": "less" for percent in PERCENTILES},
    "utilisation": "more",
    "borrowed": "neither",  # good for the borrower, a debt to the lender
    "lent": "neither",
    "fairness spread": "less",
    "fairness jain": "more",
    "virtual time": "less",  # only if as many workloads finished: see ``_total``
    "cycles": "neither",  # cycles, writes and CPU time are costs
    "decisions": "neither",
    "writes": "less",
    "cpu time": "less",
}
CPU_TOLERANCE = Fraction(1, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureScope:
    """The subject of a measure: a queue, cohort, class or flavor; if nothing is set, the whole run."""

    queue: str | None = None
    priority: int | None = None
    of: FR | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    scope: MeasureScope
    name: str  # a key of ``DIRECTIONS``
    unit: Unit
    value: Value


@dataclass(frozen=True, slots=True)
class Difference:
    scope: MeasureScope
    name: str
    unit: Unit
    this: Value
    against: Value
    verdict: Verdict

    @property
    def change(self) -> Value:
        return None if self.this is None or self.against is None else self.this - self.against


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    differences: tuple[Difference, ...]  # the whole run first, then queue by queue
    # the workloads of both runs, by their waiting time in this one
    sooner: int
    later: int
    alike: int
    only_this: tuple[str, ...]  # workloads and queues that the other run lacks
    only_against: tuple[str, ...]


def compare(this: Measures, against: Measures) -> Comparison:
    """Compare every measure that both runs have."""
    here = {(each.scope, each.name): each for each in measures_of(this)}
    there = {(each.scope, each.name): each for each in measures_of(against)}
    as_many = this.total.finished == against.total.finished
    waited, waited_there = _waited(this), _waited(against)
    both = [(waited[key], waited_there[key]) for key in waited if key in waited_there]
    return Comparison(
        differences=tuple(_difference(here[key], there[key], as_many) for key in here if key in there),
        sooner=sum(1 for a, b in both if a < b),
        later=sum(1 for a, b in both if a > b),
        alike=sum(1 for a, b in both if a == b),
        only_this=_missing(this, against),
        only_against=_missing(against, this),
    )


def verdict(direction: Direction, this: Value, against: Value) -> Verdict:
    if this == against:
        return "same"
    if this is None or against is None or direction == "neither":
        return "differs"
    return "better" if (this < against) == (direction == "less") else "worse"


def _difference(this: Measure, against: Measure, as_many: bool) -> Difference:
    a, b = this.value, against.value
    direction = DIRECTIONS[this.name]
    if this.name == "virtual time" and not as_many:
        direction = "neither"  # an earlier end with less work done is not better
    found = verdict(direction, a, b)
    if this.name == "cpu time" and a is not None and b is not None and _is_close(Fraction(a), Fraction(b)):
        found = "same"
    return Difference(this.scope, this.name, this.unit, a, b, found)


def _is_close(a: Fraction, b: Fraction) -> bool:
    return abs(a - b) <= max(a, b) * CPU_TOLERANCE


def _waited(measures: Measures) -> dict[str, int]:
    """The waiting time by workload; several lives of one name are added."""
    found: dict[str, int] = {}
    for each in measures.seen:
        found[each.life.workload] = found.get(each.life.workload, 0) + each.waited_ms
    return found


def _missing(ours: Measures, theirs: Measures) -> tuple[str, ...]:
    queues = {queue.queue for queue in ours.queues} - {queue.queue for queue in theirs.queues}
    workloads = {each.life.workload for each in ours.seen} - {each.life.workload for each in theirs.seen}
    return (*(f"queue {name}" for name in sorted(queues)), *(f"workload {key}" for key in sorted(workloads)))


# --- all measures in a row -------------------------------------------------------------------------------------------


def measures_of(measures: Measures) -> Iterator[Measure]:
    """Yield every measure of a run that can be better or worse, with its subject."""
    yield from _total(measures)
    for quota in measures.quotas:
        yield from _quota(MeasureScope(of=quota.of), quota)
    for priority in measures.priorities:
        yield from _tally(MeasureScope(priority=priority.priority), priority.tally)
    for queue in measures.queues:
        yield from _queue(queue)


def _total(measures: Measures) -> Iterator[Measure]:
    run, whole = measures.run, MeasureScope()
    yield from _tally(whole, measures.total)
    yield Measure(whole, "virtual time", "millis", run.span_ms)
    yield Measure(whole, "cycles", "count", run.cycles)
    yield Measure(whole, "decisions", "count", run.decisions)
    yield Measure(whole, "writes", "count", run.writes)
    yield Measure(whole, "cpu time", "millis", Fraction(run.cpu_seconds) * 1000)


def _queue(queue: QueueMeasures) -> Iterator[Measure]:
    yield from _tally(MeasureScope(queue=queue.queue), queue.tally)
    for quota in queue.quotas:
        yield from _quota(MeasureScope(queue=queue.queue, of=quota.of), quota)
    for priority in queue.priorities:
        yield from _equals(MeasureScope(queue=queue.queue, priority=priority.priority), priority)


def _tally(scope: MeasureScope, tally: WorkloadTotals) -> Iterator[Measure]:
    yield Measure(scope, "admitted", "count", tally.admitted)
    yield Measure(scope, "finished", "count", tally.finished)
    yield Measure(scope, "evictions", "count", tally.evicted)
    yield Measure(scope, "lost", "millis", tally.lost_ms)
    yield from _waiting(scope, tally)


def _waiting(scope: MeasureScope, tally: WorkloadTotals) -> Iterator[Measure]:
    waiting = tally.waiting
    yield Measure(scope, "waiting mean", "millis", waiting.mean_ms)
    for rank, percent in enumerate(PERCENTILES):
        value = waiting.percentiles_ms[rank] if waiting.count else None
        yield Measure(scope, f"waiting p{percent}", "millis", value)


def _equals(scope: MeasureScope, measures: PriorityMeasures) -> Iterator[Measure]:
    yield from _waiting(scope, measures.tally)
    if measures.fairness is not None:
        yield Measure(scope, "fairness spread", "millis", measures.fairness.spread_ms)
        yield Measure(scope, "fairness jain", "share", measures.fairness.jain)


def _quota(scope: MeasureScope, quota: QuotaUse) -> Iterator[Measure]:
    yield Measure(scope, "utilisation", "share", ratio(quota.used, quota.offered))
    yield Measure(scope, "borrowed", "amount-millis", quota.borrowed)
    yield Measure(scope, "lent", "amount-millis", quota.lent)
