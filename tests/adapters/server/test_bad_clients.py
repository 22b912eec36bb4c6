"""Malicious or careless clients: each gets the right code, and no other client is affected."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from makeway.adapters.server.http.limits import Limits
from tests.adapters.server.raw import answered, connected, request, status
from tests.adapters.server.serving import CONFIG_MAPS, CORE, LOCAL_QUEUES, QUEUEING, Server, config_map, queue, running

# On a busy machine our own clients are slow: half a second for a handshake, or to send a body, was too short once.
LIMITS = Limits(
    body_bytes=256 * 1024, header_bytes=16 * 1024, connections=40, streams=12, streams_per_token=10,
    handshake_seconds=60, header_seconds=60, body_seconds=60, write_seconds=60, selector_terms_max=20,
)  # fmt: skip
HASTY = replace(LIMITS, handshake_seconds=2, header_seconds=0.5, body_seconds=0.5, write_seconds=0.5)
JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%b]\n" % (97 + i, 97 + i, b",".join([b"*%c" % (96 + i)] * 10)) for i in range(1, 10)
)
PROTOBUF = {"content_type": "application/vnd.kubernetes.protobuf"}
MEGABYTE = 1024 * 1024


class Bad(NamedTuple):
    why: str
    method: str
    path: str
    code: int
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012
    token: str | None = None


def nested(depth: int) -> bytes:
    return b'{"metadata":{"name":"deep"},"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


def body(tree: Any) -> bytes:
    return json.dumps(tree).encode()


CASES = [
    # wrong verbs
    Bad("a method nobody knows here", "OPTIONS", CONFIG_MAPS, 405),
    Bad("a method that HTTP does not know", "FROBNICATE", CONFIG_MAPS, 400),
    Bad("a trace", "TRACE", CONFIG_MAPS, 405),
    Bad("POST to one object", "POST", f"{CONFIG_MAPS}/a", 405, b"{}"),
    Bad("PUT to a collection", "PUT", CONFIG_MAPS, 405, b"{}"),
    Bad("PATCH of a collection", "PATCH", CONFIG_MAPS, 405, b"{}"),
    Bad("create without a namespace", "POST", f"{CORE}/configmaps", 405, b"{}"),
    Bad("remove from all namespaces", "DELETE", f"{CORE}/configmaps", 405),
    Bad("DELETE of a status", "DELETE", f"{LOCAL_QUEUES}/a/status", 405),
    Bad("GET of a binding", "GET", f"{CORE}/namespaces/default/pods/p/binding", 405),
    Bad("write to /healthz", "POST", "/healthz", 405, b"x"),
    Bad("write to discovery", "DELETE", "/apis", 405),
    Bad("list what is only ever asked", "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
    # bad bodies
    Bad("no body", "POST", CONFIG_MAPS, 400),
    Bad("not JSON", "POST", CONFIG_MAPS, 400, b"{not json"),
    Bad("YAML sold as JSON", "POST", CONFIG_MAPS, 400, b"metadata: {name: a}"),
    Bad("half a body of JSON", "POST", CONFIG_MAPS, 400, b'{"metadata": {"name": "a"'),
    Bad("text after JSON", "POST", CONFIG_MAPS, 400, b'{"metadata": {"name": "a"}} and more'),
    Bad("two documents", "POST", CONFIG_MAPS, 400, b"a: 1\n---\nb: 2\n", {"content_type": YAML_TYPE}),
    Bad("not UTF-8", "POST", CONFIG_MAPS, 400, b'{"metadata": {"name": "\xff\xfe"}}'),
    Bad("a list where an object belongs", "POST", CONFIG_MAPS, 400, b"[1, 2]"),
    Bad("null", "POST", CONFIG_MAPS, 400, b"null"),
    Bad("NaN", "POST", CONFIG_MAPS, 400, b'{"metadata": {"name": "a"}, "x": NaN}'),
    Bad("metadata that is a list", "POST", CONFIG_MAPS, 400, b'{"metadata": []}'),
    Bad("deep JSON", "POST", CONFIG_MAPS, 400, nested(5_000)),
    Bad("billion laughs in YAML", "POST", CONFIG_MAPS, 400, LAUGHS, {"content_type": YAML_TYPE}),
    Bad("billion laughs in an apply", "PATCH", f"{CONFIG_MAPS}/x?fieldManager=m", 400, LAUGHS, {"content_type": APPLY}),
    Bad("an alias of itself", "POST", CONFIG_MAPS, 400, b"a: &a [*a]", {"content_type": YAML_TYPE}),
    Bad("a body that says it is huge", "POST", CONFIG_MAPS, 413, b"x", {"content_length": "99999999999"}),
    Bad("a huge body", "POST", CONFIG_MAPS, 413, b"x" * (LIMITS.body_bytes + 1)),
    Bad("a length that is no number", "POST", CONFIG_MAPS, 400, b"x", {"content_length": "many"}),
    Bad("a packed body", "POST", CONFIG_MAPS, 415, b"\x1f\x8b", {"content_encoding": "gzip"}),
    Bad("a body in an unknown language", "POST", CONFIG_MAPS, 415, b"<xml/>", {"content_type": "text/xml"}),
    Bad("protobuf of our own kind", "POST", LOCAL_QUEUES, 415, b"k8s\0", PROTOBUF),
    Bad("protobuf that ends too early", "POST", CONFIG_MAPS, 400, b"k8s\0\x0a\x7f", PROTOBUF),
    Bad("a patch of unknown type", "PATCH", f"{CONFIG_MAPS}/a", 415, b"{}", {"content_type": JSON_TYPE}),
    Bad("a patch that is a number", "PATCH", f"{CONFIG_MAPS}/a", 400, b"7", {"content_type": MERGE}),
    Bad("an apply by nobody", "PATCH", f"{CONFIG_MAPS}/a", 422, b"{}", {"content_type": APPLY}),
    # bad objects
    Bad("traversal in a name", "POST", CONFIG_MAPS, 422, body(config_map("../../etc/passwd"))),
    Bad("a name with a NUL", "POST", CONFIG_MAPS, 422, body(config_map("a\0b"))),
    Bad("a name that is a number", "POST", CONFIG_MAPS, 422, body({"metadata": {"name": 7}})),
    Bad("another kind", "POST", CONFIG_MAPS, 400, body(queue("a"))),
    Bad("another namespace", "POST", CONFIG_MAPS, 400, body(config_map("a", namespace="kube-system"))),
    Bad("a wrong type", "POST", CONFIG_MAPS, 422, body({"metadata": {"name": "a"}, "data": {"a": 1}})),
    Bad("a resourceVersion on create", "POST", CONFIG_MAPS, 422, body(config_map("a", resourceVersion="1"))),
    # bad paths
    Bad("traversal in a path", "GET", f"{CONFIG_MAPS}/..%2f..%2fsecrets", 400),
    Bad("dots in a path", "GET", f"{CORE}/namespaces/../secrets", 400),
    Bad("a NUL in a path", "GET", f"{CONFIG_MAPS}/a%00b", 400),
    Bad("a path that is not UTF-8", "GET", f"{CONFIG_MAPS}/%ff%fe", 400),
    Bad("a namespace that is none", "GET", f"{CORE}/namespaces/A_B/configmaps", 400),
    Bad("a group nobody serves", "GET", "/apis/example.com/v1/things", 404),
    Bad("a version nobody serves", "GET", "/apis/kueue.x-k8s.io/v9/clusterqueues", 404),
    Bad("a part nobody serves", "GET", f"{CONFIG_MAPS}/a/scale", 404),
    Bad("a file", "GET", "/etc/passwd", 404),
    Bad("slashes without end", "GET", "/api" + "/" * 2_000, 404),
    # bad queries
    Bad("a negative limit", "GET", f"{CONFIG_MAPS}?limit=-1", 400),
    Bad("a limit that is no number", "GET", f"{CONFIG_MAPS}?limit=ten", 400),
    Bad("a token of our own making", "GET", f"{CONFIG_MAPS}?limit=1&continue=abc", 400),
    Bad("a selector that cannot be read", "GET", f"{CONFIG_MAPS}?labelSelector=a%20in%20(b", 400),
    Bad("a selector without end", "GET", f"{CONFIG_MAPS}?labelSelector=" + "a,b," * 100, 400),
    Bad("a field nobody selects by", "GET", f"{CONFIG_MAPS}?fieldSelector=data.a=1", 400),
    Bad("parameters without end", "GET", f"{CONFIG_MAPS}?" + "a=1&" * 200, 400),
    Bad("a mode nobody knows", "POST", f"{CONFIG_MAPS}?fieldValidation=Maybe", 400, b"{}"),
    Bad("half a dry run", "POST", f"{CONFIG_MAPS}?dryRun=Some", 400, b"{}"),
    Bad("a future watch", "GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=99999999", 504),
    # bad heads
    Bad("a huge header", "GET", CONFIG_MAPS, 431, b"", {"x_huge": "x" * 20_000}),
    Bad("a huge path", "GET", f"{CONFIG_MAPS}/" + "a" * 20_000, 431),
    Bad("a long path", "GET", f"{CONFIG_MAPS}/" + "a" * 5_000, 400),
    Bad("an Accept that nobody can satisfy", "GET", CONFIG_MAPS, 406, b"", {"accept": "image/png"}),
    # bad tokens
    Bad("no token", "GET", CONFIG_MAPS, 401, token=""),
    Bad("a token of nobody", "GET", CONFIG_MAPS, 401, token="abc.def"),
    Bad("a token with odd letters", "GET", CONFIG_MAPS, 401, token="\x80\xff.\x80"),
    Bad("a huge token", "GET", CONFIG_MAPS, 401, token="x" * 8_000),
    Bad("a body from nobody", "POST", CONFIG_MAPS, 401, b"x" * 100_000, token=""),
]  # fmt: skip


@pytest.fixture(scope="module")
def wary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with narrow limits on requests, and an object to use."""
    with running(tmp_path_factory.mktemp("wary"), limits=LIMITS) as server:
        with server.client() as client:
            assert client.post(CONFIG_MAPS, json=config_map("a")).status_code == 201
        yield server


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts."""
    with running(tmp_path_factory.mktemp("hasty"), limits=HASTY) as server:
        yield server


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 60
    assert len({each.why for each in CASES}) == len(CASES)


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.why)
def test_every_bad_request_gets_the_right_code(wary: Server, bad: Bad) -> None:
    data = request(wary, bad.method, bad.path, bad.body, token=bad.token, **bad.headers)
    assert answered(wary, data) == bad.code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET /healthz HTT", 408),
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\n", 408),
        (b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\ncontent-length: 10\r\n{auth}\r\n\r\n{{", 408),
        (b"", 408),
    ],
    ids=["half a line", "half a head", "half a body", "nothing"],
)
def test_slow_clients_are_not_waited_for(hasty: Server, data: bytes, code: int) -> None:
    auth = f"authorization: Bearer {hasty.token}".encode()
    assert answered(hasty, data.replace(b"{auth}", auth).replace(b"{{", b"{")) == code


def test_what_is_not_http_is_refused(wary: Server) -> None:
    assert answered(wary, b"\x16\x03\x01nonsense\r\n\r\n") == 400


def test_a_client_that_begins_no_handshake_is_not_waited_for(hasty: Server) -> None:
    where = urlsplit(hasty.url)
    with socket.create_connection((where.hostname or "", where.port or 0), 20) as plain:
        plain.settimeout(20)
        assert plain.recv(100) == b""


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_let_go(hasty: Server) -> None:
    with hasty.client() as client:
        bodies = (config_map(f"large{i}", data={"a": "x" * 200_000}) for i in range(600))
        stored = (body for body in bodies if client.post(CONFIG_MAPS, json=body).status_code == 201)
        assert len(list(islice(stored, 60))) == 60  # this server does not wait for its own clients either
    with connected(hasty) as connection:
        connection.sendall(request(hasty, "GET", CONFIG_MAPS))
        time.sleep(HASTY.write_seconds + 1)
        got = 0
        try:
            while data := connection.recv(1 << 20):
                got += len(data)
        except OSError:
            pass
    assert got < 60 * 200_000, "the list was kept for somebody who did not take it"


def test_more_connections_than_there_may_be_are_turned_away(tmp_path: Path) -> None:
    limits = Limits(connections=8, unknown_connections=4)
    with running(tmp_path, limits=limits) as server, ExitStack() as stack:
        for _ in range(4):
            each = stack.enter_context(connected(server))
            each.sendall(request(server, "GET", f"{CONFIG_MAPS}?watch=1"))
            assert status(each) == 200
        assert answered(server, request(server, "GET", CONFIG_MAPS)) == 429
        assert answered(server, request(server, "GET", "/version", token="")) == 200


@pytest.mark.slow
def test_a_flood_of_watches_is_turned_away(wary: Server) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(wary)) for _ in range(LIMITS.streams_per_token + 5)]
        for each in connections:
            each.sendall(request(wary, "GET", f"{CONFIG_MAPS}?watch=1"))
        assert sorted(map(status, connections)) == [200] * LIMITS.streams_per_token + [429] * 5


# --- all at once -----------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def bad_forever(server: Server, until: threading.Event, errors: list[str]) -> None:
    turn = 0
    while not until.is_set():
        bad = CASES[turn % len(CASES)]
        turn += 1
        code = answered(server, request(server, bad.method, bad.path, bad.body, token=bad.token, **bad.headers))
        if code not in (bad.code, 503):
            errors.append(f"{bad.why}: {code}")


def large_forever(server: Server, until: threading.Event, errors: list[str]) -> None:
    """Bodies that are as large and as slow to parse as possible."""
    many = {"metadata": {"name": "many"}, "spec": {"containers": [{"name": f"c{i}", "x": 1} for i in range(5_000)]}}
    data = request(server, "POST", f"{CORE}/namespaces/default/pods?fieldValidation=Strict", body(many))
    while not until.is_set():
        code = answered(server, data)
        if code not in (400, 422, 503):
            errors.append(f"large: {code}")


@pytest.mark.slow
def test_a_good_client_is_not_starved_and_memory_is_bounded(tmp_path: Path) -> None:
    with running(tmp_path, limits=LIMITS) as server, server.client() as client:
        client.post(CONFIG_MAPS, json=config_map("a"))
        before, until = resident_bytes(), threading.Event()
        errors: list[str] = []
        jobs: list[Callable[..., None]] = [bad_forever, bad_forever, large_forever, large_forever]
        threads = [threading.Thread(target=job, args=(server, until, errors)) for job in jobs]
        for thread in threads:
            thread.start()
        slowest, served, end = 0.0, 0, time.monotonic() + 4
        try:
            while time.monotonic() < end:
                begin = time.monotonic()
                made = client.post(f"{QUEUEING}/namespaces/default/localqueues", json=queue(f"q{served}"))
                assert made.status_code == 201, made.text
                assert client.get("/healthz").status_code == 200
                slowest, served = max(slowest, time.monotonic() - begin), served + 1
        finally:
            until.set()
            for thread in threads:
                thread.join()
        assert errors == []
        assert served >= 4, "not even one write a second came through"
        assert slowest < 5
        grown = (resident_bytes() - before) // MEGABYTE
        assert grown < 150, f"{grown} MB more"
