"""JobSets through the real controllers: queued, started, stopped and restored, ready and finished (api 18.9)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from makeway.api import codec
from makeway.api.names import QUEUE_LABEL
from makeway.controllers.contract import Ref
from tests.controllers.jobs.kind_stories import Play, Story, Tree, lives_through_a_stop, pods, sample, unknown_fields


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


def statuses(**counts: Tree) -> Tree:
    return {"replicatedJobsStatus": [{"name": name, **numbers} for name, numbers in counts.items()]}


STORY = Story(
    templates=lambda spec: {each["name"]: each["template"]["spec"]["template"] for each in spec["replicatedJobs"]},
    running=lambda spec: statuses(**{each["name"]: {"active": 1, "ready": 0} for each in spec["replicatedJobs"]}),
    stopped=statuses(workers={"active": 0, "suspended": 1}),
)
PICKY = group("w")
PICKY["template"]["spec"]["template"] = pods(nodeSelector={"disk": "ssd"}, tolerations=[{"key": "k"}])


def stopped(play: Play) -> None:
    play.says(**STORY.stopped)
    play.settle()


# --- its life ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree", [jobset(), jobset(PICKY), jobset(group("a"), PICKY, suspend=False)], ids=["two parts", "picky", "running"]
)
def test_18_9_a_jobset_is_started_stopped_and_restored(tree: Tree) -> None:
    lives_through_a_stop(tree, STORY)


def test_18_9_a_jobset_of_its_users_is_started_stopped_and_restored(shared: Path) -> None:
    lives_through_a_stop(sample(shared, "sample-jobset.yaml"), STORY)


def test_the_definition_of_jobsets_has_every_field_that_a_start_writes(shared: Path) -> None:
    play = Play(jobset())
    play.settle()
    assert play.is_true("Admitted")
    assert unknown_fields(play, shared, "jobset.x-k8s.io_jobsets.yaml") == ["fromTheFuture"]


@pytest.mark.parametrize(
    ("tree", "pod_sets", "requests"),
    [
        (jobset(), [("driver", 1), ("workers", 6)], {"driver": "2", "workers": "6"}),
        (jobset(group("a", replicas=3, parallelism=4, completions=2)), [("a", 6)], {"a": "6"}),
        (jobset(group("a", completions=0, parallelism=2), group("b")), [("a", 0), ("b", 1)], {"a": "0", "b": "1"}),
        (jobset(group("A", completions=5)), [("a", 1)], {"a": "1"}),
    ],
    ids=["usual", "completions below parallelism", "nothing to do", "completions alone"],
)
def test_18_9_the_podsets_of_a_jobset(tree: Tree, pod_sets: list[tuple[str, int]], requests: dict[str, str]) -> None:
    play = Play(tree)
    play.settle()
    assert play.pod_sets == pod_sets
    assert play.requests == requests
    owner = play.workload.metadata.owner_references[0]
    assert (owner.api_version, owner.kind, owner.name) == ("jobset.x-k8s.io/v1alpha2", "JobSet", "it")


def test_18_1_a_jobset_that_finds_no_room_stays_suspended() -> None:
    play = Play(jobset(), cpu="1")
    play.settle()
    assert play.spec == {**jobset()["spec"], "suspend": True}
    assert not play.is_true("QuotaReserved")


def test_18_9_each_podset_gets_what_its_own_flavor_adds() -> None:
    play = Play(jobset(), cpu="2", plain="6")
    play.settle()
    driver, workers = STORY.templates(play.spec).values()
    assert driver["spec"]["nodeSelector"] == {"zone": "a"}
    assert "nodeSelector" not in workers["spec"]
    assert "tolerations" not in workers["spec"]
    assert workers["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "workers"


def test_18_9_podsets_of_one_name_make_no_workload() -> None:
    play = Play(jobset(group("a"), group("A")))
    play.settle()
    assert play.workloads == []
    (note,) = {note for note in play.engine.notes if note.type == "Warning"}
    assert (note.about, note.reason) == (Ref.named("JobSet", "default", "it"), "ErrWorkloadCompose")
    assert "called a, a" in note.message


@pytest.mark.parametrize(("replicas", "parallelism"), [(2**16, 2**15), (10**3000, 10**3000)], ids=["many", "absurd"])
def test_18_9_more_pods_than_a_podset_may_have_make_no_workload(replicas: int, parallelism: int) -> None:
    play = Play(jobset(group("a", replicas=replicas, parallelism=parallelism)))
    play.settle()
    assert play.workloads == []
    (note,) = {note for note in play.engine.notes if note.type == "Warning"}
    assert f"podSet a would have more than {2**31 - 1} pods" in note.message


def test_18_9_a_podset_may_have_as_many_pods_as_its_count_can_say() -> None:
    play = Play(jobset(group("a", replicas=2**31 - 1)))
    play.settle()
    assert len(play.workloads) == 1


def test_18_9_the_pod_priority_class_is_that_of_the_first_podset_that_names_one() -> None:
    named = group("b")
    named["template"]["spec"]["template"]["spec"]["priorityClassName"] = "system-node-critical"
    play = Play(jobset(group("a"), named))
    play.settle()
    assert play.workload.spec.priority == 2_000_001_000


def test_18_1_a_jobset_is_left_alone_where_its_framework_is_not_listed() -> None:
    play = Play(jobset(), frameworks=("batch/job",))
    play.settle()
    assert play.workloads == []
    assert play.spec == jobset()["spec"]


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


def test_18_9_a_jobset_is_ready_when_all_its_jobs_are() -> None:
    play = Play(jobset(group("a"), group("b", replicas=2)))
    play.settle()
    assert play.condition("PodsReady")[:2] == ("False", "WaitForStart")
    for status, ready in (
        (statuses(a={"active": 1, "ready": 1}, b={"active": 2, "ready": 1}), False),
        (statuses(a={"active": 1, "ready": 1}, b={"active": 2, "ready": 2}), True),
        (statuses(a={"active": 1, "ready": 1}, b={"active": 1, "ready": 1}), False),
        (statuses(a={"ready": 0, "succeeded": 1}, b={"active": 1, "ready": 1, "succeeded": 1}), True),
    ):
        play.says(**status)
        assert play.is_true("PodsReady") is ready, status


def said(type_: str, status: str = "True", message: str = "") -> Tree:
    return {
        "conditions": [{"type": "Suspended", "status": "False"}, {"type": type_, "status": status, "message": message}]
    }


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (said("Completed", message="all done"), ("Succeeded", "all done")),
        (said("Completed"), ("Succeeded", "The job has succeeded")),
        (said("Failed", message="a part failed"), ("Failed", "a part failed")),
        (said("Failed", "False"), ("", "")),
        (said("StartupPolicyCompleted"), ("", "")),
        ({"conditions": {"Completed": "True"}}, ("", "")),
    ],
)
def test_18_9_the_end_of_a_jobset_is_that_of_its_workload(status: Tree, end: tuple[str, str]) -> None:
    play = Play(jobset())
    play.settle()
    play.says(**STORY.running(play.spec))
    play.says(**status)
    assert play.condition("Finished")[1:] == end
    assert not play.is_suspended, "what has ended is not touched"


def test_18_9_units_that_have_succeeded_give_their_quota_back() -> None:
    play = Play(jobset(group("driver"), group("workers", replicas=3, parallelism=2)))
    play.settle()
    for succeeded, given in ((0, []), (1, [("workers", 2)]), (0, [("workers", 2)]), (3, [("workers", 6)])):
        play.says(**statuses(driver={"active": 1}, workers={"active": 3 - succeeded, "succeeded": succeeded}))
        assert [(each.name, each.count) for each in play.status.reclaimable_pods] == given


def test_18_9_more_successes_than_replicas_give_nothing_back() -> None:
    play = Play(jobset(group("a"), group("b", replicas=2)))
    play.settle()
    play.says(**statuses(a={"active": 1}, b={"succeeded": 3}))
    assert play.status.reclaimable_pods == ()


def test_18_5_a_suspended_jobset_is_not_ready() -> None:
    play = Play(jobset(group("a")), cpu="0")
    play.settle()
    play.says(**statuses(a={"ready": 1}))
    assert play.is_suspended
    assert not play.kind.read(play.job).is_ready


# --- what changes -----------------------------------------------------------------------------------------------------


def test_18_7_what_it_asks_for_now_is_asked_for_anew() -> None:
    play = Play(jobset())
    play.settle()
    before = play.workload.metadata.uid
    spec = play.spec
    spec["replicatedJobs"][1]["replicas"] = 1
    play.user_writes(spec)
    stopped(play)
    play.settle()
    assert play.workload.metadata.uid != before
    assert play.pod_sets == [("driver", 1), ("workers", 3)]
    assert play.spec["suspend"] is False, "it was admitted again"


def test_18_4_parts_that_came_while_it_was_started_keep_no_mark_of_it() -> None:
    play = Play(jobset())
    play.settle()
    spec = play.spec
    renamed = copy.deepcopy(spec["replicatedJobs"][0])
    renamed["name"] = "renamed"
    spec["replicatedJobs"][0] = renamed
    play.user_writes(spec)
    stopped(play)
    play.settle()
    assert [name for name, _ in play.pod_sets] == ["renamed", "workers"]
    for pod_set in play.workload.spec.pod_sets:
        assert b"kueue.x-k8s.io" not in bytes(pod_set.template)


def test_s_10_3_the_workload_of_a_jobset_goes_with_it() -> None:
    play = Play(jobset())
    play.settle()
    play.store.delete(play.kind.resource, "default", "it")
    while play.store.collect():
        play.settle()
    play.settle()
    assert play.workloads == []
