"""What clients of Kueue rely on: managed Jobs, the effects of a deleted ClusterQueue, one admission at a time.

Raw HTTP to two whole control planes, one for each configuration. No test waits for a time: if something must not
happen, the test first waits for the engine's reaction to a later change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from makeway.api.objects.configuration import Configuration, WaitForPodsReady
from makeway.api.objects.meta import LabelSelector
from makeway.api.quantity import Duration
from tests.cli.living import (
    JOBS,
    QUEUEING,
    WORKLOADS,
    Living,
    Tree,
    finished,
    flavor,
    job,
    living,
    queue,
    true_conditions,
    until,
    workload,
)

pytestmark = pytest.mark.slow

LABEL = {"managed": "yes"}
MERGE = {"content-type": "application/merge-patch+json"}
AT = "2026-01-01T00:00:00Z"
QUEUES = f"{QUEUEING}/clusterqueues"


@pytest.fixture(scope="module")
def managing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """Jobs without a queue name are managed too, in namespaces with a label."""
    settings = Configuration(
        manage_jobs_without_queue_name=True, managed_jobs_namespace_selector=LabelSelector(match_labels=LABEL)
    )
    with living(tmp_path_factory.mktemp("managing"), settings) as server:
        relabel(server, "default", LABEL)
        server.create(flavor(), *queue("default", cpu=100))
        yield server


@pytest.fixture(scope="module")
def blocking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    waits = WaitForPodsReady(timeout=Duration.parse("1h"), block_admission=True)
    with living(tmp_path_factory.mktemp("blocking"), Configuration(wait_for_pods_ready=waits)) as server:
        server.create(flavor(), *queue("q", cpu=100))
        yield server


# --- asking -----------------------------------------------------------------------------------------------------------


def relabel(server: Living, namespace: str, labels: Mapping[str, str | None]) -> None:
    patch = {"metadata": {"labels": labels}}
    answer = server.client.patch(f"/api/v1/namespaces/{namespace}", json=patch, headers=MERGE)
    assert answer.status_code == 200, answer.text


def post(server: Living, path: str, tree: Tree) -> Tree:
    answer = server.client.post(path, json=tree)
    assert answer.status_code == 201, answer.text
    found: Tree = answer.json()
    return found


def jobs_in(namespace: str) -> str:
    return JOBS.replace("/default/", f"/{namespace}/")


def of(server: Living, name: str, namespace: str = "default") -> Tree | None:
    """The Workload of a Job."""
    path = WORKLOADS.replace("/default/", f"/{namespace}/")
    owned = [
        each
        for each in server.items(path)
        if any(owner["name"] == name for owner in each["metadata"].get("ownerReferences", []))
    ]
    return owned[0] if owned else None


def reserved(server: Living, name: str) -> tuple[str, str, str] | None:
    status = server.get(f"{WORKLOADS}/{name}").get("status") or {}
    return next(
        (
            (c["status"], c["reason"], c["message"])
            for c in status.get("conditions", [])
            if c["type"] == "QuotaReserved"
        ),
        None,
    )


def add_condition(server: Living, name: str, condition: Tree) -> None:
    before = (server.get(f"{WORKLOADS}/{name}").get("status") or {}).get("conditions", [])
    kept = [each for each in before if each["type"] != condition["type"]]
    server.put_status(f"{WORKLOADS}/{name}", {"conditions": [*kept, condition]})


def condition(type: str) -> Tree:
    return {"type": type, "status": "True", "reason": "Said", "message": "", "lastTransitionTime": AT}


# --- managedJobsNamespaceSelector -------------------------------------------------------------------------------------


def test_a_queue_name_does_not_bring_in_a_job_of_a_namespace_that_is_not_selected(managing: Living) -> None:
    post(managing, "/api/v1/namespaces", {"metadata": {"name": "outside"}})
    local = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "q"}}
    path = f"{QUEUEING}/namespaces/outside/localqueues"
    post(managing, path, {**local, "spec": {"clusterQueue": "default"}})
    before = {**job("outside"), "metadata": {**job("outside")["metadata"], "namespace": "outside"}}
    made = post(managing, jobs_in("outside"), before)
    assert made["spec"]["suspend"] is False, "the door lets it in as it is"
    managing.create(job("inside", queue="default"))
    until(lambda: of(managing, "inside"), "the Workload of a Job that came later")
    assert of(managing, "outside", "outside") is None
    assert managing.get(f"{jobs_in('outside')}/outside")["spec"]["suspend"] is False

    relabel(managing, "outside", {"managed": "yes"})
    until(lambda: of(managing, "outside", "outside"), "its Workload, once its namespace is selected")
    until(lambda: "Admitted" in true_conditions(of(managing, "outside", "outside") or {}))

    relabel(managing, "outside", {"managed": None})
    second = {**before, "metadata": {**before["metadata"], "name": "second"}}
    assert post(managing, jobs_in("outside"), second)["spec"]["suspend"] is False
    done = {"type": "Complete", "status": "True", "reason": "Done", "lastTransitionTime": AT}
    managing.put_status(f"{jobs_in('outside')}/outside", {"conditions": [done], "completionTime": AT})
    until(
        lambda: "Finished" in true_conditions(of(managing, "outside", "outside") or {}),
        "the end of what was managed when it came",
    )
    assert of(managing, "second", "outside") is None


# --- Jobs that own Jobs -----------------------------------------------------------------------------------------------


def child(name: str, uid: str, *, queue: str = "", **owner: str) -> Tree:
    """A Job that another one controls."""
    tree = job(name, queue=queue)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": uid, "controller": True, **owner}
    labels = {"labels": tree["metadata"]["labels"]} if queue else {}
    return {**tree, "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference], **labels}}


def is_suspended(server: Living, tree: Tree) -> bool:
    """The value in the server's answer to the creation."""
    found: bool = post(server, JOBS, tree)["spec"]["suspend"]
    return found


def test_a_job_of_a_managed_job_has_no_workload_of_its_own_and_is_not_suspended(managing: Living) -> None:
    parent = post(managing, JOBS, {**job("parent"), "metadata": {"name": "parent", "namespace": "default"}})
    assert parent["spec"]["suspend"] is True
    until(lambda: not managing.get(f"{JOBS}/parent")["spec"]["suspend"], "the start of the parent")
    uid = parent["metadata"]["uid"]
    assert not is_suspended(managing, child("plain", uid))
    assert not is_suspended(managing, child("queued", uid, queue="default"))
    assert is_suspended(managing, child("other", "1", apiVersion="example.com/v1", kind="Train"))
    until(lambda: of(managing, "other"), "the Workload of a Job that came later")
    for name in ("plain", "queued"):
        assert of(managing, name) is None
        assert managing.get(f"{JOBS}/{name}")["spec"]["suspend"] is False


def test_an_owner_that_is_not_there_keeps_no_job_from_being_managed(managing: Living) -> None:
    """A controller never sees most of them: the garbage collector removes Jobs of missing owners."""
    assert is_suspended(managing, child("orphan", "an-earlier-one"))
    until(lambda: is_gone(managing, f"{JOBS}/orphan"))


# --- a ClusterQueue that is deleted -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def check(managing: Living) -> str:
    """An active AdmissionCheck without a controller."""
    tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "audit"}}
    path = f"{QUEUEING}/admissionchecks"
    post(managing, path, {**tree, "spec": {"controllerName": "example.com/audit"}})
    managing.put_status(f"{path}/audit", {"conditions": [condition("Active")]})
    return "audit"


def checked(name: str, check: str, **spec: Any) -> list[Tree]:
    return queue(name, cpu=4, admissionChecksStrategy={"admissionChecks": [{"name": check}]}, **spec)


def is_gone(server: Living, path: str) -> bool:
    return server.client.get(path).status_code == 404


def test_a_deleted_queue_takes_its_reservations_back_and_goes(managing: Living, check: str) -> None:
    managing.create(*checked("brief", check), workload("asking", queue="brief"))
    until(lambda: "asking" in managing.holding("QuotaReserved"))
    assert managing.client.delete(f"{QUEUES}/brief").status_code == 200
    until(lambda: is_gone(managing, f"{QUEUES}/brief"), "the end of the queue")
    until(lambda: reserved(managing, "asking") == ("False", "Misconfigured", "ClusterQueue brief not found"))
    status = managing.get(f"{WORKLOADS}/asking")["status"]
    assert "admission" not in status
    assert true_conditions({"status": status}) == set()


def test_what_is_admitted_keeps_a_deleted_queue_until_it_ends(managing: Living, check: str) -> None:
    managing.create(*checked("long", check), workload("runs", queue="long"), workload("asks", queue="long"))
    until(lambda: {"runs", "asks"} <= managing.holding("QuotaReserved"))
    ready = {"name": check, "state": "Ready", "message": "", "lastTransitionTime": AT}
    managing.put_status(f"{WORKLOADS}/runs", {"admissionChecks": [ready]})
    until(lambda: "runs" in managing.holding())
    assert managing.client.delete(f"{QUEUES}/long").status_code == 200
    waiting = ("False", "Misconfigured", "ClusterQueue long is terminating")
    until(lambda: reserved(managing, "asks") == waiting, "the end of the reservation")
    managing.create(workload("late", queue="long"))
    until(lambda: reserved(managing, "late") == waiting, "word to one that came later")
    assert "deletionTimestamp" in managing.get(f"{QUEUES}/long")["metadata"]
    assert "runs" in managing.holding()
    add_condition(managing, "runs", finished())
    until(lambda: is_gone(managing, f"{QUEUES}/long"), "the end of the queue")


# --- blockAdmission ---------------------------------------------------------------------------------------------------


def test_a_workload_waits_until_the_pods_of_the_one_before_it_are_ready(blocking: Living) -> None:
    blocking.create(workload("one"))
    until(lambda: "one" in blocking.holding())
    blocking.create(workload("two"))
    until(lambda: reserved(blocking, "two"), "a word to the second")
    said = reserved(blocking, "two")
    assert said is not None
    assert said[:2] == ("False", "WaitingForPodsReady")
    add_condition(blocking, "one", condition("PodsReady"))
    until(lambda: "two" in blocking.holding(), "the second's turn")
    add_condition(blocking, "two", finished())
    until(lambda: not blocking.plane.live.engine.state.waits_for_pods)


def test_of_parallel_jobs_never_two_start_at_once(blocking: Living) -> None:
    names = [f"p{n}" for n in range(12)]
    blocking.create(*(job(name) for name in names))
    ready: set[str] = set()
    while len(ready) < len(names):
        until(lambda: started(blocking, names) - ready, "the next start")
        begun = started(blocking, names)
        assert len(begun - ready) == 1, f"{sorted(begun - ready)} started without waiting for one another"
        (name,) = begun - ready
        blocking.put_status(f"{JOBS}/{name}", {"active": 1, "ready": 1, "startTime": AT})
        ready.add(name)


def started(server: Living, names: list[str]) -> set[str]:
    jobs = server.items(JOBS)
    return {each["metadata"]["name"] for each in jobs if not each["spec"]["suspend"]} & set(names)
