"""What all tests share: the draws of hypothesis, the end of a soak, the folder of shared data.

Tests check what code does, never how fast the machine is: properties have no wall-clock limits.
"""

from __future__ import annotations

import functools
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.errors import HypothesisException

from tests.soaking import OVERRUN, SLOW_WEIGHT, SOAK_UNTIL, InTime, Shares

ROOT = Path(__file__).parents[1]
SOAK_EXAMPLES = 5_000
BRIEF_EXAMPLES = 25

# fixed: the same draws on every run, so that a failure comes from the change.
# brief: a quarter of them, for `make check`, which must be quick.
# soak: the same draws on every run, 50 times as many; the first round of `make soak`.
# search: as many new ones; `make soak` gives each round a seed, which alone decides the draws.
settings.register_profile("fixed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("brief", settings.get_profile("fixed"), max_examples=BRIEF_EXAMPLES)
settings.register_profile("soak", settings.get_profile("fixed"), max_examples=SOAK_EXAMPLES, print_blob=True)
settings.register_profile("search", settings.get_profile("soak"), derandomize=False, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def trying_within(shares: Shares, inner: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the body of a property: when its time is up it tries nothing new, but still shrinks a failure."""
    found = False

    @functools.wraps(inner)
    def body(*args: Any, **kwargs: Any) -> Any:
        nonlocal found
        if shares.is_over and not found:
            pytest.skip("its share of the soak's time is up")
        try:
            return inner(*args, **kwargs)
        except HypothesisException:
            raise
        except Exception:
            found = True
            raise

    return body


COUNTED = ("tests/api/", "tests/core/", "tests/controllers/")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Count branches only under the quick tests that cover most of them: counting makes a test twice as slow."""
    if item.nodeid.startswith(COUNTED) and not item.get_closest_marker("slow"):
        item.add_marker("counted")


SHARES = pytest.StashKey[Shares]()


def weight(item: pytest.Item) -> float:
    return SLOW_WEIGHT if item.get_closest_marker("slow") else 1.0


# Tests that mostly wait, the longest first. One worker begins with them while the others compute; at the end of a run
# all workers would wait for them.
WAITING = ("tests/end_to_end/test_stories.py", "tests/end_to_end/", "tests/kubectl/", "tests/cli/")


def place(item: pytest.Item) -> int:
    return next((place for place, path in enumerate(WAITING) if item.nodeid.startswith(path)), len(WAITING))


@pytest.hookimpl(trylast=True)  # after unwanted tests have been left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a soak, share the remaining time among all tests, and let every test be the first one in some round."""
    if SOAK_UNTIL is None:
        items.sort(key=place)
        return
    random.Random(os.environ.get("MAKEWAY_FUZZ_SEED", "0")).shuffle(items)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    now = time.monotonic()
    until = now + (1 - OVERRUN) * (SOAK_UNTIL - now)
    shares = config.stash[SHARES] = Shares(until, sum(map(weight, items)) / workers)
    properties = [p for item in items if (p := getattr(getattr(item, "obj", None), "hypothesis", None))]
    for handle in {id(p): p for p in properties}.values():  # a parametrized property is one body for several tests
        handle.inner_test = trying_within(shares, handle.inner_test)


def pytest_runtest_setup(item: pytest.Item) -> None:
    shares = item.config.stash.get(SHARES, None)
    if shares is not None and SOAK_UNTIL is not None:
        now = time.monotonic()
        if now > SOAK_UNTIL:
            pytest.skip("the time of the soak is up")
        shares.begin(weight(item), now)


@pytest.fixture
def in_time(request: pytest.FixtureRequest) -> InTime:
    """Ends a loop over seeds when the time of the test is up."""
    return InTime(request.config.stash.get(SHARES, None))


class _Heard(logging.Handler):
    """All objects that are set aside in this process, by any engine."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


HEARD = _Heard()
logging.getLogger("makeway.set_aside").addHandler(HEARD)


@pytest.fixture(autouse=True)
def nothing_is_set_aside() -> Iterator[None]:
    """Fail a test in which an object was set aside, unless it asks for ``set_aside``: a server would have gone on."""
    yield
    said, HEARD.said = HEARD.said, []
    assert not said, "\n".join(said)


@pytest.fixture
def set_aside(nothing_is_set_aside: None) -> Iterator[list[str]]:
    """For tests that set objects aside on purpose: the messages about them, with the part that wrote each."""
    yield HEARD.said
    HEARD.said = []


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
