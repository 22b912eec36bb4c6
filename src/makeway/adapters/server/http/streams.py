"""Answers without an end: watches and follows of logs. How many there are, whose they are, and what ends them.

Both count against the share of a token. When a token has ended, or the server stops, its streams are told at once: one
whose client reads ends in order, one whose client does not is cut off. Nothing is asked of the streams themselves but
to look at ``goes_on`` before they send, and to wait for ``over`` beside whatever else they wait for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.statuses import RequestRefused

LOOK_SECONDS = 1.0  # between two looks for tokens whose time is up
RETRY_SECONDS = 5


class Outlet(Protocol):
    """The connection that a stream goes out by."""

    @property
    def is_stalled(self) -> bool:
        """Whether its client takes nothing at present."""

    def cut(self) -> None:
        """End it without a word."""


class OpenStream:
    """One of them, from when it is granted until ``close``."""

    def __init__(self, streams: Streams, who: str, allowed: Callable[[], bool]) -> None:
        self._streams, self._who, self._allowed = streams, who, allowed
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.outlet: Outlet | None = None  # once there is an answer

    @property
    def goes_on(self) -> bool:
        return not self.over.done() and self._allowed()

    @property
    def was_denied(self) -> bool:
        """Whether its token is no longer good: nothing more is said to it."""
        return not self._allowed()

    def end(self) -> None:
        """Its time has come, whatever it is doing."""
        if not self.over.done():
            self.over.set_result(None)
        if self.outlet is not None and self.outlet.is_stalled:
            self.outlet.cut()

    def close(self) -> None:
        """It has ended; its share is free. Once or several times."""
        self._streams.forget(self, self._who)


class Streams:
    """All streams of one server. ``allowed`` of each says whether its token still is good. On the HTTP loop only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[OpenStream, None] = {}
        self._counts: Counter[str] = Counter()
        self._stopping = False

    @property
    def count(self) -> int:
        return len(self._open)

    def begin(self, who: str, allowed: Callable[[], bool]) -> OpenStream:
        """A place for one more. Raises ``RequestRefused`` (429) where there is none, and says which limit it was."""
        most, mine = self._limits.streams, self._limits.streams_per_token
        if self._counts[who] >= mine:
            words = f"too many watches and log follows are open: this token has {mine}, which is all that one may have"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS)
        if self.count >= most:
            words = f"too many watches and log follows are open: all clients have {most} together, which is the most"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS)
        stream = OpenStream(self, who, allowed)
        self._open[stream] = None
        self._counts[who] += 1
        if self._stopping:
            stream.end()
        return stream

    def forget(self, stream: OpenStream, who: str) -> None:
        if stream in self._open:
            del self._open[stream]
            self._counts[who] -= 1
            if not self._counts[who]:
                del self._counts[who]

    def check(self) -> None:
        """End those whose token has ended."""
        for each in [each for each in self._open if not each.goes_on]:
            each.end()

    def stop(self) -> None:
        """End all of them; their clients begin anew, here or elsewhere."""
        self._stopping = True
        for each in list(self._open):
            each.end()

    async def look_after(self) -> None:
        """A token that ends by its time tells nobody."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.check()
