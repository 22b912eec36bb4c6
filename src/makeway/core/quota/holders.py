"""The workloads that hold quota, per queue and flavor-resource, in runs that are always sorted.

A search for victims reads the runs from the front and stops when it has enough. So it neither sorts nor reads the
rest, nor workloads that hold other flavors. Workloads that were already asked to leave are kept apart, and come first.
Sums per priority say beforehand what a search could free at most.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any

from makeway.core.amounts import MOST
from makeway.core.model import DAWN, FR, LocalName, Millis, QueueName, Uid, Workload, WorkloadKey, invariant
from makeway.core.undo import UndoLog

Size = tuple[tuple[FR, int], ...]  # what a workload uses, in the order of names
Place = tuple[Any, ...]  # priority, time in the run's direction, …, uid, key: no two are equal; the key comes last


@dataclass(slots=True)
class _Runs:
    """Holders of one flavor-resource in one queue that stay, or that leave; each run by priority, then as it says."""

    newest: list[Place] = field(default_factory=list)  # latest reservation first; one without a time yet counts as now
    longest: list[Place] = field(default_factory=list)  # earliest reservation first, then the longest run before it
    queued: list[Place] = field(default_factory=list)  # by place in the queue


class Holders:
    def __init__(self, log: UndoLog, *, counts_unready: bool = False) -> None:
        self._log = log
        self._counts_unready = counts_unready
        self._runs: dict[tuple[QueueName, FR, bool], _Runs] = {}
        self._sums: dict[tuple[QueueName, FR], dict[int, int]] = {}
        self._reserved: dict[QueueName, list[tuple[int, WorkloadKey]]] = {}
        self.sizes: dict[QueueName, dict[Size, int]] = {}  # by queue, how many holders use how much
        self.of_queue: dict[QueueName, dict[WorkloadKey, Workload]] = {}
        self.of_family: dict[Uid, dict[WorkloadKey, Workload]] = {}  # Options (KEP-8691)
        self.of_local: dict[LocalName, dict[WorkloadKey, Workload]] = {}
        self.by_key: dict[WorkloadKey, Workload] = {}
        self.unready: dict[WorkloadKey, None] = {}  # holders with unready pods; empty where that is not counted
        self.looks = 0  # candidates read so far; tests count them

    def add(self, workload: Workload) -> None:
        members = self.of_queue.setdefault(workload.queue, {})
        invariant(workload.key not in members, "{} holds quota already", workload.key)
        self._log.put(members, workload.key, workload)
        self._log.put(self.by_key, workload.key, workload)
        self._log.put(self.of_local.setdefault(workload.local, {}), workload.key, workload)
        if workload.family is not None:
            self._log.put(self.of_family.setdefault(workload.family, {}), workload.key, workload)
        for run, place in self._places(workload):
            insort(run, place)
            self._log.save(_take_out, run, place)
        for fr, amount in (workload.usage or {}).items():
            self._count(workload, fr, amount)
        self._count_size(workload, 1)
        self._count_pods(workload)

    def remove(self, workload: Workload) -> None:
        members = self.of_queue[workload.queue]
        held = members[workload.key]
        self._log.drop(members, workload.key)
        self._log.drop(self.by_key, workload.key)
        self._log.drop(self.of_local[held.local], workload.key)
        if held.family is not None:
            self._log.drop(self.of_family[held.family], workload.key)
        for run, place in self._places(held):
            _take_out(run, place)
            self._log.save(insort, run, place)
        for fr, amount in (held.usage or {}).items():
            self._count(held, fr, -amount)
        self._count_size(held, -1)
        self._log.drop(self.unready, held.key)

    def renew(self, known: Workload, workload: Workload) -> None:
        """A holder was read anew, in its queue and with its usage; it is moved only if its place changes."""
        held = self.of_queue[known.queue][known.key]
        if _standing_of(held) != _standing_of(workload):
            self.remove(held)
            self.add(workload)
            return
        for table in (self.of_queue[held.queue], self.by_key, self.of_local[held.local]):
            self._log.put(table, held.key, workload)
        if held.family is not None:
            self._log.put(self.of_family[held.family], held.key, workload)
        self._count_pods(workload)

    def find(self, queue: QueueName, key: WorkloadKey) -> Workload | None:
        return self.of_queue.get(queue, {}).get(key)

    # --- reading ---

    def upto(self, queues: Iterable[QueueName], frs: Iterable[FR], below: int, *, evicted: bool) -> Iterator[Workload]:
        """Holders of these queues with a priority below ``below`` that use one of ``frs``, in the order of S-7.6."""
        runs = []
        for queue in queues:
            for fr in frs:
                found = self._runs.get((queue, fr, evicted))
                if found is not None:
                    runs.append(self._read(queue, found.newest, 0, bisect_left(found.newest, (below,))))
        return self._merged(runs)

    def has_some_upto(self, queue: QueueName, frs: Iterable[FR], below: int, *, evicted: bool) -> bool:
        """Whether ``upto`` would find a holder in this queue; reads none."""
        runs = (self._runs.get((queue, fr, evicted)) for fr in frs)
        return any(found is not None and bisect_left(found.newest, (below,)) > 0 for found in runs)

    def expired(
        self, queue: QueueName, frs: Iterable[FR], priority: int, before: Millis, *, evicted: bool
    ) -> Iterator[Workload]:
        """Equals of ``priority`` that reserved before ``before``, the longest first (S-7.6.5)."""
        runs = []
        for fr in frs:
            found = self._runs.get((queue, fr, evicted))
            if found is not None:
                first = bisect_left(found.longest, (priority, DAWN))
                runs.append(self._read(queue, found.longest, first, bisect_left(found.longest, (priority, before))))
        return self._merged(runs)

    def equals(
        self, queue: QueueName, frs: Iterable[FR], priority: int, queued: range, since: Millis, *, evicted: bool
    ) -> Iterator[Workload]:
        """Equals of ``priority`` that queued in ``queued`` and reserved at ``since`` or later, latest first (S-7.4)."""
        runs = []
        for fr in frs:
            found = self._runs.get((queue, fr, evicted))
            if found is not None:
                runs.append(self._equals_in(queue, found, priority, queued, since))
        return self._merged(runs)

    def first_reserved_after(self, queue: QueueName, at: Millis) -> Millis | None:
        """The earliest reservation later than ``at``."""
        times = self._reserved.get(queue, [])
        index = bisect_left(times, (at + 1, ""))
        return Millis(times[index][0]) if index < len(times) else None

    def freed_at_most(self, queue: QueueName, fr: FR, below: int) -> int:
        """What holders with a priority below ``below`` use together: the most that evicting them can free."""
        total = 0
        for priority, amount in self._sums.get((queue, fr), {}).items():
            if priority < below:
                total += amount
        return total

    def contents(self) -> object:
        runs = {
            key: (run.newest[:], run.longest[:], run.queued[:]) for key, run in sorted(self._runs.items()) if run.newest
        }
        sums = {key: dict(sorted(table.items())) for key, table in sorted(self._sums.items()) if table}
        reserved = {queue: times[:] for queue, times in sorted(self._reserved.items()) if times}
        members = {queue: sorted(each) for queue, each in sorted(self.of_queue.items()) if each}
        sizes = {queue: dict(sorted(each.items())) for queue, each in sorted(self.sizes.items()) if each}
        return runs, sums, reserved, members, sizes, sorted(self.unready)

    # --- keeping ---

    def _places(self, workload: Workload) -> Iterator[tuple[list[Any], tuple[Any, ...]]]:
        at = MOST if workload.reserved_at is None else workload.reserved_at
        if workload.reserved_at is not None:
            yield self._reserved.setdefault(workload.queue, []), (workload.reserved_at, workload.key)
        key, uid, priority = workload.key, workload.uid, workload.priority
        for fr in workload.usage or {}:
            where = (workload.queue, fr, workload.evicted)
            runs = self._runs.get(where)
            if runs is None:
                runs = self._runs[where] = _Runs()
            yield runs.newest, (priority, -at, uid, key)
            yield runs.longest, (priority, at, -workload.ran_seconds, uid, key)
            yield runs.queued, (priority, workload.queued_at, uid, key)

    def _count(self, workload: Workload, fr: FR, amount: int) -> None:
        sums = self._sums.setdefault((workload.queue, fr), {})
        total = sums.get(workload.priority, 0) + amount
        if total:
            self._log.put(sums, workload.priority, total)
        else:
            self._log.drop(sums, workload.priority)

    def _count_size(self, workload: Workload, change: int) -> None:
        sizes, size = self.sizes.setdefault(workload.queue, {}), size_of(workload)
        count = sizes.get(size, 0) + change
        if count:
            self._log.put(sizes, size, count)
        else:
            self._log.drop(sizes, size)

    def _count_pods(self, workload: Workload) -> None:
        if not self._counts_unready:
            return
        if workload.pods_ready:
            self._log.drop(self.unready, workload.key)
        else:
            self._log.put(self.unready, workload.key, None)

    def _equals_in(
        self, queue: QueueName, runs: _Runs, priority: int, queued: range, since: Millis
    ) -> Iterator[tuple[Place, Workload]]:
        """Read from the front; after as many misses as there are equals, read the equals alone."""
        start, stop = queued.start, queued.stop
        first, last = bisect_left(runs.queued, (priority, start)), bisect_left(runs.queued, (priority, stop))
        low, high = bisect_left(runs.newest, (priority,)), bisect_left(runs.newest, (priority, -since + 1))
        passed = 0
        for index in range(low, high):
            if passed >= last - first:
                yield from self._rest_of_equals(queue, runs.queued[first:last], runs.newest[index], since)
                return
            self.looks += 1
            place = runs.newest[index]
            each = self.of_queue[queue][place[-1]]
            if start <= each.queued_at < stop:
                yield place, each
            else:
                passed += 1

    def _rest_of_equals(
        self, queue: QueueName, places: list[Place], start: Place, since: Millis
    ) -> Iterator[tuple[Place, Workload]]:
        """The holders at ``places`` that reserved at ``since`` or later and come at ``start`` or after it."""
        matching = []
        for priority, _, uid, key in places:
            self.looks += 1
            each = self.of_queue[queue][key]
            at = MOST if each.reserved_at is None else each.reserved_at
            place = (priority, -at, uid, key)
            if at >= since and place >= start:
                matching.append((place, each))
        yield from sorted(matching, key=lambda pair: pair[0])

    def _read(self, queue: QueueName, run: list[Place], start: int, stop: int) -> Iterator[tuple[Place, Workload]]:
        members = self.of_queue[queue]
        for index in range(start, stop):
            self.looks += 1
            place = run[index]
            yield place, members[place[-1]]

    def _merged(self, runs: list[Iterator[tuple[Place, Workload]]]) -> Iterator[Workload]:
        """One sorted stream of several; a holder of two of the flavor-resources comes once."""
        if len(runs) == 1:
            for _, each in runs[0]:
                yield each
            return
        last: Place | None = None
        for place, each in merge(*runs, key=lambda pair: pair[0]):
            if place != last:
                yield each
            last = place


def _standing_of(workload: Workload) -> tuple[object, ...]:
    """All that decides the places of a holder."""
    return (
        workload.queue, workload.key, workload.uid, workload.priority, workload.queued_at, workload.reserved_at,
        workload.evicted, workload.local, workload.family, workload.usage, workload.ran_seconds,
    )  # fmt: skip


def size_of(workload: Workload) -> Size:
    return tuple(sorted((workload.usage or {}).items()))


def _take_out(run: list[Any], place: tuple[Any, ...]) -> None:
    index = bisect_left(run, place)
    invariant(index < len(run) and run[index] == place, "{} is not in the index", place)
    del run[index]
