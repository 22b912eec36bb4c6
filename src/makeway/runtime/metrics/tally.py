"""Metrics are counted here, from what is stored: a transition of a Workload counts once, when it is seen.

What was so already when the engine began is not counted again, so that a restart does not double anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from makeway.api.conditions import find, is_true
from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.objects.meta import Condition
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.controllers.contract import Outcome, Ref, View
from makeway.core.model import LocalName, Millis, QueueName
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.steps.observers import Cycle, Departed, Observer

NO_CONDITIONS: tuple[Condition, ...] = ()


class TransitionTally(Observer):
    """``view``: which queues exist. For one that does not exist nothing is counted, so that no series outlives it."""

    def __init__(self, metrics: MetricsRegistry, view: View) -> None:
        self.metrics = metrics
        self._view = view
        self._exhausted: dict[QueueName, int] = {}

    def cycled(self, cycle: Cycle, now: Millis) -> None:
        metrics, verdicts = self.metrics, cycle.plan.verdicts
        skipped: dict[QueueName, int] = {}
        for verdict in verdicts:
            queue = verdict.workload.queue
            metrics.attempted(verdict.status == "admitted", cycle.seconds / len(verdicts))
            if verdict.skipped_preemption:
                skipped[queue] = skipped.get(queue, 0) + 1
            if verdict.recomputed:
                metrics.recomputed(self._existing(queue), verdict.recomputed)
        metrics.skipped(skipped)
        self._count_exhausted()

    def _count_exhausted(self) -> None:
        """How often the circuit breaker of rounds, and nothing else, barred somebody."""
        for queue, count in self._view.state.rounds.exhausted.items():
            for _ in range(count - self._exhausted.get(queue, 0)):
                self.metrics.rounds_exhausted(self._existing(queue))
            self._exhausted[queue] = count

    def looked(self, outcome: Outcome, seconds: float, now: Millis) -> None:
        for attempt in outcome.attempts:
            self.metrics.pods.attempted(attempt, seconds / len(outcome.attempts))

    def departed(self, departed: Departed, now: Millis) -> None:
        action, why = departed.action, departed.why
        if not why.preempts:
            return
        if action.write.ref.kind == "Pod":
            self.metrics.pods.evicted(max(0, now - why.at) / 1000)
        elif action.by is not None:
            preemptor = departed.preemptor
            queue = QueueName("") if preemptor is None else preemptor.queue
            self.metrics.preempted(self._existing(queue), why.reason)

    def queues_changed(self, queues: Collection[QueueName]) -> None:
        self.metrics.keep_cohorts(self._view.state.tree.cohorts)
        self.metrics.touch(queues)

    def stored(self, ref: Ref, before: Any, after: Any, *, has_begun: bool) -> None:
        is_same = before is not None and after is not None and before.metadata.uid == after.metadata.uid
        if ref.kind == "Workload":
            self.metrics.seen(ref.key, after)
            if is_same:
                self._transition(before, after).count()
            elif after is not None and has_begun:
                self._created(after)
        elif ref.kind == "LocalQueue":
            self._local_queue(ref, before, after, is_same=is_same)
        elif ref.kind == "ClusterQueue" and before is not None and not is_same:
            self.metrics.cluster_queue_gone(QueueName(ref.name))
        elif ref.kind == "Cohort" and before is not None and not is_same:
            self.metrics.cohort_gone(ref.name)

    def _local_queue(self, ref: Ref, before: Any, after: Any, *, is_same: bool) -> None:
        local = (ref.namespace, ref.name)
        led, leads = (QueueName("" if each is None else each.spec.cluster_queue) for each in (before, after))
        if is_same and led == leads:
            return
        self.metrics.touch_local(local, (led, leads))
        if before is not None and not is_same:
            self.metrics.local_queue_gone(local)

    def _created(self, workload: Workload) -> None:
        """A Workload was made. For a job that was changed before, the time says nothing of us."""
        meta = workload.metadata
        owner = next((each for each in meta.owner_references if each.controller and each.kind != "Workload"), None)
        job = None if owner is None else self._view.get(Ref(owner.kind, meta.namespace, owner.name))
        if owner is None or job is None or job.metadata.uid != owner.uid or job.metadata.generation > 1:
            return
        began, made = job.metadata.creation_timestamp, meta.creation_timestamp
        if began is not None and made is not None:
            self.metrics.workload_created(owner.kind, max(0, made.seconds - began.seconds))

    def _transition(self, before: Workload, after: Workload) -> _Transition:
        held = before.status.admission if before.status is not None else None
        now = self._view.queue_of(after)
        was = now if held is None else QueueName(held.cluster_queue)
        local = (after.metadata.namespace or DEFAULT_NAMESPACE, after.spec.queue_name)
        if self._view.get(Ref("LocalQueue", *local)) is None:
            local = (local[0], "")
        return _Transition(
            self.metrics, before, after, was=self._existing(was), now=self._existing(now), local=local,
            cohorts_of=self._cohorts_of,
        )  # fmt: skip

    def _cohorts_of(self, queue: QueueName) -> list[str]:
        node = self._view.state.tree.queues.get(queue)
        return [] if node is None or node.in_cycle else [each.name for each in node.ancestors()]

    def _existing(self, queue: QueueName) -> QueueName:
        return QueueName("") if self._view.get(Ref("ClusterQueue", "", queue)) is None else queue


class _Transition:
    """One Workload, before and after; ``was`` is its ClusterQueue before, ``now`` after."""

    def __init__(
        self, metrics: MetricsRegistry, before: Workload, after: Workload, *, was: QueueName, now: QueueName,
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
        """Since when it waits: its creation, or when it came back."""
        requeued = find(self._before, "Requeued")
        came_back = requeued is not None and requeued.status == "True"
        return max(self._created_s, _seconds(requeued)) if came_back and requeued is not None else self._created_s

    def _at(self, type: str) -> int:
        return _seconds(find(self._after, type))


def _seconds(condition: Condition | None) -> int:
    if condition is None or condition.last_transition_time is None:
        return 0
    return condition.last_transition_time.seconds
