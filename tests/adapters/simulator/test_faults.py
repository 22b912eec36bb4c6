"""Each fault point does what its sentence says, depends on the seed, and is counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from makeway.adapters.simulator.faults import (
    CLOCK_STEP_MS_MAX,
    LATE_MS_MAX,
    POINTS,
    PROFILES,
    SLOW_MS_MAX,
    Crashed,
    Faults,
    FaultyStore,
    FaultyWriter,
)
from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.store import MemoryStore
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.queueing import Cohort
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.executor import WriteAnswer
from makeway.runtime.ports import Conflict, Expired, TimedOut, Unavailable, Watch
from makeway.testing.worlds import BEGIN_MS, MINUTE_MS, faulty, simulation

KIND = kind_of(Cohort)
ALWAYS = 1000


class Play:
    """A store, a clock, and faults that always fire, or never."""

    def __init__(self, *points: str, seed: int = 0) -> None:
        self.now = Millis(1_000_000)
        self.faults = Faults(seed, dict.fromkeys(points, ALWAYS))
        self.faults.now = lambda: self.now
        self.store = MemoryStore(lambda: self.now)
        self.view = FaultyStore(self.store, self.faults)
        self.writer = FaultyWriter(self.store, self.faults)

    def create(self, *names: str) -> None:
        for name in names:
            self.store.create(Cohort(metadata=ObjectMeta(name=name)))

    def there(self) -> list[str]:
        return [each.name for each in self.store.list(KIND).items]

    def watch(self) -> Watch:
        return self.view.watch(KIND, self.store.resource_version)

    def send(self, name: str, number: int = 1) -> None:
        self.writer.send(number, lambda store: store.create(Cohort(metadata=ObjectMeta(name=name))), self.now)

    def answers(self) -> Sequence[WriteAnswer]:
        return self.writer.answers(self.now)

    def pass_to(self, at: Millis | None) -> None:
        assert at is not None
        self.now = at


def names(watch: Watch) -> list[str]:
    return [event.object.name for event in watch.poll() if event.object is not None]


# --- dice -------------------------------------------------------------------------------------------------------------


def test_equal_seeds_throw_equal_dice() -> None:
    def thrown(seed: int) -> list[bool]:
        faults = Faults(seed, {"crash.step": 300})
        return [faults.fires("crash.step") for _ in range(200)]

    assert thrown(1) == thrown(1) != thrown(2)
    assert 30 < sum(thrown(1)) < 90


def test_what_fired_is_counted_and_what_never_did_is_named() -> None:
    faults = Faults(0, {"crash.step": ALWAYS, "clock.back": 1, "watch.lost": 0})
    assert faults.fires("crash.step")
    assert not faults.fires("watch.delayed"), "it is not on"
    assert (faults.fired["crash.step"], faults.fired["watch.delayed"]) == (1, 0)
    assert faults.never_fired() == ["clock.back"]


def test_from_its_end_on_nothing_goes_wrong() -> None:
    play = Play("crash.step")
    play.faults.until = Millis(play.now + 5)
    assert play.faults.fires("crash.step")
    play.now = Millis(play.now + 5)
    assert not play.faults.fires("crash.step")
    assert play.faults.fired["crash.step"] == 1


def test_a_point_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no such fault point: watch.gone; there are watch.delayed, "):
        Faults(0, {"watch.gone": 1})


def test_every_point_is_in_a_profile_of_its_own_kind_and_in_that_of_all() -> None:
    assert set(PROFILES["all"]) == set(POINTS)
    assert set(POINTS) == {name for profile in PROFILES if profile != "all" for name in PROFILES[profile]}
    assert PROFILES["none"] == {}


# --- watches ----------------------------------------------------------------------------------------------------------


def test_without_faults_a_watch_tells_all_at_once_and_in_order() -> None:
    play = Play()
    watch = play.watch()
    play.create("a", "b")
    assert names(watch) == ["a", "b"]
    assert play.view.next_at() is None


def test_a_delayed_event_comes_late_and_the_driver_knows_when() -> None:
    play = Play("watch.delayed")
    watch = play.watch()
    play.create("a")
    assert names(watch) == []
    at = play.view.next_at()
    assert at is not None
    assert play.now < at <= play.now + LATE_MS_MAX
    play.now = Millis(at - 1)
    assert names(watch) == []
    play.now = at
    assert names(watch) == ["a"]
    assert play.view.next_at() is None


def test_a_doubled_event_comes_twice() -> None:
    play = Play("watch.duplicated")
    watch = play.watch()
    play.create("a")
    assert names(watch) == ["a", "a"]
    assert names(watch) == []


def test_a_reordered_event_comes_after_the_one_that_followed_it() -> None:
    play = Play("watch.reordered")
    watch = play.watch()
    play.create("a", "b")
    assert names(watch) == ["b", "a"]


def test_a_watch_that_breaks_says_nothing_then_expires_and_what_it_had_is_lost() -> None:
    play = Play("watch.lost")
    watch = play.watch()
    play.create("a", "b")
    assert names(watch) == []
    at = play.view.next_at()
    assert at is not None
    assert play.now < at <= play.now + LATE_MS_MAX
    assert names(watch) == []
    play.now = at
    with pytest.raises(Expired):
        watch.poll()


def test_a_broken_watch_that_was_replaced_is_waited_for_no_more() -> None:
    """Else the driver would step through every remaining millisecond."""
    play = Play("watch.lost")
    watch = play.watch()
    play.create("a")
    watch.poll()
    play.pass_to(play.view.next_at())
    with pytest.raises(Expired):
        watch.poll()
    play.watch()
    assert play.view.next_at() is None


def test_a_watch_that_broke_with_late_events_is_not_waited_for_before_it_says_so() -> None:
    play = Play("watch.delayed")
    watch = play.watch()
    play.create("a")
    watch.poll()
    late = play.view.next_at()
    play.faults._chances = {"watch.lost": ALWAYS}
    play.create("b")
    watch.poll()
    breaks = watch._breaks_at  # type: ignore[attr-defined]
    assert late is not None
    for at in range(play.now, breaks, 500):
        play.now = Millis(at)
        assert play.view.next_at() == breaks, "what it had not told is lost, so nothing is due before"


def test_a_list_and_a_watch_cannot_be_had() -> None:
    play = Play("list.failed")
    for call in (lambda: play.view.list(KIND), lambda: play.view.watch(KIND)):
        with pytest.raises(Unavailable):
            call()
    assert play.faults.fired["list.failed"] == 2


def test_other_calls_are_passed_on() -> None:
    play = Play(*POINTS)
    play.create("a")
    assert play.view.get(KIND, "", "a").name == "a"  # type: ignore[operator]


def test_whoever_is_no_more_has_no_watches() -> None:
    play = Play("watch.delayed")
    watch = play.watch()
    play.create("a")
    watch.poll()
    assert play.view.next_at() is not None
    play.view.forget_watches()
    assert play.view.next_at() is None


# --- writes -----------------------------------------------------------------------------------------------------------


def test_without_faults_a_write_is_made_and_answered_at_once() -> None:
    play = Play()
    play.send("a")
    [answer] = play.answers()
    assert answer.stored is not None
    assert play.there() == ["a"]
    assert play.answers() == []


@pytest.mark.parametrize(
    ("point", "error", "applied"),
    [
        ("write.conflict", Conflict, False),
        ("write.failed", Unavailable, False),
        ("write.timeout.lost", TimedOut, False),
        ("write.timeout.applied", TimedOut, True),
    ],
)
def test_a_write_is_answered_with_an_error(point: str, error: type[Exception], applied: bool) -> None:
    play = Play(point)
    play.send("a")
    [answer] = play.answers()
    assert type(answer.error) is error
    assert play.there() == (["a"] if applied else [])


@pytest.mark.parametrize(("point", "applied"), [("write.slow.applied", True), ("write.slow.pending", False)])
def test_a_slow_write_is_answered_late(point: str, applied: bool) -> None:
    play = Play(point)
    play.send("a")
    assert play.there() == (["a"] if applied else [])
    assert play.answers() == []
    at = play.writer.next_at()
    assert at is not None
    assert play.now < at <= play.now + SLOW_MS_MAX
    play.now = at
    [answer] = play.answers()
    assert answer.stored is not None
    assert play.there() == ["a"]
    assert play.writer.next_at() is None


@pytest.mark.parametrize(("point", "applied"), [("crash.before", False), ("crash.after", True)])
def test_the_engine_ends_just_before_or_after_a_write(point: str, applied: bool) -> None:
    play = Play(point)
    with pytest.raises(Crashed):
        play.send("a")
    assert play.there() == (["a"] if applied else [])
    assert play.answers() == [], "nobody is there to hear it"


# --- the engine -------------------------------------------------------------------------------------------------------


def run(ready: Simulation) -> Simulation:
    ready.run(Millis(BEGIN_MS + 5 * MINUTE_MS))
    return ready


def test_the_engine_begins_anew_between_two_steps() -> None:
    faults = Faults(0, {"crash.step": 100})
    ready = run(simulation(2, faults=faults))
    assert ready.engine.restarts == faults.fired["crash.step"] > 0
    assert ready.engine.writes > ready.engine.engine.executor.writes, "those of earlier engines count"


def test_the_clock_of_the_engine_jumps_and_that_of_the_world_does_not() -> None:
    faults = Faults(0, {"clock.forward": 50})
    ready = run(simulation(2, faults=faults))
    assert faults.fired["clock.forward"] > 0
    engine = ready.engine.engine
    assert ready.clock.now == BEGIN_MS + 5 * MINUTE_MS
    assert 0 < engine.now - ready.clock.now <= faults.fired["clock.forward"] * CLOCK_STEP_MS_MAX


def test_what_is_due_by_a_clock_that_went_back_is_due_by_that_clock() -> None:
    faults = Faults(0, {"clock.back": 50})
    ready = run(simulation(2, faults=faults))
    assert faults.fired["clock.back"] > 0
    assert ready.engine.engine.now < ready.clock.now
    engine_at, at = ready.engine.engine.next_at(), ready.engine.next_at()
    assert (engine_at is None) == (at is None)


def test_a_machine_whose_clock_is_set_hardly_moves_the_engine() -> None:
    faults = Faults(0, {"clock.set": 50, "crash.step": 0})
    ready = run(simulation(2, faults=faults))
    assert faults.fired["clock.set"] > 0
    assert 0 < abs(ready.engine._ahead()) <= 5 * MINUTE_MS // 10


def test_a_run_tells_which_points_fired() -> None:
    ready = faulty(3)
    ready.run()
    fired = ready.recorded().faults_fired
    assert set(fired) == set(POINTS)
    assert sum(fired.values()) > 0
    none = simulation(3)
    none.run()
    assert none.recorded().faults_fired == {}
    assert SimulationSettings().faults is None
