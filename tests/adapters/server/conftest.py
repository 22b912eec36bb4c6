"""One server for all tests that leave no trace; a test that needs limits or a restart starts its own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from tests.adapters.server.serving import Server, running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def admin(server: Server) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def viewer(server: Server) -> Iterator[httpx2.Client]:
    with server.client("viewer") as client:
        yield client
