"""The kubectl for tests is taken from its package only if it is the one that is expected."""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import kubectl


def package(folder: Path, program: bytes, layer: str = "package/lib/layer.zip") -> Path:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("kubectl/kubectl", program)
    place = folder / "aws_cdk" / "it" / "_jsii"
    place.mkdir(parents=True)
    with tarfile.open(place / "it@2.0.0.jsii.tgz", "w:gz") as tar:
        entry = tarfile.TarInfo(layer)
        entry.size = len(inner.getvalue())
        tar.addfile(entry, io.BytesIO(inner.getvalue()))
    return folder


def test_the_program_is_found_in_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectl, "PROGRAM_SHA256", hashlib.sha256(b"program").hexdigest())
    assert kubectl.unpacked(package(tmp_path, b"program")) == b"program"


def test_another_program_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(kubectl.NotHad, match="another one than expected"):
        kubectl.unpacked(package(tmp_path, b"something else"))


def test_another_packing_is_told(tmp_path: Path) -> None:
    with pytest.raises(kubectl.NotHad, match="not packed as expected"):
        kubectl.unpacked(package(tmp_path / "a", b"program", layer="elsewhere.zip"))
    (tmp_path / "b").mkdir()
    with pytest.raises(kubectl.NotHad, match="not packed as expected"):
        kubectl.unpacked(tmp_path / "b")


def test_it_is_kept_outside_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kubectl.place() == tmp_path / "makeway" / f"kubectl-{kubectl.VERSION}" / "kubectl"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubectl.place().is_relative_to(tmp_path / ".cache")


def test_who_cannot_have_it_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    assert kubectl.main() == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "not for linux on abacus" in err


def test_what_is_there_is_not_fetched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    kubectl.place().parent.mkdir(parents=True)
    kubectl.place().write_bytes(b"program")
    monkeypatch.setattr(kubectl, "PROGRAM_SHA256", hashlib.sha256(b"program").hexdigest())
    assert kubectl.cached() == kubectl.place()
    assert kubectl.main() == 0


def test_what_was_changed_since_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "abacus")  # and so it cannot be fetched anew
    kubectl.place().parent.mkdir(parents=True)
    kubectl.place().write_bytes(b"another program")
    assert kubectl.cached() is None
    assert kubectl.main() == 1
    assert capsys.readouterr().out == "", "nobody is told to run it"
