"""What is written can be read back: every kind, as typed objects, as trees, and as recorded elsewhere."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings

from makeway.api.codec import Reading, decode, encode, read, to_tree
from makeway.api.objects.workload import Workload
from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import Mode
from makeway.api.versions import KINDS, Kind, kind_of
from makeway.testing.strategies import objects, objects_of, typed

pytestmark = pytest.mark.slow  # much is drawn: for `make test` and the soak

Case = tuple[Kind, str, dict[str, Tree]]
# This property covers all kinds, so it gets more draws than a property of one kind.
for_all_kinds = settings(max_examples=settings().max_examples * 8)
STORED = [(kind, kind.versions[0]) for kind in KINDS]
SERVED = [(kind, version) for kind in KINDS for version in kind.versions]
WITH_RAW_PARTS = [
    (kind, version) for kind, version in STORED if not kind.ours or (kind.name, len(kind.versions)) == ("Workload", 2)
]


def read_well(tree: Tree, mode: Mode = "Strict") -> Reading:
    reading = read(tree, mode)
    errors = [str(problem) for problem in reading.problems if problem.severity == "error"]
    assert errors == []
    assert reading.value is not None
    return reading


@pytest.mark.property
@for_all_kinds
@given(case=objects_of(STORED, unknown=True))
def test_a_typed_object_survives_its_bytes(case: Case) -> None:
    kind, _, tree = case
    value = typed(tree, kind.type)
    written = encode(value)
    back = decode(written, kind.type)
    assert back == value
    assert encode(back) == written


@pytest.mark.property
@for_all_kinds
@given(case=objects_of(SERVED))
def test_a_tree_is_read_without_errors_and_what_was_read_is_read_again_alike(case: Case) -> None:
    kind, version, tree = case
    before = copy.deepcopy(tree)
    first = read_well(tree)
    assert tree == before, "reading leaves the tree as it is"
    assert (first.kind, first.version) == (kind, version)
    assert first.value is not None
    again = read_well(to_tree(first.value))
    assert again.value == first.value


@pytest.mark.property
@for_all_kinds
@given(case=objects_of(WITH_RAW_PARTS, unknown=True))
def test_raw_parts_keep_their_meaning_fields_that_nobody_knows_included(case: Case) -> None:
    kind, _, tree = case
    reading = read_well(tree, "Ignore")
    assert reading.value is not None
    shown = to_tree(reading.value)
    for path, part in raw_parts(kind, tree):
        assert without_empty(at(shown, path)) == without_empty(part), path


def without_empty(tree: Tree) -> Tree:
    """Without empty lists and maps at any depth; other tests check which of them a server writes."""
    if isinstance(tree, list):
        return [without_empty(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    inner = {name: without_empty(each) for name, each in tree.items()}
    return {name: each for name, each in inner.items() if each not in ({}, [])}


def test_no_default_that_says_something_is_left_out_of_what_is_written() -> None:
    """Readers of an object elsewhere do not know our defaults, so only empty values may be left out."""
    silent = [
        f"{struct.__name__}.{field.encode_name}"
        for struct in sorted(structs_within([kind.type for kind in KINDS]), key=lambda each: each.__name__)
        for field in msgspec.structs.fields(struct)
        if field.default is not msgspec.NODEFAULT and field.default and not isinstance(field.default, msgspec.Raw)
    ]
    assert silent == []


def structs_within(types: list[Any]) -> set[type[msgspec.Struct]]:
    """Every struct that a value of these types may hold, themselves included."""
    found: set[type[msgspec.Struct]] = set()
    while types:
        each = types.pop()
        types += get_args(each)
        if isinstance(each, type) and issubclass(each, msgspec.Struct) and each not in found:
            found.add(each)
            types += get_type_hints(each).values()
    return found


def raw_parts(kind: Kind, tree: dict[str, Tree]) -> Iterator[tuple[tuple[str | int, ...], Tree]]:
    if kind.name == "Workload":
        for i, pod_set in enumerate(tree["spec"]["podSets"]):
            yield ("spec", "podSets", i, "template"), pod_set["template"]
    else:
        hints = get_type_hints(kind.type)
        for field in msgspec.structs.fields(kind.type):
            if "Raw" in str(hints[field.name]) and field.encode_name in tree:
                yield (field.encode_name,), tree[field.encode_name]


def at(tree: Tree, path: tuple[str | int, ...]) -> Tree:
    for step in path:
        tree = tree[step]
    return tree


def test_kinds_that_two_groups_serve_are_one_type() -> None:
    gangs = [kind for kind in KINDS if kind.type.__name__ == "GangWorkload"]
    assert [kind.group for kind in gangs] == ["scheduling.k8s.io", "scheduling.makeway.dev"]
    assert kind_of(gangs[0].type) is gangs[0]


@pytest.mark.property
@given(tree=objects(kind_of(Workload)))
def test_nulls_read_as_absent(tree: dict[str, Tree]) -> None:
    value = read_well({**tree, "status": None}).value
    assert isinstance(value, Workload)
    assert value.status is None


# --- objects that another system recorded ---------------------------------------------------------------------------


def recorded_cases(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl*")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        yield from map(json.loads, data.splitlines())


def embedded_objects(value: Tree) -> Iterator[dict[str, Tree]]:
    """Every object with a kind, however deep a case holds it."""
    if isinstance(value, dict):
        if "apiVersion" in value and "kind" in value and "metadata" in value:
            yield value
        else:
            for each in value.values():
                yield from embedded_objects(each)
    elif isinstance(value, list):
        for each in value:
            yield from embedded_objects(each)


@pytest.mark.conformance
def test_every_recorded_object_is_read_without_a_word(shared: Path) -> None:
    folder = shared / "vectors" / "kueue"
    if not folder.is_dir():
        pytest.skip("no recorded vectors in the folder of shared data")
    seen: set[str] = set()  # cases repeat their objects
    told: dict[str, list[Problem]] = {}
    for case in recorded_cases(folder):
        for tree in embedded_objects([case.get("objects", []), case.get("given", {})]):
            text = json.dumps(tree)
            if text in seen:
                continue
            seen.add(text)
            reading = read(tree, "Ignore", limits=False)
            if reading.problems or reading.value is None:
                told[case["name"]] = reading.problems
                continue
            again = read(to_tree(reading.value), "Ignore", limits=False)
            assert again.value == reading.value, case["name"]
    assert told == {}
    assert seen
