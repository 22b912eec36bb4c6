"""What is measured of a running system, under the names that dashboards know (api 16, conventions 4.6).

Counted from what an engine tells its observers, never inside a decision. Counters and histograms are counted when
something has happened, transitions when a Workload is stored, and figures of the state just before they are read.
A metric is made and counted in one place, the part that it belongs to.

The series of a ClusterQueue, LocalQueue or Cohort go when it is deleted. One that is made later under the same name
begins at zero.

Spans come in seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from makeway import __version__
from makeway.api.objects.meta import KubernetesObject
from makeway.api.objects.queueing import LocalQueue
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import Ref, View
from makeway.core.model import LocalName, QueueName, WorkloadKey
from makeway.runtime.metrics.aside import AsideMetrics
from makeway.runtime.metrics.attempts import AttemptMetrics
from makeway.runtime.metrics.exposition import Registry
from makeway.runtime.metrics.families import OWNERS, QueueObserver
from makeway.runtime.metrics.pods import PodMetrics
from makeway.runtime.metrics.queue_gauges import QueueGauges
from makeway.runtime.metrics.transitions import WorkloadMetrics
from makeway.runtime.metrics.workload_gauges import WorkloadGauges
from makeway.runtime.steps.observers import Observer

BUILD_LABELS = ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")


class MetricsRegistry:
    """All parts, for one engine."""

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
        self.attempts = AttemptMetrics(self.registry)
        self.workloads = WorkloadMetrics(self.registry, local_queues=local_queues)
        self._workload_gauges = WorkloadGauges(self.registry, local_queues=local_queues)
        self._queues = QueueGauges(self.registry, queue_resources=queue_resources, local_queues=local_queues)
        self._cohorts: Mapping[str, object] = {}
        self.pods = PodMetrics(self.registry)
        self.aside = AsideMetrics(self.registry)
        known = {"git_version": f"v{__version__}", **(build or {})}
        words = "Always 1; the labels say what is running"
        info = self.registry.gauge("kueue_build_info", words, *BUILD_LABELS, shared=False)
        info.set(*(known.get(label, "") for label in BUILD_LABELS), value=1)

    def text(self) -> str:
        return self.registry.text()

    # --- what happened ---

    def observers(self, view: View) -> list[Observer]:
        """All that count, for the engine behind this view."""
        counting: list[QueueObserver] = [self.attempts, self.workloads]
        for part in counting:
            part.view = view
        return [_Changes(self, view), *counting, self.pods]

    # --- what has changed ---

    def seen(self, key: WorkloadKey, workload: Workload | None) -> None:
        """A Workload as it is stored now; None: it is gone."""
        self._workload_gauges.seen(key, workload)

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
        self.attempts.queue_gone(queue)
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
        self._workload_gauges.show(behind, view.state.queues)


class _Changes(Observer):
    """Tells a registry which queues have changed, and which are gone."""

    def __init__(self, metrics: MetricsRegistry, view: View) -> None:
        self._metrics = metrics
        self._view = view

    def queues_changed(self, queues: Collection[QueueName]) -> None:
        self._metrics.keep_cohorts(self._view.state.tree.cohorts)
        self._metrics.touch(queues)

    def stored(
        self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None, *, has_begun: bool
    ) -> None:
        if ref.kind == "Workload":
            self._metrics.seen(ref.key, after if isinstance(after, Workload) else None)
            return
        is_gone = before is not None and (after is None or before.metadata.uid != after.metadata.uid)
        if ref.kind == "LocalQueue":
            self._local_queue(ref, before, after, is_gone=is_gone)
        elif ref.kind == "ClusterQueue" and is_gone:
            self._metrics.cluster_queue_gone(QueueName(ref.name))
        elif ref.kind == "Cohort" and is_gone:
            self._metrics.cohort_gone(ref.name)

    def _local_queue(
        self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None, *, is_gone: bool
    ) -> None:
        local = (ref.namespace, ref.name)
        led, leads = (
            QueueName(each.spec.cluster_queue if isinstance(each, LocalQueue) else "") for each in (before, after)
        )
        if before is not None and not is_gone and led == leads:
            return
        self._metrics.touch_local(local, (led, leads))
        if is_gone:
            self._metrics.local_queue_gone(local)
