"""Accepts connections one by one; each is counted from that moment on: before TLS, before the first byte.

The event loop's own server reports a connection only after the TLS handshake. Until then it could not be counted, and a
thousand silent connections would use up the descriptors that pods and clients need.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from makeway.adapters.server.http.connections import ClientConnection, Connections
from makeway.adapters.server.http.limits import Limits

log = logging.getLogger("makeway.server")
AT_ONCE = 4  # handshakes in a row, a millisecond each, before other tasks run
PAUSE_SECONDS = 0.2  # if no descriptor is left
FAREWELL_SECONDS = 1.0
UNSENT_BYTES = 128 * 1024  # that the system may buffer for a client beyond what is in transit
NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Accepting:
    """Replaces the loop's server, with what uvicorn uses of it: ``close``, ``wait_closed``, ``sockets``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, protocol: Callable[[], ClientConnection],
        trust: ssl.SSLContext, limits: Limits, connections: Connections,
    ) -> None:  # fmt: skip
        self.sockets = (listener,)
        self._loop, self._listener, self._protocol, self._trust = loop, listener, protocol, trust
        self._limits, self._connections = limits, connections
        self._welcomes: set[asyncio.Task[None]] = set()
        self._is_closed = False
        listener.setblocking(False)
        with suppress(OSError, AttributeError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        loop.add_reader(listener, self._knock)

    def _knock(self) -> None:
        for _ in range(AT_ONCE):
            try:
                line, _ = self._listener.accept()
            except OSError as error:  # no client is waiting (any more); the loop will call for the next one
                if error.errno in NO_MORE:
                    self._rest(error)
                return
            line.setblocking(False)
            with suppress(OSError):
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = self._protocol()
            protocol.line = line
            self._connections.arrive(protocol)
            welcome = self._loop.create_task(self._welcome(line, protocol))
            self._welcomes.add(welcome)
            welcome.add_done_callback(self._welcomes.discard)

    def _rest(self, error: OSError) -> None:
        """Pause: waiting connections stay in the backlog, and one unknown connection is closed to make room."""
        log.warning("no connection can be accepted: %s", error.strerror)
        self._connections.turn_away_oldest()
        self._loop.remove_reader(self._listener)
        self._loop.call_later(PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._knock)

    async def _welcome(self, line: socket.socket, protocol: ClientConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, line, ssl=self._trust, ssl_handshake_timeout=self._limits.handshake_seconds,
                ssl_shutdown_timeout=FAREWELL_SECONDS,
            )  # fmt: skip
        except (Exception, asyncio.CancelledError):  # it speaks no TLS, is too slow, or was refused
            self._connections.leave(protocol)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener)
            for welcome in list(self._welcomes):
                welcome.cancel()

    async def wait_closed(self) -> None:
        if self._welcomes:
            await asyncio.wait(self._welcomes)
