"""What compares two revisions sees a difference of one byte, and none where there is none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from makeway.testing.worlds import documents
from tools import same


def sums(world: Path, *more: str) -> dict[str, str]:
    simulated = ["simulate", "-f", str(world), "--faults", "all", "--journal", same.JOURNAL, "-o", "json", *more]
    return same.run_here([("a simulation", simulated), ("a plan", ["plan", "-f", str(world)])])


def test_equal_inputs_give_equal_sums_and_others_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    world, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    same.write_documents(world, documents(3))
    same.write_documents(other, documents(4))
    once = sums(world)
    assert sums(world) == once
    assert sums(world, "--seed", "1")["a simulation"] != once["a simulation"]
    assert sums(other)["a plan"] != once["a plan"]
    assert list(tmp_path.iterdir()) in ([world, other], [other, world])


def test_a_broken_document_differs_in_one_place() -> None:
    world = documents(3)
    broken = same.broken(random.Random(1), world)
    assert len(broken) == 4
    assert all(each not in world for each in broken)
