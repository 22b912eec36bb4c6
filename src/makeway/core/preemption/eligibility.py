"""Whether one workload may displace another, and on what ground (S-7.3, 7.4, 7.7, 8.4)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from makeway.core.amounts import MOST
from makeway.core.model import Millis, Queue, Workload
from makeway.core.queue_policies import ReclaimWithinCohort, WithinClusterQueue
from makeway.core.trace import Rule, Step

Reason = Literal[
    "InClusterQueue", "InClusterQueueTimeBased", "InCohortReclamation", "InCohortReclaimWhileBorrowing",
    "InCohortFairSharing",
]  # fmt: skip


class Ground(NamedTuple):
    reason: Reason
    step: Step


class Equals(NamedTuple):
    """Which workloads of the own queue that have the same priority may be displaced (S-7.4, 7.14)."""

    expired_before: Millis | None = None  # the time of those that reserved earlier is up; None: time plays no role
    by_age: bool = True  # whether age counts: those that the policy names by their place in the queue


NO_EQUALS = Equals(by_age=False)
ALL_EQUALS = Equals(Millis(MOST + 1))  # as if the time of every equal were up


def equals_by_time(queue: Queue, now: Millis, *, time_based: bool) -> Equals:
    """The rule for a queue, turns left aside (S-7.4, 7.5)."""
    return Equals(Millis(now - queue.min_admit) if time_based and queue.min_admit is not None else None)


def own_queue_ground(
    incoming: Workload, running: Workload, policy: WithinClusterQueue, expiry: Millis | None, now: Millis
) -> Ground:
    """The ground on which a candidate of the own queue leaves; it is known to be a candidate."""
    since = running.held_since(now)
    if running.priority < incoming.priority:
        return Ground("InClusterQueue", _step(Rule.LOWER_PRIORITY, running, running.priority, incoming.priority))
    if expiry is not None and since < expiry:
        return Ground("InClusterQueueTimeBased", _step(Rule.TIME_EXPIRED, running, now - since, now - expiry))
    return Ground("InClusterQueue", _step(policy.equals_rule, running, running.queued_at, incoming.queued_at))


def _step(rule: Rule, running: Workload, *numbers: int) -> Step:
    return Step(rule, (running.key,), numbers)


def may_preempt(
    incoming: Workload, running: Workload, policy: WithinClusterQueue | ReclaimWithinCohort,
    expiry: Millis | None, now: Millis,
) -> bool:  # fmt: skip
    """The policy test for one pair; searches read sorted runs instead of calling this for each candidate."""
    if running.priority < policy.below(incoming.priority):
        return True
    is_equal = running.priority == incoming.priority
    if not is_equal or not isinstance(policy, WithinClusterQueue) or not policy.takes_equals:
        return False
    if running.queued_at in policy.equals_queued(incoming.queued_at):
        return True
    return expiry is not None and running.held_since(now) < expiry


def only_without_borrowing(queue: Queue, incoming: Workload, running: Workload) -> bool:
    """Whether a candidate of the cohort leaves only for a workload that ends within its own quota (S-8.4)."""
    return running.priority >= queue.borrow.below(incoming.priority, queue.threshold)
