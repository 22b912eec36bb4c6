"""JobSets and RayJobs through the real controllers: queued, started, stopped and restored (api 18.9, 18.10)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from makeway.api import codec
from makeway.api.names import QUEUE_LABEL
from makeway.controllers.contract import Ref
from makeway.controllers.jobs.kinds.registry import JOB_KINDS
from tests.controllers.jobs.kind_stories import Play, Tree, assert_started, pods

ACTIVE: Tree = {"active": 1}


def group(name: str, cpu: str = "1", *, replicas: int | None = None, **job: Any) -> Tree:
    """A part of a JobSet."""
    sized = {} if replicas is None else {"replicas": replicas}
    return {"name": name, **sized, "template": {"spec": {**job, "template": pods(cpu, restartPolicy="Never")}}}


def jobset(*groups: Tree, **spec: Any) -> Tree:
    parts = groups or (group("driver", "2"), group("workers", replicas=2, parallelism=3))
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {},
        "spec": {"successPolicy": {"operator": "All"}, "replicatedJobs": list(parts), **spec},
    }  # fmt: skip


def workers(name: str = "small", cpu: str = "1", **more: Any) -> Tree:
    return {"groupName": name, "rayStartParams": {}, "template": pods(cpu), **more}


def rayjob(*groups: Tree, cluster: Tree | None = None, **spec: Any) -> Tree:
    parts = list(groups or (workers(replicas=2, minReplicas=0, maxReplicas=5),))
    return {
        "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {},
        "spec": {
            "entrypoint": "python x.py", "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {"headGroupSpec": {"template": pods("2")}, "workerGroupSpecs": parts, **(cluster or {})},
            **spec,
        },
    }  # fmt: skip


def templates(kind: str, spec: Tree) -> dict[str, Tree]:
    """The pod templates by podSet, where they are."""
    if kind == "JobSet":
        return {each["name"]: each["template"]["spec"]["template"] for each in spec["replicatedJobs"]}
    cluster = spec["rayClusterSpec"]
    found = {"head": cluster["headGroupSpec"]["template"]}
    found.update({each["groupName"].lower(): each["template"] for each in cluster["workerGroupSpecs"]})
    return {**found, **({"submitter": spec["submitterPodTemplate"]} if "submitterPodTemplate" in spec else {})}


def runs(play: Play) -> None:
    """Its own controller has made its pods."""
    if play.kind.name == "JobSet":
        names = [each["name"] for each in play.spec["replicatedJobs"]]
        play.says(replicatedJobsStatus=[{"name": name, "active": 1, "ready": 0} for name in names])
    else:
        play.says(jobDeploymentStatus="Running", jobStatus="RUNNING")


def has_stopped(play: Play) -> None:
    if play.kind.name == "JobSet":
        play.says(replicatedJobsStatus=[{"name": "workers", "active": 0, "suspended": 1}])
    else:
        play.says(jobDeploymentStatus="Suspended", jobStatus="")


# --- the whole life ---------------------------------------------------------------------------------------------------


def lives_through_a_stop(tree: Tree) -> None:
    """Suspended, queued, started with what the flavor adds, stopped, restored, and started again."""
    written = copy.deepcopy(tree["spec"])
    play = Play(tree)
    play.settle()
    assert play.is_true("Admitted")
    assert play.spec["suspend"] is False
    started = templates(play.kind.name, play.spec)
    assert list(started) == [name for name, _ in play.pod_sets], "each podSet is a template, in this order"
    for name, template in started.items():
        assert_started(template, name, templates(play.kind.name, written).get(name, template))
    runs(play)
    play.switch_off()
    assert play.spec["suspend"] is True
    assert play.is_true("QuotaReserved"), "its pods are still there"
    assert (play.spec["suspend"], play.is_true("Evicted")) == (True, True)
    has_stopped(play)
    assert not play.is_true("QuotaReserved")
    assert bytes(play.job.spec) == msgspec.json.encode({**written, "suspend": True}), "as its user wrote it"
    play.switch_on()
    assert play.is_true("Admitted")
    assert play.spec["suspend"] is False
    assert templates(play.kind.name, play.spec) == started


CASES: dict[str, Callable[[], Tree]] = {
    "a JobSet": jobset,
    "a JobSet with node selectors of its own": lambda: jobset(
        {
            "name": "w",
            "template": {"spec": {"template": pods(nodeSelector={"disk": "ssd"}, tolerations=[{"key": "k"}])}},
        }
    ),
    "a RayJob": rayjob,
    "a RayJob with a submitter": lambda: rayjob(submitterPodTemplate=pods("500m")),
    "a RayJob over HTTP": lambda: rayjob(submissionMode="HTTPMode"),
    "a RayJob with two groups": lambda: rayjob(workers("a"), workers("B", "500m", replicas=3)),
}


@pytest.mark.parametrize("tree", CASES.values(), ids=CASES.keys())
def test_a_job_is_started_stopped_and_restored(tree: Callable[[], Tree]) -> None:
    lives_through_a_stop(tree())


@pytest.mark.parametrize("file", ["sample-jobset.yaml", "ray-job-sample.yaml"])
def test_a_manifest_of_its_users_is_started_stopped_and_restored(file: str, shared: Path) -> None:
    documents = yaml.safe_load_all((shared / "job-kinds" / file).read_text("utf-8"))
    lives_through_a_stop(next(tree for tree in documents if tree and tree["kind"] in JOB_KINDS))


@pytest.mark.parametrize(("kind", "file"), [("JobSet", "jobset.x-k8s.io_jobsets"), ("RayJob", "ray.io_rayjobs")])
def test_the_paths_of_a_kind_are_those_of_its_definition(kind: str, file: str, shared: Path) -> None:
    """What is changed in an object is there under this name in the definition that its project publishes."""
    tree = yaml.safe_load((shared / "crds" / f"{file}.yaml").read_text("utf-8"))
    resource = JOB_KINDS[kind].resource
    assert (tree["spec"]["group"], tree["spec"]["names"]["plural"]) == (resource.group, resource.plural)
    assert (tree["spec"]["scope"] == "Namespaced") is resource.namespaced
    (schema,) = [each for each in tree["spec"]["versions"] if each["name"] == resource.versions[0]]
    play = Play(jobset() if kind == "JobSet" else rayjob(submitterPodTemplate=pods()))
    play.settle()
    runs(play)
    assert unknown(play.spec, schema["schema"]["openAPIV3Schema"]["properties"]["spec"]) == ["fromTheFuture"]
    assert play.is_true("Admitted")


def unknown(tree: Any, schema: Tree) -> list[str]:
    """Fields that a schema does not have."""
    if isinstance(tree, list):
        return sorted({name for each in tree for name in unknown(each, schema.get("items", {}))})
    if not isinstance(tree, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    inner = {name for key in tree if key in known for name in unknown(tree[key], known[key])}
    return sorted({*inner, *(key for key in tree if key not in known)})


# --- what it asks for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "pod_sets", "requests"),
    [
        (jobset(), [("driver", 1), ("workers", 6)], {"driver": "2", "workers": "6"}),
        (jobset(group("a", replicas=3, parallelism=4, completions=2)), [("a", 6)], {"a": "6"}),
        (jobset(group("a", completions=0, parallelism=2), group("b")), [("a", 0), ("b", 1)], {"a": "0", "b": "1"}),
        (rayjob(), [("head", 1), ("small", 2), ("submitter", 1)], {"head": "2", "small": "2", "submitter": "500m"}),
        (rayjob(workers("A", replicas=2, numOfHosts=3), submissionMode="HTTPMode"), [("head", 1), ("a", 6)],
         {"head": "2", "a": "6"}),
        (rayjob(workers()), [("head", 1), ("small", 1), ("submitter", 1)],
         {"head": "2", "small": "1", "submitter": "500m"}),
        (rayjob(submissionMode="K8sJobMode", submitterPodTemplate=pods("3")),
         [("head", 1), ("small", 2), ("submitter", 1)], {"head": "2", "small": "2", "submitter": "3"}),
    ],
    ids=["JobSet", "completions below parallelism", "nothing to do", "RayJob", "hosts", "no replicas", "submitter"],
)  # fmt: skip
def test_18_9_the_podsets_of_a_kind(tree: Tree, pod_sets: list[tuple[str, int]], requests: dict[str, str]) -> None:
    play = Play(tree)
    play.settle()
    assert play.pod_sets == pod_sets
    assert play.requests == requests
    owner = play.workload.metadata.owner_references[0]
    assert (owner.api_version, owner.kind, owner.name) == (tree["apiVersion"], tree["kind"], "it")


@pytest.mark.parametrize("tree", [jobset(), rayjob()], ids=["JobSet", "RayJob"])
def test_18_1_a_job_that_finds_no_room_stays_suspended(tree: Tree) -> None:
    play = Play(tree, cpu="1")
    play.settle()
    assert play.spec == {**tree["spec"], "suspend": True}
    assert not play.is_true("QuotaReserved")


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (rayjob(clusterSelector={"ray.io/cluster": "there"}), "a Ray cluster that is there already"),
        (rayjob(cluster={"enableInTreeAutoscaling": True}), "change its size by itself"),
        (rayjob(shutdownAfterJobFinishes=False), "would outlive it"),
        (rayjob(workers("head")), "called head, head, submitter"),
        (jobset(group("a"), group("A")), "called a, a"),
    ],
)
def test_18_10_what_cannot_be_accounted_for_gets_no_workload(tree: Tree, words: str) -> None:
    play = Play(tree)
    play.settle()
    assert play.workloads == []
    assert play.spec["suspend"] is True
    (note,) = {note for note in play.engine.notes if note.type == "Warning"}
    assert (note.about, note.reason) == (Ref(play.kind.name, "default", "it"), "ErrWorkloadCompose")
    assert words in note.message


def test_the_pod_priority_class_is_that_of_the_first_podset_that_names_one() -> None:
    named = group("b")
    named["template"]["spec"]["template"]["spec"]["priorityClassName"] = "system-node-critical"
    play = Play(jobset(group("a"), named))
    play.settle()
    assert play.workload.spec.priority == 2_000_001_000


@pytest.mark.parametrize("tree", [jobset(), rayjob()], ids=["JobSet", "RayJob"])
def test_18_1_a_kind_that_is_not_listed_is_left_alone(tree: Tree) -> None:
    play = Play(tree, frameworks=("batch/job",))
    play.settle()
    assert play.workloads == []
    assert play.spec == tree["spec"]


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
def test_18_1_the_jobs_of_a_managed_jobset_are_accounted_for_by_it(listed: bool) -> None:
    """Its parts are batch/v1 Jobs; without it they would ask for themselves."""
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "it", "uid": "u-1", "controller": True}
    meta = {"name": "part", "namespace": "default", "labels": {QUEUE_LABEL: "main"}, "ownerReferences": [owner]}
    part = codec.read({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": pods()}}).value
    frameworks = ("batch/job", *(["jobset.x-k8s.io/jobset"] if listed else []))
    play = Play(jobset(), part, frameworks=frameworks)
    play.settle()
    owners = [each.metadata.owner_references[0].kind for each in play.workloads]
    assert owners == (["JobSet"] if listed else ["Job"])


# --- how it fares -----------------------------------------------------------------------------------------------------


def statuses(**counts: Tree) -> Tree:
    return {"replicatedJobsStatus": [{"name": name, **numbers} for name, numbers in counts.items()]}


@pytest.mark.parametrize(
    ("tree", "stories"),
    [
        (jobset(group("a"), group("b", replicas=2)), [
            (statuses(a={"active": 1, "ready": 1}, b={"active": 2, "ready": 1}), False),
            (statuses(a={"active": 1, "ready": 1}, b={"active": 2, "ready": 2}), True),
            (statuses(a={"active": 1, "ready": 1}, b={"active": 1, "ready": 1}), False),
            (statuses(a={"ready": 0, "succeeded": 1}, b={"active": 1, "ready": 1, "succeeded": 1}), True),
        ]),
        (rayjob(), [
            ({"jobDeploymentStatus": "Initializing"}, False),
            ({"rayClusterStatus": {"state": "suspended"}}, False),
            ({"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}}, True),
            ({"rayClusterStatus": {"state": "failed"}}, False),
        ]),
    ],
    ids=["JobSet", "RayJob"],
)  # fmt: skip
def test_18_9_its_workload_is_told_whether_its_pods_are_ready(tree: Tree, stories: list[tuple[Tree, bool]]) -> None:
    play = Play(tree)
    play.settle()
    assert play.condition("PodsReady")[:2] == ("False", "WaitForStart")
    for status, ready in stories:
        play.says(**status)
        assert play.is_true("PodsReady") is ready, status


def said(type_: str, status: str = "True", message: str = "") -> Tree:
    return {
        "conditions": [{"type": "Suspended", "status": "False"}, {"type": type_, "status": status, "message": message}]
    }


@pytest.mark.parametrize(
    ("tree", "status", "end"),
    [
        (jobset(), said("Completed", message="all done"), ("Succeeded", "all done")),
        (jobset(), said("Completed"), ("Succeeded", "The job has succeeded")),
        (jobset(), said("Failed", message="a part failed"), ("Failed", "a part failed")),
        (jobset(), said("Failed", "False"), None),
        (jobset(), said("StartupPolicyCompleted"), None),
        (rayjob(), {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "fine"},
         ("Succeeded", "fine")),
        (rayjob(), {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED", "message": "bad"}, ("Failed", "bad")),
        (rayjob(), {"jobDeploymentStatus": "Failed", "jobStatus": ""}, ("Failed", "The job has failed")),
        (rayjob(), {"jobDeploymentStatus": "Running", "jobStatus": "SUCCEEDED"}, None),
        (rayjob(), {"jobDeploymentStatus": 7, "jobStatus": ["SUCCEEDED"]}, None),
    ],
)  # fmt: skip
def test_18_9_the_end_of_a_job_is_that_of_its_workload(tree: Tree, status: Tree, end: tuple[str, str] | None) -> None:
    play = Play(tree)
    play.settle()
    runs(play)
    play.says(**status)
    assert play.condition("Finished")[1:] == (end or ("", ""))
    assert play.spec["suspend"] is False, "what has ended is not touched"


def test_18_9_units_that_have_succeeded_give_their_quota_back() -> None:
    play = Play(jobset(group("driver"), group("workers", replicas=3, parallelism=2)))
    play.settle()
    for succeeded, given in ((0, []), (1, [("workers", 2)]), (0, [("workers", 2)]), (3, [("workers", 6)])):
        play.says(**statuses(driver={"active": 1}, workers={"active": 3 - succeeded, "succeeded": succeeded}))
        assert [(each.name, each.count) for each in play.status.reclaimable_pods] == given


# --- what changes -----------------------------------------------------------------------------------------------------


def test_18_7_what_it_asks_for_now_is_asked_for_anew() -> None:
    play = Play(jobset())
    play.settle()
    before = play.workload.metadata.uid
    spec = play.spec
    spec["replicatedJobs"][1]["replicas"] = 1
    play.user_writes(spec)
    has_stopped(play)
    play.settle()
    assert play.workload.metadata.uid != before
    assert play.pod_sets == [("driver", 1), ("workers", 3)]
    assert play.spec["suspend"] is False, "it was admitted again"


def test_18_7_without_quota_its_workload_follows() -> None:
    play = Play(rayjob(), cpu="1")
    play.settle()
    before, spec = play.workload.metadata.uid, play.spec
    spec["rayClusterSpec"]["workerGroupSpecs"].append(workers("more", "500m"))
    play.user_writes(spec)
    assert play.workload.metadata.uid == before
    assert play.pod_sets == [("head", 1), ("small", 2), ("more", 1), ("submitter", 1)]


def test_18_4_parts_that_came_while_it_was_started_keep_no_mark_of_it() -> None:
    play = Play(jobset())
    play.settle()
    spec = play.spec
    renamed = copy.deepcopy(spec["replicatedJobs"][0])
    renamed["name"] = "renamed"
    spec["replicatedJobs"][0] = renamed
    play.user_writes(spec)
    has_stopped(play)
    play.settle()
    assert [name for name, _ in play.pod_sets] == ["renamed", "workers"]
    for pod_set in play.workload.spec.pod_sets:
        assert b"kueue.x-k8s.io" not in bytes(pod_set.template)


@pytest.mark.parametrize("tree", [jobset(), rayjob()], ids=["JobSet", "RayJob"])
def test_s_10_3_its_workload_goes_with_it(tree: Tree) -> None:
    play = Play(tree)
    play.settle()
    play.store.delete(play.kind.resource, "default", "it")
    while play.store.collect():
        play.settle()
    play.settle()
    assert play.workloads == []
