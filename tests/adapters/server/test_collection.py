"""Garbage collection works in small steps: no request waits for all of it, and no object is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from makeway.adapters.server.storage import group_writer as storage
from makeway.adapters.server.storage.data_file import NotWritten
from makeway.adapters.server.storage.group_writer import LOOKS_PER_CALL, LOOKS_PER_GROUP
from makeway.adapters.server.storage.store import SqliteStore
from makeway.core.model import Millis
from makeway.runtime.ports import Propagation, Revision, Stored
from makeway.runtime.stores.rules import StoreRules
from makeway.testing.conformance import QUEUE, owned_by, queue
from tests.cli.living import until


def clock() -> Millis:
    return Millis(0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "makeway.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path, clock) as store:
        yield store


def names(store: SqliteStore) -> list[str]:
    return [each.name for each in store.list(QUEUE).items]


def family(store: SqliteStore, children: int) -> Stored:
    """An owner with so many objects."""

    def made(ahead: StoreRules) -> Stored:
        owner = ahead.create(queue("owner"))
        for i in range(children):
            ahead.create(queue(f"child-{i}", ownerReferences=owned_by(owner, blocks=True)))
        return owner

    return store.submit(made).result()


def is_over(store: SqliteStore, owner: Stored) -> bool:
    there = store.list(QUEUE).items
    return not any(owner.uid in (each.uid, *each.owners) for each in there)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_what_belongs_to_an_owner_goes_a_little_at_a_time(store: SqliteStore, propagation: Propagation) -> None:
    """However many there are, no other request waits for all of them."""
    owner = family(store, 1_000)
    sizes, answered = list[int](), list[int]()
    store.on_commit(lambda changes: sizes.append(len(changes)))
    answer = store.submit(lambda ahead: ahead.delete(QUEUE, "team", "owner", propagation=propagation))
    answer.add_done_callback(lambda _: answered.append(len(sizes)))
    until(lambda: is_over(store, owner), "the end of the collection")
    assert len(names(store)) == (1_000 if propagation == "Orphan" else 0)
    assert max(sizes) <= LOOKS_PER_CALL + LOOKS_PER_GROUP + 1
    assert answered == [1], "the answer waits for no other group"


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_a_collection_that_was_cut_short_goes_on_after_the_start(
    store: SqliteStore, path: Path, propagation: Propagation, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = family(store, 1_000)
    write, reached, may_go_on = store._file.write, Event(), Event()

    def held_up(changes: Sequence[Revision]) -> None:
        reached.set()
        may_go_on.wait()
        write(changes)

    monkeypatch.setattr(store._file, "write", held_up)
    answer = store.submit(lambda ahead: ahead.delete(QUEUE, "team", "owner", propagation=propagation))
    reached.wait()
    closing_down = Thread(target=store.close)
    closing_down.start()
    until(lambda: store._writer._queue.qsize() == 1, "the order to close")
    may_go_on.set()
    closing_down.join()
    answer.result()
    with SqliteStore(path, clock) as again:
        until(lambda: is_over(again, owner), "the end of the collection")
        assert len(names(again)) == (1_000 if propagation == "Orphan" else 0)
        assert int(again.resource_version) > int(store.resource_version), "it was cut short"


def test_a_collection_that_cannot_be_written_is_not_tried_all_the_time(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor if a check of the file is due just then: a check is no reason to try again."""
    monkeypatch.setattr(storage, "LOOK_SECONDS", 0.05)
    owner = family(store, 1_000)
    write, tries = store._file.write, list[float]()

    def third_and_fourth_fail(changes: Sequence[Revision]) -> None:
        tries.append(monotonic())
        if len(tries) in (3, 4):
            store._writer._looked_at = 0.0
            raise NotWritten("somebody else writes")
        write(changes)

    monkeypatch.setattr(store._file, "write", third_and_fourth_fail)
    store.delete(QUEUE, "team", "owner")
    until(lambda: is_over(store, owner), "the end of the collection")
    assert names(store) == []
    assert tries[3] - tries[2] >= 0.05
    assert tries[4] - tries[3] >= 0.05


def test_one_that_cannot_be_collected_keeps_nobody_else(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look = StoreRules._look

    def fail(self: StoreRules, each: Stored) -> None:
        look(self, each)
        if each.name == "child-7":
            raise KeyError("odd")

    family(store, 20)
    monkeypatch.setattr(StoreRules, "_look", fail)
    store.delete(QUEUE, "team", "owner")
    assert names(store) == ["child-7"]
    assert 'localqueues.kueue.x-k8s.io "child-7" could not be looked at' in caplog.text
