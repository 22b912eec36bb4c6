"""A client that sends raw bytes: for requests that a good library would not make."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.adapters.server.serving import Server

SECONDS = 20


@contextmanager
def connected(server: Server, seconds: float = SECONDS) -> Iterator[ssl.SSLSocket]:
    where = urlsplit(server.url)
    plain = socket.create_connection((where.hostname or "", where.port or 0), seconds)
    with plain, server.trust.wrap_socket(plain, server_hostname=where.hostname) as secure:
        yield secure


def request(
    server: Server, method: str, path: str, body: bytes = b"", *, token: str | None = None, **headers: str
) -> bytes:
    """The bytes of a request; ``_`` in the name of a header stands for ``-``."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    token = server.token if token is None else token
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        given = {"authorization": f"Bearer {token}", **given}
    if body and "content-length" not in given and "transfer-encoding" not in given:
        given["content-length"] = str(len(body))
    lines += [f"{name}: {value}" for name, value in given.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def status(connection: ssl.SSLSocket) -> int:
    """The code of the next answer; 0: the connection ended without one."""
    head = b""
    with suppress(OSError):
        while b"\r\n" not in head:
            data = connection.recv(65536)
            if not data:
                break
            head += data
    return int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/1.1 ") else 0


def answered(server: Server, data: bytes, seconds: float = SECONDS) -> int:
    with connected(server, seconds) as connection:
        with suppress(OSError):  # the server may have closed the connection
            connection.sendall(data)
        return status(connection)
