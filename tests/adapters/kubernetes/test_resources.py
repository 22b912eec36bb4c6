"""Kinds by the names that people use for them."""

from __future__ import annotations

import pytest

from makeway.adapters.kubernetes.resources import find_resource, known_resources


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
