"""What all tests share: the draws of hypothesis, the end of a soak, the folder of shared data.

Tests judge what code does, never how fast the machine is: no wall-clock limits on properties.
"""

from __future__ import annotations

import functools
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.errors import HypothesisException

from tests.soaking import SOAK_UNTIL, InTime

ROOT = Path(__file__).parents[1]
SOAK_EXAMPLES = 5_000

# fixed: the same draws on every run, so a red run was turned red by the change.
# soak: the same again and again too, 50 times as many; the first round of `make soak`.
# search: as many, new ones; `make soak` gives each round a seed, and the seed alone decides them.
settings.register_profile("fixed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("soak", settings.get_profile("fixed"), max_examples=SOAK_EXAMPLES, print_blob=True)
settings.register_profile("search", settings.get_profile("soak"), derandomize=False, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def trying_for(seconds: float, inner: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the body of a property: when its time is up it tries nothing new, but still shrinks what it found."""
    until: float | None = None
    found = False

    @functools.wraps(inner)
    def body(*args: Any, **kwargs: Any) -> Any:
        nonlocal until, found
        now = time.monotonic()
        until = now + seconds if until is None else until
        if now > until and not found:
            pytest.skip("its share of the soak's time is up")
        try:
            return inner(*args, **kwargs)
        except HypothesisException:
            raise
        except Exception:
            found = True
            raise

    return body


@pytest.hookimpl(trylast=True)  # when those that are not wanted have been left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a soak, give every property an equal share of the time that is left, and every test its turn to be first."""
    if SOAK_UNTIL is None:
        return
    random.Random(os.environ.get("MAKEWAY_FUZZ_SEED", "0")).shuffle(items)  # who comes last may not come at all
    properties = [p for item in items if (p := getattr(getattr(item, "obj", None), "hypothesis", None))]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = max(1.0, (SOAK_UNTIL - time.monotonic()) * workers / max(1, len(items)))
    tests = Counter(map(id, properties))  # a parametrized property is one body for several tests
    for handle in {id(p): p for p in properties}.values():
        handle.inner_test = trying_for(share * tests[id(handle)], handle.inner_test)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if SOAK_UNTIL is not None and time.monotonic() > SOAK_UNTIL:
        pytest.skip("the time of the soak is up")


@pytest.fixture
def in_time() -> InTime:
    """For loops over seeds."""
    return InTime()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data (vectors, manifests, traces); without it the test is skipped."""
    folder = Path(os.environ.get("MAKEWAY_SHARED") or ROOT.parent / "shared").resolve()
    if not folder.is_dir():
        pytest.skip("no folder of shared data beside the checkout; MAKEWAY_SHARED can name one")
    return folder


@pytest.fixture(scope="session")
def fuzz_inputs() -> int:
    """How many inputs a fuzz test tries."""
    return int(os.environ.get("MAKEWAY_FUZZ_INPUTS", "2000"))


@pytest.fixture(scope="session")
def fuzz_seed() -> int:
    """Where a fuzz test starts; `make soak` gives each round another one."""
    return int(os.environ.get("MAKEWAY_FUZZ_SEED", "0"))
