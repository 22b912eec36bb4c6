"""Where evictions matter a scenario is played three times: victims leave at once, late, or unsynchronised."""

from __future__ import annotations

import pytest

from makeway.adapters.simulator.simulation import Linger
from tests.scenarios.stage import after_20_s, at_once, unsynchronised


@pytest.fixture(params=[at_once, after_20_s, unsynchronised], ids=lambda each: each.__name__)
def leaving(request: pytest.FixtureRequest) -> Linger:
    """The time that a workload takes to leave after it was asked to."""
    found: Linger = request.param
    return found
