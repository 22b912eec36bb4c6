"""``makeway bench quality``: the best choice is found by trying all, and ours is compared with it."""

from __future__ import annotations

import itertools
import json

import pytest
from click.testing import CliRunner

from makeway.bench.quality import Exhaustive, bench_quality, random_cluster, tight_cluster
from makeway.cli.main import main


def test_the_result_is_one_json_object_on_one_line() -> None:
    result = CliRunner().invoke(main, ["bench", "quality", "--clusters", "12", "--json"])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    measured = json.loads(result.stdout)
    assert measured["clusters"] == measured["unlikeThatFit"]["gangs"] == 12
    for name in ("violations", "victims", "lostRunTime"):
        assert measured[name]["leastAlone"] <= min(measured[name]["ours"], measured[name]["optimum"])


def test_text_names_the_aims() -> None:
    result = CliRunner().invoke(main, ["bench", "quality", "--clusters", "3"])
    assert "(aim: 1.07)" in result.stdout
    assert "(aim: 1.5 %; unlike gangs)" in result.stdout


@pytest.mark.parametrize("seed", range(6))
def test_the_best_choice_is_the_best_of_all_sets(seed: int) -> None:
    """Compared with every set of units, on clusters where there are few."""
    exact = Exhaustive(random_cluster(seed, alike=seed % 2 == 0, budgets=True))
    allowed = [i for i, unit in enumerate(exact.units) if unit.priority <= 2]
    sets = itertools.chain.from_iterable(itertools.combinations(allowed, size) for size in range(len(allowed) + 1))
    fitting = [frozenset(each) for each in itertools.islice(sets, 5000) if exact.fits(frozenset(each))]
    if fitting:
        costs = [tuple(sum(exact.units[i].cost[k] for i in each) for k in range(3)) for each in fitting]
        assert exact.least(2, lambda cost: cost) <= min(costs)
        if len(allowed) <= 12:
            assert exact.least(2, lambda cost: cost) == min(costs)


def test_gangs_that_just_fit_do_fit() -> None:
    for seed in range(20):
        exact = Exhaustive(tight_cluster(seed))
        assert len(exact.members) >= 2
        assert exact.fits(frozenset()), seed


@pytest.mark.slow
def test_choices_are_as_near_to_the_best_as_is_aimed_at() -> None:
    found = bench_quality(60, seed=1)
    assert found["victims"]["ratio"] <= 1.07
    assert found["lostRunTime"]["ratio"] <= 1.15
    assert found["violations"]["ratio"] <= 1.2
    assert found["unlikeThatFit"]["share"] <= 0.015 < found["toTheLetter"]["unlikeThatFit"]["share"]
