"""Workloads that no cycle evaluates are told why they wait: the engine over a small Store, with a clock that is set."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.conditions import find, is_true
from makeway.api.objects.kubernetes import Namespace
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import AdmissionCheck, ClusterQueue, LocalQueue
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.controllers.standard import standard
from makeway.core.model import Millis
from makeway.core.policy import Gates, Policy
from makeway.runtime.engine import Engine
from makeway.runtime.executor import Call, DirectWriter, WriteAnswer
from makeway.runtime.ports import Forbidden
from makeway.runtime.scheduling.plans import CHECKED_MAX, TOLD_MAX, TellPending
from makeway.runtime.scheduling.unevaluated import QUIET_MS, SOON_MS
from tests.runtime.wires import check, cluster_queue, condition, flavor, groups, holder, local_queue, workload

NOON = 1_767_268_800_000
KIND = kind_of(Workload)
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 1 more needed"
WAITING = ("WaitingForQuota", SHORT)
BEHIND = ("PendingEvaluation", "Waits behind the head of ClusterQueue q, whose queueingStrategy is StrictFIFO")


class Play:
    """A queue of two cores that ``h`` holds, and the named workloads; ``at`` is in milliseconds after noon."""

    def __init__(
        self, *objects: Any, policy: Policy | None = None, writer: Any = DirectWriter, priority: int = 0, **spec: Any
    ) -> None:
        self.now = Millis(NOON)
        self.policy = policy or Policy.default()
        self._writer = writer
        self.store = MemoryStore(lambda: self.now, careful=False)
        held = holder("h", 2, priority=priority)
        self.store.load([flavor(), cluster_queue(nominal=2, **spec), local_queue(), held, *objects])
        self.restart()
        self.until(0)

    def restart(self) -> None:
        self.engine = Engine(self.store, self.policy, standard(lambda _: 0), writer=self._writer(self.store))

    def step(self) -> bool:
        return self.engine.step(self.now)

    def until(self, at: int) -> None:
        """Let time pass, and do what is due in it."""
        while True:
            for _ in range(1000):
                if not self.step():
                    break
            else:
                raise AssertionError("it does not come to rest")
            due = self.engine.next_at()
            if due is None or due > NOON + at:
                self.now = Millis(NOON + at)
                return
            self.now = Millis(max(due, self.now + 1))

    def create(self, *objects: Any) -> None:
        for each in objects:
            self.store.create(each)

    def patch(self, type_: Any, name: str, change: Any) -> None:
        namespaced = type_ in (Workload, LocalQueue)
        self.store.patch(kind_of(type_), "default" if namespaced else "", name, change)

    def says(self, name: str) -> tuple[str, str]:
        found = find(self._conditions(name), "QuotaReserved")
        return ("", "") if found is None else (found.reason, found.message)

    def is_true(self, name: str, type_: str) -> bool:
        return is_true(self._conditions(name), type_)

    def _conditions(self, name: str) -> tuple[Any, ...]:
        status = self.store.get(KIND, "default", name).value().status
        return () if status is None else status.conditions

    @property
    def writes(self) -> int:
        return self.engine.executor.writes


def arrives(name: str, second: int = 30, **fields: Any) -> Workload:
    return workload(name, meta={"creationTimestamp": f"2026-01-01T12:00:{second:02}Z"}, **fields)


# --- parked with an equivalent one ------------------------------------------------------------------------------------


def test_S_4_5_3_one_that_is_parked_on_arrival_is_told_what_its_class_was_told() -> None:
    play = Play(arrives("a"))
    assert play.says("a") == WAITING
    play.create(arrives("b", 31))
    play.until(QUIET_MS - 1)
    assert play.says("b") == ("", "")
    cycles = play.engine.cycles
    play.until(QUIET_MS)
    assert play.says("b") == WAITING
    assert play.engine.cycles == cycles, "it is not evaluated"
    writes = play.writes
    play.until(3_600_000)
    assert (play.writes, play.engine.next_at()) == (writes, None)


def test_one_that_is_admitted_shortly_after_it_came_costs_no_write_more() -> None:
    play = Play(arrives("a"))
    play.create(arrives("b", 31, priority=1))
    play.until(100)
    play.store.delete(KIND, "default", "h")
    play.until(200)
    before = play.writes
    assert play.is_true("a", "Admitted")
    assert play.is_true("b", "Admitted")
    play.until(60_000)
    assert play.writes <= before + 2, "figures of the two queues"


def test_a_thousand_alike_are_told_once_each_in_bounded_slices_and_evaluated_once() -> None:
    play = Play(arrives("a"))
    play.create(*(arrives(f"w-{i}", 31) for i in range(1000)))
    play.until(QUIET_MS - 1)
    before, told = play.writes, 0
    steps: list[int] = []
    play.now = Millis(NOON + QUIET_MS)
    while play.step() or steps[-1:] != [0]:
        steps.append(play.writes - before - told)
        told = play.writes - before
    assert max(steps) <= TOLD_MAX + 3, "those told in one step, and what queues say of themselves"
    assert {play.says(f"w-{i}") for i in range(1000)} == {WAITING}
    assert 1000 <= told <= 1010
    assert CHECKED_MAX >= TOLD_MAX
    play.restart()
    play.until(QUIET_MS + 5000)
    assert play.writes <= 2, "after a restart no stored status is written again"


def test_a_larger_one_is_told_of_its_own_want() -> None:
    play = Play(arrives("a"))
    play.create(arrives("b", 31, count=2), arrives("c", 32, count=5))
    play.until(QUIET_MS)
    assert play.says("b") == ("WaitingForQuota", SHORT.replace("1 more", "2 more"))
    assert play.says("c")[0] == "ExceedsMaxQuota"


def test_an_evicted_one_is_told_why_it_waits_once_it_has_rested() -> None:
    play = Play(arrives("a"), preemption={"withinClusterQueue": "LowerPriority"})
    play.create(arrives("high", 31, count=2, priority=10))
    play.until(0)
    assert play.is_true("high", "Admitted")
    assert play.is_true("h", "Evicted")
    play.until(QUIET_MS)
    assert play.says("h")[0] == "WaitingForQuota"


def displaced(name: str, at: str, **fields: Any) -> Workload:
    """A workload that had quota until its time was up."""
    since = {"lastTransitionTime": f"2026-01-01T{at}Z"}
    said = [
        condition("Evicted", reason="Preempted") | since,
        condition("Preempted", reason="InClusterQueueTimeBased") | since,
    ]
    return workload(name, *said, meta={"creationTimestamp": "2026-01-01T12:00:31Z"}, **fields)


@pytest.mark.parametrize("restarts", [False, True])
def test_S_7_14_what_is_true_of_one_only_is_told_to_that_one_and_is_over_when_its_time_has_come(restarts: bool) -> None:
    turns = {
        "reclaimWithinCohort": "Never", "withinClusterQueue": "LowerOrNewerEqualPriority",
        "withinClusterQueueConfig": {"minAdmitDuration": "5m"},
    }  # fmt: skip
    play = Play(arrives("a"), displaced("b", "11:58:00"), arrives("c", 32), preemption=turns, priority=1)
    play.until(60_000)
    itself = f"{SHORT}; it was displaced by time itself, and displaces no workload of its priority before "
    assert [play.says(name) for name in "abc"] == [
        WAITING,
        ("WaitingForQuota", itself + "2026-01-01T12:03:00Z"),
        WAITING,
    ]
    if restarts:
        play.restart()
    play.until(179_999)
    assert play.says("b")[1].startswith(itself)
    play.until(180_000 + QUIET_MS)
    assert [play.says(name) for name in "abc"] == [WAITING] * 3


# --- a status that others wrote ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [False, True])
def test_one_that_is_active_again_says_what_it_waits_for_now(beside: bool) -> None:
    """Also well within ``statusWriteInterval``, and whether or not an equivalent one waits."""
    play = Play(arrives("x"), *([arrives("y", 31)] if beside else []))
    assert play.says("x") == WAITING
    play.patch(Workload, "x", {"spec": {"active": False}})
    play.until(1000)
    assert play.says("x")[0] == "Deactivated"
    play.patch(Workload, "x", {"spec": {"active": True}})
    play.until(1000 + SOON_MS)
    assert play.says("x") == WAITING


STOPS: dict[str, tuple[Any, Any, str]] = {
    "a ClusterQueue": (ClusterQueue, {"stopPolicy": "Hold"}, "q"),
    "a LocalQueue": (LocalQueue, {"stopPolicy": "Hold"}, "lq"),
    "a flavor that is missing": (ClusterQueue, {"resourceGroups": groups({"f": {"cpu": 2}, "g": {"cpu": 0}})}, "q"),
}


@pytest.mark.parametrize("stop", STOPS)
def test_a_queue_that_is_stopped_and_resumed(stop: str) -> None:
    play = Play(arrives("x"), arrives("y", 31))
    play.until(QUIET_MS)
    type_, change, name = STOPS[stop]
    play.patch(type_, name, {"spec": change})
    play.until(2000)
    assert {play.says(each)[0] for each in "xy"} == {"Suspended"}
    back = {"stopPolicy": "None"} if "stopPolicy" in change else {"resourceGroups": groups(2)}
    play.patch(type_, name, {"spec": back})
    play.until(3000)
    assert [play.says(each) for each in "xy"] == [WAITING, WAITING]


def test_a_queue_that_is_inactive_because_of_its_check_says_so_to_all_that_wait() -> None:
    """The queue itself has not changed, so its workloads were not reconciled."""
    checks = {"admissionChecks": [{"name": "c"}]}
    play = Play(arrives("x"), arrives("y", 31), check("c"), admissionChecksStrategy=checks)
    play.until(QUIET_MS)
    for at, active, reason in ((2000, False, "Suspended"), (3000, True, "WaitingForQuota")):
        told = {"conditions": [condition("Active", active, "Active")]}
        play.store.patch(kind_of(AdmissionCheck), "", "c", {"status": told}, status=True)
        play.until(at)
        assert {play.says(each)[0] for each in "xy"} == {reason}


def test_a_held_back_word_is_not_told_to_one_that_is_inactive_by_then() -> None:
    play = Play(arrives("x"))
    play.patch(ClusterQueue, "q", {"spec": {"resourceGroups": groups(0)}})
    play.until(10_000)
    assert play.says("x") == WAITING, "told less than half a minute ago"
    play.patch(Workload, "x", {"spec": {"active": False}})
    play.until(60_000)
    assert play.says("x")[0] == "Deactivated"
    told = TellPending("WaitingForQuota", SHORT, play.now, ())
    assert told(play.store.get(KIND, "default", "x").value()) is None, "nor if it was under way"


def test_a_held_back_word_is_not_told_to_one_whose_queue_is_stopped_by_then() -> None:
    play = Play(arrives("x"))
    play.patch(ClusterQueue, "q", {"spec": {"resourceGroups": groups(0)}})
    play.until(10_000)
    play.patch(ClusterQueue, "q", {"spec": {"stopPolicy": "Hold"}})
    play.until(20_000)
    assert play.says("x")[0] == "Suspended"
    writes = play.writes
    play.until(60_000)
    assert (play.says("x")[0], play.writes) == ("Suspended", writes)


def test_a_held_back_word_that_is_true_no_more_is_not_told() -> None:
    """Of three alike one is evaluated by cycles; the others are told what is true of them when their queue is quiet."""
    play = Play(*(arrives(each, 30 + at) for at, each in enumerate("xyz")))
    play.until(QUIET_MS)
    for seconds, quota in ((10, 0), (20, 2)):
        play.until(1000 * seconds)
        play.patch(ClusterQueue, "q", {"spec": {"resourceGroups": groups(quota)}})
    play.until(120_000)
    assert {play.says(each) for each in "xyz"} == {WAITING}


# --- what else changes the truth --------------------------------------------------------------------------------------


def test_a_change_of_quota_reaches_all_that_it_concerns() -> None:
    """Of these at most one is evaluated: none where sums say that it is in vain (0017)."""
    play = Play(arrives("a"), arrives("b", 31, count=2), arrives("c", 32, count=2))
    play.until(QUIET_MS)
    assert {play.says(each)[0] for each in "abc"} == {"WaitingForQuota"}
    play.patch(ClusterQueue, "q", {"spec": {"resourceGroups": groups(1)}})
    play.until(60_000)
    assert [play.says(each)[0] for each in "abc"] == ["WaitingForQuota", "ExceedsMaxQuota", "ExceedsMaxQuota"]


def test_a_namespace_that_matches_no_more() -> None:
    team = Namespace(metadata=ObjectMeta(name="default", labels={"stage": "open"}))
    play = Play(arrives("a"), arrives("b", 31), team, namespaceSelector={"matchLabels": {"stage": "open"}})
    play.until(QUIET_MS)
    play.patch(Namespace, "default", {"metadata": {"labels": {"stage": "shut"}}})
    play.until(60_000)
    assert {play.says(each)[0] for each in "ab"} == {"Misconfigured"}


def test_S_4_8_a_limit_range_that_forbids_what_is_asked_for() -> None:
    """The Workloads themselves do not change."""
    play = Play(arrives("a"), arrives("b", 31))
    play.until(QUIET_MS)
    item = {"type": "Container", "max": {"cpu": "500m"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"}}
    play.create({**limits, "spec": {"limits": [item]}})
    play.until(60_000)
    assert {play.says(each)[0] for each in "ab"} == {"Misconfigured"}


def test_S_4_4_those_behind_a_strict_head_say_so_and_keep_it_while_heads_change() -> None:
    play = Play(arrives("a"), arrives("b", 31), arrives("c", 32), queueingStrategy="StrictFIFO")
    play.until(QUIET_MS)
    assert [play.says(each) for each in "abc"] == [WAITING, BEHIND, BEHIND]
    play.store.delete(KIND, "default", "a")
    play.until(2000)
    assert [play.says(each) for each in "bc"] == [WAITING, BEHIND], "the first verdict is told at once"
    play.patch(ClusterQueue, "q", {"spec": {"queueingStrategy": "BestEffortFIFO"}})
    play.until(3000)
    assert [play.says(each) for each in "bc"] == [WAITING, WAITING]


def test_one_that_waits_for_replacement_pods_says_so() -> None:
    play = Play(arrives("a"), workload("x", condition("WaitingForReplacementPods")))
    words = "It is not considered while its condition WaitingForReplacementPods is True"
    assert play.says("x") == ("PendingEvaluation", words)


def test_a_write_that_is_refused_is_tried_again_after_growing_pauses() -> None:
    class Refusing(DirectWriter):
        refusals = 0

        def send(self, number: int, call: Call, now: Millis) -> None:
            if "update_status" in call.__code__.co_names and Refusing.refusals:
                Refusing.refusals -= 1
                self._answers.append(WriteAnswer(number, error=Forbidden("no")))
            else:
                super().send(number, call, now)

    play = Play(arrives("a"), writer=Refusing)
    play.until(QUIET_MS)
    play.create(arrives("b", 31))
    Refusing.refusals = 3
    play.until(2 * QUIET_MS)
    assert play.says("b") == ("", "")
    play.until(60_000)
    assert (play.says("b"), Refusing.refusals) == (WAITING, 0)


# --- gates ------------------------------------------------------------------------------------------------------------


def test_without_granular_reasons_it_is_Pending_or_Inadmissible() -> None:
    policy = Policy(gates=Gates(unadmitted_workloads_observability=False))
    play = Play(arrives("a"), arrives("b", 31), policy=policy)
    play.until(QUIET_MS)
    assert [play.says(each) for each in "ab"] == [("Pending", SHORT), ("Pending", SHORT)]
    play.patch(Workload, "a", {"spec": {"active": False}})
    play.until(2000)
    assert play.says("a")[0] == "Inadmissible"
    play.patch(Workload, "a", {"spec": {"active": True}})
    play.until(3000)
    assert play.says("a") == ("Pending", SHORT)
    writes = play.writes
    play.until(600_000)
    assert play.writes == writes


@pytest.mark.parametrize("granular", [True, False])
def test_with_explicit_status_both_conditions_are_there_from_the_start(granular: bool) -> None:
    gates = Gates(unadmitted_workloads_explicit_status=True, unadmitted_workloads_observability=granular)
    play = Play(arrives("a"), policy=Policy(gates=gates))
    play.create(arrives("b", 31))
    play.until(0)
    found = {each.type: (each.status, each.reason) for each in play._conditions("b")}
    first = {"QuotaReserved": ("False", "PendingEvaluation"), "Admitted": ("False", "NoReservation")}
    assert found == (first if granular else {}), "the gate needs the other one"
    play.until(QUIET_MS)
    assert play.says("b") == (WAITING if granular else ("Pending", SHORT))


def test_without_AdmissionGatedBy_the_annotation_holds_nobody_back() -> None:
    meta = {"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/x"}}
    policy = Policy(gates=Gates(admission_gated_by=False))
    play = Play(workload("x", meta=meta), policy=policy)
    play.until(QUIET_MS)
    assert play.says("x") == WAITING
    assert Play(workload("x", meta=meta)).says("x")[0] == "AdmissionGated"
