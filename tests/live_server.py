"""A whole server in this process, for tests that need decisions: what ``makeway up`` runs, on a free port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings


@contextmanager
def live_server(folder: Path) -> Iterator[ControlPlane]:
    """Run a server; the commands find it by its data folder."""
    plane = ControlPlane(folder, ControlPlaneSettings())
    plane.start()
    with plane:
        yield plane
    assert plane.failure is None
