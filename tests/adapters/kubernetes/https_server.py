"""A small real HTTPS server for tests of the client: a certificate authority, and answers that a test writes."""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=365 * 80)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority for tests."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        builder = _builder(self._name, self._name, self._key)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        signed = builder.add_extension(constraints, critical=True).sign(self._key, SHA256())
        self.certificate = signed.public_bytes(Encoding.PEM)

    def signs(self, name: str, host: str = "127.0.0.1") -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            place: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            place = x509.DNSName(host)
        builder = _builder(_name(name), self._name, key)
        signed = builder.add_extension(x509.SubjectAlternativeName([place]), critical=False).sign(self._key, SHA256())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Pair(signed.public_bytes(Encoding.PEM), text)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer, subject_name=subject, public_key=key.public_key(),
        serial_number=x509.random_serial_number(), not_valid_before=SINCE, not_valid_after=UNTIL,
    )  # fmt: skip


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    peer: str  # the name in the client's certificate


@dataclass
class Server:
    """A server that answers with ``answer``, and keeps its requests."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answer: Callable[[Asked, Handler], None] = lambda asked, handler: handler.json(200, {})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    told: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def json(self, code: int, tree: Any, headers: dict[str, str] | None = None) -> None:
        self.raw(code, json.dumps(tree).encode() + b"\n", headers)

    def raw(self, code: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def event(self, type_: str, tree: Any) -> None:
        self.chunk(json.dumps({"type": type_, "object": tree}).encode() + b"\n")

    def end_stream(self) -> None:
        self.chunk(b"")

    def hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()

    def _do(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        assert isinstance(self.connection, ssl.SSLSocket)
        subject: Any = (self.connection.getpeercert() or {}).get("subject", ())
        asked = Asked(
            self.command, parts.path, dict(parse_qsl(parts.query)), {k.lower(): v for k, v in self.headers.items()},
            json.loads(body) if body else None, subject[0][0][1] if subject else "",
        )  # fmt: skip
        self.told.asked.append(asked)
        self.told.answer(asked, self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do


def says(code: int, reason: str, message: str = "no", **details: Any) -> Callable[[Asked, Handler], None]:
    """An answer that is a Status."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return lambda asked, handler: handler.json(code, {**status, "code": code, "details": details})


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that leave early are part of the tests


@contextmanager
def serving(authority: Authority, folder: Path, *, host: str = "127.0.0.1", clients: bool = False) -> Iterator[Server]:
    """A server on a free port of the loopback; ``clients``: they need a certificate of the authority too."""
    pair = authority.signs("server", host)
    file = folder / "server.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.certificate.decode())
    told = Server()
    http = _Quiet(("127.0.0.1", 0), type("Told", (Handler,), {"told": told}))
    http.socket = context.wrap_socket(http.socket, server_side=True)
    told.url = f"https://127.0.0.1:{http.server_port}"
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
