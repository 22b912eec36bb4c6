"""Names that lead out of a pod's folder, and files that a pod puts where the agent reads: links, pipes, endless
files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.node.environment import NotThere
from makeway.adapters.node.fields import planned
from makeway.adapters.node.folders import PodFolder
from makeway.adapters.node.logs import LogQuery, log_of
from makeway.adapters.node.objects import PODS
from makeway.adapters.node.supervision.records import read_record
from makeway.adapters.node.volumes import File, Folder, make
from tests.adapters.node.nodes import TestNode
from tests.adapters.node.test_fields import MACHINE, Known, pod

PLANTS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nowhere": lambda path: path.symlink_to("/no/such"),
    "a folder": Path.mkdir,
    "no JSON": lambda path: path.write_text("}\n}\n"),
}
NAMES = Known({"default/s": {"../../../../up4": b"x"}}, {"default/c": {"../../../../up4": b"x", "a/b": b"x"}})


def plant(path: Path, what: str) -> None:
    path.unlink(missing_ok=True)
    PLANTS[what](path)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "says"),
    [
        ({"name": "../../../v", "emptyDir": {}}, 'the volume name "../../../v" cannot name a folder'),
        ({"name": "v", "configMap": {"name": "c"}}, 'the key "../../../../up4" of configmap "c" cannot name a file'),
        ({"name": "v", "secret": {"secretName": "s"}}, 'the key "../../../../up4" of secret "s" cannot name a file'),
    ],
)
def test_names_that_were_stored_before_they_were_refused_lead_nowhere(
    volume: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(NotThere) as told:
        planned(pod(volumes=[volume]), tmp_path / "a" / "b" / "c", MACHINE, NAMES)
    assert str(told.value) == says


@pytest.mark.parametrize("link", ["volumes", "volumes/v", "volumes/v/in"])
def test_volumes_are_not_made_through_links(link: str, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "pod"
    outside.mkdir()
    (inside / link).parent.mkdir(parents=True)
    (inside / link).symlink_to(outside)
    with pytest.raises(NotThere, match="cannot be made"):
        make(Folder(inside / "volumes" / "v", {"in/file": File(b"x", 0o644)}))
    assert not list(outside.iterdir())


def test_a_file_takes_the_place_of_a_link(tmp_path: Path) -> None:
    """After a crash before the start, files that were made already are made again."""
    target, volume = tmp_path / "target", tmp_path / "pod" / "volumes" / "v"
    target.write_text("mine")
    volume.mkdir(parents=True)
    (volume / "file").symlink_to(target)
    make(Folder(volume, {"file": File(b"x", 0o440)}))
    assert (target.read_text(), (volume / "file").read_bytes()) == ("mine", b"x")
    assert (volume / "file").stat(follow_symlinks=False).st_mode & 0o777 == 0o440


# --- what a pod may do to its own folder -----------------------------------------------------------------------------


@pytest.mark.parametrize("what", PLANTS)
def test_an_agent_goes_on_whatever_a_pod_puts_into_its_folder(what: str, node: TestNode) -> None:
    node.run("p", "echo said; sleep 607")
    node.run("q", "exit 0", initContainers=[])
    node.until_phase("p", "Running")
    folder = PodFolder(node.root, node.store.get(PODS, "default", "p").uid)
    node.until(lambda: any((folder.path / "logs" / "work").glob("*.log")))
    assert folder.record() is not None
    for name in ("record.jsonl", "stop.json", "record.jsonl.partial", "stop.json.partial"):
        plant(folder.path / name, what)
    for each in list((folder.path / "logs" / "work").iterdir()):
        plant(each, what)
    reader = log_of(folder, "work", LogQuery(tail=5, timestamps=True))
    assert len(reader.read()) <= len("}\n}\n") + 100
    reader.close()
    node.until_phase("q", "Succeeded")
    node.delete("p", grace=1)
    node.until(lambda: node.is_gone("p"))


def test_a_record_that_grows_without_end_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "record.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="too large"):
        read_record(tmp_path)
