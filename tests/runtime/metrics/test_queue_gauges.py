"""Gauges follow the state: pending workloads, quota and usage, shares, and sums over cohorts."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan
from typing import Any

import pytest

from makeway.controllers.contract import COHORT, LOCAL_QUEUE, WORKLOAD, Ref
from makeway.core.policy import Policy
from makeway.runtime.metrics.queue_gauges import shown
from makeway.runtime.metrics.registry import MetricsRegistry
from tests.controllers.views import FakeView
from tests.runtime.measuring import NOW, Q, look, refreshed, table, value
from tests.runtime.wires import NOON, cluster_queue, cohort, flavor, holder, local_queue, option, workload


def test_gauges_follow_the_state() -> None:
    quota = {"f": {"cpu": "1500m", "memory": "1Gi"}}
    metrics = refreshed(
        cluster_queue("q", quota, cohortName="r", limits={"borrowingLimit": "1"}), flavor(),
        cluster_queue("lender", {"f": {"cpu": 9, "memory": "9Gi"}}, cohortName="r", limits={"lendingLimit": "4"}),
        local_queue(), local_queue("idle"),
        holder("a", {"f": {"cpu": 2, "memory": 1024}}), holder("b", 1, admitted=False), workload("w"),
    )  # fmt: skip
    queue, cpu = {"cluster_queue": "q", "cohort": "r"}, {"flavor": "f", "resource": "cpu"}
    local = {"name": "lq", "namespace": "default"}
    for name, labels, expected in (
        ("pending_workloads", {"cluster_queue": "q", "status": "active"}, 1),
        ("pending_workloads", {"cluster_queue": "q", "status": "inadmissible"}, 0),
        ("reserving_active_workloads", {"cluster_queue": "q"}, 2),
        ("admitted_active_workloads", {"cluster_queue": "q"}, 1),
        ("cluster_queue_nominal_quota", {**queue, **cpu}, 1.5),
        ("cluster_queue_borrowing_limit", {**queue, **cpu}, 1),
        ("cluster_queue_lending_limit", {**queue, **cpu}, inf),
        ("cluster_queue_resource_reservation", {**queue, **cpu}, 3),
        ("cluster_queue_resource_usage", {**queue, **cpu}, 2),
        ("cluster_queue_resource_usage", {**queue, "flavor": "f", "resource": "memory"}, 1024),
        ("cohort_subtree_quota", {"cohort": "r", **cpu}, 5.5),
        ("cohort_subtree_resource_reservations", {"cohort": "r", **cpu}, 3),
        ("local_queue_pending_workloads", {**local, "status": "active"}, 1),
        ("local_queue_reserving_active_workloads", local, 2),
        ("local_queue_admitted_active_workloads", local, 1),
        ("local_queue_resource_reservation", {**local, **cpu}, 3),
        ("local_queue_resource_usage", {**local, **cpu}, 2),
        ("local_queue_reserving_active_workloads", {**local, "name": "idle"}, 0),
        ("local_queue_resource_usage", {**local, "name": "idle", **cpu}, 0),
        ("local_queue_status", {**local, "active": "Unknown"}, 1),
    ):
        assert value(metrics, f"kueue_{name}", **labels) == expected, (name, labels)


def test_p21_what_is_unlimited_prints_as_infinity_and_what_is_large_in_full() -> None:
    metrics = refreshed(
        cluster_queue("q", {"f": {"pods": 2**63}}), flavor(), holder("a", {"f": {"pods": 2**62 + 1}}),
    )  # fmt: skip
    labels = '{cohort="",cluster_queue="q",flavor="f",resource="pods",replica_role="standalone"}'
    assert f"kueue_cluster_queue_nominal_quota{labels} +Inf\n" in metrics.text()
    assert f"kueue_cluster_queue_resource_usage{labels} {2**62 + 1}\n" in metrics.text()
    assert (shown(2**63 - 1, "cpu"), shown(2**63 - 1, "memory"), shown(1, "cpu")) == (inf, inf, 0.001)


def test_p19_use_of_what_is_no_longer_declared_is_shown() -> None:
    metrics = refreshed(cluster_queue("q", 1), flavor(), holder("a", {"gone": {"cpu": 2}}))
    where = {"cohort": "", "cluster_queue": "q", "flavor": "gone", "resource": "cpu"}
    assert value(metrics, "kueue_cluster_queue_resource_usage", **where) == 2
    assert value(metrics, "kueue_cluster_queue_nominal_quota", **where) is None


@pytest.mark.parametrize(
    ("spec", "current"),
    [({}, "active"), ({"stopPolicy": "Hold"}, "pending"), ({"meta": {"deletionTimestamp": NOON}}, "terminating")],
)
def test_a_queue_is_in_one_of_three_states(spec: dict[str, Any], current: str) -> None:
    metrics = refreshed(cluster_queue(**spec), flavor())
    found = {
        each: value(metrics, "kueue_cluster_queue_status", cluster_queue="q", status=each)
        for each in ("pending", "active", "terminating")
    }
    assert found == {each: float(each == current) for each in found}


def test_only_what_was_touched_is_counted_again() -> None:
    view, metrics = (
        FakeView.of(cluster_queue(), cluster_queue("p"), flavor(), local_queue(), now=NOW),
        MetricsRegistry(),
    )
    look(metrics, view)
    view.put(holder("a"))
    view.put(holder("b", queue="p"))
    look(metrics, view, "p")
    assert value(metrics, "kueue_reserving_active_workloads", cluster_queue="q") == 0
    assert value(metrics, "kueue_reserving_active_workloads", cluster_queue="p") == 1
    look(metrics, view, "q")
    assert value(metrics, "kueue_reserving_active_workloads", cluster_queue="q") == 1


def test_a_local_queue_whose_workloads_hold_in_two_queues_is_the_sum_of_both() -> None:
    view = FakeView.of(
        cluster_queue(), cluster_queue("p"), flavor(), local_queue(), holder("a"), holder("b", 2, queue="p"), now=NOW
    )
    metrics = MetricsRegistry()
    look(metrics, view)
    local = {"name": "lq", "namespace": "default"}
    assert value(metrics, "kueue_local_queue_reserving_active_workloads", **local) == 2
    del view.objects[Ref(WORKLOAD, "default", "b")]
    view.put(flavor())
    look(metrics, view, "p")
    assert value(metrics, "kueue_local_queue_reserving_active_workloads", **local) == 1
    assert value(metrics, "kueue_local_queue_resource_usage", **local, flavor="f", resource="cpu") == 1


def test_a_local_queue_that_does_not_exist_has_no_gauges_though_workloads_hold_by_it() -> None:
    view, metrics = FakeView.of(cluster_queue(), flavor(), holder("a"), workload("w"), now=NOW), MetricsRegistry()
    look(metrics, view)
    assert 'name="lq"' not in metrics.text()
    view.put(local_queue())
    metrics.touch_local(("default", "lq"), [Q])
    metrics.refresh(view)
    local = {"name": "lq", "namespace": "default"}
    assert value(metrics, "kueue_local_queue_admitted_active_workloads", **local) == 1
    del view.objects[Ref(LOCAL_QUEUE, "default", "lq")]
    metrics.touch_local(("default", "lq"), [])
    metrics.refresh(view)
    assert 'name="lq"' not in metrics.text()


def test_without_resource_gauges_the_counts_and_the_cohorts_remain() -> None:
    metrics = refreshed(cluster_queue(cohortName="r"), flavor(), local_queue(), holder("a"), queue_resources=False)
    with_resources = {line.partition("{")[0] for line in metrics.text().splitlines() if 'resource="cpu"' in line}
    assert with_resources == {"kueue_cohort_subtree_quota", "kueue_cohort_subtree_resource_reservations"}
    assert value(metrics, "kueue_reserving_active_workloads", cluster_queue="q") == 1


# --- pending ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "active"),
    [
        ([cluster_queue(), flavor()], 2),
        ([cluster_queue(stopPolicy="Hold"), flavor()], 0),
        ([cluster_queue(stopPolicy="HoldAndDrain"), flavor()], 0),
        ([cluster_queue()], 0),
        ([cluster_queue(meta={"deletionTimestamp": NOON}), flavor()], 0),
        ([cluster_queue(cohortName="r"), cohort("r", parentName="r"), flavor()], 0),
    ],
    ids=["active", "held", "drained", "without its flavor", "leaving", "in a cycle of cohorts"],
)
def test_pending_workloads_of_a_queue_that_admits_nothing_are_inadmissible(objects: list[Any], active: int) -> None:
    metrics = refreshed(*objects, local_queue(), workload("a"), workload("b"))
    local = {"name": "lq", "namespace": "default"}
    for status, count in (("active", active), ("inadmissible", 2 - active)):
        assert value(metrics, "kueue_pending_workloads", cluster_queue="q", status=status) == count
        assert value(metrics, "kueue_local_queue_pending_workloads", **local, status=status) == count
        assert value(metrics, "kueue_pending_scheduling_hashes", cluster_queue="q", status=status) == bool(count)


def test_pending_workloads_of_a_local_queue_to_nowhere_are_inadmissible() -> None:
    view, metrics = FakeView.of(flavor(), local_queue(), workload("a"), now=NOW), MetricsRegistry()
    look(metrics, view, "q")
    local = {"name": "lq", "namespace": "default"}
    assert value(metrics, "kueue_local_queue_pending_workloads", **local, status="inadmissible") == 1
    assert value(metrics, "kueue_pending_workloads", cluster_queue="q", status="inadmissible") is None


def test_what_pending_workloads_ask_for() -> None:
    nominal = {"f": {"cpu": 4, "memory": "1Gi", "pods": 9}}
    parent = workload("p", workloadMode={"type": "Parent"})
    alike = (workload("a", count=2), workload("b", count=2))
    simple = refreshed(cluster_queue("q", nominal), flavor(), local_queue(), *alike, workload("c"), holder("d", 1))
    family = refreshed(
        cluster_queue("q", nominal), flavor(), local_queue(), *alike, parent, workload("o1", **option("p")),
        workload("o2", **option("p")), holder("x1", **option("x")), workload("x2", **option("x")),
    )  # fmt: skip
    for metrics in (simple, family):
        found = {
            name: value(metrics, "kueue_cluster_queue_resource_pending", cluster_queue="q", resource=name)
            for name in ("cpu", "memory", "pods")
        }
        assert found == {"cpu": 5, "memory": 0, "pods": 5}


def test_equivalence_classes_are_counted_only_where_workloads_are_compared() -> None:
    objects = (cluster_queue(), flavor(), local_queue(), workload("a"), workload("b"), workload("c", count=2))
    status = {"cluster_queue": "q", "status": "active"}
    assert value(refreshed(*objects), "kueue_pending_scheduling_hashes", **status) == 2
    off = replace(Policy(), gates=replace(Policy().gates, scheduling_equivalence_hashing=False))
    look(metrics := MetricsRegistry(), FakeView.of(*objects, policy=off, now=NOW))
    assert value(metrics, "kueue_pending_scheduling_hashes", **status) is None


# --- cohorts ----------------------------------------------------------------------------------------------------------


def test_where_queues_and_cohorts_are_in_the_hierarchy() -> None:
    metrics = refreshed(
        flavor(), cluster_queue("alone"), cluster_queue("q", cohortName="r"), cluster_queue("p", cohortName="named"),
        cluster_queue("lost", cohortName="below"), cohort("r", parentName="top"),
        cohort("x", parentName="y"), cohort("y", parentName="x"), cohort("below", parentName="x"),
    )  # fmt: skip
    assert table(metrics, "kueue_cohort_info") == {
        ("r", "top", "top"): 1, ("top", "", "top"): 1, ("named", "", "named"): 1,
    }  # fmt: skip
    assert table(metrics, "kueue_cluster_queue_info") == {
        ("alone", "", ""): 1, ("q", "r", "top"): 1, ("p", "named", "named"): 1, ("lost", "below", ""): 1,
    }  # fmt: skip


def test_sums_over_the_queues_below_a_cohort() -> None:
    limited = {"lendingLimit": "2"}
    metrics = refreshed(
        flavor(), cohort("top"), cohort("r", 1, parentName="top"), cohort("idle", parentName="top"),
        cluster_queue("q", 4, cohortName="r", limits=limited), cluster_queue("p", 4, cohortName="r", limits=limited),
        local_queue(), holder("a", 3), holder("b", 3, queue="p"), holder("c", 0, queue="p", admitted=False),
    )  # fmt: skip
    assert table(metrics, "kueue_cohort_subtree_quota") == {("r", "f", "cpu"): 5, ("top", "f", "cpu"): 5}
    assert table(metrics, "kueue_cohort_subtree_resource_reservations") == {
        ("r", "f", "cpu"): 6, ("top", "f", "cpu"): 6,
    }  # fmt: skip
    assert table(metrics, "kueue_cohort_subtree_admitted_active_workloads") == {("r",): 2, ("top",): 2, ("idle",): 0}


def test_a_cohort_shows_its_quota_though_there_is_no_queue() -> None:
    view, metrics = FakeView.of(flavor(), cohort("r", 3), now=NOW), MetricsRegistry()
    metrics.keep_cohorts(view.state.tree.cohorts)
    metrics.refresh(view)
    assert table(metrics, "kueue_cohort_subtree_quota") == {("r", "f", "cpu"): 3}
    view.put(cohort("s", 1))
    del view.objects[Ref(COHORT, "", "r")]
    view.put(flavor())
    metrics.keep_cohorts(view.state.tree.cohorts)
    metrics.refresh(view)
    assert table(metrics, "kueue_cohort_subtree_quota") == {("s", "f", "cpu"): 1}


def test_shares_follow_the_state_where_fair_sharing_is_on() -> None:
    objects = (
        cluster_queue("q", 4, cohortName="r", fairSharing={"weight": "3"}), cluster_queue("zero", 0, cohortName="r",
        fairSharing={"weight": "0"}), cohort("r", 6), flavor(), local_queue(), local_queue("z", "zero"),
        holder("a", 5), holder("b", 1, queue="zero", local="z"),
    )  # fmt: skip
    metrics = MetricsRegistry()
    look(metrics, FakeView.of(*objects, policy=Policy(fair_strategies=("LessThanInitialShare",)), now=NOW))
    found = value(metrics, "kueue_cluster_queue_weighted_share", cluster_queue="q", cohort="r")
    assert found == pytest.approx(100 / 3)
    infinite = value(metrics, "kueue_cluster_queue_weighted_share", cluster_queue="zero", cohort="r")
    assert infinite is not None
    assert isnan(infinite)
    assert value(metrics, "kueue_cohort_weighted_share", cohort="r") == 0
    look(metrics := MetricsRegistry(), FakeView.of(*objects, now=NOW))
    assert value(metrics, "kueue_cluster_queue_weighted_share", cluster_queue="q", cohort="r") is None
