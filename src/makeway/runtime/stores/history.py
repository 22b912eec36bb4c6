"""The last writes of a Store that keeps its objects in memory, and watches as places in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from makeway.core.model import Millis, invariant
from makeway.runtime.ports import Expired, Filter, KindKey, Revision, Stored, Unavailable, WatchEvent, kind_key

BYTES_MAX = 256 * 1024 * 1024
FIRST_REVISION = 1  # as etcd begins: "0" never names a state, but asks for any


class History:
    """The last changes, one for each revision; at least ``keep`` of them once there were so many, at most twice.

    Fewer where they are large: of states that are kept for the history alone there are at most ``bytes_max`` bytes.
    A history that begins at a later revision knows nothing of earlier ones: reading there raises Expired.
    """

    def __init__(self, keep: int, revision: int = FIRST_REVISION, bytes_max: int = BYTES_MAX) -> None:
        self.revision = revision
        self._keep = keep
        self._bytes_max = bytes_max
        self._bytes = 0
        self._forgotten = revision  # the newest revision that is no longer here
        self._before = revision if revision > FIRST_REVISION else 0  # no kind was written later than that
        self._changes: list[Revision] = []
        self._of_kind: dict[KindKey, list[Revision]] = {}  # the same, so that a watch reads no others
        self._revisions: dict[KindKey, list[int]] = {}  # of those, after the newest that is forgotten

    def add(self, change: Revision) -> None:
        key = kind_key(change.after.kind)
        self._changes.append(change)
        self.revision += 1
        self._of_kind.setdefault(key, []).append(change)
        self._revisions.setdefault(key, [self._before]).append(self.revision)
        self._bytes += len(change.after.data)
        if len(self._changes) > 2 * self._keep:
            self.cut(self._keep)
        elif self._bytes > self._bytes_max and len(self._changes) > 1:
            self.cut(len(self._changes) // 2)

    def latest(self, kind: KindKey) -> int:
        """The revision of the last change of a kind, or a later one where it is forgotten; 0: there was none."""
        revisions = self._revisions.get(kind)
        return revisions[-1] if revisions else self._before

    def cut(self, keep: int) -> None:
        """Forget all but the last ``keep`` changes."""
        drop = max(0, len(self._changes) - keep)
        self._bytes -= sum(len(change.after.data) for change in self._changes[:drop])
        del self._changes[:drop]
        self._forgotten += drop
        for key, changes in self._of_kind.items():
            revisions = self._revisions[key]
            first = bisect_right(revisions, self._forgotten, lo=1)
            del changes[: first - 1], revisions[: first - 1]

    def rewind(self, revision: int) -> list[Revision]:
        """Take back all changes after ``revision``, none of which is forgotten; the newest first."""
        invariant(self._forgotten <= revision <= self.revision, "cannot go back to revision {}", revision)
        kept = len(self._changes) - (self.revision - revision)
        undone = self._changes[kept:][::-1]
        del self._changes[kept:]
        for change in undone:
            self._bytes -= len(change.after.data)
            key = kind_key(change.after.kind)
            self._of_kind[key].pop()
            self._revisions[key].pop()
        self.revision = revision
        return undone

    def changes(self) -> Sequence[Revision]:
        """All that is not forgotten, oldest first."""
        return tuple(self._changes)

    def after(self, revision: int, kind: KindKey) -> Iterator[Revision]:
        """Changes of one kind, oldest first."""
        self.check(revision)
        if self.latest(kind) <= revision:
            return iter(())
        first = bisect_right(self._revisions[kind], revision, lo=1)
        changes = self._of_kind[kind]
        return map(changes.__getitem__, range(first - 1, len(changes)))  # no copy: most polls take the first few

    def check(self, revision: int) -> None:
        if revision < self._forgotten:
            raise Expired(f"too old resource version: {revision} ({self._forgotten})")
        if revision > self.revision:
            raise Unavailable(f"too large resource version: {revision}, current: {self.revision}", Millis(1000))


class HistoryWatch:
    """A place in the history. It holds nothing else, so that a watch that is never polled costs nothing."""

    def __init__(self, history: History, chosen: Filter, place: int, first: Sequence[Stored], bookmarks: bool) -> None:
        self._history = history
        self._filter = chosen
        self._place = place
        self._told = place - 1 if first else place  # a bookmark ends the state that a watch may begin with
        self._first = list(reversed(first))
        self._bookmarks = bookmarks
        self._closed = False

    @property
    def place(self) -> int | None:
        """The revision up to which all was told; None while it still tells what there was at its beginning."""
        return None if self._first else self._place

    def move(self, place: int) -> None:
        """Go on from a later place: the events in between were told in another way."""
        self._place = self._told = place

    def poll(self, limit: int = 1000, bytes_max: int = BYTES_MAX) -> Sequence[WatchEvent]:
        """See ``runtime.ports.Watch``. It ends with the event that brings its objects to ``bytes_max`` or beyond."""
        if self._closed:
            return ()
        if self._place == self._history.revision and not self._first and self._told == self._place:
            return ()
        if not self._first and not self._bookmarks and self._history.latest(self._filter.key) <= self._place:
            self._history.check(self._place)
            self._place = self._history.revision
            return ()
        events: list[WatchEvent] = []
        size = 0
        changes = self._history.after(self._place, self._filter.key)
        while self._first and len(events) < limit and size < bytes_max:
            each = self._first.pop()
            size += len(each.data)
            events.append(WatchEvent("ADDED", each.resource_version, each))
        while len(events) < limit and size < bytes_max:
            change = next(changes, None)
            if change is None:
                self._place = self._history.revision
                self._mark(events)
                break
            self._place = change.after.revision
            event = self._filter.event(change)
            if event is not None:
                events.append(event)
                size += 0 if event.object is None else len(event.object.data)
                self._told = self._place
        return events

    def _mark(self, events: list[WatchEvent]) -> None:
        if self._bookmarks and self._told < self._place:
            events.append(WatchEvent("BOOKMARK", str(self._place), None))
            self._told = self._place

    def close(self) -> None:
        self._closed = True
