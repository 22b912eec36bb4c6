"""A real server over HTTPS for the commands that talk to one: one per module, emptied before each test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from makeway.adapters.server.access.tokens import TOKENS_NAMESPACE, Access
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.versions import KINDS, Kind, find_kind
from makeway.cli.main import main
from tests.adapters.server.serving import NoExtras, running

NAMESPACES = ("research",)
KUEUE = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True)
class Server:
    """A local server, its data folder, and the Store behind it."""

    store: SqliteStore
    base: Path  # $XDG_DATA_HOME
    url: str
    token: str
    access: Access
    extras: NoExtras

    @property
    def folder(self) -> Path:
        return self.base / "makeway"

    def run(self, *arguments: str, stdin: str | None = None, **environment: str) -> Result:
        """Run a command, with the account of the local server."""
        settings = {"XDG_DATA_HOME": str(self.base), "KUBECONFIG": "", **environment}
        return CliRunner().invoke(main, list(arguments), input=stdin, env=settings)

    def told(self, *arguments: str, **more: Any) -> str:
        """The output of a successful command."""
        result = self.run(*arguments, **more)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def put(self, tree: dict[str, Any], status: dict[str, Any] | None = None) -> None:
        """Store an object with a status, as the controllers would."""
        created = self.store.create(tree)
        if status is not None:
            self.store.patch(created.kind, created.namespace, created.name, {"status": status}, status=True)


def heed_interrupts() -> None:
    """For a child process: a shell makes background processes ignore interrupts, and they inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def kind_named(name: str, api_version: str = KUEUE) -> Kind:
    kind = find_kind(api_version, name)
    assert kind is not None
    return kind


def queue(name: str = "team-a", cohort: str = "lab", cpu: int = 4, **spec: Any) -> dict[str, Any]:
    """A ClusterQueue with one flavor and one resource."""
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    spec = {"cohortName": cohort, "namespaceSelector": {}, "resourceGroups": groups, **spec}
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local_queue(name: str = "main", namespace: str = "default", queue: str = "team-a", **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **meta}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": queue}}


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("data")
    extras = NoExtras()
    with running(base / "makeway", extras=extras) as server:
        (server.folder / "address").write_text(server.url)
        for name in NAMESPACES:
            server.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield Server(server.store, base, server.url, server.token, server.access, extras)


@pytest.fixture
def server(running_server: Server) -> Server:
    store = running_server.store
    for kind in KINDS:
        for each in store.list(kind).items:
            if each.namespace != TOKENS_NAMESPACE and kind.name != "Namespace":
                if each.finalizers:
                    store.patch(kind, each.namespace, each.name, {"metadata": {"finalizers": None}})
                if not each.deleting:
                    store.delete(kind, each.namespace, each.name, grace=0)
    return running_server
