"""What is measured of a running system, under the names that dashboards know (api 16, conventions 4.6).

Counted from facts that the engine hands in, never inside a decision: counters and histograms when something has
happened, what Workloads say of themselves when one is seen (``seen``), and what the state holds when somebody is about
to read (``refresh``), for the queues that were touched since.

Spans come in seconds. Amounts are shown as users write them: cores and bytes, ``+Inf`` where there is no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf, nan
from typing import Any

from makeway import __version__
from makeway.api.conditions import find, is_true
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.controllers.contract import View
from makeway.core.amounts import UNLIMITED, add
from makeway.core.figures import (
    LocalFigures,
    Waiting,
    figures_by_local_queue,
    figures_of,
    no_figures,
    share_of,
    waiting_in,
)
from makeway.core.model import FR, QueueName, WorkloadKey
from makeway.core.quota import Node
from makeway.core.state import State
from makeway.runtime.exposition import Counter, Gauge, Histogram, Labels, Number, Registry
from makeway.runtime.pod_metrics import PodMetrics

LocalName = tuple[str, str]  # namespace, name
Series = tuple[Gauge, Labels]

BOUNDS: tuple[Number, ...] = (1, *(2.5 * 2**k for k in range(13)))
LONG_BOUNDS: tuple[Number, ...] = (1, *(2.5 * 2**k for k in range(15)))
QUEUE_STATES = ("pending", "active", "terminating")
BUILD_LABELS = ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")


def shown(amount: int, resource: str) -> Number:
    """An amount of the model in the unit that users write."""
    if amount >= UNLIMITED:
        return inf
    return amount / 1000 if resource == "cpu" else amount


def unadmitted_because(workload: Workload) -> tuple[str, str]:
    """Why it does not run, and what it was evicted for before that; "" where nothing says so."""
    conditions = (workload.status or WorkloadStatus()).conditions
    reserved, admitted, evicted = (find(conditions, each) for each in ("QuotaReserved", "Admitted", "Evicted"))
    cause = evicted.reason if evicted is not None and evicted.status == "True" else ""
    if reserved is not None and reserved.status == "True":
        return admitted.reason if admitted is not None else "UnsatisfiedAdmissionChecks", cause
    return reserved.reason if reserved is not None else "PendingEvaluation", cause


class _Pair:
    """A metric of ClusterQueues and its counterpart of LocalQueues, whose labels begin otherwise."""

    def __init__(self, make: Callable[..., Any], name: str, words: str, *labels: str, **more: Any) -> None:
        self.queue = make(f"kueue_{name}", f"{words}, by ClusterQueue", "cluster_queue", *labels, **more)
        self.local = make(f"kueue_local_queue_{name}", f"{words}, by LocalQueue", "name", "namespace", *labels, **more)


class Metrics:
    def __init__(
        self,
        *,
        role: str = "standalone",
        queue_resources: bool = True,  # enableClusterQueueResources: whether gauges per flavor and resource are kept
        local_queues: bool = True,  # localQueueMetrics.enable
        build: Mapping[str, str] | None = None,
    ) -> None:
        self.registry = Registry({"replica_role": role})
        self.queue_resources = queue_resources
        self.local_queues = local_queues
        self._touched: set[QueueName] = set()
        self._seen: dict[WorkloadKey, tuple[Series, ...]] = {}
        self._locals: dict[LocalName, dict[QueueName, LocalFigures]] = {}
        self._locals_of: dict[QueueName, tuple[LocalName, ...]] = {}
        self._make_counters()
        self._make_histograms()
        self._make_gauges()
        self._make_resource_gauges()
        self.pods = PodMetrics(self.registry)
        known = {"git_version": f"v{__version__}", **(build or {})}
        info = self.registry.gauge("kueue_build_info", "What is running", *BUILD_LABELS, shared=False)
        info.set(*(known.get(label, "") for label in BUILD_LABELS), value=1)

    def text(self) -> str:
        return self.registry.text()

    # --- families ---

    def _make_counters(self) -> None:
        make = self.registry.counter
        self._attempts = make("kueue_admission_attempts_total", "Attempts to admit workloads", "result")
        self._recomputations = make(
            "kueue_preemption_target_recomputations_total", "Searches for victims made again", "cluster_queue", "result"
        )
        self._reserved = _Pair(make, "quota_reserved_workloads_total", "Reservations", "priority_class")
        self._admitted = _Pair(make, "admitted_workloads_total", "Admissions", "priority_class")
        self._finished = _Pair(make, "finished_workloads_total", "Workloads that finished", "priority_class")
        grounds = ("reason", "underlying_cause", "priority_class")
        self._evicted = _Pair(make, "evicted_workloads_total", "Evictions", *grounds)
        self._evicted_once = make(
            "kueue_evicted_workloads_once_total", "First evictions for a reason", "cluster_queue", *grounds
        )
        self._preempted = make(
            "kueue_preempted_workloads_total", "Preemptions", "preempting_cluster_queue", "reason"
        )  # fmt: skip
        self._exhausted = make(
            "makeway_preemption_rounds_exhausted_total", "Workloads stopped by the limit of rounds", "cluster_queue"
        )
        self._migrations = make(
            "makeway_option_migrations_total", "Moves to a better Option", "cluster_queue", "from_flavor", "to_flavor"
        )

    def _make_histograms(self) -> None:
        make = self.registry.histogram
        self._attempt_time = make(
            "kueue_admission_attempt_duration_seconds", "Time of an attempt to admit", "result", bounds=BOUNDS
        )

        def wait(name: str, words: str, bounds: tuple[Number, ...] = BOUNDS) -> _Pair:
            return _Pair(make, f"{name}_seconds", words, "priority_class", bounds=bounds)

        self._reserved_wait = wait("quota_reserved_wait_time", "Time from queueing to reservation")
        self._admission_wait = wait("admission_wait_time", "Time from queueing to admission", LONG_BOUNDS)
        self._checks_wait = wait("admission_checks_wait_time", "Time from reservation to admission")
        self._ready_wait = wait("ready_wait_time", "Time from creation to ready pods")
        self._until_ready = wait("admitted_until_ready_wait_time", "Time from admission to ready pods")
        self._execution = wait("execution_time", "Time from admission to the end", LONG_BOUNDS)
        self._eviction_latency = make(
            "kueue_workload_eviction_latency_seconds", "Time from eviction to the release of quota",
            "cluster_queue", "reason", bounds=BOUNDS,
        )  # fmt: skip
        self._ready_to_evicted = make(
            "kueue_pods_ready_to_evicted_time_seconds", "Time from ready pods to eviction",
            "cluster_queue", "reason", "underlying_cause", bounds=BOUNDS,
        )  # fmt: skip

    def _make_gauges(self) -> None:
        make = self.registry.gauge
        self._skips = make(
            "kueue_admission_cycle_preemption_skips", "Workloads skipped in the last cycle with victims at hand",
            "cluster_queue",
        )  # fmt: skip
        self._pending = _Pair(make, "pending_workloads", "Workloads that wait", "status")
        self._reserving_now = _Pair(make, "reserving_active_workloads", "Workloads with quota")
        self._admitted_now = _Pair(make, "admitted_active_workloads", "Admitted workloads")
        self._finished_now = _Pair(make, "finished_workloads", "Finished workloads that are still stored")
        why = ("reason", "underlying_cause")
        self._unadmitted = make("kueue_unadmitted_workloads", "Workloads that do not run", "cluster_queue", *why)
        self._local_unadmitted = make(
            "kueue_local_queue_unadmitted_workloads", "Workloads that do not run, by LocalQueue",
            "name", "namespace", "cluster_queue", *why,
        )  # fmt: skip
        self._status = make("kueue_cluster_queue_status", "1 for the state that it is in", "cluster_queue", "status")
        self._local_status = make(
            "kueue_local_queue_status", "1 for what Active says of it", "name", "namespace", "active"
        )
        self._options = make("makeway_options", "Options of living workloads", "cluster_queue", "status")
        self._queue_share = make("kueue_cluster_queue_weighted_share", "Share of a queue", "cluster_queue", "cohort")
        self._cohort_share = make("kueue_cohort_weighted_share", "Share of a cohort", "cohort")

    def _make_resource_gauges(self) -> None:
        def quota(name: str, words: str, *owner: str) -> Gauge:
            return self.registry.gauge(f"kueue_{name}", words, *owner, "flavor", "resource")

        queue = ("cohort", "cluster_queue")
        self._nominal = quota("cluster_queue_nominal_quota", "Quota that a queue owns", *queue)
        self._borrowing = quota("cluster_queue_borrowing_limit", "The most that it may borrow", *queue)
        self._lending = quota("cluster_queue_lending_limit", "The most that others may take", *queue)
        self._reservation = quota("cluster_queue_resource_reservation", "Use by all with quota", *queue)
        self._usage = quota("cluster_queue_resource_usage", "Use by the admitted", *queue)
        self._local_reservation = quota(
            "local_queue_resource_reservation", "Use by all with quota", "name", "namespace"
        )
        self._local_usage = quota("local_queue_resource_usage", "Use by the admitted", "name", "namespace")
        self._subtree_quota = quota("cohort_subtree_quota", "Quota of a cohort and all below it", "cohort")
        self._subtree_use = quota("cohort_subtree_resource_reservations", "Use of that quota", "cohort")

    # --- what has happened ---

    def attempted(self, admitted: bool, seconds: Number) -> None:
        result = "success" if admitted else "inadmissible"
        self._attempts.add(result)
        self._attempt_time.observe(result, value=seconds)

    def skipped(self, counts: Mapping[QueueName, int]) -> None:
        """Whom the last cycle skipped although it had victims, per queue."""
        self._skips.set_group("cycle", {(queue,): count for queue, count in counts.items()})

    def recomputed(self, queue: QueueName, result: str) -> None:
        """``result``: new_targets, deferred_fit or skipped."""
        self._recomputations.add(queue, result)

    def reserved(self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number) -> None:
        self._add(self._reserved, queue, local_queue, priority_class)
        self._observe(self._reserved_wait, waited_s, queue, local_queue, priority_class)

    def admitted(
        self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number, checked_s: Number = 0
    ) -> None:
        """``waited_s`` since it was queued, ``checked_s`` of that since it has quota."""
        self._add(self._admitted, queue, local_queue, priority_class)
        self._observe(self._admission_wait, waited_s, queue, local_queue, priority_class)
        self._observe(self._checks_wait, checked_s, queue, local_queue, priority_class)

    def pods_ready(
        self, queue: QueueName, local_queue: LocalName, priority_class: str, waited_s: Number, admitted_s: Number
    ) -> None:
        """For the first time all pods are ready: ``waited_s`` since creation, ``admitted_s`` since admission."""
        self._observe(self._ready_wait, waited_s, queue, local_queue, priority_class)
        self._observe(self._until_ready, admitted_s, queue, local_queue, priority_class)

    def evicted(
        self, queue: QueueName, local_queue: LocalName, reason: str, cause: str, priority_class: str, *,
        first: bool, ready_s: Number | None = None,
    ) -> None:  # fmt: skip
        """``first``: never before for this reason and cause; ``ready_s``: how long its pods had been ready."""
        self._add(self._evicted, queue, local_queue, reason, cause, priority_class)
        if first:
            self._evicted_once.add(queue, reason, cause, priority_class)
        if ready_s is not None:
            self._ready_to_evicted.observe(queue, reason, cause, value=ready_s)

    def released(self, queue: QueueName, reason: str, seconds: Number) -> None:
        """The quota of an evicted workload is free, so long after it was asked to leave."""
        self._eviction_latency.observe(queue, reason, value=seconds)

    def preempted(self, queue: QueueName, reason: str) -> None:
        """``queue`` is that of the preemptor."""
        self._preempted.add(queue, reason)

    def finished(self, queue: QueueName, local_queue: LocalName, priority_class: str, ran_s: Number | None) -> None:
        """``ran_s``: since its admission; None: it never ran."""
        self._add(self._finished, queue, local_queue, priority_class)
        if ran_s is not None:
            self._observe(self._execution, ran_s, queue, local_queue, priority_class)

    def rounds_exhausted(self, queue: QueueName) -> None:
        self._exhausted.add(queue)

    def option_migrated(self, queue: QueueName, from_flavor: str, to_flavor: str) -> None:
        self._migrations.add(queue, from_flavor, to_flavor)

    def _add(self, pair: _Pair, queue: QueueName, local_queue: LocalName, *labels: str) -> None:
        counter: Counter = pair.queue
        counter.add(queue, *labels)
        if self.local_queues and local_queue[1]:
            local: Counter = pair.local
            local.add(local_queue[1], local_queue[0], *labels)

    def _observe(self, pair: _Pair, value: Number, queue: QueueName, local_queue: LocalName, *labels: str) -> None:
        histogram: Histogram = pair.queue
        histogram.observe(queue, *labels, value=value)
        if self.local_queues and local_queue[1]:
            local: Histogram = pair.local
            local.observe(local_queue[1], local_queue[0], *labels, value=value)

    # --- what Workloads say ---

    def seen(self, key: WorkloadKey, workload: Workload | None, queue: QueueName) -> None:
        """A Workload as it is stored now, and its queue; None: it is gone."""
        before = self._seen.pop(key, ())
        after = () if workload is None else self._series_of(workload, queue)
        for amount, series in ((-1, before), (1, after)):
            for gauge, labels in series:
                gauge.count(*labels, amount=amount)
        if after:
            self._seen[key] = after

    def _series_of(self, workload: Workload, queue: QueueName) -> tuple[Series, ...]:
        """Where it counts as one. Options do not: their Parent stands for them (S-12.18)."""
        mode = None if workload.spec.workload_mode is None else workload.spec.workload_mode.type
        status = workload.status or WorkloadStatus()
        if mode == "ResourceFlavorOption":
            return ()
        name, namespace = workload.spec.queue_name, workload.metadata.namespace or "default"
        has_local = bool(self.local_queues and name)
        if is_true(status.conditions, "Finished"):
            local = [(self._finished_now.local, (name, namespace))] if has_local else []
            return (*([(self._finished_now.queue, (queue,))] if queue else ()), *local)
        found: list[Series] = [(self._options, (queue, each.status)) for each in status.options if queue]
        if queue and not is_true(status.conditions, "Admitted"):
            why = unadmitted_because(workload)
            found.append((self._unadmitted, (queue, *why)))
            if has_local:
                found.append((self._local_unadmitted, (name, namespace, queue, *why)))
        return tuple(found)

    def shares(
        self, queues: Mapping[tuple[QueueName, str], Number | None], cohorts: Mapping[str, Number | None]
    ) -> None:
        """All shares, of queues with their cohorts and of cohorts; None: infinite."""
        self._queue_share.set_group("all", {labels: _share(each) for labels, each in queues.items()})
        self._cohort_share.set_group("all", {(cohort,): _share(each) for cohort, each in cohorts.items()})

    # --- what the state holds ---

    def touch(self, queues: Iterable[QueueName]) -> None:
        """Something about these has changed: who holds or waits, their quota, whether they are there."""
        self._touched.update(queues)

    def refresh(self, view: View) -> None:
        """Bring the gauges of touched queues up to date. With the configuration, touch all."""
        touched, self._touched = sorted(self._touched), set()
        by_queue: dict[QueueName, list[LocalName]] = {}
        statuses: dict[Labels, Number] = {}
        for each in view.all("LocalQueue") if self.local_queues else ():
            namespace, name = each.metadata.namespace or "default", each.metadata.name
            by_queue.setdefault(QueueName(each.spec.cluster_queue), []).append((namespace, name))
            active = find(() if each.status is None else each.status.conditions, "Active")
            says = "Unknown" if active is None else active.status
            statuses.update({(name, namespace, word): int(word == says) for word in ("True", "False", "Unknown")})
        self._local_status.set_group("all", statuses)
        for queue in touched:
            self._refresh_queue(view.state, queue)
            if self.local_queues:
                self._refresh_locals(view.state, queue, by_queue.get(queue, ()))
        if touched and self.queue_resources:
            self._refresh_cohorts(view.state)
        if touched and view.state.policy.fair_sharing:
            self._refresh_shares(view.state)

    def _refresh_shares(self, state: State) -> None:
        queues = {
            (QueueName(name), _owner(node)[0]): _share_of(state, node) for name, node in state.tree.queues.items()
        }
        self.shares(queues, {name: _share_of(state, node) for name, node in state.tree.cohorts.items()})

    def _refresh_queue(self, state: State, queue: QueueName) -> None:
        node, configured = state.tree.queues.get(queue), state.queues.get(queue)
        if node is None or configured is None:
            for gauge in (
                self._pending.queue, self._reserving_now.queue, self._admitted_now.queue, self._status, self._nominal,
                self._borrowing, self._lending, self._reservation, self._usage,
            ):  # fmt: skip
                gauge.set_group(queue, {})
            return
        figures, waiting = figures_of(state, queue), waiting_in(state, queue)
        self._pending.queue.set_group(queue, _by_status(waiting, queue))
        self._reserving_now.queue.set_group(queue, {(queue,): figures.reserving})
        self._admitted_now.queue.set_group(queue, {(queue,): figures.admitted})
        is_leaving = configured.inactive_because == "Terminating"
        current = "active" if state.is_active(queue) else "terminating" if is_leaving else "pending"
        self._status.set_group(queue, {(queue, each): int(each == current) for each in QUEUE_STATES})
        if self.queue_resources:
            self._refresh_quota(node)
            owner = _owner(node)
            for gauge, table in ((self._reservation, figures.reservation), (self._usage, figures.usage)):
                gauge.set_group(queue, _rows(owner, {fr: figure.total for fr, figure in table.items()}))

    def _refresh_quota(self, node: Node) -> None:
        owner = _owner(node)
        self._nominal.set_group(node.name, _rows(owner, node.nominal))
        for gauge, limits in ((self._borrowing, node.borrowing), (self._lending, node.lending)):
            gauge.set_group(node.name, _rows(owner, {fr: limits.get(fr, UNLIMITED) for fr in node.nominal}))

    def _refresh_locals(self, state: State, queue: QueueName, there: Iterable[LocalName]) -> None:
        """Whoever has a LocalQueue to this queue, or holds or waits by one. Parts in several queues add up."""
        node = state.tree.queues.get(queue)
        idle = no_figures(state, () if node is None else node.nominal)
        parts = {**dict.fromkeys(there, idle), **figures_by_local_queue(state, queue)}
        parts = {name: part for name, part in parts.items() if name[1]}
        before = self._locals_of.pop(queue, ())
        if parts:
            self._locals_of[queue] = tuple(parts)
        for local in {**dict.fromkeys(before), **dict.fromkeys(parts)}:
            whole = self._locals.setdefault(local, {})
            whole.pop(queue, None)
            if local in parts:
                whole[queue] = parts[local]
            self._show_local(local, whole.values())
            if not whole:
                del self._locals[local]

    def _show_local(self, local: LocalName, parts: Iterable[LocalFigures]) -> None:
        owner = (local[1], local[0])
        found = list(parts)
        waiting = Waiting(sum(e.waiting.active for e in found), sum(e.waiting.inadmissible for e in found))
        self._pending.local.set_group(local, _by_status(waiting, *owner) if found else {})
        counts = sum(each.reserving for each in found), sum(each.admitted for each in found)
        for pair, count in zip((self._reserving_now, self._admitted_now), counts, strict=True):
            pair.local.set_group(local, {owner: count} if found else {})
        if self.queue_resources:
            self._local_reservation.set_group(local, _rows(owner, _sum(each.reservation for each in found)))
            self._local_usage.set_group(local, _rows(owner, _sum(each.usage for each in found)))

    def _refresh_cohorts(self, state: State) -> None:
        quota: dict[Labels, Number] = {}
        use: dict[Labels, Number] = {}
        for name, node in state.tree.cohorts.items():
            quota.update(_rows((name,), node.subtree))
            use.update(_rows((name,), {fr: node.usage.get(fr, 0) for fr in {**node.subtree, **node.usage}}))
        self._subtree_quota.set_group("all", quota)
        self._subtree_use.set_group("all", use)


def _share_of(state: State, node: Node) -> Number | None:
    found = share_of(state, node)
    number, scale = (0, 1) if found is None else found.fraction()
    return number / scale if scale else None


def _share(share: Number | None) -> Number:
    return nan if share is None else share


def _owner(node: Node) -> Labels:
    return (node.parent.name if node.parent is not None else "", node.name)


def _rows(owner: Labels, table: Mapping[FR, int]) -> dict[Labels, Number]:
    return {(*owner, flavor, resource): shown(amount, resource) for (flavor, resource), amount in table.items()}


def _by_status(waiting: Waiting, *owner: str) -> dict[Labels, Number]:
    return {(*owner, "active"): waiting.active, (*owner, "inadmissible"): waiting.inadmissible}


def _sum(tables: Iterable[Mapping[FR, int]]) -> dict[FR, int]:
    total: dict[FR, int] = {}
    for table in tables:
        for fr, amount in table.items():
            total[fr] = add(total.get(fr, 0), amount)
    return total
