"""Citations of rules: all of them lead somewhere, and what is no citation is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.rulebook import ROOT, Citation, all_citations, numbered, prose, rules, traps, uncited, unresolved

KNOWN = {"s-4": True, "s-4.5": True, "s-4.5.2": True, "s-4.6": True, "s-12.1": False, "p3": True}


@pytest.fixture(scope="module")
def known() -> dict[str, bool]:
    return rules()


def test_every_citation_leads_to_a_rule(known: dict[str, bool]) -> None:
    assert unresolved(all_citations(), known) == []


def test_the_book_has_every_chapter(known: dict[str, bool]) -> None:
    chapters = {f"s-{n}" for n in range(1, 20)} | {f"api-{n}" for n in range(22)}
    assert chapters <= known.keys()
    assert {f"r-{n}" for n in range(1, 63)} <= known.keys()
    assert {f"p{n}" for n in range(1, 36)} | {f"g{n}" for n in range(1, 12)} <= known.keys()


def test_what_is_not_built_says_so(known: dict[str, bool]) -> None:
    assert not known["s-13.5"]
    assert known["s-7.4"]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("as S-7.4 says", ["S-7.4"]),
        ("(S-5.3 to 5.5)", ["S-5.3", "S-5.5"]),
        ("(S-1.2, 1.3)", ["S-1.2", "S-1.3"]),
        ("(S-8.1-8.5, R-6)", ["S-8.1", "S-8.5", "R-6"]),
        ("(api 2.7, 2.8, 4, 7)", ["api 2.7", "api 2.8", "api 4", "api 7"]),
        ("S-6.4a and conventions 4.3", ["S-6.4a", "conventions 4.3"]),
        ("S-4, 5 cores", ["S-4"]),
        ("S-7.4, 3 of them", ["S-7.4"]),
        ("UTF-8, RFC-7386, S-curve", []),
    ],
)
def test_rules_are_cited_by_book_and_number(text: str, cited: list[str]) -> None:
    assert list(numbered(text)) == cited


def test_traps_are_cited_in_parentheses() -> None:
    assert list(traps("nobody waits for that (P15), see (S-19.2, P3); p95 of P99 and S3 (tests)")) == ["P15", "P3"]


def test_only_docstrings_and_comments_are_prose() -> None:
    source = 'def f():\n    """Say (P1)."""\n    return "(P2)"  # why (P3)\n'
    assert [line.strip() for _, line in prose(source)] == ['"""Say (P1)."""', "# why (P3)"]


def test_a_citation_of_nothing_is_found() -> None:
    cited = [Citation("S-4.5", ROOT / "src" / "a.py", 1), Citation("S-4.9", ROOT / "src" / "b.py", 7)]
    assert unresolved(cited, KNOWN) == [f"{Path('src') / 'b.py'}:7: S-4.9"]


@pytest.mark.parametrize(
    ("cited", "alone"),
    [
        ({"s-4.5.2"}, ["s-4.6", "p3"]),
        ({"s-4.5", "p3"}, ["s-4.6"]),
        ({"s-4"}, ["s-4.5", "s-4.5.2", "s-4.6", "p3"]),
    ],
)
def test_a_rule_counts_as_tested_with_a_part_of_it_but_not_with_its_chapter(cited: set[str], alone: list[str]) -> None:
    assert uncited(KNOWN, cited) == alone
