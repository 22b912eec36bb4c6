"""How we prove our identity to an API server, and which certificates we trust.

Not here: where they come from (``kubeconfig``).
"""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from pathlib import Path

from makeway.adapters.kubernetes.errors import NotTrusted
from makeway.adapters.kubernetes.kubeconfig import ApiTarget
from makeway.runtime.ports import Unavailable

TOKEN_SECONDS = 60.0  # a token file is read again after this time


class Credentials:
    """The token of a target. A token in a file is read again from time to time, because it may have been replaced."""

    def __init__(self, target: ApiTarget) -> None:
        self._target = target
        self._token = target.token
        self._read_at = -TOKEN_SECONDS

    def token(self) -> str:
        now = time.monotonic()
        if self._target.token_file and now - self._read_at >= TOKEN_SECONDS:
            try:
                self._token = Path(self._target.token_file).read_text("utf-8").strip()
                self._read_at = now
            except (OSError, UnicodeDecodeError) as error:
                if not self._token:
                    raise Unavailable(f"the token file {self._target.token_file} cannot be read: {error}") from error
        return self._token


def tls_context(target: ApiTarget) -> ssl.SSLContext:
    """Return the TLS settings of a target. Raises NotTrusted for certificates that cannot be read."""
    try:
        context = ssl.create_default_context(cadata=target.authority.decode("ascii") if target.authority else None)
        if target.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if target.certificate:
            _load_pair(context, target.certificate, target.key)
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else error
        raise NotTrusted(f"the certificates of `{target.origin or target.server}` cannot be used: {reason}") from error
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key. The ssl module takes files only, so a private one exists for that moment."""
    handle, path = tempfile.mkstemp(prefix="makeway-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.rstrip(b"\n") + b"\n" + key)
        context.load_cert_chain(path, password="")  # no prompt for a password
    finally:
        os.unlink(path)


def wants_proxy() -> bool:
    return any(
        name.lower() in ("https_proxy", "http_proxy", "all_proxy") and value for name, value in os.environ.items()
    )
