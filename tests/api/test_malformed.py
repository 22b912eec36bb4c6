"""Malformed manifests, and the exact messages to their authors.

The cases are in ``malformed/*.txt``: a sentence after ``===``, the file, ``=>``, and the lines of the answer. An
answer begins with the line of the file it is about; errors are not marked as such, warnings are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from makeway.api.reading.manifests import findings, load

FOLDER = Path(__file__).parent / "malformed"
LONGEST_CASE = 16


@dataclass(frozen=True)
class Case:
    sentence: str
    text: str
    told: str


def cases(path: Path) -> list[Case]:
    _, *parts = re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)
    return [Case(*re.fullmatch(r"(.*)\n((?s:.*?)\n)=>\n((?s:.*?))\n*", part).groups()) for part in parts]  # type: ignore[union-attr]  # or the case is not one


def told(data: bytes) -> str:
    lines = []
    for each in findings(load("f.yaml", data)):
        mark = "" if each.severity == "error" else "warning: "
        lines.append(f"{each.line}: {mark}{f'{each.path}: ' if each.path else ''}{each.message}")
        lines += [f"  hint: {each.hint}"] if each.hint else []
    return "\n".join(lines)


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in cases(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_what_is_told_about(case: Case) -> None:
    assert told(case.text.encode()) == case.told


def test_the_cases_are_many_short_and_told_apart() -> None:
    sentences = [case.sentence for case in CASES]
    assert len(set(sentences)) == len(sentences) >= 190
    assert [case.sentence for case in CASES if len((case.text + case.told).splitlines()) >= LONGEST_CASE] == []


# --- files too odd to be written out ----------------------------------------------------------------------------------

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"


def test_a_document_of_five_megabytes_is_refused_and_the_next_is_read() -> None:
    large = HEAD + "data:\n" + "  a: |\n" + "    0123456789abcdef\n" * 250_000
    assert told(f"{large}---\nkind: Pod\n".encode()) == (
        f"1: the document has {len(large)} bytes, more than the 3145728 that an API server takes\n"
        "  hint: split it into several documents\n"
        f"{large.count(chr(10)) + 2}: apiVersion: required\n"
        "  hint: Pod is v1"
    )


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
@pytest.mark.parametrize("closing", ["", "]"])
def test_ten_thousand_nested_lists_are_refused(opening: str, closing: str) -> None:
    text = opening * 10_000 + closing * 10_000
    assert told(f"kind: Pod\n---\n{text}\n".encode()) == (
        "1: apiVersion: required\n  hint: Pod is v1\n2: nested deeper than 100 levels\n  hint: no kind needs that many"
    )


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "1: not a text file: a NUL character on line 1"),
        (b"kind: Pod\na: \xff\xfe\n", "1: not a text file: byte 0xff at offset 13 is not UTF-8"),
        (b"\xff\xfea", "1: not a text file: byte 0x61 at offset 2 is not UTF-16"),
    ],
    ids=["a program", "a byte that is not UTF-8", "half a character of UTF-16"],
)
def test_what_is_no_text_is_refused(data: bytes, answer: str) -> None:
    assert told(data) == f"{answer}\n  hint: manifests are YAML or JSON in UTF-8"


def test_an_unknown_field_per_line_is_told_each_but_near_names_are_sought_for_the_first_only() -> None:
    text = HEAD + "".join(f"dataa{i}: 1\n" for i in range(200))
    lines = told(text.encode()).splitlines()
    assert lines[:2] == [
        "4: dataa0: unknown field; known here: apiVersion, binaryData, data, immutable, kind, metadata",
        "  hint: did you mean data?",
    ]
    assert len([line for line in lines if "unknown field" in line]) == 200
    assert len([line for line in lines if "hint" in line]) == 50


def test_nothing_is_told_about_a_file_of_nothing() -> None:
    assert told(b"") == told(b"# nothing\n---\n...\n") == ""
