"""Claims that an engine finds when it begins: which parts of them are stored (S-3.11, 10.13)."""

from __future__ import annotations

from typing import Any

from makeway.core.model import Workload
from makeway.core.preemption import claims
from makeway.core.state import State
from makeway.testing.builders import cycle, holder, outcomes, queue, seconds, state, workload

QUEUES = (*(queue(name, 2, cohort="r", reclaim="Any") for name in "xy"), queue("z", 0, cohort="r"))


def waiting(on: State) -> dict[str, Workload]:
    return {each.uid: each for line in on.pending.lists.values() for each in line.members.values()}


def deferred() -> State:
    """``px`` displaces ``t``; ``py`` fits once that is gone, and claims too."""
    on = state(
        *QUEUES, holder("t", queue="z", cpu=4), workload("px", queue="x", cpu=2, queued=1),
        workload("py", queue="y", cpu=2, queued=2),
    )  # fmt: skip
    assert [each.mode for each in cycle(on).verdicts] == ["Preempt", "DeferredFit"]
    return on


def restarted(on: State, at: float) -> State:
    """A state made from what is stored of another."""
    known: list[Any] = [*on.holders.by_key.values(), *waiting(on).values()]
    return state(*QUEUES, *known, at=at)


def closes(on: State, name: str, at: float) -> None:
    on.push(waiting(on)[name].but(gated=True), seconds(at))


def test_who_waits_for_victims_of_others_needs_no_gate() -> None:
    on = deferred()
    closes(on, "py", 1)
    assert claims.overdue(on, seconds(1)) == []


def test_after_a_restart_who_waits_for_others_loses_its_claim_with_its_gate_and_gets_it_back_at_once() -> None:
    """A stored claim does not say whether it needed a gate, so one is taken to be needed. No workload gains by it."""
    on = restarted(deferred(), 1)
    assert claims.overdue(on, seconds(1)) == []
    closes(on, "py", 1)
    [overdue] = claims.overdue(on, seconds(1))
    assert overdue.uid == "py"
    claims.end(on, overdue.key, claims.GATED, seconds(1))
    assert outcomes(cycle(on, 1)) == {"py": "PendingPreemption"}
    [again] = on.claims.of_queue[overdue.queue].values()
    assert [uid for _, uid in again.claim.victims] == ["t"]
    closes(on, "py", 2)
    assert claims.overdue(on, seconds(2)) == []
