"""Pods that are real processes; none may outlive its test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.node.launching import Launcher
from tests.adapters.node.nodes import TestNode
from tests.adapters.node.pods import Pods


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """One zygote for all tests."""
    found = Launcher()
    yield found
    found.close()


@pytest.fixture
def pods(tmp_path: Path, launcher: Launcher) -> Iterator[Pods]:
    folder = tmp_path / "pods"
    folder.mkdir()
    found = Pods(folder, launcher)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def node(tmp_path: Path, launcher: Launcher) -> Iterator[TestNode]:
    found = TestNode(tmp_path / "pods", launcher)
    try:
        yield found
    finally:
        found.close()
