"""Whose turn it is to displace equals by time (KEP-8522, S-7.14).

Two rules make rotation fair. First, a workload that was displaced by time displaces no equal of its queue before it
has waited as long as equals are safe. Second, turns are taken in the order of the queue: while an earlier workload
waits that could be served if the time of all equals were up, a later one displaces none by time. Until then those
equals go on running, which costs nothing.

Promises: without ``minAdmitDuration``, or with ``rotation: Literal``, nothing is searched; earlier workloads are only
read where the time of an equal is up; workloads that look alike are searched for once.

Not here: in which order workloads wait (``queueing.equivalence``), when time makes a candidate (``eligibility``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import takewhile
from typing import TYPE_CHECKING

from makeway.core.model import Millis, Workload
from makeway.core.queueing.pending import may_queue
from makeway.core.queueing.standing import Standing
from makeway.core.queueing.waiting_list import Place, Shape, Turn, WaitingList, place, shape

if TYPE_CHECKING:
    from makeway.core.state import State

# Whether a workload would find victims if the time of all equals of its queue were up, and whether there are equals
# that it may not displace, although others that look alike may.
Searches = Callable[[Workload], tuple[bool, bool]]


def no_equals_until(state: State, workload: Workload) -> Millis | None:
    """Until when it displaces no equals, because time displaced it itself; None: time plays no role."""
    span = turn_span(state, workload)
    return None if span is None or workload.displaced_at is None else Millis(workload.displaced_at + span)


def turn_span(state: State, workload: Workload) -> Millis | None:
    """How long equals of its queue are safe, where turns are taken; None: they are not."""
    policy = state.policy
    if not policy.takes_turns or not policy.gates.time_based_same_priority_preemption:
        return None
    queue = state.queues.get(workload.queue)
    return None if queue is None else queue.min_admit


def own_turn(state: State, workload: Workload, now: Millis) -> Turn | None:
    """What it waits for if it was displaced by time and has not waited long enough."""
    at = no_equals_until(state, workload)
    return Turn(at=at) if at is not None and now < at else None


def turn_behind(
    state: State, workload: Workload, now: Millis, refused: Callable[[Workload], bool], searches: Searches
) -> Turn | None:
    """The first workload before it that displaces equals by time first, if there is one.

    ``searches`` is called for workloads that look alike until one without rounds behind it has found nothing.
    """
    waiting_list = state.pending.list_of(workload.queue)
    in_vain: set[Shape] = set()
    for earlier in _earlier_equals(waiting_list, workload):
        if shape(earlier) in in_vain or not _takes_turns(state, workload, earlier, now) or refused(earlier):
            continue
        found, is_bound = searches(earlier)
        if found:
            return Turn(behind=earlier.key)
        if not is_bound and not state.rounds.of(earlier).total:
            in_vain.add(shape(earlier))
    return None


def _takes_turns(state: State, workload: Workload, other: Workload, now: Millis) -> bool:
    """Whether an earlier workload stands in its way at all; a claimant has had its turn."""
    if other.gated or not may_queue(other, now) or state.claims.find(other.key) is not None:
        return False
    if other.key in state.pending.list_of(other.queue).at[Standing.HELD_BACK]:
        return False  # what is kept free for others keeps it out, whatever time is up
    if other.family is not None and other.family == workload.family:
        return False
    return own_turn(state, other, now) is None


def _earlier_equals(waiting_list: WaitingList, workload: Workload) -> Iterator[Workload]:
    """Those of the same priority that come before it in the queue, parked or not, in the order of the queue."""
    members, sticky = waiting_list.members, waiting_list.sticky
    if sticky == workload.key:
        return
    before = place(workload)
    if sticky is not None and sticky in members and members[sticky].priority == workload.priority:
        yield members[sticky]
    runs = [
        _until(places, before)
        for alike, places in waiting_list.classes.places.items()
        if alike[0][0] == workload.priority and places[0] < before
    ]
    alone = (members[key] for key in waiting_list.parked_singly)
    runs.append(_until(sorted(place(each) for each in alone if each.priority == workload.priority), before))
    for where in merge(*runs):
        if where[-1] != sticky:
            yield members[where[-1]]


def _until(places: Sequence[Place], before: Place) -> Iterator[Place]:
    return takewhile(lambda where: where < before, places)
