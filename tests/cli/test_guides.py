"""The examples of the guides keep their promises in virtual time, over the hours that the guides name."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from makeway.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
TURNS, FAIR = EXAMPLES / "taking-turns", EXAMPLES / "fair-sharing"
HOUR = 3600


def simulated(folder: Path, *arguments: str) -> dict[str, Any]:
    asked = ["simulate", "-f", str(folder), "-o", "json", "--per-workload", *arguments]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("config", [(), ("--config", str(FAIR / "config.yaml"))], ids=["classical", "fair sharing"])
@pytest.mark.parametrize("eviction", ["0s", "1m", "10m"])
def test_three_teams_of_equal_standing_rotate(eviction: str, config: tuple[str, ...]) -> None:
    """Half a day: every team ran as long, up to one turn of two hours, and after each comes the next team."""
    found = simulated(TURNS, "--eviction", eviction, "--until", "13h", *config)
    ran = [each["ranSeconds"] for each in found["perWorkload"]]
    assert max(ran) - min(ran) <= 2 * HOUR + 60
    assert sum(ran) >= 13 * HOUR - found["evictions"] * 601 - 1
    turns = sorted(
        (gone["at"], each["workload"].partition("/")[0], gone["by"].partition("/")[0], gone["reason"])
        for each in found["perWorkload"]
        for gone in each["evictions"]
    )
    assert {reason for *_, reason in turns} == {"InClusterQueueTimeBased"}
    assert [left for _, left, *_ in turns] == (["vision", "speech", "search"] * 3)[: len(turns)]
    assert all(by == left for (_, _, by, _), (_, left, _, _) in pairwise(turns)), "who came is the next to go"
    assert len(turns) >= 5


def test_what_is_shared_is_divided_by_weight_and_nobody_makes_way_twice() -> None:
    found = simulated(FAIR, "--config", str(FAIR / "config.yaml"), "--until", "4h")
    at_the_end = {each["clusterQueue"]: each["last"] for each in found["shares"]}
    assert at_the_end == {"search": 125, "speech": 125, "vision": 187.5}, "4, 4 and 8 GPUs"
    assert max(len(each["evictions"]) for each in found["perWorkload"]) == 1
    without = simulated(FAIR, "--until", "4h")
    assert without["evictions"] == 2, "without fair sharing everybody takes back what it owns, and no more"
