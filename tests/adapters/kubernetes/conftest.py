"""A client, and a small real HTTPS server with the answers that a test wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from tests.adapters.kubernetes.https_server import Authority, Server, serving


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def running(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(authority, tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.asked.clear()
    running.answer = lambda asked, handler: handler.json(200, {"kind": "Thing", "asked": asked.path})
    return running


@pytest.fixture
def target(server: Server, authority: Authority) -> ApiTarget:
    return ApiTarget(server.url, authority=authority.certificate, token="t0ken")


@pytest.fixture
def client(target: ApiTarget) -> Iterator[Client]:
    with Client(target, pause=lambda seconds: None) as client:
        yield client
