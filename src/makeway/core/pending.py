"""Who waits: one line per queue, the parked beside it, and what must happen before somebody is looked at again (S-4).

A line is always sorted. *Parked* workloads are out of it until a wake of their tree or a change of their own; a
workload in the line that was refused is not *due* until then either, so that nothing is evaluated twice in vain.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from makeway.core.model import Millis, QueueName, Usage, Workload, WorkloadKey, invariant
from makeway.core.undo import UndoLog

Requeue = Literal[
    "NamespaceMismatch", "Generic", "NoFit", "PreemptionNoCandidates", "PreemptionGated", "PendingPreemption",
    "PendingMigration", "PreemptionFailed", "FailedAfterNomination", "SiblingRuns",
]  # fmt: skip
PARKING: frozenset[Requeue] = frozenset(
    {"NamespaceMismatch", "Generic", "NoFit", "PreemptionNoCandidates", "PreemptionGated"}
)
SHAPE_MOVING: frozenset[Requeue] = frozenset({"NoFit", "PreemptionNoCandidates"})
STICKY: frozenset[Requeue] = frozenset({"PendingPreemption", "PendingMigration"})

Place = tuple[int, int, str, int, str, WorkloadKey]
Shape = tuple[object, ...]


def place(workload: Workload) -> Place:
    """Its place in its queue's line (S-4.1); no two are alike."""
    family = workload.uid if workload.family is None else workload.family
    return (-workload.priority, workload.queued_at, family, workload.option_rank, workload.uid, workload.key)


def shape(workload: Workload) -> Shape:
    """What a verdict depends on: who looks alike gets the same one (S-4.5.3)."""
    return (
        workload.priority,
        tuple(
            (
                each.name, each.count, each.min_count, each.group, tuple(sorted(each.requests.items())),
                tuple(sorted(each.allowed)), each.tolerations, tuple(sorted((each.node_selector or {}).items())),
                each.affinity,
            )
            for each in workload.pod_sets
        ),
    )  # fmt: skip


def may_queue(workload: Workload, now: Millis) -> bool:
    """Whether its back-off is over (S-4.5.2)."""
    return not workload.backing_off and (workload.requeue_at is None or now >= workload.requeue_at)


@dataclass(frozen=True, slots=True)
class Standing:
    """Quota kept free for a refused head of a strict queue until it is looked at again (S-5.13)."""

    order: tuple[Any, ...]  # the head's place among the entries of a cycle
    amounts: Usage


@dataclass(slots=True)
class Line:
    """The waiting workloads of one queue."""

    strict: bool = False
    places: list[Place] = field(default_factory=list)
    waiting: dict[WorkloadKey, Workload] = field(default_factory=dict)  # those in the line
    parked: dict[WorkloadKey, Workload] = field(default_factory=dict)
    refused: dict[WorkloadKey, None] = field(default_factory=dict)  # in the line, but not due
    shapes: dict[Shape, None] = field(default_factory=dict)  # parked shapes: new arrivals join them
    sticky: dict[Literal["it"], WorkloadKey] = field(default_factory=dict)  # at most one
    wakes: dict[Literal["count"], int] = field(default_factory=dict)
    standing: dict[WorkloadKey, Standing] = field(default_factory=dict)  # of a refused strict head
    held_back: dict[WorkloadKey, None] = field(default_factory=dict)  # refused because of what is kept free


class Pending:
    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self.lines: dict[QueueName, Line] = {}

    def line(self, queue: QueueName) -> Line:
        return self.lines.setdefault(queue, Line())

    # --- coming and going ---

    def push(self, workload: Workload, now: Millis, *, shapes_count: bool = True) -> None:
        """A workload arrives, or changed in a way that makes it worth another look (S-4.7)."""
        self.remove(workload)
        line = self.line(workload.queue)
        known_shape = shapes_count and not line.strict and bool(line.shapes) and shape(workload) in line.shapes
        if known_shape or not may_queue(workload, now):
            self._log.put(line.parked, workload.key, workload)
        else:
            self._enter(line, workload)

    def refresh(self, workload: Workload) -> None:
        """Its object changed in nothing that matters to a verdict: whether it waits or is parked stays (S-4.7)."""
        line = self.line(workload.queue)
        if workload.key in line.parked:
            self._log.put(line.parked, workload.key, workload)
        elif workload.key in line.waiting:
            was_refused = workload.key in line.refused
            self._leave(line, workload.key)
            self._enter(line, workload)
            if was_refused:
                self._log.put(line.refused, workload.key, None)

    def remove(self, workload: Workload) -> None:
        """It is gone, or holds quota now."""
        line = self.line(workload.queue)
        self._leave(line, workload.key)
        self._log.drop(line.parked, workload.key)

    def forget(self, workload: Workload) -> None:
        """It reserved quota, was deleted or left the queue: who waited for it to come first need not any more."""
        self.remove(workload)
        line = self.line(workload.queue)
        if line.sticky.get("it") == workload.key:
            self._log.drop(line.sticky, "it")

    def _enter(self, line: Line, workload: Workload) -> None:
        where = place(workload)
        insort(line.places, where)
        self._log.save(_take_out, line.places, where)
        self._log.put(line.waiting, workload.key, workload)

    def _leave(self, line: Line, key: WorkloadKey) -> None:
        waiting = line.waiting.get(key)
        if waiting is not None:
            where = place(waiting)
            _take_out(line.places, where)
            self._log.save(insort, line.places, where)
            self._log.drop(line.waiting, key)
        self._log.drop(line.refused, key)
        self._log.drop(line.held_back, key)
        self._log.drop(line.standing, key)

    # --- heads ---

    def head(self, queue: QueueName, *, due_only: bool, sticky_blocks: bool) -> Workload | None:
        """The workload that is looked at next (S-4.2); ``due_only``: refused ones wait for a wake."""
        line = self.lines.get(queue)
        if line is None or not line.places:
            return None
        for key in self._in_order(line):
            if not due_only or key not in line.refused:
                return line.waiting[key]
            if line.strict or (sticky_blocks and line.sticky.get("it") == key):
                return None
        return None

    def _in_order(self, line: Line) -> Iterator[WorkloadKey]:
        sticky = line.sticky.get("it")
        if sticky in line.waiting:
            yield sticky
        for where in line.places:
            if where[5] != sticky:
                yield where[5]

    def first(self, queue: QueueName) -> WorkloadKey | None:
        return next(self._in_order(self.line(queue)), None)

    def in_order(self, queue: QueueName) -> list[WorkloadKey]:
        """The whole line, for those who ask for positions."""
        return list(self._in_order(self.line(queue)))

    def pop(self, workload: Workload) -> int:
        """Take a head out of its line; returns how often the queue was woken so far."""
        line = self.line(workload.queue)
        self._leave(line, workload.key)
        return line.wakes.get("count", 0)

    def requeue(
        self, workload: Workload, reason: Requeue, now: Millis, *, woken: bool, has_untried: bool, shapes_count: bool
    ) -> bool:
        """Put a head back after its cycle (S-4.5); returns whether it is parked. Who was not taken out stays."""
        line = self.line(workload.queue)
        if workload.key in line.waiting:
            return False
        self._log.drop(line.parked, workload.key)
        wants_park = reason == "NamespaceMismatch" or (reason in PARKING and not line.strict)
        parks = (wants_park and not woken and not has_untried) or not may_queue(workload, now)
        if reason in STICKY and not line.strict:
            self._log.put(line.sticky, "it", workload.key)
        if not parks:
            self._enter(line, workload)
            if reason != "FailedAfterNomination" and not has_untried and not woken:
                self._log.put(line.refused, workload.key, None)
            return False
        self._log.put(line.parked, workload.key, workload)
        if reason in SHAPE_MOVING and shapes_count and not line.strict and wants_park:
            self._park_alike(line, shape(workload))
        return True

    def _park_alike(self, line: Line, moved: Shape) -> None:
        self._log.put(line.shapes, moved, None)
        for each in [each for each in line.waiting.values() if shape(each) == moved]:
            self._leave(line, each.key)
            self._log.put(line.parked, each.key, each)

    def keep_free(self, workload: Workload, standing: Standing) -> None:
        self._log.put(self.line(workload.queue).standing, workload.key, standing)

    def standing(self) -> dict[QueueName, dict[WorkloadKey, Standing]]:
        """What is kept free for refused heads, queue by queue."""
        return {queue: dict(line.standing) for queue, line in self.lines.items() if line.standing}

    def end_standing(self) -> None:
        """Nothing is kept free any more for who is no longer first."""
        for queue, line in self.lines.items():
            for key in [key for key in line.standing if key != self.first(queue)]:
                self._log.drop(line.standing, key)

    def hold_back(self, workload: Workload) -> None:
        """It lost to what is kept free for another, and is due when that changes (S-5.1)."""
        line = self.line(workload.queue)
        self._log.put(line.refused, workload.key, None)
        self._log.put(line.held_back, workload.key, None)

    def free_again(self, queues: Iterable[QueueName], but: frozenset[WorkloadKey]) -> None:
        """What was kept free in the tree of these queues has changed: who lost to it is due, but for ``but``."""
        for queue in queues:
            line = self.line(queue)
            for key in [key for key in line.held_back if key not in but]:
                self._log.drop(line.held_back, key)
                self._log.drop(line.refused, key)

    # --- waking ---

    def wake(self, queues: Iterable[QueueName], now: Millis, matches: Callable[[Workload], bool]) -> list[WorkloadKey]:
        """Parked workloads of these queues return to their lines, refused heads become due (S-4.6)."""
        returned: list[WorkloadKey] = []
        for queue in sorted(set(queues)):
            line = self.lines.get(queue)
            if line is None:
                continue
            self._log.put(line.wakes, "count", line.wakes.get("count", 0) + 1)
            for known in list(line.shapes):
                self._log.drop(line.shapes, known)
            self._due(line)
            for each in [each for each in line.parked.values() if may_queue(each, now) and matches(each)]:
                self._log.drop(line.parked, each.key)
                self._enter(line, each)
                returned.append(each.key)
        return returned

    def due(self, queues: Iterable[QueueName]) -> None:
        """Refused workloads of these queues are worth another look; the parked ones are not."""
        for queue in queues:
            self._due(self.line(queue))

    def _due(self, line: Line) -> None:
        for table in (line.refused, line.held_back):
            for key in list(table):
                self._log.drop(table, key)

    def due_again(self, workload: Workload) -> None:
        """Something that concerns only this workload has changed."""
        self._log.drop(self.line(workload.queue).refused, workload.key)

    def contents(self) -> object:
        return {
            queue: (
                line.places[:], sorted(line.parked), sorted(line.refused), sorted(map(repr, line.shapes)),
                dict(line.sticky), dict(line.wakes), sorted(line.standing), sorted(line.held_back),
            )
            for queue, line in sorted(self.lines.items())
        }  # fmt: skip


def _take_out(places: list[Place], where: Place) -> None:
    index = bisect_left(places, where)
    invariant(index < len(places) and places[index] == where, "{} is not in the line", where)
    del places[index]
