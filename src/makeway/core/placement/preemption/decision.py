"""Where a pod or a gang goes, and which pods make way for it (S-15.4, 15.5).

``decide`` only computes: nothing is evicted or bound, and the state is unchanged (S-15.6.1). The checks come in the
order of S-15.6.7: a place as things are, the preemption policy, a preemption under way, and only then a search.

Not here: what a cycle does with the answer (``placement.cycle``), the search in one domain (``victims``,
``single_pod``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from makeway.core.placement.cluster.arrays import Bools, Ints
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.fit import place_gang
from makeway.core.placement.model import (
    ForPod,
    NodeCandidate,
    PlacementAnswer,
    Pod,
    PodKey,
    PreemptionPolicy,
    Preemptor,
)
from makeway.core.placement.preemption.single_pod import CandidateNodes, candidate_nodes
from makeway.core.placement.preemption.victims import select_victims
from makeway.core.placement.reasons import (
    for_candidate,
    for_no_place,
    for_places,
    for_victims,
)
from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot, Places
from makeway.core.placement.units import units_below
from makeway.core.trace import Rule, Step

MOST_TRIES = 40_000  # of members that must be placed one after another: a chain of 280 in the wrong order
NEVER = "preemptionPolicyNever"
ONGOING = "ongoingPreemption"


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What a preemptor asks for: its waiting pods, how many of them must be placed, and its rank."""

    members: tuple[Pod, ...]  # waiting, in queue order
    need: int
    priority: int
    policy: PreemptionPolicy
    exists: int  # members, running or waiting
    min_count: int  # so many members must exist before anything is done
    single: bool  # one pod by itself, not a gang of one

    @property
    def name(self) -> str:
        return "/".join(self.members[0].key) if self.members else ""


def request_of(state: ClusterState, preemptor: Preemptor) -> PlacementRequest | None:
    """The request of a preemptor; None: no pod waits, or the pods' reference resolves to nothing (S-15.1.1)."""
    gangs = state.gangs
    if isinstance(preemptor, ForPod):
        pod = state.pods.get(preemptor.key)
        if pod is None or pod.node is not None or (pod.member is not None and gangs.group_of(pod) is None):
            return None
        workload = gangs.workload_of(pod)
        policy = (pod.policy or "PreemptLowerPriority") if workload is None else workload.policy
        return PlacementRequest((pod,), 1, gangs.priority_of(pod), policy, 1, 1, single=True)
    replica = (preemptor.namespace, preemptor.member)
    members = [state.pods[key] for key in gangs.waiting.get(replica, ())]
    group = gangs.groups.get((preemptor.namespace, preemptor.member.workload, preemptor.member.group))
    if group is None or not members:
        return None
    members.sort(key=lambda pod: (pod.arrived, pod.uid, pod.key))
    workload = gangs.workloads[(preemptor.namespace, preemptor.member.workload)]
    running = len(gangs.running.get(replica, ()))
    least = group.min_count or 1
    return PlacementRequest(
        tuple(members), max(1, least - running), workload.priority, workload.policy,
        running + len(members), least, single=False,
    )  # fmt: skip


def decide(
    state: ClusterState, preemptor: Preemptor, *, domain: str | None = None, listing: bool = True
) -> PlacementAnswer:
    """Where the preemptor goes and which pods must leave for it.

    ``domain``: the only node to try. ``listing``: for a single pod, list all nodes where evictions would make a place,
    not just the best one.
    """
    request = request_of(state, preemptor)
    if request is None:
        return _no_place(Step(Rule.PLACE_UNRESOLVED, (_named(preemptor),)))
    if request.exists < request.min_count:
        return _no_place(Step(Rule.PLACE_TOO_FEW, (request.name,), (request.exists, request.min_count)))
    within = None if domain is None else np.array([node.name == domain for node in state.nodes], bool)
    snapshot = NodeSnapshot(state, request.members, request.priority, within=within, single=request.single)
    places = place_gang(snapshot, request.need)
    if places is not None:
        why = for_places(snapshot, places, request.need)
        return PlacementAnswer(needed=False, feasible=True, nominated=_nominated(snapshot, places), why=why)
    refusal = NEVER if request.policy == "Never" else None if domain is not None else refused(state, preemptor)
    if refusal == NEVER:
        return _no_place(Step(Rule.PLACE_NEVER, (request.name,)), reason=NEVER)
    if refusal == ONGOING:
        kept = {pod.key: pod.nominated for pod in request.members if pod.nominated is not None}
        return _no_place(Step(Rule.PLACE_ONGOING, (request.name,)), reason=ONGOING, nominated=kept)
    snapshot.attach(units_below(state, request.priority))
    may_leave = _units_in_domain(snapshot, within)
    if not may_leave.any():
        return _no_place(*for_no_place(snapshot, request.name, request.need, request.priority, may_leave))
    if request.single and domain is None:
        return _for_pod(snapshot, request, listing)
    return _for_gang(snapshot, request, may_leave)


def _no_place(
    *why: Step, reason: str | None = None, nominated: Mapping[PodKey, str] | None = None
) -> PlacementAnswer:  # fmt: skip
    return PlacementAnswer(needed=True, feasible=False, nominated=nominated or {}, reason=reason, why=why)


def refused(state: ClusterState, preemptor: Preemptor, *, ruled_out: frozenset[str] = frozenset()) -> str | None:
    """Why no preemption may start for it now, whatever room there is (S-15.1.4, 15.6.7).

    ``ruled_out``: nodes that no eviction can open to it.
    """
    request = request_of(state, preemptor)
    if request is None:
        return None
    if request.policy == "Never":
        return NEVER
    nominated = {pod.nominated for pod in request.members if pod.nominated is not None}
    leaving = _leaving_for(state, request, nominated)
    if not len(leaving) or nominated & ruled_out or not nominated <= state.nodes.index.keys():
        return None
    members = tuple(pod for pod in request.members if pod.nominated is not None)
    with state.trial():
        for key in leaving:
            state.remove_pod(key)
        snapshot = NodeSnapshot(state, members, request.priority)
        return ONGOING if _all_stand(snapshot, [state.nodes.index[pod.nominated or ""] for pod in members]) else None


def _all_stand(snapshot: NodeSnapshot, places: Places) -> bool:
    """Whether all members are valid there, one after another; one that needs another beside it comes after it."""
    left, tries = list(range(len(places))), 0
    while left and tries < MOST_TRIES:
        rest = []
        for i in left:
            if snapshot.valid_at(snapshot.kind_of[i], places[i]):
                snapshot.occupy(snapshot.kind_of[i], places[i])
            else:
                rest.append(i)
        if len(rest) == len(left):
            break
        tries += len(left)
        left = rest
    return not left


def _leaving_for(state: ClusterState, request: PlacementRequest, nominated: set[str]) -> list[PodKey]:
    """Pods of lower units that are leaving these nodes because of a preemption."""
    rows = state.running
    return [
        key
        for node in nominated
        for key in state.running.on_node(node)
        if (pod := state.pods[key]).terminating
        and pod.preempted_by_scheduler
        and rows.priority[state.running.row_of[key]] < request.priority
    ]


def _for_gang(snapshot: NodeSnapshot, request: PlacementRequest, may_leave: Bools) -> PlacementAnswer:
    selection = select_victims(snapshot, request.need, may_leave)
    if selection is None:
        return _no_place(*for_no_place(snapshot, request.name, request.need, request.priority, may_leave))
    why, nominated = for_victims(snapshot, selection, request.priority), _nominated(snapshot, selection.places)
    if not selection.victims.any():
        return PlacementAnswer(needed=False, feasible=True, nominated=nominated, why=why)
    return PlacementAnswer(
        needed=True, feasible=True, victims=_pods(snapshot, np.flatnonzero(selection.victims)), nominated=nominated,
        violations=selection.violations(), n=selection.n, why=why,
    )  # fmt: skip


def _for_pod(snapshot: NodeSnapshot, request: PlacementRequest, listing: bool) -> PlacementAnswer:
    nodes = candidate_nodes(snapshot)
    order = nodes.best_first(snapshot.units)
    if not len(order):
        all_units = np.ones(len(snapshot.units), bool)
        return _no_place(*for_no_place(snapshot, request.name, 1, request.priority, all_units))
    best = int(order[0])
    chosen = _candidate(snapshot, nodes, best)
    listed = [_candidate(snapshot, nodes, i) for i in range(len(nodes.nodes))] if listing else [chosen]
    return PlacementAnswer(
        needed=True, feasible=True, victims=chosen.victims, nominated={request.members[0].key: chosen.node},
        candidates=tuple(listed), violations=chosen.violations, n=chosen.n,
        why=for_candidate(snapshot, nodes, best, request.name, request.priority),
    )  # fmt: skip


def _candidate(snapshot: NodeSnapshot, nodes: CandidateNodes, number: int) -> NodeCandidate:
    units = nodes.victims_of(number)
    beyond = int(nodes.beyond[nodes.bounds[number] : nodes.bounds[number + 1]].sum())
    node = snapshot.state.nodes[int(nodes.nodes[number])].name
    return NodeCandidate(
        node=node, victims=_pods(snapshot, units), violations=beyond, n=int(snapshot.units.priority[units].max())
    )


def _units_in_domain(snapshot: NodeSnapshot, within: Bools | None) -> Bools:
    """The units with a pod in the domain (S-15.4.1)."""
    may_leave = np.zeros(len(snapshot.units), bool)
    may_leave[snapshot.parts.unit if within is None else snapshot.parts.unit[within[snapshot.parts.node]]] = True
    return may_leave


def _pods(snapshot: NodeSnapshot, units: Ints) -> tuple[PodKey, ...]:
    rows = snapshot.state.running.pods
    pods = [rows[row] for unit in units.tolist() for row in snapshot.units.rows_of(unit).tolist()]
    return tuple(sorted(pod.key for pod in pods if pod is not None))


def _nominated(snapshot: NodeSnapshot, places: Places) -> dict[PodKey, str]:
    nodes = snapshot.state.nodes
    return {pod.key: nodes[at].name for pod, at in zip(snapshot.members, places, strict=True) if at != NOT_PLACED}


def _named(preemptor: Preemptor) -> str:
    if isinstance(preemptor, ForPod):
        return "/".join(preemptor.key)
    return f"{preemptor.namespace}/{preemptor.member.workload}"
