"""Traps of quota and preemption (P1 to P18) on the running engine: a preemptor gets its promised room, for good.

Each scenario is played to its end, with victims that leave at once, late, or unsynchronised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.simulator.simulation import Linger
from makeway.controllers.workloads.eviction import says
from makeway.core.policy import Policy
from makeway.runtime.ports import Conflict, Forbidden, Stored, StoreError, Unavailable
from tests.scenarios.stage import Stage, after_20_s, job, never, queue, work

BORROWS: dict[str, Any] = {"reclaim": "LowerPriority", "borrow": "LowerPriority"}


# --- P1, P5 to P8: quota freed for a preemptor -----------------------------------------------------------------------


def test_p1_the_victim_is_not_admitted_ahead_of_who_displaced_it(leaving: Linger) -> None:
    """The victim is older, and borrows as far; one preemption is all there ever is."""
    stage = Stage(
        queue("lender", 4, cohort="r"), queue("x", 0, cohort="r", **BORROWS), queue("y", 0, cohort="r", **BORROWS),
        leaving=leaving,
    )  # fmt: skip
    stage.arrive(work("old", queue="y"), work("high", queue="x", priority=9))
    stage.run("12:00")
    assert stage.running == {"high"}
    assert [(each.workload, each.reason) for each in stage.evictions] == [("old", "InCohortReclaimWhileBorrowing")]


def test_p5_an_oversize_head_does_not_push_the_waiting_preemptor_aside(leaving: Linger) -> None:
    """Others come and go while the preemptor waits, so that the oversize one is evaluated again."""
    stage = Stage(queue("x", 4, cohort="r", reclaim="Any"), queue("y", 0, cohort="r"), leaving=leaving)
    stage.arrive(work("lent", queue="y"), work("oversize", 9, queue="x"), work("p", queue="x"))
    stage.create(work("passer-by", 1, queue="y"))
    stage.rest(5)
    stage.delete("Workload", "passer-by")
    stage.run("10:10")
    assert (stage.running, stage.victims()) == ({"p"}, ["lent"])
    assert stage.condition("oversize", "QuotaReserved") == ("False", "ExceedsMaxQuota")


def one_late(workload: Any) -> int:
    """b takes two minutes longer than all others."""
    return 120_000 if workload.metadata.name == "b" else 0


def test_p6_what_a_victim_frees_early_is_kept_for_the_preemptor() -> None:
    """Neither a itself nor a third one takes it while b is still leaving."""
    stage = Stage(queue("q", 4, within="LowerPriority"), leaving=one_late)
    stage.arrive(work("a", 2), work("b", 2), work("p", 4, priority=9))
    assert (sorted(stage.victims()), stage.holders) == (["a", "b"], {"b"})
    stage.create(work("third", 2))
    stage.run("10:01:50")
    assert stage.holders == {"b"}
    stage.run("10:02:10")
    assert stage.running == {"p"}
    assert len(stage.evictions) == 2


def test_p6_and_is_anybodys_when_the_preemptor_is_gone() -> None:
    stage = Stage(queue("q", 4, within="LowerPriority"), leaving=one_late)
    stage.arrive(work("a", 2), work("b", 2), work("p", 4, priority=9))
    stage.delete("Workload", "p")
    stage.rest(1)
    assert stage.holders == {"a", "b"}, "a has its place back while b still leaves"
    stage.run("10:05")
    assert stage.running == {"a", "b"}


def test_p6_a_victim_that_never_goes_holds_nobody_for_ever() -> None:
    """Not even those of its own queue: what a has freed is theirs when the claim has ended."""
    stage = Stage(
        queue("q", 4, within="LowerPriority"),
        leaving=lambda workload: never(workload) if workload.metadata.name == "b" else 0,
    )
    stage.arrive(work("a", 2), work("b", 2), work("p", 4, priority=9))
    stage.run("10:05")
    assert stage.holders == {"b"}
    stage.run("10:06")
    assert stage.holders == {"a", "b"}, "grace period and claimTimeout are over at 10:05:32"
    assert stage.get("Workload", "p").status.preemption_claim is None
    assert sorted(stage.victims()) == ["a", "b"], "a is not displaced again for a promise that cannot be kept"


def test_p7_a_large_workload_within_its_quota_is_admitted(leaving: Linger) -> None:
    """In every cycle others reclaim too, and their victims are those that the large one needs."""
    stage = Stage(
        queue("hero", 8, cohort="r", reclaim="Any"), *(queue(f"s{i}", 1, cohort="r", reclaim="Any") for i in range(4)),
        queue("y", 0, cohort="r"), leaving=leaving,
    )  # fmt: skip
    stage.arrive(*(work(f"lent-{i}", 2, queue="y") for i in range(6)))
    for i in range(4):
        stage.create(work(f"small-{i}", 1, queue=f"s{i}"))
    stage.create(work("hero", 8, queue="hero"))
    for i in range(4):
        stage.rest(3)
        stage.create(work(f"next-{i}", 1, queue=f"s{i}"))
    stage.run("10:05")
    assert stage.running >= {"hero", *(f"small-{i}" for i in range(4))}
    assert len(stage.evictions) == 6
    assert stage.cycles < 60


def test_p8_two_who_reclaim_at_once_get_a_victim_each(leaving: Linger) -> None:
    stage = Stage(
        queue("x", 3, cohort="r", reclaim="Any"), queue("y", 3, cohort="r", reclaim="Any"), queue("z", 0, cohort="r"),
        leaving=leaving,
    )  # fmt: skip
    stage.arrive(work("z1", 3, queue="z"), work("z2", 3, queue="z"))
    stage.create(work("px", 3, queue="x"), work("py", 3, queue="y"))
    stage.run("10:10")
    assert stage.running == {"px", "py"}
    assert sorted(stage.victims()) == ["z1", "z2"]


# --- P11, P12: strict queues in a cohort -----------------------------------------------------------------------------


def cohort_with_blocked_head(**settings: Any) -> Stage:
    """x's strict head cannot displace the high one that y lent to; two of its own four are free."""
    stage = Stage(
        queue("x", 4, cohort="r", strict=True, reclaim="LowerPriority"), queue("y", 2, cohort="r"),
        queue("z", 0, cohort="r", **BORROWS), work("high", 4, queue="y", priority=9), **settings,
    )  # fmt: skip
    stage.arrive(work("blocked", 4, queue="x"))
    return stage


def test_p11_a_blocked_strict_head_does_not_hold_up_a_preemptor_that_comes_before_it(leaving: Linger) -> None:
    """The preemptor is within its own quota and of higher priority, so it is taken first (S-5.6)."""
    stage = Stage(
        queue("x", 4, cohort="r", strict=True, reclaim="LowerPriority"),
        queue("y", 2, cohort="r", within="LowerPriority"),
        leaving=leaving,
    )
    stage.arrive(work("low", 6, queue="y", priority=5), work("blocked", 4, queue="x"))
    stage.create(work("p", 2, queue="y", priority=9))
    stage.run("10:10")
    assert stage.victims() == ["low"]
    assert stage.running == {"p", "blocked"}


def test_p11_one_that_comes_after_it_waits_for_its_reservation() -> None:
    stage = cohort_with_blocked_head()
    stage.arrive(work("later", 2, queue="z"))
    stage.run("11:00")
    assert stage.running == {"high"}
    assert stage.story("later") == ["skipped"], "it is not evaluated again while nothing changes"
    stage.finish("high")
    stage.rest(1)
    assert stage.running == {"blocked", "later"}


LEAVES: dict[str, Callable[[Stage], None]] = {
    "deleted": lambda stage: stage.delete("Workload", "blocked"),
    "deactivated": lambda stage: stage.patch("Workload", "blocked", {"spec": {"active": False}}),
    "moved": lambda stage: stage.patch("Workload", "blocked", {"spec": {"queueName": "y"}}),
    "its LocalQueue stopped": lambda stage: stage.patch("LocalQueue", "x", {"spec": {"stopPolicy": "Hold"}}),
}


@pytest.mark.parametrize("how", LEAVES)
def test_p11_and_no_longer_than_the_head_waits(how: str) -> None:
    """A workload that lost to a reservation is due when it changes, here when the head leaves (S-5.1, S-3.7, 4.6.1)."""
    stage = cohort_with_blocked_head()
    stage.arrive(work("later", 2, queue="z"))
    LEAVES[how](stage)
    stage.run("20:00")
    assert stage.running == {"high", "later"}


def test_p11_nor_than_its_queue_is_active() -> None:
    stage = cohort_with_blocked_head()
    stage.arrive(work("later", 2, queue="z"))
    stage.patch("ClusterQueue", "x", {"spec": {"stopPolicy": "Hold"}})
    stage.rest(1)
    assert stage.running == {"high", "later"}


def test_p11_p12_and_is_told_whose_it_is() -> None:
    stage = cohort_with_blocked_head()
    stage.arrive(work("later", 2, queue="z"))
    told = stage.entries("later")[-1]
    assert any("blocked" in subject for _, subjects, _ in told.steps for subject in subjects)


@pytest.mark.parametrize(("lends", "running"), [(False, {"high"}), (True, {"high", "later"})])
def test_p12_whether_the_idle_quota_of_a_strict_queue_is_lent(lends: bool, running: set[str]) -> None:
    stage = cohort_with_blocked_head(policy=replace(Policy.default(), strict_fifo_lends=lends))
    stage.arrive(work("later", 2, queue="z"))
    stage.run("11:00")
    assert stage.running == running


def test_p12_the_head_itself_says_what_is_kept_free_for_it() -> None:
    stage = cohort_with_blocked_head()
    kept = [step for step in stage.entries("blocked")[-1].steps if step[0] == "cycle/capacity-reserved"]
    assert kept == [("cycle/capacity-reserved", ("default/blocked", "default", "cpu"), (4000,))]


# --- P15 to P18: evictions -------------------------------------------------------------------------------------------


class Unwilling:
    """A store that refuses to evict one workload, the first ``times`` times."""

    def __init__(self, stage: Stage, victim: str, times: int, error: StoreError, patched: pytest.MonkeyPatch) -> None:
        self.refused: list[str] = []  # when
        write = stage.simulation.store.update_status

        def refusing(body: Any) -> Stored:
            asked = body.kind == "Workload" and body.metadata.name == victim and says(body, "Evicted")
            if asked and len(self.refused) < times:
                self.refused.append(stage.now)
                raise error
            return write(body)

        patched.setattr(stage.simulation.store, "update_status", refusing)


@pytest.mark.parametrize("error", [Forbidden("no"), Unavailable("busy"), Conflict("too late")], ids=lambda e: e.reason)
def test_p15_an_eviction_that_fails_is_tried_again_and_not_waited_for(
    error: StoreError, leaving: Linger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store refuses one of three, twice; each victim leaves once."""
    stage = Stage(queue("q", 6, within="LowerPriority"), leaving=leaving)
    stage.arrive(*(work(name, 2) for name in ("a", "b", "c")))
    store = Unwilling(stage, "b", 2, error, monkeypatch)
    stage.create(work("p", 6, priority=9))
    stage.run("10:02")
    assert len(store.refused) == 2
    assert stage.running == {"p"}
    assert sorted(stage.victims()) == ["a", "b", "c"]


def test_p15_and_not_again_in_the_same_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all its writes have failed it is due again after the write back-off (S-10.1)."""
    stage = Stage(queue("q", 4, within="LowerPriority"))
    stage.arrive(work("victim"))
    store = Unwilling(stage, "victim", 3, Forbidden("no"), monkeypatch)
    stage.create(work("p", priority=9))
    stage.run("10:05")
    assert stage.running == {"p"}
    assert len(set(store.refused)) == 3


def test_p15_nor_does_it_cost_the_preemptor_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store refuses a dozen times and then works again; by then no workload has been displaced."""
    stage = Stage(queue("q", 4, within="LowerPriority"))
    stage.arrive(work("victim"))
    Unwilling(stage, "victim", 12, Forbidden("no"), monkeypatch)
    stage.create(work("p", priority=9))
    stage.run("12:00")
    assert stage.running == {"p"}


def test_p16_a_victim_made_anew_under_its_name_holds_nobody_up() -> None:
    """The claim names its victim by uid: the new one is no victim, and is not waited for."""
    stage = Stage(queue("q", 4, within="LowerPriority"), leaving=never)
    stage.arrive(work("victim"), work("p", priority=1))
    assert stage.victims() == ["victim"]
    stage.delete("Workload", "victim")
    stage.create(work("victim"))
    stage.rest(1)
    assert stage.running == {"p"}
    assert stage.condition("victim", "Evicted") == ("", "")


def test_p16_a_preemptor_made_anew_has_no_claim_on_what_its_namesake_was_promised() -> None:
    stage = Stage(queue("q", 4, within="LowerPriority"), leaving=after_20_s)
    stage.arrive(work("victim"), work("p", priority=1))
    stage.delete("Workload", "p")
    stage.create(work("p", 1, priority=-1))
    stage.rest(30)
    assert stage.running == {"victim"}, "it has its place back: no other wants it"
    assert stage.get("Workload", "p").status.preemption_claim is None


def test_p17_one_victim_is_asked_once(leaving: Linger) -> None:
    """However often it is evaluated while it leaves."""
    stage = Stage(queue("q", 4, within="LowerPriority"), leaving=leaving)
    stage.arrive(work("victim"))
    stage.create(work("p", priority=9))
    for i in range(8):
        stage.create(work(f"more-{i}", 1, priority=1))
        stage.rest(1)
        stage.delete("Workload", f"more-{i}")
    stage.run("10:05")
    assert (stage.running, stage.victims()) == ({"p"}, ["victim"])
    told = [stage.notes("victim", reason) for reason in ("Preempted", "EvictedDueToPreempted")]
    assert (told, stage.notes("p", "PreemptedWorkload")) == ([1, 1], 1)
    assert stage.counted("kueue_preempted_workloads_total", "q", "InClusterQueue") == 1
    (count,) = stage.get("Workload", "victim").status.scheduling_stats.evictions
    assert (count.reason, count.count) == ("Preempted", 1)


def test_p18_quota_stays_charged_until_the_pods_of_the_victim_are_gone() -> None:
    stage = Stage(queue("q", 4, within="LowerPriority"), job_leaves_ms=45_000)
    stage.arrive(job("low"))
    (low,) = stage.running
    stage.create(work("p", priority=9))
    stage.rest(44)
    assert (stage.victims(), stage.holders, stage.running) == ([low], {low}, set())
    assert stage.used("q") == "4"
    assert stage.tree("Job", "low")["spec"]["suspend"] is True
    stage.rest(2)
    assert stage.running == {"p"}
