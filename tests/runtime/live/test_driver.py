"""The live driver: news while idle is noticed at once, no Store is asked in vain, and it ends when it should."""

from __future__ import annotations

import asyncio
import threading

import pytest

from makeway.adapters.simulator.store import MemoryStore
from makeway.api.conditions import is_true
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.controllers.standard import standard
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.engine import Engine
from makeway.runtime.live.driver import Live, LiveThread, sleep_until_called, wall_clock
from tests.runtime.test_virtual import Alarm
from tests.runtime.wires import cluster_queue, flavor, local_queue, workload

LONG_MS = 3_600_000


class Clock:
    """A clock that goes on while it sleeps; it notes how long each sleep was."""

    def __init__(self) -> None:
        self.now = Millis(1_000_000)
        self.slept: list[int] = []
        self.live: Live | None = None
        self.ends_after = 10

    def __call__(self) -> Millis:
        return self.now

    async def sleep(self, called: asyncio.Event, seconds: float) -> None:
        self.slept.append(round(seconds * 1000))
        self.now = Millis(self.now + round(seconds * 1000))
        if len(self.slept) >= self.ends_after and self.live is not None:
            self.live.stop()


def run(*actors: Alarm, poll_ms: int = 1000, sleeps: int = 10) -> tuple[Clock, Live]:
    clock = Clock()
    clock.ends_after = sleeps
    live = clock.live = Live(clock, actors, poll_ms=poll_ms, sleep=clock.sleep)
    asyncio.run(live.run())
    return clock, live


def test_it_sleeps_until_something_is_due() -> None:
    alarm = Alarm(1_000_250, 1_000_300)
    clock, _ = run(alarm, sleeps=3)
    assert alarm.done == [1_000_250, 1_000_300]
    assert clock.slept == [250, 50, 1000]


def test_it_never_sleeps_longer_than_the_poll_interval() -> None:
    clock, _ = run(Alarm(1_000_000 + LONG_MS), poll_ms=1000, sleeps=3)
    assert clock.slept == [1000, 1000, 1000]


def test_idle_means_one_turn_per_poll_interval_and_no_more() -> None:
    """No busy loop: steps are counted."""
    _, live = run(Alarm(), Alarm(), sleeps=20)
    assert live.turns == 2 * 20


def test_a_time_that_has_passed_does_not_make_it_spin() -> None:
    class Late(Alarm):
        def step(self, now: Millis) -> bool:
            return False

    clock, live = run(Late(5), sleeps=20)
    assert min(clock.slept) >= 1
    assert live.turns == 20


def test_while_there_is_something_to_do_it_does_not_sleep() -> None:
    alarm = Alarm(1_000_000, rounds=7)
    clock, live = run(alarm, sleeps=1)
    assert alarm.done == [1_000_000] * 7
    assert len(clock.slept) == 1
    assert live.turns == 8


@pytest.mark.parametrize(("took", "rests"), [(0.001, 0), (0.005, 0.005), (0.4, 0.02)])
def test_after_a_long_turn_it_rests_as_long_again_but_not_for_long(took: float, rests: float) -> None:
    rested: list[float] = []
    times = iter(each for i in range(100) for each in (float(i), i + took))

    async def rest(seconds: float) -> None:
        rested.append(seconds)

    clock = Clock()
    clock.ends_after = 1
    alarm = Alarm(1_000_000, rounds=3)
    live = clock.live = Live(
        clock, [alarm], sleep=clock.sleep, rest_ms_max=20, stopwatch=lambda: next(times), rest=rest
    )
    asyncio.run(live.run())
    assert rested == pytest.approx([rests] * 3)


def test_others_share_the_loop_while_it_is_busy() -> None:
    async def both() -> int:
        live = Live(Clock(), [Alarm(0, rounds=10**9)])
        running = asyncio.create_task(live.run())
        for _ in range(10):
            await asyncio.sleep(0)
        live.stop()
        await asyncio.wait_for(running, 30)
        return live.turns

    assert 0 < asyncio.run(both()) < 100


# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_ends_a_sleep_at_once() -> None:
    """The interval is an hour: without the call this test would not end."""

    async def play() -> int:
        alarm = Alarm()
        live = Live(lambda: Millis(0), [alarm], poll_ms=LONG_MS)
        running = asyncio.create_task(live.run())
        await until(lambda: live.turns == 1)
        alarm.times = [0]
        live.poke()
        await until(lambda: bool(alarm.done))
        live.stop()
        await asyncio.wait_for(running, 30)
        return live.turns

    assert asyncio.run(play()) <= 4


def test_a_call_from_another_thread_is_heard() -> None:
    async def play() -> None:
        alarm = Alarm()
        live = Live(lambda: Millis(0), [alarm], poll_ms=LONG_MS)
        running = asyncio.create_task(live.run())
        await until(lambda: live.turns == 1)
        alarm.times = [0]
        caller = threading.Thread(target=live.poke)
        caller.start()
        await until(lambda: bool(alarm.done))
        live.stop()
        await asyncio.wait_for(running, 30)
        caller.join()

    asyncio.run(play())


def test_a_call_during_a_turn_is_not_lost() -> None:
    """News that comes after an actor's step and before the sleep begins ends that sleep."""

    class Caller(Alarm):
        def step(self, now: Millis) -> bool:
            if live.turns == 2:
                first.times = [0]
                live.poke()
            return False

    first = Alarm()

    async def play() -> None:
        running = asyncio.create_task(live.run())
        await until(lambda: bool(first.done))
        live.stop()
        await asyncio.wait_for(running, 30)

    live = Live(lambda: Millis(0), [first, Caller()], poll_ms=LONG_MS)
    asyncio.run(play())
    assert first.done == [0]


def test_a_call_before_it_runs_harms_nobody() -> None:
    live = Live(Clock(), [Alarm()])
    live.poke()
    live.stop()
    asyncio.run(live.run())
    assert live.turns == 0


def test_stop_ends_a_long_sleep() -> None:
    async def play() -> None:
        live = Live(lambda: Millis(0), [Alarm()], poll_ms=LONG_MS)
        running = asyncio.create_task(live.run())
        await until(lambda: live.turns == 1)
        live.stop()
        await asyncio.wait_for(running, 30)
        assert live.turns == 1

    asyncio.run(play())


def test_a_sleep_that_nobody_ends_ends_by_itself() -> None:
    asyncio.run(sleep_until_called(asyncio.Event(), 0.001))


def test_many_calls_while_it_works_are_one() -> None:
    """A hundred commits during a long step do not cost a hundred calls."""
    calls = 0

    class Busy(Alarm):
        def step(self, now: Millis) -> bool:
            nonlocal calls
            assert live._loop is not None
            schedule = live._loop.call_soon_threadsafe

            def counted(*args: object) -> object:
                nonlocal calls
                calls += 1
                return schedule(*args)  # type: ignore[arg-type]

            live._loop.call_soon_threadsafe = counted  # type: ignore[assignment]
            for _ in range(100):
                live.poke()
            live.stop()
            return False

    live = Live(Clock(), [Busy()])
    asyncio.run(live.run())
    assert calls == 2, "one for the news and one for the end"


def test_a_call_after_it_has_ended_harms_nobody() -> None:
    live = Live(Clock(), [Alarm()])
    live.stop()
    asyncio.run(live.run())
    live.poke()


# --- a thread of its own ----------------------------------------------------------------------------------------------


def test_a_thread_runs_it_until_it_is_stopped() -> None:
    stepped = threading.Event()

    class Seen(Alarm):
        def step(self, now: Millis) -> bool:
            stepped.set()
            return False

    thread = LiveThread(Live(Clock(), [Seen()], poll_ms=LONG_MS), lambda error: pytest.fail(str(error)))
    thread.start()
    assert stepped.wait(30)
    assert thread.is_alive
    assert thread.stop(30)
    assert not thread.is_alive


def test_an_error_that_ends_it_is_heard_of() -> None:
    heard: list[BaseException] = []
    told = threading.Event()

    class Broken(Alarm):
        def step(self, now: Millis) -> bool:
            raise ZeroDivisionError("oh")

    def hear(error: BaseException) -> None:
        heard.append(error)
        told.set()

    thread = LiveThread(Live(Clock(), [Broken()]), hear)
    thread.start()
    assert told.wait(30)
    assert thread.stop(30)
    assert [type(error) for error in heard] == [ZeroDivisionError]


def test_who_does_not_come_to_an_end_in_time_is_told_of() -> None:
    began, ends = threading.Event(), threading.Event()

    class Long(Alarm):
        def step(self, now: Millis) -> bool:
            began.set()
            ends.wait(30)
            return False

    thread = LiveThread(Live(Clock(), [Long()]), lambda error: pytest.fail(str(error)))
    thread.start()
    assert began.wait(30)
    assert not thread.stop(0.01)
    ends.set()
    assert thread.stop(30)


def test_the_clock_of_the_machine_goes_on() -> None:
    before = wall_clock()
    assert before <= wall_clock()
    assert before > 1_700_000_000_000, "milliseconds since 1970"


# --- the engine -------------------------------------------------------------------------------------------------------


def test_a_workload_that_arrives_while_the_engine_is_idle_is_admitted_at_once() -> None:
    clock = Clock()
    store = MemoryStore(clock, careful=False)
    store.load([flavor(), cluster_queue(nominal=4), local_queue()])
    engine = Engine(store, Policy.default(), standard(lambda _: 0))

    def is_admitted() -> bool:
        status = store.get(kind_of(Workload), "default", "w").value().status
        return status is not None and is_true(status.conditions, "Admitted")

    async def play() -> tuple[int, int]:
        live = Live(clock, [engine], poll_ms=LONG_MS)
        running = asyncio.create_task(live.run())
        for _ in range(100):
            await asyncio.sleep(0)
        idle = live.turns
        assert 0 < idle < 20, "it sleeps by now"
        store.load([workload("w")])
        assert not is_admitted()
        live.poke()
        await until(is_admitted)
        live.stop()
        await asyncio.wait_for(running, 30)
        return idle, live.turns

    idle, turns = asyncio.run(play())
    assert turns - idle <= 12
    assert clock.now == 1_000_000, "no time had to pass"


async def until(holds: object) -> None:
    """Wait for other tasks of this loop, without a clock."""
    assert callable(holds)
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to pass")
