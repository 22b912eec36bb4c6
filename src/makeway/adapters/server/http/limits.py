"""How much a client may ask for. One value, given to the server when it starts."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace

FILES_MAX = 65_536  # more than that are never wanted
FILES_KEPT = 192  # descriptors that no connection gets: for the data file, pods, logs, what Python opens


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    body_bytes: int = 3 * 1024 * 1024  # as a Kubernetes API server
    bodies_bytes: int = 96 * 1024 * 1024  # of large bodies that are on their way or worked on; of one token half of it
    header_bytes: int = 64 * 1024  # of the request line and all headers together
    connections: int = 2048  # fewer where there are fewer descriptors, see ``within``
    connections_per_token: int = 512
    unknown_connections: int = 256  # of all, those that have not shown a token yet
    admin_connections: int = 64  # of all, those that only administrators get
    streams: int = 1200  # watches and follows of logs
    streams_per_token: int = 250
    buffered_bytes: int = 64 * 1024 * 1024  # that wait for clients that do not read, all of them together
    list_limit_max: int = 100_000  # objects in one page
    selector_terms_max: int = 100  # keys and values
    handshake_seconds: float = 10  # to agree on TLS
    header_seconds: float = 10  # to send the head of a request, once its first byte came
    body_seconds: float = 30  # to send all of a body
    idle_seconds: float = 120  # between two requests
    unknown_seconds: float = 10  # the same, of a connection that has not shown a token
    write_seconds: float = 30  # to take the next 48 KiB of an answer
    answer_seconds: float = 600  # to take all of an answer that has an end
    watch_seconds: int = 3600  # the longest watch; clients begin anew
    bookmark_seconds: float = 30  # how often a quiet watch is told where it is
    gather_seconds: float = 0.01  # changes that come within it reach a watch together
    gzip_bytes: int = 128 * 1024  # larger answers are compressed for clients that can read it

    def within(self, files: int) -> Limits:
        """The same on a machine that lets this process have so many descriptors.

        Shares stay shares: of few connections, too, some are left for strangers and some for administrators.
        """
        all_ = max(8, min(self.connections, files - FILES_KEPT))
        return replace(
            self, connections=all_, unknown_connections=max(2, min(self.unknown_connections, all_ // 2)),
            admin_connections=max(1, min(self.admin_connections, all_ // 8)),
        )  # fmt: skip

    def shares(self) -> str:
        """How many connections may be had, in words."""
        return (
            f"at most {self.connections} connections: {self.unknown_connections} before a token is shown, "
            f"{self.admin_connections} kept for administrators, {self.connections_per_token} of one token"
        )


def files_allowed() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FILES_MAX if soft == resource.RLIM_INFINITY else min(soft, FILES_MAX)


def raise_files() -> tuple[int, int]:
    """Allow this process as many descriptors as it may allow itself; what was allowed before, soft and hard."""
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return before
