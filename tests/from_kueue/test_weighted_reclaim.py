"""Queues of different weights reclaim while their victims leave: a client creates Jobs, and runs them (S-9.14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.api.objects.configuration import Configuration, FairSharingConfig
from tests.cli.living import JOBS, WORKLOADS, Living, Tree, flavor, job, living, queue, true_conditions, until

pytestmark = pytest.mark.slow

KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUES = {"chemistry": "1", "physics": "1", "llm": "2", "best-effort": "500m"}
STRATEGIES = FairSharingConfig(preemption_strategies=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Living]:
    with living(tmp_path, Configuration(fair_sharing=STRATEGIES)) as server:
        server.create(flavor())
        for name, value in (("low", -1), ("high", 100)):
            body: Tree = {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
            server.create({**body, "value": value})
        yield server


def cohort(name: str, parent: str = "", weight: str = "1", cpu: int = 0) -> Tree:
    quota = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}]
    spec: Tree = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}],
        "fairSharing": {"weight": weight},
    }
    spec |= {"parentName": parent} if parent else {}
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def work(name: str, where: str, priority: str) -> Tree:
    tree = job(name, queue=where)
    tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    return tree


class JobRunner:
    """Reports on Jobs as a Job controller does: one that is not suspended has a pod, until the test lets it go."""

    def __init__(self, server: Living) -> None:
        self._server = server

    def run(self) -> None:
        for each in self._server.items(JOBS):
            if not each["spec"]["suspend"] and not each.get("status", {}).get("active"):
                self._say(each, 1)

    def let_go(self) -> None:
        for each in self._server.items(JOBS):
            if each["spec"]["suspend"] and each.get("status", {}).get("active"):
                self._say(each, 0)

    def _say(self, tree: Tree, active: int) -> None:
        self._server.put_status(f"{JOBS}/{tree['metadata']['name']}", {"active": active})

    def active(self) -> int:
        self.run()
        return sum(each.get("status", {}).get("active", 0) for each in self._server.items(JOBS))


def running(server: Living) -> Counter[str]:
    held = [each for each in server.items(WORKLOADS) if "Admitted" in true_conditions(each)]
    return Counter(each["spec"]["queueName"] for each in held if "Evicted" not in true_conditions(each))


def evicted(server: Living) -> Counter[str]:
    """How often workloads of each queue were evicted, by the counts in their status."""
    found: Counter[str] = Counter()
    for each in server.items(WORKLOADS):
        stats = each.get("status", {}).get("schedulingStats", {}).get("evictions", [])
        found[each["spec"]["queueName"]] += sum(one["count"] for one in stats)
    return +found


def test_queues_end_at_their_weights_with_as_few_evictions_as_that_takes(server: Living) -> None:
    server.create(cohort("root", cpu=12), cohort("research", "root"))
    for name, weight in QUEUES.items():
        server.create(cohort(name, "root" if name == "best-effort" else "research", weight))
        reclaim = {} if name == "best-effort" else {"preemption": {"reclaimWithinCohort": "LowerPriority"}}
        server.create(*queue(name, cpu=0, cohortName=name, **reclaim))
    jobs = JobRunner(server)
    server.create(*(work(f"old-{i}-{q}", q, "low") for i in range(6) for q in ("best-effort", "physics")))
    until(lambda: jobs.active() == 12, "all quota in use")
    for i in range(6):
        for name in QUEUES:
            server.create(work(f"new-{i}-{name}", name, "high"))
    until(lambda: sum(evicted(server).values()) == 6, "the last eviction")
    jobs.let_go()
    fair = {"best-effort": 4, "chemistry": 2, "physics": 2, "llm": 4}
    until(lambda: jobs.active() == 12 and running(server) == fair, "shares by weights")
    assert evicted(server) == {"best-effort": 2, "physics": 4}
