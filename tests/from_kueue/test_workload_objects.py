"""Workloads as clients in Go and the suites of Kueue expect them: written back unchanged, conditions, defaults.

A Go client reads an object into structs and writes those: empty maps, lists and zeros are gone, quantities are texts in
their canonical spelling. ``as_go_writes`` does to a tree what the structs of a pod template do to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from makeway.api.quantity import Quantity
from tests.cli.living import EVENTS, JOBS, QUEUEING, WORKLOADS, Living, flavor, job, living, queue, until, workload

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/default/pods"
AMOUNTS = ("requests", "limits", "overhead")
BY_POINTER = ("securityContext", "emptyDir", "labelSelector", "namespaceSelector", "affinity")
Tree = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    with living(tmp_path_factory.mktemp("data")) as server:
        server.create(flavor(), *queue("lq", cpu=50))
        yield server


def as_go_writes(tree: Any) -> Any:
    """A pod template, or what holds one, after a round trip through Go's structs."""
    if isinstance(tree, list):
        return [as_go_writes(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    inner = {
        name: {key: str(Quantity.parse(amount)) for key, amount in each.items()}
        if name in AMOUNTS
        else as_go_writes(each)
        for name, each in tree.items()
    }
    return {name: each for name, each in inner.items() if each not in ({}, [], "") or name in BY_POINTER}


def written_back(server: Living, path: str, change: Callable[[Tree], None], part: str) -> Tree:
    """Read, send a part of the spec through Go's structs, change, replace; again after a conflict."""
    for _ in range(50):
        tree = server.get(path)
        tree["spec"][part] = as_go_writes(tree["spec"][part])
        change(tree)
        answer = server.client.put(path, json=tree)
        if answer.status_code != 409:
            assert answer.status_code == 200, answer.text
            found: Tree = answer.json()
            return found
    pytest.fail("it is written to all the time")


def conditions(server: Living, path: str) -> dict[str, Tree]:
    return {each["type"]: each for each in server.get(path).get("status", {}).get("conditions", ())}


def says(server: Living, path: str, type: str, status: str, reason: str) -> bool:
    found = conditions(server, path).get(type, {})
    return (found.get("status"), found.get("reason")) == (status, reason)


def until_evicted(server: Living, path: str) -> None:
    until(lambda: says(server, path, "Evicted", "True", "Deactivated"), "its eviction")


def loose(name: str, **spec: Any) -> Tree:
    """A Workload whose template is spelled as people spell them."""
    tree = workload(name, queue="lq")
    template = tree["spec"]["podSets"][0]["template"]
    template["metadata"] = {"labels": {}, "annotations": {}}
    template["spec"]["containers"][0].update(resources={"requests": {"cpu": 1}, "limits": {}}, command=[], env=[])
    template["spec"].update(nodeSelector={}, tolerations=[], volumes=[{"name": "v", "emptyDir": {}}])
    tree["spec"].update(spec)
    return tree


def held(server: Living, name: str) -> str:
    server.create(loose(name))
    until(lambda: name in server.holding("QuotaReserved"), "its quota")
    return f"{WORKLOADS}/{name}"


def switch_off(tree: Tree) -> None:
    tree["spec"]["active"] = False


# --- what is written back ---------------------------------------------------------------------------------------------


def test_a_workload_with_quota_is_deactivated_by_an_update_of_a_go_client(server: Living) -> None:
    path = held(server, "replaced")
    after = written_back(server, path, switch_off, "podSets")
    assert after["spec"]["active"] is False
    until_evicted(server, path)
    until(lambda: says(server, path, "QuotaReserved", "False", "Deactivated"), "the end of its reservation")


def test_so_it_is_by_patches_and_by_apply(server: Living) -> None:
    def merge(sets: Any) -> tuple[str, Any]:
        return "application/merge-patch+json", {"spec": {"active": False, "podSets": sets}}

    def json_patch(sets: Any) -> tuple[str, Any]:
        change = [("/spec/podSets", sets), ("/spec/active", False)]
        return "application/json-patch+json", [{"op": "replace", "path": p, "value": v} for p, v in change]

    def apply(sets: Any) -> tuple[str, Any]:
        tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "spec": {"active": False, "podSets": sets}}
        return "application/apply-patch+yaml", {**tree, "metadata": {"name": "patched-apply", "namespace": "default"}}

    for how in (merge, json_patch, apply):
        path = held(server, f"patched-{how.__name__.replace('_', '-')}")
        kind, body = how(as_go_writes(server.get(path)["spec"]["podSets"]))
        params = {"fieldManager": "go", "force": "true"} if how is apply else {}
        content = yaml.safe_dump(body).encode() if how is apply else None
        sent = {"content": content} if content else {"json": body}
        answer = server.client.patch(path, params=params, headers={"content-type": kind}, **sent)
        assert answer.status_code == 200, (how, answer.text)
        until_evicted(server, path)


def test_another_amount_is_still_refused_while_quota_is_reserved(server: Living) -> None:
    path = held(server, "fixed")
    tree = server.get(path)
    tree["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    del tree["metadata"]["resourceVersion"]
    answer = server.client.put(path, json=tree)
    assert answer.status_code == 422, answer.text
    assert "spec.podSets: Invalid value: cannot be changed while quota is reserved" in answer.json()["message"]


def test_a_running_job_that_a_go_client_writes_back_goes_on(server: Living) -> None:
    spelled = job("written-back", queue="lq")
    spelled["spec"]["template"]["spec"]["containers"][0].update(resources={"requests": {"cpu": 1}}, args=[])
    server.create(spelled)
    path = f"{JOBS}/written-back"
    until(lambda: not server.get(path)["spec"]["suspend"], "its start")
    (mine,) = [each for each in server.items(WORKLOADS) if each["metadata"]["name"].startswith("job-written-back")]
    template = mine["spec"]["podSets"][0]["template"]
    assert template["metadata"] == {}, "what is left of labels that were the Job controller's"

    def note(tree: Tree) -> None:
        tree["metadata"].setdefault("annotations", {})["seen"] = "yes"

    written_back(server, path, note, "template")
    server.create(workload("after-the-job", queue="lq"))
    until(lambda: "after-the-job" in server.holding(), "what comes after it")
    again = server.get(f"{WORKLOADS}/{mine['metadata']['name']}")
    assert again["metadata"]["uid"] == mine["metadata"]["uid"]
    assert "Evicted" not in {each["type"] for each in again["status"]["conditions"]}
    assert not server.get(path)["spec"]["suspend"]


def test_the_python_client_writes_a_typed_job_back(server: Living) -> None:
    client = pytest.importorskip("kubernetes.client")
    server.create(job("typed", queue="lq"))
    with server.official_client() as api:
        jobs = client.BatchV1Api(api)
        until(lambda: not jobs.read_namespaced_job("typed", "default").spec.suspend, "its start")
        written = replaced(client, jobs)
    assert (written.metadata.annotations["seen"], written.spec.suspend) == ("yes", False)


def replaced(client: Any, jobs: Any) -> Any:
    for _ in range(50):
        found = jobs.read_namespaced_job("typed", "default")
        found.metadata.annotations = {"seen": "yes"}
        found.spec.template.spec.containers[0].resources.requests = {"cpu": "1000m"}
        try:
            return jobs.replace_namespaced_job("typed", "default", found)
        except client.ApiException as error:
            if error.status != 409:
                raise
    pytest.fail("it is written to all the time")


def test_a_pod_is_written_back(server: Living) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}}, "args": []}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    assert server.client.post(PODS, json=body).status_code == 201

    def label(tree: Tree) -> None:
        tree["metadata"]["labels"] = {"seen": "yes"}

    after = written_back(server, f"{PODS}/p", label, "containers")
    assert after["metadata"]["labels"] == {"seen": "yes"}


# --- what is shown ----------------------------------------------------------------------------------------------------


def empty_within(tree: Any, path: str = "") -> Iterator[str]:
    """The paths of empty lists and maps."""
    steps = enumerate(tree) if isinstance(tree, list) else tree.items() if isinstance(tree, dict) else ()
    for name, each in steps:
        here = f"{path}.{name}"
        if each in ({}, []) and not isinstance(each, bool | int):
            yield here
        yield from empty_within(each, here)


def test_no_empty_lists_and_maps_are_shown_that_kubernetes_omits(server: Living) -> None:
    server.create(loose("shown"), job("shown", queue="lq"))
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "labels": {}},
              "spec": {"minAvailable": 1, "selector": {"matchLabels": {}, "matchExpressions": []}}}  # fmt: skip
    assert server.client.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", json=budget).is_success
    until(lambda: "shown" in server.holding(), "its admission")
    kept = {"emptyDir", "securityContext", "resources", "metadata", "selector", "namespaceSelector", "spec", "status",
            "uncountedTerminatedPods"}  # fmt: skip
    fields = {"f:", "k:", "v:"}  # ownership of a field is an empty map
    paths = [
        WORKLOADS, JOBS, PODS, f"{QUEUEING}/clusterqueues", f"{QUEUEING}/resourceflavors", f"{QUEUEING}/localqueues",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "/api/v1/namespaces", EVENTS,
    ]  # fmt: skip
    found = {
        f"{path} {where}"
        for path in paths
        for where in empty_within(server.items(path))
        if where.rpartition(".")[2] not in kept and not any(mark in where for mark in fields)
    }
    assert found == set()
    assert server.get(f"{WORKLOADS}/shown")["spec"]["podSets"][0]["template"]["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {}}
    ]


# --- conditions -------------------------------------------------------------------------------------------------------


def test_conditions_tell_which_generation_they_are_about(server: Living) -> None:
    path = held(server, "observed")
    until(lambda: "observed" in server.holding(), "its admission")
    first = conditions(server, path)
    assert {each["observedGeneration"] for each in first.values()} == {1}
    written_back(server, path, switch_off, "podSets")
    until(lambda: says(server, path, "QuotaReserved", "False", "Deactivated"), "the end of its reservation")
    after = conditions(server, path)
    assert server.get(path)["metadata"]["generation"] == 2
    assert {type for type, each in after.items() if each["observedGeneration"] == 2} >= {
        "QuotaReserved", "Admitted", "Evicted", "Requeued",
    }  # fmt: skip


def test_a_workload_that_begins_inactive_shows_what_a_deactivated_one_does(server: Living) -> None:
    path = f"{WORKLOADS}/off"
    server.create(*queue("off"), loose("off", active=False, queueName="off"))
    until(lambda: says(server, path, "Evicted", "True", "Deactivated"), "that it is deactivated")
    assert says(server, path, "QuotaReserved", "False", "Deactivated")
    assert conditions(server, path)["Evicted"]["message"] == "The workload is deactivated"
    assert "schedulingStats" not in server.get(path)["status"]

    def switch_on(tree: Tree) -> None:
        tree["spec"]["active"] = True

    written_back(server, path, switch_on, "podSets")
    until(lambda: "off" in server.holding(), "its admission")
    assert says(server, path, "Evicted", "False", "QuotaReserved")
    counters = [name for name in server.metrics() if name.startswith("kueue_evicted_workloads_total{")]
    assert not any('cluster_queue="off"' in name for name in counters), "it had nothing to leave"


# --- defaults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec"), [("clusterqueues", {}), ("cohorts", {}), ("localqueues", {"clusterQueue": "lq"})]
)
def test_fair_sharing_without_a_weight_counts_one(server: Living, kind: str, spec: Tree) -> None:
    names = {"clusterqueues": "ClusterQueue", "cohorts": "Cohort", "localqueues": "LocalQueue"}
    where = f"{QUEUEING}/namespaces/default/{kind}" if kind == "localqueues" else f"{QUEUEING}/{kind}"
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": names[kind], "metadata": {"name": "equal"},
            "spec": {**spec, "fairSharing": {}}}  # fmt: skip
    made = server.client.post(where, json=body)
    assert made.status_code == 201, made.text
    assert made.json()["spec"]["fairSharing"] == {"weight": "1"}
    assert server.get(f"{where}/equal")["spec"]["fairSharing"] == {"weight": "1"}
