"""Actions become writes: order, conflicts, time-outs, actions that follow, and effects that are taken back."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import Cohort, CohortSpec
from makeway.api.problems import Problem
from makeway.api.versions import kind_of
from makeway.controllers.contract import COHORT, Action, Change, Create, Delete, Ref
from makeway.core.model import Millis
from makeway.runtime.executor import ATTEMPTS_MAX, Call, Executor, WriteAnswer, called
from makeway.runtime.informers import Informers
from makeway.runtime.objects import ObjectCache
from makeway.runtime.ports import Conflict, NotFound, TimedOut, TooLarge, Unavailable

A, B = Ref(COHORT, "", "a"), Ref(COHORT, "", "b")
NOW = Millis(1_000_000)


@dataclass(frozen=True)
class Parent:
    """An edit of the spec."""

    name: str

    def __call__(self, cohort: Any) -> Any:
        return replace(cohort, spec=replace(cohort.spec, parent_name=self.name))


@dataclass(frozen=True)
class Never:
    def __call__(self, cohort: Any) -> Any:
        return None


@dataclass
class PlannedWriter:
    """A Writer whose answers are planned: an error instead of the call, or after it; None is the call itself."""

    store: MemoryStore
    plan: list[Any] = field(default_factory=list)
    holds: bool = False  # answers wait until the test releases them
    waiting: list[Any] = field(default_factory=list)
    calls: int = 0

    def send(self, number: int, call: Call, now: Millis) -> None:
        self.calls += 1
        what = self.plan.pop(0) if self.plan else None
        if isinstance(what, tuple):  # applied, and the answer lost
            called(self.store, number, call)
            self.waiting.append(WriteAnswer(number, error=what[0]))
        elif what is not None:
            self.waiting.append(WriteAnswer(number, error=what))
        else:
            self.waiting.append(called(self.store, number, call))

    def answers(self, now: Millis) -> list[WriteAnswer]:
        if self.holds:
            return []
        found, self.waiting = self.waiting, []
        return found

    def next_at(self) -> Millis | None:
        return None


class World:
    def __init__(self, *plan: Any) -> None:
        self.store = MemoryStore(lambda: NOW)
        self.store.load([Cohort(metadata=ObjectMeta(name=name)) for name in ("a", "b")])
        self.objects = ObjectCache(lambda *_: None, lambda *_: None)
        self.writer = PlannedWriter(self.store, list(plan))
        self.done: list[tuple[str, bool]] = []
        self.executor = Executor(
            self.writer, self.objects, lambda action, stored: self.done.append((action.decision, stored))
        )
        self.informers = Informers(self.store, self.objects)
        self.informers.poll(NOW)

    def parent(self, ref: Ref = A) -> str:
        return str(self.stored(ref).spec.parent_name)

    def known(self, ref: Ref[Cohort] = A) -> str:
        value = self.objects.get(ref)
        return "" if value is None else str(value.spec.parent_name)

    def expected(self, ref: Ref[Cohort] = A) -> str:
        value = self.objects.expected(ref)
        return "" if value is None else str(value.spec.parent_name)

    def stored(self, ref: Ref) -> Any:
        return self.store.get(kind_of(Cohort), ref.namespace, ref.name).value()

    def work(self, now: int = NOW, times: int = 10) -> None:
        for _ in range(times):
            self.executor.work(Millis(now))


def change(name: str, ref: Ref = A, **more: Any) -> Action:
    then, assumed = more.pop("then", ()), more.pop("assumed", "counted")
    return Action(Change(ref, Parent(name), status=False, assumed=assumed, **more), then=then, decision=name)


def test_a_write_is_made_and_its_answer_is_known_before_any_watch() -> None:
    world = World()
    world.executor.submit(change("x"), NOW)
    assert world.executor.is_busy(A)
    world.work()
    assert world.parent() == "x" == world.known()
    assert world.done == [("x", True)]
    assert not world.executor.is_busy(A)


def test_one_write_per_object_is_under_way_and_the_second_builds_on_the_first() -> None:
    world = World()
    world.writer.holds = True
    world.executor.submit(change("x"), NOW)
    world.executor.submit(change("y"), NOW)
    world.executor.submit(change("z", B), NOW)
    assert world.writer.calls == 2
    assert world.expected(A) == "y"
    world.writer.holds = False
    world.work()
    assert (world.parent(), world.parent(B)) == ("y", "z")
    assert [name for name, _ in world.done] == ["x", "z", "y"]


def test_what_follows_waits_for_what_it_follows() -> None:
    world = World()
    world.writer.holds = True
    world.executor.submit(change("x", then=(change("y", B),)), NOW)
    assert world.writer.calls == 1
    assert world.expected(B) == "y", "but it is expected already"
    world.writer.holds = False
    world.work()
    assert world.parent(B) == "y"


def test_what_follows_a_failure_never_happens_and_is_no_longer_expected() -> None:
    world = World(*[NotFound("gone")])
    world.executor.submit(change("x", then=(change("y", B),)), NOW)
    world.work()
    assert world.parent(B) == ""
    assert world.expected(B) == ""
    assert world.done == [("y", False), ("x", False)]


def test_a_conflict_reads_what_is_there_and_edits_that() -> None:
    world = World()
    labelled = replace(world.stored(A), metadata=replace(world.stored(A).metadata, labels={"by": "another"}))
    world.store.update(labelled)  # and no watch has reported it
    world.executor.submit(change("x"), NOW)
    world.work()
    assert world.parent() == "x"
    assert world.stored(A).metadata.labels == {"by": "another"}, "no change is lost"


def test_a_strict_write_gives_up_on_a_conflict_but_knows_what_is_there() -> None:
    world = World()
    world.store.update(replace(world.stored(A), spec=CohortSpec(parent_name="another")))
    world.executor.submit(change("x", strict=True), NOW)
    world.work()
    assert world.parent() == "another" == world.known()
    assert world.done == [("x", False)]


@pytest.mark.parametrize("error", [Unavailable("busy"), TimedOut("?")])
def test_a_strict_write_that_gives_up_is_not_made_after_all_when_the_read_fails(error: Any) -> None:
    world = World(None, error)
    world.store.update(replace(world.stored(A), spec=CohortSpec(parent_name="another")))
    world.executor.submit(change("x", strict=True), NOW)
    world.work()
    assert world.done == [], "it will read again"
    world.informers.poll(NOW)
    world.work(NOW + 1000)
    assert world.done == [("x", False)]
    assert world.parent() == "another" == world.known()


@pytest.mark.parametrize("lost", [TimedOut("?"), (TimedOut("?"),)], ids=["not applied", "applied"])
def test_after_a_time_out_the_object_tells_what_happened(lost: Any) -> None:
    world = World(lost)
    world.executor.submit(change("x"), NOW)
    world.work()
    world.work(NOW + 1000)
    assert world.parent() == "x"
    assert world.done == [("x", True)]
    writes = int(world.store.resource_version) - 3
    assert writes == 1, "written once, not twice"


def test_failures_are_tried_again_with_growing_pauses_then_given_up() -> None:
    world = World(*[Unavailable("busy")] * 50)
    world.executor.submit(change("x"), NOW)
    at, times = NOW, []
    while world.executor.is_busy(A):
        world.work(at, times=1)
        following = world.executor.next_at()
        if following is not None and following > at:
            times.append((following - at) // 1000)
            at = following
    assert times == [1, 2, 4, 8, 16, 32][:ATTEMPTS_MAX]
    assert world.done == [("x", False)]
    assert world.expected(A) == ""


def test_what_is_too_large_is_tried_once_and_longer_waited_for_each_time() -> None:
    refused = TooLarge([Problem("", "too large", cause="TooLong")])
    world = World(refused, refused)
    for times in (1, 2):
        world.executor.submit(change("x"), NOW)
        world.work()
        assert (world.writer.calls, world.executor.refusals[A]) == (times, times)
        assert world.executor.next_at() is None, "nothing is tried again by itself"
    assert world.done == [("x", False)] * 2
    assert world.expected() == ""


def test_what_no_longer_applies_is_not_written() -> None:
    world = World()
    world.executor.submit(Action(Change(A, Never(), status=False), decision="never"), NOW)
    world.executor.submit(change("x", uid="somebody else"), NOW)
    world.work()
    assert world.writer.calls == 0
    assert world.done == [("never", False), ("x", False)]


def test_what_is_so_already_is_not_written() -> None:
    world = World()
    world.executor.submit(change(""), NOW)
    assert world.writer.calls == 0
    assert world.done == [("", True)]


def test_what_frees_quota_is_not_assumed() -> None:
    world = World()
    world.writer.holds = True
    world.executor.submit(change("x", assumed="no"), NOW)
    assert world.expected(A) == ""


def test_creating_what_is_there_counts_as_done() -> None:
    world = World()
    world.executor.submit(Action(Create(Cohort(metadata=ObjectMeta(name="a"))), decision="again"), NOW)
    world.work()
    assert world.done == [("again", True)]


def test_creating_is_tried_again_when_somebody_seemed_quicker() -> None:
    world = World(Conflict("somebody was quicker"))
    world.executor.submit(Action(Create(Cohort(metadata=ObjectMeta(name="new"))), decision="new"), NOW)
    world.work()
    assert world.done == []
    world.work(NOW + 1000)
    assert world.done == [("new", True)]
    assert world.stored(Ref(COHORT, "", "new")).metadata.name == "new"


def test_deleting_takes_it_out_and_deleting_what_is_gone_is_done() -> None:
    world = World()
    world.executor.submit(Action(Delete(A), decision="first"), NOW)
    world.work()
    assert world.objects.get(A) is None
    world.executor.submit(Action(Delete(A), decision="second"), NOW)
    assert world.done == [("first", True), ("second", True)]


def test_a_conflict_that_never_ends_is_given_up() -> None:
    world = World(*[each for _ in range(100) for each in (Conflict("no"), None)])
    world.executor.submit(change("x"), NOW)
    world.work(times=100)
    assert world.done == [("x", False)]
