"""Queues, cohorts, flavors and whole states from the wire; what is refused before it gets here (8522-9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from makeway.api.codec import read
from makeway.api.objects.workload import WorkloadStatus
from makeway.api.quantity import decode_hook
from makeway.api.validation import validate
from makeway.core.amounts import UNLIMITED
from makeway.core.lowering import cohort_of, flavor_of, inactive_reasons, load_state, queue_of
from makeway.core.lowering.queues import selector_of
from makeway.core.model import Expression, Millis, QueueName
from makeway.core.policy import Policy
from makeway.core.state import State

KUEUE = "kueue.x-k8s.io/v1beta2"


def parsed(kind: str, name: str, spec: dict[str, Any] | None = None, **meta: Any) -> Any:
    api = "v1" if kind == "Namespace" else KUEUE
    tree = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}, **({"spec": spec} if spec else {})}
    found = read(tree, limits=False)
    assert found.value is not None, found.problems
    return found.value


def group(**quotas: dict[str, Any]) -> dict[str, Any]:
    flavors = [{"name": name, "resources": [{"name": "cpu", **each}]} for name, each in quotas.items()]
    return {"coveredResources": ["cpu"], "flavors": flavors}


def cluster_queue(**spec: Any) -> Any:
    return parsed("ClusterQueue", "q", {"resourceGroups": [group(f={"nominalQuota": "4"})], **spec})


def test_a_queue_with_everything_said() -> None:
    line, quota = queue_of(
        cluster_queue(
            cohortName="r",
            queueingStrategy="StrictFIFO",
            namespaceSelector={"matchLabels": {"a": "b"}},
            flavorFungibility={
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "MayStopSearch",
                "preference": "PreemptionOverBorrowing",
            },
            preemption={
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "withinClusterQueueConfig": {"minAdmitDuration": "10m"},
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 5},
            },
            resourceGroups=[group(f={"nominalQuota": "1500m", "borrowingLimit": "2", "lendingLimit": "1"})],
        )
    )  # fmt: skip
    fr = ("f", "cpu")
    assert (quota.name, quota.parent) == ("q", "r")
    assert (quota.nominal, quota.borrowing, quota.lending) == ({fr: 1500}, {fr: 2000}, {fr: 1000})
    assert (line.strict, line.try_next_when_borrowing, line.try_next_when_preempting) == (True, True, False)
    assert (line.prefer_preemption, line.within, line.min_admit) == (True, "LowerOrNewerEqualPriority", 600_000)
    assert (line.reclaim, line.borrow, line.threshold) == ("Any", "LowerPriority", 5)
    assert line.namespaces == (Expression("a", "In", ("b",)),)


def test_a_queue_with_nothing_said() -> None:
    line, quota = queue_of(cluster_queue())
    assert (line.within, line.reclaim, line.borrow, line.min_admit) == ("Never", "Never", "Never", None)
    assert (line.strict, line.namespaces, quota.borrowing, quota.lending) == (False, None, {}, {})
    assert (line.active, line.inactive_because) == (True, "")


def test_P21_quota_beyond_64_bits_is_unlimited() -> None:
    huge = group(f={"nominalQuota": "9223372036854775807"})
    assert list(queue_of(cluster_queue(resourceGroups=[huge]))[1].nominal.values()) == [UNLIMITED]
    below = group(f={"nominalQuota": "9223372036854775"})
    found = queue_of(cluster_queue(resourceGroups=[below]))[1]
    assert list(found.nominal.values()) == [9223372036854775000]


def test_cohorts_and_flavors() -> None:
    quota = cohort_of(parsed("Cohort", "c", {"parentName": "r", "resourceGroups": [group(f={"nominalQuota": "2"})]}))
    assert (quota.parent, quota.nominal) == ("r", {("f", "cpu"): 2000})
    taints = [{"key": "a", "value": "b", "effect": effect} for effect in ("NoSchedule", "PreferNoSchedule")]
    found = flavor_of(
        parsed("ResourceFlavor", "f", {"nodeLabels": {"x": "y"}, "nodeTaints": taints, "tolerations": [{"key": "t"}]})
    )
    assert (found.labels, [taint.effect for taint in found.taints]) == ({"x": "y"}, ["NoSchedule"])
    assert found.tolerations[0].operator == "Equal"
    assert selector_of(None) is None


CHECKED: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}}
INACTIVE: dict[str, tuple[dict[str, Any], str, str]] = {
    "S-3.1 all is there": ({}, "", ""),
    "S-3.1 stopped": ({"stopPolicy": "Hold"}, "Stopped", "Stopped"),
    "S-3.1 a flavor is missing": (
        {"resourceGroups": [group(g={"nominalQuota": "4"})]}, "FlavorNotFound", "FlavorNotFound",
    ),
    "S-3.1 a check is missing, and counts as there in a set of files": (CHECKED, "AdmissionCheckNotFound", ""),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "reason", "in_files"), INACTIVE.values(), ids=INACTIVE)
def test_why_a_queue_takes_part_in_nothing(spec: dict[str, Any], reason: str, in_files: str) -> None:
    """All callers get the same reason; all reasons, and their words, are in ``test_queue_status``."""
    flavor = parsed("ResourceFlavor", "f", {})
    wire = cluster_queue(**spec)
    found = inactive_reasons(wire, lambda kind, name: flavor if (kind, name) == ("ResourceFlavor", "f") else None)
    assert [each.name for each in found] == ([reason] if reason else [])
    lowered, _ = queue_of(wire, found)
    assert (lowered.active, lowered.inactive_because) == (not reason, reason)
    loaded = load_state([flavor, wire], Policy.default(), Millis(0)).state.queues[QueueName("q")]
    assert (loaded.active, loaded.inactive_because) == (not in_files, in_files)


# --- a whole state ---------------------------------------------------------------------------------------------------


def world(*more: Any) -> State:
    parts = [
        cluster_queue(namespaceSelector={"matchLabels": {"tier": "gold"}}),
        parsed("ResourceFlavor", "f"),
        parsed("LocalQueue", "lq", {"clusterQueue": "q"}, namespace="ns"),
        parsed("LocalQueue", "stopped", {"clusterQueue": "q", "stopPolicy": "Hold"}, namespace="ns"),
        *(waiting(name, queue) for name, queue in (("w", "lq"), ("s", "stopped"))),
        holding("h"),
    ]
    return load_state([*parts, *more], Policy.default(), Millis(0)).state


def waiting(name: str, queue: str, **spec: Any) -> Any:
    template = {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}
    parts = [{"name": "main", "count": 1, "template": template}]
    return parsed("Workload", name, {"queueName": queue, "podSets": parts, **spec}, namespace="ns", uid=name)


def holding(name: str) -> Any:
    found = waiting(name, "lq")
    at = "2024-01-01T10:00:00Z"
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "x", "message": "", "lastTransitionTime": at}
    part = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"}, "count": 1}
    status = {"conditions": [reserved], "admission": {"clusterQueue": "q", "podSetAssignments": [part]}}
    return msgspec.structs.replace(found, status=msgspec.convert(status, WorkloadStatus, dec_hook=decode_hook))


def test_a_state_from_objects() -> None:
    state = world()
    assert state.tree.queues["q"].usage == {("f", "cpu"): 2000}
    assert state.pending.in_order(QueueName("q")) == ["ns/w"], "who is in a stopped LocalQueue does not wait"
    assert state.namespaces == {"ns": {"kubernetes.io/metadata.name": "ns"}}
    named = world(parsed("Namespace", "gold", labels={"tier": "gold"}), waiting("off", "lq", active=False))
    assert named.namespaces == {"gold": {"kubernetes.io/metadata.name": "gold", "tier": "gold"}}


def test_limit_ranges_and_runtime_classes_are_taken_along() -> None:
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "ns"},
        "spec": {"limits": []},
    }
    loaded = load_state([read(limits).value], Policy.default(), Millis(0))  # type: ignore[list-item]
    assert list(loaded.context.limit_ranges) == ["ns"]


# --- 8522-9 ----------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "8522-9 59s": ("LowerOrNewerEqualPriority", {"minAdmitDuration": "59s"}),
    "8522-9 0s": ("LowerOrNewerEqualPriority", {"minAdmitDuration": "0s"}),
    "8522-9 -1m": ("LowerOrNewerEqualPriority", {"minAdmitDuration": "-1m"}),
    "8522-9 with Never": ("Never", {"minAdmitDuration": "10m"}),
    "8522-9 with LowerPriority": ("LowerPriority", {"minAdmitDuration": "10m"}),
    "R-12 an empty block with Never": ("Never", {}),
    "R-12 an empty block with LowerPriority": ("LowerPriority", {}),
}


def problems(within: str, config: dict[str, Any]) -> list[str]:
    preemption = {"withinClusterQueue": within, "withinClusterQueueConfig": config}
    tree = {
        "apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "q"},
        "spec": {"namespaceSelector": {}, "preemption": preemption, "resourceGroups": []},
    }  # fmt: skip
    found = read(tree)
    told = list(found.problems)
    if found.value is not None:
        told += validate(found.value)
    return [str(each) for each in told]


@pytest.mark.parametrize(("within", "config"), REFUSED.values(), ids=REFUSED)
def test_8522_9_a_span_that_cannot_be_is_rejected(within: str, config: dict[str, Any]) -> None:
    assert any("withinClusterQueueConfig" in each for each in problems(within, config))


def test_8522_9_a_minute_is_enough() -> None:
    assert problems("LowerOrNewerEqualPriority", {"minAdmitDuration": "1m"}) == []
