"""Turns in the lives of a simulated run: when workloads waited, how long they ran, and which were soon back.

All answers are computed from what the world saw (``Life``: times with quota, evictions with their reasons), so they do
not depend on how the engine decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from makeway.adapters.simulator.lives import Life, PastEviction
from makeway.adapters.simulator.simulation import Simulation, SimulationSettings
from makeway.adapters.simulator.sources.arrivals import arrivals_of
from makeway.api import codec
from makeway.cli.offline.simulate import FIGURES_MS
from makeway.core.model import Millis
from makeway.core.policy import Policy

Tree = dict[str, Any]

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
SOON = 90 * SECOND  # a workload that is back sooner after its time was up has only cost others a restart
TIME = "InClusterQueueTimeBased"


def simulation(documents: Sequence[Tree], *, policy: Policy | None = None, eviction_ms: int = 0) -> Simulation:
    """A world as ``makeway simulate`` sets it up: an object with a creationTimestamp comes at that time."""
    found = [codec.read(each) for each in documents]
    assert not [problem for reading in found for problem in reading.problems]
    source = arrivals_of(reading.value for reading in found if reading.value is not None)
    settings = SimulationSettings(policy or Policy.default(), eviction_ms, figures_ms=FIGURES_MS)
    return Simulation(settings, source)


def lives_of(ran: Simulation) -> dict[str, Life]:
    """By the name of the workload, without its namespace."""
    return {each.workload.partition("/")[2]: each for each in ran.world.lives.recorded(ran.clock.now)}


def ran_ms(life: Life, since: int, until: int) -> int:
    """How long it ran between two times: it had quota, and was not yet asked to leave."""
    asked = [each.at for each in life.evictions]
    total = 0
    for spell in life.spells:
        last = min(until, until if spell.ended_at is None else spell.ended_at)
        i = bisect_right(asked, spell.began_at)
        last = min(last, asked[i]) if i < len(asked) else last
        total += max(0, last - max(since, spell.began_at))
    return total


class Wait(NamedTuple):
    """A time without quota. ``queued_at`` is its place among equals (S-4.3)."""

    asked_at: int  # it came, or was asked to leave
    began_at: int  # it came, or had left
    ended_at: int | None  # None: it still waits
    queued_at: int
    by_time: bool  # it waits because its time was up


def waits(life: Life) -> list[Wait]:
    """All times in which it waited, in their order; the last one may have no end."""
    last = life.finished_at if life.finished_at is not None else life.gone_at
    found = []
    began, evictions = life.created_at, list(life.evictions)
    for spell in (*life.spells, None):
        ended = last if spell is None else spell.began_at
        while len(evictions) > 1 and evictions[1].at <= began:
            evictions.pop(0)
        before = evictions[0] if evictions and evictions[0].at <= began else None
        by_time = before is not None and before.reason == TIME
        queued_at = before.at + 1 if before is not None and by_time else life.created_at
        if ended is None or began < ended:
            found.append(Wait(began if before is None else before.at, began, ended, queued_at, by_time))
        if spell is None or spell.ended_at is None:
            break
        began = spell.ended_at
    return found


class Return(NamedTuple):
    """A workload whose time was up has quota again soon after it left."""

    workload: str
    evicted_at: int
    back_at: int
    displaced: tuple[str, ...]  # equals of its own queue that left for it in between

    def __str__(self) -> str:
        made = f", by displacing {', '.join(self.displaced)}" if self.displaced else ""
        return f"{self.workload}: evicted at {shown(self.evicted_at)}, back at {shown(self.back_at)}{made}"


def soon_back(lives: Mapping[str, Life], within_ms: int = SOON) -> Iterator[Return]:
    """Each return within this time after the quota of a time-based victim was released.

    One that was in between, and lost its quota again for another reason, is a victim of that (decision 0061).
    """
    for name, life in lives.items():
        for eviction in (each for each in life.evictions if each.reason == TIME):
            ends = [each.ended_at for each in life.spells if each.ended_at is not None and each.ended_at >= eviction.at]
            begins = [each.began_at for each in life.spells if each.began_at >= eviction.at]
            if not ends or not begins or begins[0] >= ends[0] + within_ms:
                continue
            if not any(each.reason != TIME and eviction.at <= each.at <= begins[0] for each in life.evictions):
                yield Return(name, eviction.at, begins[0], _displaced(lives, life, eviction, begins[0]))


def _displaced(lives: Mapping[str, Life], life: Life, eviction: PastEviction, until: int) -> tuple[str, ...]:
    return tuple(
        name
        for name, other in lives.items()
        for each in other.evictions
        if each.by == life.workload and eviction.at <= each.at <= until
        if (other.queue, other.priority) == (life.queue, life.priority)
    )


def shown(at: int, begins_at: int = Millis(1_767_225_600_000)) -> str:
    """A time as hours, minutes and seconds since the first of January 2026; hours go beyond a day."""
    seconds = (at - begins_at) // SECOND
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
