"""Refusals and warnings for clients of Kueue: 422 with all causes where Kueue's webhooks answer 403, and a plain
message about each part that is not built.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.cli.living import JOBS, QUEUEING, WORKLOADS, Living, flavor, job, living, queue, until, workload

pytestmark = pytest.mark.slow

QUEUES = f"{QUEUEING}/clusterqueues"
MERGE = {"content-type": "application/merge-patch+json"}
Tree = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    with living(tmp_path_factory.mktemp("refusals")) as server:
        server.create(flavor(), *queue("q", cpu=4), workload("held"))
        until(lambda: "held" in server.holding(), "admission")
        yield server


def causes(answer: httpx2.Response) -> dict[str, str]:
    """The path and reason of every mistake in a refusal."""
    assert answer.status_code == 422, answer.text
    status = answer.json()
    assert (status["kind"], status["status"], status["reason"], status["code"]) == ("Status", "Failure", "Invalid", 422)
    found = {each["field"]: each["reason"] for each in status["details"]["causes"]}
    assert len(found) == len(status["details"]["causes"])
    for path in found:
        assert path in status["message"], "who prints only the message sees all of them too"
    return found


def queue_spec(flavor: str = "f", **more: Any) -> Tree:
    quota = {"name": "cpu", "nominalQuota": "1"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}]
    return {"namespaceSelector": {}, "resourceGroups": groups, **more}


def wrong_queue() -> Tree:
    """Two mistakes that a schema finds, and three that Kueue finds in a webhook."""
    spec = queue_spec(
        cohortName="all", stopPolicy="Now", queueingStrategy="FIFO",
        preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}},
    )  # fmt: skip
    spec["resourceGroups"][0]["flavors"][0]["resources"][0] |= {"nominalQuota": "-1", "lendingLimit": "3"}
    return {"metadata": {"name": "wrong"}, "spec": spec}


WRONG = {
    "spec.stopPolicy": "FieldValueNotSupported",
    "spec.queueingStrategy": "FieldValueNotSupported",
    "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota": "FieldValueInvalid",
    "spec.resourceGroups[0].flavors[0].resources[0].lendingLimit": "FieldValueInvalid",
    "spec.preemption": "FieldValueInvalid",
}


def test_a_wrong_queue_is_refused_with_all_its_mistakes_at_once(server: Living) -> None:
    assert causes(server.client.post(QUEUES, json=wrong_queue())) == WRONG
    assert server.client.get(f"{QUEUES}/wrong").status_code == 404


def test_an_update_and_a_patch_are_refused_in_the_same_way(server: Living) -> None:
    present = server.get(f"{QUEUES}/q")
    wrong = {**present, "spec": {**present["spec"], **wrong_queue()["spec"]}}
    assert causes(server.client.put(f"{QUEUES}/q", json=wrong)) == WRONG
    assert causes(server.client.patch(f"{QUEUES}/q", json={"spec": wrong["spec"]}, headers=MERGE)) == WRONG
    assert server.get(f"{QUEUES}/q")["spec"] == present["spec"]


def test_a_dry_run_tells_the_same(server: Living) -> None:
    assert causes(server.client.post(f"{QUEUES}?dryRun=All", json=wrong_queue())) == WRONG


def test_what_may_not_change_while_quota_is_held_is_told_at_once(server: Living) -> None:
    held = server.get(f"{WORKLOADS}/held")
    held["spec"]["podSets"][0]["count"] = 2
    held["spec"]["queueName"] = "other"
    assert causes(server.client.put(f"{WORKLOADS}/held", json=held)) == {
        "spec.podSets": "FieldValueInvalid", "spec.queueName": "FieldValueInvalid",
    }  # fmt: skip


def test_rules_about_workloads_and_flavors_are_told_at_once(server: Living) -> None:
    wrong = workload("wrong")
    wrong["spec"]["podSets"].append({**wrong["spec"]["podSets"][0], "minCount": 3})
    wrong["spec"]["priorityClassRef"] = {"group": "scheduling.k8s.io", "kind": "WorkloadPriorityClass", "name": "x"}
    assert set(causes(server.client.post(WORKLOADS, json=wrong))) == {
        "spec.podSets[1].name", "spec.podSets[1]", "spec.priorityClassRef",
    }  # fmt: skip
    taints = [{"key": "k", "effect": "No"}]
    body = {"metadata": {"name": "wrong"}, "spec": {"nodeLabels": {"a b": "c"}, "nodeTaints": taints}}
    found = causes(server.client.post(f"{QUEUEING}/resourceflavors", json=body))
    assert set(found) == {"spec.nodeTaints[0].effect", "spec.nodeLabels"}


def test_the_official_client_sees_the_causes(server: Living) -> None:
    client = pytest.importorskip("kubernetes.client")
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", **wrong_queue()}
    with server.official_client() as api, pytest.raises(client.ApiException) as refused:
        client.CustomObjectsApi(api).create_cluster_custom_object("kueue.x-k8s.io", "v1beta2", "clusterqueues", body)
    assert refused.value.status == 422
    assert all(path in refused.value.body for path in WRONG)


def test_403_is_left_to_who_may_not(server: Living) -> None:
    token = server.plane.access.issue("somebody", "viewer")
    headers = {"authorization": f"Bearer {token}"}
    refused = server.client.post(QUEUES, json=wrong_queue(), headers=headers)
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")


# --- what is not built says so ---------------------------------------------------------------------------------------


def warnings(answer: httpx2.Response) -> str:
    assert answer.status_code == 201, answer.text
    return " ".join(answer.headers.get_list("warning"))


def inactive(server: Living, name: str, spec: Tree) -> str:
    """Why a queue of this spec admits nothing."""
    assert server.client.post(QUEUES, json={"metadata": {"name": name}, "spec": spec}).status_code == 201

    def reasons() -> list[str]:
        conditions = server.get(f"{QUEUES}/{name}").get("status", {}).get("conditions", [])
        return [each["reason"] for each in conditions if (each["type"], each["status"]) == ("Active", "False")]

    until(reasons, f"a reason of {name}")
    return reasons()[0]


def test_a_topology_leaves_the_queue_inactive(server: Living) -> None:
    body = {"metadata": {"name": "racks"}, "spec": {"topologyName": "t", "nodeLabels": {"a": "b"}}}
    told = warnings(server.client.post(f"{QUEUEING}/resourceflavors", json=body))
    assert "topology-aware scheduling is not part of makeway" in told
    assert inactive(server, "racks", queue_spec("racks")) == "TopologyNotFound"
    assert server.client.get(f"{QUEUEING}/topologies").status_code == 404
    assert server.client.get(f"{QUEUEING}/provisioningrequestconfigs").status_code == 404


def test_checks_of_controllers_that_are_not_here_leave_the_queue_inactive(server: Living) -> None:
    for name in ("multikueue", "provisioning-request"):
        check = {"metadata": {"name": name}, "spec": {"controllerName": f"kueue.x-k8s.io/{name}"}}
        assert server.client.post(f"{QUEUEING}/admissionchecks", json=check).status_code == 201
        spec = queue_spec(admissionChecksStrategy={"admissionChecks": [{"name": name}]})
        assert inactive(server, name, spec) == "AdmissionCheckInactive"


def test_a_queue_with_concurrent_admission_admits_as_one_without(server: Living) -> None:
    server.create(*queue("options", cpu=1, concurrentAdmission={"onSuccess": "RemoveOther"}))
    server.create(workload("plain", queue="options"))
    until(lambda: "plain" in server.holding(), "admission")
    owners = [owner for each in server.items(WORKLOADS) for owner in each["metadata"].get("ownerReferences", ())]
    assert "Workload" not in {each["kind"] for each in owners}, "nobody makes Options"


def test_fields_of_parts_that_are_not_here_are_kept_with_a_warning(server: Living) -> None:
    spec = {"clusterQueue": "q", "fairSharing": {"weight": "2"}}
    path = f"{QUEUEING}/namespaces/default/localqueues"
    answer = server.client.post(path, json={"metadata": {"name": "weighed"}, "spec": spec})
    assert "LocalQueue usage fair sharing is not part of makeway" in warnings(answer)
    assert answer.json()["spec"]["fairSharing"] == {"weight": "2"}


def test_a_job_waits_in_its_queue_as_everywhere(server: Living) -> None:
    server.create(job("as-everywhere"))
    until(lambda: not server.get(f"{JOBS}/as-everywhere")["spec"].get("suspend"), "its start")
    (owned,) = (
        each
        for each in server.items(WORKLOADS)
        if any(owner["name"] == "as-everywhere" for owner in each["metadata"].get("ownerReferences", ()))
    )
    assert owned["spec"]["queueName"] == "q"
