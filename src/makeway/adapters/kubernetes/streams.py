"""Open-ended answers: a watch, and the log of a container. One thread reads an answer; any thread may end it.

Not here: requests (``transport``), and a watch that resumes by itself (``watching``).
"""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator
from contextlib import closing
from threading import Event, Lock, get_ident
from typing import TypeVar
from weakref import WeakSet

import httpx2
import msgspec

from makeway.adapters.kubernetes.errors import no_answer, status_error
from makeway.api.reading.documents import Tree
from makeway.runtime.ports import Unavailable

CLOSE_SECONDS = 5.0  # a reader has this time to leave an answer that was ended
LINE_BYTES_MAX = 16 * 1024 * 1024  # of a watch


class OpenAnswer:
    """An open-ended answer. ``close`` may come from any thread.

    ``close`` only shuts down the connection; the reading thread closes the socket. If another thread closed it, the
    number of the socket could go to the next file that is opened, and the reader would read from that file.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._beginning = Lock()  # for the next two
        self._is_closed = False
        self._reader: int | None = None  # the thread that reads, or has read
        self._is_left = Event()

    def close(self) -> None:
        """End it, also for a thread that waits for the next part."""
        with self._beginning:
            self._is_closed = True
        stream = self._response.extensions.get("network_stream")
        connection = stream.get_extra_info("socket") if stream is not None else None
        try:
            if isinstance(connection, socket.socket):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not the socket
        except OSError:
            pass  # closed already

    def wait_for_reader(self, seconds: float) -> None:
        """Wait until no thread reads it any more; the reading thread does not wait for itself."""
        if self._reader not in (None, get_ident()):
            self._is_left.wait(seconds)

    def _chunks(self) -> Generator[bytes, None, None]:
        """Yield the parts. Raises Unavailable if the connection breaks."""
        with self._beginning:
            if not self._is_closed:
                self._reader = get_ident()
        try:
            if self._reader is not None:
                yield from self._response.iter_bytes()
        except httpx2.HTTPError as error:
            raise no_answer(error, writes=False) from error
        finally:
            self._response.close()
            self._is_left.set()


class Bytes(OpenAnswer):
    """The parts of a log, until the server ends it."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts. Raises Unavailable if the connection breaks."""
        with closing(self._chunks()) as chunks:
            yield from chunks


class WatchStream(OpenAnswer):
    """The events of a watch: pairs of type and object, until the server ends it."""

    def __iter__(self) -> Iterator[tuple[str, dict[str, Tree]]]:
        """Yield the events. Raises the error of an ERROR event, and Unavailable if the connection breaks."""
        rest = b""
        with closing(self._chunks()) as chunks:
            for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event(line)
                if len(rest) > LINE_BYTES_MAX:
                    raise Unavailable("an event of the watch is too large")


def _event(line: bytes) -> tuple[str, dict[str, Tree]]:
    try:
        event = msgspec.json.decode(line)
        type_, tree = event["type"], event["object"]
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise Unavailable(f"the watch told something that is no event: {error!r}") from error
    if type_ == "ERROR":
        raise status_error(tree if isinstance(tree, dict) else {})
    return str(type_), tree


S = TypeVar("S", bound=OpenAnswer)


class OpenAnswers:
    """All open answers of one client. An answer that is opened after ``close`` is ended at once."""

    def __init__(self) -> None:
        self._lock = Lock()  # for the next two
        self._open: WeakSet[OpenAnswer] = WeakSet()
        self._is_closed = False

    def add(self, answer: S) -> S:
        with self._lock:
            self._open.add(answer)
            is_late = self._is_closed
        if is_late:
            answer.close()
        return answer

    def close(self) -> None:
        """End all answers, and wait until their threads have closed them."""
        with self._lock:
            answers, self._is_closed = list(self._open), True
        for answer in answers:
            answer.close()
        for answer in answers:
            answer.wait_for_reader(CLOSE_SECONDS)
