"""What one cycle does for a pod or a gang: victims leave only for a whole placement (S-15.6).

A placement without evictions is bound. One that needs evictions is nominated, and all its victims leave together;
nobody is bound in that cycle, and a later one may choose anew. Without a whole placement nobody leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.fit import place_gang
from makeway.core.placement.model import ForPod, PlacementAnswer, Pod, PodKey, Preemptor
from makeway.core.placement.preemption.decision import PlacementRequest, decide, refused, request_of
from makeway.core.placement.preemption.single_pod import candidate_nodes
from makeway.core.placement.reasons import for_candidate
from makeway.core.placement.snapshot import NodeSnapshot
from makeway.core.placement.units import units_below
from makeway.core.trace import Rule, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleAnswer:
    """What is to be written; the state itself is as it was."""

    feasible: bool
    bound: Mapping[PodKey, str] = field(default_factory=dict)
    actuated: tuple[PodKey, ...] = ()  # sorted; they leave together
    nominated: Mapping[PodKey, str] = field(default_factory=dict)  # after the cycle, of pods that wait
    requeued: tuple[PodKey, ...] = ()  # in queue order
    cleared: tuple[PodKey, ...] = ()  # sorted; others who wait and lose their nomination (S-15.6.8)
    violations: int = 0
    n: int | None = None
    reason: str | None = None  # why no eviction was sought
    why: tuple[Step, ...] = ()


def cycle(state: ClusterState, preemptor: Preemptor, *, pod_by_pod: bool = False) -> CycleAnswer:
    """One look at a pod or gang that waits. ``pod_by_pod``: a gang without workload-aware preemption (S-15.6.4)."""
    who = request_of(state, preemptor)
    answer = _sought(state, preemptor, who, pod_by_pod, listing=False)
    waiting = tuple(pod.key for pod in who.members) if who is not None else ()
    if isinstance(preemptor, ForPod) and who is None and preemptor.key in state.pods:
        waiting = (preemptor.key,)
    cleared = _cleared(state, answer, who.priority, waiting) if who is not None and answer.victims else ()
    return _outcome(answer, waiting, cleared)


def sought(state: ClusterState, preemptor: Preemptor, *, pod_by_pod: bool = False) -> PlacementAnswer:
    """What ``decide`` says; of a gang without workload-aware preemption what S-15.6.4 says."""
    return _sought(state, preemptor, request_of(state, preemptor), pod_by_pod, listing=True)


def _sought(
    state: ClusterState, preemptor: Preemptor, who: PlacementRequest | None, pod_by_pod: bool, *, listing: bool
) -> PlacementAnswer:
    if pod_by_pod and who is not None and not who.single and who.exists >= who.wanted:
        return _pod_by_pod(state, preemptor, who)
    return decide(state, preemptor, listing=listing)


def _cleared(
    state: ClusterState, answer: PlacementAnswer, priority: int, own: tuple[PodKey, ...]
) -> tuple[PodKey, ...]:
    """Less important pods that were promised a node which victims leave (S-15.6.8)."""
    left = {state.pods[key].node for key in answer.victims}
    waiting = (state.pods[key] for key in state.nominated - set(own))
    return tuple(
        sorted(pod.key for pod in waiting if pod.nominated in left and state.gangs.priority_of(pod) < priority)
    )


def _outcome(answer: PlacementAnswer, waiting: tuple[PodKey, ...], cleared: tuple[PodKey, ...]) -> CycleAnswer:
    """The table of S-15.6.6."""
    bound = answer.nominated if answer.feasible and not answer.needed else {}
    return CycleAnswer(
        feasible=answer.feasible,
        bound=bound,
        actuated=answer.victims,
        nominated={} if bound else answer.nominated,
        requeued=tuple(key for key in waiting if key not in bound),
        cleared=cleared,
        violations=answer.violations,
        n=answer.n,
        reason=answer.reason,
        why=answer.why,
    )


def _pod_by_pod(state: ClusterState, preemptor: Preemptor, who: PlacementRequest) -> PlacementAnswer:
    """Each member for itself, one after another; those chosen for earlier ones are gone for later ones."""
    first = NodeSnapshot(state, who.members, who.priority)
    if place_gang(first, who.need) is not None or refused(state, preemptor) is not None:
        return decide(state, preemptor)
    legacy = _Legacy(state, who)
    with state.trial():
        for pod in who.members:
            legacy.place(pod)
    if len(legacy.places) < who.need:
        short = Step(Rule.PLACE_SHORT, (who.name,), (who.priority, who.need, len(who.members)))
        return PlacementAnswer(needed=True, feasible=False, why=(short,))
    return PlacementAnswer(
        needed=bool(legacy.chosen), feasible=True, victims=tuple(sorted(legacy.chosen)), nominated=legacy.places,
        violations=legacy.violations, n=legacy.highest, why=tuple(legacy.why),
    )  # fmt: skip


class _Legacy:
    """The memory of one cycle without workload-aware preemption (S-15.6.4). It works within a trial of the state."""

    def __init__(self, state: ClusterState, who: PlacementRequest) -> None:
        self._state = state
        self._who = who
        self._own = frozenset(pod.key for pod in who.members)
        self.places: dict[PodKey, str] = {}
        self.chosen: set[PodKey] = set()  # pods that will leave
        self.violations = 0
        self.highest: int | None = None
        self.why: list[Step] = []

    def place(self, pod: Pod) -> None:
        node = self._as_things_stand(pod)
        if node is None:
            with self._state.trial():
                for key in self.chosen:
                    self._state.remove_pod(key)
                node = self._as_things_stand(pod) or self._by_eviction(pod)
        if node is not None:
            self.places[pod.key] = node
            self._state.bind(pod.key, node)

    def _room(self, pod: Pod) -> NodeSnapshot:
        return NodeSnapshot(self._state, (pod,), self._who.priority, own=self._own, single=True)

    def _as_things_stand(self, pod: Pod) -> str | None:
        places = place_gang(self._room(pod), 1)
        return None if places is None else self._state.nodes[places[0]].name

    def _by_eviction(self, pod: Pod) -> str | None:
        units = units_below(self._state, self._who.priority)
        snapshot = self._room(pod)
        snapshot.attach(units)
        found = candidate_nodes(snapshot)
        order = found.best_first(units)
        if not len(order):
            return None
        best = int(order[0])
        victims = found.victims_of(best)
        self.why += for_candidate(snapshot, found, best, "/".join(pod.key), self._who.priority)
        self.violations += int(found.violations()[best])
        highest = int(units.priority[victims].max())
        self.highest = highest if self.highest is None else max(self.highest, highest)
        for unit in victims.tolist():
            self.chosen.update(
                each.key for row in units.rows_of(unit).tolist() if (each := self._state.running.pods[row])
            )
        return self._state.nodes[int(found.nodes[best])].name
