"""Placement and preemption on nodes, plain and slow: loops over dicts, read from S-15 to the letter.

Of a single pod it says everything. Of a gang it says what does not depend on the choice among valid nodes: whether
it fits without a preemption and where, whether it can be placed at all, and the threshold N, where budgets do not
interfere and members are alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from makeway.core.placement.model import Cluster, ForPod, Node, NodeCandidate, Pod, PodKey, Preemptor
from makeway.testing.placement_checker import CheckedCluster, CheckedUnit, Standing

SHIFT = 2**31
Places = dict[PodKey, str]


@dataclass(kw_only=True)
class Expected:
    needed: bool
    feasible: bool
    reason: str | None = None
    places: Places = field(default_factory=dict)  # without a preemption
    victims: tuple[PodKey, ...] = ()  # of a single pod
    candidates: tuple[NodeCandidate, ...] = ()
    n: int | None = None  # None: it depends on choices


def expected(cluster: Cluster, preemptor: Preemptor) -> Expected:
    ground = CheckedCluster(cluster)
    members = ground.members(preemptor)
    if not members or (members[0].member is not None and ground.group_of(members[0]) is None):
        return Expected(needed=True, feasible=False)
    need = ground.need(preemptor)
    if len(members) < need:
        return Expected(needed=True, feasible=False)
    rank = ground.priority(members[0])
    standing = ground.standing(members, rank)
    places = placed(ground, members, need, standing)
    if places is not None:
        return Expected(needed=False, feasible=True, places=places)
    workload = ground.workload_of(members[0])
    if (members[0].policy if workload is None else workload.policy) == "Never":
        return Expected(needed=True, feasible=False, reason="preemptionPolicyNever")
    if is_under_way(ground, members, rank):
        return Expected(needed=True, feasible=False, reason="ongoingPreemption")
    lower = [unit for unit in ground.units() if unit.priority < rank]
    if isinstance(preemptor, ForPod):
        return for_pod(ground, members[0], rank, lower)
    return for_gang(ground, members, need, rank, lower)


# --- places ----------------------------------------------------------------------------------------------------------


def placed(ground: CheckedCluster, members: list[Pod], need: int, standing: Standing) -> Places | None:
    places = one_pass(ground, members, standing, pack=False)
    if len(places) < need and not are_alike(members):
        order = sorted(members, key=lambda pod: (-dominant(ground, pod), pod.arrived))
        places = one_pass(ground, [replace(pod, nominated=None) for pod in order], standing, pack=True)
    return places if len(places) >= need else None


def one_pass(ground: CheckedCluster, members: list[Pod], standing: Standing, *, pack: bool) -> Places:
    there = {name: dict(pods) for name, pods in standing.items()}
    places: Places = {}
    for pod in members:
        if pod.nominated is not None and ground.valid(pod, pod.nominated, there):
            places[pod.key] = pod.nominated
            there[pod.nominated][pod.key] = pod
    for pod in members:
        if pod.key in places:
            continue
        valid = [name for name in ground.nodes if ground.valid(pod, name, there)]
        if valid:
            best = min(valid, key=lambda name: (-score(ground.nodes[name], pod, there[name], pack=pack), name))
            places[pod.key] = best
            there[best][pod.key] = pod
    if not pack and places and any(pod.key not in places and pod.pod_affinity for pod in members):
        return with_late_ones(ground, members, there, places)
    return places


def with_late_ones(ground: CheckedCluster, members: list[Pod], there: Standing, places: Places) -> Places:
    """Place also the members that fit only after another member is beside them."""
    for pod in members:
        if pod.key not in places and pod.pod_affinity:
            valid = [name for name in ground.nodes if ground.valid(pod, name, there)]
            if valid:
                best = min(valid, key=lambda name: (-score(ground.nodes[name], pod, there[name], pack=False), name))
                found = {**places, pod.key: best}
                there[best][pod.key] = pod
                return with_late_ones(ground, members, there, found)
    return places


def score(node: Node, pod: Pod, there: dict[PodKey, Pod], *, pack: bool) -> Fraction:
    total = Fraction(0)
    asks = [resource for resource in ("cpu", "memory") if pod.requests.get(resource, 0)]
    for resource in ("cpu", "memory") if asks else ("pods",):
        have = node.allocatable.get(resource, 0)
        used = sum(1 if resource == "pods" else each.requests.get(resource, 0) for each in (*there.values(), pod))
        if have:
            total += Fraction(used if pack else have - used, have)
    return total


def are_alike(members: list[Pod]) -> bool:
    first = members[0]
    return all(
        replace(pod, key=first.key, arrived=0, uid="", start=first.start, nominated=None, priority=0)
        == replace(first, arrived=0, uid="", nominated=None, priority=0)
        for pod in members
    )


def dominant(ground: CheckedCluster, pod: Pod) -> Fraction:
    """Its largest share of the largest node."""
    shares = [Fraction(0)]
    for resource, asked in pod.requests.items():
        largest = max((node.allocatable.get(resource, 0) for node in ground.nodes.values()), default=0)
        if largest:
            shares.append(Fraction(asked, largest))
    return max(shares)


def is_under_way(ground: CheckedCluster, members: list[Pod], rank: int) -> bool:
    promised = [pod for pod in members if pod.nominated is not None]
    nodes = {pod.nominated for pod in promised}
    leaving = frozenset(
        pod.key
        for unit in ground.units()
        for pod in unit.pods
        if unit.priority < rank and pod.node in nodes and pod.terminating and pod.preempted_by_scheduler
    )
    if not leaving:
        return False
    standing = ground.standing(members, rank, leaving)
    left = list(promised)
    while left:
        fits = [pod for pod in left if ground.valid(pod, pod.nominated or "", standing)][:1]
        if not fits:
            return False
        left.remove(fits[0])
        standing[fits[0].nominated or ""][fits[0].key] = fits[0]
    return True


# --- victims ---------------------------------------------------------------------------------------------------------


def keys_of(units: Iterable[CheckedUnit]) -> frozenset[PodKey]:
    return frozenset(key for unit in units for key in unit.keys)


def for_pod(ground: CheckedCluster, pod: Pod, rank: int, lower: list[CheckedUnit]) -> Expected:
    candidates = []
    for name in ground.nodes:
        going = on_node(ground, pod, rank, name, [u for u in lower if any(each.node == name for each in u.pods)])
        if going is not None and going[0]:
            units, beyond = going
            violations = sum(beyond.get(unit.keys, 0) for unit in units)
            highest = max(unit.priority for unit in units)
            found = NodeCandidate(node=name, victims=tuple(sorted(keys_of(units))), violations=violations, n=highest)
            candidates.append((merit(units, found), found))
    if not candidates:
        return Expected(needed=True, feasible=False)
    best = min(candidates, key=lambda each: each[0])[1]
    return Expected(
        needed=True, feasible=True, places={pod.key: best.node}, victims=best.victims, n=best.n,
        candidates=tuple(each for _, each in candidates),
    )  # fmt: skip


def on_node(
    ground: CheckedCluster, pod: Pod, rank: int, name: str, units: list[CheckedUnit]
) -> tuple[list[CheckedUnit], dict[frozenset[PodKey], int]] | None:
    """The units that leave so that the pod has this node, the most important first; None: it cannot have it."""

    def serves(gone: Iterable[CheckedUnit]) -> bool:
        return ground.valid(pod, name, ground.standing([pod], rank, keys_of(gone)))

    if not units or not serves(units):
        return None
    beyond = ground.violations(units)
    going = list(units)
    for unit in units:
        if beyond.get(unit.keys) and serves([each for each in going if each is not unit]):
            going.remove(unit)
    for n in sorted({unit.priority for unit in going}):
        if serves([unit for unit in going if unit.priority <= n]):
            going = [unit for unit in going if unit.priority <= n]
            break
    for unit in list(going):
        if serves([each for each in going if each is not unit]):
            going.remove(unit)
    return going, beyond


def merit(units: list[CheckedUnit], found: NodeCandidate) -> tuple[object, ...]:
    """The values that S-15.5 compares."""
    highest = max(unit.priority for unit in units)
    total = sum((unit.priority + SHIFT) * len(unit.pods) for unit in units)
    earliest = min(pod.start for unit in units if unit.priority == highest for pod in unit.pods)
    return found.violations, highest, total, len(found.victims), -earliest, found.node


def for_gang(ground: CheckedCluster, members: list[Pod], need: int, rank: int, lower: list[CheckedUnit]) -> Expected:
    def serves(gone: Iterable[CheckedUnit]) -> bool:
        return placed(ground, members, need, ground.standing(members, rank, keys_of(gone))) is not None

    if not lower or not serves(lower):
        return Expected(needed=True, feasible=False)
    n = None
    if are_alike(members) and not any(ground.violations(lower).values()):
        n = next(p for p in sorted({u.priority for u in lower}) if serves([u for u in lower if u.priority <= p]))
    return Expected(needed=True, feasible=True, n=n)
