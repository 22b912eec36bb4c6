"""Names, labels and numbers that dashboards read; and that Prometheus can read the text."""

from __future__ import annotations

import re
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.model import QueueName
from makeway.runtime.metrics.exposition import Gauge, Histogram, Registry, number
from makeway.runtime.metrics.families import BOUNDS, LONG_BOUNDS
from makeway.runtime.metrics.pods import COUNTS, SECONDS
from makeway.runtime.metrics.registry import MetricsRegistry
from tests.controllers.views import FakeView
from tests.runtime.measuring import LQ, NOW, Q, look, names_of, parsed, refreshed, value
from tests.runtime.wires import cluster_queue, cohort, flavor, holder, local_queue, workload

# --- names ------------------------------------------------------------------------------------------------------------

CLASS, WHY = ["priority_class"], ["reason", "underlying_cause"]
QUOTA = ["cohort", "cluster_queue", "flavor", "resource"]
EXPECTED = {
    "kueue_admission_attempts_total": ("counter", ["result"]),
    "kueue_admission_attempt_duration_seconds": ("histogram", ["result"]),
    "kueue_admission_cycle_preemption_skips": ("gauge", ["cluster_queue"]),
    "kueue_preemption_target_recomputations_total": ("counter", ["cluster_queue", "result"]),
    "kueue_pending_workloads": ("gauge", ["cluster_queue", "status"]),
    "kueue_finished_workloads": ("gauge", ["cluster_queue"]),
    "kueue_finished_workloads_total": ("counter", ["cluster_queue", *CLASS]),
    "kueue_quota_reserved_workloads_total": ("counter", ["cluster_queue", *CLASS]),
    "kueue_admitted_workloads_total": ("counter", ["cluster_queue", *CLASS]),
    "kueue_quota_reserved_wait_time_seconds": ("histogram", ["cluster_queue", *CLASS]),
    "kueue_admission_wait_time_seconds": ("histogram", ["cluster_queue", *CLASS]),
    "kueue_admission_checks_wait_time_seconds": ("histogram", ["cluster_queue", *CLASS]),
    "kueue_ready_wait_time_seconds": ("histogram", ["cluster_queue", *CLASS]),
    "kueue_admitted_until_ready_wait_time_seconds": ("histogram", ["cluster_queue", *CLASS]),
    "kueue_execution_time_seconds": ("histogram", ["cluster_queue", *CLASS]),
    "kueue_evicted_workloads_total": ("counter", ["cluster_queue", *WHY, *CLASS]),
    "kueue_evicted_workloads_once_total": ("counter", ["cluster_queue", *WHY, *CLASS]),
    "kueue_preempted_workloads_total": ("counter", ["preempting_cluster_queue", "reason"]),
    "kueue_workload_eviction_latency_seconds": ("histogram", ["cluster_queue", "reason"]),
    "kueue_pods_ready_to_evicted_time_seconds": ("histogram", ["cluster_queue", *WHY]),
    "kueue_unadmitted_workloads": ("gauge", ["cluster_queue", *WHY]),
    "kueue_reserving_active_workloads": ("gauge", ["cluster_queue"]),
    "kueue_admitted_active_workloads": ("gauge", ["cluster_queue"]),
    "kueue_cluster_queue_status": ("gauge", ["cluster_queue", "status"]),
    "kueue_cluster_queue_nominal_quota": ("gauge", QUOTA),
    "kueue_cluster_queue_borrowing_limit": ("gauge", QUOTA),
    "kueue_cluster_queue_lending_limit": ("gauge", QUOTA),
    "kueue_cluster_queue_resource_reservation": ("gauge", QUOTA),
    "kueue_cluster_queue_resource_usage": ("gauge", QUOTA),
    "kueue_cluster_queue_weighted_share": ("gauge", ["cluster_queue", "cohort"]),
    "kueue_cohort_weighted_share": ("gauge", ["cohort"]),
    "kueue_cohort_subtree_admitted_workloads_total": ("counter", ["cohort", *CLASS]),
    "kueue_cohort_subtree_admitted_active_workloads": ("gauge", ["cohort"]),
    "kueue_cohort_info": ("gauge", ["cohort", "parent_cohort", "root_cohort"]),
    "kueue_cluster_queue_info": ("gauge", ["cluster_queue", "parent_cohort", "root_cohort"]),
    "kueue_cluster_queue_resource_pending": ("gauge", ["cluster_queue", "resource"]),
    "kueue_pending_scheduling_hashes": ("gauge", ["cluster_queue", "status"]),
    "kueue_workload_creation_latency_seconds": ("histogram", ["job_kind"]),
    "kueue_cohort_subtree_quota": ("gauge", ["cohort", "flavor", "resource"]),
    "kueue_cohort_subtree_resource_reservations": ("gauge", ["cohort", "flavor", "resource"]),
    "kueue_local_queue_status": ("gauge", ["name", "namespace", "active"]),
    "kueue_local_queue_unadmitted_workloads": ("gauge", ["name", "namespace", "cluster_queue", *WHY]),
    "kueue_local_queue_resource_reservation": ("gauge", ["name", "namespace", "flavor", "resource"]),
    "kueue_local_queue_resource_usage": ("gauge", ["name", "namespace", "flavor", "resource"]),
    "kueue_build_info": ("gauge", ["git_version", "git_commit", "build_date", "go_version", "compiler", "platform"]),
    "makeway_preemption_rounds_exhausted_total": ("counter", ["cluster_queue"]),
    "makeway_pod_wakeups_missed_total": ("counter", []),
    "scheduler_podgroup_schedule_attempts_total": ("counter", ["result"]),
    "scheduler_preemption_attempts_total": ("counter", []),
    "scheduler_workload_preemption_attempts_total": ("counter", ["result"]),
    "scheduler_preemption_pdb_violations_total": ("counter", []),
    "scheduler_preemption_victims": ("histogram", []),
    "scheduler_workload_preemption_victims": ("histogram", []),
    "scheduler_preemption_workload_disruptions": ("histogram", []),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": ("histogram", ["result"]),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": ("histogram", []),
    "scheduler_preemption_evaluation_duration_seconds": ("histogram", []),
    "scheduler_preemption_execution_duration_seconds": ("histogram", []),
    "makeway_objects_set_aside_total": ("counter", ["kind", "room"]),
    "makeway_objects_set_aside": ("gauge", ["kind", "room"]),
    "makeway_options": ("gauge", ["cluster_queue", "status"]),
    "makeway_option_migrations_total": ("counter", ["cluster_queue", "from_flavor", "to_flavor"]),
}
COUNTERPARTS = (
    "pending_workloads", "finished_workloads", "finished_workloads_total", "quota_reserved_workloads_total",
    "admitted_workloads_total", "quota_reserved_wait_time_seconds", "admission_wait_time_seconds",
    "admission_checks_wait_time_seconds", "ready_wait_time_seconds", "admitted_until_ready_wait_time_seconds",
    "execution_time_seconds", "evicted_workloads_total", "reserving_active_workloads", "admitted_active_workloads",
)  # fmt: skip


def test_names_kinds_and_labels_are_those_that_dashboards_know() -> None:
    expected = dict(EXPECTED)
    for name in COUNTERPARTS:
        kind, labels = EXPECTED[f"kueue_{name}"]
        expected[f"kueue_local_queue_{name}"] = (kind, ["name", "namespace", *labels[1:]])
    families = MetricsRegistry().registry.families.values()
    assert {each.name: (each.kind, list(each.labels)) for each in families} == expected
    assert [each.name for each in families if not each.shared] == ["kueue_build_info"]


def test_the_buckets_of_histograms() -> None:
    assert BOUNDS == (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
    assert (*BOUNDS, 20480, 40960) == LONG_BOUNDS
    families = [each for each in MetricsRegistry().registry.families.values() if isinstance(each, Histogram)]
    long = [each.name for each in families if each.bounds == (*LONG_BOUNDS, inf)]
    assert long == [
        "kueue_admission_wait_time_seconds", "kueue_local_queue_admission_wait_time_seconds",
        "kueue_execution_time_seconds", "kueue_local_queue_execution_time_seconds",
    ]  # fmt: skip
    others = [each for each in families if each.name not in long and not each.name.startswith("scheduler_")]
    assert all(each.bounds == (*BOUNDS, inf) for each in others)
    placing = [each for each in families if each.name.startswith("scheduler_")]
    assert all(each.bounds == (*(SECONDS if "seconds" in each.name else COUNTS), inf) for each in placing)


# --- the text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "printed"),
    [
        (0, "0"), (3, "3"), (-2, "-2"), (3.0, "3"), (1.5, "1.5"), (inf, "+Inf"), (-inf, "-Inf"), (float("nan"), "NaN"),
        (2**70, str(2**70)), (1e300, "1e+300"), (True, "1"),
    ],
)  # fmt: skip
def test_how_a_number_is_printed(given_: float, printed: str) -> None:
    assert number(given_) == printed


def test_a_text_is_as_the_format_says() -> None:
    registry = Registry({"role": "x"})
    registry.counter("a_total", "with a \\ and a\nline", "l").add('say "a\\b"\n', amount=2)
    registry.histogram("h", "a histogram", bounds=(1, 2.5)).observe(value=2.5)
    registry.gauge("g", "no labels of its own", shared=False).set(value=1.5)
    assert registry.text() == (
        "# HELP a_total with a \\\\ and a\\nline\n# TYPE a_total counter\n"
        'a_total{l="say \\"a\\\\b\\"\\n",role="x"} 2\n'
        "# HELP h a histogram\n# TYPE h histogram\n"
        'h_bucket{role="x",le="1"} 0\nh_bucket{role="x",le="2.5"} 1\nh_bucket{role="x",le="+Inf"} 1\n'
        'h_sum{role="x"} 2.5\nh_count{role="x"} 1\n'
        "# HELP g no labels of its own\n# TYPE g gauge\ng{} 1.5\n"
    )


LABELS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)


@pytest.mark.property
@given(st.lists(st.tuples(LABELS, LABELS, st.integers(0, 2**70)), max_size=8))
def test_whatever_the_labels_a_reader_gets_them_back(series: list[tuple[str, str, int]]) -> None:
    registry = Registry({"role": "x"})
    gauge = registry.gauge("g", "any", "a", "b")
    for a, b, amount in series:
        gauge.set(a, b, value=amount)
    _, samples = parsed(registry.text())
    expected = {("g", (("a", a), ("b", b), ("role", "x"))): float(n) for a, b, n in series}
    assert samples == expected


@pytest.mark.property
@given(st.lists(st.integers(0, 50_000), max_size=12))
def test_a_histogram_counts_each_value_in_all_buckets_that_hold_it(values: list[int]) -> None:
    registry = Registry()
    histogram = registry.histogram("h", "any", bounds=BOUNDS)
    for each in values:
        histogram.observe(value=each)
    _, samples = parsed(registry.text())
    for bound in (*BOUNDS, inf) if values else ():
        assert samples["h_bucket", (("le", number(bound)),)] == sum(each <= bound for each in values)
    assert samples.get(("h_sum", ()), 0) == sum(values)
    assert samples.get(("h_count", ()), 0) == len(values)


def test_the_series_of_an_owner_are_forgotten_and_begin_at_zero() -> None:
    registry = Registry(owners=(("name", "namespace"), ("queue",)))
    counter = registry.counter("c_total", "any", "result", "queue")
    histogram = registry.histogram("h", "any", "namespace", "name", "queue", bounds=(1,))
    for owner in ("a", "b"):
        counter.add("yes", owner, amount=5)
        counter.add("no", owner)
        histogram.observe("x", owner, "a", value=7)
    assert (counter.owner, histogram.owner) == (("queue",), ("name", "namespace"))
    registry.forget(queue="a")
    assert counter.values == {("yes", "b"): 5, ("no", "b"): 1}
    assert histogram.counts.keys() == {("x", "a", "a"), ("x", "b", "a")}
    registry.forget(name="a", namespace="x")
    registry.forget(name="b", namespace="y")
    registry.forget(queue="never seen")
    assert histogram.sums == {("x", "b", "a"): 7}
    counter.add("yes", "a")
    histogram.observe("x", "a", "a", value=2)
    assert (counter.values["yes", "a"], histogram.sums["x", "a", "a"]) == (1, 2)
    registry.forget(queue="a")
    assert ("yes", "a") not in counter.values


def test_a_group_of_series_is_replaced_as_a_whole() -> None:
    gauge = Gauge("g", "any", ("a", "b"))
    gauge.set_group("x", {("x", "1"): 1, ("x", "2"): 2})
    gauge.set_group("y", {("y", "1"): 3})
    gauge.set_group("x", {("x", "2"): 4})
    assert gauge.values == {("x", "2"): 4, ("y", "1"): 3}
    gauge.set_group("x", {})
    assert gauge.values == {("y", "1"): 3}


# --- what has happened ------------------------------------------------------------------------------------------------


def happened() -> MetricsRegistry:
    """Every event, once or twice."""
    metrics = MetricsRegistry()
    metrics.attempts.attempted(True, 0.004)
    metrics.attempts.attempted(False, 3)
    metrics.attempts.attempted(False, 1)
    metrics.attempts.skipped({Q: 2})
    metrics.attempts.recomputed(Q, "deferred_fit")
    metrics.workloads.reserved(Q, LQ, "high", 2)
    metrics.workloads.admitted(Q, LQ, "high", 7, 5)
    metrics.workloads.pods_ready(Q, LQ, "high", 30, 12)
    metrics.workloads.evicted(Q, LQ, "Preempted", "", "high", first=True, ready_s=100)
    metrics.workloads.evicted(Q, LQ, "Preempted", "", "high", first=False)
    metrics.workloads.released(Q, "Preempted", 9)
    metrics.attempts.preempted(Q, "InCohortReclamation")
    metrics.workloads.finished(Q, LQ, "", 20_000)
    metrics.workloads.finished(Q, LQ, "", None)
    metrics.attempts.rounds_exhausted(Q)
    metrics.attempts.option_migrated(Q, "spot", "reserved")
    return metrics


HIGH = {"priority_class": "high"}


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("admission_attempts_total", {"result": "success"}, 1),
        ("admission_attempts_total", {"result": "inadmissible"}, 2),
        ("admission_attempt_duration_seconds_sum", {"result": "inadmissible"}, 4),
        ("admission_attempt_duration_seconds_bucket", {"result": "inadmissible", "le": "1"}, 1),
        ("admission_cycle_preemption_skips", {"cluster_queue": "q"}, 2),
        ("preemption_target_recomputations_total", {"cluster_queue": "q", "result": "deferred_fit"}, 1),
        ("preempted_workloads_total", {"preempting_cluster_queue": "q", "reason": "InCohortReclamation"}, 1),
        ("workload_eviction_latency_seconds_sum", {"cluster_queue": "q", "reason": "Preempted"}, 9),
    ],
)
def test_what_has_happened_is_counted(name: str, labels: dict[str, str], expected: float) -> None:
    assert value(happened(), f"kueue_{name}", **labels) == expected


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("quota_reserved_workloads_total", HIGH, 1),
        ("quota_reserved_wait_time_seconds_sum", HIGH, 2),
        ("admitted_workloads_total", HIGH, 1),
        ("admission_wait_time_seconds_sum", HIGH, 7),
        ("admission_checks_wait_time_seconds_sum", HIGH, 5),
        ("ready_wait_time_seconds_sum", HIGH, 30),
        ("admitted_until_ready_wait_time_seconds_sum", HIGH, 12),
        ("evicted_workloads_total", {"reason": "Preempted", "underlying_cause": "", **HIGH}, 2),
        ("finished_workloads_total", {"priority_class": ""}, 2),
        ("execution_time_seconds_count", {"priority_class": ""}, 1),
        ("execution_time_seconds_bucket", {"priority_class": "", "le": "10240"}, 0),
        ("execution_time_seconds_bucket", {"priority_class": "", "le": "20480"}, 1),
    ],
)
def test_what_has_happened_is_counted_by_both_kinds_of_queues(
    name: str, labels: dict[str, str], expected: float
) -> None:
    metrics = happened()
    assert value(metrics, f"kueue_{name}", cluster_queue="q", **labels) == expected
    assert value(metrics, f"kueue_local_queue_{name}", name="lq", namespace="team", **labels) == expected


def test_a_first_eviction_is_counted_apart_and_so_is_ours() -> None:
    metrics = happened()
    why = {"cluster_queue": "q", "reason": "Preempted", "underlying_cause": ""}
    assert value(metrics, "kueue_evicted_workloads_once_total", **why, **HIGH) == 1
    assert value(metrics, "kueue_pods_ready_to_evicted_time_seconds_sum", **why) == 100
    assert value(metrics, "kueue_pods_ready_to_evicted_time_seconds_count", **why) == 1
    assert value(metrics, "makeway_preemption_rounds_exhausted_total", cluster_queue="q") == 1
    moved = {"from_flavor": "spot", "to_flavor": "reserved"}
    assert value(metrics, "makeway_option_migrations_total", cluster_queue="q", **moved) == 1


def test_skips_are_those_of_the_last_cycle() -> None:
    metrics = happened()
    metrics.attempts.skipped({QueueName("other"): 1})
    assert value(metrics, "kueue_admission_cycle_preemption_skips", cluster_queue="q") is None
    assert value(metrics, "kueue_admission_cycle_preemption_skips", cluster_queue="other") == 1


def test_local_queues_are_left_out_where_the_configuration_says_so() -> None:
    metrics = refreshed(cluster_queue(), flavor(), local_queue(), holder("a"), workload("w"), local_queues=False)
    metrics.workloads.reserved(Q, LQ, "", 1)
    text = metrics.text()
    assert "kueue_local_queue_pending_workloads{" not in text
    assert not re.search(r"^kueue_local_queue_\w+\{", text, re.M)
    assert value(metrics, "kueue_pending_workloads", cluster_queue="q", status="active") == 1


def test_the_role_and_what_is_running() -> None:
    metrics = MetricsRegistry(role="leader", build={"git_commit": "abc"})
    metrics.attempts.rounds_exhausted(Q)
    assert 'makeway_preemption_rounds_exhausted_total{cluster_queue="q",replica_role="leader"} 1\n' in metrics.text()
    info = re.search(r"kueue_build_info\{(.*)\} 1\n", metrics.text())
    assert info
    assert 'git_commit="abc"' in info[1]
    assert "replica_role" not in info[1]


# --- what is gone -----------------------------------------------------------------------------------------------------


def test_queues_that_are_gone_leave_nothing_behind() -> None:
    view = FakeView.of(
        cluster_queue(cohortName="r"), flavor(), local_queue("lq", namespace="team"), cohort("s", 1), now=NOW
    )
    metrics = happened()
    metrics.keep_cohorts(view.state.tree.cohorts)
    metrics.workloads.admitted(Q, LQ, "", 1, cohorts=["r", "s"])
    look(metrics, view)
    of_any_queue = {
        "kueue_build_info", "kueue_admission_attempts_total",
        *(f"kueue_admission_attempt_duration_seconds_{each}" for each in ("bucket", "sum", "count")),
    }  # fmt: skip
    assert len(names_of(metrics)) > 60
    empty = FakeView.of(flavor(), now=NOW)
    metrics.cluster_queue_gone(Q)
    metrics.local_queue_gone(LQ)
    metrics.touch_local(LQ, [Q])
    metrics.keep_cohorts(empty.state.tree.cohorts)
    metrics.refresh(empty)
    assert names_of(metrics) == of_any_queue


def test_series_of_other_queues_stay() -> None:
    metrics = happened()
    metrics.workloads.reserved(QueueName("p"), ("team", "other"), "", 1)
    metrics.workloads.admitted(QueueName("p"), ("other", "lq"), "", 1, cohorts=["r", "s"])
    metrics.cluster_queue_gone(Q)
    metrics.local_queue_gone(LQ)
    metrics.cohort_gone("r")
    assert value(metrics, "kueue_quota_reserved_workloads_total", cluster_queue="p", priority_class="") == 1
    other = {"name": "other", "namespace": "team", "priority_class": ""}
    assert value(metrics, "kueue_local_queue_quota_reserved_workloads_total", **other) == 1
    elsewhere = {"name": "lq", "namespace": "other", "priority_class": ""}
    assert value(metrics, "kueue_local_queue_admitted_workloads_total", **elsewhere) == 1
    assert value(metrics, "kueue_cohort_subtree_admitted_workloads_total", cohort="r", priority_class="") is None
    assert value(metrics, "kueue_cohort_subtree_admitted_workloads_total", cohort="s", priority_class="") == 1
