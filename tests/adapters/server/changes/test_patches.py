"""JSON patches and strategic merges: results and refusals."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.server.changes.patches import OPERATIONS_MAX, PatchRefused, json_patch, strategic_merge
from makeway.api.reading.documents import DEPTH_MAX, Tree
from makeway.api.versions import Kind, find_kind


def kind(api_version: str, name: str) -> Kind:
    found = find_kind(api_version, name)
    assert found is not None
    return found


POD, NODE, QUEUE = kind("v1", "Pod"), kind("v1", "Node"), kind("kueue.x-k8s.io/v1beta2", "ClusterQueue")


# --- JSON patch ------------------------------------------------------------------------------------------------------


def op(op: str, path: str, value: Any = ..., source: str | None = None) -> dict[str, Any]:
    more = {} if value is ... else {"value": value}
    return {"op": op, "path": path, **more, **({} if source is None else {"from": source})}


@dataclass(frozen=True)
class Patched:
    says: str
    target: Tree
    operations: list[dict[str, Any]]
    becomes: Tree


PATCHED = [
    Patched("adds a field", {"a": 1}, [op("add", "/b", 2)], {"a": 1, "b": 2}),
    Patched("an add replaces what is there", {"a": 1}, [op("add", "/a", 2)], {"a": 2}),
    Patched("adds into a list", {"a": [1, 3]}, [op("add", "/a/1", 2)], {"a": [1, 2, 3]}),
    Patched("adds at the end of a list, by number", {"a": [1]}, [op("add", "/a/1", 2)], {"a": [1, 2]}),
    Patched("adds at the end of a list, by dash", {"a": [1]}, [op("add", "/a/-", 2)], {"a": [1, 2]}),
    Patched("a null is a value", {"a": 1}, [op("add", "/b", None)], {"a": 1, "b": None}),
    Patched("removes a field", {"a": 1, "b": 2}, [op("remove", "/b")], {"a": 1}),
    Patched("removes from a list", {"a": [1, 2]}, [op("remove", "/a/0")], {"a": [2]}),
    Patched("replaces in a list", {"a": [1, 2]}, [op("replace", "/a/1", 3)], {"a": [1, 3]}),
    Patched("replaces the whole document", {"a": 1}, [op("replace", "", {"b": 1})], {"b": 1}),
    Patched("moves", {"a": {"b": 1}}, [op("move", "/c", source="/a/b")], {"a": {}, "c": 1}),
    Patched("moves within a list", {"a": [1, 2, 3]}, [op("move", "/a/2", source="/a/0")], {"a": [2, 3, 1]}),
    Patched("copies", {"a": {"b": [1]}}, [op("copy", "/c", source="/a/b"), op("add", "/c/-", 2)],
            {"a": {"b": [1]}, "c": [1, 2]}),
    Patched("tests and goes on", {"a": {"x": [1]}}, [op("test", "/a", {"x": [1.0]}), op("remove", "/a")], {}),
    Patched("~1 is a slash and ~0 a tilde", {"a/b~": 1}, [op("replace", "/a~1b~0", 2)], {"a/b~": 2}),
    Patched("~01 is not a slash", {"~1": 1}, [op("remove", "/~01")], {}),
    Patched("the empty key is a key", {"": 1}, [op("remove", "/")], {}),
    Patched("the next one sees what one did", {}, [op("add", "/a", {}), op("add", "/a/b", 1)], {"a": {"b": 1}}),
]  # fmt: skip


@pytest.mark.parametrize("case", PATCHED, ids=lambda case: case.says)
def test_a_json_patch(case: Patched) -> None:
    before = deepcopy(case.target)
    assert json_patch(case.target, case.operations) == case.becomes
    assert case.target == before, "the tree that was given has changed"


@dataclass(frozen=True)
class Refused:
    says: str
    patch: Any
    code: int
    words: str


REFUSED = [
    Refused("not a list", {"op": "add"}, 400, "a JSON patch is a list of operations, got a mapping"),
    Refused("not an operation", [1], 400, "[0]: expected an operation, got 1"),
    Refused("no such operation", [op("put", "/a", 1)], 400, '[0].op: "put" is none of add'),
    Refused("no value", [op("add", "/a")], 400, "[0].value: required by add"),
    Refused("no path", [{"op": "remove"}], 400, "[0].path: expected a JSON pointer, got null"),
    Refused("no slash", [op("remove", "a")], 400, '[0].path: "a" does not begin with a slash'),
    Refused("no source", [op("move", "/a")], 400, "[0].from: expected a JSON pointer, got null"),
    Refused("nothing to remove", [op("test", "/a", 1), op("remove", "/b")], 422, "[1].path: /b is not there"),
    Refused("nothing to replace", [op("replace", "/l/2", 1)], 422, "[0].path: /l/2 is not there"),
    Refused("no parent", [op("add", "/x/y", 1)], 422, "[0].path: /x is not there"),
    Refused("beyond the end", [op("add", "/l/3", 1)], 422, "[0].path: /l/3 is no place in a list of 2"),
    Refused("a leading zero", [op("remove", "/l/01")], 422, "[0].path: /l/01 is not there"),
    Refused("a negative place", [op("remove", "/l/-1")], 422, "[0].path: /l/-1 is not there"),
    Refused("into a leaf", [op("add", "/a/b", 1)], 422, "[0].path: /a is neither a mapping nor a list"),
    Refused("into itself", [op("move", "/l/0", source="/l")], 422, "[0].path: /l cannot be moved into itself"),
    Refused("a test that fails", [op("test", "/a", 2)], 422, "[0].path: the value at /a is not the one"),
    Refused("true is not 1", [op("test", "/a", True)], 422, "[0].path: the value at /a is not the one"),
    Refused("too many", [op("test", "/a", 1)] * (OPERATIONS_MAX + 1), 413, "10001 operations, more than the 10000"),
    Refused("copies that explode", [op("copy", "/l/-", source="/l")] * 40, 413, "the copies of this JSON patch"),
    Refused("too deep", [op("copy", "/d", source="")] * (DEPTH_MAX + 1), 422, "nested deeper than"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.says)
def test_a_json_patch_is_refused_as_a_whole(case: Refused) -> None:
    target = {"a": 1, "l": [1, 2]}
    with pytest.raises(PatchRefused) as refused:
        json_patch(target, case.patch)
    assert refused.value.code == case.code
    assert case.words in refused.value.message
    assert target == {"a": 1, "l": [1, 2]}


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab~/", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def operations_between(old: Tree, new: Tree, path: str = "") -> list[dict[str, Any]]:
    """A patch, computed the simple way."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if repr(old) == repr(new) else [op("replace", path, new)]
    steps = {key: f"{path}/{key.replace('~', '~0').replace('/', '~1')}" for key in old.keys() | new.keys()}
    gone = [op("remove", steps[key]) for key in old if key not in new]
    added = [op("add", steps[key], new[key]) for key in new if key not in old]
    return (
        gone + added + [each for key in old.keys() & new for each in operations_between(old[key], new[key], steps[key])]
    )


@pytest.mark.property
@given(TREES, TREES)
def test_a_patch_leads_from_any_tree_to_any_other(old: Tree, new: Tree) -> None:
    operations = operations_between(old, new)
    assert json_patch(old, [*operations, op("test", "", new)]) == new


@pytest.mark.property
@given(TREES, st.lists(st.fixed_dictionaries({
    "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]),
    "path": st.text("/ab01-", max_size=5), "from": st.text("/ab01-", max_size=5), "value": TREES,
}), max_size=4))  # fmt: skip
def test_whatever_comes_is_done_or_refused(tree: Tree, operations: list[dict[str, Any]]) -> None:
    before = deepcopy(tree)
    with suppress(PatchRefused):
        json_patch(tree, operations)
    assert tree == before


# --- strategic merge -------------------------------------------------------------------------------------------------


def containers(*names: str, image: str = "old") -> list[dict[str, str]]:
    return [{"name": name, "image": image} for name in names]


@dataclass(frozen=True)
class Merged:
    says: str
    change: Tree
    becomes: Tree


TARGET: dict[str, Tree] = {
    "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]},
    "spec": {
        "containers": containers("a", "b", "c"),
        "tolerations": [{"key": "t"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "nodeSelector": {"zone": "1"},
    },
}
MERGED = [
    Merged("a mapping is merged, a null removes", {"metadata": {"labels": {"a": None, "c": "3"}}},
           {"labels": {"b": "2", "c": "3"}}),
    Merged("an item is found by its key", {"spec": {"containers": [{"name": "b", "image": "new"}]}},
           {"containers": [*containers("a"), *containers("b", image="new"), *containers("c")]}),
    Merged("an item that is not there comes last", {"spec": {"containers": [{"name": "d", "image": "new"}]}},
           {"containers": [*containers("a", "b", "c"), *containers("d", image="new")]}),
    Merged("an item is deleted", {"spec": {"containers": [{"name": "b", "$patch": "delete"}]}},
           {"containers": containers("a", "c")}),
    Merged("a list is replaced on request", {"spec": {"containers": [{"$patch": "replace"}, *containers("z")]}},
           {"containers": containers("z")}),
    Merged("a list without a key is replaced", {"spec": {"tolerations": [{"key": "u"}]}},
           {"tolerations": [{"key": "u"}]}),
    Merged("a mapping is replaced on request", {"spec": {"nodeSelector": {"$patch": "replace", "disk": "ssd"}}},
           {"nodeSelector": {"disk": "ssd"}}),
    Merged("a mapping is emptied on request", {"spec": {"nodeSelector": {"$patch": "delete"}}}, {"nodeSelector": {}}),
    Merged("plain values are added once", {"metadata": {"finalizers": ["z", "x", "z"]}},
           {"finalizers": ["x", "y", "z"]}),
    Merged("plain values are taken out", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}},
           {"finalizers": ["y"]}),
    Merged("what is taken out and put in is in", {"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["x"]}}, {"finalizers": ["x", "y"]}),
    Merged("an order is kept to, others keep their place",
           {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
           {"containers": [*containers("b", "c", "a")]}),
    Merged("new items go where the order says", {"spec": {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "d"}, {"name": "b"}],
        "containers": containers("d")}}, {"containers": containers("a", "d", "b", "c")}),
    Merged("of a union only what is retained stays", {"spec": {"volumes": [
        {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
           {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    Merged("nulls in what is new mean nothing", {"spec": {"affinity": {"nodeAffinity": None, "podAffinity": {}}}},
           {"affinity": {"podAffinity": {}}}),
]  # fmt: skip


@pytest.mark.parametrize("case", MERGED, ids=lambda case: case.says)
def test_a_strategic_merge(case: Merged) -> None:
    before = deepcopy(TARGET)
    merged = strategic_merge(POD, "v1", TARGET, case.change)
    (block,) = case.change
    for name, each in case.becomes.items():
        assert merged[block][name] == each
    rest = {name: each for name, each in before[block].items() if name not in case.becomes}
    assert {name: each for name, each in merged[block].items() if name not in case.becomes} == rest
    assert before == TARGET, "the tree that was given has changed"


def test_items_that_share_a_key_are_not_lost() -> None:
    ports = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]
    target = {"spec": {"containers": [{"name": "a", "ports": ports}]}}
    change = {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 443}]}]}}
    merged = strategic_merge(POD, "v1", target, change)
    assert merged["spec"]["containers"][0]["ports"] == [*ports, {"containerPort": 443}]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ([], 400, "a strategic merge patch is a mapping, got a list"),
        ({"$patch": "x"}, 400, '$patch: "x" is none of merge, replace, delete'),
        ({"spec": {"containers": [{"image": "x"}]}}, 400, "spec.containers: an item has no name"),
        ({"spec": {"containers": [{"name": {}}]}}, 400, "items are matched by texts and numbers, not by a mapping"),
        ({"spec": {"$retainKeys": ["a"], "b": 1}}, 400, "spec.$retainKeys: b is set beside it but not retained"),
        ({"spec": {"$retainKeys": "a"}}, 400, "spec.$retainKeys: expected a list of fields"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}, 400, "expected a list"),
        ({"spec": {"$setElementOrder/containers": "x"}}, 400, "expected a list"),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": containers("z")}},
            400,
            "spec.$setElementOrder/containers: does not list the items of the patch in their order",
        ),
    ],
)
def test_a_strategic_merge_is_refused(change: Tree, code: int, words: str) -> None:
    with pytest.raises(PatchRefused) as refused:
        strategic_merge(POD, "v1", TARGET, change)
    assert refused.value.code == code
    assert words in refused.value.message


def test_our_kinds_take_no_strategic_merge() -> None:
    with pytest.raises(PatchRefused, match="accepted media types include: application/json-patch") as refused:
        strategic_merge(QUEUE, "v1beta2", {}, {})
    assert refused.value.code == 415


def test_large_lists_are_merged_in_a_moment() -> None:
    """Quadratic work on 30,000 items would take minutes."""
    target = {"metadata": {"finalizers": [f"a/{i}" for i in range(30_000)]}}
    gone = [f"a/{i}" for i in range(0, 30_000, 2)]
    change = {
        "metadata": {"$deleteFromPrimitiveList/finalizers": gone, "finalizers": [f"b/{i}" for i in range(30_000)]}
    }
    assert len(strategic_merge(NODE, "v1", target, change)["metadata"]["finalizers"]) == 45_000


@pytest.mark.property
@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_an_order_is_kept_whatever_was_there(present: list[str], wanted: list[str]) -> None:
    target = {"spec": {"containers": containers(*present)}}
    order = [{"name": name} for name in wanted]
    change = {"spec": {"$setElementOrder/containers": order, "containers": containers(*wanted, image="new")}}
    names = [each["name"] for each in strategic_merge(POD, "v1", target, change)["spec"]["containers"]]
    assert [name for name in names if name in wanted] == wanted
    others = [name for name in present if name not in wanted]
    assert [name for name in names if name not in wanted] == others
