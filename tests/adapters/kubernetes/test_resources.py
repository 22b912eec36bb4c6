"""The resources of a server, from its discovery, and the names that people use for them."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.adapters.kubernetes.client import Client
from makeway.adapters.kubernetes.resources import find_resource, known_resources
from tests.adapters.kubernetes.https_server import Asked, Handler, Server, says

LISTED: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {
        "kind": "APIResourceList",
        "resources": [
            {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "shortNames": ["po"]},
            {"name": "pods/status", "kind": "Pod", "namespaced": True},
        ],
    },
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "apps",
                "preferredVersion": {"version": "v1"},
                "versions": [{"version": "v1b"}, {"version": "v1"}],
            },
            {"name": "away.example", "versions": [{"version": "v1"}]},
        ],
    },
    "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
    "/apis/apps/v1b": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
}
AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "apps"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "deployments", "singularResource": "deployment", "scope": "Namespaced",
                            "responseKind": {"kind": "Deployment"}, "shortNames": ["deploy"], "verbs": ["list"],
                            "subresources": [{"subresource": "status"}],
                        }
                    ],
                }
            ],
        }
    ],
}  # fmt: skip


def test_resources_are_asked_for_group_by_group_and_once(server: Server, client: Client) -> None:
    def answer(asked: Asked, handler: Handler) -> None:
        if asked.path in LISTED:
            handler.json(200, LISTED[asked.path])
        else:
            says(503, "ServiceUnavailable")(asked, handler)

    server.answer = answer
    found = [(each.api_version, each.plural, each.has_status) for each in client.resources()]
    assert found == [("v1", "pods", True), ("apps/v1", "deployments", False), ("apps/v1b", "deployments", False)]
    count = len(server.asked)
    assert find_resource("deployment", client.resources()) == client.resources()[1]
    assert len(server.asked) == count


def test_or_all_at_once(server: Server, client: Client) -> None:
    empty = {"kind": "APIGroupDiscoveryList", "items": []}
    server.answer = lambda asked, handler: handler.json(200, empty if asked.path == "/api" else AGGREGATED)
    (found,) = client.resources()
    assert (found.full_name, found.namespaced, found.has_status, found.verbs) == (
        "deployment.apps", True, True, ("list",),
    )  # fmt: skip
    assert "APIGroupDiscoveryList" in server.asked[0].headers["accept"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("cq", "clusterqueues.kueue.x-k8s.io/v1beta2"),
        ("ClusterQueue", "clusterqueues.kueue.x-k8s.io/v1beta2"),
        ("workloads", "workloads.kueue.x-k8s.io/v1beta2"),
        ("workload.v1beta1.kueue.x-k8s.io", "workloads.kueue.x-k8s.io/v1beta1"),
        ("workloads.scheduling.makeway.dev", "workloads.scheduling.makeway.dev/v1alpha1"),
        ("gwl", "workloads.scheduling.k8s.io/v1alpha1"),
        ("queues", "localqueues.kueue.x-k8s.io/v1beta2"),
        ("jobs.batch", "jobs.batch/v1"),
        ("po", "pods./v1"),
        ("events.v1.", "events./v1"),
    ],
)
def test_a_resource_goes_by_many_names(name: str, found: str) -> None:
    resource = find_resource(name, known_resources())
    assert resource is not None
    assert f"{resource.plural}.{resource.group}/{resource.version}" == found


def test_what_cannot_be_listed_has_no_name() -> None:
    for name in ("configurations", "bindings", "selfsubjectreviews", "teapots", ""):
        assert find_resource(name, known_resources()) is None
