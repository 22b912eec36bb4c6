"""Checks, assignment and targets of one head (S-5.3 to S-5.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tests.model.amounts import parse_quantity, pod_requests
from tests.model.facts import PodSet, Raw
from tests.model.flavors import Assignment, Only, assign
from tests.model.preemption import Incoming, Target
from tests.model.queues import selector_matches
from tests.model.targets import targets
from tests.model.world import Snapshot, World


@dataclass(frozen=True)
class Refusal:
    """A head that is not even assigned."""  # S-5.3

    condition_reason: str
    requeue_reason: str


def _amounts(container: Raw, which: str) -> dict[str, Fraction]:
    named = (container.get("resources") or {}).get(which) or {}
    return {r: parse_quantity(q) for r, q in named.items()}


def _exceeds_own_limit(part: Raw) -> bool:  # S-5.3.5
    requests, limits = _amounts(part, "requests"), _amounts(part, "limits")
    return any(r in limits and q > limits[r] for r, q in requests.items())


def _breaks_container_bounds(part: Raw, item: Raw) -> bool:  # S-5.3.5
    requests, limits = _amounts(part, "requests"), _amounts(part, "limits")
    for r in sorted({*requests, *limits}):
        given = [m[r] for m in (requests, limits) if r in m]
        if r in (item.get("max") or {}) and max(given) > parse_quantity(item["max"][r]):
            return True
        if r in (item.get("min") or {}) and min(given) < parse_quantity(item["min"][r]):
            return True
    return False


def _breaks_pod_bounds(pod: Raw, item: Raw) -> bool:  # S-5.3.5
    total = {r: Fraction(q, 1000 if r == "cpu" else 1) for r, q in pod_requests(pod).items()}
    most, least = item.get("max") or {}, item.get("min") or {}
    too_much = any(r in most and q > parse_quantity(most[r]) for r, q in total.items())
    return too_much or any(r in least and q < parse_quantity(least[r]) for r, q in total.items())


def resources_are_valid(world: World, wl: Raw) -> bool:  # S-5.3.5
    namespace = wl["metadata"].get("namespace", "default")
    ranges = [r for r in world.limit_ranges if r["metadata"].get("namespace", "default") == namespace]
    items = [item for r in ranges for item in r["spec"]["limits"]]
    for podset in wl["spec"]["podSets"]:
        pod = podset["template"]["spec"]
        containers = (pod.get("containers") or []) + (pod.get("initContainers") or [])
        if any(_exceeds_own_limit(part) for part in [*containers, pod]):
            return False
        for item in items:
            if item["type"] == "Container" and any(_breaks_container_bounds(c, item) for c in containers):
                return False
            if item["type"] == "Pod" and _breaks_pod_bounds(pod, item):
                return False
    return True


def refusal(world: World, queue: str, key: str) -> Refusal | None:  # S-5.3
    wl = world.workloads[key]
    checks = (wl.get("status") or {}).get("admissionChecks") or []
    if any(c["state"] in ("Retry", "Rejected") for c in checks):
        return Refusal("PendingEvaluation", "Generic")
    namespace = key.split("/")[0]
    if namespace not in world.namespaces:
        return Refusal("Misconfigured", "Generic")
    if not selector_matches(world.queues[queue].get("namespaceSelector"), world.namespaces[namespace]):
        return Refusal("Misconfigured", "NamespaceMismatch")
    if not resources_are_valid(world, wl):
        return Refusal("Misconfigured", "Generic")
    return None


Probe = tuple[Assignment, list[Target]]


def smallest_reduction(counts: list[int], deltas: list[int], works: Callable[[list[int]], bool]) -> int | None:
    """Lower-bound binary search for the least reduction that works."""  # S-5.5
    total = sum(deltas)
    if total == 0:
        return None
    low, high, last_success = 0, total + 1, None
    while low < high:
        middle = (low + high) // 2
        if works(reduced(counts, deltas, middle)):
            last_success, high = middle, middle
        else:
            low = middle + 1
    return low if last_success == low else None


def reduced(counts: list[int], deltas: list[int], k: int) -> list[int]:  # S-5.5
    total = sum(deltas)
    return [count - delta * k // total for count, delta in zip(counts, deltas, strict=True)]


def partial_deltas(podsets: list[PodSet]) -> list[int]:  # S-5.5
    return [0 if p.min_count is None else max(0, p.count - p.min_count) for p in podsets]


def nominate(
    snap: Snapshot, p: Incoming, podsets: list[PodSet], resume: list[dict[str, int]], only: Only | None = None
) -> Probe:  # S-5.4
    """The assignment of a head and its targets."""

    def probe(counts: list[int]) -> Probe:
        found = assign(snap, p, podsets, counts, resume, only)
        return found, (targets(snap, p, found.need(), found.usage) if found.mode == "Preempt" else [])

    def works(counts: list[int]) -> bool:
        found, victims = probe(counts)
        return found.mode == "Fit" or bool(victims)

    full = [ps.count for ps in podsets]
    found, victims = probe(full)
    if found.mode == "Fit" or victims:
        return found, victims
    deltas = partial_deltas(podsets)
    if snap.settings.gates["PartialAdmission"]:
        k = smallest_reduction(full, deltas, works)
        if k is not None:
            return probe(reduced(full, deltas, k))
    return found, victims
