"""Actions become writes: one under way per object, many objects at once, and every answer comes back as a fact.

A write is prepared when it is sent, from the newest object that is known, and carries that object's resourceVersion.
The answer of the Store is taken in like a watch event. After a conflict the object is read and the edit is made again
from it, unless the action is strict. When the outcome of a write is unknown, the object is read to find out. Any other
failure is tried again with growing pauses, a bounded number of times. Then the action has failed: its assumed effect
is taken back, and the actions that were to follow it are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

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
    """The answer to a call: the object as it is now, or the error."""

    number: int
    stored: Stored | None = None
    error: StoreError | None = None


class Writer(Protocol):
    """How calls reach a Store. A slow one answers later."""

    def send(self, number: int, call: Call, now: Millis) -> None: ...

    def answers(self, now: Millis) -> Sequence[WriteAnswer]: ...

    def next_at(self) -> Millis | None: ...


class DirectWriter:
    """Makes calls at once."""

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


# "writing": a write is sent. "reading": the object changed meanwhile, or the outcome of the write is unknown; so the
# object is read, and the write made again from it. "reading to give up": it is read, and the write not made again.
Doing = Literal["writing", "reading", "reading to give up"]

# What an error means for a task: the object is there already; it has changed, and the write is made again from the new
# state, or not ("for good"); it is not there; the call is tried again after a pause; trying again would not help.
Meaning = Literal["there", "changed", "changed for good", "gone", "try again", "refused"]


@dataclass(slots=True)
class _Task:
    """A write that was asked for and is not answered yet."""

    number: int
    action: Action
    attempts: int = 0
    conflicts: int = 0
    doing: Doing = "writing"
    assumed: bool = False
    tail: list[_Task] = field(default_factory=list)  # what follows once this is stored

    @property
    def ref(self) -> Ref:
        return self.action.write.ref

    def meaning(self, error: StoreError) -> Meaning:
        write = self.action.write
        creates = isinstance(write, Create)
        if isinstance(error, AlreadyExists) and creates:
            return "there"
        if isinstance(error, Conflict) and not creates:
            is_strict = isinstance(write, Change) and write.strict
            return "changed for good" if is_strict or self.conflicts >= CONFLICTS_MAX else "changed"
        if isinstance(error, NotFound):
            return "gone"
        if isinstance(error, Retryable | Conflict) and self.attempts < ATTEMPTS_MAX:
            return "try again"
        return "refused"


Done = Callable[[Action, bool], None]  # an action, and whether it is stored


class Executor:
    def __init__(self, writer: Writer, objects: ObjectCache, done: Done, kinds: Iterable[Kind] | None = None) -> None:
        self._writer = writer
        self._objects = objects
        self._done = done
        self._kinds: dict[str, Kind] = {
            Ref.kind_of(kind): kind for kind in (watched_kinds() if kinds is None else kinds)
        }
        self._queues: dict[Ref, deque[_Task]] = {}  # the first one is under way, or pauses
        self._sent: dict[int, _Task] = {}
        self._pauses: Timers[Ref] = Timers()
        self._count = 0
        self.refusals: dict[Ref, int] = {}  # how often in a row the Store refused a write of an object for good
        self.writes = 0  # calls that changed something

    # --- asking ---

    def is_busy(self, ref: Ref) -> bool:
        """Whether a write of this object is under way or waits for another."""
        return ref in self._queues

    def submit(self, action: Action, now: Millis) -> None:
        """Write this, after all writes of the same object that are under way."""
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
        queue = self._queues.setdefault(task.ref, deque())
        queue.append(task)
        if queue[0] is task:
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
        """The call to make; if none is needed, whether all is as it should be."""
        write = task.action.write
        ref = write.ref
        kind = self._kinds[ref.kind]
        if task.doing != "writing":
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
            self._note_refusal(ref)  # the next attempt waits longer each time
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
        """Take in answers, and send what has paused long enough; return how many there were."""
        found = self._writer.answers(now)
        for answer in found:
            self._take(answer, now)
        due = list(self._pauses.due(now))
        for ref in due:
            if ref in self._queues:
                self._send(self._queues[ref][0], now)
        return len(found) + len(due)

    def _take(self, answer: WriteAnswer, now: Millis) -> None:
        task = self._sent.pop(answer.number, None)
        if task is None:
            return
        if answer.stored is not None:
            try:
                self._see(task, answer.stored)
            except msgspec.MsgspecError as error:  # what else is known of the object may be old
                self._objects.gave_up(task.ref, INFORMERS, error)
                self._note_refusal(task.ref)
                task.doing = "writing" if task.doing == "writing" else "reading to give up"
            self._go_on(task, now)
        elif answer.error is not None:
            self._failed(task, answer.error, now)

    def _go_on(self, task: _Task, now: Millis) -> None:
        """Go on with a task whose object is known."""
        if task.doing == "reading to give up":
            self._finish(task, False, now)
        elif task.doing == "reading":
            task.doing = "writing"
            self._send(task, now)  # made again from the present object; if nothing is to change, nothing is written
        else:
            self.writes += 1
            self._finish(task, True, now)

    def _see(self, task: _Task, stored: Stored) -> None:
        is_gone = _is_free_to_go(stored) if stored.deleting else isinstance(task.action.write, Delete)
        if is_gone and task.doing == "writing":
            self._objects.see_gone(ref_of(stored), stored.revision)
        else:
            settles = task.number if task.assumed and task.doing == "writing" else 0
            self._objects.see(ref_of(stored), stored.value(), stored.revision, settles=settles)

    def _failed(self, task: _Task, error: StoreError, now: Millis) -> None:
        write = task.action.write
        match task.meaning(error):
            case "there":
                self._finish(task, True, now)  # the next reconcile finds out whether it is ours
            case "changed":
                task.conflicts += 1
                self._read(task, "reading", now)
            case "changed for good":
                self._read(task, "reading to give up", now)
            case "gone":
                self._objects.see_gone(task.ref, self._objects.revision(task.ref))
                if isinstance(write, Create):  # its namespace is missing
                    self._note_refusal(task.ref)
                self._finish(task, isinstance(write, Delete), now)
            case "try again":
                self._pause(task, error, now)
            case "refused":
                self._note_refusal(task.ref)
                self._finish(task, False, now)

    def _read(self, task: _Task, doing: Doing, now: Millis) -> None:
        task.doing = doing
        self._send(task, now)

    def _pause(self, task: _Task, error: StoreError, now: Millis) -> None:
        """Try the same again later; if the outcome of the write is unknown, the object is read first."""
        task.attempts += 1
        if task.doing != "reading to give up":
            is_unknown = isinstance(error, TimedOut) and not isinstance(task.action.write, Create)
            task.doing = "reading" if is_unknown else "writing"
        asked = error.retry_after if isinstance(error, Retryable) else None
        self._pauses.set(task.ref, Millis(now + max(backoff_ms(task.attempts), asked or 0)))

    def _note_refusal(self, ref: Ref) -> None:
        """Count a refusal: trying again at once would not help, so each new attempt waits longer."""
        self.refusals[ref] = self.refusals.pop(ref, 0) + 1
        if len(self.refusals) > REFUSED_MAX:
            del self.refusals[next(iter(self.refusals))]

    def _finish(self, task: _Task, stored: bool, now: Millis) -> None:
        queue = self._queues[task.ref]
        queue.popleft()
        if not queue:
            del self._queues[task.ref]
        self._pauses.set(task.ref, None)
        if stored:
            self.refusals.pop(task.ref, None)
            for following in task.tail:
                self._enter(following, now)
        else:
            self._drop(task.tail)
        if task.assumed:
            self._objects.settle(task.ref, task.number)
        self._done(task.action, stored)
        if task.ref in self._queues and self._queues[task.ref][0].number not in self._sent:
            self._send(self._queues[task.ref][0], now)

    def _drop(self, tasks: list[_Task]) -> None:
        """Give up the actions that were to follow."""
        for task in tasks:
            self._drop(task.tail)
            if task.assumed:
                self._objects.settle(task.ref, task.number)
            self._done(task.action, False)

    def next_at(self) -> Millis | None:
        times = [at for at in (self._writer.next_at(), self._pauses.next_at()) if at is not None]
        return min(times) if times else None

    @property
    def under_way(self) -> int:
        return len(self._sent)


def _is_free_to_go(stored: Stored) -> bool:
    """Whether nothing holds an object that is being deleted: no finalizer, and no grace period of a pod."""
    return not stored.finalizers and not stored.value().metadata.deletion_grace_period_seconds
