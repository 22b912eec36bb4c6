"""Workloads from the wire: what they request and hold, and their place in the queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.api.codec import read
from makeway.api.objects.kubernetes import LimitRange, RuntimeClass
from makeway.api.objects.workload import Workload as WireWorkload
from makeway.api.quantity import Time
from makeway.core.lowering import LoweringContext, is_queueable, is_worth_a_look, workload_of
from makeway.core.lowering.workloads import is_accounted
from makeway.core.model import (
    DAWN,
    Claim,
    ClaimedSet,
    Expression,
    FlavorName,
    Millis,
    QueueName,
    ResourceName,
    Uid,
    Workload,
    WorkloadKey,
)
from makeway.core.policy import Policy, Requeuing

POLICY = Policy.default()
AROUND = LoweringContext(POLICY, {("ns", "lq"): QueueName("q")})


def parsed(tree: dict[str, Any]) -> Any:
    found = read(tree, limits=False)
    assert found.value is not None, found.problems
    return found.value


def pod(*requests: str, **spec: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{i}", "image": "x", "resources": {"requests": {"cpu": each}} if each else {}}
        for i, each in enumerate(requests)
    ]
    return {"spec": {"restartPolicy": "Never", "containers": containers, **spec}}


def pod_set(template: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": "main", "count": 1, "template": template or pod("1"), **fields}


def wire(*, status: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **spec: Any) -> WireWorkload:
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "w", "namespace": "ns", "uid": "u1", "creationTimestamp": "2024-01-01T09:00:00Z", **(meta or {}),
        },
        "spec": {"queueName": "lq", "podSets": [pod_set()], **spec},
        **({"status": status} if status else {}),
    }  # fmt: skip
    found = parsed(tree)
    assert isinstance(found, WireWorkload)
    return found


def condition(type_: str, status: str = "True", reason: str = "X", at: str = "10:00:00") -> dict[str, Any]:
    return {
        "type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": f"2024-01-01T{at}Z",
    }  # fmt: skip


def millis(at: str) -> int:
    return Time.parse(f"2024-01-01T{at}Z").millis


def lowered(context: LoweringContext = AROUND, **fields: Any) -> Workload:
    return workload_of(wire(**fields), context)


def admission(count: int | None = 4, usage: str = "10", **more: Any) -> dict[str, Any]:
    part = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": usage}, "count": count, **more}
    return {"clusterQueue": "other", "podSetAssignments": [part]}


def test_who_waits() -> None:
    found = lowered(priority=7)
    assert (found.key, found.uid, found.queue, found.local_queue) == ("ns/w", "u1", "q", "lq")
    assert (found.priority, found.queued_at, found.usage, found.family) == (7, millis("09:00:00"), None, None)
    assert lowered(queueName="unknown").queue == ""
    assert workload_of(wire(), AROUND, QueueName("told")).queue == "told"
    assert lowered(meta={"creationTimestamp": None}).queued_at == DAWN


def test_S_1_12_what_its_pods_ask_for() -> None:
    init = [{"name": "i", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    found = lowered(
        podSets=[pod_set(pod("300m", "500m", initContainers=init), count=4)],
        status={"reclaimablePods": [{"name": "main", "count": 1}]},
    )
    (part,) = found.pod_sets
    assert (part.requests, part.count) == ({"cpu": 1000}, 3)
    off = replace(POLICY, gates=replace(POLICY.gates, reclaimable_pods=False))
    found = lowered(
        replace(AROUND, policy=off),
        podSets=[pod_set(count=4)],
        status={"reclaimablePods": [{"name": "main", "count": 1}]},
    )
    assert found.pod_sets[0].count == 4


def test_what_a_podset_says_about_where_it_may_run() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    template = pod("1", nodeSelector={"k": "v"}, affinity=affinity, tolerations=[{"key": "t", "value": "x"}])
    found = lowered(podSets=[pod_set(template, count=9, minCount=3, topologyRequest={"podSetGroupName": "g"})])
    (part,) = found.pod_sets
    assert (part.node_selector, part.affinity) == ({"k": "v"}, ((Expression("zone", "In", ("a",)),),))
    assert (part.min_count, part.group, part.tolerations[0].operator) == (3, "g", "Equal")


HELD = {
    "S-1.8 all its pods": (4, "10", 0, 10_000),
    "S-1.8 fewer are needed: a share of whole units": (4, "10001m", 1, 7_500),
    "S-1.8 more were asked for than assigned: what was assigned": (3, "10", 0, 10_000),
    "S-1.8 for all its pods, where the assignment does not say for how many": (None, "10", 1, 7_500),
}


@pytest.mark.parametrize(("count", "usage", "reclaimed", "held"), HELD.values(), ids=HELD)
def test_what_it_holds(count: int | None, usage: str, reclaimed: int, held: int) -> None:
    status = {
        "conditions": [condition("QuotaReserved"), condition("Admitted"), condition("Evicted")],
        "admission": admission(count, usage),
        **({"reclaimablePods": [{"name": "main", "count": reclaimed}]} if reclaimed else {}),
    }
    found = lowered(podSets=[pod_set(count=4)], status=status)
    assert found.usage == {("f", "cpu"): held}
    assert (found.queue, found.reserved_at, found.admitted, found.evicted) == ("other", millis("10:00:00"), True, True)
    assert [(use.name, use.count) for use in found.uses] == [("main", min(count or 4, 4 - reclaimed))]


@pytest.mark.parametrize("flavors", [{"cpu": "f"}, {}, None])
def test_S_1_8_a_resource_without_a_flavor_is_asked_for_and_charged_to_no_quota(
    flavors: dict[str, str] | None,
) -> None:
    part = admission(flavors=flavors, resourceUsage={"cpu": "8", "memory": "4Ki"})
    status = {
        "conditions": [condition("QuotaReserved")],
        "admission": part,
        "reclaimablePods": [{"name": "main", "count": 1}],
    }
    found = lowered(podSets=[pod_set(count=4)], status=status)
    assert found.usage == ({("f", "cpu"): 6_000} if flavors else {})
    (use,) = found.uses
    assert (use.flavors, use.amounts) == (flavors or {}, {"cpu": 6_000, "memory": 3072})


STAMPS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], int]] = {
    "S-4.3.1 a readiness timeout moves it back": (
        [condition("Evicted", reason="PodsReadyTimeout")], {}, millis("10:00:00"),
    ),
    "S-4.3.1 unless creation counts": (
        [condition("Evicted", reason="PodsReadyTimeout")], {"requeuing": Requeuing(timestamp="Creation")},
        millis("09:00:00"),
    ),
    "S-4.3.2 a check's retry does": ([condition("Evicted", reason="AdmissionCheck")], {}, millis("10:00:00")),
    "S-4.3.3 a time-based preemption does, and a bit": (
        [condition("Preempted", reason="InClusterQueueTimeBased")], {}, millis("10:00:00") + 1,
    ),
    "S-4.3.5 another preemption does not": (
        [condition("Preempted", reason="InClusterQueue"), condition("Evicted", reason="Preempted")], {},
        millis("09:00:00"),
    ),
    "S-4.3.5 reclaim by a borrower does not": (
        [condition("Preempted", reason="InCohortReclaimWhileBorrowing")], {}, millis("09:00:00"),
    ),
    "S-4.3.4 unless priorities do not count": (
        [condition("Preempted", reason="InCohortReclaimWhileBorrowing")],
        {"gates": replace(POLICY.gates, priority_sorting_within_cohort=False)}, millis("10:00:00") + 1,
    ),
    "what is over counts no more": (
        [condition("Preempted", "False", "InClusterQueueTimeBased")], {}, millis("09:00:00"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("conditions", "policy", "at"), STAMPS.values(), ids=STAMPS)
def test_its_place_among_equals(conditions: list[dict[str, Any]], policy: dict[str, Any], at: int) -> None:
    context = replace(AROUND, policy=replace(POLICY, **policy))
    assert lowered(context, status={"conditions": conditions}).queued_at == at


def test_S_7_1_a_boost_counts_with_its_gate() -> None:
    boosted = {"annotations": {"kueue.x-k8s.io/priority-boost": "5"}}
    on = replace(POLICY, gates=replace(POLICY.gates, priority_boost=True))
    assert lowered(meta=boosted, priority=1).priority == 1
    assert lowered(replace(AROUND, policy=on), meta=boosted, priority=1).priority == 6
    odd = {"annotations": {"kueue.x-k8s.io/priority-boost": "much"}}
    assert lowered(replace(AROUND, policy=on), meta=odd, priority=1).priority == 1


def test_what_keeps_it_from_being_looked_at() -> None:
    check = {"name": "c", "state": "Rejected", "message": "", "lastTransitionTime": "2024-01-01T10:00:00Z"}
    found = lowered(status={"admissionChecks": [check]})
    assert (found.refusal, found.refused) == ("PendingEvaluation", "admission check c is Rejected")
    assert found.checks == (("c", False),)
    limited = pod("2")
    limited["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    found = lowered(podSets=[pod_set(limited)])
    assert (found.refusal, found.refused) == ("Misconfigured", "the request for cpu is above its limit")
    found = lowered(
        status={
            "conditions": [condition("Requeued", "False")],
            "requeueState": {"count": 1, "requeueAt": "2024-01-01T11:00:00Z"},
        }
    )
    assert (found.backing_off, found.requeue_at) == (True, millis("11:00:00"))


def test_a_gate_is_closed_until_its_status_says_open() -> None:
    gate = [{"name": "example.com/g"}]
    status = {"name": "example.com/g", "state": "Open", "lastTransitionTime": "2024-01-01T10:00:00Z"}
    opened = {"preemptionGates": [status]}
    assert lowered(preemptionGates=gate).gated
    assert not lowered(preemptionGates=gate, status=opened).gated
    gates = replace(POLICY.gates, multi_kueue_orchestrated_preemption=False, concurrent_admission=False)
    assert not lowered(replace(AROUND, policy=replace(POLICY, gates=gates)), preemptionGates=gate).gated


def test_an_option_knows_its_family() -> None:
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "p", "uid": "pu", "controller": True}
    found = lowered(meta={"ownerReferences": [owner], "annotations": {"kueue.x-k8s.io/option-rank": "2"}})
    assert (found.family, found.option_rank) == ("pu", 2)


def test_S_1_5_its_namespace_and_runtime_class_have_a_say() -> None:
    limits = {
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "ns"},
        "spec": {
            "limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}, {"type": "Pod", "max": {"cpu": "2"}}],
        },
    }  # fmt: skip
    runtime = {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "rc"}, "handler": "h",
        "overhead": {"podFixed": {"cpu": "500m"}},
    }  # fmt: skip
    limit_range, runtime_class = parsed(limits), parsed(runtime)
    assert isinstance(limit_range, LimitRange)
    assert isinstance(runtime_class, RuntimeClass)
    context = replace(AROUND, limit_ranges={"ns": (limit_range,)}, runtime_classes={"rc": runtime_class})
    assert lowered(context, podSets=[pod_set(pod(""))]).pod_sets[0].requests == {"cpu": 2000}
    found = lowered(context, podSets=[pod_set(pod("", runtimeClassName="rc"))])
    assert found.pod_sets[0].requests == {"cpu": 2500}
    assert "above the maximum" in found.refused


# --- who counts, who waits -------------------------------------------------------------------------------------------

RESERVED = [condition("QuotaReserved")]
STATES: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "it waits": ({}, False, True),
    "S-3.6 it holds quota": ({"status": {"conditions": RESERVED, "admission": admission()}}, True, False),
    "a reservation without an assignment counts nothing": ({"status": {"conditions": RESERVED}}, False, False),
    "it is done": (
        {"status": {"conditions": [*RESERVED, condition("Finished")], "admission": admission()}}, False, False,
    ),
    "S-3.6 switched off, a reservation is free": (
        {"active": False, "status": {"conditions": RESERVED, "admission": admission()}}, False, False,
    ),
    "S-3.6 switched off, what runs still counts": (
        {"active": False, "status": {"conditions": [*RESERVED, condition("Admitted")], "admission": admission()}},
        True, False,
    ),
    "switched off": ({"active": False}, False, False),
    "S-3.5 on hold": ({"status": {"conditions": [condition("QuotaReserved", "False", "OnHold")]}}, False, False),
    "S-3.5 waiting for pods to be replaced": (
        {"status": {"conditions": [condition("WaitingForReplacementPods")]}}, False, False,
    ),
    "S-3.5 a Parent's Options wait, not it": ({"workloadMode": {"type": "Parent"}}, False, False),
    "S-3.6 nor does it count": (
        {"workloadMode": {"type": "Parent"}, "status": {"conditions": RESERVED, "admission": admission()}},
        False, False,
    ),
    "S-3.5 gated by others": ({"meta": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "x"}}}, False, False),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "accounted", "queueable"), STATES.values(), ids=STATES)
def test_who_counts_and_who_waits(fields: dict[str, Any], accounted: bool, queueable: bool) -> None:
    each = wire(**fields)
    assert (is_accounted(each), is_queueable(each)) == (accounted, queueable)


CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "S-4.7 nothing": ({}, False),
    "S-4.7 its spec": ({"priority": 3}, True),
    "S-4.7 the same spelled otherwise": ({"podSets": [pod_set(pod("1000m", schedulerName=""))]}, False),
    "S-4.7 another amount": ({"podSets": [pod_set(pod("1001m"))]}, True),
    "S-4.7 pods it no longer needs": ({"status": {"reclaimablePods": [{"name": "main", "count": 1}]}}, True),
    "S-4.7 an eviction": ({"status": {"conditions": [condition("Evicted")]}}, True),
    "S-4.7 the end of a back-off": ({"status": {"conditions": [condition("Requeued")]}}, True),
    "S-4.7 another condition": ({"status": {"conditions": [condition("PodsReady")]}}, False),
}


@pytest.mark.parametrize(("fields", "is_worth"), CHANGES.values(), ids=CHANGES)
def test_which_changes_are_worth_another_look(fields: dict[str, Any], is_worth: bool) -> None:
    assert is_worth_a_look(wire(), wire(**fields), POLICY) is is_worth


# --- what stability rests on (S-19) ------------------------------------------------------------------------------


def stored_claim(**fields: Any) -> dict[str, Any]:
    return {
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "spot"}, "count": 3}],
        "victims": [{"namespace": "ns", "name": "v", "uid": "u9"}],
        "victimCount": 1, "issuedAt": "2024-01-01T10:00:00Z", "expiresAt": "2024-01-01T10:05:30Z", **fields,
    }  # fmt: skip


def test_a_stored_claim_is_taken_up_as_it_is() -> None:
    assert lowered(status={"preemptionClaim": stored_claim()}).claim == Claim(
        sets=(ClaimedSet("main", {ResourceName("cpu"): FlavorName("spot")}, 3),),
        victims=((WorkloadKey("ns/v"), Uid("u9")),),
        issued_at=Millis(millis("10:00:00")),
        expires_at=Millis(millis("10:05:30")),
    )


def test_a_count_that_a_claim_leaves_out_is_that_of_the_podset() -> None:
    claim = stored_claim(podSetAssignments=[{"name": "main", "flavors": {"cpu": "spot"}}])
    found = lowered(status={"preemptionClaim": claim}, podSets=[pod_set(count=7)]).claim
    assert found is not None
    assert [each.count for each in found.sets] == [7]


def test_S_12_7_3_a_claim_that_waits_for_a_sibling_is_not_in_force() -> None:
    waiting = {**stored_claim(victims=[]), "after": {"name": "o", "uid": "u2"}}
    del waiting["expiresAt"]
    assert lowered(status={"preemptionClaim": waiting}).claim is None


def test_who_holds_quota_claims_nothing() -> None:
    status = {"conditions": [condition("QuotaReserved")], "admission": admission(), "preemptionClaim": stored_claim()}
    assert lowered(status=status).claim is None


@pytest.mark.parametrize(
    ("asked", "grace"), [([None], 30), ([10], 10), ([10, None], 30), ([10, 600], 600), ([0], 0)]
)  # fmt: skip
def test_the_slowest_pod_decides_how_long_it_may_take_to_leave(asked: list[int | None], grace: int) -> None:
    pods = [pod("1") if each is None else pod("1", terminationGracePeriodSeconds=each) for each in asked]
    found = lowered(podSets=[pod_set(each, name=f"p{i}") for i, each in enumerate(pods)])
    assert found.grace_ms == grace * 1000


def test_since_when_it_is_asked_to_leave() -> None:
    evicted = lowered(status={"conditions": [condition("Evicted", at="11:00:00")]})
    assert (evicted.evicted, evicted.evicted_at) == (True, millis("11:00:00"))
    assert evicted.leaves_by() == millis("11:00:30")
    before = lowered(status={"conditions": [condition("Evicted", "False", at="11:00:00")]})
    assert (before.evicted, before.evicted_at, before.leaves_by()) == (False, None, None)


def test_its_root_is_who_makes_it_anew() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1"}
    assert lowered(meta={"ownerReferences": [{**owner, "controller": True}]}).owner == "Job/ns/train"
    assert lowered(meta={"ownerReferences": [owner]}).owner == ""
    assert lowered().owner == ""
