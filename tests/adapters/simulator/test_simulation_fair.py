"""Simulated installations with fair sharing: no quota is given twice, all work ends, and no workload is parked
in vain.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.adapters.simulator.faults import Faults
from makeway.adapters.simulator.simulation import Simulation
from makeway.adapters.simulator.sources.arrivals import arrivals_of
from makeway.cli.offline.simulate import FIGURES_MS, faults_end
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.testing.worlds import LONG_MS, objects, simulation
from tests.adapters.simulator.reports.test_sharing import SHAPE, who_should_not_rest
from tests.adapters.simulator.test_simulation_faults import Patience, wrong_with
from tests.soaking import InTime

pytestmark = pytest.mark.slow

FAIR = replace(Policy.default(), fair_strategies=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))


@pytest.mark.property
def test_safe_and_live_whatever_goes_wrong(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """No admission above quota, none twice, none forgotten; accounting, status and shares agree; all ends."""
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // 250)):
        faults = Faults.of_profile(seed, "all")
        ready = simulation(seed, faults=faults, figures_ms=FIGURES_MS, policy=FAIR, watching=Patience())
        source = arrivals_of(objects(seed))
        faults.until = faults_end(source, Millis(source.begins_at + LONG_MS) if seed % 2 else None)
        ready.run()
        assert wrong_with(ready) == [], f"seed {seed}"


@pytest.mark.property
def test_nobody_rests_who_would_get_another_verdict(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    """Verdicts only count for workloads of the same shape here: a larger request may do better by shares."""
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // 400)):
        ready = simulation(seed, shape=SHAPE, policy=FAIR)
        assert not ready.engine.engine.state.propagates_refusals
        watch(ready, seed)
        ready.run()
        assert wrong_with(ready) == [], f"seed {seed}"


def watch(ready: Simulation, seed: int) -> None:
    """Check at every pause of the engine."""
    step = ready.engine.step

    def watched(now: Millis) -> bool:
        happened = step(now)
        assert happened or who_should_not_rest(ready.engine.engine.state, now) == [], f"seed {seed}"
        return happened

    ready.engine.step = watched  # type: ignore[method-assign]
