"""Jobs whose pods are one gang: quota and placement work together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.scheduling import GangWorkload
from makeway.core.policy import PodsReady, Policy, Requeuing
from makeway.runtime.executor import DirectWriter
from makeway.runtime.ports import Store, Stored, Unavailable
from tests.controllers.pod_world import PODS, WORKLOADS, PodWorld, Tree, node, queues
from tests.controllers.pods.test_gangs import GANGS, places, ranks
from tests.controllers.pods.test_scheduling import pod

GANG = {"makeway.dev/gang": "true"}


def ranked(**values: int) -> list[Tree]:
    api = "kueue.x-k8s.io/v1beta2"
    return [
        {"apiVersion": api, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in values.items()
    ]


def submit(play: PodWorld, name: str, count: int, rank: str = "", **more: Any) -> None:
    labels = {"kueue.x-k8s.io/priority-class": rank} if rank else {}
    play.job(
        name, queue="main", parallelism=count, completions=count, backoffLimit=0, annotations=GANG, labels=labels,
        **more,
    )  # fmt: skip


def gangs(play: PodWorld) -> list[GangWorkload]:
    return [each.value() for each in play.store.list(GANGS).items]


def evictions(play: PodWorld, of: str) -> dict[tuple[str, str], int]:
    status = play.workload(of).status
    stats = None if status is None else status.scheduling_stats
    return {} if stats is None else {(each.reason, each.underlying_cause): each.count for each in stats.evictions}


def test_pods_of_a_gang_refer_to_a_scheduling_workload_with_the_priority_of_the_queue() -> None:
    play = PodWorld(node("a", "2"), node("b", "1"))
    play.create(*queues(10), *ranked(high=7))
    submit(play, "train", 3, "high", runs=60)
    play.settle()
    (gang,) = gangs(play)
    assert gang.metadata.name == play.workload("train").metadata.name
    (group,) = gang.spec.pod_groups
    assert group.policy.gang is not None
    assert (group.policy.gang.min_count, group.policy.gang.preemption_mode) == (3, "PodGroup")
    assert gang.status is not None
    assert (gang.status.priority, gang.status.preemption_priority) == (7, 7)
    assert sorted(places(play).values()) == ["a", "a", "b"]
    play.run(100)
    assert play.condition("train", "Complete") == ("True", "CompletionsReached")
    assert gangs(play) == []  # its quota is free, and the gang has gone with that


def test_a_gang_without_room_for_all_waits_as_a_whole() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*queues(10))
    submit(play, "train", 3)
    play.settle()
    assert set(places(play).values()) == {""}


def test_pods_that_make_way_cost_the_workload_one_eviction() -> None:
    play = PodWorld(node("a", "2"), node("b", "1"))
    play.create(*queues(10), *ranked(high=7, low=1))
    submit(play, "old", 3, "low", runs=1000)
    play.settle()
    submit(play, "new", 2, "high", runs=50)
    play.run(10)
    assert evictions(play, "old") == {("Preempted", "PreemptionByScheduler"): 1}
    assert sorted(each["spec"].get("nodeName", "") for each in play.pods("new")) == ["a", "a"]
    assert play.says("old", "Admitted")  # it has quota again, and waits for nodes
    assert play.status("old").get("failed") is None
    assert play.condition("old", "Failed") is None
    play.run(60)
    assert play.condition("new", "Complete") == ("True", "CompletionsReached")
    assert sorted(each["spec"].get("nodeName", "") for each in play.pods("old")) == ["a", "a", "b"]
    assert evictions(play, "old") == {("Preempted", "PreemptionByScheduler"): 1}


def test_a_gang_without_a_place_is_sent_back_when_its_pods_are_not_ready_in_time() -> None:
    waits = PodsReady(timeout_ms=60_000, recovery_timeout_ms=None)
    policy = replace(Policy.default(), pods_ready=waits, requeuing=Requeuing(backoff_base_ms=100_000))
    play = PodWorld(node("a", "2"), policy=policy)
    play.create(*queues(10))
    submit(play, "train", 3)
    play.run(59)
    assert play.says("train", "Admitted")
    play.run(5)
    assert evictions(play, "train") == {("PodsReadyTimeout", "WaitForStart"): 1}
    assert (play.pods("train"), gangs(play)) == ([], [])
    play.create(node("b", "1"))
    play.run(200)
    assert sorted(places(play).values()) == ["a", "a", "b"]


def test_a_gang_that_has_less_left_to_run_than_it_began_with_places_what_is_left() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*queues(10))
    play.job("train", queue="main", parallelism=2, completions=3, annotations=GANG, runs=10)
    play.run(60)
    assert play.condition("train", "Complete") == ("True", "CompletionsReached")


def test_one_pod_that_others_delete_evicts_nobody() -> None:
    play = PodWorld(node("a", "3"))
    play.create(*queues(10))
    submit(play, "train", 3)
    play.settle()
    play.store.delete(PODS, "default", play.pods("train")[0]["metadata"]["name"], grace=0)
    play.run(20)
    assert evictions(play, "train") == {}


@pytest.mark.parametrize(("was_evicted", "found"), [(True, {}), (False, {("Preempted", "PreemptionByScheduler"): 1})])
def test_a_finished_pod_of_the_same_second_is_one_of_an_earlier_admission(
    was_evicted: bool, found: dict[tuple[str, str], int]
) -> None:
    """Times are stored in whole seconds: a gang may be evicted, come back, and still show pods, all in one second."""
    play = PodWorld(node("a", "2"))
    play.create(*queues(10))
    play.job("old", queue="main", parallelism=2, completions=2, backoffLimit=9, annotations=GANG, runs=1000)
    play.settle()
    workload, (first, _) = play.workload("old"), play.pods("old")
    if was_evicted:
        since = {"lastTransitionTime": first["metadata"]["creationTimestamp"]}
        back = {"type": "Evicted", "status": "False", "reason": "QuotaReserved", "message": "Previously", **since}
        assert workload.status is not None
        conditions = [*msgspec.to_builtins(workload.status.conditions, enc_hook=str), back]
        play.store.patch(
            WORKLOADS, "default", workload.metadata.name, {"status": {"conditions": conditions}}, status=True
        )
    leaving = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "Preempted"}
    play.create({
        **first, "metadata": {**first["metadata"], "name": "left", "uid": "", "resourceVersion": ""}, "status": {},
    })  # fmt: skip
    play.store.patch(PODS, "default", "left", {"status": {"phase": "Failed", "conditions": [leaving]}}, status=True)
    play.settle()
    assert evictions(play, "old") == found


class WithoutGangStatus:
    """A Store that accepts no status of a scheduling Workload."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def update_status(self, body: Any) -> Stored:
        if isinstance(body, GangWorkload):
            self.refused += 1
            raise Unavailable("not now")
        return self.store.update_status(body)


def test_a_gang_has_the_priority_of_the_queue_before_its_status_says_so() -> None:
    play = PodWorld(node("a", "2"))
    store = WithoutGangStatus(play.store)
    play.engine = play.new_engine(DirectWriter(cast("Store", store)))
    default = {**ranks(default=1000)[0], "globalDefault": True}
    play.create(*queues(10), *ranked(low=1), *ranks(mid=5), default)
    play.create(pod("other", cpu="2", priorityClassName="mid"))
    play.settle()
    submit(play, "train", 2, "low")
    play.run(1)
    play.engine = play.new_engine(DirectWriter(cast("Store", store)))  # one that waits for no write of the former
    play.run(1)
    (gang,) = gangs(play)
    assert gang.status is not None
    assert (gang.status.priority, store.refused > 0) == (1000, True)  # what admission made of no class
    assert sorted(places(play).values()) == ["", "", "a"]
    assert places(play)["other"] == "a"


@pytest.mark.parametrize("value", ["false", "yes"])
def test_other_jobs_are_no_gangs(value: str) -> None:
    play = PodWorld(node("a", "2"))
    play.create(*queues(10), *ranks(high=1))
    play.job("train", queue="main", parallelism=3, annotations={"makeway.dev/gang": value})
    play.settle()
    assert (gangs(play), sorted(places(play).values())) == ([], ["", "a", "a"])
    assert len(play.store.list(WORKLOADS).items) == 1
