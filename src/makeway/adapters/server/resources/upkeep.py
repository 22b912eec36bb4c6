"""Background work of the server: it empties namespaces that are being deleted, and removes events after an hour.

It covers all kinds, also those that no decision needs and no informer follows; so it is here and not in a controller
(decision 0021). The work is done in small pieces, each a decision of its own, so that no request waits long behind a
namespace of a hundred thousand objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from threading import Lock

from msgspec.structs import replace

from makeway.adapters.server.resources.admission import NAMESPACE_FINALIZER
from makeway.adapters.server.resources.troubles import GaveUp, log, log_trouble
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.conditions import MESSAGE_BYTES_MAX, cut
from makeway.api.objects.kubernetes import Event, Namespace, NamespaceSpec, amended, view
from makeway.api.quantity import MicroTime, Time
from makeway.api.reading.documents import Tree
from makeway.api.versions import kind_of
from makeway.controllers.contract import NAMESPACE, Ref
from makeway.core.model import Millis
from makeway.runtime.informers import ref_of
from makeway.runtime.ports import Clock, NotFound, Revision, Stored, StoreError, kind_key
from makeway.runtime.stores.rules import StoreRules

NAMESPACES, EVENTS = kind_of(Namespace), kind_of(Event)
PIECE = 500
EVENTS_MS = 60 * 60 * 1000
LOOK_SECONDS = 30.0  # between two searches for old events
RETRY_SECONDS = 5.0
UPKEEP = "upkeep"  # the part that gives up on an object here


class Upkeep:
    """Runs in the HTTP loop from ``run`` until it is cancelled; its writes happen on the writer thread.

    ``gave_up`` is called with objects that it cannot handle.
    """

    def __init__(
        self, store: SqliteStore, clock: Clock, *, events_ms: int = EVENTS_MS, gave_up: GaveUp = log_trouble
    ) -> None:
        self._gave_up = gave_up
        self._store = store
        self._clock = clock
        self._events_ms = events_ms
        self._ending: set[str] = set()  # namespaces
        self._written: dict[tuple[str, str], tuple[Millis, int]] = {}  # events: last time and revision, oldest first
        self._writing = Lock()  # protects these
        self._called: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin()

    def _begin(self) -> None:
        self._store.on_commit(self._committed)
        self._ending |= {each.name for each in self._store.list(NAMESPACES).items if each.deleting}
        told = [(self._last_told(each), each) for each in self._store.list(EVENTS).items]  # as good as when written
        with self._writing:
            for at, each in sorted(told, key=lambda pair: (pair[0], pair[1].revision)):
                self._written.setdefault((each.namespace, each.name), (at, each.revision))

    def _last_told(self, event: Stored) -> Millis:
        try:
            return _last_told(event.value())
        except Exception as error:  # it is kept as long as an event from just now
            self._gave_up(ref_of(event), UPKEEP, error)
            return self._clock()

    def _committed(self, changes: Sequence[Revision]) -> None:
        """Called on the thread of the writer."""
        concerns_us = False
        for change in changes:
            after = change.after
            if kind_key(after.kind) == ("", "Event"):
                with self._writing:
                    self._written.pop((after.namespace, after.name), None)
                    if change.type != "DELETED":
                        self._written[after.namespace, after.name] = (self._clock(), after.revision)
            elif kind_key(after.kind) == ("", "Namespace"):
                (self._ending.add if after.deleting and change.type != "DELETED" else self._ending.discard)(after.name)
                concerns_us |= after.deleting
            concerns_us |= after.namespace in self._ending and change.type == "DELETED"
        if concerns_us and self._loop is not None and self._called is not None:
            with suppress(RuntimeError):  # the loop has ended: the next start handles it
                self._loop.call_soon_threadsafe(self._called.set)

    async def run(self) -> None:
        self._loop, self._called = asyncio.get_running_loop(), asyncio.Event()
        while True:
            self._called.clear()
            seconds = LOOK_SECONDS
            try:
                if await self._work():
                    continue
            except StoreError:  # a full disk: try again when there is room
                seconds = RETRY_SECONDS
            except Exception:
                log.exception("upkeep")
                seconds = LOOK_SECONDS
            timer = self._loop.call_later(seconds, self._called.set)
            await self._called.wait()
            timer.cancel()

    async def _work(self) -> bool:
        """Do one piece of work; return whether there may be more."""
        more = False
        for name in sorted(self._ending):
            try:
                more |= await asyncio.wrap_future(self._store.submit(partial(emptied, name=name)))
            except StoreError:
                raise
            except Exception as error:  # it is tried again in the next round, the others go on now
                self._gave_up(Ref(NAMESPACE, "", name), UPKEEP, error)
        return more | await self._forget_events()

    async def _forget_events(self) -> bool:
        before = self._clock() - self._events_ms
        with self._writing:
            oldest = islice(self._written.items(), PIECE)
            old = [(*place, revision) for place, (at, revision) in oldest if at <= before]
        if old:
            await asyncio.wrap_future(self._store.submit(lambda ahead: _forget(ahead, old)))
        return len(old) == PIECE


def _forget(ahead: StoreRules, old: Sequence[tuple[str, str, int]]) -> None:
    for namespace, name, revision in old:
        try:
            if ahead.get(EVENTS, namespace, name).revision == revision:  # else the event was repeated since
                ahead.delete(EVENTS, namespace, name)
        except NotFound:
            continue


def _last_told(event: Event) -> Millis:
    times: list[Time | MicroTime | None] = [
        event.metadata.creation_timestamp, event.last_timestamp, event.event_time,
        event.series.last_observed_time if event.series else None,
    ]  # fmt: skip
    return Millis(max((time.millis for time in times if time is not None), default=0))


def emptied(ahead: StoreRules, name: str) -> bool:
    """Remove some objects of a namespace that is being deleted, and the namespace when it is empty.

    Return whether there is more to remove; objects with finalizers, or with pods that are ending, are waited for.
    """
    try:
        namespace = ahead.get(NAMESPACES, "", name)
    except NotFound:
        return False
    if not namespace.deleting:
        return False
    inside = list(islice((each for each in ahead.within(name) if not each.deleting), PIECE))
    for each in inside:
        try:
            ahead.delete(each.kind, each.namespace, each.name)
        except NotFound:  # it was removed with its owner
            continue
    if inside:
        return True
    held = list(islice(ahead.within(name), PIECE))
    value: Namespace = namespace.value()
    if held:
        ahead.put(namespace, replace(value, status=amended(value.status, _remaining(held))))
        return False
    kept = [finalizer for finalizer in view(value.spec, NamespaceSpec).finalizers if finalizer != NAMESPACE_FINALIZER]
    ahead.put(namespace, replace(value, spec=amended(value.spec, {"finalizers": kept or None})))
    return False


def _remaining(held: Sequence[Stored]) -> dict[str, Tree]:
    """Return the status of a namespace that waits, with what it waits for."""
    counts: dict[str, int] = {}
    finalizers: dict[str, int] = {}
    for each in held:
        called = f"{each.kind.plural}.{each.kind.group}" if each.kind.group else f"{each.kind.plural}."
        counts[called] = counts.get(called, 0) + 1
        for finalizer in each.finalizers:
            finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    there = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(counts.items()))
    by = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    conditions = [
        _condition("NamespaceContentRemaining", "SomeResourcesRemain", f"Some resources are remaining: {there}")
    ]
    if by:
        words = f"Some content in the namespace has finalizers remaining: {by}"
        conditions.append(_condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", words))
    return {"phase": "Terminating", "conditions": conditions}


def _condition(type_: str, reason: str, message: str) -> dict[str, Tree]:
    """Return a condition with a bounded message: there may be more finalizers than fit into an object."""
    return {"type": type_, "status": "True", "reason": reason, "message": cut(message, MESSAGE_BYTES_MAX)}
