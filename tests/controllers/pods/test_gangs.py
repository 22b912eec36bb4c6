"""Gangs on nodes: together or not at all, which pods make way for them, what a failed write leaves behind (S-15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import PriorityClass
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.versions import kind_of
from makeway.controllers.pods.queue import pause_ms
from makeway.controllers.pods.scheduling import PodScheduling
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.executor import Call, DirectWriter, WriteAnswer
from makeway.runtime.ports import NotFound, Store, Stored, Unavailable
from tests.controllers.pod_world import NODES, PODS, PodWorld, Tree, node
from tests.controllers.pods.test_scheduling import node_of, pod, why

GANGS, CLASSES = kind_of(GangWorkload), kind_of(PriorityClass)


def gang(name: str, least: int | None = 2, *, mode: str = "PodGroup", rank: str = "") -> Tree:
    policy: Tree = {"basic": {}} if least is None else {"gang": {"minCount": least, "preemptionMode": mode}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"podGroups": [{"name": "g", "policy": policy}], **({"priorityClassName": rank} if rank else {})},
    }  # fmt: skip


def ranks(**values: int) -> list[Tree]:
    return [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in values.items()
    ]


def members(of: str, count: int, cpu: str = "1", *, first: int = 0, **spec: Any) -> list[Tree]:
    reference = {"name": of, "podGroup": "g"}
    return [
        pod(f"{of}-{n}", cpu, workloadRef=reference, terminationGracePeriodSeconds=5, **spec)
        for n in range(first, first + count)
    ]


def places(play: PodWorld) -> dict[str, str]:
    """By pod its node, or in brackets the one it is promised; ``!`` follows if it leaves."""
    found = {}
    for each in play.pods():
        spec, status, meta = each["spec"], each.get("status", {}), each["metadata"]
        promised = f"({status['nominatedNodeName']})" if status.get("nominatedNodeName") else ""
        found[meta["name"]] = (spec.get("nodeName") or promised) + ("!" if meta.get("deletionTimestamp") else "")
    return found


def disrupted(play: PodWorld, name: str) -> tuple[str, str]:
    conditions = play.store.get(PODS, "default", name).tree()["status"].get("conditions", ())
    return next(((c["reason"], c["message"]) for c in conditions if c["type"] == "DisruptionTarget"), ("", ""))


def test_a_gang_is_bound_when_enough_of_it_is_there_and_has_a_place() -> None:
    play = PodWorld(node("a", "2"), node("b", "1"))
    first, second, third = members("w", 3)
    play.create(first)
    play.settle()
    assert why(play, "w-0") == "There is no group g in a Workload w."
    play.create(gang("w", 3), second)
    play.settle()
    assert why(play, "w-0") == why(play, "w-1") == "Of its gang 2 pods exist, and 3 are needed."
    play.create(third)
    play.settle()
    assert sorted(places(play).values()) == ["a", "a", "b"]


def test_a_gang_without_a_place_for_all_gets_none_and_is_told_why() -> None:
    play = PodWorld(node("a", "2"))
    play.create(gang("w", 3), *members("w", 3))
    play.settle()
    assert set(places(play).values()) == {""}
    assert why(play, "w-0") == (
        "0/1 nodes are available: 1 node(s) had room, but not for enough pods of the gang. "
        "3 pods of its gang must be placed together. Preemption does not help: even if all pods left, 2 of the 3 pods "
        "needed would have a place; a, cpu: the nearest miss: 1 are asked for, 0 would be free, 1 are missing."
    )
    play.create(node("b", "1"))
    play.settle()
    assert sorted(places(play).values()) == ["a", "a", "b"]


def test_more_important_ones_go_first_and_among_equals_the_earlier() -> None:
    play = PodWorld(node("a", "2", unschedulable=True))
    play.create(*ranks(high=10, low=1))
    play.create(pod("early", priorityClassName="low"))
    play.run(2)
    play.create(pod("late", priorityClassName="low"), gang("w", 1, rank="high"), *members("w", 1))
    play.settle()
    play.store.patch(NODES, "", "a", {"spec": {"unschedulable": False}})
    play.settle()
    assert places(play) == {"early": "a", "late": "", "w-0": "a"}


def test_lower_ones_make_way_and_the_promised_place_is_kept() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("old", 2, rank="low"), *members("old", 2))
    play.settle()
    play.create(gang("new", 2, rank="high"), *members("new", 2))
    play.settle()
    assert places(play) == {"old-0": "a!", "old-1": "a!", "new-0": "(a)", "new-1": "(a)"}
    assert disrupted(play, "old-1") == ("PreemptionByScheduler", "Preempted by gang default/new/g")
    assert why(play, "new-0") == "It waits for 2 pods that make way."
    play.create(pod("small", priorityClassName="low"))  # what is promised is not given to others
    play.run(6)
    assert places(play) == {"new-0": "a", "new-1": "a", "small": ""}


@pytest.mark.parametrize(("as_a_whole", "leaving"), [(True, ["mid-0", "mid-1"]), (False, ["low", "mid-0"])])
def test_the_gate_says_whether_a_gang_looks_for_room_as_a_whole(as_a_whole: bool, leaving: list[str]) -> None:
    """Pod by pod the first takes the cheapest node, and the second the next one, where a single pod must leave."""
    policy = Policy.default()
    policy = replace(policy, gates=replace(policy.gates, workload_aware_preemption=as_a_whole))
    play = PodWorld(*(node(name, "1") for name in "abcd"), policy=policy)
    play.create(*ranks(top=10, dear=3, middle=2, cheap=1))
    play.create(gang("mid", 2, rank="middle"), *members("mid", 2))
    play.create(pod("low", priorityClassName="cheap"), pod("high", priorityClassName="dear"))
    play.settle()
    play.create(gang("new", 2, rank="top"), *members("new", 2))
    play.settle()
    assert sorted(name for name, where in places(play).items() if where.endswith("!")) == leaving


def test_nobody_leaves_for_a_gang_that_would_still_lack_a_place() -> None:
    play = PodWorld(node("a", "3"))
    play.create(*ranks(high=10, low=1))
    play.create(*(pod(f"old-{n}", priorityClassName="low") for n in range(3)))
    play.settle()
    play.create(gang("new", 4, rank="high"), *members("new", 4))
    play.settle()
    found = places(play)
    assert [found[f"old-{n}"] for n in range(3)] == ["a"] * 3  # G7
    assert {found[f"new-{n}"] for n in range(4)} == {""}


def test_one_pod_may_preempt_and_a_lesser_promise_falls() -> None:
    play = PodWorld(node("a", "1"))
    play.create(*ranks(top=20, high=10, low=1))
    play.create(pod("old", priorityClassName="low", terminationGracePeriodSeconds=60))
    play.settle()
    play.create(pod("mid", priorityClassName="high"))
    play.settle()
    assert places(play) == {"old": "a!", "mid": "(a)"}
    play.create(pod("best", priorityClassName="top"))
    play.settle()
    assert places(play) == {"old": "a!", "mid": "", "best": "(a)"}
    play.run(61)
    assert places(play) == {"mid": "", "best": "a"}


def test_a_policy_of_never_is_told_and_kept() -> None:
    play = PodWorld(node("a", "1"))
    never = {**ranks(meek=10)[0], "preemptionPolicy": "Never"}
    play.create(never, pod("old"))
    play.settle()
    play.create(pod("new", priorityClassName="meek"))
    play.settle()
    assert places(play) == {"old": "a", "new": ""}
    assert why(play, "new") == "0/1 nodes are available: 1 Insufficient cpu. Its preemptionPolicy is Never."


def test_while_victims_leave_nobody_else_is_asked_to() -> None:
    play = PodWorld(node("a", "1"), node("b", "1"))
    play.create(*ranks(high=10, low=1, least=0))
    play.create(pod("x", priorityClassName="least", terminationGracePeriodSeconds=100))
    play.settle()
    play.create(pod("y", priorityClassName="low"))
    play.settle()
    play.create(pod("new", priorityClassName="high"))
    play.settle()
    assert places(play) == {"x": "a!", "y": "b", "new": "(a)"}
    play.engine = play.new_engine()  # also if we are gone in between
    play.run(50)
    assert places(play) == {"x": "a!", "y": "b", "new": "(a)"}
    play.store.patch(NODES, "", "a", {"spec": {"unschedulable": True}})  # the promise is void
    play.settle()
    assert places(play) == {"x": "a!", "y": "b!", "new": "(b)"}


def test_enough_of_a_gang_stands_and_the_rest_may_preempt_later() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(high=10, low=1))
    play.create(pod("old", priorityClassName="low"))
    play.settle()
    play.create(gang("w", 1, rank="high"), *members("w", 2))
    play.settle()
    assert places(play) == {"old": "a!", "w-0": "a", "w-1": "(a)"}  # G6


@pytest.mark.parametrize("mode", ["Pod", "PodGroup"])
def test_a_unit_leaves_as_its_mode_says(mode: str) -> None:
    play = PodWorld(node("a", "1"), node("b", "1"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("old", 2, mode=mode, rank="low"), *members("old", 2))
    play.settle()
    play.create(pod("new", priorityClassName="high"))
    play.settle()
    leaving = sorted(place for name, place in places(play).items() if name.startswith("old"))
    assert leaving == (["a!", "b!"] if mode == "PodGroup" else ["a!", "b"])  # G10


def test_a_gang_that_was_evicted_begins_anew_when_all_of_it_has_left() -> None:
    play = PodWorld(node("a", "1"), node("b", "1"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("old", 2, rank="low"), *members("old", 2))
    play.settle()
    play.create(pod("new", priorityClassName="high", terminationGracePeriodSeconds=5))
    play.settle()
    play.create(*members("old", 2, first=2))
    play.settle()
    assert why(play, "old-2") == "It waits for pods of its gang that leave."
    play.run(10)
    found = places(play)
    assert found["new"] in ("a", "b")
    assert {found["old-2"], found["old-3"]} == {""}
    play.store.delete(PODS, "default", "new", grace=0)
    play.settle()
    assert {node_of(play, "old-2"), node_of(play, "old-3")} == {"a", "b"}


class _Refusing(DirectWriter):
    """Loses the writes that ``refused`` names: the engine that sent them has ended."""

    def __init__(self, play: PodWorld, refused: int) -> None:
        super().__init__(play.store)
        self._left = refused

    def send(self, number: int, call: Call, now: Millis) -> None:
        if self._left:
            self._left -= 1
            super().send(number, call, now)

    def answers(self, now: Millis) -> list[WriteAnswer]:
        return list(super().answers(now))


def test_a_unit_that_was_evicted_in_part_goes_as_a_whole() -> None:
    play = PodWorld(node("a", "1"), node("b", "1"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("old", 2, rank="low"), *members("old", 2))
    play.settle()
    play.create(pod("new", priorityClassName="high", terminationGracePeriodSeconds=5))
    play.engine = play.new_engine(_Refusing(play, 5))  # the promise, two conditions, the gang's status, one deletion
    play.settle()
    assert sorted(place for name, place in places(play).items() if name != "new") in (["a", "b!"], ["a!", "b"])
    play.engine = play.new_engine()
    play.settle()
    assert sorted(place for name, place in places(play).items() if name != "new") == ["a!", "b!"]


class _Stubborn:
    """A Store that accepts no status of one pod, as long as ``name`` names it."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.store = store
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def update_status(self, body: Any) -> Stored:
        if body.metadata.name == self.name:
            raise Unavailable("not now")
        return self.store.update_status(body)


def test_a_unit_of_which_one_is_gone_goes_as_a_whole_though_that_place_is_taken() -> None:
    play = PodWorld(node("a", "1", {"on": "a"}), node("b", "1"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("w", 2, rank="low"), *members("w", 2))
    play.settle()
    (other,) = (name for name, place in places(play).items() if place == "b")
    stubborn = _Stubborn(play.store, other)
    play.engine = play.new_engine(DirectWriter(cast("Store", stubborn)))
    play.create(pod("new", priorityClassName="high", nodeSelector={"on": "a"}))
    play.run(6)
    assert places(play) == {"new": "a", other: "b"}, "one is gone, and the other was not told"
    stubborn.name = ""
    play.run(20)
    assert places(play) == {"new": "a"}


class _Late(DirectWriter):
    """Writes at once and answers later, on request."""

    is_silent = False

    def answers(self, now: Millis) -> Sequence[WriteAnswer]:
        return () if self.is_silent else super().answers(now)


def test_nobody_leaves_for_one_who_was_gone_before_its_promise_was_answered() -> None:
    play = PodWorld(node("a", "1"))
    play.create(*ranks(high=10, low=1))
    play.create(pod("old", priorityClassName="low"))
    writer = _Late(play.store)
    play.engine = play.new_engine(writer)
    play.settle()
    writer.is_silent = True
    play.create(pod("new", priorityClassName="high"))
    play.settle()
    assert places(play) == {"new": "(a)", "old": "a"}
    play.store.delete(PODS, "default", "new")
    play.settle()
    writer.is_silent = False
    play.run(20)
    assert places(play) == {"old": "a"}
    assert disrupted(play, "old") == ("", "")


def test_what_stands_of_a_gang_is_released_if_the_rest_finds_no_place() -> None:
    play = PodWorld(node("a", "1"), node("b", "1"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("w", 2, mode="Pod", rank="low"), *members("w", 2))
    play.engine = play.new_engine(_Refusing(play, 2))  # what the Workload is told, and one binding
    play.settle()
    assert sorted(places(play).values()) == ["", "a"]
    play.create(pod("quick", nodeName="b", priorityClassName="high"))
    play.engine = play.new_engine()
    play.run(29)
    assert sorted(places(play).values()) == ["", "a", "b"]
    play.run(2)
    assert sorted(places(play).values()) == ["", "a!", "b"]
    assert [r for n in ("w-0", "w-1") if (r := disrupted(play, n)[0])] == ["GangNotWhole"]
    told = [each for each in play.engine.journal.of("gang default/w/g") if each.what == "released"]
    assert [(each.reason, len(each.victims)) for each in told] == [("GangNotWhole", 1)]


def test_a_part_of_a_gang_goes_before_its_equals() -> None:
    play = PodWorld(node("a", "1"), node("b", "1"))
    play.create(pod("early"))
    play.store.patch(PODS, "default", "early", {"metadata": {"labels": {"x": "y"}}})
    play.create(gang("w", 2), *members("w", 1), pod("w-1", nodeName="b", workloadRef={"name": "w", "podGroup": "g"}))
    play.settle()
    assert places(play) == {"early": "", "w-0": "a", "w-1": "b"}  # G11


def test_only_pods_that_ask_for_us_are_ours() -> None:
    play = PodWorld(node("a"))
    play.create(pod("p", schedulerName="other"), pod("q", schedulerName="makeway-scheduler"))
    play.settle()
    assert (places(play), why(play, "p")) == ({"p": "", "q": "a"}, "")


def test_a_workload_that_goes_leaves_its_waiting_pods_unresolved_and_its_running_ones_plain() -> None:
    play = PodWorld(node("a", "2"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("w", 2, rank="high"), *members("w", 2, priorityClassName="low"))
    play.settle()
    play.store.delete(GANGS, "default", "w")
    play.create(*members("w", 1, first=2), pod("new", priorityClassName="high"))
    play.settle()
    assert why(play, "w-2") == "There is no group g in a Workload w."
    assert places(play)["new"] == "(a)"
    with pytest.raises(NotFound):
        play.store.get(GANGS, "default", "w")


def test_who_is_refused_again_and_again_pauses_longer_each_time() -> None:
    assert [pause_ms(n) for n in range(1, 10)] == [0, 0, 0, 1000, 2000, 4000, 8000, 10_000, 10_000]
    play = PodWorld(node("a", "1"))
    play.create(*(pod(f"p{n}", nodeName="a", cpu="0") for n in range(8)), gang("w", 2), *members("w", 2))
    play.settle()
    before = _decisions(play)
    for n in range(8):  # each of them could have helped
        play.store.delete(PODS, "default", f"p{n}", grace=0)
        play.settle()
    assert _decisions(play) - before == 4
    play.run(1)
    assert _decisions(play) - before == 5
    play.run(1000)
    assert _decisions(play) - before == 5  # nothing spins
    play.create(node("b", "1"))
    play.run(2)
    assert sorted(places(play).values()) == ["a", "b"]


def _decisions(play: PodWorld) -> int:
    (scheduling,) = (each for each in play.controllers if isinstance(each, PodScheduling))
    return scheduling.decisions


def test_attempts_and_victims_are_counted() -> None:
    play = PodWorld(node("a", "2"))
    metrics = play.engine.metrics
    assert metrics is not None
    play.create(*ranks(high=10, low=1))
    play.create(gang("old", 2, rank="low"), *members("old", 2))
    play.settle()
    play.create(gang("new", 2, rank="high"), *members("new", 2))
    play.run(10)
    told = metrics.text()
    for line in (
        'scheduler_podgroup_schedule_attempts_total{replica_role="standalone",result="scheduled"} 2',
        'scheduler_workload_preemption_attempts_total{replica_role="standalone",result="success"} 1',
        'scheduler_workload_preemption_victims_sum{replica_role="standalone"} 2',
        'scheduler_preemption_workload_disruptions_sum{replica_role="standalone"} 1',
        'scheduler_preemption_execution_duration_seconds_count{replica_role="standalone"} 2',
    ):
        assert line in told or _turned(line) in told, line


def _turned(line: str) -> str:
    """The line with its labels in the other order."""
    name, _, rest = line.partition("{")
    labels, _, value = rest.partition("}")
    return f"{name}{{{','.join(reversed(labels.split(',')))}}}{value}"


def test_a_workload_is_told_of_pods_with_another_priority() -> None:
    play = PodWorld(node("a", "9"))
    play.create(*ranks(high=10, low=1))
    play.create(gang("w", 2, rank="high"))
    play.settle()
    assert _divergence(play) == ("False", "PriorityMatch", "")
    stored = play.store.get(GANGS, "default", "w").tree()
    play.store.update_status({**stored, "status": {}})  # where admission cannot fill it in, we do
    play.settle()
    status = play.store.get(GANGS, "default", "w").value().status
    assert (status.priority, status.preemption_priority, status.preemption_policy) == (10, 10, "PreemptLowerPriority")
    play.create(*members("w", 1, priorityClassName="high"), *members("w", 2, first=1, priorityClassName="low"))
    play.settle()
    assert _divergence(play) == ("True", "PriorityMismatch", "default/w-1, default/w-2")
    for name in ("w-1", "w-2"):
        play.store.delete(PODS, "default", name, grace=0)
    play.run(1)
    assert _divergence(play) == ("False", "PriorityMatch", "")


def _divergence(play: PodWorld) -> tuple[str, str, str]:
    gang: GangWorkload = play.store.get(GANGS, "default", "w").value()
    assert gang.status is not None
    (told,) = (each for each in gang.status.conditions if each.type == "PodsNotMatchingPriority")
    return told.status, told.reason, told.message
