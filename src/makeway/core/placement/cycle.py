"""What one cycle does for a pod or a gang: victims leave only for a whole placement (S-15.6).

A placement without evictions is bound. One with evictions is nominated, and all its victims leave together: no pod is
bound in that cycle, and a later cycle may choose anew. Without a whole placement no pod leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.model import ForPod, PlacementAnswer, PodKey, Preemptor
from makeway.core.placement.preemption.decision import PlacementRequest, decide, request_of
from makeway.core.placement.preemption.pod_by_pod import decide_pod_by_pod
from makeway.core.trace import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleAnswer:
    """What is to be written; the state itself is unchanged."""

    feasible: bool
    bound: Mapping[PodKey, str] = field(default_factory=dict)
    actuated: tuple[PodKey, ...] = ()  # sorted; they leave together
    nominated: Mapping[PodKey, str] = field(default_factory=dict)  # after the cycle, of waiting pods
    requeued: tuple[PodKey, ...] = ()  # in queue order
    cleared: tuple[PodKey, ...] = ()  # sorted; other waiting pods that lose their nomination (S-15.6.8)
    violations: int = 0
    n: int | None = None
    reason: str | None = None  # why no eviction was sought
    why: tuple[Step, ...] = ()


def cycle(state: ClusterState, preemptor: Preemptor, *, pod_by_pod: bool = False) -> CycleAnswer:
    """Process a waiting pod or gang once. ``pod_by_pod``: a gang without workload-aware preemption (S-15.6.4)."""
    request = request_of(state, preemptor)
    answer = _decided(state, preemptor, request, pod_by_pod, listing=False)
    waiting = tuple(pod.key for pod in request.members) if request is not None else ()
    if isinstance(preemptor, ForPod) and request is None and preemptor.key in state.pods:
        waiting = (preemptor.key,)
    cleared = _cleared(state, answer, request.priority, waiting) if request is not None and answer.victims else ()
    return _outcome(answer, waiting, cleared)


def sought(state: ClusterState, preemptor: Preemptor, *, pod_by_pod: bool = False) -> PlacementAnswer:
    """The answer of ``decide``; for a gang without workload-aware preemption that of S-15.6.4."""
    return _decided(state, preemptor, request_of(state, preemptor), pod_by_pod, listing=True)


def _decided(
    state: ClusterState, preemptor: Preemptor, request: PlacementRequest | None, pod_by_pod: bool, *, listing: bool
) -> PlacementAnswer:
    if pod_by_pod and request is not None and not request.single and request.exists >= request.min_count:
        return decide_pod_by_pod(state, preemptor, request)
    return decide(state, preemptor, listing=listing)


def _cleared(
    state: ClusterState, answer: PlacementAnswer, priority: int, own: tuple[PodKey, ...]
) -> tuple[PodKey, ...]:
    """Less important pods whose nomination is for a node that victims leave (S-15.6.8)."""
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
