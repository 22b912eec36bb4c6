"""Pods that are bound here run as processes; the Store has their status, also after the agent was gone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.launching import Launcher
from makeway.adapters.node.logs import LogQuery, NoLogYet, log_of
from makeway.adapters.node.machine import LOCAL_LABEL
from makeway.adapters.node.objects import PODS
from makeway.adapters.node.supervision import processes
from makeway.adapters.node.supervision.records import read_record
from makeway.api.objects.kubernetes import Node
from makeway.api.versions import kind_of
from makeway.controllers.contract import NODE, POD, Ref
from tests.adapters.node.nodes import TestNode
from tests.unreadable import UNREADABLE, put_past


def folder_of(node: TestNode, name: str) -> PodFolder:
    return PodFolder(node.root, node.store.get(PODS, "default", name).uid)


def conditions(node: TestNode, name: str) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each.get("reason", "")) for each in node.status(name)["conditions"]}


def log(node: TestNode, name: str, query: LogQuery | None = None, container: str = "work") -> bytes:
    reader = log_of(folder_of(node, name), container, query or LogQuery())
    found = b""
    while not reader.is_done:
        found += reader.read()
    return found


def reasons(node: TestNode) -> list[str]:
    return [each.reason for each in node.notes]


# --- from the start to the end ---------------------------------------------------------------------------------------


def test_a_pod_runs_and_its_status_tells(node: TestNode) -> None:
    node.run("p", "echo up; sleep 0.2; exit 7")
    node.until_phase("p", "Running")
    status = node.status("p")
    assert status["containerStatuses"][0]["ready"]
    assert (status["podIP"], status["qosClass"]) == ("127.0.0.1", "BestEffort")
    assert conditions(node, "p")["Ready"] == ("True", "")
    node.until_phase("p", "Failed")
    ended = node.state("p")["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (7, "Error")
    assert conditions(node, "p")["Ready"] == ("False", "PodFailed")
    assert log(node, "p") == b"up\n"
    assert reasons(node) == ["Started"]


def test_a_pod_bound_elsewhere_is_left_alone(node: TestNode) -> None:
    node.run("p", "true", nodeName="there")
    node.run("q", "true")
    node.until_phase("q", "Succeeded")
    assert node.phase("p") == "Pending"
    assert len(node.folders()) == 1


def test_pods_that_fail_to_begin_say_why(node: TestNode) -> None:
    node.pod("p", {"name": "work", "image": "busybox", "command": ["no-such-command"]})
    node.until_phase("p", "Failed")
    assert (node.exit_code("p"), node.state("p")["terminated"]["reason"]) == (127, "StartError")


def test_a_pod_that_asks_for_too_much_says_so_and_harms_nobody(node: TestNode) -> None:
    env = [{"name": f"A{i}", "value": f"$(A{i - 1})" * 10 if i else "x" * 100} for i in range(9)]
    node.pod("p", {"name": "work", "image": "busybox", "command": ["true"], "env": env})
    node.run("q", "true")
    node.until_phase("q", "Succeeded")
    node.until(lambda: "waiting" in node.state("p"))
    for i in range(2):  # and again after a restart
        waiting = node.state("p")["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert waiting["message"].startswith('container work: variable "A4" has 1000000 characters')
        node.restart()
        node.run(name := f"r{i}", "true")
        node.until_phase(name, "Succeeded")
    node.delete("p")
    node.until(lambda: node.is_gone("p"))


def test_why_many_containers_wait_is_told_in_few_bytes(node: TestNode) -> None:
    missing = [{"secretRef": {"name": "no-such-secret"}}]
    each = {"image": "busybox", "command": ["true"], "envFrom": missing}
    node.pod("p", *({"name": f"c{i}", **each} for i in range(2_000)))
    node.until(lambda: "waiting" in node.state("p"))
    assert node.state("p", 1_999)["waiting"]["message"].startswith("container c0: secret")
    assert len(node.store.get(PODS, "default", "p").data) < 1_200_000


def test_what_is_missing_is_waited_for_and_then_used(node: TestNode) -> None:
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}]
    node.pod("p", {"name": "work", "image": "busybox", "command": ["sh", "-c", "echo $KEY"], "env": env})
    node.until(lambda: "waiting" in node.state("p"))
    assert node.state("p")["waiting"] == {
        "reason": "CreateContainerConfigError", "message": 'container work: secret "key" not found',
    }  # fmt: skip
    assert reasons(node) == ["Failed"]
    node.create({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"},
        "stringData": {"k": "v"},
    })  # fmt: skip
    node.ahead_ms = 2000
    node.until_phase("p", "Succeeded")
    assert log(node, "p") == b"v\n"


def test_an_image_that_cannot_be_run_waits_with_a_hint(node: TestNode) -> None:
    node.pod("p", {"name": "work", "image": "example.com/thing"})
    node.until(lambda: "waiting" in node.state("p"))
    waiting = node.state("p")["waiting"]
    assert waiting["reason"] == "ImageNotRunnable"
    assert "makeway.images" in waiting["message"]
    node.delete("p")
    node.until(lambda: node.is_gone("p"))


# --- deletion --------------------------------------------------------------------------------------------------------


def test_a_deleted_pod_gets_its_time_and_its_object_goes_last(node: TestNode, tmp_path: Path) -> None:
    node.run("p", f"trap 'echo bye > {tmp_path}/bye; sleep 0.2; exit 0' TERM; echo up; while :; do sleep 0.02; done")
    node.until(lambda: node.phase("p") == "Running" and log(node, "p") == b"up\n")
    node.delete("p")
    node.until((tmp_path / "bye").exists)
    assert not node.is_gone("p")
    node.until(lambda: node.is_gone("p"))
    node.until(lambda: node.folders() == [])


@pytest.mark.slow
def test_a_pod_that_ignores_the_signal_stays_until_it_is_killed(node: TestNode) -> None:
    node.run("p", "trap '' TERM; echo up; while :; do sleep 0.02; done", terminationGracePeriodSeconds=1)
    node.until(lambda: node.phase("p") == "Running" and log(node, "p") == b"up\n")
    began = time.monotonic()
    node.delete("p")
    node.until(lambda: node.is_gone("p"))
    assert time.monotonic() - began >= 1


def test_an_object_that_is_gone_takes_its_processes_along(node: TestNode) -> None:
    node.run("p", "trap '' TERM; echo up; sleep 600 & wait", terminationGracePeriodSeconds=600)
    node.until(lambda: node.phase("p") == "Running" and log(node, "p") == b"up\n")
    uid = node.store.get(PODS, "default", "p").uid
    node.delete("p", grace=0)
    assert node.is_gone("p")
    node.until(lambda: node.folders() == [])
    assert list(processes.of_pod(uid)) == []


def test_a_finalizer_keeps_the_object_and_nothing_is_asked_twice(node: TestNode) -> None:
    node.run("p", "sleep 600")
    pod = node.store.get(PODS, "default", "p").value()
    meta = msgspec.structs.replace(pod.metadata, finalizers=("example.com/keep",))
    node.store.update(msgspec.structs.replace(pod, metadata=meta))
    node.until_phase("p", "Running")
    node.delete("p")
    node.until_phase("p", "Failed")
    for _ in range(20):
        node.step()
    version = node.store.resource_version
    for _ in range(20):
        node.step()
    assert node.store.resource_version == version
    pod = node.store.get(PODS, "default", "p").value()
    node.store.update(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, finalizers=())))
    assert node.is_gone("p")


# --- the agent was gone ----------------------------------------------------------------------------------------------


def test_pods_go_on_without_the_agent_and_are_found_again(node: TestNode, tmp_path: Path) -> None:
    for n in range(5):
        node.run(f"p{n}", f"echo x >> {tmp_path}/ran{n}; sleep 0.3; echo end; exit {n + 3}")
    node.until(lambda: all(node.phase(f"p{n}") == "Running" for n in range(5)))
    pids = {n: read_record(folder_of(node, f"p{n}").path) for n in range(5)}
    node.restart()
    node.until(lambda: all(node.phase(f"p{n}") == "Failed" for n in range(5)))
    assert [node.exit_code(f"p{n}") for n in range(5)] == [3, 4, 5, 6, 7]
    assert all((tmp_path / f"ran{n}").read_text() == "x\n" for n in range(5))
    for n in range(5):
        record, before = read_record(folder_of(node, f"p{n}").path), pids[n]
        assert record is not None
        assert before is not None
        assert (record.pid, record.ticks) == (before.pid, before.ticks)
        assert log(node, f"p{n}") == b"end\n"


def test_what_was_asked_for_and_did_not_begin_is_asked_for_again(node: TestNode, tmp_path: Path) -> None:
    lazy = Launcher()
    lazy.launch = lambda folder: True  # type: ignore[method-assign]  # the order is lost
    node.agent._starts.launcher = lazy
    node.run("p", f"echo x >> {tmp_path}/ran")
    node.until(lambda: node.folders() != [])
    node.restart()
    node.until_phase("p", "Succeeded")
    assert (tmp_path / "ran").read_text() == "x\n"


def test_deleted_while_nobody_looked(node: TestNode) -> None:
    node.run("p", "sleep 600")
    node.run("q", "sleep 600")
    node.until(lambda: node.phase("p") == node.phase("q") == "Running")
    node.delete("p", grace=0)
    node.delete("q")
    node.restart()
    node.until(lambda: node.folders() == [] and node.is_gone("q"))


def test_a_killed_supervisor_fails_its_pod(node: TestNode) -> None:
    node.run("p", "setsid sleep 600 & echo up; sleep 600")
    node.until(lambda: node.phase("p") == "Running" and log(node, "p") == b"up\n")
    record = read_record(folder_of(node, "p").path)
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    node.until_phase("p", "Failed")
    status = node.status("p")
    assert status["reason"] == "SupervisorLost"
    assert "exit codes are unknown" in status["message"]
    assert node.exit_code("p") == 137
    node.until(lambda: not list(processes.of_pod(record.uid)))


def test_a_folder_that_is_gone_is_not_run_again(node: TestNode, tmp_path: Path) -> None:
    node.run("p", f"echo x >> {tmp_path}/ran; sleep 0.1")
    node.until_phase("p", "Running")
    folder = folder_of(node, "p")
    node.agent._line.close()
    while (record := folder.record()) is not None and record.finished_ms is None:
        time.sleep(0.01)
    folder.remove()
    node.agent = node.new_agent()
    node.until_phase("p", "Failed")
    assert node.status("p")["reason"] == "FolderLost"
    assert (tmp_path / "ran").read_text() == "x\n"


# --- devices ---------------------------------------------------------------------------------------------------------


def test_a_gpu_is_given_to_one_pod_at_a_time(tmp_path: Path, launcher: Launcher) -> None:
    node = TestNode(tmp_path / "pods", launcher, gpus=("0", "1"))
    try:
        for name, count in (("p", 1), ("q", 1), ("r", 1)):
            node.pod(name, {
                "name": "work", "image": "busybox", "command": ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 600"],
                "resources": {"limits": {"nvidia.com/gpu": str(count)}},
            })  # fmt: skip
        node.until(lambda: node.phase("p") == node.phase("q") == "Running" and "waiting" in node.state("r"))
        assert node.state("r")["waiting"]["reason"] == "DevicesInUse"
        node.until(lambda: {log(node, "p"), log(node, "q")} == {b"0\n", b"1\n"})
        node.restart()
        node.delete("p", grace=0)
        node.until_phase("r", "Running")
        node.until(lambda: log(node, "r") == b"0\n")
    finally:
        node.close()


# --- the Node --------------------------------------------------------------------------------------------------------


def test_the_node_is_registered_and_beats(node: TestNode) -> None:
    node.until(lambda: True)
    found = node.object("v1", "Node", "here")
    assert found["metadata"]["labels"][LOCAL_LABEL] == "true"
    assert found["status"]["allocatable"]["cpu"] == "64"
    assert found["status"]["conditions"][0]["status"] == "True"
    before = node.object("coordination.k8s.io/v1", "Lease", "here", "kube-node-lease")["spec"]["renewTime"]
    node.ahead_ms = 10_000
    node.step()
    assert node.object("coordination.k8s.io/v1", "Lease", "here", "kube-node-lease")["spec"]["renewTime"] > before


def test_a_node_that_was_deleted_is_registered_again_and_its_pods_go_on(node: TestNode) -> None:
    node.run("p", "sleep 60")
    node.until_phase("p", "Running")
    nodes = kind_of(Node)
    before = node.store.get(nodes, "", "here").uid
    node.store.delete(nodes, "", "here")
    node.ahead_ms = 10_000  # the next beat misses it
    node.step()
    node.ahead_ms = 11_001
    node.step()
    assert node.store.get(nodes, "", "here").uid != before
    assert node.object("v1", "Node", "here")["status"]["conditions"][0]["status"] == "True"
    assert node.phase("p") == "Running"


def test_there_is_no_log_before_the_start(node: TestNode) -> None:
    node.pod("p", {"name": "work", "image": "example.com/thing"})
    with pytest.raises(NoLogYet, match="ContainerCreating"):
        log(node, "p")


# --- trouble ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_zygote_that_was_killed_is_replaced_and_its_pods_go_on(node: TestNode) -> None:
    own = Launcher()
    node.agent._starts.launcher = own
    node.run("p", "sleep 0.6; exit 7")
    node.until_phase("p", "Running")
    os.kill(own._pid, signal.SIGKILL)
    node.run("q", "exit 3")
    node.until(lambda: node.phase("p") == node.phase("q") == "Failed")
    assert (node.exit_code("p"), node.exit_code("q")) == (7, 3)
    own.close()
    node.agent._starts.launcher = node.launcher


def test_the_trouble_of_one_pod_is_its_own(node: TestNode, caplog: pytest.LogCaptureFixture) -> None:
    node.run("p", "true")
    uid = node.store.get(PODS, "default", "p").uid
    (node.root / uid).write_text("in the way")
    node.run("q", "true")
    node.until_phase("q", "Succeeded")
    assert node.phase("p") == "Pending"
    assert any(each.reason == "FailedSync" for each in node.notes)
    (node.root / uid).unlink()
    node.ahead_ms = 5000
    node.until_phase("p", "Succeeded")
    assert "pod" in caplog.text


# --- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True], ids=["it comes", "it is there at the start"])
@pytest.mark.parametrize("what", ["Pod on a node", "Pod nowhere", "Pod spread"])
def test_a_pod_that_cannot_be_read_keeps_no_other_from_running(node: TestNode, what: str, restarts: bool) -> None:
    told: list[tuple[Ref, str]] = []
    node.gave_up = lambda whom, part, error: told.append((whom, str(error))) if error is not None else None
    bad = {**UNREADABLE[what], "metadata": {**UNREADABLE[what]["metadata"], "uid": str(uuid4())}}
    put_past(node.store, {**bad, "spec": {"nodeName": "here", **bad["spec"]}})
    if restarts:
        node.restart()
    else:
        node.agent._gave_up = node.gave_up
    node.run("good", "exit 0")
    node.until_phase("good", "Succeeded")
    node.until(lambda: bool(told) or what == "Pod spread")
    assert {ref for ref, _ in told} <= {Ref(POD, "default", "bad")}
    if what == "Pod on a node":
        assert "FailedSync" in reasons(node)


def test_a_node_that_cannot_be_read_ends_nothing_and_is_said(node: TestNode) -> None:
    node.run("before", "exit 0")
    node.until_phase("before", "Succeeded")
    told: list[Ref] = []
    node.gave_up = lambda whom, part, error: told.append(whom)
    tree = node.object("v1", "Node", "here")
    put_past(node.store, {**tree, "status": {"conditions": 7}})
    node.restart()
    node.run("after", "exit 0")
    node.until_phase("after", "Succeeded")
    node.until(lambda: bool(told))
    assert set(told) == {Ref(NODE, "", "here")}
    put_past(node.store, tree)
