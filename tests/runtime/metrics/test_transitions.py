"""Metrics counted from what is stored: each transition once, and none of what was so before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from makeway.api.quantity import Time
from makeway.controllers.contract import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, Action, Change, Ref
from makeway.controllers.contract import COHORT as COHORT_KIND
from makeway.controllers.workloads.eviction import Evict
from makeway.core.cycle.cycle import Plan
from makeway.core.model import QueueName, WorkloadKey
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.steps.observers import Cycle, Departed, Observer, Observers
from makeway.testing.builders import workload as waiting
from tests.controllers.views import NOW, FakeView, job
from tests.runtime.measuring import names_of, table
from tests.runtime.wires import cluster_queue, cohort, flavor, local_queue, workload

Q = QueueName("q")
REF = Ref(WORKLOAD, "default", "w")
AT = "2026-01-01T00:0{}:00Z"


def said(*conditions: tuple[str, str, str, int], **status: Any) -> Any:
    """A Workload with conditions: type, status, reason, minute."""
    told = [
        {"type": kind, "status": state, "reason": reason, "message": "", "lastTransitionTime": AT.format(minute)}
        for kind, state, reason, minute in conditions
    ]
    return workload("w", meta={"uid": "u", "creationTimestamp": AT.format(0)}, status={"conditions": told, **status})


def observed(metrics: MetricsRegistry, view: FakeView) -> Observer:
    return Observers(metrics.observers(view))


def tally_of(metrics: MetricsRegistry, *objects: Any) -> Observer:
    return observed(metrics, FakeView.of(*(objects or (cluster_queue(), flavor(), local_queue()))))


def barred(tally: Observer, view: FakeView, count: int) -> None:
    """A cycle after which the limit of rounds has barred a preemption of the queue so often."""
    view.state.rounds.exhausted[Q] = count
    tally.cycled(Cycle(1, Plan(NOW, ()), 0.0), NOW)


def made_way(tally: Observer, reason: str) -> None:
    """A Workload was asked to leave for one of the queue."""
    why = Evict("Preempted", "", NOW, preempted=reason).departure
    action = Action(Change(REF, lambda workload: workload), by=WorkloadKey("default/by"))
    tally.departed(Departed(action, why, None, waiting("by", queue=Q)), NOW)


def value(metrics: MetricsRegistry, name: str) -> float:
    lines = [line for line in metrics.text().splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_what_is_there_when_the_engine_begins_is_not_counted() -> None:
    metrics = MetricsRegistry()
    reserved = said(("QuotaReserved", "True", "QuotaReserved", 1))
    tally_of(metrics).stored(REF, None, reserved, has_begun=False)
    assert value(metrics, "kueue_quota_reserved_workloads_total") == 0


def test_a_life_is_counted_once_and_an_echo_not_at_all() -> None:
    metrics = MetricsRegistry()
    tally = tally_of(metrics)
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
        tally.stored(REF, before, after, has_begun=True)
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
    metrics = MetricsRegistry()
    waits = said(("QuotaReserved", "False", "WaitingForQuota", 0))
    off = said(("QuotaReserved", "False", "Deactivated", 1), ("Evicted", "True", "Deactivated", 1))
    tally_of(metrics).stored(REF, waits, off, has_begun=True)
    assert value(metrics, "kueue_evicted_workloads_total") == value(metrics, "kueue_evicted_workloads_once_total") == 0


def test_one_that_was_made_anew_is_another() -> None:
    metrics = MetricsRegistry()
    before = said(("QuotaReserved", "False", "WaitingForQuota", 0))
    after = workload("w", meta={"uid": "another", "creationTimestamp": AT.format(0)})
    tally_of(metrics).stored(REF, before, after, has_begun=True)
    assert value(metrics, "kueue_quota_reserved_workloads_total") == 0


def test_the_circuit_breaker_is_counted_by_what_is_new() -> None:
    metrics, view = MetricsRegistry(), FakeView.of(cluster_queue(), flavor(), local_queue())
    tally = observed(metrics, view)
    for count in (2, 2, 3):
        barred(tally, view, count)
    assert value(metrics, "makeway_preemption_rounds_exhausted_total") == 3


# --- queues that come and go ------------------------------------------------------------------------------------------

WAITS = said(("QuotaReserved", "False", "WaitingForQuota", 0))
RUNS = said(("QuotaReserved", "True", "QuotaReserved", 2), ("Admitted", "True", "Admitted", 3))
QUEUE, LOCAL, COHORT = Ref(CLUSTER_QUEUE, "", "q"), Ref(LOCAL_QUEUE, "default", "lq"), Ref(COHORT_KIND, "", "r")


def test_an_admission_counts_for_all_cohorts_above() -> None:
    metrics = MetricsRegistry()
    tally = tally_of(
        metrics, cluster_queue(cohortName="r"), flavor(), local_queue(), cohort("r", parentName="top"), cohort("other")
    )
    tally.stored(REF, WAITS, RUNS, has_begun=True)
    family = "kueue_cohort_subtree_admitted_workloads_total"
    assert table(metrics, family) == {("r", ""): 1, ("top", ""): 1}


@pytest.mark.parametrize(("gone", "left"), [(QUEUE, "kueue_local_queue_"), (LOCAL, "kueue_")])
def test_nothing_is_counted_for_a_queue_that_does_not_exist(gone: Ref, left: str) -> None:
    metrics = MetricsRegistry()
    there = [each for each in (cluster_queue(), local_queue()) if Ref.of(each) != gone]
    view = FakeView.of(*there, flavor())
    tally = observed(metrics, view)
    ended = said(
        ("QuotaReserved", "True", "QuotaReserved", 2), ("Admitted", "True", "Admitted", 3),
        ("PodsReady", "True", "PodsReady", 3), ("Evicted", "True", "Preempted", 4), ("Finished", "True", "Failed", 5),
        admission={"clusterQueue": "q", "podSetAssignments": []},
    )  # fmt: skip
    for before, after in ((WAITS, RUNS), (RUNS, ended), (ended, WAITS)):
        tally.stored(REF, before, after, has_begun=True)
    made_way(tally, "InClusterQueue")
    barred(tally, view, 1)
    owned = {name for name in names_of(metrics) if not name.startswith(("kueue_admission_attempt", "kueue_build"))}
    assert owned
    is_local = {name.startswith("kueue_local_queue_") for name in owned}
    assert is_local == {left == "kueue_local_queue_"}


@pytest.mark.parametrize(
    ("ref", "value_", "label"),
    [
        (QUEUE, cluster_queue(), 'cluster_queue="q"'),
        (LOCAL, local_queue(), 'name="lq"'),
        (COHORT, cohort("r"), 'cohort="r"'),
    ],
)
def test_the_counts_of_a_queue_that_is_deleted_or_made_anew_go(ref: Ref, value_: Any, label: str) -> None:
    anew = msgspec.structs.replace(value_, metadata=msgspec.structs.replace(value_.metadata, uid="another"))
    changed = msgspec.structs.replace(value_, metadata=msgspec.structs.replace(value_.metadata, generation=2))
    for after, stays in ((changed, True), (None, False), (anew, False)):
        metrics = MetricsRegistry()
        tally = tally_of(metrics, cluster_queue(cohortName="r"), flavor(), local_queue(), cohort("r"))
        tally.stored(REF, WAITS, RUNS, has_begun=True)
        tally.stored(ref, value_, after, has_begun=True)
        assert (label in metrics.text()) is stays


def test_a_cohort_that_is_only_named_keeps_its_count_until_nobody_names_it() -> None:
    metrics, view = MetricsRegistry(), FakeView.of(cluster_queue(cohortName="r"), flavor(), local_queue())
    tally = observed(metrics, view)
    tally.queues_changed(())
    tally.stored(REF, WAITS, RUNS, has_begun=True)
    tally.queues_changed(())
    assert table(metrics, "kueue_cohort_subtree_admitted_workloads_total") == {("r", ""): 1}
    view.put(cluster_queue(cohortName="elsewhere"))
    tally.queues_changed(())
    assert table(metrics, "kueue_cohort_subtree_admitted_workloads_total") == {}


# --- how soon a job has its Workload ----------------------------------------------------------------------------------


def of_job(kind: str = "Job", uid: str = "uid-job") -> Any:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "job", "uid": uid, "controller": True}
    return workload("w", meta={"creationTimestamp": AT.format(2), "ownerReferences": [owner]})


def made_at(minute: int, generation: int = 1) -> Any:
    """The Job of these Workloads."""
    made, at = job(), Time.parse(AT.format(minute))
    meta = msgspec.structs.replace(made.metadata, creation_timestamp=at, generation=generation)
    return msgspec.structs.replace(made, metadata=meta)


@pytest.mark.parametrize(
    ("owner", "has_begun", "count", "seconds"),
    [
        (made_at(0), True, 1, 120),
        (made_at(3), True, 1, 0),
        (made_at(0), False, 0, 0),
        (made_at(0, generation=2), True, 0, 0),
        (None, True, 0, 0),
    ],
    ids=["new", "clocks differ", "there before us", "changed before", "unknown job"],
)
def test_the_time_until_a_job_has_its_workload(owner: Any, has_begun: bool, count: int, seconds: int) -> None:
    metrics = MetricsRegistry()
    tally = tally_of(metrics, cluster_queue(), *(() if owner is None else (owner,)))
    tally.stored(REF, None, of_job(), has_begun=has_begun)
    tally.stored(REF, of_job(), of_job(), has_begun=True)
    assert value(metrics, "kueue_workload_creation_latency_seconds_count") == count
    assert value(metrics, "kueue_workload_creation_latency_seconds_sum") == seconds


def test_options_and_workloads_of_an_earlier_job_have_no_such_time() -> None:
    metrics = MetricsRegistry()
    for made in (of_job(uid="an earlier one"), of_job(kind="Workload"), workload("w")):
        tally_of(metrics, cluster_queue(), made_at(0)).stored(REF, None, made, has_begun=True)
    assert value(metrics, "kueue_workload_creation_latency_seconds_count") == 0
