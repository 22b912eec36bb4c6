"""Cohorts in a chain of ten thousand: the engine starts, admits, lends, answers and changes as with two.

A soak goes to that depth, other runs only deeper than calls may nest here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from makeway.api import codec
from makeway.api.objects.queueing import ClusterQueue, Cohort
from makeway.cli.jobs.queues import _data, _lines
from makeway.cli.jobs.quota_figures import grouped
from makeway.cli.main import main
from makeway.core.policy import Policy
from tests.scenarios.stage import Stage, Tree, flavor, named, queue, quotas, work

FAIR = replace(Policy.default(), fair_strategies=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))
NESTED_MAX = 400
QUICK, DEEP = 600, 10_000


@pytest.fixture(autouse=True)
def _little_room_to_recur() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(NESTED_MAX)
    yield
    sys.setrecursionlimit(before)


def chain(depth: int) -> list[Tree]:
    """``c0`` at the bottom; the cohort at the top has 8 cpu for all."""
    top = named("Cohort", f"c{depth - 1}", {"resourceGroups": quotas(8)})
    return [*(named("Cohort", f"c{i}", {"parentName": f"c{i + 1}"}) for i in range(depth - 1)), top]


def admits(stage: Stage, depth: int) -> None:
    """Quota of the top, for a queue at the bottom; and for another queue that reclaims it."""
    stage.arrive(work("a", 6), work("b", 4, queue="r"))
    assert stage.holders == {"a", "b"}
    assert stage.used("q") == "6"
    stage.restart()
    stage.rest(1)
    assert stage.holders == {"a", "b"}
    stage.create(work("c", 4, queue="r"))
    stage.rest(5)
    assert stage.condition("c", "QuotaReserved")[0] == "False"


def changes(stage: Stage, depth: int) -> None:
    """Delete a middle cohort: what runs goes on, and nothing is lent any more. Create it again; then make a ring."""
    middle = depth // 2
    stage.delete("Cohort", f"c{middle}")
    stage.rest(1)
    assert not stage.exists("Cohort", f"c{middle}")
    stage.finish("a")
    stage.rest(1)
    assert stage.holders == {"b"}
    stage.create(named("Cohort", f"c{middle}", {"parentName": f"c{middle + 1}"}))
    stage.rest(1)
    assert stage.holders == {"b", "c"}
    stage.patch("Cohort", f"c{depth - 1}", {"spec": {"parentName": "c0"}})
    stage.rest(1)
    assert is_active(stage) == ("False", "Unknown")
    stage.restart()
    stage.patch("Cohort", f"c{depth - 1}", {"spec": {"parentName": None}})
    stage.rest(1)
    assert is_active(stage)[0] == "True"


def is_active(stage: Stage) -> tuple[str, str]:
    (found,) = [each for each in stage.get("ClusterQueue", "q").status.conditions if each.type == "Active"]
    return found.status, found.reason


def play(depth: int, policy: Policy) -> Stage:
    stage = Stage(
        flavor(), *chain(depth), queue("q", 0, cohort="c0", reclaim="Any"),
        queue("r", 2, cohort="c0", reclaim="Any"), policy=policy,
    )  # fmt: skip
    admits(stage, depth)
    return stage


@pytest.fixture
def depth(fuzz_inputs: int) -> int:
    return DEEP if fuzz_inputs > 2000 else QUICK


@pytest.mark.slow
@pytest.mark.property
@pytest.mark.parametrize("policy", [Policy.default(), FAIR], ids=["classical", "fair"])
def test_a_deep_chain_is_like_a_short_one(policy: Policy, depth: int) -> None:
    if policy is FAIR:
        depth = min(depth, 2_000)  # the recount computes the share of each cohort by itself
    changes(play(depth, policy), depth)


def test_the_work_of_an_admission_grows_with_the_depth_and_no_faster() -> None:
    """Counted in questions to the tree and in shares, of all that happens between two arrivals and an eviction."""
    asked, shares = [], []
    for depth in (100, 200):
        stage = Stage(flavor(), *chain(depth), queue("q", 0, cohort="c0"), queue("r", 2, cohort="c0"), policy=FAIR)
        tree = stage.simulation.engine.engine.state.tree
        before = (tree.questions, tree.shares)
        stage.create(work("a", 6), work("b", 4, queue="r"))
        stage.rest(1)
        assert stage.holders == {"a", "b"}
        asked.append(tree.questions - before[0])
        shares.append(tree.shares - before[1])
    assert asked[1] <= 2.3 * asked[0]
    assert shares[1] <= 2.3 * shares[0]


def manifests(path: Path, depth: int) -> list[Tree]:
    trees = [flavor(), *chain(depth), *queue("q", 0, cohort="c0"), work("a", 6), work("b", 6)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": trees}))
    return trees


def said(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert not isinstance(result.exception, Exception), result.exception
    return result.output


def commands(path: Path, depth: int) -> None:
    """``validate``, ``plan`` and ``queues`` on the chain, and on a ring of the same cohorts."""
    trees = manifests(path / "chain.json", depth)
    assert "error" not in said("validate", "-f", str(path / "chain.json"))
    assert "a" in said("plan", "-f", str(path / "chain.json"))
    values = [codec.read(each).value for each in trees]
    groups = grouped(
        [each for each in values if isinstance(each, ClusterQueue)],
        [each for each in values if isinstance(each, Cohort)],
    )
    data = _data(groups)
    assert len(data["cohorts"]) == depth
    assert data["cohorts"][0]["name"] == f"c{depth - 1}"
    assert {tuple(each["resources"][0].values())[2] for each in data["cohorts"]} == {"0", "8"}
    assert max(map(len, _lines(groups, 80))) < 200
    trees[depth]["spec"]["parentName"] = "c0"
    (path / "ring.json").write_text(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": trees}).decode())
    assert "the parents form a cycle" in said("validate", "-f", str(path / "ring.json"))


@pytest.mark.slow
@pytest.mark.property
def test_commands_take_a_deep_chain(tmp_path: Path, depth: int) -> None:
    commands(tmp_path, depth)
