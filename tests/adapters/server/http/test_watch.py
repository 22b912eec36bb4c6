"""Watches, from the side of clients of a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.adapters.server.http.limits import Limits
from tests.adapters.server.serving import CONFIG_MAPS, CORE, QUEUEING, Server, config_map, queue, running, until

MERGE = {"content-type": "application/merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
_numbers = count()


@pytest.fixture
def space(admin: httpx2.Client) -> str:
    name = f"watched-{next(_numbers)}"
    assert admin.post(f"{CORE}/namespaces", json={"metadata": {"name": name}}).status_code == 201
    return f"{CORE}/namespaces/{name}"


@contextmanager
def watching(server: Server, path: str, **query: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a watch, one after the other."""
    headers = query.pop("headers", {})
    with server.client() as client:
        params = {"watch": "true", "timeoutSeconds": 20, **query}
        with client.stream("GET", path, params=params, headers=headers) as answer:
            if answer.status_code != 200:
                answer.read()
                raise AssertionError(answer.text)
            yield (json.loads(line) for line in answer.iter_lines())


def newest(client: httpx2.Client, path: str) -> str:
    return str(client.get(path).json()["metadata"]["resourceVersion"])


def told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


def test_a_watch_tells_what_there_is_and_then_what_happens(server: Server, admin: httpx2.Client, space: str) -> None:
    path = f"{space}/configmaps"
    admin.post(path, json=config_map("there"))
    with watching(server, path) as events:
        assert told(next(events)) == ("ADDED", "there")
        admin.post(path, json=config_map("new"))
        added = next(events)
        assert told(added) == ("ADDED", "new")
        admin.patch(f"{path}/new", json={"data": {"b": "2"}}, headers=MERGE)
        changed = next(events)
        assert told(changed) == ("MODIFIED", "new")
        assert changed["object"] == admin.get(f"{path}/new").json()
        admin.delete(f"{path}/new")
        gone = next(events)
        assert told(gone) == ("DELETED", "new")
        assert int(gone["object"]["metadata"]["resourceVersion"]) > int(
            changed["object"]["metadata"]["resourceVersion"]
        )


def test_a_watch_from_a_list_misses_nothing_and_repeats_nothing(
    server: Server, admin: httpx2.Client, space: str
) -> None:
    path = f"{space}/configmaps"
    admin.post(path, json=config_map("before"))
    version = newest(admin, path)
    admin.post(path, json=config_map("between"))
    with watching(server, path, resourceVersion=version) as events:
        assert told(next(events)) == ("ADDED", "between")


def test_selectors_hold_for_watches_too(server: Server, admin: httpx2.Client, space: str) -> None:
    path = f"{space}/configmaps"
    version = newest(admin, path)
    with watching(server, path, resourceVersion=version, labelSelector="x=1") as events:
        admin.post(path, json=config_map("other"))
        admin.post(path, json=config_map("mine", labels={"x": "1"}))
        assert told(next(events)) == ("ADDED", "mine")
        admin.patch(f"{path}/mine", json={"metadata": {"labels": {"x": "2"}}}, headers=MERGE)
        assert told(next(events)) == ("DELETED", "mine")
        admin.patch(f"{path}/other", json={"metadata": {"labels": {"x": "1"}}}, headers=MERGE)
        assert told(next(events)) == ("ADDED", "other")
    with watching(server, path, resourceVersion=version, fieldSelector="metadata.name=other") as events:
        assert told(next(events)) == ("ADDED", "other")
        assert told(next(events)) == ("MODIFIED", "other")
    with watching(server, f"{path}/other", resourceVersion=version) as events:
        assert told(next(events)) == ("ADDED", "other")


def test_what_there_is_ends_with_a_bookmark_for_who_asks(server: Server, admin: httpx2.Client, space: str) -> None:
    path = f"{space}/configmaps"
    admin.post(path, json=config_map("one"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with watching(server, path, **query) as events:
        assert told(next(events)) == ("ADDED", "one")
        mark = next(events)
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "ConfigMap"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(mark["object"]["metadata"]["resourceVersion"]) >= int(newest(admin, path)) - 1


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "abc"},
        {"continue": "abc"},
        {"timeoutSeconds": "-1"},
        {"timeoutSeconds": "soon"},
        {"allowWatchBookmarks": "perhaps"},
    ],
)
def test_a_watch_that_makes_no_sense_is_refused(admin: httpx2.Client, query: dict[str, str]) -> None:
    assert admin.get(CONFIG_MAPS, params={"watch": "1", **query}).status_code == 400


@pytest.mark.slow
def test_a_watch_ends_when_its_time_is_up(server: Server, admin: httpx2.Client, space: str) -> None:
    version = newest(admin, f"{space}/configmaps")
    with watching(server, f"{space}/configmaps", timeoutSeconds=1, resourceVersion=version) as events:
        assert list(events) == []


def test_a_table_watch_names_its_columns_once(server: Server, admin: httpx2.Client, space: str) -> None:
    path = f"{space}/configmaps"
    admin.post(path, json=config_map("a"))
    with watching(server, path, headers=TABLE) as events:
        first = next(events)
        assert first["object"]["kind"] == "Table"
        assert first["object"]["columnDefinitions"][0]["name"] == "Name"
        admin.post(path, json=config_map("b"))
        second = next(events)
        assert second["object"]["columnDefinitions"] == []
        assert second["object"]["rows"][0]["cells"][0] == "b"


def test_a_watch_speaks_the_version_that_is_asked_for(server: Server, admin: httpx2.Client) -> None:
    version = newest(admin, f"{QUEUEING}/clusterqueues")
    with watching(server, "/apis/kueue.x-k8s.io/v1beta1/clusterqueues", resourceVersion=version) as events:
        body = {"metadata": {"name": "watched"}, "spec": {"cohortName": "all"}}
        assert admin.post(f"{QUEUEING}/clusterqueues", json=body).status_code == 201
        assert next(events)["object"]["spec"]["cohort"] == "all"


def test_a_place_that_is_forgotten_is_told_as_an_event(tmp_path: Path) -> None:
    with running(tmp_path) as server, server.client() as client:
        version = newest(client, CONFIG_MAPS)
        for i in range(3):
            client.post(CONFIG_MAPS, json=config_map(f"c{i}"))
        server.store.compact()
        with watching(server, CONFIG_MAPS, resourceVersion=version) as events:
            error = next(events)
            assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
            assert list(events) == []


def test_a_quiet_watch_is_told_where_it_is(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(bookmark_seconds=0.05)) as server, server.client() as client:
        version = newest(client, CONFIG_MAPS)
        query = {"allowWatchBookmarks": "true", "resourceVersion": version}
        with watching(server, CONFIG_MAPS, **query) as events:
            made = client.post(f"{QUEUEING}/namespaces/default/localqueues", json=queue("elsewhere")).json()
            while True:
                mark = next(events)
                assert mark["type"] == "BOOKMARK"
                if mark["object"]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]:
                    break


@pytest.mark.slow
def test_watches_are_counted_and_given_back(tmp_path: Path) -> None:
    limits = Limits(streams=3, streams_per_token=2)
    with running(tmp_path, limits=limits) as server, server.client() as client:
        with watching(server, CONFIG_MAPS), watching(server, CONFIG_MAPS):
            full = client.get(CONFIG_MAPS, params={"watch": "1"})
            assert (full.status_code, full.json()["reason"]) == (429, "TooManyRequests")
            assert int(full.headers["retry-after"]) > 0
            with server.client("viewer") as other:
                assert other.get(CONFIG_MAPS, params={"watch": "1", "timeoutSeconds": "1"}).status_code == 200
        brief = {"watch": "1", "timeoutSeconds": "1"}
        until(lambda: client.get(CONFIG_MAPS, params=brief).status_code == 200)  # noticed soon, not at once


def test_many_watchers_see_the_same_in_the_same_order(server: Server, admin: httpx2.Client, space: str) -> None:
    path, writes = f"{space}/configmaps", 30
    version = newest(admin, path)
    seen: list[list[tuple[str, str]]] = [[] for _ in range(8)]

    def follow(into: list[tuple[str, str]]) -> None:
        with watching(server, path, resourceVersion=version) as events:
            for event in events:
                into.append(told(event))
                if len(into) == writes:
                    return

    threads = [threading.Thread(target=follow, args=(into,)) for into in seen]
    for thread in threads:
        thread.start()
    for i in range(writes):
        admin.post(path, json=config_map(f"c{i}"))
    for thread in threads:
        thread.join(20)
    assert seen == [[("ADDED", f"c{i}") for i in range(writes)]] * len(seen)


@pytest.mark.slow
def test_a_server_that_stops_takes_leave_of_its_watches(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        client = server.client()
        answer = client.send(
            client.build_request("GET", CONFIG_MAPS, params={"watch": "1", "timeoutSeconds": 60}), stream=True
        )
        assert answer.status_code == 200
    assert list(answer.iter_lines()) == []
    client.close()
