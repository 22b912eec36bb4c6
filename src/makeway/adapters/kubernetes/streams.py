"""Answers that go on: a watch, and the log of a container. A thread reads each; any thread may end it.

Not here: how they are asked for (``transport``), and a watch that resumes by itself (``watching``).
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

CLOSE_SECONDS = 5.0  # that a reader may take to leave what was ended
LINE_BYTES_MAX = 16 * 1024 * 1024  # of a watch


class OpenAnswer:
    """An answer that goes on. ``close`` may come from any thread.

    It only ends what comes over the wire: to close the socket while another thread is about to read from it would
    give its number to the next file that is opened, and that thread would read from there. So the reader gives it back.
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
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # of the wire: TLS stays as its reader has it
        except OSError:
            pass  # it is closed already

    def wait_for_reader(self, seconds: float) -> None:
        """Wait until no thread reads it any more; the one that reads does not wait for itself."""
        if self._reader not in (None, get_ident()):
            self._is_left.wait(seconds)

    def _chunks(self) -> Generator[bytes, None, None]:
        """Raises Unavailable where the connection breaks."""
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
    """Parts of a log, until the server ends it."""

    def __iter__(self) -> Iterator[bytes]:
        """Raises Unavailable where the connection breaks."""
        with closing(self._chunks()) as chunks:
            yield from chunks


class WatchStream(OpenAnswer):
    """The events of a watch: pairs of type and object, until the server ends it."""

    def __iter__(self) -> Iterator[tuple[str, dict[str, Tree]]]:
        """Raises what an ERROR event says, and Unavailable where the connection breaks."""
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
    """All that go on of one client. What is opened once they are closed is ended at once."""

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
        """End them all, and wait until those that are read have been given back by the thread that reads."""
        with self._lock:
            answers, self._is_closed = list(self._open), True
        for answer in answers:
            answer.close()
        for answer in answers:
            answer.wait_for_reader(CLOSE_SECONDS)
