"""One kind of a Store, followed without a large cache: its changes, and the last known state of its objects.

Not here: the kinds that the engine follows (``informers``), which may be many and whose writes it expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.api.versions import Kind
from makeway.runtime.ports import Expired, Store, Stored, Watch, WatchEvent


class KindFeed:
    """Begins anew when its place in the history is forgotten: it misses nothing, and may report a change twice."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._kind = kind
        self._watch: Watch = store.watch(kind)
        self._objects: dict[tuple[str, str], Stored] = {}

    def objects(self) -> Iterable[Stored]:
        """All objects, as far as their changes have been read."""
        return self._objects.values()

    def poll(self, limit: int = 1000) -> Sequence[WatchEvent]:
        try:
            events = self._watch.poll(limit)
        except Expired:
            events = self._anew()
        for event in events:
            stored = event.object
            if stored is not None and event.type == "DELETED":
                self._objects.pop((stored.namespace, stored.name), None)
            elif stored is not None:
                self._objects[stored.namespace, stored.name] = stored
        return events

    def _anew(self) -> Sequence[WatchEvent]:
        """All deletions first, then all objects there are."""
        page = self._store.list(self._kind)
        self._watch = self._store.watch(self._kind, page.resource_version)
        there = {(stored.namespace, stored.name): stored for stored in page.items}
        before = self._objects.items()
        gone = [stored for place, stored in before if place not in there or there[place].uid != stored.uid]
        return [
            *(WatchEvent("DELETED", page.resource_version, stored) for stored in gone),
            *(WatchEvent("MODIFIED", stored.resource_version, stored) for stored in page.items),
        ]
