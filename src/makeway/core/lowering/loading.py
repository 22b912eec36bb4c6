"""A whole state from a set of objects: what ``makeway plan`` and recorded cases begin with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from makeway.api.names import NAMESPACE_LABEL
from makeway.api.objects import queueing
from makeway.api.objects.kubernetes import LimitRange, Namespace, RuntimeClass
from makeway.api.objects.meta import Wire
from makeway.api.objects.workload import Workload as WireWorkload
from makeway.core.lowering.queues import cohort_of, flavor_of, inactive_reasons, queue_of
from makeway.core.lowering.workloads import LoweringContext, is_accounted, is_queueable, workload_of
from makeway.core.model import Millis, Queue, QueueName
from makeway.core.policy import Policy
from makeway.core.quota.tree import QuotaSpec
from makeway.core.state import State

T = TypeVar("T", bound=Wire)


@dataclass(frozen=True, slots=True)
class Loaded:
    state: State
    context: LoweringContext


def load_state(objects: Iterable[Wire], policy: Policy, now: Millis) -> Loaded:
    """The state that these objects describe. Workloads with quota hold it, the others wait in their queues.

    Checks count as existing: whether one is missing is known only where all objects are. A namespace exists if the set
    has it, or if the set has no namespaces at all and an object in it lives there.
    """
    everything = list(objects)
    state = State(policy)
    flavors = {each.metadata.name: each for each in _of(everything, queueing.ResourceFlavor)}

    def lowered_queue(queue: queueing.ClusterQueue) -> tuple[Queue, QuotaSpec]:
        return queue_of(queue, inactive_reasons(queue, lambda _, name: flavors.get(name), asks_for_checks=False))

    state.configure(
        map(lowered_queue, _of(everything, queueing.ClusterQueue)),
        [cohort_of(each) for each in _of(everything, queueing.Cohort)],
        map(flavor_of, flavors.values()),
    )
    state.namespaces = _namespaces(everything)
    context = _surroundings(everything, policy)
    for workload in _of(everything, WireWorkload):
        lowered = workload_of(workload, context)
        if is_accounted(workload):
            state.hold(lowered)
        elif is_queueable(workload, heeds_gates=policy.gates.admission_gated_by) and lowered.queue:
            state.push(lowered, now)
    return Loaded(state, context)


def _of(objects: list[Wire], kind: type[T]) -> list[T]:
    return [each for each in objects if isinstance(each, kind)]


def _surroundings(objects: list[Wire], policy: Policy) -> LoweringContext:
    ranges: defaultdict[str, list[LimitRange]] = defaultdict(list)
    for limit_range in _of(objects, LimitRange):
        ranges[limit_range.metadata.namespace or "default"].append(limit_range)
    return LoweringContext(
        policy,
        queue_of={
            (limit_range.metadata.namespace or "default", limit_range.metadata.name): QueueName(
                limit_range.spec.cluster_queue
            )
            for limit_range in _of(objects, queueing.LocalQueue)
            if not limit_range.spec.is_stopped
        },
        limit_ranges={namespace: tuple(limit_range) for namespace, limit_range in ranges.items()},
        runtime_classes={limit_range.metadata.name: limit_range for limit_range in _of(objects, RuntimeClass)},
    )


def _namespaces(objects: list[Wire]) -> dict[str, Mapping[str, str]]:
    known = {each.metadata.name: each for each in _of(objects, Namespace)}
    if known:
        return {name: _with_name(each.metadata.labels, name) for name, each in known.items()}
    metas = [each.metadata for each in _of(objects, WireWorkload)]
    metas += [each.metadata for each in _of(objects, queueing.LocalQueue)]
    used = {meta.namespace or "default" for meta in metas}
    return {name: _with_name({}, name) for name in sorted(used)}


def _with_name(labels: dict[str, str], name: str) -> dict[str, str]:
    return {NAMESPACE_LABEL: name, **labels}
