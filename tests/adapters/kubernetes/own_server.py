"""Our own API server over HTTPS in this process, for tests of its clients."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from makeway.adapters.kubernetes.kubeconfig import Target
from makeway.adapters.server.access import Access
from makeway.adapters.server.app import application
from makeway.adapters.server.certificates import Certificate
from makeway.adapters.server.limits import Limits
from makeway.adapters.server.serving import Serving
from makeway.adapters.server.storage import SqliteStore
from makeway.api.documents import Tree
from makeway.core.model import Millis

BOOKMARKS = Limits(bookmark_seconds=0.01, gather_seconds=0.0)  # a quiet watch says soon up to where it has seen all


def now() -> Millis:
    return Millis(time.time_ns() // 10**6)


class Alone:
    """A server without an engine."""

    def version(self) -> Mapping[str, str]:
        return {"major": "1", "minor": "37", "gitVersion": "v1.37.0+makeway-test"}

    def not_ready(self) -> str:
        return ""

    async def metrics(self) -> bytes:
        return b""

    async def pending_workloads(
        self, namespace: str | None, queue: str, *, offset: int, limit: int
    ) -> Mapping[str, Tree] | None:
        return None


@dataclass(frozen=True)
class Running:
    store: SqliteStore
    target: Target


@contextmanager
def running(file: Path, certificate: Certificate, **options: Any) -> Iterator[Running]:
    """A server on a free port of the loopback, with all objects of the file."""
    with SqliteStore(file, now, **options) as store:
        access = Access(store)
        serving = Serving(application(store, access, Alone(), BOOKMARKS, now), certificate)
        host, port = serving.start()
        try:
            token = access.issue("tests", "admin")
            yield Running(store, Target(f"https://{host}:{port}", authority=certificate.ca.read_bytes(), token=token))
        finally:
            serving.stop()
