"""Notes of controllers become Event objects (api 15): best effort, bounded everywhere, and never in the way.

A note that repeats an earlier one about the same object is counted in the Event of that one, not written anew. The
count is stored every few seconds at most. New events are limited, per object and for all objects together. A note
above the limit, or whose write fails, is *lost*; lost notes are counted. An event never holds up a decision, and a
failing write is not tried for long.

The Store decides how long events live. Events of an earlier start of the process are not counted on: the first note
after a restart is a new event.

An event is of both sorts that Kubernetes knows: it has an ``eventTime``, an action and a reporter, so that clients of
events.k8s.io/v1 may rely on them, and the source, times and count that clients of core/v1 look for.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.objects.kubernetes import Event, EventSource, ObjectReference
from makeway.api.objects.meta import KubernetesObject, ObjectMeta
from makeway.api.quantity import MicroTime, Time
from makeway.api.versions import kind_of
from makeway.controllers.contract import GANG_WORKLOAD, Note, Ref
from makeway.controllers.jobs.kinds.registry import JOB_KINDS
from makeway.core.model import Millis, stored
from makeway.runtime.executor import Call
from makeway.runtime.live.writer import Submit
from makeway.runtime.ports import AlreadyExists, NotFound, Store, Stored
from makeway.runtime.set_aside import REASON
from makeway.runtime.workqueue import Timers

log = logging.getLogger("makeway.events")

EVENTS: Final = kind_of(Event)
KNOWN_MAX = 4096  # events that may still be counted on
WAITING_MAX = 1000
UNDER_WAY_MAX = 32
NOTES_PER_STEP = 1000
REPEATS_MS = 5000  # how often the count of an event is stored at most
MESSAGE_BYTES_MAX = 1024
REPORTING_INSTANCE = "makeway"  # one engine writes to a Store at a time
NAME_MAX = 253 - 17  # of the object's name; a dot and sixteen digits follow

OBJECT_BURST, OBJECT_EVERY_MS = 25, 60_000  # new events of one object: so many at once, then one per minute
ALL_BURST, ALL_EVERY_MS = 2000, 10  # of all objects together

NEVER: Final = Millis(0)

JOB_SOURCE = "kueue-job-controller"
WORKLOAD_SOURCE = "kueue-workload-controller"
ADMISSION_SOURCE = "kueue-admission"
SCHEDULER_SOURCE = "makeway-scheduler"
NODE_SOURCE = "makeway-node"
OURSELVES = "makeway"
PLACED = frozenset({"Scheduled", "FailedScheduling", "Preempted"})
LIFE_WARNINGS = frozenset({"AdmissionCheckRejected", "MaximumExecutionTimeExceeded"})
DECIDED = frozenset({"QuotaReserved", "Admitted", "Preempted", "PreemptedWorkload"})

Key = tuple[Ref, str, str, str, str]  # the object, its uid, type, reason, message


def source_of(note: Note) -> str:
    """The component that says so, under the name that scripts look for."""
    if note.reason == REASON:
        return OURSELVES
    if note.about.kind in JOB_KINDS:
        return JOB_SOURCE
    if note.about.kind == "Pod":
        return SCHEDULER_SOURCE if note.reason in PLACED else NODE_SOURCE
    if note.about.kind == GANG_WORKLOAD:
        return SCHEDULER_SOURCE
    waits = note.type == "Warning" and note.reason not in LIFE_WARNINGS
    return ADMISSION_SOURCE if note.about.kind == "Workload" and (waits or note.reason in DECIDED) else WORKLOAD_SOURCE


@dataclass(slots=True)
class _Allowance:
    """A token bucket: so many at once, and one more after each span."""

    burst: int
    every_ms: int
    spent: int = 0
    since: int = 0  # up to this time, what came back is counted

    def take(self, now: Millis) -> bool:
        back = max(0, now - self.since) // self.every_ms
        if back >= self.spent:
            self.spent, self.since = 0, now
        elif back:
            self.spent, self.since = self.spent - back, self.since + back * self.every_ms
        if self.spent >= self.burst:
            return False
        self.spent += 1
        return True


@dataclass(slots=True)
class _SentEvent:
    """An event: its first form, and how often it was repeated since."""

    body: Event
    count: int = 1
    last_at: Millis = NEVER
    written: int = 0  # the count that is stored, or on its way; 0: it is not there yet
    written_at: Millis = NEVER
    is_under_way: bool = False
    is_second_try: bool = False


class Recorder:
    """An actor beside the engine: takes its notes and writes events. It calls ``poke`` when one is written."""

    def __init__(
        self,
        notes: deque[Note],
        get: Callable[[Ref], KubernetesObject | None],
        submit: Submit,
        poke: Callable[[], None],
    ) -> None:
        self._notes = notes
        self._get = get
        self._submit = submit
        self._poke = poke
        self._known: OrderedDict[Key, _SentEvent] = OrderedDict()  # the one counted last is at the end
        self._waiting: OrderedDict[Key, None] = OrderedDict()
        self._repeats: Timers[Key] = Timers()
        self._answers: deque[tuple[Key, BaseException | None]] = deque()
        self._under_way = 0
        self._of_object: OrderedDict[Ref, _Allowance] = OrderedDict()
        self._of_all = _Allowance(ALL_BURST, ALL_EVERY_MS)
        self._stamp = 0
        self.lost = 0

    # --- as an actor ---

    def step(self, now: Millis) -> bool:
        happened = False
        for _ in range(len(self._answers)):
            self._answered(*self._answers.popleft(), now)
            happened = True
        for _ in range(min(len(self._notes), NOTES_PER_STEP)):
            note = self._notes.popleft()
            try:
                self._take(note, now)
            except Exception:  # a note that cannot be written is lost, and does not hold up the others
                log.exception("an event for %s %s", note.about.kind, note.about.key)
                self.lost += 1
            happened = True
        for key in self._repeats.due(now):
            self._wait(key)
            happened = True
        while self._waiting and self._under_way < UNDER_WAY_MAX:
            self._write(self._waiting.popitem(last=False)[0], now)
        return happened

    def next_at(self) -> Millis | None:
        return self._repeats.next_at()

    # --- notes ---

    def _take(self, note: Note, now: Millis) -> None:
        about = self._get(note.about)
        uid = "" if about is None else about.metadata.uid
        key: Key = (note.about, uid, note.type, note.reason, note.message)
        told = self._known.get(key)
        if told is not None:
            told.count += 1
            told.last_at = now
            self._known.move_to_end(key)
            self._again(key, told)
        elif len(self._waiting) >= WAITING_MAX or not self._may_tell(note.about, now):
            self.lost += 1
        else:
            self._known[key] = _SentEvent(self._event(note, about, now), last_at=now)
            self._wait(key)
            if len(self._known) > KNOWN_MAX:
                oldest = next(iter(self._known))
                self.lost += not self._known[oldest].written
                self._forget(oldest)

    def _may_tell(self, about: Ref, now: Millis) -> bool:
        allowance = self._of_object.get(about)
        if allowance is None:
            allowance = self._of_object[about] = _Allowance(OBJECT_BURST, OBJECT_EVERY_MS)
            if len(self._of_object) > KNOWN_MAX:
                self._of_object.popitem(last=False)
        self._of_object.move_to_end(about)
        return allowance.take(now) and self._of_all.take(now)

    def _event(self, note: Note, about: KubernetesObject | None, now: Millis) -> Event:
        ref, at, source = note.about, Time.of_millis(stored(now)), source_of(note)
        shown = ObjectReference(kind=ref.kind.partition(".")[0], namespace=ref.namespace, name=ref.name)
        if about is not None:
            meta = about.metadata
            shown = replace(shown, api_version=about.api_version, uid=meta.uid, resource_version=meta.resource_version)
        return Event(
            metadata=ObjectMeta(name=self._name(ref, now), namespace=ref.namespace or DEFAULT_NAMESPACE),
            involved_object=shown, type=note.type, reason=note.reason, action=note.reason, message=_cut(note.message),
            source=EventSource(component=source), reporting_component=source, reporting_instance=REPORTING_INSTANCE,
            event_time=MicroTime.of_millis(now), first_timestamp=at, last_timestamp=at, count=1,
        )  # fmt: skip

    def _name(self, about: Ref, now: Millis) -> str:
        self._stamp = max(self._stamp + 1, now * 1_000_000)
        return f"{about.name[:NAME_MAX]}.{self._stamp:016x}"

    def _wait(self, key: Key) -> None:
        self._waiting.setdefault(key)

    def _again(self, key: Key, told: _SentEvent) -> None:
        """Store the new count of an event, when the time has come."""
        if told.count > told.written > 0 and not told.is_under_way and key not in self._waiting:
            self._repeats.set(key, Millis(told.written_at + REPEATS_MS))

    def _forget(self, key: Key) -> None:
        self._known.pop(key, None)
        self._waiting.pop(key, None)
        self._repeats.set(key, None)

    # --- writing ---

    def _write(self, key: Key, now: Millis) -> None:
        told = self._known.get(key)
        if told is None or told.is_under_way:
            return
        body = replace(told.body, count=told.count, last_timestamp=Time.of_millis(stored(told.last_at)))
        call: Call = partial(_create, body) if not told.written else partial(_count, body)
        try:
            future = self._submit(call)
        except Exception:
            self._lose(key)
            return
        told.written, told.written_at, told.is_under_way = told.count, now, True
        self._under_way += 1
        future.add_done_callback(partial(self._done, key))

    def _done(self, key: Key, future: Future[Stored]) -> None:
        """Take an answer; runs in the thread that wrote."""
        self._answers.append((key, future.exception()))
        self._poke()

    def _answered(self, key: Key, error: BaseException | None, now: Millis) -> None:
        self._under_way -= 1
        told = self._known.get(key)
        if told is None:
            self.lost += error is not None
            return
        told.is_under_way = False
        if error is None:
            told.is_second_try = False
            self._again(key, told)
        elif isinstance(error, NotFound | AlreadyExists) and not told.is_second_try:
            self._begin_anew(key, told, now)
        else:
            self._lose(key)

    def _begin_anew(self, key: Key, told: _SentEvent, now: Millis) -> None:
        """Write it once more, under another name: its object is gone after a long life, or its name is taken."""
        meta = replace(told.body.metadata, name=self._name(key[0], now))
        told.body, told.written, told.is_second_try = replace(told.body, metadata=meta), 0, True
        self._wait(key)

    def _lose(self, key: Key) -> None:
        self.lost += 1
        self._forget(key)


def _cut(message: str) -> str:
    """The message, cut to so many bytes, without half characters."""
    return message.encode(errors="replace")[:MESSAGE_BYTES_MAX].decode(errors="ignore")


def _create(body: Event, store: Store) -> Stored:
    return store.create(body)


def _count(body: Event, store: Store) -> Stored:
    present: Event = store.get(EVENTS, body.metadata.namespace, body.metadata.name).value()
    return store.update(replace(present, count=body.count, last_timestamp=body.last_timestamp))
