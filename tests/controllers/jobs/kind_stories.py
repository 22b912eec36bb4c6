"""A job of any kind in a Store, with the engine and all its controllers: queued, admitted, started, stopped, restored.

``Play`` has a flavor with a node label and a toleration, one without, a ClusterQueue and a LocalQueue. A test acts as
the job's own controller where it changes the status. ``Story`` is what the tests know of a kind, found out by other
means than the kind's description; ``lives_through_a_stop`` is the test that every kind has to pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
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
    """A pod template with these requests, and a field that no version of ours knows."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], "fromTheFuture": [1.5], **spec}}


class Story(NamedTuple):
    """A kind of job: its pod templates by podSet, and its status while they run and once they have stopped."""

    templates: Callable[[Tree], dict[str, Tree]]  # of a spec
    running: Callable[[Tree], Tree]  # of a spec: the status
    stopped: Tree
    switch: tuple[str, ...] = ("suspend",)  # where a spec has it


class Play:
    def __init__(
        self, tree: Tree, *more: Any, cpu: str = "100", plain: str = "0", frameworks: tuple[str, ...] | None = None,
        switch: tuple[str, ...] = ("suspend",),
    ) -> None:  # fmt: skip
        self.switch = switch
        self.kind = JOB_KINDS[tree["kind"]]
        self.now = NOON
        listed = (self.kind.framework,) if frameworks is None else frameworks
        policy = with_changes(Policy.default(), jobs=Jobs(frameworks=listed))
        self.store = MemoryStore(lambda: self.now, careful=False)
        self.store.define(self.kind.resource)
        spot = flavor("spot", nodeLabels=LABELS, tolerations=[TOLERATION])
        quotas = {"spot": {"cpu": cpu, "memory": "100Gi"}, "plain": {"cpu": plain, "memory": "100Gi"}}
        self.store.load([spot, flavor("plain"), cluster_queue("cq", quotas), local_queue("main", "cq")])
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

    @property
    def is_suspended(self) -> bool:
        found: Any = self.spec
        for name in self.switch:
            found = found.get(name, {})
        return found is True

    def says(self, **status: Any) -> None:
        """Write a status, as the controller of its kind does."""
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


# --- what every kind has to pass --------------------------------------------------------------------------------------


def lives_through_a_stop(tree: Tree, story: Story) -> None:
    """Suspended, queued, started with what the flavor adds, stopped, restored, and started again."""
    written = copy.deepcopy(tree["spec"])
    play = Play(tree, switch=story.switch)
    play.settle()
    assert play.is_true("Admitted")
    assert not play.is_suspended
    started = story.templates(play.spec)
    assert list(started) == [name for name, _ in play.pod_sets], "each podSet is a template, in this order"
    for name, template in started.items():
        assert_started(template, name, story.templates(written).get(name, template))
    play.says(**story.running(play.spec))
    play.switch_off()
    assert play.is_suspended
    assert play.is_true("Evicted")
    assert play.is_true("QuotaReserved"), "its pods are still there"
    play.says(**story.stopped)
    assert not play.is_true("QuotaReserved")
    assert bytes(play.job.spec) == as_suspended(play, written), "as its user wrote it"
    play.switch_on()
    assert play.is_true("Admitted")
    assert not play.is_suspended
    assert story.templates(play.spec) == started


def as_suspended(play: Play, written: Tree) -> bytes:
    """A spec with nothing but its switch turned."""
    tree = copy.deepcopy(written)
    *path, switch = play.switch
    block = tree
    for name in path:
        block = block.setdefault(name, {})
    block[switch] = True
    return msgspec.json.encode(tree)


def assert_started(template: Tree, name: str, before: Tree) -> None:
    """The template has what the flavor and the queue add, and everything it had."""
    spec, meta = template["spec"], template.get("metadata", {})
    assert LABELS.items() <= spec["nodeSelector"].items()
    assert TOLERATION in spec["tolerations"]
    assert meta["labels"]["kueue.x-k8s.io/podset"] == name
    assert meta["annotations"]["kueue.x-k8s.io/workload"]
    added = ("nodeSelector", "tolerations")
    rest = {key: value for key, value in spec.items() if key not in added}
    assert rest == {key: value for key, value in before.get("spec", {}).items() if key not in added}


# --- what others have written -----------------------------------------------------------------------------------------


def sample(shared: Path, file: str) -> Tree:
    """The job in a manifest of its project."""
    documents = yaml.safe_load_all((shared / "job-kinds" / file).read_text("utf-8"))
    return next(tree for tree in documents if tree and tree["kind"] in JOB_KINDS)


def unknown_fields(play: Play, shared: Path, file: str) -> list[str]:
    """Fields of a job's spec that the definition, as its project publishes it, does not have."""
    tree = yaml.safe_load((shared / "crds" / file).read_text("utf-8"))
    resource = play.kind.resource
    assert (tree["spec"]["group"], tree["spec"]["names"]["plural"]) == (resource.group, resource.plural)
    assert (tree["spec"]["scope"] == "Namespaced") is resource.namespaced
    (schema,) = [each for each in tree["spec"]["versions"] if each["name"] == resource.versions[0]]
    return _unknown(play.spec, schema["schema"]["openAPIV3Schema"]["properties"]["spec"])


def _unknown(tree: Any, schema: Tree) -> list[str]:
    if isinstance(tree, list):
        return sorted({name for each in tree for name in _unknown(each, schema.get("items", {}))})
    if not isinstance(tree, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    inner = {name for key in tree if key in known for name in _unknown(tree[key], known[key])}
    return sorted({*inner, *(key for key in tree if key not in known)})
