"""The engine over a remote Store: our server over HTTPS, used like a Kubernetes cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.store import KubernetesStore
from makeway.api.objects.workload import Workload
from makeway.api.reading.manifests import load
from makeway.api.versions import kind_of
from makeway.controllers.standard import standard
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.live.driver import wall_clock
from makeway.runtime.live.writer import LiveWriter, in_threads
from tests.adapters.kubernetes.test_conformance import target_of
from tests.adapters.server.serving import Server, running

EXAMPLES = Path(__file__).parents[3] / "examples"
PATIENCE_SECONDS = 30
STEP_SECONDS = 0.2
WORKLOADS = kind_of(Workload)


@pytest.fixture
def far_away(tmp_path: Path) -> Iterator[tuple[Server, Engine, Event]]:
    """A server, and an engine that knows only its address."""
    called = Event()
    with ExitStack() as stack:
        server = stack.enter_context(running(tmp_path / "data"))
        client = stack.enter_context(Client(target_of(server)))
        pool = stack.enter_context(ThreadPoolExecutor(4))
        store = KubernetesStore(client, news=called.set)
        writer = LiveWriter(in_threads(store, pool), called.set)
        yield server, Engine(store, Policy.default(), standard(lambda _: 0), writer=writer, figures_ms=0), called


def until(condition: Callable[[], bool], engine: Engine, called: Event) -> bool:
    """Step the engine on each call until the condition holds or the time is up."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < end:
        called.clear()
        if not engine.step(wall_clock()):
            called.wait(STEP_SECONDS)
    return condition()


def apply(server: Server, file: str) -> None:
    for each in load(file, (EXAMPLES / file).read_bytes()):
        server.store.create(each.tree)


def admitted(server: Server) -> dict[str, bool]:
    """The jobs whose Workload has quota."""

    def has_quota(value: Any) -> bool:
        return any(c.type == "QuotaReserved" and c.status == "True" for c in value.status.conditions)

    found = [each.value() for each in server.store.list(WORKLOADS).items]
    return {each.metadata.owner_references[0].name: bool(each.status) and has_quota(each) for each in found}


@pytest.mark.slow
def test_quota_is_lent_and_comes_back(far_away: tuple[Server, Engine, Event]) -> None:
    server, engine, called = far_away
    apply(server, "borrowing/queues.yaml")
    apply(server, "borrowing/borrower.yaml")
    assert until(lambda: admitted(server) == {"borrower": True}, engine, called), admitted(server)
    apply(server, "borrowing/owner.yaml")
    assert until(lambda: admitted(server) == {"borrower": False, "owner": True}, engine, called), admitted(server)
