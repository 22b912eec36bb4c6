"""Where a pod or a gang goes, and who makes way for it (S-15.4, 15.5).

``decide`` only computes: nothing is evicted or bound, the state is left as it was (S-15.6.1). The checks come in the
order of S-15.6.7: a place as things stand, the preemption policy, a preemption under way, and only then a search.

Not here: what a cycle does with the answer (``placement.cycle``), the search in one domain (``contest``,
``single_pod``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from makeway.core.placement.fit import seat_gang
from makeway.core.placement.model import (
    ForPod,
    NodeCandidate,
    PlacementAnswer,
    Pod,
    PodKey,
    PreemptionPolicy,
    Preemptor,
)
from makeway.core.placement.nodes import Bools, Ints, Placement
from makeway.core.placement.preemption.contest import contest
from makeway.core.placement.preemption.single_pod import Offers, offers
from makeway.core.placement.reasons import (
    for_no_place,
    for_offer,
    for_places,
    for_result,
)
from makeway.core.placement.room import NOT_PLACED, Room, Seats
from makeway.core.placement.units import units_below
from makeway.core.trace import Rule, Step

MOST_TRIES = 40_000  # of members that may have to stand one after another: a chain of 280 in the wrong order
NEVER = "preemptionPolicyNever"
ONGOING = "ongoingPreemption"


@dataclass(frozen=True, slots=True)
class Seeker:
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


def seeker(state: Placement, preemptor: Preemptor) -> Seeker | None:
    """None: there is nobody to place, or the reference of the pods resolves to nothing (S-15.1.1)."""
    if isinstance(preemptor, ForPod):
        pod = state.pods.get(preemptor.key)
        if pod is None or pod.node is not None or (pod.member is not None and state.group_of(pod) is None):
            return None
        workload = state.workload_of(pod)
        policy = (pod.policy or "PreemptLowerPriority") if workload is None else workload.policy
        return Seeker((pod,), 1, state.priority_of(pod), policy, 1, 1, single=True)
    place = (preemptor.namespace, preemptor.member)
    members = [state.pods[key] for key in state.waiting.get(place, ())]
    group = state.groups.get((preemptor.namespace, preemptor.member.workload, preemptor.member.group))
    if group is None or not members:
        return None
    members.sort(key=lambda pod: (pod.arrived, pod.uid, pod.key))
    workload = state.workloads[(preemptor.namespace, preemptor.member.workload)]
    running = len(state.running.get(place, ()))
    least = group.min_count or 1
    return Seeker(
        tuple(members), max(1, least - running), workload.priority, workload.policy,
        running + len(members), least, single=False,
    )  # fmt: skip


def decide(
    state: Placement, preemptor: Preemptor, *, domain: str | None = None, listing: bool = True
) -> PlacementAnswer:
    """Where the preemptor goes and who must leave for it.

    ``domain``: only this node is looked at. ``listing``: of a single pod, all nodes where somebody leaving would make
    a place are told, not just the best one.
    """
    who = seeker(state, preemptor)
    if who is None:
        return PlacementAnswer(needed=True, feasible=False, why=(Step(Rule.PLACE_UNRESOLVED, (_named(preemptor),)),))
    if who.exists < who.wanted:
        return PlacementAnswer(
            needed=True, feasible=False, why=(Step(Rule.PLACE_TOO_FEW, (who.name,), (who.exists, who.wanted)),)
        )
    within = None if domain is None else np.array([node.name == domain for node in state.nodes], bool)
    room = Room(state, who.members, who.priority, within=within, single=who.single)
    seats = seat_gang(room, who.need)
    if seats is not None:
        return PlacementAnswer(
            needed=False, feasible=True, nominated=_nominated(room, seats), why=for_places(room, seats, who.need)
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
    room.attach(units)
    among = _in_domain(room, within)
    if not among.any():
        return PlacementAnswer(
            needed=True, feasible=False, why=for_no_place(room, who.name, who.need, who.priority, among)
        )
    if who.single and domain is None:
        return _for_pod(room, who, listing)
    return _for_gang(room, who, among)


def refused(state: Placement, preemptor: Preemptor, *, ruled_out: frozenset[str] = frozenset()) -> str | None:
    """Why no preemption may start for it now, whatever room there is (S-15.1.4, 15.6.7).

    ``ruled_out``: nodes that no eviction can open to it.
    """
    who = seeker(state, preemptor)
    if who is None:
        return None
    if who.policy == "Never":
        return NEVER
    nominated = {pod.nominated for pod in who.members if pod.nominated is not None}
    leaving = _leaving_for(state, who, nominated)
    if not len(leaving) or nominated & ruled_out or not nominated <= state.index.keys():
        return None
    members = tuple(pod for pod in who.members if pod.nominated is not None)
    with state.trial():
        for key in leaving:
            state.remove_pod(key)
        room = Room(state, members, who.priority)
        return ONGOING if _all_stand(room, [state.index[pod.nominated or ""] for pod in members]) else None


def _all_stand(room: Room, seats: Seats) -> bool:
    """Whether all members are valid there, one after another; a member that wants another beside it comes after it."""
    left, tries = list(range(len(seats))), 0
    while left and tries < MOST_TRIES:
        rest = []
        for i in left:
            if room.valid_at(room.kind_of[i], seats[i]):
                room.occupy(room.kind_of[i], seats[i])
            else:
                rest.append(i)
        if len(rest) == len(left):
            break
        tries += len(left)
        left = rest
    return not left


def _leaving_for(state: Placement, who: Seeker, nominated: set[str]) -> list[PodKey]:
    """Pods of lower units that leave these nodes because of a preemption."""
    rows = state.rows
    return [
        key
        for node in nominated
        for key in state.standing_on(node)
        if (pod := state.pods[key]).terminating
        and pod.preempted_by_scheduler
        and rows.priority[state.row_of[key]] < who.priority
    ]


def _for_gang(room: Room, who: Seeker, among: Bools) -> PlacementAnswer:
    result = contest(room, who.need, among)
    if result is None:
        return PlacementAnswer(
            needed=True, feasible=False, why=for_no_place(room, who.name, who.need, who.priority, among)
        )
    why = for_result(room, result, who.priority)
    if not result.going.any():
        return PlacementAnswer(needed=False, feasible=True, nominated=_nominated(room, result.seats), why=why)
    return PlacementAnswer(
        needed=True, feasible=True, victims=_pods(room, np.flatnonzero(result.going)),
        nominated=_nominated(room, result.seats), violations=result.violations(), n=result.n, why=why,
    )  # fmt: skip


def _for_pod(room: Room, who: Seeker, listing: bool) -> PlacementAnswer:
    found = offers(room)
    order = found.by_merit(room.units)
    if not len(order):
        everyone = np.ones(len(room.units), bool)
        return PlacementAnswer(needed=True, feasible=False, why=for_no_place(room, who.name, 1, who.priority, everyone))
    best = int(order[0])
    chosen = _candidate(room, found, best)
    return PlacementAnswer(
        needed=True, feasible=True, victims=chosen.victims, nominated={who.members[0].key: chosen.node},
        candidates=tuple(_candidate(room, found, each) for each in range(len(found.nodes))) if listing else (chosen,),
        violations=chosen.violations, n=chosen.n, why=for_offer(room, found, best, who.name, who.priority),
    )  # fmt: skip


def _candidate(room: Room, found: Offers, offer: int) -> NodeCandidate:
    units = found.victims_of(offer)
    beyond = int(found.beyond[found.bounds[offer] : found.bounds[offer + 1]].sum())
    node = room.state.nodes[int(found.nodes[offer])].name
    return NodeCandidate(
        node=node, victims=_pods(room, units), violations=beyond, n=int(room.units.priority[units].max())
    )


def _in_domain(room: Room, within: Bools | None) -> Bools:
    """The units with a pod in the domain (S-15.4.1)."""
    among = np.zeros(len(room.units), bool)
    among[room.parts.unit if within is None else room.parts.unit[within[room.parts.node]]] = True
    return among


def _pods(room: Room, units: Ints) -> tuple[PodKey, ...]:
    rows = room.state.rows.pods
    found = [rows[row] for unit in units.tolist() for row in room.units.rows_of(unit).tolist()]
    return tuple(sorted(pod.key for pod in found if pod is not None))


def _nominated(room: Room, seats: Seats) -> dict[PodKey, str]:
    nodes = room.state.nodes
    return {pod.key: nodes[at].name for pod, at in zip(room.members, seats, strict=True) if at != NOT_PLACED}


def _named(preemptor: Preemptor) -> str:
    if isinstance(preemptor, ForPod):
        return "/".join(preemptor.key)
    return f"{preemptor.namespace}/{preemptor.member.workload}"
