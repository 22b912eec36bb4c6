"""The steady clock: it never goes back, never jumps, and comes to agree with the date again."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.model import Millis
from makeway.runtime.steady import SLEW, SteadyClock, machine_ns

MS = 10**6
SECOND, HOUR, YEAR = 1000, 3_600_000, 365 * 24 * 3_600_000
BEGIN = 1_767_268_800_000


class Machine:
    """A machine whose clock can be set; all in milliseconds."""

    def __init__(self) -> None:
        self.wall_ms = BEGIN
        self.up_ms = 5_000

    def clock(self, not_before: Millis | None = None) -> SteadyClock:
        return SteadyClock(lambda: self.wall_ms * MS, lambda: self.up_ms * MS, not_before)

    def pass_ms(self, ms: int) -> None:
        self.wall_ms += ms
        self.up_ms += ms


def test_it_begins_with_the_date_and_goes_on_with_the_machine() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock() == BEGIN
    machine.pass_ms(90 * SECOND)
    assert (clock(), clock.behind_ms()) == (BEGIN + 90 * SECOND, 0)


@pytest.mark.parametrize("jump", [-YEAR, -HOUR, HOUR, YEAR])
def test_a_clock_that_is_set_is_followed_by_a_tenth(jump: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_ms += jump
    assert clock() == BEGIN
    machine.pass_ms(100 * SECOND)
    assert clock() == BEGIN + (110 if jump > 0 else 90) * SECOND
    assert clock.behind_ms() == jump - (10 if jump > 0 else -10) * SECOND


def test_an_hour_is_made_up_for_in_ten() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_ms -= HOUR
    for _ in range(100):
        machine.pass_ms(HOUR // 10)
        clock()
    assert clock() == machine.wall_ms
    machine.pass_ms(HOUR)
    assert clock() == machine.wall_ms


def test_what_the_machine_slept_has_passed() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.pass_ms(8 * HOUR)  # the clock was not read meanwhile
    assert clock() == BEGIN + 8 * HOUR
    assert machine_ns() >= time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 1_000_000


def test_a_new_start_does_not_go_behind_the_last() -> None:
    machine = Machine()
    told = machine.clock()()
    machine.wall_ms -= YEAR
    clock = machine.clock(not_before=told)
    assert clock() == told
    machine.pass_ms(10 * SECOND)
    assert clock() == told + 9 * SECOND
    machine.wall_ms += 2 * YEAR
    assert machine.clock(not_before=told)() == machine.wall_ms


def test_threads_see_it_go_forward_only() -> None:
    clock = SteadyClock()
    backward: list[tuple[int, int]] = []

    def look() -> None:
        last = clock()
        for _ in range(2000):
            now = clock()
            if now < last:
                backward.append((last, now))
            last = now

    threads = [Thread(target=look) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert backward == []


STEPS = st.lists(
    st.tuples(st.integers(0, 2 * HOUR), st.one_of(st.just(0), st.integers(-YEAR, YEAR)), st.booleans()), max_size=30
)


@pytest.mark.property
@given(STEPS)
def test_whoever_sets_the_clock_and_whenever_it_is_started_again(steps: list[tuple[int, int, bool]]) -> None:
    """Forward only; while it runs by nine to eleven tenths of the time that passed; it ends equal to the wall."""
    machine = Machine()
    clock = machine.clock()
    last = clock()
    for passed, jump, restarts in steps:
        machine.pass_ms(passed)
        machine.wall_ms += jump
        now = clock()
        assert passed - passed / SLEW - 1 <= now - last <= passed + passed / SLEW + 1
        if restarts:
            clock = machine.clock(not_before=now)
            assert clock() == max(now, machine.wall_ms)
        last = clock()
    machine.pass_ms(abs(clock.behind_ms()) * SLEW)
    assert abs(clock.behind_ms()) <= 1
