"""A Job ``train`` and its Workload, and what may happen to them: admitted, run, evicted, edited by its user."""

from __future__ import annotations

from typing import Any

import msgspec

from makeway.api import codec
from makeway.api.conditions import Status, set_condition
from makeway.api.names import workload_name
from makeway.api.objects.kubernetes import Job
from makeway.api.objects.meta import ObjectMeta, Toleration
from makeway.api.objects.queueing import ResourceFlavor, ResourceFlavorSpec
from makeway.api.objects.workload import Admission, PodSetAssignment
from makeway.api.quantity import Time
from makeway.controllers.contract import JOB, WORKLOAD, Outcome, Ref
from makeway.controllers.jobs.running import JobRunning
from makeway.controllers.workloads.eviction import Evict, condition, says, status_of
from makeway.core.policy import Gates, Policy
from tests.controllers.views import NOW, FakeView, at

Tree = dict[str, Any]
ME = Ref(JOB, "default", "train")
MINE = Ref(WORKLOAD, "default", workload_name("Job", "batch", "train", "u-1"))
QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"
LEAST = "kueue.x-k8s.io/job-min-parallelism"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
THEIRS = {"batch.kubernetes.io/controller-uid": "u-1", "job-name": "train"}
TEMPLATES: list[Tree] = [
    {},
    {"metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}}},
    {"metadata": {"labels": {**THEIRS, "app": "x"}}},
    {"metadata": {"labels": {"app": "x", **THEIRS}}},
    {"metadata": {"labels": THEIRS}},
    {"metadata": {"annotations": {"a": "b"}}},
]
SPOT = ResourceFlavor(
    metadata=ObjectMeta(name="spot"),
    spec=ResourceFlavorSpec(
        node_labels={"zone": "a"}, tolerations=(Toleration(key="spot", operator="Exists", effect="NoSchedule"),)
    ),
)
CONTROLLER = JobRunning()

replace = msgspec.structs.replace


def job(*, labels: Tree | None = None, annotations: Tree | None = None, pod: Tree | None = None,
        template: Tree | None = None, status: Tree | None = None, **spec: Any) -> Job:  # fmt: skip
    """A suspended Job ``train`` of queue main, as a server holds it."""
    containers = [{"name": "work", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    pods = {"spec": {"restartPolicy": "Never", "containers": containers, **(pod or {})}, **(template or {})}
    marks = {"labels": {QUEUE: "main", **(labels or {})}, "annotations": annotations or {}}
    tree = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": "u-1", **marks},
        "spec": {"suspend": True, "template": pods, **spec}, "status": status or {},
    }  # fmt: skip
    value = codec.read(tree).value
    assert isinstance(value, Job)
    return value


def settled(*objects: Any, policy: Policy | None = None) -> FakeView:
    around = FakeView.of(*objects, SPOT, policy=policy, now=NOW)
    around.settle(CONTROLLER, ME, now=NOW)
    return around


def admit(around: FakeView, *, count: int | None = None, seconds: float = 0, **status: Any) -> None:
    """Quota in ``cq`` on flavor spot, and Admitted."""
    before = around.workload(MINE)
    pods = before.spec.pod_sets[0].count if count is None else count
    assignment = PodSetAssignment(flavors={"cpu": "spot"}, count=pods)
    conditions = status_of(before).conditions
    told: list[tuple[str, Status, str]] = [("QuotaReserved", "True", "QuotaReserved"), ("Admitted", "True", "Admitted")]
    if says(before, "Evicted"):
        told.append(("Evicted", "False", "QuotaReserved"))
    now = Time.of_millis(at(seconds))
    for type, value, reason in told:
        conditions = set_condition(conditions, type=type, status=value, reason=reason, message="", now=now)
    admission = Admission(cluster_queue="cq", pod_set_assignments=(assignment,))
    new = replace(status_of(before), conditions=conditions, admission=admission, **status)
    around.put(replace(before, status=new, metadata=replace(before.metadata, uid="w-1")))


def running(each: Job, *, count: int | None = None, policy: Policy | None = None, **status: Any) -> FakeView:
    """A Job that was admitted and has started; its controller has noted when."""
    around = settled(each, policy=policy)
    admit(around, count=count, **status)
    around.settle(CONTROLLER, ME, now=NOW)
    report(around, startTime="2026-01-01T00:00:00Z")
    return around


def report(around: FakeView, **status: Any) -> None:
    """What the Job's own controller says of it."""
    before = the_job(around)
    around.put(replace(before, status=msgspec.Raw(msgspec.json.encode({**tree(before.status), **status}))))


def evict(around: FakeView, reason: str = "Preempted", seconds: float = 60) -> None:
    around.put(Evict(reason, "make way", at(seconds))(around.workload(MINE)))


def user_edits(around: FakeView, *, spec: Tree | None = None, labels: Tree | None = None, **marks: Tree) -> None:
    before = the_job(around)
    meta = replace(before.metadata, labels={**before.metadata.labels, **(labels or {})}, **marks)
    around.put(
        replace(before, metadata=meta, spec=msgspec.Raw(msgspec.json.encode({**tree(before.spec), **(spec or {})})))
    )


def the_job(around: FakeView) -> Job:
    found = around.get(ME)
    assert isinstance(found, Job)
    return found


def tree(raw: msgspec.Raw) -> Tree:
    result: Tree = msgspec.json.decode(raw)
    return result


def spec_of(around: FakeView) -> Tree:
    return tree(the_job(around).spec)


def look(around: FakeView, seconds: float = 0, whom: Ref = ME) -> Outcome:
    outcome = CONTROLLER.react(whom, around, at(seconds))
    around.apply(outcome)
    return outcome


def told(around: FakeView, type: str) -> tuple[str, str] | None:
    found = condition(around.workload(MINE), type)
    return None if found is None else (found.status, found.reason)


def reasons(around: FakeView) -> list[str]:
    return [each.reason for each in around.notes]


def policy_with(**gates: bool) -> Policy:
    return Policy(gates=Gates(**gates))
