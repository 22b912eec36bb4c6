"""For any content of a file the answer is objects or problems, never an exception, and every problem can be shown.

Good files are damaged, trees and texts are made up. All of them go through parsing, reading in all three modes,
validation and cross checks. ``MAKEWAY_FUZZ_INPUTS`` says how many files are damaged, ``MAKEWAY_FUZZ_SEED`` which
draws are made, ``MAKEWAY_FUZZ_FIRST`` where to begin; the failure names the values that replay it.
"""

from __future__ import annotations

import os
import random
import re
import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.api import codec
from makeway.api.problems import Problem
from makeway.api.reading.documents import Document, Tree, parse, tokens
from makeway.api.reading.manifests import Finding, findings, load
from makeway.api.reading.structure import Mode
from makeway.api.reading.together import check_together
from makeway.api.validation import validate, validate_update
from makeway.api.versions import KINDS, Kind
from makeway.testing.strategies import objects
from tests.soaking import InTime

pytestmark = pytest.mark.slow  # much is drawn: for `make test` and the soak

ROOT = Path(__file__).parents[1]
GOOD = ROOT / "tests" / "api" / "malformed" / "good.yaml"
MODES: tuple[Mode, ...] = ("Strict", "Warn", "Ignore")
MESSAGE_MAX = 2_000
LINE_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # of YAML
ODD = re.split(
    " ",
    "~ null yes no on .inf -.nan 1e999 0x1F 0o17 1_000 -0 1e3 2026-01-01 !!int {} [] '' \"\" & * | > - ? : # % @ ` "
    "\x00 \x7f \u2028 \u00e9 \ufeff {{x}} <<: {<<:[]} 9223372036854775808 -2147483649 99999999999999999999999 1n "
    "0.1n -1 1E -1m 59s 1m60s 99999999h 0001-01-01T00:00:00Z 2026-02-30T00:00:00Z == YQ [[[[ }}}} a: \t \r \n--- ...",
)


@cache
def corpus() -> list[bytes]:
    """Good files: our own, and those of the shared folder if it exists."""
    shared = Path(os.environ.get("MAKEWAY_SHARED") or ROOT.parent / "shared") / "manifests"
    paths = [GOOD, *sorted((ROOT / "examples").rglob("*.yaml")), *sorted(shared.glob("*.yaml"))]
    return [document for path in paths for document in _pieces(path.read_bytes())]


def _pieces(data: bytes) -> list[bytes]:
    """A long file in small pieces, so that a damaged one is read quickly."""
    parts = data.split(b"\n---\n")
    return [b"\n---\n".join(parts[i : i + 3]) for i in range(0, len(parts), 3)]


# --- the promise ----------------------------------------------------------------------------------------------------


def judge(data: bytes) -> None:
    manifests = load("f.yaml", data)
    check_together(manifests)
    last = len(LINE_BREAKS.findall(_text(data))) + 1
    for finding in findings(manifests):
        assert_finding(finding, last)
    for document in parse(data):
        assert document.tree is not None or document.problems
        for mode in MODES[1:]:
            judge_tree(document, mode)


def judge_tree(document: Document, mode: Mode) -> None:
    reading = codec.read(document.tree, mode)
    problems = list(reading.problems)
    if reading.value is not None:
        problems += validate(reading.value)
        bare = codec.read(document.tree, mode, limits=False)
        assert bare.value is not None
        problems += validate_update(bare.value, reading.value)
        assert codec.decode(codec.encode(reading.value), type(reading.value)) == reading.value
    assert mode == "Warn" or not any(problem.cause == "UnknownField" for problem in problems)
    for problem in problems:
        assert_shown(problem)


def assert_finding(finding: Finding, last_line: int) -> None:
    assert finding.line is not None
    assert 1 <= finding.line <= last_line, finding
    assert_shown(Problem(finding.path, finding.message, finding.hint))


def assert_shown(problem: Problem) -> None:
    """Check that a problem can be printed: not empty, on one line, not too long, without control characters."""
    assert problem.message, problem
    assert max(len(problem.message), len(problem.hint)) <= MESSAGE_MAX, problem
    assert (problem.message + problem.hint).isprintable(), problem
    assert problem.path.isprintable(), problem
    assert not problem.path or list(tokens(problem.path)), problem


def _text(data: bytes) -> str:
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if wide else "utf-8", "replace")


# --- damage ---------------------------------------------------------------------------------------------------------

Damage = Callable[[random.Random, bytes], bytes]


def cut(draw: random.Random, data: bytes) -> tuple[int, int]:
    start = draw.randrange(len(data) + 1)
    return start, min(len(data), start + draw.choice((1, 2, 5, 20, 200)))


def flip(draw: random.Random, data: bytes) -> bytes:
    changed = bytearray(data or b" ")
    for _ in range(draw.choice((1, 1, 3))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def insert(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(ODD).encode() + data[at:]


def delete(draw: random.Random, data: bytes) -> bytes:
    start, end = cut(draw, data)
    return data[:start] + data[end:]


def double(draw: random.Random, data: bytes) -> bytes:
    start, end = cut(draw, data)
    return data[:end] + data[start:end] * draw.choice((1, 1, 2, 30)) + data[end:]


def swap_lines(draw: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def splice(draw: random.Random, data: bytes) -> bytes:
    other = draw.choice(corpus())
    return data[: draw.randrange(len(data) + 1)] + other[draw.randrange(len(other)) :]


def replace_word(draw: random.Random, data: bytes) -> bytes:
    """One value, key or number becomes something odd, or a word from elsewhere."""
    found = list(re.finditer(rb"[\w./-]+", data))
    if not found:
        return data
    word = draw.choice(found)
    elsewhere = re.findall(rb"[\w./-]+", draw.choice(corpus()))
    new = draw.choice(ODD).encode() if draw.random() < 0.6 else draw.choice(elsewhere)
    return data[: word.start()] + new + data[word.end() :]


def indent(draw: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    i = draw.randrange(len(lines))
    lines[i] = draw.choice((b" ", b"  ", b"\t", b"- ")) + lines[i] if draw.random() < 0.7 else lines[i].lstrip()
    return b"\n".join(lines)


DAMAGES: tuple[Damage, ...] = (flip, insert, delete, double, swap_lines, splice, indent, *[replace_word] * 5)


def damaged(seed: int, number: int) -> bytes:
    draw = random.Random(f"{seed}/{number}")
    data = draw.choice(corpus())
    for _ in range(draw.choice((1, 1, 2, 4))):
        data = draw.choice(DAMAGES)(draw, data)
    return data


@pytest.mark.property
def test_a_damaged_file_gives_objects_or_problems(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    searching = os.environ.get("HYPOTHESIS_PROFILE") == "search" and "MAKEWAY_FUZZ_SEED" not in os.environ
    seed = secrets.randbelow(2**32) if searching else fuzz_seed
    first = int(os.environ.get("MAKEWAY_FUZZ_FIRST", "0"))
    for number in in_time(range(first, first + fuzz_inputs)):
        data = damaged(seed, number)
        try:
            judge(data)
        except Exception as error:
            settings = f"MAKEWAY_FUZZ_SEED={seed} MAKEWAY_FUZZ_FIRST={number} MAKEWAY_FUZZ_INPUTS=1"
            replay = f"{settings} python -m pytest tests/test_fuzz.py -k damaged"
            raise AssertionError(f"{type(error).__name__}: {error}\n\nreplay: {replay}\n\ninput: {data!r}") from error


# --- made up --------------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_give_objects_or_problems(data: bytes) -> None:
    judge(data)


def field_names() -> list[str]:
    words = {word for data in corpus() for word in re.findall(r"[A-Za-z][\w./-]*", data.decode())}
    return sorted(words)


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
WORDS = st.deferred(lambda: st.sampled_from(field_names()))
TREES = st.recursive(
    LEAVES | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def trees_with_a_part_replaced(draw: st.DrawFn, kind: Kind) -> Tree:
    """An object with anything in place of one value, at any depth; or with one more value."""
    version = draw(st.sampled_from(kind.versions))
    whole = tree = draw(objects(kind, version))
    while True:
        inside: list[Any] = list(tree if isinstance(tree, dict) else range(len(tree)))
        deeper = [key for key in inside if isinstance(tree[key], dict | list) and tree[key]]
        goes_on: bool = draw(st.booleans())
        if deeper and goes_on:
            tree = tree[draw(st.sampled_from(deeper))]
            continue
        if isinstance(tree, dict):
            tree[draw(st.sampled_from(inside) | WORDS if inside else WORDS)] = draw(TREES)
        else:
            tree[draw(st.sampled_from(inside))] = draw(TREES)
        return whole


def of_kind(kind: Kind) -> object:
    @pytest.mark.property
    @given(tree=trees_with_a_part_replaced(kind))
    def an_object_with_a_part_replaced_gives_an_object_or_problems(tree: Tree) -> None:
        judge(msgspec.json.encode(tree))

    return an_object_with_a_part_replaced_gives_an_object_or_problems


for each in KINDS:  # a test for each, so that a soak can share its time among them
    globals()[f"test_a_damaged_{each.name}_of_{each.group or 'core'}_gives_an_object_or_problems"] = of_kind(each)


NUMBERS = st.from_regex(r"[-+]?[0-9]{0,25}\.?[0-9]{0,25}(n|m|k|Ki|E|e[-+]?[0-9]{1,3}|h|ms|µs|s)?", fullmatch=True)
TIMES = st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,12})?(Z|[+-][0-9:]{1,5})?")


@pytest.mark.property
@given(st.text() | NUMBERS | TIMES)
def test_any_text_where_an_amount_or_a_time_belongs_gives_an_object_or_problems(text: str) -> None:
    quota = {"name": "cpu", "nominalQuota": text, "borrowingLimit": text, "lendingLimit": text}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    spec = {
        "cohortName": "c",
        "resourceGroups": [group],
        "fairSharing": {"weight": text},
        "preemption": {"withinClusterQueueConfig": {"minAdmitDuration": text}},
    }
    status = {"conditions": [{"type": "Active", "status": "True", "reason": "Ready", "lastTransitionTime": text}]}
    meta = {"name": "q", "creationTimestamp": text}
    tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": meta, "spec": spec}
    judge(msgspec.json.encode({**tree, "status": status}))
    container = {"name": "c", "resources": {"requests": {"cpu": text, text: "1"}, "limits": {"cpu": text}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    judge(msgspec.json.encode(pod))


def test_the_good_file_that_is_damaged_here_is_good() -> None:
    manifests = load("good.yaml", GOOD.read_bytes())
    check_together(manifests)
    assert [finding for finding in findings(manifests) if finding.severity == "error"] == []
