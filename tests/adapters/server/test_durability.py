"""A server with a full disk, with a truncated log, or with a folder that another server has."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from makeway.adapters.server.storage.data_file import DataFileRefused
from makeway.adapters.server.storage.store import SqliteStore
from tests.adapters.server.serving import CONFIG_MAPS, Server, clock, config_map, running

FILL = 40
LARGE = "x" * 30_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB, if the machine allows one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(client: httpx2.Client) -> tuple[list[str], set[int]]:
    """Write until nothing more is stored; return what was stored, and the codes of the refusals."""
    taken, codes = [], set()
    for i in range(400):
        answer = client.post(CONFIG_MAPS, json=config_map(f"c{i}", data={"a": LARGE}))
        if answer.status_code == 201:
            taken.append(f"c{i}")
        else:
            codes.add(answer.status_code)
            assert answer.json()["reason"] == "ServiceUnavailable"
            assert int(answer.headers["retry-after"]) > 0
            if i >= FILL and len(codes) > 0 and taken[-1] != f"c{i - 1}":
                break
    return taken, codes


def names(client: httpx2.Client) -> set[str]:
    return {each["metadata"]["name"] for each in client.get(CONFIG_MAPS).json()["items"]}


def check_full(server: Server) -> list[str]:
    with server.client() as client:
        taken, codes = fill(client)
        assert codes == {503}, "the disk did not fill up"
        assert names(client) == set(taken)  # reading goes on
        assert client.get("/healthz").status_code == 200
        for name in taken[:10]:  # and room can be made
            assert client.delete(f"{CONFIG_MAPS}/{name}").status_code in (200, 503)
        return sorted(names(client))


def test_a_full_file_gives_errors_and_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "data", size_max=1024 * 1024) as server:
        left = check_full(server)
    with running(tmp_path / "data") as server, server.client() as client:
        assert names(client) == set(left)
        assert client.post(CONFIG_MAPS, json=config_map("room-again", data={"a": LARGE})).status_code == 201


@pytest.mark.slow
def test_a_full_disk_gives_errors_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    with running(small_disk / "data") as server:
        left = check_full(server)
    shutil.copytree(small_disk / "data", tmp_path / "copy")
    with running(tmp_path / "copy") as server, server.client() as client:
        assert names(client) == set(left)


@pytest.mark.parametrize("cut", [1, 100, 4096 + 24, 20_000])
def test_a_log_that_was_cut_short_is_survived(tmp_path: Path, cut: int) -> None:
    """As after a crash within a write: complete data is there, and the server goes on."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with running(data) as server, server.client() as client:
        for i in range(10):
            assert client.post(CONFIG_MAPS, json=config_map(f"c{i}")).status_code == 201
        copy.mkdir()
        for path in data.iterdir():
            if path.name != "makeway.db.lock" and not path.name.endswith("-shm"):
                shutil.copy(path, copy)
    log = copy / "makeway.db-wal"
    size = log.stat().st_size
    assert size > 20_000
    with log.open("r+b") as file:
        file.truncate(size - cut)
    with running(copy) as server, server.client() as client:
        found = names(client)
        assert found == {f"c{i}" for i in range(len(found))}, "not the first ones: something was lost in between"
        assert len(found) < 10
        assert client.post(CONFIG_MAPS, json=config_map("later")).status_code == 201


def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(DataFileRefused, match=r"is in use by another server \(process \d+\)")
    with running(tmp_path / "data"), refused:
        SqliteStore(tmp_path / "data" / "makeway.db", clock)
