"""Files that change under a server: removed, renamed, replaced, truncated, written by others; disks without room.

In every case, nothing is acknowledged that a restart would not find, the reason is reported, and acknowledged data can
be recovered.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from makeway.adapters.server.storage.beginning import open_store
from makeway.adapters.server.storage.data_file import DataFileRefused
from makeway.adapters.server.storage.reserve import RESERVE_BYTES
from makeway.adapters.server.storage.store import SqliteStore
from makeway.cli.main import main
from makeway.core.model import Millis
from makeway.runtime.ports import StoreError, TimedOut, Unavailable
from makeway.testing.conformance import QUEUE, queue
from tests.adapters.server.serving import CONFIG_MAPS, clock, config_map, running, until
from tests.live_server import live_server

DATA, LOG, INDEX, LOCK = "makeway.db", "makeway.db-wal", "makeway.db-shm", "makeway.db.lock"


def opened(folder: Path) -> SqliteStore:
    return SqliteStore(folder / DATA, lambda: Millis(0))


def names(store: SqliteStore) -> set[str]:
    return {each.name for each in store.list(QUEUE).items}


# --- what happens to them ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    name: str
    does: Callable[[Path], object]
    says: str


def replace(path: Path) -> None:
    """Replace a file by an equal copy, as a backup tool or an editor does."""
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def replace_all(folder: Path) -> None:
    for name in (DATA, LOG, INDEX, LOCK):
        replace(folder / name)


def move_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    shutil.copytree(folder.with_name("elsewhere"), folder)


def overwrite(folder: Path) -> None:
    """Write the content of a backup into the same file."""
    with (folder / DATA).open("r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(data)


def write_beside(folder: Path) -> None:
    with closing(sqlite3.connect(folder / DATA, isolation_level=None)) as other:
        other.execute("UPDATE latest SET revision = revision + 1")


def steal(folder: Path) -> None:
    """Take over the file as another server that got past the lock."""
    with closing(sqlite3.connect(folder / DATA, isolation_level=None)) as other:
        other.execute("UPDATE guard SET owner = 'another'")


def rename(path: Path) -> None:
    path.rename(path.with_name("old"))


def scribble(path: Path) -> None:
    path.write_bytes(b"x" * 99_999)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def on(name: str, does: Callable[[Path], object]) -> Callable[[Path], object]:
    """Apply a change to the file of this name."""
    return lambda folder: does(folder / name)


SEEN_AT_ONCE = [
    *(Case(f"{name} is removed", on(name, Path.unlink), f"{name} was removed") for name in (DATA, LOG, INDEX, LOCK)),
    *(Case(f"{name} is renamed", on(name, rename), f"{name} was removed or renamed") for name in (DATA, LOG, LOCK)),
    *(Case(f"{name} is replaced", on(name, replace), f"in the place of {name}") for name in (DATA, LOG, INDEX, LOCK)),
    Case("all are replaced", replace_all, f"in the place of {DATA}"),
    Case("the folder is replaced", move_folder, "the folder .* was removed or replaced"),
    Case("the folder is removed", shutil.rmtree, "was removed"),
    Case("the data file is cut short", on(DATA, cut), f"{DATA} was cut short"),
    Case("the log is cut short", on(LOG, cut), f"{LOG} was cut short"),
    Case("the data file is written over", overwrite, f"written to {DATA}"),
    Case("the log is written over", on(LOG, scribble), f"written to {LOG}"),
]  # fmt: skip
SEEN_IN_A_COMMIT = [
    Case("another program writes a revision", write_beside, "its newest revision is not the one"),
    Case("another server makes it its own", steal, "another server has made it its own"),
]


@pytest.mark.parametrize("case", [*SEEN_AT_ONCE, *SEEN_IN_A_COMMIT], ids=lambda case: case.name)
def test_what_happens_to_a_file_ends_writing_and_loses_nothing(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    store = opened(folder)
    there = [store.create(queue(f"q-{i}")) for i in range(3)]
    case.does(folder)
    for _ in range(2):
        with pytest.raises(Unavailable, match=case.says):
            store.create(queue("late"))
    assert list(store.list(QUEUE).items) == there  # reading goes on
    store.close()
    if case.name != "the folder is removed":
        (saved,) = tmp_path.glob(f"*/{DATA}.saved-4")
        assert str(saved.resolve()) in store.trouble
        with SqliteStore(saved, lambda: Millis(0)) as again:
            assert list(again.list(QUEUE).items) == there
            assert again.resource_version == "4"


@pytest.mark.slow
@pytest.mark.parametrize("case", SEEN_AT_ONCE[:8:2], ids=lambda case: case.name)
def test_it_is_noticed_though_nobody_writes(case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(tmp_path)
    store.create(queue())
    case.does(tmp_path)
    until(lambda: ".saved-2" in store.trouble)
    assert "not ours any more" in caplog.text
    store.close()


def test_what_was_written_while_the_file_went_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is removed between the check before the commit and the commit itself."""
    store = opened(tmp_path)
    look = store._file.look

    def then_it_goes() -> None:
        look()
        (tmp_path / DATA).unlink(missing_ok=True)

    monkeypatch.setattr(store._file, "look", then_it_goes)
    with pytest.raises(TimedOut, match="was removed"):
        store.create(queue())
    assert names(store) == set()
    store.close()


# --- two servers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [(LOCK,), (LOCK, DATA), (LOCK, DATA, LOG, INDEX)], ids=" ".join)
def test_two_servers_never_acknowledge_the_same_revision(gone: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = open_store(folder, clock)
    acknowledged = {first.create(queue("first", namespace="default")).revision}
    for name in gone:
        (folder / name).unlink()
    with pytest.raises(DataFileRefused, match="in use by another server"):
        open_store(folder, clock)
    with suppress(StoreError):
        acknowledged.add(first.create(queue("late", namespace="default")).revision)
    assert len(acknowledged) == 1
    first.close()


def test_an_older_copy_is_not_served_in_silence(tmp_path: Path) -> None:
    """Its revisions would be used a second time."""
    with opened(tmp_path) as store:
        store.create(queue("a"))
    shutil.copy(tmp_path / DATA, tmp_path / "backup")
    with opened(tmp_path) as store:
        store.create(queue("b"))
    os.replace(tmp_path / "backup", tmp_path / DATA)
    with pytest.raises(DataFileRefused, match=r"at revision 2, and 3 was reached.* remove makeway.db.lock"):
        opened(tmp_path)
    (tmp_path / LOCK).unlink()
    with opened(tmp_path) as store:
        assert names(store) == {"a"}


# --- disks without room -----------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB, if the machine allows one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    (folder / "data").mkdir()
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--recursive", str(folder)], check=True)


def fill_disk(folder: Path) -> Path:
    """Fill the disk to the last byte."""
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    return filler


def refused(store: SqliteStore) -> bool:
    with suppress(Unavailable):
        store.create(queue(os.urandom(4).hex(), annotations={"wide": "x" * 100_000}))
        return False
    return True


@pytest.mark.slow
def test_a_full_disk_lets_removals_through_and_is_over_when_there_is_room(small_disk: Path) -> None:
    with opened(small_disk / "data") as store:
        for i in range(40):
            store.create(queue(f"q-{i}", annotations={"wide": "x" * 20_000}))
        filler = fill_disk(small_disk)
        until(lambda: refused(store))
        assert "full" in store.trouble
        assert "removals are let through" in store.trouble
        left = names(store)
        for name in sorted(left):
            store.delete(QUEUE, "team", name)  # as many as there are, one at a time
        assert names(store) == set()
        fill_disk(small_disk)
        filler.unlink()
        (small_disk / "data" / f"{DATA}.reserve").stat()
        until(lambda: not store.trouble)
        store.create(queue("later"))
        assert (small_disk / "data" / f"{DATA}.reserve").stat().st_blocks * 512 >= RESERVE_BYTES
    with opened(small_disk / "data") as store:
        assert names(store) == {"later"}


@pytest.mark.slow
def test_a_disk_that_can_be_read_only_is_told_and_is_over_by_itself(small_disk: Path) -> None:
    folder = small_disk / "data"
    with opened(folder) as store:
        store.create(queue("a"))
        subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        with pytest.raises(Unavailable, match="nothing was stored: its file system can be read only"):
            store.create(queue("b"))
        assert "read only" in store.trouble
        subprocess.run(["umount", str(folder)], check=True)
        until(lambda: not store.trouble)
        store.create(queue("c"))
        assert names(store) == {"a", "c"}


@pytest.mark.slow
def test_a_whole_makeway_is_not_ready_once_its_file_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with live_server(folder) as plane, httpx2.Client(base_url=plane.url, verify=trust(folder)) as client:
        assert client.get("/readyz").status_code == 200
        (folder / DATA).unlink()
        until(lambda: client.get("/readyz").status_code == 503)  # though nobody has asked for anything
        until(lambda: "are in" in client.get("/readyz").text)
        assert "makeway.db was removed" in client.get("/readyz").text
        status = CliRunner().invoke(main, ["status", "--data", str(folder)])
        assert (status.exit_code, "makeway.db was removed" in status.stdout) == (1, True)
    (saved,) = folder.glob(f"{DATA}.saved-*")
    saved.rename(folder / DATA)
    for name in (LOG, INDEX):
        (folder / name).unlink(missing_ok=True)
    with live_server(folder) as plane, httpx2.Client(base_url=plane.url, verify=trust(folder)) as client:
        assert client.get("/readyz").status_code == 200


def trust(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "ca.crt"))


def test_clients_are_told_why_nothing_is_written(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server, server.client() as client:
        assert client.post(CONFIG_MAPS, json=config_map("a")).status_code == 201
        (tmp_path / "data" / DATA).unlink()
        answer: httpx2.Response = client.post(CONFIG_MAPS, json=config_map("b"))
        assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")
        assert "makeway.db was removed" in answer.json()["message"]
        assert client.get(f"{CONFIG_MAPS}/a").status_code == 200
        assert client.get(f"{CONFIG_MAPS}/b").status_code == 404
