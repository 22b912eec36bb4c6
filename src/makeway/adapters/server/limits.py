"""How much a client may ask for. One value, given to the server when it starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    body_bytes: int = 3 * 1024 * 1024  # as a Kubernetes API server
    header_bytes: int = 64 * 1024  # of the request line and all headers together
    connections: int = 1024
    watches: int = 500
    watches_per_token: int = 250
    list_limit_max: int = 100_000  # objects in one page
    selector_terms_max: int = 100  # keys and values
    handshake_seconds: float = 10  # to agree on TLS
    header_seconds: float = 10  # to send the head of a request, once its first byte came
    body_seconds: float = 30  # to send all of a body
    idle_seconds: float = 120  # between two requests
    write_seconds: float = 30  # to take one piece of an answer
    watch_seconds: int = 3600  # the longest watch; clients begin anew
    bookmark_seconds: float = 30  # how often a quiet watch is told where it is
    gather_seconds: float = 0.01  # changes that come within it reach a watch together
    gzip_bytes: int = 128 * 1024  # larger answers are compressed for those who can read it
