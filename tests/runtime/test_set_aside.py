"""One object's trouble stays its own: it is set aside, says so, is tried again; all others go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.conditions import find, is_true
from makeway.api.objects.kubernetes import Pod, PodDisruptionBudget, view
from makeway.api.objects.pods import PodSpec
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.controllers.contract import (
    CLUSTER_QUEUE,
    COHORT,
    POD,
    POD_DISRUPTION_BUDGET,
    RESOURCE_FLAVOR,
    WORKLOAD,
    Action,
    Change,
    Controller,
    Note,
    Outcome,
    Ref,
    View,
)
from makeway.controllers.pods import scheduling as pod_scheduling
from makeway.controllers.standard import standard
from makeway.core.model import FlavorName, Millis, QueueName, ResourceName
from makeway.core.placement.cycle import cycle as placing_cycle
from makeway.core.placement.model import ForPod
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.informers import watched_kinds
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.recount.recount import recount
from makeway.runtime.set_aside import TRIES_MAX, SetAside, anything, cause_of, logged
from makeway.runtime.virtual import Virtual, VirtualClock
from tests.runtime.wires import cluster_queue, cohort, condition, flavor, holder, local_queue, workload
from tests.unreadable import SPREAD, UNREADABLE, put_past

NOON = Millis(1_767_268_800_000)
HOUR = 3_600_000
BAD = Ref(WORKLOAD, "default", "bad")


class Play:
    """An engine that tolerates the same errors as a server, with all controllers, in virtual time."""

    def __init__(
        self, *objects: Any, more: list[Controller] | None = None, probe: Callable[[str, Ref], None] | None = None
    ) -> None:
        self.clock = VirtualClock(NOON)
        self.store = MemoryStore(self.clock, careful=False)
        self.store.load([NAMESPACE, flavor(), cluster_queue("q", 4), local_queue(), *objects])
        self.probe, self.more = probe, more or []
        self.begin()

    def begin(self) -> None:
        """A new start over the same objects."""
        react = [*standard(lambda _: 0, on_nodes=True), *self.more]
        self.metrics = MetricsRegistry()
        self.engine = Engine(
            self.store, Policy.default(), react, metrics=self.metrics, kinds=watched_kinds(on_nodes=True),
            tolerates=anything, probe=self.probe,
        )  # fmt: skip

    def run(self) -> None:
        """Run to the end, which comes by itself: nothing is tried for ever."""
        until = Millis(self.clock.now + HOUR)
        Virtual(self.clock, [self.engine]).run(until)
        at = self.engine.next_at()
        assert at is None or at > until

    def come_to_rest(self) -> None:
        """Run as far as it goes without waiting."""
        while self.engine.step(self.clock.now):
            pass

    def workload(self, name: str) -> Workload:
        found: Workload = self.store.get(kind_of(Workload), "default", name).value()
        return found

    def is_admitted(self, name: str) -> bool:
        status = self.workload(name).status
        return status is not None and is_true(status.conditions, "Admitted")

    def says(self, name: str) -> tuple[str, str]:
        """Why it waits: reason and message."""
        status = self.workload(name).status
        found = None if status is None else find(status.conditions, "QuotaReserved")
        return ("", "") if found is None else (found.reason, found.message)

    def pod(self, name: str) -> PodSpec:
        found: Pod = self.store.get(kind_of(Pod), "default", name).value()
        return view(found.spec, PodSpec)

    def told(self, ref: Ref) -> list[str]:
        return [note.message for note in self.engine.notes if note.about == ref and note.reason == "SetAside"]

    def used(self) -> int:
        return self.engine.state.tree.queues[QueueName("q")].usage.get((FlavorName("f"), ResourceName("cpu")), 0)

    def is_recounted(self) -> bool:
        self.metrics.refresh(self.engine.view)
        objects = [each.value() for kind in watched_kinds() for each in self.store.list(kind).items]
        return recount(objects, self.engine.state, self.metrics) == []


def ranked(name: str, rank: str) -> Workload:
    return workload(name, meta={"annotations": {"kueue.x-k8s.io/option-rank": rank}})


# --- what is stored already, for each kind ----------------------------------------------------------------------------

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
NODE = {
    "apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}, "spec": {},
    "status": {"allocatable": {"cpu": "8", "pods": "20"}, "conditions": [
        {"type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]},
}  # fmt: skip
GOOD_POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "good", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}  # fmt: skip


def ref_of(tree: dict[str, Any]) -> Ref:
    kind = (
        tree["kind"]
        if not tree["apiVersion"].startswith("scheduling.k8s.io/v1alpha1")
        else "Workload.scheduling.k8s.io"
    )
    return Ref.named(kind, tree["metadata"].get("namespace", ""), tree["metadata"]["name"])


@pytest.mark.parametrize("comes_late", [False, True], ids=["at the start", "later"])
@pytest.mark.parametrize("what", UNREADABLE)
def test_an_object_that_cannot_be_read_is_set_aside_and_all_others_go_on(what: str, comes_late: bool) -> None:
    play = Play(NODE, GOOD_POD, workload("good"))
    if comes_late:
        play.run()
    put_past(play.store, UNREADABLE[what])
    if not comes_late:
        play.begin()
    play.store.load([{**GOOD_POD, "metadata": {"name": "later", "namespace": "default"}}, workload("later")])
    play.run()
    assert {name: play.is_admitted(name) for name in ("good", "later")} == {"good": True, "later": True}
    assert [play.pod(name).node_name for name in ("good", "later")] == ["here", "here"]
    ref = ref_of(UNREADABLE[what])
    assert ref in {known for known, _, _ in play.engine.set_aside.all()}
    assert play.told(ref)
    assert "Traceback" not in play.told(ref)[0]
    assert f'makeway_objects_set_aside_total{{kind="{ref.kind}"' in play.metrics.text()


# --- workloads --------------------------------------------------------------------------------------------------------


def test_a_workload_that_cannot_be_lowered_says_so_and_comes_back_when_it_is_mended() -> None:
    play = Play(ranked("bad", "first"), workload("good"))
    play.run()
    status = play.workload("bad").status
    assert status is not None
    said = find(status.conditions, "QuotaReserved")
    assert said is not None
    assert (said.status, said.reason) == ("False", "SetAside")
    assert said.message == (
        "makeway has set it aside: lowering cannot handle it: ValueError: invalid literal for int() with base 10: "
        "'first'; it is tried again when it changes"
    )
    assert play.is_admitted("good")
    tree = play.store.get(kind_of(Workload), "default", "bad").tree()
    tree["metadata"]["annotations"] = {"kueue.x-k8s.io/option-rank": "1"}
    play.store.update(tree)
    play.run()
    assert play.is_admitted("bad")
    assert play.engine.set_aside.all() == []
    assert (
        'makeway_objects_set_aside{kind="Workload",room="lowering",replica_role="standalone"} 0' in play.metrics.text()
    )
    assert play.is_recounted()


def test_a_workload_that_can_be_read_again_says_what_it_waits_for() -> None:
    is_mended = False

    def probe(part: str, ref: Ref) -> None:
        if part == "lowering" and ref == BAD and not is_mended:
            raise ValueError("not now")

    play = Play(holder("holds", 4), workload("alike"), workload("bad"), probe=probe)
    Virtual(play.clock, [play.engine]).run(Millis(NOON + 5_000))
    assert play.says("bad")[0] == "SetAside"
    is_mended = True
    play.run()
    assert play.says("bad")[0] == "WaitingForQuota"
    assert play.says("bad") == play.says("alike")


def test_what_a_workload_has_is_counted_though_its_pods_cannot_be_read() -> None:
    play = Play(holder("bad", 3), workload("waits", count=2))
    tree = play.store.get(kind_of(Workload), "default", "bad").tree()
    tree["spec"]["podSets"][0]["template"]["spec"]["topologySpreadConstraints"] = [SPREAD]
    put_past(play.store, tree)
    for _ in range(2):
        play.begin()
        play.run()
        assert play.used() == 3000
        assert not play.is_admitted("waits")
        assert play.told(BAD)


def test_one_that_can_be_read_no_more_counts_for_what_it_did() -> None:
    play = Play(holder("bad", 3), workload("waits", count=2))
    play.run()
    put_past(play.store, {**play.store.get(kind_of(Workload), "default", "bad").tree(), "status": {"conditions": 7}})
    play.run()
    assert play.used() == 3000
    assert not play.is_admitted("waits")


# --- queues, cohorts, flavors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [Ref(RESOURCE_FLAVOR, "", "f"), Ref(CLUSTER_QUEUE, "", "borrows"), Ref(COHORT, "", "all")],
    ids=lambda bad: bad.kind,
)
def test_a_workload_goes_on_when_what_it_needs_can_be_read_again_beside_another_change(bad: Ref) -> None:
    is_mended = False

    def probe(part: str, ref: Ref) -> None:
        if part == "lowering" and ref == bad and not is_mended:
            raise ValueError("not now")

    queues = cluster_queue("borrows", 0, cohortName="all"), local_queue("of-all", "borrows"), cohort("all", 4)
    play = Play(*queues, workload("waits", local="of-all"), probe=probe)
    play.come_to_rest()
    assert play.told(bad)
    assert not play.is_admitted("waits")
    is_mended = True
    play.store.load([flavor("another")])  # all of the configuration is read anew, before ``bad`` is tried again
    play.come_to_rest()
    assert play.engine.set_aside.all() == []
    assert play.is_admitted("waits")


# --- controllers ------------------------------------------------------------------------------------------------------


@dataclass
class Stumbling:
    """A controller that fails for one Workload, after some reconciles of it."""

    kinds: frozenset[str] = frozenset({"Workload"})
    looks: list[tuple[str, int]] = field(default_factory=list)
    is_mended: bool = False

    def react(self, ref: Ref, view: View, now: Millis) -> Outcome:
        self.looks.append((ref.name, now - NOON))
        if ref == BAD and not self.is_mended:
            raise KeyError("no such thing")
        return Outcome()


def test_a_controller_that_fails_for_one_is_asked_about_the_others_and_tries_that_one_a_bounded_number_of_times() -> (
    None
):
    stumbling = Stumbling()
    play = Play(workload("bad"), workload("good"), more=[stumbling])
    play.run()
    assert play.is_admitted("good")
    assert play.is_admitted("bad"), "others can read it"
    assert len(play.told(BAD)) == 1
    looks = [at for name, at in stumbling.looks if name == "bad"]
    assert TRIES_MAX <= len(looks) <= 3 * TRIES_MAX
    before, stumbling.is_mended = len(stumbling.looks), True
    play.store.patch(kind_of(Workload), "default", "bad", {"metadata": {"labels": {"mended": "yes"}}})
    play.run()
    assert len(stumbling.looks) > before
    assert play.engine.set_aside.all() == []


class Spoiling:
    """An edit that cannot be made."""

    def __call__(self, stored: Any) -> Any:
        raise ZeroDivisionError


@dataclass
class Editing:
    """A controller that wants the edit again and again."""

    kinds: frozenset[str] = frozenset({"Workload"})
    looks: int = 0

    def react(self, ref: Ref, view: View, now: Millis) -> Outcome:
        if ref != BAD or self.looks > LOOKS_MAX:
            return Outcome()
        self.looks += 1
        return Outcome((Action(Change(BAD, Spoiling(), assumed="counted")),))


LOOKS_MAX = 500


def test_an_edit_that_cannot_be_made_fails_alone_and_is_asked_for_less_and_less() -> None:
    editing = Editing()
    play = Play(workload("bad"), workload("good"), more=[editing])
    Virtual(play.clock, [play.engine]).run(Millis(NOON + HOUR // 6))
    assert play.is_admitted("good")
    assert "executor" in {part for ref, part, _ in play.engine.set_aside.all() if ref == BAD}
    assert play.engine.is_quiet
    assert 5 < editing.looks < 60


def test_a_pod_that_cannot_be_read_is_expected_by_its_budget_and_not_healthy() -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }  # fmt: skip
    play = Play(NODE, budget)
    bad = UNREADABLE["Pod on a node"]
    put_past(play.store, {**bad, "metadata": {**bad["metadata"], "labels": {"app": "a"}}})
    play.begin()
    play.run()
    kind = kind_of(PodDisruptionBudget)
    status = play.store.get(kind, "default", "b").tree()["status"]
    assert (status["expectedPods"], status["currentHealthy"]) == (1, 0)
    assert Ref(POD_DISRUPTION_BUDGET, "default", "b") not in {ref for ref, _, _ in play.engine.set_aside.all()}


def test_a_pod_for_which_no_place_can_be_sought_waits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sought = placing_cycle

    def fails(state: Any, item: Any, **options: Any) -> Any:
        if item == ForPod(("default", "bad")):
            raise IndexError("no such row")
        return sought(state, item, **options)

    monkeypatch.setattr(pod_scheduling, "cycle", fails)
    play = Play(NODE, GOOD_POD, {**GOOD_POD, "metadata": {"name": "bad", "namespace": "default"}})
    play.run()
    bad = Ref(POD, "default", "bad")
    assert [play.pod(name).node_name for name in ("good", "bad")] == ["here", ""]
    assert len(play.told(bad)) == 1
    monkeypatch.undo()
    play.store.patch(kind_of(Pod), "default", "bad", {"metadata": {"labels": {"mended": "yes"}}})
    play.run()
    assert play.pod("bad").node_name == "here"
    assert play.engine.set_aside.all() == []


# --- cycles -----------------------------------------------------------------------------------------------------------


def test_a_head_that_no_cycle_can_decide_about_is_out_of_the_line_and_others_have_its_turn() -> None:
    is_mended = False
    tries = 0

    def probe(part: str, ref: Ref) -> None:
        nonlocal tries
        if part == "cycle" and ref == BAD and not is_mended:
            tries += 1
            raise RecursionError("too deep")

    bad = workload("bad", priority=9)
    play = Play(bad, *(workload(f"w{n}") for n in range(3)), probe=probe)
    play.run()
    assert [play.is_admitted(f"w{n}") for n in range(3)] == [True] * 3
    status = play.workload("bad").status
    assert status is not None
    said = find(status.conditions, "QuotaReserved")
    assert said is not None
    assert (said.status, said.reason) == ("False", "SetAside")
    before, tree = tries, play.store.get(kind_of(Workload), "default", "bad").tree()
    tree["status"]["conditions"].append(condition("Noticed"))
    put_past(play.store, tree)
    play.engine.step(play.clock.now)
    assert tries == before, "nothing has changed that decisions depend on"
    is_mended = True
    play.store.patch(kind_of(Workload), "default", "bad", {"spec": {"priority": 8}})
    play.run()
    assert play.is_admitted("bad")
    assert play.engine.set_aside.all() == []
    assert play.used() == 4000
    assert play.is_recounted()


def test_a_decision_that_cannot_be_written_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(workload("bad"), workload("good"))
    asked = play.engine.scheduler.plans.actions_of

    def fails(verdict: Any, *rest: Any) -> list[Action]:
        if verdict.workload.key == BAD.key:
            raise ValueError("no words for it")
        return asked(verdict, *rest)

    monkeypatch.setattr(play.engine.scheduler.plans, "actions_of", fails)
    play.run()
    assert play.is_admitted("good")
    assert not play.is_admitted("bad")
    assert play.used() == 1000


def test_a_change_that_the_state_cannot_take_changes_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(holder("bad", 2), workload("good"))
    play.run()
    before = play.engine.state.fingerprint()
    held = play.engine.state.holders.add

    def fails(workload: Any) -> None:
        held(workload)
        raise AssertionError("half way")

    monkeypatch.setattr(play.engine.state.holders, "add", fails)
    tree = play.store.get(kind_of(Workload), "default", "bad").tree()
    tree["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] = {"cpu": "3"}
    put_past(play.store, tree)
    play.engine.step(play.clock.now)
    assert play.engine.state.fingerprint() == before
    assert "state" in {part for ref, part, _ in play.engine.set_aside.all() if ref == BAD}
    monkeypatch.undo()
    play.run()
    assert play.used() == 4000
    assert play.engine.set_aside.all() == []


# --- what is remembered and told --------------------------------------------------------------------------------------


def aside(notes: deque[Note] | None = None, metrics: MetricsRegistry | None = None) -> SetAside:
    return SetAside(deque() if notes is None else notes, metrics, anything)


def test_the_same_cause_is_told_once_and_another_one_anew(set_aside: list[str]) -> None:
    notes: deque[Note] = deque()
    snapshot = aside(notes)
    snapshot.listeners.append(logged)
    for text in ("a", "a", "b", "b"):
        snapshot.put(BAD, "cycle", ValueError(text), NOON)
    assert len(notes) == len(set_aside) == snapshot.total == 2
    assert "Traceback" not in notes[0].message
    assert "ValueError: a" in set_aside[0]


def test_what_is_not_tolerated_is_raised_as_it_came() -> None:
    error = ValueError("a fault of ours")
    with pytest.raises(ValueError, match="a fault of ours") as caught:
        SetAside(deque()).put(BAD, "cycle", error, NOON)
    assert caught.value is error


def test_pauses_grow_and_tries_are_bounded_until_the_object_changes() -> None:
    snapshot = aside()
    now, pauses = NOON, []
    for _ in range(20):
        snapshot.put(BAD, "cycle", ValueError("x"), now)
        at = snapshot.next_at()
        if at is None:
            break
        pauses.append(at - now)
        now = at
        assert list(snapshot.due(now)) == [BAD]
    assert pauses == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
    snapshot.changed(BAD)
    snapshot.put(BAD, "cycle", ValueError("x"), now)
    assert snapshot.next_at() == now + 1000


def test_looks_by_others_use_up_no_tries() -> None:
    snapshot = aside()
    for number in range(20):
        snapshot.put(BAD, "cycle", ValueError("x"), Millis(NOON + 50 * number))
    assert snapshot.next_at() == NOON + 1000
    assert list(snapshot.due(Millis(NOON + 1000))) == [BAD]
    snapshot.put(BAD, "cycle", ValueError("x"), Millis(NOON + 1000))
    assert snapshot.next_at() == NOON + 3000


def test_a_part_that_gives_up_later_is_tried_again_soon_and_puts_off_no_other() -> None:
    snapshot = aside()
    for second in (0, 1, 3, 7):
        list(snapshot.due(Millis(NOON + 1000 * second)))
        snapshot.put(BAD, "cycle", ValueError("x"), Millis(NOON + 1000 * second))
    assert snapshot.next_at() == NOON + 15_000
    snapshot.put(BAD, "metrics", ValueError("x"), Millis(NOON + 14_500))
    assert snapshot.next_at() == NOON + 15_000
    snapshot.changed(BAD)
    snapshot.put(BAD, "cycle", ValueError("x"), Millis(NOON + 9_000))
    assert snapshot.next_at() == NOON + 10_000


def test_of_many_the_oldest_are_forgotten() -> None:
    snapshot = aside(metrics=MetricsRegistry())
    for number in range(10_050):
        snapshot.put(Ref(POD, "default", f"p{number}"), "node", ValueError("x"), NOON, again=False)
    assert len(snapshot.all()) == 10_000
    assert ("Pod", "default", "p0") not in {ref for ref, _, _ in snapshot.all()}


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (KeyError(), "KeyError"),
        (MemoryError(), "MemoryError"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 388 + "…"),
    ],
)
def test_a_cause_is_one_line_of_some_length(error: Exception, cause: str) -> None:
    assert cause_of(error) == cause
