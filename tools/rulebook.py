"""Resolves every citation of a rule in code, tests and docs, and lists the rules that no test cites.

A rule is cited by its id: ``S-7.4``, ``R-22``, ``api 9.2``, ``conventions 4.3``; further ids of the same book may
follow (``S-5.3 to 5.5``, ``api 2.7, 2.8``). A trap is cited by its letter and number (``P15``) in parentheses, in a
docstring or comment. ``docs/rulebook`` has an anchor for each of them. A test also cites by its name
(``test_s4_6_5_…``, ``test_p15_…``) or by the id of a case (``"8522-7 S7 of several the longest running goes first"``).
"""

from __future__ import annotations

import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "docs" / "rulebook"
FOLDERS = ("src", "tests", "tools", "docs")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
NUMBER = r"\d+(?:\.\d+)*[a-z]?"
CITED = re.compile(
    rf"\b(?P<book>S-|R-|api |conventions )(?P<first>{NUMBER})(?P<more>(?:(?:, | to | and |-){NUMBER}(?![\w%-]))*)\b"
)
MORE = re.compile(NUMBER)
TRAP = re.compile(r"\(([^()\n]*)\)")
TRAP_ID = re.compile(r"\b[PSCMGX]\d{1,2}\b")
RULE = re.compile(r"(?:s-|r-|api-|conventions-|[pscmgx])\d[\d.]*[a-z]?|\d+-[a-z\d]+")
NO_TEST = re.compile(r"(?:s|api)-\d+|r-\d+")  # chapters, and readings of documents: tests cite the rules in them
UNBUILT = re.compile(r"not built|\| (?:no|in part)[^|]*\|$", re.I)
UNBUILT_PAGE = re.compile(r"not built yet\.?\*\*|\*\*The dispatch is not built")  # in bold at the top of a page
NAMED = re.compile(r"def test_(?P<book>s|r|api)(?P<numbers>\d+(?:_\d+)+)_|def test_(?P<trap>[pscmgx]\d{1,2})_")
OUTCOME = re.compile(r"\b(?:83|8522|8303|8691|5710)-[a-z\d]+\b")


class Citation(NamedTuple):
    rule: str
    file: Path
    line: int


def anchor(rule: str) -> str:
    return rule.lower().replace(" ", "-")


def rules() -> dict[str, bool]:
    """The anchor of every rule, and whether the rule is built, as far as its page says."""
    built: dict[str, bool] = {}
    for page in sorted(BOOK.glob("*.md")):
        text = page.read_text("utf-8")
        whole = UNBUILT_PAGE.search(text.partition("\n## ")[0]) is None
        for line in text.splitlines():
            built |= {name: whole and not UNBUILT.search(line) for name in ANCHOR.findall(line) if RULE.fullmatch(name)}
    return built


def numbered(text: str) -> Iterator[str]:
    """The rules that a text cites by book and number."""
    for cited in CITED.finditer(text):
        yield cited["book"] + cited["first"]
        for number in MORE.findall(cited["more"]):
            if "." in number or cited["book"] in ("R-", "api "):
                yield cited["book"] + number


def traps(text: str) -> Iterator[str]:
    """The traps that a line of prose cites."""
    for inside in TRAP.findall(text):
        yield from TRAP_ID.findall(inside)


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings of a Python file, by line."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        stands_alone = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL)
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and stands_alone):
            yield from enumerate(token.string.splitlines(), token.start[0])
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type


def citations(path: Path) -> Iterator[Citation]:
    text = path.read_text("utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        yield from (Citation(rule, path, number) for rule in numbered(line))
    for number, line in prose(text) if path.suffix == ".py" else ():
        yield from (Citation(rule, path, number) for rule in traps(line))


def all_citations() -> list[Citation]:
    files = (path for folder in FOLDERS for form in ("*.py", "*.md") for path in sorted((ROOT / folder).rglob(form)))
    return [citation for path in files for citation in citations(path)]


def unresolved(cited: Iterable[Citation], known: Iterable[str]) -> list[str]:
    ids = frozenset(known)
    return [f"{c.file.relative_to(ROOT)}:{c.line}: {c.rule}" for c in cited if anchor(c.rule) not in ids]


def tested() -> set[str]:
    """The anchors that tests cite in any of these ways."""
    anchors: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        anchors |= {anchor(rule) for rule in numbered(text)} | {rule.lower() for rule in TRAP_ID.findall(text)}
        anchors |= set(OUTCOME.findall(text))
        for name in NAMED.finditer(text):
            numbers = (name["numbers"] or "").replace("_", ".")
            anchors.add(name["trap"] or f"{name['book']}-{numbers}")
    return anchors


def uncited(known: dict[str, bool], cited: set[str]) -> list[str]:
    """The built rules without a test: none cites the rule, a part of it, or the rule that it is a part of."""
    around = {part for name in cited for part in _within(name)}
    asked = [
        name for name in known if all(known.get(part, True) for part in _within(name)) and not NO_TEST.fullmatch(name)
    ]
    return [name for name in asked if name not in around and not cited & set(_within(name))]


def _within(name: str) -> Iterator[str]:
    """The rule and the rules that it is a part of, without whole chapters."""
    while "." in name:
        yield name
        name = name.rpartition(".")[0]
    if not name.startswith("s-"):
        yield name


def main() -> int:
    known, cited = rules(), all_citations()
    broken = unresolved(cited, known)
    for citation in broken:
        print(f"{citation} is no rule of the rule book")
    alone = uncited(known, tested())
    print(f"rule book: {len(cited)} citations resolve; no test cites {len(alone)} of {len(known)}:")
    print(textwrap.fill(" ".join(alone), 120, initial_indent="  ", subsequent_indent="  "))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
