"""Objects in memory, and how they are read: the newest state of each, lists of one moment, watches.

A later page of a list is the newest state with the changes since undone, and a watch is a place in the history; so
neither holds a copy, and both end in Expired once the history is cut. One thread at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from makeway.api.problems import Problem
from makeway.api.versions import Kind
from makeway.core.model import Selector
from makeway.runtime.ports import (
    Filter,
    Invalid,
    KindKey,
    NotFound,
    Page,
    Place,
    Revision,
    Stored,
    called,
    kind_key,
    read_token,
    token_after,
)
from makeway.runtime.stores.history import History, HistoryWatch

FEW = 64  # changes that are cheaper put in one by one


class StoredObjects:
    """The reading half of ``runtime.ports.Store``, and changes that were decided elsewhere."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._objects: dict[KindKey, dict[Place, Stored]] = {}
        self._orders: dict[KindKey, Order] = {}

    @property
    def resource_version(self) -> str:
        return str(self._history.revision)

    def compact(self, keep: int = 0) -> None:
        """Forget all but the last ``keep`` changes, as an API server does from time to time."""
        self._history.cut(keep)

    def latest(self, kind: Kind) -> int | None:
        return self._history.latest((kind.group, kind.name))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        found = self._objects.get(kind_key(kind), {}).get((namespace, name))
        if found is None:
            raise NotFound(f"{called(kind, name)} not found")
        return found

    def list(
        self, kind: Kind, namespace: str | None = None, *, labels: Selector = (), limit: int = 0, token: str = ""
    ) -> Page:
        return self.page(kind, Filter(kind_key(kind), namespace, labels), limit=limit, token=token)

    def page(self, kind: Kind, chosen: Filter, *, limit: int = 0, token: str = "", at: int | None = None) -> Page:
        """``list``, of whatever a filter can choose; ``at`` is the revision shown where it is not the newest."""
        return self.candidates(kind, chosen, limit=limit, token=token, at=at).page(chosen, limit)

    def candidates(
        self, kind: Kind, chosen: Filter, *, limit: int = 0, token: str = "", at: int | None = None
    ) -> PageItems:
        """The quick half of ``page``, which must not be disturbed; the other half needs nothing but its answer."""
        revision, last = read_token(kind, token) if token else (self._history.revision if at is None else at, None)
        objects, places = self._at(chosen, revision)
        first, end = _bounds(places, chosen.namespace, last)
        stop = end if limit <= 0 or chosen.labels or chosen.fields else min(end, first + limit)
        return PageItems(revision, [objects[place] for place in places[first:stop]], end - stop)

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> HistoryWatch:  # fmt: skip
        return self.follow(Filter(kind_key(kind), namespace, labels), since, bookmarks=bookmarks)

    def follow(self, chosen: Filter, since: str = "", *, bookmarks: bool = False) -> HistoryWatch:
        """``watch``, of whatever a filter can choose."""
        return self.beginning(chosen, since).watch(chosen, bookmarks)

    def beginning(self, chosen: Filter, since: str = "") -> Beginning:
        """The quick half of ``follow``, which must not be disturbed."""
        if since in ("", "0"):
            now = self._history.revision
            objects, places = self._at(chosen, now)
            first, end = _bounds(places, chosen.namespace, None)
            return Beginning(self._history, now, [objects[place] for place in places[first:end]])
        if not (since.isascii() and since.isdigit()):
            raise Invalid([Problem("resourceVersion", f"{since!r} is not a resource version")])
        self._history.check(int(since))
        return Beginning(self._history, int(since), [])

    def count(self, key: KindKey) -> int:
        return len(self._objects.get(key, ()))

    def _at(self, chosen: Filter, revision: int) -> tuple[Mapping[Place, Stored], Sequence[Place]]:
        """The objects of a kind as they were at ``revision``, and the places of those that a filter may choose."""
        key = chosen.key
        objects = self._objects.get(key, {})
        changes = list(self._history.after(revision, key))
        if not changes:
            if chosen.namespace is not None and chosen.name:
                place = (chosen.namespace, chosen.name)
                return objects, [place] if place in objects else []
            return objects, self._orders[key].places() if key in self._orders else ()
        earlier: dict[Place, Stored | None] = {}
        for change in changes:
            earlier.setdefault((change.after.namespace, change.after.name), change.before)
        there = {place: each for place, each in earlier.items() if each is not None}
        places = list(self._orders[key].places())
        for place in earlier.keys() - there.keys():  # they came later
            if place in objects:
                del places[bisect_left(places, place)]
        for place in there:
            if place not in objects:  # it went later
                insort(places, place)
        return ChainMap(there, objects), places

    def within(self, namespace: str) -> Iterator[Stored]:
        """All objects in a namespace, of whatever kind, in no order; nothing may be written meanwhile."""
        for objects in self._objects.values():
            for stored in objects.values():
                if stored.namespace == namespace:
                    yield stored

    def all(self) -> Iterator[Stored]:
        """All objects, in no order; nothing may be written meanwhile."""
        for objects in self._objects.values():
            yield from objects.values()

    # --- changes ---

    def restore(self, stored: Stored) -> None:
        """Put in an object that was there when the history began."""
        self._keep(stored, None)

    def apply(self, change: Revision) -> None:
        """Put in the next revision."""
        if change.type == "DELETED":
            self._drop(change.before or change.after)
        else:
            self._keep(change.after, change.before)
        self._history.add(change)

    def _keep(self, new: Stored, old: Stored | None) -> None:
        key, place = kind_key(new.kind), (new.namespace, new.name)
        objects = self._objects.setdefault(key, {})
        if place not in objects:
            self._orders.setdefault(key, Order()).add(place)
        objects[place] = new

    def _drop(self, old: Stored) -> None:
        key, place = kind_key(old.kind), (old.namespace, old.name)
        del self._objects[key][place]
        self._orders[key].remove(place)


@dataclass(frozen=True, slots=True)
class PageItems:
    """The candidates for a page: the whole rest of a list, or as many as were asked for."""

    revision: int
    items: list[Stored]
    beyond: int  # how many there are behind these

    def page(self, chosen: Filter, limit: int) -> Page:
        items = self.items
        if chosen.labels or chosen.fields:
            items = [each for each in items if chosen.takes(each)]
        shown = tuple(items[:limit] if limit > 0 else items)
        rest = len(items) - len(shown) + self.beyond
        return Page(shown, str(self.revision), token_after(self.revision, shown[-1]) if rest else "", rest)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a watch begins, and the objects that it may have to tell."""

    history: History
    place: int
    items: list[Stored]

    def watch(self, chosen: Filter, bookmarks: bool) -> HistoryWatch:
        first = [each for each in self.items if chosen.takes(each)]
        return HistoryWatch(self.history, chosen, self.place, first, bookmarks)


class Order:
    """Places in order. They are sorted when they are read, and then only as far as there was a change."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._added: set[Place] = set()
        self._removed: set[Place] = set()

    def add(self, place: Place) -> None:
        if place in self._removed:
            self._removed.discard(place)
        else:
            self._added.add(place)

    def remove(self, place: Place) -> None:
        if place in self._added:
            self._added.discard(place)
        else:
            self._removed.add(place)

    def places(self) -> Sequence[Place]:
        if len(self._added) + len(self._removed) > FEW:
            self._places = [place for place in self._places if place not in self._removed]
            self._places += sorted(self._added)
            self._places.sort()
        else:
            for place in self._removed:
                del self._places[bisect_left(self._places, place)]
            for place in self._added:
                insort(self._places, place)
        self._added.clear()
        self._removed.clear()
        return self._places


def _bounds(places: Sequence[Place], namespace: str | None, last: Place | None) -> tuple[int, int]:
    """Where a list begins and ends among the places of a kind: in a namespace, after a place."""
    first, end = 0, len(places)
    if namespace:
        first, end = bisect_left(places, (namespace, "")), bisect_left(places, (f"{namespace}\0", ""))
    if last is not None:
        first = max(first, bisect_right(places, last))
    return first, max(first, end)
