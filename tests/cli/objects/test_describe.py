"""``makeway describe`` and ``makeway events`` on a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.cli.conftest import KUEUE, Server, kind_named, local_queue, queue

WORKLOAD: dict[str, Any] = {
    "apiVersion": KUEUE,
    "kind": "Workload",
    "metadata": {"name": "job-a", "namespace": "default", "labels": {"tier": "gold"}},
    "spec": {
        "queueName": "main",
        "podSets": [
            {
                "name": "main",
                "count": 1,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "pause"}]}},
            }
        ],
    },
}
WAITS = {
    "type": "QuotaReserved",
    "status": "False",
    "reason": "WaitingForQuota",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "message": "couldn't assign flavors to pod set main",
}


def event(
    name: str, reason: str, *, of: str = "job-a", kind: str = "Workload", api: str = KUEUE, at: str = "08:00:00",
    type_: str = "Normal", namespace: str = "default", count: int = 1,
) -> dict[str, Any]:  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": api, "kind": kind, "name": of, "namespace": namespace},
        "reason": reason,
        "type": type_,
        "message": f"it was {reason}\nindeed",
        "lastTimestamp": f"2026-01-01T{at}Z",
        "count": count,
    }


@pytest.fixture
def story(server: Server) -> Server:
    server.put(WORKLOAD, {"conditions": [WAITS]})
    server.put(event("second", "Pending", at="09:00:00", type_="Warning", count=3))
    server.put(event("first", "Created", at="08:00:00"))
    server.put(event("foreign", "Bound", api="scheduling.k8s.io/v1alpha1", at="08:30:00"))
    server.put(event("other", "Started", of="job-b", kind="Job", api="batch/v1", namespace="research"))
    return server


# --- describe --------------------------------------------------------------------------------------------------------


def test_it_tells_what_is_wanted_how_it_is_and_what_happened(story: Server) -> None:
    text = story.told("describe", "workload", "job-a")
    lines = text.splitlines()
    assert lines[0].split() == ["Name:", "job-a"]
    assert "Labels:        tier=gold" in lines
    assert lines.index("Spec:") < lines.index("Conditions:") < lines.index("Events:")
    assert "  queueName: main" in lines
    assert "QuotaReserved   False    WaitingForQuota" in text
    assert [line.split()[-4:] for line in lines[lines.index("Events:") + 2 :]] == [
        ["it", "was", "Created", "indeed"], ["it", "was", "Pending", "indeed"],
    ]  # fmt: skip


def test_a_job_tells_why_it_waits(server: Server) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "pause"}]}
    meta = {"name": "a", "namespace": "default"}
    job = server.store.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}
    )
    metadata = {**WORKLOAD["metadata"], "labels": {"kueue.x-k8s.io/job-uid": job.uid}}
    server.put({**WORKLOAD, "metadata": metadata}, {"conditions": [WAITS]})
    server.put({**WORKLOAD, "metadata": {"name": "of-another", "namespace": "default"}}, {"conditions": [WAITS]})
    text = server.told("describe", "job", "a")
    assert "Workload job-a:\n" in text
    assert "couldn't assign flavors to pod set main" in text
    assert "of-another" not in text


def test_a_workload_that_waits_knows_its_place(story: Server) -> None:
    item = {"metadata": {"name": "job-a"}, "positionInLocalQueue": 0, "positionInClusterQueue": 2}
    story.extras.pending["default", "main"] = {"kind": "PendingWorkloadsSummary", "items": [item]}
    text = story.told("describe", "workload/job-a")
    del story.extras.pending["default", "main"]
    assert "Waits:         first in LocalQueue main, 2 before it in its ClusterQueue\n" in text


def test_what_a_secret_holds_is_not_shown(server: Server) -> None:
    data = {"password": "aHVudGVyMg=="}
    server.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": data})
    text = server.told("describe", "secret", "s")
    assert "aHVudGVyMg" not in text
    assert "password: 12 characters" in text


def test_several_objects_and_data(story: Server) -> None:
    story.put(local_queue())
    assert story.told("describe", "kwl,lq").count("Name:  ") == 2
    one = json.loads(story.told("describe", "kwl", "job-a", "-o", "json"))
    assert [each["reason"] for each in one["events"]] == ["Created", "Pending"]
    assert yaml.safe_load(story.told("describe", "lq,kwl", "-o", "yaml"))["kind"] == "List"
    assert story.told("describe", "lq", "-o", "name") == "localqueue.kueue.x-k8s.io/main\n"


def test_what_is_being_deleted_says_what_holds_it(server: Server) -> None:
    server.put(queue())
    server.store.delete(kind_named("ClusterQueue"), "", "team-a")
    assert ", held by kueue.x-k8s.io/resource-in-use\n" in server.told("describe", "cq", "team-a")


def test_nothing_to_describe(server: Server) -> None:
    assert server.run("describe", "kwl").stderr == "nothing to describe\n"
    assert server.run("describe", "kwl", "gone").exit_code == 1
    assert server.run("describe").exit_code == 2


# --- events ----------------------------------------------------------------------------------------------------------


def test_events_come_oldest_first_each_on_a_line(story: Server) -> None:
    rows = [line.split() for line in story.told("events").splitlines()]
    assert rows[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [row[-1] for row in rows[1:]] == ["indeed"] * 3
    assert story.told("events", "-o", "name").split() == ["event/first", "event/foreign", "event/second"]
    assert "(x3)   Warning   Pending   workload/job-a" in story.told("events")


def test_within_a_second_events_come_as_they_were_stored(server: Server) -> None:
    for name in ("z", "a", "m"):
        server.put(event(name, "Created"))
    assert server.told("events", "-o", "name").split() == ["event/z", "event/a", "event/m"]


def test_events_of_one_object_or_of_all_namespaces(story: Server) -> None:
    assert story.told("events", "--for", "workload/job-a", "-o", "name").split() == ["event/first", "event/second"]
    assert story.told("events", "--for", "gwl/job-a", "-o", "name").split() == ["event/foreign"]
    everywhere = story.told("events", "-A").splitlines()
    assert (everywhere[0].split()[0], len(everywhere)) == ("NAMESPACE", 5)
    assert len(json.loads(story.told("events", "-A", "-o", "json"))["items"]) == 4


def test_no_events_is_told(server: Server) -> None:
    assert server.run("events", "-n", "research").stderr == "no events in namespace research\n"
    assert server.run("events", "--for", "job/x").stderr == "no events for job/x in namespace default\n"


def test_events_of_what_is_wrong_usage(server: Server) -> None:
    result = server.run("events", "--for", "workload")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "Error: --for needs KIND/NAME, not `workload`\n\nhint: for example --for workload/main\n"
    )
