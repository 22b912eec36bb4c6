"""Wire objects in few words: queues, cohorts, flavors, checks, and Workloads that wait, hold or are done.

Amounts are cores of the flavor ``f`` unless a test names others, as ``{"spot": {"cpu": 2, "memory": "1Gi"}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makeway.api.codec import read
from makeway.api.objects.queueing import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from makeway.api.objects.workload import Workload

KUEUE = "kueue.x-k8s.io/v1beta2"
IN_USE = "kueue.x-k8s.io/resource-in-use"
NOON = "2026-01-01T12:00:00Z"
Amounts = int | str | Mapping[str, Mapping[str, Any]]


def wire(kind: str, name: str, spec: Mapping[str, Any], status: Mapping[str, Any] | None = None, **meta: Any) -> Any:
    metadata = {"name": name, "uid": f"{kind}-{name}", "generation": 1, **meta}
    tree = {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": dict(spec)}
    found = read({**tree, **({"status": dict(status)} if status else {})}, limits=False)
    assert found.value is not None, found.problems
    return found.value


def by_flavor(amounts: Amounts) -> Mapping[str, Mapping[str, Any]]:
    return amounts if isinstance(amounts, Mapping) else {"f": {"cpu": amounts}}


def groups(nominal: Amounts, **limits: Any) -> list[dict[str, Any]]:
    """One group; ``limits`` go with every quota."""
    flavors = by_flavor(nominal)
    covered = list(next(iter(flavors.values()), ()))
    return [
        {
            "coveredResources": covered,
            "flavors": [
                {"name": name, "resources": [{"name": r, "nominalQuota": str(q), **limits} for r, q in table.items()]}
                for name, table in flavors.items()
            ],
        }
    ]


def cluster_queue(
    name: str = "q", nominal: Amounts = 4, *, limits: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None, finalizers: list[str] | None = None, **spec: Any,
) -> ClusterQueue:  # fmt: skip
    kept = {"finalizers": [IN_USE] if finalizers is None else finalizers, **(meta or {})}
    whole = {"resourceGroups": groups(nominal, **(limits or {})), "namespaceSelector": {}, **spec}
    found = wire("ClusterQueue", name, whole, **kept)
    assert isinstance(found, ClusterQueue)
    return found


def cohort(name: str, nominal: Amounts | None = None, **spec: Any) -> Cohort:
    found = wire("Cohort", name, {**({} if nominal is None else {"resourceGroups": groups(nominal)}), **spec})
    assert isinstance(found, Cohort)
    return found


def local_queue(name: str = "lq", queue: str = "q", *, namespace: str = "default", **spec: Any) -> LocalQueue:
    found = wire("LocalQueue", name, {"clusterQueue": queue, **spec}, namespace=namespace)
    assert isinstance(found, LocalQueue)
    return found


def flavor(name: str = "f", *, meta: Mapping[str, Any] | None = None, **spec: Any) -> ResourceFlavor:
    found = wire("ResourceFlavor", name, spec, **{"finalizers": [IN_USE], **(meta or {})})
    assert isinstance(found, ResourceFlavor)
    return found


def check(name: str, *, active: bool = True, controller: str = "example.com/audit", **meta: Any) -> AdmissionCheck:
    state = condition("Active", active, "Active")
    found = wire(
        "AdmissionCheck", name, {"controllerName": controller}, {"conditions": [state]},
        **{"finalizers": [IN_USE], **meta},
    )  # fmt: skip
    assert isinstance(found, AdmissionCheck)
    return found


def condition(type: str, holds: bool = True, reason: str = "Because") -> dict[str, Any]:
    status = "True" if holds else "False"
    return {"type": type, "status": status, "reason": reason, "message": "", "lastTransitionTime": NOON}


def workload(
        name: str, *conditions: dict[str, Any], local: str = "lq", namespace: str = "default", count: int = 1,
        status: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None, **spec: Any,
) -> Workload:  # fmt: skip
    """A Workload that waits, unless ``status`` or conditions say otherwise."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    pod_sets = [{"name": "main", "count": count, "template": {"spec": {"containers": containers}}}]
    whole = {"conditions": list(conditions), **(status or {})}
    place = {"namespace": namespace, "creationTimestamp": NOON, **(meta or {})}
    found = wire("Workload", name, {"podSets": pod_sets, "queueName": local, **spec}, whole, **place)
    assert isinstance(found, Workload)
    return found


def holder(
    name: str, use: Amounts = 1, *conditions: dict[str, Any], queue: str = "q", admitted: bool = True, count: int = 1,
    says_count: bool = True, status: Mapping[str, Any] | None = None, **settings: Any,
) -> Workload:  # fmt: skip
    """A Workload with quota: ``use`` in all, of one flavor per resource."""
    table = by_flavor(use)
    flavors = {resource: name for name, each in table.items() for resource in each}
    amounts = {resource: str(amount) for each in table.values() for resource, amount in each.items()}
    part = {"name": "main", "flavors": flavors, "resourceUsage": amounts, **({"count": count} if says_count else {})}
    has = [condition("QuotaReserved"), *([condition("Admitted")] if admitted else []), *conditions]
    admission = {"clusterQueue": queue, "podSetAssignments": [part]}
    return workload(name, *has, count=count, status={"admission": admission, **(status or {})}, **settings)


def option(parent: str, **settings: Any) -> dict[str, Any]:
    """Settings for ``workload`` and ``holder`` that make a Workload an Option of ``parent``."""
    owner = {"apiVersion": KUEUE, "kind": "Workload", "name": parent, "uid": f"Workload-{parent}", "controller": True}
    return {"meta": {"ownerReferences": [owner]}, "workloadMode": {"type": "ResourceFlavorOption"}, **settings}
