"""Which objects to reconcile, and when."""

import pytest

from makeway.core.model import Millis
from makeway.runtime.workqueue import ReconcileQueue, Timers, backoff_ms


def test_naming_twice_is_naming_once_and_the_first_place_counts() -> None:
    looks: ReconcileQueue[str] = ReconcileQueue()
    for name in ("b", "a", "b", "c"):
        looks.add(name)
    assert [looks.take() for _ in range(len(looks))] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("attempts", "pause"), [(0, 0), (1, 1000), (2, 2000), (3, 4000), (6, 32_000), (7, 60_000), (500, 60_000)]
)
def test_pauses_double_up_to_a_minute(attempts: int, pause: int) -> None:
    assert backoff_ms(attempts) == pause


def test_timers_go_off_in_order_and_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("late", Millis(30))
    timers.set("early", Millis(10))
    timers.set("also early", Millis(10))
    assert timers.next_at() == 10
    assert list(timers.due(Millis(20))) == ["early", "also early"]
    assert list(timers.due(Millis(20))) == []
    assert timers.next_at() == 30


def test_setting_again_replaces_and_none_stops() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", Millis(10))
    timers.set("a", Millis(50))
    timers.set("b", Millis(20))
    timers.set("b", None)
    assert list(timers.due(Millis(49))) == []
    assert list(timers.due(Millis(50))) == ["a"]
    assert timers.next_at() is None


def test_setting_the_same_time_keeps_the_place() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", Millis(10))
    timers.set("b", Millis(10))
    timers.set("a", Millis(10))
    assert list(timers.due(Millis(10))) == ["a", "b"]


def test_a_timer_that_is_set_often_costs_one_entry() -> None:
    timers: Timers[str] = Timers()
    for at in range(1000):
        timers.set("a", Millis(at))
    assert len(timers) == 1
