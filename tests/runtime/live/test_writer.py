"""Slow writes: the engine waits for none, none is lost, and at most so many are under way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread, get_ident
from typing import Any

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import Cohort
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.executor import Call, WriteAnswer
from makeway.runtime.live.writer import LiveWriter, in_threads
from makeway.runtime.ports import Conflict, Stored, StoreError, Unavailable

NOW = Millis(0)
STORED: Any = object()  # a result is passed on, whatever it is


class Slow:
    """Takes calls and answers them when the test says so."""

    def __init__(self) -> None:
        self.taken: list[Future[Stored]] = []
        self.refuses: StoreError | None = None
        self.pokes = 0

    def submit(self, call: Call) -> Future[Stored]:
        if self.refuses is not None:
            raise self.refuses
        self.taken.append(Future())
        return self.taken[-1]

    def poke(self) -> None:
        self.pokes += 1


def writer(slow: Slow, most: int = 256) -> LiveWriter:
    return LiveWriter(slow.submit, slow.poke, under_way_max=most)


def call(store: Any) -> Stored:
    raise AssertionError("no caller makes this one")


def numbers(found: Any) -> list[int]:
    return [answer.number for answer in found]


def test_an_answer_is_fetched_once_and_the_engine_is_called() -> None:
    slow = Slow()
    writes = writer(slow)
    writes.send(7, call, NOW)
    assert writes.answers(NOW) == []
    assert slow.pokes == 0
    slow.taken[0].set_result(STORED)
    assert slow.pokes == 1
    assert writes.answers(NOW) == [WriteAnswer(7, STORED)]
    assert writes.answers(NOW) == []


def test_answers_come_in_the_order_in_which_they_were_given() -> None:
    slow = Slow()
    writes = writer(slow)
    for number in range(3):
        writes.send(number, call, NOW)
    for index in (2, 0, 1):
        slow.taken[index].set_result(STORED)
    assert numbers(writes.answers(NOW)) == [2, 0, 1]


def test_no_more_than_so_many_are_under_way_and_each_answer_makes_room() -> None:
    slow = Slow()
    writes = writer(slow, most=2)
    for number in range(5):
        writes.send(number, call, NOW)
    assert len(slow.taken) == 2
    slow.taken[1].set_result(STORED)
    assert len(slow.taken) == 3
    for index in (0, 2, 3, 4):
        slow.taken[index].set_result(STORED)
    assert numbers(writes.answers(NOW)) == [1, 0, 2, 3, 4]


def test_an_error_of_the_store_is_an_answer() -> None:
    slow = Slow()
    writes = writer(slow)
    writes.send(1, call, NOW)
    slow.taken[0].set_exception(Conflict("somebody was quicker"))
    (answer,) = writes.answers(NOW)
    assert isinstance(answer.error, Conflict)


def test_a_fault_of_ours_is_an_answer_too_and_is_not_tried_again() -> None:
    slow = Slow()
    writes = writer(slow)
    writes.send(1, call, NOW)
    slow.taken[0].set_exception(ZeroDivisionError("oh"))
    (answer,) = writes.answers(NOW)
    assert type(answer.error) is StoreError
    assert "ZeroDivisionError" in str(answer.error)


def test_a_store_that_takes_no_more_answers_all_who_wait() -> None:
    slow = Slow()
    writes = writer(slow, most=1)
    for number in range(3):
        writes.send(number, call, NOW)
    slow.refuses = Unavailable("closed")
    slow.taken[0].set_result(STORED)
    found = writes.answers(NOW)
    assert numbers(found) == [0, 1, 2]
    assert [type(answer.error) for answer in found[1:]] == [Unavailable, Unavailable]


def test_room_is_given_back_whatever_came_of_a_write() -> None:
    slow = Slow()
    writes = writer(slow, most=1)
    slow.refuses = Unavailable("later")
    writes.send(1, call, NOW)
    slow.refuses = None
    writes.send(2, call, NOW)
    slow.taken[0].set_exception(Conflict("no"))
    writes.send(3, call, NOW)
    assert len(slow.taken) == 2


def test_ten_thousand_who_are_refused_at_once_do_not_fill_the_stack() -> None:
    slow = Slow()
    writes = writer(slow, most=1)
    for number in range(10_000):
        writes.send(number, call, NOW)
    slow.refuses = Unavailable("closed")
    slow.taken[0].set_result(STORED)
    assert len(writes.answers(NOW)) == 10_000


def test_a_store_that_answers_at_once_does_not_fill_the_stack_either() -> None:
    held: list[Future[Stored]] = []

    def submit(call: Call) -> Future[Stored]:
        future: Future[Stored] = Future()
        if held:
            future.set_result(STORED)
        else:
            held.append(future)
        return future

    writes = LiveWriter(submit, lambda: None, under_way_max=1)
    for number in range(10_000):
        writes.send(number, call, NOW)
    held[0].set_result(STORED)
    assert numbers(writes.answers(NOW)) == list(range(10_000))


# --- threads ----------------------------------------------------------------------------------------------------------


@contextmanager
def answering(slow: Slow, done: Event) -> Iterator[None]:
    """Another thread answers all taken calls."""

    def answer() -> None:
        seen = 0
        while not done.is_set():
            while seen < len(slow.taken):
                slow.taken[seen].set_result(STORED)
                seen += 1

    thread = Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_answers_from_another_thread_are_neither_lost_nor_doubled() -> None:
    slow, done = Slow(), Event()
    writes = writer(slow, most=16)
    found: list[int] = []
    with answering(slow, done):
        for number in range(2000):
            writes.send(number, call, NOW)
            found += numbers(writes.answers(NOW))
        for _ in range(1_000_000):
            found += numbers(writes.answers(NOW))
            if len(found) == 2000:
                break
    assert sorted(found) == list(range(2000))


def test_a_store_that_can_only_be_called_is_called_in_threads() -> None:
    store = MemoryStore(lambda: NOW)
    answered, threads = Event(), []

    def create(store: Any) -> Stored:
        threads.append(get_ident())
        return store.create(Cohort(metadata=ObjectMeta(name="a")))  # type: ignore[no-any-return]

    with ThreadPoolExecutor(1) as pool:
        writes = LiveWriter(in_threads(store, pool), answered.set)
        writes.send(1, create, NOW)
        assert answered.wait(30)
    (answer,) = writes.answers(NOW)
    assert answer.stored == store.get(kind_of(Cohort), "", "a")
    assert threads != [get_ident()]


@pytest.mark.parametrize("most", [1, 3])
def test_who_waits_keeps_its_order(most: int) -> None:
    slow = Slow()
    order: list[int] = []

    def noted(number: int) -> Call:
        return lambda store: order.append(number)  # type: ignore[return-value]

    def submit(call: Call) -> Future[Stored]:
        call(STORED)
        return slow.submit(call)

    writes = LiveWriter(submit, slow.poke, under_way_max=most)
    for number in range(6):
        writes.send(number, noted(number), NOW)
    for index in range(6):
        slow.taken[index].set_result(STORED)
    assert order == list(range(6))
