"""Connections whose patience ends: uvicorn's protocol, within limits.

What uvicorn leaves to the operator is bounded here: how large the head of a request may be and how long it may take to
arrive, how long a client may take nothing of its answer, how many connections there are. Whoever exceeds one of them
is told so where that is possible, and the connection ends.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from makeway.adapters.server.limits import Limits

TOO_LARGE = b"the head of the request is too large"


def bounded(limits: Limits) -> type[Bounded]:
    """The protocol for a server with these limits."""
    return type("BoundedWithin", (Bounded,), {"limits": limits})


class Bounded(HttpToolsProtocol):
    """One connection. A class of its own for each server: ``limits`` belong to it."""

    limits: ClassVar[Limits] = Limits()
    _is_head = True  # a request has not begun, or its head is not complete
    _unread_bytes = 0  # of a head that is not complete
    _header_bytes = 0  # of the headers that were read
    _is_too_large = False
    _patience: asyncio.TimerHandle | None = None  # runs while a head is awaited
    _stall: asyncio.TimerHandle | None = None  # runs while the client takes nothing

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._end(503, b"too many connections")
        else:
            self._patience = self.loop.call_later(self.limits.header_seconds, self._lose_patience)

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
                self._patience = self.loop.call_later(self.limits.header_seconds, self._lose_patience)
        super().data_received(data)
        if self._is_head and self._unread_bytes > self.limits.header_bytes:
            self._end(431, TOO_LARGE)

    def on_message_begin(self) -> None:
        self._header_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes + len(self.url) > self.limits.header_bytes:
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
            self._stall = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

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
