"""A whole makeway as a process of its own, with its API, its jobs and their processes; it can be killed and restarted.

Everything that a test starts here is ended with it, and a process that is left behind fails the test.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import Resource, resource_of
from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.records import read_record
from makeway.api.objects.kubernetes import Event, Job, Node, Pod
from makeway.api.objects.workload import Workload
from makeway.api.versions import find_kind, kind_of
from makeway.cli.clients.connection import local_target
from makeway.runtime.ports import NotFound, StoreError

SRC = Path(__file__).parents[2] / "src"
LONG_S = 30.0
KUEUE = "kueue.x-k8s.io/v1beta2"
JOBS, PODS, NODES, WORKLOADS, EVENTS = (resource_of(kind_of(each)) for each in (Job, Pod, Node, Workload, Event))
Tree = dict[str, Any]


class Machine:
    """``files``: how many descriptors it may have; None: as many as this process."""

    def __init__(self, folder: Path, *options: str, files: int | None = None) -> None:
        self.folder = folder
        self._files = files
        self._options = options or ("--node-capacity", "cpu=64,memory=64Gi")
        self.process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self.start()

    # --- life ---

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(SRC), "KUBECONFIG": ""}

    def start(self) -> None:
        where, name = self.folder.parent, self.folder.name  # a relative name, as users give it
        command = [sys.executable, "-m", "makeway", "up", "--data", name, "--port", "0", *self._options]
        (self.folder / "address").unlink(missing_ok=True)  # of one that was killed
        with open(self.folder.with_name(f"{self.folder.name}.log"), "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, cwd=where,
                preexec_fn=self._bound,
            )  # fmt: skip
        self.until(self._is_ready, "the server is ready")
        self.until(lambda: any(_is_true(each, "Ready") for each in self.all(NODES)), "the node is ready")

    def _bound(self) -> None:
        if self._files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._files, self._files))

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.folder.with_name(f"{self.folder.name}.log").read_text()[-2000:]
        if not (self.folder / "address").exists():
            return False
        self._drop_client()
        self._client = Client(local_target(self.folder), tries=1, seconds=20)
        try:
            self._client.send("GET", "/readyz")
        except StoreError:
            return False
        return True

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """End everything; what is left behind is a failure."""
        assert self.process is not None
        if self.process.poll() is not None:
            self.start()
        for each in self.all(JOBS):
            self.client.delete(JOBS, _meta(each, "namespace"), _meta(each, "name"), {"propagationPolicy": "Background"})
        for each in self.all(PODS):
            with_grace = {"gracePeriodSeconds": 0}
            try:
                self.client.delete(PODS, _meta(each, "namespace"), _meta(each, "name"), with_grace)
            except NotFound:
                continue
        uids = self.uids()
        self.until(lambda: self.uids() == [], "all folders of pods are gone")
        self.process.terminate()
        assert self.process.wait(30) == 0
        self._drop_client()
        left = [each for uid in uids for each in processes.of_pod(uid)]
        for process in left:
            processes.send(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not left, f"processes were left behind: {left}"

    def abandon(self) -> None:
        """After a failed test: end everything all the same."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._drop_client()
        for uid in self.uids():
            record = read_record(self.folder / "pods" / uid)
            if record is not None and processes.is_alive(record.pid, record.ticks, record.boot):
                os.kill(record.pid, signal.SIGKILL)
            for each in processes.of_pod(uid):
                processes.send(each, signal.SIGKILL)

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def uids(self) -> list[str]:
        root = self.folder / "pods"
        return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []

    # --- objects ---

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    def apply(self, *trees: Tree) -> None:
        for tree in trees:
            kind = find_kind(tree["apiVersion"], tree["kind"])
            assert kind is not None
            self.client.create(resource_of(kind), tree["metadata"].get("namespace", ""), tree)

    def all(self, resource: Resource, namespace: str | None = None) -> list[Tree]:
        return [each for page in self.client.pages(resource, namespace) for each in page["items"]]

    def job(self, name: str, namespace: str = "default") -> Tree:
        return self.client.get(JOBS, namespace, name)

    def pods(self, job: str, namespace: str = "default") -> list[Tree]:
        return list(self.client.list(PODS, namespace, labels=f"job-name={job}")["items"])

    def pod(self, job: str, namespace: str = "default") -> Tree:
        (found,) = self.pods(job, namespace)
        return found

    def workload(self, job: str, namespace: str = "default") -> Tree:
        uid = self.job(job, namespace)["metadata"]["uid"]
        (found,) = self.client.list(WORKLOADS, namespace, labels=f"kueue.x-k8s.io/job-uid={uid}")["items"]
        return dict(found)

    def ended(self, name: str, namespace: str = "default") -> str:
        """Complete, Failed, or "" while it has not ended."""
        job = self.job(name, namespace)
        return next((each for each in ("Complete", "Failed") if _is_true(job, each)), "")

    def is_running(self, job: str, namespace: str = "default") -> bool:
        found = self.pods(job, namespace)
        return bool(found) and all(each["status"].get("phase") == "Running" for each in found)

    def log(self, job: str, namespace: str = "default") -> bytes:
        return b"".join(self.client.log(PODS, namespace, self.pod(job, namespace)["metadata"]["name"], {}))

    def reasons(self, kind: str, namespace: str = "default") -> list[str]:
        return [each["reason"] for each in self.all(EVENTS, namespace) if each["involvedObject"]["kind"] == kind]

    # --- time ---

    def until(self, what: Callable[[], bool], words: str, seconds: float = LONG_S) -> float:
        """Wait until the condition holds; return how long that took."""
        began = time.monotonic()
        while not what():
            assert time.monotonic() < began + seconds, f"this did not happen within {seconds:g} s: {words}"
            time.sleep(0.03)
        return time.monotonic() - began

    def until_ended(
        self, name: str, how: str = "Complete", namespace: str = "default", seconds: float = LONG_S
    ) -> float:
        return self.until(lambda: self.ended(name, namespace) == how, f"{name} is {how}", seconds)

    def until_running(self, name: str, namespace: str = "default") -> float:
        return self.until(lambda: self.is_running(name, namespace), f"{name} runs")

    def run(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command of ours against this server."""
        command = [sys.executable, "-m", "makeway", arguments[0], "--data", str(self.folder), *arguments[1:]]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=self.environment, check=False
        )


def _meta(tree: Tree, name: str) -> str:
    return str(tree["metadata"].get(name) or "")


def _is_true(tree: Tree, type_: str) -> bool:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)


# --- objects in few words --------------------------------------------------------------------------------------------


def namespace(name: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def flavor(name: str = "any") -> Tree:
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}}


def priority(name: str, value: int) -> Tree:
    return {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def queue(name: str, cpu: int, *, into: str = "default", **spec: Any) -> list[Tree]:
    """A ClusterQueue, and the LocalQueue main of a namespace into it."""
    groups = [{
        "coveredResources": ["cpu"],
        "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": cpu}]}],
    }]  # fmt: skip
    local = {"name": "main", "namespace": into}
    return [
        {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name},
         "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec}},
        {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": name}},
    ]  # fmt: skip


def job(
    name: str, *command: str, into: str = "default", cpu: str = "1", priority: str = "", grace: int = 5,
    container: Tree | None = None, pod: Tree | None = None, queue: str = "main", **spec: Any,
) -> Tree:  # fmt: skip
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    work = {
        "name": "work", "image": "none", "command": list(command), "resources": {"requests": {"cpu": cpu}},
        **(container or {}),
    }  # fmt: skip
    template = {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [work], **(pod or {})}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": into, "labels": labels},
        "spec": {"backoffLimit": 0, "template": {"spec": template}, **spec},
    }  # fmt: skip


def shell(name: str, script: str, **more: Any) -> Tree:
    return job(name, "sh", "-c", script, **more)
