"""The files of ``makeway simulate``: a page, a journal, and none after an error."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from makeway.adapters.simulator.simulation import Simulation
from makeway.cli.main import main
from makeway.cli.offline import simulate as command

QUICKSTART = str(Path(__file__).parents[3] / "examples" / "quickstart")
CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


def test_the_page_and_the_journal_are_written() -> None:
    Path("page.html").write_text("old")
    assert run("-f", QUICKSTART, "--report", "page.html", "--journal", "journal.jsonl").exit_code == 0
    assert Path("page.html").read_text().startswith("<!doctype html>")
    first = json.loads(Path("journal.jsonl").read_text().splitlines()[0])
    assert (first["number"], first["what"]) == (1, "admitted")
    assert sorted(os.listdir()) == ["journal.jsonl", "page.html"]


def test_wrong_input_leaves_an_older_file_as_it_was(tmp_path: Path) -> None:
    Path("page.html").write_text("old")
    assert run("-f", "gone.yaml", "--report", "page.html").exit_code == 1
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("page.html", "old")]


def test_if_makeway_fails_the_journal_so_far_is_kept_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Simulation, until: object = None) -> None:
        self.journal.write(self.clock.now, "admitted")
        raise AssertionError("the books are wrong")

    monkeypatch.setattr(Simulation, "run", fail)
    result = run("-f", QUICKSTART, "--journal", "journal.jsonl")
    assert (result.exit_code, os.listdir()) == (70, ["journal.jsonl.part"])
    assert json.loads(Path("journal.jsonl.part").read_text())["what"] == "admitted"


@pytest.mark.parametrize("limit", ["maxSize: 300", "maxAge: 1s"])
def test_a_configuration_says_how_much_of_the_journal_is_kept_and_the_file_has_all(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Simulation] = []

    class Known(Simulation):
        def run(self, *args: Any) -> None:
            made.append(self)
            super().run(*args)

    monkeypatch.setattr(command, "Simulation", Known)
    Path("short.yaml").write_text(CONFIGURATION + f"makeway: {{journal: {{{limit}}}}}\n")
    for arguments in ((), ("--config", "short.yaml")):
        assert run("-f", QUICKSTART, "--journal", "journal.jsonl", *arguments).exit_code == 0
    whole, short = (list(each.journal.lines()) for each in made)
    assert b"".join(whole) == Path("journal.jsonl").read_bytes()
    assert 0 < len(short) < len(whole)
    assert short == whole[-len(short) :]
