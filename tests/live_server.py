"""A whole server in this process, for tests that need decisions: HTTPS, storage, and the engine in its thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from makeway.adapters.simulator.simulation import controllers
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.live import Live, LiveThread, wall_clock
from makeway.runtime.live_writer import LiveWriter
from tests.adapters.server.serving import Server, running

STOP_SECONDS = 10


@contextmanager
def live_server(folder: Path) -> Iterator[Server]:
    """Its data folder is where commands find it."""
    failures: list[BaseException] = []
    with running(folder) as server:
        (folder / "address").write_text(server.url)
        lives: list[Live] = []

        def poke(*_: object) -> None:
            for each in lives:
                each.poke()

        writer = LiveWriter(server.store.submit, poke)
        engine = Engine(server.store, Policy.default(), controllers(lambda _: 0), writer=writer)
        lives.append(Live(wall_clock, [engine]))
        server.store.on_commit(poke)
        thread = LiveThread(lives[0], failures.append)
        thread.start()
        try:
            yield server
        finally:
            assert thread.stop(STOP_SECONDS)
    assert failures == []
