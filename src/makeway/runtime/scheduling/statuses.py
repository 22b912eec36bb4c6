"""Which statuses of waiting workloads were written, and which are held back (S-5.12).

A status is written when it says something new, at most once per ``statusWriteInterval`` and object. In between the
newest one is kept, until it is due. What was written counts as long as it is stored: when another client has written
the status since, ours counts as never written. A restart may forget all of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from makeway.api.conditions import find
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import Change, Edit, View, Write, workload_ref
from makeway.controllers.workloads.eviction import status_of
from makeway.core.cycle.cycle import Verdict
from makeway.core.cycle.why_waiting import Unseen
from makeway.core.messages import message_class, pending_message, pending_reason, shown_reason
from makeway.core.model import DAWN, Millis, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.trace import Step

WhyWaiting = Verdict | Unseen  # why a workload waits


class Words(NamedTuple):
    """The status of a waiting workload without its amounts: as long as that stays, nothing is written (S-5.12)."""

    reason: str
    message: str
    claims: bool  # whether a claim goes with it

    @classmethod
    def of(cls, why: Verdict | Unseen, policy: Policy) -> Words:
        if isinstance(why, Unseen):
            return cls(shown_reason(why.reason, policy), message_class(why.message), why.workload.claim is not None)
        reason, message = shown_reason(pending_reason(why), policy), pending_message(why)
        return cls(reason, message_class(message), why.claim is not None)

    @classmethod
    def stored_in(cls, workload: Workload | None) -> Words | None:
        """The words of its stored status."""
        status = None if workload is None else status_of(workload)
        reserved = None if status is None else find(status.conditions, "QuotaReserved")
        if status is None or reserved is None or reserved.status != "False":
            return None
        return cls(reserved.reason, message_class(reserved.message), status.preemption_claim is not None)


class _Written(NamedTuple):
    meaning: object  # decides about the words: equal meanings have equal words
    words: Words
    at: Millis  # when they were written; the beginning of time where that delays nothing
    under_way: Edit[Workload] | None = None  # the edit that writes them, until it is answered


class StatusWrites:
    def __init__(self) -> None:
        self._written: dict[WorkloadKey, _Written] = {}
        self._held_back: dict[WorkloadKey, WhyWaiting] = {}
        self._due: list[tuple[Millis, WorkloadKey]] = []  # when a status that is held back is due

    # --- written ---

    def writing(self, why: WhyWaiting, words: Words, now: Millis, edit: Edit[Workload]) -> None:
        """This status is being written. The first verdict after a reason without a cycle is written at once."""
        key = why.workload.key
        self._held_back.pop(key, None)
        if isinstance(why, Unseen):
            self._written[key] = _Written(why, words, DAWN, edit)
        else:
            self._written[key] = _Written(meaning_of(why), words, now, edit)

    def has_written(self, key: WorkloadKey, view: View) -> bool:
        """Whether its status was written here, and by no other client since."""
        return self._still(key, view) is not None

    def is_writing(self, key: WorkloadKey) -> bool:
        written = self._written.get(key)
        return written is not None and written.under_way is not None

    def answered(self, write: Write, stored: bool) -> None:
        """A write is answered; a status that could not be stored counts as not written."""
        written = self._written.get(write.ref.key) if isinstance(write, Change) else None
        if written is not None and isinstance(write, Change) and write.edit is written.under_way:
            if stored:
                self._written[write.ref.key] = written._replace(under_way=None)
            else:
                del self._written[write.ref.key]

    def is_news(self, key: WorkloadKey, words: Words, view: View) -> bool:
        """Whether these words differ from those that are stored, or on their way."""
        return words != self._words(key, self._still(key, view), view)

    def is_verdict_news(self, verdict: Verdict, view: View) -> bool:
        """Whether a verdict is news; an equal meaning is not put into words again."""
        key, meaning = verdict.workload.key, meaning_of(verdict)
        written = self._still(key, view)
        if written is not None and written.meaning == meaning:
            return False
        words = Words.of(verdict, view.policy)
        if words != self._words(key, written, view):
            return True
        self._written[key] = _Written(meaning, words, DAWN) if written is None else written._replace(meaning=meaning)
        return False

    def due_at(self, key: WorkloadKey, view: View, now: Millis) -> Millis:
        """When its status may be written again."""
        written = self._still(key, view)
        return now if written is None else Millis(written.at + view.policy.status_write_interval_ms)

    def _still(self, key: WorkloadKey, view: View) -> _Written | None:
        """The last status written here, unless another client has written one since."""
        written = self._written.get(key)
        if written is not None and written.under_way is None and written.words != self._words(key, None, view):
            del self._written[key]
            return None
        return written

    def _words(self, key: WorkloadKey, written: _Written | None, view: View) -> Words | None:
        """The words of the last status written here, else those of the stored status."""
        return Words.stored_in(view.get(workload_ref(key))) if written is None else written.words

    # --- held back ---

    def hold_back(self, key: WorkloadKey, why: WhyWaiting, until: Millis) -> None:
        """Keep a status until then, unless there is a newer one."""
        if key not in self._held_back:
            heappush(self._due, (until, key))
        self._held_back[key] = why

    def drop(self, key: WorkloadKey) -> None:
        """A status that is held back is not true any more."""
        self._held_back.pop(key, None)

    def passed_over(self, key: WorkloadKey) -> None:
        """Its last "no" is still true: that it lost its turn in between is not told any more (0018)."""
        late = self._held_back.get(key)
        if isinstance(late, Verdict) and late.only_lost_its_turn:
            del self._held_back[key]

    def due(self, now: Millis) -> Iterator[tuple[WorkloadKey, WhyWaiting]]:
        """Statuses that were held back and are due now."""
        while self._due and self._due[0][0] <= now:
            key = heappop(self._due)[1]
            why = self._held_back.pop(key, None)
            if why is not None:
                yield key, why

    def next_at(self) -> Millis | None:
        while self._due and self._due[0][1] not in self._held_back:
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def forget(self, key: WorkloadKey) -> None:
        """The workload has quota, or is gone: no status is due any more."""
        self._written.pop(key, None)
        self._held_back.pop(key, None)


def meaning_of(verdict: Verdict) -> object:
    """What decides about the words of a verdict."""
    steps: Iterable[Step] = (*verdict.steps, *verdict.assignment.steps)
    return verdict.status, verdict.requeue, tuple((step.rule, step.subjects) for step in steps), verdict.claim
