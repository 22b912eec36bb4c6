"""An unreadable object causes no other trouble: tables, upkeep, deletions, tokens, budgets, classes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.server.access.tokens import Access, new_token, token_object
from makeway.adapters.server.resources.admission import AdmissionPlugins
from makeway.adapters.server.resources.pod_calls import evicted
from makeway.adapters.server.resources.tables import UNREADABLE as CELL
from makeway.adapters.server.resources.tables import table
from makeway.adapters.server.resources.upkeep import Upkeep
from makeway.adapters.server.storage.beginning import open_store
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api import codec
from makeway.api.objects.kubernetes import DeleteOptions, Namespace
from makeway.api.objects.meta import ObjectMeta
from makeway.api.quantity import Time
from makeway.api.versions import find_kind
from makeway.controllers.contract import NAMESPACE, POD, Ref
from makeway.core.model import Millis
from makeway.runtime.ports import Invalid, NotFound
from makeway.runtime.stores.repair import is_readable
from makeway.testing.bad_values import good_object
from tests.adapters.server.resources.test_tables import stored as made_of
from tests.adapters.server.serving import QUEUEING, running
from tests.unreadable import NOON, UNREADABLE, kind_of_tree, put_into_file

NOW = Millis(Time.parse(NOON).millis)
Tree = dict[str, Any]


def event(name: str, **parts: Any) -> Tree:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": NOON}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, **parts}


class Heard:
    def __init__(self) -> None:
        self.of: list[tuple[Ref, str]] = []

    def __call__(self, whom: Ref, part: str, error: Exception) -> None:
        self.of.append((whom, part))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_store(tmp_path / "data", lambda: NOW):
        return tmp_path / "data"


def stored(folder: Path, *trees: Tree) -> SqliteStore:
    put_into_file(next(folder.glob("*.db")), trees)
    return open_store(folder, lambda: NOW)


@pytest.fixture
def with_all(folder: Path) -> Iterator[SqliteStore]:
    """A store that has one unreadable object of each kind."""
    trees = {(tree["apiVersion"], tree["kind"]): tree for tree in UNREADABLE.values()}
    with stored(folder, *trees.values()) as store:
        yield store


def test_all_of_them_are_shown_listed_and_deleted(with_all: SqliteStore) -> None:
    for tree in UNREADABLE.values():
        kind, where = kind_of_tree(tree), tree["metadata"].get("namespace", "")
        heard = Heard()
        made = table(kind, kind.versions[0], with_all.list(kind).items, now=NOW, gave_up=heard)
        assert {len(row["cells"]) for row in made["rows"]} <= {len(made["columnDefinitions"])}
        try:
            with_all.delete(kind, where, "bad", grace=0)
        except NotFound:
            continue  # another of its kind was taken for it
        assert "bad" not in {each.name for each in with_all.list(kind, where or None).items}, kind.name


def test_each_can_be_put_right(with_all: SqliteStore) -> None:
    """A whole object in its place is validated like a new one; the readable rest of it stays."""
    repaired = 0
    for tree in UNREADABLE.values():
        kind, where = kind_of_tree(tree), tree["metadata"].get("namespace", "")
        old = with_all.get(kind, where, "bad")
        if is_readable(old):  # its raw parts are read by others
            continue
        good = good_object(kind, name="bad")
        if where:
            good["metadata"]["namespace"] = where
        with pytest.raises(Invalid):
            with_all.update({**good, "metadata": {**good["metadata"], "labels": {"": 7}}})
        new = with_all.update(good)
        assert is_readable(new), kind.name
        assert new.uid == old.uid
        repaired += 1
    assert repaired >= 8


def test_a_status_that_cannot_be_read_is_put_right_and_the_rest_stays(with_all: SqliteStore) -> None:
    kind = find_kind("kueue.x-k8s.io/v1beta2", "Workload")
    assert kind is not None
    old = with_all.get(kind, "default", "bad")
    assert not is_readable(old)
    new = with_all.update_status({**old.tree(), "status": {}})
    assert is_readable(new)
    was, now = (each.tree()["spec"]["podSets"] for each in (old, new))
    assert [each["name"] for each in now] == [each["name"] for each in was]


def test_the_status_of_what_cannot_be_read_is_not_written(with_all: SqliteStore) -> None:
    """Its spec would be lost."""
    kind = find_kind("kueue.x-k8s.io/v1beta2", "ClusterQueue")
    assert kind is not None
    old = with_all.get(kind, "", "bad")
    good = {**old.tree(), "spec": {"namespaceSelector": {}}, "status": {}}
    with pytest.raises(Invalid, match=r"(?s)what is stored cannot be read.*stopPolicy.*or delete it"):
        with_all.submit(lambda ahead: ahead.update_status(codec.read(good))).result()
    assert with_all.get(kind, "", "bad") == old


def test_a_patch_puts_right_what_it_names(folder: Path) -> None:
    stored(folder, UNREADABLE["ClusterQueue"]).close()
    with running(folder, admission=AdmissionPlugins()) as server, server.client() as client:
        path = f"{QUEUEING}/clusterqueues/bad"
        headers = {"content-type": "application/merge-patch+json"}
        answer = client.patch(path, json={"metadata": {"labels": {"a": "b"}}}, headers=headers)
        assert answer.status_code == 422, answer.text
        assert "spec.stopPolicy" in answer.json()["message"]
        answer = client.patch(path, json={"spec": {"stopPolicy": "Hold"}}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["spec"]["stopPolicy"] == "Hold"


def test_what_is_deleted_though_it_cannot_be_read_is_seen_to_go(with_all: SqliteStore) -> None:
    kind = find_kind("kueue.x-k8s.io/v1beta2", "ClusterQueue")
    assert kind is not None
    watch = with_all.watch(kind, with_all.resource_version)
    gone = with_all.delete(kind, "", "bad")
    (told,) = watch.poll()
    assert (told.type, told.resource_version) == ("DELETED", gone.resource_version)
    assert told.object is not None
    assert told.object.tree()["spec"] == {"stopPolicy": "Sometimes"}


def test_a_row_that_cannot_be_made_says_so_and_the_others_are_there() -> None:
    kind = find_kind("v1", "Pod")
    assert kind is not None
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": "often", "state": {}}]}
    bad = made_of(kind, {"metadata": {"name": "bad"}, "spec": {"containers": [{"name": "c"}]}, "status": status})
    good = made_of(kind, {"metadata": {"name": "good"}, "spec": {"containers": [{"name": "c"}]}})
    heard = Heard()
    rows = table(kind, "v1", [bad, good], now=NOW, gave_up=heard)["rows"]
    assert [row["cells"][0] for row in rows] == ["bad", "good"]
    assert rows[0]["cells"][1] == CELL
    assert rows[1]["cells"][1] == "0/1"
    assert heard.of == [(Ref(POD, "n", "bad"), "tables")]


def test_upkeep_goes_on_with_other_events_and_namespaces(folder: Path) -> None:
    leaving = {
        "apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": 7},
        "metadata": {"name": "bad", "uid": "uid-bad", "creationTimestamp": NOON, "deletionTimestamp": NOON},
    }  # fmt: skip
    heard, now = Heard(), [NOW]
    with stored(folder, event("bad", count="often"), event("good"), leaving) as store:
        upkeep = Upkeep(store, lambda: now[0], gave_up=heard)
        store.create(Namespace(metadata=ObjectMeta(name="other")))
        namespaces, events = kind_of_tree(leaving), kind_of_tree(event(""))
        store.delete(namespaces, "", "other")
        now[0] = Millis(NOW + 2 * 60 * 60 * 1000)
        asyncio.run(upkeep._work())
        assert "other" not in {each.name for each in store.list(namespaces).items}
        assert store.list(events).items == ()
    assert set(heard.of) == {(Ref.named("Event", "default", "bad"), "upkeep"), (Ref(NAMESPACE, "", "bad"), "upkeep")}


def test_a_listener_that_fails_does_not_end_the_storage(folder: Path) -> None:
    with open_store(folder, lambda: NOW) as store:
        heard: list[int] = []

        def fails(changes: object) -> None:
            raise ValueError

        store.on_commit(fails)
        store.on_commit(lambda changes: heard.append(len(changes)))
        store.create(Namespace(metadata=ObjectMeta(name="one")))
        assert store.trouble == ""
        assert heard == [1]


def test_a_token_that_cannot_be_read_is_nobodys_and_the_others_count(folder: Path) -> None:
    id_, secret = new_token()
    with open_store(folder, lambda: NOW) as store:
        made = store.create(token_object(id_, secret, "ann", "admin"))
        place = made.namespace
    metadata = {"name": made.name[:-5] + "zzzzz", "namespace": place, "uid": "uid-token", "creationTimestamp": NOON}
    with stored(folder, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": 7}) as store:
        user = Access(store, lambda: NOW).user(f"Bearer {id_}.{secret}".encode())
        assert user is not None
        assert user.name == "ann"


def test_a_class_that_cannot_be_read_keeps_no_pod_from_being_made(folder: Path) -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip
    with stored(folder, UNREADABLE["PriorityClass"]) as store:
        assert store.create(pod).name == "p"


def test_a_budget_that_cannot_be_read_covers_nobody(folder: Path) -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "uid-p", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "here"}, "status": {"phase": "Running"},
    }  # fmt: skip
    with stored(folder, UNREADABLE["PodDisruptionBudget"], pod) as store:
        now = Time.of_millis(NOW)
        store.submit(lambda ahead: evicted(ahead, "default", "p", DeleteOptions(), now)).result()
        assert store.get(kind_of_tree(pod), "default", "p").deleting
