"""Traps of quota and preemption (P9 to P27) on the running engine: restarts, edited queues and flavors, odd moments."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from makeway.adapters.simulator.simulation import Linger
from makeway.core.policy import PodsReady, Policy
from tests.scenarios.stage import Planned, Stage, Tree, after_20_s, flavor, named, queue, quotas, work

# --- P9, P14: the same answer every time, and an answer in time -------------------------------------------------------


def test_p9_equals_in_everything_are_chosen_by_uid_whoever_asks_when() -> None:
    """Reserved in the same second; a restart before the decision changes nothing, and no superfluous victim leaves."""
    chosen = []
    for restarts in (False, True):
        stage = Stage(queue("q", 8, within="LowerPriority"))
        stage.create(*(work(name, 2) for name in ("d", "a", "c", "b")))
        stage.rest(0)
        if restarts:
            stage.restart()
        uids = {stage.get("Workload", name).metadata.uid: name for name in "abcd"}
        stage.create(work("p", 4, priority=1))
        stage.rest(5)
        assert sorted(stage.victims()) == sorted(uids[uid] for uid in sorted(uids)[:2])
        chosen.append(sorted(stage.victims()))
    assert chosen[0] == chosen[1]


def test_p14_every_flavor_is_tried_although_the_cohort_is_never_at_rest() -> None:
    """Each second y's room in the first flavor is free, p would borrow it, and y's next one takes it."""
    stage = Stage(queue("x", {"f1": 0, "f2": 4}, cohort="r"), queue("y", {"f1": 4}, cohort="r"))
    for i in range(3):
        stage.create(work(f"y-{i}", 4, queue="y", runtime="1s"), work(f"p-{i}", 4, queue="x", runtime="1s"))
        stage.rest(1)
        assert stage.story(f"p-{i}") == ["skipped", "admitted"]
        (assigned,) = stage.get("Workload", f"p-{i}").status.admission.pod_set_assignments
        assert assigned.flavors == {"cpu": "f2"}


# --- P19, P26, P27: the configuration changes -------------------------------------------------------------------------


def test_p19_with_a_child_cohort_goes_its_quota() -> None:
    """Its workloads go on and show as usage above quota; no other workload is admitted."""
    child = {"parentName": "root", "resourceGroups": quotas(4)}
    stage = Stage(named("Cohort", "root", {}), named("Cohort", "child", child), queue("x", 0, cohort="root"))
    stage.arrive(work("runs", 3, queue="x"))
    assert stage.running == {"runs"}
    stage.delete("Cohort", "child")
    stage.rest(1)
    stage.arrive(work("new", 1, queue="x"))
    assert stage.running == {"runs"}
    assert stage.used("x") == "3"
    assert stage.condition("new", "QuotaReserved")[0] == "False"


def test_p19_who_runs_on_a_flavor_that_was_taken_out_stays_visible() -> None:
    stage = Stage(queue("q", {"f1": 4, "f2": 4}))
    stage.arrive(work("on-f1"), work("on-f2"))
    assert stage.used("q", "f2") == "4"
    stage.patch("ClusterQueue", "q", {"spec": {"resourceGroups": quotas({"f1": 4})}})
    stage.rest(1)
    assert (stage.running, stage.used("q", "f2")) == ({"on-f1", "on-f2"}, "4")
    stage.arrive(work("new"))
    assert stage.condition("new", "QuotaReserved")[0] == "False"
    stage.finish("on-f1")
    stage.rest(1)
    assert stage.running == {"on-f2", "new"}
    assert stage.used("q", "f1") == "4"


THE_START = "2026-01-01T10:00:00Z"
TAINT = {"key": "dedicated", "value": "team", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("before", "after", "pod"),
    [
        ({"nodeTaints": [TAINT]}, {"nodeTaints": []}, {}),
        (
            {"nodeTaints": [TAINT]},
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
            {},
        ),
        (
            {"nodeLabels": {"type": "old"}},
            {"nodeLabels": {"type": "new"}},
            {"nodeSelector": {"type": "new"}},
        ),
    ],
    ids=["taint", "toleration", "label"],
)
def test_p26_an_edited_flavor_lets_those_in_whom_it_kept_out(before: Tree, after: Tree, pod: Tree) -> None:
    stage = Stage(flavor("default", **before), queue("q", 4))
    stage.arrive(work("p", pod=pod))
    assert stage.condition("p", "QuotaReserved") == ("False", "NoMatchingFlavor")
    stage.patch("ResourceFlavor", "default", {"spec": after})
    stage.rest(0)
    assert stage.running == {"p"}


def test_p27_a_quota_lowered_below_its_use_shows_and_lets_them_run() -> None:
    stage = Stage(queue("q", 8))
    stage.arrive(work("a"), work("b"))
    stage.patch("ClusterQueue", "q", {"spec": {"resourceGroups": quotas(5)}})
    stage.rest(1)
    assert (stage.running, stage.used("q")) == ({"a", "b"}, "8")
    stage.arrive(work("c", 1))
    assert stage.running == {"a", "b"}
    stage.finish("a")
    stage.rest(1)
    assert stage.running == {"b", "c"}


def test_p27_or_makes_as_many_leave_as_are_too_many(leaving: Linger) -> None:
    """``overQuota: Evict``; the evicted workload is not admitted again, because there is no room."""
    stage = Stage(queue("q", 8), policy=replace(Policy.default(), over_quota="Evict"), leaving=leaving)
    stage.arrive(work("a"), work("b", 2), work("c", 2))
    stage.patch("ClusterQueue", "q", {"spec": {"resourceGroups": quotas(7)}})
    stage.run("10:10")
    assert [(each.workload, each.reason) for each in stage.evictions] == [("c", "OverQuota")]
    assert (stage.running, stage.used("q")) == ({"a", "b"}, "6")
    stage.patch("ClusterQueue", "q", {"spec": {"resourceGroups": quotas(8)}})
    stage.rest(1)
    assert stage.running == {"a", "b", "c"}


def test_p27_what_is_borrowed_of_a_lowered_quota_is_still_reclaimed(leaving: Linger) -> None:
    stage = Stage(
        queue("x", 4, cohort="r", reclaim="Any"), queue("y", 4, cohort="r"), queue("z", 2, cohort="r"),
        leaving=leaving,
    )  # fmt: skip
    stage.arrive(*(work(f"y{i}", 2, queue="y") for i in range(5)))
    stage.patch("ClusterQueue", "z", {"spec": {"resourceGroups": quotas(0)}})
    stage.rest(1)
    assert stage.evictions == []
    stage.create(work("p", 4, queue="x"))
    stage.run("10:10")
    assert stage.victims() == ["y4", "y3", "y2"]
    assert stage.running == {"p", "y0", "y1"}


# --- P24: the engine begins anew -------------------------------------------------------------------------------------


def a_morning(faults: Planned | None = None) -> Stage:
    """Reclaim, priorities, work that ends: a bit of everything in seven minutes."""
    stage = Stage(
        queue("x", 4, cohort="r", reclaim="Any", within="LowerPriority"), queue("y", 4, cohort="r", strict=True),
        leaving=after_20_s, faults=faults,
    )  # fmt: skip
    stage.arrive(work("done", 2, queue="y", runtime="20s"), work("y1", 4, queue="y"), work("y2", 2, queue="y"))
    stage.run("10:00:30")
    stage.arrive(work("x1", 2, queue="x"), work("x2", 2, queue="x", priority=5), work("y3", 4, queue="y"))
    return stage


def ends(stage: Stage) -> tuple[Any, ...]:
    stage.run("10:07")
    evicted = {name: stage.evicted(name) for name in ("done", "y1", "y2", "y3", "x1", "x2")}
    return stage.running, evicted, stage.condition("done", "Finished")[0], stage.used("x"), stage.used("y")


@pytest.mark.parametrize("after_s", [0, 1, 5, 19, 20, 21, 60])
def test_p24_usage_and_decisions_are_the_same_after_a_restart(after_s: int) -> None:
    stage = a_morning()
    stage.rest(after_s)
    used = stage.used("x"), stage.used("y")
    admitted = stage.story("done").count("admitted")
    stage.restart()
    stage.rest(0)
    assert (stage.used("x"), stage.used("y")) == used
    assert ends(stage) == ends(a_morning())
    assert stage.story("done").count("admitted") == admitted == 1, "a finished workload is not queued again"


@pytest.mark.parametrize("point", ["crash.step", "crash.before", "crash.after"])
def test_p24_wherever_the_engine_ends(point: str) -> None:
    """At every third point that it comes to; state and objects are compared at each pause."""
    expected = ends(a_morning())
    for skips in count(0, 3):
        faults = Planned()
        faults.plan(point, skips=skips)
        found = ends(a_morning(faults))
        if not faults.fired[point]:
            break
        assert found == expected, skips
    assert skips > 20, "there is something to end in"


# --- P25: two evictions at one moment --------------------------------------------------------------------------------


def checked(**settings: Any) -> Stage:
    """A queue whose workloads wait for a check; the test answers for it."""
    strategy = {"admissionChecks": [{"name": "audit"}]}
    stage = Stage(
        named("AdmissionCheck", "audit", {"controllerName": "example.com/audit"}),
        queue("q", 4, within="LowerPriority", admissionChecksStrategy=strategy), **settings,
    )  # fmt: skip
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": THE_START}
    stage.patch("AdmissionCheck", "audit", {"status": {"conditions": [active]}}, status=True)
    stage.rest(0)
    return stage


def answer(stage: Stage, name: str, state: str, **more: Any) -> None:
    at = f"2026-01-01T{stage.now}Z"
    told = {"name": "audit", "state": state, "message": "told by a test", "lastTransitionTime": at, **more}
    stage.patch("Workload", name, {"status": {"admissionChecks": [told]}}, status=True)


@pytest.mark.parametrize("first", ["retry", "preemption"])
def test_p25_a_retry_and_a_preemption_at_one_moment_leave_nothing_half_done(first: str, leaving: Linger) -> None:
    """In either order: the quota is free, both take effect, and the workload returns when the check says so."""
    stage = checked(leaving=leaving)
    stage.arrive(work("low"))
    answer(stage, "low", "Ready")
    stage.rest(1)
    assert stage.running == {"low"}
    if first == "retry":
        answer(stage, "low", "Retry", requeueAfterSeconds=120)
        stage.create(work("high", priority=9))
    else:
        stage.create(work("high", priority=9))
        stage.rest(0)
        answer(stage, "low", "Retry", requeueAfterSeconds=120)
    stage.rest(60)
    assert stage.holders == {"high"}
    assert (stage.condition("low", "Admitted")[0], stage.condition("low", "Evicted")[0]) == ("False", "True")
    stage.delete("Workload", "high")
    stage.rest(30)
    assert stage.holders == set(), "the check asked for two minutes"
    stage.rest(60)
    assert stage.holders == {"low"}
    assert stage.condition("low", "Evicted") == ("False", "QuotaReserved")


def test_p25_pods_that_never_get_ready_and_a_preemption_at_one_moment(leaving: Linger) -> None:
    waits = replace(Policy.default(), pods_ready=PodsReady(timeout_ms=60_000, recovery_timeout_ms=60_000))
    stage = Stage(queue("q", 4, within="LowerPriority"), leaving=leaving, policy=waits)
    stage.create(work("low"))
    stage.run("10:00:59")
    stage.create(work("high", priority=9))
    stage.run("10:01:50")
    assert stage.holders == {"high"}
    assert stage.victims()[:1] == ["low"]
    assert (stage.condition("low", "Admitted")[0], stage.condition("low", "Evicted")[0]) == ("False", "True")
    stage.condition_set("high", "PodsReady", "True", "Started")
    stage.run("10:30")
    assert stage.running == {"high"}
    stage.delete("Workload", "high")
    stage.rest(1)
    assert stage.running == {"low"}
