"""``makeway bench simulate``: that everything is simulated to its end, and what is reported; never how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from makeway.adapters.simulator.sources.arrivals import SourceFile
from makeway.adapters.simulator.sources.generator import read_generator
from makeway.bench import simulate as bench_simulate
from makeway.cli.main import main

KEYS = [
    "workloads", "finished", "virtualMakespanSeconds", "cpuSeconds", "cpuMicrosPerWorkload", "cycles", "decisions",
    "writesPerWorkload", "evictions", "peakMegabytes",
]  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    few = (1, 2, ((3, 100, "small", 200, 50, 1), (1, 500, "large", 1000, 200, 20)))
    monkeypatch.setattr(bench_simulate, "RECIPES", {"baseline": few, "large-scale": few})


@pytest.mark.usefixtures("small")
def test_the_result_is_one_json_object_on_one_line() -> None:
    result = CliRunner().invoke(main, ["bench", "simulate", "--json"])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    found = json.loads(result.stdout)
    assert list(found) == ["name", "baseline"]
    assert list(found["baseline"]) == KEYS
    assert (found["baseline"]["workloads"], found["baseline"]["finished"]) == (8, 8)
    assert found["baseline"]["virtualMakespanSeconds"] == 1.2  # borrowed or not, no workload waits for a large one


@pytest.mark.usefixtures("small")
def test_what_is_asked_for_is_run_and_told_in_lines() -> None:
    arguments = ["bench", "simulate", "--only", "large-scale", "--only", "baseline"]
    lines = CliRunner().invoke(main, arguments).stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["large-scale", "baseline"]
    assert [line.split()[0] for line in lines if line.startswith(" ")] == 2 * KEYS


def test_an_unknown_recipe_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["bench", "simulate", "--only", "huge"])
    assert result.exit_code == 2
    assert "no such recipe: huge\n\nhint: there are baseline, large-scale" in result.stderr


def test_a_broken_trace_is_told_with_its_lines(tmp_path: Path) -> None:
    trace = tmp_path / "philly.csv"
    trace.write_text("timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,soon,1,a\n", "utf-8")
    result = CliRunner().invoke(main, ["bench", "simulate", "--philly", str(trace)])
    assert result.exit_code == 1
    assert f'{trace}:2: error: duration: expected seconds, got "soon"' in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("name", "queues", "workloads"), [("baseline", 30, 15_000), ("large-scale", 1000, 50_000)])
def test_the_recipes_are_of_the_size_that_is_compared(name: str, queues: int, workloads: int) -> None:
    source = read_generator(SourceFile(name, json.dumps(bench_simulate.recipe(name)).encode()))
    kinds = [getattr(each, "kind", "") for each in source.objects]
    assert (kinds.count("ClusterQueue"), source.count) == (queues, workloads)
