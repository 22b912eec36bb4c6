"""The report as data, as lines of any width, and as a self-contained page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.simulator.lives import Life, PastEviction, Spell
from makeway.adapters.simulator.reports import report
from makeway.adapters.simulator.reports.comparison import compare
from makeway.adapters.simulator.reports.measures import Measures, Run, measure
from makeway.adapters.simulator.reports.page import NAMES, POINTS, QUEUES, RESOURCES, ROWS, SPOTS, page, ticks
from makeway.adapters.simulator.reports.words import level, moment, number, percent, seconds, span, unit_seconds
from makeway.api.quantity import Duration
from makeway.core.model import FR, FlavorName, Millis, ResourceName, WorkloadKey
from tests.adapters.simulator.reports.test_measures import CPU, T, life, run

EVIL = "<script>alert('x')</script>\x1b[31m&\"\n"
EVENING = (
    life(
        "low", (2000, 10_000), (40_500, 90_000), priority=0, cpu=4000, ran=57_500, lost=8000, finished=90_000,
        evictions=[(10_000, "high", "InCohortReclamation")],
    ),
    life("high", (10_000, 40_500), queue="b", priority=100, created=9000, cpu=9000, ran=30_500, finished=40_500),
    life("late", queue="b", priority=0, created=60_000),
)  # fmt: skip


def evening() -> Run:
    return replace(
        run(*EVENING, until=100_000, own={"a": 8000, "b": 6000}),
        cycles=7, writes=21, decisions=9, cpu_seconds=0.12345, journal_sha256="c0ffee",
        faults_fired={"watch-lost": 0, "write-conflict": 3},
    )  # fmt: skip


# --- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("millis", "exact", "short"),
    [
        (0, "0s", "0s"),
        (7, "7ms", "7ms"),
        (1500, "1.5s", "1.5s"),
        (12_345, "12.345s", "12.3s"),
        (61_499, "1m1.499s", "1m1s"),
        (3_599_999, "59m59.999s", "1h"),
        (5_000_500, "1h23m20.5s", "1h23m"),
        (-61_499, "-1m1.499s", "-1m1s"),
        (Fraction(10, 3), "3ms", "3ms"),
    ],
)
def test_spans(millis: Fraction | int, exact: str, short: str) -> None:
    assert (span(millis, exact=True), span(millis)) == (exact, short)


@pytest.mark.property
@given(st.integers(0, 10**10))
def test_an_exact_span_can_be_read_back(millis: int) -> None:
    assert Duration.parse(span(millis, exact=True)).millis == millis


@pytest.mark.parametrize(
    ("amount", "resource", "words"),
    [
        (1500, "cpu", "1500m"),
        (40_000, "cpu", "40"),
        (1_234_567, "cpu", "1.23k"),
        (Fraction(1, 3), "cpu", "0"),
        (Fraction(6_666_667, 1000), "cpu", "6.67"),
        (-1500, "cpu", "-1500m"),
        (2 << 30, "memory", "2Gi"),
        (1_288_490_188, "memory", "1.2Gi"),
        (3, "nvidia.com/gpu", "3"),
        (Fraction(5, 2), "nvidia.com/gpu", "2.5"),
    ],
)
def test_amounts(amount: Fraction | int, resource: str, words: str) -> None:
    assert level(amount, resource) == words


def test_numbers() -> None:
    assert (seconds(1500), seconds(2000), seconds(Fraction(10, 3))) == (1.5, 2, 0.003)
    assert isinstance(seconds(2000), int)
    assert (unit_seconds(4_000_000, "cpu"), unit_seconds(4000, "memory")) == (4, 4)
    assert (number(Fraction(1, 3), 6), number(Fraction(4, 2))) == (0.333333, 2)
    assert (percent(Fraction(1, 8)), percent(None)) == ("12.5%", "-")
    assert (moment(T), moment(T + 7)) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00.007Z")


# --- data ------------------------------------------------------------------------------------------------------------


def test_json_has_the_promised_keys_first() -> None:
    found = report.data(measure(evening()))
    promised = [
        "workloads", "admitted", "finished", "evictions", "evictionsByReason", "virtualSeconds", "cpuSeconds",
        "cycles", "writes", "journalSha256", "queues", "priorities",
    ]  # fmt: skip
    assert list(found)[: len(promised)] == promised
    assert "perWorkload" not in found
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [found[key] for key in promised[:10]] == [
        3, 2, 2, 1, {"InCohortReclamation": 1}, 100, 0.123, 7, 21, "c0ffee",
    ]  # fmt: skip
    assert found["faultsFired"] == {"watch-lost": 0, "write-conflict": 3}
    assert found["preemptions"] == [{"by": "b", "of": "a", "count": 1}]


def test_json_tells_queue_by_queue() -> None:
    found: Any = report.data(measure(evening()))
    a, b = found["queues"]
    assert (a["clusterQueue"], a["cohort"], a["workloads"], a["lostSeconds"]) == ("a", "all", 1, 8)
    assert b["waitingSeconds"] == {"mean": 20.5, "p50": 1, "p95": 40, "p99": 40}
    assert b["resources"] == [
        {
            "flavor": "default", "resource": "cpu", "nominal": "6", "utilisation": 0.4575, "used": 274.5,
            "borrowed": 91.5, "lent": 0, "peak": "9",
        }
    ]  # fmt: skip
    assert a["resources"][0]["lent"] == 91.5
    assert [each["priority"] for each in b["priorities"]] == [100, 0]
    assert b["priorities"][0]["fairness"] == {"spreadSeconds": 0, "jain": 1}
    assert b["priorities"][1]["fairness"] == {"spreadSeconds": 0, "jain": None}
    assert [each["priority"] for each in found["priorities"]] == [100, 0]


def test_json_tells_workload_by_workload_when_asked() -> None:
    found: Any = report.data(measure(evening()), per_workload=True)
    low, _, late = found["perWorkload"]
    assert low == {
        "workload": "ns/low", "clusterQueue": "a", "createdAt": "2026-01-01T12:00:00Z", "waitedSeconds": 32.5,
        "ranSeconds": 57.5, "lostSeconds": 8, "finishedAt": "2026-01-01T12:01:30Z",
        "evictions": [{"at": "2026-01-01T12:00:10Z", "by": "ns/high", "reason": "InCohortReclamation"}],
    }  # fmt: skip
    assert (late["waitedSeconds"], late["finishedAt"], late["evictions"]) == (40, None, [])


def test_json_of_an_empty_run_has_no_numbers_it_cannot_know() -> None:
    found: Any = report.data(measure(run(until=0)))
    assert found["waitingSeconds"] == {"mean": None, "p50": None, "p95": None, "p99": None}
    assert found["queues"][0]["resources"][0]["utilisation"] is None


def two_runs() -> tuple[Measures, Measures]:
    patient = replace(evening(), lives=(*EVENING[:2], life("late", (70_000, 80_000), queue="b", created=60_000)))
    return measure(evening()), measure(patient)


def test_json_of_two_runs_holds_both_and_every_difference() -> None:
    this, against = two_runs()
    found: Any = report.comparison_data(this, against, compare(this, against))
    assert (found["run"], found["against"]) == (report.data(this), report.data(against))
    assert found["waited"] == {"sooner": 0, "later": 1, "alike": 2}
    by_name = {
        (d.get("clusterQueue"), d.get("priority"), d.get("resource"), d["measure"]): d for d in found["differences"]
    }
    assert by_name["b", 0, None, "waiting p50"] == {
        "clusterQueue": "b", "priority": 0, "measure": "waiting p50", "unit": "seconds", "run": 40, "against": 30,
        "change": 10, "verdict": "worse",
    }  # fmt: skip
    used = by_name["b", None, "cpu", "borrowed"]
    assert (used["unit"], used["run"], used["verdict"]) == ("unit-seconds", 91.5, "same")
    assert len(by_name) == len(found["differences"])


# --- lines -----------------------------------------------------------------------------------------------------------


def all_lines(width: int | None) -> list[str]:
    this, against = two_runs()
    return list(report.comparison_lines(this, against, compare(this, against), width))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_none_is_cut(width: int) -> None:
    lines = all_lines(width)
    assert [line for line in lines if len(line) > width] == []
    words = " ".join(" ".join(lines).split())
    for told in ("InCohortReclamation", "write-conflict 3", "never fired: watch-lost", "utilisation", "1 more"):
        assert told in words
    assert "…" not in words


def test_narrow_terminals_read_records_wide_ones_tables() -> None:
    assert "  queue (all), priority all" in all_lines(40)
    assert "  queue  priority  workloads  finished   mean    p50    p95    p99" in all_lines(80)


def test_a_pipe_gets_one_line_per_record_with_exact_values() -> None:
    lines = all_lines(None)
    start = lines.index("Waiting")
    rows = [re.split(r" {2,}", line.strip()) for line in lines[start + 1 : lines.index("", start)]]
    assert rows[0] == ["queue", "priority", "workloads", "finished", "mean", "p50", "p95", "p99"]
    assert {len(row) for row in rows} == {8}
    assert ["a", "all", "1", "1", "32.5s", "32.5s", "32.5s", "32.5s"] in rows
    assert [row[:2] for row in rows[1:]] == [
        ["(all)", "all"], ["(all)", "100"], ["(all)", "0"], ["a", "all"], ["b", "all"], ["b", "100"], ["b", "0"],
    ]  # fmt: skip


def test_a_pipe_is_told_all_digits_a_terminal_is_not() -> None:
    one = life("one", (12_345, 72_345), finished=72_345, evictions=[(72_345, "", "Deactivated")], lost=61_499)
    measures = measure(run(one, life("two", (0, 99_999), ran=99_999), until=99_999))
    piped, shown = (" ".join(report.lines(measures, width)) for width in (None, 80))
    for exact, short in (("12.345s", "12.3s"), ("1m1.499s", "1m1s"), ("1m39.999s", "1m40s")):
        assert exact in piped
        assert exact not in shown
        assert f" {short}" in shown


def test_a_terminal_is_shown_the_first_differences_a_pipe_all() -> None:
    names = {f"q{number}": 1000 for number in range(30)}
    lives = [life(f"w{n}", (5, 20), queue=name, finished=20) for n, name in enumerate(names)]
    worse = [life(f"w{n}", (9, 30), queue=name, finished=30) for n, name in enumerate(names)]
    this, against = measure(run(*lives, own=names)), measure(run(*worse, own=names))
    comparison = compare(this, against)
    parts = sum(1 for each in comparison.differences if each.scope.queue and each.verdict != "same")
    told = list(report.comparison_lines(this, against, comparison, None))
    assert sum(1 for line in told if re.match(r"  q\d+ .*(better|worse|differs)$", line)) == parts > report.PARTS
    shown = list(report.comparison_lines(this, against, comparison, 80))
    assert len(shown) < len(told)
    assert any(re.match(r"  and \d+ more: `-o json` has them all$", line) for line in shown)


def test_names_steer_no_terminal() -> None:
    lines = list(report.lines(measure(run(life("one", queue=EVIL))), 200))
    assert all(line.isprintable() for line in lines)
    assert any("\\x1b[31m" in line for line in lines)


def test_a_quiet_run_says_little() -> None:
    told = list(report.lines(measure(run())))
    assert [line for line in told if line and not line.startswith(" ")] == [
        "0 workloads, 0 admitted, 0 finished, 0 evictions in 100ms", "Waiting", "Quota",
    ]  # fmt: skip


# --- the page --------------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """A strict parser of pages: tags are closed in order."""

    VOID = frozenset({"meta", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "no script in attributes"
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.references.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_refers_to_itself_only() -> None:
    this, against = two_runs()
    read = Reader(page(this, compare(this, against)))
    assert len(read.ids) == len(set(read.ids))
    assert {each for each in read.references if not each.startswith("#")} == {"data:,"}
    assert {each[1:] for each in read.references if each.startswith("#")} <= set(read.ids)
    assert "script" not in read.tags
    assert read.tags.count("svg") == read.tags.count("figure") == 4  # two queues, waiting, evictions


def test_every_drawing_has_a_title_words_and_a_table() -> None:
    found = page(measure(evening()))
    figures = re.findall(r"<figure.*?</figure>", found, re.S)
    assert len(figures) == 4
    for each in figures:
        drawing = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", each, re.S)[0])
        first, second, *_ = drawing
        assert (first.tag, second.tag) == ("title", "desc")
        assert drawing.get("aria-labelledby") == f"{first.get('id')} {second.get('id')}"
        assert first.text
        assert second.text
        assert "<table>" in each


def test_the_page_draws_what_was_used_and_what_was_borrowed() -> None:
    found = page(measure(evening()))
    drawn = re.search(r'<path id="u1-0-p" d="([^"]*)"', found)  # b had quota for the shorter time, so it comes second
    assert drawn
    assert drawn[1].startswith("M64 166H64V166H")
    assert "V14H" in drawn[1]  # the highest level touches the top
    assert "<title>from 12.5s, used 9, of nominal 150%</title>" in found


def test_names_cannot_become_markup() -> None:
    fr: FR = (FlavorName(EVIL), ResourceName(EVIL))
    spells = (Spell(Millis(T), None, {fr: 5, CPU: 5}),)
    evictions = (PastEviction(Millis(T + 5), f"ns/{EVIL}", EVIL),)
    one = Life(WorkloadKey(f"ns/{EVIL}"), EVIL, 0, Millis(T), spells, evictions)
    bad = replace(run(one, own={EVIL: 5}), journal_sha256=EVIL, faults_fired={EVIL: 1})
    this, against = measure(bad), measure(run())
    read = Reader(page(this, compare(this, against), title=EVIL))
    assert "script" not in read.tags
    assert "&lt;script&gt;" in page(this)
    assert "\x1b" not in page(this)


def many(queues: int, resources: int, lives: int) -> Run:
    kinds: list[FR] = [(FlavorName("default"), ResourceName(f"example.com/r{n}")) for n in range(resources)]
    names = [f"queue-with-a-name-{number:04}" for number in range(queues)]
    return Run(
        lives=[
            Life(
                WorkloadKey(f"ns/w{n}"), names[n % queues], n % 11, Millis(T + n * 997),
                (Spell(Millis(T + n * 997), Millis(T + n * 1009 + 5000 * (n % 7)), dict.fromkeys(kinds, 1 + n % 5)),),
                (PastEviction(Millis(T + n * 1009), f"ns/w{(n * 7) % lives}", f"Reason{n % 12}"),),
            )
            for n in range(lives)
        ],
        queues={name: dict.fromkeys(kinds, 3) for name in names},
        cohorts=dict.fromkeys(names, "all"),
        began_at=Millis(T),
        ended_at=Millis(T + 1009 * lives),
    )  # fmt: skip


def test_a_large_run_gives_a_page_of_bounded_size() -> None:
    queues = NAMES + QUEUES + 5
    found = page(measure(many(queues=queues, resources=6, lives=6000)))
    read = Reader(found)
    assert read.tags.count("svg") == (QUEUES + 1) * RESOURCES + 2
    assert len(found) < 2_000_000
    steps = [path.count("V") for path in re.findall(r'<path id="u[^"]*" d="([^"]*)"', found)]
    assert len(steps) == (QUEUES + 1) * RESOURCES
    assert max(steps) <= POINTS + 1
    assert f"{queues - QUEUES} other queues: example.com/r0" in found
    assert "and 5 more" in found
    assert f"Of each queue the first {RESOURCES} resources are drawn" in found
    assert found.count('class="spot"') == (QUEUES + 1) * RESOURCES * SPOTS
    assert max(each.count("<tr>") for each in re.findall(r"<table.*?</table>", found, re.S)) <= ROWS + 1
    assert "lower priorities" in found
    assert "other reasons" in found


def test_other_queues_are_summed() -> None:
    """The last queues of the ranking are shown as one: its nominal quota is the sum of theirs."""
    measures = measure(many(queues=QUEUES + 4, resources=1, lives=240))
    found = page(measures)
    assert "4 other queues: example.com/r0" in found
    assert re.search(r"the nominal quota is 12\.</desc>", found)


def test_equal_measures_give_equal_pages() -> None:
    assert page(measure(evening())) == page(measure(evening()))


def test_an_empty_run_has_a_page() -> None:
    read = Reader(page(measure(run(until=0))))
    assert read.tags.count("svg") == 2  # quota and waiting; no workload was evicted


@pytest.mark.property
@given(st.integers(0, 10**12))
def test_an_axis_has_few_ticks_in_order(span_ms: int) -> None:
    found = [at for at, _ in ticks(span_ms)]
    assert found[0] == 0
    assert found == sorted(set(found)) or span_ms == 0
    assert len(found) <= 7
    assert found[-1] <= 1000
    assert len(found) >= 2 or span_ms <= 1
