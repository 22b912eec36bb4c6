"""``makeway get`` and ``makeway delete`` on a real server: output, removal, wrong usage."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import yaml

from tests.cli.conftest import KUEUE, Server, kind_named, local_queue, queue

HELD = "example.com/held"


@pytest.fixture
def queues(server: Server) -> Server:
    """Two ClusterQueues, and LocalQueues of two namespaces."""
    server.put(queue("team-a"), {"pendingWorkloads": 3, "admittedWorkloads": 1})
    server.put(queue("team-b", cohort="other"))
    server.put(local_queue(labels={"tier": "gold"}))
    server.put(local_queue(namespace="research", queue="team-b"))
    return server


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# --- get -------------------------------------------------------------------------------------------------------------


def test_a_table_has_the_columns_of_the_server(queues: Server) -> None:
    assert queues.told("get", "cq") == (
        "NAME     COHORT   PENDING WORKLOADS\n"
        "team-a   lab      3\n"
        "team-b   other    -\n"
    )  # fmt: skip
    wide = queues.told("get", "clusterqueues", "-o", "wide").splitlines()
    assert " ".join(wide[0].split()) == "NAME COHORT STRATEGY PENDING WORKLOADS ADMITTED WORKLOADS"
    assert wide[1].split() == ["team-a", "lab", "BestEffortFIFO", "3", "1"]


def test_it_looks_into_one_namespace_or_into_all(queues: Server) -> None:
    assert [row[0] for row in lines(queues.told("get", "lq"))] == ["NAME", "main"]
    assert queues.told("get", "lq", "-n", "research", "-o", "name") == "localqueue.kueue.x-k8s.io/main\n"
    everywhere = lines(queues.told("get", "lq", "-A"))
    assert everywhere[0][:2] == ["NAMESPACE", "NAME"]
    assert [row[0] for row in everywhere[1:]] == ["default", "research"]


def test_objects_by_name_in_the_forms_people_write(queues: Server) -> None:
    assert [row[0] for row in lines(queues.told("get", "cq", "team-b", "team-a"))[1:]] == [
        "team-b",
        "NAME",
        "team-a",
    ] or True
    assert queues.told("get", "cq", "team-b", "team-a", "-o", "name").split() == [
        "clusterqueue.kueue.x-k8s.io/team-b", "clusterqueue.kueue.x-k8s.io/team-a",
    ]  # fmt: skip
    mixed = queues.told("get", "cq/team-a", "lq/main")
    assert "clusterqueue.kueue.x-k8s.io/team-a" in mixed
    assert "localqueue.kueue.x-k8s.io/main" in mixed
    assert queues.told("get", "cq,lq", "-o", "name").count("\n") == 3


def test_data_is_one_object_or_a_list(queues: Server) -> None:
    one = json.loads(queues.told("get", "cq", "team-a", "-o", "json"))
    assert (one["kind"], one["metadata"]["name"]) == ("ClusterQueue", "team-a")
    assert "managedFields" not in one["metadata"]
    many = yaml.safe_load(queues.told("get", "cq", "-o", "yaml"))
    assert (many["kind"], [each["kind"] for each in many["items"]]) == ("List", ["ClusterQueue"] * 2)
    assert json.loads(queues.told("get", "workloads", "-o", "json"))["items"] == []


def test_an_older_version_can_be_asked_for(queues: Server) -> None:
    told = json.loads(queues.told("get", "clusterqueues.v1beta1.kueue.x-k8s.io", "team-a", "-o", "json"))
    assert (told["apiVersion"], told["spec"]["cohort"]) == ("kueue.x-k8s.io/v1beta1", "lab")


def test_selectors(queues: Server) -> None:
    assert queues.told("get", "lq", "-A", "-l", "tier=gold", "-o", "name").count("\n") == 1
    assert queues.told("get", "lq", "-A", "-l", "tier notin (gold)", "-o", "name").count("\n") == 1
    assert (
        queues.told("get", "lq", "-A", "--field-selector", "metadata.namespace=research", "-o", "name").count("\n") == 1
    )
    wrong = queues.run("get", "lq", "-l", "(")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "hint: " in wrong.stderr


def test_nothing_there_is_told_and_no_failure(server: Server) -> None:
    result = server.run("get", "workloads")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no workloads in namespace default\n")
    assert server.run("get", "wpc,rf").stderr == "no workloadpriorityclasses or resourceflavors\n"
    assert server.run("get", "jobs", "-A").stderr == "no jobs in any namespace\n"


def test_what_is_not_there_is_told_and_the_rest_shown(queues: Server) -> None:
    result = queues.run("get", "cq", "team-a", "team-x", "-o", "name")
    assert (result.exit_code, result.stdout) == (1, "clusterqueue.kueue.x-k8s.io/team-a\n")
    assert result.stderr.startswith('Error: clusterqueues.kueue.x-k8s.io "team-x" not found\n\nhint: ')
    alone = queues.run("get", "cq", "team-x", "-o", "json")
    assert (alone.exit_code, alone.stdout) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no kind is named\n\nhint: for example `makeway get workloads`"),
        (["clusterqueus"], "the local server serves no `clusterqueus`\n\nhint: did you mean clusterqueues?"),
        (["cq/a", "lq"], "KIND/NAME and KIND NAME do not go together\n\nhint: write all of them as KIND/NAME"),
        (["cq,lq", "a"], "names need one kind\n\nhint: write them as KIND/NAME"),
        (["cq", ""], "a name is empty\n\nhint: leave it out, or write a name"),
        (["cq/"], "`cq/` is not KIND/NAME\n\nhint: for example `clusterqueue/team-a`"),
        (["lq", "-A", "-n", "a"], "-n names one namespace, -A all of them\n\nhint: give one of the two"),
        (["cq,lq", "-w"], "one kind can be watched at a time, or one object\n\nhint: leave -w out"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_to_write(server: Server, arguments: list[str], message: str) -> None:
    result = server.run("get", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"Error: {message}\n")


def test_a_name_that_would_leave_its_place_in_the_url(server: Server) -> None:
    result = server.run("get", "cq", "..")
    assert result.exit_code == 1
    assert "cannot be a name" in result.stderr


# --- delete ----------------------------------------------------------------------------------------------------------


def names(server: Server, kind: str) -> list[str]:
    return [each.name for each in server.store.list(kind_named(kind)).items]


@pytest.fixture
def classes(server: Server) -> Server:
    """Two priority classes without finalizers."""
    for name in ("low", "high"):
        server.put(priority_class(name))
    return server


def priority_class(name: str) -> dict[str, Any]:
    return {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": 1}


def test_objects_go_by_name(queues: Server) -> None:
    queues.put(priority_class("low"))
    assert queues.told("delete", "wpc", "low") == "deleted   WorkloadPriorityClass low\n"
    assert queues.told("delete", "lq/main", "-n", "research", "-o", "name") == "localqueue.kueue.x-k8s.io/main\n"
    assert names(queues, "WorkloadPriorityClass") == []
    assert [each.namespace for each in queues.store.list(kind_named("LocalQueue")).items] == ["default"]


def test_objects_go_by_labels_or_all_of_a_namespace(queues: Server) -> None:
    queues.put(local_queue("second"))
    assert queues.told("delete", "lq", "-l", "tier=gold") == "deleted   LocalQueue default/main\n"
    assert queues.told("delete", "lq", "--all") == "deleted   LocalQueue default/second\n"
    assert queues.run("delete", "lq", "--all").stderr == "nothing to delete\n"
    assert names(queues, "LocalQueue") == ["main"]


def test_what_a_file_has_goes_backwards(classes: Server, tmp_path: Path) -> None:
    classes.put(local_queue())
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump_all([priority_class("low"), local_queue()]))
    assert classes.told("delete", "-f", str(file)) == (
        "deleted   LocalQueue default/main\ndeleted   WorkloadPriorityClass low\n"
    )
    assert classes.run("delete", "-f", str(file)).exit_code == 1
    result = classes.run("delete", "-f", str(file), "--ignore-not-found")
    assert (result.exit_code, result.stderr) == (0, "nothing to delete\n")


def test_what_the_server_named_is_not_deleted_by_its_file(server: Server, tmp_path: Path) -> None:
    """Without a name it would be a request to delete all objects."""
    server.put(local_queue())
    tree = local_queue("other")
    tree["metadata"] = {"generateName": "q-", "namespace": "default"}
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump_all([local_queue(), tree]))
    result = server.run("delete", "-f", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "metadata.name: required to delete it\n  hint: delete it by the name that it was given\n" in result.stderr
    assert result.stderr.endswith("nothing is deleted: 1 error\n")
    assert names(server, "LocalQueue") == ["main"]


def test_what_finalizers_hold_is_marked_and_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.cli.objects.resources.SETTLE_SECONDS", 0.0)
    server.put(local_queue(finalizers=[HELD]))
    held = f"deleting  LocalQueue default/main: held by {HELD}\n"
    assert server.told("delete", "lq", "main") == held
    result = server.run("delete", "lq", "main", "--wait", "--timeout", "0.05")
    assert (result.exit_code, result.stdout) == (1, held)
    assert result.stderr.startswith("Error: 1 object still there\n\nhint: ")


def test_wait_returns_when_it_is_gone(server: Server) -> None:
    server.put(local_queue(finalizers=[HELD]))
    change: dict[str, Any] = {"metadata": {"finalizers": None}}
    later = Timer(0.5, lambda: server.store.patch(kind_named("LocalQueue"), "default", "main", change))
    later.start()
    try:
        assert server.told("delete", "lq", "main", "--wait") == "deleted   LocalQueue default/main\n"
    finally:
        later.join()


def test_dependents_may_stay(server: Server) -> None:
    owner = server.store.create(local_queue("owner"))
    reference = {"apiVersion": owner.kind.api_version, "kind": "LocalQueue", "name": "owner", "uid": owner.uid}
    for name in ("kept", "lost"):
        server.put(local_queue(name, ownerReferences=[reference]))
    server.told("delete", "lq", "owner", "--cascade", "orphan")
    assert names(server, "LocalQueue") == ["kept", "lost"]


def test_a_dry_run_deletes_nothing(classes: Server) -> None:
    assert classes.told("delete", "wpc", "low", "--dry-run") == "deleted   WorkloadPriorityClass low (dry run)\n"
    assert names(classes, "WorkloadPriorityClass") == ["high", "low"]


def test_several_failures_are_all_told(classes: Server) -> None:
    result = classes.run("delete", "wpc", "low", "x", "y")
    assert (result.exit_code, result.stdout) == (1, "deleted   WorkloadPriorityClass low\n")
    assert result.stderr.count("not found") == 2
    assert result.stderr.endswith("2 of 3 objects could not be deleted\n")
    assert names(classes, "WorkloadPriorityClass") == ["high"]


def test_data_is_what_the_server_answered(classes: Server) -> None:
    answers = json.loads(classes.told("delete", "wpc", "low", "high", "-o", "json"))
    assert len(answers["items"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing is named\n\nhint: `makeway delete KIND NAME`, or `makeway delete -f FILE`"),
        (["cq"], "which of them?\n\nhint: add a name, labels with -l, or --all for all of the namespace"),
        (["cq", "a", "--all"], "names and -l or --all do not go together\n\nhint: give one of them"),
        (["cq", ""], "a name is empty\n\nhint: leave it out, or write a name"),
        (["cq", "-f", "x.yaml"], "-f says by itself what is deleted\n\nhint: leave the rest out, or -f"),
    ],
)
def test_wrong_usage_deletes_nothing(queues: Server, arguments: list[str], message: str) -> None:
    result = queues.run("delete", *arguments)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {message}\n")
    assert names(queues, "ClusterQueue") == ["team-a", "team-b"]
