"""The API server as an ASGI application: the user, the request, and the answer.

URLs are regular, and every microsecond counts in each request, so requests are dispatched by hand here instead of by
the routes and middleware of a framework (decision 0020).
"""

from __future__ import annotations

import asyncio
import logging
import traceback
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Protocol

from makeway.adapters.server.access.tokens import Access, AccessRequest, User, may
from makeway.adapters.server.changes.field_ownership import ApplyConflict
from makeway.adapters.server.changes.patches import PatchRefused
from makeway.adapters.server.http.answers import Header, Response, form_of, plain, text
from makeway.adapters.server.http.bodies import Query
from makeway.adapters.server.http.connections import ClientConnection, Connections
from makeway.adapters.server.http.limits import Limits, files_allowed
from makeway.adapters.server.http.load_metrics import LoadMetrics
from makeway.adapters.server.http.routes import Route, is_stored, route, segments
from makeway.adapters.server.http.statuses import (
    Cause,
    RequestRefused,
    bad_request,
    failed,
    invalid,
    not_allowed,
    not_found_path,
    refusal,
    too_large,
    unauthorized,
    warning_words,
)
from makeway.adapters.server.http.streams import OpenStream, Streams
from makeway.adapters.server.http.uploads import BodyBytes
from makeway.adapters.server.http.watch import Watches
from makeway.adapters.server.openapi.documents import openapi
from makeway.adapters.server.resources import reviews
from makeway.adapters.server.resources.calls import Call, ReaderThreads
from makeway.adapters.server.resources.discovery import (
    DEFINITIONS_GROUP,
    VISIBILITY_GROUP,
    VISIBILITY_VERSION,
    discovery,
)
from makeway.adapters.server.resources.pod_calls import PodCalls, PodLogs
from makeway.adapters.server.resources.reads import Reads
from makeway.adapters.server.resources.troubles import GaveUp, log_trouble
from makeway.adapters.server.resources.upkeep import EVENTS_MS, Upkeep
from makeway.adapters.server.resources.writes import Writes
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.reading.documents import Tree
from makeway.runtime.ports import Clock, StoreError

log = logging.getLogger("makeway.server")
OPEN_PATHS = frozenset({"healthz", "livez", "readyz", "version"})
WARNING_BYTES_MAX = 4096  # of all Warning headers together
_FIXED: tuple[Header, ...] = ((b"cache-control", b"no-cache, private"), (b"x-content-type-options", b"nosniff"))
GZIP_WINDOW, GZIP_MEMORY = 16 + 12, 6  # zlib's way to ask for gzip, and for 48 KiB instead of 256 for each
SLICE_BYTES = 64 * 1024  # handed to a connection at once: the next slice follows when there is room again
GZIP_LEVEL = 1  # clients are on the same machine: time counts more than bytes

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Extras(Protocol):
    """What the server asks the rest of the process."""

    def version(self) -> Mapping[str, str]:
        """The fields of ``/version``."""

    def not_ready(self) -> str:
        """Why it is not ready; "" when it is."""

    async def metrics(self) -> bytes:
        """``/metrics``, in the text format of Prometheus."""

    @property
    def logs(self) -> PodLogs | None:
        """The source of pod logs; None if no pods run here."""

    async def pending_workloads(
        self, namespace: str | None, queue: str, *, offset: int, limit: int
    ) -> Mapping[str, Tree] | None:
        """The waiting list of a ClusterQueue (``namespace`` None) or LocalQueue; None if there is no such queue."""


class App:
    """See ``application``."""

    def __init__(
        self, store: SqliteStore, access: Access, extras: Extras, limits: Limits, clock: Clock, events_ms: int,
        gave_up: GaveUp,
    ) -> None:  # fmt: skip
        self.limits = limits
        self.clock = clock
        self.listening: Future[None] = Future()
        self._store = store
        self._access = access
        self._extras = extras
        self._threads = ReaderThreads(store)
        self._reads = Reads(store, self._threads, limits, clock, gave_up)
        self._verbs = _verbs(self._reads, Writes(store, self._threads, self._reads, clock))
        self._streams = Streams(limits)
        self._watches = Watches(store, limits)
        self.connections = Connections(limits)
        self._bodies = BodyBytes(limits)
        self._load = LoadMetrics()
        self._pods = PodCalls(store, self._threads, clock, extras.logs)
        self._upkeep = Upkeep(store, clock, events_ms=events_ms, gave_up=gave_up)
        self._loop: asyncio.AbstractEventLoop | None = None
        access.on_revoked(lambda: self._from_elsewhere(self._revoked))

    def stop(self) -> None:
        """End all watches and followed logs. From any thread."""
        self._from_elsewhere(self._streams.stop)

    def _revoked(self) -> None:
        self._streams.check()
        self.connections.check(self._access.is_valid)

    def _from_elsewhere(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(call)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        if scope["type"] == "http":
            exchange = Exchange(scope, receive, send, self.limits, self._bodies)
            try:
                answer = await self._answer(exchange)
            except Exception as error:
                answer = _refused(error, exchange)
            exchange.done_with_body()
            try:
                await exchange.reply(answer)
            except Exception as error:  # the client sees an answer that breaks off
                _report(error, exchange)
            finally:
                if answer.stream is not None:
                    answer.stream.close()
        return None

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._loop = asyncio.get_running_loop()
                self._watches.bell.begin()
                upkeep = self._loop.create_task(self._upkeep.run())
                looks = self._loop.create_task(self._streams.look_after())
                await send({"type": "lifespan.startup.complete"})
                self.listening.set_result(None)
            else:
                upkeep.cancel()
                looks.cancel()
                self._threads.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, exchange: Exchange) -> Response:
        parts = segments(exchange.scope["raw_path"])
        if len(parts) == 1 and parts[0] in OPEN_PATHS:
            return self._open(parts[0], exchange)
        user = self._access.user(exchange.headers.get(b"authorization"))
        if user is None:
            raise unauthorized()
        exchange.connection.is_of(user)
        if any(name.startswith(b"impersonate-") for name in exchange.headers):
            raise RequestRefused(403, "impersonation is not served here")
        if not parts or parts[0] not in ("api", "apis") or len(parts) < (3 if parts[0] == "api" else 4) or (
            parts[1] == DEFINITIONS_GROUP
        ):  # fmt: skip
            return await self._other(exchange, parts, user)
        if parts[1:3] == (VISIBILITY_GROUP, VISIBILITY_VERSION):
            return await self._visibility(exchange, parts[3:], user)
        return await self._objects(exchange, route(parts), user)

    # --- what is not an object ---

    def _open(self, path: str, exchange: Exchange) -> Response:
        exchange.allow("GET", "HEAD")
        if path == "version":
            return plain(self._extras.version())
        reason = self._extras.not_ready() if path == "readyz" else ""
        if reason:
            return text(f"not ready: {reason}\n", 503)
        is_asked = path == "readyz" and exchange.query.flag("verbose")
        return text(f"[+]ready ok\n[+]{self.limits.shares()}\nreadyz check passed\n" if is_asked else "ok")

    async def _other(self, exchange: Exchange, parts: tuple[str, ...], user: User) -> Response:
        exchange.allow("GET")
        self._check(user, AccessRequest("get"))
        path = "/" + "/".join(parts)
        if path == "/metrics":
            own = self._load.text(self.connections, self._streams, self._bodies)
            return Response(
                200, await self._extras.metrics() + own.encode(), "text/plain; version=0.0.4; charset=utf-8"
            )
        found = discovery(path, exchange.accept)
        if path.startswith("/openapi"):  # the first of each takes a while to make
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(None, openapi, path, exchange.accept)
        if found is None:
            raise not_found_path()
        return Response(200, found[1], found[0])

    async def _visibility(self, exchange: Exchange, rest: tuple[str, ...], user: User) -> Response:
        exchange.allow("GET")
        namespace, rest = (rest[1], rest[2:]) if rest[0] == "namespaces" and len(rest) > 2 else (None, rest)
        resource = "clusterqueues" if namespace is None else "localqueues"
        if len(rest) != 3 or rest[0] != resource or rest[2] != "pendingworkloads":
            raise not_found_path()
        self._check(user, AccessRequest("get", VISIBILITY_GROUP, resource, "pendingworkloads", namespace, rest[1]))
        offset, limit = exchange.query.integer("offset"), exchange.query.integer("limit")
        limit = 1000 if limit is None else min(limit, self.limits.list_limit_max)
        found = await self._extras.pending_workloads(namespace, rest[1], offset=offset or 0, limit=limit)
        if found is None:
            about = (VISIBILITY_GROUP, resource, rest[1])
            raise RequestRefused(404, f'{resource}.{VISIBILITY_GROUP} "{rest[1]}" not found', about=about)
        return plain(found)

    # --- objects ---

    def _check(self, user: User, asked: AccessRequest) -> None:
        if may(user, asked):
            return
        what = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
        where = "at the cluster scope" if asked.namespace is None else f'in the namespace "{asked.namespace}"'
        resource = f"{asked.resource}/{asked.part}" if asked.part else asked.resource
        message = (
            f'{what}{f" {chr(34)}{asked.name}{chr(34)}" if asked.name else ""} is forbidden: User "{user.name}" cannot '
            f'{asked.verb} resource "{resource}" in API group "{asked.group}" {where}'
        )
        raise RequestRefused(403, message, about=(asked.group, asked.resource, asked.name))

    async def _objects(self, exchange: Exchange, route: Route, user: User) -> Response:
        exchange.route = route
        verb = _verb(exchange, route)
        kind = route.kind
        self._check(user, AccessRequest(verb, kind.group, kind.plural, route.part, route.namespace, route.name))
        call = Call(
            route, exchange.query, form_of(exchange.accept), await exchange.body(user), exchange.text(b"content-type"),
            exchange.text(b"user-agent"),
        )  # fmt: skip
        if not is_stored(kind):
            return await self._threads.apart(call, lambda: reviews.answer(call, user))
        if verb == "watch":
            return await self._watch(call, user)
        if route.part == "log":
            return await self._pods.log(call, partial(self._begin_stream, user))
        if route.part in ("binding", "eviction"):
            return await (self._pods.bind if route.part == "binding" else self._pods.evict)(call)
        return await self._verbs[verb](call)

    def _begin_stream(self, user: User) -> OpenStream:
        return self._streams.begin(user.token, partial(self._access.is_valid, user))

    async def _watch(self, call: Call, user: User) -> Response:
        shown, chosen = self._reads.shown(call), self._reads.chosen(call)
        stream = self._begin_stream(user)
        try:
            begin = partial(self._watches.begin, call, chosen, shown, stream)
            watching = await self._threads.among_many(call.route.stored, begin)
        except BaseException:
            stream.close()
            raise
        return Response(200, watching.lines(), call.form.content_type, stream=stream)


def _verbs(reads: Reads, writes: Writes) -> Mapping[str, Callable[[Call], Awaitable[Response]]]:
    """The verbs of objects in general, without those of single kinds."""
    return {
        "get": reads.get, "list": reads.list, "create": writes.create, "update": writes.update, "patch": writes.patch,
        "delete": writes.delete, "deletecollection": writes.delete_collection,
    }  # fmt: skip


_PART_VERBS: Mapping[str, Mapping[str, str]] = {
    "status": {"PUT": "update", "PATCH": "patch"}, "finalize": {"PUT": "update"}, "log": {},
    "binding": {"POST": "create"}, "eviction": {"POST": "create"},
}  # fmt: skip


def _verb(exchange: Exchange, route: Route) -> str:
    method = exchange.scope["method"]
    if not is_stored(route.kind):
        exchange.allow("POST")
        if route.name:
            raise not_found_path()
        return "create"
    if method == "GET" and route.part not in ("binding", "eviction", "finalize"):
        watches = exchange.query.flag("watch")
        if route.name and not watches:
            return "get"
        return "watch" if watches else "list"
    verbs: Mapping[str, str] = {"PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    if not route.name:
        is_everywhere = route.kind.namespaced and route.namespace is None
        verbs = {} if is_everywhere else {"POST": "create", "DELETE": "deletecollection"}
    elif route.part:
        verbs = _PART_VERBS[route.part]
    verb = verbs.get(method)
    if verb is None:
        raise not_allowed()
    return verb


# --- one request and its answer --------------------------------------------------------------------------------------


class Exchange:
    """One request, and the sending of its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits, bodies: BodyBytes) -> None:
        self.scope = scope
        self.connection: ClientConnection = scope["state"]["connection"]
        self._bodies = bodies
        self._ticket: tuple[str, int] | None = None  # whose body it is, and the bytes held for it
        self.route: Route | None = None
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        self._receive, self._send, self._limits = receive, send, limits
        self._query: Query | None = None
        self._is_gone = False
        self._has_body = b"transfer-encoding" in self.headers or self.headers.get(b"content-length", b"0") != b"0"

    def text(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def accept(self) -> str:
        return self.text(b"accept")

    @property
    def query(self) -> Query:
        if self._query is None:
            self._query = Query.parse(self.scope["query_string"])
        return self._query

    def allow(self, *methods: str) -> None:
        if self.scope["method"] not in methods:
            raise not_allowed()

    async def body(self, user: User) -> bytes:
        """Return the whole body, within the limits. Raises ``RequestRefused``: 413, 429, or 408 if it is too slow."""
        if not self._has_body:
            return b""
        most = self._limits.body_bytes
        length = self.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > most:
            raise too_large(most)
        if self.headers.get(b"content-encoding", b"identity") != b"identity":
            raise RequestRefused(415, "a body must not be compressed", closes=True)
        self._ticket = self._bodies.take(user.token, int(length) if length.isdigit() and int(length) else most)
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while more and size <= most:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    parts.append(message["body"])
                    size += len(message["body"])
                    more = message.get("more_body", False)
        except TimeoutError:
            raise RequestRefused(408, "the body of the request took too long to arrive", closes=True) from None
        if size > most:
            raise too_large(most)
        self._has_body = False
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def done_with_body(self) -> None:
        if self._ticket is not None:
            self._bodies.give_back(*self._ticket)
            self._ticket = None

    # --- the answer ---

    async def reply(self, answer: Response) -> None:
        body = answer.body
        headers = [(b"content-type", answer.content_type.encode()), *_FIXED, *answer.headers, *_warnings(answer)]
        if self._has_body:  # the body will not be read
            headers.append((b"connection", b"close"))
        if isinstance(body, AsyncIterator):
            return await self._stream(answer, headers, body)
        if isinstance(body, bytes):
            if len(body) < self._limits.gzip_bytes or not self._takes_gzip():
                return await self._whole(answer.status, headers, body)
            body = (body,)
        pieces = iter(body)
        if not answer.is_slow:
            first, second = next(pieces, b""), next(pieces, None)
            if second is None and len(first) < self._limits.gzip_bytes:
                return await self._whole(answer.status, headers, first)
            pieces = chain((first,) if second is None else (first, second), pieces)
        packer = None
        if self._takes_gzip():
            packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW, GZIP_MEMORY)
            headers.append((b"content-encoding", b"gzip"))
        return await self._stream(answer, headers, _packed(pieces, packer, apart=answer.is_slow))

    def _takes_gzip(self) -> bool:
        return b"gzip" in self.headers.get(b"accept-encoding", b"")

    async def _whole(self, status: int, headers: list[Header], body: bytes) -> None:
        headers.append((b"content-length", str(len(body)).encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        if len(body) > SLICE_BYTES:
            await self._part(body)
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def _part(self, data: bytes) -> None:
        """Send a part of a body. It waits here until the connection has room, without a copy."""
        if len(data) <= SLICE_BYTES:
            return await self._send({"type": "http.response.body", "body": data, "more_body": True})
        view = memoryview(data)
        for at in range(0, len(view), SLICE_BYTES):
            piece = view[at : at + SLICE_BYTES]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)  # lets other requests run
        return None

    async def _stream(self, answer: Response, headers: list[Header], pieces: AsyncIterator[bytes]) -> None:
        """Send a long list, a watch or a log, until it ends or the client is gone."""
        sending = asyncio.current_task()
        listener = asyncio.ensure_future(self._until_gone(sending))
        seconds: float | None = self._limits.answer_seconds
        if answer.stream is not None:
            answer.stream.outlet, seconds = self.connection, None
        try:
            async with asyncio.timeout(seconds):
                await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
                async for piece in pieces:
                    await self._part(piece)
                await self._send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            self.connection.cut()
        except asyncio.CancelledError:
            if answer.stream is not None and answer.stream.over.done():
                self.connection.cut()  # the client does not read, and the end must not wait for it
            elif not self._is_gone:
                raise
        finally:
            listener.cancel()
            await pieces.aclose()  # type: ignore[attr-defined]

    async def _until_gone(self, sending: asyncio.Task[Any] | None) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_gone = True
        if sending is not None:
            sending.cancel()


async def _packed(pieces: Iterator[bytes], packer: Any, *, apart: bool) -> AsyncIterator[bytes]:
    """Compress piece by piece. ``apart``: each piece is made in a thread; other requests run in between."""
    while True:
        piece = await asyncio.to_thread(next, pieces, None) if apart else next(pieces, None)
        if piece is None:
            break
        view = memoryview(piece)
        for at in range(0, len(view) if packer else 0, SLICE_BYTES):
            yield packer.compress(view[at : at + SLICE_BYTES])
            await asyncio.sleep(0)
        if not packer:
            yield piece
            await asyncio.sleep(0)
    if packer is not None:
        yield packer.flush()


class ClientGone(Exception):
    """The client left before its request was complete."""


def _warnings(answer: Response) -> Iterable[tuple[bytes, bytes]]:
    size = 0
    for problem in answer.advice:
        words = warning_words(problem).replace("\\", "\\\\").replace('"', '\\"')
        value = f'299 - "{words}"'.encode()
        size += len(value)
        if size > WARNING_BYTES_MAX:
            return
        yield b"warning", value


def _report(error: Exception, exchange: Exchange) -> None:
    """Log where an error happened, without values: they could be secrets."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s in a %s request\n%s", type(error).__name__, exchange.scope["method"], where)


def _refused(error: Exception, exchange: Exchange) -> Response:
    route = exchange.route
    if isinstance(error, StoreError):
        kind, version, name = (route.kind, route.version, route.name) if route else (None, "", "")
        error = refusal(error, kind, version, name)
    elif isinstance(error, PatchRefused):
        error = _patch_refusal(error, route)
    elif isinstance(error, ApplyConflict):
        causes = [Cause("FieldManagerConflict", f"conflict with {manager}", path) for manager, path in error.conflicts]
        error = RequestRefused(409, str(error), causes=causes)
    if not isinstance(error, RequestRefused):
        if not isinstance(error, ClientGone):
            _report(error, exchange)
        error = failed()
    answer = plain(error.status(), error.code)
    if error.retry_seconds:
        answer.headers.append((b"retry-after", str(error.retry_seconds).encode()))
    if error.closes:
        answer.headers.append((b"connection", b"close"))
    if error.code == 401:
        answer.headers.append((b"www-authenticate", b"Bearer"))
    return answer


def _patch_refusal(error: PatchRefused, route: Route | None) -> RequestRefused:
    if error.code == 422 and route is not None and error.causes:
        return invalid(error.causes, route.kind, route.version, route.name)
    return RequestRefused(error.code, error.message) if error.code != 400 else bad_request(error.message)


def application(
    store: SqliteStore, access: Access, extras: Extras, limits: Limits, clock: Clock, *, events_ms: int = EVENTS_MS,
    gave_up: GaveUp = log_trouble,
) -> App:  # fmt: skip
    """Return the server of one Store; ``serving.Serving`` listens for it. ``events_ms``: how long events are kept.

    ``gave_up`` is called with objects that it cannot handle.
    """
    files = files_allowed()
    bounded = limits.within(files)
    level = logging.WARNING if bounded.connections < limits.connections else logging.INFO
    log.log(level, "%s; this process may have %d descriptors", bounded.shares(), files)
    return App(store, access, extras, bounded, clock, events_ms, gave_up)
