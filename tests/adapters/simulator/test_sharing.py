"""A verdict that binds those who ask for more spares looks, and nobody rests who would get another one."""

from __future__ import annotations

import pytest

from makeway.adapters.simulator.arrivals import arrivals_of
from makeway.adapters.simulator.simulation import Settings, Simulation
from makeway.core.flavors import Mode
from makeway.core.model import Millis
from makeway.core.nomination import nominate
from makeway.core.state import State
from makeway.testing.worlds import Shape, objects
from tests.soaking import InTime

pytestmark = pytest.mark.slow

SHAPE = Shape(flavors_max=1, queues_max=3, works_max=40, minutes=10, jobs=False)


def who_should_not_rest(state: State, now: Millis) -> list[str]:
    """Those at rest whom a look would treat otherwise. Claims change what a look sees, so then nobody is asked."""
    if state.claims:
        return []
    found = []
    for name, line in state.pending.lines.items():
        for kin in line.resting if state.is_active(name) else ():
            member = line.members[line.kins[kin][0][5]]
            with state.trial():
                entry = nominate(state, member, now)
            if entry.refused is None and (entry.assignment.mode is Mode.FIT or entry.targets):
                found.append(f"{member.key}: {entry.assignment.mode.name}, {len(entry.targets)} targets")
    return found


def decisions(seed: int, *, widely: bool) -> int:
    simulation = Simulation(Settings(seed=seed, eviction_ms=(seed % 3) * 5000), arrivals_of(objects(seed, SHAPE)))
    engine = simulation.engine.engine
    assert engine.state.shares_widely
    engine.state.shares_widely = widely
    step = simulation.engine.step

    def watched(now: Millis) -> bool:
        happened = step(now)
        if not happened:
            assert who_should_not_rest(engine.state, now) == [], f"seed {seed}"
        return happened

    simulation.engine.step = watched  # type: ignore[method-assign]
    simulation.run()
    assert all(life.finished_at is not None for life in simulation.world.lives.recorded(simulation.clock.now))
    return simulation.engine.decisions


@pytest.mark.property
def test_nobody_rests_who_would_get_another_verdict_and_looks_are_spared(
    fuzz_seed: int, fuzz_inputs: int, in_time: InTime
) -> None:
    spared = 0
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // 200)):
        spared += decisions(seed, widely=False) - decisions(seed, widely=True)
    assert in_time.was_cut or spared > 0
