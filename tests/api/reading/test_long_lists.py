"""Lists that are too large for one document are read item by item, with the same findings as if they were not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from makeway.api.reading import documents
from makeway.api.reading.documents import parse
from makeway.api.reading.long_lists import cut_json, cut_yaml, yaml_item
from makeway.api.reading.manifests import Finding, Manifest, findings, load

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "a"}}
WRONG = {**FLAVOR, "metadata": {"name": "B!"}, "spec": {"nodeLabel": {}}}
INNER = {"apiVersion": "v1", "kind": "List", "items": [FLAVOR, WRONG]}


def copies(items: Iterable[Any]) -> list[Any]:
    return [deepcopy(each) for each in items]


def list_of(*items: Any, **more: Any) -> dict[str, Any]:
    apart = copies(items)  # else YAML would be written with aliases
    return {"apiVersion": "v1", "items": apart, "kind": "List", "metadata": {"resourceVersion": ""}, **more}


def as_kubectl(tree: Any) -> str:
    return json.dumps(tree, indent=4)


def as_yaml(tree: Any) -> str:
    return yaml.safe_dump(tree)


def indented(tree: Any) -> str:
    """As some tools write YAML: dashes deeper than the key above them."""

    class Deep(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    return yaml.dump(tree, Dumper=Deep)


WRITERS: list[Callable[[Any], str]] = [json.dumps, as_kubectl, as_yaml, indented]


def read(text: str) -> tuple[list[Finding], list[Any], list[Any]]:
    manifests = load("a", text.encode())
    return findings(manifests), [each.value for each in manifests], [each.tree for each in manifests if each.value]


def shrink(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(documents, "DOCUMENT_BYTES_MAX", size)


SETS = {
    "sound": list_of(*[FLAVOR] * 5),
    "wrong ones": list_of(FLAVOR, WRONG, FLAVOR, WRONG),
    "no objects": list_of(FLAVOR, None, 7, "x", [], {}),
    "a list in it": list_of(FLAVOR, INNER, WRONG),
    "a field of the list": list_of(FLAVOR, WRONG, zeta={"a": 1}),
    "kinds that are not repeated": {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavorList",
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "B!"}}, FLAVOR],
    },
    "texts of several lines": list_of(
        *[{**FLAVOR, "metadata": {"name": "a", "annotations": {"a/b": "- x\nitems:\n- y\n\nkind: z\n" * 4}}}] * 3
    ),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("name", SETS)
def test_a_long_list_is_read_like_a_short_one(name: str, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write(SETS[name])
    whole = read(text)
    shrink(monkeypatch, len(text.encode()) - 1)
    assert parse(text.encode())[0].pieces is not None, "it is cut"
    assert read(text) == whole


@pytest.mark.parametrize("write", WRITERS)
def test_what_comes_after_a_long_list_has_its_number_and_line(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write(list_of(FLAVOR, WRONG, FLAVOR)) + "\n---\n" + write(WRONG) + "\n"
    whole = read(text)[0]
    shrink(monkeypatch, 260)
    assert read(text)[0] == whole
    assert {each.document for each in whole} == {1, 2}


def test_keys_set_twice_are_found_in_the_list_and_in_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    item = json.dumps(FLAVOR)
    twice = item.replace('"kind"', '"kind": "x",\n"kind"')
    text = f'{{"apiVersion": "v1",\n"items": [{item},\n{twice},\n{item}],\n"kind": "x",\n"kind": "List"}}'
    whole = [(each.line, each.path, each.message) for each in read(text)[0]]
    assert [line for line, *_ in whole] == [4, 7]
    shrink(monkeypatch, 200)
    assert [(each.line, each.path, each.message) for each in read(text)[0]] == whole


@pytest.mark.parametrize("write", WRITERS)
def test_an_object_that_is_too_large_is_refused_and_the_others_are_read(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {**FLAVOR, "metadata": {"name": "large", "annotations": {"a": "x" * 300}}}
    shrink(monkeypatch, 300)
    manifests = load("a", write(list_of(FLAVOR, large, FLAVOR)).encode())
    assert [each.value is not None for each in manifests] == [True, False, True]
    (problem,) = manifests[1].problems
    assert problem.path == "items[1]"
    assert problem.message.startswith("the object has ")
    assert problem.message.endswith(" bytes, more than the 300 that an API server takes")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({**FLAVOR, "items": [{"a": "x" * 100}] * 4}),  # no list
        json.dumps({"items": [{"a": "x" * 100}] * 4}),
        json.dumps(list_of(FLAVOR))[:-1] + ', "items": [' + json.dumps(FLAVOR) + "]" + " " * 300 + "}",  # set twice
        yaml.safe_dump({**FLAVOR, "items": copies([{"a": "x" * 100}] * 4)}),
        yaml.safe_dump(list_of(FLAVOR, FLAVOR, FLAVOR), default_flow_style=True),
        yaml.safe_dump(list_of(FLAVOR)) + "items:\n" + yaml.safe_dump(copies([FLAVOR] * 3)),
    ],
)
def test_what_is_no_such_list_is_refused_as_a_whole(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, 250)
    (manifest,) = load("a", text.encode())
    assert "more than the 250 that an API server takes" in manifest.problems[0].message


def test_more_items_than_there_can_be_objects_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.api.reading.long_lists.ITEMS_MAX", 3)
    for write in WRITERS:
        text = write(list_of(*[FLAVOR] * 4))
        assert (cut_json(text, 0) if text.startswith("{") else cut_yaml(text)) is None


@pytest.mark.parametrize(
    ("broken", "line", "words"),
    [
        ('{"items": [\n{},\n{"a": }]}', 3, "expecting value"),
        ('{"items": [\n{}\n{}]}', 3, "expecting ',' delimiter"),
        ('{"items": [\n{},\n', 3, "expecting value"),
        ('{"items": [{}],\n"kind" "List"}', 2, "expecting ':' delimiter"),
        ('{"items": [{}],\nkind: 1}', 2, "expecting property name"),
    ],
)
def test_a_list_that_breaks_off_is_told_where(
    broken: str, line: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, 4)
    (document,) = parse(broken.encode())
    assert (document.line, document.problems[0].cause) == (line, "Syntax")
    assert words in document.problems[0].message


def test_a_number_that_json_cannot_hold_spoils_its_object_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(list_of(FLAVOR, {**FLAVOR, "x": float("nan")}, {**FLAVOR, "x": 10**400}, FLAVOR))
    shrink(monkeypatch, 300 + 400)
    manifests = load("a", text.encode())
    assert [each.value is not None for each in manifests] == [True, False, False, True]
    assert "is a number that JSON cannot hold" in manifests[1].problems[0].message
    assert "is too large" in manifests[2].problems[0].message


def test_nesting_is_bounded_in_long_lists_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, 600)
    deep = '{"items": [' + "[" * 200 + "]" * 200 + f', "{"x" * 600}"], "apiVersion": "v1", "kind": "List"}}'
    assert "nested deeper than 100 levels" in load("a", deep.encode())[0].problems[0].message
    endless = '{"items": [' + "[" * 100_000
    assert "nested deeper than 100 levels" in load("a", endless.encode())[0].problems[0].message


def test_trees_and_lines_of_a_long_list_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, 300)
    manifests: list[Manifest] = load("a", as_kubectl(list_of(FLAVOR, WRONG, FLAVOR)).encode())
    assert manifests[0].tree == FLAVOR
    assert manifests[0].tree is not manifests[0].tree, "read anew"


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.property
@given(st.lists(VALUES, max_size=5), st.dictionaries(WORDS, VALUES, max_size=2), st.sampled_from([None, 0, 2]))
def test_the_items_of_any_json_list_are_found(items: list[Any], more: dict[str, Any], indent: int | None) -> None:
    tree = {**more, "items": items, "kind": "List"}
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    cut = cut_json(text, 0)
    assert cut is not None
    assert [json.loads(text[each.start : each.end]) for each in cut.pieces] == items
    assert json.loads(cut.head) == {**tree, "items": []}
    assert cut.head.count("\n") == text.count("\n")
    assert [each.line for each in cut.pieces] == [text.count("\n", 0, each.start) for each in cut.pieces]


@pytest.mark.property
@given(st.lists(VALUES, min_size=1, max_size=5), st.dictionaries(WORDS, VALUES, max_size=2), st.booleans())
def test_the_items_of_any_yaml_list_are_found(items: list[Any], more: dict[str, Any], deep: bool) -> None:
    more.pop("items", None)
    text = (indented if deep else as_yaml)({**more, "items": items, "kind": "List"})
    cut = cut_yaml(text)
    assert cut is not None
    whole = parse(text.encode())[0].tree
    read = [parse(yaml_item(text, each).encode()) for each in cut.pieces]
    assert [found[0].tree if found else None for found in read] == whole["items"]
    assert parse(cut.head.encode())[0].tree == {**whole, "items": []}


TEXTS = [write(tree) for write in WRITERS for tree in SETS.values()]


@pytest.mark.property
@given(st.sampled_from(TEXTS), st.integers(0, 2000), st.integers(0, 40), st.text('{}[]",:-\n items', max_size=8))
def test_a_damaged_list_is_answered_at_lines_that_are_there(text: str, at: int, length: int, instead: str) -> None:
    damaged = text[:at] + instead + text[at + length :]
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, 200)
        found, *_ = read(damaged)
    assert all(1 <= (each.line or 0) <= damaged.count("\n") + 1 for each in found)
