"""The status of Workloads, counted for the queues that exist."""

from __future__ import annotations

import pytest

from makeway.api.objects.workload import Workload
from makeway.controllers.contract import Ref
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.metrics.workload_gauges import unadmitted_because
from tests.controllers.views import FakeView
from tests.runtime.measuring import NOW, look, refreshed, table, value
from tests.runtime.wires import NOON, cluster_queue, condition, flavor, holder, local_queue, option, workload


def test_who_does_not_run_and_why_and_who_is_done() -> None:
    evicted = condition("Evicted", reason="PodsReadyTimeout")
    metrics = refreshed(
        cluster_queue(), flavor(), local_queue(),
        workload("new"), workload("refused", condition("QuotaReserved", False, "WaitingForQuota"), evicted),
        holder("checked", 1, condition("Admitted", False, "UnsatisfiedAdmissionChecks"), admitted=False),
        holder("runs"), holder("done", 1, condition("Finished")), workload("lost", local="nowhere"),
        workload("option", **option("new")),
    )  # fmt: skip
    assert table(metrics, "kueue_unadmitted_workloads") == {
        ("q", "NoReservation", "PendingEvaluation"): 1,
        ("q", "NoReservation", "WaitingForQuota"): 1,
        ("q", "UnsatisfiedAdmissionChecks", ""): 1,
    }
    why = {"cluster_queue": "q", "reason": "NoReservation", "underlying_cause": "PendingEvaluation"}
    assert value(metrics, "kueue_local_queue_unadmitted_workloads", name="lq", namespace="default", **why) == 1
    assert value(metrics, "kueue_finished_workloads", cluster_queue="q") == 1
    assert value(metrics, "kueue_local_queue_finished_workloads", name="lq", namespace="default") == 1


def test_who_changes_or_goes_is_taken_off_where_it_was_counted() -> None:
    view, metrics = FakeView.of(cluster_queue(), flavor(), local_queue(), now=NOW), MetricsRegistry()
    done = workload("a", condition("Finished"))
    key = Ref.of(done).key
    for _ in range(2):
        metrics.seen(key, workload("a"))
    metrics.seen(key, done)
    metrics.refresh(view)
    assert value(metrics, "kueue_finished_workloads", cluster_queue="q") == 1
    assert 'kueue_unadmitted_workloads{cluster_queue="q"' not in metrics.text()
    metrics.seen(key, None)
    metrics.refresh(view)
    assert value(metrics, "kueue_finished_workloads", cluster_queue="q") is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], ("NoReservation", "PendingEvaluation")),
        ([("QuotaReserved", False, "ExceedsMaxQuota")], ("NoReservation", "ExceedsMaxQuota")),
        ([("QuotaReserved", False, "Misconfigured")], ("NoReservation", "Misconfigured")),
        (
            [("QuotaReserved", False, "Suspended"), ("Admitted", False, "UnsatisfiedAdmissionChecks")],
            ("NoReservation", "Suspended"),
        ),
        ([("QuotaReserved", True, "QuotaReserved")], ("UnsatisfiedAdmissionChecks", "")),
        (
            [("QuotaReserved", True, "QuotaReserved"), ("Admitted", False, "NoReservation")],
            ("UnsatisfiedAdmissionChecks", ""),
        ),
        (
            [("QuotaReserved", True, "QuotaReserved"), ("Admitted", False, "PendingDelayedTopologyRequests")],
            ("PendingDelayedTopologyRequests", ""),
        ),
        (
            [("QuotaReserved", False, "WaitingForQuota"), ("Evicted", True, "Preempted")],
            ("NoReservation", "WaitingForQuota"),
        ),
    ],
)
def test_why_a_workload_is_not_admitted(conditions: list[tuple[str, bool, str]], expected: tuple[str, str]) -> None:
    assert unadmitted_because(workload("w", *(condition(*each) for each in conditions))) == expected


def test_a_workload_that_is_being_deleted_is_not_held_up() -> None:
    leaving = workload("w", meta={"deletionTimestamp": NOON, "finalizers": ["x/y"]})
    metrics = refreshed(cluster_queue(), flavor(), local_queue(), leaving)
    assert "unadmitted_workloads{" not in metrics.text()


def test_options_are_counted_by_what_their_parent_shows_of_them() -> None:
    shown_options = [{"name": name, "status": status} for name, status in (("a", "Admitted"), ("b", "Deactivated"))]
    parent = workload("p", status={"options": shown_options}, workloadMode={"type": "Parent"})
    metrics = refreshed(cluster_queue(), flavor(), local_queue(), parent)
    assert value(metrics, "makeway_options", cluster_queue="q", status="Admitted") == 1
    assert value(metrics, "makeway_options", cluster_queue="q", status="Deactivated") == 1


def test_finished_workloads_count_where_their_queues_exist() -> None:
    done = holder("a", 1, condition("Finished"))
    view, metrics = FakeView.of(cluster_queue("p"), flavor(), done, now=NOW), MetricsRegistry()
    look(metrics, view)
    assert "finished_workloads{" not in metrics.text()
    view.put(cluster_queue())
    view.put(local_queue("lq", "p"))
    metrics.refresh(view)
    assert value(metrics, "kueue_finished_workloads", cluster_queue="q") == 1, "where it had been admitted"
    assert value(metrics, "kueue_local_queue_finished_workloads", name="lq", namespace="default") == 1


def test_a_workload_without_status_may_be_seen() -> None:
    view, metrics = FakeView.of(cluster_queue(), flavor(), local_queue(""), now=NOW), MetricsRegistry()
    bare = Workload()
    metrics.seen(Ref.of(bare).key, bare)
    metrics.refresh(view)
    why = {"reason": "NoReservation", "underlying_cause": "PendingEvaluation"}
    assert value(metrics, "kueue_unadmitted_workloads", cluster_queue="q", **why) == 1
