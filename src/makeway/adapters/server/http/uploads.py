"""Limits the bytes of bodies that a server holds at a time, from any client, however slowly they come.

A small body costs no more than its connection. For a large one its announced size is reserved before the first byte is
read, and kept until the answer. So a crowd of slow senders gets 429 instead of memory.
"""

from __future__ import annotations

from collections import Counter

from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.statuses import RequestRefused

SMALL_BYTES = 64 * 1024
RETRY_SECONDS = 1


class BodyBytes:
    def __init__(self, limits: Limits) -> None:
        self._most = limits.bodies_bytes
        self._held: Counter[str] = Counter()  # by token

    @property
    def held(self) -> int:
        return self._held.total()

    def take(self, token: str, size: int) -> tuple[str, int] | None:
        """Reserve room for a body; return what to give back. Raises ``RequestRefused`` (429) with the limit reached."""
        if size < SMALL_BYTES:
            return None
        mine = self._held[token]
        if mine and mine + size > self._most // 2:
            words = f"too many large bodies are on their way: of one token at most {self._most // 2} bytes are taken"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS, closes=True)
        if self.held and self.held + size > self._most:
            words = f"too many large bodies are on their way: at most {self._most} bytes are taken of all together"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS, closes=True)
        self._held[token] += size
        return token, size

    def give_back(self, token: str, size: int) -> None:
        self._held[token] -= size
        if not self._held[token]:
            del self._held[token]
