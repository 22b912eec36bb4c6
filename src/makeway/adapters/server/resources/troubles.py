"""How the server reports an object that it cannot handle, which is then set aside (0081)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from makeway.controllers.contract import Ref

log = logging.getLogger("makeway.server")

GaveUp = Callable[[Ref, str, Exception], None]  # the object, the part of the server, and the error


def log_trouble(about: Ref, part: str, error: Exception) -> None:
    """The default: log it."""
    log.error("%s %s: %s", about.kind, about.key, part, exc_info=error)
