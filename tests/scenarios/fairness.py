"""Judges of a week in which equals take turns: the bounds of S-7.14, computed from the lives of its workloads.

*Waiting.* A workload is judged while its queue is open and it fits into nominal quota beside all workloads of higher
priority there. From the beginning of such a time it is served within

    turns x (period + time to leave + SLACK),   turns = before + events + 1

``before``: the equals that wait, or are leaving, and come first in the order at that time. Each is first in its turn,
and then for one period at most, because by then the time of all holders is up. It is at least one if the workload
itself was displaced by time less than a period ago, because it is held back for so long. ``events``: whatever puts a
workload before it, or gives room to one after it: an arrival, an end, an eviction for another reason than time, all in
its queue; each costs one period at most. In a cohort room comes from other queues too, so there each workload of the
queue that is admitted past it counts, once. The last turn is its own.

*Returns.* A workload whose time was up is not back at once by displacing an equal.

*Run times.* Consider equals of one size that came within one period, alone in their queue and without a cohort. They
have run for the same time, up to one period; and up to one more for each time that the queue was drained, which breaks
off turns. The time counts from the arrival of the last of them or, where the difference is smaller, from the arrival
of each, because among equals that were displaced in one second the total run time decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from makeway.adapters.simulator.lives import Life
from tests.scenarios.stage import MIDNIGHT
from tests.scenarios.turns import SECOND, TIME, Return, Wait, ran_ms, shown, soon_back, waits
from tests.scenarios.weeks import WEEK, Queue, Week, Work

END = MIDNIGHT + WEEK
SLACK = 5 * SECOND  # of a turn: stored times have whole seconds, and a claim is redeemed in a later cycle


class Stretch(NamedTuple):
    """A time in which a workload waits and is judged."""

    began_at: int
    ended_at: int
    served: bool  # it ends with quota; False: the run, the queue or the judgement ends
    wait: Wait


class Waited(NamedTuple):
    """How long a workload waited, and how long it may wait."""

    work: Work
    stretch: Stretch
    turns: int
    allowed_ms: int

    @property
    def ms(self) -> int:
        return self.stretch.ended_at - self.stretch.began_at

    def __str__(self) -> str:
        until = shown(self.stretch.ended_at) if self.stretch.served else f"{shown(self.stretch.ended_at)} and longer"
        return (
            f"{self.work.name} (size {self.work.size}, priority {self.work.priority}) waits from "
            f"{shown(self.stretch.began_at)} to {until}: {self.ms // SECOND} s, "
            f"more than {self.turns} turns = {self.allowed_ms // SECOND} s"
        )


class Spread(NamedTuple):
    """How far the run times of equals differ at some time, and how far they may."""

    where: str
    at: int
    ms: int
    allowed_ms: int

    def __str__(self) -> str:
        differ = f"run times differ by {self.ms // SECOND} s, more than {self.allowed_ms // SECOND} s"
        return f"{self.where} at {shown(self.at)}: {differ}"


@dataclass(slots=True)
class Judged:
    """The findings of the judges in one week, or in several."""

    waited: list[Waited] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)

    def add(self, other: Judged) -> None:
        self.waited += other.waited
        self.returns += other.returns
        self.spreads += other.spreads

    def wrong(self) -> list[str]:
        found = [str(each) for each in self.waited if each.ms > each.allowed_ms]
        found += [str(each) for each in self.returns if each.displaced]
        found += [str(each) for each in self.spreads if each.ms > each.allowed_ms]
        return found


def judged(week: Week, lives: Mapping[str, Life]) -> Judged:
    found = Judged(returns=list(soon_back(lives)))
    for queue in week.queues:
        if queue.period_ms:
            found.waited += _waited(week, queue, lives)
            found.spreads += _spreads(week, queue, lives)
    return found


# --- waiting ---------------------------------------------------------------------------------------------------------


def _waited(week: Week, queue: Queue, lives: Mapping[str, Life]) -> Iterator[Waited]:
    if queue.cohort and queue.lends and queue.reclaim != "Any":
        return  # quota that was lent may stay away for ever
    works = week.of_queue(queue.name)
    turn_ms = queue.period_ms + week.eviction_ms + SLACK
    for work in works:
        others = [each for each in works if each.name != work.name]
        for stretch in _stretches(week, queue, work, lives):
            before = _before([each for each in others if each.priority == work.priority], stretch, lives)
            held_back = stretch.wait.by_time and stretch.began_at < stretch.wait.queued_at + queue.period_ms
            turns = max(len(before), int(held_back)) + sum(_events(each, stretch, lives) for each in others) + 1
            if queue.cohort:
                turns += sum(_is_admitted(each, stretch, lives) for each in others if each.name not in before)
            yield Waited(work, stretch, turns, turns * turn_ms)


def _stretches(week: Week, queue: Queue, work: Work, lives: Mapping[str, Life]) -> Iterator[Stretch]:
    """The parts of its waits in which its queue is open and workloads of higher priority leave room for it."""
    works = week.of_queue(queue.name)
    stops = [(each.began_at, each.ended_at) for each in week.stops if each.queue == queue.name]
    ends = {each.name: lives[each.name].finished_at or END for each in works}
    cuts = {at for stop in stops for at in stop} | {each.at for each in works} | set(ends.values())
    for wait in waits(lives[work.name]):
        until = END if wait.ended_at is None else wait.ended_at
        times = [wait.began_at, *sorted(at for at in cuts if wait.began_at < at < until), until]
        began: int | None = None
        for since, _ in pairwise(times):
            is_open = not any(stop[0] <= since < stop[1] for stop in stops)
            there = [each for each in works if each.at <= since < ends[each.name]]
            if is_open and _has_room(queue, work, there):
                began = since if began is None else began
            elif began is not None:
                yield Stretch(began, since, False, wait)
                began = None
        if began is not None:
            yield Stretch(began, until, wait.ended_at is not None, wait)


def _has_room(queue: Queue, work: Work, there: list[Work]) -> bool:
    """Whether it fits into nominal quota beside all of higher priority, and so do those that can block it."""
    higher = [each for each in there if each.priority > work.priority]
    if sum(each.size for each in higher) + work.size > queue.nominal:
        return False
    if not queue.strict:
        return True
    most = max((each.size for each in there if each.priority == work.priority), default=0)
    return sum(each.size for each in higher) + most <= queue.nominal


def _before(equals: list[Work], stretch: Stretch, lives: Mapping[str, Life]) -> set[str]:
    """Its equals that wait before it when the stretch begins."""
    return {
        other.name
        for other in equals
        for wait in waits(lives[other.name])
        if wait.asked_at <= stretch.began_at and (wait.ended_at is None or wait.ended_at > stretch.began_at)
        if wait.queued_at <= stretch.wait.queued_at
    }


def _events(other: Work, stretch: Stretch, lives: Mapping[str, Life]) -> int:
    """How often this one of its queue may have put others before it, or given them room."""
    life = lives[other.name]
    times = [other.at, *(each.at for each in life.evictions if each.reason != TIME)]
    times += [] if life.finished_at is None else [life.finished_at]
    return sum(stretch.began_at < at <= stretch.ended_at for at in times)


def _is_admitted(other: Work, stretch: Stretch, lives: Mapping[str, Life]) -> bool:
    return any(stretch.began_at < each.began_at <= stretch.ended_at for each in lives[other.name].spells)


# --- run times -------------------------------------------------------------------------------------------------------


def _spreads(week: Week, queue: Queue, lives: Mapping[str, Life]) -> Iterator[Spread]:
    works = week.of_queue(queue.name)
    since = max(each.at for each in works)
    alike = len({(each.size, each.priority) for each in works}) == 1 and works[0].size <= queue.nominal
    endless = all(each.runtime_ms is None for each in works)
    if queue.cohort or not alike or not endless or since - min(each.at for each in works) > queue.period_ms:
        return
    drains = [each.began_at for each in week.stops if each.queue == queue.name]
    where = f"{queue.name} ({len(works)} of size {works[0].size} on {queue.nominal})"
    begins = [each.began_at for work in works for each in lives[work.name].spells if each.began_at > since]
    for at in (*begins, END):
        turns = 1 + sum(since < drained < at for drained in drains)
        allowed_ms = turns * queue.period_ms + 2 * week.eviction_ms + SLACK
        yield Spread(where, at, min(_apart_ms(works, lives, begin, at) for begin in (since, MIDNIGHT)), allowed_ms)


def _apart_ms(works: list[Work], lives: Mapping[str, Life], since: int, until: int) -> int:
    ran = [ran_ms(lives[work.name], since, until) for work in works]
    return max(ran) - min(ran)
