"""Requests to one API server over HTTPS, and their answers.

Failures are errors of ``runtime.ports``: the Status of the server decides. Without an answer it is Unavailable if the
request cannot have been applied, and TimedOut if that is unknown. Only a request that cannot have been applied is sent
again, a bounded number of times.

Promises: no call waits longer than its timeouts; no redirect is followed, so a token goes to its server alone; no
secret is part of a message.

Not here: what the requests are about (``client``), open-ended answers (``streams``).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
import msgspec

from makeway import __version__
from makeway.adapters.kubernetes.credentials import Credentials, tls_context, wants_proxy
from makeway.adapters.kubernetes.errors import NotTrusted, error_of, no_answer
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.api.reading.documents import Tree
from makeway.runtime.ports import Retryable, TooManyRequests, Unavailable

Object = dict[str, Tree]

PLAIN = "application/json"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
TRIES_MAX = 4
PAUSE_SECONDS = 0.1  # doubles with each try
PAUSE_SECONDS_MAX = 5.0
CONNECTIONS_MAX = 256
LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
_KEEP_ALIVE = [  # a dead peer is noticed within a minute
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value)
      for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: the code tells whether an object was created, the body is JSON."""

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


class Transport:
    """``tries``: how often a request is sent that cannot have been applied. ``warn`` is called with warnings of the
    server.
    """

    def __init__(
        self, target: ApiTarget, *, tries: int = TRIES_MAX, seconds: float = ANSWER_SECONDS,
        warn: Callable[[str], None] | None = None, pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._target = target
        self._tries = tries
        self._warn = warn
        self._pause = pause
        self._credentials = Credentials(target)
        host = urlsplit(target.server).hostname or ""
        timeout = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        pool = httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=16)
        headers = [("User-Agent", f"makeway/{__version__}")]
        headers += [(name, value) for name, values in target.headers.items() for value in values]
        transport = None
        if not target.proxy and (host in LOCAL_HOSTS or not wants_proxy()):
            transport = httpx2.HTTPTransport(verify=tls_context(target), limits=pool, socket_options=_KEEP_ALIVE)
        self._http = httpx2.Client(
            base_url=target.server, verify=True if transport else tls_context(target), timeout=timeout, limits=pool,
            transport=transport, proxy=target.proxy or None, trust_env=transport is None and not target.proxy,
            headers=headers,
        )  # fmt: skip

    def close(self) -> None:
        self._http.close()

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Tree = None,
        accept: str = PLAIN, content_type: str = PLAIN,
    ) -> httpx2.Request:  # fmt: skip
        """Return a request that may be sent several times. Empty values of the query are left out."""
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        request = self._http.build_request(
            method, path, params={name: value for name, value in (query or {}).items() if value}, headers=headers,
            content=None if body is None else msgspec.json.encode(body),
        )  # fmt: skip
        if self._target.server_name:
            request.extensions["sni_hostname"] = self._target.server_name
        return request

    def send(self, request: httpx2.Request) -> Reply:
        """Send the request, and again while that is known to be harmless."""
        for attempt in range(1, self._tries + 1):
            try:
                return self._answered(request)
            except Retryable as error:
                is_harmless = request.method == "GET" or isinstance(error, TooManyRequests | Unavailable)
                if attempt == self._tries or not is_harmless or isinstance(error, NotTrusted):
                    raise
                asked = (error.retry_after or 0) / 1000
                self._pause(min(PAUSE_SECONDS_MAX, max(asked, PAUSE_SECONDS * 2**attempt)))
        raise AssertionError("unreachable")

    def stream(self, request: httpx2.Request, seconds: float | None) -> httpx2.Response:
        """Open an open-ended answer. Once it has begun it may be silent for ``seconds``, or for ever."""
        response = self._sent(request, stream=True)
        if response.is_success:
            request.extensions["timeout"]["read"] = seconds
            return response
        try:
            response.read()
        except httpx2.HTTPError as error:
            raise no_answer(error, writes=False) from error
        finally:
            response.close()
        raise error_of(response.status_code, response.content, response.headers, writes=False)

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
            raise no_answer(error, writes=request.method != "GET") from error


def _warning(header: str) -> str:
    """Return the text of ``299 - "text"``."""
    _, _, text = header.partition('"')
    return text.rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\") or header
