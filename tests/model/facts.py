"""The facts in a raw Workload object."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from tests.model.amounts import Amounts, add, amount, mul, pod_requests

Raw = dict[str, Any]
Gates = dict[str, bool]

BEFORE_ALL_TIME = -(10**18)  # the time of an object without one: older than all
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|ns|h|m|s)")
NANOS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
BOOST = "kueue.x-k8s.io/priority-boost"
SCHEDULING_FIELDS = ("affinity", "nodeSelector", "schedulerName", "tolerations", "topologySpreadConstraints")


def millis(text: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 time."""
    when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 1000 + since.microseconds // 1000


def time_text(at: int) -> str:  # S-3.10: stored times are cut to the second
    return datetime.fromtimestamp(at // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(text: str) -> Fraction:
    """Milliseconds of a Go duration such as 1h30m."""
    parts = DURATION.findall(text)
    if "".join(n + unit for n, unit in parts) != text:
        raise ValueError(f"not a duration: {text!r}")
    return sum((Fraction(n) * NANOS[unit] for n, unit in parts), Fraction(0)) / 10**6


def key_of(wl: Raw) -> str:
    return f"{wl['metadata'].get('namespace', 'default')}/{wl['metadata']['name']}"


def uid_of(wl: Raw) -> str:
    return str(wl["metadata"].get("uid", ""))


def status_of(wl: Raw) -> Raw:
    status: Raw = wl.setdefault("status", {})
    return status


def condition(wl: Raw, kind: str) -> Raw | None:
    found = [c for c in wl.get("status", {}).get("conditions") or [] if c["type"] == kind]
    return found[0] if found else None


def is_true(wl: Raw, kind: str) -> bool:
    found = condition(wl, kind)
    return found is not None and found["status"] == "True"


def is_false(wl: Raw, kind: str) -> bool:
    found = condition(wl, kind)
    return found is not None and found["status"] == "False"


def set_condition(wl: Raw, kind: str, value: bool, reason: str, now: int) -> None:
    """Write a condition; its time moves only when its status changes."""
    conditions = status_of(wl).setdefault("conditions", [])
    old = condition(wl, kind)
    status = "True" if value else "False"
    same = old is not None and old["status"] == status
    since = old["lastTransitionTime"] if old is not None and same else time_text(now)
    new = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}
    conditions[:] = sorted([c for c in conditions if c["type"] != kind] + [new], key=lambda c: str(c["type"]))


def is_active(wl: Raw) -> bool:
    return wl.get("spec", {}).get("active", True) is not False


def is_accounted(wl: Raw, parity: bool) -> bool:  # S-3.6
    holds = is_true(wl, "QuotaReserved") and not is_true(wl, "Finished")
    return holds and (is_active(wl) or (is_true(wl, "Admitted") and not parity))


def is_queueable(wl: Raw) -> bool:  # S-3.5
    reserved = condition(wl, "QuotaReserved")
    on_hold = reserved is not None and reserved["status"] == "False" and reserved["reason"] == "OnHold"
    gated = wl["metadata"].get("annotations", {}).get("kueue.x-k8s.io/admission-gated-by")
    closed = is_true(wl, "Finished") or is_true(wl, "QuotaReserved") or is_true(wl, "WaitingForReplacementPods")
    return is_active(wl) and not closed and not on_hold and not gated


def boost(wl: Raw, gates: Gates) -> int:  # S-7.1
    text = str(wl["metadata"].get("annotations", {}).get(BOOST, "0"))
    found = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else 0
    return found if gates["PriorityBoost"] and -(2**31) <= found < 2**31 else 0


def priority(wl: Raw, gates: Gates) -> int:  # S-7.1
    return int(wl.get("spec", {}).get("priority") or 0) + boost(wl, gates)


def created_at(wl: Raw) -> int:
    text = wl["metadata"].get("creationTimestamp")
    return millis(text) if text else BEFORE_ALL_TIME


def queue_time(wl: Raw, gates: Gates, pods_ready_timestamp: str) -> int:  # S-4.3
    evicted, preempted = condition(wl, "Evicted"), condition(wl, "Preempted")
    if evicted is not None and evicted["status"] == "True":
        at = millis(evicted["lastTransitionTime"])
        if pods_ready_timestamp == "Eviction" and evicted["reason"] == "PodsReadyTimeout":
            return at
        if evicted["reason"] == "AdmissionCheck":
            return at
    if preempted is not None and preempted["status"] == "True":
        at = millis(preempted["lastTransitionTime"])
        if preempted["reason"] == "InClusterQueueTimeBased":
            return at + 1
        while_borrowing = preempted["reason"] == "InCohortReclaimWhileBorrowing"
        if not gates["PrioritySortingWithinCohort"] and while_borrowing:
            return at + 1
    return created_at(wl)


def displaced_at(wl: Raw) -> int | None:
    """When it was displaced by time; None if it was not, or has had quota since."""  # S-7.14
    found = condition(wl, "Preempted")
    if found is None or found["status"] != "True" or found["reason"] != "InClusterQueueTimeBased":
        return None
    return millis(found["lastTransitionTime"])


def past_seconds(wl: Raw) -> int:
    """For how long it ran before it lost its quota the last time."""  # S-10.3
    return int(wl.get("status", {}).get("accumulatedPastExecutionTimeSeconds") or 0)


def count_run(wl: Raw, now: int) -> None:
    """Its run ends: the time since it was admitted is added."""  # S-10.3
    admitted = condition(wl, "Admitted")
    if admitted is not None and admitted["status"] == "True":
        ran = (now - millis(admitted["lastTransitionTime"])) // 1000
        status_of(wl)["accumulatedPastExecutionTimeSeconds"] = past_seconds(wl) + ran


def min_admit(queue: Raw, gates: Gates) -> Fraction | None:
    """The minAdmitDuration of a ClusterQueue, if it counts."""  # S-7.5
    config = (queue.get("preemption") or {}).get("withinClusterQueueConfig") or {}
    text = config.get("minAdmitDuration")
    return duration(text) if text is not None and gates["TimeBasedSamePriorityPreemption"] else None


def evicted_at(wl: Raw, now: int) -> int:
    """When it was evicted; now, if it is not evicted yet."""  # S-10.13, S-3.10
    found = condition(wl, "Evicted")
    evicted = found is not None and found["status"] == "True"
    return millis(found["lastTransitionTime"]) if found is not None and evicted else now // 1000 * 1000


def grace_period(wl: Raw) -> int:  # S-10.13
    seconds = [p["template"]["spec"].get("terminationGracePeriodSeconds") for p in wl["spec"]["podSets"]]
    return 1000 * max((30 if s is None else int(s) for s in seconds), default=30)


def _controller(wl: Raw) -> Raw | None:
    named: list[Raw] = [o for o in wl["metadata"].get("ownerReferences") or [] if o.get("controller")]
    return named[0] if named else None


def owner(wl: Raw) -> tuple[str, str, str]:
    """Kind, namespace and name of the object a workload was made for; without an owner it is its own."""  # S-19.3.3
    found = _controller(wl) or {"kind": "Workload", "name": wl["metadata"]["name"]}
    return str(found["kind"]), str(wl["metadata"].get("namespace", "default")), str(found["name"])


def owner_object(wl: Raw) -> tuple[str, ...] | None:
    """The identity of that object: several of one name may follow each other."""  # S-19.3.3
    found = _controller(wl)
    return None if found is None else (*owner(wl), str(found.get("uid", "")))


def reserved_at(wl: Raw) -> int | None:
    found = condition(wl, "QuotaReserved")
    return millis(found["lastTransitionTime"]) if found is not None and found["status"] == "True" else None


def backoff_is_over(wl: Raw, now: int) -> bool:  # S-4.5.2
    at = (wl.get("status", {}).get("requeueState") or {}).get("requeueAt")
    return not is_false(wl, "Requeued") and (at is None or now >= millis(at))


def has_closed_gate(wl: Raw) -> bool:  # S-14.1
    stored = wl.get("status", {}).get("preemptionGates") or []
    opened = {g["name"] for g in stored if g.get("state") == "Open"}
    return any(g["name"] not in opened for g in wl.get("spec", {}).get("preemptionGates") or [])


@dataclass(frozen=True)
class PodSet:
    """One podset as the model sees it: its pods, their number, and the requests of all of them."""

    name: str
    count: int
    min_count: int | None
    per_pod: dict[str, int]
    pod: Raw
    group: str | None
    allowed_flavors: tuple[str, ...]

    def requests(self, count: int) -> dict[str, int]:  # S-1.7
        return {r: mul(q, count) for r, q in self.per_pod.items()}


def effective_count(wl: Raw, podset: Raw, gates: Gates) -> int:  # S-1.7
    count = int(podset.get("count", 1))
    stored = wl.get("status", {}).get("reclaimablePods") or []
    reclaimable = sum(int(r["count"]) for r in stored if r["name"] == podset["name"])
    return count - min(reclaimable, count) if gates["ReclaimablePods"] else count


def pod_sets(wl: Raw, gates: Gates) -> list[PodSet]:
    return [
        PodSet(
            name=str(p["name"]),
            count=effective_count(wl, p, gates),
            min_count=p.get("minCount"),
            per_pod=pod_requests(p["template"]["spec"]),
            pod=p["template"]["spec"],
            group=(p.get("topologyRequest") or {}).get("podSetGroupName"),
            allowed_flavors=tuple(p.get("allowedResourceFlavors") or ()),
        )
        for p in wl.get("spec", {}).get("podSets") or []
    ]


@dataclass(frozen=True)
class Held:
    """The usage of one podset of a quota holder."""

    name: str
    count: int
    flavors: dict[str, str]
    usage: dict[str, int]


def held_pod_sets(wl: Raw, gates: Gates) -> list[Held]:  # S-1.8
    counts = {p["name"]: effective_count(wl, p, gates) for p in wl["spec"]["podSets"]}
    asked = {p["name"]: int(p["count"]) for p in wl["spec"]["podSets"]}
    result = []
    for assigned in wl["status"]["admission"].get("podSetAssignments") or []:
        count = int(assigned.get("count", asked[assigned["name"]]))
        usage = {r: amount(r, q) for r, q in (assigned.get("resourceUsage") or {}).items()}
        now_running = counts[assigned["name"]]
        if now_running < count:
            usage = {r: q // count * now_running for r, q in usage.items()}
            count = now_running
        result.append(Held(assigned["name"], count, assigned.get("flavors") or {}, usage))
    return result


def held_usage(wl: Raw, gates: Gates) -> Amounts:  # S-1.8
    total: Amounts = {}
    for held in held_pod_sets(wl, gates):
        for resource, flavor in held.flavors.items():
            fr = (flavor, resource)
            total[fr] = add(total.get(fr, 0), held.usage.get(resource, 0))
    return total


def shape(wl: Raw, gates: Gates) -> str:  # S-4.5.3
    raw = wl["spec"]["podSets"]
    podsets = [
        {
            "name": p.name,
            "scheduling": {f: p.pod[f] for f in SCHEDULING_FIELDS if f in p.pod},
            "count": p.count,
            "requests": p.per_pod,
            "minCount": p.min_count,
            "topology": raw[i].get("topologyRequest"),
            "allowed": sorted(p.allowed_flavors),
        }
        for i, p in enumerate(pod_sets(wl, gates))
    ]
    return json.dumps([priority(wl, gates), podsets], sort_keys=True)
