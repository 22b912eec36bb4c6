"""Running Jobs that are deleted in every way, on a server that is killed meanwhile: all quota is released."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from makeway.runtime.ports import NotFound
from tests.end_to_end.machine import JOBS, PODS, WORKLOADS, Machine, flavor, queue, shell

pytestmark = pytest.mark.slow
KEEP = "test.example/keep"


def is_gone(machine: Machine, name: str) -> bool:
    try:
        machine.job(name)
    except NotFound:
        return not machine.pods(name)
    return False


def delete_as_kubectl_does(machine: Machine, name: str) -> None:
    """Delete with kubectl if it is there, else with our own command."""
    if shutil.which("kubectl") is None:
        done = machine.run("delete", "job", name, "--cascade", "foreground")
    else:
        config = machine.folder.with_name("kubeconfig")
        config.write_text(machine.run("kubeconfig").stdout)
        command = ["kubectl", "--kubeconfig", str(config), "delete", "job", name, "--cascade=foreground"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_jobs_go_and_their_quota_comes_back(machine: Machine) -> None:
    names = ["front", "kubectl", "kept", "left"]
    machine.apply(flavor(), *queue("all", 4), *(shell(name, "sleep 600", grace=1) for name in names))
    for name in names:
        machine.until_running(name)
    delete_as_kubectl_does(machine, "kubectl")
    machine.client.patch(JOBS, "default", "kept", {"metadata": {"finalizers": [KEEP]}})
    left = machine.workload("left")["metadata"]["name"]
    for name, policy in (("front", "Foreground"), ("kept", "Foreground"), ("left", "Orphan")):
        machine.client.delete(JOBS, "default", name, {"propagationPolicy": policy})
    machine.kill()
    machine.start()
    machine.apply(shell("next", "sleep 600", cpu="3", grace=1))
    machine.until_running("next")
    machine.until(lambda: is_gone(machine, "front") and is_gone(machine, "kubectl"), "they are gone")
    assert machine.job("kept")["metadata"]["finalizers"] == [KEEP], "its quota is free all the same"
    assert machine.is_running("left"), "what is left behind goes on"
    machine.client.patch(JOBS, "default", "kept", {"metadata": {"finalizers": None}})
    machine.until(lambda: is_gone(machine, "kept"), "nobody keeps it any more")
    machine.client.delete(PODS, "default", machine.pod("left")["metadata"]["name"], {})
    machine.client.delete(WORKLOADS, "default", left, {})
    machine.apply(shell("last", "sleep 600", grace=1))
    machine.until_running("last")
