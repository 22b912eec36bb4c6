"""Reasons for waiting that clients of a whole server see: every waiting workload has one of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.objects.configuration import Configuration
from tests.cli.living import (
    QUEUEING,
    WORKLOADS,
    Living,
    flavor,
    living,
    queue,
    until,
    workload,
)

pytestmark = pytest.mark.slow

MERGE = {"content-type": "application/merge-patch+json"}
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 1 more needed"
WAITING = ("WaitingForQuota", SHORT)
BEHIND = ("PendingEvaluation", "Waits behind the head of ClusterQueue strict, whose queueingStrategy is StrictFIFO")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    with living(tmp_path_factory.mktemp("data")) as server:
        server.create(flavor())
        yield server


def patch(server: Living, path: str, change: dict[str, Any]) -> None:
    answer = server.client.patch(path, json=change, headers=MERGE)
    assert answer.status_code == 200, answer.text


def conditions(server: Living, name: str) -> dict[str, tuple[str, str, str]]:
    status = server.get(f"{WORKLOADS}/{name}").get("status") or {}
    found = status.get("conditions") or []
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


def says(server: Living, name: str) -> tuple[str, str]:
    """The reason and message of QuotaReserved=False."""
    found = conditions(server, name).get("QuotaReserved", ("", "", ""))
    return found[1:] if found[0] == "False" else ("", "")


def full(server: Living, name: str, **spec: Any) -> None:
    """A queue of one core, held by one workload."""
    server.create(*queue(name, cpu=1, **spec), workload(f"{name}-holds", queue=name))
    until(lambda: f"{name}-holds" in server.holding())


def test_one_that_is_reactivated_says_what_it_waits_for_now(server: Living) -> None:
    full(server, "again")
    server.create(workload("x", queue="again"))
    until(lambda: says(server, "x") == WAITING)
    patch(server, f"{WORKLOADS}/x", {"spec": {"active": False}})
    until(lambda: says(server, "x")[0] == "Deactivated")
    began = time.monotonic()
    patch(server, f"{WORKLOADS}/x", {"spec": {"active": True}})
    until(lambda: says(server, "x") == WAITING)
    assert time.monotonic() - began < 15, "half a second, and much more on a very busy machine; not half a minute"


def test_all_that_are_alike_are_told_and_each_is_written_once(server: Living) -> None:
    full(server, "alike")
    names = [f"alike-{i:02}" for i in range(40)]
    server.create(*(workload(name, queue="alike") for name in names))
    until(lambda: {says(server, name) for name in names} == {WAITING}, "a word to each of them")
    found = conditions(server, names[-1])
    assert found["Admitted"][:2] == ("False", "NoReservation")
    revisions = [server.get(f"{WORKLOADS}/{name}")["metadata"]["resourceVersion"] for name in names]
    server.create(workload("alike-last", queue="alike"))
    until(lambda: says(server, "alike-last") == WAITING)
    assert [server.get(f"{WORKLOADS}/{name}")["metadata"]["resourceVersion"] for name in names] == revisions


def test_those_behind_a_strict_head_say_so(server: Living) -> None:
    full(server, "strict", queueingStrategy="StrictFIFO")
    server.create(workload("s-head", queue="strict", priority=1))
    until(lambda: says(server, "s-head") == WAITING)
    server.create(workload("s-next", queue="strict"))
    until(lambda: says(server, "s-next") == BEHIND)
    patch(server, f"{WORKLOADS}/s-head", {"spec": {"active": False}})
    until(lambda: says(server, "s-next") == WAITING, "its evaluation as the head")


def test_a_queue_that_is_resumed_tells_all_that_wait_in_it(server: Living) -> None:
    full(server, "resumed")
    names = ["r-0", "r-1", "r-2"]
    server.create(*(workload(name, queue="resumed") for name in names))
    path = f"{QUEUEING}/clusterqueues/resumed"
    patch(server, path, {"spec": {"stopPolicy": "Hold"}})
    until(lambda: {says(server, name)[0] for name in names} == {"Suspended"})
    patch(server, path, {"spec": {"stopPolicy": "None"}})
    until(lambda: {says(server, name) for name in names} == {WAITING})


def test_one_that_was_preempted_says_what_it_waits_for(server: Living) -> None:
    full(server, "taken", preemption={"withinClusterQueue": "LowerPriority"})
    server.create(workload("t-waits", queue="taken"))
    until(lambda: says(server, "t-waits") == WAITING)
    server.create(workload("t-high", queue="taken", priority=5))
    until(lambda: "t-high" in server.holding())
    until(lambda: says(server, "taken-holds") == WAITING)


def test_one_that_asks_for_too_much_is_told_so_behind_others_that_wait(server: Living) -> None:
    """It is parked with the smaller one before it, but not for the same reason."""
    full(server, "less")
    server.create(workload("l-0", queue="less"))
    until(lambda: says(server, "l-0") == WAITING)
    server.create(workload("l-large", cpu=3, queue="less"))
    until(lambda: says(server, "l-large")[0] == "ExceedsMaxQuota")


def test_with_explicit_status_and_without_granular_reasons(tmp_path: Path) -> None:
    gates = {"UnadmittedWorkloadsExplicitStatus": True}
    with living(tmp_path / "explicit", Configuration(feature_gates=gates)) as server:
        server.create(flavor(), *queue(stopPolicy="Hold"), workload("held"))
        until(lambda: conditions(server, "held").get("Admitted", ())[:2] == ("False", "NoReservation"))
        full(server, "open")
        server.create(workload("o-0", queue="open"))
        until(lambda: says(server, "o-0") == WAITING)
        server.create(workload("o-1", queue="open"))
        until(lambda: conditions(server, "o-1").keys() == {"QuotaReserved", "Admitted"})
        until(lambda: says(server, "o-1") == WAITING)
    gates = {"UnadmittedWorkloadsObservability": False}
    with living(tmp_path / "coarse", Configuration(feature_gates=gates)) as server:
        server.create(flavor())
        full(server, "open")
        server.create(workload("o-0", queue="open"), workload("o-1", queue="open"))
        until(lambda: {says(server, name) for name in ("o-0", "o-1")} == {("Pending", SHORT)})
        patch(server, f"{QUEUEING}/clusterqueues/open", {"spec": {"stopPolicy": "Hold"}})
        until(lambda: {says(server, name)[0] for name in ("o-0", "o-1")} == {"Inadmissible"})


def test_after_a_restart_nobody_is_told_what_is_stored(tmp_path: Path) -> None:
    names = [f"w-{i}" for i in range(10)]
    with living(tmp_path) as server:
        server.create(flavor())
        full(server, "q")
        server.create(*(workload(name) for name in names))
        until(lambda: {says(server, name) for name in names} == {WAITING})
        before = {name: server.get(f"{WORKLOADS}/{name}")["metadata"]["resourceVersion"] for name in names}
    with living(tmp_path) as server:
        server.create(workload("new"))
        until(lambda: says(server, "new") == WAITING, "the word to one that came since")
        assert {name: server.get(f"{WORKLOADS}/{name}")["metadata"]["resourceVersion"] for name in names} == before
