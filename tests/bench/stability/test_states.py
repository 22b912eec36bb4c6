"""Random states: reproducible, contended, and with all the features that preemption depends on."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from makeway.bench.stability.settling import GATES_ON, Settling
from makeway.bench.stability.states import START, StartingState, world
from makeway.core.policy import Policy

ROOT = Path(__file__).parents[3]
PRINT = "from makeway.bench.stability.states import world; print([world(3, i) for i in range(20)])"


@functools.cache
def worlds() -> list[StartingState]:
    return [world(0, number) for number in range(200)]


def printed(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True, check=True)
    return result.stdout


def test_a_world_depends_on_its_seed_and_number_alone() -> None:
    assert printed("1") == printed("2") == f"{[world(3, i) for i in range(20)]}\n"


def test_no_two_are_alike() -> None:
    assert len({repr(each) for each in worlds()}) == len(worlds())
    assert repr(world(0, 1)) != repr(world(1, 0))


def test_playing_a_state_leaves_its_world_as_it_was() -> None:
    one = next(each for each in worlds() if any(running.evicted for running in each.running))
    before = repr(one)
    Settling(one.state(GATES_ON), START, "instant").run()
    assert repr(one) == before


def features(one: StartingState) -> list[str]:
    """The features of a world that matter to preemption."""
    queues, specs = [queue for queue, _ in one.queues], [*(spec for _, spec in one.queues), *one.cohorts]
    pod_sets = [each for workload in one.waiting for each in workload.pod_sets]
    tree = one.state(Policy.default()).tree
    has = {
        "a cohort below a cohort": any(each.parent for each in one.cohorts),
        "cohort quota": any(each.nominal for each in one.cohorts),
        "no cohort": any(not spec.parent for _, spec in one.queues),
        "borrowing limit": any(each.borrowing for each in specs),
        "lending limit": any(each.lending for each in specs),
        "both strategies": len({each.strict for each in queues}) == 2,
        "reclaim by priority": any(each.reclaim == "LowerPriority" for each in queues),
        "reclaim from any": any(each.reclaim == "Any" for each in queues),
        "borrow while reclaiming": any(each.borrow == "LowerPriority" for each in queues),
        "threshold": any(each.threshold is not None for each in queues),
        "newer equals": any(each.within == "LowerOrNewerEqualPriority" for each in queues),
        "time for equals": any(each.min_admit is not None for each in queues),
        "several flavors": len(one.flavors) > 1,
        "two groups": any(len(each.groups) > 1 for each in queues),
        "partial admission": any(each.min_count is not None for each in pod_sets),
        "several podSets": any(len(each.pod_sets) > 1 for each in one.waiting),
        "closed gate": any(each.gated for each in one.waiting),
        "leaving already": any(each.evicted for each in one.running),
        "above quota": any(tree.available(node, fr) < 0 for node in tree.queues.values() for fr in node.usage),
    }  # fmt: skip
    return [name for name, holds in has.items() if holds]


def test_everything_that_matters_to_preemption_occurs_and_nothing_always() -> None:
    counts = Counter(name for each in worlds() for name in features(each))
    assert len(counts) == 19
    assert all(len(worlds()) // 20 <= count < len(worlds()) for count in counts.values()), counts


def test_states_are_contended() -> None:
    """Close to half of them need preemption, which is their purpose."""
    played = [Settling(each.state(GATES_ON), START, "instant").run(20) for each in worlds()]
    assert sum(bool(each.evictions) for each in played) >= len(worlds()) // 3
