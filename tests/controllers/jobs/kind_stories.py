"""A job of any kind in a Store, with the engine and all its controllers: queued, admitted, started, stopped, restored.

``Play`` has two flavors: ``spot`` with a node label and a toleration for the resource cpu, ``big`` for memory. The test
speaks as the job's own controller where it changes the status.
"""

from __future__ import annotations

from dataclasses import replace as with_changes
from typing import Any

import msgspec
from msgspec import Raw

from makeway.adapters.simulator.store import MemoryStore
from makeway.api import codec
from makeway.api.conditions import find, is_true
from makeway.api.objects.custom import CustomObject
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.api.versions import kind_of
from makeway.controllers.jobs.kinds.registry import JOB_KINDS
from makeway.controllers.standard import standard
from makeway.core.model import Millis
from makeway.core.policy import Jobs, Policy
from makeway.runtime.engine import Engine
from makeway.runtime.informers import watched_kinds
from tests.runtime.wires import cluster_queue, flavor, local_queue

Tree = dict[str, Any]
NOON = Millis(1_767_268_800_000)
WORKLOADS = kind_of(Workload)
TOLERATION = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
LABELS = {"zone": "a"}

replace = msgspec.structs.replace


def pods(cpu: str = "1", **spec: Any) -> Tree:
    """A pod template that asks for so much, with a word that no version of ours knows."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], "fromTheFuture": [1.5], **spec}}


class Play:
    def __init__(self, tree: Tree, *more: Any, cpu: str = "100", frameworks: tuple[str, ...] | None = None) -> None:
        self.kind = JOB_KINDS[tree["kind"]]
        self.now = NOON
        listed = (self.kind.framework,) if frameworks is None else frameworks
        policy = with_changes(Policy.default(), jobs=Jobs(frameworks=listed))
        self.store = MemoryStore(lambda: self.now, careful=False)
        self.store.define(self.kind.resource)
        spot = flavor("spot", nodeLabels=LABELS, tolerations=[TOLERATION])
        self.store.load(
            [spot, cluster_queue("cq", {"spot": {"cpu": cpu, "memory": "100Gi"}}), local_queue("main", "cq")]
        )
        meta = {"name": "it", "namespace": "default", **tree["metadata"], "uid": "u-1"}
        meta["labels"] = {**meta.get("labels", {}), "kueue.x-k8s.io/queue-name": "main"}
        meta.pop("generateName", None)
        self.name = meta["name"]
        self.store.load([codec.decode(msgspec.json.encode({**tree, "metadata": meta}), CustomObject)])
        self.store.load(more)
        kinds = watched_kinds(frameworks=(self.kind.framework,))
        self.engine = Engine(self.store, policy, standard(lambda _: 0), figures_ms=0, kinds=kinds)

    def settle(self, seconds: int = 0) -> None:
        self.now = Millis(self.now + seconds * 1000)
        for _ in range(200):
            if not self.engine.step(self.now):
                return
        raise AssertionError("it does not come to rest")

    # --- the job ---

    @property
    def job(self) -> CustomObject:
        found = self.store.get(self.kind.resource, "default", self.name).value()
        assert isinstance(found, CustomObject)
        return found

    @property
    def spec(self) -> Tree:
        found: Tree = msgspec.json.decode(self.job.spec)
        return found

    def says(self, **status: Any) -> None:
        """What the controller of its kind writes."""
        known = msgspec.json.decode(self.job.status)
        self.store.update_status(replace(self.job, status=Raw(msgspec.json.encode({**known, **status}))))
        self.settle()

    def user_writes(self, spec: Tree) -> None:
        self.store.update(replace(self.job, spec=Raw(msgspec.json.encode(spec))))
        self.settle()

    # --- its Workload ---

    @property
    def workloads(self) -> list[Workload]:
        return [each.value() for each in self.store.list(WORKLOADS).items]

    @property
    def workload(self) -> Workload:
        (found,) = self.workloads
        return found

    @property
    def status(self) -> WorkloadStatus:
        return self.workload.status or WorkloadStatus()

    def is_true(self, type_: str) -> bool:
        return is_true(self.status.conditions, type_)

    def condition(self, type_: str) -> tuple[str, str, str]:
        found = find(self.status.conditions, type_)
        return ("", "", "") if found is None else (found.status, found.reason, found.message)

    @property
    def pod_sets(self) -> list[tuple[str, int]]:
        return [(each.name, each.count) for each in self.workload.spec.pod_sets]

    @property
    def requests(self) -> dict[str, str]:
        """The cpu that each podSet was admitted with."""
        assert self.status.admission is not None
        return {
            each.name: str(each.resource_usage.get("cpu", "")) for each in self.status.admission.pod_set_assignments
        }

    def switch_off(self) -> None:
        """Its user lets the Workload leave."""
        self.store.update(replace(self.workload, spec=replace(self.workload.spec, active=False)))
        self.settle()

    def switch_on(self) -> None:
        self.store.update(replace(self.workload, spec=replace(self.workload.spec, active=True)))
        self.settle()


def assert_started(template: Tree, name: str, before: Tree) -> None:
    """It has what the flavor and the queue add, and everything it had."""
    spec, meta = template["spec"], template.get("metadata", {})
    assert LABELS.items() <= spec["nodeSelector"].items()
    assert TOLERATION in spec["tolerations"]
    assert meta["labels"]["kueue.x-k8s.io/podset"] == name
    assert meta["annotations"]["kueue.x-k8s.io/workload"].startswith(("jobset-", "rayjob-"))
    added = ("nodeSelector", "tolerations")
    rest = {key: value for key, value in spec.items() if key not in added}
    assert rest == {key: value for key, value in before.get("spec", {}).items() if key not in added}
