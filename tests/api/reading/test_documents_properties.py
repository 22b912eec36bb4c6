"""Promises of ``documents`` on many inputs: nothing raises, trees come back, lines are right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.reading.documents import Document, joined, parse, tokens

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value.is_integer())
    | texts
    | st.sampled_from(["yes", "1", "0x1", "~", "", "1e3", "<<", "- a", "a: b", "#", "\t", "\n", "2001-01-01", ".inf"])
)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)
mappings = st.dictionaries(texts, trees, max_size=5)
marks = [*"[]{},:'\"#%\\\n\t\r\x00\x85\u2028\ufeff", "a", "b: ", "- ", "? ", "\n  ", "---\n", "...\n", "|\n", ">\n"]
pieces = st.sampled_from([*marks, "&x ", "*x", "<<: ", "!!int ", "! ", "\\ud800", "1e999", "0x", '{"a":', '"b"}'])


def everything(document: Document) -> None:
    """Ask for all that can be asked."""
    for path in ("", "a.b[0]", "a[<<].b", "[", "a[b]]", *(problem.path for problem in document.problems)):
        assert document.line_of(path) >= 1
    json.dumps(document.tree, allow_nan=False).encode()


@pytest.mark.property
@given(st.binary(max_size=200) | texts.map(str.encode) | st.lists(pieces, max_size=30).map("".join).map(str.encode))
def test_no_bytes_raise(data: bytes) -> None:
    for document in parse(data):
        everything(document)


@pytest.mark.property
@given(st.lists(mappings, min_size=1, max_size=3), st.sampled_from([None, 0, 2]), st.booleans())
def test_json_comes_back(values: list[dict[str, Any]], indent: int | None, ascii_only: bool) -> None:
    text = "\n".join(json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values)
    found = parse(text.encode())
    assert [document.tree for document in found] == values
    assert not any(document.problems for document in found)


class Dumper(yaml.SafeDumper):
    """Quotes what the 1.1 reading of kubectl would not leave a text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@pytest.mark.slow
@pytest.mark.property
@given(st.lists(mappings.filter(bool), min_size=1, max_size=3), st.booleans())
def test_yaml_comes_back(values: list[dict[str, Any]], flow: bool) -> None:
    text = "---\n".join(
        yaml.dump(value, Dumper=Dumper, allow_unicode=True, default_flow_style=flow, width=200) for value in values
    )
    found = parse(("# first\n" + text).encode())
    assert [document.tree for document in found] == values
    assert not any(document.problems for document in found)


def written(value: Any, path: str, lines: list[str], at: dict[str, int], indent: int) -> None:
    """Write block YAML line by line, and note the line of each path."""
    pairs: Iterator[tuple[str, str, Any]]
    if isinstance(value, dict):
        pairs = ((joined(path, key), f"{json.dumps(key)}:", inner) for key, inner in value.items())
    else:
        pairs = ((f"{path}[{index}]", "-", inner) for index, inner in enumerate(value))
    for here, start, inner in pairs:
        if isinstance(inner, dict | list) and inner and start != "-":
            lines.append(" " * indent + start)
            at[here] = len(lines)
            written(inner, here, lines, at, indent + 2)
        else:
            lines.append(" " * indent + f"{start} {json.dumps(inner)}")
            at[here] = len(lines)


blocks = st.recursive(
    st.integers() | st.just("x"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc/.]["), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.property
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b.c", "d/e", "]", '"', ""]), blocks, min_size=1), min_size=1, max_size=3
    )
)
def test_every_path_has_its_line(values: list[dict[str, Any]]) -> None:
    lines: list[str] = []
    expected: list[dict[str, int]] = []
    for value in values:
        lines.append("---")
        expected.append({})
        written(value, "", lines, expected[-1], 0)
    found = parse("\n".join(lines).encode())
    assert [
        {path: document.line_of(path) for path in at} for document, at in zip(found, expected, strict=True)
    ] == expected


@pytest.mark.property
@given(mappings)
def test_every_path_of_json_has_its_line(value: dict[str, Any]) -> None:
    text = json.dumps({"first": value}, indent=1)
    [document] = parse(("\n\n" + text).encode())
    for number, line in enumerate(text.split("\n"), 3):
        if line.startswith("  ") and not line.startswith("   ") and line.strip()[0] == '"':
            key, _ = json.JSONDecoder().raw_decode(line.strip())
            assert document.line_of(joined("first", key)) == number


@pytest.mark.property
@given(st.lists(st.text(max_size=10)))
def test_keys_survive_their_path(keys: list[str]) -> None:
    path = ""
    for key in keys:
        path = joined(path, key)
    assert list(tokens(path)) == keys


@pytest.mark.property
@given(st.text())
def test_no_path_raises(path: str) -> None:
    list(tokens(path))
    assert parse(b"a: {b: [1]}")[0].line_of(path) == 1
