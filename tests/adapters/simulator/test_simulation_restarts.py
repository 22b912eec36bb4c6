"""The engine may end at any step and at any write: it only needs the stored objects to go on as if nothing had
happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from makeway.adapters.simulator.faults import Faults
from makeway.adapters.simulator.simulation import Simulation
from makeway.api import codec
from makeway.api.conditions import is_true
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.core.policy import Policy
from makeway.runtime.recount.recount import recount
from makeway.runtime.scheduling.unevaluated import Unevaluated
from makeway.testing.worlds import BEGIN_MS, MINUTE_MS, Shape, simulation
from tests.soaking import InTime

pytestmark = pytest.mark.slow

DAY_MS = 24 * 60 * MINUTE_MS
MIDDLE_MS = 12 * MINUTE_MS  # of a morning: some run, some wait, some have ended
CUTS_EACH = 3
ONE_FLAVOR = Shape(flavors_max=1)
Tree = dict[str, Any]
Make = Callable[[int, Faults | None], Simulation]


class Cut(Faults):
    """One fault only: the ``number``-th time that the run reaches ``point``, the engine ends."""

    def __init__(self, point: str, number: int = 0) -> None:
        super().__init__(0, {})
        self._point = point
        self._number = number
        self._steps = 0
        self.count = 0
        self.step = 0  # of the engine that ended

    def fires(self, point: str) -> bool:
        self._steps += point == "crash.step"  # asked before each step
        if point != self._point:
            return False
        self.count += 1
        if self.count == self._number:
            self.step = self._steps
        return self.count == self._number


class Woken(Faults):
    """No fault; but before one step all verdicts are forgotten, as in a restart (S-3.11, 4.6).

    Also forgotten is since when queues have no work, which a first status waits for (0076).
    """

    def __init__(self, step: int) -> None:
        super().__init__(0, {})
        self._step = step
        self._steps = 0
        self.of: Simulation | None = None

    def fires(self, point: str) -> bool:
        self._steps += point == "crash.step"
        if point == "crash.step" and self._steps == self._step:
            assert self.of is not None
            engine, now = self.of.engine.engine, self.of.clock.now
            lines = engine.state.pending.lists
            engine.state.pending.wake(list(lines), now, engine.state.namespace_matches)
            engine.scheduler.plans.unevaluated = Unevaluated()
            for queue, line in lines.items():
                line.judged.clear()  # none is passed over as one that was refused before (0017)
                engine.scheduler.plans.unevaluated.note_queue(queue, engine.view, now)
        return False


def without_memory() -> Policy:
    """A policy under which a restart changes nothing at all: rounds of preemptions are not counted (S-3.11)."""
    default = Policy.default()
    return replace(default, gates=replace(default.gates, preemption_epochs=False))


def narrow(seed: int, faults: Faults | None) -> Simulation:
    """One flavor per group, so that there is no position in a scan of flavors to forget."""
    return simulation(seed, faults=faults, shape=ONE_FLAVOR, policy=without_memory())


def any_world(seed: int, faults: Faults | None) -> Simulation:
    return simulation(seed, faults=faults)


def stored(ready: Simulation, *, figures: bool = True) -> dict[tuple[str, str, str], Tree]:
    """All objects, without their numbers of writes; ``figures`` of queues may be a second old before the end."""
    found = {}
    for each in ready.store_objects():
        tree: Tree = codec.to_tree(each)
        if not figures and each.kind in ("ClusterQueue", "LocalQueue"):
            tree.pop("status", None)
        for counter in ("resourceVersion", "generation"):
            tree["metadata"].pop(counter, None)
        found[each.kind, each.metadata.namespace, each.metadata.name] = tree
    return found


def differences(here: Any, there: Any, path: str = "") -> Iterator[str]:
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted({*here, *there}, key=str):
            yield from differences(here.get(key), there.get(key), f"{path}/{key}")
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, (one, other) in enumerate(zip(here, there, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif here != there:
        yield f"{path}: {here} without the restart, {there} with it"


def cuts(make: Make, seed: int, point: str) -> tuple[list[int], Simulation]:
    """Some of the times at which a run reaches ``point``, drawn from the seed; and that run, to its middle."""
    counting = Cut(point)
    whole = make(seed, counting)
    whole.run(Millis(BEGIN_MS + MIDDLE_MS))
    dice = random.Random(f"cuts {seed} {point}")
    return sorted(dice.sample(range(1, counting.count + 1), min(CUTS_EACH, counting.count))), whole


# --- the same end -----------------------------------------------------------------------------------------------------


class Course(NamedTuple):
    """The objects of a run in the middle of the morning and at its end."""

    middle: dict[tuple[str, str, str], Tree]
    end: dict[tuple[str, str, str], Tree]

    @classmethod
    def of(cls, ready: Simulation) -> Course:
        ready.run(Millis(BEGIN_MS + MIDDLE_MS))
        middle = stored(ready, figures=False)
        ready.run(Millis(BEGIN_MS + DAY_MS))
        return cls(middle, stored(ready))

    def differences(self, cut: Course) -> list[str]:
        return [*differences(self.middle, cut.middle), *differences(self.end, cut.end)]


def woken(seed: int, step: int) -> Course:
    faults = Woken(step)
    faults.of = narrow(seed, faults)
    return Course.of(faults.of)


@pytest.mark.property
@pytest.mark.parametrize(("point", "per_world"), [("crash.step", 100), ("crash.before", 250), ("crash.after", 250)])
def test_a_run_that_was_cut_ends_as_if_it_was_not(
    point: str, per_world: int, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:  # fmt: skip
    """With one flavor per group and without rounds: equal objects in the middle of the morning, and at its end.

    A restart may forget verdicts, and evaluates every workload once (S-3.11). If that alone makes a difference, the run
    is equal to that of an engine which was never cut, but evaluated every workload in the same step. That is rare.
    """
    tried, by_a_look = 0, 0
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // per_world))):
        numbers, whole = cuts(narrow, seed, point)
        plain = Course.of(whole)
        for number in numbers:
            fault = Cut(point, number)
            cut = narrow(seed, fault)
            course = Course.of(cut)
            assert cut.engine.restarts == 1
            found = plain.differences(course)
            if found:
                by_a_look += 1
                found = woken(seed, fault.step).differences(course)
            assert not found, f"world {seed}, {point} number {number}:\n" + "\n".join(found[:10])
            tried += 1
    assert in_time.was_cut or by_a_look <= tried // 20
    assert in_time.was_cut or tried >= 2 * (fuzz_inputs // per_world)


# --- in all worlds ----------------------------------------------------------------------------------------------------


def lost(ready: Simulation, watch: Any) -> Iterator[str]:
    """Acknowledged writes that were undone without a reason, revision by revision."""
    before: dict[str, Workload] = {}
    while events := watch.poll():
        for event in events:
            after = event.object.value()
            known = before.get(after.metadata.uid)
            if known is not None:
                yield from (
                    f"{after.metadata.name} at {event.resource_version}: {each}" for each in undone(known, after)
                )
            before[after.metadata.uid] = after


def undone(known: Workload, after: Workload) -> Iterator[str]:
    had, has = known.status, after.status
    if had is None or has is None:
        return
    if is_true(had.conditions, "Finished") and not is_true(has.conditions, "Finished"):
        yield "it had finished"
    leaves = is_true(had.conditions, "Evicted") or is_true(had.conditions, "Finished")
    if is_true(had.conditions, "QuotaReserved") and not is_true(has.conditions, "QuotaReserved") and not leaves:
        yield "its reservation is gone, and nobody evicted it"
    stays = is_true(had.conditions, "Evicted") and not is_true(has.conditions, "Evicted")
    if stays and is_true(had.conditions, "QuotaReserved"):
        yield "its eviction is forgotten before it has left"


@pytest.mark.property
@pytest.mark.parametrize(("point", "per_world"), [("crash.step", 100), ("crash.before", 250), ("crash.after", 250)])
def test_nothing_is_lost_or_given_twice_wherever_a_run_is_cut(
    point: str, per_world: int, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:  # fmt: skip
    """Any world, all gates on: acknowledged writes stay, accounting agrees with objects, and all work ends."""
    tried = 0
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // per_world))):
        for number in cuts(any_world, seed, point)[0]:
            cut = any_world(seed, Cut(point, number))
            watch = cut.store.watch(kind_of(Workload))
            cut.run(Millis(BEGIN_MS + DAY_MS))
            engine = cut.engine.engine
            wrong = [*lost(cut, watch), *map(str, cut.broken()), *map(str, recount(cut.store_objects(), engine.state))]
            lives = cut.world.lives.recorded(cut.clock.now)
            wrong += [f"{each.workload} never ended" for each in lives if each.finished_at is None]
            assert not wrong, f"world {seed}, {point} number {number}: {wrong}"
            assert (cut.engine.restarts, engine.is_quiet) == (1, True)
            tried += 1
    assert in_time.was_cut or tried >= 2 * (fuzz_inputs // per_world)


def test_a_restart_at_rest_changes_nothing() -> None:
    ready = any_world(4, None)
    ready.run(Millis(BEGIN_MS + MIDDLE_MS))
    before, written = stored(ready), ready.store.resource_version
    ready.engine.restart()
    ready.run(Millis(BEGIN_MS + MIDDLE_MS))
    assert stored(ready) == before
    assert ready.store.resource_version == written
