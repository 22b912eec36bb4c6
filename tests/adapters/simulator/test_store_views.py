"""Kinds that a second group serves: whichever name is used, the Store keeps one object."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import Event
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.ports import AlreadyExists, Invalid
from makeway.testing.conformance import QUEUE, queue

GANG, EVENTS = kind_of(GangWorkload), kind_of(Event)
OURS, THEIRS = "scheduling.makeway.dev/v1alpha1", "scheduling.k8s.io/v1alpha1"
Tree = dict[str, Any]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: Millis(0))


def gang(api_version: str, name: str = "g") -> Tree:
    groups = [{"name": "main", "policy": {"basic": {}}}]
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": api_version, "kind": "Workload", "metadata": metadata, "spec": {"podGroups": groups}}


def event(api_version: str, **fields: Any) -> Tree:
    return {"apiVersion": api_version, "kind": "Event", "metadata": {"name": "e", "namespace": "team"}, **fields}


def test_what_is_written_in_a_second_group_is_kept_once(store: MemoryStore) -> None:
    made = store.create(gang(OURS))
    assert (made.kind, made.tree()["apiVersion"]) == (GANG, THEIRS)
    assert [each.uid for each in store.list(GANG).items] == [made.uid]
    with pytest.raises(AlreadyExists):
        store.create(gang(THEIRS))
    change = {"apiVersion": OURS, "metadata": {"labels": {"a": "b"}}}
    assert store.patch(GANG, "team", "g", change).labels == {"a": "b"}
    store.update_status({**gang(OURS), "status": {"placed": "1/2"}})
    assert store.get(GANG, "team", "g").value().status.placed == "1/2"


def test_what_a_simulation_begins_with_is_kept_once_too(store: MemoryStore) -> None:
    store.load([gang(OURS)])
    assert [each.tree()["apiVersion"] for each in store.list(GANG).items] == [THEIRS]


def test_an_event_is_patched_in_the_words_of_either_group(store: MemoryStore) -> None:
    store.create(event("v1", involvedObject={"kind": "Pod", "name": "p", "namespace": "team"}))
    younger = {"apiVersion": "events.k8s.io/v1", "metadata": {"labels": {"a": "b"}}}
    assert store.patch(EVENTS, "team", "e", younger).labels == {"a": "b"}
    with pytest.raises(Invalid) as refused:
        store.patch(EVENTS, "team", "e", {"apiVersion": "events.k8s.io/v1", "note": "words"})
    assert [each.path for each in refused.value.problems] == ["note"]
    assert store.patch(EVENTS, "team", "e", {"message": "words"}).value().message == "words"


def test_a_watch_of_the_stored_kind_tells_what_is_written_in_the_second_group(store: MemoryStore) -> None:
    watch = store.watch(EVENTS)
    fields = {
        "regarding": {"kind": "Pod", "name": "p", "namespace": "team"}, "eventTime": "2026-01-01T12:00:00.000000Z",
        "reportingController": "c", "reportingInstance": "c-1", "action": "Tell", "reason": "Told", "type": "Normal",
    }  # fmt: skip
    store.create(event("events.k8s.io/v1", **fields))
    (seen,) = watch.poll()
    assert seen.object is not None
    assert seen.object.value().involved_object.name == "p"


def test_an_owner_that_is_named_in_its_second_group_is_there(store: MemoryStore) -> None:
    owner = store.create(gang(THEIRS, "owner"))
    for name, api_version in (("theirs", THEIRS), ("ours", OURS)):
        reference = {"apiVersion": api_version, "kind": "Workload", "name": "owner", "uid": owner.uid}
        store.create(queue(name, ownerReferences=[reference]))
    assert len(store.list(QUEUE).items) == 2, "neither is taken for an orphan"
    store.delete(GANG, "team", "owner")
    assert not store.list(QUEUE).items
