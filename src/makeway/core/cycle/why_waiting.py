"""Why a workload waits as things stand, asked outside of a cycle (S-5.12).

A cycle tells the workloads that it evaluates. It does not evaluate those that are parked because an equivalent one was
refused (S-4.5.3), those behind the head of a StrictFIFO queue (S-4.4), and those that back off.

Promises: nothing is decided, and the state is left as it was found.
"""

from __future__ import annotations

from typing import NamedTuple

from makeway.core.cycle.cycle import Heads, Verdict, decide
from makeway.core.cycle.nomination import find_assignment
from makeway.core.messages import assignment_message, back_off_message
from makeway.core.model import Millis, Workload
from makeway.core.preemption.turns import turn_span
from makeway.core.queueing.pending import may_queue
from makeway.core.queueing.standing import Standing, Trigger
from makeway.core.state import State


class Unseen(NamedTuple):
    """A workload that no cycle evaluates as things stand, and what it waits for."""

    workload: Workload
    reason: str
    message: str


def unseen(state: State, workload: Workload, now: Millis) -> Unseen | None:
    """What keeps a waiting workload from being evaluated; None where it was evaluated, or an equivalent one was.

    Call it while no head is due: a workload in the queue that was not refused then waits for one before it.
    """
    known = state.claims.find(workload.key)
    if known is not None:
        count = len(known.claim.victims)
        return Unseen(workload, "WaitingForPreemptedWorkloads", f"Pending the preemption of {count} workload(s)")
    if not may_queue(workload, now):
        return Unseen(workload, "PendingEvaluation", back_off_message(workload, now))
    waiting_list = state.pending.list_of(workload.queue)
    if waiting_list.standing_of(workload.key) not in (Standing.DUE, Standing.BLOCKED):
        return None
    if waiting_list.strict:
        message = f"Waits behind the head of ClusterQueue {workload.queue}, whose queueingStrategy is StrictFIFO"
    else:
        message = f"Waits for a workload that comes before it in ClusterQueue {workload.queue}"
    return Unseen(workload, "PendingEvaluation", message)


def is_true_of_all_alike(state: State, workload: Workload) -> bool:
    """Whether what is found about a workload is also true of those that are parked with it.

    Not where turns are taken (S-7.14): there each has its own place, and some were displaced by time. Nor for one that
    has used rounds: these may bar it from what the others may do.
    """
    return turn_span(state, workload) is None and not state.rounds.of(workload).total


def found_about(state: State, workload: Workload, now: Millis) -> Verdict | Unseen:
    """What a cycle would find about a waiting workload if it evaluated this one alone.

    A refusal stands until the queue is woken, so the workload may fare better now. Only a cycle decides that: here it
    gets no claim, displaces no workload, and gets only what it lacks as things stand.
    """
    with state.trial():
        state.pending.happen(Trigger.RETRY, workload)
        verdict = decide(state, now, Heads([], [workload])).verdicts[0]
    if verdict.status in ("waiting", "skipped") and verdict.claim is None:
        return verdict
    lacks = assignment_message(find_assignment(state, workload, now, tried={})[0].steps)
    later = f"No quota was left when it was evaluated, or an equivalent one; waits for a change in {workload.queue}"
    return Unseen(workload, "WaitingForQuota", lacks or later)
