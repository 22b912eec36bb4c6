"""Small worlds by hand: one resource, cpu in whole units, everything in namespace ns."""

from __future__ import annotations

from typing import Any

from tests.model import facts, queues
from tests.model.facts import Raw
from tests.model.world import World, load, make_settings

F = "f"
FR = (F, "cpu")
NOON = facts.millis("2024-01-01T12:00:00Z")
NAMESPACE: Raw = {"kind": "Namespace", "metadata": {"name": "ns"}}


def clock(text: str) -> str:
    return f"2024-01-01T{text + ':00' if text.count(':') == 1 else text}Z"


def at(text: str) -> int:
    return facts.millis(clock(text))


def flavors(*names: str) -> list[Raw]:
    return [{"kind": "ResourceFlavor", "metadata": {"name": n}} for n in names]


def groups(quotas: dict[str, int | Raw]) -> list[Raw]:
    listed = [
        {"name": f, "resources": [{"name": "cpu"} | (q if isinstance(q, dict) else {"nominalQuota": q})]}
        for f, q in quotas.items()
    ]
    return [{"coveredResources": ["cpu"], "flavors": listed}]


def quota(nominal: int, **limits: int) -> Raw:
    return {"nominalQuota": nominal, **limits}


def queue(name: str, quotas: int | Raw, cohort: str | None = "r", **spec: Any) -> list[Raw]:
    by_flavor = quotas if isinstance(quotas, dict) and "nominalQuota" not in quotas else {F: quotas}
    full = {"namespaceSelector": {}, "resourceGroups": groups(by_flavor), **spec}
    if cohort:
        full["cohortName"] = cohort
    local = {"kind": "LocalQueue", "metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterQueue": name}}
    return [{"kind": "ClusterQueue", "metadata": {"name": name}, "spec": full}, local]


def cohort(name: str, parent: str | None = None, own: int = 0) -> Raw:
    spec: Raw = {"resourceGroups": groups({F: own})}
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": spec | ({"parentName": parent} if parent else {})}


def policy(within: str = "Never", reclaim: str = "Never", **more: Any) -> Raw:
    return {"withinClusterQueue": within, "reclaimWithinCohort": reclaim, **more}


def pending(name: str, where: str, size: int, prio: int = 0, created: str = "09:00", **podset: Any) -> Raw:
    pod = {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(size)}}}]}
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": clock(created)},
        "spec": {
            "queueName": where,
            "priority": prio,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}, **podset}],
        },
    }


def running(name: str, where: str, size: int, prio: int = 0, reserved: str = "10:00", **more: Any) -> Raw:
    used_flavor = more.pop("flavor", F)
    wl = pending(name, where, size, prio, **more)
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": used_flavor}, "resourceUsage": {"cpu": str(size)}}
    kinds = ("QuotaReserved", "Admitted")
    wl["status"] = {
        "admission": {"clusterQueue": where, "podSetAssignments": [assigned]},
        "conditions": [
            {"type": k, "status": "True", "reason": k, "lastTransitionTime": clock(reserved)} for k in kinds
        ],
    }
    return wl


def world(*objects: Raw | list[Raw], profile: str = "default", now: int = NOON, **gates: bool) -> World:
    parts = [NAMESPACE, *flavors("f", "f1", "f2", "f3")]
    for raw in objects:
        parts += raw if isinstance(raw, list) else [raw]
    found = load(parts, make_settings(profile, gates))
    queues.fill(found, now)
    return found
