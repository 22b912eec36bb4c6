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


class Office:
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
    office = Office(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    assert office.cycle(0) == 1
    assert office.told == ("WaitingForQuota", short(1))
    assert [office.cycle(seconds) for seconds in (1, 29, 31, 3600)] == [0, 0, 0, 0]


@pytest.mark.parametrize("restarts", [False, True])
def test_S_5_12_other_amounts_are_no_news(restarts: bool) -> None:
    """Nor is another way to the same words: here a possible victim comes, but it is too small to help."""
    preempts = {"withinClusterQueue": "LowerPriority"}
    office = Office(cluster_queue(cpu="4", preemption=preempts), uses("h", "3"), asks("w", "4"))
    office.cycle(0)
    office.view.put(workload("low", admitted=-30, cpu="1", spec={"priority": -5}))
    if restarts:
        office.scheduling = PlanWriter()
    assert office.cycle(60) == 0
    assert office.told == ("WaitingForQuota", short(3)), "4 by now"


@pytest.mark.parametrize("restarts", [False, True])
def test_S_5_12_another_flavor_is_news_whatever_its_number(restarts: bool) -> None:
    office = Office(cluster_queue(cpu="2", flavors=["f-0"]), workload("h", admitted=0, flavor="f-0"), asks("w", "2"))
    office.cycle(0)
    assert office.told == ("WaitingForQuota", short(1, "f-0"))
    office.view.put(cluster_queue(cpu="2", flavors=["f-1"]))
    office.view.put(workload("h", admitted=0, flavor="f-1"))
    if restarts:
        office.scheduling = PlanWriter()
    assert office.cycle(60) == 1
    assert office.told == ("WaitingForQuota", short(1, "f-1"))


def test_S_5_12_news_waits_for_its_interval_and_then_the_newest_is_told() -> None:
    office = Office(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    office.cycle(0)
    office.view.put(cluster_queue(cpu="1"))
    assert office.cycle(10) == 0
    assert office.scheduling.next_at() == at(30)
    office.view.put(cluster_queue(cpu="4", stopPolicy="Hold"))
    assert office.cycle(20) == 0
    office.view.put(cluster_queue(cpu="1"))
    assert office.cycle(29) == 0
    assert office.cycle(30) == 1
    assert office.told[0] == "ExceedsMaxQuota"
    assert office.scheduling.next_at() is None


def test_S_5_12_what_was_held_back_is_not_told_once_it_is_no_news_any_more() -> None:
    office = Office(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    office.cycle(0)
    office.view.put(cluster_queue(cpu="1"))
    office.cycle(10)
    office.view.put(cluster_queue(cpu="4"))
    assert [office.cycle(20), office.cycle(40)] == [0, 0]


def test_S_5_12_who_is_admitted_before_it_was_due_is_told_nothing_else() -> None:
    office = Office(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    office.cycle(0)
    office.view.put(cluster_queue(cpu="1"))
    office.cycle(10)
    office.view.put(cluster_queue(cpu="5"))
    assert office.cycle(20) == 1
    assert office.told[0] == "QuotaReserved"
    assert office.scheduling.next_at() is None
    assert office.cycle(40) == 0


def test_S_5_12_a_claim_is_never_held_back() -> None:
    preempts = {"withinClusterQueue": "LowerPriority"}
    office = Office(cluster_queue(cpu="4", preemption=preempts), uses("h", "3"), asks("w", "2"))
    office.cycle(0)
    office.view.put(asks("w", "2", priority=1, conditions={"QuotaReserved": ("False", "WaitingForQuota", 0)}))
    assert office.cycle(1) == 2, "the claim, and the eviction after it"
    assert office.told == ("WaitingForPreemptedWorkloads", f"{short(1)}. Pending the preemption of 1 workload(s)")
    status = office.view.workload(W).status
    assert status is not None
    assert status.preemption_claim is not None


def lost(office: Office, seconds: float) -> None:
    """A cycle in which ``w`` is evaluated and loses the room to another workload."""
    plan = decide(office.view.state, at(seconds))
    [verdict] = [each for each in plan.verdicts if each.workload.key == W.key]
    turned = replace(verdict, status="skipped", requeue="FailedAfterNomination", steps=(Step(Rule.LOST, (W.key,)),))
    actions = office.scheduling.actions(replace(plan, verdicts=(turned,)), office.view, 9)
    assert list(actions) == [], "it is looked at again at once"


def test_who_only_lost_its_turn_is_told_so_if_that_was_the_last_of_it() -> None:
    office = Office(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    office.cycle(0)
    lost(office, 60)
    assert office.scheduling.next_at() == at(61)
    office.view.now = at(61)
    office.view.apply(Outcome(tuple(office.scheduling.late(office.view, at(61)))))
    assert office.told == ("WaitingForQuota", "Workload no longer fits after processing another workload")


def test_who_finds_what_it_found_before_is_not_told_that_it_lost_its_turn() -> None:
    office = Office(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    office.cycle(0)
    lost(office, 60)
    assert office.cycle(60) == 0, "the same as before"
    assert office.scheduling.next_at() is None
    lost(office, 120)
    office.scheduling.passed_over(W.key)
    assert office.scheduling.next_at() is None


def test_what_could_not_be_written_was_not_told() -> None:
    office = Office(cluster_queue(cpu="4"), uses("h", "3"), asks("w", "2"))
    office.view.now = at()
    plan = decide(office.view.state, at())
    [told] = office.scheduling.actions(plan, office.view, 1)
    assert list(office.scheduling.actions(plan, office.view, 2)) == [], "it is under way"
    assert office.scheduling.answered(told, False) is None
    assert office.cycle(1) == 1
