"""Whose turn it is to displace equals by time (KEP-8522, S-7.14).

Two rules make rotation fair. A workload that was displaced by time displaces no equal of its queue before it has
itself waited as long as those it would displace were safe. And turns are taken in the order of the queue: a later
workload displaces nobody by time while an earlier one waits that could be served if all equals had had their time;
until then those go on running, which costs nothing.

Promises: without ``minAdmitDuration``, or with ``rotation: Literal``, nothing is asked; who is before a workload is
asked only where somebody has had its time; workloads that look alike are searched for once.

Not here: in which order workloads wait (``queueing.equivalence``), whom time makes a candidate (``eligibility``).
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

# Whether a workload would find victims if all equals of its queue had had their time, and whether there are some whom
# it may not displace, though others that look alike may.
Searches = Callable[[Workload], tuple[bool, bool]]


def rests_until(state: State, workload: Workload) -> Millis | None:
    """Until when it displaces no equals, because it was displaced by time itself; None: time plays no role."""
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
    at = rests_until(state, workload)
    return Turn(at=at) if at is not None and now < at else None


def turn_behind(
    state: State, workload: Workload, now: Millis, refused: Callable[[Workload], bool], searches: Searches
) -> Turn | None:
    """The first it stands behind that displaces equals by time before it does, if there is one.

    ``searches`` is asked of those alike only until one without rounds behind it has found nothing.
    """
    line = state.pending.list_of(workload.queue)
    in_vain: set[Shape] = set()
    for each in _earlier_equals(line, workload):
        if shape(each) in in_vain or not _takes_turns(state, workload, each, now) or refused(each):
            continue
        found, is_bound = searches(each)
        if found:
            return Turn(behind=each.key)
        if not is_bound and not state.rounds.of(each).total:
            in_vain.add(shape(each))
    return None


def _takes_turns(state: State, workload: Workload, other: Workload, now: Millis) -> bool:
    """Whether one before a workload stands in its way at all; who claims has had its turn."""
    if other.gated or not may_queue(other, now) or state.claims.find(other.key) is not None:
        return False
    if other.key in state.pending.list_of(other.queue).at[Standing.HELD_BACK]:
        return False  # what is kept free for others keeps it out, whoever's time is up
    if other.family is not None and other.family == workload.family:
        return False
    return own_turn(state, other, now) is None


def _earlier_equals(line: WaitingList, workload: Workload) -> Iterator[Workload]:
    """Those of the same priority that come before it in the queue, parked or not, in the order of the queue."""
    sticky = line.sticky
    if sticky == workload.key:
        return
    before = place(workload)
    if sticky is not None and sticky in line.members and line.members[sticky].priority == workload.priority:
        yield line.members[sticky]
    runs = [
        _until(places, before)
        for kin, places in line.classes.places.items()
        if kin[0][0] == workload.priority and places[0] < before
    ]
    alone = (line.members[key] for key in line.parked_singly)
    runs.append(_until(sorted(place(each) for each in alone if each.priority == workload.priority), before))
    for where in merge(*runs):
        if where[-1] != sticky:
            yield line.members[where[-1]]


def _until(places: Sequence[Place], before: Place) -> Iterator[Place]:
    return takewhile(lambda where: where < before, places)
