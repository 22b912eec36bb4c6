"""``makeway bench stability``: what it reports, and that a broken promise is named and fails."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from makeway.bench.stability import measure as bench_stability
from makeway.bench.stability import settling
from makeway.bench.stability.entitlement import Entitled
from makeway.bench.stability.measure import StabilityTotals
from makeway.bench.stability.settling import GATES_OFF
from makeway.cli.main import main
from makeway.core.model import WorkloadKey

KEYS = [
    "states", "settled", "maxEvictionsOfOne", "maxCycles", "loopsWithGatesOff", "breaker", "overQuota",
    "entitledWaiting", "utilisationOn", "utilisationOff", "utilisationNoHold", "waitingOn", "waitingOff",
    "waitingNoHold", "evictionsOn", "evictionsOff", "evictionsNoHold", "unsettled",
]  # fmt: skip

PRICES = ("utilisation", "waiting", "evictions")


def test_the_result_is_one_json_object_on_one_line() -> None:
    result = CliRunner().invoke(main, ["bench", "stability", "--states", "20", "--seed", "5", "--json"])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    measured = json.loads(result.stdout)
    assert list(measured) == KEYS
    assert (measured["states"], measured["settled"], measured["unsettled"]) == (20, 20, [])
    assert measured["evictionsOn"] > 0
    assert 0 < measured["utilisationOn"] < 1
    assert list(measured["entitledWaiting"]) == ["causes", "workloads"]


def test_equal_seeds_give_equal_results_and_first_says_where_to_begin() -> None:
    whole, again = (bench_stability.bench_stability(12, 3).result() for _ in range(2))
    assert whole == again
    parts = [bench_stability.bench_stability(6, 3, first).result() for first in (0, 6)]
    assert whole["evictionsOn"] == sum(part["evictionsOn"] for part in parts)


def test_the_text_has_a_line_for_every_figure() -> None:
    lines = CliRunner().invoke(main, ["bench", "stability", "--states", "3"]).stdout.splitlines()
    assert [line.split()[-1] for line in lines[:2]] == ["3", "3"]
    assert sum("entitled, and wait" in line for line in lines) == 3
    assert len(lines) == len(KEYS) - 2 + 3


@pytest.mark.slow
def test_a_state_that_loops_is_named_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the gates off in both plays some state of these loops."""
    monkeypatch.setattr(bench_stability, "GATES_ON", GATES_OFF)
    result = CliRunner().invoke(main, ["bench", "stability", "--states", "120", "--seed", "1", "--json"])
    assert result.exit_code == 1
    measured = json.loads(result.stdout)
    assert measured["settled"] < 120
    assert measured["loopsWithGatesOff"] > 0
    assert measured["maxCycles"] > settling.CYCLES_MAX - 10
    where = measured["unsettled"][0]
    first = where.partition(" ")[0].removeprefix("1/")
    text = CliRunner().invoke(main, ["bench", "stability", "--states", "1", "--seed", "1", "--first", first])
    assert f"{where}: does not settle" in text.stdout


def test_only_causes_that_are_allowed_keep_the_promise() -> None:
    tally = StabilityTotals(0, states=1)
    tally.entitled = [("0/1 instant", Entitled(WorkloadKey("n/a"), "reservation"))]
    assert tally.broken == []
    tally.entitled.append(("0/1 instant", Entitled(WorkloadKey("n/b"), "other:barred by an epoch")))
    assert tally.broken == ["0/1 instant n/b: is entitled and waits: barred by an epoch"]
    assert tally.result()["entitledWaiting"] == {
        "causes": {"admission": 0, "flavor scan": 0, "other:barred by an epoch": 1, "reservation": 1},
        "workloads": ["0/1 instant n/a: reservation", "0/1 instant n/b: other:barred by an epoch"],
    }
    tally = StabilityTotals(0, breaker=1, over_quota=["0/2 instant n/c"])
    assert tally.broken == ["0/2 instant n/c: admitted above quota", "1 workload ran out of rounds"]
    tally = StabilityTotals(0, breaker=2, exhausted=["0/3 slow", "0/7 slow"])
    assert tally.broken == ["2 workloads ran out of rounds: 0/3 slow, 0/7 slow"]


@pytest.mark.slow
def test_with_fair_sharing_states_settle_too() -> None:
    """Ten states with each list of strategies; many more in the properties of settling."""
    result = CliRunner().invoke(main, ["bench", "stability", "--fair", "--states", "30", "--seed", "5", "--json"])
    assert result.exit_code == 0, result.output
    measured = json.loads(result.stdout)
    assert (measured["states"], measured["settled"], measured["breaker"], measured["overQuota"]) == (30, 30, 0, 0)
    assert 0 < measured["waitingOn"] < 1
    assert measured != bench_stability.bench_stability(30, 5).result()


def test_fair_sharing_says_nothing_about_other_benches() -> None:
    result = CliRunner().invoke(main, ["bench", "codec", "--fair"])
    assert result.exit_code == 2
    assert "hint: it is for cycle, targets, stability" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("evictions", ["slow", "late"])
def test_states_settle_also_when_victims_take_up_to_an_hour_to_leave(evictions: str) -> None:
    """Within their grace period of an hour, or late, far beyond one of 30 seconds: then claims end first."""
    result = CliRunner().invoke(main, ["bench", "stability", "--evictions", evictions, "--states", "20", "--json"])
    measured = json.loads(result.stdout)
    assert list(measured) == KEYS
    assert (measured["states"], measured["settled"], measured["unsettled"], measured["overQuota"]) == (20, 20, [], 0)
    assert measured["maxCycles"] > settling.SLOW_MIN, "cycles that are passed over count"
    assert result.exit_code == 0
    if evictions == "slow":
        assert measured["breaker"] == 0
        assert measured["maxEvictionsOfOne"] <= 3


def test_how_victims_leave_says_nothing_about_other_benches() -> None:
    result = CliRunner().invoke(main, ["bench", "codec", "--evictions", "slow"])
    assert result.exit_code == 2
    assert "hint: it is for stability" in result.stderr


@pytest.mark.slow
def test_the_price_of_holds_stands_beside_that_of_the_gates() -> None:
    """Where an entitled workload waits, others of its tree borrow less, and are displaced less often."""
    measured = bench_stability.bench_stability(60, 7).result()
    on, without = ([measured[f"{key}{which}"] for key in PRICES] for which in ("On", "NoHold"))
    assert on != without
    assert all(value > 0 for value in (*on, *without))
