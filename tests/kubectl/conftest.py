"""A makeway for every worker of the tests, and the available kubectls: 1.37, and the one on PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kubectl.transcripts import on_path, version_of
from tools import kubectl

READY_SECONDS = 60
STOP_SECONDS = 30


def kubectls() -> dict[str, Path]:
    """The kubectls by version; of two with one version the one that the tests fetched."""
    found = [path for path in (on_path(), kubectl.cached()) if path is not None and path.is_file()]
    return {version: path for path in found if (version := version_of(path))}


@dataclass(frozen=True)
class Makeway:
    """A running server, as a process."""

    folder: Path
    admin: str  # kubeconfigs
    viewer: str


def makeway(*words: str, folder: Path) -> str:
    command = [sys.executable, "-m", "makeway", *words, "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Makeway]:
    command = [sys.executable, "-m", "makeway", "up", "--data", str(folder), "--port", "0", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("makeway serves https://")
            admin = makeway("kubeconfig", folder=folder)
            token = makeway("token", "create", "--role", "viewer", folder=folder).split()[-1]
            yield Makeway(folder, admin, _with_token(admin, token))
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _with_token(kubeconfig: str, token: str) -> str:
    lines = [f"    token: {token}" if line.strip().startswith("token:") else line for line in kubeconfig.splitlines()]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Makeway]:
    with running(tmp_path_factory.mktemp("makeway"), "--no-node") as server:
        yield server


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kubectl's cache of a server: one for all tests."""
    return tmp_path_factory.mktemp("home")
