"""A real server for tests: HTTPS on a free port, a data folder of its own, and clients with their tokens."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from makeway.adapters.server.access.certificates import certificate
from makeway.adapters.server.access.tokens import Access, Role
from makeway.adapters.server.http.app import application
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.serving import Serving
from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.server.resources.pod_calls import PodLogs
from makeway.adapters.server.storage.beginning import admin_token, open_store
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.reading.documents import Tree
from makeway.core.model import Millis

CORE = "/api/v1"
QUEUEING = "/apis/kueue.x-k8s.io/v1beta2"
LOCAL_QUEUES = f"{QUEUEING}/namespaces/default/localqueues"
CONFIG_MAPS = f"{CORE}/namespaces/default/configmaps"


def clock() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


@dataclass
class NoExtras:
    """A server without an engine."""

    logs: PodLogs | None = None
    why_not_ready: str = ""
    pending: dict[tuple[str | None, str], dict[str, Tree]] = field(default_factory=dict)

    def version(self) -> Mapping[str, str]:
        return {"major": "1", "minor": "37", "gitVersion": "v1.37.0+makeway"}

    def not_ready(self) -> str:
        return self.why_not_ready

    async def metrics(self) -> bytes:
        return b"makeway_up 1\n"

    async def pending_workloads(
        self, namespace: str | None, queue: str, *, offset: int, limit: int
    ) -> Mapping[str, Tree] | None:
        return self.pending.get((namespace, queue))


@dataclass
class Server:
    folder: Path
    store: SqliteStore
    access: Access
    url: str
    token: str
    trust: ssl.SSLContext

    def client(self, role: Role | None = None, **more: Any) -> httpx2.Client:
        """A client with the first token, or with a new one of ``role``."""
        token = self.token if role is None else self.access.issue(f"some-{role}", role)
        headers = {"authorization": f"Bearer {token}", **more.pop("headers", {})}
        return httpx2.Client(base_url=self.url, verify=self.trust, headers=headers, timeout=10, **more)

    def nobody(self, token: str = "") -> httpx2.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.url, verify=self.trust, headers=headers, timeout=10)


@contextmanager
def running(
    folder: Path, *, limits: Limits | None = None, extras: NoExtras | None = None, size_max: int | None = None,
    admission: AdmissionPlugins | None = None,
) -> Iterator[Server]:  # fmt: skip
    store = open_store(folder, clock, size_max=size_max, admission=admission)
    try:
        access = Access(store)
        token = admin_token(folder, access)
        files = certificate(folder, clock())
        app = application(store, access, extras or NoExtras(), limits or Limits(), clock)
        serving = Serving(app, files)
        host, port = serving.start()
        try:
            trust = ssl.create_default_context(cafile=str(files.ca))
            yield Server(folder, store, access, f"https://{host}:{port}", token, trust)
        finally:
            serving.stop()
    finally:
        store.close()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
        "metadata": {"name": name, **more.pop("metadata", {})}, "spec": {"clusterQueue": "shared"}, **more,
    }  # fmt: skip


def config_map(name: str, **more: Any) -> dict[str, Any]:
    data = more.pop("data", {"a": "1"})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}, "data": data}


def pod(name: str, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "pause"}], **more.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}
