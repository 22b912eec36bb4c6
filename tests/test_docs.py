"""The documentation is true: commands are replayed, manifests validated, Python run, links followed.

In a block marked ``console`` each line that starts with ``$ makeway`` is run in a copy of the examples,
and what it prints is compared with the lines below it; a line ``...`` stands for any number of lines.
In a block marked ``console server`` they talk to a server that is started for the page. There a command is
repeated until it prints what is expected, ages and made names may differ, and ``...`` within a line stands
for anything. In a block marked ``console node`` that server runs jobs too, as real processes.
Shell commands that are not replayed go into a block marked ``sh``. A block marked ``yaml`` is a manifest
that ``makeway validate`` accepts; a piece of one is marked ``yaml fragment``. The ``python`` blocks of a
page are one program, from the top down.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from makeway.adapters.server.changes.patches import COPIED_BYTES_MAX, OPERATIONS_MAX
from makeway.adapters.server.http.limits import Limits
from makeway.adapters.server.http.statuses import TOLD_MAX
from makeway.adapters.server.resources.selectors import CHARS_MAX
from makeway.api.validation.data import DATA_BYTES_MAX
from makeway.cli.main import main
from makeway.runtime.ports import OBJECT_BYTES_MAX, OWN_BYTES_MAX
from tests.end_to_end.machine import Machine
from tests.live_server import live_server

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^ *(?P=fence) *$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(?P<title>.+?) *$", re.M)
ID = re.compile(r"<a id=\"(?P<id>[^\"]+)\"></a>")
NAMED_FILE = re.compile(r"`(?P<path>[\w/]+/\w+\.py)`")
CODE_FOLDERS = (ROOT, ROOT / "src", ROOT / "src" / "makeway", ROOT / "tests")
CODE = re.compile(r"`[^`\n]+`")  # a pattern in code may look like a link
ANY_LINES = "..."
SERVER = "console server"
NODE = "console node"
READING = (
    "describe",
    "events",
    "get",
    "logs",
    "queues",
)  # commands that may be repeated until a server has come so far
PATIENCE_SECONDS = 30
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
VAGUE = (  # differs from run to run on a server
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"(?<![\w-])(?:\d+[smhd])+(?![\w-])"), "AGE"),
    (re.compile(r"(?<![\w-])(job-[a-z0-9-]*?)-[0-9a-f]{5}(?![\w-])"), r"\1-HASH"),
    (re.compile(r"(?<![\w-])([a-z0-9-]+?)-[bcdfghjklmnpqrstvwxz2456789]{5}(?![\w-])"), r"\1-MADE"),
    (re.compile(r"(?<=\S) {2,}"), "  "),  # columns are as wide as what is in them
)


@dataclass(frozen=True)
class Block:
    line: int
    info: str
    body: str


def pages() -> list[Path]:
    folders = (ROOT / "docs", ROOT / "examples")
    return [*sorted(ROOT.glob("*.md")), *(page for folder in folders for page in sorted(folder.rglob("*.md")))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str, *infos: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        if (info := found["info"].strip()) in infos:
            body = "".join(line.removeprefix(found["indent"]) for line in found["body"].splitlines(keepends=True))
            yield Block(text.count("\n", 0, found.start()) + 1, info, body)


def prompts(body: str) -> Iterator[tuple[str, list[str]]]:
    """Split a console block into commands and the lines that each of them should print."""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, *expected = part.rstrip("\n").split("\n")
        yield command, [line.rstrip() for line in expected]


def matches(printed: list[str], expected: list[str]) -> bool:
    """Compare line by line; ``...`` stands for any number of lines."""
    pattern = "".join("(?:.*\n)*" if line == ANY_LINES else re.escape(line) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def matches_vaguely(printed: list[str], expected: list[str]) -> bool:
    """As ``matches``, for what a server prints: times and made names may differ, ``...`` may stand within a line."""
    pattern = "".join(
        "(?:.*\n)*" if line == ANY_LINES else re.escape(vague(line)).replace(r"\.\.\.", ".*") + "\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{vague(line.rstrip())}\n" for line in printed)) is not None


def vague(line: str) -> str:
    for mark, instead in VAGUE:
        line = mark.sub(instead, line)
    return line


def slug(title: str) -> str:
    """Name the anchor of a heading as code hosts do: links and code marks fall away, spaces become dashes."""
    plain = LINK.sub(lambda link: link.group().partition("](")[0][1:], title).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@functools.cache
def anchors(page: str) -> frozenset[str]:
    """The targets of links in the text of a page: its headings, and the ids of its rules."""
    prose = FENCE.sub("", page)
    titles = {slug(ID.sub("", heading["title"])) for heading in HEADING.finditer(prose)}
    return frozenset(titles | {found["id"] for found in ID.finditer(prose)})


def broken_links(page: Path, text: str) -> list[str]:
    prose = CODE.sub("", FENCE.sub("", text))
    broken = []
    for found in LINK.finditer(prose):
        path, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path) if path else page
        known = target.exists()
        if known and anchor and target.suffix == ".md":
            known = anchor in anchors(target.read_text("utf-8"))
        if not known:
            broken.append(found["target"])
    return broken


def missing_files(text: str) -> list[str]:
    """The Python files that a page names in code marks and that do not exist."""
    named = {found["path"] for found in NAMED_FILE.finditer(FENCE.sub("", text))}
    return sorted(each for each in named if not any((folder / each).exists() for folder in CODE_FOLDERS))


def with_blocks(info: str) -> list[Path]:
    return [page for page in pages() if any(blocks(page.read_text("utf-8"), info))]


def replayed_pages() -> list[object]:
    """Pages with commands, alone or beside a server."""
    found = dict.fromkeys([*with_blocks("console"), *with_blocks(SERVER), *with_blocks(NODE)])
    return [pytest.param(page, id=name_of(page)) for page in found]


@pytest.mark.slow
@pytest.mark.parametrize("page", replayed_pages())
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # not the server of the user
    with ExitStack() as stack:
        if page in with_blocks(SERVER):
            stack.enter_context(live_server(tmp_path / "makeway"))
        if page in with_blocks(NODE):
            stack.enter_context(machine(tmp_path / "makeway"))
        for block in blocks(page.read_text("utf-8"), "console", SERVER, NODE):
            for command, expected in prompts(block.body):
                program, *arguments = shlex.split(command, comments=True)
                where = f"{name_of(page)}:{block.line}: $ {command}"
                assert program == "makeway", f"{where}: only makeway is replayed; others go into a block marked sh"
                if block.info in (SERVER, NODE):
                    printed = asked_of_a_server(arguments, expected)
                    assert matches_vaguely(printed.splitlines(), expected), f"{where} printed\n{printed}"
                else:
                    printed = CliRunner(env=PLAIN).invoke(main, arguments, prog_name="makeway").output
                    assert matches(printed.splitlines(), expected), f"{where} printed\n{printed}"


@contextmanager
def machine(folder: Path) -> Iterator[None]:
    """A whole makeway, which also runs pods; a process that is left at the end fails the test."""
    folder.mkdir()
    found = Machine(folder)
    try:
        yield
        found.close()
    finally:
        found.abandon()


def asked_of_a_server(arguments: list[str], expected: list[str]) -> str:
    """The output of a command in this process. A command that only reads is repeated until it prints ``expected``."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        printed = CliRunner().invoke(main, arguments, prog_name="makeway").output
        is_done = arguments[0] not in READING or matches_vaguely(printed.splitlines(), expected)
        if is_done or time.monotonic() > until:
            return printed
        time.sleep(0.05)


@pytest.mark.parametrize("page", with_blocks("yaml"), ids=name_of)
def test_manifests_are_valid(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.read_text("utf-8"), "yaml"):
        manifest = tmp_path / f"line-{block.line}.yaml"
        manifest.write_text(block.body, "utf-8")
        result = CliRunner().invoke(main, ["validate", "-f", str(manifest)])
        assert result.exit_code == 0, f"{name_of(page)}:{block.line}\n{result.output}"


@pytest.mark.parametrize("page", with_blocks("python"), ids=name_of)
def test_python_runs(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    program = "\n".join(block.body for block in blocks(page.read_text("utf-8"), "python"))
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, f"{name_of(page)}\n{result.stderr}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    assert missing_files(page.read_text("utf-8")) == []


@pytest.mark.parametrize("folder", sorted(p for p in (ROOT / "examples").iterdir() if p.is_dir()), ids=name_of)
def test_every_example_is_valid_and_tells_its_story(folder: Path) -> None:
    assert (folder / "README.md").is_file()
    result = CliRunner().invoke(main, ["validate", "-f", str(folder)])
    assert result.exit_code == 0, result.output


def test_the_security_page_tells_the_limits_that_hold() -> None:
    limits = Limits()
    told = (ROOT / "docs/concepts/security.md").read_text("utf-8")
    for row in (
        f"| body of a request | {limits.body_bytes // 2**20} MiB, in {limits.body_seconds} s |",
        f"| its head | {limits.header_bytes // 2**10} KiB, in {limits.header_seconds} s |",
        f"| a TLS handshake | {limits.handshake_seconds} s |",
        f"| bodies of 64 KiB or more at a time | {limits.bodies_bytes // 2**20} MiB, "
        f"of one token {limits.bodies_bytes // 2**21} MiB |",
        f"| connections | {limits.connections}, of one token {limits.connections_per_token} |",
        f"| of those before a token is shown | {limits.unknown_connections}, "
        f"each {limits.unknown_seconds} s between two requests |",
        f"| of those for administrators only | {limits.admin_connections} |",
        f"| watches and follows of logs | {limits.streams}, of one token {limits.streams_per_token} |",
        f"| what waits for a client that does not read | 192 KiB, in {limits.write_seconds} s the next 48 KiB; "
        f"for all together {limits.buffered_bytes // 2**20} MiB |",
        f"| an answer that has an end | {limits.answer_seconds} s |",
        f"| objects in one page of a list | {limits.list_limit_max:,} |",
        f"| keys and values of a selector | {limits.selector_terms_max} |",
        f"| its text | {CHARS_MAX // 2**10} KiB |",
        f"| an object as it is stored | {OBJECT_BYTES_MAX / 2**20} MiB, {OWN_BYTES_MAX // 2**20} MiB with what",
        f"| the values of a ConfigMap or Secret | {DATA_BYTES_MAX // 2**20} MiB together |",
        f"| a JSON patch | {OPERATIONS_MAX:,} operations, whose copies add {COPIED_BYTES_MAX // 2**20} MiB |",
        f"| problems of an object that are told | {TOLD_MAX:,} |",
    ):
        assert row in told


# The checks themselves: each must find its own fault.


def test_a_page_with_an_open_place_is_found() -> None:
    """A page must be finished: it has no placeholder for output that is to be added."""
    mark = "<!-- " + "OUTPUT -->"
    assert [name_of(page) for page in pages() if mark in page.read_text("utf-8")] == []


def test_blocks_are_read_by_their_mark() -> None:
    text = "a\n```console\n$ makeway version\n1\n```\n\n  ```yaml fragment\n  a: 1\n  ```\n```yaml\nb: 2\n```\n"
    assert [(b.line, b.body) for b in blocks(text, "console")] == [(2, "$ makeway version\n1\n")]
    assert [b.body for b in blocks(text, "yaml")] == ["b: 2\n"]
    assert [b.body for b in blocks(text, "yaml fragment")] == ["a: 1\n"]


def test_commands_are_split_from_their_output() -> None:
    assert list(prompts("$ makeway a\none\ntwo\n$ makeway b\n")) == [("makeway a", ["one", "two"]), ("makeway b", [])]


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "b"], False),
        (["a", "b", "c"], ["a", "..."], True),
        (["a", "b", "c"], ["...", "c"], True),
        (["a", "b", "c"], ["...", "b"], False),
        (["a"], ["a", "..."], True),
        (["a.b"], ["axb"], False),
    ],
)
def test_output_is_compared_line_by_line(printed: list[str], expected: list[str], same: bool) -> None:
    assert matches(printed, expected) is same


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        (["NAME   AGE", "job-a-0c5d1   12s"], ["NAME       AGE", "job-a-fffff       3m20s"], True),
        (["at 2026-01-01T00:00:00Z (1d ago)"], ["at 2027-01-01T00:00:00Z (3h ago)"], True),
        (["a (UID: 12-34) b"], ["a (UID: ...) b"], True),
        (["a (UID: 12-34) c"], ["a (UID: ...) b"], False),
        (["  indented"], ["indented"], False),
        (["4 of 8"], ["5 of 8"], False),
        (["team-a   4"], ["team-b   4"], False),
    ],
)
def test_what_a_server_prints_may_differ_where_nobody_can_know_it(
    printed: list[str], expected: list[str], same: bool
) -> None:
    assert matches_vaguely(printed, expected) is same


def test_missing_files_are_found() -> None:
    assert missing_files("see `core/state.py`, `tests/test_docs.py` and `core/no_such.py`") == ["core/no_such.py"]


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = (
        "# One `two`: three\n[a](page.md) [b](#one-two-three) [c](https://example.invalid/x)\n```sh\n[x](no.md)\n```\n"
    )
    page.write_text(text, "utf-8")
    assert broken_links(page, text) == []
    assert broken_links(page, "[a](gone.md) [b](page.md#gone) [c](#gone)") == ["gone.md", "page.md#gone", "#gone"]
