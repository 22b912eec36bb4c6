"""What a client may use. One value, given to the server when it starts."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace

FILES_MAX = 65_536  # more are never needed
FILES_KEPT = 192  # descriptors that connections never get: for the data file, pods, logs, and Python itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    body_bytes: int = 3 * 1024 * 1024  # as a Kubernetes API server
    bodies_bytes: int = 96 * 1024 * 1024  # large bodies that arrive or are being handled; one token may use half of it
    header_bytes: int = 64 * 1024  # of the request line and all headers together
    connections: int = 2048  # fewer if there are fewer descriptors, see ``within``
    connections_per_token: int = 512
    unknown_connections: int = 256  # without a token so far; part of ``connections``
    admin_connections: int = 64  # for administrators alone; part of ``connections``
    streams: int = 1200  # watches and followed logs
    streams_per_token: int = 250
    buffered_bytes: int = 64 * 1024 * 1024  # for all clients together that do not read
    list_limit_max: int = 100_000  # objects in one page
    selector_terms_max: int = 100  # keys and values
    handshake_seconds: float = 10  # for the TLS handshake
    header_seconds: float = 10  # for the head of a request, from its first byte on
    body_seconds: float = 30  # for a whole body
    idle_seconds: float = 120  # between two requests
    unknown_seconds: float = 10  # the same for unknown connections
    write_seconds: float = 30  # to read the next 48 KiB of an answer
    answer_seconds: float = 600  # to read a whole answer that has an end
    watch_seconds: int = 3600  # the longest watch; clients resume
    bookmark_seconds: float = 30  # between bookmarks on a quiet watch
    gather_seconds: float = 0.01  # changes within this time reach a watch together
    gzip_bytes: int = 128 * 1024  # larger answers are compressed for clients that accept it

    def within(self, files: int) -> Limits:
        """Return the limits for a process with this many descriptors.

        The shares stay in proportion: even of few connections some are left for unknown clients and for administrators.
        """
        all_ = max(8, min(self.connections, files - FILES_KEPT))
        return replace(
            self, connections=all_, unknown_connections=max(2, min(self.unknown_connections, all_ // 2)),
            admin_connections=max(1, min(self.admin_connections, all_ // 8)),
        )  # fmt: skip

    def shares(self) -> str:
        """Return the limits of connections in words."""
        return (
            f"at most {self.connections} connections: {self.unknown_connections} before a token is shown, "
            f"{self.admin_connections} kept for administrators, {self.connections_per_token} of one token"
        )


def files_allowed() -> int:
    """Return the number of descriptors that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FILES_MAX if soft == resource.RLIM_INFINITY else min(soft, FILES_MAX)


def raise_files() -> tuple[int, int]:
    """Raise the number of descriptors as far as allowed; return the former limits, soft and hard."""
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return before
