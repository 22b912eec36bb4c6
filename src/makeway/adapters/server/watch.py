"""Watches over HTTP: events as lines of JSON, as they are committed.

A watch is a place in the history of a kind (``runtime.history``) and holds nothing else: it sends what came since,
then waits to be called. All that are waiting are called once per commit, and commits that come close together count
as one. A client that cannot keep up falls behind in the history and is told to list again; nothing piles up for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from makeway.adapters.server.answers import Shown
from makeway.adapters.server.bodies import Query
from makeway.adapters.server.limits import Limits
from makeway.adapters.server.rest import Call, check_match
from makeway.adapters.server.statuses import Refused, bad_request, refusal
from makeway.adapters.server.storage import SharedWatch, SqliteStore
from makeway.api.documents import Tree
from makeway.runtime.ports import Change, Event, Expired, Filter, KindKey, kind_key

EVENTS_PER_SEND = 500
PIECES_MAX = 64
PIECE_BYTES_MAX = 1024 * 1024
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a watch is to begin with, and how long it may last."""

    since: str
    seconds: float
    bookmarks: bool
    initial: bool | None  # None: as the resourceVersion says

    @classmethod
    def of(cls, query: Query, limits: Limits) -> Asked:
        initial, version = query.flag("sendInitialEvents"), query.text("resourceVersion")
        match, bookmarks = query.text("resourceVersionMatch"), query.flag("allowWatchBookmarks") or False
        if query.text("continue"):
            raise bad_request("continue: not allowed for a watch")
        if initial is None:
            if match:
                raise bad_request("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        elif match != "NotOlderThan":
            raise bad_request("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        elif initial and not bookmarks:
            raise bad_request("sendInitialEvents requires setting allowWatchBookmarks to true")
        elif version:
            check_match(version, match)
        if version and not (version.isascii() and version.isdigit() and len(version) <= 19):
            raise bad_request("resourceVersion: Invalid value: it is not a resource version")
        seconds = query.integer("timeoutSeconds") or limits.watch_seconds
        return cls(version, min(seconds, limits.watch_seconds), bookmarks, initial)


class Bell:
    """Calls those who wait when something was committed that may concern them."""

    def __init__(self, limits: Limits, before: Callable[[], None]) -> None:
        self._gather = limits.gather_seconds
        self._before = before  # called before it rings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[KindKey, dict[asyncio.Event, None]] = {}
        self._due: set[KindKey] = set()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()

    def committed(self, changes: Sequence[Change]) -> None:
        """Told on the thread of the writer."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self._loop.call_soon_threadsafe(self._note, {kind_key(each.after.kind) for each in changes})

    def _note(self, kinds: set[KindKey]) -> None:
        self._due |= kinds
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_at(max(self._loop.time(), self._last + self._gather), self._ring)

    def _ring(self) -> None:
        assert self._loop is not None
        self._timer, self._last = None, self._loop.time()
        self._before()
        for kind in self._due:
            for called in self._waiting.get(kind, ()):
                called.set()
        self._due.clear()

    def ring_all(self) -> None:
        for each in self._waiting.values():
            for called in each:
                called.set()

    def join(self, kind: KindKey) -> asyncio.Event:
        called = asyncio.Event()
        self._waiting.setdefault(kind, {})[called] = None
        return called

    def leave(self, kind: KindKey, called: asyncio.Event) -> None:
        self._waiting.get(kind, {}).pop(called, None)


class Watches:
    """All watches of the server: how many there are, and what each of them sends."""

    def __init__(self, store: SqliteStore, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self._counts: Counter[str] = Counter()
        self.pieces: dict[object, Piece] = {}  # what was sent since the bell rang last: others may want the same
        self.bell = Bell(limits, self.pieces.clear)
        self.stopping = False
        store.on_commit(self.bell.committed)

    @property
    def count(self) -> int:
        return self._counts.total()

    def stop(self) -> None:
        """End all of them; their clients begin anew, here or elsewhere."""
        self.stopping = True
        self.bell.ring_all()

    def begin(self, call: Call, chosen: Filter, shown: Shown, who: str, allowed: Callable[[], bool]) -> Watching:
        """Raises ``Refused`` (429) where there are too many, and what the Store says of its beginning."""
        if self.count >= self.limits.watches or self._counts[who] >= self.limits.watches_per_token:
            raise Refused(429, "too many watches are open", retry_seconds=5)
        watching = Watching(self, Asked.of(call.query, self.limits), chosen, shown, who, allowed)
        watching.open()
        return watching

    @contextmanager
    def counted(self, who: str) -> Iterator[None]:
        self._counts[who] += 1
        try:
            yield
        finally:
            self._counts[who] -= 1
            if not self._counts[who]:
                del self._counts[who]


class Piece(NamedTuple):
    """What one watch sends at once, and where it is then."""

    lines: bytes
    place: int
    is_all: bool


class Watching:
    """One watch: lines of JSON until its time is up."""

    def __init__(
        self, watches: Watches, asked: Asked, chosen: Filter, shown: Shown, who: str, allowed: Callable[[], bool]
    ) -> None:
        self._watches, self._asked, self._chosen, self._shown = watches, asked, chosen, shown
        self._who, self._allowed = who, allowed
        self._watch: SharedWatch | None = None
        self._place = ""  # up to where all is known to the client
        self._error: Refused | None = None
        self._is_up_to_date = False
        self._marked = ""  # the last place that a bookmark told
        self._initial_end = ""  # the revision at which what there was has been told

    def open(self) -> None:
        store, asked = self._watches.store, self._asked
        since = asked.since
        begins_with_all = since in ("", "0") if asked.initial is None else asked.initial
        self._place = store.resource_version
        if begins_with_all:
            since = ""
            if asked.initial:
                self._initial_end = self._place
        elif since in ("", "0"):
            since = self._place
        try:
            self._watch = store.follow(self._chosen, since)
        except Expired as error:
            self._error = refusal(error, None)
        if since:
            self._place = since

    async def lines(self) -> AsyncIterator[bytes]:
        """What is sent, some lines at a time."""
        called = self._watches.bell.join(self._chosen.key)
        try:
            with self._watches.counted(self._who):
                async for each in self._lines(called):
                    yield each
        finally:
            self._watches.bell.leave(self._chosen.key, called)

    async def _lines(self, called: asyncio.Event) -> AsyncIterator[bytes]:
        loop, marks, every = asyncio.get_running_loop(), self._asked.bookmarks, self._watches.limits.bookmark_seconds
        until, mark_at = loop.time() + self._asked.seconds, loop.time() + every
        yield b""  # the client learns at once that it is heard
        while not self._watches.stopping and self._allowed():
            called.clear()  # whatever comes from here on rings again
            if news := self._news():
                yield news
            now = loop.time()
            if self._error is not None or now >= until:
                break
            if marks and now >= mark_at:
                mark_at = now + every
                yield self._bookmark()
            if self._is_up_to_date:
                timer = loop.call_at(min(until, mark_at) if marks else until, called.set)
                await called.wait()
                timer.cancel()
        if marks and self._error is None and self._allowed():
            yield self._bookmark()

    def _news(self) -> bytes:
        """What came since the last time. Watches that are alike and in the same place share the work."""
        if self._error is not None or self._watch is None:
            assert self._error is not None
            return _error_line(self._error)
        key = (self._chosen, self._shown.likeness, self._watch.place)
        found = self._watches.pieces.get(key)
        if found is not None:
            self._watch.move(found.place)
        else:
            try:
                found = self._piece(self._watch)
            except Expired as error:
                self._error = refusal(error, None)
                return _error_line(self._error)
            if None not in key and len(self._watches.pieces) < PIECES_MAX and len(found.lines) < PIECE_BYTES_MAX:
                self._watches.pieces[key] = found
        self._place = max(self._place, str(found.place), key=int)
        self._is_up_to_date = found.is_all
        if self._initial_end and found.is_all:
            mark = self._mark(self._initial_end, {INITIAL_EVENTS_END: "true"})
            self._initial_end = ""
            return found.lines + mark
        return found.lines

    def _piece(self, watch: SharedWatch) -> Piece:
        events = watch.poll(EVENTS_PER_SEND)
        place = watch.place
        lines = b"".join([self._line(each) for each in events])
        return Piece(lines, int(self._place) if place is None else place, len(events) < EVENTS_PER_SEND)

    def _line(self, event: Event) -> bytes:
        assert event.object is not None
        line = b'{"type":"%b","object":%b}\n' % (event.type.encode(), self._shown.one(event.object))
        self._shown.has_columns = False  # of a table only the first event says what its columns are
        return line

    def _bookmark(self) -> bytes:
        if self._place == self._marked:
            return b""
        self._marked = self._place
        return self._mark(self._place, {})

    def _mark(self, version: str, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, Tree] = {"resourceVersion": version, "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        self._marked = version
        return b'{"type":"BOOKMARK","object":%b}\n' % msgspec.json.encode(self._shown.bookmark(metadata))


def _error_line(error: Refused) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % msgspec.json.encode(error.status())
