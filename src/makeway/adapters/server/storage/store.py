"""A Store on SQLite: all objects in memory, and the data file as the truth.

Two copies of the newest states, which share the objects themselves. *Ahead* belongs to the writer thread: there the
rules of the API decide, and what they decide may still be taken back. *Shown* is what everybody reads: what is there
has been committed, so nobody ever saw a revision that a crash could undo and another write could have again.

The writer takes the calls that wait, at most ``GROUP_MAX``, lets each decide on the state the one before it left, and
commits all their changes as one transaction; then they are shown, then the calls return. While it waits for the disk
the next group gathers. What lost its owner goes a little at a time, with each group and while nobody calls; what is
left of it when a server ends goes after the next start.

When the file turns out not to be ours any more, nothing is written again: what was shown stays readable, and is saved
in a new file beside the old one, for whoever has to put things right (decision 0085).

Promises: the Store conformance suite; a call that returned is on the disk; a call that raised has changed nothing, but
for TimedOut, after which nobody knows. A resume from before a restart is told Expired. Calls may come from any thread.
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, TypeVar

from makeway.adapters.server.changes.own_writes import recorded
from makeway.adapters.server.storage.data_file import (
    DataFile,
    DataFileLost,
    DataFileRefused,
    NoRoom,
    NotWritten,
    write_copy,
)
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode
from makeway.api.validation import ValidationContext
from makeway.api.versions import Kind
from makeway.core.model import Millis, Selector
from makeway.runtime.ports import (
    Body,
    Clock,
    Filter,
    Names,
    Page,
    Propagation,
    Revision,
    SeededNames,
    Stored,
    TimedOut,
    Unavailable,
    WatchEvent,
    called,
    kind_key,
)
from makeway.runtime.stores.history import BYTES_MAX, History, HistoryWatch
from makeway.runtime.stores.pages import StoredObjects
from makeway.runtime.stores.rules import Admission, StoreRules

log = logging.getLogger("makeway.storage")

GROUP_MAX = 256
LOOKS_PER_CALL = 64  # of the garbage collector: an owner of a few goes with them at once
LOOKS_PER_GROUP = 256  # so that the next call waits for no more of it than for a full group
LOOK_SECONDS = 1.0  # the longest time for which nobody looks at the file
RETRY_AFTER = Millis(5_000)  # who waits for room on a disk need not ask often
_NEVER_FORGETS = 1 << 62  # ahead is cut when a group is committed, not by count or size

T = TypeVar("T")
Decision = Callable[[StoreRules], Any]
OnCommit = Callable[[Sequence[Revision]], None]


@dataclass(frozen=True, slots=True)
class _Waiting:
    decision: Decision
    answer: Future[Any]
    is_dry: bool


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


class SqliteStore:
    """See ``runtime.ports.Store``. What only this one has: ``compact``, ``close``, and a file that it alone has open;
    ``submit``, for decisions that nobody waits for in a thread; ``on_commit``, for whoever wants to hear of changes.

    ``history``: how many revisions a watch or a list may fall behind before it expires. ``size_max``: bytes that the
    data file may have. The rest is told at ``StoreRules``. Raises ``DataFileRefused``.
    """

    def __init__(
        self, path: Path, clock: Clock, names: Names | None = None, *, history: int = 10_000, careful: bool = True,
        needs_namespaces: bool = False, mode: Mode = "Strict", context: ValidationContext | None = None,
        size_max: int | None = None, admission: Admission | None = None,
    ) -> None:  # fmt: skip
        self._file = DataFile(path, size_max=size_max)
        self._clock = clock
        try:
            begin = self._file.revision()
            self._shown = StoredObjects(History(history, begin))
            self._ahead = StoreRules(
                History(_NEVER_FORGETS, begin, _NEVER_FORGETS), clock, names or _new_names(), careful=careful,
                needs_namespaces=needs_namespaces, mode=mode, context=context, admission=admission,
                looks=LOOKS_PER_CALL, on_trouble=_leave_be,
            )  # fmt: skip
            for each in self._file.objects():
                self._shown.restore(each)
                self._ahead.restore(each)
            self._ahead.suspect_remains()
        except BaseException:
            self._file.close()
            raise
        self._reading = Lock()  # whoever looks at what is shown, or changes it
        self._entering = Lock()  # whoever puts something into the queue, or ends that
        self._closed = False
        self._broken = ""  # what happened, where nobody knows any more what the file holds
        self._is_lost = False  # it is not our file that lies there: what we know must be saved elsewhere
        self._shortage = ""  # why nothing can be written at present
        self._short_bytes = 0  # for which there was no room
        self._looked_at = time.monotonic()
        self._collects_from = self._looked_at  # a write that failed puts this off: nothing spins
        self._listeners: tuple[OnCommit, ...] = ()
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._writer = Thread(target=self._write_groups, name="makeway-storage", daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Commit what waits, and give the file back. What was read can still be read; a write is Unavailable."""
        with self._entering:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._writer.join()
        self._file.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- reading ---

    @property
    def trouble(self) -> str:
        """Why nothing can be written, at present or until the next start; "" while all is well."""
        return self._broken or ("the storage is closed" if self._closed else "") or self._shortage

    @property
    def resource_version(self) -> str:
        with self._reading:
            return self._shown.resource_version

    def compact(self, keep: int = 0) -> None:
        """Forget all but the last ``keep`` changes. Of the file nothing is lost: it has the newest states alone."""
        with self._reading:
            self._shown.compact(keep)

    def latest(self, kind: Kind) -> int | None:
        with self._reading:
            return self._shown.latest(kind)

    def count(self, kind: Kind) -> int:
        """How many objects of a kind there are."""
        return self._shown.count(kind_key(kind))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        with self._reading:
            return self._shown.get(kind, namespace, name)

    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Selector = (), limit: int = 0, token: str = ""
    ) -> Page:
        return self.page(kind, Filter(kind_key(kind), namespace, labels), limit=limit, token=token)

    def page(self, kind: Kind, chosen: Filter, *, limit: int = 0, token: str = "", at: int | None = None) -> Page:
        """See ``runtime.stores.rules.Objects``."""
        with self._reading:
            found = self._shown.candidates(kind, chosen, limit=limit, token=token, at=at)
        return found.page(chosen, limit)

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> SharedWatch:  # fmt: skip
        return self.follow(Filter(kind_key(kind), namespace, labels), since, bookmarks=bookmarks)

    def follow(self, chosen: Filter, since: str = "", *, bookmarks: bool = False) -> SharedWatch:
        """See ``runtime.stores.rules.Objects``."""
        with self._reading:
            found = self._shown.beginning(chosen, since)
        return SharedWatch(found.watch(chosen, bookmarks), self._reading)

    def on_commit(self, listener: OnCommit) -> None:
        """Have ``listener`` called with the changes of every group once they are shown, before their calls return.

        It is called on the writer thread: it must be quick, and raise nothing.
        """
        self._listeners = (*self._listeners, listener)

    # --- writing ---

    def create(self, body: Body) -> Stored:
        return self.submit(lambda ahead: ahead.create(body)).result()

    def update(self, body: Body) -> Stored:
        return self.submit(lambda ahead: ahead.update(recorded(ahead, body, self._clock))).result()

    def update_status(self, body: Body) -> Stored:
        return self.submit(lambda ahead: ahead.update_status(body)).result()

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Mapping[str, Tree], *, status: bool = False
    ) -> Stored:
        return self.submit(lambda ahead: ahead.patch(kind, namespace, name, change, status=status)).result()

    def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "",
        propagation: Propagation | None = None, grace: int | None = None,
    ) -> Stored:  # fmt: skip
        return self.submit(lambda ahead: ahead.delete(
            kind, namespace, name, uid=uid, resource_version=resource_version, propagation=propagation, grace=grace
        )).result()  # fmt: skip

    def submit(self, decision: Callable[[StoreRules], T], *, dry_run: bool = False) -> Future[T]:
        """Have something decided and written, as one; the answer comes once it is on the disk.

        ``decision`` is called on the writer thread and may make several calls: all of them count, or, where it raises,
        none. ``dry_run``: it is judged and answered in the same way, and then taken back.
        """
        answer: Future[T] = Future()
        with self._entering:
            if self._closed or self._broken:
                raise Unavailable(self._broken or "the storage is closed", RETRY_AFTER)
            self._queue.put(_Waiting(decision, answer, dry_run))
        return answer

    # --- the writer thread ---

    def _write_groups(self) -> None:
        while True:
            has_garbage = self._may_collect() and self._ahead.has_suspects and not self._broken
            try:
                first = self._queue.get(timeout=0 if has_garbage else LOOK_SECONDS)
            except Empty:
                if has_garbage:
                    self._write_group(())
                else:
                    self._look()
            else:
                if first is None:
                    break
                group = self._gathered(first)
                self._write_group([each for each in group if each.answer.set_running_or_notify_cancel()])
            if time.monotonic() - self._looked_at >= LOOK_SECONDS:  # nobody is idle, yet nothing may be written either
                self._look()
        self._save()

    def _write_group(self, group: Sequence[_Waiting]) -> None:
        try:
            outcomes = self._outcomes(group)
        except DataFileLost as error:
            self._lose(error)
            failure = TimedOut if error.is_stored else Unavailable
            outcomes = [_Failure(failure(self._broken, RETRY_AFTER)) for _ in group]
        except BaseException as error:  # whatever it is, nobody may wait for ever
            self._broken = f"the storage has failed: {error!r}"
            log.error("%s; nothing is written any more: restart makeway", self._broken)
            outcomes = [_Failure(TimedOut(self._broken)) for _ in group]
        for each, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, _Failure):
                each.answer.set_exception(outcome.error)
            else:
                each.answer.set_result(outcome)

    def _gathered(self, first: _Waiting) -> Sequence[_Waiting]:
        """All that wait, in the order they came; nobody else takes from the queue.

        Those of the last group were answered just now, and often have more to write: so they are let in first. With
        many writers that makes one large group where there would be two that take turns, each with its own wait.
        """
        time.sleep(0)
        group = [first]
        # where there is little room each stands for itself: a removal must not fail for what others want to add
        most = 1 if self._shortage else GROUP_MAX
        while len(group) < most and not self._queue.empty():
            each = self._queue.get()
            if each is None:
                self._queue.put(None)  # nothing can come after it: it ends the thread when this group is done
                break
            group.append(each)
        return group

    def _outcomes(self, group: Sequence[_Waiting]) -> Sequence[Any]:
        """Who was refused stood on what the others of the group had written, and fails with them."""
        if self._broken:
            return [_Failure(Unavailable(self._broken, RETRY_AFTER)) for _ in group]
        before = self._ahead.mark()
        outcomes = [self._outcome(each) for each in group]
        if self._may_collect() and not (self._shortage and group):
            self._ahead.collect(LOOKS_PER_GROUP)
        changes = self._ahead.uncommitted()
        if not changes:
            self._ahead.compact()
            return outcomes
        try:
            self._file.write(changes)
        except (NotWritten, DataFileLost) as error:
            self._ahead.take_back(before)
            self._collects_from = time.monotonic() + LOOK_SECONDS
            if isinstance(error, DataFileLost):
                raise
            if isinstance(error, NoRoom):
                self._run_short(error, sum(len(each.after.data) for each in changes))
            return [_Failure(Unavailable(f"nothing was stored: {error}", RETRY_AFTER)) for _ in group]
        with self._reading:
            for change in changes:
                self._shown.apply(change)
        self._ahead.compact()
        for listener in self._listeners:
            try:
                listener(changes)
            except Exception:  # what is stored is stored, whoever cannot hear of it
                log.exception("a listener failed")
        return outcomes

    def _may_collect(self) -> bool:
        return time.monotonic() >= self._collects_from

    def _outcome(self, each: _Waiting) -> Any:
        before = self._ahead.mark()
        try:
            answer = each.decision(self._ahead)
        except Exception as error:
            self._ahead.take_back(before)
            return _Failure(error)
        if each.is_dry:
            self._ahead.take_back(before)
        return answer

    # --- the file, between two groups ---

    def _look(self) -> None:
        """Whether the file is still there and ours, and whether there is room again where there was none."""
        self._looked_at = time.monotonic()
        if self._broken:
            self._save()
            return
        try:
            if self._shortage:
                self._file.try_again(self._short_bytes)
                log.warning("the data file can be written again")
                self._shortage, self._short_bytes = "", 0
            else:
                self._file.look()
        except DataFileLost as error:
            self._lose(error)
        except NoRoom as error:
            self._run_short(error, 0)
        except NotWritten:
            pass  # another program holds its lock; it is asked again
        except Exception as error:
            self._broken = f"the storage has failed: {error!r}"
            log.error("%s; nothing is written any more: restart makeway", self._broken)

    def _run_short(self, error: NoRoom, size: int) -> None:
        if not self._shortage:
            log.warning("nothing can be written to %s: %s", self._file.path, error)
        self._shortage = (
            f"nothing can be written: {error}; removals are let through, and all is well when there is room"
        )
        self._short_bytes = min(filter(None, (self._short_bytes, size)), default=0)

    def _lose(self, error: DataFileLost) -> None:
        self._broken = (
            f"the data file is not ours any more: {error}; nothing is written, restart makeway when it is back"
        )
        self._is_lost = True
        log.error("%s: %s", self._file.path, self._broken)

    def _save(self) -> None:
        """Once: what was shown, which is what was acknowledged, into a new file in the folder that was ours."""
        if not self._is_lost:
            return
        self._is_lost = False
        with self._reading:
            objects, revision = list(self._shown.all()), int(self._shown.resource_version)
        try:
            folder = self._file.folder()
            name = f"{self._file.path.name}.saved-{revision}"
            write_copy(folder / name, revision, objects)
            where = Path(os.path.realpath(folder)) / name
        except (OSError, sqlite3.Error, DataFileRefused) as problem:
            self._broken += f". What was acknowledged could not be saved: {problem}; get it from this server"
        else:
            self._broken += (
                f". All {len(objects)} objects, up to revision {revision}, are in {where}: to go on with them, stop"
                f" makeway, put that file in the place of {self._file.path}, remove -wal and -shm, and start"
            )
        log.error("%s: %s", self._file.path, self._broken)


class SharedWatch:
    """A watch of a Store that other threads write to."""

    def __init__(self, watch: HistoryWatch, reading: Lock) -> None:
        self._watch = watch
        self._reading = reading

    @property
    def place(self) -> int | None:
        """See ``HistoryWatch``. Whoever polls may ask without a lock: nobody else moves it."""
        return self._watch.place

    def move(self, place: int) -> None:
        self._watch.move(place)

    def poll(self, limit: int = 1000, bytes_max: int = BYTES_MAX) -> Sequence[WatchEvent]:
        with self._reading:
            return self._watch.poll(limit, bytes_max)

    def close(self) -> None:
        with self._reading:
            self._watch.close()


def _leave_be(each: Stored, error: Exception) -> None:
    log.warning(
        "%s could not be looked at by the garbage collector and is left: %r", called(each.kind, each.name), error
    )


def _new_names() -> Names:
    """Names that no earlier start of the server has given: it is the same source, from a seed nobody had."""
    return SeededNames(secrets.randbits(128))
