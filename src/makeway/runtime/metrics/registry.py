"""What is measured of a running system, under the names that dashboards know (api 16, conventions 4.6).

Counted from facts that the engine hands in, never inside a decision: counters and histograms when something has
happened, what Workloads say of themselves when one is stored, and what the state holds when somebody is about to read.

The series of a ClusterQueue, LocalQueue or Cohort go when it is deleted. One that is made later under the same name
begins at zero.

Spans come in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from makeway import __version__
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import View
from makeway.core.model import LocalName, QueueName, WorkloadKey
from makeway.runtime.metrics.exposition import Counter, Histogram, Number, Registry
from makeway.runtime.metrics.families import BUILD_LABELS, OWNERS, Families, Pair
from makeway.runtime.metrics.pods import PodMetrics
from makeway.runtime.metrics.queue_gauges import QueueGauges
from makeway.runtime.metrics.workload_gauges import WorkloadGauges


class MetricsRegistry:
    """In what has happened a queue is named "" where it does not exist; nothing is counted for it then."""

    def __init__(
        self,
        *,
        role: str = "standalone",
        queue_resources: bool = True,  # enableClusterQueueResources: whether queues show amounts of resources
        local_queues: bool = True,  # localQueueMetrics.enable
        build: Mapping[str, str] | None = None,
    ) -> None:
        self.registry = Registry({"replica_role": role}, OWNERS)
        self.queue_resources = queue_resources
        self.local_queues = local_queues
        self._families = Families(self.registry)
        self._queues = QueueGauges(self._families, queue_resources=queue_resources, local_queues=local_queues)
        self._workloads = WorkloadGauges(self._families, local_queues=local_queues)
        self._cohorts: Mapping[str, object] = {}
        self.pods = PodMetrics(self.registry)
        known = {"git_version": f"v{__version__}", **(build or {})}
        words = "Always 1; the labels say what is running"
        info = self.registry.gauge("kueue_build_info", words, *BUILD_LABELS, shared=False)
        info.set(*(known.get(label, "") for label in BUILD_LABELS), value=1)

    def text(self) -> str:
        return self.registry.text()

    # --- what has happened ---

    def attempted(self, admitted: bool, seconds: Number) -> None:
        result = "success" if admitted else "inadmissible"
        self._families.attempts.add(result)
        self._families.attempt_time.observe(result, value=seconds)

    def skipped(self, counts: Mapping[QueueName, int]) -> None:
        """Workloads that the last cycle skipped although they had preemption targets, per queue."""
        self._families.skips.set_group("cycle", {(queue,): count for queue, count in counts.items()})

    def recomputed(self, queue: QueueName, result: str) -> None:
        """``result``: new_targets, deferred_fit or skipped."""
        _add(self._families.recomputations, queue, result)

    def workload_created(self, job_kind: str, seconds: Number) -> None:
        """A job got its Workload, so long after it was created itself."""
        self._families.creation_latency.observe(job_kind, value=seconds)

    def reserved(self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number) -> None:
        self._add_both(self._families.reserved, queue, local_queue, priority_class)
        self._observe_both(self._families.reserved_wait, waited_s, queue, local_queue, priority_class)

    def admitted(
        self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number, checked_s: Number = 0,
        cohorts: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """``waited_s`` since it was queued, ``checked_s`` of that since it has quota; ``cohorts`` above the queue."""
        self._add_both(self._families.admitted, queue, local_queue, priority_class)
        self._observe_both(self._families.admission_wait, waited_s, queue, local_queue, priority_class)
        self._observe_both(self._families.checks_wait, checked_s, queue, local_queue, priority_class)
        for cohort in cohorts:
            self._families.subtree_admitted.add(cohort, priority_class)

    def pods_ready(
        self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number, admitted_s: Number
    ) -> None:
        """For the first time all pods are ready: ``waited_s`` since creation, ``admitted_s`` since admission."""
        self._observe_both(self._families.ready_wait, waited_s, queue, local_queue, priority_class)
        self._observe_both(self._families.until_ready, admitted_s, queue, local_queue, priority_class)

    def evicted(
        self, queue: QueueName, local_queue: LocalName, reason: str, cause: str, priority_class: str, *,
        first: bool, ready_s: Number | None = None,
    ) -> None:  # fmt: skip
        """``first``: never before for this reason and cause; ``ready_s``: how long its pods had been ready."""
        self._add_both(self._families.evicted, queue, local_queue, reason, cause, priority_class)
        if first:
            _add(self._families.evicted_once, queue, reason, cause, priority_class)
        if ready_s is not None:
            _observe(self._families.ready_to_evicted, ready_s, queue, reason, cause)

    def released(self, queue: QueueName, reason: str, seconds: Number) -> None:
        """The quota of an evicted workload is free, so long after it was asked to leave."""
        _observe(self._families.eviction_latency, seconds, queue, reason)

    def preempted(self, queue: QueueName, reason: str) -> None:
        """``queue`` is that of the preemptor."""
        _add(self._families.preempted, queue, reason)

    def finished(self, queue: QueueName, local_queue: LocalName, priority_class: str, ran_s: Number | None) -> None:
        """``ran_s``: since its admission; None: it never ran."""
        self._add_both(self._families.finished, queue, local_queue, priority_class)
        if ran_s is not None:
            self._observe_both(self._families.execution, ran_s, queue, local_queue, priority_class)

    def rounds_exhausted(self, queue: QueueName) -> None:
        _add(self._families.exhausted, queue)

    def option_migrated(self, queue: QueueName, from_flavor: str, to_flavor: str) -> None:
        _add(self._families.migrations, queue, from_flavor, to_flavor)

    def _add_both(self, pair: Pair[Counter], queue: QueueName, local: LocalName, *labels: str) -> None:
        _add(pair.queue, queue, *labels)
        if self.local_queues and local[1]:
            pair.local.add(local[1], local[0], *labels)

    def _observe_both(
        self, pair: Pair[Histogram], value: Number, queue: QueueName, local: LocalName, *labels: str
    ) -> None:
        _observe(pair.queue, value, queue, *labels)
        if self.local_queues and local[1]:
            pair.local.observe(local[1], local[0], *labels, value=value)

    def set_aside(self, kind: str, room: str) -> None:
        self._families.set_aside.add(kind, room)

    # --- what is stored, and what the state holds ---

    def aside_now(self, kind: str, room: str, count: int) -> None:
        """So many objects of a kind are set aside in a room."""
        self._families.aside_now.set(kind, room, value=count)

    def seen(self, key: WorkloadKey, workload: Workload | None) -> None:
        """A Workload as it is stored now; None: it is gone."""
        self._workloads.seen(key, workload)

    def touch(self, queues: Iterable[QueueName]) -> None:
        """Something about these queues has changed: their workloads, their quota, whether they exist."""
        self._queues.touch(queues)

    def touch_local(self, local: LocalName, queues: Iterable[QueueName]) -> None:
        """A LocalQueue has come or gone, or leads elsewhere; ``queues``: where it leads, and where it led."""
        self._queues.touch_local(local)
        self._queues.touch(queue for queue in queues if queue)

    def local_queue_gone(self, local: LocalName) -> None:
        self.registry.forget(name=local[1], namespace=local[0])

    def cluster_queue_gone(self, queue: QueueName) -> None:
        self._queues.touch([queue])
        self._families.skips.remove(queue)
        self.registry.forget(cluster_queue=queue)
        self.registry.forget(preempting_cluster_queue=queue)

    def cohort_gone(self, cohort: str) -> None:
        """A Cohort was deleted. Queues may still name it: then its gauges stay."""
        self.registry.forget(cohort=cohort)

    def keep_cohorts(self, cohorts: Mapping[str, object]) -> None:
        """The cohorts of the state, in a table that is another one whenever queues or cohorts have changed."""
        if cohorts is self._cohorts:
            return
        for gone in self._cohorts.keys() - cohorts.keys():
            self.registry.forget(cohort=gone)
        self._cohorts = cohorts
        self._queues.touch_forest()

    def refresh(self, view: View) -> None:
        """Bring the gauges up to date: those of the state for touched queues, those of Workloads for all."""
        behind = self._queues.show(view)
        self._workloads.show(behind, view.state.queues)


def _add(counter: Counter, queue: QueueName, *labels: str) -> None:
    if queue:
        counter.add(queue, *labels)


def _observe(histogram: Histogram, value: Number, queue: QueueName, *labels: str) -> None:
    if queue:
        histogram.observe(queue, *labels, value=value)
