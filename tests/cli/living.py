"""A whole makeway in this process, for tests: storage, engine and HTTPS on a free port, and a client with its token."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.api.objects.configuration import Configuration
from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings

QUEUEING = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{QUEUEING}/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
EVENTS = "/api/v1/namespaces/default/events"
PATIENCE_SECONDS = 30
LOOK_SECONDS = 0.01
Tree = dict[str, Any]


class Living:
    """A running control plane, and requests to it."""

    def __init__(self, plane: ControlPlane, client: httpx2.Client, folder: Path) -> None:
        self.plane = plane
        self.client = client
        self._folder = folder

    def official_client(self) -> Any:
        """The connection for typed clients of the official Python package; a context manager."""
        package = pytest.importorskip("kubernetes.client")
        settings = package.Configuration()
        settings.host, settings.ssl_ca_cert = self.plane.url, str(self._folder / "ca.crt")
        settings.api_key = {"authorization": f"Bearer {self.plane.token}"}
        return package.ApiClient(settings)

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def items(self, path: str) -> list[Tree]:
        found: list[Tree] = self.get(path)["items"]
        return found

    def create(self, *trees: Tree) -> None:
        for tree in trees:
            answer = self.client.post(path_of(tree), json=tree)
            assert answer.status_code == 201, answer.text

    def put_status(self, path: str, change: Tree) -> None:
        headers = {"content-type": "application/merge-patch+json"}
        answer = self.client.patch(f"{path}/status", json={"status": change}, headers=headers)
        assert answer.status_code == 200, answer.text

    def metrics(self) -> dict[str, float]:
        """Every series with its value."""
        answer = self.client.get("/metrics")
        assert answer.status_code == 200, answer.text
        lines = [line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#")]
        return {series: float(value) for series, _, value in lines}

    def is_true(self, path: str, condition: str) -> bool:
        return condition in true_conditions(self.get(path))

    def holding(self, condition: str = "Admitted") -> set[str]:
        """The names of the Workloads with a true condition."""
        return {each["metadata"]["name"] for each in self.items(WORKLOADS) if condition in true_conditions(each)}


def true_conditions(tree: Tree) -> set[str]:
    conditions = (tree.get("status") or {}).get("conditions") or []
    return {each["type"] for each in conditions if each["status"] == "True"}


@contextmanager
def living(folder: Path, configuration: Configuration | None = None) -> Iterator[Living]:
    settings = ControlPlaneSettings(configuration=configuration or Configuration())
    with ControlPlane(folder, settings) as plane:
        url = plane.start()
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        headers = {"authorization": f"Bearer {plane.token}"}
        with httpx2.Client(base_url=url, verify=trust, headers=headers, timeout=30) as client:
            yield Living(plane, client, folder)
    assert plane.failure is None


def until(holds: Callable[[], object], what: str = "it") -> None:
    """Check repeatedly; on a busy machine that may take a while."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"{what} never came to pass")
        time.sleep(LOOK_SECONDS)


# --- objects ----------------------------------------------------------------------------------------------------------

PLURALS = {
    "ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues", "LocalQueue": "localqueues",
    "Workload": "workloads", "Job": "jobs", "Cohort": "cohorts", "WorkloadPriorityClass": "workloadpriorityclasses",
}  # fmt: skip


def path_of(tree: Tree) -> str:
    namespace = tree["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{tree['apiVersion']}{where}/{PLURALS[tree['kind']]}"


def _of(kind: str, name: str, spec: Tree, *, namespace: str = "", **meta: Any) -> Tree:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **meta}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def queue(name: str = "q", cpu: int = 2, **spec: Any) -> list[Tree]:
    """A ClusterQueue on the flavor ``f`` with a LocalQueue of its name in the namespace default."""
    quota = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}]
    whole = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}], "namespaceSelector": {}, **spec}
    local = _of("LocalQueue", name, {"clusterQueue": name}, namespace="default")
    return [_of("ClusterQueue", name, whole), local]


def flavor() -> Tree:
    return _of("ResourceFlavor", "f", {})


def _pod(cpu: int) -> Tree:
    return {"containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": str(cpu)}}}]}


def workload(name: str, cpu: int = 1, *, queue: str = "q", priority: int = 0) -> Tree:
    pods = [{"name": "main", "count": 1, "template": {"spec": {**_pod(cpu), "restartPolicy": "Never"}}}]
    return _of("Workload", name, {"queueName": queue, "priority": priority, "podSets": pods}, namespace="default")


def job(name: str, cpu: int = 1, *, queue: str = "q") -> Tree:
    metadata = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    template = {"spec": {**_pod(cpu), "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def finished() -> Tree:
    return {
        "type": "Finished", "status": "True", "reason": "Succeeded", "message": "done",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
