"""Each listed mutant is put into a copy of the package, and the core's fast tests are run on it.

``make test`` tries twelve, MAKEWAY_MUTANTS=all tries every one. The survivors are printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.listed import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
SAMPLE = 12
JUDGES = (
    "quota/test_tree", "preemption/test_eligibility", "preemption/test_candidates", "preemption/test_classical",
    "cycle/test_cycle", "cycle/test_cycle_time", "test_queue_policies",
)  # fmt: skip
TOO_SLOW = "however_many"  # tests with tens of thousands of holders


def name_of(mutant: Mutant) -> str:
    return f"{mutant.file}: {mutant.breaks}"


def chosen() -> list[Mutant]:
    """Mutants evenly spread over the list, so that every file has its share."""
    if os.environ.get("MAKEWAY_MUTANTS") == "all":
        return list(MUTANTS)
    return [MUTANTS[i * len(MUTANTS) // SAMPLE] for i in range(SAMPLE)]


def survives(source: Path) -> bool:
    """Whether the fast tests see nothing wrong with the package in ``source``."""
    tests = [str(ROOT / f"tests/core/{name}.py") for name in JUDGES]
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov",
        "-o", f"pythonpath={source} {ROOT}", "--rootdir", str(ROOT), "-m", "not slow and not property", "-k",
        f"not {TOO_SLOW}", *tests,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return ran.returncode == 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=name_of)
def test_every_mutant_is_about_code_that_is_there(mutant: Mutant) -> None:
    text = (ROOT / "src/makeway/core" / mutant.file).read_text("utf-8")
    assert text.count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_there_are_at_least_forty_and_no_two_are_alike() -> None:
    assert len(set(MUTANTS)) == len(MUTANTS) >= 40


@pytest.mark.slow
def test_nine_of_ten_mutants_are_caught(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    assert survives(source), "the package itself passes"
    survivors = []
    for mutant in chosen():
        file = source / "makeway/core" / mutant.file
        right = file.read_text("utf-8")
        file.write_text(right.replace(mutant.old, mutant.new), "utf-8")
        if survives(source):
            survivors.append(name_of(mutant))
        file.write_text(right, "utf-8")
    print(f"{len(chosen()) - len(survivors)} of {len(chosen())} mutants caught; survivors: {survivors}")
    assert len(survivors) * 10 <= len(chosen()), survivors
