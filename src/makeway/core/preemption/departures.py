"""What becomes of a victim: it is marked when it is asked to leave, and waits again once it has left (S-4.3, 10.1).

The reason it was displaced for decides its place in the queue. That rule is stated once, for workloads in the state
and for stored ones (``lowering``).
"""

from __future__ import annotations

from typing import Protocol

from makeway.core.model import Millis, Workload, stored
from makeway.core.policy import Policy
from makeway.core.state import State

BY_TIME = "InClusterQueueTimeBased"


def queued_after(reason: str, evicted_at: Millis, policy: Policy) -> Millis | None:
    """The queue-order timestamp of a victim, given why and when it was displaced; None: it keeps its own (S-4.3)."""
    while_borrowing = reason == "InCohortReclaimWhileBorrowing" and not policy.gates.priority_sorting_within_cohort
    return Millis(evicted_at + 1) if reason == BY_TIME or while_borrowing else None


class Leaving(Protocol):
    """A victim and the reason it was chosen for."""

    @property
    def workload(self) -> Workload: ...

    @property
    def reason(self) -> str: ...


def reason_kept(leaving: Leaving) -> str:
    """The reason in the victim's condition; one that was asked to leave before keeps the earlier reason (S-10.1)."""
    return "" if leaving.workload.evicted else leaving.reason


def mark_evicted(state: State, workload: Workload, now: Millis, reason: str = "") -> None:
    """Mark a workload that was asked to leave; its quota counts until it has left, its place is that of a waiter."""
    held = state.holders.find(workload.queue, workload.key)
    if held is not None and not held.evicted:
        at = stored(now)
        queued_at = queued_after(reason, at, state.policy)
        leaving = held.but(
            evicted=True, evicted_at=at, preempted=reason not in ("", BY_TIME),
            displaced_at=at if reason == BY_TIME else None,
            queued_at=held.queued_at if queued_at is None else queued_at,
        )  # fmt: skip
        state.holders.remove(held)
        state.holders.add(leaving)
        state.note_leaving(leaving)


def departed(state: State, workload: Workload, reason: str, evicted_at: Millis, now: Millis) -> Workload:
    """A victim that has left, as of ``now``: it waits again, behind those that its time was for (S-4.3)."""
    at = stored(evicted_at)
    queued_at = queued_after(reason, at, state.policy)
    ran = workload.ran_seconds
    if state.policy.counts_time_run and workload.admitted and workload.family is None:
        ran += max(0, stored(now) - stored(workload.held_since(now))) // 1000
    return workload.but(
        usage=None, uses=(), reserved_at=None, evicted=False, evicted_at=None, admitted=False,
        queued_at=workload.queued_at if queued_at is None else queued_at,
        displaced_at=at if reason == BY_TIME else workload.displaced_at, ran_seconds=ran,
    )  # fmt: skip
