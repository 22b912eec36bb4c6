"""A client of any Kubernetes API server over HTTPS: trees and bytes, one call a request.

Calls are synchronous, as the Store port is; a watch is a ``WatchStream`` that somebody reads in a thread
(``watching``). What may fail is told as the errors of ``runtime.ports``: by the Status of the server, or, where no
answer came, as Unavailable if nothing can have happened and TimedOut if nobody knows. Only what cannot have been
applied is tried again, a bounded number of times.

Promises: no call waits longer than its timeouts say; no redirect is followed, so a token goes to its server alone; no
secret is part of a message.

Not here: which objects belong to the Store (``store``), where the server is (``kubeconfig``).
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, get_ident
from types import TracebackType
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

import httpx2
import msgspec

from makeway import __version__
from makeway.adapters.kubernetes.errors import NotTrusted, error_of, status_error
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.adapters.kubernetes.resources import Resource, preferred_versions, resources_in, resources_of_groups
from makeway.api.reading.documents import Tree
from makeway.runtime.ports import Retryable, StoreError, TimedOut, TooManyRequests, Unavailable

Object = dict[str, Tree]
PatchType = Literal["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]

FIELD_MANAGER = "makeway"
PLAIN = "application/json"
TABLE = f"{PLAIN};as=Table;v=v1;g=meta.k8s.io,{PLAIN}"
GROUPS = f"{PLAIN};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{PLAIN}"
PAGE = 500
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
WATCH_SECONDS = 290  # a server ends a watch after so long; it is resumed
CLOSE_SECONDS = 5.0  # that a reader may take to leave what was ended
SPARE_SECONDS = 15.0  # that an ending may come late
TRIES_MAX = 4
PAUSE_SECONDS = 0.1  # doubled from try to try
PAUSE_SECONDS_MAX = 5.0
TOKEN_SECONDS = 60.0  # a token file is read anew after so long
LINE_BYTES_MAX = 16 * 1024 * 1024  # of a watch
CONNECTIONS_MAX = 256
LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
_KEEP_ALIVE = [  # a peer that is gone without a word is noticed within a minute
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value)
      for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the code says whether something was created, the body is JSON."""

    code: int
    body: bytes

    def tree(self) -> Object:
        try:
            tree = msgspec.json.decode(self.body)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the server's answer is no JSON: {error}") from error
        if not isinstance(tree, dict):
            raise Unavailable("the server's answer is no JSON object")
        return tree


class Client:
    """``tries``: how often a request is sent that cannot have been applied. ``warn`` is told what a server warns of."""

    def __init__(
        self, target: ApiTarget, *, tries: int = TRIES_MAX, seconds: float = ANSWER_SECONDS,
        warn: Callable[[str], None] | None = None, pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self.target = target
        self._tries = tries
        self._warn = warn
        self._pause = pause
        self._credentials = _Credentials(target)
        self._discovered: tuple[Resource, ...] | None = None
        self._opening = Lock()  # for the next two
        self._open: WeakSet[_Open] = WeakSet()
        self._is_closed = False
        host = urlsplit(target.server).hostname or ""
        timeout = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        pool = httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=16)
        transport = None
        if not target.proxy and (host in LOCAL_HOSTS or not _wants_proxy()):
            transport = httpx2.HTTPTransport(verify=_tls(target), limits=pool, socket_options=_KEEP_ALIVE)
        self._http = httpx2.Client(
            base_url=target.server, verify=True if transport else _tls(target), timeout=timeout, limits=pool,
            transport=transport, proxy=target.proxy or None, trust_env=transport is None and not target.proxy,
            headers=[("User-Agent", f"makeway/{__version__}"), *_header_list(target.headers)],
        )  # fmt: skip

    def close(self) -> None:
        """End all that goes on. A connection is given back by the thread that reads it, before the others are."""
        with self._opening:
            is_open, self._is_closed = list(self._open), True
        for each in is_open:
            each.close()
        for each in is_open:
            each.wait_for_reader(CLOSE_SECONDS)
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- objects ---

    def get(self, resource: Resource, namespace: str, name: str, *, accept: str = PLAIN) -> Object:
        return self.send("GET", resource.path(namespace, name), accept=accept).tree()

    def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "",
        limit: int = 0, token: str = "", accept: str = PLAIN,
    ) -> Object:  # fmt: skip
        """One page, as the server answers: ``items`` (or ``rows``) and ``metadata``. 0 is no limit."""
        asked = {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit or ""), "continue": token}
        return self.send("GET", resource.all_path(namespace), query=asked, accept=accept).tree()

    def pages(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "",
        accept: str = PLAIN,
    ) -> Iterator[Object]:  # fmt: skip
        """All pages of a list. Raises Expired where the server has forgotten the state of the first."""
        token = ""
        while True:
            page = self.list(
                resource, namespace, labels=labels, fields=fields, limit=PAGE, token=token, accept=accept
            )  # fmt: skip
            yield page
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return

    def create(self, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False) -> Reply:
        return self.send("POST", resource.all_path(namespace), query=_written(dry_run), body=body)

    def replace(
        self, resource: Resource, namespace: str, name: str, body: Object, *, subresource: str = "",
        dry_run: bool = False,
    ) -> Reply:  # fmt: skip
        return self.send("PUT", resource.path(namespace, name, subresource), query=_written(dry_run), body=body)

    def patch(
        self, resource: Resource, namespace: str, name: str, change: Tree, *, subresource: str = "",
        type_: PatchType = "merge-patch+json", force: bool = False, dry_run: bool = False,
    ) -> Reply:  # fmt: skip
        query = {**_written(dry_run), "force": "true" if force else ""}
        path = resource.path(namespace, name, subresource)
        return self.send("PATCH", path, query=query, body=change, content_type=f"application/{type_}")

    def delete(self, resource: Resource, namespace: str, name: str, options: Object, *, dry_run: bool = False) -> Reply:
        query = {"dryRun": "All"} if dry_run else {}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return self.send("DELETE", resource.path(namespace, name), query=query, body=body)

    def watch(
        self, resource: Resource, namespace: str | None = None, *, since: str, labels: str = "", fields: str = "",
        accept: str = PLAIN, seconds: int = WATCH_SECONDS,
    ) -> WatchStream:  # fmt: skip
        """Changes after ``since``, until the server or ``WatchStream.close`` ends it. Raises what the server says."""
        query = {
            "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since, "timeoutSeconds": str(seconds),
            "labelSelector": labels, "fieldSelector": fields,
        }  # fmt: skip
        request = self._request("GET", resource.all_path(namespace), query, accept)
        return self._opened(WatchStream(self._streamed(request, seconds + SPARE_SECONDS)))

    def log(self, resource: Resource, namespace: str, pod: str, query: Mapping[str, str]) -> Bytes:
        """What a container of a pod prints, as far as the query asks for it. Raises what the server says."""
        request = self._request("GET", resource.path(namespace, pod, "log"), query, "*/*")
        return self._opened(Bytes(self._streamed(request, None if query.get("follow") else ANSWER_SECONDS)))

    def _opened(self, stream: S) -> S:
        with self._opening:
            self._open.add(stream)
            is_late = self._is_closed
        if is_late:
            stream.close()
        return stream

    def _streamed(self, request: httpx2.Request, seconds: float | None) -> httpx2.Response:
        """An answer that goes on. Once it has begun it may be silent for so long, or for ever."""
        response = self._sent(request, stream=True)
        if response.is_success:
            request.extensions["timeout"]["read"] = seconds
            return response
        try:
            response.read()
        except httpx2.HTTPError as error:
            raise _unanswered(error, writes=False) from error
        finally:
            response.close()
        raise error_of(response.status_code, response.content, response.headers, writes=False)

    # --- what the server says of itself ---

    def resources(self) -> tuple[Resource, ...]:
        """All that the server serves; asked for once. Versions that it prefers come first."""
        if self._discovered is None:
            self._discovered = tuple(self._discover())
        return self._discovered

    def _discover(self) -> Iterator[Resource]:
        core = self.send("GET", "/api", accept=GROUPS).tree()
        groups = self.send("GET", "/apis", accept=GROUPS).tree()
        if core.get("kind") == groups.get("kind") == "APIGroupDiscoveryList":
            yield from resources_of_groups(core)
            yield from resources_of_groups(groups)
            return
        yield from resources_in(self.send("GET", "/api/v1").tree(), "", "v1")
        for group, version in preferred_versions(groups):
            try:
                listed = self.send("GET", f"/apis/{group}/{version}").tree()
            except StoreError:  # a group whose own server is away takes no other with it
                continue
            yield from resources_in(listed, group, version)

    # --- one request ---

    def send(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Tree = None,
        accept: str = PLAIN, content_type: str = PLAIN,
    ) -> Reply:  # fmt: skip
        """Send it, and again while that is known to be harmless. Empty values of the query are left out."""
        request = self._request(method, path, query or {}, accept, body, content_type)
        for attempt in range(1, self._tries + 1):
            try:
                return self._answered(request)
            except Retryable as error:
                is_harmless = method == "GET" or isinstance(error, TooManyRequests | Unavailable)
                if attempt == self._tries or not is_harmless or isinstance(error, NotTrusted):
                    raise
                asked = (error.retry_after or 0) / 1000
                self._pause(min(PAUSE_SECONDS_MAX, max(asked, PAUSE_SECONDS * 2**attempt)))
        raise AssertionError("unreachable")

    def _request(
        self, method: str, path: str, query: Mapping[str, str], accept: str, body: Tree = None,
        content_type: str = PLAIN,
    ) -> httpx2.Request:  # fmt: skip
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        request = self._http.build_request(
            method, path, params={name: value for name, value in query.items() if value}, headers=headers,
            content=None if body is None else msgspec.json.encode(body),
        )  # fmt: skip
        if self.target.server_name:
            request.extensions["sni_hostname"] = self.target.server_name
        return request

    def _answered(self, request: httpx2.Request) -> Reply:
        response = self._sent(request)
        if self._warn is not None:
            for text in response.headers.get_list("warning"):
                self._warn(_warning(text))
        if response.is_success:
            return Reply(response.status_code, response.content)
        raise error_of(response.status_code, response.content, response.headers, writes=request.method != "GET")

    def _sent(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        token = self._credentials.token()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        try:
            return self._http.send(request, stream=stream)
        except httpx2.HTTPError as error:
            raise _unanswered(error, writes=request.method != "GET") from error


class _Open:
    """An answer that goes on. ``close`` may come from any thread.

    It only ends what comes over the wire: who closed the socket while another thread is about to read from it would
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
        """Until nobody reads it any more; who reads it does not wait for itself."""
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
            raise _unanswered(error, writes=False) from error
        finally:
            self._response.close()
            self._is_left.set()


S = TypeVar("S", bound=_Open)


class Bytes(_Open):
    """Parts of a log, until the server ends it."""

    def __iter__(self) -> Iterator[bytes]:
        """Raises Unavailable where the connection breaks."""
        with closing(self._chunks()) as chunks:
            yield from chunks


class WatchStream(_Open):
    """The events of a watch: pairs of type and object, until the server ends it."""

    def __iter__(self) -> Iterator[tuple[str, Object]]:
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


def _event(line: bytes) -> tuple[str, Object]:
    try:
        event = msgspec.json.decode(line)
        type_, tree = event["type"], event["object"]
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise Unavailable(f"the watch told something that is no event: {error!r}") from error
    if type_ == "ERROR":
        raise status_error(tree if isinstance(tree, dict) else {})
    return str(type_), tree


def _written(dry_run: bool) -> dict[str, str]:
    return {"fieldManager": FIELD_MANAGER, "dryRun": "All" if dry_run else ""}


def _warning(header: str) -> str:
    """The text of ``299 - "text"``."""
    _, _, text = header.partition('"')
    return text.rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\") or header


def _unanswered(error: httpx2.HTTPError, *, writes: bool) -> Retryable:
    """No answer came. What never left is Unavailable; of a write that left nobody knows."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return NotTrusted(f"the server's certificate is not trusted: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return NotTrusted(f"no secure connection: {cause.reason or cause}")
        cause = cause.__cause__ or cause.__context__
    text = str(error) or type(error).__name__
    never_left = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError)
    if never_left or not writes:
        return Unavailable(f"cannot be reached: {text}" if never_left else f"gave no answer: {text}")
    return TimedOut(f"gave no answer: {text}")


# --- who we are, and whom we trust -----------------------------------------------------------------------------------


class _Credentials:
    """The token of a target; one in a file is read anew, for it may have been replaced."""

    def __init__(self, target: ApiTarget) -> None:
        self._target = target
        self._token = target.token
        self._read_at = -TOKEN_SECONDS

    def token(self) -> str:
        now = time.monotonic()
        if self._target.token_file and now - self._read_at >= TOKEN_SECONDS:
            try:
                self._token = Path(self._target.token_file).read_text("utf-8").strip()
                self._read_at = now
            except (OSError, UnicodeDecodeError) as error:
                if not self._token:
                    raise Unavailable(f"the token file {self._target.token_file} cannot be read: {error}") from error
        return self._token


def _tls(target: ApiTarget) -> ssl.SSLContext:
    """Raises NotTrusted for certificates that are none."""
    try:
        context = ssl.create_default_context(cadata=target.authority.decode("ascii") if target.authority else None)
        if target.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if target.certificate:
            _load_pair(context, target.certificate, target.key)
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else error
        raise NotTrusted(f"the certificates of `{target.origin or target.server}` cannot be used: {reason}") from error
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The ssl module takes files only: one that only we can read, for as long as that takes."""
    handle, path = tempfile.mkstemp(prefix="makeway-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.rstrip(b"\n") + b"\n" + key)
        context.load_cert_chain(path, password="")  # nobody is asked for one
    finally:
        os.unlink(path)


def _wants_proxy() -> bool:
    return any(
        name.lower() in ("https_proxy", "http_proxy", "all_proxy") and value for name, value in os.environ.items()
    )


def _header_list(headers: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in headers.items() for value in values]
