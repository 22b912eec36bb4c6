"""Who only runs makeway gets no test packages; who tests it has them added, once, to what is there.

The real script runs beside a copy of the real Makefile; only the package installer is one that writes down what it is
asked for, and installs nothing: a real one needs an index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALLER = """#!/bin/sh
echo "$*" >> "$ASKED"
case $1 in venv) mkdir -p .venv/bin && cp "$(dirname "$0")/of-venv" .venv/bin/python ;; esac
"""
PYTHON_OF_VENV = """#!/bin/sh
test "$1" = -c
"""  # as one that uv made: it runs, and has no pip


class Checkout:
    """What set-up needs of one, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        (self.folder / "tools").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock", "tools/setup.sh"):
            shutil.copy(ROOT / name, self.folder / name)
        self._asked = folder / "asked"
        programs = folder / "bin"
        programs.mkdir()
        for name, text in (("uv", INSTALLER), ("of-venv", PYTHON_OF_VENV)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "ASKED": str(self._asked)}

    def make(self, target: str) -> list[str]:
        """What was installed for a target."""
        self._asked.write_text("")
        command = ["make", "--no-print-directory", f"PYTHON={sys.executable}", target]
        done = subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lines = self._asked.read_text().splitlines()
        assert all("--require-hashes" in line for line in lines if " -r " in line)
        return [line.split()[-1] for line in lines if " -r " in line]

    def touch(self, name: str) -> None:
        path = self.folder / name
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 10**12))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    return Checkout(tmp_path)


def test_to_run_installs_the_runtime_lock_alone_and_to_test_adds_the_other(checkout: Checkout) -> None:
    assert checkout.make(".venv/.runs") == ["requirements.lock"]
    assert checkout.make(".venv/.runs") == []
    assert checkout.make(".venv/.project") == ["requirements-dev.lock"]
    assert checkout.make(".venv/.project") == []
    assert checkout.make(".venv/.runs") == []


def test_another_lock_makes_all_anew_and_another_date_nothing(checkout: Checkout) -> None:
    assert checkout.make(".venv/.project") == ["requirements.lock", "requirements-dev.lock"]
    for name in ("requirements.lock", "requirements-dev.lock"):
        checkout.touch(name)
    assert checkout.make(".venv/.project") == []
    with (checkout.folder / "requirements.lock").open("a") as lock:
        lock.write("# another\n")
    checkout.touch("requirements.lock")
    assert checkout.make(".venv/.project") == ["requirements.lock", "requirements-dev.lock"]
