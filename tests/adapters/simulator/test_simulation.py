"""A simulated installation as a whole: equal runs are equal to the byte, state follows objects, nothing spins."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from makeway.adapters.simulator.faults import Faults
from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import arrivals_of
from makeway.controllers.contract import Ref
from makeway.core.lowering import load_state
from makeway.core.model import Millis, Workload
from makeway.core.state import State
from makeway.runtime.engine import Engine
from makeway.runtime.informers import watched_kinds
from makeway.runtime.live.driver import Live
from makeway.runtime.recount.recount import recount
from makeway.testing.worlds import BEGIN_MS, CHANGES, HARMLESS, MINUTE_MS, People, Shape, faulty, simulation
from tests.runtime.wires import cluster_queue, flavor, local_queue, workload
from tests.soaking import InTime

pytestmark = pytest.mark.slow

HOUR_MS = 60 * MINUTE_MS
FOREVER_MS = 10**12
SEEDS = (3, 4, 5)  # two of them with faults to the very end

TELL_JOURNALS = """
import sys
from makeway.testing.worlds import faulty, simulation
for seed in map(int, sys.argv[1:]):
    for run in (simulation(seed), faulty(seed)):
        run.run()
        print(run.journal.count, run.journal.sha256())
"""


# --- equal runs -------------------------------------------------------------------------------------------------------


def told_by_a_process(hash_seed: str) -> str:
    command = [sys.executable, "-c", TELL_JOURNALS, *map(str, SEEDS)]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def test_equal_seeds_give_equal_journals_whatever_the_hash_seed() -> None:
    told = told_by_a_process("1")
    assert told.count("\n") == 2 * len(SEEDS)
    assert len(set(told.split())) > len(SEEDS), "the seeds give different runs"
    assert told == told_by_a_process("2")


def run_live(ready: Simulation) -> None:
    """The same actors under the live driver, with a clock that advances by the time slept."""

    async def sleep(called: asyncio.Event, seconds: float) -> None:
        if seconds >= FOREVER_MS / 1000:
            live.stop()  # nothing more will happen
        else:
            ready.clock.now = Millis(ready.clock.now + round(seconds * 1000))

    live = Live(ready.clock, ready.driver.actors, poll_ms=FOREVER_MS, sleep=sleep)
    asyncio.run(live.run())


@pytest.mark.parametrize("make", [simulation, faulty])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_drivers_write_the_same_journal(make: Any, seed: int) -> None:
    virtual, live = make(seed), make(seed)
    virtual.run()
    run_live(live)
    assert list(virtual.journal.lines()) == list(live.journal.lines())
    assert virtual.journal.count > 0
    assert virtual.clock.now == live.clock.now


def test_another_seed_of_faults_gives_another_run_that_ends_as_well() -> None:
    told = set()
    for number in range(3):
        ready = simulation(4, faults=Faults.of_profile(number, "all"))
        ready.run(Millis(BEGIN_MS + 24 * HOUR_MS))
        assert ready.broken() == []
        told.add(ready.journal.sha256())
    assert len(told) == 3


# --- the state is what the objects say --------------------------------------------------------------------------------


def plain(each: Workload) -> dict[str, Any]:
    return {name: getattr(each, name) for name in each.__struct_fields__}


def books(state: State) -> dict[str, Any]:
    """What a restart may not forget: quota with its time, waiting workloads with their queues and claims, and usage."""
    waiting = [
        each for line in state.pending.lists.values() for each in (*line.waiting.values(), *line.parked.values())
    ]
    return {
        "holds": {key: plain(each) for key, each in sorted(state.holders.by_key.items())},
        "waits": {each.key: plain(each) for each in sorted(waiting, key=lambda each: each.key)},
        "claims": {
            key: (known.uid, known.queue, known.claim)
            for queue in state.claims.of_queue.values()
            for key, known in queue.items()
        },
        "usage": state.tree.contents(),
    }


def differences(here: Any, there: Any, path: str = "") -> list[str]:
    if not (isinstance(here, dict) and isinstance(there, dict)):
        return [] if here == there else [f"{path}: the state says {here}, the objects say {there}"]
    keys = sorted({*here, *there}, key=str)
    return [found for key in keys for found in differences(here.get(key), there.get(key), f"{path}/{key}")]


class Comparing:
    """The engine as an actor; its state is compared after every step without writes under way or objects set aside."""

    def __init__(self, ready: Simulation) -> None:
        self._engine = ready.engine
        self.compared = 0
        actors = ready.driver.actors
        actors[actors.index(self._engine)] = self

    def step(self, now: Millis) -> bool:
        happened = self._engine.step(now)
        engine = self._engine.engine
        known = [each for kind in watched_kinds() for each in engine.objects.all(Ref.kind_of(kind))]
        if not engine.set_aside and not any(engine.executor.is_busy(Ref.of(each)) for each in known):
            self.compared += 1
            self._compare(engine, known, now)
        return happened

    def _compare(self, engine: Engine, known: list[Any], now: Millis) -> None:
        loaded = load_state(known, engine.view.policy, now).state
        found = differences(books(engine.state), books(loaded))
        assert not found, f"{now - BEGIN_MS} ms after the beginning:\n" + "\n".join(found[:10])

    def next_at(self) -> Millis | None:
        return self._engine.next_at()


@pytest.mark.property
@pytest.mark.parametrize("profile", ["none", "all"])
@pytest.mark.parametrize("people", [False, True])
def test_the_state_after_any_step_is_that_of_the_objects(
    profile: str, people: bool, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    """The state is updated change by change; loading the objects anew must give the same state (S-3.11)."""
    compared, shape = 0, Shape(checks=people, namespaces=people)
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 400))):
        faults = None if profile == "none" else Faults.of_profile(seed, profile)
        ready = simulation(seed, faults=faults, shape=shape)
        if people:
            ready.driver.actors.append(People(ready.store, seed, changes=HARMLESS if faults else CHANGES))
        if faults is not None:
            faults.until = Millis(BEGIN_MS + 25 * MINUTE_MS)
        comparing = Comparing(ready)
        try:
            ready.run(Millis(BEGIN_MS + 24 * HOUR_MS))
        except AssertionError as error:
            raise AssertionError(f"world {seed}, faults {profile}, people {people}: {error}") from error
        compared += comparing.compared
    assert in_time.was_cut or compared > 10


@pytest.mark.property
def test_whatever_people_do_all_that_is_left_finishes(fuzz_inputs: int, fuzz_seed: int, in_time: InTime) -> None:
    made: dict[str, int] = {}
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 66))):
        ready = simulation(seed, shape=Shape(checks=True, namespaces=True))
        people = People(ready.store, seed)
        ready.driver.actors.append(people)
        ready.run(Millis(BEGIN_MS + 24 * HOUR_MS))
        lives = ready.world.lives.recorded(ready.clock.now)
        left = [each.workload for each in lives if each.finished_at is None and each.gone_at is None]
        wrong = [*map(str, ready.broken()), *left, *map(str, recount(ready.store_objects(), ready.engine.engine.state))]
        assert not wrong, f"world {seed}: {wrong}"
        made = {what: made.get(what, 0) + people.made.get(what, 0) for what in CHANGES}
    assert in_time.was_cut or all(made.values()), f"some changes never happened: {made}"


# --- nothing spins ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_blocked_head_costs_nothing_while_nothing_changes(strategy: str) -> None:
    """S-5.1: 0 cycles in a virtual hour; the driver takes as many turns as there are actors, once."""
    runs = {"annotations": {"makeway.dev/runtime": "5h"}, "creationTimestamp": "2026-01-01T12:00:00Z"}
    later = {**runs, "creationTimestamp": "2026-01-01T12:01:00Z"}
    ready = Simulation(
        SimulationSettings(),
        arrivals_of(
            [
                flavor(), cluster_queue(nominal=4, queueingStrategy=strategy), local_queue(),
                workload("runs", count=4, meta=runs), workload("waits", count=2, meta=later),
                workload("behind", count=1, meta=later),
            ]
        ),
        witness=True,
    )  # fmt: skip
    begin = ready.clock.now
    ready.run(Millis(begin + 2 * MINUTE_MS))
    before = (ready.engine.cycles, ready.engine.writes, ready.driver.turns)
    assert before[0] > 0
    ready.run(Millis(begin + 2 * MINUTE_MS + HOUR_MS))
    cycles, writes, turns = ready.engine.cycles, ready.engine.writes, ready.driver.turns
    assert (cycles - before[0], writes - before[1]) == (0, 0)
    assert turns - before[2] <= 2 * len(ready.driver.actors)
    assert ready.broken() == []


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_there_are_no_more_turns_than_things_that_happen(seed: int) -> None:
    """A turn follows a change or a timer; each change is handled in a few rounds."""
    times: list[Millis] = []
    ready = simulation(seed, watching=times.append)
    ready.run()
    changes = int(ready.store.resource_version)
    rounds = ready.driver.turns // len(ready.driver.actors)
    assert rounds <= 3 * changes + len(times)
    assert ready.engine.cycles <= changes
    assert len(times) <= 2 * changes
