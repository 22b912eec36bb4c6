"""A watch in a thread: it resumes, reports errors, has bounded memory, and ends with its owner."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from makeway.adapters.kubernetes import watching
from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.adapters.kubernetes.store import KubernetesStore
from makeway.runtime.ports import Expired, StoreError, Unavailable, Watch, WatchEvent
from makeway.testing.conformance import QUEUE, queue, story
from tests.adapters.kubernetes.https_server import Asked, Authority, Handler, Server, serving

PATIENCE_SECONDS = 20
GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Client]]:
    authority = Authority()
    with (
        serving(authority, tmp_path_factory.mktemp("server")) as server,
        Client(ApiTarget(server.url, authority=authority.certificate), tries=1) as client,
    ):
        yield server, client


@pytest.fixture
def server(running: tuple[Server, Client], monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(watching, "PAUSE_SECONDS", 0.001)
    running[0].asked.clear()
    return running[0]


@pytest.fixture
def store(running: tuple[Server, Client], server: Server) -> KubernetesStore:
    return KubernetesStore(running[1])


def at(version: int, name: str = "q") -> dict[str, Any]:
    return queue(name, resourceVersion=str(version), uid=f"uid-{name}")


def polled(watch: Watch, count: int) -> list[WatchEvent]:
    """This many events, or what had come when the time was up."""
    found: list[WatchEvent] = []
    until = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count and time.monotonic() < until:
        found.extend(watch.poll())
        time.sleep(0.002)
    return found


def waited(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.002)
    return condition()


def watchers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "makeway-watch"}


def telling(
    *parts: Sequence[tuple[str, dict[str, Any]]], then: str = "ends", until: threading.Event | None = None
) -> Callable[[Asked, Handler], None]:
    """A server that sends one part per connection; the last one stays open until the event is set."""
    left = list(parts)

    def answer(asked: Asked, handler: Handler) -> None:
        handler.begin_stream()
        part, is_last = left.pop(0) if left else (), not left
        for type_, tree in part:
            handler.event(type_, tree)
        if is_last:
            (until or threading.Event()).wait(PATIENCE_SECONDS)
        handler.end_stream() if then == "ends" else handler.hang_up()

    return answer


@pytest.mark.parametrize("then", ["ends", "breaks"])
def test_it_resumes_after_the_last_event_or_bookmark(server: Server, store: KubernetesStore, then: str) -> None:
    end = threading.Event()
    server.answer = telling(
        [("ADDED", at(5))], [("MODIFIED", at(6)), ("BOOKMARK", {"metadata": {"resourceVersion": "9"}})],
        [("DELETED", at(11))], then=then, until=end,
    )  # fmt: skip
    watch = store.watch(QUEUE, "4")
    assert story(polled(watch, 3)) == [("ADDED", "q"), ("MODIFIED", "q"), ("DELETED", "q")]
    assert [each.query["resourceVersion"] for each in server.asked] == ["4", "5", "9"]
    assert watch.seen == "11"
    watch.close()
    end.set()


def test_bookmarks_are_told_to_those_who_asked_for_them_the_last_one_only(
    server: Server, store: KubernetesStore
) -> None:
    end = threading.Event()
    marks = [("BOOKMARK", {"metadata": {"resourceVersion": str(n)}}) for n in (5, 6, 7)]
    server.answer = telling([*marks, ("ADDED", at(8))], until=end)
    watch = store.watch(QUEUE, "4", bookmarks=True)
    assert waited(lambda: watch.seen == "8")
    assert [(each.type, each.resource_version) for each in watch.poll()] == [("BOOKMARK", "7"), ("ADDED", "8")]
    watch.close()
    end.set()


def test_a_place_that_is_forgotten_ends_it_after_the_last_event(server: Server, store: KubernetesStore) -> None:
    server.answer = telling([("ADDED", at(5)), ("ERROR", GONE)], [])
    watch = store.watch(QUEUE, "4")
    assert len(polled(watch, 1)) == 1

    def expired() -> bool:
        try:
            return bool(watch.poll())
        except Expired:
            return True

    assert waited(expired)
    for _ in range(2):
        with pytest.raises(Expired):
            watch.poll()
    assert len(server.asked) == 1
    watch.close()
    assert watch.poll() == []


def test_while_the_server_is_away_it_says_so_and_then_goes_on(server: Server, store: KubernetesStore) -> None:
    end, news = threading.Event(), threading.Event()
    away = [True]

    def answer(asked: Asked, handler: Handler) -> None:
        if len(server.asked) > 1 and away[0]:
            handler.json(503, {"kind": "Status", "reason": "ServiceUnavailable", "message": "away"})
        elif len(server.asked) == 1:
            telling([], [])(asked, handler)
        else:
            telling([("ADDED", at(5))], until=end)(asked, handler)

    server.answer = answer
    watch = KubernetesStore(store._client, news=news.set).watch(QUEUE, "4")
    told: list[str] = []

    def is_told() -> bool:
        try:
            watch.poll()
        except Unavailable as error:
            told.append(str(error))
        return bool(told)

    assert waited(is_told)
    assert told[0] == "away"
    assert news.is_set()
    away[0] = False
    assert waited(lambda: watch.seen == "5")
    assert story(watch.poll()) == [("ADDED", "q")]
    watch.close()
    end.set()


def test_what_is_no_object_is_told_and_does_not_end_it(server: Server, store: KubernetesStore) -> None:
    server.answer = telling(*([("ADDED", {"metadata": {"name": 3}})] for _ in range(50)))
    watch = store.watch(QUEUE, "4")
    told: list[str] = []

    def is_told() -> bool:
        try:
            watch.poll()
        except StoreError as error:
            told.append(str(error))
        return bool(told)

    assert waited(is_told)
    assert "cannot be read" in told[0]
    watch.close()


def test_it_holds_no_more_events_than_it_may(
    server: Server, store: KubernetesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "EVENTS_MAX", 10)
    end = threading.Event()
    server.answer = telling([("ADDED", at(n)) for n in range(5, 105)], until=end)
    watch = store.watch(QUEUE, "4")
    assert waited(lambda: watch.seen == "14")
    time.sleep(0.05)
    assert watch.seen == "14"
    assert [int(each.resource_version) for each in polled(watch, 100)] == list(range(5, 105))
    watch.close()
    end.set()


def test_a_watch_that_nobody_has_any_more_ends(server: Server, store: KubernetesStore) -> None:
    before, end = watchers(), threading.Event()
    server.answer = telling([], until=end)
    closed, dropped = store.watch(QUEUE, "4"), store.watch(QUEUE, "4")
    ours = watchers() - before
    assert len(ours) == 2
    closed.close()
    del dropped
    gc.collect()
    assert waited(lambda: not any(thread.is_alive() for thread in ours))
    end.set()


def test_one_that_begins_with_what_is_there_begins_with_a_list(server: Server, store: KubernetesStore) -> None:
    end = threading.Event()
    watching_ = telling([("ADDED", at(8, "b"))], until=end)

    def answer(asked: Asked, handler: Handler) -> None:
        if "watch" in asked.query:
            watching_(asked, handler)
        else:
            handler.json(200, {"metadata": {"resourceVersion": "7"}, "items": [at(3, "a")]})

    server.answer = answer
    watch = store.watch(QUEUE, bookmarks=True)
    assert story(polled(watch, 3)) == [("ADDED", "a"), ("BOOKMARK", ""), ("ADDED", "b")]
    assert server.asked[-1].query["resourceVersion"] == "7"
    watch.close()
    end.set()
