"""One step: what it does in which order, when the next one is due, and that without news nothing is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.conditions import find, is_true
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.controllers.contract import NOTHING, WORKLOAD, Controller, Outcome, Ref, View
from makeway.controllers.standard import standard
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.executor import DirectWriter, WriteAnswer
from makeway.runtime.informers import watched_kinds
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.ports import Forbidden, NotFound, Unavailable
from makeway.runtime.steps import reconciler
from tests.runtime.measuring import value
from tests.runtime.wires import cluster_queue, condition, flavor, groups, holder, local_queue, workload

NOON = Millis(1_767_268_800_000)
MINUTE = 60_000
KIND = kind_of(Workload)


@dataclass
class Watcher:
    """A controller that notes the objects it reconciles, and asks for another reconcile when the test says so."""

    kinds: frozenset[str] = frozenset({"Workload"})
    looks: list[tuple[str, int]] = field(default_factory=list)
    again_at: Millis | None = None

    def react(self, ref: Ref, view: View, now: Millis) -> Outcome:
        self.looks.append((ref.name, now - NOON))
        return NOTHING if self.again_at is None or self.again_at <= now else Outcome(again_at=self.again_at)


class Play:
    def __init__(
        self, *objects: Any, policy: Policy | None = None, all_of: list[Controller] | None = None,
        writer: type[DirectWriter] = DirectWriter, **settings: Any,
    ) -> None:  # fmt: skip
        self.now = NOON
        self.store = MemoryStore(lambda: self.now, careful=False)
        self.store.load([flavor(), *objects])
        chosen = standard(lambda _: 0) if all_of is None else all_of
        self.writer = writer(self.store)
        self.engine = Engine(
            self.store, policy or Policy.default(), chosen, writer=self.writer, figures_ms=0, **settings
        )

    def settle(self, at: int | None = None) -> int:
        """Step until nothing happens any more; return how many steps it took."""
        if at is not None:
            self.now = Millis(NOON + at)
        for steps in range(1, 200):
            if not self.engine.step(self.now):
                return steps
        raise AssertionError("it does not come to rest")

    def says(self, name: str, type_: str) -> bool:
        status = self.store.get(KIND, "default", name).value().status
        return status is not None and is_true(status.conditions, type_)

    def reason(self, name: str) -> tuple[str, str]:
        """Reason and message of QuotaReserved=False."""
        status = self.store.get(KIND, "default", name).value().status
        found = None if status is None else find(status.conditions, "QuotaReserved")
        return ("", "") if found is None else (found.reason, found.message)


def small(**spec: Any) -> list[Any]:
    return [cluster_queue(nominal=2, **spec), local_queue()]


def test_what_arrives_is_admitted_and_then_nothing_happens() -> None:
    play = Play(*small(), workload("w"))
    play.settle()
    assert play.says("w", "Admitted")
    play.settle(MINUTE)  # queues write their statuses now and then
    assert play.engine.next_at() is None
    cycles, revision = play.engine.cycles, play.store.resource_version
    assert play.settle(10 * MINUTE) == 1
    assert (play.engine.cycles, play.store.resource_version) == (cycles, revision)
    assert play.engine.is_quiet


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_refused_head_is_looked_at_again_only_when_something_changed(strategy: str) -> None:
    play = Play(*small(queueingStrategy=strategy), holder("h", 2), workload("w"))
    play.settle()
    cycles = play.engine.cycles
    assert cycles > 0
    for minute in range(1, 60):
        play.settle(minute * MINUTE)
    assert play.engine.cycles == cycles
    play.store.patch(kind_of(ClusterQueue), "", "q", {"spec": {"resourceGroups": groups(3)}})
    play.settle()
    assert play.says("w", "Admitted")


def test_s4_6_7_an_equal_that_had_its_time_wakes_its_queue_to_the_second() -> None:
    """The span is exceeded one second after its end, as times are stored in seconds (S-7.9)."""
    within = {"withinClusterQueue": "LowerOrNewerEqualPriority", "withinClusterQueueConfig": {"minAdmitDuration": "5m"}}
    late = {"creationTimestamp": "2026-01-01T12:00:30Z"}
    play = Play(*small(preemption=within), holder("h", 2), workload("w", meta=late))
    play.settle(MINUTE)
    assert play.engine.next_at() == NOON + 5 * MINUTE + 1000
    cycles = play.engine.cycles
    play.settle(5 * MINUTE)
    assert play.engine.cycles == cycles
    play.settle(5 * MINUTE + 1000)
    assert play.engine.cycles > cycles
    [evicted] = [each for each in play.engine.journal.of(WorkloadKey("default/h")) if each.what == "evicted"]
    assert (evicted.reason, evicted.by) == ("InClusterQueueTimeBased", "default/w")
    [decided] = [each for each in play.engine.journal.of(WorkloadKey("default/w")) if each.what == "preempting"]
    assert evicted.decision == decided.decision != "", "all lines of one decision carry its id"


def test_wakes_of_one_step_are_one_and_those_of_an_interval_wait_for_its_end() -> None:
    policy = replace(Policy.default(), wake_batch_interval_ms=1000)
    play = Play(*small(), holder("h", 2), workload("w"), policy=policy)
    play.settle()
    play.settle(2000)
    wakes = play.engine.state.pending.list_of(QueueName("q")).wakes
    play.store.delete(KIND, "default", "h")
    play.settle(5000)
    assert not play.says("w", "Admitted")
    assert play.engine.next_at() == NOON + 6000
    play.settle(6000)
    assert play.says("w", "Admitted")
    assert play.engine.state.pending.list_of(QueueName("q")).wakes == wakes + 1


def test_a_back_off_ends_at_its_time() -> None:
    state = {"requeueState": {"count": 1, "requeueAt": "2026-01-01T12:05:00Z"}}
    play = Play(*small(), workload("w", condition("Requeued"), status=state))
    play.settle()
    play.settle(1000)  # by now its status is written
    assert play.reason("w") == ("PendingEvaluation", "Backs off until 2026-01-01T12:05:00Z")
    assert (play.engine.next_at(), play.engine.cycles) == (NOON + 5 * MINUTE, 0)
    play.settle(5 * MINUTE)
    assert play.says("w", "Admitted")


# --- controllers ------------------------------------------------------------------------------------------------------


def test_a_controller_is_told_of_its_kinds_and_looks_again_when_it_wants_to() -> None:
    watcher = Watcher(again_at=Millis(NOON + 7000))
    play = Play(workload("w"), all_of=[watcher])
    play.settle()
    assert watcher.looks == [("w", 0)]
    assert play.engine.next_at() == NOON + 7000
    play.settle(7000)
    assert watcher.looks == [("w", 0), ("w", 7000)]
    assert play.engine.next_at() is None


def test_who_is_gone_is_not_looked_at_at_the_time_it_named() -> None:
    watcher = Watcher(again_at=Millis(NOON + 7000))
    play = Play(workload("w"), all_of=[watcher])
    play.settle()
    play.store.delete(KIND, "default", "w")
    watcher.again_at = None
    play.settle()
    assert play.engine.next_at() is None


def test_there_is_an_end_to_the_looks_of_one_step_and_the_rest_comes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "RECONCILES_PER_STEP", 3)
    watcher = Watcher()
    play = Play(*(workload(f"w{number}") for number in range(8)), all_of=[watcher])
    assert play.engine.step(play.now), "there is more to do"
    assert len(watcher.looks) == 3
    play.settle()
    assert sorted(name for name, _ in watcher.looks) == [f"w{number}" for number in range(8)]


# --- a store that fails -----------------------------------------------------------------------------------------------


def test_while_the_store_fails_nothing_spins_and_afterwards_all_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*small(), workload("w"))
    broken = {"is": True}
    listed = play.store.list

    def fails(*args: Any, **more: Any) -> Any:
        if broken["is"]:
            raise Unavailable("not now")
        return listed(*args, **more)

    monkeypatch.setattr(play.store, "list", fails)
    asked = 0
    while play.now < NOON + 10 * MINUTE:
        assert play.settle() == 1
        at = play.engine.next_at()
        assert at is not None
        assert at > play.now
        play.now = at
        asked += 1
    assert asked < 400, "pauses grow"
    broken["is"] = False
    play.settle(30 * MINUTE)
    assert play.says("w", "Admitted")


@pytest.mark.parametrize("kind", [kind.name for kind in watched_kinds()])
def test_before_all_is_known_nothing_is_decided(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that fails at the start must not look like a world without such objects: their quota is in use."""
    later = {"creationTimestamp": "2026-01-01T12:00:10Z"}
    play = Play(*small(), holder("h", 2), job(), workload("w", meta=later))
    listed = play.store.list

    def fails(asked: Any, *args: Any, **more: Any) -> Any:
        if asked.name == kind and play.now < NOON + MINUTE:
            raise Unavailable("not now")
        return listed(asked, *args, **more)

    monkeypatch.setattr(play.store, "list", fails)
    before = play.store.resource_version
    play.settle()
    play.settle(30_000)
    assert (play.store.resource_version, play.engine.cycles) == (before, 0)
    play.settle(3 * MINUTE)
    assert [each for each in ("h", "w") if play.says(each, "QuotaReserved")] == ["h"]
    assert play.engine.cycles > 0


def test_an_admission_that_cannot_be_written_is_taken_back_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(*small(), workload("w", count=2), workload("other", meta={"creationTimestamp": "2026-01-01T12:00:10Z"}))
    write = play.store.update_status

    def fails(body: Any) -> Any:
        if getattr(body, "kind", "") == "Workload" and body.metadata.name == "w" and play.now < NOON + 10 * MINUTE:
            raise Unavailable("not now")
        return write(body)

    monkeypatch.setattr(play.store, "update_status", fails)
    play.settle()
    assert "default/w" in play.engine.state.holders.by_key, "assumed while its write is under way"
    steps = 0
    while play.now < NOON + 20 * MINUTE:
        steps += play.settle()
        play.now = max(play.engine.next_at() or Millis(NOON + 20 * MINUTE), Millis(play.now + 1))
    assert steps < 500
    assert play.says("w", "Admitted") != play.says("other", "Admitted"), "one of them has the quota, not both"
    assert play.engine.journal.of(WorkloadKey("default/w"))[1].what == "failed"


@pytest.mark.parametrize("error", [Forbidden("the namespace is being terminated"), NotFound("no such namespace")])
def test_what_the_store_refuses_is_tried_again_with_growing_pauses(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Job in a namespace that is being deleted wants a Workload that cannot be made: the engine does not spin."""
    play = Play(*small(), job())
    tries: list[int] = []

    def refuses(body: Any) -> Any:
        tries.append(play.now - NOON)
        raise error

    create = play.store.create
    monkeypatch.setattr(play.store, "create", refuses)
    while play.now < NOON + 10 * MINUTE:
        play.settle()
        play.now = play.engine.next_at() or Millis(NOON + 10 * MINUTE)
    assert tries[:5] == [0, 1000, 3000, 7000, 15_000]
    assert len(tries) < 20
    monkeypatch.setattr(play.store, "create", create)
    play.settle(12 * MINUTE)
    assert len(play.store.list(KIND).items) == 1
    assert play.engine.executor.refusals == {}


def job() -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    meta = {"name": "j", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    spec = {"suspend": True, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def test_a_workload_that_its_job_makes_anew_is_known_at_once() -> None:
    """It has the name of the one before it, and the revision right after that one's removal."""
    play = Play(*small(), holder("h", 2), job())
    play.settle()
    [first] = [each for each in play.store.list(KIND).items if each.name != "h"]
    play.store.delete(KIND, "default", first.name)
    play.settle()
    second = play.store.get(KIND, "default", first.name)
    assert second.uid != first.uid
    known = play.engine.view.get(Ref(WORKLOAD, "default", first.name))
    assert known is not None
    assert known.metadata.uid == second.uid
    play.store.delete(KIND, "default", "h")
    play.settle()
    assert play.says(first.name, "QuotaReserved")


class Mute(DirectWriter):
    """Calls are made at once; their results are told only when the test says so."""

    is_mute = False

    def answers(self, now: Millis) -> Sequence[WriteAnswer]:
        return () if self.is_mute else super().answers(now)


def test_what_was_put_off_for_a_write_under_way_is_done_when_that_is_answered() -> None:
    """The watch reports that a Workload is gone before its last write is answered: its Job gets another one then."""
    play = Play(*small(), holder("h", 2), job(), writer=Mute)
    assert isinstance(play.writer, Mute)
    play.settle()
    [first] = [each for each in play.store.list(KIND).items if each.name != "h"]
    play.store.delete(KIND, "default", first.name)
    play.writer.is_mute = True
    play.settle()
    assert [each.name for each in play.store.list(KIND).items] == ["h"]
    play.writer.is_mute = False
    play.settle()
    assert play.store.get(KIND, "default", first.name).uid != first.uid


def crowd(**settings: Any) -> Play:
    objects = [*small(), holder("h", 1), *(workload(f"w{number}", priority=number % 2) for number in range(5))]
    return Play(*objects, **settings)


def test_the_time_of_a_cycle_is_shared_by_its_attempts_and_changes_nothing() -> None:
    ticks, metrics = count(), MetricsRegistry()
    measured = crowd(metrics=metrics, stopwatch=lambda: float(next(ticks)))
    plain = crowd()
    for play in (measured, plain):
        play.settle()
    assert list(measured.engine.journal.lines()) == list(plain.engine.journal.lines())
    name = "kueue_admission_attempt_duration_seconds"
    attempts = sum(value(metrics, f"{name}_count", result=result) or 0 for result in ("success", "inadmissible"))
    seconds = sum(value(metrics, f"{name}_sum", result=result) or 0 for result in ("success", "inadmissible"))
    assert attempts == measured.engine.decisions > 1
    assert seconds == pytest.approx(measured.engine.cycles), "a second for each, by this stopwatch"


def test_equal_stores_and_times_give_equal_journals() -> None:
    def told() -> list[bytes]:
        play = crowd()
        for second in range(0, 100, 7):
            play.settle(second * 1000)
        return list(play.engine.journal.lines())

    assert told() == told()
    assert len(told()) >= 2
