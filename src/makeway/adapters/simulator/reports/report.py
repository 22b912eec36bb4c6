"""The report of one or two runs as data for programs and as lines for people. The page is ``page``.

Lines are made for a width; without one, for a pipe, each record is one line, and every span and amount is exact to the
millisecond. Lines are never cut: a table that is too wide for the terminal becomes a list of its records.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from makeway.adapters.simulator.lives import PastEviction
from makeway.adapters.simulator.reports.comparison import Comparison, Difference, MeasureScope, Value
from makeway.adapters.simulator.reports.measures import (
    PERCENTILES,
    MeasuredLife,
    Measures,
    PriorityMeasures,
    QueueMeasures,
    Run,
    WaitingTimes,
    WorkloadTotals,
)
from makeway.adapters.simulator.reports.sharing import NodeShares
from makeway.adapters.simulator.reports.usage import QuotaUse
from makeway.adapters.simulator.reports.words import (
    NOTHING,
    level,
    moment,
    number,
    percent,
    plain,
    ratio,
    seconds,
    span,
    unit_seconds,
)
from makeway.api.quantity import Quantity
from makeway.core.messages import amount
from makeway.core.quota.shares import Share

Data = dict[str, object]
EVERYONE = "(all)"  # no queue can have this name
PARTS = 40  # differences of single queues and priorities shown on a terminal


# --- data ------------------------------------------------------------------------------------------------------------


def data(measures: Measures, *, per_workload: bool = False, warnings: Sequence[str] = ()) -> Data:
    """The report as JSON; keys that only some runs need are present in those alone."""
    run = measures.run
    found: Data = {
        "workloads": measures.total.workloads,
        "admitted": measures.total.admitted,
        "finished": measures.total.finished,
        "evictions": measures.total.evicted,
        "evictionsByReason": dict(measures.total.evictions),
        "virtualSeconds": seconds(run.span_ms),
        "cpuSeconds": round(run.cpu_seconds, 3),
        "cycles": run.cycles,
        "writes": run.writes,
        "journalSha256": run.journal_sha256,
        "queues": [_queue_data(queue) for queue in measures.queues],
        "priorities": [_priority_data(priority) for priority in measures.priorities],
        "decisions": run.decisions,
        "ranSeconds": seconds(measures.total.ran_ms),
        "lostSeconds": seconds(measures.total.lost_ms),
        "waitingSeconds": _waiting_data(measures.total.waiting),
        "resources": [_quota_data(quota) for quota in measures.quotas],
        "preemptions": [{"by": by, "of": of, "count": count} for (by, of), count in measures.preemptions.items()],
        "faultsFired": dict(sorted(run.faults_fired.items())),
    }
    if measures.shares:
        found["shares"] = [_shares_data(share) for share in measures.shares]
    if warnings:
        found["warnings"] = list(warnings)
    if per_workload:
        found["perWorkload"] = [_workload_data(each) for each in measures.seen]
    return found


def comparison_data(
    this: Measures, against: Measures, comparison: Comparison, *, per_workload: bool = False,
    warnings: Sequence[str] = (), warnings_against: Sequence[str] = (),
) -> Data:  # fmt: skip
    """Both reports as JSON, and every measure that both have."""
    return {
        "run": data(this, per_workload=per_workload, warnings=warnings),
        "against": data(against, per_workload=per_workload, warnings=warnings_against),
        "differences": [_difference_data(difference) for difference in comparison.differences],
        "waited": {"sooner": comparison.sooner, "later": comparison.later, "alike": comparison.alike},
        "onlyRun": list(comparison.only_this),
        "onlyAgainst": list(comparison.only_against),
    }


def _tally_data(tally: WorkloadTotals) -> Data:
    return {
        "workloads": tally.workloads,
        "admitted": tally.admitted,
        "finished": tally.finished,
        "evictions": tally.evicted,
        "evictionsByReason": dict(tally.evictions),
        "ranSeconds": seconds(tally.ran_ms),
        "lostSeconds": seconds(tally.lost_ms),
        "waitingSeconds": _waiting_data(tally.waiting),
    }


def _waiting_data(waiting: WaitingTimes) -> Data:
    ranks = waiting.percentiles_ms or (None,) * len(PERCENTILES)
    mean = waiting.mean_ms
    return {
        "mean": None if mean is None else seconds(mean),
        **{f"p{of}": None if ms is None else seconds(ms) for of, ms in zip(PERCENTILES, ranks, strict=True)},
    }


def _queue_data(queue: QueueMeasures) -> Data:
    return {
        "clusterQueue": queue.queue,
        "cohort": queue.cohort,
        **_tally_data(queue.tally),
        "resources": [_quota_data(quota) for quota in queue.quotas],
        "priorities": [_priority_data(priority) for priority in queue.priorities],
    }


def _priority_data(each: PriorityMeasures) -> Data:
    found: Data = {"priority": each.priority, **_tally_data(each.tally)}
    if each.fairness is not None:
        jain = each.fairness.jain
        found["fairness"] = {
            "spreadSeconds": seconds(each.fairness.spread_ms),
            "jain": None if jain is None else number(jain, 6),
        }
    return found


def _quota_data(quota: QuotaUse) -> Data:
    flavor, resource = quota.of
    utilisation = ratio(quota.used, quota.offered)
    found: Data = {
        "flavor": flavor,
        "resource": resource,
        "nominal": amount(quota.nominal, resource),
        "utilisation": None if utilisation is None else number(utilisation, 6),
        "used": unit_seconds(quota.used, resource),
        "borrowed": unit_seconds(quota.borrowed, resource),
        "lent": unit_seconds(quota.lent, resource),
    }
    if quota.peak is not None:
        found["peak"] = amount(quota.peak, resource)
    return found


def _shares_data(each: NodeShares) -> Data:
    return {
        "clusterQueue" if each.is_queue else "cohort": each.name,
        "weight": str(Quantity(each.weight)),
        "mean": None if each.mean is None else number(each.mean, 6),
        "highest": _share_data(each.highest),
        "last": _share_data(each.last),
        "infiniteSeconds": seconds(each.infinite_ms),
    }


def _share_data(share: Share) -> int | float | None:
    """None: infinite."""
    return None if share.is_infinite else number(Fraction(*share.fraction()), 6)


def _eviction_data(gone: PastEviction) -> Data:
    found: Data = {"at": moment(gone.at), "by": gone.by, "reason": gone.reason}
    return {**found, "why": gone.why} if gone.why else found


def _workload_data(each: MeasuredLife) -> Data:
    life = each.life
    return {
        "workload": life.workload,
        "clusterQueue": life.queue,
        "createdAt": moment(life.created_at),
        "waitedSeconds": seconds(each.waited_ms),
        "ranSeconds": seconds(each.ran_ms),
        "lostSeconds": seconds(each.lost_ms),
        "finishedAt": None if life.finished_at is None else moment(life.finished_at),
        "evictions": [_eviction_data(gone) for gone in each.evictions],
    }


def _difference_data(each: Difference) -> Data:
    scope: Data = {}
    if each.scope.queue is not None:
        scope["clusterQueue"] = each.scope.queue
    if each.scope.priority is not None:
        scope["priority"] = each.scope.priority
    if each.scope.of is not None:
        scope["flavor"], scope["resource"] = each.scope.of
    return {
        **scope,
        "measure": each.name,
        "unit": {"millis": "seconds", "amount-millis": "unit-seconds"}.get(each.unit, each.unit),
        "run": _value_data(each, each.this),
        "against": _value_data(each, each.against),
        "change": _value_data(each, each.change),
        "verdict": each.verdict,
    }


def _value_data(each: Difference, value: Value) -> int | float | None:
    if value is None:
        return None
    if each.unit == "millis":
        return seconds(value)
    if each.unit == "amount-millis" and each.scope.of is not None:
        return unit_seconds(value, each.scope.of[1])
    return number(value, 6)


# --- lines -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with a title; the first ``names`` columns name the record, the others are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1

    def lines(self, width: int | None) -> Iterator[str]:
        if not self.rows:
            return
        rows = [[plain(cell) or NOTHING for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *rows, strict=True)]
        yield ""
        yield self.title
        if width is None or 2 + sum(widths) + 2 * (len(widths) - 1) <= width:
            for row in (self.columns, *rows):
                cells = [
                    cell.ljust(size) if rank < self.names else cell.rjust(size)
                    for rank, (cell, size) in enumerate(zip(row, widths, strict=True))
                ]
                yield f"  {'  '.join(cells)}".rstrip()
        else:
            for row in rows:
                yield from self._record(row, width)

    def _record(self, row: Sequence[str], width: int) -> Iterator[str]:
        pairs = [f"{name}\u00a0{cell}" for name, cell in zip(self.columns, row, strict=True)]
        yield from folded(", ".join(pairs[: self.names]), width, 2, 6)
        yield from folded(", ".join(pairs[self.names :]), width, 4, 4)


def folded(text: str, width: int | None, indent: int, next_indent: int) -> list[str]:
    """One line without a width, else as many as needed; a word that is wider than the width stays whole."""
    if width is None:
        return [(" " * indent + text).replace("\u00a0", " ")]
    lines = textwrap.wrap(
        text, width, initial_indent=" " * indent, subsequent_indent=" " * next_indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace("\u00a0", " ") for line in lines]


def lines(measures: Measures, width: int | None = None, *, warnings: Sequence[str] = ()) -> Iterator[str]:
    """The report for people: ``width`` columns of a terminal, or None for a pipe."""
    exact = width is None
    yield from _summary(measures, width)
    for warning in warnings:
        yield from folded(plain(f"warning: {warning}"), width, 2, 4)
    yield from waiting_table(measures, exact=exact).lines(width)
    yield from quota_table(measures).lines(width)
    yield from share_table(measures).lines(width)
    yield from eviction_table(measures, exact=exact).lines(width)
    yield from preemption_table(measures).lines(width)
    yield from fairness_table(measures, exact=exact).lines(width)


def comparison_lines(
    this: Measures, against: Measures, comparison: Comparison, width: int | None = None, *,
    warnings: Sequence[str] = (),
) -> Iterator[str]:  # fmt: skip
    """This run in full, then its comparison with the other one."""
    yield from lines(this, width, warnings=warnings)
    whole = [difference for difference in comparison.differences if difference.scope == MeasureScope()]
    parts = [
        difference
        for difference in comparison.differences
        if difference.scope != MeasureScope() and difference.verdict != "same"
    ]
    alike = len(comparison.differences) - len(whole) - len(parts)
    yield from difference_table("Against the other run", whole, exact=width is None).lines(width)
    shown = parts if width is None else parts[:PARTS]
    yield from difference_table("Where they differ", shown, exact=width is None).lines(width)
    if len(shown) < len(parts):
        yield from folded(f"and {len(parts) - len(shown)} more: `-o json` has them all", width, 2, 4)
    yield ""
    waited = f"{comparison.sooner} workloads waited less, {comparison.later} more, {comparison.alike} as long"
    yield from folded(f"{waited}; {alike} other measures are the same", width, 0, 2)
    for what, only in (("this run", comparison.only_this), ("the other run", comparison.only_against)):
        if only:
            rest = f" and {len(only) - 5} more" if len(only) > 5 else ""
            yield from folded(plain(f"only in {what}: {', '.join(only[:5])}{rest}"), width, 0, 2)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _summary(measures: Measures, width: int | None) -> Iterator[str]:
    run, total = measures.run, measures.total
    exact = width is None
    yield from folded(
        f"{_counted(total.workloads, 'workload')}, {total.admitted} admitted, {total.finished} finished, "
        f"{_counted(total.evicted, 'eviction')} in {span(run.span_ms, exact=exact)}",
        width, 0, 2,
    )  # fmt: skip
    lost = percent(ratio(total.lost_ms, total.ran_ms))
    ran = f"ran {span(total.ran_ms, exact=exact)}, lost {span(total.lost_ms, exact=exact)}"
    yield from folded(f"work: {ran} ({lost})" if total.ran_ms else f"work: {ran}", width, 2, 4)
    effort = f"{run.cycles} cycles, {run.decisions} decisions, {run.writes} writes"
    yield from folded(f"effort: {effort}, {run.cpu_seconds:.2f}s of CPU time", width, 2, 4)
    if run.journal_sha256:
        yield from folded(f"journal: sha256 {run.journal_sha256}", width, 2, 4)
    fired = [f"{name} {count}" for name, count in sorted(run.faults_fired.items()) if count]
    silent = [name for name, count in sorted(run.faults_fired.items()) if not count]
    if fired:
        yield from folded(plain(f"faults: {', '.join(fired)}"), width, 2, 4)
    if silent:
        yield from folded(plain(f"faults that never fired: {', '.join(silent)}"), width, 2, 4)


# --- tables ----------------------------------------------------------------------------------------------------------


def waiting_table(measures: Measures, *, exact: bool) -> ReportTable:
    rows = [_waiting_row(EVERYONE, "all", measures.total, exact)]
    if len(measures.priorities) > 1:
        rows += [
            _waiting_row(EVERYONE, str(priority.priority), priority.tally, exact) for priority in measures.priorities
        ]
    for queue in measures.queues:
        rows.append(_waiting_row(queue.queue, "all", queue.tally, exact))
        if len(queue.priorities) > 1:
            rows += [
                _waiting_row(queue.queue, str(priority.priority), priority.tally, exact)
                for priority in queue.priorities
            ]
    columns = ("queue", "priority", "workloads", "finished", "mean", *(f"p{of}" for of in PERCENTILES))
    return ReportTable("Waiting", columns, rows, names=2)


def _waiting_row(queue: str, priority: str, tally: WorkloadTotals, exact: bool) -> list[str]:
    times: list[Fraction | int | None] = [tally.waiting.mean_ms]
    times += tally.waiting.percentiles_ms or (None,) * len(PERCENTILES)
    return [queue, priority, str(tally.workloads), str(tally.finished), *(_span(time, exact) for time in times)]


def quota_table(measures: Measures) -> ReportTable:
    """Borrowed and lent are averages over the whole run."""
    parts = [(EVERYONE, quota) for quota in measures.quotas]
    parts += [(queue.queue, quota) for queue in measures.queues for quota in queue.quotas]
    rows = [_quota_row(measures.run, name, quota) for name, quota in parts]
    return ReportTable(
        "Quota", ("queue", "flavor", "resource", "nominal", "used", "peak", "borrowed", "lent"), rows, names=3
    )


def _quota_row(run: Run, name: str, quota: QuotaUse) -> list[str]:
    flavor, resource = quota.of
    means = [ratio(each, run.span_ms) for each in (quota.borrowed, quota.lent)]
    return [
        name,
        flavor,
        resource,
        level(quota.nominal, resource),
        percent(ratio(quota.used, quota.offered)),
        NOTHING if quota.peak is None else level(quota.peak, resource),
        *(NOTHING if mean is None else level(mean, resource) for mean in means),
    ]


def share_table(measures: Measures) -> ReportTable:
    """Shares in thousandths of the lendable quota, by weight; the mean is that of the time with a finite share."""
    rows = [
        [
            share.name,
            "queue" if share.is_queue else "cohort",
            str(Quantity(share.weight)),
            NOTHING if share.mean is None else str(number(share.mean, 1)),
            str(share.highest),
            str(share.last),
        ]
        for share in measures.shares
    ]
    return ReportTable("Shares", ("of", "kind", "weight", "mean", "highest", "at the end"), rows, names=2)


def eviction_table(measures: Measures, *, exact: bool) -> ReportTable:
    """Lost work is only known per queue, so it is in the row of all reasons."""
    rows = [[EVERYONE, reason, str(count), ""] for reason, count in measures.total.evictions.items()]
    for queue in measures.queues:
        tally = queue.tally
        if tally.evicted:
            rows.append([queue.queue, "all", str(tally.evicted), span(tally.lost_ms, exact=exact)])
            rows += [[queue.queue, reason, str(count), ""] for reason, count in tally.evictions.items()]
    return ReportTable("Evictions", ("queue", "reason", "count", "lost"), rows, names=2)


def preemption_table(measures: Measures) -> ReportTable:
    rows = [[by or "not known", of, str(count)] for (by, of), count in measures.preemptions.items()]
    return ReportTable("Who preempted whom", ("preemptor's queue", "victim's queue", "count"), rows, names=2)


def fairness_table(measures: Measures, *, exact: bool) -> ReportTable:
    """How evenly groups of at least two equals were served."""
    rows = []
    for queue in measures.queues:
        for priority in queue.priorities:
            if priority.fairness is not None and priority.tally.workloads > 1:
                jain = NOTHING if priority.fairness.jain is None else f"{float(priority.fairness.jain):.3f}"
                spread = span(priority.fairness.spread_ms, exact=exact)
                rows.append([queue.queue, str(priority.priority), str(priority.tally.workloads), spread, jain])
    return ReportTable("Fairness among equals", ("queue", "priority", "workloads", "spread", "jain"), rows, names=2)


def difference_table(title: str, differences: Sequence[Difference], *, exact: bool) -> ReportTable:
    rows = [
        [
            _scope(difference.scope),
            difference.name,
            value_text(difference, difference.this, exact=exact),
            value_text(difference, difference.against, exact=exact),
            value_text(difference, difference.change, exact=exact, signed=True),
            difference.verdict,
        ]
        for difference in differences
    ]
    if all(difference.scope == MeasureScope() for difference in differences):
        return ReportTable(title, ("measure", "this", "against", "change", "verdict"), [row[1:] for row in rows])
    return ReportTable(title, ("of", "measure", "this", "against", "change", "verdict"), rows, names=2)


def _scope(scope: MeasureScope) -> str:
    parts = [] if scope.queue is None else [scope.queue]
    if scope.priority is not None:
        parts.append(f"priority {scope.priority}")
    if scope.of is not None:
        parts.append("/".join(scope.of))
    return " ".join(parts) or EVERYONE


def value_text(each: Difference, value: Value, *, exact: bool, signed: bool = False) -> str:
    if value is None:
        return NOTHING
    sign = "+" if signed and value > 0 else ""
    match each.unit:
        case "millis":
            return sign + span(value, exact=exact)
        case "share" if each.name == "utilisation":
            return sign + percent(Fraction(value))
        case "amount-millis" if each.scope.of is not None:
            return f"{sign}{level(Fraction(value) / 1000, each.scope.of[1])}\u00b7s"
    return f"{sign}{number(value)}"


def _span(millis: Fraction | int | None, exact: bool) -> str:
    return NOTHING if millis is None else span(millis, exact=exact)
