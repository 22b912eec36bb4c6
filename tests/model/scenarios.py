"""Random worlds as plain data: from a seed, or drawn (and shrunk) by hypothesis.

A scenario has the form of an oracle vector: ``now``, ``objects``, ``featureGates``, ``cycles``, ``events``, and
``stepMillis`` from one cycle to the next. ``leaving`` says how many further cycles the evictions of a workload take:
the first, the second and so on, from the start again at the end of the list. A workload that is not named is gone
before the next cycle. All objects are valid by the API reference. The first value of each choice is the plainest, so
that hypothesis shrinks towards it.

``build`` is the broad mix. ``contend`` makes few queues quarrel for long, over little quota, by every kind of policy.
``share_fairly`` adds fair sharing to either: strategies and weights. ``rotate`` is about turns: equals in few queues
with minAdmitDuration, lent quota, victims that take their time, owners of several workloads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from tests.model.facts import Raw, millis, time_text

NOW = "2024-01-01T12:00:00Z"
T = TypeVar("T")

FLAVORS = ["on-demand", "spot", "reserved"]
SECOND_RESOURCES = ["memory", "example.com/gpu"]
TAINT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
GATES = {
    "PartialAdmission": False,
    "FlavorFungibility": False,
    "PrioritySortingWithinCohort": False,
    "SchedulingEquivalenceHashing": False,
    "ReclaimablePods": False,
    "RecomputeAssignmentUponPreemptionTargetsOverlap": False,
    "PriorityBoost": True,
    "PrioritizePreemptorWorkloads": True,
    "TimeBasedSamePriorityPreemption": False,
}


class Dice(Protocol):
    """The source of the choices."""

    def between(self, low: int, high: int) -> int: ...

    def one_of(self, values: Sequence[T]) -> T: ...

    def rarely(self, one_in: int) -> bool: ...


class Seeded:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def one_of(self, values: Sequence[T]) -> T:
        return values[self._random.randrange(len(values))]

    def rarely(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == one_in - 1


class Drawn:
    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def between(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def one_of(self, values: Sequence[T]) -> T:
        return self._draw(st.sampled_from(values))

    def rarely(self, one_in: int) -> bool:
        return self._draw(st.integers(0, one_in - 1)) == one_in - 1


@dataclass(frozen=True)
class Group:
    """A resource group of every ClusterQueue of the scenario."""

    resources: list[str]
    flavors: list[str]


def _object(kind: str, name: str, spec: Raw, **metadata: Any) -> Raw:
    core = kind in ("Namespace", "LimitRange")
    found: Raw = {"apiVersion": "v1" if core else "kueue.x-k8s.io/v1beta2", "kind": kind}
    found["metadata"] = {"name": name, **metadata}
    return found | ({} if kind == "Namespace" else {"spec": spec})


def _amount(resource: str, n: int) -> str:
    return f"{n}Gi" if resource == "memory" else str(n)


def _flavor(dice: Dice, name: str) -> Raw:
    spec: Raw = {"nodeLabels": {"tier": name}}
    if dice.rarely(6):
        spec["nodeTaints"] = [TAINT]
        if dice.rarely(3):
            spec["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    return _object("ResourceFlavor", name, spec)


def _groups(dice: Dice) -> list[Group]:
    flavors = FLAVORS[: dice.between(1, 3)]
    resources = ["cpu"]
    if dice.rarely(2):
        resources.append(dice.one_of(SECOND_RESOURCES))
    if len(resources) == 2 and len(flavors) > 1 and dice.rarely(3):
        cut = dice.between(1, len(flavors) - 1)
        groups = [Group(resources[:1], flavors[:cut]), Group(resources[1:], flavors[cut:])]
    else:
        groups = [Group(resources, flavors)]
    if dice.rarely(6):
        groups[0] = Group([*groups[0].resources, "pods"], groups[0].flavors)
    return groups


def _quota(dice: Dice, resource: str, most: int, in_tree: bool, lend_above: bool) -> Raw:
    nominal = min(most, dice.one_of([4, 0, 6, 8, 2, 10]))
    quota: Raw = {"name": resource, "nominalQuota": _amount(resource, nominal)}
    if in_tree and dice.rarely(4):
        quota["borrowingLimit"] = _amount(resource, dice.between(0, 4))
    if in_tree and dice.rarely(4):
        quota["lendingLimit"] = _amount(resource, dice.between(0, most if lend_above else nominal))
    return quota


def _resource_groups(dice: Dice, groups: list[Group], most: int, in_tree: bool, lend_above: bool = False) -> list[Raw]:
    found = []
    for group in groups:
        start = dice.between(0, len(group.flavors) - 1) if len(group.flavors) > 1 and dice.rarely(4) else 0
        flavors = [
            {"name": f, "resources": [_quota(dice, r, most, in_tree, lend_above) for r in group.resources]}
            for f in group.flavors[start:]
        ]
        found.append({"coveredResources": group.resources, "flavors": flavors})
    return found


def _cohorts(dice: Dice, groups: list[Group]) -> tuple[list[str], list[Raw]]:
    """Names of all cohorts, and the objects of those that have one."""
    levels = dice.between(0, 3)
    parents = {"root": ""} if levels else {}
    if levels > 1:
        parents |= {f"team{i}": "root" for i in range(dice.between(1, 2))}
    if levels > 2:
        teams = [name for name in parents if name != "root"]
        parents |= {f"squad{i}": dice.one_of(teams) for i in range(dice.between(1, 2))}
    objects = []
    for name, parent in parents.items():
        spec: Raw = {"parentName": parent} if parent else {}
        if dice.rarely(3):
            spec["resourceGroups"] = _resource_groups(dice, groups, 4, bool(parent), lend_above=True)
        if spec:
            objects.append(_object("Cohort", name, spec))
    return list(parents), objects


def _preemption(dice: Dice, in_cohort: bool) -> Raw:
    within = dice.one_of(["Never", "LowerPriority", *["LowerOrNewerEqualPriority"] * 2])
    found: Raw = {"withinClusterQueue": within, "reclaimWithinCohort": "Never"}
    if within == "LowerOrNewerEqualPriority" and dice.rarely(2):
        found["withinClusterQueueConfig"] = {"minAdmitDuration": dice.one_of(["1m", "30m", "1h"])}
    if in_cohort:
        found["reclaimWithinCohort"] = dice.one_of(["Never", "Any", "LowerPriority", "Any"])
        if found["reclaimWithinCohort"] != "Never" and dice.rarely(2):
            found["borrowWithinCohort"] = {"policy": "LowerPriority"}
            if dice.rarely(2):
                found["borrowWithinCohort"]["maxPriorityThreshold"] = dice.between(-1, 2)
    return found


def _fungibility(dice: Dice) -> Raw:
    when = ["MayStopSearch", "TryNextFlavor"]
    found: Raw = {"whenCanBorrow": dice.one_of(when), "whenCanPreempt": dice.one_of(when[::-1])}
    if set(found.values()) == {"TryNextFlavor"} and dice.rarely(2):
        found["preference"] = dice.one_of(["BorrowingOverPreemption", "PreemptionOverBorrowing"])
    return found


def _queue(dice: Dice, name: str, groups: list[Group], cohorts: list[str]) -> list[Raw]:
    cohort = None if not cohorts or dice.rarely(8) else dice.one_of(cohorts)
    spec: Raw = {
        "namespaceSelector": {},
        "queueingStrategy": dice.one_of(["BestEffortFIFO", "StrictFIFO"]),
        "resourceGroups": _resource_groups(dice, groups, 10, cohort is not None),
        "preemption": _preemption(dice, cohort is not None),
        "flavorFungibility": _fungibility(dice),
    }
    if cohort is not None:
        spec["cohortName"] = cohort
    if dice.rarely(16):
        spec["stopPolicy"] = "Hold"
    local = _object("LocalQueue", f"lq-{name}", {"clusterQueue": name}, namespace="ns")
    return [_object("ClusterQueue", name, spec), local]


def _pod(dice: Dice, groups: list[Group]) -> Raw:
    resources = [r for g in groups for r in g.resources if r != "pods"]
    wanted = [r for i, r in enumerate(resources) if i == 0 or not dice.rarely(4)]
    requests = {r: _amount(r, dice.one_of([1, 2, 3])) for r in wanted}
    if dice.rarely(8):
        requests["cpu"] = "500m"
    pod: Raw = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if dice.rarely(3):
        pod["tolerations"] = [{"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    if dice.rarely(8):
        pod["nodeSelector"] = {"tier": dice.one_of(FLAVORS)}
    return pod


def _workload(dice: Dice, name: str, queue: str, groups: list[Group]) -> Raw:
    """A pending workload; equal times and priorities are frequent on purpose."""
    podsets = []
    for podset in ["main"] if not dice.rarely(4) else ["driver", "workers"]:
        found: Raw = {
            "name": podset,
            "count": dice.one_of([1, 1, 2, 1, 3, 4]),
            "template": {"spec": _pod(dice, groups)},
        }
        podsets.append(found)
    if podsets[-1]["count"] > 1 and dice.rarely(4):
        podsets[-1]["minCount"] = dice.between(1, podsets[-1]["count"] - 1)
    metadata: Raw = {
        "namespace": "ns",
        "uid": f"{dice.between(0, 99):02}-{name}",
        "creationTimestamp": time_text(millis(NOW) - 1000 * 600 * dice.between(6, 12)),
    }
    if dice.rarely(12):
        metadata["annotations"] = {"kueue.x-k8s.io/priority-boost": str(dice.between(-1, 2))}
    spec = {"queueName": f"lq-{queue}", "priority": dice.one_of([0, 0, 1, -1, 2]), "podSets": podsets}
    found = _object("Workload", name, spec, **metadata)
    if podsets[0]["count"] > 1 and dice.rarely(12):
        found["status"] = {"reclaimablePods": [{"name": podsets[0]["name"], "count": 1}]}
    return found


def _condition(kind: str, reason: str, at: str) -> Raw:
    return {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}


def _times(text: str, count: int) -> str:
    return f"{int(text[:-2]) * count}Gi" if text.endswith("Gi") else _times_plain(text, count)


def _times_plain(text: str, count: int) -> str:
    return f"{int(text[:-1]) * count}m" if text.endswith("m") else str(int(text) * count)


def _run(dice: Dice, wl: Raw, queue: Raw) -> None:
    """Give a workload quota, whether that is free or not: a few scenarios start above quota."""
    assigned = []
    for podset in wl["spec"]["podSets"]:
        requests = dict(podset["template"]["spec"]["containers"][0]["resources"]["requests"])
        usage = {r: _times(q, podset["count"]) for r, q in requests.items()}
        flavors: dict[str, str] = {}
        for group in queue["spec"]["resourceGroups"]:
            flavor = dice.one_of([f["name"] for f in group["flavors"]])
            if "pods" in group["coveredResources"]:
                usage["pods"] = str(podset["count"])
            flavors |= {r: flavor for r in group["coveredResources"] if r in usage}
        assigned.append({"name": podset["name"], "count": podset["count"], "flavors": flavors, "resourceUsage": usage})
    since = time_text(millis(NOW) - 1000 * 300 * dice.between(0, 13))
    conditions = [_condition("QuotaReserved", "QuotaReserved", since), _condition("Admitted", "Admitted", since)]
    if dice.rarely(16):
        conditions += [_condition("Evicted", "Preempted", NOW), _condition("Preempted", "InClusterQueue", NOW)]
    admission = {"clusterQueue": queue["metadata"]["name"], "podSetAssignments": assigned}
    wl["status"] = wl.get("status", {}) | {"admission": admission, "conditions": conditions}


def _events(dice: Dice, cycles: int, keys: list[str], queues: list[str], groups: list[Group]) -> list[Raw]:
    found: list[Raw] = []
    for i in range(1, cycles):
        if keys and dice.rarely(3):
            found.append({"afterCycle": i, "delete": [dice.one_of(keys)]})
        if dice.rarely(3):
            found.append({"afterCycle": i, "create": [_workload(dice, f"n{i}", dice.one_of(queues), groups)]})
    return found


def build(dice: Dice) -> Raw:
    """One scenario from these dice."""
    groups = _groups(dice)
    cohorts, objects = _cohorts(dice, groups)
    objects = [_flavor(dice, f) for g in groups for f in g.flavors] + objects
    names = [f"cq{i}" for i in range(dice.one_of([2, 1, 3, 4, 3, 5, 6]))]
    queues = {name: _queue(dice, name, groups, cohorts) for name in names}
    objects += [raw for both in queues.values() for raw in both]
    objects.append(_object("Namespace", "ns", {}))
    workloads = []
    for i in range(dice.between(0, 10)):
        name = dice.one_of(names)
        workloads.append(_workload(dice, f"a{i}", name, groups))
        workloads[-1]["spec"]["priority"] = dice.one_of([0, -1, 0, 1])
        _run(dice, workloads[-1], queues[name][0])
    workloads += [_workload(dice, f"p{i}", dice.one_of(names), groups) for i in range(dice.between(1, 8))]
    cycles = dice.between(1, 4)
    gates = {gate: value for gate, value in GATES.items() if dice.rarely(16)}
    return {
        "now": NOW,
        "featureGates": gates,
        "objects": objects + workloads,
        "cycles": cycles,
        "stepMillis": 1000 * dice.one_of([10, 60, 600]),
        "events": _events(dice, cycles, [f"ns/{w['metadata']['name']}" for w in workloads], names, groups),
    }


def _quarrel(dice: Dice, in_cohort: bool) -> Raw:
    """A preemption policy that takes from others."""
    within = dice.one_of(["LowerPriority", "LowerOrNewerEqualPriority", "LowerOrNewerEqualPriority", "Never"])
    found: Raw = {"withinClusterQueue": within, "reclaimWithinCohort": "Never"}
    if within == "LowerOrNewerEqualPriority" and dice.rarely(6):
        found["withinClusterQueueConfig"] = {"minAdmitDuration": "1m"}
    if in_cohort:
        found["reclaimWithinCohort"] = dice.one_of(["Any", "LowerPriority", "Any", "Never"])
        if found["reclaimWithinCohort"] != "Never" and not dice.rarely(3):
            found["borrowWithinCohort"] = {"policy": "LowerPriority"}
            if dice.rarely(4):
                found["borrowWithinCohort"]["maxPriorityThreshold"] = dice.between(-1, 1)
    return found


def _contender(dice: Dice, name: str, queue: str, groups: list[Group]) -> Raw:
    """A workload as in the broad mix, more often in two parts, to be reduced, or behind a gate."""
    wl = _workload(dice, name, queue, groups)
    podsets = wl["spec"]["podSets"]
    for podset in podsets:
        podset["count"] = min(podset["count"], 2)
        podset.pop("minCount", None)
    if podsets[-1]["count"] > 1 and dice.rarely(2):
        podsets[-1]["minCount"] = dice.between(1, podsets[-1]["count"] - 1)
    if dice.rarely(6):
        podsets[0]["template"]["spec"]["terminationGracePeriodSeconds"] = dice.one_of([0, 60, 600])
    if dice.rarely(8):
        wl["spec"]["preemptionGates"] = [{"name": "example.com/gate"}]
        state = dice.one_of(["Open", "Open", "Closed"])
        gate = {"name": "example.com/gate", "state": state, "lastTransitionTime": NOW}
        wl["status"] = wl.get("status", {}) | {"preemptionGates": [gate]}
    return wl


def _leaving(dice: Dice, keys: list[str]) -> dict[str, list[int]]:
    """How long evictions take: in half of all scenarios none takes long, in a few a victim hardly ever goes."""
    if dice.rarely(2):
        return {key: [dice.between(1, 4) for _ in range(3)] if not dice.rarely(16) else [40] for key in keys}
    return {}


def contend(dice: Dice, cycles: int | None = None) -> Raw:
    """One scenario from these dice; with a number of cycles, that many and no events, to see whether it settles."""
    groups = _groups(dice) if dice.rarely(3) else [Group(["cpu"], FLAVORS[: dice.between(1, 2)])]
    cohorts, objects = _cohorts(dice, groups) if dice.rarely(2) else (["root"], [])
    objects = [_flavor(dice, f) for g in groups for f in g.flavors] + objects
    names = [f"cq{i}" for i in range(dice.one_of([2, 3, 3, 4]))]
    queues = {name: _queue(dice, name, groups, cohorts) for name in names}
    for queue, _ in queues.values():
        in_cohort = "cohortName" in queue["spec"]
        queue["spec"]["resourceGroups"] = _resource_groups(dice, groups, 4, in_cohort)
        queue["spec"]["preemption"] = _quarrel(dice, in_cohort)
        queue["spec"]["queueingStrategy"] = dice.one_of(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"])
    objects += [raw for both in queues.values() for raw in both]
    objects.append(_object("Namespace", "ns", {}))
    workloads = []
    for i in range(dice.between(0, 6)):
        name = dice.one_of(names)
        workloads.append(_contender(dice, f"a{i}", name, groups))
        _run(dice, workloads[-1], queues[name][0])
    workloads += [_contender(dice, f"p{i}", dice.one_of(names), groups) for i in range(dice.between(3, 12))]
    keys = [f"ns/{w['metadata']['name']}" for w in workloads]
    length = dice.between(4, 12) if cycles is None else cycles
    quiet = cycles is not None or dice.rarely(2)
    return {
        "now": NOW,
        "featureGates": {gate: value for gate, value in GATES.items() if dice.rarely(24)},
        "objects": objects + workloads,
        "cycles": length,
        "stepMillis": 1000 * dice.one_of([10, 10, 10, 60, 600]),
        "leaving": _leaving(dice, keys),
        "events": [] if quiet else _events(dice, length, keys, names, groups),
    }


def contended(seed: int, cycles: int | None = None) -> Raw:
    """The quarrel of a seed."""
    return contend(Seeded(seed), cycles)


@st.composite
def quarrels(draw: st.DrawFn) -> Raw:
    """Quarrels for hypothesis."""
    return contend(Drawn(draw))


STRATEGIES = [
    ["LessThanOrEqualToFinalShare", "LessThanInitialShare"],
    ["LessThanOrEqualToFinalShare"],
    ["LessThanInitialShare"],
]
WEIGHTS = [None, None, "1", "2", "500m", "0", "3", "1n"]
FAIR_GATES = {"FairSharingPreemptWithinNominal": False, "FairSharingPrioritizeNonBorrowing": False}


def share_fairly(dice: Dice, scenario: Raw) -> Raw:
    """The same scenario with one of the three lists of strategies, and weights here and there."""
    for raw in scenario["objects"]:
        if raw["kind"] in ("ClusterQueue", "Cohort"):
            weight = dice.one_of(WEIGHTS)
            if weight is not None:
                raw["spec"]["fairSharing"] = {"weight": weight}
            if raw["kind"] == "ClusterQueue" and raw["spec"].get("cohortName") and not dice.rarely(4):
                raw["spec"]["preemption"]["reclaimWithinCohort"] = "Any"
    gates = {gate: value for gate, value in FAIR_GATES.items() if dice.rarely(16)}
    return scenario | {
        "config": {"fairSharing": {"preemptionStrategies": dice.one_of(STRATEGIES)}},
        "featureGates": scenario["featureGates"] | gates,
    }


def fair(seed: int, cycles: int | None = None) -> Raw:
    """The fair scenario of a seed: every third is of the broad mix, the others are quarrels."""
    dice = Seeded(seed)
    return share_fairly(dice, build(dice) if seed % 3 == 0 and cycles is None else contend(dice, cycles))


def seeded(seed: int) -> Raw:
    """The scenario of a seed."""
    return build(Seeded(seed))


@st.composite
def scenarios(draw: st.DrawFn) -> Raw:
    """Scenarios for hypothesis."""
    return build(Drawn(draw))


# turns (S-7.14), holds for entitled workloads (S-5.14), counts that end (S-19.3)


def _turning(dice: Dice, in_cohort: bool) -> Raw:
    """A policy under which equals mostly take turns; quota that is lent does not come back by force."""
    within = dice.one_of([*["LowerOrNewerEqualPriority"] * 6, "LowerPriority", "Never"])
    found: Raw = {"withinClusterQueue": within, "reclaimWithinCohort": "Never"}
    if within == "LowerOrNewerEqualPriority" and not dice.rarely(8):
        found["withinClusterQueueConfig"] = {"minAdmitDuration": "1m"}
    if in_cohort:
        found["reclaimWithinCohort"] = dice.one_of(["Never", "LowerPriority", "Never", "LowerPriority", "Any"])
        if found["reclaimWithinCohort"] != "Never" and dice.rarely(3):
            found["borrowWithinCohort"] = {"policy": "LowerPriority"}
    return found


def _turning_queue(dice: Dice, name: str, flavors: list[str], in_cohort: bool) -> list[Raw]:
    quotas: list[Raw] = [
        {"name": f, "resources": [{"name": "cpu", "nominalQuota": str(dice.one_of([2, 3, 4, 0 if in_cohort else 2]))}]}
        for f in flavors
    ]
    if in_cohort and dice.rarely(5):
        quotas[0]["resources"][0]["borrowingLimit"] = str(dice.between(0, 2))
    if in_cohort and dice.rarely(5):
        quotas[0]["resources"][0]["lendingLimit"] = str(dice.between(0, 1))
    spec: Raw = {
        "namespaceSelector": {},
        "queueingStrategy": dice.one_of(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"]),
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
        "preemption": _turning(dice, in_cohort),
    }
    if in_cohort:
        spec["cohortName"] = "root"
    local = _object("LocalQueue", f"lq-{name}", {"clusterQueue": name}, namespace="ns")
    return [_object("ClusterQueue", name, spec), local]


def _turner(dice: Dice, name: str, queue: str, sizes: Sequence[int] = (1, 2, 1, 3, 2)) -> Raw:
    """One of many workloads that are alike; a few have an owner, and some of those share it."""
    size = str(dice.one_of(sizes))
    podset: Raw = {
        "name": "main",
        "count": dice.one_of([1, 1, 1, 1, 2]),
        "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": size}}}]}},
    }
    if podset["count"] > 1 and dice.rarely(2):
        podset["minCount"] = 1
    metadata: Raw = {
        "namespace": "ns",
        "uid": f"{dice.between(0, 99):02}-{name}",
        "creationTimestamp": time_text(millis(NOW) - 1000 * 60 * dice.one_of([5, 5, 4, 10, 2])),
    }
    if dice.rarely(4):
        job = dice.one_of(["j0", "j1", "j2", name])
        again = dice.rarely(6)  # a job that was deleted and made again
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"{job}-{int(again)}"}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    spec = {"queueName": f"lq-{queue}", "priority": dice.one_of([*[0] * 8, 1, -1]), "podSets": [podset]}
    return _object("Workload", name, spec, **metadata)


def _has_run(dice: Dice, wl: Raw) -> None:
    """It ran before; some were displaced by time just now."""
    status: Raw = {"accumulatedPastExecutionTimeSeconds": dice.one_of([60, 120, 61])}
    if dice.rarely(2):
        since = time_text(millis(NOW) - 1000 * dice.one_of([20, 59, 60, 61, 90, 120]))
        status["conditions"] = [
            _condition("Evicted", "Preempted", since),
            _condition("Preempted", "InClusterQueueTimeBased", since),
            _condition("Requeued", "Preempted", since),
        ]
    wl["status"] = status


def _is_running(dice: Dice, wl: Raw, queue: Raw) -> None:
    _run(dice, wl, queue)
    if not dice.rarely(4):  # older than all that wait
        wl["metadata"]["creationTimestamp"] = time_text(millis(NOW) - 1000 * 60 * 15)
    since = time_text(millis(NOW) - 1000 * dice.one_of([30, 55, 60, 61, 90, 20, 700]))
    for condition in wl["status"]["conditions"]:
        if condition["type"] in ("QuotaReserved", "Admitted"):
            condition["lastTransitionTime"] = since
    if dice.rarely(4):
        wl["status"]["accumulatedPastExecutionTimeSeconds"] = dice.one_of([60, 120])


def rotate(dice: Dice, cycles: int | None = None) -> Raw:
    """One scenario of turns from these dice; with a number of cycles, that many and no events."""
    flavors = FLAVORS[:1] if not dice.rarely(5) else FLAVORS[:2]
    names = [f"cq{i}" for i in range(dice.one_of([1, 2, 2, 3]))]
    in_cohort = {name: len(names) > 1 and not dice.rarely(6) for name in names}
    queues = {name: _turning_queue(dice, name, flavors, in_cohort[name]) for name in names}
    objects = [_object("ResourceFlavor", f, {"nodeLabels": {"tier": f}}) for f in flavors]
    objects += [raw for both in queues.values() for raw in both]
    objects.append(_object("Namespace", "ns", {}))
    workloads = []
    for i in range(dice.between(0, 6)):
        name = dice.one_of(names)
        workloads.append(_turner(dice, f"a{i}", name, (1, 1, 1, 2)))
        _is_running(dice, workloads[-1], queues[name][0])
    for i in range(dice.between(2, 8)):
        workloads.append(_turner(dice, f"p{i}", dice.one_of(names)))
        if dice.rarely(4):
            _has_run(dice, workloads[-1])
    keys = [f"ns/{w['metadata']['name']}" for w in workloads]
    length = dice.between(8, 25) if cycles is None else cycles
    events: list[Raw] = []
    for i in range(1, length if cycles is None else 1):
        if dice.rarely(8):
            events.append({"afterCycle": i, "delete": [dice.one_of(keys)]})
        if dice.rarely(8):
            events.append({"afterCycle": i, "create": [_turner(dice, f"n{i}", dice.one_of(names))]})
    return {
        "now": NOW,
        "featureGates": {gate: value for gate, value in GATES.items() if dice.rarely(32)},
        "objects": objects + workloads,
        "cycles": length,
        "stepMillis": 1000 * dice.one_of([10, 60, 30, 10]),
        "leaving": _leaving(dice, keys),
        "events": events,
    }


def rotating(seed: int, cycles: int | None = None) -> Raw:
    """The turns of a seed."""
    return rotate(Seeded(seed), cycles)


@st.composite
def turns(draw: st.DrawFn) -> Raw:
    """Turns for hypothesis."""
    return rotate(Drawn(draw))
