"""Lists and watches that are late, doubled, mixed up, broken: in the end what is known is what is stored."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.simulator.faults import PROFILES, Faults, FaultyStore
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import Cohort
from makeway.api.versions import Kind, kind_of
from makeway.controllers.contract import COHORT, Ref
from makeway.core.model import Millis
from makeway.runtime import informers
from makeway.runtime.informers import Informer, Informers, watched_kinds
from makeway.runtime.objects import ObjectCache
from makeway.runtime.ports import Expired, Page, Stored, Unavailable, Watch, WatchEvent

KIND = kind_of(Cohort)


class PlannedWatch:
    """A watch that reports what the test says; an error is raised in its place."""

    def __init__(self) -> None:
        self.turns: list[Sequence[WatchEvent] | Exception] = []

    def poll(self, limit: int = 1000) -> Sequence[WatchEvent]:
        turn = self.turns.pop(0) if self.turns else ()
        if isinstance(turn, Exception):
            raise turn
        return turn

    def close(self) -> None: ...


class Scripted(MemoryStore):
    """A Store whose lists fail as often as planned; the test drives its watches where it wants that."""

    failures = 0
    by_hand: PlannedWatch | None = None

    def list(self, kind: Kind, *args: Any, **more: Any) -> Page:
        if self.failures:
            self.failures -= 1
            raise Unavailable("not now")
        return super().list(kind, *args, **more)

    def watch(self, kind: Kind, *args: Any, **more: Any) -> Watch:  # type: ignore[override]
        return self.by_hand or super().watch(kind, *args, **more)


class Play:
    def __init__(self, by_hand: PlannedWatch | None = None) -> None:
        self.now = Millis(1_000_000)
        self.store = Scripted(lambda: self.now)
        self.store.by_hand = by_hand
        self.news: list[tuple[str, str, str]] = []  # the object, its parent before and after; "-": not there
        self.objects = ObjectCache(self._hear, lambda *_: None)
        self.informer = Informer(self.store, KIND, self.objects)

    def _hear(self, ref: Ref, before: Any, after: Any) -> None:
        was, is_now = ("-" if each is None else str(each.spec.parent_name) for each in (before, after))
        self.news.append((ref.name, was, is_now))

    def create(self, name: str) -> Stored:
        return self.store.create(Cohort(metadata=ObjectMeta(name=name)))

    def change(self, name: str, parent: str) -> Stored:
        return self.store.patch(KIND, "", name, {"spec": {"parentName": parent}})

    def delete(self, name: str) -> Stored:
        return self.store.delete(KIND, "", name)

    def poll(self) -> int:
        return self.informer.poll(self.now)

    def known(self) -> dict[str, str]:
        return {each.metadata.name: each.spec.parent_name for each in self.objects.all(COHORT)}

    def stored(self) -> dict[str, str]:
        return {each.name: each.value().spec.parent_name for each in MemoryStore.list(self.store, KIND).items}


@pytest.fixture
def play() -> Play:
    return Play()


def modified(each: Stored) -> WatchEvent:
    return WatchEvent("MODIFIED", each.resource_version, each)


def deleted(each: Stored) -> WatchEvent:
    return WatchEvent("DELETED", each.resource_version, each)


# --- in order ---------------------------------------------------------------------------------------------------------


def test_a_list_and_then_every_change_once(play: Play) -> None:
    play.create("a")
    assert play.poll() == 1
    play.change("a", "x")
    play.create("b")
    play.delete("b")
    assert play.poll() == 3
    assert play.poll() == 0
    assert play.news == [("a", "-", ""), ("a", "", "x"), ("b", "-", ""), ("b", "", "-")]
    assert play.informer.lists == 1
    assert play.informer.next_at() is None


def test_a_long_list_is_read_page_by_page(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informers, "PAGE", 2)
    for name in "abcde":
        play.create(name)
    assert play.poll() == 5
    assert list(play.known()) == list("abcde")


def test_a_failure_between_two_pages_loses_nobody(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that the first pages did not show are not gone."""
    for name in "abcd":
        play.create(name)
    play.poll()
    play.store.compact()
    play.create("e")
    play.store.compact()
    monkeypatch.setattr(informers, "PAGE", 2)
    calls: list[str] = []

    def listed(kind: Kind, *args: Any, **more: Any) -> Page:
        calls.append(more["token"])
        if len(calls) == 2:
            raise Unavailable("not now")
        return MemoryStore.list(play.store, kind, *args, **more)

    monkeypatch.setattr(play.store, "list", listed)
    play.poll()
    assert set(play.known()) >= set("abcd")
    play.now = Millis(play.now + 60_000)
    play.poll()
    assert play.known() == play.stored()
    assert len(calls) > 3


# --- out of order -----------------------------------------------------------------------------------------------------


def test_a_late_event_does_not_undo_a_newer_one() -> None:
    told = PlannedWatch()
    play = Play(told)
    first = play.create("a")
    play.poll()
    second, third = play.change("a", "x"), play.change("a", "y")
    told.turns = [[modified(third)], [modified(second), modified(first)]]
    play.poll()
    play.poll()
    assert play.known() == {"a": "y"}
    assert play.news == [("a", "-", ""), ("a", "", "y")]


def test_a_doubled_event_is_news_once() -> None:
    told = PlannedWatch()
    play = Play(told)
    play.create("a")
    play.poll()
    change = modified(play.change("a", "x"))
    told.turns = [[change, change], [change]]
    play.poll()
    play.poll()
    assert play.news == [("a", "-", ""), ("a", "", "x")]


def test_a_change_that_comes_after_the_removal_brings_nobody_back() -> None:
    told = PlannedWatch()
    play = Play(told)
    play.create("a")
    play.poll()
    change, removal = modified(play.change("a", "x")), deleted(play.delete("a"))
    told.turns = [[removal], [change]]
    play.poll()
    play.poll()
    assert play.known() == {}


def test_a_removal_that_comes_late_does_not_take_its_successor() -> None:
    told = PlannedWatch()
    play = Play(told)
    play.create("a")
    play.poll()
    removal = deleted(play.delete("a"))
    again = play.create("a")
    told.turns = [[WatchEvent("ADDED", again.resource_version, again)], [removal]]
    play.poll()
    play.poll()
    assert play.known() == {"a": ""}
    [known] = play.objects.all(COHORT)
    assert known.metadata.uid == again.uid


def test_a_bookmark_says_nothing() -> None:
    told = PlannedWatch()
    play = Play(told)
    play.poll()
    told.turns = [[WatchEvent("BOOKMARK", "99", None)]]
    play.poll()
    assert play.news == []


# --- broken -----------------------------------------------------------------------------------------------------------


def test_who_fell_behind_lists_anew_and_learns_who_went(play: Play) -> None:
    """410: the history is forgotten; an object that the new list lacks is gone, a newer one is news."""
    for name in "abc":
        play.create(name)
    play.poll()
    play.delete("a")
    play.change("b", "x")
    play.create("d")
    play.store.compact()
    play.poll()
    assert play.known() == play.stored() == {"b": "x", "c": "", "d": ""}
    assert sorted(play.news[3:]) == [("a", "", "-"), ("b", "", "x"), ("d", "-", "")]
    assert play.informer.lists == 2
    play.change("c", "y")
    play.poll()
    assert play.known() == play.stored()


def test_who_went_and_came_back_while_nobody_looked_is_another(play: Play) -> None:
    play.create("a")
    play.poll()
    play.delete("a")
    again = play.create("a")
    play.store.compact()
    play.poll()
    [known] = play.objects.all(COHORT)
    assert known.metadata.uid == again.uid


def test_a_store_that_fails_is_asked_again_later_and_less_and_less_often(play: Play) -> None:
    play.create("a")
    play.store.failures = 4
    pauses = []
    while not play.known():
        assert play.poll() == (1 if play.store.failures == 0 and play.known() else 0)
        at = play.informer.next_at()
        if at is None:
            break
        assert play.poll() == 0, "not before its time"
        pauses.append(at - play.now)
        play.now = at
    assert play.known() == {"a": ""}
    assert len(pauses) == 4
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1]
    assert play.informer.next_at() is None


def test_a_store_that_recovered_fails_as_if_for_the_first_time(play: Play) -> None:
    play.store.failures = 3
    first: list[int] = []
    for _ in range(2):
        play.poll()
        at = play.informer.next_at()
        assert at is not None
        first.append(at - play.now)
        while (at := play.informer.next_at()) is not None:
            play.now = at
            play.poll()
        play.create(f"a{len(first)}")
        play.store.compact()
        play.store.failures = 3
    assert first[0] == first[1]


@pytest.mark.parametrize("recovers", [True, False])
def test_a_clock_that_is_set_back_makes_nobody_deaf(play: Play, recovers: bool) -> None:
    """It has failed once; its next attempt is an hour later by the new clock."""
    play.create("a")
    play.store.failures = 1
    play.poll()
    at = play.informer.next_at()
    assert at is not None
    if recovers:
        play.now = at
        assert play.poll() == 1
        play.create("b")
    play.now = Millis(at - 3_600_000)
    assert play.poll() == 1
    assert play.known() == ({"a": "", "b": ""} if recovers else {"a": ""})


def test_a_watch_that_fails_for_a_moment_goes_on_where_it_was() -> None:
    told = PlannedWatch()
    play = Play(told)
    play.create("a")
    play.poll()
    change = modified(play.change("a", "x"))
    told.turns = [Unavailable("not now"), [change]]
    assert play.poll() == 0
    at = play.informer.next_at()
    assert at is not None
    play.now = at
    assert play.poll() == 1
    assert (play.known(), play.informer.lists) == ({"a": "x"}, 1)


def test_a_watch_that_always_expires_does_not_spin() -> None:
    told = PlannedWatch()
    play = Play(told)
    play.create("a")
    told.turns = [Expired("gone") for _ in range(1000)]
    for _ in range(50):
        play.poll()
    assert play.informer.lists <= 51, "at most one list per poll"


def test_all_kinds_are_followed_and_asked_for_the_earliest_time() -> None:
    play = Play()
    objects = ObjectCache(lambda *_: None, lambda *_: None)
    every = Informers(play.store, objects)
    play.store.failures = 1
    every.poll(play.now)
    assert every.next_at() is not None
    play.now = every.next_at() or play.now
    every.poll(play.now)
    assert every.next_at() is None
    assert len(watched_kinds()) <= every.lists <= len(watched_kinds()) + 1, "only the one that failed lists again"


# --- all of it --------------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_whatever_happens_to_the_events_what_is_stored_is_known_in_the_end(seed: int, length: int) -> None:
    dice = random.Random(seed)
    play = Play()
    faults = Faults(seed, dict.fromkeys(PROFILES["watch"], 200))
    faults.now = lambda: play.now
    play.informer = Informer(FaultyStore(play.store, faults), KIND, play.objects)  # type: ignore[arg-type]
    for number in range(length):
        name = dice.choice("abc")
        if name not in play.stored():
            play.create(name)
        elif dice.random() < 0.3:
            play.delete(name)
        else:
            play.change(name, f"p{number}")
        if dice.random() < 0.1:
            play.store.compact()
        play.now = Millis(play.now + dice.randrange(5_000))
        play.poll()
    faults.until = play.now
    for _ in range(20):
        play.now = Millis(play.now + 20_000)
        play.poll()
    assert play.known() == play.stored()
