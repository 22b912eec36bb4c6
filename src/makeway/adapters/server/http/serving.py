"""The HTTP loop: uvicorn with TLS, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
from threading import Thread
from typing import Any

import uvicorn
import uvloop

from makeway.adapters.server.access.certificates import Certificate
from makeway.adapters.server.http.accepting import Accepting
from makeway.adapters.server.http.app import App
from makeway.adapters.server.http.connections import bounded
from makeway.runtime.ports import Clock

log = logging.getLogger("makeway.server")
RENEWAL_SECONDS = 12 * 3600.0
STOP_SECONDS = 5.0
BACKLOG = 512


class Serving:
    """One server at one address. ``start`` returns once it listens, ``stop`` once no request is served any more.

    ``date``: the clock for the renewal of the certificate, if it is not the app's: clients check the certificate by
    their own.
    """

    def __init__(
        self, app: App, certificate: Certificate, *, host: str = "127.0.0.1", port: int = 0, date: Clock | None = None
    ) -> None:
        self._app = app
        self._date = date or app.clock
        self._certificate = certificate
        self._context = certificate.context()
        self._host, self._port = host, port
        self._server: uvicorn.Server | None = None
        self._thread: Thread | None = None

    def start(self) -> tuple[str, int]:
        """Return the address it listens on; port 0 picks a free one. Raises OSError if the address is not available."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family, backlog=BACKLOG)
        limits = self._app.limits
        config = uvicorn.Config(
            self._app, http=bounded(limits, self._app.connections), ws="none", lifespan="on", log_config=None,
            access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=int(STOP_SECONDS),
            ssl_context_factory=lambda _config, _default: self._context,
        )  # fmt: skip
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # bad requests are no news
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._run, args=(listener,), name="makeway-http", daemon=True)
        self._thread.start()
        address: tuple[str, int] = listener.getsockname()[:2]
        self._app.listening.result()
        return address

    async def _serve(self, server: uvicorn.Server, listener: socket.socket) -> None:
        renewal = asyncio.create_task(self._renew())
        await server.serve(sockets=[listener])
        renewal.cancel()

    async def _renew(self) -> None:
        """Renew the certificate in time: a server may run for years."""
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            try:
                self._certificate.renew(self._context, self._date())
            except OSError as error:  # a full disk: there is time to try again
                log.warning("the certificate could not be looked after: %s", error.strerror)

    def _run(self, listener: socket.socket) -> None:
        assert self._server is not None
        try:
            with asyncio.Runner(loop_factory=lambda: _Loop(self._app)) as runner:
                runner.run(self._serve(self._server, listener))
        except BaseException as error:
            if not self._app.listening.done():
                self._app.listening.set_exception(error)
            raise
        finally:
            listener.close()

    def stop(self) -> None:
        """End watches at once, and other requests within a few seconds."""
        if self._server is not None and self._thread is not None:
            self._app.stop()
            self._server.should_exit = True
            self._thread.join()
            self._thread = None


class _Loop(uvloop.Loop):
    """The loop that uvicorn uses: its server counts the connections that it accepts."""

    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app

    async def create_server(self, *args: Any, **options: Any) -> Any:
        (protocol,), app = args, self._app
        return Accepting(self, options["sock"], protocol, options["ssl"], app.limits, app.connections)
