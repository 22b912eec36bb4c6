"""Data files with changed bytes: they are refused with a message, or have everything that was acknowledged."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.server.storage import layout
from makeway.adapters.server.storage.data_file import DataFileRefused
from makeway.adapters.server.storage.layout import STEPS
from makeway.adapters.server.storage.leaving_out import leave_out_damaged
from makeway.adapters.server.storage.store import SqliteStore
from makeway.core.model import Millis
from makeway.runtime.ports import Stored
from makeway.testing.conformance import QUEUE, owned_by, queue

DATA, LOG, LOCK = "makeway.db", "makeway.db-wal", "makeway.db.lock"
OBJECTS = 60


def opened(folder: Path) -> SqliteStore:
    return SqliteStore(folder / DATA, lambda: Millis(0))


@dataclass(frozen=True, repr=False)
class Killed:
    killed: Path
    closed: Path
    acknowledged: Sequence[Stored]

    def copy_to(self, folder: Path, *, closed: bool = False) -> None:
        for path in (self.closed if closed else self.killed).iterdir():
            shutil.copy(path, folder)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """The folder of a killed server, with its last writes in the log or in order; and what it had acknowledged."""
    folder, copy, closed = (tmp_path_factory.mktemp(name) for name in ("data", "killed", "closed"))
    with opened(folder) as store:
        store.submit(lambda ahead: [
            ahead.create(queue(f"q-{i}", annotations={"wide": "x" * (i * 53 % 700)})) for i in range(OBJECTS)
        ]).result()  # fmt: skip
    with opened(folder) as store:
        for i in range(0, OBJECTS, 7):
            store.delete(QUEUE, "team", f"q-{i}")
            store.update(queue(f"q-{i + 1}", stop="Hold"))
        for name in (DATA, LOG, LOCK):
            shutil.copy(folder / name, copy)
        acknowledged = store.list(QUEUE).items
    for name in (DATA, LOCK):
        shutil.copy(folder / name, closed)
    return Killed(copy, closed, acknowledged)


def flip(path: Path, places: Sequence[tuple[float, int]]) -> None:
    data = bytearray(path.read_bytes())
    for place, mask in places:
        data[int(place * len(data))] ^= mask
    path.write_bytes(data)


@pytest.mark.property
@given(
    place=st.sampled_from([(DATA, True), (DATA, False), (LOG, False)]),
    places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4),
)
@settings(max_examples=settings().max_examples // 3)  # each opens three files and waits for the disk
def test_flipped_bytes_are_never_served_in_silence(
    killed: Killed, place: tuple[str, bool], places: list[tuple[float, int]]
) -> None:
    with TemporaryDirectory() as there:
        folder = Path(there)
        killed.copy_to(folder, closed=place[1])
        flip(folder / place[0], places)
        try:
            store = opened(folder)
        except DataFileRefused:
            return
        with store:
            assert store.list(QUEUE).items == killed.acknowledged
            store.create(queue("later"))
        with opened(folder) as store:  # and it goes on
            assert store.get(QUEUE, "team", "later")


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for each in statements:
            connection.execute(each)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE objects SET data = replace(data, 'shared', 'shores') WHERE name = 'a'",
         "localqueues team/a has changed since it was written"),
        ("DELETE FROM objects WHERE name = 'a'", "1 objects are missing"),
        ("UPDATE guard SET checksum = 7", "older than they were"),
        ("ALTER TABLE latest RENAME COLUMN revision TO revised", "table latest is not as it was made"),
    ],
)  # fmt: skip
def test_what_another_tool_has_changed_is_named(tmp_path: Path, statement: str, says: str) -> None:
    with opened(tmp_path) as store:
        store.create(queue("a"))
        store.create(queue("b"))
    run(tmp_path / DATA, statement)
    with pytest.raises(DataFileRefused, match=says) as refused:
        opened(tmp_path)
    assert "--leave-out-damaged" in str(refused.value)


def test_all_damaged_objects_are_told_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for i in range(9):
            store.create(queue(f"q-{i}"))
    run(tmp_path / DATA, "UPDATE objects SET checksum = 0")
    with pytest.raises(DataFileRefused, match=r"q-0 has changed .*q-4 has changed since it was written, and 4 more"):
        opened(tmp_path)


def test_a_file_of_the_first_version_gets_its_checksums(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        there = store.create(queue("a"))
    run(tmp_path / DATA, "DROP TABLE guard", "ALTER TABLE objects DROP COLUMN checksum", "PRAGMA user_version = 1")
    with opened(tmp_path) as store:
        assert list(store.list(QUEUE).items) == [there]
        store.create(queue("b"))
    with closing(sqlite3.connect(tmp_path / DATA)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
        assert connection.execute("SELECT objects FROM guard").fetchone() == (2,)
    opened(tmp_path).close()


def test_of_a_large_file_it_is_said_that_its_pages_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path).close()
    monkeypatch.setattr(layout, "CHECKED_BYTES_MAX", 1)
    with caplog.at_level(logging.WARNING):
        opened(tmp_path).close()
    assert "its objects are checked one by one, its pages are not" in caplog.text


# --- going on without -------------------------------------------------------------------------------------------------


def test_what_can_be_read_goes_on_without_the_rest(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for i in range(9):
            store.create(queue(f"q-{i}"))
        there = [each for each in store.list(QUEUE).items if each.name != "q-4"]
    run(tmp_path / DATA, "UPDATE objects SET checksum = 0 WHERE name = 'q-4'", "UPDATE latest SET revision = 10")
    before = (tmp_path / DATA).read_bytes()
    left = leave_out_damaged(tmp_path / DATA)
    assert (left.kept, list(left.findings)) == (8, ["localqueues team/q-4 has changed since it was written"])
    assert left.aside.read_bytes() == before
    with opened(tmp_path) as store:
        assert list(store.list(QUEUE).items) == there
        assert store.create(queue("later")).revision == 11  # none is given twice


def test_what_belonged_to_something_that_is_left_out_stays_and_stands_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        owner, other = store.create(queue("owner")), store.create(queue("other"))
        store.create(queue("child", ownerReferences=owned_by(owner)))
        store.create(queue("of-two", ownerReferences=owned_by(owner, other)))
        foreign = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"}
        store.create(queue("of-another", ownerReferences=[foreign]))
        latest = int(store.resource_version)
    run(tmp_path / DATA, "UPDATE objects SET checksum = 0 WHERE name = 'owner'")
    assert leave_out_damaged(tmp_path / DATA).kept == 4
    with opened(tmp_path) as store:
        store.create(queue("later"))  # whatever is to be collected goes with it
        there = {each.name: each for each in store.list(QUEUE).items}
    assert {name: each.owners for name, each in there.items()} == {
        "child": (), "later": (), "of-another": ("u",), "of-two": (other.uid,), "other": (),
    }  # fmt: skip
    assert all(there[name].revision > latest for name in ("child", "of-two")), "they are not what they were"


def test_a_whole_file_is_left_as_it_is(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.create(queue())
        with pytest.raises(DataFileRefused, match="in use by another server"):
            leave_out_damaged(tmp_path / DATA)
    before = (tmp_path / DATA).read_bytes()
    assert not leave_out_damaged(tmp_path / DATA).findings
    assert (tmp_path / DATA).read_bytes() == before


@pytest.mark.slow
@pytest.mark.property
@given(places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4))
@settings(max_examples=settings().max_examples // 3)
def test_what_is_kept_of_a_damaged_file_is_as_it_was(killed: Killed, places: list[tuple[float, int]]) -> None:
    with TemporaryDirectory() as there:
        folder = Path(there)
        killed.copy_to(folder, closed=True)
        flip(folder / DATA, places)
        try:
            leave_out_damaged(folder / DATA)
        except DataFileRefused:  # not even the first page can be read
            return
        with opened(folder) as store:
            assert set(store.list(QUEUE).items) <= set(killed.acknowledged)
