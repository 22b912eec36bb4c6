"""What is counted of workloads, from what is stored: a transition of a Workload counts once, when it is seen.

What was so already when the engine began is not counted again, so that a restart does not double anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from makeway.api.conditions import find, is_true
from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.objects.meta import Condition, KubernetesObject
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.controllers.contract import LOCAL_QUEUE, Ref
from makeway.core.model import LocalName, QueueName
from makeway.runtime.metrics.exposition import Counter, Histogram, Number, Registry
from makeway.runtime.metrics.families import (
    BOUNDS,
    CLUSTER_QUEUE,
    COHORT,
    LONG_BOUNDS,
    WHY,
    Pair,
    QueueObserver,
    add,
    add_both,
    observe,
    observe_both,
)

NO_CONDITIONS: tuple[Condition, ...] = ()


class WorkloadMetrics(QueueObserver):
    """``local_queues``: whether LocalQueues have metrics of their own."""

    def __init__(self, registry: Registry, *, local_queues: bool) -> None:
        self._local_queues = local_queues
        self._make_counters(registry)
        self._make_histograms(registry)

    def _make_counters(self, registry: Registry) -> None:
        make = registry.counter
        self._reserved: Pair[Counter] = Pair(
            make, "quota_reserved_workloads_total", "Workloads that got a quota reservation", "priority_class"
        )
        self._admitted: Pair[Counter] = Pair(
            make, "admitted_workloads_total", "Workloads that were admitted", "priority_class"
        )
        self._subtree_admitted = make(
            "kueue_cohort_subtree_admitted_workloads_total",
            "Workloads that were admitted in a ClusterQueue of the Cohort or of a Cohort below it",
            *COHORT, "priority_class",
        )  # fmt: skip
        self._finished: Pair[Counter] = Pair(
            make, "finished_workloads_total", "Workloads that finished", "priority_class"
        )
        self._evicted: Pair[Counter] = Pair(
            make, "evicted_workloads_total", "Evictions of workloads", *WHY, "priority_class"
        )
        self._evicted_once = make(
            "kueue_evicted_workloads_once_total", "Workloads evicted for the first time for this reason and cause",
            *CLUSTER_QUEUE, *WHY, "priority_class",
        )  # fmt: skip

    def _make_histograms(self, registry: Registry) -> None:
        def make(name: str, words: str, *labels: str) -> Histogram:
            return registry.histogram(name, words, *labels, bounds=BOUNDS)

        def make_long(name: str, words: str, *labels: str) -> Histogram:
            return registry.histogram(name, words, *labels, bounds=LONG_BOUNDS)

        self._creation_latency = make(
            "kueue_workload_creation_latency_seconds", "Time from the creation of a job to that of its Workload",
            "job_kind",
        )  # fmt: skip

        def wait(name: str, words: str, make: Callable[..., Histogram] = make) -> Pair[Histogram]:
            return Pair(make, f"{name}_seconds", words, "priority_class")

        since = "Time since a workload was created or requeued"
        self._reserved_wait = wait("quota_reserved_wait_time", f"{since} until its quota reservation")
        self._admission_wait = wait("admission_wait_time", f"{since} until its admission", make_long)
        self._checks_wait = wait(
            "admission_checks_wait_time", "Time from the quota reservation of a workload to its admission"
        )
        self._ready_wait = wait("ready_wait_time", "Time from the creation of a workload until its pods are ready")
        self._until_ready = wait(
            "admitted_until_ready_wait_time", "Time from the admission of a workload until its pods are ready"
        )
        self._execution = wait("execution_time", "Time from the admission of a workload to its end", make_long)
        self._eviction_latency = make(
            "kueue_workload_eviction_latency_seconds", "Time from an eviction until the quota is free",
            *CLUSTER_QUEUE, "reason",
        )  # fmt: skip
        self._ready_to_evicted = make(
            "kueue_pods_ready_to_evicted_time_seconds", "Time from ready pods to the eviction of their workload",
            *CLUSTER_QUEUE, *WHY,
        )  # fmt: skip

    # --- what happened ---

    def stored(
        self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None, *, has_begun: bool
    ) -> None:
        if not isinstance(after, Workload):
            return
        if isinstance(before, Workload) and before.metadata.uid == after.metadata.uid:
            self._transition(before, after).count()
        elif has_begun:
            self._created(after)

    def _created(self, workload: Workload) -> None:
        """A Workload was made. For a job that was changed before, the time says nothing of us."""
        meta = workload.metadata
        owner = next((each for each in meta.owner_references if each.controller and each.kind != "Workload"), None)
        job = None if owner is None else self.view.get(Ref.named(owner.kind, meta.namespace, owner.name))
        if owner is None or job is None or job.metadata.uid != owner.uid or job.metadata.generation > 1:
            return
        began, made = job.metadata.creation_timestamp, meta.creation_timestamp
        if began is not None and made is not None:
            self.workload_created(owner.kind, max(0, made.seconds - began.seconds))

    def _transition(self, before: Workload, after: Workload) -> _Transition:
        held = before.status.admission if before.status is not None else None
        now = self.view.queue_of(after)
        was = now if held is None else QueueName(held.cluster_queue)
        local = (after.metadata.namespace or DEFAULT_NAMESPACE, after.spec.queue_name)
        if self.view.get(Ref(LOCAL_QUEUE, *local)) is None:
            local = (local[0], "")
        return _Transition(
            self, before, after, was=self.existing(was), now=self.existing(now), local=local,
            cohorts_of=self._cohorts_of,
        )  # fmt: skip

    def _cohorts_of(self, queue: QueueName) -> list[str]:
        node = self.view.state.tree.queues.get(queue)
        return [] if node is None or node.in_cycle else [each.name for each in node.ancestors()]

    # --- what is counted ---

    def workload_created(self, job_kind: str, seconds: Number) -> None:
        """A job got its Workload, so many seconds after it was created itself."""
        self._creation_latency.observe(job_kind, value=seconds)

    def reserved(self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number) -> None:
        add_both(self._reserved, queue, self._local(local_queue), priority_class)
        observe_both(self._reserved_wait, waited_s, queue, self._local(local_queue), priority_class)

    def admitted(
        self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number, checked_s: Number = 0,
        cohorts: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """``waited_s`` since it was queued, ``checked_s`` of that since it has quota; ``cohorts`` above the queue."""
        add_both(self._admitted, queue, self._local(local_queue), priority_class)
        observe_both(self._admission_wait, waited_s, queue, self._local(local_queue), priority_class)
        observe_both(self._checks_wait, checked_s, queue, self._local(local_queue), priority_class)
        for cohort in cohorts:
            self._subtree_admitted.add(cohort, priority_class)

    def pods_ready(
        self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number, admitted_s: Number
    ) -> None:
        """For the first time all pods are ready: ``waited_s`` since creation, ``admitted_s`` since admission."""
        observe_both(self._ready_wait, waited_s, queue, self._local(local_queue), priority_class)
        observe_both(self._until_ready, admitted_s, queue, self._local(local_queue), priority_class)

    def evicted(
        self, queue: QueueName, local_queue: LocalName, reason: str, cause: str, priority_class: str, *,
        first: bool, ready_s: Number | None = None,
    ) -> None:  # fmt: skip
        """``first``: never before for this reason and cause; ``ready_s``: how long its pods had been ready."""
        add_both(self._evicted, queue, self._local(local_queue), reason, cause, priority_class)
        if first:
            add(self._evicted_once, queue, reason, cause, priority_class)
        if ready_s is not None:
            observe(self._ready_to_evicted, ready_s, queue, reason, cause)

    def released(self, queue: QueueName, reason: str, seconds: Number) -> None:
        """The quota of an evicted workload is free, so many seconds after the eviction was asked for."""
        observe(self._eviction_latency, seconds, queue, reason)

    def finished(self, queue: QueueName, local_queue: LocalName, priority_class: str, ran_s: Number | None) -> None:
        """``ran_s``: since its admission; None: it never ran."""
        add_both(self._finished, queue, self._local(local_queue), priority_class)
        if ran_s is not None:
            observe_both(self._execution, ran_s, queue, self._local(local_queue), priority_class)

    def _local(self, local: LocalName) -> LocalName | None:
        return local if self._local_queues and local[1] else None


class _Transition:
    """One Workload, before and after; ``was`` is its ClusterQueue before, ``now`` after."""

    def __init__(
        self, metrics: WorkloadMetrics, before: Workload, after: Workload, *, was: QueueName, now: QueueName,
        local: LocalName, cohorts_of: Callable[[QueueName], list[str]],
    ) -> None:  # fmt: skip
        self._metrics = metrics
        self._before = before.status.conditions if before.status is not None else NO_CONDITIONS
        self._status = after.status or WorkloadStatus()
        self._after = self._status.conditions
        self._queue, self._queue_now = was, now
        self._local, self._cohorts_of = local, cohorts_of
        ref = after.spec.priority_class_ref
        self._class = "" if ref is None else ref.name
        created = after.metadata.creation_timestamp
        self._created_s = 0 if created is None else created.seconds

    def count(self) -> None:
        metrics, local, name = self._metrics, self._local, self._class
        if self._became("QuotaReserved"):
            metrics.reserved(self._queue_now, local, name, self._at("QuotaReserved") - self._queued_s())
        if self._became("Admitted"):
            at = self._at("Admitted")
            checked = at - self._at("QuotaReserved")
            cohorts = self._cohorts_of(self._queue_now)
            metrics.admitted(self._queue_now, local, name, at - self._queued_s(), checked, cohorts)
        if self._became("PodsReady") and find(self._after, "PodsReady") is not None:
            at = self._at("PodsReady")
            metrics.pods_ready(self._queue_now, local, name, at - self._created_s, at - self._at("Admitted"))
        if self._became("Evicted") and is_true(self._before, "QuotaReserved"):  # else it had nothing to leave
            self._count_eviction()
        if is_true(self._before, "QuotaReserved") and not is_true(self._after, "QuotaReserved"):
            evicted, released = find(self._before, "Evicted"), find(self._after, "QuotaReserved")
            if evicted is not None and evicted.status == "True" and released is not None:
                metrics.released(self._queue, evicted.reason, _seconds(released) - _seconds(evicted))
        if self._became("Finished"):
            ran = is_true(self._before, "Admitted")
            seconds = self._at("Finished") - self._at("Admitted") if ran else None
            metrics.finished(self._queue, local, name, seconds)

    def _count_eviction(self) -> None:
        evicted = find(self._after, "Evicted")
        assert evicted is not None
        reason, _, cause = evicted.reason.partition("DueTo")
        stats = self._status.scheduling_stats
        counted = {} if stats is None else {(e.reason, e.underlying_cause): e.count for e in stats.evictions}
        cause = cause or next((c for (r, c), n in counted.items() if r == reason and c), "")
        ready = find(self._after, "PodsReady")
        ready_s = _seconds(evicted) - _seconds(ready) if ready is not None and ready.status == "True" else None
        self._metrics.evicted(
            self._queue, self._local, reason, cause, self._class, first=counted.get((reason, cause), 1) <= 1,
            ready_s=ready_s,
        )  # fmt: skip

    def _became(self, type: str) -> bool:
        return is_true(self._after, type) and not is_true(self._before, type)

    def _queued_s(self) -> int:
        """Since when it waits: its creation, or its last return to the queue."""
        requeued = find(self._before, "Requeued")
        came_back = requeued is not None and requeued.status == "True"
        return max(self._created_s, _seconds(requeued)) if came_back and requeued is not None else self._created_s

    def _at(self, type: str) -> int:
        return _seconds(find(self._after, type))


def _seconds(condition: Condition | None) -> int:
    if condition is None or condition.last_transition_time is None:
        return 0
    return condition.last_transition_time.seconds
