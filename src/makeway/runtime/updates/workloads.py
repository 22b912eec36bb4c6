"""Changes of Workloads: where each belongs from now on, and whether its rounds have ended.

A change that fails half way has changed nothing. A workload that no cycle could decide about stays out of its queue
until it changes, or is tried again.
"""

from __future__ import annotations

from makeway.api.names import NAMESPACE_LABEL
from makeway.api.objects.workload import Workload as WireWorkload
from makeway.controllers.contract import LOCAL_QUEUE, Ref
from makeway.core.lowering import is_worth_a_look
from makeway.core.lowering.workloads import is_accounted
from makeway.runtime.updates.comparing import is_finished, is_seen_alike
from makeway.runtime.updates.context import STATE, UpdateContext
from makeway.runtime.updates.places import Move, Place, WorkloadPlaces, place_of
from makeway.runtime.updates.reading import ObjectReader


class WorkloadUpdates:
    def __init__(self, context: UpdateContext, reader: ObjectReader, places: WorkloadPlaces) -> None:
        self._context = context
        self._follow_ups = context.follow_ups
        self._state = context.state
        self._reader = reader
        self._places = places
        self._undecidable: set[Ref] = set()  # Workloads that no cycle could decide about, until they change

    def changed(self, ref: Ref[WireWorkload], before: WireWorkload | None, after: WireWorkload | None) -> None:
        if before is not None and after is not None and is_seen_alike(before, after):
            return
        queue = self._places.queue_of(ref.key)
        try:
            with self._state.attempt():
                self._change(ref, before, after)
        except Exception as error:  # its last state counts
            self._places.put_back(ref.key, queue)
            self._context.set_aside.put(ref, STATE, error, self._context.now)
        else:
            self._context.handled(ref, STATE)

    def _change(self, ref: Ref[WireWorkload], before: WireWorkload | None, after: WireWorkload | None) -> None:
        known, state = self._places.find(ref.key), self._state
        if ref.namespace not in state.namespaces and not self._context.objects.count("Namespace"):
            state.namespaces[ref.namespace] = {NAMESPACE_LABEL: ref.namespace}  # a Store that keeps none
        lowered = None if after is None else self._reader.waiting_or_holding(ref, after)
        move = Move(ref, before, after, known, lowered)
        belongs = self._belongs(move)
        if belongs == "waiting" and self._stays_out(move):
            return
        if belongs != "absent":
            self._undecidable.discard(ref)
        if belongs != "absent" or not self._keeps_quota(move):
            self._places.move(move, belongs)
        if after is None or is_finished(after):
            self._ended(move)
        for value in (before, after):
            if value is not None:
                self._follow_ups.figures[Ref(LOCAL_QUEUE, ref.namespace, value.spec.queue_name)] = None

    def _belongs(self, move: Move) -> Place:
        if move.after is None or move.lowered is None:
            return "absent"
        if is_accounted(move.after):
            return "holding"
        return "waiting" if move.lowered.queue else "absent"

    def _stays_out(self, move: Move) -> bool:
        """Whether no cycle could decide about it, and nothing has changed that decisions depend on."""
        before, after = move.before, move.after
        if move.ref not in self._undecidable or before is None or after is None:
            return False
        return not is_worth_a_look(before, after, self._state.policy)

    def _keeps_quota(self, move: Move) -> bool:
        """Whether it has quota of which the amount cannot be read any more: then its last state counts."""
        if place_of(move.known) != "holding" or move.after is None:
            return False
        return self._reader.is_unread(move.ref) and is_accounted(move.after)

    def _ended(self, move: Move) -> None:
        """It is gone or has finished: the rounds that it took part in are over."""
        ref, before, after = move.ref, move.before, move.after
        self._undecidable.discard(ref)
        gone = move.known
        if gone is None and before is not None:
            gone = self._reader.workload(ref, before)
        if gone is not None and (after is None or before is None or not is_finished(before)):
            self._state.rounds.end_after(gone)

    def take_out(self, ref: Ref[WireWorkload]) -> None:
        """No cycle can decide about it: it waits outside of its queue until it changes, or is tried again."""
        known = self._places.find(ref.key)
        if known is not None:
            self._places.forget(known)
        self._undecidable.add(ref)
        self._follow_ups.unread[ref] = None
        self._follow_ups.enqueue(ref)

    def try_again(self, ref: Ref[WireWorkload]) -> None:
        """Bring the state in line with the object, as if it were new."""
        self._undecidable.discard(ref)
        self.changed(ref, None, self._context.objects.expected(ref))
        self._follow_ups.queued[ref] = None  # its status may still say that it was set aside

    def lower_again(self, workload: WireWorkload) -> None:
        """Its meaning changed although its object did not (S-4.8, 3.9); a holder keeps the quota it has."""
        ref = Ref.of(workload)
        expected = self._context.objects.expected(ref)
        self._follow_ups.enqueue(ref)
        known = self._places.find(ref.key)
        if expected is None or place_of(known) == "holding" or not self._reader.may_wait(expected):
            return
        lowered = self._reader.waiting_or_holding(ref, expected)
        if known is not None:
            self._places.forget(known)
        if lowered is not None and lowered.queue and ref not in self._undecidable:
            self._state.push(lowered, self._context.now)
            self._places.moved(lowered)
            self._follow_ups.queued[ref] = None
