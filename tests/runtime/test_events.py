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


class Recording:
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
    recording = Recording()
    recording.tell()
    recording.step()
    (event,) = recording.stored()
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
    recording = Recording()
    recording.objects[Ref(CLUSTER_QUEUE, "", "q")] = cluster_queue()
    recording.tell(about=Ref(CLUSTER_QUEUE, "", "q"))
    recording.step()
    (event,) = recording.stored()
    assert (event.metadata.namespace, event.involved_object.namespace) == ("default", "")


def test_an_object_that_is_gone_has_its_event_all_the_same() -> None:
    recording = Recording()
    recording.tell(about=Ref(WORKLOAD, "team", "gone"))
    recording.step()
    (event,) = recording.stored()
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
    recording = Recording()
    recording.tell()
    recording.step()
    for _ in range(3):
        recording.tell()
    recording.pass_ms(2000)
    assert [event.count for event in recording.stored()] == [1]
    assert recording.recorder.next_at() == NOON + events.REPEATS_MS
    recording.pass_ms(3000)
    (event,) = recording.stored()
    assert event.count == 4
    assert (str(event.first_timestamp), str(event.last_timestamp)) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:02Z")
    assert len(recording.calls) == 2
    assert recording.recorder.next_at() is None


def test_what_is_told_again_before_it_was_written_is_written_once() -> None:
    recording = Recording()
    for _ in range(5):
        recording.tell()
    recording.step()
    assert [event.count for event in recording.stored()] == [5]
    assert len(recording.calls) == 1


def test_what_is_told_again_while_it_is_being_written_is_counted_after_that() -> None:
    recording = Recording()
    recording.holds = True
    recording.tell()
    recording.step()
    recording.tell()
    recording.step()
    assert len(recording.calls) == 1
    recording.holds = False
    recording.answer()
    recording.pass_ms(events.REPEATS_MS)
    assert [event.count for event in recording.stored()] == [2]


def test_another_message_type_or_object_is_another_event() -> None:
    recording = Recording()
    recording.tell("a")
    recording.tell("b")
    recording.tell("a", reason="Inadmissible")
    recording.step()
    recording.objects[ABOUT] = workload("train", namespace="team", meta={"uid": "another"})
    recording.tell("a")
    recording.step()
    assert len({event.metadata.name for event in recording.stored()}) == 4


def test_an_event_that_lived_long_enough_is_told_anew_under_another_name() -> None:
    recording = Recording()
    recording.tell()
    recording.step()
    (before,) = recording.stored()
    recording.store.delete(EVENTS, "team", before.metadata.name)
    recording.tell()
    recording.pass_ms(events.REPEATS_MS)
    (after,) = recording.stored()
    assert after.metadata.name != before.metadata.name
    assert after.count == 2


def test_a_name_that_is_taken_is_not_the_end_of_it() -> None:
    recording, other = Recording(), Recording()
    other.store = recording.store
    for each in (recording, other):  # as after a restart within the same millisecond
        each.tell()
        each.step()
    assert len(recording.stored()) == 2
    assert other.recorder.lost == 0


# --- bounds -----------------------------------------------------------------------------------------------------------


def many(
    recording: Recording, count: int, about: Callable[[int], Ref] = lambda i: Ref(WORKLOAD, "team", f"w-{i}")
) -> None:
    for i in range(count):
        recording.tell(f"message {i}", about=about(i))


def test_of_one_object_only_so_many_are_new_in_a_time() -> None:
    recording = Recording()
    many(recording, 100, lambda i: ABOUT)
    recording.step(10)
    assert len(recording.stored()) == events.OBJECT_BURST
    assert recording.recorder.lost == 100 - events.OBJECT_BURST
    recording.pass_ms(2 * events.OBJECT_EVERY_MS)
    many(recording, 100, lambda i: ABOUT)
    recording.tell("about another", about=Ref(WORKLOAD, "team", "b"))
    recording.step(10)
    assert len(recording.stored()) == events.OBJECT_BURST + 2 + 1


def test_all_together_only_so_many_are_new_in_a_time() -> None:
    recording = Recording()
    for _ in range(4):
        many(recording, 900, lambda i: Ref(WORKLOAD, "team", f"w-{len(recording.calls)}-{i}"))
        recording.step(40)
    assert len(recording.stored()) == events.ALL_BURST == 3600 - recording.recorder.lost


def test_a_store_that_does_not_answer_holds_only_so_many() -> None:
    recording = Recording()
    recording.holds = True
    many(recording, 1500)
    recording.step(10)
    assert len(recording.calls) == events.UNDER_WAY_MAX
    held = events.WAITING_MAX + events.UNDER_WAY_MAX
    assert recording.recorder.lost == 1500 - held
    recording.holds = False
    recording.answer()
    recording.step(40)
    assert len(recording.stored()) == held


@pytest.mark.parametrize("error", [Forbidden("namespace team is being terminated"), Unavailable("full")])
def test_what_does_not_get_through_is_lost_and_counted(error: Exception) -> None:
    recording = Recording()
    recording.error = error
    recording.tell()
    recording.step()
    assert (recording.stored(), recording.recorder.lost) == ([], 1)
    recording.error = None
    recording.tell()
    recording.step()
    assert [event.count for event in recording.stored()] == [1]


def test_a_store_that_is_closed_is_no_error_of_the_engine() -> None:
    recording = Recording()

    def closed(call: Call) -> Future[Stored]:
        raise Unavailable("the storage is closed")

    recorder = Recorder(recording.notes, recording.objects.get, closed, recording.poke)
    recording.tell()
    recorder.step(NOON)
    assert recorder.lost == 1


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KNOWN_MAX", 10)
    recording = Recording()
    for i in range(30):
        recording.tell(about=Ref(WORKLOAD, "team", f"w-{i}"))
        recording.step()
    recording.tell(about=Ref(WORKLOAD, "team", "w-0"))
    recording.pass_ms(events.REPEATS_MS)
    assert recording.recorder.lost == 0
    assert len(recording.stored()) == 31, "the first one is not known any more, and is told anew"


def test_without_notes_nothing_happens() -> None:
    recording = Recording()
    assert not recording.recorder.step(NOON)
    assert recording.recorder.next_at() is None


def test_long_names_and_messages_are_cut() -> None:
    recording = Recording()
    recording.tell("x" * 5000, about=Ref(WORKLOAD, "team", "w" * 253))
    recording.step()
    (event,) = recording.stored()
    assert len(event.message) == events.MESSAGE_BYTES_MAX
    assert len(event.metadata.name) == 253


def test_a_message_is_cut_by_its_bytes_and_between_characters() -> None:
    recording = Recording()
    recording.tell("é" * 600 + "!")
    recording.tell("." + "é" * 600)
    recording.step()
    assert sorted(event.message for event in recording.stored()) == ["." + "é" * 511, "é" * 512]


def test_an_event_is_whole_for_clients_of_either_group() -> None:
    recording = Recording()
    recording.tell()
    recording.step()
    (event,) = recording.stored()
    assert str(event.event_time) == "2026-01-01T12:00:00.000000Z"
    assert (event.action, event.reporting_instance) == ("WaitingForQuota", "makeway")
    assert validate(event) == []
    recording.tell()
    recording.pass_ms(events.REPEATS_MS)
    (again,) = recording.stored()
    assert (again.count, again.event_time) == (2, event.event_time)
