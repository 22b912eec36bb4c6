"""Whatever fails: no gang stands in part, no pod leaves for nothing, no node is too full, and all comes to rest."""

from __future__ import annotations

import pytest

from tests.controllers.gang_world import GangWorld
from tests.soaking import InTime

SEEDS = 80
PROFILES = ("none", "watch", "writes", "crashes", "all", "unreadable")


@pytest.mark.property
@pytest.mark.slow
def test_gangs_on_nodes_with_faults(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    evicted = bound = 0
    fired: set[str] = set()
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(SEEDS, fuzz_inputs // 25))):
        world = GangWorld(seed, PROFILES[seed % len(PROFILES)])
        assert world.run() == [], f"seed {seed}"
        evicted += world.judge.evicted
        bound += world.judge.bound
        fired |= {name for name, count in world.faults.fired.items() if count}
    if not in_time.was_cut:
        assert min(evicted, bound) > SEEDS
        assert {"watch.lost", "write.conflict", "crash.before", "crash.after", "unreadable.controllers"} <= fired


@pytest.mark.property
@pytest.mark.parametrize("seed", [115, 151, 166])
def test_gangs_of_which_members_leave_while_too_few_others_come(seed: int) -> None:
    """In these stories a gang that counts its leaving members would be bound in part."""
    assert GangWorld(seed, "none").run() == []


@pytest.mark.property
@pytest.mark.parametrize("seed", [212, 1313, 1452, 3280387027])
def test_gangs_of_which_members_are_gone_and_no_watch_has_said_so(seed: int) -> None:
    """In these stories the rest of a gang is bound beside members that ended or were deleted, unknown to it."""
    assert GangWorld(seed, "watch").run() == []
