"""Virtual time: it stands still while there is something to do, then jumps."""

from __future__ import annotations

import pytest

from makeway.core.model import Millis
from makeway.runtime import virtual
from makeway.runtime.virtual import Virtual, VirtualClock


class Alarm:
    """An actor that has something to do at some times, as often in a row as it says; notes the times of its steps."""

    def __init__(self, *times: int, rounds: int = 1, name: str = "", notes: list[str] | None = None) -> None:
        self.times = sorted(times)
        self.rounds = rounds
        self.done: list[int] = []
        self.left = rounds
        self.name = name
        self.notes = [] if notes is None else notes

    def step(self, now: Millis) -> bool:
        self.notes.append(self.name)
        if not self.times or self.times[0] > now:
            return False
        self.done.append(now)
        self.left -= 1
        if not self.left:
            self.times.pop(0)
            self.left = self.rounds
        return True

    def next_at(self) -> Millis | None:
        return Millis(self.times[0]) if self.times else None


def driven(*actors: Alarm, begin: int = 0) -> tuple[Virtual, VirtualClock, list[int]]:
    clock, seen = VirtualClock(Millis(begin)), list[int]()
    return Virtual(clock, actors, seen.append), clock, seen


def test_time_jumps_to_what_is_due_and_each_point_is_told_once() -> None:
    one, other = Alarm(5, 3_600_000), Alarm(5, 70)
    driver, clock, seen = driven(one, other)
    driver.run()
    assert (one.done, other.done) == ([5, 3_600_000], [5, 70])
    assert seen == [0, 5, 70, 3_600_000]
    assert clock() == 3_600_000


def test_time_stands_still_until_nobody_has_anything_to_do() -> None:
    busy, other = Alarm(5, rounds=4), Alarm(6)
    driver, _, seen = driven(busy, other)
    driver.run()
    assert busy.done == [5, 5, 5, 5]
    assert seen == [0, 5, 6]
    assert driver.turns == 2 * (1 + 5 + 2), "one round more than there is to do, at each point"


def test_actors_take_turns_in_their_order() -> None:
    notes: list[str] = []
    driver, _, _ = driven(Alarm(0, name="a", notes=notes), Alarm(name="b", notes=notes))
    driver.run()
    assert notes == ["a", "b", "a", "b"]


def test_it_ends_at_the_given_time_and_goes_on_from_there() -> None:
    alarm = Alarm(10, 20, 30)
    driver, clock, _ = driven(alarm)
    driver.run(Millis(20))
    assert (alarm.done, clock()) == ([10, 20], 20)
    driver.run(Millis(25))
    assert (alarm.done, clock()) == ([10, 20], 25)
    driver.run()
    assert alarm.done == [10, 20, 30]


def test_with_nothing_to_do_time_passes_to_the_given_end() -> None:
    driver, clock, _ = driven(Alarm())
    driver.run()
    assert clock() == 0
    driver.run(Millis(99))
    assert clock() == 99
    driver.run(Millis(50))
    assert clock() == 99, "never back"


def test_a_time_that_has_passed_counts_as_now_and_time_goes_on() -> None:
    """An actor that names a time in the past and then has nothing to do does not stop time."""

    class Late(Alarm):
        def step(self, now: Millis) -> bool:
            assert now <= 13, "it went on past its end"
            return False

    driver, clock, seen = driven(Late(5), begin=10)
    driver.run(Millis(13))
    assert clock() == 13
    assert len(seen) <= 4


def test_who_never_comes_to_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "ROUNDS_MAX", 100)
    driver, _, _ = driven(Alarm(7, rounds=1000))
    with pytest.raises(AssertionError, match="no end of things to do at 7"):
        driver.run()
    assert driver.turns <= 102
