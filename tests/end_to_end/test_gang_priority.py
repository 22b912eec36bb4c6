"""Gangs of Jobs whose members fail and finish, beside lower pods that wait for every core: these displace no member.

Forty stories at once on one server: each has a node of its own, so that they do not meet. The test also asserts that
lower pods took free places, were displaced for members that came again, and still wait: else it would show nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.end_to_end.machine import EVENTS, JOBS, PODS, WORKLOADS, Machine, Tree, flavor, job, priority, queue, shell

pytestmark = pytest.mark.slow
TIMES = 20
FAILS = [f"fails-{n}" for n in range(TIMES)]
ENDS = [f"ends-{n}" for n in range(TIMES)]
STORIES = (*FAILS, *ENDS)
NODES = tuple(word for name in STORIES for word in ("--node", f"{name}:cpu=3,memory=1Gi,label/story={name}"))

# The first finishes, so that fewer are needed. The last fails on an order through the pipe $0, and comes again after
# its Job's pause; the one in between is in danger then.
FAILING = (
    "case $JOB_COMPLETION_INDEX in 0) ;; 1) exec sleep 300;;"
    " *) [ -e $0.done ] && exec sleep 300; read go < $0; touch $0.done; exit 1;; esac"
)
# All but one finish, and the next index takes the place; then fewer are left than there were.
FINISHING = "case $JOB_COMPLETION_INDEX in 2) exec sleep 300;; *) exec sleep 1;; esac"


def gang(name: str, script: str, pipe: Path, completions: int) -> Tree:
    made = shell(
        name, script, priority="high", grace=1, parallelism=3, completions=completions, completionMode="Indexed",
        backoffLimit=5, pod={"nodeSelector": {"story": name}},
    )  # fmt: skip
    made["spec"]["template"]["spec"]["containers"][0]["command"].append(str(pipe))
    made["metadata"]["annotations"] = {"makeway.dev/gang": "true"}
    return made


def low(name: str) -> Tree:
    """More pods than the node has room for; displaced ones come again."""
    pod = {"nodeSelector": {"story": name}, "priorityClassName": "low"}
    many: Tree = {"parallelism": 4, "completions": 4, "backoffLimit": 100}
    return job(f"low-{name}", "sleep", "300", grace=1, queue="", pod=pod, **many)


def phases(machine: Machine) -> Counter[tuple[str, str]]:
    """How many pods of each Job are in each phase."""
    found = machine.all(PODS, "default")
    return Counter((each["metadata"]["labels"]["job-name"], each["status"].get("phase", "")) for each in found)


def displaced(machine: Machine) -> Counter[str]:
    """The Jobs whose pods were displaced by others, by their events."""
    told = [each for each in machine.all(EVENTS, "default") if each["reason"] == "Preempted"]
    names = [each["involvedObject"]["name"] for each in told if each["involvedObject"]["kind"] == "Pod"]
    return Counter("-".join(name.split("-")[: 3 if name.startswith("low-") else 2]) for name in names)


def is_through(machine: Machine) -> bool:
    """Whether every gang has lost its members, all the rest of it runs, and lower pods wait beside it."""
    jobs = {each["metadata"]["name"]: each.get("status", {}) for each in machine.all(JOBS, "default")}
    ended = {name: (jobs[name].get("failed", 0), jobs[name].get("succeeded", 0)) for name in STORIES}
    if any(ended[name] != (1, 1) for name in FAILS) or any(ended[name] != (0, 4) for name in ENDS):
        return False
    found = phases(machine)
    return all(
        found[name, "Running"] == (2 if name in FAILS else 1) and found[f"low-{name}", "Pending"] for name in STORIES
    )


def have_low_ones_come(machine: Machine) -> bool:
    """Whether lower pods have the places of the members that finished first."""
    found = phases(machine)
    return all(found[f"low-{name}", "Running"] for name in FAILS)


def test_gangs_whose_members_fail_and_finish_are_never_displaced_by_lower_pods(
    machine: Machine, tmp_path: Path
) -> None:
    rank = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 10}
    machine.apply(flavor(), *queue("cq", 1000), priority("high", 100), rank)
    pipes = {name: tmp_path / name for name in FAILS}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    ends = [os.open(pipe, os.O_RDWR) for pipe in pipes.values()]  # held open, so that no writer waits
    try:
        machine.apply(*(gang(name, FAILING, pipe, 3) for name, pipe in pipes.items()))
        machine.apply(*(gang(name, FINISHING, tmp_path, 5) for name in ENDS))
        machine.apply(*(low(name) for name in STORIES))
        machine.until(lambda: have_low_ones_come(machine), "lower pods have the places of those who finished")
        for end in ends:
            os.write(end, b"go\n")
        machine.until(lambda: is_through(machine), "all that is left of the gangs runs, and lower pods wait", 180)
    finally:
        for end in ends:
            os.close(end)
    found = displaced(machine)
    assert {f"low-{name}" for name in FAILS} <= found.keys()  # members took their places back
    assert {name: count for name, count in found.items() if name in STORIES} == {}
    evicted = [each["metadata"]["name"] for each in machine.all(WORKLOADS) if each["status"].get("schedulingStats")]
    assert evicted == []
