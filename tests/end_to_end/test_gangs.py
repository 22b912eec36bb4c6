"""Gangs on the nodes of a real control plane: placed together, preempted together, and evicted once."""

from __future__ import annotations

import pytest

from tests.end_to_end.machine import Machine, Tree, flavor, job, priority, queue

pytestmark = pytest.mark.slow
NODES = ("--node", "a:cpu=2,memory=2Gi", "--node", "b:cpu=1,memory=2Gi")


def gang(name: str, count: int, rank: str, seconds: int) -> Tree:
    made = job(name, "sleep", str(seconds), priority=rank, grace=1, parallelism=count, completions=count)
    made["metadata"]["annotations"] = {"makeway.dev/gang": "true"}
    return made


def places(machine: Machine, name: str) -> list[str]:
    return sorted(each["spec"].get("nodeName", "") for each in machine.pods(name))


def evictions(machine: Machine, name: str) -> list[tuple[str, str, int]]:
    stats = machine.workload(name)["status"].get("schedulingStats") or {}
    return [(each["reason"], each["underlyingCause"], each["count"]) for each in stats.get("evictions", ())]


def shown(machine: Machine) -> list[str]:
    """The output of ``get`` for the one gang, without its name and age."""
    told = machine.run("get", "gwl").stdout.splitlines()
    assert told[0].split() == ["NAME", "PRIORITY", "GANG", "PLACED", "STATE", "AGE"]
    return told[1].split()[1:-1]


def test_a_gang_makes_way_for_a_higher_one_with_one_eviction_and_comes_again(machine: Machine) -> None:
    machine.apply(flavor(), *queue("cq", 10), priority("high", 10), priority("low", 1))
    machine.apply(gang("old", 3, "low", 600))
    machine.until(lambda: machine.is_running("old") and len(machine.pods("old")) == 3, "all of it runs")
    assert places(machine, "old") == ["a", "a", "b"]
    machine.until(lambda: shown(machine) == ["1", "3", "3/3", "Placed"], "the gang shows that it is placed")
    first = {each["metadata"]["uid"] for each in machine.pods("old")}
    machine.apply(gang("new", 2, "high", 2))
    machine.until_ended("new")
    assert set(places(machine, "new")) <= {"a", "b"}
    assert evictions(machine, "old") == [("Preempted", "PreemptionByScheduler", 1)]
    machine.until(lambda: machine.is_running("old") and len(machine.pods("old")) == 3, "it runs again")
    assert first.isdisjoint(each["metadata"]["uid"] for each in machine.pods("old"))
    assert evictions(machine, "old") == [("Preempted", "PreemptionByScheduler", 1)]
    assert machine.ended("old") == ""
    told = machine.client.send("GET", "/metrics").body.decode()
    assert "# TYPE makeway_pod_wakeups_missed_total counter" in told
    missed = [line for line in told.splitlines() if line.startswith("makeway_pod_wakeups_missed_total")]
    assert [line.rpartition(" ")[2] for line in missed] in ([], ["0"]), "nobody was forgotten for a while"
