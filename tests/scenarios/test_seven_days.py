"""Seven virtual days in random worlds: nobody who is entitled waits longer than its bound, whatever comes and goes."""

from __future__ import annotations

import pytest

from makeway.core.policy import Policy
from tests.scenarios.fairness import Judged, judged
from tests.scenarios.turns import lives_of
from tests.scenarios.weeks import week
from tests.soaking import InTime

pytestmark = pytest.mark.slow

PARTS = 4  # so that workers share them


def replay(seed: int) -> str:
    settings = f"MAKEWAY_FUZZ_SEED={seed} MAKEWAY_FUZZ_INPUTS=34"
    return f"replay: {settings} python -m pytest tests/scenarios/test_seven_days.py"


@pytest.mark.property
@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_waits_longer_than_its_bound_in_seven_days(
    part: int, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    """60 worlds by default, 600 in a round of a soak."""
    found = Judged()
    count = max(1, fuzz_inputs * 3 // 100)
    for seed in in_time(range(fuzz_seed + part, fuzz_seed + count, PARTS)):
        drawn = week(seed)
        of_this = judged(drawn, lives_of(drawn.played(Policy.default())))
        wrong = of_this.wrong()
        assert not wrong, "\n".join([f"week {seed}:", *wrong[:10], "", replay(seed)])
        found.add(of_this)
    if count >= 60 and not in_time.was_cut:
        assert len(found.waited) > 100, "somebody was judged"
        assert len(found.spreads) > 5
