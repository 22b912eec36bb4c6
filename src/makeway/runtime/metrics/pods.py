"""What is measured of placing pods and gangs, under the names of the Kubernetes scheduler (conventions 4.6).

One is ours: how often a waiting pod was forgotten until it was tried again anyway, which should be never.
Counted from what the pod scheduler says of its attempts, and from evictions when they are stored.
"""

from __future__ import annotations

from makeway.controllers.contract import Outcome, PlacementAttempt
from makeway.core.model import Millis
from makeway.runtime.metrics.exposition import Histogram, Number, Registry
from makeway.runtime.steps.observers import Departed, Observer

SECONDS: tuple[Number, ...] = tuple(0.0001 * 2**k for k in range(18))
COUNTS: tuple[Number, ...] = tuple(2**k for k in range(12))


class PodMetrics(Observer):
    def __init__(self, registry: Registry) -> None:
        counter = registry.counter
        self._attempts = counter("scheduler_podgroup_schedule_attempts_total", "Attempts to place gangs", "result")
        self._preemptions = counter("scheduler_preemption_attempts_total", "Searches for pods that make way")
        self._gang_preemptions = counter(
            "scheduler_workload_preemption_attempts_total", "Searches for pods that make way for a gang", "result"
        )
        self._violations = counter(
            "scheduler_preemption_pdb_violations_total", "Pods evicted beyond their disruption budget"
        )
        self._missed = counter(
            "makeway_pod_wakeups_missed_total", "Places found for pods only by looking again after a while"
        )

        def histogram(name: str, words: str, bounds: tuple[Number, ...], *labels: str) -> Histogram:
            return registry.histogram(f"scheduler_{name}", words, *labels, bounds=bounds)

        self._victims = histogram("preemption_victims", "Pods that make way for one preemptor", COUNTS)
        self._gang_victims = histogram("workload_preemption_victims", "Pods that make way for one gang", COUNTS)
        self._disruptions = histogram(
            "preemption_workload_disruptions", "Workloads that lose pods to one preemptor", COUNTS
        )
        self._attempt_time = histogram(
            "podgroup_scheduling_attempt_duration_seconds", "Time of an attempt to place a gang", SECONDS, "result"
        )
        self._algorithm_time = histogram(
            "podgroup_scheduling_algorithm_duration_seconds", "Time to decide where a gang goes", SECONDS
        )
        self._evaluation_time = histogram(
            "preemption_evaluation_duration_seconds", "Time of an attempt that sought pods to make way", SECONDS
        )
        self._execution_time = histogram(
            "preemption_execution_duration_seconds", "Time from the decision until a pod is told to leave", SECONDS
        )

    def reconciled(self, outcome: Outcome, seconds: float, now: Millis) -> None:
        for attempt in outcome.attempts:
            self.attempted(attempt, seconds / len(outcome.attempts))

    def departed(self, departed: Departed, now: Millis) -> None:
        if departed.action.write.ref.kind == "Pod" and departed.why.preempts:
            self.evicted(max(0, now - departed.why.at) / 1000)

    def attempted(self, attempt: PlacementAttempt, seconds: Number) -> None:
        """``seconds``: of the reconcile in which it was decided, shared by all decisions of that."""
        if attempt.is_gang:
            self._attempts.add(attempt.result)
            self._attempt_time.observe(attempt.result, value=seconds)
            self._algorithm_time.observe(value=seconds)
        if attempt.is_missed:
            self._missed.add()
        if not attempt.has_searched:
            return
        self._preemptions.add()
        self._evaluation_time.observe(value=seconds)
        if attempt.is_gang:
            self._gang_preemptions.add("success" if attempt.victims else "failure")
        if attempt.victims:
            self._victims.observe(value=attempt.victims)
            self._disruptions.observe(value=attempt.disrupted)
            self._violations.add(amount=attempt.violations)
        if attempt.victims and attempt.is_gang:
            self._gang_victims.observe(value=attempt.victims)

    def evicted(self, seconds: Number) -> None:
        self._execution_time.observe(value=seconds)
