"""A server in a process of its own that can be killed again and again; it starts fast, because all is imported
before.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import httpx2

from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings

LONG_S = 60.0
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


def serve(folder: str, told: Connection) -> None:
    """Serve as ``makeway up`` does, but without the node agent."""
    plane = ControlPlane(Path(folder), ControlPlaneSettings(on_nodes=True))
    url = plane.start()
    told.send((url, plane.token, str(plane._certificate.ca)))
    plane.ended.wait()
    told.send(repr(plane.failure))
    os._exit(70)


class ForkedServer:
    """``restart`` kills it with SIGKILL; it raises an error if the server has ended by itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.starts = 0
        self._start()

    def _start(self) -> None:
        mine, its = _FORKS.Pipe()
        self._told = mine
        self._process = _FORKS.Process(target=serve, args=(str(self._folder), its), daemon=True)
        self._process.start()
        its.close()
        assert mine.poll(LONG_S), "the server did not begin"
        url, token, ca = mine.recv()
        headers = {"authorization": f"Bearer {token}"}
        trust = ssl.create_default_context(cafile=ca)
        self.client = httpx2.Client(base_url=url, verify=trust, headers=headers, timeout=LONG_S)
        self.starts += 1

    def stop(self) -> None:
        self.client.close()
        self._process.kill()
        self._process.join()
        self._told.close()

    def restart(self) -> None:
        self.check_alive()
        self.stop()
        self._start()
        self.check_alive()

    def check_alive(self) -> None:
        """Check that it serves and decides: the engine has read everything, and nothing has ended it."""
        assert not self._told.poll(), f"the server ended by itself: {self._told.recv()}"
        answer = self.client.get("/readyz")
        assert answer.status_code == 200, answer.text
        aside = [
            line for line in self.client.get("/metrics").text.splitlines() if line.startswith("makeway_objects_set")
        ]
        assert not [line for line in aside if not line.endswith(" 0")], aside


@contextmanager
def forked_server(folder: Path) -> Iterator[ForkedServer]:
    server = ForkedServer(folder)
    try:
        yield server
    finally:
        server.stop()
