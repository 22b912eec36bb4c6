"""What a scheduling Workload shows of its gang: how much of it is on nodes, in which state it is, and why it waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.api.conditions import find
from makeway.api.objects.scheduling import GangWorkload, GangWorkloadStatus
from makeway.core.policy import Policy
from makeway.runtime.executor import DirectWriter
from makeway.runtime.ports import Stored
from tests.controllers.jobs.test_gangs import GANG, gangs, ranked
from tests.controllers.pod_world import PODS, PodWorld, Tree, node, queues
from tests.controllers.pods.test_gangs import GANGS, gang, members, places, ranks
from tests.controllers.pods.test_scheduling import pod, why


def status(play: PodWorld, name: str = "w") -> GangWorkloadStatus:
    found: GangWorkload = play.store.get(GANGS, "default", name).value()
    assert found.status is not None
    return found.status


def shown(play: PodWorld, name: str = "w") -> tuple[str, str, str | None]:
    told = status(play, name)
    return told.gang, told.placed, told.state


def placed(play: PodWorld, name: str = "w") -> tuple[str, str, str]:
    told = find(status(play, name).conditions, "Placed")
    assert told is not None
    return told.status, told.reason, told.message


def events(play: PodWorld, name: str = "w") -> list[tuple[str, str]]:
    return [
        (each.type, each.reason)
        for each in play.engine.notes
        if each.about == ("Workload.scheduling.k8s.io", "default", name)
    ]


def test_a_gang_shows_what_it_waits_for_until_it_is_placed() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(high=10), gang("w", 3, rank="high"))
    play.settle()
    assert (shown(play), placed(play)) == (("3", "0/0", "Waiting"), ("False", "WaitingForPods", "No pod of it exists."))
    assert events(play) == []  # being new is no event
    first, *rest = members("w", 3)
    play.create(first)
    play.run(2)
    assert placed(play) == ("False", "WaitingForPods", why(play, "w-0"))
    play.create(*rest)
    play.run(2)
    assert shown(play) == ("3", "0/3", "Waiting")
    assert placed(play) == ("False", "Unschedulable", why(play, "w-0"))
    play.create(node("b", "1"))
    play.settle()
    assert (shown(play), placed(play)[:2]) == (("3", "3/3", "Placed"), ("True", "Placed"))
    assert events(play) == [("Warning", "Unschedulable"), ("Normal", "Placed")]


def test_a_gang_shows_that_others_make_way_for_it_and_they_that_they_leave() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(high=10, low=1), gang("old", 2, rank="low"), *members("old", 2))
    play.settle()
    play.create(gang("w", 2, rank="high"), *members("w", 2))
    play.run(2)
    assert placed(play) == ("False", "WaitingForVictims", "It waits for 2 pods that make way.")
    assert shown(play) == ("2", "0/2", "Waiting")
    assert (shown(play, "old"), placed(play, "old")[1]) == (("2", "2/2", "Leaving"), "Preempted")
    play.run(6)
    assert shown(play) == ("2", "2/2", "Placed")
    assert (shown(play, "old"), placed(play, "old")[1]) == (("2", "0/0", "Waiting"), "WaitingForPods")


def test_a_gang_of_which_a_part_has_a_place_shows_so() -> None:
    play = PodWorld(node("a", "2"))
    play.create(gang("w", 2), *members("w", 3))
    play.run(2)
    assert (shown(play), placed(play)[1]) == (("2", "2/3", "Partly"), "Unschedulable")


def test_a_gang_that_waits_for_members_that_leave_says_so() -> None:
    play = PodWorld(node("a", "2"))
    play.create(gang("w", 2), *members("w", 2))
    play.settle()
    play.store.delete(PODS, "default", "w-1")
    play.create(*members("w", 1, first=2))
    play.run(1)
    assert placed(play) == ("False", "WaitingForMembers", why(play, "w-2"))
    play.run(6)
    assert shown(play) == ("2", "2/2", "Placed")


def test_groups_are_listed_and_pods_one_by_one_have_no_number() -> None:
    play = PodWorld(node("a", "9"))
    tree = gang("w", 2)
    tree["spec"]["podGroups"] += [{"name": "single", "policy": {"basic": {}}}]
    play.create(tree, *members("w", 2), pod("s", workloadRef={"name": "w", "podGroup": "single"}))
    play.run(2)
    assert shown(play) == ("2,-", "3/3", "Placed")


class Counting:
    """A Store that counts the statuses of scheduling Workloads."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def update_status(self, body: Any) -> Stored:
        self.count += isinstance(body, GangWorkload)
        stored: Stored = self.store.update_status(body)
        return stored


def test_a_large_gang_costs_a_few_writes_and_not_one_for_each_pod() -> None:
    play = PodWorld(node("a", "90"))
    store: Any = Counting(play.store)
    play.engine = play.new_engine(DirectWriter(store))
    play.create(gang("w", 60))
    for each in members("w", 60):
        play.create(each)
        play.settle()
    play.run(5)
    assert shown(play) == ("60", "60/60", "Placed")
    assert store.count < 10
    for each in play.pods()[:40]:
        play.store.delete(PODS, "default", each["metadata"]["name"], grace=0)
        play.settle()
    play.run(5)
    assert shown(play) == ("60", "20/20", "Partly")
    assert store.count < 20


def test_a_job_whose_members_finish_one_by_one_stays_placed() -> None:
    play = PodWorld(node("a", "9"))
    play.create(*queues(10))
    ends = {f"test/runs-{n}": str(n + 1) for n in range(8)}
    play.job(
        "train", queue="main", parallelism=8, completions=8, completionMode="Indexed", annotations=GANG, marks=ends
    )
    play.settle()
    (found,) = gangs(play)
    for _ in range(7):
        play.run(1)
        assert shown(play, found.metadata.name)[2] == "Placed"
    assert shown(play, found.metadata.name) == ("1", "1/1", "Placed")
    assert events(play, found.metadata.name) == [("Normal", "Placed")]


def test_that_pods_are_missing_is_told_when_it_lasts() -> None:
    play = PodWorld(node("a", "9"))
    play.create(gang("w", 2), *members("w", 2))
    play.settle()
    play.store.delete(PODS, "default", "w-1", grace=0)
    play.settle()
    assert shown(play) == ("2", "2/2", "Placed")
    play.run(1)
    assert (shown(play), placed(play)[1]) == (("2", "1/1", "Partly"), "WaitingForPods")


def test_nothing_is_written_after_a_restart() -> None:
    play = PodWorld(node("a", "2"))
    play.create(gang("w", 3), *members("w", 3), gang("v", 1), *members("v", 1))
    play.run(5)
    big, small = ({"name": "w", "podGroup": "g", "podGroupReplicaKey": key} for key in ("big", "small"))
    play.create(pod("s", workloadRef=small), *(pod(f"b{n}", "3", workloadRef=big) for n in range(3)))
    play.run(5)
    store: Any = Counting(play.store)
    before = [each.value() for each in play.store.list(GANGS).items]
    play.engine = play.new_engine(DirectWriter(store))
    play.run(5)
    assert (store.count, [each.value() for each in play.store.list(GANGS).items]) == (0, before)


def test_the_priority_that_pods_of_a_queue_name_themselves_is_no_mismatch() -> None:
    play = PodWorld(node("a", "3"))
    play.create(*queues(10), *ranked(high=7))
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    play.job("train", queue="main", parallelism=2, completions=2, annotations=GANG, labels=labels)
    play.run(2)
    (found,) = gangs(play)
    told = find(status(play, found.metadata.name).conditions, "PodsNotMatchingPriority")
    assert told is not None
    assert (told.status, told.reason, told.message) == ("False", "PriorityMatch", "")
    assert shown(play, found.metadata.name) == ("2", "2/2", "Placed")


# --- gates -----------------------------------------------------------------------------------------------------------


def gated(**gates: bool) -> Policy:
    policy = Policy.default()
    return replace(policy, gates=replace(policy.gates, **gates))


def test_without_gangs_every_pod_is_a_plain_one_and_nothing_is_written_of_them() -> None:
    play = PodWorld(node("a", "2"), policy=gated(generic_workload=False))
    play.create(*ranks(high=10, low=1), gang("w", 3, rank="low"))
    before = status(play)
    play.create(*members("w", 3, priorityClassName="high"), *members("nowhere", 1, priorityClassName="low"))
    play.settle()
    assert sorted(places(play).values()) == ["", "", "a", "a"]  # two of three, though three were wanted together
    assert places(play)["nowhere-0"] == ""
    play.store.delete(PODS, "default", "w-0", grace=0)
    play.store.delete(PODS, "default", "w-1", grace=0)
    play.settle()
    assert places(play) == {"w-2": "a", "nowhere-0": "a"}  # a reference that names nothing keeps no pod waiting
    assert status(play) == before


def test_without_gangs_a_job_that_asks_to_be_one_starts_like_others() -> None:
    play = PodWorld(node("a", "2"), policy=gated(generic_workload=False))
    play.create(*queues(10))
    play.job("train", queue="main", parallelism=3, completions=3, annotations=GANG)
    play.settle()
    assert (gangs(play), sorted(places(play).values())) == ([], ["", "a", "a"])
    assert all("makeway.dev/workload-ref" not in each["metadata"]["annotations"] for each in play.pods())


@pytest.mark.parametrize("is_aware", [True, False])
def test_the_gate_says_what_a_gang_is_as_a_victim(is_aware: bool) -> None:
    """Without workload-aware preemption neither the mode counts nor the priority that protects."""
    play = PodWorld(node("a", "1"), node("b", "1"), policy=gated(workload_aware_preemption=is_aware))
    play.create(*ranks(top=100, dear=50, mid=10, low=1))
    protected = gang("w", 2, rank="low")
    protected["spec"]["preemptionPriorityClassName"] = "dear"
    play.create(protected, *members("w", 2))
    play.settle()
    play.create(pod("mid", priorityClassName="mid"))
    play.settle()
    leaving = [name for name, place in places(play).items() if place.endswith("!")]
    assert len(leaving) == (0 if is_aware else 1)
    play.create(pod("top", priorityClassName="top"))
    play.settle()
    leaving = [name for name, place in places(play).items() if place.endswith("!")]
    assert sorted(leaving) == ["w-0", "w-1"]


def test_a_nomination_is_gone_once_the_pod_is_bound() -> None:
    play = PodWorld(node("a", "1"))
    play.create(*ranks(high=10, low=1), pod("old", priorityClassName="low", terminationGracePeriodSeconds=5))
    play.settle()
    play.create(pod("new", priorityClassName="high"))
    play.settle()
    assert nominated(play, "new") == "a"
    play.run(6)
    assert (places(play), nominated(play, "new")) == ({"new": "a"}, "")


def nominated(play: PodWorld, name: str) -> str:
    tree: Tree = play.store.get(PODS, "default", name).tree()
    return str(tree["status"].get("nominatedNodeName", ""))
