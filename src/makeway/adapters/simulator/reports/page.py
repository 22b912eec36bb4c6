"""The report as one self-contained HTML page: no network, no script, light and dark, bounded in size.

Promises: equal measures give equal bytes; every chart has a table; names cannot become markup. A long run is drawn in
``POINTS`` parts, the busiest ``QUEUES`` queues separately and the others as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from makeway.adapters.simulator.reports import report
from makeway.adapters.simulator.reports.charts import COLOURS, BarChart, LevelChart, table, text
from makeway.adapters.simulator.reports.comparison import Comparison, MeasureScope
from makeway.adapters.simulator.reports.measures import Measures
from makeway.adapters.simulator.reports.page_style import STYLE
from makeway.adapters.simulator.reports.usage import Course
from makeway.adapters.simulator.reports.words import level, moment, percent, plain, ratio, span
from makeway.core.messages import amount

POINTS = 400  # of a line
SPOTS = 24  # of a line, for tooltips and the table
BARS = 60  # of a chart through time
QUEUES = 20
RESOURCES = 4  # of one queue
ROWS = 200  # of a table
NAMES = 200  # of queues that are drawn as one

MINUTE = 60_000
HOUR = 60 * MINUTE
STEPS_MS = (  # between the ticks of an axis: at most six times the one before, so that an axis has two ticks or more
    1, 5, 10, 50, 100, 500, 1000, 5000, 15_000, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    24 * HOUR, 48 * HOUR, 168 * HOUR, 720 * HOUR,
)  # fmt: skip
WAITED = (  # upper bound and label
    (0, "none"), (1000, "1s"), (10_000, "10s"), (MINUTE, "1m"), (5 * MINUTE, "5m"), (15 * MINUTE, "15m"), (HOUR, "1h"),
    (4 * HOUR, "4h"), (12 * HOUR, "12h"), (24 * HOUR, "24h"), (72 * HOUR, "72h"),
)  # fmt: skip
LONGER = "more"


def page(
    measures: Measures, comparison: Comparison | None = None, *, title: str = "Simulation report",
    warnings: Sequence[str] = (),
) -> str:  # fmt: skip
    sections = [
        _summary(measures, warnings),
        *([] if comparison is None else [_against(comparison)]),
        _usage(measures),
        _waiting(measures),
        _evictions(measures),
        _preemptions(measures),
        _tables(measures),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline';"
        ' img-src data:">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main><h1>{text(title)}</h1>\n{chr(10).join(sections)}\n</main></body></html>\n"
    )


def _section(name: str, title: str, *parts: str) -> str:
    return f'<section id="{name}"><h2>{text(title)}</h2>{"".join(parts)}</section>'


def _summary(measures: Measures, warnings: Sequence[str]) -> str:
    run, total = measures.run, measures.total
    mean = total.waiting.mean_ms
    tiles = [
        ("workloads", str(total.workloads)),
        ("admitted", str(total.admitted)),
        ("finished", str(total.finished)),
        ("evictions", str(total.evicted)),
        ("mean wait", "-" if mean is None else span(mean)),
        ("lost work", span(total.lost_ms)),
        ("virtual time", span(run.span_ms)),
        ("CPU time", f"{run.cpu_seconds:.2f}s"),
        ("cycles", str(run.cycles)),
        ("decisions", str(run.decisions)),
        ("writes", str(run.writes)),
    ]
    listed = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in tiles)
    times = f"<p>From {text(moment(run.began_at))} to {text(moment(run.ended_at))}.</p>"
    journal = f"<p>Journal sha256 <code>{text(run.journal_sha256)}</code></p>" if run.journal_sha256 else ""
    warned = "".join(f"<p><strong>Warning:</strong> {text(plain(warning))}</p>" for warning in warnings)
    rows = [[name, str(count) if count else "never"] for name, count in sorted(run.faults_fired.items())]
    faults = f"<h3>Faults</h3>{table(('fault', 'fired'), rows, most=ROWS)}" if rows else ""
    return f'<section id="summary"><dl class="tiles">{listed}</dl>{warned}{times}{journal}{faults}</section>'


def _against(comparison: Comparison) -> str:
    whole = [difference for difference in comparison.differences if difference.scope == MeasureScope()]
    parts = [
        difference
        for difference in comparison.differences
        if difference.scope != MeasureScope() and difference.verdict != "same"
    ]
    waited = f"{comparison.sooner} workloads waited less, {comparison.later} more, {comparison.alike} as long."
    only = [
        f"<p>Only in {where}: {_names(names)}</p>"
        for where, names in (("this run", comparison.only_this), ("the other run", comparison.only_against))
        if names
    ]
    return _section(
        "against",
        "Against the other run",
        _html(report.difference_table("", whole, exact=False)),
        f"<p>{text(waited)}</p>",
        *only,
        f"<details><summary>Where they differ, queue by queue: {len(parts)} measures</summary>",
        _html(report.difference_table("", parts, exact=False)),
        "</details>",
    )


# --- quota through time ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Used:
    """One resource of one queue, or of several together: in all flavors."""

    nominal: int
    fine: Course
    coarse: Course

    def add(self, began: int, ended: int, held: int) -> None:
        self.fine.add(began, ended, held)
        self.coarse.add(began, ended, held)


def _usage(measures: Measures) -> str:
    busy: Counter[str] = Counter({queue.queue: 0 for queue in measures.queues})
    for each in measures.seen:
        busy[each.life.queue] += sum(stay.ended_at - stay.began_at for stay in each.stays)
    ranked = sorted(busy, key=lambda name: (-busy[name], name))
    own, others = ranked[:QUEUES], sorted(ranked[QUEUES:])
    homes = {name: rank for rank, name in enumerate(own)} | dict.fromkeys(others, len(own))
    used = _courses(measures, homes)
    charts = [chart for rank, name in enumerate(own) for chart in _charts(measures, used, rank, name or "no queue")]
    if others:
        charts += _charts(measures, used, len(own), f"{len(others)} other queues")
    notes = [f"<p>Summed up as other queues: {_names(others)}</p>"] if others else []
    if any(len({of[1] for of in (quota.of for quota in queue.quotas)}) > RESOURCES for queue in measures.queues):
        notes.append(f"<p>Of each queue the first {RESOURCES} resources are drawn; the table of quota has all.</p>")
    legend = (
        '<ul class="legend"><li><span class="key used"></span>used</li>'
        '<li><span class="key over"></span>used above nominal: borrowed</li>'
        '<li><span class="key dash"></span>nominal quota</li></ul>'
    )
    return _section(
        "usage", "Quota over time", legend, *notes, f'<div class="charts">{"".join(charts) or "<p>none</p>"}</div>'
    )


def _courses(measures: Measures, homes: Mapping[str, int]) -> dict[tuple[int, str], _Used]:
    """The use over time, by rank of the queue and resource."""
    run = measures.run
    found: dict[tuple[int, str], _Used] = {}
    for queue in measures.queues:
        for quota in queue.quotas:
            where = (homes[queue.queue], quota.of[1])
            if where not in found:
                fine, coarse = (Course(run.began_at, run.ended_at, parts) for parts in (POINTS, SPOTS))
                found[where] = _Used(0, fine, coarse)
            found[where].nominal += quota.nominal
    for each in measures.seen:
        rank = homes[each.life.queue]
        for began, ended, usage in each.stays:
            for (_, resource), held in usage.items():
                found[rank, resource].add(began, ended, held)
    return found


def _charts(measures: Measures, used: Mapping[tuple[int, str], _Used], rank: int, title: str) -> Iterator[str]:
    resources = sorted(resource for home, resource in used if home == rank)
    for number, resource in enumerate(resources[:RESOURCES]):
        yield _level_chart(measures, used[rank, resource], f"u{rank}-{number}", title, resource).svg()


def _level_chart(measures: Measures, used: _Used, name: str, title: str, resource: str) -> LevelChart:
    run, levels, coarse = measures.run, used.fine.means(), used.coarse.means()
    owned = amount(used.nominal, resource)
    spots = [
        [
            span(used.coarse.edge(part) - run.began_at),
            level(held, resource),
            percent(ratio(held, used.nominal)),
        ]
        for part, held in enumerate(coarse)
    ]
    mean = sum(coarse) // len(coarse)
    return LevelChart(
        name=name,
        title=f"{title}: {resource}",
        words=f"{level(mean, resource)} {resource} used on average, at most {level(max(levels), resource)} in the mean"
        f" of one of {len(levels)} parts of the run; the nominal quota is {owned}.",
        levels=levels,
        line=used.nominal,
        labels=(level(used.nominal, resource), level(max(levels), resource)),
        ticks=ticks(run.span_ms),
        spots=spots,
        columns=("from", "used", "of nominal"),
    )


def ticks(span_ms: int) -> list[tuple[int, str]]:
    """At most six ticks at round times of a span, in thousandths of it."""
    if span_ms <= 0:
        return [(0, "0s")]
    step = next((each for each in STEPS_MS if span_ms <= 6 * each), -(-span_ms // 6))
    return [(at * 1000 // span_ms, span(at)) for at in range(0, span_ms + 1, step)][:7]


# --- waiting, evictions ----------------------------------------------------------------------------------------------


def _waiting(measures: Measures) -> str:
    priorities = [each.priority for each in measures.priorities]
    own = priorities if len(priorities) <= COLOURS else priorities[: COLOURS - 1]
    kinds = {priority: f"priority {priority}" for priority in own}
    counts: dict[str, list[int]] = {kind: [0] * (len(WAITED) + 1) for kind in kinds.values()}
    if len(priorities) > len(own):
        counts["lower priorities"] = [0] * (len(WAITED) + 1)
    for each in measures.seen:
        place = next((rank for rank, (most, _) in enumerate(WAITED) if each.waited_ms <= most), len(WAITED))
        counts[kinds.get(each.life.priority, "lower priorities")][place] += 1
    chart = BarChart(
        name="waited",
        title="Workloads by how long they waited",
        words="Each bar counts the workloads that were without quota for at most so long, and longer than the bar"
        " before it says.",
        noun="at most",
        bars=(*(words for _, words in WAITED), LONGER),
        stacks=list(counts.items()) or [("workloads", [0] * (len(WAITED) + 1))],
    )
    rows = report.waiting_table(measures, exact=False)
    return _section("waiting", "Waiting", chart.svg(), _html(rows))


def _evictions(measures: Measures) -> str:
    run = measures.run
    course = Course(run.began_at, run.ended_at, BARS)
    ranked = sorted(measures.total.evictions, key=lambda reason: (-measures.total.evictions[reason], reason))
    own = ranked if len(ranked) <= COLOURS else ranked[: COLOURS - 1]
    counts = {reason: [0] * course.parts for reason in (*own, *(["other reasons"] if len(ranked) > len(own) else []))}
    for each in measures.seen:
        for eviction in each.evictions:
            at = min(max(eviction.at, run.began_at), run.ended_at)
            reason = eviction.reason if eviction.reason in own else "other reasons"
            counts[reason][course.part_of(at)] += 1
    if not counts:
        return _section("evictions", "Evictions", "<p>Nobody was evicted.</p>")
    chart = BarChart(
        name="evicted",
        title="Evictions over time",
        words="Each bar counts the evictions of one part of the run, by reason.",
        noun="from",
        bars=[span(course.edge(part) - run.began_at) for part in range(course.parts)],
        stacks=[(reason or "no reason", each) for reason, each in counts.items()],
        ticks=ticks(run.span_ms),
    )
    return _section("evictions", "Evictions", chart.svg(), _html(report.eviction_table(measures, exact=False)))


def _preemptions(measures: Measures) -> str:
    """A matrix with preemptors on the left and victims above. The busiest queues are separate, the others together."""
    if not measures.preemptions:
        return _section("preemptions", "Who preempted whom", "<p>Nobody was preempted.</p>")
    involved: Counter[str] = Counter()
    for (by, of), count in measures.preemptions.items():
        involved[by] += count
        involved[of] += count
    ranked = sorted(involved, key=lambda name: (-involved[name], name))
    own = set(ranked[:QUEUES])
    cells: Counter[tuple[str, str]] = Counter()
    for (by, of), count in measures.preemptions.items():
        cells[_called(by, own), _called(of, own)] += count
    rows, columns = sorted({by for by, _ in cells}), sorted({of for _, of in cells})
    most = max(cells.values())
    head = "".join(f'<th scope="col">{text(of)}</th>' for of in columns)
    body = "".join(
        f'<tr><th scope="row">{text(by)}</th>{"".join(_cell(by, of, cells[by, of], most) for of in columns)}</tr>'
        for by in rows
    )
    unknown = measures.total.evicted - sum(measures.preemptions.values())
    note = f"<p>{unknown} evictions were asked for by nobody, or it is not known by whom.</p>" if unknown else ""
    return _section(
        "preemptions",
        "Who preempted whom",
        "<p>A row per queue that preempted, a column per queue whose workloads made way.</p>",
        f'<div class="wide"><table class="matrix"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"</div>{note}",
    )


def _called(name: str, own: set[str]) -> str:
    return (name or "not known") if name in own else "other queues"


def _cell(by: str, of: str, count: int, most: int) -> str:
    """A cell that is shaded by the count, in five steps."""
    if not count:
        return "<td></td>"
    shade = -(-5 * count // most)
    return f'<td class="s{shade}" title="{text(f"{by} preempted {of}: {count}")}">{count}</td>'


# --- tables ----------------------------------------------------------------------------------------------------------


def _tables(measures: Measures) -> str:
    return _section(
        "quota",
        "Quota and fairness",
        "<h3>Quota</h3><p>Used as a share of nominal; borrowed and lent on average over the whole run.</p>",
        _html(report.quota_table(measures)),
        "<h3>Fairness among equals</h3><p>How far apart the times are that workloads of one queue and priority"
        " ran.</p>",
        _html(report.fairness_table(measures, exact=False)),
        *_shares(measures),
    )


def _shares(measures: Measures) -> Iterator[str]:
    if measures.shares:
        yield "<h3>Shares</h3><p>Thousandths of what could be lent, by weight: on average, at most, and at the end.</p>"
        yield _html(report.share_table(measures))


def _html(of: report.ReportTable) -> str:
    return table(of.columns, of.rows, names=of.names, most=ROWS)


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{', '.join(text(plain(name) or 'no queue') for name in names[:NAMES])}{rest}"
