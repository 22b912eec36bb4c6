"""The world around the engine: work that runs, ends and stops, with the writes of nodes and job controllers.

An actor beside the engine: it reads the store through its own watches, and writes only its own fields.

- A Workload without an owner runs while it is Admitted and not Evicted, and is Finished after its run time. (When it is
  evicted, the Workload controller releases it.)
- A Job runs while it is not suspended: its pods are active and ready at once, and it is Complete after its run time.
  The pods of a suspended Job are gone after the eviction time.
- Work without a run time never ends by itself. Stopped work keeps what it had saved at its last checkpoint and resumes
  from there; without a checkpoint interval it begins anew. Checkpoints are counted by the time worked.

Promises: exact to the millisecond if it is stepped whenever ``next_at`` says; a step examines some thousand objects at
most; equal stores and steps give equal writes. A workload that is evicted in the millisecond in which it would finish
finishes.

Not here: pods and nodes as objects, and faults: it writes to the store itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

from msgspec.structs import replace

from makeway.adapters.simulator.lives import Glimpse, Lives, moment
from makeway.adapters.simulator.sources.arrivals import span_of
from makeway.api import codec
from makeway.api.conditions import is_true, set_condition
from makeway.api.names import CHECKPOINT_INTERVAL, RUNTIME
from makeway.api.objects.kubernetes import Job, JobStatus, amended, view
from makeway.api.objects.meta import ObjectMeta, Wire, made, ready
from makeway.api.objects.queueing import LocalQueue
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.api.quantity import Time
from makeway.api.versions import kind_of
from makeway.core.model import Millis, WorkloadKey
from makeway.runtime.feed import KindFeed
from makeway.runtime.ports import Conflict, NotFound, Retryable, Store, Stored

EVENTS_MAX = 1000  # examined in a step, of each kind
WRITES_MAX = 1000  # made in a step
TRIES_MAX = 5  # of a write, at once
RETRY_MS = 1000  # if the store gives no time
JOB_CONTROLLER = ("", "kubernetes.io/job-controller")  # runs our Jobs
WORKLOADS, JOBS, LOCAL_QUEUES = kind_of(Workload), kind_of(Job), kind_of(LocalQueue)

Edit = Callable[[Any, Millis], Any]  # a stored object -> the new object; None: nothing to write


class _JobSpec(Wire, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = ""
    suspend: bool = False
    managed_by: str = ""

    @property
    def pods(self) -> int:
        """How many run at once (api 18.2)."""
        return self.parallelism if self.completions is None else min(self.parallelism, self.completions)


@ready
class _JobGlimpse(Wire, frozen=True):
    """The fields of a Job that matter here; its pod template does not."""

    metadata: ObjectMeta = made(ObjectMeta)
    spec: _JobSpec = made(_JobSpec)
    status: JobStatus = made(JobStatus)

    @classmethod
    def of(cls, job: Job) -> _JobGlimpse:
        return cls(metadata=job.metadata, spec=view(job.spec, _JobSpec), status=view(job.status, JobStatus))

    @property
    def has_ended(self) -> bool:
        return is_true(self.status.conditions, "Complete") or is_true(self.status.conditions, "Failed")

    @property
    def shows_pods(self) -> bool:
        """Whether its status says that all its pods run."""
        return (self.status.active, self.status.ready) == (self.spec.pods, self.spec.pods)


class _Place(NamedTuple):
    kind: str
    namespace: str
    name: str


@dataclass(slots=True)
class _Run:
    """Some work: its run time, its progress, and whether it runs."""

    place: _Place
    uid: str
    total_ms: int | None  # None: it never ends by itself
    interval_ms: int | None  # between checkpoints; None: there are none
    saved_ms: int = 0
    began_at: Millis | None = None  # None: it does not run
    turn: int = 0  # counts starts and stops: timers of an earlier turn are void
    leaving: bool = False  # its pods are ending

    def worked_ms(self, now: Millis) -> int:
        return self.saved_ms + (0 if self.began_at is None else now - self.began_at)

    def is_done(self, now: Millis) -> bool:
        return self.total_ms is not None and self.worked_ms(now) >= self.total_ms

    def stop(self, now: Millis) -> int:
        """Stop it; return how much work is lost."""
        worked = self.worked_ms(now)
        self.saved_ms = worked - worked % self.interval_ms if self.interval_ms else 0
        self.began_at = None
        self.turn += 1
        return worked - self.saved_ms


class _Due(NamedTuple):
    at: Millis
    order: int
    place: _Place
    turn: int
    edit: Edit


class World:
    """``eviction_ms``: how long the pods of a Job need to end; ``spread_ms``: how much longer at most, drawn each time
    from ``seed``. ``lives`` gets all events. ``tells_ready``: controllers wait for pods, so a Workload without an owner
    reports them ready at once, as the controller of a job would.
    """

    def __init__(
        self, store: Store, *, eviction_ms: int = 0, spread_ms: int = 0, seed: int = 0, lives: Lives | None = None,
        tells_ready: bool = False,
    ) -> None:  # fmt: skip
        self.lives = Lives() if lives is None else lives
        self._store = store
        self._eviction_ms = eviction_ms
        self._spread_ms = spread_ms
        self._seed = seed
        self._tells_ready = tells_ready
        self._feeds = [KindFeed(store, WORKLOADS), KindFeed(store, JOBS)]
        self._runs: dict[_Place, _Run] = {}
        self._due: list[_Due] = []
        self._order = 0
        self._workload_of: dict[str, WorkloadKey] = {}  # uid of a Job -> its Workload
        self._keys: dict[str, WorkloadKey] = {}  # uid of a Workload -> itself, for Options to name their Parent
        self._queues: dict[tuple[str, str], str] = {}  # LocalQueue -> ClusterQueue

    def next_at(self) -> Millis | None:
        """When something happens by itself; None: never, as things are. Writes of others may come before."""
        while self._due and not self._is_current(self._due[0]):
            heappop(self._due)
        return self._due[0].at if self._due else None

    def step(self, now: Millis) -> bool:
        """Handle changes and do what is due; return whether there was anything."""
        busy = False
        for feed in self._feeds:
            events = feed.poll(EVENTS_MAX)
            for event in events:
                if event.object is not None:
                    self._handle(event.type == "DELETED", event.object, now)
            busy |= bool(events)
            if len(events) >= EVENTS_MAX:
                break  # all Workloads first: a Job is found by its Workload
        for _ in range(WRITES_MAX):
            at = self.next_at()
            if at is None or at > now:
                break
            busy = True
            due = heappop(self._due)
            self._write(self._runs[due.place], due.edit, now)
        return busy

    # --- looking ---

    def _handle(self, is_gone: bool, stored: Stored, now: Millis) -> None:
        place = _Place(stored.kind.name, stored.namespace, stored.name)
        if is_gone:
            self._forget(place, stored.uid, now)
        elif stored.kind is WORKLOADS:
            self._look_at_workload(place, Glimpse.of(stored.value()), now)
        else:
            self._look_at_job(place, codec.decode(stored.data, _JobGlimpse), now)

    def _look_at_workload(self, place: _Place, seen: Glimpse, now: Millis) -> None:
        meta = seen.metadata
        owner = meta.controller
        self._keys[meta.uid] = seen.key
        if owner is not None and owner.kind == "Job":
            self._workload_of[owner.uid] = seen.key
        parent = self._keys.get(owner.uid, "") if owner is not None and owner.kind == "Workload" else ""
        self.lives.see(seen, self._queue_of(meta.namespace, seen.spec.queue_name), now, parent=parent)
        if owner is not None or seen.status.cluster_name:  # it runs through its owner, or elsewhere
            return
        run = self._run(place, meta, has_ended=seen.says("Finished"), now=now)
        if run is not None and seen.says("Admitted") and not seen.says("Evicted"):
            self._start(run, seen.since("Admitted", now), _finished, now)
            if self._tells_ready and not seen.says("PodsReady"):
                self._push(run, now, _ready)
        elif run is not None:
            self._stop(run, now)

    def _look_at_job(self, place: _Place, seen: _JobGlimpse, now: Millis) -> None:
        if seen.spec.managed_by not in JOB_CONTROLLER:
            return
        run = self._run(place, seen.metadata, has_ended=seen.has_ended, now=now)
        if run is None:
            return
        if not seen.spec.suspend:
            run.leaving = False
            self._start(run, moment(seen.status.start_time, now), _completed, now)
            if not seen.shows_pods:
                self._push(run, now, _active)
        elif self._stop(run, now) and seen.status.active and not run.leaving:
            run.leaving = True
            self._push(run, Millis(now + self._leaving_ms(run)), _left)

    def _forget(self, place: _Place, uid: str, now: Millis) -> None:
        run = self._runs.get(place)
        if run is not None and run.uid == uid:
            self._end(run, now)
        if place.kind == WORKLOADS.name:
            self.lives.gone(WorkloadKey(f"{place.namespace}/{place.name}"), uid, now)
            self._keys.pop(uid, None)
        else:
            self._workload_of.pop(uid, None)

    def _queue_of(self, namespace: str, name: str) -> str:
        """The ClusterQueue of a LocalQueue; once known it stays."""
        queue = self._queues.get((namespace, name))
        if queue is None:
            try:
                queue = self._store.get(LOCAL_QUEUES, namespace, name).value().spec.cluster_queue
            except NotFound:
                return ""
            self._queues[namespace, name] = queue
        return queue

    # --- running ---

    def _run(self, place: _Place, meta: ObjectMeta, *, has_ended: bool, now: Millis) -> _Run | None:
        """The run of an object; None: it has ended, and so has its run."""
        run = self._runs.get(place)
        if run is not None and (has_ended or run.uid != meta.uid):
            self._end(run, now)
            run = None
        if run is None and not has_ended:
            total, interval = _span(meta, RUNTIME, 0), _span(meta, CHECKPOINT_INTERVAL, 1)
            run = self._runs[place] = _Run(place, meta.uid, total, interval)
        return run

    def _start(self, run: _Run, since: Millis, end: Edit, now: Millis) -> None:
        """Start a run. ``since``: its stored beginning, for workloads that ran before the simulation began."""
        if run.began_at is not None:
            return
        began_at = run.began_at = now if run.turn else since
        run.turn += 1
        self.lives.began(self._key(run), began_at)
        if run.total_ms is not None:
            self._push(run, max(now, Millis(began_at + run.total_ms - run.saved_ms)), end)

    def _stop(self, run: _Run, now: Millis) -> bool:
        """Stop a run; return whether it has stopped. Work that has just ended has not: it will finish."""
        if run.began_at is None:
            return True
        if run.is_done(now):
            return False
        self.lives.stopped(self._key(run), run.stop(now), now)
        return True

    def _end(self, run: _Run, now: Millis) -> None:
        if run.began_at is not None:
            self.lives.stopped(self._key(run), 0, now)
        del self._runs[run.place]

    def _key(self, run: _Run) -> WorkloadKey:
        """The Workload that a run belongs to; a Job that never had one has no life."""
        if run.place.kind == WORKLOADS.name:
            return WorkloadKey(f"{run.place.namespace}/{run.place.name}")
        return self._workload_of.get(run.uid, WorkloadKey(""))

    def _leaving_ms(self, run: _Run) -> int:
        if not self._spread_ms:
            return self._eviction_ms
        drawn = hashlib.blake2b(f"{self._seed}/{run.uid}/{run.turn}".encode(), digest_size=8).digest()
        return self._eviction_ms + int.from_bytes(drawn) % (self._spread_ms + 1)

    # --- writing ---

    def _push(self, run: _Run, at: Millis, edit: Edit) -> None:
        self._order += 1
        heappush(self._due, _Due(at, self._order, run.place, run.turn, edit))

    def _is_current(self, due: _Due) -> bool:
        run = self._runs.get(due.place)
        return run is not None and run.turn == due.turn

    def _write(self, run: _Run, edit: Edit, now: Millis) -> None:
        """Read, change, write: again on a conflict, and later if the store cannot answer now."""
        kind = WORKLOADS if run.place.kind == WORKLOADS.name else JOBS
        for _ in range(TRIES_MAX):
            try:
                stored = self._store.get(kind, run.place.namespace, run.place.name)
                changed = edit(stored.value(), now) if stored.uid == run.uid else None
                if changed is not None:
                    self._store.update_status(changed)
                return
            except Conflict:
                continue
            except NotFound:
                return
            except Retryable as error:
                self._push(run, Millis(now + (error.retry_after or RETRY_MS)), edit)
                return
        self._push(run, Millis(now + RETRY_MS), edit)


def _span(meta: ObjectMeta, name: str, least_ms: int) -> int | None:
    try:
        return span_of(meta.annotations, name, least_ms)
    except ValueError:  # a bad value in a file is refused on reading; elsewhere it is ignored
        return None


# --- what is written --------------------------------------------------------------------------------------------------


def _finished(workload: Workload, now: Millis) -> Workload | None:
    status = workload.status or WorkloadStatus()
    if is_true(status.conditions, "Finished"):
        return None
    conditions = set_condition(
        status.conditions, type="Finished", status="True", reason="Succeeded", message="All of its work is done",
        now=Time.of_millis(now), observed_generation=workload.metadata.generation,
    )  # fmt: skip
    return replace(workload, status=replace(status, conditions=conditions))


def _ready(workload: Workload, now: Millis) -> Workload | None:
    status = workload.status or WorkloadStatus()
    if not is_true(status.conditions, "Admitted") or is_true(status.conditions, "PodsReady"):
        return None
    conditions = set_condition(
        status.conditions, type="PodsReady", status="True", reason="Started", message="All pods are ready",
        now=Time.of_millis(now), observed_generation=workload.metadata.generation,
    )  # fmt: skip
    return replace(workload, status=replace(status, conditions=conditions))


def _active(job: Job, now: Millis) -> Job | None:
    """Its pods run and are ready."""
    seen = _JobGlimpse.of(job)
    if seen.has_ended or seen.spec.suspend or seen.shows_pods:
        return None
    start = seen.status.start_time or Time.of_millis(now)
    return _with_status(job, active=seen.spec.pods, ready=seen.spec.pods, startTime=start)


def _left(job: Job, now: Millis) -> Job | None:
    """Its pods are gone."""
    return None if _JobGlimpse.of(job).has_ended else _with_status(job, active=0, ready=0, startTime=None)


def _completed(job: Job, now: Millis) -> Job | None:
    seen = _JobGlimpse.of(job)
    if seen.has_ended:
        return None
    spec, at = seen.spec, Time.of_millis(now)
    done = spec.parallelism if spec.completions is None else spec.completions
    conditions = set_condition(
        seen.status.conditions, type="Complete", status="True", reason="CompletionsReached",
        message="All of its pods have succeeded", now=at,
    )  # fmt: skip
    indexes = {"completedIndexes": "0" if done == 1 else f"0-{done - 1}"} if spec.completion_mode == "Indexed" else {}
    return _with_status(job, active=0, ready=0, succeeded=done, completionTime=at, conditions=conditions, **indexes)


def _with_status(job: Job, **changes: object) -> Job:
    return replace(job, status=amended(job.status, changes))
