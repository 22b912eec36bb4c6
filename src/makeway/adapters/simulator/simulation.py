"""A simulated installation: the real engine over a Store in memory, with a simulated world, in virtual time.

The engine is the same as in the server. The differences: virtual time, jobs that end as their annotations say, and
optional faults. Equal inputs and seeds give equal journals, byte for byte.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from makeway.adapters.simulator.checkers import Broken, Witness
from makeway.adapters.simulator.faults import (
    CLOCK_SET_MS_MAX,
    CLOCK_STEP_MS_MAX,
    Crashed,
    Faults,
    FaultyStore,
    FaultyWriter,
    Unreadable,
)
from makeway.adapters.simulator.lives import Life
from makeway.adapters.simulator.reports.measures import Run
from makeway.adapters.simulator.reports.sharing import Sharing
from makeway.adapters.simulator.reports.words import span
from makeway.adapters.simulator.sources.arrivals import Arriving, Source, span_of
from makeway.adapters.simulator.store import MemoryStore
from makeway.adapters.simulator.world import World
from makeway.api.names import CHECKPOINT_INTERVAL, QUEUE_LABEL
from makeway.api.objects.queueing import ClusterQueue, LocalQueue
from makeway.api.objects.workload import Workload
from makeway.controllers.jobs.kinds.registry import job_kind_of
from makeway.controllers.queues.status import INTERVAL_MS
from makeway.controllers.standard import standard
from makeway.core.lowering import cohort_of, queue_of
from makeway.core.model import Millis, QueueName, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.trace import Rule, Step
from makeway.runtime.engine import Engine
from makeway.runtime.informers import watched_kinds
from makeway.runtime.journal import DecisionJournal, JournalEntry
from makeway.runtime.metrics.registry import MetricsRegistry
from makeway.runtime.ports import Clock, SeededNames
from makeway.runtime.steady import SteadyClock
from makeway.runtime.virtual import Actor, Virtual, VirtualClock

HISTORY = 50_000
SHOWN = 3  # workloads named in a warning
Linger = Callable[[Any], int]  # how long after its eviction a workload without an owner is removed, in ms


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The parameters of a run, beside its objects."""

    policy: Policy = field(default_factory=Policy.default)
    eviction_ms: int = 0  # the time that evicted work needs to stop
    linger: Linger | None = None  # the same by workload; None: eviction_ms for all
    seed: int = 0
    faults: Faults | None = None
    careful: bool = False  # our own writes are validated like those of other clients
    metrics: bool = False  # whether they are collected
    figures_ms: int = INTERVAL_MS  # the least time between two updates of a queue's status


def was_meant(error: Exception) -> bool:
    """Whether an object is set aside for this error: only for a fault that was drawn; any other error ends the run."""
    return isinstance(error, Unreadable)


class Restarting:
    """The engine as an actor. It may end at any point and restart from the stored objects; its clock may jump."""

    def __init__(self, make: Callable[[], Engine], faults: Faults | None, world: Clock) -> None:
        self._make = make
        self._faults = faults
        self._skew = 0
        self._world = world  # the true time
        self._set_by = 0  # the machine's clock minus the true time
        self._steady = self._new_clock(None)
        self.engine = make()
        self.restarts = 0
        self._before = (0, 0, 0)  # cycles, decisions and writes of earlier engines

    def step(self, now: Millis) -> bool:
        if self._faults is not None:
            if self._faults.fires("crash.step"):
                self.restart()
            self._jump()
        try:
            return self.engine.step(Millis(now + self._ahead()))
        except Crashed:
            self.restart()
            return True

    def restart(self) -> None:
        engine = self.engine
        cycles, decisions, writes = self._before
        self._before = (cycles + engine.cycles, decisions + engine.decisions, writes + engine.executor.writes)
        self.engine = self._make()
        self._steady = self._new_clock(self._steady())
        self.restarts += 1

    def _new_clock(self, not_before: Millis | None) -> SteadyClock:
        """The clock of a restarted server."""
        return SteadyClock(lambda: (self._world() + self._set_by) * 10**6, lambda: self._world() * 10**6, not_before)

    def _ahead(self) -> int:
        """The engine's clock minus the true time."""
        return 0 if self._faults is None else self._steady() - self._world() + self._skew

    def _jump(self) -> None:
        assert self._faults is not None
        if self._faults.fires("clock.back"):
            self._skew -= self._faults.span(CLOCK_STEP_MS_MAX)
        if self._faults.fires("clock.forward"):
            self._skew += self._faults.span(CLOCK_STEP_MS_MAX)
        if self._faults.fires("clock.set"):
            self._set_by = self._faults.span(2 * CLOCK_SET_MS_MAX) - CLOCK_SET_MS_MAX

    def next_at(self) -> Millis | None:
        at = self.engine.next_at()
        return None if at is None else Millis(at - self._ahead())

    @property
    def cycles(self) -> int:
        return self._before[0] + self.engine.cycles

    @property
    def decisions(self) -> int:
        return self._before[1] + self.engine.decisions

    @property
    def writes(self) -> int:
        return self._before[2] + self.engine.executor.writes


class Simulation:
    """``objects`` exist from the beginning, like the objects of ``source``; its arrivals come at their times."""

    def __init__(
        self, settings: SimulationSettings, source: Source, *, objects: Iterable[Any] = (),
        journal: DecisionJournal | None = None, witness: bool = False, others: Sequence[Actor] = (),
        watching: Callable[[Millis], None] | None = None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.clock = VirtualClock(source.begins_at)
        self.until: Millis | None = None
        self._began_at = source.begins_at
        self._source = source
        there = self._there = [*objects, *source.objects]
        self.store = MemoryStore(
            self.clock, SeededNames(settings.seed), careful=settings.careful, history=HISTORY, mode="Warn"
        )
        self.store.load(there)
        self.journal = DecisionJournal(settings.policy) if journal is None else journal
        self.witness = Witness(self.store, settings.policy) if witness else None
        faults = settings.faults
        if faults is not None:
            faults.now = lambda: self.clock.now
        self._view = None if faults is None else FaultyStore(self.store, faults)
        self.journal.listeners.append(self._heard)
        self.engine = Restarting(self._make, faults, self.clock)
        waits = settings.policy.pods_ready is not None
        self.world = World(self.store, eviction_ms=settings.eviction_ms, seed=settings.seed, tells_ready=waits)
        self.arriving = Arriving(self.store, source, settings.policy.jobs)
        actors: list[Actor] = [
            self.arriving,
            self.world,
            self.engine,
            *others,
        ]  # work that ends now has ended before the decisions
        if self._view is not None:
            actors.append(self._view)
        self.driver = Virtual(self.clock, actors, watching)

    def _make(self) -> Engine:
        settings = self.settings
        self.metrics = MetricsRegistry() if settings.metrics else None  # they start again with each engine
        linger = settings.linger or (lambda workload: settings.eviction_ms)
        react = standard(linger, settings.figures_ms)
        if self._view is None or settings.faults is None:
            return Engine(
                self.store, settings.policy, react, journal=self.journal, metrics=self.metrics,
                figures_ms=settings.figures_ms,
            )  # fmt: skip
        self._view.forget_watches()
        writer = FaultyWriter(self.store, settings.faults)
        view: Any = self._view
        return Engine(
            view, settings.policy, react, writer=writer, journal=self.journal, metrics=self.metrics,
            figures_ms=settings.figures_ms, tolerates=was_meant, probe=settings.faults.probe,
        )  # fmt: skip

    def _heard(self, entry: JournalEntry) -> None:
        if entry.what == "evicted" and entry.by:
            victim, by = WorkloadKey(entry.workload), WorkloadKey(entry.by)
            steps = (Step(Rule(rule), subjects, numbers) for rule, subjects, numbers in entry.steps)
            why = "; ".join(str(step) for step in steps if step.shares)
            self.world.lives.preempted(victim, by, entry.reason, self.clock.now, why)

    def run(self, until: Millis | None = None) -> None:
        """Go on until ``until``, or until nothing more will happen."""
        self.until = until
        self.driver.run(until)

    def store_objects(self) -> list[Any]:
        """All objects that the engine reads, as they are stored."""
        return [each.value() for kind in watched_kinds() for each in self.store.list(kind).items]

    def recorded(self, *, cpu_seconds: float = 0.0) -> Run:
        """The run so far, for measures and reports."""
        objects = self.store_objects()
        queues = [queue_of(each)[1] for each in objects if each.kind == "ClusterQueue"]
        cohorts = tuple(cohort_of(each) for each in objects if each.kind == "Cohort")
        tree = self.engine.engine.state.tree
        roots = {spec.name: tree.queues[spec.name].root for spec in queues if spec.name in tree.queues}
        lives = self.world.lives.recorded(self.clock.now)
        return Run(
            lives=lives,
            queues={spec.name: spec.nominal for spec in queues},
            cohorts={name: root.name for name, root in roots.items() if not root.is_queue},
            lending_limits={spec.name: spec.lending for spec in queues if spec.lending},
            sharing=Sharing(tuple(queues), cohorts) if self.settings.policy.fair_sharing else None,
            began_at=self._began_at,
            ended_at=self._ended_at(lives),
            cycles=self.engine.cycles,
            writes=self.engine.writes,
            decisions=self.engine.decisions,
            cpu_seconds=cpu_seconds,
            journal_sha256=self.journal.sha256(),
            faults_fired={} if self.settings.faults is None else dict(self.settings.faults.fired),
        )

    def _ended_at(self, lives: Sequence[Life]) -> Millis:
        """The time at which the last workload finished, if all have; only status updates come after that."""
        ends = [each.finished_at for each in lives]
        if self.until is None and ends and None not in ends:
            return max(at for at in ends if at is not None)
        return self.clock.now

    def warnings(self) -> list[str]:
        """Warnings about input that makes the result worse, queue by queue.

        That is so if ``minAdmitDuration`` is shorter than the checkpoint interval that workloads declare: a turn may
        then end before any of its work is saved.
        """
        if not self.settings.policy.gates.time_based_same_priority_preemption:
            return []
        queues = [queue_of(each)[0] for each in self._there if isinstance(each, ClusterQueue)]
        least = {queue.name: queue.min_admit for queue in queues if queue.min_admit is not None}
        slow: dict[QueueName, list[tuple[int, str]]] = defaultdict(list)
        for queue, workload, interval in self._checkpoints() if least else ():
            if interval > least.get(queue, interval):
                slow[queue].append((-interval, workload))
        return [_saves_too_seldom(name, least[name], slow[name]) for name in sorted(slow)]

    def _checkpoints(self) -> Iterator[tuple[QueueName, str, int]]:
        """The checkpoint intervals of jobs and Workloads so far, by ClusterQueue, in milliseconds."""
        queues = {
            (each.metadata.namespace, each.metadata.name): QueueName(each.spec.cluster_queue)
            for each in self._there
            if isinstance(each, LocalQueue)
        }
        came = (each.body for each in self._source.arrivals if each.at <= self.clock.now)
        for each in (*self._there, *came):
            is_work = isinstance(each, Workload) or job_kind_of(each) is not None
            if not is_work or CHECKPOINT_INTERVAL not in each.metadata.annotations:
                continue
            meta = each.metadata
            if isinstance(each, Workload) and meta.owner_references:  # its job says the same
                continue
            name = each.spec.queue_name if isinstance(each, Workload) else meta.labels.get(QUEUE_LABEL, "")
            queue = queues.get((meta.namespace, name))
            with suppress(ValueError):  # a bad value in a file is refused on reading
                interval = span_of(meta.annotations, CHECKPOINT_INTERVAL, 1)
                if queue is not None and interval is not None:
                    yield queue, f"{meta.namespace}/{meta.name}", interval

    def broken(self) -> list[Broken]:
        """The promises that this run has broken; to be called at rest."""
        assert self.witness is not None, "it was not watched"
        return self.witness.at_rest(self.store, self.settings.policy, self.clock.now)


def _saves_too_seldom(queue: str, turn_ms: int, slow: Sequence[tuple[int, str]]) -> str:
    turn = span(turn_ms, exact=True)
    names = ", ".join(f"{name} ({span(-interval, exact=True)})" for interval, name in sorted(slow)[:SHOWN])
    more = f" and {len(slow) - SHOWN} more" if len(slow) > SHOWN else ""
    return (
        f"minAdmitDuration of ClusterQueue {queue}, {turn}, is shorter than the checkpoint interval of {names}{more}: "
        f"all work of a turn that ends after {turn} is lost"
    )
