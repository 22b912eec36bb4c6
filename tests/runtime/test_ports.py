"""The Store port: errors by what the caller can do, objects as bytes with a header, rules that Stores share."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import Pod
from makeway.api.objects.workload import Workload
from makeway.api.problems import Problem
from makeway.api.versions import kind_of
from makeway.core.model import Expression, Millis
from makeway.runtime import ports
from makeway.runtime.ports import (
    Filter,
    Invalid,
    Retryable,
    Revision,
    SeededNames,
    Store,
    Stored,
    StoreError,
    TooManyRequests,
    called,
    deletion_finalizers,
    kind_key,
    merged,
    read_token,
    token_after,
)

WORKLOAD = kind_of(Workload)


def stored(version: int = 5, **metadata: Any) -> Stored:
    store = MemoryStore(lambda: Millis(0))
    containers = [{"name": "c", "image": "i"}]
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}]
    meta = {"name": "w", "namespace": "team", **metadata}
    made = store.create(
        {"apiVersion": WORKLOAD.api_version, "kind": "Workload", "metadata": meta, "spec": {"podSets": sets}}
    )
    return made.at(str(version))


# --- errors -----------------------------------------------------------------------------------------------------------


def errors() -> list[type[StoreError]]:
    found = [each for _, each in inspect.getmembers(ports, inspect.isclass) if issubclass(each, StoreError)]
    return [each for each in found if each is not StoreError]


def test_every_error_stands_in_the_tree_of_the_docstring() -> None:
    drawn = re.findall(r"── (\w+)", ports.__doc__ or "")
    assert sorted(drawn) == sorted(each.__name__ for each in errors())


@pytest.mark.parametrize("error", errors(), ids=lambda each: each.__name__)
def test_every_error_has_a_code_and_a_reason_of_the_kubernetes_api(error: type[StoreError]) -> None:
    assert 400 <= error.code < 600
    assert re.fullmatch(r"[A-Z][A-Za-z]+", error.reason)


def test_what_is_retryable_may_say_when() -> None:
    assert TooManyRequests("slow down", Millis(1500)).retry_after == 1500
    assert Retryable().retry_after is None


def test_a_refusal_shows_all_problems() -> None:
    refused = Invalid([Problem("a", "is wrong"), Problem("b", "is missing", "add it")])
    assert str(refused) == "a: is wrong\nb: is missing\n  hint: add it"


# --- objects ----------------------------------------------------------------------------------------------------------


def test_a_header_says_what_all_readers_ask() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1"}
    each = stored(labels={"a": "1"}, finalizers=["example.com/f"], ownerReferences=[owner])
    again = Stored.read(WORKLOAD, each.data)
    assert again == each
    assert (again.name, again.namespace, again.revision) == ("w", "team", 5)
    assert (again.labels, again.finalizers, again.owners) == ({"a": "1"}, ("example.com/f",), ("u-1",))
    assert not again.deleting


def test_a_stored_object_can_stand_in_a_set() -> None:
    assert len({stored(), stored()}) == 1


def test_a_tree_is_the_callers_own() -> None:
    each = stored()
    each.tree()["metadata"]["name"] = "changed"
    assert each.tree()["metadata"]["name"] == "w"


def test_a_tree_speaks_the_version_that_is_asked_for() -> None:
    assert stored().tree()["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert stored().tree("v1beta1")["apiVersion"] == "kueue.x-k8s.io/v1beta1"


def test_the_memory_store_has_every_method_of_the_port() -> None:
    wanted = [name for name in vars(Store) if not name.startswith("_")]
    for name in wanted:
        asked, given = inspect.signature(getattr(Store, name)), inspect.signature(getattr(MemoryStore, name))
        assert list(given.parameters) == list(asked.parameters), name
    assert len(wanted) == 9


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_seed_decides_all_names() -> None:
    def drawn(seed: int) -> list[str]:
        names = SeededNames(seed)
        return [each for _ in range(20) for each in (names.uid(), names.suffix())]

    assert drawn(3) == drawn(3)
    assert set(drawn(3)).isdisjoint(drawn(4))
    assert len(set(drawn(3))) == 40


def test_uids_look_like_uids() -> None:
    shape = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(shape, SeededNames(1).uid())
    assert re.fullmatch(r"[a-z0-9]{5}", SeededNames(1).suffix())


# --- shared rules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "change", "result"),
    [  # the examples of RFC 7386 that are not alike
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, None, None),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ],
)
def test_a_merge_patch_does_what_its_rfc_says(target: Any, change: Any, result: Any) -> None:
    before = repr((target, change))
    assert merged(target, change) == result
    assert repr((target, change)) == before


def test_a_kind_is_called_as_the_api_calls_it() -> None:
    assert called(WORKLOAD, "w") == 'workloads.kueue.x-k8s.io "w"'
    assert called(kind_of(Pod), "p") == 'pods "p"'


@pytest.mark.parametrize(
    ("propagation", "left"),
    [
        (None, ("orphan", "a/b")),
        ("Background", ("a/b",)),
        ("Foreground", ("a/b", "foregroundDeletion")),
        ("Orphan", ("a/b", "orphan")),
    ],
)
def test_a_propagation_is_kept_as_a_finalizer(propagation: Any, left: tuple[str, ...]) -> None:
    assert deletion_finalizers(("orphan", "a/b"), propagation) == left


def test_a_token_brings_back_where_a_list_ended() -> None:
    assert read_token(WORKLOAD, token_after(12, stored())) == (12, ("team", "w"))


def test_a_filter_shows_what_leaves_it_as_it_last_was() -> None:
    red, blue = stored(6, labels={"colour": "red"}), stored(7, labels={"colour": "blue"})
    chosen = Filter(kind_key(WORKLOAD), "team", (Expression("colour", "In", ("red",)),))
    event = chosen.event(Revision("MODIFIED", red, blue))
    assert event is not None
    assert event.object is not None
    assert (event.type, event.resource_version) == ("DELETED", "7")
    assert (event.object.labels, event.object.resource_version) == ({"colour": "red"}, "7")
    assert Filter(kind_key(WORKLOAD), "other", ()).event(Revision("ADDED", None, red)) is None
    assert Filter(kind_key(kind_of(Pod)), None, ()).event(Revision("ADDED", None, red)) is None
