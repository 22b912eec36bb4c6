"""Where a pod or a gang goes, and who makes way for it (S-15.4, 15.5).

``decide`` only computes: nothing is evicted or bound, the state is left as it was (S-15.6.1). The checks come in the
order of S-15.6.7: a place as things stand, the preemption policy, a preemption under way, and only then a search.

Not here: what a cycle does with the answer (``placement.cycle``), the search in one domain (``contest``,
``single_pod``).
"""

from __future__ import annotations

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

MOST_TRIES = 40_000  # of members that may have to stand one after another: a chain of 280 in the wrong order
NEVER = "preemptionPolicyNever"
ONGOING = "ongoingPreemption"


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The preemptor as its Workload makes it: whom it consists of, how many must be placed, and its rank."""

    members: tuple[Pod, ...]  # that wait, in queue order
    need: int
    priority: int
    policy: PreemptionPolicy
    exists: int  # members, running or waiting
    wanted: int  # of them must exist before anything is done
    single: bool

    @property
    def name(self) -> str:
        return "/".join(self.members[0].key) if self.members else ""


def request_of(state: ClusterState, preemptor: Preemptor) -> PlacementRequest | None:
    """None: there is nobody to place, or the reference of the pods resolves to nothing (S-15.1.1)."""
    if isinstance(preemptor, ForPod):
        pod = state.pods.get(preemptor.key)
        if pod is None or pod.node is not None or (pod.member is not None and state.gangs.group_of(pod) is None):
            return None
        workload = state.gangs.workload_of(pod)
        policy = (pod.policy or "PreemptLowerPriority") if workload is None else workload.policy
        return PlacementRequest((pod,), 1, state.gangs.priority_of(pod), policy, 1, 1, single=True)
    place = (preemptor.namespace, preemptor.member)
    members = [state.pods[key] for key in state.gangs.waiting.get(place, ())]
    group = state.gangs.groups.get((preemptor.namespace, preemptor.member.workload, preemptor.member.group))
    if group is None or not members:
        return None
    members.sort(key=lambda pod: (pod.arrived, pod.uid, pod.key))
    workload = state.gangs.workloads[(preemptor.namespace, preemptor.member.workload)]
    running = len(state.gangs.running.get(place, ()))
    least = group.min_count or 1
    return PlacementRequest(
        tuple(members), max(1, least - running), workload.priority, workload.policy,
        running + len(members), least, single=False,
    )  # fmt: skip


def decide(
    state: ClusterState, preemptor: Preemptor, *, domain: str | None = None, listing: bool = True
) -> PlacementAnswer:
    """Where the preemptor goes and who must leave for it.

    ``domain``: only this node is looked at. ``listing``: of a single pod, all nodes where somebody leaving would make
    a place are told, not just the best one.
    """
    who = request_of(state, preemptor)
    if who is None:
        return PlacementAnswer(needed=True, feasible=False, why=(Step(Rule.PLACE_UNRESOLVED, (_named(preemptor),)),))
    if who.exists < who.wanted:
        return PlacementAnswer(
            needed=True, feasible=False, why=(Step(Rule.PLACE_TOO_FEW, (who.name,), (who.exists, who.wanted)),)
        )
    within = None if domain is None else np.array([node.name == domain for node in state.nodes], bool)
    snapshot = NodeSnapshot(state, who.members, who.priority, within=within, single=who.single)
    places = place_gang(snapshot, who.need)
    if places is not None:
        return PlacementAnswer(
            needed=False,
            feasible=True,
            nominated=_nominated(snapshot, places),
            why=for_places(snapshot, places, who.need),
        )
    refusal = None if domain is not None else refused(state, preemptor)
    if refusal is None and who.policy == "Never":
        refusal = NEVER
    if refusal is not None:
        rule = Rule.PLACE_NEVER if refusal == NEVER else Rule.PLACE_ONGOING
        kept = {} if refusal == NEVER else {pod.key: pod.nominated for pod in who.members if pod.nominated is not None}
        return PlacementAnswer(
            needed=True, feasible=False, nominated=kept, reason=refusal, why=(Step(rule, (who.name,)),)
        )
    units = units_below(state, who.priority)
    snapshot.attach(units)
    among = _in_domain(snapshot, within)
    if not among.any():
        return PlacementAnswer(
            needed=True, feasible=False, why=for_no_place(snapshot, who.name, who.need, who.priority, among)
        )
    if who.single and domain is None:
        return _for_pod(snapshot, who, listing)
    return _for_gang(snapshot, who, among)


def refused(state: ClusterState, preemptor: Preemptor, *, ruled_out: frozenset[str] = frozenset()) -> str | None:
    """Why no preemption may start for it now, whatever room there is (S-15.1.4, 15.6.7).

    ``ruled_out``: nodes that no eviction can open to it.
    """
    who = request_of(state, preemptor)
    if who is None:
        return None
    if who.policy == "Never":
        return NEVER
    nominated = {pod.nominated for pod in who.members if pod.nominated is not None}
    leaving = _leaving_for(state, who, nominated)
    if not len(leaving) or nominated & ruled_out or not nominated <= state.nodes.index.keys():
        return None
    members = tuple(pod for pod in who.members if pod.nominated is not None)
    with state.trial():
        for key in leaving:
            state.remove_pod(key)
        snapshot = NodeSnapshot(state, members, who.priority)
        return ONGOING if _all_stand(snapshot, [state.nodes.index[pod.nominated or ""] for pod in members]) else None


def _all_stand(snapshot: NodeSnapshot, places: Places) -> bool:
    """Whether all members are valid there, one after another; a member that wants another beside it comes after it."""
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


def _leaving_for(state: ClusterState, who: PlacementRequest, nominated: set[str]) -> list[PodKey]:
    """Pods of lower units that leave these nodes because of a preemption."""
    rows = state.running
    return [
        key
        for node in nominated
        for key in state.running.on_node(node)
        if (pod := state.pods[key]).terminating
        and pod.preempted_by_scheduler
        and rows.priority[state.running.row_of[key]] < who.priority
    ]


def _for_gang(snapshot: NodeSnapshot, who: PlacementRequest, among: Bools) -> PlacementAnswer:
    result = select_victims(snapshot, who.need, among)
    if result is None:
        return PlacementAnswer(
            needed=True, feasible=False, why=for_no_place(snapshot, who.name, who.need, who.priority, among)
        )
    why = for_victims(snapshot, result, who.priority)
    if not result.going.any():
        return PlacementAnswer(needed=False, feasible=True, nominated=_nominated(snapshot, result.places), why=why)
    return PlacementAnswer(
        needed=True, feasible=True, victims=_pods(snapshot, np.flatnonzero(result.going)),
        nominated=_nominated(snapshot, result.places), violations=result.violations(), n=result.n, why=why,
    )  # fmt: skip


def _for_pod(snapshot: NodeSnapshot, who: PlacementRequest, listing: bool) -> PlacementAnswer:
    found = candidate_nodes(snapshot)
    order = found.best_first(snapshot.units)
    if not len(order):
        everyone = np.ones(len(snapshot.units), bool)
        return PlacementAnswer(
            needed=True, feasible=False, why=for_no_place(snapshot, who.name, 1, who.priority, everyone)
        )
    best = int(order[0])
    chosen = _candidate(snapshot, found, best)
    listed = tuple(_candidate(snapshot, found, each) for each in range(len(found.nodes))) if listing else (chosen,)
    return PlacementAnswer(
        needed=True, feasible=True, victims=chosen.victims, nominated={who.members[0].key: chosen.node},
        candidates=listed,
        violations=chosen.violations, n=chosen.n, why=for_candidate(snapshot, found, best, who.name, who.priority),
    )  # fmt: skip


def _candidate(snapshot: NodeSnapshot, found: CandidateNodes, offer: int) -> NodeCandidate:
    units = found.victims_of(offer)
    beyond = int(found.beyond[found.bounds[offer] : found.bounds[offer + 1]].sum())
    node = snapshot.state.nodes[int(found.nodes[offer])].name
    return NodeCandidate(
        node=node, victims=_pods(snapshot, units), violations=beyond, n=int(snapshot.units.priority[units].max())
    )


def _in_domain(snapshot: NodeSnapshot, within: Bools | None) -> Bools:
    """The units with a pod in the domain (S-15.4.1)."""
    among = np.zeros(len(snapshot.units), bool)
    among[snapshot.parts.unit if within is None else snapshot.parts.unit[within[snapshot.parts.node]]] = True
    return among


def _pods(snapshot: NodeSnapshot, units: Ints) -> tuple[PodKey, ...]:
    rows = snapshot.state.running.pods
    found = [rows[row] for unit in units.tolist() for row in snapshot.units.rows_of(unit).tolist()]
    return tuple(sorted(pod.key for pod in found if pod is not None))


def _nominated(snapshot: NodeSnapshot, places: Places) -> dict[PodKey, str]:
    nodes = snapshot.state.nodes
    return {pod.key: nodes[at].name for pod, at in zip(snapshot.members, places, strict=True) if at != NOT_PLACED}


def _named(preemptor: Preemptor) -> str:
    if isinstance(preemptor, ForPod):
        return "/".join(preemptor.key)
    return f"{preemptor.namespace}/{preemptor.member.workload}"
