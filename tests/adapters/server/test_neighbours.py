"""Clients that do not read, send nothing, or send slowly: what they get, and that other clients are not affected.

The memory held for them is counted in bytes, by the server itself and once by the system.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
import yaml

from makeway.adapters.server.access.tokens import Role
from makeway.adapters.server.http.connections import STALLED_BYTES
from makeway.adapters.server.http.limits import FILES_KEPT, Limits
from makeway.api.quantity import Time
from tests.adapters.server.raw import connected, request, status
from tests.adapters.server.serving import CONFIG_MAPS, CORE, Server, clock, config_map, running, until
from tests.adapters.server.test_bad_clients import resident_bytes

LARGE = 700_000
DEFAULT = f"{CORE}/namespaces/default"
WATCH = f"{CONFIG_MAPS}?watch=1"
PATIENT = Limits(write_seconds=600, header_seconds=600, unknown_seconds=600)


def metric(client: httpx2.Client, series: str) -> float:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    role = 'replica_role="standalone"}'
    wanted = series.replace("}", f",{role}") if "}" in series else f"{series}{{{role}"
    return next(float(line.rpartition(" ")[2]) for line in answer.text.splitlines() if line.startswith(wanted + " "))


def stalled(client: httpx2.Client) -> float:
    return metric(client, 'makeway_connections{state="stalled"}')


def fill(server: Server, count: int, size: int = LARGE) -> int:
    """Create large objects; return the bytes of their data."""
    with server.client() as client:
        for i in range(count):
            assert client.post(CONFIG_MAPS, json=config_map(f"large{i}", data={"a": "x" * size})).status_code == 201
    return count * size


@contextmanager
def unread(server: Server, path: str, *, token: str | None = None, accept: str = "*/*") -> Iterator[ssl.SSLSocket]:
    """A client that sends a request and does not read the answer."""
    with connected(server) as connection:
        connection.sendall(request(server, "GET", path, token=token, accept=accept))
        yield connection


# --- those who do not read -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_for_who_does_not_read_a_bounded_number_of_bytes_is_held(tmp_path: Path) -> None:
    asked = (WATCH, WATCH, WATCH, CONFIG_MAPS, CONFIG_MAPS, f"{CONFIG_MAPS}/large0")
    with running(tmp_path, limits=PATIENT) as server, server.client() as client, ExitStack() as stack:
        fill(server, 12)
        until(lambda: stalled(client) == 0)
        for path in asked:
            stack.enter_context(unread(server, path))
        stack.enter_context(unread(server, CONFIG_MAPS, accept="application/yaml"))
        until(lambda: stalled(client) >= len(asked))
        assert 0 < metric(client, "makeway_stream_buffered_bytes") <= (len(asked) + 1) * STALLED_BYTES
        assert metric(client, "makeway_streams") == 3


@pytest.mark.slow
def test_unread_watches_cost_no_memory_to_speak_of(tmp_path: Path) -> None:
    """Measured by the system: a watch once got 500 events in one piece, however large they were."""
    with running(tmp_path, limits=PATIENT) as server, server.client() as client, ExitStack() as stack:
        size = fill(server, 30)
        before = resident_bytes()
        for _ in range(8):
            stack.enter_context(unread(server, WATCH))
        until(lambda: stalled(client) == 8)
        assert client.post(CONFIG_MAPS, json=config_map("others")).status_code == 201
        assert resident_bytes() - before < size, "less than one watch was sent, let alone eight"


@pytest.mark.parametrize("path", [WATCH, CONFIG_MAPS], ids=["a watch", "a list"])
def test_who_takes_nothing_for_long_is_let_go(tmp_path: Path, path: str) -> None:
    with running(tmp_path, limits=Limits(write_seconds=0.3)) as server, server.client() as client:
        size = fill(server, 8)
        with unread(server, path) as connection:
            until(lambda: metric(client, 'makeway_connections_ended{reason="unread"}') == 1)
            until(lambda: metric(client, "makeway_streams") == 0)
            got = 0
            try:
                while data := connection.recv(1 << 20):
                    got += len(data)
            except OSError:
                pass
            assert got < size


def test_of_many_who_take_nothing_the_first_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.adapters.server.http.connections.STALL_SECONDS", 0.0)
    limits = Limits(write_seconds=600, buffered_bytes=2 * STALLED_BYTES)
    with running(tmp_path, limits=limits) as server, server.client() as client, ExitStack() as stack:
        fill(server, 8)
        for number in range(4):
            stack.enter_context(unread(server, WATCH))
            until(lambda number=number: stalled(client) == min(2, number + 1))  # type: ignore[misc]
        until(lambda: metric(client, 'makeway_connections_ended{reason="unread"}') == 2)
        until(lambda: metric(client, "makeway_streams") == 2)


@pytest.mark.slow
def test_who_reads_beside_them_gets_everything_whole(tmp_path: Path) -> None:
    with running(tmp_path, limits=PATIENT) as server, server.client() as client, ExitStack() as stack:
        fill(server, 12)
        for _ in range(4):
            stack.enter_context(unread(server, WATCH))
        until(lambda: stalled(client) == 4)
        assert client.post(CONFIG_MAPS, json=config_map("small")).status_code == 201
        listed = client.get(CONFIG_MAPS).json()["items"]
        plain = client.get(CONFIG_MAPS, headers={"accept-encoding": "identity"}).json()["items"]
        assert plain == listed
        assert client.get(f"{CONFIG_MAPS}/large3").json() in listed
        with client.stream("GET", WATCH, params={"watch": "1"}) as answer:
            lines = answer.iter_lines()
            assert [json.loads(next(lines)) for _ in listed] == [{"type": "ADDED", "object": each} for each in listed]


def test_a_list_in_yaml_is_the_list(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as client:
        wanted = {"accept": "application/yaml"}
        empty = client.get(CONFIG_MAPS, headers=wanted)
        assert yaml.safe_load(empty.text) == client.get(CONFIG_MAPS).json()
        for i in range(3):
            client.post(CONFIG_MAPS, json=config_map(f"c{i}", data={"a": "- x\n- y: |\n    z\n", "b": "ä"}))
        found = client.get(CONFIG_MAPS, headers=wanted)
        assert yaml.safe_load(found.text) == client.get(CONFIG_MAPS).json()
        assert (found.headers["content-type"], empty.status_code) == ("application/yaml", 200)
        one = client.get(f"{CONFIG_MAPS}/c1", headers=wanted)
        assert yaml.safe_load(one.text) == client.get(f"{CONFIG_MAPS}/c1").json()


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_token_that_ends_by_its_time_ends_its_watches(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as client:
        soon = Time.of_millis((clock() // 1000 + 2) * 1000)
        brief = server.access.issue("brief", "viewer", soon)
        with server.nobody(brief) as other, other.stream("GET", CONFIG_MAPS, params={"watch": "1"}) as answer:
            assert answer.status_code == 200
            assert list(answer.iter_lines()) == []  # it ends
        until(lambda: metric(client, "makeway_streams") == 0)


def test_a_revoked_token_ends_a_watch_that_nobody_reads(tmp_path: Path) -> None:
    with running(tmp_path, limits=PATIENT) as server, server.client() as client:
        fill(server, 8)
        token = server.access.issue("brief", "viewer")
        with unread(server, WATCH, token=token):
            until(lambda: stalled(client) == 1)
            server.access.revoke(token.partition(".")[0])
            until(lambda: metric(client, "makeway_streams") == 0)


def test_an_open_line_of_a_revoked_token_is_closed(tmp_path: Path) -> None:
    with running(tmp_path, limits=PATIENT) as server:
        token = server.access.issue("brief", "viewer")
        with connected(server) as connection:
            connection.sendall(request(server, "GET", DEFAULT, token=token))
            assert status(connection) == 200
            server.access.revoke(token.partition(".")[0])
            assert_ended(connection)


# --- connections -----------------------------------------------------------------------------------------------------


@contextmanager
def silent(server: Server) -> Iterator[socket.socket]:
    """A client that connects and sends nothing, not even a TLS greeting."""
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname or "", where.port or 0), 20) as plain:
        plain.settimeout(20)
        yield plain


def assert_ended(line: ssl.SSLSocket) -> None:
    """Check that the connection ends, with or without a farewell, after earlier data."""
    line.settimeout(20)
    try:
        while line.recv(1 << 16):
            pass
    except TimeoutError:
        pytest.fail("it did not end")
    except OSError:
        pass


def held(server: Server, client: httpx2.Client) -> int:
    return int(metric(client, 'makeway_connections{state="unknown"}'))


def test_of_strangers_the_one_that_came_first_makes_way(tmp_path: Path) -> None:
    limits = Limits(connections=16, unknown_connections=4, handshake_seconds=600, header_seconds=600)
    with running(tmp_path, limits=limits) as server, ExitStack() as stack:
        quiet = [stack.enter_context(silent(server)) for _ in range(20)]
        with server.client() as client:
            assert client.get(CONFIG_MAPS).status_code == 200
            assert quiet[0].recv(1) == b""  # turned away
            assert held(server, client) <= limits.unknown_connections
            greeted = [stack.enter_context(connected(server)) for _ in range(8)]
            assert client.get(CONFIG_MAPS).status_code == 200
            assert_ended(greeted[0])
            until(lambda: held(server, client) <= limits.unknown_connections)


@pytest.mark.slow
def test_who_showed_no_token_is_not_kept_for_long(tmp_path: Path) -> None:
    limits = Limits(unknown_seconds=1, idle_seconds=600)
    with running(tmp_path, limits=limits) as server, connected(server) as stranger, server.client() as friend:
        assert friend.get(DEFAULT).status_code == 200
        stranger.sendall(request(server, "GET", "/version", token=""))
        assert status(stranger) == 200
        assert_ended(stranger)
        until(lambda: held(server, friend) == 0)
        assert metric(friend, 'makeway_connections{state="known"}') == 1


def many(server: Server, stack: ExitStack, count: int, role: Role) -> list[ssl.SSLSocket]:
    """So many watches of one token, one after the other."""
    token = server.access.issue(f"many-{role}", role)
    lines = []
    for _ in range(count):
        line = stack.enter_context(connected(server))
        line.sendall(request(server, "GET", WATCH, token=token))
        lines.append(line)
    return lines


def refusal_of(server: Server, token: str) -> tuple[int, str, str]:
    with server.nobody(token) as client:
        answer = client.get(CONFIG_MAPS)
        return answer.status_code, answer.headers.get("retry-after", ""), answer.json().get("message", "")


def test_a_token_has_a_share_of_the_connections_and_administrators_a_reserve(tmp_path: Path) -> None:
    limits = Limits(connections=16, unknown_connections=4, admin_connections=2, connections_per_token=6)
    with running(tmp_path, limits=limits) as server, ExitStack() as stack:
        first = many(server, stack, 6, "viewer")
        assert [status(each) for each in first] == [200] * 6
        second = many(server, stack, 4, "viewer")
        assert [status(each) for each in second] == [200] * 4
        code, retry, words = refusal_of(server, server.access.issue("third", "viewer"))
        assert (code, int(retry) > 0) == (429, True)
        assert words == "too many connections: all clients together have 10, and no more are served"
        assert refusal_of(server, server.token)[0] == 200


def test_of_its_own_idle_connections_one_makes_way_and_of_busy_ones_none(tmp_path: Path) -> None:
    limits = Limits(connections=32, connections_per_token=2)
    with running(tmp_path, limits=limits) as server, ExitStack() as stack:
        token = server.access.issue("busy", "viewer")
        first = stack.enter_context(connected(server))
        first.sendall(request(server, "GET", DEFAULT, token=token))
        assert status(first) == 200
        lines = [stack.enter_context(connected(server)) for _ in range(2)]
        for each in lines:  # the second makes the first line go, which is idle
            each.sendall(request(server, "GET", WATCH, token=token))
            assert status(each) == 200
        assert_ended(first)
        code, _, words = refusal_of(server, token)
        assert (code, words) == (429, "too many connections: this token has 2, which is all that one may have")


@pytest.mark.parametrize(
    ("files", "all_", "unknown", "admin"),
    [(65_536, 2048, 256, 64), (1024, 832, 256, 64), (256, 64, 32, 8), (64, 8, 4, 1)],
)
def test_few_descriptors_leave_shares_for_all(files: int, all_: int, unknown: int, admin: int) -> None:
    limits = Limits().within(files)
    assert (limits.connections, limits.unknown_connections, limits.admin_connections) == (all_, unknown, admin)
    assert limits.connections <= max(8, files - FILES_KEPT)
    assert limits.unknown_connections + limits.admin_connections < limits.connections


def test_the_shares_are_told(server: Server) -> None:
    with server.nobody() as nobody:
        words = nobody.get("/readyz", params={"verbose": ""}).text
        assert words.startswith("[+]ready ok\n[+]at most ")
        assert words.endswith("readyz check passed\n")
        assert nobody.get("/readyz").text == "ok"


# --- bodies ----------------------------------------------------------------------------------------------------------


def test_bodies_that_do_not_come_are_bounded_in_bytes(tmp_path: Path) -> None:
    limits = Limits(bodies_bytes=400_000, body_seconds=600)
    with running(tmp_path, limits=limits) as server, server.client() as client, ExitStack() as stack:
        slow = [server.access.issue(f"slow{i}", "admin") for i in range(3)]

        def begin(token: str) -> ssl.SSLSocket:
            line = stack.enter_context(connected(server))
            line.sendall(request(server, "POST", CONFIG_MAPS, b"{", token=token, content_length="200000"))
            return line

        lines = [begin(slow[0]), begin(slow[1])]
        until(lambda: metric(client, "makeway_upload_bytes") == 400_000)
        assert [status(begin(each)) for each in slow[:2]] == [429, 429]  # more than half of it goes to no single client
        assert status(begin(slow[2])) == 429
        assert client.post(CONFIG_MAPS, json=config_map("small")).status_code == 201
        for line in lines:
            line.close()
        until(lambda: metric(client, "makeway_upload_bytes") == 0)
        assert client.post(CONFIG_MAPS, json=config_map("large", data={"a": "x" * 150_000})).status_code == 201


def test_writers_beside_a_crowd_are_answered(tmp_path: Path) -> None:
    """All kinds of clients at once; every request is answered, however fast."""
    limits = Limits(connections=64, unknown_connections=16, handshake_seconds=600, header_seconds=600)
    with running(tmp_path, limits=limits) as server, ExitStack() as stack:
        fill(server, 4)
        for _ in range(40):
            stack.enter_context(silent(server))
        for _ in range(8):
            stack.enter_context(unread(server, WATCH))
        errors: list[str] = []

        def write(number: int) -> None:
            with server.client() as client:
                for i in range(10):
                    answer = client.post(CONFIG_MAPS, json=config_map(f"w{number}-{i}"))
                    if answer.status_code != 201:
                        errors.append(answer.text)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
