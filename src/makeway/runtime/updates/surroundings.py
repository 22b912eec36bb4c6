"""What workloads depend on beside queues: LocalQueues, Namespaces, limit ranges and runtime classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from makeway.api.names import DEFAULT_NAMESPACE, NAMESPACE_LABEL
from makeway.api.objects.kubernetes import Namespace, RuntimeClass
from makeway.api.objects.queueing import LocalQueue
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import LIMIT_RANGE, WORKLOAD, Ref
from makeway.controllers.jobs.kinds.registry import JOB_KINDS
from makeway.core.model import QueueName
from makeway.core.queueing import waking
from makeway.runtime.updates.context import UpdateContext
from makeway.runtime.updates.reading import ObjectReader
from makeway.runtime.updates.workloads import WorkloadUpdates


class Surroundings:
    def __init__(self, context: UpdateContext, reader: ObjectReader, workloads: WorkloadUpdates) -> None:
        self._context = context
        self._reader = reader
        self._workloads = workloads

    def local_queue(self, ref: Ref, after: LocalQueue | None) -> None:
        place, known = (ref.namespace, ref.name), self._reader.queue_of
        is_open = after is not None and after.spec.stop_policy == "None"
        queue = QueueName(after.spec.cluster_queue) if after is not None and is_open else None
        if known.get(place) == queue:
            return
        if queue is None:
            known.pop(place, None)
        else:
            known[place] = queue
        self._lower_again(self._context.objects.in_local_queue(*place))

    def limit_range(self, ref: Ref) -> None:
        objects, namespace = self._context.objects, ref.namespace
        ranges = tuple(each for each in objects.all(LIMIT_RANGE) if each.metadata.namespace == namespace)
        self._reader.limit_ranges[namespace or DEFAULT_NAMESPACE] = ranges
        self._reader.forget_lowered()
        self._lower_again(each for each in objects.all(WORKLOAD) if each.metadata.namespace == namespace)

    def runtime_class(self, ref: Ref, after: RuntimeClass | None) -> None:
        if after is None:
            self._reader.runtime_classes.pop(ref.name, None)
        else:
            self._reader.runtime_classes[ref.name] = after
        self._reader.forget_lowered()
        self._lower_again(self._context.objects.all(WORKLOAD))

    def _lower_again(self, workloads: Iterable[Workload]) -> None:
        for workload in workloads:
            self._workloads.lower_again(workload)

    def namespace(self, ref: Ref, after: Namespace | None) -> None:
        state, follow_ups = self._context.state, self._context.follow_ups
        labels = {} if after is None else _labels(after)
        earlier: Mapping[str, str] = state.namespaces.get(ref.name, {})
        if after is None:
            state.namespaces.pop(ref.name, None)
        else:
            state.namespaces[ref.name] = labels
        if earlier != labels:
            admits_now = waking.after_namespace_change(state, earlier, labels)
            follow_ups.wake(admits_now)
            follow_ups.reworded |= {*admits_now, *waking.after_namespace_change(state, labels, earlier)}
            for kind in JOB_KINDS.values():  # the labels say which jobs are managed
                for job in self._context.objects.in_namespace(kind.name, ref.name):
                    follow_ups.enqueue(Ref.of(job))


def _labels(namespace: Namespace) -> dict[str, str]:
    return {NAMESPACE_LABEL: namespace.metadata.name, **namespace.metadata.labels}
