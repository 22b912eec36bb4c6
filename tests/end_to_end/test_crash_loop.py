"""After each accepted object: kill -9, and a start that is as good as the first.

The times of starts are printed, not judged: they depend on the machine. The limit for a failed start is generous
(``lives.START_SECONDS``).
"""

from __future__ import annotations

import signal
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from tests.end_to_end.lives import Lives, lives
from tests.end_to_end.operations import MAKING, drawn
from tests.end_to_end.promises import Ledger, check_alive, check_usage, everything, sweep
from tests.end_to_end.test_object_fuzz import take
from tests.soaking import InTime

CRASHES = 15
CRASHES_IN_SOAK = 200
ROUND = 50  # then everything is deleted


@pytest.mark.slow
@pytest.mark.property
def test_a_server_comes_back_after_any_object_that_it_accepted(
    tmp_path: Path, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    ledger = Ledger()
    with lives(tmp_path) as server:
        before = everything(server)
        steps = count()
        for number in in_time(range(CRASHES if fuzz_inputs <= 2000 else CRASHES_IN_SOAK)):
            _write_one(server, ledger, fuzz_seed, steps)
            server.end(signal.SIGKILL)
            server.start()
            check_alive(server)
            ledger.check(server)
            if number % ROUND == ROUND - 1:
                sweep(server, before)
                ledger = Ledger()
        check_usage(server)
        sweep(server, before)
        server.end(signal.SIGTERM)
    again = server.starts[1:]  # the first one waits for the launcher's imports
    slow = sum(seconds > 3 for seconds in again)
    print(f"{len(again)} starts after a kill, the slowest took {max(again):.2f} s; {slow} took more than 3 s")


def _write_one(server: Lives, ledger: Ledger, seed: int, steps: count[int]) -> None:
    """Run steps until an object has been made."""
    counts: Counter[str] = Counter()
    while not any(counts[f"{verb} done"] for verb in MAKING):
        operation = drawn(seed, 0, next(steps))
        if operation.verb in MAKING and not operation.is_dry:
            take(server, ledger, operation, counts, look=True)
