"""A private folder: refused if others may write to it; links are not followed, and modes are right from the start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from makeway.adapters.server.access.certificates import certificate
from makeway.adapters.server.access.tokens import Access
from makeway.adapters.server.storage.beginning import admin_token, open_store
from makeway.adapters.server.storage.data_file import DataFileRefused
from makeway.adapters.server.storage.own_folder import FolderRefused, check_folder, read_own, write_own
from makeway.core.model import Millis
from tests.adapters.server.serving import clock

NOW = Millis(1_767_225_600_000)
STRANGER = 12_345


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "data"
    found.mkdir(mode=0o700)
    return found


def opened(folder: Path) -> None:
    open_store(folder, clock).close()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused_untouched(mode: int, folder: Path, tmp_path: Path) -> None:
    """Nothing is written through a link that was planted there."""
    target = tmp_path / "target"
    target.write_text("mine")
    (folder / "makeway.db.lock").symlink_to(target)
    folder.chmod(mode)
    with pytest.raises(DataFileRefused, match=r"others may write to .* `chmod go-w "):
        opened(folder)
    assert (target.read_text(), [each.name for each in folder.iterdir()]) == ("mine", ["makeway.db.lock"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_another_account_is_refused(folder: Path) -> None:
    os.chown(folder, STRANGER, -1)
    with pytest.raises(DataFileRefused, match=f"belongs to another account \\(uid {STRANGER}\\).*chown"):
        opened(folder)
    check_folder(folder, reads_only=True)  # root may read it


def test_a_folder_that_everybody_could_replace_is_refused(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(DataFileRefused, match=f"everybody may write to {tmp_path} "):
        opened(folder)
    tmp_path.chmod(0o1777)  # as /tmp is
    opened(folder)


@pytest.mark.parametrize("name", ["makeway.db", "makeway.db.lock", "makeway.db-wal", "makeway.db-shm"])
def test_links_are_not_followed(name: str, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"")
    opened(folder)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    with pytest.raises(DataFileRefused, match=f"{name} is a link, and links are not followed"):
        opened(folder)
    assert target.read_bytes() == b""


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "makeway.db.lock")
    with pytest.raises(DataFileRefused, match="is not a file"):
        opened(folder)


def test_a_token_and_keys_that_are_links_are_made_anew(folder: Path, tmp_path: Path) -> None:
    """The link is replaced, its target stays."""
    target = tmp_path / "target"
    target.write_text("mine")
    files = ("admin.token", "ca.key", "ca.crt", "server.key", "server.crt")
    for name in files:
        (folder / name).symlink_to(target)
    with open_store(folder, clock) as store:
        token = admin_token(folder, Access(store))
        certificate(folder, NOW)
        assert admin_token(folder, Access(store)) == token
    assert target.read_text() == "mine"
    assert not any((folder / name).is_symlink() for name in files)


def test_files_that_others_may_read_are_closed_to_them(folder: Path) -> None:
    opened(folder)
    for name in ("makeway.db", "makeway.db.lock"):
        (folder / name).chmod(0o666)
    opened(folder)
    assert {(folder / name).stat().st_mode & 0o777 for name in ("makeway.db", "makeway.db.lock")} == {0o600}


def test_a_file_has_its_mode_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    replace = os.replace

    def seen(old: Path, new: Path) -> None:
        modes.append(old.stat().st_mode & 0o777)
        replace(old, new)

    monkeypatch.setattr(os, "replace", seen)
    before = os.umask(0)
    try:
        write_own(tmp_path / "key", b"secret")
    finally:
        os.umask(before)
    assert (modes, (tmp_path / "key").read_bytes()) == ([0o600], b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    with pytest.raises(FolderRefused, match="is a link"):
        read_own(tmp_path / "link")
