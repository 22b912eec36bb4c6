"""How a part of the server says that it cannot handle an object, which is then set aside (0081)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from makeway.controllers.contract import Ref

log = logging.getLogger("makeway.server")

GaveUp = Callable[[Ref, str, Exception], None]  # which object, which part of the server, and why


def log_trouble(about: Ref, part: str, error: Exception) -> None:
    """Where nobody else listens."""
    log.error("%s %s: %s", about.kind, about.key, part, exc_info=error)
