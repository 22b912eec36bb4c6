"""The HTTP loop: uvicorn with TLS in a thread of its own, and patience that ends.

What uvicorn leaves to the operator is bounded here: how large the head of a request may be, how long it may take to
arrive, how many connections there are, how long a handshake lasts. Whoever exceeds one of them is told so where that
is possible, and the connection ends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from http import HTTPStatus
from threading import Thread
from typing import Any

import httptools
import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from makeway.adapters.server.app import App
from makeway.adapters.server.certificates import Certificate
from makeway.adapters.server.limits import Limits

STOP_SECONDS = 5.0
FAREWELL_SECONDS = 1.0
BACKLOG = 512
TOO_LARGE = b"the head of the request is too large"


class Serving:
    """One server at one address. ``start`` returns once it listens, ``stop`` once nobody is served any more."""

    def __init__(self, app: App, certificate: Certificate, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._app = app
        self._certificate = certificate
        self._host, self._port = host, port
        self._server: uvicorn.Server | None = None
        self._thread: Thread | None = None

    def start(self) -> tuple[str, int]:
        """The address it listens on; port 0 is a free one. Raises OSError where it cannot be had."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family, backlog=BACKLOG)
        limits = self._app.limits
        config = uvicorn.Config(
            self._app, http=_bounded(limits), ws="none", lifespan="on", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=int(STOP_SECONDS),
            ssl_context_factory=lambda _config, _default: self._certificate.context(),
        )  # fmt: skip
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # bad requests are no news
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._run, args=(listener, limits), name="makeway-http", daemon=True)
        self._thread.start()
        address: tuple[str, int] = listener.getsockname()[:2]
        self._app.listening.result()
        return address

    def _run(self, listener: socket.socket, limits: Limits) -> None:
        assert self._server is not None
        try:
            with asyncio.Runner(loop_factory=lambda: _Loop(limits)) as runner:
                runner.run(self._server.serve(sockets=[listener]))
        except BaseException as error:
            if not self._app.listening.done():
                self._app.listening.set_exception(error)
            raise
        finally:
            listener.close()

    def stop(self) -> None:
        """Watches end at once, other requests within a few seconds."""
        if self._server is not None and self._thread is not None:
            self._app.stop()
            self._server.should_exit = True
            self._thread.join()
            self._thread = None


class _Loop(uvloop.Loop):
    """uvicorn says nothing about how long a handshake may take, nor how long one waits for a last farewell."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._handshake_seconds = limits.handshake_seconds

    async def create_server(self, *args: Any, **options: Any) -> Any:
        options |= {"ssl_handshake_timeout": self._handshake_seconds, "ssl_shutdown_timeout": FAREWELL_SECONDS}
        return await super().create_server(*args, **options)


def _bounded(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol of one connection, within ``limits``."""

    class Bounded(HttpToolsProtocol):
        _is_head = True  # a request has not begun, or its head is not complete
        _unread_bytes = 0  # of a head that is not complete
        _header_bytes = 0  # of the headers that were read
        _is_too_large = False
        _patience: asyncio.TimerHandle | None = None  # runs while a head is awaited
        _stall: asyncio.TimerHandle | None = None  # runs while the client takes nothing

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._end(503, b"too many connections")
            else:
                self._patience = self.loop.call_later(limits.header_seconds, self._lose_patience)

        def connection_lost(self, error: Exception | None) -> None:
            self._calm()
            self._move_on()
            super().connection_lost(error)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            if self._is_head:
                self._unread_bytes += len(data)
                if self._patience is None:
                    self._patience = self.loop.call_later(limits.header_seconds, self._lose_patience)
            super().data_received(data)
            if self._is_head and self._unread_bytes > limits.header_bytes:
                self._end(431, TOO_LARGE)

        def on_message_begin(self) -> None:
            self._header_bytes = 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            self._header_bytes += len(name) + len(value)
            if self._header_bytes + len(self.url) > limits.header_bytes:
                self._is_too_large = True
                raise httptools.HttpParserError("the head is too large")
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._is_head, self._unread_bytes = False, 0
            self._calm()
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._is_head = True
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            self._end(431, TOO_LARGE) if self._is_too_large else self._end(400, msg.encode())

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._stall is None:
                self._stall = self.loop.call_later(limits.write_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._move_on()
            super().resume_writing()

        def _calm(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _move_on(self) -> None:
            if self._stall is not None:
                self._stall.cancel()
                self._stall = None

        def _lose_patience(self) -> None:
            self._patience = None
            self._end(408, b"the request took too long to arrive")

        def _end(self, status: int, words: bytes) -> None:
            if not self.transport.is_closing():
                head = b"HTTP/1.1 %d %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
                self.transport.write(head % (status, HTTPStatus(status).phrase.encode(), len(words)) + words)
                self.transport.close()

    return Bounded
