"""Times that the engine waits for: none is missed, and what is due is done in the order of registration."""

from __future__ import annotations

from makeway.core.model import Millis
from makeway.runtime.steps.deadlines import Deadlines
from makeway.runtime.workqueue import Timers


class Alarm:
    """Due once, at its time."""

    def __init__(self, name: str, at: int, done: list[str]) -> None:
        self.at: Millis | None = Millis(at)
        self._name, self._done = name, done

    def next_at(self) -> Millis | None:
        return self.at

    def work(self, now: Millis) -> int:
        if self.at is None or now < self.at:
            return 0
        self.at = None
        self._done.append(self._name)
        return 1


def test_the_first_of_all_times_is_the_next_one() -> None:
    deadlines, watched = Deadlines(), Alarm("watched", 5, [])
    assert deadlines.next_at() is None
    deadlines.add(Alarm("late", 9, []).next_at, lambda now: 0)
    deadlines.await_only(watched.next_at)
    assert deadlines.next_at() == 5
    watched.at = None
    assert deadlines.next_at() == 9


def test_what_is_due_is_done_in_the_order_of_registration_and_counted() -> None:
    done: list[str] = []
    deadlines = Deadlines()
    for name, at in (("b", 7), ("a", 3), ("later", 8)):
        alarm = Alarm(name, at, done)
        deadlines.add(alarm.next_at, alarm.work)
    assert deadlines.work(Millis(7)) == 2
    assert done == ["b", "a"]
    assert (deadlines.next_at(), deadlines.work(Millis(7))) == (8, 0)


def test_timers_go_off_one_by_one_and_nobody_waits_for_those_that_are_not_awaited() -> None:
    done: list[str] = []
    deadlines = Deadlines()
    timers: Timers[str] = Timers()
    unawaited: Timers[str] = Timers()
    deadlines.add_timers(timers, done.append)
    deadlines.add_timers(unawaited, done.append, awaited=False)
    timers.set("second", Millis(4))
    timers.set("first", Millis(2))
    unawaited.set("by the way", Millis(1))
    assert deadlines.next_at() == 2
    assert deadlines.work(Millis(4)) == 3
    assert done == ["first", "second", "by the way"]
