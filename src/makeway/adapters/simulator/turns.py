"""Detects a run that would never end, because equal workloads take turns without progress."""

from __future__ import annotations

from makeway.adapters.simulator.lives import Life
from makeway.adapters.simulator.simulation import Simulation
from makeway.adapters.simulator.sources.arrivals import span_of
from makeway.api.names import RUNTIME
from makeway.api.objects.kubernetes import Job
from makeway.api.objects.meta import ObjectMeta
from makeway.api.objects.workload import Workload
from makeway.api.versions import kind_of
from makeway.core.model import Millis, WorkloadKey
from makeway.runtime.journal import JournalEntry
from makeway.runtime.ports import NotFound

TURNS_MAX = 20  # of each workload that has quota, without progress of any; more would be the same again
STARTING_MS_MAX = 3_600_000  # from quota to work; a workload that takes longer waits for something that does not come


class GoesRound(Exception):
    """Workloads only take turns."""


class Turns:
    """Detects a run that would never end: all workloads have arrived, and those with quota take turns without progress.

    Progress is an arrival, an end, or saved work. The run is endless if some workload was evicted ``TURNS_MAX`` times
    since the last progress, and no workload with quota will end: each has no run time, was evicted as often itself, or
    should have ended by now. The check is rare: the next one comes after a quarter more evictions.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._evictions = 0
        self._due = 2 * TURNS_MAX
        self._since: int = 0  # the last progress
        self._kept_ms: dict[WorkloadKey, int] = {}
        simulation.journal.listeners.append(self._heard)

    def _heard(self, entry: JournalEntry) -> None:
        self._evictions += entry.what == "evicted"

    def look(self, now: Millis) -> None:
        if self._evictions < self._due or self._simulation.arriving.next_at() is not None:
            return
        self._due = self._evictions * 5 // 4
        unfinished = []
        for life in self._simulation.world.lives.recorded(now):
            self._since = max(self._since, life.created_at, life.finished_at or 0, life.gone_at or 0)
            if life.finished_at is None and life.gone_at is None:
                unfinished.append(life)
                self._note_kept(life, now)
        takes_turns = any(self._turns(life) >= TURNS_MAX for life in unfinished)
        if takes_turns and not any(self._is_on_the_way(life, now) for life in unfinished):
            raise GoesRound

    def _note_kept(self, life: Life, now: Millis) -> None:
        """Note the saved work of a workload, without what it may yet lose; it is progress if less work is left."""
        kept_ms = life.ran_ms - life.lost_ms - (0 if (began := _holds_since(life)) is None else now - began)
        if kept_ms > self._kept_ms.get(life.workload, 0):
            self._kept_ms[life.workload] = kept_ms
            if self._runtime_ms(life.workload) is not None:
                self._since = now

    def _turns(self, life: Life) -> int:
        return sum(eviction.at > self._since for eviction in life.evictions)

    def _is_on_the_way(self, life: Life, now: Millis) -> bool:
        began = _holds_since(life)
        if began is None or self._turns(life) >= TURNS_MAX:
            return False
        runtime_ms = self._runtime_ms(life.workload)
        return runtime_ms is not None and now <= began + runtime_ms + STARTING_MS_MAX

    def _runtime_ms(self, key: WorkloadKey) -> int | None:
        store = self._simulation.store
        namespace, _, name = key.partition("/")
        try:
            meta = store.get(kind_of(Workload), namespace, name).value().metadata
            if job := job_of(meta):
                meta = store.get(kind_of(Job), namespace, job).value().metadata
            return span_of(meta.annotations, RUNTIME)
        except (NotFound, ValueError):
            return None


def _holds_since(life: Life) -> Millis | None:
    """Since when it has quota without a break; None: it has none."""
    if not life.spells or life.spells[-1].ended_at is not None:
        return None
    began = life.spells[-1].began_at
    for before in reversed(life.spells[:-1]):
        if before.ended_at != began:
            break
        began = before.began_at
    return began


def job_of(meta: ObjectMeta) -> str:
    """The Job that a Workload was made for; "": none."""
    return next((ref.name for ref in meta.owner_references if ref.controller and ref.kind == "Job"), "")
