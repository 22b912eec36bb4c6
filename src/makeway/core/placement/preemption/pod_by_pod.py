"""A gang without workload-aware preemption (S-15.6.4): each member by itself, one after another.

Victims of earlier members are gone for later ones. If fewer members than needed get a place, no pod leaves.
"""

from __future__ import annotations

from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.fit import place_gang
from makeway.core.placement.model import PlacementAnswer, Pod, PodKey, Preemptor
from makeway.core.placement.preemption.decision import PlacementRequest, decide, refused
from makeway.core.placement.preemption.single_pod import candidate_nodes
from makeway.core.placement.reasons import for_candidate
from makeway.core.placement.snapshot import NodeSnapshot
from makeway.core.placement.units import units_below
from makeway.core.trace import Rule, Step


def decide_pod_by_pod(state: ClusterState, preemptor: Preemptor, request: PlacementRequest) -> PlacementAnswer:
    together = NodeSnapshot(state, request.members, request.priority)
    if place_gang(together, request.need) is not None or refused(state, preemptor) is not None:
        return decide(state, preemptor)
    members = _PodByPod(state, request)
    with state.trial():
        for pod in request.members:
            members.place(pod)
    if len(members.places) < request.need:
        short = Step(Rule.PLACE_SHORT, (request.name,), (request.priority, request.need, len(request.members)))
        return PlacementAnswer(needed=True, feasible=False, why=(short,))
    return PlacementAnswer(
        needed=bool(members.victims), feasible=True, victims=tuple(sorted(members.victims)), nominated=members.places,
        violations=members.violations, n=members.highest, why=tuple(members.why),
    )  # fmt: skip


class _PodByPod:
    """The decisions for the members so far, within a trial of the state."""

    def __init__(self, state: ClusterState, request: PlacementRequest) -> None:
        self._state = state
        self._priority = request.priority
        self._own = frozenset(pod.key for pod in request.members)
        self.places: dict[PodKey, str] = {}
        self.victims: set[PodKey] = set()
        self.violations = 0
        self.highest: int | None = None  # highest priority of a victim
        self.why: list[Step] = []

    def place(self, pod: Pod) -> None:
        node = self._as_things_stand(pod)
        if node is None:
            with self._state.trial():
                for key in self.victims:
                    self._state.remove_pod(key)
                node = self._as_things_stand(pod) or self._by_eviction(pod)
        if node is not None:
            self.places[pod.key] = node
            self._state.bind(pod.key, node)

    def _snapshot(self, pod: Pod) -> NodeSnapshot:
        return NodeSnapshot(self._state, (pod,), self._priority, own=self._own, single=True)

    def _as_things_stand(self, pod: Pod) -> str | None:
        places = place_gang(self._snapshot(pod), 1)
        return None if places is None else self._state.nodes[places[0]].name

    def _by_eviction(self, pod: Pod) -> str | None:
        units = units_below(self._state, self._priority)
        snapshot = self._snapshot(pod)
        snapshot.attach(units)
        nodes = candidate_nodes(snapshot)
        order = nodes.best_first(units)
        if not len(order):
            return None
        best = int(order[0])
        victims = nodes.victims_of(best)
        self.why += for_candidate(snapshot, nodes, best, "/".join(pod.key), self._priority)
        self.violations += int(nodes.violations()[best])
        highest = int(units.priority[victims].max())
        self.highest = highest if self.highest is None else max(self.highest, highest)
        rows = (row for unit in victims.tolist() for row in units.rows_of(unit).tolist())
        self.victims.update(victim.key for row in rows if (victim := self._state.running.pods[row]) is not None)
        return self._state.nodes[int(nodes.nodes[best])].name
