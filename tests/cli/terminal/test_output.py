"""Tables: plain columns for a pipe, fitted to a terminal of any width, and complete in both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import pytest
import yaml

from makeway.cli.terminal import output
from makeway.cli.terminal.output import Table, cell_text, print_streamed, yaml_text

COLUMNS = ["Namespace", "Name", "Pending workloads", "Message"]
ROWS: list[Sequence[object]] = [
    ["team-a", "main", 3, "couldn't assign flavors to pod set main: insufficient unused quota for cpu"],
    ["a-namespace-with-a-long-name", "q", None, "short"],
]


def test_a_pipe_gets_one_line_a_row_and_nothing_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    Table(["Name", "Cohort"]).print([["team-a", "lab"], ["b", None]])
    assert capsys.readouterr().out == "NAME     COHORT\nteam-a   lab\nb        -\n"


def test_rows_may_come_later(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(["Name", "Value"])
    table.print([["a", 1]])
    table.print([["longer", 2], ["b", 3]])
    assert capsys.readouterr().out == "NAME   VALUE\na      1\nlonger   2\nb        3\n"


def letters(*texts: str) -> Counter[str]:
    return Counter(letter for text in texts for letter in text if not letter.isspace())


@pytest.mark.parametrize("width", [20, 34, 60, 100, 200])
def test_a_terminal_gets_all_of_it_within_its_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folded or not, every letter is there, and the header once, or once a row if cells have lines."""
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", str(width))
    Table(COLUMNS, indent=2).print(ROWS)
    printed = capsys.readouterr().out
    header = [name.upper() for name in COLUMNS]
    times = 1 if width >= 60 else len(ROWS)
    assert letters(printed) == letters(*header * times, *(cell_text(cell) for row in ROWS for cell in row))
    if times == 1:
        assert all(len(line.rstrip()) <= width for line in printed.splitlines())


def test_a_very_narrow_terminal_gets_a_line_for_each_cell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "20")
    Table(["Namespace", "Clusterqueue"]).print([["a", "b"]])
    assert capsys.readouterr().out == "NAMESPACE a\nCLUSTERQUEUE b\n\n"


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "-"), ("", "-"), (0, "0"), (True, "true"), (["a", "b"], "a,b"), ("a\x1b[31m\nb", "a\\x1b[31m\\nb")],
)  # fmt: skip
def test_cells_are_plain_text(cell: object, text: str) -> None:
    assert cell_text(cell) == text


def test_a_stream_of_data_has_one_object_a_line_or_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "yaml"):
        for name in ("a", "b"):
            print_streamed({"name": name, "text": "one\ntwo"}, form)
        printed = capsys.readouterr().out
        found = list(map(json.loads, printed.splitlines())) if form == "json" else list(yaml.safe_load_all(printed))
        assert [each["name"] for each in found] == ["a", "b"]


def test_yaml_repeats_what_two_places_share() -> None:
    shared = {"a": [1]}
    assert "*" not in yaml_text([{"x": shared, "y": shared}])
