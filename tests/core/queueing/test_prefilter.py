"""Certain refusals are skipped: told by sums, only where that is sure, and only after a first refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from makeway.core.cycle.cycle import carry_out, decide
from makeway.core.model import QueueName, Uid
from makeway.core.policy import Policy
from makeway.core.queueing.pending import HeadReturn
from makeway.core.state import State
from makeway.testing.builders import (
    Part,
    cohort,
    cycle,
    flavor,
    holder,
    outcomes,
    pod_set,
    queue,
    seconds,
    state,
    workload,
)


def judged(*parts: Part, policy: Policy | None = None) -> State:
    """All workloads were evaluated once, and a wake has come since."""
    on = state(*parts, policy=policy)
    for at in range(1, 9):
        cycle(on, at)
    on.wake(QueueName("q"), seconds(9))
    return on


def full(cpu: float = 4, **settings: Any) -> tuple[Part, ...]:
    """A queue that uses all it owns, in a cohort with another one that lends nothing any more."""
    return (
        queue("q", cpu, cohort="r", **{"within": "LowerPriority", "reclaim": "Any", **settings}),
        queue("y", 1, cohort="r"), holder("own", cpu=cpu, priority=5), holder("other", queue="y", cpu=1, priority=5),
    )  # fmt: skip


def in_vain(on: State, name: str = "w") -> bool:
    head = on.pending.find(QueueName("q"), workload(name).key)
    assert head is not None
    return on.prefilter.certainly_refused(head, seconds(10))


def test_who_was_refused_and_finds_neither_room_nor_victims_is_passed_over() -> None:
    on = judged(*full(), workload("w", cpu=2))
    assert in_vain(on)
    plan = decide(on, seconds(10), passing=True)
    assert (plan.verdicts, [each.uid for each in plan.passed]) == ((), ["w"])
    carry_out(on, plan)
    assert decide(on, seconds(11), passing=True).passed == (), "it has had its turn"
    assert list(on.pending.lists[QueueName("q")].parked) == ["default/w"]


def test_who_was_never_looked_at_is_looked_at_once_and_so_is_who_changed() -> None:
    on = state(*full(), workload("w", cpu=2))
    assert not in_vain(on)
    assert outcomes(decide(on, seconds(1), passing=True)) == {"w": "PreemptionNoCandidates"}
    on = judged(*full(), workload("w", cpu=2))
    on.push(workload("w", cpu=3), seconds(10))
    assert not in_vain(on)


def test_who_asks_for_as_much_or_more_behind_it_is_not_asked_either() -> None:
    on = judged(*full(), workload("w", cpu=2), workload("more", cpu=3, queued=1), workload("less", cpu=1, queued=2))
    plan = decide(on, seconds(10), passing=True)
    carry_out(on, plan)
    assert [each.uid for each in plan.passed] == ["w"]
    assert [each.uid for each in decide(on, seconds(11), passing=True).passed] == ["less"]


def test_who_lost_its_turn_after_a_no_is_passed_over_if_nothing_is_left() -> None:
    """One core gets free: the first of two queues takes it, the other has lost, and is not evaluated again."""
    on = judged(*full(3), queue("z", 0, cohort="r"), workload("w", queued=1), workload("v", queue="z"))
    for each in [each for each in on.holders.by_key.values() if each.uid == "other"]:
        on.release(each)
    plan = decide(on, seconds(10), passing=True)
    carry_out(on, plan)
    assert outcomes(plan) == {"v": "admitted", "w": "FailedAfterNomination"}
    plan = decide(on, seconds(11), passing=True)
    assert (plan.verdicts, [each.uid for each in plan.passed]) == ((), ["w"])


def test_who_was_held_back_heard_something_else() -> None:
    on = judged(*full(), workload("w", cpu=2))
    w = on.pending.find(QueueName("q"), workload("w").key)
    assert w is not None
    on.pending.pop(w)
    on.pending.requeue(w, HeadReturn("FailedAfterNomination"), seconds(11))
    assert in_vain(on)
    on.pending.pop(w)
    on.pending.requeue(w, HeadReturn("FailedAfterNomination", held_back=True), seconds(11))
    assert not in_vain(on)


def test_a_strict_head_is_passed_over_and_stays_first() -> None:
    on = judged(*full(strict=True), workload("w", cpu=2), workload("next", cpu=1, queued=1))
    plan = decide(on, seconds(10), passing=True)
    carry_out(on, plan)
    assert [each.uid for each in plan.passed] == ["w"]
    assert on.pending.first(QueueName("q")) == "default/w"
    assert decide(on, seconds(11), passing=True).passed == ()


TWO_FLAVORS = {"f1": 2, "f2": 2}
IN_THE_WAY = holder("own", cpu=4, priority=5)
HOPES: dict[str, tuple[Part, ...]] = {
    "there is room": (queue("q", 6, reclaim="Any"), IN_THE_WAY, workload("w", cpu=2)),
    "a victim in its own queue": (*full(), workload("w", cpu=2, priority=9)),
    "somebody borrows what it owns": (
        queue("q", 4, cohort="r", reclaim="Any"), queue("y", 1, cohort="r"),
        holder("own", cpu=2), holder("other", queue="y", cpu=3), workload("w", cpu=2),
    ),
    "what is left of its own quota is kept for it": (queue("q", 5), IN_THE_WAY, workload("w", cpu=2)),
    "several flavors": (
        queue("q", TWO_FLAVORS, reclaim="Any"), flavor("f1"), flavor("f2"),
        holder("own", usage=TWO_FLAVORS, priority=5), workload("w", cpu=2),
    ),
    "a resource that is not covered": (*full(), workload("w", requests={"cpu": 2, "gpu": 1})),
    "cohorts in cohorts": (*full(), cohort("r", parent="top"), queue("z", 0, cohort="top"), workload("w", cpu=2)),
    "preemption while borrowing": (*full(borrow="LowerPriority"), workload("w", cpu=2)),
    "partial admission": (*full(), workload("w", cpu=2, count=3, min_count=1)),
    "two podSets": (*full(), workload("w", pod_sets=(pod_set("a", cpu=2), pod_set("b", cpu=2)))),
    "an Option": (*full(), workload("w", cpu=2, family=Uid("f"))),
    "a reason of its own": (*full(), workload("w", cpu=2, refusal="Misconfigured", refused="because")),
    "a back-off": (*full(), workload("w", cpu=2, backing_off=True)),
    "a queue that is stopped": (*full(active=False), workload("w", cpu=2)),
}  # fmt: skip


@pytest.mark.parametrize("parts", HOPES.values(), ids=HOPES)
def test_where_it_cannot_be_told_for_sure_it_is_looked_at(parts: tuple[Part, ...]) -> None:
    on = state(*parts)
    on.pending.lists[QueueName("q")].judged[workload("w").key] = None
    assert not in_vain(on)


def test_of_shares_nothing_is_said() -> None:
    fair = replace(Policy.default(), fair_strategies=("LessThanInitialShare",))
    assert in_vain(judged(*full(), workload("w", cpu=2)))
    assert not in_vain(judged(*full(), workload("w", cpu=2), policy=fair))


def test_a_queue_that_is_configured_anew_is_asked_about_anew() -> None:
    on = judged(*full(), workload("w", cpu=2))
    assert in_vain(on)
    larger = (queue("q", 9, cohort="r", within="LowerPriority", reclaim="Any"), queue("y", 1, cohort="r"))
    on.configure(larger, (), on.flavors.values())
    assert not in_vain(on)
