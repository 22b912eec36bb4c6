"""Jobs, pods and nodes in virtual time: the real controllers over a Store in memory, and nodes that only keep time.

A pod that is bound runs at once, for as long as its annotation ``test/runs`` says, and ends with the code of
``test/exit``; without one it never ends by itself. ``test/runs-2`` and ``test/exit-2`` are for the first of index 2.
A pod that is deleted takes its whole grace period, and then ends with the code of ``test/stopped``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.codec import decode
from makeway.api.objects.kubernetes import Job, Node, Pod, amended, view
from makeway.api.objects.pods import PodSpec, PodStatus
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.objects.workload import Workload
from makeway.api.quantity import Time
from makeway.api.versions import find_kind, kind_of
from makeway.controllers.contract import Controller
from makeway.controllers.jobs.counts import INDEX
from makeway.controllers.pods.scheduling import PodScheduling
from makeway.controllers.standard import standard
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.executor import DirectWriter, Writer
from makeway.runtime.informers import watched_kinds
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.ports import NotFound, SeededNames, Stored
from makeway.runtime.virtual import Virtual, VirtualClock

Tree = dict[str, Any]
NOON = Millis(1_767_268_800_000)
SECOND = 1000
JOBS, PODS, NODES, WORKLOADS, QUEUES = (kind_of(each) for each in (Job, Pod, Node, Workload, ClusterQueue))
RUNS, EXIT, STOPPED = "test/runs", "test/exit", "test/stopped"


def embedded() -> list[Controller]:
    """The controllers of a server of one machine."""
    return standard(lambda _: 0, 0, on_nodes=True)


@functools.lru_cache(maxsize=1024)
def seen(data: bytes) -> tuple[PodSpec, PodStatus]:
    """A pod as read by the parts that are played: they read it after every step, and it seldom differs."""
    pod = decode(data, Pod)
    return view(pod.spec, PodSpec), view(pod.status, PodStatus)


@dataclass
class Nodes:
    """Plays the kubelets."""

    store: MemoryStore
    ends: dict[str, tuple[Millis, int]] = field(default_factory=dict)  # uid -> when, and with which code
    ran: dict[str, str] = field(default_factory=dict)  # uid -> name, of all that ever ran
    begun: set[tuple[str, str]] = field(default_factory=set)  # Jobs and indexes of which a pod has run
    gone: set[str] = field(default_factory=set)  # uids of pods without an agent

    def step(self, now: Millis) -> bool:
        happened = False
        for each in self.store.list(PODS).items:
            happened |= self._look(each, now)
        return happened

    def next_at(self) -> Millis | None:
        return min((at for at, _ in self.ends.values()), default=None)

    def _look(self, each: Stored, now: Millis) -> bool:
        spec, status = seen(each.data)
        if not spec.node_name or status.phase in ("Succeeded", "Failed") or each.uid in self.gone:
            return False
        pod: Pod = each.value()
        marks = pod.metadata.annotations
        if each.uid not in self.ran:
            self.ran[each.uid] = each.name
            self._begin(pod, now)
        if each.deleting:
            grace = pod.metadata.deletion_grace_period_seconds or 0
            at, code = self.ends.get(each.uid, (None, 0))
            mine = (Millis(now + grace * SECOND), int(marks.get(STOPPED, "143")))
            if at is None or (at > mine[0] and code != mine[1]):
                self.ends[each.uid] = mine
        at, code = self.ends.get(each.uid, (None, 0))
        if at is not None and at <= now:
            del self.ends[each.uid]
            self._tell(pod, "Failed" if code else "Succeeded", now, code)
            if each.deleting:
                self.store.delete(PODS, each.namespace, each.name, grace=0)
            return True
        if status.phase != "Running":
            self._tell(pod, "Running", now)
            return True
        return False

    def _begin(self, pod: Pod, now: Millis) -> None:
        marks = pod.metadata.annotations
        which = (pod.metadata.labels.get("job-name", ""), marks.get(INDEX, ""))
        own = "" if which in self.begun else f"-{which[1]}"
        self.begun.add(which)
        runs = marks.get(RUNS + own, marks.get(RUNS))
        if runs is not None:
            code = marks.get(EXIT + own, marks.get(EXIT, "0"))
            self.ends[pod.metadata.uid] = (Millis(now + int(runs) * SECOND), int(code))

    def _tell(self, pod: Pod, phase: str, now: Millis, code: int | None = None) -> None:
        time = str(Time.of_millis(now))
        state = (
            {"running": {"startedAt": time}} if code is None else {"terminated": {"exitCode": code, "finishedAt": time}}
        )
        ready = {"type": "Ready", "status": "True" if code is None else "False", "lastTransitionTime": time}
        changes = {
            "phase": phase, "conditions": [ready], "containerStatuses": [{
                "name": "work", "state": state, "image": "", "imageID": "", "ready": code is None, "restartCount": 0,
            }],
        }  # fmt: skip
        self.store.update_status(replace(pod, status=amended(pod.status, changes)))


class PodWorld:
    def __init__(self, *nodes: Tree, policy: Policy | None = None, seed: int = 0) -> None:
        self.clock = VirtualClock(NOON)
        self.store = MemoryStore(self.clock, SeededNames(seed), admission=AdmissionPlugins(), careful=False)
        self.policy = policy or Policy.default()
        for each in nodes or (node(),):
            self._put(each)
        self.nodes = Nodes(self.store)
        self.engine = self.new_engine()
        self.driver = Virtual(self.clock, [self.nodes, self])

    def new_engine(self, writer: Writer | None = None) -> Engine:
        self.controllers = embedded()
        return Engine(
            self.store, self.policy, self.controllers, writer=writer or DirectWriter(self.store),
            metrics=MetricsRegistry(), figures_ms=0, kinds=watched_kinds(on_nodes=True),
        )  # fmt: skip

    # --- as an actor: the engine of the moment ---

    def step(self, now: Millis) -> bool:
        return self.engine.step(now)

    def next_at(self) -> Millis | None:
        return self.engine.next_at()

    # --- objects ---

    def _put(self, tree: Tree) -> None:
        created = self.store.create(tree)
        if "status" in tree:
            self.store.update_status({**created.tree(), "status": tree["status"]})

    def create(self, *trees: Tree) -> None:
        for each in trees:
            self._put(each)

    def job(self, name: str, **spec: Any) -> None:
        self.create(job(name, **spec))

    def edit(self, name: str, **spec: Any) -> None:
        self.store.patch(JOBS, "default", name, {"spec": spec})

    def status(self, name: str) -> Tree:
        found: Tree = self.store.get(JOBS, "default", name).tree().get("status", {})
        return found

    def condition(self, name: str, type_: str) -> tuple[str, str] | None:
        found = [each for each in self.status(name).get("conditions", ()) if each["type"] == type_]
        return (found[0]["status"], found[0]["reason"]) if found else None

    def pods(self, of: str = "") -> list[Tree]:
        found = [each.tree() for each in self.store.list(PODS).items]
        return [each for each in found if not of or each["metadata"].get("labels", {}).get("job-name") == of]

    def phases(self, of: str = "") -> list[str]:
        return sorted(each["status"]["phase"] for each in self.pods(of))

    def workload(self, of: str) -> Workload:
        for each in self.store.list(WORKLOADS).items:
            value: Workload = each.value()
            if value.metadata.owner_references[0].name == of:
                return value
        raise AssertionError(f"{of} has no Workload")

    def says(self, of: str, type_: str) -> bool:
        status = self.workload(of).status
        return status is not None and any(c.type == type_ and c.status == "True" for c in status.conditions)

    def is_there(self, kind: str, name: str) -> bool:
        found = find_kind({"Job": "batch/v1"}.get(kind, "v1"), kind)
        assert found is not None
        try:
            self.store.get(found, "default", name)
        except NotFound:
            return False
        return True

    # --- time ---

    def settle(self) -> None:
        self.driver.settle()

    def run(self, seconds: float = 3600) -> None:
        self.driver.run(Millis(self.clock.now + int(seconds * SECOND)))
        schedulers = [each for each in self.controllers if isinstance(each, PodScheduling)]
        assert not any(each.missed for each in schedulers), "somebody who waited was forgotten for a while"

    def until(self, what: Callable[[], bool], seconds: int = 3600) -> int:
        """Run until it is so; returns how many seconds that took."""
        began = self.clock.now
        while self.clock.now < began + seconds * SECOND:
            self.settle()
            if what():
                return (self.clock.now - began) // SECOND
            self.run(1)
        raise AssertionError(f"this did not happen within {seconds} s")


def node(name: str = "n", cpu: str = "100", labels: Tree | None = None, **spec: Any) -> Tree:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "r",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    amounts = {"cpu": cpu, "memory": "1Ti", "pods": "1000"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }  # fmt: skip


def job(
    name: str, *, runs: int | None = None, exit: int = 0, stopped: int = 143, queue: str = "", cpu: str = "1",
    labels: Tree | None = None, annotations: Tree | None = None, pod: Tree | None = None,
    marks: Tree | None = None, **spec: Any,
) -> Tree:  # fmt: skip
    marks = {**({} if runs is None else {RUNS: str(runs)}), EXIT: str(exit), STOPPED: str(stopped), **(marks or {})}
    containers = [{"name": "work", "image": "x", "command": ["x"], "resources": {"requests": {"cpu": cpu}}}]
    template = {
        "metadata": {"annotations": marks},
        "spec": {"restartPolicy": "Never", "containers": containers, "terminationGracePeriodSeconds": 5, **(pod or {})},
    }  # fmt: skip
    queued = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {**queued, **(labels or {})},
        "annotations": annotations or {},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **spec}}


def queues(cpu: int, **spec: Any) -> list[Tree]:
    """One ClusterQueue of so many cores, and the LocalQueue main."""
    api = "kueue.x-k8s.io/v1beta2"
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}]
    return [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "f"}},
        {
            "apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "cq"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec},
        },
        {
            "apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "main", "namespace": "default"},
            "spec": {"clusterQueue": "cq"},
        },
    ]  # fmt: skip


def tree_of(raw: msgspec.Raw) -> Tree:
    found: Tree = msgspec.json.decode(raw)
    return found
