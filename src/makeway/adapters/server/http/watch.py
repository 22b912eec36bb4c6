"""Watches over HTTP: events as lines of JSON, as they are committed.

A watch is a position in the history of a kind (``runtime.stores.history``) and holds nothing else: it sends the events
since then, and waits. All waiting watches are woken once per commit, and commits that come close together count as one.

A watch sends a bounded number of bytes at once, and for a large object the stored bytes themselves, which all watches
share. While a client does not read, nothing more is made for it. A client that cannot keep up falls behind in the
history, and must list again. Nothing is buffered for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from makeway.adapters.server.http.answers import Shown
from makeway.adapters.server.http.bodies import Query
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.statuses import RequestRefused, bad_request, refusal
from makeway.adapters.server.http.streams import OpenStream
from makeway.adapters.server.resources.calls import Call
from makeway.adapters.server.resources.reads import check_match
from makeway.adapters.server.storage.shared import SharedWatch
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.reading.documents import Tree
from makeway.runtime.ports import Expired, Filter, KindKey, Revision, WatchEvent, kind_key

EVENTS_PER_SEND = 500
BYTES_PER_SEND = 64 * 1024  # and the rest of the event that crosses it
PIECES_MAX = 64
PIECES_BYTES_MAX = 8 * 1024 * 1024
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a watch begins, and how long it may last."""

    since: str
    seconds: float
    bookmarks: bool
    initial: bool | None  # None: depends on the resourceVersion

    @classmethod
    def of(cls, query: Query, limits: Limits) -> WatchOptions:
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
    """Wakes waiting watches after a commit that may concern them."""

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

    def committed(self, changes: Sequence[Revision]) -> None:
        """Called on the thread of the writer."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and no watch waits any more
                self._loop.call_soon_threadsafe(self._note, {kind_key(change.after.kind) for change in changes})

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
    """What all watches of a server share: the bell, and encoded pieces that several watches need."""

    def __init__(self, store: SqliteStore, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.bell = Bell(limits, self.forget)
        self._pieces: dict[object, WatchChunk] = {}  # encoded since the last ring
        self._pieces_bytes = 0
        store.on_commit(self.bell.committed)

    def begin(self, call: Call, chosen: Filter, shown: Shown, stream: OpenStream) -> Watching:
        """Begin a watch. Raises the Store's errors about its start revision."""
        watching = Watching(self, WatchOptions.of(call.query, self.limits), chosen, shown, stream)
        watching.open()
        return watching

    def forget(self) -> None:
        self._pieces.clear()
        self._pieces_bytes = 0

    def found(self, key: object) -> WatchChunk | None:
        return self._pieces.get(key)

    def keep(self, key: object, piece: WatchChunk) -> None:
        """Keep a piece for the next watch with the same position and form, as far as there is room."""
        size = self._pieces_bytes + sum(map(len, piece.parts))
        if len(self._pieces) < PIECES_MAX and size <= PIECES_BYTES_MAX:
            self._pieces[key] = piece
            self._pieces_bytes = size


class WatchChunk(NamedTuple):
    """What one watch sends at once, and its position after that."""

    parts: tuple[bytes, ...]
    place: int
    is_all: bool


class Watching:
    """One watch: lines of JSON until its time is up."""

    def __init__(self, watches: Watches, asked: WatchOptions, chosen: Filter, shown: Shown, stream: OpenStream) -> None:
        self._watches, self._asked, self._chosen, self._shown = watches, asked, chosen, shown
        self._stream = stream
        self._watch: SharedWatch | None = None
        self._place = ""  # the client knows everything up to this revision
        self._error: RequestRefused | None = None
        self._is_up_to_date = False
        self._marked = ""  # the revision of the last bookmark
        self._initial_end = ""  # the revision of the initial list

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
        """Yield what is sent, in parts; a line may take several parts."""
        called = self._watches.bell.join(self._chosen.key)
        self._stream.over.add_done_callback(lambda _: called.set())
        try:
            async for each in self._lines(called):
                yield each
        finally:
            self._watches.bell.leave(self._chosen.key, called)

    async def _lines(self, called: asyncio.Event) -> AsyncIterator[bytes]:
        loop, marks, every = asyncio.get_running_loop(), self._asked.bookmarks, self._watches.limits.bookmark_seconds
        until, mark_at = loop.time() + self._asked.seconds, loop.time() + every
        yield b""  # the client gets the headers at once
        while self._stream.goes_on:
            called.clear()  # any later commit rings again
            for part in self._news():
                yield part
            now = loop.time()
            if self._error is not None or now >= until:
                break
            if marks and now >= mark_at:
                mark_at = now + every
                yield self._bookmark()
            if self._is_up_to_date and not self._stream.over.done():
                timer = loop.call_at(min(until, mark_at) if marks else until, called.set)
                await called.wait()
                timer.cancel()
        if marks and self._error is None and not self._stream.was_denied:
            yield self._bookmark()

    def _news(self) -> Sequence[bytes]:
        """Return the changes since the last call. Equal watches at the same position share the work."""
        if self._error is not None or self._watch is None:
            assert self._error is not None
            return (_error_line(self._error),)
        key = (self._chosen, self._shown.likeness, self._watch.place)
        found = self._watches.found(key)
        if found is not None:
            self._watch.move(found.place)
        else:
            try:
                found = self._piece(self._watch)
            except Expired as error:
                self._error = refusal(error, None)
                return (_error_line(self._error),)
            if None not in key:
                self._watches.keep(key, found)
        self._place = max(self._place, str(found.place), key=int)
        self._is_up_to_date = found.is_all
        if self._initial_end and found.is_all:
            mark = self._mark(self._initial_end, {INITIAL_EVENTS_END: "true"})
            self._initial_end = ""
            return (*found.parts, mark)
        return found.parts

    def _piece(self, watch: SharedWatch) -> WatchChunk:
        events = watch.poll(EVENTS_PER_SEND, BYTES_PER_SEND)
        place = watch.place
        size = sum(len(event.object.data) for event in events if event.object is not None)
        is_all = len(events) < EVENTS_PER_SEND and size < BYTES_PER_SEND
        return WatchChunk(tuple(self._parts(events)), int(self._place) if place is None else place, is_all)

    def _parts(self, events: Sequence[WatchEvent]) -> Iterator[bytes]:
        """Yield lines, many small ones in one part; a large object as its stored bytes, without a copy."""
        lines: list[bytes] = []
        for event in events:
            assert event.object is not None
            shown = self._shown.one(event.object)
            self._shown.has_columns = False  # only the first event of a table has the column definitions
            lines.append(b'{"type":"%b","object":' % event.type.encode())
            if len(shown) >= BYTES_PER_SEND:
                yield from (b"".join(lines), shown)
                lines = []
            else:
                lines.append(shown)
            lines.append(b"}\n")
        if lines:
            yield b"".join(lines)

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


def _error_line(error: RequestRefused) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % msgspec.json.encode(error.status())
