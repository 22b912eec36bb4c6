"""The promises of the examples, with real processes: all stories at once on one machine, each in its own namespace.

They are one test because the longest, two equals that take turns, is mostly waiting: the others run meanwhile.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.end_to_end.machine import (
    JOBS,
    KUEUE,
    WORKLOADS,
    Machine,
    Tree,
    flavor,
    job,
    namespace,
    priority,
    queue,
    shell,
)

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = ("--node", "here:cpu=64,memory=64Gi", "--node", "gpu:cpu=64,nvidia.com/gpu=8,label/accelerator=gpu")
TURN_S = 60


def example(*names: str) -> list[Tree]:
    return [each for name in names for each in yaml.safe_load_all((EXAMPLES / name).read_text())]


def condition(tree: Tree, type_: str) -> tuple[str, str]:
    found: Tree = next((each for each in tree["status"].get("conditions", ()) if each["type"] == type_), {})
    return found.get("status", ""), found.get("reason", "")


def evictions(workload: Tree) -> dict[str, int]:
    stats = workload["status"].get("schedulingStats") or {}
    return {each["reason"]: each["count"] for each in stats.get("evictions", ())}


# --- the stories -----------------------------------------------------------------------------------------------------


def preemption(machine: Machine, shared: Path | None) -> None:
    """The running job is told, may end in its own time, and resumes later."""
    machine.apply(*example("preemption/queues.yaml", "preemption/training.yaml"))
    machine.until(lambda: machine.is_running("training", "lab"), "training runs")
    first = machine.pod("training", "lab")["metadata"]["name"]
    machine.until(lambda: b"begins" in machine.log("training", "lab"), "it has begun")
    machine.apply(*example("preemption/urgent.yaml"))
    machine.until(lambda: b"told to stop" in machine.log("training", "lab"), "it was told")
    assert condition(machine.workload("training", "lab"), "QuotaReserved")[0] == "True"  # while it saves
    assert machine.pods("urgent", "lab") == []
    machine.until_ended("urgent", namespace="lab")
    assert machine.log("urgent", "lab") == b"urgent work\ndone\n"
    machine.until_ended("training", namespace="lab")
    log = machine.log("training", "lab").decode().splitlines()
    assert log[0].startswith("begins at step ")
    assert log[0] != "begins at step 0"
    assert log[1] == "done after step 50"
    assert machine.pod("training", "lab")["metadata"]["name"] != first
    assert evictions(machine.workload("training", "lab")) == {"Preempted": 1}
    told = machine.reasons("Workload", "lab")
    assert {"Preempted", "EvictedDueToPreempted", "QuotaReserved", "Admitted"} <= set(told)
    assert {"Stopped", "Started", "SuccessfulCreate", "SuccessfulDelete", "Completed"} <= set(
        machine.reasons("Job", "lab")
    )


def reclaim(machine: Machine, shared: Path | None) -> None:
    """Lent quota comes back, and the evicted job returns when it can borrow again."""
    machine.apply(*example("borrowing/queues.yaml", "borrowing/borrower.yaml"))
    machine.until(lambda: len(machine.pods("borrower", "team-b")) == 3, "the borrower has its pods")
    machine.until_running("borrower", "team-b")
    machine.apply(*example("borrowing/owner.yaml"))
    machine.until(lambda: len(machine.pods("owner", "team-a")) == 2, "the owner has its pods")
    machine.until_running("owner", "team-a")
    assert machine.pods("borrower", "team-b") == []
    assert evictions(machine.workload("borrower", "team-b")) == {"Preempted": 1}
    assert condition(machine.workload("borrower", "team-b"), "Preempted")[1] == "InCohortReclamation"
    machine.client.delete(JOBS, "team-a", "owner", {"propagationPolicy": "Background"})
    machine.until(lambda: len(machine.pods("borrower", "team-b")) == 3, "the borrower is back")


def turns(machine: Machine, shared: Path | None) -> None:
    """Two equals: the second gets its turn when the first has had a minute, and not before."""
    trees = example("time-sharing/queues.yaml")
    for each in trees:
        if each["kind"] == "ClusterQueue":
            each["spec"]["preemption"]["withinClusterQueueConfig"]["minAdmitDuration"] = "1m"
    machine.apply(*trees, example("time-sharing/jobs.yaml")[0])
    machine.until_running("first", "research")
    began = time.monotonic()
    machine.apply(example("time-sharing/jobs.yaml")[1])
    machine.until(lambda: machine.is_running("second", "research"), "the second has its turn", TURN_S + 30)
    took = time.monotonic() - began
    assert TURN_S - 2 <= took <= TURN_S + 10, f"it came after {took:.1f} s"  # stored times are whole seconds
    assert machine.pods("first", "research") == []
    assert condition(machine.workload("first", "research"), "Preempted")[1] == "InClusterQueueTimeBased"


def stubborn(machine: Machine, shared: Path | None) -> None:
    """A job that ignores the signal is killed when its time is up, and its quota is free only then."""
    machine.apply(namespace("stubborn"), *queue("stubborn", 1, into="stubborn", preemption=LOWER))
    script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    machine.apply(shell("deaf", script, into="stubborn", grace=3))
    machine.until(lambda: bool(machine.pods("deaf", "stubborn")) and _log(machine, "deaf", "stubborn") == b"up\n", "up")
    (first,) = (each["metadata"]["uid"] for each in machine.pods("deaf", "stubborn"))
    machine.apply(shell("next", "echo here", into="stubborn", priority="high"))
    began = time.monotonic()
    machine.until(lambda: condition(machine.workload("deaf", "stubborn"), "Evicted")[0] == "True", "it is evicted")
    while _lives(machine, "deaf", "stubborn", first):  # this pod: once ``next`` is done there may be another
        reserved = condition(machine.workload("deaf", "stubborn"), "QuotaReserved")[0]
        assert reserved == "True" or not _lives(machine, "deaf", "stubborn", first)
        assert machine.pods("next", "stubborn") == [] or not _lives(machine, "deaf", "stubborn", first)
        time.sleep(0.1)
    assert time.monotonic() - began >= 2.5
    machine.until_ended("next", namespace="stubborn")


def quick_start(machine: Machine, shared: Path | None) -> None:
    """The job of Kueue's quick start, unchanged."""
    if shared is None:
        return
    manifests = shared / "manifests"
    machine.apply(*yaml.safe_load_all((manifests / "quick-start-setup.yaml").read_text()))
    machine.apply(*yaml.safe_load_all((manifests / "quick-start-job.yaml").read_text()))
    machine.until_ended("sample-job", seconds=60)
    assert machine.job("sample-job")["status"]["succeeded"] == 3


def parts(machine: Machine, shared: Path | None) -> None:
    """A job that can do with less runs with less; quota of its last pods is passed on."""
    machine.apply(namespace("parts"), *queue("parts", 3, into="parts"))
    partial = shell("partial", "sleep $((JOB_COMPLETION_INDEX + 1))", into="parts", parallelism=4, completions=4,
                    completionMode="Indexed")  # fmt: skip
    partial["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    machine.apply(partial)
    machine.until(lambda: len(machine.pods("partial", "parts")) == 3, "three of four pods run")
    assert machine.job("partial", "parts")["spec"]["parallelism"] == 3
    machine.apply(job("after", "true", into="parts"))
    machine.until_ended("after", namespace="parts")
    assert machine.ended("partial", "parts") == ""  # admitted beside the remaining pods
    machine.until_ended("partial", namespace="parts")
    assert machine.job("partial", "parts")["status"]["completedIndexes"] == "0-3"


def readiness(machine: Machine, shared: Path | None) -> None:
    """A Workload reports its pods ready when their probes succeed."""
    flag = machine.folder / "ready"
    machine.apply(namespace("ready"), *queue("ready", 1, into="ready"))
    probe = {"exec": {"command": ["test", "-e", str(flag)]}, "periodSeconds": 1}
    machine.apply(shell("slow", "sleep 600", into="ready", container={"readinessProbe": probe}))
    machine.until_running("slow", "ready")
    assert condition(machine.workload("slow", "ready"), "PodsReady") == ("False", "WaitForStart")
    flag.touch()
    machine.until(
        lambda: condition(machine.workload("slow", "ready"), "PodsReady") == ("True", "Started"), "it is ready"
    )


def changes(machine: Machine, shared: Path | None) -> None:
    """The queue and the class of a waiting job may be changed; a prebuilt Workload is used."""
    machine.apply(namespace("changes"), *queue("changes", 1, into="changes", preemption=LOWER))
    machine.apply(shell("holder", "sleep 600", into="changes"))
    machine.until_running("holder", "changes")
    machine.apply(shell("moved", "echo here", into="changes", queue="nowhere"))
    labels = {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": "high"}
    machine.until(lambda: len(machine.all(WORKLOADS, "changes")) == 2, "it has its Workload")
    machine.client.patch(JOBS, "changes", "moved", {"metadata": {"labels": labels}})
    machine.until_ended("moved", namespace="changes")
    assert machine.workload("moved", "changes")["spec"]["priority"] == 100
    machine.until_running("holder", "changes")


def prebuilt(machine: Machine, shared: Path | None) -> None:
    """A Workload that existed before its job is used for it."""
    machine.apply(namespace("prebuilt"), *queue("prebuilt", 1, into="prebuilt"))
    bound = shell("bound", "echo here", into="prebuilt")
    bound["metadata"]["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}
    template = bound["spec"]["template"]
    machine.apply({
        "apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "mine", "namespace": "prebuilt"},
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": template}]},
    })  # fmt: skip
    machine.apply(bound)
    machine.until_ended("bound", namespace="prebuilt")
    (workload,) = machine.all(WORKLOADS, "prebuilt")
    assert workload["metadata"]["name"] == "mine"
    machine.until(lambda: condition(machine.all(WORKLOADS, "prebuilt")[0], "Finished")[0] == "True", "it is finished")


CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 2s
  requeuingStrategy: {backoffBaseSeconds: 1, backoffLimitCount: 1}
makeway:
  images: {"tools/greet:*": [echo, hello]}
"""


def unready(machine: Machine, shared: Path | None) -> None:
    """On a machine of its own: a workload whose pods are not ready in time is requeued, and at last deactivated."""
    folder = machine.folder.with_name("other")
    folder.mkdir()
    config = machine.folder.with_name("configuration.yaml")
    config.write_text(CONFIGURATION)
    own = Machine(folder, "--node-capacity", "cpu=4,memory=4Gi", "--config", str(config))
    try:
        own.apply(flavor(), *queue("all", 2))
        own.apply(job("mapped", container={"image": "tools/greet:1", "command": [], "args": ["world"]}))
        own.until_ended("mapped")
        assert own.log("mapped") == b"hello world\n"
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
        own.apply(shell("never", "sleep 600", container={"readinessProbe": probe}))
        own.until_running("never")
        own.until(lambda: evictions(own.workload("never")).get("PodsReadyTimeout") == 1, "it is evicted")
        own.until(lambda: not own.workload("never")["spec"].get("active", True), "it is given up")
        own.until(lambda: own.pods("never") == [], "its pods are gone")
        own.close()
    finally:
        own.abandon()


def first_look(machine: Machine, shared: Path | None) -> None:
    """``make run ONCE=1``: a temporary server, which is gone at the end with everything it ran."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "makeway", "demo", "--once"], capture_output=True, text=True, timeout=120, check=False,
        env=machine.environment, cwd=EXAMPLES.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "team-b/sweep     makes way for team-a/hotfix: reclamation within the cohort" in done.stdout
    assert "4 jobs ended in" in done.stdout
    print(f"make run ONCE=1 took {time.monotonic() - began:.0f} s")


LOWER = {"withinClusterQueue": "LowerPriority"}
STORIES: list[Callable[[Machine, Path | None], None]] = [
    turns, quick_start, preemption, reclaim, stubborn, parts, readiness, changes, prebuilt, unready, first_look,
]  # fmt: skip


def _lives(machine: Machine, name: str, into: str, uid: str) -> bool:
    """Whether this pod of a job has not ended."""
    pods = (each for each in machine.pods(name, into) if each["metadata"]["uid"] == uid)
    return any(each["status"].get("phase") not in ("Succeeded", "Failed") for each in pods)


def _log(machine: Machine, name: str, into: str) -> bytes:
    try:
        return machine.log(name, into)
    except Exception:
        return b""


def test_all_stories(machine: Machine, request: pytest.FixtureRequest) -> None:
    machine.apply(flavor(), priority("high", 100))
    try:
        shared: Path | None = request.getfixturevalue("shared")
    except pytest.skip.Exception:
        shared = None
    with ThreadPoolExecutor(len(STORIES)) as pool:
        running = {story.__name__: pool.submit(story, machine, shared) for story in STORIES}
        problems = {name: future.exception() for name, future in running.items()}
    failed = [problem for problem in problems.values() if isinstance(problem, Exception)]
    if failed:
        raise ExceptionGroup("not as told", failed)
    _what_kubectl_tells(machine)


def _what_kubectl_tells(machine: Machine) -> None:
    """The story of the preemption, in the output of kubectl."""
    if shutil.which("kubectl") is None:
        return
    config = machine.folder.with_name("kubeconfig")
    config.write_text(machine.run("kubeconfig").stdout)

    def kubectl(*words: str) -> str:
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(config), *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    described = kubectl("describe", "kwl", "-n", "lab")
    assert "EvictedDueToPreempted" in described
    events = kubectl("get", "events", "-n", "lab")
    for word in ("Preempted", "Started container work", "Admitted by ClusterQueue lab", "Killing"):
        assert word in events, events
    assert "done after step 50" in kubectl("logs", "-n", "lab", "job/training")
    name = machine.pod("slow", "ready")["metadata"]["name"]
    kubectl("delete", "pod", "-n", "ready", name, "--grace-period=1")
