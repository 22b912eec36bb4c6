"""Where evictions matter a scenario is played three times: who must leave does so at once, late, or when it likes."""

from __future__ import annotations

import pytest

from makeway.adapters.simulator.simulation import Linger
from tests.scenarios.stage import after_20_s, at_once, unsynchronised


@pytest.fixture(params=[at_once, after_20_s, unsynchronised], ids=lambda each: each.__name__)
def leaving(request: pytest.FixtureRequest) -> Linger:
    """How long after it was asked to a workload has left."""
    found: Linger = request.param
    return found
