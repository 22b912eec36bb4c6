"""The history of every workload: when it had quota, when it ran, why it was evicted, and what that cost.

``World`` reports what it sees, in the order in which it happened; ``recorded`` returns plain values at any time.

Promises: memory grows with the workloads and their events, not with the time that passes; message texts are not parsed.

Stored times are whole seconds. An event that is reported in the second of its stored time happened at the millisecond
of the report; an event that is reported later happened at its stored time (``moment``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from makeway.api.conditions import find, is_true
from makeway.api.objects.meta import Condition, ObjectMeta, Wire, made, ready
from makeway.api.objects.workload import Admission, ReclaimablePod, Workload, WorkloadMode, WorkloadStatus
from makeway.api.quantity import Time
from makeway.core.model import FR, FlavorName, Millis, ResourceName, Usage, WorkloadKey


@dataclass(frozen=True, slots=True)
class Spell:
    """A time with a constant amount of quota. When the amount changes, one spell ends and the next begins."""

    began_at: Millis
    ended_at: Millis | None  # None: it still holds the quota
    usage: Usage


@dataclass(frozen=True, slots=True)
class PastEviction:
    """An eviction."""

    at: Millis
    by: str  # the preempting workload; "": none, or unknown
    reason: str
    why: str = ""  # the shares that decided it, in words


@dataclass(frozen=True, slots=True)
class Life:
    workload: WorkloadKey
    queue: str  # its ClusterQueue; "": never known
    priority: int
    created_at: Millis
    spells: tuple[Spell, ...] = ()
    evictions: tuple[PastEviction, ...] = ()
    ran_ms: int = 0  # in total, also lost work
    lost_ms: int = 0
    finished_at: Millis | None = None
    gone_at: Millis | None = None  # deleted before it finished
    parent: str = ""  # of an Option: the workload that it is a part of, which has a life of its own

    def waited_ms(self, until: Millis) -> int:
        """The time without quota, from its creation to its end, or to ``until`` if it has not ended."""
        ends = [each for each in (self.finished_at, self.gone_at) if each is not None]
        last = min(ends, default=until)
        held = sum((last if each.ended_at is None else each.ended_at) - each.began_at for each in self.spells)
        return last - self.created_at - held


# --- as much of a Workload as a life is told from ---------------------------------------------------------------------


class PodSetCount(Wire, frozen=True):
    name: str = "main"
    count: int = 1


class GlimpseSpec(Wire, frozen=True):
    pod_sets: tuple[PodSetCount, ...] = ()
    queue_name: str = ""
    priority: int | None = None
    workload_mode: WorkloadMode | None = None


class GlimpseStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    cluster_name: str = ""


@ready
class Glimpse(Wire, frozen=True):
    """The fields of a Workload that matter here; its pod templates do not."""

    metadata: ObjectMeta = made(ObjectMeta)
    spec: GlimpseSpec = made(GlimpseSpec)
    status: GlimpseStatus = made(GlimpseStatus)

    @classmethod
    def of(cls, workload: Workload) -> Glimpse:
        spec, status = workload.spec, workload.status or WorkloadStatus()
        return cls(
            metadata=workload.metadata,
            spec=GlimpseSpec(
                pod_sets=tuple(PodSetCount(name=each.name, count=each.count) for each in spec.pod_sets),
                queue_name=spec.queue_name, priority=spec.priority, workload_mode=spec.workload_mode,
            ),
            status=GlimpseStatus(
                conditions=status.conditions, admission=status.admission, reclaimable_pods=status.reclaimable_pods,
                cluster_name=status.cluster_name,
            ),
        )  # fmt: skip

    @property
    def key(self) -> WorkloadKey:
        return WorkloadKey(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def is_parent(self) -> bool:
        return self.spec.workload_mode is not None and self.spec.workload_mode.type == "Parent"

    def says(self, condition: str) -> bool:
        return is_true(self.status.conditions, condition)

    def since(self, condition: str, now: Millis) -> Millis:
        """When a condition got its present status."""
        found = find(self.status.conditions, condition)
        return moment(None if found is None else found.last_transition_time, now)

    def usage(self) -> dict[FR, int]:
        """The quota it holds: its assignment, without pods that no longer need it (S-1.8)."""
        admission = self.status.admission
        if admission is None or self.is_parent:  # its Options hold the quota
            return {}
        reclaimed = {each.name: each.count for each in self.status.reclaimable_pods}
        counts = {each.name: each.count for each in self.spec.pod_sets}
        held: dict[FR, int] = {}
        for each in admission.pod_set_assignments:
            all_of_them = counts.get(each.name, 0)
            needed = max(0, all_of_them - reclaimed.get(each.name, 0))
            assigned = all_of_them if each.count is None else each.count
            for resource, flavor in each.flavors.items():
                amount = each.resource_usage[resource].in_units(resource) if resource in each.resource_usage else 0
                if needed < assigned:
                    amount = amount // assigned * needed
                fr = (FlavorName(flavor), ResourceName(resource))
                held[fr] = held.get(fr, 0) + amount
        return held


def moment(stored: Time | None, now: Millis) -> Millis:
    """The time of an event that is reported ``now``, from its stored time."""
    if stored is None or now - stored.millis < 1000:
        return now
    return Millis(stored.millis)


# --- the record -------------------------------------------------------------------------------------------------------


class _Note(NamedTuple):
    by: str
    reason: str
    why: str


@dataclass(slots=True)
class _Record:
    key: WorkloadKey
    uid: str
    created_at: Millis
    queue: str = ""
    priority: int = 0
    parent: str = ""
    spells: list[Spell] = field(default_factory=list)
    evictions: list[PastEviction] = field(default_factory=list)
    evicted: bool = False
    ran_ms: int = 0
    lost_ms: int = 0
    running_since: Millis | None = None
    finished_at: Millis | None = None
    gone_at: Millis | None = None

    @property
    def holds(self) -> bool:
        """Whether it held quota when it was last seen."""
        return bool(self.spells) and self.spells[-1].ended_at is None

    def hold(self, usage: Mapping[FR, int] | None, since: Millis, now: Millis) -> None:
        """Close the open spell unless it goes on unchanged, and open one if quota is held."""
        last = self.spells[-1] if self.spells and self.spells[-1].ended_at is None else None
        if last is not None:
            if last.usage == usage:
                return
            self.spells[-1] = Spell(last.began_at, now, last.usage)
        if usage is not None:
            self.spells.append(Spell(since if last is None else now, None, usage))

    def life(self, until: Millis) -> Life:
        running = 0 if self.running_since is None else until - self.running_since
        return Life(
            workload=self.key, queue=self.queue, priority=self.priority, created_at=self.created_at,
            spells=tuple(self.spells), evictions=tuple(self.evictions), ran_ms=self.ran_ms + running,
            lost_ms=self.lost_ms, finished_at=self.finished_at, gone_at=self.gone_at, parent=self.parent,
        )  # fmt: skip


class Lives:
    """The history of all workloads that ever existed."""

    def __init__(self) -> None:
        self._records: list[_Record] = []
        self._by_key: dict[WorkloadKey, _Record] = {}  # the latest of those with one name
        self._notes: dict[WorkloadKey, _Note] = {}  # reasons of evictions that were requested but not seen yet

    def __len__(self) -> int:
        return len(self._records)

    def recorded(self, until: Millis) -> list[Life]:
        """Return all lives by workload, those of one name in order; one that still runs has run until ``until``."""
        return [each.life(until) for each in sorted(self._records, key=lambda each: each.key)]

    # --- told by the world ---

    def see(self, glimpse: Glimpse, queue: str, now: Millis, *, parent: str = "") -> None:
        """A Workload as it is now. ``queue`` is the ClusterQueue of its LocalQueue, if that is known."""
        record = self._record(glimpse, now)
        record.priority = glimpse.spec.priority or 0
        record.parent = parent or record.parent
        admission = glimpse.status.admission
        record.queue = admission.cluster_queue if admission is not None else record.queue or queue
        if record.finished_at is not None:
            return
        evicted = glimpse.says("Evicted")
        if evicted and not record.evicted and (record.holds or glimpse.says("QuotaReserved")):
            record.evictions.append(self._departure(glimpse, now))
        elif record.evicted and not evicted:  # a request that came in the meantime had no effect
            self._notes.pop(record.key, None)
        record.evicted = evicted
        if glimpse.says("Finished"):
            record.finished_at = glimpse.since("Finished", now)
            record.hold(None, now, record.finished_at)
            self._notes.pop(record.key, None)
        else:
            usage = glimpse.usage() if glimpse.says("QuotaReserved") and admission is not None else None
            record.hold(usage, glimpse.since("QuotaReserved", now), now)

    def gone(self, key: WorkloadKey, uid: str, now: Millis) -> None:
        """The Workload was deleted. If it had finished before, it stays finished."""
        record = self._by_key.get(key)
        if record is not None and record.uid == uid and record.finished_at is None:
            record.hold(None, now, now)
            record.gone_at = now
            self.stopped(key, 0, now)

    def began(self, key: WorkloadKey, at: Millis) -> None:
        """Its pods run."""
        record = self._by_key.get(key)
        if record is not None:
            record.running_since = at

    def stopped(self, key: WorkloadKey, lost_ms: int, at: Millis) -> None:
        """Its pods no longer run, and this much work is lost."""
        record = self._by_key.get(key)
        if record is not None and record.running_since is not None:
            record.ran_ms += at - record.running_since
            record.lost_ms += lost_ms
            record.running_since = None

    # --- told by the engine ---

    def preempted(self, victim: WorkloadKey, by: WorkloadKey, reason: str, at: Millis, why: str = "") -> None:
        """``by`` evicts ``victim``. The call may come before or after the eviction is seen."""
        record = self._by_key.get(victim)
        last = record.evictions[-1] if record is not None and record.evictions else None
        if record is not None and last is not None and last.at >= at and not last.by:
            record.evictions[-1] = PastEviction(last.at, by, reason, why)
        else:
            self._notes[victim] = _Note(by, reason, why)

    def _departure(self, glimpse: Glimpse, now: Millis) -> PastEviction:
        conditions = glimpse.status.conditions
        evicted, preempted = find(conditions, "Evicted"), find(conditions, "Preempted")
        reason = "" if evicted is None else evicted.reason
        at = glimpse.since("Evicted", now)
        if reason != "Preempted":  # an earlier attempt to preempt it may have failed
            return PastEviction(at, "", reason)
        note = self._notes.pop(glimpse.key, None)
        if note is not None:
            return PastEviction(at, note.by, note.reason, note.why)
        return PastEviction(
            at, "", preempted.reason if preempted is not None and preempted.status == "True" else reason
        )

    def _record(self, glimpse: Glimpse, now: Millis) -> _Record:
        key, uid = glimpse.key, glimpse.metadata.uid
        record = self._by_key.get(key)
        if record is None or record.uid != uid:
            if record is not None:
                self._notes.pop(key, None)
            record = _Record(key, uid, moment(glimpse.metadata.creation_timestamp, now))
            self._by_key[key] = record
            self._records.append(record)
        return record
