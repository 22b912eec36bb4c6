"""How many bytes of bodies a server holds at a time, from any client, however slowly they come.

A small body costs no more than the connection it comes on. For a large one room is taken before its first byte is read,
as much as it says it will be, and kept until it has been answered: so a crowd of slow senders gets 429, not memory.
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

    def take(self, who: str, size: int) -> tuple[str, int] | None:
        """Room for a body; what is to be given back. Raises ``RequestRefused`` (429), which says which limit it was."""
        if size < SMALL_BYTES:
            return None
        mine = self._held[who]
        if mine and mine + size > self._most // 2:
            words = f"too many large bodies are on their way: of one token at most {self._most // 2} bytes are taken"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS, closes=True)
        if self.held and self.held + size > self._most:
            words = f"too many large bodies are on their way: at most {self._most} bytes are taken of all together"
            raise RequestRefused(429, words, retry_seconds=RETRY_SECONDS, closes=True)
        self._held[who] += size
        return who, size

    def give_back(self, who: str, size: int) -> None:
        self._held[who] -= size
        if not self._held[who]:
            del self._held[who]
