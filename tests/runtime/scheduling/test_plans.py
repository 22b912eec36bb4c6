"""A plan becomes writes: the statuses of workloads that wait, and when they are written (S-5.12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import Raw, json

from makeway.api.objects.workload import PodSet, Workload
from makeway.controllers.contract import WORKLOAD, Outcome, Ref
from makeway.controllers.workloads.eviction import condition
from makeway.core.cycle.cycle import decide
from makeway.core.trace import Rule, Step
from makeway.runtime.scheduling.plans import PlanWriter
from tests.controllers.views import FakeView, at, cluster_queue, flavor, local_queue, workload

W = Ref(WORKLOAD, "default", "w")


def asks(name: str, cpu: str, *, priority: int = 0, **status: Any) -> Workload:
    """A workload that waits and asks for so many cores."""
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    return workload(
        name, spec={"pod_sets": (PodSet(name="main", template=Raw(json.encode(pod))),), "priority": priority}, **status
    )


def uses(name: str, cpu: str) -> Workload:
    return workload(name, admitted=-60, cpu=cpu)


class Cycles:
    """Cycles over a few objects, one after the other; every cycle evaluates every workload."""

    def __init__(self, *objects: Any) -> None:
        self.view = FakeView.of(flavor("f-0"), flavor("f-1"), flavor(), local_queue(), *objects, now=at())
        self.scheduling = PlanWriter()
        self._cycles = 0

    def cycle(self, seconds: float) -> int:
        """Do what is due then, and a cycle; return how many writes that took."""
        now, before = at(seconds), len(self.view.written)
        self.view.now = now
        self.view.apply(Outcome(tuple(self.scheduling.late(self.view, now))))
        self._cycles += 1
        plan = decide(self.view.state, now)
        self.view.apply(Outcome(tuple(self.scheduling.actions(plan, self.view, self._cycles))))
        return len(self.view.written) - before

    @property
    def told(self) -> tuple[str, str]:
        """Reason and message in the stored status of ``w``."""
        found = condition(self.view.workload(W), "QuotaReserved")
        return ("", "") if found is None else (found.reason, found.message)


def short(amount: int, flavor: str = "default") -> str:
    return (
        f"couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor {flavor}, {amount} "
        "more needed"
    )


def test_S_5_12_the_first_word_comes_at_once_and_is_not_repeated() -> None:
    cycles = Cycles(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    assert cycles.cycle(0) == 1
    assert cycles.told == ("WaitingForQuota", short(1))
    assert [cycles.cycle(seconds) for seconds in (1, 29, 31, 3600)] == [0, 0, 0, 0]


@pytest.mark.parametrize("restarts", [False, True])
def test_S_5_12_other_amounts_are_no_news(restarts: bool) -> None:
    """Nor is another way to the same words: here a possible victim comes, but it is too small to help."""
    preempts = {"withinClusterQueue": "LowerPriority"}
    cycles = Cycles(cluster_queue(cpu="4", preemption=preempts), uses("h", "3"), asks("w", "4"))
    cycles.cycle(0)
    cycles.view.put(workload("low", admitted=-30, cpu="1", spec={"priority": -5}))
    if restarts:
        cycles.scheduling = PlanWriter()
    assert cycles.cycle(60) == 0
    assert cycles.told == ("WaitingForQuota", short(3)), "4 by now"


@pytest.mark.parametrize("restarts", [False, True])
def test_S_5_12_another_flavor_is_news_whatever_its_number(restarts: bool) -> None:
    cycles = Cycles(cluster_queue(cpu="2", flavors=["f-0"]), workload("h", admitted=0, flavor="f-0"), asks("w", "2"))
    cycles.cycle(0)
    assert cycles.told == ("WaitingForQuota", short(1, "f-0"))
    cycles.view.put(cluster_queue(cpu="2", flavors=["f-1"]))
    cycles.view.put(workload("h", admitted=0, flavor="f-1"))
    if restarts:
        cycles.scheduling = PlanWriter()
    assert cycles.cycle(60) == 1
    assert cycles.told == ("WaitingForQuota", short(1, "f-1"))


def test_S_5_12_news_waits_for_its_interval_and_then_the_newest_is_told() -> None:
    cycles = Cycles(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    cycles.cycle(0)
    cycles.view.put(cluster_queue(cpu="1"))
    assert cycles.cycle(10) == 0
    assert cycles.scheduling.next_at() == at(30)
    cycles.view.put(cluster_queue(cpu="4", stopPolicy="Hold"))
    assert cycles.cycle(20) == 0
    cycles.view.put(cluster_queue(cpu="1"))
    assert cycles.cycle(29) == 0
    assert cycles.cycle(30) == 1
    assert cycles.told[0] == "ExceedsMaxQuota"
    assert cycles.scheduling.next_at() is None


def test_S_5_12_what_was_held_back_is_not_told_once_it_is_no_news_any_more() -> None:
    cycles = Cycles(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    cycles.cycle(0)
    cycles.view.put(cluster_queue(cpu="1"))
    cycles.cycle(10)
    cycles.view.put(cluster_queue(cpu="4"))
    assert [cycles.cycle(20), cycles.cycle(40)] == [0, 0]


def test_S_5_12_who_is_admitted_before_it_was_due_is_told_nothing_else() -> None:
    cycles = Cycles(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    cycles.cycle(0)
    cycles.view.put(cluster_queue(cpu="1"))
    cycles.cycle(10)
    cycles.view.put(cluster_queue(cpu="5"))
    assert cycles.cycle(20) == 1
    assert cycles.told[0] == "QuotaReserved"
    assert cycles.scheduling.next_at() is None
    assert cycles.cycle(40) == 0


def test_S_5_12_a_claim_is_never_held_back() -> None:
    preempts = {"withinClusterQueue": "LowerPriority"}
    cycles = Cycles(cluster_queue(cpu="4", preemption=preempts), uses("h", "3"), asks("w", "2"))
    cycles.cycle(0)
    cycles.view.put(asks("w", "2", priority=1, conditions={"QuotaReserved": ("False", "WaitingForQuota", 0)}))
    assert cycles.cycle(1) == 2, "the claim, and the eviction after it"
    assert cycles.told == ("WaitingForPreemptedWorkloads", f"{short(1)}. Pending the preemption of 1 workload(s)")
    status = cycles.view.workload(W).status
    assert status is not None
    assert status.preemption_claim is not None


def lost(cycles: Cycles, seconds: float) -> None:
    """A cycle in which ``w`` is evaluated and loses the room to another workload."""
    plan = decide(cycles.view.state, at(seconds))
    [verdict] = [each for each in plan.verdicts if each.workload.key == W.key]
    turned = replace(verdict, status="skipped", requeue="FailedAfterNomination", steps=(Step(Rule.LOST, (W.key,)),))
    actions = cycles.scheduling.actions(replace(plan, verdicts=(turned,)), cycles.view, 9)
    assert list(actions) == [], "it is looked at again at once"


def test_who_only_lost_its_turn_is_told_so_if_that_was_the_last_of_it() -> None:
    cycles = Cycles(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    cycles.cycle(0)
    lost(cycles, 60)
    assert cycles.scheduling.next_at() == at(61)
    cycles.view.now = at(61)
    cycles.view.apply(Outcome(tuple(cycles.scheduling.late(cycles.view, at(61)))))
    assert cycles.told == ("WaitingForQuota", "Workload no longer fits after processing another workload")


def test_who_finds_what_it_found_before_is_not_told_that_it_lost_its_turn() -> None:
    cycles = Cycles(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    cycles.cycle(0)
    lost(cycles, 60)
    assert cycles.cycle(60) == 0, "the same as before"
    assert cycles.scheduling.next_at() is None
    lost(cycles, 120)
    cycles.scheduling.passed_over(W.key)
    assert cycles.scheduling.next_at() is None


def test_what_could_not_be_written_was_not_told() -> None:
    cycles = Cycles(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    cycles.view.now = at()
    plan = decide(cycles.view.state, at())
    [told] = cycles.scheduling.actions(plan, cycles.view, 1)
    assert list(cycles.scheduling.actions(plan, cycles.view, 2)) == [], "it is under way"
    assert cycles.scheduling.answered(told, False) is None
    assert cycles.cycle(1) == 1
