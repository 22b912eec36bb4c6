"""Endless answers: watches and followed logs. Their number, their owners, and what ends them.

Both count against the share of a token. When a token has ended, or the server stops, its streams are notified at once:
one whose client reads ends in order, another one is cut off. A stream only has to check ``goes_on`` before it sends,
and to wait for ``over`` beside whatever else it waits for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.statuses import RequestRefused

LOOK_SECONDS = 1.0  # between two checks for expired tokens
RETRY_SECONDS = 5


class Outlet(Protocol):
    """The connection of a stream."""

    @property
    def is_stalled(self) -> bool:
        """Whether its client does not read at present."""

    def cut(self) -> None:
        """Cut it without a farewell."""


class OpenStream:
    """A stream, from when it is granted until ``close``."""

    def __init__(self, streams: Streams, token: str, allowed: Callable[[], bool]) -> None:
        self._streams, self._token, self._allowed = streams, token, allowed
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.outlet: Outlet | None = None  # once there is an answer

    @property
    def goes_on(self) -> bool:
        return not self.over.done() and self._allowed()

    @property
    def was_denied(self) -> bool:
        """Whether its token is no longer valid: then nothing more is sent."""
        return not self._allowed()

    def end(self) -> None:
        """End it, whatever it is doing."""
        if not self.over.done():
            self.over.set_result(None)
        if self.outlet is not None and self.outlet.is_stalled:
            self.outlet.cut()

    def close(self) -> None:
        """Give back its share; it may be called several times."""
        self._streams.forget(self, self._token)


class Streams:
    """All streams of one server. ``allowed`` says whether a stream's token is still valid. On the HTTP loop only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[OpenStream, None] = {}
        self._counts: Counter[str] = Counter()
        self._stopping = False

    @property
    def count(self) -> int:
        return len(self._open)

    def begin(self, token: str, allowed: Callable[[], bool]) -> OpenStream:
        """Grant one more stream. Raises ``RequestRefused`` (429) with the limit that is reached."""
        most, mine = self._limits.streams, self._limits.streams_per_token
        if self._counts[token] >= mine:
            words = f"too many watches and log follows are open: this token has {mine}, which is all that one may have"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS)
        if self.count >= most:
            words = f"too many watches and log follows are open: all clients have {most} together, which is the most"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS)
        stream = OpenStream(self, token, allowed)
        self._open[stream] = None
        self._counts[token] += 1
        if self._stopping:
            stream.end()
        return stream

    def forget(self, stream: OpenStream, token: str) -> None:
        if stream in self._open:
            del self._open[stream]
            self._counts[token] -= 1
            if not self._counts[token]:
                del self._counts[token]

    def check(self) -> None:
        """End streams whose token has ended."""
        for each in [each for each in self._open if not each.goes_on]:
            each.end()

    def stop(self) -> None:
        """End all streams; their clients resume, here or elsewhere."""
        self._stopping = True
        for each in list(self._open):
            each.end()

    async def look_after(self) -> None:
        """Check regularly: a token that expires causes no event."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.check()
