"""Objects in memory that one thread changes and all threads may read."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from makeway.api.versions import Kind
from makeway.core.model import Selector
from makeway.runtime.ports import Filter, Page, Revision, Stored, WatchEvent, kind_key
from makeway.runtime.stores.history import BYTES_MAX, History, HistoryWatch
from makeway.runtime.stores.pages import StoredObjects


class SharedObjects:
    """The reading half of ``runtime.ports.Store``, from any thread. A group of changes becomes visible as a whole."""

    def __init__(self, history: History) -> None:
        self._objects = StoredObjects(history)
        self._reading = Lock()  # held to read or change the objects

    def restore(self, stored: Stored) -> None:
        """Add an object from the file; no thread reads yet."""
        self._objects.restore(stored)

    def show(self, changes: Sequence[Revision]) -> None:
        with self._reading:
            for change in changes:
                self._objects.apply(change)

    def all(self) -> tuple[int, Sequence[Stored]]:
        """Return the newest revision, and all objects at that revision."""
        with self._reading:
            return int(self._objects.resource_version), [*self._objects.all()]

    @property
    def resource_version(self) -> str:
        with self._reading:
            return self._objects.resource_version

    def compact(self, keep: int = 0) -> None:
        """Forget all but the last ``keep`` changes. The file is not affected: it has only the newest states."""
        with self._reading:
            self._objects.compact(keep)

    def latest(self, kind: Kind) -> int | None:
        with self._reading:
            return self._objects.latest(kind)

    def count(self, kind: Kind) -> int:
        """Return the number of objects of a kind."""
        return self._objects.count(kind_key(kind))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        with self._reading:
            return self._objects.get(kind, namespace, name)

    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Selector = (), limit: int = 0, token: str = ""
    ) -> Page:
        return self.page(kind, Filter(kind_key(kind), namespace, labels), limit=limit, token=token)

    def page(self, kind: Kind, chosen: Filter, *, limit: int = 0, token: str = "", at: int | None = None) -> Page:
        """See ``runtime.stores.rules.Objects``."""
        with self._reading:
            found = self._objects.candidates(kind, chosen, limit=limit, token=token, at=at)
        return found.page(chosen, limit)

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> SharedWatch:  # fmt: skip
        return self.follow(Filter(kind_key(kind), namespace, labels), since, bookmarks=bookmarks)

    def follow(self, chosen: Filter, since: str = "", *, bookmarks: bool = False) -> SharedWatch:
        """See ``runtime.stores.rules.Objects``."""
        with self._reading:
            found = self._objects.beginning(chosen, since)
        return SharedWatch(found.watch(chosen, bookmarks), self._reading)


class SharedWatch:
    """A watch of a Store that other threads write to."""

    def __init__(self, watch: HistoryWatch, reading: Lock) -> None:
        self._watch = watch
        self._reading = reading

    @property
    def place(self) -> int | None:
        """See ``HistoryWatch``. The polling thread needs no lock: only it changes the place."""
        return self._watch.place

    def move(self, place: int) -> None:
        self._watch.move(place)

    def poll(self, limit: int = 1000, bytes_max: int = BYTES_MAX) -> Sequence[WatchEvent]:
        with self._reading:
            return self._watch.poll(limit, bytes_max)

    def close(self) -> None:
        with self._reading:
            self._watch.close()
