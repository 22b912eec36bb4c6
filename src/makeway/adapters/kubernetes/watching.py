"""A watch in a thread of its own: the thread reads events, ``poll`` returns what has been read.

After a lost connection the thread resumes from the last event or bookmark, with growing pauses, as long as the watch is
open. It holds at most ``EVENTS_MAX`` events: when they are not taken it reads no further, and the server may end the
connection. The thread ends with ``close``, and also when the watch is garbage.

Promises: no event is delivered twice or left out. Once the server has forgotten the revision (410), ``poll`` raises
Expired after the last event before that. While the server cannot be reached for longer, ``poll`` raises the reason, and
recovers by itself.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from makeway.adapters.kubernetes.streams import WatchStream
from makeway.adapters.kubernetes.transport import Object
from makeway.runtime.ports import Expired, Retryable, Stored, StoreError, WatchEvent

EVENTS_MAX = 10_000
FAILURES_TOLD = 3  # in a row, before ``poll`` raises the reason
PAUSE_SECONDS = 0.2  # doubles with each failure
PAUSE_SECONDS_MAX = 30.0
LASTING_SECONDS = 5.0  # a connection that lasted this long was a good one

Connect = Callable[[str], WatchStream]  # takes a resourceVersion
Decode = Callable[[Object], Stored]


class FollowedWatch:
    """See ``runtime.ports.Watch``."""

    def __init__(self, follower: WatchFollower) -> None:
        self._follower = follower
        self._close = weakref.finalize(self, follower.stop)  # the thread refers to the follower, not to this

    def poll(self, limit: int = 1000) -> Sequence[WatchEvent]:
        return self._follower.take(limit)

    @property
    def seen(self) -> str:
        """The resourceVersion up to which everything was read."""
        return self._follower.seen

    def close(self) -> None:
        self._close()


class WatchFollower:
    """The state that the thread shares with ``poll``. ``news`` is called in the thread when there are new events."""

    def __init__(
        self, connect: Connect, decode: Decode, since: str, *, first: Sequence[Stored] = (), bookmarks: bool = False,
        news: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.seen = since
        self._connect = connect
        self._decode = decode
        self._bookmarks = bookmarks
        self._news = news
        self._changed = Condition()
        self._events: deque[WatchEvent] = deque(WatchEvent("ADDED", each.resource_version, each) for each in first)
        if first and bookmarks:
            self._events.append(WatchEvent("BOOKMARK", since, None))
        # Connected here, so that the caller gets the first error.
        self._stream: WatchStream | None = connect(since)
        self._stopped = False
        self._failures = 0
        self._error: StoreError | None = None
        Thread(target=self._follow, name="makeway-watch", daemon=True).start()

    # --- for the taker ---

    def take(self, limit: int) -> list[WatchEvent]:
        with self._changed:
            found = [self._events.popleft() for _ in range(min(limit, len(self._events)))]
            if found:
                self._changed.notify_all()
            elif self._error is not None and not self._stopped and self._is_told():
                raise self._error
            return found

    def _is_told(self) -> bool:
        return isinstance(self._error, Expired) or self._failures >= FAILURES_TOLD

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._events.clear()
            self._changed.notify_all()
            stream = self._stream
        if stream is not None:
            stream.close()

    # --- the thread ---

    def _follow(self) -> None:
        while not self._stopped:
            began, before = time.monotonic(), self.seen
            error = self._read()
            was_good = self.seen != before or time.monotonic() - began > LASTING_SECONDS
            with self._changed:
                self._stream, self._error = None, error
                self._failures = 0 if was_good else self._failures + 1
            if error is not None and self._news is not None:
                self._news()
            if isinstance(error, Expired):
                return
            self._rest()

    def _read(self) -> StoreError | None:
        """Read until the server ends the watch, which it does from time to time, or the connection breaks;
        return why.
        """
        try:
            for type_, tree in self._connected():
                if self._stopped:
                    break
                self._tell(type_, tree)
        except StoreError as error:
            return error
        except Exception as error:  # any error must reach the caller of ``poll``
            return StoreError(f"the watch has failed: {error!r}")
        return None

    def _connected(self) -> WatchStream:
        stream = self._stream or self._connect(self.seen)
        with self._changed:
            self._stream, self._error = stream, None
            if self._stopped:
                stream.close()
        return stream

    def _tell(self, type_: str, tree: Object) -> None:
        is_mark = type_ == "BOOKMARK"
        event: Any = None
        if is_mark:
            version = str((tree.get("metadata") or {}).get("resourceVersion") or self.seen)
            event = WatchEvent("BOOKMARK", version, None) if self._bookmarks else None
        else:
            each = self._decode(tree)
            version = each.resource_version
            event = WatchEvent(type_, version, each)  # type: ignore[arg-type]
        with self._changed:
            while len(self._events) >= EVENTS_MAX and not self._stopped:
                self._changed.wait()
            if event is not None and not self._stopped:
                if is_mark and self._events and self._events[-1].type == "BOOKMARK":
                    self._events.pop()  # the later bookmark is enough
                self._events.append(event)
            self.seen = version
        if event is not None and self._news is not None:
            self._news()

    def _rest(self) -> None:
        """Pause before the next connection: not at all after a good one, else longer and longer."""
        with self._changed:
            asked = self._error.retry_after if isinstance(self._error, Retryable) else None
            pause = max((asked or 0) / 1000, PAUSE_SECONDS * 2 ** min(self._failures, 10))
            if self._failures:
                self._changed.wait_for(lambda: self._stopped, min(pause, PAUSE_SECONDS_MAX))
