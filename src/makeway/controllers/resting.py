"""Workloads that no cycle evaluates: when each of them is to be told why it waits, and what is true of it (0076).

A workload that is parked with an equivalent one (S-4.5.3) is told what a cycle would find about it. That is found once
for all that are parked together, and stands until their queue is woken. The others wait for what ``unseen`` says.

Not here: whether that is news, and how it is written (``scheduling``); what keeps a workload out of its queue
(``workloads``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain

from makeway.api.conditions import find
from makeway.api.objects.workload import Workload
from makeway.controllers.contract import Ref, View
from makeway.controllers.eviction import DEACTIVATED, condition, status_of
from makeway.controllers.unheard import Unheard
from makeway.core.kept_waiting import Unseen, found_about, unseen
from makeway.core.line import Kin
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.model import Workload as Waiting
from makeway.core.verdicts import Verdict

RESTS_MS = 1000  # how long a workload and its queue rest before it gets its first status
BUSY_INTERVALS = 2  # in a queue that never rests it gets it after so many times ``statusWriteInterval``
SOON_MS = 500  # how long a status may be outdated
EVALUATED_LATER = ("PendingEvaluation", "Pending")


class Resting:
    def __init__(self) -> None:
        self._silent = Unheard(RESTS_MS)  # workloads without a status, and those that were evicted
        self._outdated = Unheard(SOON_MS)  # those whose status says no more than that they wait to be evaluated
        self._of_kin: dict[tuple[QueueName, Kin], tuple[int, Verdict | Unseen]] = {}  # beside it how often it was woken

    def note(self, workload: Workload, view: View, now: Millis) -> None:
        """A workload that waits is stored anew, or joins a queue: it may be one that no cycle evaluates."""
        queue = view.queue_of(workload)
        if queue not in view.state.queues or view.policy.profile == "parity":
            return  # the recorded system tells those that it evaluates, and no other
        reserved = find(status_of(workload).conditions, "QuotaReserved")
        is_outdated = reserved is not None and reserved.reason in EVALUATED_LATER and not _has_just_left(workload)
        (self._outdated if is_outdated else self._silent).note(queue, (Ref.of(workload).key,), now)

    def note_queue(self, queue: QueueName, view: View, now: Millis) -> None:
        """Something has changed that all words of workloads in this queue may depend on."""
        line = view.state.pending.lines.get(queue)
        if line is not None and line.members and view.policy.profile != "parity":
            self._outdated.note(queue, line.members, now)

    def forget(self, key: WorkloadKey) -> None:
        """It has quota, or is gone."""
        self._silent.forget(key)
        self._outdated.forget(key)

    def stir(self, queues: Collection[QueueName], now: Millis) -> None:
        """Something happens in these queues that may let a workload in."""
        self._silent.stir(queues, now)

    def next_at(self) -> Millis | None:
        return min((at for each in (self._silent, self._outdated) if (at := each.next_at()) is not None), default=None)

    def is_due(self, now: Millis) -> bool:
        return self._silent.is_due(now) or self._outdated.is_due(now)

    def found(self, view: View, now: Millis) -> Iterator[tuple[WorkloadKey, Verdict | Unseen | None]]:
        """Workloads that are to be told now, and why each of them waits; None where it does not, or ``workloads`` says.

        To be asked while no head is due. A caller may stop at any time, and gets the others when it asks again.
        """
        at_latest = BUSY_INTERVALS * view.policy.status_write_interval_ms
        for key in chain(self._outdated.rested(SOON_MS, now), self._silent.rested(at_latest, now)):
            yield key, self._as_it_stands(key, view, now)
        self._of_kin.clear()

    def _as_it_stands(self, key: WorkloadKey, view: View, now: Millis) -> Verdict | Unseen | None:
        state, stored = view.state, view.get(Ref("Workload", *key.split("/", 1)))
        queue = QueueName("") if stored is None else view.queue_of(stored)
        waiting = state.pending.find(queue, key)
        if waiting is None or not state.is_active(queue):
            return None
        line = state.pending.line(queue)
        kin = line.kin_of.get(key)
        if kin is None or kin not in line.resting or state.claims.find(key) is not None:
            return unseen(state, waiting, now) or found_about(state, waiting, now)
        wakes, known = line.wakes.get("count", 0), self._of_kin.get((queue, kin))
        if known is None or known[0] != wakes:
            known = self._of_kin[queue, kin] = (wakes, found_about(state, waiting, now))
        return _of(known[1], waiting)


def _has_just_left(workload: Workload) -> bool:
    """Whether it was evicted: most of those are admitted again soon. One that was switched off is no such workload."""
    evicted = condition(workload, "Evicted")
    return evicted is not None and evicted.status == "True" and not evicted.reason.startswith(DEACTIVATED)


def _of(found: Verdict | Unseen, waiting: Waiting) -> Verdict | Unseen:
    """What was found about a workload as what is true of one that is parked with it."""
    if isinstance(found, Unseen):
        return found._replace(workload=waiting)
    return found if found.workload is waiting else replace(found, workload=waiting)
