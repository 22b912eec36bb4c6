"""Whether an answer about placement is a good one: the checker rules R1 to R11, in plain loops over plain values.

It shares no code with the engine beyond the nouns: which pods fit where, which pods are one unit and which unit ranks
before which are implemented here a second time from S-15. ``check`` takes an answer and what was recorded about the
case; without a record it judges what the cluster alone decides (R3, R4, R7 to R10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from makeway.core.model import Selector, selects
from makeway.core.placement.model import (
    POD_COUNT,
    AffinityTerm,
    Cluster,
    ForPod,
    Node,
    PlacementAnswer,
    Pod,
    PodGang,
    PodKey,
    Preemptor,
    SchedulingWorkload,
)

KEEPS_AWAY = ("NoSchedule", "NoExecute")
Standing = dict[str, dict[PodKey, Pod]]  # node -> pods there


@dataclass(frozen=True, slots=True)
class CheckedUnit:
    """Pods that leave together or not at all."""

    pods: tuple[Pod, ...]  # by start, then identity
    priority: int
    is_workload: bool

    @property
    def keys(self) -> frozenset[PodKey]:
        return frozenset(pod.key for pod in self.pods)

    @property
    def importance(self) -> tuple[object, ...]:
        first = self.pods[0]
        return -self.priority, not self.is_workload, -len(self.pods), first.start, first.uid, first.key


class CheckedCluster:
    """A cluster as the checker reads it."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in sorted(cluster.nodes, key=lambda node: node.name)}
        self.pods: dict[PodKey, Pod] = {pod.key: pod for pod in cluster.pods}
        self.budgets = cluster.budgets
        self._workloads = {(each.namespace, each.name): each for each in cluster.workloads}
        self._groups = {group.key: group for each in cluster.workloads for group in each.groups}
        self._namespaces = {each.name: each.labels for each in cluster.namespaces}
        self._has_terms = any(pod.anti_affinity for pod in cluster.pods)

    # which pods belong together

    def group_of(self, pod: Pod) -> PodGang | None:
        member = pod.member
        return None if member is None else self._groups.get((pod.key[0], member.workload, member.group))

    def workload_of(self, pod: Pod) -> SchedulingWorkload | None:
        """None also where the reference resolves to nothing (S-15.1.1)."""
        if pod.member is None or self.group_of(pod) is None:
            return None
        return self._workloads[pod.key[0], pod.member.workload]

    def priority(self, pod: Pod) -> int:
        workload = self.workload_of(pod)
        return pod.priority if workload is None else workload.priority

    def victim_priority(self, pod: Pod) -> int:
        workload = self.workload_of(pod)
        return pod.priority if workload is None else workload.preemption_priority

    def units(self) -> list[CheckedUnit]:
        """All running units, the most important first (S-15.1.2, 15.4.3)."""
        together: dict[tuple[object, ...], list[Pod]] = {}
        for pod in self.pods.values():
            if pod.node is not None:
                group = self.group_of(pod)
                whole = group is not None and group.whole
                together.setdefault((pod.key[0], pod.member) if whole else pod.key, []).append(pod)
        units = []
        for pods in together.values():
            pods.sort(key=lambda pod: (pod.start, pod.uid, pod.key))
            is_workload = self.workload_of(pods[0]) is not None
            units.append(CheckedUnit(tuple(pods), self.victim_priority(pods[0]), is_workload))
        return sorted(units, key=lambda unit: unit.importance)

    def members(self, preemptor: Preemptor) -> list[Pod]:
        """The pods for which a place is sought, in queue order."""
        if isinstance(preemptor, ForPod):
            return [self.pods[preemptor.key]]
        members = [
            pod for pod in self.pods.values()
            if pod.node is None and pod.key[0] == preemptor.namespace and pod.member == preemptor.member
        ]  # fmt: skip
        return sorted(members, key=lambda pod: (pod.arrived, pod.uid, pod.key))

    def need(self, preemptor: Preemptor) -> int:
        """How many of them must get a place (S-15.2.4)."""
        if isinstance(preemptor, ForPod):
            return 1
        key = (preemptor.namespace, preemptor.member.workload, preemptor.member.group)
        running = [
            pod for pod in self.pods.values()
            if pod.node is not None and pod.key[0] == preemptor.namespace and pod.member == preemptor.member
        ]  # fmt: skip
        return max(1, (self._groups[key].min_count or 1) - len(running))

    # what fits where

    def standing(self, members: Iterable[Pod], priority: int, gone: frozenset[PodKey] = frozenset()) -> Standing:
        """The pods on each node for these members: running pods, and pods that were promised a node (S-15.2.2)."""
        own = {pod.key for pod in members}
        standing: Standing = {name: {} for name in self.nodes}
        for pod in self.pods.values():
            at = pod.node
            if at is None and pod.nominated is not None and pod.key not in own and self.priority(pod) >= priority:
                at = pod.nominated
            if at in standing and pod.key not in gone:
                standing[at][pod.key] = pod
        return standing

    def valid(self, pod: Pod, name: str, standing: Standing) -> bool:
        node = self.nodes.get(name)
        return (
            node is not None
            and not node.unschedulable
            and _suits(pod, node)
            and _has_room(pod, node, standing[name].values())
            and (not self._has_terms or self._is_apart(pod, node, standing))
            and (not pod.pod_affinity or self._is_beside(pod, node, standing))
            and all(self._is_even(pod, node, number, standing) for number in range(len(pod.spread)))
        )

    def _speaks_of(self, term: AffinityTerm, owner: Pod, other: Pod) -> bool:
        """Whether a term of ``owner`` matches ``other``: by its labels, and by its namespace."""
        namespace = other.key[0]
        if not _selected(term.selector, other):
            return False
        if not term.namespaces and term.namespace_selector is None:
            return namespace == owner.key[0]
        labels = {"kubernetes.io/metadata.name": namespace} | dict(self._namespaces.get(namespace, {}))
        chosen = term.namespace_selector is not None and selects(term.namespace_selector, labels)
        return chosen or namespace in term.namespaces

    def _is_apart(self, pod: Pod, node: Node, standing: Standing) -> bool:
        for name, there in standing.items():
            other = self.nodes[name]
            for other_pod in there.values():
                if other_pod.key == pod.key:
                    continue
                terms = [(term, pod, other_pod) for term in pod.anti_affinity]
                terms += [(term, other_pod, pod) for term in other_pod.anti_affinity]
                if any(_shares(term, node, other) and self._speaks_of(term, of, seen) for term, of, seen in terms):
                    return False
        return True

    def _is_beside(self, pod: Pod, node: Node, standing: Standing) -> bool:
        """Checked with the pods that were promised a node and without them, because they may not come."""
        if any(term.topology_key not in node.labels for term in pod.pod_affinity):
            return False
        wanted = [
            (self.nodes[name], other_pod) for name, there in standing.items() for other_pod in there.values()
            if other_pod.key != pod.key and all(self._speaks_of(term, pod, other_pod) for term in pod.pod_affinity)
        ]  # fmt: skip
        in_place = [
            (at, other_pod) for at, other_pod in wanted if other_pod.node is not None or self._are_mates(pod, other_pod)
        ]
        return all(self._is_met(pod, node, [at for at, _ in those]) for those in (wanted, in_place))

    def _is_met(self, pod: Pod, node: Node, where: list[Node]) -> bool:
        """``where``: the nodes of pods that match all terms. Where there are none, one of them may be the first."""
        if all(any(_shares(term, node, at) for at in where) for term in pod.pod_affinity):
            return True
        counted = any(term.topology_key in at.labels for term in pod.pod_affinity for at in where)
        return not counted and all(self._speaks_of(term, pod, pod) for term in pod.pod_affinity)

    def _are_mates(self, pod: Pod, other: Pod) -> bool:
        """Whether they are placed together; no pod of one's own gang is there by a promise only."""
        group = self.group_of(pod)
        is_gang = group is not None and group.min_count is not None
        return is_gang and pod.key[0] == other.key[0] and pod.member == other.member

    def _is_even(self, pod: Pod, node: Node, number: int, standing: Standing) -> bool:
        spread = pod.spread[number]
        keys = {each.topology_key for each in pod.spread}
        counts: dict[str, int] = {}
        for name, other in self.nodes.items():
            is_domain = keys <= other.labels.keys() and (not spread.heeds_affinity or _is_asked_for(pod, other))
            if spread.heeds_taints and (other.unschedulable or not _is_tolerated(pod, other)):
                is_domain = False
            if is_domain:
                matching = [
                    each for each in standing[name].values()
                    if each.key != pod.key and each.key[0] == pod.key[0] and _selected(spread.selector, each)
                ]  # fmt: skip
                value = other.labels[spread.topology_key]
                counts[value] = counts.get(value, 0) + len(matching)
        here = node.labels.get(spread.topology_key)
        if here is None or here not in counts:
            return False
        least = min(counts.values()) if len(counts) >= spread.min_domains else 0
        return counts[here] + _selected(spread.selector, pod) - least <= spread.max_skew

    def violations(self, units: Iterable[CheckedUnit]) -> dict[frozenset[PodKey], int]:
        """How many pods of each unit go beyond their budgets, counted in this order (S-15.4.4)."""
        left = [budget.allowed for budget in self.budgets]
        beyond: dict[frozenset[PodKey], int] = {}
        for unit in units:
            for pod in unit.pods:
                violates = False
                for i, budget in enumerate(self.budgets):
                    mine = budget.namespace == pod.key[0] and pod.key[1] not in budget.disrupted
                    if mine and budget.selector and pod.labels and selects(budget.selector, pod.labels):
                        left[i] -= 1
                        violates = violates or left[i] < 0
                beyond[unit.keys] = beyond.get(unit.keys, 0) + violates
        return beyond


def _suits(pod: Pod, node: Node) -> bool:
    return _is_asked_for(pod, node) and _is_tolerated(pod, node)


def _is_asked_for(pod: Pod, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.affinity is None or any(selects(term, node.labels) for term in pod.affinity)


def _is_tolerated(pod: Pod, node: Node) -> bool:
    taints = [taint for taint in node.taints if taint.effect in KEEPS_AWAY]
    return all(any(toleration.tolerates(taint) for toleration in pod.tolerations) for taint in taints)


def _has_room(pod: Pod, node: Node, there: Iterable[Pod]) -> bool:
    others = [other for other in there if other.key != pod.key]
    if len(others) >= node.allocatable.get(POD_COUNT, 0) or any(pod.ports & other.ports for other in others):
        return False
    for resource, asked in pod.requests.items():
        used = sum(other.requests.get(resource, 0) for other in others)
        if asked > 0 and asked + used > node.allocatable.get(resource, 0):
            return False
    return True


def _shares(term: AffinityTerm, node: Node, other: Node) -> bool:
    value = node.labels.get(term.topology_key)
    return value is not None and value == other.labels.get(term.topology_key)


def _selected(selector: Selector | None, pod: Pod) -> bool:
    return selector is not None and selects(selector, pod.labels)


# --- the rules -------------------------------------------------------------------------------------------------------


def check(
    cluster: Cluster, preemptor: Preemptor, answer: PlacementAnswer, want: Mapping[str, Any] | None = None, *,
    domain: str | None = None,
) -> list[str]:  # fmt: skip
    """The faults of an answer, each with its rule; empty if it is a good one."""
    ground = CheckedCluster(cluster)
    wrong: list[str] = []
    if want is not None:
        wrong += [*needed(answer, want), *feasible(answer, want)]
        if domain is not None:
            wrong += in_domain(answer, want)
        elif isinstance(preemptor, ForPod) and "candidates" in want and answer.feasible:
            wrong += [*chosen(preemptor, answer, want), *candidates(answer, want)]
    if not answer.feasible:
        return wrong + ([] if answer.reason == "ongoingPreemption" else nothing_touched(answer))
    wrong += [*whole_units(ground, preemptor, answer), *some_leave(answer)]
    if domain is not None:
        return wrong
    mildly = want is None and any(pod.spread or pod.pod_affinity for pod in ground.members(preemptor))
    wrong += enough(ground, preemptor, answer, want)
    if not mildly or misfit(ground, preemptor, answer, frozenset(answer.victims), in_order=False) is not None:
        wrong += fits(ground, preemptor, answer)
    if answer.needed:
        wrong += [*no_waste(ground, preemptor, answer), *none_above(ground, answer)]
        if want is not None and not isinstance(preemptor, ForPod):
            wrong += [*threshold(ground, answer, want), *known_outcome(answer, want)]
    return wrong


def texts(keys: Iterable[PodKey]) -> list[str]:
    return sorted(f"{namespace}/{name}" for namespace, name in keys)


def needed(answer: PlacementAnswer, want: Mapping[str, Any]) -> Iterator[str]:
    if answer.needed != want["preemptionNeeded"]:
        yield f"R1: preemption is {'' if answer.needed else 'not '}needed, recorded is the contrary"
    if not answer.needed and answer.victims:
        yield f"R1: nobody need leave, yet {texts(answer.victims)} do"


def feasible(answer: PlacementAnswer, want: Mapping[str, Any]) -> Iterator[str]:
    if answer.feasible != want["feasible"]:
        yield f"R2: {'feasible' if answer.feasible else 'not feasible'}, recorded is the contrary"
    if "reason" in want and answer.reason != want["reason"]:
        yield f"R2: the reason is {answer.reason}, recorded is {want['reason']}"


def nothing_touched(answer: PlacementAnswer) -> list[str]:
    if answer.victims or answer.nominated:
        return [f"R2: not feasible, yet {texts(answer.victims)} leave and {texts(answer.nominated)} are nominated"]
    return []


def whole_units(ground: CheckedCluster, preemptor: Preemptor, answer: PlacementAnswer) -> Iterator[str]:
    members = ground.members(preemptor)
    rank = ground.priority(members[0]) if members else 0
    gone = frozenset(answer.victims)
    for key in sorted(gone):
        pod = ground.pods.get(key)
        if pod is None or pod.node is None:
            yield f"R3: {texts([key])} does not run"
    for unit in ground.units():
        if unit.keys & gone and unit.priority >= rank:
            yield f"R3: {texts(unit.keys & gone)} of priority {unit.priority} are not below {rank}"
        if unit.keys & gone and not unit.keys <= gone:
            yield f"R3: {texts(unit.keys - gone)} stay, others of their unit leave"


def some_leave(answer: PlacementAnswer) -> Iterator[str]:
    if answer.needed and not answer.victims:
        yield "R4: preemption is needed and nobody leaves"


def _listed(want: Mapping[str, Any]) -> dict[str, tuple[list[str], int, int]]:
    return {each["node"]: (each["victims"], each["numPDBViolations"], each["n"]) for each in want["candidates"]}


def chosen(preemptor: ForPod, answer: PlacementAnswer, want: Mapping[str, Any]) -> Iterator[str]:
    node = answer.nominated.get(preemptor.key, "")
    if node not in want["chosen"]:
        yield f"R5: node {node} is not one of {want['chosen']}"
    elif texts(answer.victims) != _listed(want)[node][0]:
        yield f"R5: {texts(answer.victims)} leave, recorded for {node} are {_listed(want)[node][0]}"


def candidates(answer: PlacementAnswer, want: Mapping[str, Any]) -> Iterator[str]:
    got = {each.node: (texts(each.victims), each.violations, each.n) for each in answer.candidates}
    recorded = _listed(want)
    for node in sorted(got.keys() | recorded.keys()):
        if got.get(node) != recorded.get(node):
            yield f"R6: candidate {node} is {got.get(node)}, recorded is {recorded.get(node)}"


def in_domain(answer: PlacementAnswer, want: Mapping[str, Any]) -> Iterator[str]:
    if texts(answer.victims) != want["victims"]:
        yield f"domain: {texts(answer.victims)} leave, recorded are {want['victims']}"
    if answer.violations != want.get("numPDBViolations", answer.violations):
        yield f"domain: {answer.violations} violations, recorded are {want['numPDBViolations']}"
    if answer.n != want.get("n", answer.n):
        yield f"domain: N is {answer.n}, recorded is {want['n']}"


def enough(
    ground: CheckedCluster, preemptor: Preemptor, answer: PlacementAnswer, want: Mapping[str, Any] | None
) -> Iterator[str]:  # fmt: skip
    """R7, with its strict part: a member without a place could not have had one.

    A spread, or an affinity to another pod, may open a node to it later on.
    """
    least = ground.need(preemptor) if want is None else want.get("minNominated", 1)
    members = ground.members(preemptor)
    placed = [pod for pod in members if pod.key in answer.nominated]
    if len(placed) < least:
        yield f"R7: {len(placed)} members have a node, {least} must"
    standing = _with_members(ground, members, placed, answer)
    for pod in members:
        if pod.key in answer.nominated or ((pod.spread or pod.pod_affinity) and want is None):
            continue
        free = [name for name in ground.nodes if ground.valid(pod, name, standing)]
        if free:
            yield f"R7: {texts([pod.key])} has no node, though {free[0]} takes it"


def _with_members(ground: CheckedCluster, members: list[Pod], placed: list[Pod], answer: PlacementAnswer) -> Standing:
    standing = ground.standing(members, ground.priority(members[0]), frozenset(answer.victims))
    for pod in placed:
        standing.setdefault(answer.nominated[pod.key], {})[pod.key] = pod
    return standing


def fits(ground: CheckedCluster, preemptor: Preemptor, answer: PlacementAnswer) -> Iterator[str]:
    unfit = misfit(ground, preemptor, answer, frozenset(answer.victims))
    if unfit is not None:
        yield f"R8: {texts([unfit])} does not fit {answer.nominated[unfit]}"


def misfit(
    ground: CheckedCluster, preemptor: Preemptor, answer: PlacementAnswer, gone: frozenset[PodKey], *,
    in_order: bool = True,
) -> PodKey | None:  # fmt: skip
    """The first member that does not fit its node once these are gone.

    Members are placed one after another in queue order. Spread and affinity depend on the order, and S-15.2.4 allows
    others too: without a record it may also be judged with all of them in place (decision 0055).
    """
    members = ground.members(preemptor)
    standing = ground.standing(members, ground.priority(members[0]), gone)
    placed = [(pod, answer.nominated[pod.key]) for pod in members if pod.key in answer.nominated]
    if not in_order:
        for pod, name in placed:
            standing.setdefault(name, {})[pod.key] = pod
    for pod, name in placed:
        if not ground.valid(pod, name, standing):
            return pod.key
        standing[name][pod.key] = pod
    return None


def threshold(ground: CheckedCluster, answer: PlacementAnswer, want: Mapping[str, Any]) -> Iterator[str]:
    gone = frozenset(answer.victims)
    highest = max((unit.priority for unit in ground.units() if unit.keys & gone), default=None)
    if "nAllowed" in want and highest not in want["nAllowed"]:
        yield f"R9: the highest of those who leave has priority {highest}, not one of {want['nAllowed']}"


def none_above(ground: CheckedCluster, answer: PlacementAnswer) -> Iterator[str]:
    """R9, as far as the answer itself shows it: no pod leaves whose priority is above the one it names."""
    gone = frozenset(answer.victims)
    above = [unit for unit in ground.units() if unit.keys & gone and (answer.n is None or unit.priority > answer.n)]
    if above:
        yield f"R9: {texts(above[0].keys)} of priority {above[0].priority} leave, N is {answer.n}"


def no_waste(ground: CheckedCluster, preemptor: Preemptor, answer: PlacementAnswer) -> Iterator[str]:
    gone = frozenset(answer.victims)
    for unit in ground.units():
        if unit.keys & gone and misfit(ground, preemptor, answer, gone - unit.keys) is None:
            yield f"R10: {texts(unit.keys)} could have stayed"


def known_outcome(answer: PlacementAnswer, want: Mapping[str, Any]) -> Iterator[str]:
    if "outcomes" in want and texts(answer.victims) not in [sorted(each["victims"]) for each in want["outcomes"]]:
        yield f"R11: {texts(answer.victims)} leave, which is none of the {len(want['outcomes'])} recorded outcomes"
