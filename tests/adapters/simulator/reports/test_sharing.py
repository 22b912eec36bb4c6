"""A verdict that also counts for larger requests saves evaluations, and parks no workload that would get
another one.
"""

from __future__ import annotations

import pytest

from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import arrivals_of
from makeway.core.cycle.flavors import Mode
from makeway.core.cycle.nomination import nominate
from makeway.core.model import Millis, Workload
from makeway.core.state import State
from makeway.runtime.journal import JournalEntry
from makeway.testing.worlds import Shape, objects
from tests.soaking import InTime

pytestmark = pytest.mark.slow

SHAPE = Shape(flavors_max=1, queues_max=3, works_max=40, minutes=10, jobs=False)


def who_should_not_rest(state: State, now: Millis) -> list[str]:
    """The parked workloads that an evaluation would treat otherwise. With claims none is checked."""
    if state.claims:
        return []
    found = []
    for name, line in state.pending.lists.items():
        for kin in line.classes.parked if state.is_active(name) else ():
            member = line.members[line.classes.places[kin][0][-1]]
            with state.trial():
                entry = nominate(state, member, now)
            if entry.refused is None and (entry.assignment.mode is Mode.FIT or entry.targets):
                found.append(f"{member.key}: {entry.assignment.mode.name}, {len(entry.targets)} targets")
    return found


def story(seed: int, *, passing: bool) -> tuple[list[object], int]:
    """The decisions without "no", and the number of evaluations; skipped workloads are evaluated here too."""
    simulation = Simulation(
        SimulationSettings(seed=seed, eviction_ms=(seed % 3) * 5000), arrivals_of(objects(seed, SHAPE))
    )
    state = simulation.engine.engine.state
    told: list[object] = []
    certainly_refused = state.prefilter.certainly_refused

    def watched(head: Workload, now: Millis) -> bool:
        if not passing or not certainly_refused(head, now):
            return False
        with state.trial():
            entry = nominate(state, head, now)
        found = (entry.refused, entry.targets, entry.spared)
        assert found == (None, (), False), f"seed {seed}: {head.key}"
        assert entry.assignment.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES), f"seed {seed}: {head.key}"
        return True

    def heard(entry: JournalEntry) -> None:
        if entry.what not in ("waiting", "skipped") or any(step[0] == "cycle/deferred-fit" for step in entry.steps):
            told.append((entry.at, entry.what, entry.workload, entry.queue, entry.reason, entry.by, entry.victims))

    state.prefilter.certainly_refused = watched  # type: ignore[method-assign]
    simulation.journal.listeners.append(heard)
    simulation.run()
    return told, simulation.engine.decisions


@pytest.mark.property
def test_who_is_passed_over_would_be_refused_and_nothing_else_is_decided(
    fuzz_seed: int, fuzz_inputs: int, in_time: InTime
) -> None:
    spared = 0
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // 200)):
        (ours, few), (theirs, many) = story(seed, passing=True), story(seed, passing=False)
        assert ours == theirs, f"seed {seed}"
        spared += many - few
    assert in_time.was_cut or spared > 0


def decisions(seed: int, *, widely: bool) -> int:
    simulation = Simulation(
        SimulationSettings(seed=seed, eviction_ms=(seed % 3) * 5000), arrivals_of(objects(seed, SHAPE))
    )
    engine = simulation.engine.engine
    assert engine.state.propagates_refusals
    engine.state.propagates_refusals = widely
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
