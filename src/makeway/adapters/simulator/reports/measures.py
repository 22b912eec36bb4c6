"""The measures of a simulated run, in exact integers: waiting, use of quota, evictions, lost work, fairness.

Input is the record of a run; nothing is simulated here. Only the time between the beginning and the end counts. Times
are milliseconds, quota over time is amount times milliseconds; seconds and shares are made for display.

Promises: O(n log n) in the number of spells; equal runs give equal measures; the time with quota and the time without
add up to the lifetime of a workload.

Not here: quota over time (``usage``), shares (``sharing``), two runs side by side (``comparison``), text and JSON
(``report``), the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from makeway.adapters.simulator.lives import Life, PastEviction
from makeway.adapters.simulator.reports.sharing import NodeShares, Sharing, shares_through
from makeway.adapters.simulator.reports.usage import QuotaUse, Stay, quota_uses, total_uses
from makeway.core.model import FR, Millis, WorkloadKey, invariant

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The record of a simulation."""

    lives: Sequence[Life]
    queues: Mapping[str, Mapping[FR, int]]  # nominal quota
    cohorts: Mapping[str, str]  # queue -> the root of its tree; queues without a cohort are absent
    began_at: Millis
    ended_at: Millis
    cycles: int = 0
    writes: int = 0
    decisions: int = 0
    cpu_seconds: float = 0.0
    journal_sha256: str = ""
    faults_fired: Mapping[str, int] = field(default_factory=dict)
    lending_limits: Mapping[str, Mapping[FR, int]] = field(default_factory=dict)  # if absent: all of it may be lent
    sharing: Sharing | None = None  # None: without fair sharing

    @property
    def span_ms(self) -> int:
        return self.ended_at - self.began_at


@dataclass(frozen=True, slots=True)
class WaitingTimes:
    """The times that workloads were without quota."""

    count: int
    total_ms: int
    percentiles_ms: tuple[int, ...]  # of ``PERCENTILES``; empty where there are no workloads

    @property
    def mean_ms(self) -> Fraction | None:
        return Fraction(self.total_ms, self.count) if self.count else None


@dataclass(frozen=True, slots=True)
class Fairness:
    """How evenly workloads of one queue and priority were served, by the time that they ran."""

    spread_ms: int
    jain: Fraction | None  # 1: all the same; 1/n: one had everything; None: none ran


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTotals:
    """The sums over some workloads."""

    workloads: int
    admitted: int  # had quota at least once
    finished: int
    evictions: Mapping[str, int]  # by reason, in the order of names
    ran_ms: int
    lost_ms: int
    waiting: WaitingTimes

    @property
    def evicted(self) -> int:
        return sum(self.evictions.values())


@dataclass(frozen=True, slots=True)
class PriorityMeasures:
    priority: int
    tally: WorkloadTotals
    fairness: Fairness | None = None  # None: across queues, where workloads are not comparable


@dataclass(frozen=True, slots=True)
class QueueMeasures:
    queue: str
    cohort: str  # "": none
    tally: WorkloadTotals
    quotas: tuple[QuotaUse, ...]  # in the order of flavor and resource
    priorities: tuple[PriorityMeasures, ...]  # the highest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    run: Run
    seen: tuple[MeasuredLife, ...]  # workload by workload, in the order of the run's lives
    total: WorkloadTotals
    quotas: tuple[QuotaUse, ...]  # of all queues together
    queues: tuple[QueueMeasures, ...]  # in the order of names
    priorities: tuple[PriorityMeasures, ...]  # of all queues together, the highest first
    preemptions: Mapping[tuple[str, str], int]  # (queue of the preemptor, queue of the victim); "": unknown
    shares: tuple[NodeShares, ...] = ()  # of queues and cohorts; none without fair sharing


class MeasuredLife(NamedTuple):
    """The part of a workload's life within the run. A Parent counts with what its Options did."""

    life: Life
    admitted: bool
    waited_ms: int
    ran_ms: int
    lost_ms: int
    stays: Sequence[Stay]
    evictions: Sequence[PastEviction]


def measure(run: Run) -> Measures:
    invariant(run.span_ms >= 0, "a run ends at {0}, before it began at {1}", run.ended_at, run.began_at)
    everyone = seen(run)
    by_queue: dict[str, list[MeasuredLife]] = {name: [] for name in run.queues}
    by_priority: dict[int, list[MeasuredLife]] = {}
    for each in everyone:
        by_queue.setdefault(each.life.queue, []).append(each)
        by_priority.setdefault(each.life.priority, []).append(each)
    stays = {name: [stay for member in members for stay in member.stays] for name, members in by_queue.items()}
    uses = quota_uses(stays, run.queues, run.cohorts, run.lending_limits, run.began_at, run.ended_at)
    return Measures(
        run=run,
        seen=everyone,
        total=_tally(everyone),
        quotas=total_uses(uses.values()),
        queues=tuple(_queue(run, name, by_queue[name], uses[name]) for name in sorted(by_queue)),
        priorities=tuple(
            PriorityMeasures(priority, _tally(by_priority[priority])) for priority in sorted(by_priority, reverse=True)
        ),
        preemptions=_preemptions(run.lives, everyone),
        shares=() if run.sharing is None else shares_through(run.sharing, stays, run.began_at, run.ended_at),
    )


def seen(run: Run) -> tuple[MeasuredLife, ...]:
    """The workloads of a run in the order of its lives; Options are counted with their Parents."""
    names = {life.workload for life in run.lives}
    options: dict[str, list[Life]] = {}
    alone = []
    for life in run.lives:
        if life.parent and life.parent in names:
            options.setdefault(life.parent, []).append(life)
        else:
            alone.append(life)
    # of two consecutive lives with one name, the first has the Options
    return tuple(_seen(run, life, options.pop(life.workload, [])) for life in alone)


def _seen(run: Run, life: Life, options: Sequence[Life]) -> MeasuredLife:
    came = max(life.created_at, run.began_at)
    left = run.ended_at
    for end in (life.finished_at, life.gone_at):
        if end is not None and end < left:
            left = end
    stays = _stays(run, life)
    waited = max(0, left - came)
    for began, ended, _ in stays:
        waited -= max(0, min(ended, left) - max(began, came))
    alone = MeasuredLife(life, bool(life.spells), waited, life.ran_ms, life.lost_ms, stays, life.evictions)
    return _with_options(run, alone, options) if options else alone


def _with_options(run: Run, parent: MeasuredLife, options: Sequence[Life]) -> MeasuredLife:
    """Add the Options to a Parent, which reports their evictions too, but without preemptors."""
    evictions = sorted((eviction for option in options for eviction in option.evictions), key=lambda each: each.at)
    return parent._replace(
        admitted=parent.admitted or any(option.spells for option in options),
        ran_ms=parent.ran_ms + sum(option.ran_ms for option in options),
        lost_ms=parent.lost_ms + sum(option.lost_ms for option in options),
        stays=[*parent.stays, *(stay for option in options for stay in _stays(run, option))],
        evictions=evictions or parent.evictions,
    )


def _stays(run: Run, life: Life) -> list[Stay]:
    """The spells within the run. None begins before the last one ended: stored times are truncated."""
    stays: list[Stay] = []
    free_at = run.began_at
    for spell in life.spells:
        began = max(spell.began_at, free_at)
        ended = run.ended_at if spell.ended_at is None else min(spell.ended_at, run.ended_at)
        if began < ended:
            stays.append(Stay(began, ended, spell.usage))
            free_at = ended
    return stays


def _queue(run: Run, name: str, members: list[MeasuredLife], uses: tuple[QuotaUse, ...]) -> QueueMeasures:
    by_priority: dict[int, list[MeasuredLife]] = {}
    for member in members:
        by_priority.setdefault(member.life.priority, []).append(member)
    priorities = tuple(
        PriorityMeasures(priority, _tally(equals), fairness([equal.ran_ms for equal in equals]))
        for priority, equals in sorted(by_priority.items(), reverse=True)
    )
    return QueueMeasures(name, run.cohorts.get(name, ""), _tally(members), uses, priorities)


def _tally(members: Sequence[MeasuredLife]) -> WorkloadTotals:
    evictions = Counter(eviction.reason for member in members for eviction in member.evictions)
    return WorkloadTotals(
        workloads=len(members),
        admitted=sum(1 for member in members if member.admitted),
        finished=sum(1 for member in members if member.life.finished_at is not None),
        evictions=dict(sorted(evictions.items())),
        ran_ms=sum(member.ran_ms for member in members),
        lost_ms=sum(member.lost_ms for member in members),
        waiting=waiting(member.waited_ms for member in members),
    )


def waiting(waited_ms: Iterable[int]) -> WaitingTimes:
    ordered = sorted(waited_ms)
    found = tuple(percentile(ordered, percent) for percent in PERCENTILES) if ordered else ()
    return WaitingTimes(len(ordered), sum(ordered), found)


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The least of the values that ``percent`` of 100 do not exceed (nearest rank)."""
    return ordered[max(0, (percent * len(ordered) + 99) // 100 - 1)]


def fairness(ran_ms: Sequence[int]) -> Fairness:
    """Jain's index and the spread of run times, of at least one workload."""
    squares = sum(each * each for each in ran_ms)
    jain = Fraction(sum(ran_ms) ** 2, len(ran_ms) * squares) if squares else None
    return Fairness(max(ran_ms) - min(ran_ms), jain)


def _preemptions(lives: Sequence[Life], everyone: Sequence[MeasuredLife]) -> dict[tuple[str, str], int]:
    """The preemptions by the queues of preemptor and victim; evictions without a preemptor are left out."""
    homes = {life.workload: life.queue for life in lives}
    counted = Counter(
        (homes.get(WorkloadKey(eviction.by), ""), each.life.queue)
        for each in everyone
        for eviction in each.evictions
        if eviction.by
    )
    return dict(sorted(counted.items()))
