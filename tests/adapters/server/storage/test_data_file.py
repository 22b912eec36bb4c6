"""The data file: which files are accepted, which server may have it, and how an older one is upgraded."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from makeway.adapters.server.storage.data_file import STEPS, DataFile, DataFileRefused
from makeway.adapters.server.storage.store import SqliteStore
from makeway.core.model import Millis
from makeway.testing.conformance import QUEUE, queue

NEXT = (*STEPS, ("ALTER TABLE latest ADD COLUMN cluster TEXT", "UPDATE latest SET cluster = 'home'"))
FAILING = (*STEPS, ("ALTER TABLE latest ADD COLUMN cluster TEXT", "UPDATE nowhere SET cluster = 'home'"))
OPENS = "import sys; from pathlib import Path; from makeway.adapters.server.storage.data_file import DataFile; " \
        "DataFile(Path(sys.argv[1]))"  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "makeway.db"


def run(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Change the file as another program would; return the answer to the last statement."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(each).fetchall() for each in statements][-1]


def make(path: Path) -> None:
    """A file with one object in it."""
    with SqliteStore(path, lambda: Millis(0)) as store:
        store.create(queue())


# --- whose it is ------------------------------------------------------------------------------------------------------


def test_what_is_in_it_is_for_its_owner_alone(path: Path) -> None:
    file = DataFile(path)
    modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    file.close()
    assert set(modes) >= {"makeway.db", "makeway.db-wal", "makeway.db.lock"}
    assert set(modes.values()) == {0o600}


def test_a_second_server_is_refused_and_told_who_has_it(path: Path) -> None:
    file = DataFile(path)
    child = subprocess.run([sys.executable, "-c", OPENS, str(path)], capture_output=True, text=True, check=False)
    assert f"in use by another server (process {os.getpid()})" in child.stderr
    with pytest.raises(DataFileRefused, match="in use"):
        DataFile(path)
    file.close()
    DataFile(path).close()


def test_who_was_refused_leaves_no_lock_behind(path: Path) -> None:
    path.write_text("this is no database, but a text that is long enough to be taken for one" * 10)
    for _ in range(2):
        with pytest.raises(DataFileRefused, match="not a database"):
            DataFile(path)


def test_a_folder_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(DataFileRefused, match="nowhere"):
        DataFile(path.parent / "nowhere" / "makeway.db")


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE objects (name TEXT)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"]
)
def test_the_database_of_another_program_is_refused_and_left_alone(path: Path, statement: str) -> None:
    run(path, statement)
    before = path.read_bytes()
    with pytest.raises(DataFileRefused, match="not one of makeway"):
        DataFile(path)
    assert path.read_bytes() == before


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_new_file_has_the_newest_version(path: Path) -> None:
    make(path)
    assert run(path, "PRAGMA user_version") == [(len(STEPS),)]


def test_a_newer_file_is_refused_and_left_alone(path: Path) -> None:
    make(path)
    run(path, f"PRAGMA user_version = {len(STEPS) + 1}")
    before = path.read_bytes()
    with pytest.raises(DataFileRefused, match=f"version {len(STEPS) + 1} .* newer makeway; .* up to {len(STEPS)}"):
        DataFile(path)
    assert path.read_bytes() == before


def test_an_older_file_is_brought_up_to_date_once(path: Path) -> None:
    make(path)
    for _ in range(2):
        file = DataFile(path, steps=NEXT)
        assert [each.name for each in file.objects()] == ["q"]
        file.close()
    assert run(path, "PRAGMA user_version") == [(len(NEXT),)]
    assert run(path, "SELECT revision, cluster FROM latest") == [(2, "home")]


def test_a_step_that_fails_leaves_the_older_version_whole(path: Path) -> None:
    make(path)
    with pytest.raises(DataFileRefused, match="nowhere"):
        DataFile(path, steps=FAILING)
    assert run(path, "SELECT * FROM latest") == [(2,)]
    with SqliteStore(path, lambda: Millis(0)) as store:
        assert store.get(QUEUE, "team", "q").revision == 2


# --- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE objects SET kind = 'Teapot'", "kueue.x-k8s.io/Teapot"),
        ("UPDATE objects SET data = x'7b'", "localqueues team/q cannot be read"),
        ("UPDATE objects SET name = 'r'", "localqueues team/r is not what"),
        ("UPDATE latest SET revision = 1", "localqueues team/q is not what"),
    ],
)
def test_nothing_is_passed_over_in_silence(path: Path, statement: str, message: str) -> None:
    make(path)
    run(path, statement)
    for _ in range(2):  # the lock was given back
        with pytest.raises(DataFileRefused, match=message):
            SqliteStore(path, lambda: Millis(0))


@pytest.mark.parametrize(("objects", "statements"), [(1, 1), (8, 1), (9, 2), (73, 3), (137, 4)])
def test_a_group_is_put_with_few_statements_and_is_whole(path: Path, objects: int, statements: int) -> None:
    seen: list[str] = []
    with SqliteStore(path, lambda: Millis(0)) as store:
        store._file._connection.set_trace_callback(seen.append)
        store.submit(lambda ahead: [ahead.create(queue(f"q-{i}")) for i in range(objects)]).result()
        shown = store.list(QUEUE).items
    assert sum(each.startswith("INSERT") for each in seen) == statements
    with SqliteStore(path, lambda: Millis(0)) as store:
        assert store.list(QUEUE).items == shown
    assert len(shown) == objects
