"""A machine of its own for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.machine import Machine


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A server of its own, on the nodes that the test module names."""
    folder = tmp_path / "data"
    folder.mkdir()
    found = Machine(folder, *getattr(request.module, "NODES", ()))
    try:
        yield found
        found.close()
    finally:
        found.abandon()
