"""Random worlds for a week of virtual time: queues in which equals take turns, drains, restarts, work that never ends.

Equal seeds give equal weeks. A week costs a bounded number of evictions: a queue whose period is short, or in which
many take turns at once, is stopped for a part of the week (``TURNS_MAX``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from makeway.adapters.simulator.simulation import Simulation
from makeway.api.objects.queueing import ClusterQueue
from makeway.api.quantity import Duration, Time
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.core.policy import Policy
from tests.scenarios.stage import MIDNIGHT, TEAM, Tree, flavor, named, pods, queue
from tests.scenarios.turns import HOUR, MINUTE, SECOND, simulation

DAY = 24 * HOUR
WEEK = 7 * DAY
TURNS_MAX = 300  # evictions by time in a week, about
PERIODS = (10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, HOUR, 90 * MINUTE, 2 * HOUR, 2 * HOUR)
EVICTIONS_MS = (0, 0, 20 * SECOND, 2 * MINUTE)
EQUALS = "LowerOrNewerEqualPriority"


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    nominal: int
    period_ms: int = 0  # its minAdmitDuration; 0: equals do not take turns
    cohort: str = ""
    reclaim: str = "Never"
    lends: bool = True
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    name: str
    queue: str
    size: int
    at: int
    priority: int = 0
    runtime_ms: int | None = None  # None: it never ends


@dataclass(frozen=True, slots=True)
class Stop:
    """The time in which a queue is stopped, and all its holders are evicted."""

    queue: str
    began_at: int
    ended_at: int


@dataclass(frozen=True, slots=True)
class Week:
    seed: int
    queues: tuple[Queue, ...]
    works: tuple[Work, ...]
    stops: tuple[Stop, ...] = ()
    restarts: tuple[int, ...] = ()
    eviction_ms: int = 0

    def queue(self, name: str) -> Queue:
        return next(each for each in self.queues if each.name == name)

    def of_queue(self, name: str) -> list[Work]:
        return [each for each in self.works if each.queue == name]

    def documents(self) -> Iterator[Tree]:
        yield flavor()
        for each in self.queues:
            yield from queue(
                each.name, each.nominal, cohort=each.cohort, strict=each.strict, within=EQUALS, reclaim=each.reclaim,
                min_admit=_span(each.period_ms) if each.period_ms else "", lending=None if each.lends else 0,
            )  # fmt: skip
        for work in self.works:
            yield _document(work)

    def played(self, policy: Policy) -> Simulation:
        """The whole week."""
        ran = simulation(list(self.documents()), policy=policy, eviction_ms=self.eviction_ms)
        ran.driver.actors.append(_Operator(ran, self))
        ran.run(Millis(MIDNIGHT + WEEK))
        return ran


def _span(ms: int) -> str:
    return Duration(ms * 10**6).text


def _document(work: Work) -> Tree:
    pod_set = {"name": "main", "count": work.size, "template": {"spec": pods(1)}}
    meta: Tree = {"namespace": TEAM, "creationTimestamp": str(Time.of_millis(work.at))}
    if work.runtime_ms is not None:
        meta["annotations"] = {"makeway.dev/runtime": _span(work.runtime_ms)}
    return named(
        "Workload", work.name, {"queueName": work.queue, "priority": work.priority, "podSets": [pod_set]}, **meta
    )


class _Operator:
    """Stops and opens queues and restarts the engine, each at its time; an actor beside the engine."""

    def __init__(self, ran: Simulation, week: Week) -> None:
        self._ran = ran
        acts: list[tuple[int, Callable[[], Any]]] = [(at, ran.engine.restart) for at in week.restarts]
        for stop in week.stops:
            acts.append((stop.began_at, self._setting(stop.queue, "HoldAndDrain")))
            acts.append((stop.ended_at, self._setting(stop.queue, "None")))
        self._acts = sorted(acts, key=lambda each: each[0])

    def _setting(self, name: str, policy: str) -> Callable[[], Any]:
        change = {"spec": {"stopPolicy": policy}}
        return lambda: self._ran.store.patch(kind_of(ClusterQueue), "", name, change)

    def step(self, now: Millis) -> bool:
        acted = False
        while self._acts and self._acts[0][0] <= now:
            self._acts.pop(0)[1]()
            acted = True
        return acted

    def next_at(self) -> Millis | None:
        return Millis(self._acts[0][0]) if self._acts else None


# --- drawing ---------------------------------------------------------------------------------------------------------


def week(seed: int) -> Week:
    return _Drawing(seed, random.Random(f"week {seed}")).week()


@dataclass(slots=True)
class _Drawing:
    seed: int
    dice: random.Random
    works: list[Work] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)

    def week(self) -> Week:
        dice = self.dice
        count = dice.choice((1, 1, 1, 2, 2, 2, 3, 4))
        queues = [self._queue(i, count) for i in range(count)]
        left = dice.randint(max(3, 2 * count), 14)
        for i, each in enumerate(queues):
            share = max(2, left // (count - i)) if i < count - 1 else max(2, left)
            self._fill(each, share)
            left -= share
            self._rest(each, TURNS_MAX // count)
        for _ in range(dice.choice((0, 0, 1, 1, 2, 3))):
            began = MIDNIGHT + dice.randrange(WEEK - DAY) // SECOND * SECOND
            self.stops.append(Stop(dice.choice(queues).name, began, began + dice.randint(10, 12 * 60) * MINUTE))
        restarts = sorted(MIDNIGHT + dice.randrange(WEEK) for _ in range(dice.choice((0, 0, 1, 1, 2))))
        first, *others = sorted(self.works, key=lambda each: (each.at, each.name))
        first = Work(first.name, first.queue, first.size, MIDNIGHT, first.priority, first.runtime_ms)
        return Week(
            self.seed, tuple(queues), (first, *others), tuple(_apart(self.stops)), tuple(restarts),
            dice.choice(EVICTIONS_MS),
        )  # fmt: skip

    def _queue(self, number: int, count: int) -> Queue:
        dice = self.dice
        cohort = "all" if count > 1 and dice.random() < 0.5 else ""
        return Queue(
            name=f"queue-{number}", nominal=dice.randint(1, 6), cohort=cohort,
            period_ms=dice.choice(PERIODS) if dice.random() < 0.85 else 0,
            reclaim=dice.choice(("Any", "Any", "Any", "LowerPriority", "Never")) if cohort else "Never",
            lends=not cohort or dice.random() < 0.8, strict=dice.random() < 0.3,
        )  # fmt: skip

    def _fill(self, into: Queue, count: int) -> None:
        """Equals of one size that come within one period, small ones and a large one, or all sorts of work."""
        draw = self.dice.random() if into.period_ms else 1.0
        if draw < 0.35:
            size = self.dice.randint(1, min(3, into.nominal))
            sizes = [size] * count
        elif draw < 0.55:
            sizes = [1] * (count - 1) + [min(4, into.nominal)]
        else:
            self._fill_with_all_sorts(into, count)
            return
        for i, size in enumerate(sizes):
            self.works.append(Work(f"{into.name}-{i}", into.name, size, self._time(into.period_ms)))

    def _fill_with_all_sorts(self, into: Queue, count: int) -> None:
        dice = self.dice
        for i in range(count):
            runtime = dice.randint(10, 240) * MINUTE if dice.random() < 0.2 else None
            priority = dice.choice((0, 0, 0, 0, 0, 0, 1, -1))
            most = into.nominal if dice.random() < 0.95 else into.nominal + 1
            size = dice.randint(1, min(4, most))
            self.works.append(Work(f"{into.name}-{i}", into.name, size, self._time(DAY), priority, runtime))

    def _time(self, span_ms: int) -> int:
        return MIDNIGHT + self.dice.randrange(span_ms) // SECOND * SECOND

    def _rest(self, each: Queue, turns_max: int) -> None:
        """Stop a queue for as long as the week would otherwise have too many evictions."""
        sizes = [work.size for work in self.works if work.queue == each.name and work.runtime_ms is None]
        at_once = min(each.nominal, max(0, sum(sizes) - each.nominal))  # evictions in a period, at most
        open_ms = turns_max * each.period_ms // max(1, at_once)
        if each.period_ms and at_once and open_ms < WEEK:
            began = MIDNIGHT + self.dice.randint(open_ms // 3, open_ms * 2 // 3) // SECOND * SECOND
            self.stops.append(Stop(each.name, began, began + (WEEK - open_ms) // SECOND * SECOND))


def _apart(stops: Sequence[Stop]) -> Iterator[Stop]:
    """The stops of one queue, joined where they meet."""
    last: Stop | None = None
    for each in sorted(stops, key=lambda each: (each.queue, each.began_at)):
        if last is not None and last.queue == each.queue and each.began_at <= last.ended_at:
            last = Stop(last.queue, last.began_at, max(last.ended_at, each.ended_at))
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last
