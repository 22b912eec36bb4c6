"""Endless logs and countless unknown connections, beside jobs and clients that go on."""

from __future__ import annotations

import resource
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from makeway.adapters.server.access.tokens import new_token, token_object
from makeway.api import codec
from tests.end_to_end.machine import Machine, flavor, job, queue

pytestmark = pytest.mark.slow
TOKENS = "/api/v1/namespaces/kube-system/secrets"
FILES = 300  # of the server
STRANGERS = 400


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    folder = tmp_path / "data"
    folder.mkdir()
    found = Machine(folder, files=FILES)
    try:
        found.apply(flavor(), *queue("all", 9))
        yield found
        found.close()
    finally:
        found.abandon()


def client_of(machine: Machine, token: str = "") -> httpx2.Client:
    url = (machine.folder / "address").read_text("ascii").strip()
    trust = ssl.create_default_context(cafile=str(machine.folder / "ca.crt"))
    token = token or (machine.folder / "admin.token").read_text("ascii").strip()
    return httpx2.Client(base_url=url, verify=trust, headers={"authorization": f"Bearer {token}"}, timeout=30)


def test_neighbours(machine: Machine) -> None:
    endless_log(machine)
    follows_end_with_their_token(machine)
    strangers(machine)


def endless_log(machine: Machine) -> None:
    machine.apply(job("endless", "sh", "-c", "echo first; exec yes"))
    machine.until_running("endless")
    path = f"/api/v1/namespaces/default/pods/{machine.pod('endless')['metadata']['name']}/log"
    with client_of(machine) as client:
        machine.until(lambda: len(client.get(path, params={"limitBytes": 100_000}).content) == 100_000, "it is long")
        assert client.get(path, params={"tailLines": 1}).text in ("y\n", "y", "")  # half a line may be there
        assert len(client.get(path, params={"tailLines": 1000}).content) <= 2000
        assert len(client.get(path, params={"sinceSeconds": 3600, "limitBytes": 50}).content) == 50
        whole = 0
        with client.stream("GET", path) as answer:  # it ends, though the log does not
            for part in answer.iter_raw():
                whole += len(part)
        assert whole > 100_000


def follows_end_with_their_token(machine: Machine) -> None:
    machine.apply(job("quiet", "sh", "-c", "echo hello; exec sleep 600"))
    machine.until_running("quiet")
    path = f"/api/v1/namespaces/default/pods/{machine.pod('quiet')['metadata']['name']}/log"
    id_, secret = new_token()
    with client_of(machine, f"{id_}.{secret}") as reader, client_of(machine) as admin:
        made = admin.post(TOKENS, content=codec.encode(token_object(id_, secret, "reader", "viewer")))
        assert made.status_code == 201, made.text
        with reader.stream("GET", path, params={"follow": "true"}) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "hello"
            assert metric(admin, "makeway_streams{") == 1
            assert admin.delete(f"{TOKENS}/token-{id_}").status_code == 200
            assert list(lines) == []  # it ends
        machine.until(lambda: metric(admin, "makeway_streams{") == 0, "its share is given back")


def metric(client: httpx2.Client, series: str) -> int:
    lines = client.get("/metrics").text.splitlines()
    return next(int(line.rpartition(" ")[2]) for line in lines if line.startswith(series))


def strangers(machine: Machine) -> None:
    """More connections than the server has descriptors: clients and new pods are not affected."""
    where = urlsplit((machine.folder / "address").read_text("ascii").strip())
    with ExitStack() as stack:
        for number in range(STRANGERS):
            line = stack.enter_context(socket.create_connection((where.hostname or "", where.port or 0), 20))
            if number % 4 == 0:  # some of them begin to send
                line.sendall(b"\x16\x03\x01")
        with client_of(machine) as client:
            assert client.get("/api/v1/namespaces").status_code == 200  # all earlier connections have been accepted
            assert metric(client, 'makeway_connections_ended{reason="unknown"') > STRANGERS - FILES // 3
            script = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
            machine.apply(job("beside", sys.executable, "-c", script))
            machine.until_ended("beside")
            assert machine.log("beside") == b"%d\n" % FILES
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > STRANGERS, "else it was we who had no more"
