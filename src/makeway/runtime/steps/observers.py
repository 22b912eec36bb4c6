"""Observers of what happens in the engine: the journal, the metrics, the notes that become Events.

No decision depends on an observer. A new record or figure is one more method of an observer, or one more observer; the
engine does not know what they make of what they are told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from makeway.api.objects.meta import KubernetesObject
from makeway.controllers.contract import Action, Departure, Note, Outcome, Ref
from makeway.core.cycle.cycle import Plan
from makeway.core.model import Millis, QueueName, Workload, WorkloadKey


class Cycle(NamedTuple):
    """A scheduling cycle that was carried out in the state; its writes are still to come."""

    number: int
    plan: Plan
    seconds: float  # of the machine's time, shared by its verdicts; 0 where it is not measured

    def decision(self, index: int) -> str:
        """The id of one of its verdicts, which the writes of that carry."""
        return f"{self.number}/{index}"


class Departed(NamedTuple):
    """A stored write asked a workload or pod to go."""

    action: Action
    why: Departure
    stored: KubernetesObject | None  # the object as it is now
    preemptor: Workload | None  # for which it goes, as the state has it


class Observer:
    """Is told of everything, and by itself does nothing."""

    def stored(
        self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None, *, has_begun: bool
    ) -> None:
        """An object is stored anew, or gone; ``has_begun``: the engine had read all objects before."""

    def queues_changed(self, queues: Collection[QueueName]) -> None:
        """The workloads that hold quota or wait in these queues have changed; the configuration may have, too."""

    def reconciled(self, outcome: Outcome, seconds: float, now: Millis) -> None:
        """A controller has reconciled an object and answered; ``seconds`` of the machine's time."""

    def cycled(self, cycle: Cycle, now: Millis) -> None:
        """A cycle has decided something."""

    def claim_ended(self, key: WorkloadKey, queue: QueueName, why: str, now: Millis) -> None:
        """A claim ended without a cycle."""

    def wrote(self, action: Action, now: Millis) -> None:
        """A write is stored."""

    def departed(self, departed: Departed, now: Millis) -> None:
        """A write is stored that asks a workload or pod to go; after ``wrote``."""

    def failed(self, action: Action, now: Millis) -> None:
        """A write will never be stored."""


class Observers(Observer):
    """Several observers as one, in their order; what happens most often is passed on only to those that use it."""

    def __init__(self, all_: Sequence[Observer]) -> None:
        self._all = tuple(all_)
        self._stored = [each.stored for each in all_ if type(each).stored is not Observer.stored]
        self._answered = [each.wrote for each in all_ if type(each).wrote is not Observer.wrote]

    def stored(
        self, ref: Ref, before: KubernetesObject | None, after: KubernetesObject | None, *, has_begun: bool
    ) -> None:
        for notify in self._stored:
            notify(ref, before, after, has_begun=has_begun)

    def queues_changed(self, queues: Collection[QueueName]) -> None:
        for each in self._all:
            each.queues_changed(queues)

    def reconciled(self, outcome: Outcome, seconds: float, now: Millis) -> None:
        for each in self._all:
            each.reconciled(outcome, seconds, now)

    def cycled(self, cycle: Cycle, now: Millis) -> None:
        for each in self._all:
            each.cycled(cycle, now)

    def claim_ended(self, key: WorkloadKey, queue: QueueName, why: str, now: Millis) -> None:
        for each in self._all:
            each.claim_ended(key, queue, why, now)

    def wrote(self, action: Action, now: Millis) -> None:
        for notify in self._answered:
            notify(action, now)

    def departed(self, departed: Departed, now: Millis) -> None:
        for each in self._all:
            each.departed(departed, now)

    def failed(self, action: Action, now: Millis) -> None:
        for each in self._all:
            each.failed(action, now)


class NoteKeeper(Observer):
    """Keeps notes for Events: those of controllers at once, and those of a write once it is stored."""

    def __init__(self, notes: deque[Note]) -> None:
        self._notes = notes

    def reconciled(self, outcome: Outcome, seconds: float, now: Millis) -> None:
        self._notes.extend(outcome.notes)

    def wrote(self, action: Action, now: Millis) -> None:
        self._notes.extend(action.notes)
