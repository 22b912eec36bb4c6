"""Notes become events: one object each, counted where they repeat, bounded, and never in the way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import Event
from makeway.api.validation import validate
from makeway.api.versions import kind_of
from makeway.controllers.contract import CLUSTER_QUEUE, WORKLOAD, Note, Ref
from makeway.core.model import Millis
from makeway.runtime import events
from makeway.runtime.events import Recorder, source_of
from makeway.runtime.executor import Call
from makeway.runtime.ports import Forbidden, Stored, Unavailable
from tests.runtime.wires import cluster_queue, workload

EVENTS = kind_of(Event)
NOON = Millis(1_767_268_800_000)
ABOUT = Ref(WORKLOAD, "team", "train")


class Desk:
    """A Recorder over a Store in memory that answers when the test says so."""

    def __init__(self) -> None:
        self.now = NOON
        self.store = MemoryStore(lambda: self.now)
        self.objects: dict[Ref, Any] = {ABOUT: workload("train", namespace="team", meta={"resourceVersion": "7"})}
        self.notes: deque[Note] = deque()
        self.calls: list[Call] = []
        self.held: list[tuple[Call, Future[Stored]]] = []
        self.holds = False
        self.error: Exception | None = None
        self.pokes = 0
        self.recorder = Recorder(self.notes, self.objects.get, self.submit, self.poke)

    def submit(self, call: Call) -> Future[Stored]:
        self.calls.append(call)
        future: Future[Stored] = Future()
        self.held.append((call, future))
        if not self.holds:
            self.answer()
        return future

    def answer(self) -> None:
        held, self.held = self.held, []
        for call, future in held:
            try:
                if self.error is not None:
                    raise self.error
                future.set_result(call(self.store))
            except Exception as error:
                future.set_exception(error)

    def poke(self) -> None:
        self.pokes += 1

    def tell(self, message: str = "no quota", *, reason: str = "WaitingForQuota", about: Ref = ABOUT) -> None:
        self.notes.append(Note(about, "Warning", reason, message))

    def step(self, times: int = 4) -> None:
        for _ in range(times):
            self.recorder.step(self.now)

    def pass_ms(self, span: int) -> None:
        self.now = Millis(self.now + span)
        self.step()

    def stored(self) -> list[Event]:
        return [each.value() for each in self.store.list(EVENTS).items]


def test_a_note_becomes_an_event_that_says_who_about_whom_and_when() -> None:
    desk = Desk()
    desk.tell()
    desk.step()
    (event,) = desk.stored()
    about = event.involved_object
    assert (about.kind, about.namespace, about.name) == ("Workload", "team", "train")
    assert (about.api_version, about.uid) == ("kueue.x-k8s.io/v1beta2", "Workload-train")
    assert (event.type, event.reason, event.message, event.count) == ("Warning", "WaitingForQuota", "no quota", 1)
    assert event.metadata.namespace == "team"
    assert event.metadata.name.startswith("train.")
    assert event.source is not None
    assert event.source.component == event.reporting_component == "kueue-admission"
    assert str(event.first_timestamp) == str(event.last_timestamp) == "2026-01-01T12:00:00Z"


def test_an_object_without_a_namespace_has_its_events_in_the_default_one() -> None:
    desk = Desk()
    desk.objects[Ref(CLUSTER_QUEUE, "", "q")] = cluster_queue()
    desk.tell(about=Ref(CLUSTER_QUEUE, "", "q"))
    desk.step()
    (event,) = desk.stored()
    assert (event.metadata.namespace, event.involved_object.namespace) == ("default", "")


def test_an_object_that_is_gone_has_its_event_all_the_same() -> None:
    desk = Desk()
    desk.tell(about=Ref(WORKLOAD, "team", "gone"))
    desk.step()
    (event,) = desk.stored()
    assert (event.involved_object.name, event.involved_object.uid) == ("gone", "")


@pytest.mark.parametrize(
    ("kind", "type", "reason", "source"),
    [
        ("Workload", "Normal", "Admitted", "kueue-admission"),
        ("Workload", "Warning", "ExceedsMaxQuota", "kueue-admission"),
        ("Workload", "Warning", "AdmissionCheckRejected", "kueue-workload-controller"),
        ("Workload", "Normal", "EvictedDueToPreempted", "kueue-workload-controller"),
        ("Job", "Warning", "ErrWorkloadCompose", "kueue-job-controller"),
    ],
)
def test_the_source_is_the_one_that_scripts_know(kind: str, type: str, reason: str, source: str) -> None:
    assert source_of(Note(Ref.named(kind, "team", "a"), type, reason, "")) == source


# --- the same again ---------------------------------------------------------------------------------------------------


def test_the_same_again_is_counted_and_stored_after_a_while() -> None:
    desk = Desk()
    desk.tell()
    desk.step()
    for _ in range(3):
        desk.tell()
    desk.pass_ms(2000)
    assert [event.count for event in desk.stored()] == [1]
    assert desk.recorder.next_at() == NOON + events.REPEATS_MS
    desk.pass_ms(3000)
    (event,) = desk.stored()
    assert event.count == 4
    assert (str(event.first_timestamp), str(event.last_timestamp)) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:02Z")
    assert len(desk.calls) == 2
    assert desk.recorder.next_at() is None


def test_what_is_told_again_before_it_was_written_is_written_once() -> None:
    desk = Desk()
    for _ in range(5):
        desk.tell()
    desk.step()
    assert [event.count for event in desk.stored()] == [5]
    assert len(desk.calls) == 1


def test_what_is_told_again_while_it_is_being_written_is_counted_after_that() -> None:
    desk = Desk()
    desk.holds = True
    desk.tell()
    desk.step()
    desk.tell()
    desk.step()
    assert len(desk.calls) == 1
    desk.holds = False
    desk.answer()
    desk.pass_ms(events.REPEATS_MS)
    assert [event.count for event in desk.stored()] == [2]


def test_another_message_type_or_object_is_another_event() -> None:
    desk = Desk()
    desk.tell("a")
    desk.tell("b")
    desk.tell("a", reason="Inadmissible")
    desk.step()
    desk.objects[ABOUT] = workload("train", namespace="team", meta={"uid": "another"})
    desk.tell("a")
    desk.step()
    assert len({event.metadata.name for event in desk.stored()}) == 4


def test_an_event_that_lived_long_enough_is_told_anew_under_another_name() -> None:
    desk = Desk()
    desk.tell()
    desk.step()
    (before,) = desk.stored()
    desk.store.delete(EVENTS, "team", before.metadata.name)
    desk.tell()
    desk.pass_ms(events.REPEATS_MS)
    (after,) = desk.stored()
    assert after.metadata.name != before.metadata.name
    assert after.count == 2


def test_a_name_that_is_taken_is_not_the_end_of_it() -> None:
    desk, other = Desk(), Desk()
    other.store = desk.store
    for each in (desk, other):  # as after a restart within the same millisecond
        each.tell()
        each.step()
    assert len(desk.stored()) == 2
    assert other.recorder.lost == 0


# --- bounds -----------------------------------------------------------------------------------------------------------


def many(desk: Desk, count: int, about: Callable[[int], Ref] = lambda i: Ref(WORKLOAD, "team", f"w-{i}")) -> None:
    for i in range(count):
        desk.tell(f"message {i}", about=about(i))


def test_of_one_object_only_so_many_are_new_in_a_time() -> None:
    desk = Desk()
    many(desk, 100, lambda i: ABOUT)
    desk.step(10)
    assert len(desk.stored()) == events.OBJECT_BURST
    assert desk.recorder.lost == 100 - events.OBJECT_BURST
    desk.pass_ms(2 * events.OBJECT_EVERY_MS)
    many(desk, 100, lambda i: ABOUT)
    desk.tell("about another", about=Ref(WORKLOAD, "team", "b"))
    desk.step(10)
    assert len(desk.stored()) == events.OBJECT_BURST + 2 + 1


def test_all_together_only_so_many_are_new_in_a_time() -> None:
    desk = Desk()
    for _ in range(4):
        many(desk, 900, lambda i: Ref(WORKLOAD, "team", f"w-{len(desk.calls)}-{i}"))
        desk.step(40)
    assert len(desk.stored()) == events.ALL_BURST == 3600 - desk.recorder.lost


def test_a_store_that_does_not_answer_holds_only_so_many() -> None:
    desk = Desk()
    desk.holds = True
    many(desk, 1500)
    desk.step(10)
    assert len(desk.calls) == events.UNDER_WAY_MAX
    held = events.WAITING_MAX + events.UNDER_WAY_MAX
    assert desk.recorder.lost == 1500 - held
    desk.holds = False
    desk.answer()
    desk.step(40)
    assert len(desk.stored()) == held


@pytest.mark.parametrize("error", [Forbidden("namespace team is being terminated"), Unavailable("full")])
def test_what_does_not_get_through_is_lost_and_counted(error: Exception) -> None:
    desk = Desk()
    desk.error = error
    desk.tell()
    desk.step()
    assert (desk.stored(), desk.recorder.lost) == ([], 1)
    desk.error = None
    desk.tell()
    desk.step()
    assert [event.count for event in desk.stored()] == [1]


def test_a_store_that_is_closed_is_no_error_of_the_engine() -> None:
    desk = Desk()

    def closed(call: Call) -> Future[Stored]:
        raise Unavailable("the storage is closed")

    recorder = Recorder(desk.notes, desk.objects.get, closed, desk.poke)
    desk.tell()
    recorder.step(NOON)
    assert recorder.lost == 1


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KNOWN_MAX", 10)
    desk = Desk()
    for i in range(30):
        desk.tell(about=Ref(WORKLOAD, "team", f"w-{i}"))
        desk.step()
    desk.tell(about=Ref(WORKLOAD, "team", "w-0"))
    desk.pass_ms(events.REPEATS_MS)
    assert desk.recorder.lost == 0
    assert len(desk.stored()) == 31, "the first one is not known any more, and is told anew"


def test_without_notes_nothing_happens() -> None:
    desk = Desk()
    assert not desk.recorder.step(NOON)
    assert desk.recorder.next_at() is None


def test_long_names_and_messages_are_cut() -> None:
    desk = Desk()
    desk.tell("x" * 5000, about=Ref(WORKLOAD, "team", "w" * 253))
    desk.step()
    (event,) = desk.stored()
    assert len(event.message) == events.MESSAGE_BYTES_MAX
    assert len(event.metadata.name) == 253


def test_a_message_is_cut_by_its_bytes_and_between_characters() -> None:
    desk = Desk()
    desk.tell("é" * 600 + "!")
    desk.tell("." + "é" * 600)
    desk.step()
    assert sorted(event.message for event in desk.stored()) == ["." + "é" * 511, "é" * 512]


def test_an_event_is_whole_for_clients_of_either_group() -> None:
    desk = Desk()
    desk.tell()
    desk.step()
    (event,) = desk.stored()
    assert str(event.event_time) == "2026-01-01T12:00:00.000000Z"
    assert (event.action, event.reporting_instance) == ("WaitingForQuota", "makeway")
    assert validate(event) == []
    desk.tell()
    desk.pass_ms(events.REPEATS_MS)
    (again,) = desk.stored()
    assert (again.count, again.event_time) == (2, event.event_time)
