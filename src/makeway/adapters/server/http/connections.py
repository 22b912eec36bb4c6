"""Connections with timeouts: uvicorn's protocol within limits, and the number of connections that a client may have.

uvicorn leaves these limits to the operator: the size of a request's head and the time for it, the time that a client
may leave its answer unread, the bytes buffered meanwhile, the number of connections. A client that exceeds a limit gets
an error where that is possible, and the connection ends.

A connection is *unknown* from accept on, before TLS, until it shows a valid token. Unknown connections have a share of
their own: when it is used up, the oldest one is closed for the next one. So a client without a token never takes the
place of one that has a token, and a client with a token always gets as far as showing it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from makeway.adapters.server.access.tokens import User
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.statuses import RequestRefused

TOO_LARGE = b"the head of the request is too large"
HIGH_BYTES, LOW_BYTES = 64 * 1024, 16 * 1024  # more: a connection has no room for an answer; less: it has room again
STALLED_BYTES = 192 * 1024  # of one that is not read: the above, a slice, and the same again below TLS
STALL_SECONDS = 1.0  # granted to every client, however many do not read
RETRY_SECONDS = 5


class Connections:
    """All connections of one server, by token. On the HTTP loop only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._unknown: dict[ClientConnection, None] = {}  # oldest first
        self._known: dict[str, dict[ClientConnection, None]] = {}  # by token
        self._admins = 0  # of the known connections
        self._stalled: dict[ClientConnection, float] = {}  # since when; longest first
        self._stalled_max = max(1, limits.buffered_bytes // STALLED_BYTES)
        self.ended: Counter[str] = Counter()  # closed by the server, by reason

    @property
    def counts(self) -> dict[str, int]:
        return {"unknown": len(self._unknown), "known": self._known_count(), "stalled": len(self._stalled)}

    @property
    def buffered_bytes(self) -> int:
        """The bytes that wait in this process for clients to read them, as far as TLS knows."""
        everybody = [*self._unknown, *(connection for mine in self._known.values() for connection in mine)]
        return sum(c.transport.get_write_buffer_size() for c in everybody if c.transport is not None)

    def _known_count(self) -> int:
        return sum(map(len, self._known.values()))

    # --- coming and going ---

    def arrive(self, connection: ClientConnection) -> None:
        self._unknown[connection] = None
        while len(self._unknown) > self._limits.unknown_connections:
            self.turn_away_oldest()

    def turn_away_oldest(self) -> None:
        """Close the oldest unknown connection, to make room, even within the limits."""
        if self._unknown:
            self._turn_away(next(iter(self._unknown)), "unknown")

    def leave(self, connection: ClientConnection) -> None:
        self._unknown.pop(connection, None)
        self._stalled.pop(connection, None)
        if connection.user is not None:
            mine = self._known[connection.user.token]
            del mine[connection]
            self._admins -= connection.user.role == "admin"
            if not mine:
                del self._known[connection.user.token]
            connection.user = None

    def admit(self, connection: ClientConnection, user: User) -> None:
        """Register a connection that has shown a token. Raises ``RequestRefused`` (429) with the limit that is reached.

        Before that an idle connection is closed: first one of the same token, and if there are many in all, any.
        """
        self.leave(connection)
        limits, is_admin = self._limits, user.role == "admin"
        mine = self._known.get(user.token, {})
        if len(mine) >= limits.connections_per_token and not self._make_way(mine):
            self.arrive(connection)
            words = f"too many connections: this token has {len(mine)}, which is all that one may have"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS, closes=True)
        most = limits.connections - limits.unknown_connections - (0 if is_admin else limits.admin_connections)
        count = self._known_count() if is_admin else self._known_count() - self._admins
        if count >= most and not self._make_way(self._idle_for(is_admin)):
            self.arrive(connection)
            words = f"too many connections: all clients together have {count}, and no more are served"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS, closes=True)
        connection.user = user
        self._known.setdefault(user.token, {})[connection] = None
        self._admins += is_admin

    def _idle_for(self, is_admin: bool) -> dict[ClientConnection, None]:
        everybody = (connection for mine in self._known.values() for connection in mine)
        return {
            connection: None
            for connection in everybody
            if is_admin or (connection.user is not None and connection.user.role != "admin")
        }

    def _make_way(self, among: dict[ClientConnection, None]) -> bool:
        idle = [connection for connection in among if not connection.is_busy]
        if idle:
            self._turn_away(min(idle, key=lambda connection: connection.idle_since), "idle")
        return bool(idle)

    def _turn_away(self, connection: ClientConnection, why: str) -> None:
        self.ended[why] += 1
        connection.hang_up()
        self.leave(connection)

    def check(self, is_valid: Callable[[User], bool]) -> None:
        """Tokens have ended: close their idle connections. A request that is being answered checks its token itself."""
        everybody = [connection for mine in self._known.values() for connection in mine]
        for connection in everybody:
            if connection.user is not None and not is_valid(connection.user) and not connection.is_busy:
                self._turn_away(connection, "token")

    # --- those that are not read ---

    def stall(self, connection: ClientConnection, now: float) -> None:
        """Note that a client does not read at present. If there are too many, the longest of them is closed."""
        self._stalled[connection] = now
        while len(self._stalled) > self._stalled_max:
            longest, since = next(iter(self._stalled.items()))
            if now - since < STALL_SECONDS:
                break
            longest.give_up()

    def move_on(self, connection: ClientConnection) -> None:
        self._stalled.pop(connection, None)


class Countdown:
    """A call after some time, unless the countdown is stopped before."""

    __slots__ = ("_call", "_handle", "_loop", "_seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], None]) -> None:
        self._loop, self._seconds, self._call = loop, seconds, call
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._handle is not None

    def start(self) -> None:
        """Start it; a running countdown is not prolonged."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._end)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _end(self) -> None:
        self._handle = None
        self._call()


def bounded(limits: Limits, connections: Connections) -> type[ClientConnection]:
    """Return the protocol class of a server with these limits."""
    return type("BoundedConnection", (ClientConnection,), {"limits": limits, "all": connections})


class ClientConnection(HttpToolsProtocol):
    """One connection. Each server has a subclass of its own: ``limits`` and ``all`` belong to it."""

    limits: ClassVar[Limits] = Limits()
    all: ClassVar[Connections] = Connections(Limits())
    user: User | None = None  # of the token that was shown on it
    line: socket.socket | None = None  # during the TLS handshake
    idle_since = 0.0
    _is_head = True  # no request has begun, or its head is incomplete
    _unread_bytes = 0  # of an incomplete head
    _header_bytes = 0  # of the headers that were read
    _is_too_large = False
    _arrival: Countdown  # running while a head is awaited
    _stall: Countdown  # running while the client does not read

    @property
    def is_busy(self) -> bool:
        """Whether a request is arriving or being answered."""
        return not self._is_head or self._unread_bytes > 0 or not (self.cycle is None or self.cycle.response_complete)

    @property
    def is_stalled(self) -> bool:
        return self._stall.is_running

    def is_of(self, user: User) -> None:
        """Note the user of its token. Raises ``RequestRefused``, see ``Connections.admit``."""
        if self.user != user:
            self.all.admit(self, user)
            self.timeout_keep_alive = int(self.limits.idle_seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.line = None
        transport.set_write_buffer_limits(HIGH_BYTES, LOW_BYTES)
        self.timeout_keep_alive = max(1, int(self.limits.unknown_seconds))
        self._arrival = Countdown(self.loop, self.limits.header_seconds, self._come_too_late)
        self._stall = Countdown(self.loop, self.limits.write_seconds, self.give_up)
        self._arrival.start()

    def connection_lost(self, error: Exception | None) -> None:
        self._arrival.stop()
        self._stall.stop()
        super().connection_lost(error)
        self.all.leave(self)

    def hang_up(self) -> None:
        """Close it in any state; an unknown connection is cut, because a TLS farewell would have to be waited for."""
        if self.line is not None:
            with suppress(OSError):
                self.line.shutdown(socket.SHUT_RDWR)
        elif self.user is None:
            self.transport.abort()
        else:
            self.transport.close()

    def cut(self) -> None:
        self.transport.abort()

    def give_up(self) -> None:
        """Cut it: its client does not read what it asked for."""
        self.all.ended["unread"] += 1
        self._stall.stop()
        self.all.move_on(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_head:
            self._unread_bytes += len(data)
            self._arrival.start()
        super().data_received(data)
        if self._is_head and self._unread_bytes > self.limits.header_bytes:
            self._end(431, TOO_LARGE)

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        super().on_message_begin()
        self.scope["state"]["connection"] = self

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes + len(self.url) > self.limits.header_bytes:
            self._is_too_large = True
            raise httptools.HttpParserError("the head is too large")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_head, self._unread_bytes = False, 0
        self._arrival.stop()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._end(431, TOO_LARGE) if self._is_too_large else self._end(400, msg.encode())

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self._stall.is_running:
            self._stall.start()
            self.all.stall(self, self.loop.time())

    def resume_writing(self) -> None:
        self._stall.stop()
        self.all.move_on(self)
        super().resume_writing()

    def _come_too_late(self) -> None:
        self._end(408, b"the request took too long to arrive")

    def _end(self, status: int, words: bytes) -> None:
        if not self.transport.is_closing():
            head = b"HTTP/1.1 %d %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, HTTPStatus(status).phrase.encode(), len(words)) + words)
            self.transport.close()
