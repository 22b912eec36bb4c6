"""Shares through a run, and their display in a report, a page and a story."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from makeway.adapters.simulator.reports.sharing import NodeShares, Sharing, shares_through
from makeway.adapters.simulator.reports.usage import Stay
from makeway.cli.main import main
from makeway.core.quota.tree import WEIGHT_ONE, QuotaSpec
from makeway.testing.builders import amounts, cohort

FAIR = Path(__file__).parents[3] / "examples" / "fair-sharing"


def spec(name: str, cpu: int, *, weight: float = 1, parent: str = "r") -> QuotaSpec:
    return QuotaSpec(name=name, parent=parent, nominal=amounts(cpu), weight=round(weight * WEIGHT_ONE))


def stay(began: int, ended: int, cpu: int) -> Stay:
    return Stay(began, ended, amounts(cpu))


def told(*specs: QuotaSpec, stays: dict[str, list[Stay]], until: int = 100) -> dict[str, NodeShares]:
    sharing = Sharing(specs, (cohort("r", 6, parent="top"), cohort("top", 10)))
    return {each.name: each for each in shares_through(sharing, stays, 0, until)}


def test_a_share_lasts_until_its_queue_or_one_below_changes() -> None:
    """Twenty could be lent: two above are 100."""
    found = told(spec("a", 4), spec("b", 0), stays={"a": [stay(0, 50, 6)], "b": [stay(20, 40, 4), stay(20, 100, 1)]})
    assert list(found) == ["a", "b", "r"], "queues, then cohorts; the root has no share"
    assert (found["a"].mean, str(found["a"].highest), str(found["a"].last)) == (Fraction(50), "100", "0")
    assert found["b"].mean == Fraction(250 * 20 + 50 * 60, 100)
    assert str(found["b"].highest) == "250"
    assert str(found["b"].last) == "50", "who has quota at the end keeps it"
    assert (found["r"].mean, str(found["r"].highest)) == (Fraction(10), "50"), "11 of its 10 for a fifth of the time"


def test_what_is_had_for_no_time_does_not_count() -> None:
    found = told(spec("a", 0), stays={"a": [stay(10, 10, 8), stay(10, 20, 2)]})
    assert str(found["a"].highest) == "125"


def test_borrowing_with_weight_zero_is_infinite_and_not_part_of_the_mean() -> None:
    found = told(spec("z", 0, weight=0), stays={"z": [stay(0, 30, 2)], "gone": [stay(0, 9, 1)]})
    assert (found["z"].mean, found["z"].infinite_ms, str(found["z"].highest)) == (Fraction(0), 30, "infinite")
    always = told(spec("z", 0, weight=0), stays={"z": [stay(0, 200, 2)]})
    assert always["z"].mean is None


def run(*arguments: str) -> Any:
    asked = ["simulate", "-f", str(FAIR), "--config", str(FAIR / "config.yaml"), "--until", "4h", *arguments]
    return CliRunner().invoke(main, asked)


def test_the_report_the_story_and_the_page_show_shares(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("--report", str(page))
    assert result.exit_code == 0, result.output
    words = "its side's share falls from 375 to 250, the newcomer's rises from 187.5 to 250, no higher"
    assert f"search/sweep-4 makes way for vision/train-5: Fair Sharing within the cohort, {words}\n" in result.stdout
    assert "\nShares\n  of      kind   weight   mean  highest  at the end\n" in result.stdout
    assert "\n  vision  queue       2  148.4      250       187.5\n" in result.stdout
    assert "<h3>Shares</h3>" in page.read_text("utf-8")


def test_the_same_as_data() -> None:
    found = json.loads(run("-o", "json", "--per-workload").stdout)
    assert found["shares"][2] == {
        "clusterQueue": "vision", "weight": "2", "mean": pytest.approx(148.394, abs=0.001), "highest": 250,
        "last": 187.5, "infiniteSeconds": 0,
    }  # fmt: skip
    gone = [each["evictions"][0] for each in found["perWorkload"] if each["evictions"]]
    assert sum("no higher" in each["why"] for each in gone) == 5
    plain = CliRunner().invoke(main, ["simulate", "-f", str(FAIR), "--until", "4h", "-o", "json"])
    assert "shares" not in json.loads(plain.stdout)
