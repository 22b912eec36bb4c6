"""Workloads that no cycle evaluates: when each of them is told why it waits, and what is true of it (0076).

A workload that is parked with an equivalent one (S-4.5.3) is told what a cycle would decide about it. That is computed
once for all workloads that are parked together and of which the same is true, and holds until their queue is woken.
For the others ``unseen`` says what they wait for.

Not here: whether that is news, and how it is written (``plans``, ``statuses``); what keeps a workload out of its queue
(``workloads.lifecycle``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain

from makeway.api.conditions import find
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import WORKLOAD, Ref, Trouble, View, workload_ref
from makeway.controllers.workloads.eviction import DEACTIVATED, condition, status_of
from makeway.core.cycle.verdicts import Verdict
from makeway.core.cycle.why_waiting import Unseen, found_about, is_true_of_all_alike, unseen
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.model import Workload as Waiting
from makeway.core.queueing.waiting_list import EquivalenceClass
from makeway.runtime.scheduling.outdated import OutdatedStatuses

QUIET_MS = 1000  # so long a workload waits, and its queue stays unchanged, before the workload gets its first status
BUSY_INTERVALS = 2  # in a queue that always changes, a workload gets it after so many times ``statusWriteInterval``
SOON_MS = 500  # how long a status may be outdated
EVALUATED_LATER = ("PendingEvaluation", "Pending")


class Unevaluated:
    """``troubles`` takes workloads for which no reason can be computed."""

    def __init__(self, troubles: list[Trouble] | None = None) -> None:
        self._troubles = [] if troubles is None else troubles
        self._missing = OutdatedStatuses(QUIET_MS)  # workloads without a status, and those that were evicted
        self._outdated = OutdatedStatuses(SOON_MS)  # those whose status says only that they wait to be evaluated
        self._at_times: list[tuple[Millis, WorkloadKey]] = []  # when a status will be outdated
        self._time_of: dict[WorkloadKey, Millis] = {}  # the newest of these times
        # For each equivalence class: how often its queue was woken, and why it waits.
        self._of_class: dict[tuple[QueueName, EquivalenceClass], tuple[int, Verdict | Unseen]] = {}

    def note(self, workload: Workload, view: View, now: Millis) -> None:
        """A waiting workload is stored anew, or joins a queue: it may be one that no cycle evaluates."""
        queue = view.queue_of(workload)
        if queue not in view.state.queues or view.policy.is_parity:
            return  # the recorded system writes a status only for workloads that it evaluates
        reserved = find(status_of(workload).conditions, "QuotaReserved")
        is_outdated = reserved is not None and reserved.reason in EVALUATED_LATER and not _has_just_left(workload)
        (self._outdated if is_outdated else self._missing).note(queue, (Ref.of(workload).key,), now)

    def note_queue(self, queue: QueueName, view: View, now: Millis) -> None:
        """Something has changed that the statuses of all workloads in this queue may depend on.

        A workload that has no status yet gets one as usual.
        """
        waiting_list = view.state.pending.lists.get(queue)
        if waiting_list is None or not waiting_list.members or view.policy.is_parity:
            return
        told: dict[bool, list[WorkloadKey]] = {True: [], False: []}
        for key in waiting_list.members:
            told[_has_words(key, view)].append(key)
        for has_words, keys in told.items():
            if keys:
                (self._outdated if has_words else self._missing).note(queue, keys, now)

    def note_later(self, workload: Waiting, at: Millis) -> None:
        """A status speaks of a time. Once that is over, and cycles had their chance, the status is outdated."""
        at = Millis(at + QUIET_MS)
        if self._time_of.get(workload.key) != at:
            self._time_of[workload.key] = at
            heappush(self._at_times, (at, workload.key))

    def forget(self, key: WorkloadKey) -> None:
        """The workload has quota, or is gone."""
        self._missing.forget(key)
        self._outdated.forget(key)

    def stir(self, queues: Collection[QueueName], now: Millis) -> None:
        """Something happens in these queues that may admit a workload."""
        self._missing.stir(queues, now)

    def next_at(self) -> Millis | None:
        times = (self._missing.next_at(), self._outdated.next_at(), self._at_times[0][0] if self._at_times else None)
        return min((at for at in times if at is not None), default=None)

    def is_due(self, now: Millis) -> bool:
        at = self.next_at()
        return at is not None and at <= now

    def found(self, view: View, now: Millis) -> Iterator[tuple[WorkloadKey, Verdict | Unseen | None]]:
        """Workloads that get a status now, and why each waits; None where it does not wait, or ``lifecycle`` says why.

        To be called while no head is due. A caller may stop at any time, and gets the others when it calls again.
        """
        while self._at_times and self._at_times[0][0] <= now:
            at, key = heappop(self._at_times)
            if self._time_of.get(key) == at:
                del self._time_of[key]
                yield key, self._found_about(key, view, now)
        at_latest = BUSY_INTERVALS * view.policy.status_write_interval_ms
        for key in chain(self._outdated.settled(SOON_MS, now), self._missing.settled(at_latest, now)):
            yield key, self._found_about(key, view, now)
        self._of_class.clear()

    def _found_about(self, key: WorkloadKey, view: View, now: Millis) -> Verdict | Unseen | None:
        try:
            return self._why_it_waits(key, view, now)
        except Exception as error:
            self._troubles.append(Trouble(workload_ref(key), error))
            return None

    def _why_it_waits(self, key: WorkloadKey, view: View, now: Millis) -> Verdict | Unseen | None:
        state, stored = view.state, view.get(Ref(WORKLOAD, *key.split("/", 1)))
        queue = QueueName("") if stored is None else view.queue_of(stored)
        waiting = state.pending.find(queue, key)
        if waiting is None or not state.is_active(queue):
            return None
        waiting_list = state.pending.list_of(queue)
        alike = waiting_list.classes.of.get(key)
        is_shared = alike is not None and alike in waiting_list.classes.parked and is_true_of_all_alike(state, waiting)
        if alike is None or not is_shared or state.claims.find(key) is not None:
            return unseen(state, waiting, now) or found_about(state, waiting, now)
        wakes, known = waiting_list.wakes, self._of_class.get((queue, alike))
        if known is None or known[0] != wakes:
            known = self._of_class[queue, alike] = (wakes, found_about(state, waiting, now))
        return _of(known[1], waiting)


def _has_words(key: WorkloadKey, view: View) -> bool:
    stored = view.get(Ref(WORKLOAD, *key.split("/", 1)))
    return stored is not None and find(status_of(stored).conditions, "QuotaReserved") is not None


def _has_just_left(workload: Workload) -> bool:
    """Whether it was evicted: most of those are admitted again soon. A deactivated workload is not meant."""
    evicted = condition(workload, "Evicted")
    return evicted is not None and evicted.status == "True" and not evicted.reason.startswith(DEACTIVATED)


def _of(found: Verdict | Unseen, waiting: Waiting) -> Verdict | Unseen:
    """The reason of one workload, as the reason of another one that is parked with it."""
    if isinstance(found, Unseen):
        return found._replace(workload=waiting)
    return found if found.workload is waiting else replace(found, workload=waiting)
