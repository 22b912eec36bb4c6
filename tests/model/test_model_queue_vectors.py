"""The model's queues agree with the recorded decisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.model import facts, queues
from tests.model.facts import Raw
from tests.model.play import listing
from tests.model.test_model_vectors import Case, Differences, differ, now_of, read_cases, world_of
from tests.model.world import Progress, World

QUEUE = "cq"


def one_queue(case: Case, workloads: list[Raw]) -> World:
    """A world with one ClusterQueue of the given strategy and these workloads, not yet queued."""
    spec = {"namespaceSelector": {}, "queueingStrategy": case["given"]["queueingStrategy"]}
    cluster_queue = {"kind": "ClusterQueue", "metadata": {"name": QUEUE}, "spec": spec}
    return world_of(case | {"objects": [cluster_queue, *workloads]})


def plain_workload(name: str) -> Raw:
    podset = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    return {"kind": "Workload", "metadata": {"name": name}, "spec": {"podSets": [podset]}}


def check_head(case: Case) -> Differences:
    world = one_queue(case, case["given"]["workloads"])
    world.heap[QUEUE] = set(world.workloads)
    return differ("head", queues.in_heap_order(world, QUEUE)[0].split("/")[1], case["want"]["head"])


def check_requeue(case: Case) -> Differences:
    world, key = one_queue(case, [plain_workload("wl")]), "default/wl"
    tried = case["given"].get("lastTriedFlavorIdx")
    if tried:
        world.progress[key] = Progress(0, 0, "", tried)
    queues.requeue(world, QUEUE, key, case["given"]["requeueReason"], now_of(case))
    found = differ("parked", key in world.parked[QUEUE], case["want"]["inadmissible"])
    return found + differ("sticky", world.sticky.get(QUEUE) == key, case["want"].get("stickyHead", False))


def check_equivalence_hash(case: Case) -> Differences:
    world = one_queue(case, [plain_workload("one"), plain_workload("two")])
    world.heap[QUEUE] = {"default/two"}
    queues.requeue(world, QUEUE, "default/one", case["given"]["requeueReason"], now_of(case))
    moved = "default/two" in world.parked[QUEUE]
    return differ("moved", moved, case["want"]["marksEquivalentWorkloadsInadmissible"])


def check_flush_cohort(case: Case) -> Differences:
    world = world_of(case)
    world.namespaces["default"] = {}
    for key, wl in world.workloads.items():
        local = world.local_queues[f"default/{wl['spec']['queueName']}"]
        world.parked[local["clusterQueue"]].add(key)
    for queue in case["given"]["flushClusterQueues"]:
        queues.wake(world, queue, now_of(case))
    found = differ("active", listing(world.heap), case["want"]["activeAfter"])
    return found + differ("parked", listing(world.parked), case["want"]["inadmissibleAfter"])


def check_heads(case: Case) -> Differences:
    world = world_of(case)
    for name in case["given"]["inactiveClusterQueues"]:
        world.queues[name]["stopPolicy"] = "Hold"
    queues.fill(world, now_of(case))
    got = sorted(key.split("/")[1] for key in queues.heads(world).values())
    return differ("heads", got, sorted(case["want"]["heads"]))


def check_backoff_expired(case: Case) -> Differences:
    return differ("over", facts.backoff_is_over(case["given"]["workload"], now_of(case)), case["want"]["expired"])


SUITES: dict[str, Callable[[Case], Differences]] = {
    "queue_head": check_head,
    "queue_requeue": check_requeue,
    "queue_equivalence_hash": check_equivalence_hash,
    "queue_flush_cohort": check_flush_cohort,
    "queue_heads": check_heads,
    "queue_backoff_expired": check_backoff_expired,
}


@pytest.mark.conformance
@pytest.mark.parametrize("suite", SUITES)
def test_the_queues_of_the_model_decide_as_recorded(suite: str, shared: Path) -> None:
    cases = read_cases(shared / "vectors" / "kueue", suite)
    assert cases
    assert {case["name"]: found for case in cases if (found := SUITES[suite](case))} == {}
