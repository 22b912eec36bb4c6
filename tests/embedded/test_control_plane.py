"""The engine on the store of the server: objects of clients are queued, admitted, preempted, reported and counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.adapters.server.storage.data_file import DataFileRefused
from makeway.api.objects.configuration import Configuration, Events, Journal, MakewaySettings
from makeway.api.quantity import Duration, Quantity
from makeway.controllers.contract import View
from makeway.core.model import Millis
from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings
from makeway.runtime.informers import watched_kinds
from makeway.runtime.recount.recount import recount
from tests.cli.living import (
    EVENTS,
    JOBS,
    QUEUEING,
    WORKLOADS,
    Living,
    finished,
    flavor,
    job,
    living,
    queue,
    true_conditions,
    until,
    workload,
)

pytestmark = pytest.mark.slow

PREEMPTS = {"withinClusterQueue": "LowerPriority"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    with living(tmp_path_factory.mktemp("data")) as server:
        server.create(flavor())
        yield server


def reasons(server: Living, kind: str, name: str) -> set[str]:
    events = server.items(EVENTS)
    about = [
        each for each in events if (each["involvedObject"]["kind"], each["involvedObject"]["name"]) == (kind, name)
    ]
    return {each["reason"] for each in about}


# --- decisions --------------------------------------------------------------------------------------------------------


def test_a_job_is_held_back_admitted_and_started(server: Living) -> None:
    server.create(*queue("jobs", cpu=1), job("first", queue="jobs"))
    until(lambda: not server.get(f"{JOBS}/first")["spec"]["suspend"], "the start of the first")
    until(lambda: {"CreatedWorkload", "Started"} <= reasons(server, "Job", "first"))
    server.create(job("second", queue="jobs"))  # now, because two objects of the same second are ordered by uid
    until(lambda: any(each["metadata"]["name"].startswith("job-second") for each in server.items(WORKLOADS)))
    (waiting,) = [each for each in server.items(WORKLOADS) if each["metadata"]["name"].startswith("job-second")]
    name = waiting["metadata"]["name"]
    until(lambda: "WaitingForQuota" in reasons(server, "Workload", name))
    assert server.get(f"{JOBS}/second")["spec"]["suspend"]
    done = {"type": "Complete", "status": "True", "reason": "Done", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    server.put_status(f"{JOBS}/first", {"conditions": [done], "completionTime": "2026-01-01T00:00:00Z"})
    until(lambda: not server.get(f"{JOBS}/second")["spec"]["suspend"], "the start of the second")


def test_who_is_more_important_makes_others_leave_and_all_of_it_is_told(server: Living) -> None:
    server.create(*queue("strict", cpu=2, preemption=PREEMPTS), workload("low", cpu=2, queue="strict"))
    until(lambda: "low" in server.holding())
    server.create(workload("high", queue="strict", priority=10))
    until(lambda: "high" in server.holding())
    low = server.get(f"{WORKLOADS}/low")
    assert {"Evicted", "Preempted"} <= true_conditions(low)
    assert "admission" not in low["status"]
    until(lambda: {"Preempted", "EvictedDueToPreempted"} <= reasons(server, "Workload", "low"))
    until(lambda: {"QuotaReserved", "Admitted", "PreemptedWorkload"} <= reasons(server, "Workload", "high"))
    (event,) = [each for each in server.items(EVENTS) if each["reason"] == "PreemptedWorkload"]
    assert event["involvedObject"]["uid"] == server.get(f"{WORKLOADS}/high")["metadata"]["uid"]
    assert (event["type"], event["count"], event["source"]) == ("Normal", 1, {"component": "kueue-admission"})
    series = 'kueue_preempted_workloads_total{preempting_cluster_queue="strict",reason="InClusterQueue",'
    assert [value for name, value in server.metrics().items() if name.startswith(series)] == [1]


def test_a_wake_while_idle_is_noticed_at_once(server: Living) -> None:
    """By itself the driver only looks every half minute; this takes a few commits."""
    server.create(*queue("idle"))
    until(lambda: server.is_true(f"{QUEUEING}/clusterqueues/idle", "Active"))
    time.sleep(0.3)
    before = time.monotonic()
    server.create(workload("woken", queue="idle"))
    until(lambda: "woken" in server.holding())
    assert time.monotonic() - before < 10, "on a very busy machine; without a call it would be thirty seconds"


def test_while_idle_nothing_is_done(server: Living) -> None:
    """Also with a workload that waits in vain. Turns of the driver are counted, not seconds."""
    server.create(*queue("blocked", cpu=1), workload("huge", cpu=1, queue="blocked"), workload("vain", queue="blocked"))
    until(lambda: "QuotaReserved" not in true_conditions(server.get(f"{WORKLOADS}/vain")))
    until(lambda: reasons(server, "Workload", "vain"))
    time.sleep(1.5)  # reports with at most one write per second are written by now
    turns, cycles = server.plane.live.live.turns, server.plane.live.engine.cycles
    time.sleep(1.0)
    assert server.plane.live.live.turns - turns <= 12
    assert server.plane.live.engine.cycles == cycles


# --- questions --------------------------------------------------------------------------------------------------------


def test_who_waits_learns_its_position(server: Living) -> None:
    server.create(*queue("line", cpu=1), workload("runs", queue="line"))
    until(lambda: "runs" in server.holding())
    server.create(workload("one", queue="line"), workload("two", queue="line", priority=5))
    base = "/apis/visibility.kueue.x-k8s.io/v1beta2"

    def told(path: str) -> list[tuple[str, int, int]]:
        return [
            (each["metadata"]["name"], each["positionInClusterQueue"], each["positionInLocalQueue"])
            for each in server.items(f"{base}/{path}")
        ]

    until(lambda: told("clusterqueues/line/pendingworkloads") == [("two", 0, 0), ("one", 1, 1)])
    assert told("namespaces/default/localqueues/line/pendingworkloads?limit=1") == [("two", 0, 0)]
    assert told("clusterqueues/line/pendingworkloads?offset=1") == [("one", 1, 1)]
    assert server.client.get(f"{base}/clusterqueues/none/pendingworkloads").status_code == 404


def test_metrics_equal_a_count_of_the_objects(server: Living) -> None:
    server.create(*queue("counted", cpu=3), *(workload(f"c-{i}", queue="counted") for i in range(5)))
    until(lambda: sum(name.startswith("c-") for name in server.holding()) == 3)
    metrics = server.metrics()
    took = 'kueue_admission_attempt_duration_seconds_sum{result="success",replica_role="standalone"}'
    assert 0 < metrics[took] < 60, "seconds of this machine"
    assert metrics['kueue_admitted_active_workloads{cluster_queue="counted",replica_role="standalone"}'] == 3
    plane = server.plane

    def differences(view: View, now: Millis) -> list[Any]:
        objects = [each.value() for kind in watched_kinds() for each in plane.store.list(kind).items]
        plane.live.metrics.refresh(view)
        return recount(objects, view.state, plane.live.metrics)

    until(lambda: plane.live.engine.is_quiet)
    until(lambda: plane.live.queries.ask(differences).result(30) == [], "the same numbers")


def test_health_readiness_and_version_are_told_to_everybody(server: Living) -> None:
    with httpx2.Client(base_url=server.client.base_url, verify=False) as nobody:
        assert [nobody.get(path).text for path in ("/healthz", "/readyz", "/livez")] == ["ok"] * 3
        assert nobody.get("/version").json()["gitVersion"].startswith("v1.37.0+makeway.")
        assert nobody.get("/metrics").status_code == 401


# --- ends and beginnings ----------------------------------------------------------------------------------------------


def admitted(server: Living) -> dict[str, Any]:
    return {
        each["metadata"]["name"]: each["status"]["admission"]
        for each in server.items(WORKLOADS)
        if "Admitted" in true_conditions(each)
    }


def revisions(server: Living, names: dict[str, Any]) -> list[str]:
    return [server.get(f"{WORKLOADS}/{name}")["metadata"]["resourceVersion"] for name in sorted(names)]


def says(server: Living, path: str) -> tuple[int, int]:
    status = server.get(path).get("status", {})
    return status.get("pendingWorkloads", 0), status.get("admittedWorkloads", 0)


def test_a_restart_takes_up_where_it_was(tmp_path: Path) -> None:
    with living(tmp_path) as server:
        server.create(flavor(), *queue(cpu=2), *(workload(f"w-{i}") for i in range(4)))
        until(lambda: len(server.holding()) == 2)
        for path in (f"{QUEUEING}/clusterqueues/q", f"{QUEUEING}/namespaces/default/localqueues/q"):
            until(lambda path=path: says(server, path) == (2, 2), "what the queue says of itself")  # type: ignore[misc]
        before = admitted(server)
        untouched = revisions(server, before)
    with living(tmp_path) as server:
        until(lambda: server.client.get("/readyz").status_code == 200)
        assert admitted(server) == before
        assert revisions(server, before) == untouched, "what was decided is not decided again"
        name = min(before)
        server.put_status(
            f"{WORKLOADS}/{name}",
            {"conditions": [*server.get(f"{WORKLOADS}/{name}")["status"]["conditions"], finished()]},
        )
        until(lambda: len(server.holding() - server.holding("Finished")) == 2, "the admission of the next")
        assert set(before) <= server.holding()


def test_a_second_one_on_the_same_folder_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    with living(tmp_path) as server:
        with pytest.raises(DataFileRefused, match="in use by another server"):
            ControlPlane(tmp_path, ControlPlaneSettings())
        server.create(flavor(), *queue(), workload("still"))
        until(lambda: "still" in server.holding())
        assert (tmp_path / "address").read_text("ascii").strip() == server.plane.url
    assert not (tmp_path / "address").exists()


def test_a_port_that_is_taken_leaves_the_folder_free(tmp_path: Path) -> None:
    with living(tmp_path / "a") as server:
        port = int(server.plane.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            ControlPlane(tmp_path / "b", ControlPlaneSettings(port=port)).start()
    with living(tmp_path / "b"):
        pass


def test_how_much_of_the_journal_is_kept_is_a_setting(tmp_path: Path) -> None:
    settings = MakewaySettings(journal=Journal(max_size=Quantity.parse("1Ki")))
    with living(tmp_path, Configuration(makeway=settings)) as server:
        server.create(flavor(), *queue(cpu=9), *(workload(f"w-{i}") for i in range(9)))
        until(lambda: len(server.holding()) == 9)
        kept = server.plane.live.queries.ask(lambda view, now: journal_lines(server)).result(30)
        assert 0 < sum(map(len, kept)) <= 1024
        assert server.plane.live.engine.journal.count > len(kept)


def journal_lines(server: Living) -> list[bytes]:
    return list(server.plane.live.engine.journal.lines())


def test_how_long_events_live_is_a_setting(tmp_path: Path) -> None:
    settings = MakewaySettings(events=Events(ttl=Duration.parse("1ms")))
    with living(tmp_path, Configuration(makeway=settings)) as server:
        server.create(flavor(), *queue(), workload("w"))
        until(lambda: "w" in server.holding())
    with living(tmp_path, Configuration(makeway=settings)) as server:
        until(lambda: server.items(EVENTS) == [], "the end of all events")
