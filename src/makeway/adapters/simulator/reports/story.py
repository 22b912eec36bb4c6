"""A short run as a list of events: arrivals, admissions, preemptions with their preemptors, and ends, each with its
time.

Promises: all events are listed, in order, and at the same time causes come before effects; equal runs give equal
stories. Workloads without an end are listed at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from makeway.adapters.simulator.lives import Life, Spell
from makeway.adapters.simulator.reports.measures import Run
from makeway.adapters.simulator.reports.report import folded
from makeway.adapters.simulator.reports.words import level, moment, plain, span
from makeway.core.messages import HUMAN_REASONS
from makeway.core.model import Millis

WORKLOADS_MAX = 40  # a longer list is not read
EVENTS_MAX = 200
_DATE = len("2026-01-01T")
ENDED, CAME, LEFT, BEGAN, LAST = range(5)  # the order of events at the same time


class StoryLine(NamedTuple):
    at: Millis
    rank: int
    workload: str
    words: str


def events(run: Run, names: Mapping[str, str] | None = None, *, exact: bool = False) -> list[StoryLine]:
    """All events in order; ``names``: workloads that are shown under another name."""
    called = names or {}
    told = [event for life in run.lives for event in _of(life, called)]
    return sorted([*told, *(_end_of(life, run.ended_at, called, exact) for life in run.lives)])


def lines(run: Run, width: int | None = None, names: Mapping[str, str] | None = None) -> Iterator[str]:
    """The story, if it is short enough to be read."""
    if len(run.lives) > WORKLOADS_MAX:
        return
    told = events(run, names, exact=width is None)
    if len(told) > EVENTS_MAX:
        return
    times = [moment(event.at) for event in told]
    if len({text[:_DATE] for text in times}) == 1:
        times = [text[_DATE:-1] for text in times]
    size = max(map(len, times), default=0)
    for at, event in zip(times, told, strict=True):
        yield from folded(f"{at:<{size}}  {event.workload} {event.words}", width, 2, 4 + size)


def _of(life: Life, names: Mapping[str, str]) -> Iterator[StoryLine]:
    name = plain(names.get(life.workload, life.workload))
    where = f" in {life.queue}" if life.queue else ""
    yield StoryLine(life.created_at, CAME, name, plain(f"arrives{where}, priority {life.priority}"))
    for before, spell in zip((None, *life.spells), life.spells, strict=False):
        if before is None or before.ended_at != spell.began_at:
            again = " again" if before is not None else ""
            yield StoryLine(spell.began_at, BEGAN, name, plain(f"gets {_held(spell)}{again}"))
    for eviction in life.evictions:
        reason = HUMAN_REASONS.get(eviction.reason, eviction.reason)
        by = names.get(eviction.by, eviction.by)
        words = f"makes way for {by}: {reason}" if by else f"is evicted: {reason}"
        words += f", {eviction.why}" if eviction.why else ""
        yield StoryLine(eviction.at, LEFT, name, plain(words))


def _end_of(life: Life, until: Millis, names: Mapping[str, str], exact: bool) -> StoryLine:
    name = plain(names.get(life.workload, life.workload))
    lost = f", {span(life.lost_ms, exact=exact)} of it lost" if life.lost_ms else ""
    ran = f"it ran {span(life.ran_ms, exact=exact)}{lost}"
    began_at = life.spells[-1].began_at if life.spells else life.created_at
    if life.finished_at is not None:
        rank = ENDED if life.finished_at > began_at else LAST  # it took no time at all
        return StoryLine(life.finished_at, rank, name, f"is done; {ran}")
    if life.gone_at is not None:
        return StoryLine(life.gone_at, ENDED if life.gone_at > began_at else LAST, name, "is deleted")
    if life.spells and life.spells[-1].ended_at is None:
        return StoryLine(until, LAST, name, f"has its quota to the end; {ran}")
    return StoryLine(until, LAST, name, "still waits at the end")


def _held(spell: Spell) -> str:
    flavors: dict[str, list[str]] = {}
    for (flavor, resource), amount in sorted(spell.usage.items()):
        flavors.setdefault(flavor, []).append(f"{level(amount, resource)} {resource}")
    return "; ".join(f"{', '.join(amounts)} on {flavor}" for flavor, amounts in flavors.items()) or "quota"
