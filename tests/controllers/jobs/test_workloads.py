"""Jobs as Workloads: what a Job asks for, where it waits, and its priority."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from makeway.api import codec
from makeway.api.objects.kubernetes import Job
from makeway.api.objects.meta import Wire
from makeway.api.objects.workload import Workload
from makeway.controllers.jobs.workloads import Classes, Prepared, outside, prepared, with_priority, workload_for
from makeway.core.model import Millis
from makeway.core.policy import Jobs, Policy, Requirement

NOW = Millis(1_767_225_600_000)  # 2026-01-01T00:00:00Z
QUEUE = {"kueue.x-k8s.io/queue-name": "main"}
CLASS = "kueue.x-k8s.io/priority-class"
Tree = dict[str, Any]


def wire(kind: str, name: str = "it", *, version: str = "kueue.x-k8s.io/v1beta2", **tree: Any) -> Wire:
    metadata = {"name": name, **tree.pop("metadata", {})}
    value = codec.read({"apiVersion": version, "kind": kind, "metadata": metadata, **tree}).value
    assert value is not None
    return value


def job(name: str = "train", *, labels: Tree = QUEUE, annotations: Tree | None = None, pod: Tree | None = None,
        template: Tree | None = None, spec: Tree | None = None, **more: Any) -> Job:  # fmt: skip
    containers = [{"name": "work", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    pods = {"spec": {"restartPolicy": "Never", "containers": containers, **(pod or {})}, **(template or {})}
    metadata = {"labels": labels, "annotations": annotations or {}, **more.pop("metadata", {})}
    value = wire("Job", name, version="batch/v1", metadata=metadata, spec={"template": pods, **(spec or {})}, **more)
    assert isinstance(value, Job)
    return value


def made(each: Job, *, classes: Classes | None = None, **around: Any) -> Workload:
    found = workload_for(each, classes=classes or Classes(), **around)
    assert found.problem == ""
    assert found.workload is not None
    return found.workload


def workloads(result: Prepared) -> list[Workload]:
    return [each for each in result.objects if isinstance(each, Workload)]


# --- what it asks for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 3, "completions": 2}, 2),
        ({"parallelism": 3, "completions": 9}, 3),
        ({"parallelism": 0}, 0),
    ],
)
def test_as_many_pods_count_as_run_at_once(spec: Tree, count: int) -> None:
    (pod_set,) = made(job(spec=spec)).spec.pod_sets
    assert (pod_set.name, pod_set.count, pod_set.min_count) == ("main", count, None)


def test_the_least_number_of_pods_comes_from_the_annotation() -> None:
    marked = job(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}, spec={"parallelism": 4})
    assert made(marked).spec.pod_sets[0].min_count == 2


def test_labels_of_the_job_controller_are_not_part_of_the_template() -> None:
    theirs = {"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u", "job-name": "train"}
    marked = job(template={"metadata": {"labels": {**theirs, "app": "x"}}})
    template = msgspec.json.decode(bytes(made(marked).spec.pod_sets[0].template))
    assert template["metadata"]["labels"] == {"app": "x"}
    assert template["spec"]["containers"][0]["image"] == "busybox"


def test_no_empty_map_is_left_where_all_labels_were_those_of_the_job_controller() -> None:
    marked = job(template={"metadata": {"labels": {"controller-uid": "u", "job-name": "train"}}})
    template = msgspec.json.decode(bytes(made(marked).spec.pod_sets[0].template))
    assert template["metadata"] == {}


def test_names_times_and_owner_come_from_the_job() -> None:
    metadata = {"uid": "u-1", "namespace": "team", "creationTimestamp": "2025-12-31T00:00:00Z"}
    found = made(job(labels={**QUEUE, "kueue.x-k8s.io/max-exec-time-seconds": "60"}, metadata=metadata))
    meta, (owner,) = found.metadata, found.metadata.owner_references
    assert meta.name.startswith("job-train-")
    assert (meta.namespace, str(meta.creation_timestamp)) == ("team", "2025-12-31T00:00:00Z")
    assert meta.labels == {"kueue.x-k8s.io/job-uid": "u-1"}
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == (
        "batch/v1", "Job", "train", "u-1", True,
    )  # fmt: skip
    assert (found.spec.queue_name, found.spec.maximum_execution_time_seconds) == ("main", 60)


def test_a_job_without_uid_gets_one_of_its_name() -> None:
    assert made(job("a")) == made(job("a"))
    assert made(job("a")).metadata.uid != made(job("b")).metadata.uid
    assert made(job("a")).metadata.namespace == "default"


def test_the_workload_of_a_job_is_valid() -> None:
    tree = codec.to_tree(made(job()))
    assert codec.read(tree).ok


def test_labels_that_the_configuration_lists_are_copied() -> None:
    assert made(job(labels={**QUEUE, "team": "x"}), copied_labels=("team", "gone")).metadata.labels["team"] == "x"


# --- its queue and whether it is ours ---------------------------------------------------------------------------------


def test_the_queue_named_default_is_taken_where_there_is_one() -> None:
    assert made(job(labels={}), queues={("default", "default")}).spec.queue_name == "default"
    assert made(job(labels={}), queues={("other", "default")}).spec.queue_name == ""
    assert made(job(), queues={("default", "default")}).spec.queue_name == "main"


def test_a_job_without_queue_label_is_left_out_and_told() -> None:
    result = prepared([job(labels={})], Policy.default(), NOW)
    assert workloads(result) == []
    assert [(each.name, each.why) for each in result.left_out] == [
        ("default/train", "it has no label kueue.x-k8s.io/queue-name, so it is not managed")
    ]


@pytest.mark.parametrize(
    ("namespace", "selector", "managed"),
    [
        ("team", None, True),
        ("kube-system", None, False),
        ("kueue-system", None, False),
        ("team", (Requirement(key="kubernetes.io/metadata.name", operator="In", values=("team",)),), True),
        ("team", (Requirement(key="tier", operator="Exists"),), False),
    ],
)
def test_the_configuration_may_manage_jobs_without_a_label(namespace: str, selector: Any, managed: bool) -> None:
    policy = Policy(jobs=Jobs(without_queue_name=True, namespaces=selector))
    result = prepared([job(labels={}, metadata={"namespace": namespace})], policy, NOW)
    assert bool(workloads(result)) is managed


def test_a_finished_job_is_left_out() -> None:
    status = {"conditions": [{"type": "Complete", "status": "True"}]}
    result = prepared([job(status=status)], Policy.default(), NOW)
    assert [each.why for each in result.left_out] == ["it is finished"]


@pytest.mark.parametrize("uid", ["", "u-1"])
def test_a_job_whose_workload_is_there_gets_no_second_one(uid: str) -> None:
    """So it is in an export of a running system."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-1", "controller": True}
    existing = wire("Workload", "mine", metadata={"ownerReferences": [owner]}, spec=workload_spec())
    result = prepared([job(metadata={"uid": uid} if uid else {}), existing], Policy.default(), NOW)
    assert [each.metadata.name for each in workloads(result)] == ["mine"]
    assert result.jobs == {"default/mine": "default/train"}


def test_a_workload_of_the_same_name_counts_as_the_jobs_own() -> None:
    name = made(job()).metadata.name
    result = prepared([job(), wire("Workload", name, spec=workload_spec())], Policy.default(), NOW)
    assert [each.metadata.name for each in workloads(result)] == [name]


def test_a_job_that_waits_for_a_prebuilt_workload_gets_none() -> None:
    waits = job(annotations={"kueue.x-k8s.io/prebuilt-workload-name": "mine"})
    assert [each.why for each in prepared([waits], Policy.default(), NOW).left_out] == [
        "it waits for the Workload mine, which is not there"
    ]
    result = prepared([waits, wire("Workload", "mine", spec=workload_spec())], Policy.default(), NOW)
    assert [each.metadata.name for each in workloads(result)] == ["mine"]


# --- its priority -----------------------------------------------------------------------------------------------------


def test_the_first_source_of_priority_wins() -> None:
    ours = wire("WorkloadPriorityClass", "mine", value=1)
    default = wire("WorkloadPriorityClass", "default", value=2)
    pods = wire("PriorityClass", "pods", version="scheduling.k8s.io/v1", value=3)
    high = wire("PriorityClass", "a-high", version="scheduling.k8s.io/v1", value=5, globalDefault=True)
    low = wire("PriorityClass", "z-low", version="scheduling.k8s.io/v1", value=4, globalDefault=True)
    everything = job(labels={**QUEUE, CLASS: "mine"}, pod={"priorityClassName": "pods"})
    in_pods = job(pod={"priorityClassName": "pods"})

    def priority(each: Job, *objects: Wire, defaulting: bool = True) -> tuple[int | None, str]:
        found = made(each, classes=Classes.among(objects, defaulting=defaulting)).spec
        return found.priority, found.priority_class_ref.name if found.priority_class_ref else ""

    assert priority(everything, ours, default, pods, high) == (1, "mine")
    assert priority(in_pods, ours, default, pods, high) == (2, "default")
    assert priority(in_pods, ours, default, pods, high, defaulting=False) == (3, "pods")
    assert priority(job(), high, low) == (4, "z-low")
    assert priority(job(), ours, pods) == (0, "")
    assert priority(job(pod={"priorityClassName": "system-node-critical"})) == (2_000_001_000, "system-node-critical")


@pytest.mark.parametrize(
    ("each", "problem"),
    [
        (job(labels={**QUEUE, CLASS: "gone"}), "there is no WorkloadPriorityClass gone: it is not queued"),
        (job(pod={"priorityClassName": "gone"}), "there is no PriorityClass gone: it is not queued"),
    ],
)
def test_a_class_that_is_not_there_is_a_problem_and_no_exception(each: Job, problem: str) -> None:
    assert workload_for(each, classes=Classes.among(())) == (None, problem)
    assert [left.why for left in prepared([each], Policy.default(), NOW).left_out] == [problem]


def workload_spec(**more: Any) -> Tree:
    template = {"spec": {"containers": [{"name": "work", "image": "busybox"}]}}
    return {"podSets": [{"name": "main", "count": 1, "template": template}], "queueName": "main", **more}


def test_a_workload_that_names_only_a_class_gets_its_number() -> None:
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "mine"}
    named = wire("Workload", spec=workload_spec(priorityClassRef=ref))
    assert isinstance(named, Workload)
    classes = Classes.among([wire("WorkloadPriorityClass", "mine", value=7)])
    found, problem = with_priority(named, classes)
    assert (found.spec.priority, problem) == (7, "")
    found, problem = with_priority(named, Classes())
    assert (found.spec.priority, problem) == (None, "there is no WorkloadPriorityClass mine: its priority is 0")


# --- objects of files -------------------------------------------------------------------------------------------------


def test_file_order_stands_in_for_times() -> None:
    dated = job("dated", metadata={"creationTimestamp": "2020-01-01T00:00:00Z"})
    result = workloads(prepared([job("a"), dated, job("b")], Policy.default(), NOW))
    times = [each.metadata.creation_timestamp for each in result]
    assert [time.millis - NOW for time in (times[0], times[2]) if time is not None] == [-2, -1]
    assert str(times[1]) == "2020-01-01T00:00:00Z"


def test_a_generated_name_is_completed_by_a_number() -> None:
    each = job("", metadata={"generateName": "run-"})
    result = prepared([each, each], Policy.default(), NOW)
    assert sorted(result.jobs.values()) == ["default/run-1", "default/run-2"]


@pytest.mark.parametrize(
    ("spec", "metadata", "reason", "message"),
    [
        ({"active": False}, {}, "Deactivated", "The workload is deactivated"),
        (
            {},
            {"annotations": {"kueue.x-k8s.io/admission-gated-by": "me"}},
            "AdmissionGated",
            "Admission is gated by me",
        ),
        ({"queueName": "gone"}, {}, "Misconfigured", "LocalQueue gone doesn't exist"),
        ({"queueName": ""}, {}, "Misconfigured", "The workload names no LocalQueue"),
        ({"queueName": "held"}, {}, "Suspended", "LocalQueue held is inactive"),
        ({"workloadMode": {"type": "Parent"}}, {}, "PendingEvaluation", "The workload cannot be queued as it is"),
    ],
)
def test_who_is_in_no_line_is_told_why(spec: Tree, metadata: Tree, reason: str, message: str) -> None:
    main = wire("LocalQueue", "main", metadata={"namespace": "default"}, spec={"clusterQueue": "q"})
    held = wire(
        "LocalQueue", "held", metadata={"namespace": "default"}, spec={"clusterQueue": "q", "stopPolicy": "Hold"}
    )
    each = wire("Workload", metadata=metadata, spec=workload_spec(**spec))
    (found,) = outside([main, held, each], Policy())
    assert (found.workload, found.queue, found.reason, found.message) == ("default/it", "", reason, message)


def test_who_waits_in_a_line_or_is_finished_is_not_told() -> None:
    main = wire("LocalQueue", "main", metadata={"namespace": "default"}, spec={"clusterQueue": "q"})
    finished = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    waits = wire("Workload", "waits", spec=workload_spec())
    done = wire("Workload", "done", spec=workload_spec(queueName="gone"), status={"conditions": [finished]})
    assert outside([main, waits, done], Policy()) == []
