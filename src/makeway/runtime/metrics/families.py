"""The names, labels and help texts of all metrics of queues and workloads (api 16, conventions 4.6).

Those of placing pods are in ``pods``. What counts where is said in ``registry``, ``queue_gauges`` and
``workload_gauges``; ``docs/reference/metrics.md`` lists what is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from makeway.runtime.metrics.exposition import Counter, Family, Gauge, Histogram, Labels, Number, Registry

BOUNDS: tuple[Number, ...] = (1, *(2.5 * 2**k for k in range(13)))
LONG_BOUNDS: tuple[Number, ...] = (1, *(2.5 * 2**k for k in range(15)))
BUILD_LABELS = ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")

# The objects whose deletion ends a series, by the labels that name them; of two in one family the first counts.
CLUSTER_QUEUE: Labels = ("cluster_queue",)
PREEMPTING_QUEUE: Labels = ("preempting_cluster_queue",)
LOCAL_QUEUE: Labels = ("name", "namespace")
COHORT: Labels = ("cohort",)
OWNERS = (LOCAL_QUEUE, CLUSTER_QUEUE, PREEMPTING_QUEUE, COHORT)

WHY: Labels = ("reason", "underlying_cause")
FLAVOR_RESOURCE: Labels = ("flavor", "resource")
HIERARCHY: Labels = ("parent_cohort", "root_cohort")
ASIDE: Labels = ("kind", "room")

F = TypeVar("F", bound=Family)


class Pair(Generic[F]):
    """A metric of ClusterQueues and its counterpart of LocalQueues, which begins with other labels."""

    def __init__(self, make: Callable[..., F], name: str, words: str, *labels: str) -> None:
        self.queue = make(f"kueue_{name}", f"{words}, by ClusterQueue", *CLUSTER_QUEUE, *labels)
        self.local = make(f"kueue_local_queue_{name}", f"{words}, by LocalQueue", *LOCAL_QUEUE, *labels)


class Families:
    """Every family, made in the order in which they are printed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._make_counters()
        self._make_histograms()
        self._make_gauges()
        self._make_quota_gauges()
        self._make_cohort_gauges()

    def _make_counters(self) -> None:
        make = self._registry.counter
        self.attempts = make("kueue_admission_attempts_total", "Attempts to admit a workload", "result")
        self.recomputations = make(
            "kueue_preemption_target_recomputations_total",
            "Searches for preemption targets that were made again because two workloads had found the same ones",
            *CLUSTER_QUEUE, "result",
        )  # fmt: skip
        self.reserved: Pair[Counter] = Pair(
            make, "quota_reserved_workloads_total", "Workloads that got a quota reservation", "priority_class"
        )
        self.admitted: Pair[Counter] = Pair(
            make, "admitted_workloads_total", "Workloads that were admitted", "priority_class"
        )
        self.subtree_admitted = make(
            "kueue_cohort_subtree_admitted_workloads_total",
            "Workloads that were admitted in a ClusterQueue of the Cohort or of a Cohort below it",
            *COHORT, "priority_class",
        )  # fmt: skip
        self.finished: Pair[Counter] = Pair(
            make, "finished_workloads_total", "Workloads that finished", "priority_class"
        )
        self.evicted: Pair[Counter] = Pair(
            make, "evicted_workloads_total", "Evictions of workloads", *WHY, "priority_class"
        )
        self.evicted_once = make(
            "kueue_evicted_workloads_once_total", "Workloads evicted for the first time for this reason and cause",
            *CLUSTER_QUEUE, *WHY, "priority_class",
        )  # fmt: skip
        self.preempted = make(
            "kueue_preempted_workloads_total", "Workloads preempted, by the ClusterQueue of the preemptor",
            *PREEMPTING_QUEUE, "reason",
        )  # fmt: skip
        self.exhausted = make(
            "makeway_preemption_rounds_exhausted_total",
            "Workloads that may preempt no more because they reached the limit of rounds", *CLUSTER_QUEUE,
        )  # fmt: skip
        self.migrations = make(
            "makeway_option_migrations_total", "Admitted Options evicted for an Option on a better flavor",
            *CLUSTER_QUEUE, "from_flavor", "to_flavor",
        )  # fmt: skip
        self.set_aside = make(
            "makeway_objects_set_aside_total", "Times that a part of makeway could not handle an object", *ASIDE
        )

    def _make_histograms(self) -> None:
        def make(name: str, words: str, *labels: str) -> Histogram:
            return self._registry.histogram(name, words, *labels, bounds=BOUNDS)

        def make_long(name: str, words: str, *labels: str) -> Histogram:
            return self._registry.histogram(name, words, *labels, bounds=LONG_BOUNDS)

        self.attempt_time = make(
            "kueue_admission_attempt_duration_seconds", "Time taken by an attempt to admit a workload", "result"
        )
        self.creation_latency = make(
            "kueue_workload_creation_latency_seconds", "Time from the creation of a job to that of its Workload",
            "job_kind",
        )  # fmt: skip

        def wait(name: str, words: str, make: Callable[..., Histogram] = make) -> Pair[Histogram]:
            return Pair(make, f"{name}_seconds", words, "priority_class")

        since = "Time since a workload was created or requeued"
        self.reserved_wait = wait("quota_reserved_wait_time", f"{since} until its quota reservation")
        self.admission_wait = wait("admission_wait_time", f"{since} until its admission", make_long)
        self.checks_wait = wait(
            "admission_checks_wait_time", "Time from the quota reservation of a workload to its admission"
        )
        self.ready_wait = wait("ready_wait_time", "Time from the creation of a workload until its pods are ready")
        self.until_ready = wait(
            "admitted_until_ready_wait_time", "Time from the admission of a workload until its pods are ready"
        )
        self.execution = wait("execution_time", "Time from the admission of a workload to its end", make_long)
        self.eviction_latency = make(
            "kueue_workload_eviction_latency_seconds", "Time from an eviction until the quota is free",
            *CLUSTER_QUEUE, "reason",
        )  # fmt: skip
        self.ready_to_evicted = make(
            "kueue_pods_ready_to_evicted_time_seconds", "Time from ready pods to the eviction of their workload",
            *CLUSTER_QUEUE, *WHY,
        )  # fmt: skip

    def _make_gauges(self) -> None:
        make = self._registry.gauge
        self.skips = make(
            "kueue_admission_cycle_preemption_skips",
            "Workloads with preemption targets that the last cycle skipped because others needed the same quota",
            *CLUSTER_QUEUE,
        )  # fmt: skip
        self.pending: Pair[Gauge] = Pair(make, "pending_workloads", "Workloads without quota in the queue", "status")
        self.classes = make(
            "kueue_pending_scheduling_hashes",
            "Scheduling equivalence classes among the pending workloads: all members of one get the same verdict",
            *CLUSTER_QUEUE, "status",
        )  # fmt: skip
        self.reserving_now: Pair[Gauge] = Pair(
            make, "reserving_active_workloads", "Workloads that have a quota reservation"
        )
        self.admitted_now: Pair[Gauge] = Pair(make, "admitted_active_workloads", "Workloads that are admitted")
        self.finished_now: Pair[Gauge] = Pair(make, "finished_workloads", "Finished workloads that are still stored")
        self.unadmitted = make(
            "kueue_unadmitted_workloads",
            "Workloads that are not admitted, by the reason of Admitted=False and that of QuotaReserved=False",
            *CLUSTER_QUEUE, *WHY,
        )  # fmt: skip
        self.local_unadmitted = make(
            "kueue_local_queue_unadmitted_workloads",
            "Workloads of a LocalQueue that are not admitted, by the same reasons", *LOCAL_QUEUE, *CLUSTER_QUEUE, *WHY,
        )  # fmt: skip
        self.status = make(
            "kueue_cluster_queue_status", "1 for the status that the ClusterQueue has, 0 for the others",
            *CLUSTER_QUEUE, "status",
        )  # fmt: skip
        self.local_status = make(
            "kueue_local_queue_status", "1 for the status of the LocalQueue's condition Active, 0 for the others",
            *LOCAL_QUEUE, "active",
        )  # fmt: skip
        self.aside_now = make("makeway_objects_set_aside", "Objects that a part of makeway cannot handle now", *ASIDE)
        self.options = make("makeway_options", "Options of workloads that have not finished", *CLUSTER_QUEUE, "status")
        self.queue_share = make(
            "kueue_cluster_queue_weighted_share", "Weighted share of a ClusterQueue; NaN where it is infinite",
            *CLUSTER_QUEUE, *COHORT,
        )  # fmt: skip

    def _make_quota_gauges(self) -> None:
        def of_queue(name: str, words: str) -> Gauge:
            labels = (*COHORT, *CLUSTER_QUEUE, *FLAVOR_RESOURCE)
            return self._registry.gauge(f"kueue_cluster_queue_{name}", words, *labels)

        def of_local(name: str, words: str) -> Gauge:
            return self._registry.gauge(f"kueue_local_queue_{name}", words, *LOCAL_QUEUE, *FLAVOR_RESOURCE)

        self.nominal = of_queue("nominal_quota", "Nominal quota of a ClusterQueue")
        self.borrowing = of_queue("borrowing_limit", "The most that a ClusterQueue may borrow; +Inf without a limit")
        self.lending = of_queue("lending_limit", "The most that a ClusterQueue may lend; +Inf without a limit")
        held, used = "Quota reserved by the workloads of a", "Quota used by the admitted workloads of a"
        self.reservation = of_queue("resource_reservation", f"{held} ClusterQueue")
        self.usage = of_queue("resource_usage", f"{used} ClusterQueue")
        self.pending_resources = self._registry.gauge(
            "kueue_cluster_queue_resource_pending", "What the pending workloads of a ClusterQueue ask for together",
            *CLUSTER_QUEUE, "resource",
        )  # fmt: skip
        self.local_reservation = of_local("resource_reservation", f"{held} LocalQueue")
        self.local_usage = of_local("resource_usage", f"{used} LocalQueue")

    def _make_cohort_gauges(self) -> None:
        make = self._registry.gauge
        self.cohort_share = make(
            "kueue_cohort_weighted_share", "Weighted share of a Cohort; NaN where it is infinite", *COHORT
        )
        self.subtree_quota = make(
            "kueue_cohort_subtree_quota",
            "Quota of a Cohort and of all below it, without what a lending limit keeps back; no series for 0",
            *COHORT, *FLAVOR_RESOURCE,
        )  # fmt: skip
        self.subtree_reservations = make(
            "kueue_cohort_subtree_resource_reservations",
            "Quota reserved by all workloads of the ClusterQueues below a Cohort; no series for 0",
            *COHORT, *FLAVOR_RESOURCE,
        )  # fmt: skip
        self.subtree_admitted_now = make(
            "kueue_cohort_subtree_admitted_active_workloads",
            "Workloads that are admitted in the ClusterQueues below a Cohort", *COHORT,
        )  # fmt: skip
        self.cohort_info = make(
            "kueue_cohort_info", "Always 1; the labels say where a Cohort is in the hierarchy", *COHORT, *HIERARCHY
        )
        self.queue_info = make(
            "kueue_cluster_queue_info", "Always 1; the labels say where a ClusterQueue is in the hierarchy",
            *CLUSTER_QUEUE, *HIERARCHY,
        )  # fmt: skip
