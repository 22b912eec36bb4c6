"""Metrics counted from what is stored: each transition once, and none of what was so before."""

from __future__ import annotations

from typing import Any

from makeway.controllers.contract import Ref
from makeway.core.model import QueueName
from makeway.runtime.metrics import Metrics
from makeway.runtime.tally import Tally
from tests.runtime.wires import workload

Q = QueueName("q")
REF = Ref("Workload", "default", "w")
AT = "2026-01-01T00:0{}:00Z"


def said(*conditions: tuple[str, str, str, int], **status: Any) -> Any:
    """A Workload with conditions: type, status, reason, minute."""
    told = [
        {"type": kind, "status": state, "reason": reason, "message": "", "lastTransitionTime": AT.format(minute)}
        for kind, state, reason, minute in conditions
    ]
    return workload("w", meta={"uid": "u", "creationTimestamp": AT.format(0)}, status={"conditions": told, **status})


def value(metrics: Metrics, name: str) -> float:
    lines = [line for line in metrics.text().splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_what_is_there_when_the_engine_begins_is_not_counted() -> None:
    metrics = Metrics()
    Tally(metrics).stored(REF, None, said(("QuotaReserved", "True", "QuotaReserved", 1)), Q)
    assert value(metrics, "kueue_quota_reserved_workloads_total") == 0


def test_a_life_is_counted_once_and_an_echo_not_at_all() -> None:
    metrics = Metrics()
    tally = Tally(metrics)
    waits = said(("QuotaReserved", "False", "WaitingForQuota", 0))
    runs = said(("QuotaReserved", "True", "QuotaReserved", 2), ("Admitted", "True", "Admitted", 3))
    leaves = said(
        ("QuotaReserved", "True", "QuotaReserved", 2), ("Admitted", "True", "Admitted", 3),
        ("Evicted", "True", "Preempted", 4),
        schedulingStats={"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
    )  # fmt: skip
    gone = said(("QuotaReserved", "False", "PendingEvaluation", 5), ("Evicted", "True", "Preempted", 4))
    done = said(
        ("QuotaReserved", "True", "QuotaReserved", 2), ("Admitted", "True", "Admitted", 3),
        ("Finished", "True", "Succeeded", 6),
    )  # fmt: skip
    for before, after in ((waits, runs), (runs, runs), (runs, leaves), (leaves, leaves), (leaves, gone), (runs, done)):
        tally.stored(REF, before, after, Q)
    assert value(metrics, "kueue_quota_reserved_workloads_total") == 1
    assert value(metrics, "kueue_admitted_workloads_total") == 1
    assert value(metrics, "kueue_quota_reserved_wait_time_seconds_sum") == 120
    assert value(metrics, "kueue_admission_checks_wait_time_seconds_sum") == 60
    assert value(metrics, "kueue_evicted_workloads_total") == 1
    assert value(metrics, "kueue_evicted_workloads_once_total") == 1
    assert value(metrics, "kueue_workload_eviction_latency_seconds_sum") == 60
    assert value(metrics, "kueue_finished_workloads_total") == 1
    assert value(metrics, "kueue_execution_time_seconds_sum") == 180


def test_a_workload_without_quota_is_not_counted_as_evicted() -> None:
    metrics = Metrics()
    waits = said(("QuotaReserved", "False", "WaitingForQuota", 0))
    off = said(("QuotaReserved", "False", "Deactivated", 1), ("Evicted", "True", "Deactivated", 1))
    Tally(metrics).stored(REF, waits, off, Q)
    assert value(metrics, "kueue_evicted_workloads_total") == value(metrics, "kueue_evicted_workloads_once_total") == 0


def test_one_that_was_made_anew_is_another() -> None:
    metrics = Metrics()
    before = said(("QuotaReserved", "False", "WaitingForQuota", 0))
    after = workload("w", meta={"uid": "another", "creationTimestamp": AT.format(0)})
    Tally(metrics).stored(REF, before, after, Q)
    assert value(metrics, "kueue_quota_reserved_workloads_total") == 0


def test_the_circuit_breaker_is_counted_by_what_is_new() -> None:
    metrics = Metrics()
    tally = Tally(metrics)
    for counts in ({Q: 2}, {Q: 2}, {Q: 3}):
        tally.exhausted(counts)
    assert value(metrics, "makeway_preemption_rounds_exhausted_total") == 3
