"""The writer thread: it decides the calls that wait on the newest state, and commits their changes as one transaction.

It takes at most ``GROUP_MAX`` calls, lets each decide on the state the one before it left, and commits all their
changes; then they are shown, then the calls return. While it waits for the disk the next group gathers. What lost its
owner goes a little at a time, with each group and while nobody calls; what is left of it when a server ends goes after
the next start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from makeway.adapters.server.storage.guarding import RETRY_AFTER, GroupNotStored, GuardedFile, Short
from makeway.adapters.server.storage.shared import SharedObjects
from makeway.runtime.ports import Revision, TimedOut, Unavailable
from makeway.runtime.stores.rules import StoreRules

log = logging.getLogger("makeway.storage")

GROUP_MAX = 256
LOOKS_PER_CALL = 64  # of the garbage collector: an owner of a few goes with them at once
LOOKS_PER_GROUP = 256  # so that the next call waits for no more of it than for a full group
LOOK_SECONDS = 1.0  # the longest time for which nobody looks at the file
CLOSED = "the storage is closed"

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


class GroupWriter:
    """``ahead`` belongs to its thread from now on, and so does writing to ``file``."""

    def __init__(self, file: GuardedFile, ahead: StoreRules, shown: SharedObjects) -> None:
        self.listeners: tuple[OnCommit, ...] = ()
        self._file = file
        self._ahead = ahead
        self._shown = shown
        self._entering = Lock()  # to put something into the queue, or to end that
        self._is_closed = False
        self._looked_at = time.monotonic()
        self._collects_from = self._looked_at  # a write that failed puts this off: nothing spins
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="makeway-storage", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """Why nothing can be written, at present or until the next start; "" while all is well."""
        state = self._file.state
        return CLOSED if self._is_closed and not self._file.is_over else state.why

    def submit(self, decision: Callable[[StoreRules], T], *, dry_run: bool = False) -> Future[T]:
        """See ``SqliteStore.submit``."""
        answer: Future[T] = Future()
        with self._entering:
            if self._is_closed or self._file.is_over:
                raise Unavailable(self.trouble, RETRY_AFTER)
            self._queue.put(_Waiting(decision, answer, dry_run))
        return answer

    def close(self) -> bool:
        """Commit what waits, and end the thread; False where that was done before."""
        with self._entering:
            if self._is_closed:
                return False
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()
        return True

    # --- the thread ---

    def _run(self) -> None:
        while True:
            has_garbage = self._may_collect() and self._ahead.has_suspects and not self._file.is_over
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
        self._file.save()

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        self._file.look()

    def _write_group(self, group: Sequence[_Waiting]) -> None:
        try:
            outcomes = self._outcomes(group)
        except BaseException as error:  # whatever it is, nobody may wait for ever
            self._file.fail(error)
            outcomes = [_Failure(TimedOut(self._file.state.why)) for _ in group]
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
        most = 1 if isinstance(self._file.state, Short) else GROUP_MAX
        while len(group) < most and not self._queue.empty():
            each = self._queue.get()
            if each is None:
                self._queue.put(None)  # nothing can come after it: it ends the thread when this group is done
                break
            group.append(each)
        return group

    def _outcomes(self, group: Sequence[_Waiting]) -> Sequence[Any]:
        """What each call is answered. One that was refused may stand on what others of the group had written."""
        if self._file.is_over:
            return [_Failure(Unavailable(self._file.state.why, RETRY_AFTER)) for _ in group]
        before = self._ahead.mark()
        outcomes = [self._outcome(each) for each in group]
        if self._may_collect() and not (isinstance(self._file.state, Short) and group):
            self._ahead.collect(LOOKS_PER_GROUP)
        changes = self._ahead.uncommitted()
        if changes:
            try:
                self._file.write(changes)
            except GroupNotStored as error:
                self._ahead.take_back(before)
                self._collects_from = time.monotonic() + LOOK_SECONDS
                return [_Failure(error.answer()) for _ in group]
            self._shown.show(changes)
        self._ahead.compact()
        if changes:
            self._tell(changes)
        return outcomes

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

    def _tell(self, changes: Sequence[Revision]) -> None:
        for listener in self.listeners:
            try:
                listener(changes)
            except Exception:  # what is stored is stored, even if a listener cannot hear of it
                log.exception("a listener failed")

    def _may_collect(self) -> bool:
        return time.monotonic() >= self._collects_from
