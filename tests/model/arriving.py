"""Random worlds in which queues that share come one after the other while victims take their time (S-9.14).

A tree that is full of unimportant work, queues with weights that own little or nothing, and more important work that
arrives over many cycles. The claims of one queue then pass to a poorer one. In the form of ``scenarios``.
"""

from __future__ import annotations

from typing import Any

from tests.model.facts import Raw, millis, time_text
from tests.model.scenarios import NOW, STRATEGIES, Dice, Seeded

FLAVOR = "default"
WEIGHTS = [None, "1", "2", "500m", "3"]


def _object(kind: str, name: str, spec: Raw, **metadata: Any) -> Raw:
    version = "v1" if kind == "Namespace" else "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def _quota(cpu: int) -> list[Raw]:
    resources = [{"name": "cpu", "nominalQuota": str(cpu)}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": resources}]}]


def _weighted(dice: Dice, spec: Raw) -> Raw:
    weight = dice.one_of(WEIGHTS)
    return spec if weight is None else {**spec, "fairSharing": {"weight": weight}}


def _queue(dice: Dice, name: str, cohort: str) -> list[Raw]:
    preemption = {
        "withinClusterQueue": dice.one_of(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
        "reclaimWithinCohort": dice.one_of(["LowerPriority", "LowerPriority", "LowerPriority", "Any", "Never"]),
    }
    spec = {
        "namespaceSelector": {},
        "queueingStrategy": dice.one_of(["BestEffortFIFO", "BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"]),
        "resourceGroups": _quota(dice.one_of([0, 0, 0, 1, 2])),
        "preemption": preemption,
        "cohortName": cohort,
    }
    local = _object("LocalQueue", f"lq-{name}", {"clusterQueue": name}, namespace="ns")
    return [_object("ClusterQueue", name, _weighted(dice, spec)), local]


def _work(dice: Dice, name: str, queue: str, priority: int, age_s: int) -> Raw:
    cpu = str(dice.one_of([1, 1, 1, 2]))
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    podset = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": f"lq-{queue}", "priority": priority, "podSets": [podset]}
    created = time_text(millis(NOW) - 1000 * age_s)
    uid = f"{dice.between(0, 99):02}-{name}"
    return _object("Workload", name, spec, namespace="ns", uid=uid, creationTimestamp=created)


def _running(dice: Dice, name: str, queue: str) -> Raw:
    wl = _work(dice, name, queue, dice.one_of([-1, -1, -1, 0]), 3600)
    since = time_text(millis(NOW) - 1000 * dice.between(300, 3000))
    usage = wl["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": FLAVOR}, "resourceUsage": usage}
    wl["status"] = {
        "admission": {"clusterQueue": queue, "podSetAssignments": [assigned]},
        "conditions": [
            {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": since}
            for kind in ("QuotaReserved", "Admitted")
        ],
    }
    return wl


def arrive(dice: Dice, cycles: int | None = None) -> Raw:
    """One scenario from these dice; with a number of cycles, that many and no arrivals after the first."""
    names = [f"cq{i}" for i in range(dice.between(2, 4))]
    inner = dice.one_of(["", "inner"])
    objects = [_object("ResourceFlavor", FLAVOR, {}), _object("Namespace", "ns", {})]
    total = dice.between(4, 8)
    objects.append(_object("Cohort", "root", {"resourceGroups": _quota(total)}))
    if inner:
        objects.append(_object("Cohort", inner, _weighted(dice, {"parentName": "root"})))
    for name in names:
        objects += _queue(dice, name, dice.one_of([inner or "root", "root"]))
    old = [_running(dice, f"a{i}", dice.one_of(names)) for i in range(total)]
    new = [_work(dice, f"p{i}", dice.one_of(names), 0, 60 - i) for i in range(dice.between(1, 3))]
    for wl in new:
        wl["spec"]["priority"] = dice.one_of([100, 100, 100, 10])
    length = dice.between(10, 20) if cycles is None else cycles
    events: list[Raw] = []
    for i in range(1, length if cycles is None else 1):
        if not dice.rarely(2):
            created = _work(dice, f"n{i}", dice.one_of(names), dice.one_of([100, 100, 100, 10]), -i)
            events.append({"afterCycle": i, "create": [created]})
        if dice.rarely(12):
            events.append({"afterCycle": i, "delete": [f"ns/{dice.one_of([*old, *new])['metadata']['name']}"]})
    keys = [f"ns/{wl['metadata']['name']}" for wl in (*old, *new)]
    return {
        "now": NOW,
        "featureGates": {},
        "objects": objects + old + new,
        "cycles": length,
        "stepMillis": 1000 * dice.one_of([1, 10, 30]),
        "leaving": {key: [dice.between(2, 8)] for key in keys},
        "events": events,
        "config": {"fairSharing": {"preemptionStrategies": dice.one_of(STRATEGIES)}},
    }


def arriving(seed: int, cycles: int | None = None) -> Raw:
    """The arrivals of a seed."""
    return arrive(Seeded(seed), cycles)
