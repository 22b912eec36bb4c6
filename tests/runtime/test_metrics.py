"""Names, labels and numbers that dashboards read; and that the text is one that Prometheus can read."""

from __future__ import annotations

import re
from math import inf, isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.objects.workload import Workload
from makeway.controllers.contract import Ref
from makeway.core.model import Millis, QueueName
from makeway.core.policy import Policy
from makeway.runtime.exposition import Counter, Gauge, Histogram, Registry, number
from makeway.runtime.metrics import BOUNDS, LONG_BOUNDS, Metrics, shown
from makeway.runtime.pod_metrics import COUNTS, SECONDS
from tests.controllers.views import FakeView
from tests.runtime.wires import NOON, cluster_queue, cohort, condition, flavor, holder, local_queue, option, workload

NOW = Millis(1_767_225_600_000)
Q, LQ = QueueName("q"), ("team", "lq")
Sample = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def parsed(text: str) -> tuple[dict[str, str], Sample]:
    """Types and samples of a text in format 0.0.4, as a reader that knows only the format sees them."""
    types: dict[str, str] = {}
    samples: Sample = {}
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} comes twice"
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = _LINE.fullmatch(line)
            assert match, line
            labels = [(name, _plain(value)) for name, value in _LABEL.findall(match[2])]
            assert _LABEL.sub("", match[2]) == "", line
            key = (match[1], tuple(labels))
            assert key not in samples, f"{key} comes twice"
            assert re.sub("_(bucket|sum|count)$", "", match[1]) in types or match[1] in types, line
            samples[key] = float(match[3])
    return types, samples


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    """One sample, whatever the order of its labels; the role need not be said."""
    found = {**({} if name == "kueue_build_info" else {"replica_role": "standalone"}), **labels}
    _, samples = parsed(metrics.text())
    return next((each for (n, have), each in samples.items() if n == name and dict(have) == found), None)


def refreshed(*objects: Any, **settings: Any) -> Metrics:
    metrics = Metrics(**settings)
    look(metrics, FakeView.of(*objects, now=NOW))
    return metrics


def look(metrics: Metrics, view: FakeView, *queues: str) -> None:
    metrics.touch(map(QueueName, queues or view.state.tree.queues))
    for each in view.all("Workload"):
        metrics.seen(Ref.of(each).key, each, view.queue_of(each))
    metrics.refresh(view)


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
    families = Metrics().registry.families.values()
    assert {each.name: (each.kind, list(each.labels)) for each in families} == expected
    assert [each.name for each in families if not each.shared] == ["kueue_build_info"]


def test_the_buckets_of_histograms() -> None:
    assert BOUNDS == (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
    assert (*BOUNDS, 20480, 40960) == LONG_BOUNDS
    families = [each for each in Metrics().registry.families.values() if isinstance(each, Histogram)]
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


def test_a_group_of_series_is_replaced_as_a_whole() -> None:
    gauge = Gauge("g", "any", ("a", "b"))
    gauge.set_group("x", {("x", "1"): 1, ("x", "2"): 2})
    gauge.set_group("y", {("y", "1"): 3})
    gauge.set_group("x", {("x", "2"): 4})
    assert gauge.values == {("x", "2"): 4, ("y", "1"): 3}
    gauge.set_group("x", {})
    assert gauge.values == {("y", "1"): 3}


# --- what has happened ------------------------------------------------------------------------------------------------


def happened() -> Metrics:
    """Everything, once or twice."""
    metrics = Metrics()
    metrics.attempted(True, 0.004)
    metrics.attempted(False, 3)
    metrics.attempted(False, 1)
    metrics.skipped({Q: 2})
    metrics.recomputed(Q, "deferred_fit")
    metrics.reserved(Q, LQ, "high", 2)
    metrics.admitted(Q, LQ, "high", 7, 5)
    metrics.pods_ready(Q, LQ, "high", 30, 12)
    metrics.evicted(Q, LQ, "Preempted", "", "high", first=True, ready_s=100)
    metrics.evicted(Q, LQ, "Preempted", "", "high", first=False)
    metrics.released(Q, "Preempted", 9)
    metrics.preempted(Q, "InCohortReclamation")
    metrics.finished(Q, LQ, "", 20_000)
    metrics.finished(Q, LQ, "", None)
    metrics.rounds_exhausted(Q)
    metrics.option_migrated(Q, "spot", "reserved")
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
    metrics.skipped({QueueName("other"): 1})
    assert value(metrics, "kueue_admission_cycle_preemption_skips", cluster_queue="q") is None
    assert value(metrics, "kueue_admission_cycle_preemption_skips", cluster_queue="other") == 1


def test_local_queues_are_left_out_where_the_configuration_says_so() -> None:
    metrics = refreshed(cluster_queue(), flavor(), local_queue(), holder("a"), workload("w"), local_queues=False)
    metrics.reserved(Q, LQ, "", 1)
    text = metrics.text()
    assert "kueue_local_queue_pending_workloads{" not in text
    assert not re.search(r"^kueue_local_queue_\w+\{", text, re.M)
    assert value(metrics, "kueue_pending_workloads", cluster_queue="q", status="active") == 1


def test_the_role_and_what_is_running() -> None:
    metrics = Metrics(role="leader", build={"git_commit": "abc"})
    metrics.rounds_exhausted(Q)
    assert 'makeway_preemption_rounds_exhausted_total{cluster_queue="q",replica_role="leader"} 1\n' in metrics.text()
    info = re.search(r"kueue_build_info\{(.*)\} 1\n", metrics.text())
    assert info
    assert 'git_commit="abc"' in info[1]
    assert "replica_role" not in info[1]


# --- what Workloads say -----------------------------------------------------------------------------------------------


def test_who_does_not_run_and_why_and_who_is_done() -> None:
    evicted = condition("Evicted", reason="PodsReadyTimeout")
    metrics = refreshed(
        cluster_queue(), flavor(), local_queue(),
        workload("new"), workload("refused", condition("QuotaReserved", False, "WaitingForQuota"), evicted),
        holder("checked", 1, condition("Admitted", False, "UnsatisfiedAdmissionChecks"), admitted=False),
        holder("runs"), holder("done", 1, condition("Finished")), workload("lost", local="nowhere"),
        workload("option", **option("new")),
    )  # fmt: skip
    gauge = metrics.registry.families["kueue_unadmitted_workloads"]
    assert isinstance(gauge, Counter)
    assert gauge.values == {
        ("q", "PendingEvaluation", ""): 1,
        ("q", "WaitingForQuota", "PodsReadyTimeout"): 1,
        ("q", "UnsatisfiedAdmissionChecks", ""): 1,
    }
    why = {"cluster_queue": "q", "reason": "PendingEvaluation", "underlying_cause": ""}
    assert value(metrics, "kueue_local_queue_unadmitted_workloads", name="lq", namespace="default", **why) == 1
    assert value(metrics, "kueue_finished_workloads", cluster_queue="q") == 1
    assert value(metrics, "kueue_local_queue_finished_workloads", name="lq", namespace="default") == 1


def test_who_changes_or_goes_is_taken_off_where_it_was_counted() -> None:
    metrics, done = Metrics(), workload("a", condition("Finished"))
    key = Ref.of(done).key
    for _ in range(2):
        metrics.seen(key, workload("a"), Q)
    metrics.seen(key, done, Q)
    assert value(metrics, "kueue_finished_workloads", cluster_queue="q") == 1
    assert 'kueue_unadmitted_workloads{cluster_queue="q"' not in metrics.text()
    metrics.seen(key, None, Q)
    assert value(metrics, "kueue_finished_workloads", cluster_queue="q") is None


def test_options_are_counted_by_what_their_parent_shows_of_them() -> None:
    shown_options = [{"name": name, "status": status} for name, status in (("a", "Admitted"), ("b", "Deactivated"))]
    parent = workload("p", status={"options": shown_options}, workloadMode={"type": "Parent"})
    metrics = refreshed(cluster_queue(), flavor(), local_queue(), parent)
    assert value(metrics, "makeway_options", cluster_queue="q", status="Admitted") == 1
    assert value(metrics, "makeway_options", cluster_queue="q", status="Deactivated") == 1


def test_shares_are_shown_as_they_are_given_and_infinite_ones_as_no_number() -> None:
    metrics = Metrics()
    metrics.shares({(Q, "r"): 150}, {"r": None})
    assert value(metrics, "kueue_cluster_queue_weighted_share", cluster_queue="q", cohort="r") == 150
    found = value(metrics, "kueue_cohort_weighted_share", cohort="r")
    assert found is not None
    assert isnan(found)


def test_shares_follow_the_state_where_fair_sharing_is_on() -> None:
    objects = (
        cluster_queue("q", 4, cohortName="r", fairSharing={"weight": "3"}), cluster_queue("zero", 0, cohortName="r",
        fairSharing={"weight": "0"}), cohort("r", 6), flavor(), local_queue(), local_queue("z", "zero"),
        holder("a", 5), holder("b", 1, queue="zero", local="z"),
    )  # fmt: skip
    metrics = Metrics()
    look(metrics, FakeView.of(*objects, policy=Policy(fair_strategies=("LessThanInitialShare",)), now=NOW))
    found = value(metrics, "kueue_cluster_queue_weighted_share", cluster_queue="q", cohort="r")
    assert found == pytest.approx(100 / 3)
    infinite = value(metrics, "kueue_cluster_queue_weighted_share", cluster_queue="zero", cohort="r")
    assert infinite is not None
    assert isnan(infinite)
    assert value(metrics, "kueue_cohort_weighted_share", cohort="r") == 0
    look(metrics := Metrics(), FakeView.of(*objects, now=NOW))
    assert value(metrics, "kueue_cluster_queue_weighted_share", cluster_queue="q", cohort="r") is None


# --- what the state holds ---------------------------------------------------------------------------------------------


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
    view, metrics = FakeView.of(cluster_queue(), cluster_queue("p"), flavor(), local_queue(), now=NOW), Metrics()
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
    metrics = Metrics()
    look(metrics, view)
    local = {"name": "lq", "namespace": "default"}
    assert value(metrics, "kueue_local_queue_reserving_active_workloads", **local) == 2
    del view.objects[Ref("Workload", "default", "b")]
    view.put(flavor())
    look(metrics, view, "p")
    assert value(metrics, "kueue_local_queue_reserving_active_workloads", **local) == 1
    assert value(metrics, "kueue_local_queue_resource_usage", **local, flavor="f", resource="cpu") == 1


def test_a_queue_that_is_gone_leaves_no_gauge_behind() -> None:
    view = FakeView.of(cluster_queue(cohortName="r"), flavor(), local_queue(), cohort("s", 1), now=NOW)
    metrics = Metrics()
    look(metrics, view)
    metrics.rounds_exhausted(Q)
    assert 'cluster_queue="q"' in metrics.text()
    empty = FakeView.of(flavor(), now=NOW)
    look(metrics, empty, "q")
    left = [line for line in metrics.text().splitlines() if not line.startswith("#")]
    assert [line.partition("{")[0] for line in left] == [
        "makeway_preemption_rounds_exhausted_total",
        "kueue_build_info",
    ]


def test_without_resource_gauges_the_counts_remain() -> None:
    metrics = refreshed(cluster_queue(cohortName="r"), flavor(), local_queue(), holder("a"), queue_resources=False)
    assert 'resource="cpu"' not in metrics.text()
    assert value(metrics, "kueue_reserving_active_workloads", cluster_queue="q") == 1


def test_a_workload_without_status_may_be_seen() -> None:
    metrics = Metrics()
    bare = Workload()
    metrics.seen(Ref.of(bare).key, bare, Q)
    assert value(metrics, "kueue_unadmitted_workloads", cluster_queue="q", reason="PendingEvaluation",
                 underlying_cause="") == 1  # fmt: skip
