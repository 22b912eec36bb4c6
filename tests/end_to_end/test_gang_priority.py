"""Gangs of Jobs whose members fail and finish, beside lower pods that wait for every core: none is displaced by those.

Forty stories at once on one server: each has a node of its own, so that they do not meet.
"""

from __future__ import annotations

import pytest

from tests.end_to_end.machine import EVENTS, JOBS, PODS, WORKLOADS, Machine, Tree, flavor, job, priority, queue, shell

pytestmark = pytest.mark.slow
TIMES = 20
FAILS = [f"fails-{n}" for n in range(TIMES)]
ENDS = [f"ends-{n}" for n in range(TIMES)]
NODES = tuple(word for name in (*FAILS, *ENDS) for word in ("--node", f"{name}:cpu=3,memory=1Gi,label/story={name}"))

# The first finishes, so that fewer are needed, the last fails and comes again later; the one in between is in danger.
FAILING = (
    "case $JOB_COMPLETION_INDEX in 0) ;; 1) exec sleep 300;; *) [ -e $0 ] && exec sleep 300; touch $0; exit 1;; esac"
)
# Two of three finish, and each time the next index takes the place; then fewer are left than there were.
FINISHING = "case $JOB_COMPLETION_INDEX in 2) exec sleep 300;; *) exec sleep 1;; esac"


def gang(name: str, script: str, mark: str, completions: int) -> Tree:
    made = shell(
        name, script, priority="high", grace=1, parallelism=3, completions=completions, completionMode="Indexed",
        pod={"nodeSelector": {"story": name}},
    )  # fmt: skip
    made["spec"]["backoffLimit"] = 5
    made["spec"]["template"]["spec"]["containers"][0]["command"].append(mark)
    made["metadata"]["annotations"] = {"makeway.dev/gang": "true"}
    return made


def low(name: str) -> Tree:
    """Three pods that would take all of the node."""
    pod = {"nodeSelector": {"story": name}, "priorityClassName": "low"}
    return job(f"low-{name}", "sleep", "300", grace=1, queue="", parallelism=3, completions=3, pod=pod)


def running(machine: Machine) -> dict[str, int]:
    counts: dict[str, int] = dict.fromkeys((*FAILS, *ENDS), 0)
    for each in machine.all(PODS, "default"):
        name = each["metadata"]["labels"]["job-name"]
        counts[name] = counts.get(name, 0) + (each["status"].get("phase") == "Running")
    return counts


def is_through(machine: Machine) -> bool:
    """Whether every gang has lost what it had to lose, and all that is left of it runs."""
    jobs = {each["metadata"]["name"]: each.get("status", {}) for each in machine.all(JOBS, "default")}
    return (
        all(jobs[name].get("failed", 0) >= 1 and jobs[name].get("succeeded", 0) == 1 for name in FAILS)
        and all(jobs[name].get("succeeded", 0) == 4 for name in ENDS)
        and (counts := running(machine)) is not None
        and all(counts[name] == 2 for name in FAILS)
        and all(counts[name] == 1 for name in ENDS)
    )


def test_gangs_whose_members_fail_and_finish_are_never_displaced_by_lower_pods(machine: Machine) -> None:
    rank = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 10}
    machine.apply(flavor(), *queue("cq", 1000), priority("high", 100), rank)
    for name in FAILS:
        machine.apply(gang(name, FAILING, str(machine.folder / name), 3))
    for name in ENDS:
        machine.apply(gang(name, FINISHING, "", 5))
    machine.apply(*(low(name) for name in (*FAILS, *ENDS)))
    machine.until(lambda: is_through(machine), "all that is left of the gangs runs", 60)
    told = [
        each["message"] for each in machine.all(EVENTS, "default")
        if each["reason"] == "Preempted" and each["involvedObject"]["name"].startswith(("fails-", "ends-"))
    ]  # fmt: skip
    assert told == []
    evicted = [each["metadata"]["name"] for each in machine.all(WORKLOADS) if each["status"].get("schedulingStats")]
    assert evicted == []
