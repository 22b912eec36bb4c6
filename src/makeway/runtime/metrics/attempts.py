"""What is counted of scheduling cycles: attempts, their duration, and preempted workloads."""

from __future__ import annotations

from collections.abc import Mapping

from makeway.core.model import Millis, QueueName
from makeway.runtime.metrics.exposition import Number, Registry
from makeway.runtime.metrics.families import BOUNDS, CLUSTER_QUEUE, PREEMPTING_QUEUE, QueueObserver, add
from makeway.runtime.steps.observers import Cycle, Departed


class AttemptMetrics(QueueObserver):
    def __init__(self, registry: Registry) -> None:
        self._counted_exhausted: dict[QueueName, int] = {}
        self._attempts = registry.counter("kueue_admission_attempts_total", "Attempts to admit a workload", "result")
        self._attempt_time = registry.histogram(
            "kueue_admission_attempt_duration_seconds", "Time taken by an attempt to admit a workload", "result",
            bounds=BOUNDS,
        )  # fmt: skip
        self._recomputations = registry.counter(
            "kueue_preemption_target_recomputations_total",
            "Searches for preemption targets that were made again because two workloads had found the same ones",
            *CLUSTER_QUEUE, "result",
        )  # fmt: skip
        self._skips = registry.gauge(
            "kueue_admission_cycle_preemption_skips",
            "Workloads with preemption targets that the last cycle skipped because others needed the same quota",
            *CLUSTER_QUEUE,
        )  # fmt: skip
        self._preempted = registry.counter(
            "kueue_preempted_workloads_total", "Workloads preempted, by the ClusterQueue of the preemptor",
            *PREEMPTING_QUEUE, "reason",
        )  # fmt: skip
        self._exhausted = registry.counter(
            "makeway_preemption_rounds_exhausted_total",
            "Workloads that may preempt no more because they reached the limit of rounds", *CLUSTER_QUEUE,
        )  # fmt: skip
        self._migrations = registry.counter(
            "makeway_option_migrations_total", "Admitted Options evicted for an Option on a better flavor",
            *CLUSTER_QUEUE, "from_flavor", "to_flavor",
        )  # fmt: skip

    # --- what happened ---

    def cycled(self, cycle: Cycle, now: Millis) -> None:
        verdicts = cycle.plan.verdicts
        skipped: dict[QueueName, int] = {}
        for verdict in verdicts:
            queue = verdict.workload.queue
            self.attempted(verdict.status == "admitted", cycle.seconds / len(verdicts))
            if verdict.skipped_preemption:
                skipped[queue] = skipped.get(queue, 0) + 1
            if verdict.recomputed:
                self.recomputed(self.existing(queue), verdict.recomputed)
        self.skipped(skipped)
        for queue, count in self.view.state.rounds.exhausted.items():
            for _ in range(count - self._counted_exhausted.get(queue, 0)):
                self.rounds_exhausted(self.existing(queue))
            self._counted_exhausted[queue] = count

    def departed(self, departed: Departed, now: Millis) -> None:
        if departed.why.preempts and departed.action.by is not None:
            preemptor = departed.preemptor
            queue = QueueName("") if preemptor is None else preemptor.queue
            self.preempted(self.existing(queue), departed.why.reason)

    # --- what is counted ---

    def attempted(self, admitted: bool, seconds: Number) -> None:
        result = "success" if admitted else "inadmissible"
        self._attempts.add(result)
        self._attempt_time.observe(result, value=seconds)

    def skipped(self, counts: Mapping[QueueName, int]) -> None:
        """Workloads that the last cycle skipped although they had preemption targets, per queue."""
        self._skips.set_group("cycle", {(queue,): count for queue, count in counts.items()})

    def recomputed(self, queue: QueueName, result: str) -> None:
        """``result``: new_targets, deferred_fit or skipped."""
        add(self._recomputations, queue, result)

    def preempted(self, queue: QueueName, reason: str) -> None:
        """``queue`` is that of the preemptor."""
        add(self._preempted, queue, reason)

    def rounds_exhausted(self, queue: QueueName) -> None:
        """The limit of rounds, and nothing else, barred a preemption."""
        add(self._exhausted, queue)

    def option_migrated(self, queue: QueueName, from_flavor: str, to_flavor: str) -> None:
        add(self._migrations, queue, from_flavor, to_flavor)

    def queue_gone(self, queue: QueueName) -> None:
        self._skips.remove(queue)
