"""The judge of the gangs: the engine answers for what it has received, and not for what it could not know."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from makeway.adapters.simulator.faults import Faults
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.kubernetes import amended
from makeway.controllers.pods.edits import Bind
from makeway.core.model import Millis
from makeway.runtime.ports import NotFound, SeededNames, Watch
from makeway.runtime.virtual import VirtualClock
from tests.controllers.gang_world import Judge, Telling
from tests.controllers.pod_world import NOON, PODS
from tests.controllers.pods.test_gangs import gang, members

TOO_FEW = ["of gang w 1 pods will stand, and 2 must"]
Way = Callable[[MemoryStore, str], object]


def ends(store: MemoryStore, name: str) -> None:
    found = store.get(PODS, "default", name).value()
    store.update_status(replace(found, status=amended(found.status, {"phase": "Succeeded"})))


def leaves(store: MemoryStore, name: str) -> None:
    store.delete(PODS, "default", name)


def goes(store: MemoryStore, name: str) -> None:
    store.delete(PODS, "default", name, grace=0)


WAYS = pytest.mark.parametrize("way", [ends, leaves, goes])


class Play:
    """A gang of which two must be placed, and a way to bind its pods w-0, w-1 and w-2."""

    def __init__(self) -> None:
        self.store = MemoryStore(VirtualClock(NOON), SeededNames(0), careful=False)
        for each in (gang("w", 2), *members("w", 3)):
            self.store.create(each)
        self.judge = Judge(self.store)
        self.telling = Telling(self.judge, Faults(0, {}))
        self.watch: Watch = self.telling.watch(PODS, self.telling.list(PODS).resource_version)

    def bind(self, name: str) -> None:
        known = next(each for _, each in self.judge.heard.pods.values() if each and each.metadata.name == name)
        self.judge.update(Bind("n")(known))

    def verdict(self) -> list[str]:
        self.judge.step(Millis(NOON))
        return self.judge.broken


def standing() -> Play:
    play = Play()
    play.bind("w-0")
    play.bind("w-1")
    assert play.verdict() == []
    return play


def test_too_few_are_too_few() -> None:
    play = Play()
    play.bind("w-0")
    assert play.verdict() == TOO_FEW


@WAYS
def test_who_is_gone_unheard_was_rightly_counted_on(way: Way) -> None:
    play = standing()
    way(play.store, "w-0")
    way(play.store, "w-1")
    play.bind("w-2")
    assert play.verdict() == []


@WAYS
def test_who_is_known_to_be_gone_does_not_count(way: Way) -> None:
    play = standing()
    way(play.store, "w-0")
    way(play.store, "w-1")
    play.watch.poll()
    play.bind("w-2")
    assert play.verdict() == TOO_FEW


@WAYS
def test_a_list_tells_too(way: Way) -> None:
    play = standing()
    way(play.store, "w-0")
    way(play.store, "w-1")
    play.telling.list(PODS)
    play.bind("w-2")
    assert play.verdict() == TOO_FEW


def test_whom_the_engine_itself_deletes_does_not_count() -> None:
    play = standing()
    for name in ("w-0", "w-1"):
        play.judge.delete(PODS, "default", name)
    play.bind("w-2")
    assert play.verdict() == TOO_FEW


@pytest.mark.parametrize("first", ["w-0", "w-1"])
def test_a_binding_in_vain_counts_once(first: str) -> None:
    """Its mate was bound with it. Afterwards the engine knows that it is gone."""
    play = Play()
    goes(play.store, "w-1")
    for name in (first, "w-1" if first == "w-0" else "w-0"):
        if name == "w-1":
            with pytest.raises(NotFound):
                play.bind(name)
        else:
            play.bind(name)
    assert play.verdict() == []
    goes(play.store, "w-0")
    play.watch.poll()
    play.bind("w-2")
    assert play.verdict() == TOO_FEW
