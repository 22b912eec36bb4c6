"""The writer thread: it runs waiting decisions on the newest state, and commits their changes as one transaction.

It takes at most ``GROUP_MAX`` calls, runs each decision on the state that the one before it left, and commits all
changes. Then they become visible, and the calls return. During the disk write the next group gathers. Objects whose
owner is gone are collected a few at a time, with each group and while there are no calls; the rest is collected after
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
LOOKS_PER_CALL = 64  # steps of the garbage collector: the few objects of an owner are removed with it
LOOKS_PER_GROUP = 256  # so the next call waits no longer for it than for a full group
LOOK_SECONDS = 1.0  # at most this long without a check of the file
CLOSED = "the storage is closed"

T = TypeVar("T")
Decision = Callable[[StoreRules], Any]
OnCommit = Callable[[Sequence[Revision]], None]


@dataclass(frozen=True, slots=True)
class WaitingCall:
    decision: Decision
    answer: Future[Any]
    is_dry: bool


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


class GroupWriter:
    """``ahead`` belongs to this thread from now on, and so does writing to ``file``."""

    def __init__(self, file: GuardedFile, ahead: StoreRules, shown: SharedObjects) -> None:
        self.listeners: tuple[OnCommit, ...] = ()
        self._file = file
        self._ahead = ahead
        self._shown = shown
        self._entering = Lock()  # to put something into the queue, or to close it
        self._is_closed = False
        self._looked_at = time.monotonic()
        self._collects_from = self._looked_at  # a failed write delays this, so that the thread does not spin
        self._queue: SimpleQueue[WaitingCall | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="makeway-storage", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """Why nothing can be written, at present or until the next start; "" if writing works."""
        state = self._file.state
        return CLOSED if self._is_closed and not self._file.is_over else state.why

    def submit(self, decision: Callable[[StoreRules], T], *, dry_run: bool = False) -> Future[T]:
        """See ``SqliteStore.submit``."""
        answer: Future[T] = Future()
        with self._entering:
            if self._is_closed or self._file.is_over:
                raise Unavailable(self.trouble, RETRY_AFTER)
            self._queue.put(WaitingCall(decision, answer, dry_run))
        return answer

    def close(self) -> bool:
        """Commit what waits, and end the thread; False if that was done before."""
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
                self._write_group([call for call in group if call.answer.set_running_or_notify_cancel()])
            if time.monotonic() - self._looked_at >= LOOK_SECONDS:  # always busy, yet without a write
                self._look()
        self._file.save()

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        self._file.look()

    def _write_group(self, group: Sequence[WaitingCall]) -> None:
        try:
            outcomes = self._outcomes(group)
        except BaseException as error:  # no caller may wait for ever, whatever the error
            self._file.fail(error)
            outcomes = [_Failure(TimedOut(self._file.state.why)) for _ in group]
        for call, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, _Failure):
                call.answer.set_exception(outcome.error)
            else:
                call.answer.set_result(outcome)

    def _gathered(self, first: WaitingCall) -> Sequence[WaitingCall]:
        """Return all waiting calls, in order; only this thread takes from the queue.

        Callers of the last group just got their answers, and often write again: they get a chance to join. With many
        writers this makes one large group instead of two that alternate, each with its own wait for the disk.
        """
        time.sleep(0)
        group = [first]
        # on a nearly full disk each call is a group of its own: a removal must not fail because of other calls
        most = 1 if isinstance(self._file.state, Short) else GROUP_MAX
        while len(group) < most and not self._queue.empty():
            call = self._queue.get()
            if call is None:
                self._queue.put(None)  # nothing follows it: it ends the thread after this group
                break
            group.append(call)
        return group

    def _outcomes(self, group: Sequence[WaitingCall]) -> Sequence[Any]:
        """Return the answer to each call. A refusal too may depend on what other calls of the group have written."""
        if self._file.is_over:
            return [_Failure(Unavailable(self._file.state.why, RETRY_AFTER)) for _ in group]
        before = self._ahead.mark()
        outcomes = [self._outcome(call) for call in group]
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

    def _outcome(self, call: WaitingCall) -> Any:
        before = self._ahead.mark()
        try:
            answer = call.decision(self._ahead)
        except Exception as error:
            self._ahead.take_back(before)
            return _Failure(error)
        if call.is_dry:
            self._ahead.take_back(before)
        return answer

    def _tell(self, changes: Sequence[Revision]) -> None:
        for listener in self.listeners:
            try:
                listener(changes)
            except Exception:  # the data is stored, even if a listener fails
                log.exception("a listener failed")

    def _may_collect(self) -> bool:
        return time.monotonic() >= self._collects_from
