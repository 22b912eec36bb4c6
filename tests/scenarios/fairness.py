"""Judges of a week in which equals take turns: the bounds of S-7.14, computed from the lives of its workloads.

*Waiting.* Only workloads that fit into the nominal quota of their queue beside all that is more important there are
judged, and only while that is so and the queue is open. From the beginning of such a time a workload is served within

    turns x (period + time to leave + SLACK),   turns = before + events + 1

``before``: the equals that wait and come first in the order at that time; each is first in its turn, for one period at
most, because then all who hold quota have had their time. It is at least one if the workload itself was displaced by
time less than a period ago: it is held back for so long. ``events``: what may put somebody before it, or give room to
somebody that comes after it: an arrival, an end, an eviction for another reason than time; each costs one period at
most. The last turn is its own. In a tree, events are counted in all its queues, and so are admissions in its own queue
of workloads that come after it, for room may come from elsewhere.

*Returns.* A workload whose time was up is not back at once by displacing an equal.

*Run times.* Equals of one size that came within one period, with nobody else in their queue and no cohort, have run
for the same time, up to one period, from when the last came, and from each time that the queue is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from makeway.adapters.simulator.lives import Life
from tests.scenarios.stage import MIDNIGHT
from tests.scenarios.turns import SECOND, TIME, Return, Wait, held_ms, shown, soon_back, waits
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
    """How long, and how long it might have."""

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


@dataclass(slots=True)
class Judged:
    """What the judges found in one week, or in several."""

    waited: list[Waited] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    spreads: list[tuple[str, int, int]] = field(default_factory=list)  # where, the difference, what is allowed

    def add(self, other: Judged) -> None:
        self.waited += other.waited
        self.returns += other.returns
        self.spreads += other.spreads

    def wrong(self) -> list[str]:
        found = [str(each) for each in self.waited if each.ms > each.allowed_ms]
        found += [str(each) for each in self.returns if each.displaced]
        found += [
            f"{where}: run times differ by {ms // SECOND} s, more than {most // SECOND} s"
            for where, ms, most in self.spreads
            if ms > most
        ]
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
        return  # what was lent may stay away for ever
    works = week.of_queue(queue.name)
    turn_ms = queue.period_ms + week.eviction_ms + SLACK
    for work in works:
        for stretch in _stretches(week, queue, work, lives):
            turns = 1 + _before(works, work, stretch, lives, queue) + _events(week, queue, work, stretch, lives)
            yield Waited(work, stretch, turns, turns * turn_ms)


def _stretches(week: Week, queue: Queue, work: Work, lives: Mapping[str, Life]) -> Iterator[Stretch]:
    """The parts of its waits in which its queue is open and what is more important leaves room for it."""
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
    """Whether it fits into nominal quota beside all that is more important; so must those who can block it."""
    higher = [each for each in there if each.priority > work.priority]
    if sum(each.size for each in higher) + work.size > queue.nominal:
        return False
    if not queue.strict:
        return True
    most = max((each.size for each in there if each.priority == work.priority), default=0)
    return sum(each.size for each in higher) + most <= queue.nominal


def _before(works: list[Work], work: Work, stretch: Stretch, lives: Mapping[str, Life], queue: Queue) -> int:
    """How many of its equals wait before it when the stretch begins; one if it is held back by itself."""
    count = sum(
        1
        for other in works
        if other.name != work.name and other.priority == work.priority
        for wait in waits(lives[other.name])
        if wait.began_at <= stretch.began_at and (wait.ended_at is None or wait.ended_at > stretch.began_at)
        if wait.queued_at <= stretch.wait.queued_at
    )
    held_back = stretch.wait.by_time and stretch.began_at < stretch.wait.queued_at + queue.period_ms
    return max(count, int(held_back))


def _events(week: Week, queue: Queue, work: Work, stretch: Stretch, lives: Mapping[str, Life]) -> int:
    """What may have put others before it, or given them room, in this time."""
    tree = {each.name for each in week.queues if each.cohort and each.cohort == queue.cohort} | {queue.name}
    count = 0
    for other in week.works:
        if other.queue not in tree or other.name == work.name:
            continue
        life = lives[other.name]
        own = other.queue == queue.name
        times = [other.at, *([] if life.finished_at is None else [life.finished_at])]
        times += [each.at for each in life.evictions if each.reason != TIME or not own]
        if queue.cohort and own:
            times += [each.began_at for each in life.spells]
        count += sum(stretch.began_at < at <= stretch.ended_at for at in times)
    others = [each for each in week.stops if each.queue in tree and each.queue != queue.name]
    return count + sum(
        stretch.began_at < at <= stretch.ended_at for each in others for at in (each.began_at, each.ended_at)
    )


# --- run times -------------------------------------------------------------------------------------------------------


def _spreads(week: Week, queue: Queue, lives: Mapping[str, Life]) -> Iterator[tuple[str, int, int]]:
    works = week.of_queue(queue.name)
    arrivals = [each.at for each in works]
    alike = len({(each.size, each.priority, each.runtime_ms is None) for each in works}) == 1
    if queue.cohort or not alike or works[0].runtime_ms is not None or works[0].size > queue.nominal:
        return
    if max(arrivals) - min(arrivals) > queue.period_ms:
        return
    since = max(arrivals)
    for stop in sorted([each for each in week.stops if each.queue == queue.name], key=lambda each: each.began_at):
        yield from _spread(week, queue, works, lives, since, stop.began_at)
        since = max(since, stop.ended_at)
    yield from _spread(week, queue, works, lives, since, END)


def _spread(
    week: Week, queue: Queue, works: list[Work], lives: Mapping[str, Life], since: int, until: int
) -> Iterator[tuple[str, int, int]]:
    """The largest difference of run times at any time at which somebody begins, and at the end."""
    if since >= until:
        return
    begins = [each.began_at for work in works for each in lives[work.name].spells if since < each.began_at < until]
    most = 0
    for at in (*begins, until):
        ran = [held_ms(lives[work.name], since, at) for work in works]
        most = max(most, max(ran) - min(ran))
    where = (
        f"{queue.name} ({len(works)} of size {works[0].size} on {queue.nominal}) from {shown(since)} to {shown(until)}"
    )
    yield where, most, queue.period_ms + 2 * week.eviction_ms + SLACK
