"""What pending Workloads ask for, counted anew from the stored objects.

What a pod asks for is taken from lowering; the sums over Workloads are made here.
"""

from __future__ import annotations

from collections.abc import Iterable

from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.objects.kubernetes import LimitRange, RuntimeClass
from makeway.api.objects.meta import Wire
from makeway.api.objects.workload import Workload
from makeway.core.lowering import LoweringContext, workload_of
from makeway.core.model import PODS, QueueName
from makeway.core.policy import Policy
from makeway.core.queueing.waiting_list import Shape, shape


def context(objects: Iterable[Wire], policy: Policy) -> LoweringContext:
    """What the requests of pods depend on beside the pods."""
    ranges: dict[str, tuple[LimitRange, ...]] = {}
    classes: dict[str, RuntimeClass] = {}
    for value in objects:
        if isinstance(value, LimitRange):
            namespace = value.metadata.namespace or DEFAULT_NAMESPACE
            ranges[namespace] = (*ranges.get(namespace, ()), value)
        elif isinstance(value, RuntimeClass):
            classes[value.metadata.name] = value
    return LoweringContext(policy, {}, ranges, classes)


def asked_by(workloads: Iterable[Workload], context: LoweringContext, configured: Iterable[str]) -> dict[str, int]:
    """The sum per resource; zero for a resource that is configured and not asked for."""
    total = dict.fromkeys(configured, 0)
    for workload in workloads:
        for pod_set in workload_of(workload, context, QueueName("any")).pod_sets:
            for name, amount in pod_set.requests.items():
                total[name] = total.get(name, 0) + amount * pod_set.count
            if PODS in total:
                total[PODS] += pod_set.count
    return total


def classes_of(workloads: Iterable[Workload], context: LoweringContext) -> set[Shape]:
    """The scheduling equivalence classes of these Workloads."""
    return {shape(workload_of(workload, context, QueueName("any"))) for workload in workloads}
