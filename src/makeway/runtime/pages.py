"""Objects in memory, and how they are read: the newest state of each, lists of one moment, watches.

A later page of a list is the newest state with the changes since undone, and a watch is a place in the history; so
neither holds a copy, and both end in Expired once the history is cut. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from makeway.api.problems import Problem
from makeway.api.versions import Kind
from makeway.core.model import Selector
from makeway.runtime.history import History, HistoryWatch
from makeway.runtime.ports import (
    Change,
    Filter,
    Invalid,
    KindKey,
    NotFound,
    Page,
    Place,
    Stored,
    called,
    kind_key,
    read_token,
    token_after,
)


class Objects:
    """The reading half of ``runtime.ports.Store``, and changes that were decided elsewhere."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._objects: dict[KindKey, dict[Place, Stored]] = {}
        self._pages: tuple[KindKey, int, Sequence[Stored]] = (("", ""), -1, ())  # the list that was read last

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
        revision, last = read_token(kind, token) if token else (self._history.revision if at is None else at, None)
        items = [each for each in self._at(chosen, revision) if chosen.takes(each)]
        if last is not None:
            items = [each for each in items if (each.namespace, each.name) > last]
        page = tuple(items[:limit] if limit > 0 else items)
        rest = len(items) - len(page)
        return Page(page, str(revision), token_after(revision, page[-1]) if rest else "", rest)

    def watch(
        self, kind: Kind, since: str = "", *, namespace: str | None = None, labels: Selector = (),
        bookmarks: bool = False,
    ) -> HistoryWatch:  # fmt: skip
        return self.follow(Filter(kind_key(kind), namespace, labels), since, bookmarks=bookmarks)

    def follow(self, chosen: Filter, since: str = "", *, bookmarks: bool = False) -> HistoryWatch:
        """``watch``, of whatever a filter can choose."""
        if since in ("", "0"):
            now = self._history.revision
            first = [each for each in self._at(chosen, now) if chosen.takes(each)]
            return HistoryWatch(self._history, chosen, now, first, bookmarks)
        if not (since.isascii() and since.isdigit()):
            raise Invalid([Problem("resourceVersion", f"{since!r} is not a resource version")])
        self._history.check(int(since))
        return HistoryWatch(self._history, chosen, int(since), (), bookmarks)

    def _at(self, chosen: Filter, revision: int) -> Sequence[Stored]:
        """At least what is chosen of a kind as it was at ``revision``, by namespace and name."""
        key = chosen.key
        if revision == self._history.revision and chosen.namespace is not None and chosen.name:
            found = self._objects.get(key, {}).get((chosen.namespace, chosen.name))
            return () if found is None else (found,)
        changes = self._history.after(revision, key)
        if self._pages[:2] != (key, revision):
            objects: dict[Place, Stored | None] = dict(self._objects.get(key, {}))
            earlier: dict[Place, Stored | None] = {}
            for change in changes:
                earlier.setdefault((change.after.namespace, change.after.name), change.before)
            objects.update(earlier)
            there = [(place, each) for place, each in objects.items() if each is not None]
            self._pages = (key, revision, [each for _, each in sorted(there, key=lambda pair: pair[0])])
        return self._pages[2]

    def within(self, namespace: str) -> Iterator[Stored]:
        """All that is in a namespace, of whatever kind, in no order; nothing may be written meanwhile."""
        for objects in self._objects.values():
            for each in objects.values():
                if each.namespace == namespace:
                    yield each

    # --- changes ---

    def restore(self, each: Stored) -> None:
        """Put in what was there when the history began."""
        self._keep(each, None)

    def apply(self, change: Change) -> None:
        """The next revision."""
        if change.type == "DELETED":
            self._drop(change.before or change.after)
        else:
            self._keep(change.after, change.before)
        self._history.add(change)

    def _keep(self, new: Stored, old: Stored | None) -> None:
        self._objects.setdefault(kind_key(new.kind), {})[new.namespace, new.name] = new

    def _drop(self, old: Stored) -> None:
        del self._objects[kind_key(old.kind)][old.namespace, old.name]
