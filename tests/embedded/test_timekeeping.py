"""The machine's clock is set under a server: nothing stalls, nothing expires, and a later start goes on from there."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from makeway.adapters.node import heartbeat
from makeway.adapters.node.folders import supervised
from makeway.adapters.node.machine import Offer
from makeway.adapters.node.supervision import processes
from makeway.api.objects.kubernetes import Namespace, Node, Pod
from makeway.api.quantity import Quantity, Time
from makeway.api.versions import kind_of
from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings
from makeway.embedded.local_node import LocalNode, NodeSettings
from makeway.embedded.timekeeping import CLOCK_FILE, Timekeeper
from makeway.runtime.ports import NotFound
from tests.cli.living import until

HOUR_NS, YEAR_NS = 3600 * 10**9, 365 * 24 * 3600 * 10**9
HOUR_MS = 3_600_000
PODS, NODES, NAMESPACES = kind_of(Pod), kind_of(Node), kind_of(Namespace)


class Wall:
    """The machine's clock, which a test sets."""

    def __init__(self) -> None:
        self.set_by = 0

    def __call__(self) -> int:
        return time.time_ns() + self.set_by


# --- the note --------------------------------------------------------------------------------------------------------


def test_a_later_start_goes_on_from_the_note(tmp_path: Path) -> None:
    wall = Wall()
    first = Timekeeper(tmp_path, wall)
    first.start()
    first.stop()
    told = first.clock()
    wall.set_by = -YEAR_NS
    assert told - 10_000 <= Timekeeper(tmp_path, wall).clock() <= told + HOUR_MS
    (tmp_path / CLOCK_FILE).unlink()
    assert Timekeeper(tmp_path, wall).clock() < told - HOUR_MS


@pytest.mark.parametrize("text", ["", "x", "-5", "9" * 19, "\u0663", "1 2"])
def test_a_note_that_makes_no_sense_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / CLOCK_FILE).write_text(text, "utf-8")
    assert abs(Timekeeper(tmp_path).clock() - time.time_ns() // 10**6) < HOUR_MS


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "far").write_text("4102444800000\n")
    (tmp_path / CLOCK_FILE).symlink_to(tmp_path / "far")
    keeper = Timekeeper(tmp_path)
    assert abs(keeper.clock() - time.time_ns() // 10**6) < HOUR_MS
    keeper.look()
    assert (tmp_path / "far").read_text() == "4102444800000\n"
    assert not (tmp_path / CLOCK_FILE).is_symlink()
    assert (tmp_path / CLOCK_FILE).stat().st_mode & 0o777 == 0o600


def test_a_clock_that_was_set_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wall = Wall()
    keeper = Timekeeper(tmp_path, wall)
    with caplog.at_level(logging.WARNING):
        keeper.look()
        assert caplog.messages == []
        wall.set_by = -HOUR_NS
        keeper.look()
        keeper.look()
    (told,) = caplog.messages
    assert "behind that of the server" in told
    assert str(tmp_path / CLOCK_FILE) in told


# --- a server --------------------------------------------------------------------------------------------------------


@contextmanager
def serving(folder: Path, wall: Wall) -> Iterator[ControlPlane]:
    with ControlPlane(folder, ControlPlaneSettings(on_nodes=True), timekeeper=Timekeeper(folder, wall)) as plane:
        plane.start()
        offers = (Offer("here", {"cpu": Quantity.parse("4"), "memory": Quantity.parse("1Gi")}),)
        local = LocalNode(
            folder, plane.store, NodeSettings(offers=offers), plane.clock, tell=plane.live.tell, failed=plane.fail
        )
        local.start()
        try:
            yield plane
        finally:
            local.stop()
            for each in supervised(folder / "pods"):  # if the test has failed: end the pods all the same
                processes.send(each, signal.SIGTERM)
    assert plane.failure is None


def pod(name: str, **container: object) -> dict[str, object]:
    work = {"name": "work", "image": "busybox", "command": ["sh", "-c", "sleep 600"], **container}
    spec = {"containers": [work], "terminationGracePeriodSeconds": 0, "nodeName": "here"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def phase(plane: ControlPlane, name: str) -> str:
    found = plane.store.get(PODS, "default", name).tree()
    return str(found.get("status", {}).get("phase", ""))


def is_there(plane: ControlPlane, uid: str) -> bool:
    """Whether there is a Node, and a newer one than before."""
    try:
        return plane.store.get(NODES, "", "here").uid != uid
    except NotFound:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("jump", [-HOUR_NS, HOUR_NS], ids=["back", "forward"])
def test_nothing_waits_and_nothing_goes_because_the_clock_was_set(
    tmp_path: Path, jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Secret that a pod waits for comes, the Node is deleted: the pod starts, the Node returns with its pods."""
    monkeypatch.setattr(heartbeat, "BEAT_MS", 1000)  # the Node returns with the next beat
    wall = Wall()
    needs = {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
    with serving(tmp_path, wall) as plane:
        plane.store.create(pod("runs"))
        plane.store.create(pod("waits", **needs))
        until(lambda: phase(plane, "runs") == "Running" and phase(plane, "waits") == "Pending", "the beginning")
        before, uid = plane.clock(), plane.store.get(NODES, "", "here").uid
        wall.set_by = jump
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
        plane.store.create({**secret, "stringData": {"k": "v"}})
        plane.store.delete(NODES, "", "here")
        until(lambda: phase(plane, "waits") == "Running", "the start of the pod")
        until(lambda: is_there(plane, uid), "the return of the Node")
        assert phase(plane, "runs") == "Running"
        assert 0 <= plane.clock() - before < HOUR_MS / 2
        for name in ("runs", "waits"):
            plane.store.delete(PODS, "default", name)
        until(lambda: not plane.store.list(PODS).items, "the end of the pods")


@pytest.mark.slow
def test_a_start_with_a_clock_that_was_put_back_dates_nothing_before_what_is_stored(tmp_path: Path) -> None:
    wall = Wall()
    wall.set_by = YEAR_NS  # the clock went wrong, and is corrected while the server is down
    with serving(tmp_path, wall) as plane:
        ahead = plane.clock()
    wall.set_by = 0
    with serving(tmp_path, wall) as plane:
        plane.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
        created = next(each for each in plane.store.list(NAMESPACES).items if each.name == "later").tree()
        assert Time.parse(created["metadata"]["creationTimestamp"]).millis >= ahead // 1000 * 1000 - 10_000
