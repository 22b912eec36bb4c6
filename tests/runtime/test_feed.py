"""One kind followed: changes as they come, and all anew where the place in the history is forgotten."""

from __future__ import annotations

from makeway.adapters.simulator.store import MemoryStore
from makeway.core.model import Millis
from makeway.runtime.feed import KindFeed
from makeway.testing.conformance import QUEUE, queue


def told(feed: KindFeed, limit: int = 1000) -> list[tuple[str, str]]:
    return [(event.type, event.object.name if event.object else "") for event in feed.poll(limit)]


def names(feed: KindFeed) -> set[str]:
    return {stored.name for stored in feed.objects()}


def test_what_is_there_is_told_first_and_then_what_changes() -> None:
    store = MemoryStore(clock=lambda: Millis(0))
    store.create(queue("a"))
    feed = KindFeed(store, QUEUE)
    assert told(feed) == [("ADDED", "a")]
    store.create(queue("b"))
    store.delete(QUEUE, "team", "a")
    assert told(feed) == [("ADDED", "b"), ("DELETED", "a")]
    assert names(feed) == {"b"}
    assert told(feed) == []


def test_at_most_so_many_are_told_at_a_time() -> None:
    store = MemoryStore(clock=lambda: Millis(0))
    feed = KindFeed(store, QUEUE)
    for name in "abc":
        store.create(queue(name))
    assert [told(feed, 2), told(feed, 2)] == [[("ADDED", "a"), ("ADDED", "b")], [("ADDED", "c")]]


def test_what_went_while_the_history_was_forgotten_is_told_as_gone() -> None:
    store = MemoryStore(clock=lambda: Millis(0))
    for name in "abc":
        store.create(queue(name))
    feed = KindFeed(store, QUEUE)
    feed.poll()
    store.delete(QUEUE, "team", "a")
    store.delete(QUEUE, "team", "b")
    again = store.create(queue("b"))  # another of the same name
    store.compact()
    assert told(feed) == [("DELETED", "a"), ("DELETED", "b"), ("MODIFIED", "b"), ("MODIFIED", "c")]
    assert {stored.name: stored.uid for stored in feed.objects()}["b"] == again.uid
    assert names(feed) == {"b", "c"}
    store.delete(QUEUE, "team", "c")
    assert told(feed) == [("DELETED", "c")], "it goes on from there"
