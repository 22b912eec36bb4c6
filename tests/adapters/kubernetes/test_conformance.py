"""The Store conformance suite over HTTPS: our client, our server, and everything between them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.adapters.kubernetes.store import KubernetesStore
from makeway.adapters.kubernetes.watching import FollowedWatch
from makeway.adapters.server.http.limits import Limits
from makeway.api.objects.kubernetes import Namespace
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.versions import kind_of
from makeway.runtime.ports import Expired, NotFound, Store, Watch, WatchEvent
from makeway.testing.conformance import FLAVOR, QUEUE, StoreConformance, queue, story
from tests.adapters.server.serving import Server, running

PATIENCE_SECONDS = 30
NAMESPACES = ("a", "b", "other", "team")  # of the suite


def target_of(server: Server) -> ApiTarget:
    return ApiTarget(server.url, authority=(server.folder / "ca.crt").read_bytes(), token=server.token)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    soon = Limits(bookmark_seconds=0.01)  # a quiet watch soon gets its place in a bookmark
    with running(tmp_path_factory.mktemp("server"), limits=soon) as server:
        for name in NAMESPACES:
            server.store.create(Namespace(metadata=ObjectMeta(name=name)))
        yield server


class TestOverHttps(StoreConformance):
    """One server for all tests: starting one takes longer than emptying it."""

    @pytest.fixture(autouse=True)
    def connection(self, server: Server) -> Iterator[None]:
        self.behind = server.store
        with Client(target_of(server)) as self.client:
            yield

    def make_store(self) -> Any:
        for kind in (QUEUE, FLAVOR, kind_of(ClusterQueue)):
            for each in self.behind.list(kind).items:
                self.behind.patch(kind, each.namespace, each.name, {"metadata": {"finalizers": None}})
                with suppress(NotFound):  # it was deleted, and waited for its finalizer
                    self.behind.delete(kind, each.namespace, each.name)
        return KubernetesStore(self.client)

    def compact(self, store: Any) -> None:
        self.behind.compact()

    def news(self, watch: Watch, limit: int = 1000) -> list[WatchEvent]:
        """Read a watch until it has all changes of the server: events, or bookmarks if there are none."""
        assert isinstance(watch, FollowedWatch)
        until, newest = time.monotonic() + PATIENCE_SECONDS, int(self.behind.resource_version)
        found: list[WatchEvent] = []
        while True:
            seen = int(watch.seen)
            while events := watch.poll(limit):
                assert len(events) <= limit
                found.extend(events)
            if seen >= newest:
                return found
            assert time.monotonic() < until, f"the watch has seen {seen} of {newest}"
            time.sleep(0.001)

    def test_a_watch_from_a_forgotten_revision_has_expired(self, store: Store) -> None:
        """An open stream cannot fall behind: its events may be forgotten, and it goes on."""
        old = store.create(queue("a"))
        watch = store.watch(QUEUE, old.resource_version)
        store.create(queue("b"))
        assert story(self.news(watch)) == [("ADDED", "b")]
        self.compact(store)
        with pytest.raises(Expired):
            self.news(store.watch(QUEUE, old.resource_version))
        store.create(queue("c"))
        assert story(self.news(watch)) == [("ADDED", "c")]

    @pytest.mark.slow
    @pytest.mark.property
    def test_in_any_order_of_calls_it_agrees_with_a_dict(self) -> None:
        super().test_in_any_order_of_calls_it_agrees_with_a_dict()
