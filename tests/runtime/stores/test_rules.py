"""Objects in memory: writes that are taken back leave no trace."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from makeway.api.objects.kubernetes import Namespace, Node
from makeway.api.versions import kind_of
from makeway.core.model import InvariantError, Millis
from makeway.runtime.ports import (
    OBJECT_BYTES_MAX,
    OWN_BYTES_MAX,
    Clock,
    Propagation,
    SeededNames,
    Stored,
    StoreError,
    TooLarge,
    late_finalizers,
)
from makeway.runtime.stores.history import History
from makeway.runtime.stores.pages import StoredObjects
from makeway.runtime.stores.rules import StoreRules
from makeway.testing.conformance import FLAVOR, HELD, QUEUE, SPOT, owned_by, queue

NODE = kind_of(Node)
NOON = "2026-01-01T12:00:00Z"
NAMES = st.sampled_from("abc")
CALLS = st.lists(st.tuples(st.sampled_from(("create", "own", "disown", "hold", "release", "delete")), NAMES, NAMES))


def ruled(looks: int | None = None) -> StoreRules:
    return StoreRules(History(1_000), lambda: Millis(0), SeededNames(), looks=looks)


def ticks(number: int) -> Clock:
    """A clock that answers so often, and then fails."""
    times = iter(map(Millis, range(number)))
    return lambda: next(times)


def play(objects: StoreRules, calls: list[tuple[str, str, str]]) -> None:
    """Make these calls; calls that make no sense at the time are refused."""
    for verb, name, other in calls:
        with suppress(StoreError):
            match verb:
                case "create":
                    objects.create(queue(name, finalizers=[HELD] if name == other else []))
                    objects.create({**SPOT, "metadata": {"name": name}})
                case "own":
                    owners = owned_by(objects.get(QUEUE, "team", other), blocks=True)
                    objects.patch(QUEUE, "team", name, {"metadata": {"ownerReferences": owners}})
                case "disown":
                    objects.patch(QUEUE, "team", name, {"metadata": {"ownerReferences": None}})
                case "hold":
                    objects.patch(QUEUE, "team", name, {"spec": {"stopPolicy": "Hold"}})
                case "release":
                    objects.patch(QUEUE, "team", name, {"metadata": {"finalizers": None}})
                case "delete":
                    objects.delete(QUEUE, "team", name, propagation="Foreground" if name < other else None)


def all_of(objects: StoreRules) -> dict[str, Any]:
    """Everything it knows, except the order in which an owner's dependents came."""
    return {
        "objects": {key: dict(each) for key, each in objects._objects.items() if each},
        "by uid": dict(objects._by_uid),
        "dependents": {owner: set(each) for owner, each in objects._dependents.items()},
        "suspects": list(objects._suspects._uids),
        "changes": objects.uncommitted(),
        "latest": (objects.resource_version, objects.latest(QUEUE), objects.latest(FLAVOR)),
        "shown": (objects.list(QUEUE), objects.list(FLAVOR), objects.watch(QUEUE, "1").poll()),
    }


@pytest.mark.property
@given(CALLS, CALLS, st.sampled_from([None, 0, 1, 2]))
def test_what_is_taken_back_leaves_no_trace(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]], looks: int | None
) -> None:
    objects = ruled(looks)
    play(objects, before)
    known, mark = all_of(objects), objects.mark()
    play(objects, after)
    objects.list(QUEUE)
    objects.take_back(mark)
    assert all_of(objects) == known


@pytest.mark.property
@given(CALLS, st.lists(st.integers(1, 3)), st.lists(st.booleans()))
def test_garbage_that_is_collected_in_pieces_and_over_restarts_is_the_same(
    calls: list[tuple[str, str, str]], pieces: list[int], restarts: list[bool]
) -> None:
    objects, other = ruled(0), ruled(0)
    play(objects, calls)
    play(other, calls)
    objects.collect()
    for most, restart in zip_longest(pieces, restarts, fillvalue=1):
        other.collect(int(most))
        if restart:
            there = list(other.all())
            other = ruled(0)
            for each in there:
                other.restore(each)
            other.suspect_remains()
    other.collect()
    assert not other.has_suspects
    assert _states(other) == _states(objects)


def _states(objects: StoreRules) -> list[tuple[object, ...]]:
    """All states, in whatever order they came about."""
    return [(each.name, each.uid, each.owners, each.finalizers, each.deleting) for each in objects.list(QUEUE).items]


@pytest.mark.property
@given(CALLS)
def test_changes_applied_elsewhere_give_the_same_objects(calls: list[tuple[str, str, str]]) -> None:
    objects, other = ruled(), StoredObjects(History(1_000))
    play(objects, calls)
    for change in objects.uncommitted():
        other.apply(change)
    assert (other.list(QUEUE), other.list(FLAVOR)) == (objects.list(QUEUE), objects.list(FLAVOR))
    assert other.watch(QUEUE, "1").poll() == objects.watch(QUEUE, "1").poll()


def test_a_revision_that_comes_again_shows_its_own_state() -> None:
    objects = ruled()
    mark = objects.mark()
    objects.create(queue("a"))
    assert [each.name for each in objects.list(QUEUE).items] == ["a"]
    objects.take_back(mark)
    objects.create(queue("b"))
    assert [each.name for each in objects.list(QUEUE).items] == ["b"]


def test_a_call_that_failed_halfway_can_be_taken_back() -> None:
    objects = StoreRules(History(1_000), ticks(3), SeededNames())
    owner = objects.create(queue("owner"))
    for name in "ab":
        objects.create(queue(name, ownerReferences=owned_by(owner), finalizers=[HELD]))
    known, mark = all_of(objects), objects.mark()
    with pytest.raises(StopIteration):
        objects.delete(QUEUE, "team", "owner")  # it is gone when the clock is asked for the deletion of its dependents
    assert all_of(objects) != known
    objects.take_back(mark)
    assert all_of(objects) == known


def test_what_is_forgotten_cannot_be_taken_back() -> None:
    objects = ruled()
    mark = objects.mark()
    objects.create(queue())
    objects.compact()
    with pytest.raises(InvariantError, match="revision 1"):
        objects.take_back(mark)


def test_the_newest_revision_of_a_kind_is_remembered_when_its_changes_are_forgotten() -> None:
    objects = ruled()
    created = objects.create(queue())
    objects.create(SPOT)
    objects.compact(keep=1)
    assert objects.latest(QUEUE) == created.revision
    objects.compact()
    assert objects.latest(QUEUE) == created.revision
    mark = objects.mark()
    objects.update(queue(stop="Hold"))
    objects.take_back(mark)
    assert objects.latest(QUEUE) == created.revision


def test_changes_of_some_kinds_are_not_counted() -> None:
    """As in Kubernetes: a ConfigMap has no generation, not even when it is being deleted."""
    objects = ruled()
    plain = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "team", "name": "m", "finalizers": [HELD]},
    }
    kind = objects.create(plain).kind
    updated = objects.update({**plain, "data": {"a": "b"}})
    leaving = objects.delete(kind, "team", "m")
    assert leaving.deleting
    assert [each.generation for each in (updated, leaving)] == [0, 0]
    assert "generation" not in leaving.tree()["metadata"]


# --- size ------------------------------------------------------------------------------------------------------------


def roomy() -> StoreRules:
    """A store that keeps unknown fields, so that an object can be large."""
    return StoreRules(History(1_000), lambda: Millis(0), SeededNames(), mode="Ignore")


def node(**texts: int) -> dict[str, Any]:
    spec = {name: "x" * size for name, size in texts.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "finalizers": [HELD]}, "spec": spec}


def with_status(each: Stored, size: int) -> Node:
    value: Node = each.value()
    return replace(value, status=msgspec.Raw(msgspec.json.encode({"phase": "x" * size})))


def test_clients_have_less_room_than_our_own_writes() -> None:
    objects = roomy()
    with pytest.raises(TooLarge, match='nodes "n" would have 1600'):
        objects.create(node(a=1_600_000))
    assert objects.count(("", "Node")) == 0
    each = objects.put(objects.create(node(a=1_500_000)), with_status(objects.get(NODE, "", "n"), 400_000))
    assert OBJECT_BYTES_MAX < len(each.data) < OWN_BYTES_MAX
    with pytest.raises(TooLarge, match=f"more than the {OWN_BYTES_MAX} that"):
        objects.put(each, with_status(each, 900_000))
    with pytest.raises(TooLarge, match=f"more than the {OBJECT_BYTES_MAX} that"):
        objects.update(node(a=1_500_000, b=1))
    assert objects.get(NODE, "", "n") is each, "nothing has changed"


def test_what_is_too_large_can_become_smaller_and_go() -> None:
    objects = roomy()
    objects.create(node(a=1_500_000))
    each = objects.put(objects.get(NODE, "", "n"), with_status(objects.get(NODE, "", "n"), 596_000))
    assert OWN_BYTES_MAX - len(each.data) < 1_500
    smaller = objects.update(node(a=1_400_000))
    assert OBJECT_BYTES_MAX < len(smaller.data) < len(each.data)
    marked = objects.delete(NODE, "", "n", propagation="Foreground")
    assert marked.deleting
    assert len(marked.data) > len(smaller.data), "its mark is added whatever there is"
    objects.patch(NODE, "", "n", {"metadata": {"finalizers": None}})
    assert objects.count(("", "Node")) == 0


def test_a_finalizer_is_looked_up_not_searched_for() -> None:
    objects = roomy()
    names = [f"example.com/f{i}" for i in range(400)]
    objects.create({**node(), "metadata": {"name": "n", "finalizers": names}})
    each = objects.delete(NODE, "", "n", propagation="Background")
    looks = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return str.__eq__(self, other)

    asked = replace(each.value().metadata, finalizers=tuple(map(Name, names)))
    assert list(late_finalizers(each, asked)) == []
    assert looks <= 2 * len(names)


def test_a_dependent_that_cannot_be_let_go_is_not_tried_for_ever() -> None:
    """A namespace that is being deleted, with finalizers in its spec that cannot be read."""
    objects = ruled(0)
    owner = objects.create({**SPOT, "metadata": {"name": "owner"}})
    references = [
        {"apiVersion": owner.tree()["apiVersion"], "kind": "ResourceFlavor", "name": "owner", "uid": owner.uid}
    ]
    meta = {"name": "odd", "uid": "u", "resourceVersion": "1", "creationTimestamp": NOON, "deletionTimestamp": NOON}
    odd = {"apiVersion": "v1", "kind": "Namespace", "metadata": {**meta, "ownerReferences": references}}
    kind = kind_of(Namespace)
    objects.restore(Stored.read(kind, msgspec.json.encode({**odd, "spec": {"finalizers": 7}})))
    objects.delete(FLAVOR, "", "owner", propagation="Orphan")
    assert objects.collect(100) < 10
    assert not objects.has_suspects
    assert not objects.list(FLAVOR).items


def test_a_namespace_that_lasts_does_not_go_with_an_owner() -> None:
    """A user may give it an owner, such as one that is gone already; all that is in it would go too."""
    objects = ruled()
    owner = objects.create({**SPOT, "metadata": {"name": "owner"}})
    for name in ("default", "passing"):
        meta = {"name": name, "ownerReferences": owned_by(owner)}
        objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    objects.delete(FLAVOR, "", "owner")
    assert [(each.name, each.owners) for each in objects.list(kind_of(Namespace)).items] == [("default", ())]


@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
def test_a_chain_of_owners_goes_as_a_whole_however_long(propagation: Propagation) -> None:
    """Without nested calls, and with a few checks of each object."""
    looks = []
    for length in (500, 1000):
        objects = StoreRules(History(10_000), lambda: Millis(0), SeededNames(), looks=0)
        above = objects.create(queue("q0"))
        for number in range(1, length):
            above = objects.create(queue(f"q{number}", ownerReferences=owned_by(above, blocks=True)))
        objects.collect()
        objects.delete(QUEUE, "team", "q0", propagation=propagation)
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(300)
        try:
            looks.append(objects.collect())
        finally:
            sys.setrecursionlimit(limit)
        assert not objects.list(QUEUE).items
    assert looks[1] <= 2.3 * looks[0]
