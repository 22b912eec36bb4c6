"""What a Kueue dashboard reads from ``/metrics`` of a real server: the labels, values and ends of Kueue's series."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from makeway.api.objects.configuration import Configuration, Metrics
from tests.cli.living import (
    QUEUEING,
    WORKLOADS,
    Living,
    Tree,
    finished,
    flavor,
    job,
    living,
    queue,
    until,
    workload,
)

pytestmark = pytest.mark.slow

LOCAL_QUEUES = f"{QUEUEING}/namespaces/default/localqueues"
LABEL = re.compile(r'(\w+)="([^"]*)"')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    configuration = Configuration(metrics=Metrics(enable_cluster_queue_resources=True))
    with living(tmp_path_factory.mktemp("data"), configuration) as server:
        server.create(flavor())
        yield server


def series(server: Living, family: str, **labels: str) -> dict[tuple[str, ...], float]:
    """The values of a family where the given labels have these values, by the values of its other labels."""
    found = {}
    for line, value in server.metrics().items():
        name, _, inside = line.partition("{")
        have = dict(LABEL.findall(inside))
        if name == family and labels.items() <= have.items():
            assert have.pop("replica_role") == "standalone"
            found[tuple(each for key, each in have.items() if key not in labels)] = value
    return found


def value(server: Living, family: str, **labels: str) -> float | None:
    """The one series with these labels and no others."""
    return series(server, family, **labels).get(())


def families_with(server: Living, label: str) -> set[str]:
    return {line.partition("{")[0] for line in server.metrics() if label in line}


def cohort(server: Living, name: str, cpu: int = 0, **spec: Any) -> None:
    quota = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": quota}] if cpu else []
    tree: Tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": name},
        "spec": {"resourceGroups": groups, **spec},
    }  # fmt: skip
    answer = server.client.post(f"{QUEUEING}/cohorts", json=tree)
    assert answer.status_code == 201, answer.text


def change(server: Living, path: str, spec: Tree) -> None:
    headers = {"content-type": "application/merge-patch+json"}
    answer = server.client.patch(path, json={"spec": spec}, headers=headers)
    assert answer.status_code == 200, answer.text


def delete(server: Living, *paths: str) -> None:
    for path in paths:
        assert server.client.delete(path).status_code in (200, 202), path
    for path in paths:
        until(lambda path=path: server.client.get(path).status_code == 404, f"{path} to be gone")  # type: ignore[misc]


def reason(server: Living, name: str) -> str | None:
    """Why a Workload has no quota."""
    conditions = (server.get(f"{WORKLOADS}/{name}").get("status") or {}).get("conditions") or []
    found = [each for each in conditions if each["type"] == "QuotaReserved" and each["status"] == "False"]
    return found[0]["reason"] if found else None


# --- deleted queues ---------------------------------------------------------------------------------------------------


def test_series_go_with_their_queues_and_a_queue_of_the_same_name_begins_at_zero(server: Living) -> None:
    cohort(server, "again-root", 1)
    names = ('cluster_queue="again"', 'name="again"', 'cohort="again-root"')
    for round_ in ("first", "second"):
        server.create(*queue("again", cohortName="again-root"), workload(f"again-{round_}", queue="again"))
        until(lambda name=f"again-{round_}": name in server.holding())  # type: ignore[misc]
        until(lambda: value(server, "kueue_admitted_active_workloads", cluster_queue="again") == 1)
        for family, labels in (
            ("admitted_workloads_total", {"cluster_queue": "again"}),
            ("local_queue_admitted_workloads_total", {"name": "again", "namespace": "default"}),
            ("admission_wait_time_seconds_count", {"cluster_queue": "again"}),
            ("local_queue_quota_reserved_wait_time_seconds_count", {"name": "again", "namespace": "default"}),
            ("cohort_subtree_admitted_workloads_total", {"cohort": "again-root"}),
        ):
            assert value(server, f"kueue_{family}", **labels, priority_class="") == 1, (round_, family)
        delete(server, f"{WORKLOADS}/again-{round_}", f"{LOCAL_QUEUES}/again", f"{QUEUEING}/clusterqueues/again")
        if round_ == "first":
            delete(server, f"{QUEUEING}/cohorts/again-root")
            until(lambda: not any(families_with(server, name) for name in names), "series to go")
            cohort(server, "again-root", 1)


def test_a_local_queue_that_is_deleted_while_its_workload_runs_is_not_counted_again(server: Living) -> None:
    server.create(*queue("left"), workload("left-behind", queue="left"))
    until(lambda: "left-behind" in server.holding())
    delete(server, f"{LOCAL_QUEUES}/left")
    server.put_status(f"{WORKLOADS}/left-behind", {"conditions": [finished()]})
    until(lambda: value(server, "kueue_finished_workloads_total", cluster_queue="left", priority_class="") == 1)
    assert families_with(server, 'name="left"') == set()


# --- pending ----------------------------------------------------------------------------------------------------------


def test_pending_workloads_of_a_stopped_queue_are_inadmissible(server: Living) -> None:
    server.create(*queue("held", stopPolicy="Hold"), *(workload(f"held-{i}", queue="held") for i in range(3)))
    local = {"name": "held", "namespace": "default"}

    def pending() -> list[dict[tuple[str, ...], float]]:
        return [
            series(server, "kueue_pending_workloads", cluster_queue="held"),
            series(server, "kueue_local_queue_pending_workloads", **local),
        ]

    until(lambda: pending() == [{("active",): 0, ("inadmissible",): 3}] * 2)
    assert series(server, "kueue_pending_scheduling_hashes", cluster_queue="held") == {
        ("active",): 0, ("inadmissible",): 1,
    }  # fmt: skip
    change(server, f"{QUEUEING}/clusterqueues/held", {"stopPolicy": "None"})
    until(lambda: value(server, "kueue_admitted_active_workloads", cluster_queue="held") == 2)
    until(lambda: sum(pending()[0].values()) == 1)


def test_pending_workloads_of_a_queue_without_its_flavor_are_inadmissible(server: Living) -> None:
    quota = [{"name": "missing", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": quota}]
    server.create(*queue("broken", resourceGroups=groups), workload("broken-1", queue="broken"))
    expected = {("active",): 0, ("inadmissible",): 1}
    until(lambda: series(server, "kueue_pending_workloads", cluster_queue="broken") == expected)


def test_what_pending_workloads_ask_for_and_how_many_classes_they_are(server: Living) -> None:
    server.create(*queue("asking", cpu=2), workload("asking-now", 2, queue="asking"))
    until(lambda: "asking-now" in server.holding())
    assert series(server, "kueue_cluster_queue_resource_pending", cluster_queue="asking") == {("cpu",): 0}
    server.create(*(workload(f"asking-{i}", 2, queue="asking") for i in range(3)))
    server.create(workload("asking-less", 1, queue="asking"))
    until(lambda: series(server, "kueue_cluster_queue_resource_pending", cluster_queue="asking") == {("cpu",): 7})
    until(lambda: value(server, "kueue_pending_workloads", cluster_queue="asking", status="inadmissible") == 4)
    expected = {("active",): 0, ("inadmissible",): 2}
    assert series(server, "kueue_pending_scheduling_hashes", cluster_queue="asking") == expected


# --- why workloads are not admitted -----------------------------------------------------------------------------------


def test_unadmitted_workloads_are_counted_by_reason_and_underlying_cause(server: Living) -> None:
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "audit"}}
    path = f"{QUEUEING}/admissionchecks"
    assert server.client.post(path, json={**check, "spec": {"controllerName": "example.com/audit"}}).status_code == 201
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "on"}
    server.put_status(f"{path}/audit", {"conditions": [{**active, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    server.create(*queue("why", cpu=2, admissionChecksStrategy={"admissionChecks": [{"name": "audit"}]}))
    server.create(workload("why-checked", 2, queue="why"))
    until(lambda: "why-checked" in server.holding("QuotaReserved"))
    server.create(workload("why-full", 1, queue="why"), workload("why-large", 5, queue="why"))
    until(lambda: (reason(server, "why-full"), reason(server, "why-large")) == ("WaitingForQuota", "ExceedsMaxQuota"))
    expected = {
        ("UnsatisfiedAdmissionChecks", ""): 1,
        ("NoReservation", "WaitingForQuota"): 1,
        ("NoReservation", "ExceedsMaxQuota"): 1,
    }
    until(lambda: series(server, "kueue_unadmitted_workloads", cluster_queue="why") == expected)
    local = {"name": "why", "namespace": "default", "cluster_queue": "why"}
    assert series(server, "kueue_local_queue_unadmitted_workloads", **local) == expected
    change(server, f"{QUEUEING}/clusterqueues/why", {"stopPolicy": "Hold"})
    suspended = {("NoReservation", "Suspended"): 3}  # the one with a reservation loses it
    until(lambda: series(server, "kueue_unadmitted_workloads", cluster_queue="why") == suspended)


def test_workloads_whose_queue_is_deleted_are_counted_as_misconfigured(server: Living) -> None:
    server.create(*queue("typo", cpu=1), workload("typo-1", 5, queue="typo"))
    until(lambda: reason(server, "typo-1") == "ExceedsMaxQuota")
    delete(server, f"{QUEUEING}/clusterqueues/typo")
    expected = {("NoReservation", "Misconfigured"): 1}
    until(lambda: series(server, "kueue_unadmitted_workloads", cluster_queue="typo") == expected)
    assert families_with(server, 'cluster_queue="typo"') == {
        "kueue_unadmitted_workloads", "kueue_local_queue_unadmitted_workloads",
    }  # fmt: skip


# --- cohorts ----------------------------------------------------------------------------------------------------------


def test_a_cohort_without_queues_shows_its_quota_and_its_place(server: Living) -> None:
    cohort(server, "empty", 7, parentName="empty-above")
    until(lambda: value(server, "kueue_cohort_subtree_quota", cohort="empty", flavor="f", resource="cpu") == 7)
    assert value(server, "kueue_cohort_subtree_quota", cohort="empty-above", flavor="f", resource="cpu") == 7
    assert series(server, "kueue_cohort_subtree_resource_reservations", cohort="empty") == {}
    assert series(server, "kueue_cohort_info", cohort="empty") == {("empty-above", "empty-above"): 1}
    assert series(server, "kueue_cohort_info", cohort="empty-above") == {("", "empty-above"): 1}
    delete(server, f"{QUEUEING}/cohorts/empty")
    until(lambda: not families_with(server, 'cohort="empty'), "series of both to go")


def test_reservations_of_a_subtree_are_all_of_it_whatever_is_lent(server: Living) -> None:
    cohort(server, "lenders", 0, parentName="bank")
    limited = {"name": "cpu", "nominalQuota": "4", "lendingLimit": "2"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [limited]}]}]
    server.create(*queue("lender-a", cohortName="lenders", resourceGroups=groups))
    server.create(*queue("lender-b", cohortName="lenders", resourceGroups=groups))
    server.create(workload("lends-a", 3, queue="lender-a"), workload("lends-b", 3, queue="lender-b"))
    until(lambda: {"lends-a", "lends-b"} <= server.holding())
    cpu = {"flavor": "f", "resource": "cpu"}
    for name in ("lenders", "bank"):
        assert value(server, "kueue_cohort_subtree_quota", cohort=name, **cpu) == 4
        assert value(server, "kueue_cohort_subtree_resource_reservations", cohort=name, **cpu) == 6
        assert value(server, "kueue_cohort_subtree_admitted_active_workloads", cohort=name) == 2
        assert value(server, "kueue_cohort_subtree_admitted_workloads_total", cohort=name, priority_class="") == 2
    assert series(server, "kueue_cluster_queue_info", cluster_queue="lender-a") == {("lenders", "bank"): 1}


def test_a_queue_without_a_cohort_has_no_place_in_a_hierarchy(server: Living) -> None:
    server.create(*queue("alone"))
    until(lambda: series(server, "kueue_cluster_queue_info", cluster_queue="alone") == {("", ""): 1})


def test_a_local_queue_is_shown_though_nothing_happens_in_its_cluster_queue(server: Living) -> None:
    server.create(*queue("quiet"))
    until(lambda: value(server, "kueue_reserving_active_workloads", cluster_queue="quiet") == 0)
    late = queue("quiet")[1]
    server.create({**late, "metadata": {"name": "late", "namespace": "default"}})
    local = {"name": "late", "namespace": "default"}
    until(lambda: value(server, "kueue_local_queue_reserving_active_workloads", **local) == 0)
    assert series(server, "kueue_local_queue_pending_workloads", **local) == {("active",): 0, ("inadmissible",): 0}


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_the_time_until_a_job_has_its_workload_is_measured(server: Living) -> None:
    server.create(*queue("jobs"))
    before = value(server, "kueue_workload_creation_latency_seconds_count", job_kind="Job") or 0
    server.create(job("timed-1", queue="jobs"), job("timed-2", queue="jobs"))
    until(lambda: value(server, "kueue_workload_creation_latency_seconds_count", job_kind="Job") == before + 2)


def test_every_family_has_help(server: Living) -> None:
    text = server.client.get("/metrics").text
    names = re.findall(r"^# TYPE (\S+)", text, re.M)
    helped = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    assert len(names) == len(set(names)) > 70
    assert [name for name in names if len(helped.get(name, "")) < 12] == []
