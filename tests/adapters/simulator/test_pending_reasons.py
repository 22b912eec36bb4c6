"""Random worlds at rest: the status of every waiting workload has a true reason for waiting (0076)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from makeway.adapters.simulator.faults import Faults
from makeway.adapters.simulator.simulation import Simulation
from makeway.api.conditions import find, is_true
from makeway.api.objects.workload import WorkloadStatus
from makeway.controllers.contract import WORKLOAD, Ref
from makeway.core.cycle.cycle import Heads, decide, heads
from makeway.core.messages import pending_reason
from makeway.core.model import Millis
from makeway.core.model import Workload as Waiting
from makeway.core.queueing.pending import Trigger, may_queue
from makeway.core.state import State
from makeway.runtime.engine import Engine
from makeway.runtime.scheduling.unevaluated import QUIET_MS
from makeway.testing.worlds import BEGIN_MS, MINUTE_MS, People, Shape, simulation
from tests.soaking import InTime

pytestmark = pytest.mark.slow

KEPT_OUT = {"Deactivated", "Misconfigured", "Suspended"}
FOUND = {"Misconfigured", "NoMatchingFlavor", "ExceedsMaxQuota", "WaitingForQuota", "WaitingForPreemptedWorkloads"}


def said(workload: Any) -> tuple[str, str]:
    """The reason and message of QuotaReserved=False."""
    found = find((workload.status or WorkloadStatus()).conditions, "QuotaReserved")
    return ("", "") if found is None else (found.reason, found.message)


def untrue(engine: Engine, now: Millis) -> Iterator[str]:
    """The workloads that wait at rest without a reason, or with a wrong one."""
    state = engine.state
    for each in engine.objects.all(WORKLOAD):
        conditions = (each.status or WorkloadStatus()).conditions
        if engine.executor.is_busy(Ref.of(each)) or any(
            is_true(conditions, type_) for type_ in ("QuotaReserved", "Finished")
        ):
            continue
        (reason, message), queue = said(each), engine.view.queue_of(each)
        waiting = state.pending.find(queue, Ref.of(each).key)
        if waiting is None or not state.is_active(queue):
            expected = KEPT_OUT
        elif not may_queue(waiting, now):
            expected = {"PendingEvaluation"}
        elif state.queues[queue].strict and state.pending.first(queue) != waiting.key:
            expected = {"PendingEvaluation", *FOUND}  # it may have been the head before
        else:
            expected = would_hear(state, waiting, now)
        if reason not in expected or not message:
            yield f"{Ref.of(each).key} says {reason}: {message!r}, expected {sorted(expected)}"


def would_hear(state: State, waiting: Waiting, now: Millis) -> set[str]:
    if state.claims.find(waiting.key) is not None:
        return {"WaitingForPreemptedWorkloads"}
    with state.trial():
        state.pending.happen(Trigger.RETRY, waiting)
        verdict = decide(state, now, Heads([], [waiting])).verdicts[0]
    if verdict.status in ("waiting", "skipped") and verdict.requeue != "PendingPreemption":
        return {pending_reason(verdict)}
    return {"WaitingForQuota", "WaitingForPreemptedWorkloads"}  # less is missing since the refusal


class Asking:
    """The engine as an actor; whenever it has nothing more to write, all statuses are compared with its state.

    While an object is set aside, statuses may be wrong: the object may be the queue of a waiting workload (0081). After
    a restart with late first lists, statuses are not checked before the lists have come.
    """

    def __init__(self, ready: Simulation) -> None:
        self._engine = ready.engine
        self._last = Millis(0)  # the last change
        self.asked = 0
        actors = ready.driver.actors
        actors[actors.index(self._engine)] = self

    def step(self, now: Millis) -> bool:
        engine = self._engine.engine
        is_told = engine.scheduler.plans.next_at() is None and not heads(engine.state)
        knows_all = engine.informers.are_complete and not engine.set_aside
        if now > self._last + QUIET_MS and engine.is_quiet and is_told and knows_all:
            self.asked += 1
            found = list(untrue(engine, self._last))
            assert not found, f"{self._last - BEGIN_MS} ms after the beginning:\n" + "\n".join(found)
        happened = self._engine.step(now)
        self._last = now if happened else self._last
        return happened

    def next_at(self) -> Millis | None:
        return self._engine.next_at()


@pytest.mark.property
@pytest.mark.parametrize("trouble", ["none", "people", "faults"])
def test_at_rest_every_workload_that_waits_says_why(
    trouble: str, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    """Whatever users do: they stop queues, change quotas and labels, deactivate workloads, delete and retry.

    Also after failed writes, and after restarts.
    """
    people, asked = trouble == "people", 0
    for seed in in_time(range(fuzz_seed, fuzz_seed + max(1, fuzz_inputs // 150))):
        faults = Faults.of_profile(seed, "all") if trouble == "faults" else None
        ready = simulation(seed, faults=faults, shape=Shape(checks=people, namespaces=people, works_max=40))
        if people:
            ready.driver.actors.append(People(ready.store, seed, count=25))
        if faults is not None:
            faults.until = Millis(BEGIN_MS + 25 * MINUTE_MS)
        asking = Asking(ready)
        try:
            ready.run(Millis(BEGIN_MS + 24 * 60 * MINUTE_MS))
        except AssertionError as error:
            raise AssertionError(f"world {seed}, {trouble}: {error}") from error
        asked += asking.asked
    assert in_time.was_cut or asked > 100
