"""Actions become writes: one under way per object, many objects at once, and every answer comes back as a fact.

A write is prepared when it is sent, from the newest object that is known, and carries that object's resourceVersion.
What the Store says is taken in like a watch event. Where a newer object was in the way it is read, and the edit is
made again from it, unless the action was strict. Where nobody knows whether a write happened, the object is read and
tells. Whatever else fails is tried again with growing pauses, a bounded number of times; then the action has failed:
what was expected of it is taken back, and so is what was to follow it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec.structs import replace

from makeway.api.versions import Kind
from makeway.controllers.contract import Action, Change, Create, Delete, Ref
from makeway.core.model import Millis
from makeway.runtime.informers import INFORMERS, ref_of, watched_kinds
from makeway.runtime.objects import EDITS, ObjectCache
from makeway.runtime.ports import (
    AlreadyExists,
    Conflict,
    NotFound,
    Retryable,
    Store,
    Stored,
    StoreError,
    TimedOut,
)
from makeway.runtime.workqueue import Timers, backoff_ms

ATTEMPTS_MAX = 6
CONFLICTS_MAX = 20
REFUSED_MAX = 10_000

Call = Callable[[Store], Stored]


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """What came of a call: the object as it is now, or the error."""

    number: int
    stored: Stored | None = None
    error: StoreError | None = None


class Writer(Protocol):
    """How calls reach a Store; a slow one answers later."""

    def send(self, number: int, call: Call, now: Millis) -> None: ...

    def answers(self, now: Millis) -> Sequence[WriteAnswer]: ...

    def next_at(self) -> Millis | None: ...


class DirectWriter:
    """Calls are made at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answers: list[WriteAnswer] = []

    def send(self, number: int, call: Call, now: Millis) -> None:
        self._answers.append(called(self._store, number, call))

    def answers(self, now: Millis) -> Sequence[WriteAnswer]:
        found, self._answers = self._answers, []
        return found

    def next_at(self) -> Millis | None:
        return None


def called(store: Store, number: int, call: Call) -> WriteAnswer:
    try:
        return WriteAnswer(number, call(store))
    except StoreError as error:
        return WriteAnswer(number, error=error)


@dataclass(slots=True)
class _Task:
    """A write that was asked for and is not answered yet."""

    number: int
    action: Action
    attempts: int = 0
    conflicts: int = 0
    reads: bool = False  # it asks how the object is before it goes on
    gives_up: bool = False  # and then goes on no more
    assumed: bool = False
    tail: list[_Task] = field(default_factory=list)  # what follows once it is stored

    @property
    def ref(self) -> Ref:
        return self.action.write.ref


Done = Callable[[Action, bool], None]  # an action, and whether it is stored


class Executor:
    def __init__(self, writer: Writer, objects: ObjectCache, done: Done, kinds: Iterable[Kind] | None = None) -> None:
        self._writer = writer
        self._objects = objects
        self._done = done
        self._kinds: dict[str, Kind] = {
            Ref.kind_of(kind): kind for kind in (watched_kinds() if kinds is None else kinds)
        }
        self._lines: dict[Ref, deque[_Task]] = {}  # the first one is under way, or waits for its pause
        self._sent: dict[int, _Task] = {}
        self._pauses: Timers[Ref] = Timers()
        self._count = 0
        self.refusals: dict[Ref, int] = {}  # how often in a row the Store said no to a write of an object for good
        self.writes = 0  # calls that changed something

    # --- asking ---

    def is_busy(self, ref: Ref) -> bool:
        """Whether a write of this object is under way or waits for another."""
        return ref in self._lines

    def submit(self, action: Action, now: Millis) -> None:
        """Write this, after whatever is under way for the same object."""
        self._enter(self._task(action), now)

    def _task(self, action: Action) -> _Task:
        self._count += 1
        task = _Task(self._count, action)
        write = action.write
        if isinstance(write, Change) and write.assumed != "no":
            task.assumed = True
            self._objects.assume(write.ref, task.number, write.edit, quietly=write.assumed == "quietly")
        task.tail = [self._task(each) for each in action.then]
        return task

    def _enter(self, task: _Task, now: Millis) -> None:
        line = self._lines.setdefault(task.ref, deque())
        line.append(task)
        if line[0] is task:
            self._send(task, now)

    # --- sending ---

    def _send(self, task: _Task, now: Millis) -> None:
        call = self._call(task)
        if isinstance(call, bool):
            self._finish(task, call, now)
            return
        self._sent[task.number] = task
        self._writer.send(task.number, call, now)

    def _call(self, task: _Task) -> Call | bool:
        """The call to make, or, if none is needed, whether all is as it should be."""
        write = task.action.write
        ref = write.ref
        kind = self._kinds[ref.kind]
        if task.reads:
            return lambda store: store.get(kind, ref.namespace, ref.name)
        if isinstance(write, Create):
            return lambda store: store.create(write.body)
        present = self._objects.get(ref)
        if present is None or (write.uid and present.metadata.uid != write.uid):
            return isinstance(write, Delete)
        if isinstance(write, Delete):
            uid, how, grace = present.metadata.uid, write.propagation, write.grace
            return lambda store: store.delete(kind, ref.namespace, ref.name, uid=uid, propagation=how, grace=grace)
        try:
            edited = self._objects.edited(task.number, write.edit, present) if task.assumed else write.edit(present)
        except Exception as error:
            self._objects.gave_up(ref, EDITS, error)
            self._note_refusal(ref)  # who wants it must wait longer each time
            return False
        if edited is None:
            return False
        if edited == present:
            return True
        body = replace(edited, metadata=replace(edited.metadata, resource_version=str(self._objects.revision(ref))))
        if write.status:
            return lambda store: store.update_status(body)
        return lambda store: store.update(body)

    # --- answers ---

    def work(self, now: Millis) -> int:
        """Take in what was answered, send what has paused long enough; how much there was."""
        found = self._writer.answers(now)
        for answer in found:
            self._take(answer, now)
        due = list(self._pauses.due(now))
        for ref in due:
            if ref in self._lines:
                self._send(self._lines[ref][0], now)
        return len(found) + len(due)

    def _take(self, answer: WriteAnswer, now: Millis) -> None:
        task = self._sent.pop(answer.number, None)
        if task is None:
            return
        if answer.stored is not None:
            try:
                self._see(task, answer.stored)
            except msgspec.MsgspecError as error:  # whatever else it knows of the object may be old
                self._objects.gave_up(task.ref, INFORMERS, error)
                self._note_refusal(task.ref)
                task.gives_up |= task.reads
            if task.gives_up:
                self._finish(task, False, now)
            elif task.reads:
                task.reads = False
                self._send(task, now)  # made again from what is there; if it is there already, nothing is written
            else:
                self.writes += 1
                self._finish(task, True, now)
        elif answer.error is not None:
            self._failed(task, answer.error, now)

    def _see(self, task: _Task, stored: Stored) -> None:
        is_gone = _is_free_to_go(stored) if stored.deleting else isinstance(task.action.write, Delete)
        if is_gone and not task.reads:
            self._objects.see_gone(ref_of(stored), stored.revision)
        else:
            settles = task.number if task.assumed and not task.reads else 0
            self._objects.see(ref_of(stored), stored.value(), stored.revision, settles=settles)

    def _failed(self, task: _Task, error: StoreError, now: Millis) -> None:
        write = task.action.write
        if isinstance(error, AlreadyExists):
            self._read_again(task, now)
        elif isinstance(error, Conflict) and not isinstance(write, Create):
            task.conflicts += 1
            strict = isinstance(write, Change) and write.strict
            self._read_again(task, now, then_fail=strict or task.conflicts > CONFLICTS_MAX)
        elif isinstance(error, NotFound):
            self._objects.see_gone(task.ref, self._objects.revision(task.ref))
            if isinstance(write, Create):  # its namespace is not there
                self._note_refusal(task.ref)
            self._finish(task, isinstance(write, Delete), now)
        elif isinstance(error, Retryable | Conflict) and task.attempts < ATTEMPTS_MAX:
            task.attempts += 1
            task.reads = isinstance(error, TimedOut) and not isinstance(write, Create)
            asked = error.retry_after if isinstance(error, Retryable) else None
            pause = max(backoff_ms(task.attempts), asked or 0)
            self._pauses.set(task.ref, Millis(now + pause))
        else:
            self._note_refusal(task.ref)
            self._finish(task, False, now)

    def _note_refusal(self, ref: Ref) -> None:
        """It will not be otherwise if it is tried again at once; whoever wants it must wait longer each time."""
        self.refusals[ref] = self.refusals.pop(ref, 0) + 1
        if len(self.refusals) > REFUSED_MAX:
            del self.refusals[next(iter(self.refusals))]

    def _read_again(self, task: _Task, now: Millis, *, then_fail: bool = False) -> None:
        """Somebody was quicker: see what is there now, then go on, or give up."""
        if isinstance(task.action.write, Create):
            self._finish(task, True, now)  # it is there; whether it is ours is for the next look to say
        else:
            task.reads, task.gives_up = True, then_fail
            self._send(task, now)

    def _finish(self, task: _Task, stored: bool, now: Millis) -> None:
        line = self._lines[task.ref]
        line.popleft()
        if not line:
            del self._lines[task.ref]
        self._pauses.set(task.ref, None)
        if stored:
            self.refusals.pop(task.ref, None)
        for each in task.tail if stored else ():
            self._enter(each, now)
        if not stored:
            self._drop(task.tail)
        if task.assumed:
            self._objects.settle(task.ref, task.number)
        self._done(task.action, stored)
        if task.ref in self._lines and self._lines[task.ref][0].number not in self._sent:
            self._send(self._lines[task.ref][0], now)

    def _drop(self, tasks: list[_Task]) -> None:
        """What was to follow will not happen."""
        for each in tasks:
            self._drop(each.tail)
            if each.assumed:
                self._objects.settle(each.ref, each.number)
            self._done(each.action, False)

    def next_at(self) -> Millis | None:
        times = [at for at in (self._writer.next_at(), self._pauses.next_at()) if at is not None]
        return min(times) if times else None

    @property
    def under_way(self) -> int:
        return len(self._sent)


def _is_free_to_go(stored: Stored) -> bool:
    """Whether nothing holds an object that is being deleted: no finalizer, and no time that a pod may still take."""
    return not stored.finalizers and not stored.value().metadata.deletion_grace_period_seconds
