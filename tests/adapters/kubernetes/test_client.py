"""The client against real HTTPS servers: trust, requests, the meaning of answers, and repeated requests."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from makeway.adapters.kubernetes.client import TABLE, Client
from makeway.adapters.kubernetes.errors import NotTrusted, Unauthorized
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.adapters.kubernetes.resources import resource_of
from makeway.adapters.kubernetes.streams import WatchStream
from makeway.api.objects.kubernetes import Job
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.ports import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Retryable,
    StoreError,
    TimedOut,
    TooManyRequests,
    Unavailable,
)
from makeway.testing.conformance import QUEUE
from tests.adapters.kubernetes.https_server import Asked, Authority, Handler, Server, says, serving

QUEUES = resource_of(QUEUE)
JOBS = resource_of(kind_of(Job))


def failure(client: Client, method: str = "POST") -> StoreError:
    with pytest.raises(StoreError) as failed:
        client.send(method, "/x", body={} if method == "POST" else None)
    return failed.value


# --- who is trusted, and who we are ----------------------------------------------------------------------------------


def test_a_request_carries_who_we_are_and_what_we_want(server: Server, client: Client) -> None:
    assert client.get(QUEUES, "team", "main") == {
        "kind": "Thing", "asked": "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/main",
    }  # fmt: skip
    (asked,) = server.asked
    assert (asked.method, asked.headers["authorization"], asked.headers["accept"]) == (
        "GET", "Bearer t0ken", "application/json",
    )  # fmt: skip
    assert asked.headers["user-agent"].startswith("makeway/")


def test_a_server_of_another_authority_is_not_trusted_and_gets_no_token(server: Server, target: ApiTarget) -> None:
    for other in (Authority("somebody else").certificate, b""):
        with Client(replace(target, authority=other)) as client:
            assert isinstance(failure(client, "GET"), NotTrusted)
    assert server.asked == []
    with Client(replace(target, authority=b"", insecure=True)) as client:
        client.send("GET", "/x")


def test_a_certificate_must_be_of_the_host_or_of_the_name_that_is_given(authority: Authority, tmp_path: Path) -> None:
    with serving(authority, tmp_path, host="inside.example") as server:
        target = ApiTarget(server.url, authority=authority.certificate)
        with Client(target) as client:
            assert "not trusted" in str(failure(client))
        with Client(replace(target, server_name="inside.example")) as client:
            client.send("GET", "/x")


def test_a_client_certificate_says_who_we_are(authority: Authority, tmp_path: Path) -> None:
    me = authority.signs("anna")
    with serving(authority, tmp_path, clients=True) as server:
        target = ApiTarget(server.url, authority=authority.certificate, certificate=me.certificate, key=me.key)
        with Client(target) as client:
            client.send("GET", "/x")
        assert server.asked[-1].peer == "anna"


def test_certificates_that_are_none_are_told(target: ApiTarget) -> None:
    for broken in (
        replace(target, authority=b"nothing"), replace(target, authority=b"\xff"),
        replace(target, certificate=b"x", key=b"y"),
    ):  # fmt: skip
        with pytest.raises(NotTrusted, match="cannot be used"):
            Client(broken)


def test_a_token_file_is_read_anew(
    server: Server, target: ApiTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("makeway.adapters.kubernetes.credentials.TOKEN_SECONDS", 0.0)
    file = tmp_path / "token"
    with Client(replace(target, token="", token_file=str(file)), tries=1) as client:
        assert "cannot be read" in str(failure(client))
        for token in ("one", "two"):
            file.write_text(f"{token}\n")
            client.send("GET", "/x")
        file.unlink()
        client.send("GET", "/x")
    assert [each.headers["authorization"] for each in server.asked] == ["Bearer one", "Bearer two", "Bearer two"]


def test_on_behalf_of_somebody(server: Server, target: ApiTarget) -> None:
    with Client(replace(target, headers={"Impersonate-User": ["anna"]})) as client:
        client.send("GET", "/x")
    assert server.asked[0].headers["impersonate-user"] == "anna"


def test_this_machine_is_reached_without_a_proxy(
    server: Server, target: ApiTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Client(target) as client:
        client.send("GET", "/x")
    assert len(server.asked) == 1


def test_a_proxy_that_the_kubeconfig_names_is_used(server: Server, target: ApiTarget) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        seen: list[bytes] = []

        def refuse() -> None:
            connection, _ = proxy.accept()
            with connection:
                seen.append(connection.recv(1000))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

        thread = Thread(target=refuse)
        thread.start()
        with Client(replace(target, proxy=f"http://127.0.0.1:{proxy.getsockname()[1]}"), tries=1) as client:
            assert type(failure(client)) is Unavailable
        thread.join(10)
    assert seen[0].startswith(b"CONNECT 127.0.0.1:")
    assert server.asked == []


def test_a_redirect_is_not_followed(server: Server, client: Client) -> None:
    server.answer = lambda asked, handler: handler.raw(302, b"", {"Location": "https://elsewhere.example/"})
    assert "302" in str(failure(client, "GET"))


def test_a_server_behind_a_path(server: Server, target: ApiTarget) -> None:
    with Client(replace(target, server=f"{target.server}/k8s/c-1")) as client:
        client.get(JOBS, "team", "a")
    assert server.asked[0].path == "/k8s/c-1/apis/batch/v1/namespaces/team/jobs/a"


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_every_verb_has_its_request(server: Server, client: Client) -> None:
    client.list(QUEUES, labels="a=b", fields="metadata.name=x", limit=3, token="t", accept=TABLE)
    client.create(QUEUES, "team", {"a": 1}, dry_run=True)
    client.replace(QUEUES, "team", "main", {"a": 2}, subresource="status")
    client.patch(QUEUES, "team", "main", {"a": 3}, type_="apply-patch+yaml", force=True)
    client.delete(QUEUES, "team", "main", {"propagationPolicy": "Orphan"})
    listed, created, replaced, patched, deleted = server.asked
    assert listed.path == "/apis/kueue.x-k8s.io/v1beta2/localqueues"
    assert listed.query == {"labelSelector": "a=b", "fieldSelector": "metadata.name=x", "limit": "3", "continue": "t"}
    assert listed.headers["accept"].startswith("application/json;as=Table;")
    assert (created.method, created.body) == ("POST", {"a": 1})
    assert created.query == {"fieldManager": "makeway", "dryRun": "All"}
    assert (replaced.method, replaced.path[-12:], replaced.query) == (
        "PUT",
        "/main/status",
        {"fieldManager": "makeway"},
    )
    assert (patched.method, patched.headers["content-type"]) == ("PATCH", "application/apply-patch+yaml")
    assert patched.query == {"fieldManager": "makeway", "force": "true"}
    assert deleted.body == {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}


def test_names_stay_within_their_place_in_the_path(server: Server, client: Client) -> None:
    for namespace, name in (("team", ".."), ("..", "a"), ("team", "a/b"), ("team", "a%2e")):
        with pytest.raises(Invalid):
            client.get(QUEUES, namespace, name)
    client.get(QUEUES, "team", "a b?c")
    assert [each.path for each in server.asked] == [
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/a%20b%3Fc"
    ]


def test_without_a_name_nothing_is_sent_that_would_concern_all(server: Server, client: Client) -> None:
    for call in (
        lambda: client.delete(QUEUES, "team", "", {}), lambda: client.get(QUEUES, "team", ""),
        lambda: client.patch(QUEUES, "team", "", {}), lambda: client.replace(QUEUES, "team", "", {}),
    ):  # fmt: skip
        with pytest.raises(Invalid):
            call()
    assert server.asked == []


def test_a_list_is_read_page_by_page(server: Server, client: Client) -> None:
    pages = {"": ("a", "t1"), "t1": ("b", "t2"), "t2": ("c", "")}

    def answer(asked: Asked, handler: Handler) -> None:
        name, token = pages[asked.query.get("continue", "")]
        handler.json(200, {"items": [name], "metadata": {"continue": token}})

    server.answer = answer
    assert [page["items"] for page in client.pages(QUEUES)] == [["a"], ["b"], ["c"]]


# --- what an answer means --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (410, "Gone", Expired),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (405, "MethodNotAllowed", Forbidden),
        (400, "BadRequest", Invalid),
        (413, "RequestEntityTooLarge", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", TimedOut),
        (500, "ServerTimeout", Retryable),
        (500, "InternalError", StoreError),
        (404, "", NotFound),
        (422, "Unknown", Invalid),
        (502, "", TimedOut),
    ],
)
def test_the_reason_decides_which_error_it_is(
    server: Server, client: Client, code: int, reason: str, expected: type[StoreError]
) -> None:
    server.answer = says(code, reason, "because")
    error = failure(client)
    assert type(error) is expected
    assert "because" in str(error)


def test_all_causes_are_problems(server: Server, client: Client) -> None:
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "metadata.name"},
        {"reason": "FieldValueNotSupported", "message": "Unsupported", "field": "spec.stopPolicy"},
    ]
    server.answer = says(422, "Invalid", "two things", causes=causes)
    error = failure(client)
    assert isinstance(error, Invalid)
    assert [(each.path, each.message, each.cause) for each in error.problems] == [
        ("metadata.name", "Required value", "Required"), ("spec.stopPolicy", "Unsupported", "NotSupported"),
    ]  # fmt: skip


def test_a_revision_that_is_still_to_come_is_not_unknown(server: Server, client: Client) -> None:
    server.answer = says(
        504, "Timeout", "Too large", causes=[{"reason": "ResourceVersionTooLarge"}], retryAfterSeconds=1
    )
    error = failure(client)
    assert type(error) is Unavailable
    assert error.retry_after == Millis(1000)


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (404, b"404 page not found", NotFound),
        (500, b"<html>", StoreError),
        (418, b"", StoreError),
        (502, b"x", TimedOut),
    ],
)
def test_an_answer_that_is_no_status(
    server: Server, client: Client, code: int, body: bytes, expected: type[StoreError]
) -> None:
    server.answer = lambda asked, handler: handler.raw(code, body)
    error = failure(client)
    assert type(error) is expected
    assert str(code) in str(error)


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"])
def test_a_success_that_is_no_object(server: Server, client: Client, body: bytes) -> None:
    server.answer = lambda asked, handler: handler.raw(200, body)
    with pytest.raises(Unavailable, match="no JSON"):
        client.get(QUEUES, "team", "a")


def test_warnings_are_told(server: Server, target: ApiTarget) -> None:
    told: list[str] = []
    header = {"Warning": '299 - "unknown field \\"spec.x\\""'}
    server.answer = lambda asked, handler: handler.json(200, {}, header)
    with Client(target, warn=told.append) as client:
        client.send("GET", "/x")
    assert told == ['unknown field "spec.x"']


# --- when it asks again ----------------------------------------------------------------------------------------------


def failing_first(times: int, first: Callable[[Asked, Handler], None]) -> Callable[[Asked, Handler], None]:
    left = [times]

    def answer(asked: Asked, handler: Handler) -> None:
        left[0] -= 1
        first(asked, handler) if left[0] >= 0 else handler.json(200, {})

    return answer


def test_what_was_not_applied_is_sent_again_a_bounded_number_of_times(server: Server, target: ApiTarget) -> None:
    pauses: list[float] = []
    with Client(target, tries=3, pause=pauses.append) as client:
        server.answer = failing_first(2, says(429, "TooManyRequests", retryAfterSeconds=2))
        assert client.send("POST", "/x", body={}).code == 200
        server.answer = says(503, "ServiceUnavailable", retryAfterSeconds=3600)
        assert isinstance(failure(client), Unavailable)
    assert len(server.asked) == 6
    assert pauses == [2.0, 2.0, 5.0, 5.0]


def test_a_write_that_may_have_been_applied_is_not_sent_again(server: Server, client: Client) -> None:
    for reason in ("InternalError", "ServerTimeout", "Timeout"):
        server.answer = says(500, reason, retryAfterSeconds=1)
        assert isinstance(failure(client), Retryable)
    assert len(server.asked) == 3


def test_a_read_is_repeated_where_no_answer_came(server: Server, client: Client) -> None:
    server.answer = failing_first(2, lambda asked, handler: handler.hang_up())
    assert client.send("GET", "/x").code == 200


def test_of_a_write_without_an_answer_nobody_knows(server: Server, client: Client) -> None:
    server.answer = lambda asked, handler: handler.hang_up()
    assert type(failure(client)) is TimedOut
    assert len(server.asked) == 1


def test_a_server_that_is_slow(server: Server, target: ApiTarget) -> None:
    def answer(asked: Asked, handler: Handler) -> None:
        time.sleep(0.5)
        handler.json(200, {})

    server.answer = answer
    with Client(target, seconds=0.1, tries=1) as client:
        assert type(failure(client)) is TimedOut
        assert type(failure(client, "GET")) is Unavailable


def test_a_server_that_is_not_there(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
    with Client(ApiTarget(url, authority=authority.certificate), tries=2, pause=lambda seconds: None) as client:
        error = failure(client)
    assert type(error) is Unavailable
    assert str(error).startswith("cannot be reached: ")


# --- watches ---------------------------------------------------------------------------------------------------------


def named(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def test_events_come_as_they_are_told(server: Server, client: Client) -> None:
    line = json.dumps({"type": "ADDED", "object": named("line\u2028break")}, ensure_ascii=False).encode() + b"\n"

    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        for part in (line[:7], line[7:40], line[40:] + line + b"\n", line[:-1], b"\n"):
            handler.chunk(part)
        handler.end_stream()

    server.answer = answer
    events = list(client.watch(QUEUES, "team", since="7", labels="a=b"))
    assert events == [("ADDED", named("line\u2028break"))] * 3
    assert server.asked[0].query == {
        "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "7", "timeoutSeconds": "290",
        "labelSelector": "a=b",
    }  # fmt: skip


def test_a_place_that_is_forgotten_is_told_at_once_or_in_the_stream(server: Server, client: Client) -> None:
    server.answer = says(410, "Expired", "too old")
    with pytest.raises(Expired, match="too old"):
        client.watch(QUEUES, since="1")

    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        handler.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})

    server.answer = answer
    with pytest.raises(Expired, match="too old"):
        list(client.watch(QUEUES, since="1"))


@pytest.mark.parametrize("line", [b"{\n", b"[]\n", b'{"type": "ADDED"}\n'])
def test_a_stream_of_something_else(server: Server, client: Client, line: bytes) -> None:
    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        handler.chunk(line)
        handler.end_stream()

    server.answer = answer
    with pytest.raises(Unavailable):
        list(client.watch(QUEUES, since="1"))


def test_an_event_that_is_too_large(server: Server, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.adapters.kubernetes.streams.LINE_BYTES_MAX", 1000)

    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        handler.chunk(b"x" * 2000)
        handler.end_stream()

    server.answer = answer
    with pytest.raises(Unavailable, match="too large"):
        list(client.watch(QUEUES, since="1"))


def test_a_watch_that_breaks(server: Server, client: Client) -> None:
    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        handler.event("ADDED", named("a"))
        handler.hang_up()

    server.answer = answer
    stream = iter(client.watch(QUEUES, since="1"))
    assert next(stream)[0] == "ADDED"
    with pytest.raises(Unavailable):
        next(stream)


def test_a_watch_may_be_silent_for_longer_than_an_answer_may_take(server: Server, target: ApiTarget) -> None:
    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        time.sleep(0.4)
        handler.event("ADDED", named("a"))
        handler.end_stream()

    server.answer = answer
    with Client(target, seconds=0.1, tries=1) as client:
        assert [type_ for type_, _ in client.watch(QUEUES, since="1")] == ["ADDED"]


@pytest.mark.parametrize("who", ["stream", "client"])
def test_a_watch_can_be_ended_while_somebody_waits_for_it(server: Server, target: ApiTarget, who: str) -> None:
    done = Event()

    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        handler.event("ADDED", named("a"))
        done.wait(30)

    def read(stream: WatchStream, seen: list[Any]) -> None:
        try:
            seen.extend(stream)
        except Unavailable as error:
            seen.append(error)

    server.answer = answer
    with Client(target) as client:
        stream, seen = client.watch(QUEUES, since="1"), list[Any]()
        reader = Thread(target=read, args=(stream, seen))
        reader.start()
        while len(seen) < 1 and reader.is_alive():
            time.sleep(0.005)
        closes = client.close if who == "client" else stream.close
        closes()
        reader.join(10)
        done.set()
        assert not reader.is_alive()
        closes()


def test_a_client_closes_no_socket_that_somebody_reads(
    server: Server, target: ApiTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of the socket would go to the next file, and the reader would take the beginning of that file."""
    done, reads, left = Event(), Event(), list[bool]()

    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        handler.event("ADDED", named("a"))
        done.wait(30)

    def read(stream: WatchStream) -> None:
        with suppress(Unavailable):
            for _ in stream:
                reads.set()

    server.answer = answer
    client = Client(target)
    unread, stream = client.watch(QUEUES, since="1"), client.watch(QUEUES, since="1")
    reader = Thread(target=read, args=(stream,))
    reader.start()
    assert reads.wait(10)
    close = client._transport._http.close

    def noted() -> None:
        left.append(stream._is_left.is_set())
        close()

    monkeypatch.setattr(client._transport._http, "close", noted)
    client.close()
    done.set()
    reader.join(10)
    assert left == [True]
    assert list(unread) == [], "nobody begins to read what was closed"
