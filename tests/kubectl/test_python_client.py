"""A second client: the official one for Python lists, watches, writes and patches, unchanged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.kubectl.conftest import Makeway

pytestmark = pytest.mark.slow
client, config, watch, dynamic = (
    pytest.importorskip(f"kubernetes.{name}") for name in ("client", "config", "watch", "dynamic")
)

QUEUEING = ("kueue.x-k8s.io", "v1beta2")
NAMESPACE = "python-client"


@pytest.fixture(scope="module")
def api(server: Makeway) -> Iterator[Any]:
    with config.new_client_from_config_dict(yaml.safe_load(server.admin)) as api:
        body = {"metadata": {"name": NAMESPACE}}
        client.CoreV1Api(api).create_namespace(body)
        yield api


def job(name: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": {"suspend": True, "template": template}}


def queue(name: str) -> dict[str, Any]:
    api_version = "/".join(QUEUEING)
    return {"apiVersion": api_version, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": {"cohortName": "a"}}


def test_typed_objects_are_created_read_patched_listed_and_deleted(api: Any) -> None:
    jobs = client.BatchV1Api(api)
    made = jobs.create_namespaced_job(NAMESPACE, job("typed"))
    assert made.metadata.uid
    assert made.spec.parallelism == 1
    patched = jobs.patch_namespaced_job(
        "typed", NAMESPACE, {"spec": {"parallelism": 3}, "metadata": {"labels": {"b": "c"}}}
    )
    assert (patched.spec.parallelism, patched.metadata.labels["app"]) == (3, "a")
    assert replaced(jobs, "typed", {"note": "words"}).metadata.annotations["note"] == "words"
    found = jobs.list_namespaced_job(NAMESPACE, label_selector="b=c", limit=1)
    assert [each.metadata.name for each in found.items] == ["typed"]
    jobs.delete_namespaced_job("typed", NAMESPACE, propagation_policy="Background")
    with pytest.raises(client.ApiException) as refused:
        jobs.read_namespaced_job("typed", NAMESPACE)
    assert (refused.value.status, refused.value.reason) == (404, "Not Found")


def replaced(jobs: Any, name: str, annotations: dict[str, str]) -> Any:
    """Read, change, write back; and again after a conflict with a controller, as every client must."""
    for _ in range(20):
        found = jobs.read_namespaced_job(name, NAMESPACE)
        found.metadata.annotations = annotations
        try:
            return jobs.replace_namespaced_job(name, NAMESPACE, found)
        except client.ApiException as error:
            if error.status != 409:
                raise
    raise AssertionError("it is written to all the time")


def test_our_kinds_are_custom_objects(api: Any) -> None:
    custom = client.CustomObjectsApi(api)
    custom.create_cluster_custom_object(*QUEUEING, "clusterqueues", queue("python-client"))
    merged = custom.patch_cluster_custom_object(
        *QUEUEING, "clusterqueues", "python-client", {"spec": {"stopPolicy": "Hold"}}
    )
    assert merged["spec"]["stopPolicy"] == "Hold"
    listed = custom.list_cluster_custom_object(*QUEUEING, "clusterqueues", field_selector="metadata.name=python-client")
    assert [each["spec"]["cohortName"] for each in listed["items"]] == ["a"]
    with pytest.raises(client.ApiException) as refused:
        custom.patch_cluster_custom_object(*QUEUEING, "clusterqueues", "python-client", {"spec": {"stopPolicy": "x"}})
    assert refused.value.status == 422
    causes = yaml.safe_load(refused.value.body)["details"]["causes"]
    assert [each["field"] for each in causes] == ["spec.stopPolicy"]
    older = custom.get_cluster_custom_object("kueue.x-k8s.io", "v1beta1", "clusterqueues", "python-client")
    assert older["spec"]["cohort"] == "a"
    custom.delete_cluster_custom_object(*QUEUEING, "clusterqueues", "python-client")


def test_a_watch_tells_what_happens_and_goes_on_where_it_was(api: Any) -> None:
    core = client.CoreV1Api(api)
    begin = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "w"}, "data": {"a": "1"}})
    core.patch_namespaced_config_map("w", NAMESPACE, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("w", NAMESPACE)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=begin, timeout_seconds=30
    )
    seen = [(each["type"], each["object"].data["a"]) for each in itertools.islice(stream, 3)]
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


def test_a_watch_from_a_forgotten_past_is_told_so(api: Any) -> None:
    core = client.CoreV1Api(api)
    with pytest.raises(client.ApiException) as refused:
        list(core.list_namespaced_config_map(NAMESPACE, resource_version="99999999", watch=False).items)
    assert refused.value.status == 504


def test_the_dynamic_client_finds_kinds_by_itself_and_applies(api: Any) -> None:
    finding = dynamic.DynamicClient(api)
    queues = finding.resources.get(api_version="/".join(QUEUEING), kind="LocalQueue")
    assert queues.short_names == ["queue", "queues", "lq"]
    wanted = {
        "apiVersion": "/".join(QUEUEING), "kind": "LocalQueue", "metadata": {"name": "main", "namespace": NAMESPACE},
        "spec": {"clusterQueue": "c"},
    }  # fmt: skip
    applied = queues.server_side_apply(body=wanted, name="main", namespace=NAMESPACE, field_manager="python")
    assert applied.metadata.managedFields[0].manager == "python"
    assert [each.metadata.name for each in queues.get(namespace=NAMESPACE).items] == ["main"]
    stream = finding.watch(queues, namespace=NAMESPACE, timeout=30)
    assert next(stream)["object"].spec.clusterQueue == "c"


def test_what_one_may_do_and_which_version_it_is(api: Any) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "jobs", "group": "batch"}}}
    assert client.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed
    assert "makeway" in client.VersionApi(api).get_code().git_version
    assert "kueue.x-k8s.io" in [each.name for each in client.ApisApi(api).get_api_versions().groups]
