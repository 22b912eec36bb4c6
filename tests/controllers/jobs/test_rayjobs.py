"""RayJobs through the real controllers: queued, started, stopped and restored, ready and finished (api 18.10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from makeway.controllers.contract import Ref
from tests.controllers.jobs.kind_stories import Play, Story, Tree, lives_through_a_stop, pods, sample, unknown_fields


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


def templates(spec: Tree) -> dict[str, Tree]:
    cluster = spec["rayClusterSpec"]
    found = {"head": cluster["headGroupSpec"]["template"]}
    found.update({each["groupName"].lower(): each["template"] for each in cluster["workerGroupSpecs"]})
    return {**found, **({"submitter": spec["submitterPodTemplate"]} if "submitterPodTemplate" in spec else {})}


STORY = Story(
    templates=templates,
    running=lambda spec: {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"},
    stopped={"jobDeploymentStatus": "Suspended", "jobStatus": ""},
)

# --- its life ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree",
    [
        rayjob(),
        rayjob(submitterPodTemplate=pods("500m")),
        rayjob(submissionMode="HTTPMode"),
        rayjob(workers("a"), workers("B", "500m", replicas=3)),
    ],
    ids=["usual", "with a submitter", "over HTTP", "two groups"],
)
def test_18_10_a_rayjob_is_started_stopped_and_restored(tree: Tree) -> None:
    lives_through_a_stop(tree, STORY)


def test_18_10_a_rayjob_of_its_users_is_started_stopped_and_restored(shared: Path) -> None:
    lives_through_a_stop(sample(shared, "ray-job-sample.yaml"), STORY)


def test_the_definition_of_rayjobs_has_every_field_that_a_start_writes(shared: Path) -> None:
    play = Play(rayjob())
    play.settle()
    assert "submitterPodTemplate" in play.spec
    assert unknown_fields(play, shared, "ray.io_rayjobs.yaml") == ["fromTheFuture"]


def test_18_10_a_start_writes_the_submitter_that_nobody_described() -> None:
    play = Play(rayjob())
    play.settle()
    (container,) = play.spec["submitterPodTemplate"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("ray-job-submitter", "busybox")
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}


@pytest.mark.parametrize(
    ("tree", "pod_sets", "requests"),
    [
        (rayjob(), [("head", 1), ("small", 2), ("submitter", 1)], {"head": "2", "small": "2", "submitter": "500m"}),
        (rayjob(workers("A", replicas=2, numOfHosts=3), submissionMode="HTTPMode"), [("head", 1), ("a", 6)],
         {"head": "2", "a": "6"}),
        (rayjob(workers()), [("head", 1), ("small", 1), ("submitter", 1)],
         {"head": "2", "small": "1", "submitter": "500m"}),
        (rayjob(submissionMode="K8sJobMode", submitterPodTemplate=pods("3")),
         [("head", 1), ("small", 2), ("submitter", 1)], {"head": "2", "small": "2", "submitter": "3"}),
    ],
    ids=["usual", "hosts", "no replicas", "submitter"],
)  # fmt: skip
def test_18_10_the_podsets_of_a_rayjob(tree: Tree, pod_sets: list[tuple[str, int]], requests: dict[str, str]) -> None:
    play = Play(tree)
    play.settle()
    assert play.pod_sets == pod_sets
    assert play.requests == requests
    owner = play.workload.metadata.owner_references[0]
    assert (owner.api_version, owner.kind, owner.name) == ("ray.io/v1", "RayJob", "it")


def test_18_1_a_rayjob_that_finds_no_room_stays_suspended() -> None:
    play = Play(rayjob(), cpu="1")
    play.settle()
    assert play.spec == {**rayjob()["spec"], "suspend": True}
    assert not play.is_true("QuotaReserved")


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (rayjob(clusterSelector={"ray.io/cluster": "there"}), "a Ray cluster that is there already"),
        (rayjob(cluster={"enableInTreeAutoscaling": True}), "change its size by itself"),
        (rayjob(shutdownAfterJobFinishes=False), "would outlive it"),
        (rayjob(workers("head")), "called head, head, submitter"),
        (rayjob(workers("")), "called head, nothing, submitter"),
    ],
)
def test_18_10_what_cannot_be_accounted_for_gets_no_workload(tree: Tree, words: str) -> None:
    play = Play(tree)
    play.settle()
    assert play.workloads == []
    assert play.is_suspended
    (note,) = {note for note in play.engine.notes if note.type == "Warning"}
    assert (note.about, note.reason) == (Ref.named("RayJob", "default", "it"), "ErrWorkloadCompose")
    assert words in note.message


# --- how it fares -----------------------------------------------------------------------------------------------------


def test_18_10_a_rayjob_is_ready_when_its_cluster_is() -> None:
    play = Play(rayjob())
    play.settle()
    assert play.condition("PodsReady")[:2] == ("False", "WaitForStart")
    for status, ready in (
        ({"jobDeploymentStatus": "Initializing"}, False),
        ({"rayClusterStatus": {"state": "suspended"}}, False),
        ({"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}}, True),
        ({"rayClusterStatus": {"state": "failed"}}, False),
    ):
        play.says(**status)
        assert play.is_true("PodsReady") is ready, status


@pytest.mark.parametrize(
    ("deployed", "job", "message", "end"),
    [
        ("Complete", "SUCCEEDED", "fine", ("Succeeded", "fine")),
        ("Complete", "FAILED", "bad", ("Failed", "bad")),
        ("Failed", "", "", ("Failed", "The job has failed")),
        ("Running", "SUCCEEDED", "fine", ("", "")),
        (7, ["SUCCEEDED"], "fine", ("", "")),
    ],
)
def test_18_10_the_end_of_a_rayjob_is_that_of_its_workload(
    deployed: Any, job: Any, message: str, end: tuple[str, str]
) -> None:
    play = Play(rayjob())
    play.settle()
    play.says(**STORY.running(play.spec))
    play.says(jobDeploymentStatus=deployed, jobStatus=job, message=message)
    assert play.condition("Finished")[1:] == end
    assert not play.is_suspended, "what has ended is not touched"


# --- what changes -----------------------------------------------------------------------------------------------------


def test_18_7_without_quota_the_workload_of_a_rayjob_follows_it() -> None:
    play = Play(rayjob(), cpu="1")
    play.settle()
    before, spec = play.workload.metadata.uid, play.spec
    spec["rayClusterSpec"]["workerGroupSpecs"].append(workers("more", "500m"))
    play.user_writes(spec)
    assert play.workload.metadata.uid == before
    assert play.pod_sets == [("head", 1), ("small", 2), ("more", 1), ("submitter", 1)]
