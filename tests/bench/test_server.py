"""``makeway bench store`` and ``bench scale``: that they measure what they say, on a real server; never how fast."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from makeway.bench import store as bench_store
from makeway.bench.clients import Spotter, WatchLines, percentile
from makeway.bench.server import kind_of_write, written
from makeway.cli.main import main
from makeway.runtime.ports import Revision, Stored
from tests.runtime.wires import condition, holder, workload

RECIPE = """
cohorts:
- className: cohort
  count: 1
  queuesSets:
  - className: cq
    count: 2
    nominalQuota: 2
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    workloadsSets:
    - count: 6
      creationIntervalMs: 10
      workloads: [{className: small, runtimeMs: 50, priority: 50, request: 1}]
    - count: 2
      creationIntervalMs: 40
      workloads: [{className: large, runtimeMs: 60, priority: 200, request: 2}]
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {
        "WRITERS": 2, "CREATES": 8, "HTTPS_CREATES": 8, "WATCHERS": 2, "EVENTS_PER_SECOND": 20, "FAN_OUT_SECONDS": 1,
        "HEADS": 3, "CYCLE_EVENTS_PER_SECOND": 10, "CYCLE_SECONDS": 1, "OBJECTS": 30, "IDLE_SECONDS": 0.1,
        "WORKLOADS": 20, "CROWD_QUEUES": 2,
    }  # fmt: skip
    for name, value in sizes.items():
        monkeypatch.setattr(bench_store, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_every_figure_of_a_store_has_an_aim() -> None:
    """One of the parts that need a server; the others differ in what they load and how long they wait."""
    parts = ("creates", "cycle")
    found = CliRunner().invoke(main, ["bench", "store", "--json", *(f"--part={each}" for each in parts)])
    assert found.exit_code == 0, found.output
    measured = json.loads(found.stdout)
    assert measured.keys() & bench_store.AIMS.keys() == {"createsPerSecond", "cycleWatchP99Ms"}
    assert min(measured[key] for key in measured if key != "name") > 0


@pytest.mark.usefixtures("small")
def test_the_text_names_the_aims() -> None:
    lines = CliRunner().invoke(main, ["bench", "store", "--part", "creates"]).stdout.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("(aim: at least 8000 /s)")


@pytest.mark.slow
def test_a_recipe_is_played_to_its_end_on_a_live_server(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE)
    found = CliRunner().invoke(main, ["bench", "scale", "--generator", str(file), "--json"])
    assert found.exit_code == 0, found.output
    measured = json.loads(found.stdout)
    assert (measured["workloads"], measured["toAdmissionMs"].keys()) == (16, {"small", "large"})
    assert measured["wallSeconds"] > measured["virtualMakespanSeconds"] * 0.9
    writes = measured["writes"]
    assert (writes["Workload added"], writes["Workload finished"]) == (16, 16)
    assert writes["Workload admitted"] == 16 + measured["evictions"] == 16 + writes.get("Workload released", 0)
    assert measured["mostWritesOfNotEvicted"] == 3, "it is created, admitted, finished"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["store", "--part", "speed"], 2, "no such part: speed"),
        (["scale"], 2, "--generator FILE"),
        (["scale", "--generator", "gone.yaml"], 1, "gone.yaml"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], code: int, words: str) -> None:
    found = CliRunner().invoke(main, ["bench", *arguments])
    assert (found.exit_code, words in found.stderr) == (code, True), found.output


# --- what is counted --------------------------------------------------------------------------------------------------


def change(before: Any, after: Any) -> Revision:
    from makeway.api import codec
    from makeway.api.versions import kind_of

    def stored(value: Any) -> Stored | None:
        return None if value is None else Stored.of(kind_of(type(value)), value.metadata, codec.encode(value))

    last = stored(after)
    assert last is not None
    return Revision("ADDED" if before is None else "MODIFIED", stored(before), last)


WAITING = workload("w", condition("QuotaReserved", False))
HOLDS = holder("w")
EVICTED = holder("w", 1, condition("Evicted"))
FINISHED = holder("w", 1, condition("Finished"))


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (None, workload("w"), "added"),
        (workload("w"), WAITING, "pending"),
        (WAITING, HOLDS, "admitted"),
        (HOLDS, EVICTED, "evicted"),
        (EVICTED, workload("w", condition("QuotaReserved", False), condition("Evicted")), "released"),
        (HOLDS, FINISHED, "finished"),
        (HOLDS, holder("w", 1, condition("PodsReady")), "other"),
    ],
)
def test_a_write_of_a_workload_is_told_by_what_became_of_it(before: Any, after: Any, word: str) -> None:
    assert kind_of_write(change(before, after)) == f"Workload {word}"


def test_of_those_who_were_not_evicted_the_pending_status_counts_apart() -> None:
    found = written([
        change(None, workload("w")), change(workload("w"), WAITING), change(WAITING, HOLDS), change(HOLDS, FINISHED),
        change(None, workload("v")), change(workload("v"), holder("v")),
        change(holder("v"), holder("v", 1, condition("Evicted"))),
    ])  # fmt: skip
    assert (found["notEvicted"], found["evictions"]) == (1, 1)
    assert (found["writesOfNotEvicted"], found["pendingOfNotEvicted"]) == (3, 1)


# --- clients ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_whole_wherever_what_arrives_is_cut(size: int) -> None:
    heard: list[bytes] = []
    lines = WatchLines(heard.append)
    data = b"5\r\nab\ncd\r\n4\r\ne\nf\n\r\n10\r\n" + b"x" * 15 + b"\n\r\n"
    for at in range(0, len(data), size):
        lines(data[at : at + size])
    assert heard == [b"ab", b"cde", b"f", b"x" * 15]


@pytest.mark.parametrize("size", [1, 4, 9, 1000])
def test_a_name_is_spotted_once_wherever_what_arrives_is_cut(size: int) -> None:
    spotter = Spotter(re.compile(rb'"name":"event-(\d+)"'), [0.0] * 20)
    data = b"".join(b'{"metadata":{"name":"event-%d"}}\n' % i for i in range(12))
    for at in range(0, len(data), size):
        spotter(data[at : at + size])
    assert len(spotter.took) == 12


def test_percentiles() -> None:
    assert [percentile(range(100), share) for share in (0, 50, 99, 100)] == [0, 50, 99, 99]
    assert percentile([], 50) == 0


@pytest.mark.slow
def test_neighbours_are_as_many_as_it_says_and_writers_go_on() -> None:
    found = CliRunner().invoke(main, ["bench", "neighbours", "--json", "--seconds", "0.5", "--crowd", "0.01"])
    assert found.exit_code == 0, found.output
    measured = json.loads(found.stdout)
    assert min(measured[key]["creates"] for key in ("without", "beside")) > 0
    assert measured["p99Ratio"] > 0
    assert measured["rssPeakMegabytes"] > 0
    crowd = measured["crowd"]
    assert [crowd[key] for key in ("watches", "follows", "idle")] == [2, 9, 10]
    assert crowd["bombs"] == crowd["bombsRefused"] > 0
    assert measured["endedByServer"].keys() == {"unknown", "idle", "token", "unread"}
