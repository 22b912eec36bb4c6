"""The promises that hold in every run, each a plain sentence, checked on the stored objects alone.

A ``Witness`` has a watch of its own without faults. It follows every revision of the objects, so that it also sees a
short violation: an admission without quota, a workload that holds quota twice. ``at_rest`` checks the end of a run:
nothing waits that could be admitted, and nothing is half done.

Not here: whether the engine's own accounting agrees with the objects (``runtime.recount.recount``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from makeway.api.conditions import is_true
from makeway.api.versions import Kind
from makeway.controllers.contract import Ref
from makeway.controllers.jobs.kinds.registry import job_kind_of, read_job
from makeway.controllers.jobs.managed import why_unmanaged
from makeway.core.cycle.cycle import carry_out, decide
from makeway.core.lowering import LoweringContext, cohort_of, inactive_reasons, load_state, queue_of, workload_of
from makeway.core.lowering.workloads import is_accounted
from makeway.core.model import FR, Millis
from makeway.core.policy import Policy
from makeway.core.quota.tree import QuotaTree
from makeway.core.state import State
from makeway.core.undo import UndoLog
from makeway.runtime.informers import ref_of, watched_kinds
from makeway.runtime.ports import Store, WatchEvent

CONFIGURING = ("ClusterQueue", "Cohort", "ResourceFlavor")


class Broken(NamedTuple):
    """A broken promise."""

    promise: str
    subject: str
    at: str  # the revision, or "the end"
    detail: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.subject} at {self.at}: {self.detail}"


class Witness:
    """Follows a Store revision by revision."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self._around = LoweringContext(policy)
        self._kinds = [kind for kind in watched_kinds() if kind.name in (*CONFIGURING, "Workload")]
        self._watches = [(kind, store.watch(kind)) for kind in self._kinds]
        self._objects: dict[str, dict[Ref, Any]] = {kind.name: {} for kind in self._kinds}
        self._tree = QuotaTree(UndoLog())
        self._is_outdated = False  # the tree lacks changes since the last charge or question
        self._held: dict[Ref, tuple[str, dict[FR, int]]] = {}
        self.broken: list[Broken] = []
        self.admissions = 0
        self.evictions: dict[str, int] = {}  # by workload

    def look(self) -> None:
        """Read all revisions since the last call, in order."""
        events: list[tuple[int, Kind, WatchEvent]] = []
        for kind, watch in self._watches:
            while batch := watch.poll():
                events += [(int(event.resource_version), kind, event) for event in batch]
        for revision, kind, event in sorted(events, key=lambda each: each[0]):
            if event.object is not None:
                self._take(revision, kind, event)

    def _take(self, revision: int, kind: Kind, event: WatchEvent) -> None:
        assert event.object is not None
        ref, known = ref_of(event.object), self._objects[kind.name]
        before = known.get(ref)
        after = None if event.type == "DELETED" else event.object.value()
        if after is None:
            known.pop(ref, None)
        else:
            known[ref] = after
        if kind.name != "Workload":
            self._is_outdated = True
            return
        if self._is_outdated:
            self._configure()
        self._workload(revision, ref, before, after)

    def _configure(self) -> None:
        self._is_outdated = False
        queues = [each for _, each in sorted(self._objects["ClusterQueue"].items())]
        lowered = [queue_of(each, inactive_reasons(each, self._find, asks_for_checks=False)) for each in queues]
        self._tree = QuotaTree(UndoLog())
        inactive = frozenset(queue.name for queue, _ in lowered if not queue.active)
        cohorts = [cohort_of(each) for _, each in sorted(self._objects["Cohort"].items())]
        self._tree.configure([spec for _, spec in lowered], cohorts, inactive)
        for queue, usage in self._held.values():
            if queue in self._tree.queues:
                self._tree.charge_all(self._tree.queues[queue], usage)

    def _find(self, kind: str, name: str) -> Any | None:
        return self._objects[kind].get(Ref.named(kind, "", name))

    def _workload(self, revision: int, ref: Ref, before: Any, after: Any) -> None:
        held = self._held.get(ref)
        if after is None or not is_accounted(after):
            if held is not None:
                self._uncharge(ref, held)
            return
        lowered = workload_of(after, self._around)
        usage = dict(lowered.usage or {})
        if held is None:
            self.admissions += 1
            self._check_room(revision, ref, lowered.queue, usage)
        elif before is not None and before.status.admission != after.status.admission:
            self._break("no workload is given quota twice", ref, revision, f"{held} and then {usage}")
        if held is not None:
            self._uncharge(ref, held)
        self._held[ref] = (lowered.queue, usage)
        if lowered.queue in self._tree.queues:
            self._tree.charge_all(self._tree.queues[lowered.queue], usage)
        self._count_eviction(ref, before, after)

    def _uncharge(self, ref: Ref, held: tuple[str, dict[FR, int]]) -> None:
        del self._held[ref]
        if held[0] in self._tree.queues:
            self._tree.release_all(self._tree.queues[held[0]], held[1])

    def _check_room(self, revision: int, ref: Ref, queue: str, usage: dict[FR, int]) -> None:
        node = self._tree.queues.get(queue)
        if node is None:
            self._break("quota is given in queues that exist", ref, revision, queue)
            return
        for fr, amount in usage.items():
            free = max(0, self._tree.available(node, fr))
            if amount > free:
                self._break("no admission exceeds quota", ref, revision, f"{amount} of {fr}, {free} are free")

    def _count_eviction(self, ref: Ref, before: Any, after: Any) -> None:
        was = before is not None and before.status is not None and is_true(before.status.conditions, "Evicted")
        if not was and is_true(after.status.conditions, "Evicted"):
            self.evictions[ref.key] = self.evictions.get(ref.key, 0) + 1

    def _break(self, promise: str, ref: Ref, revision: int, detail: str) -> None:
        self.broken.append(Broken(promise, ref.key, f"revision {revision}", detail))

    # --- the end ---

    def at_rest(self, store: Store, policy: Policy, now: Millis) -> list[Broken]:
        """Return what is wrong with a Store in which nothing will change any more."""
        self.look()
        objects = [each.value() for kind in watched_kinds() for each in store.list(kind).items]
        found = list(self.broken)
        found += _half_done(objects, policy)
        found += _could_go_on(load_state(objects, policy, now).state, now, limit=len(objects) + 10)
        return found


def _could_go_on(state: State, now: Millis, limit: int) -> Iterator[Broken]:
    """Run cycles as a new engine would, until every head was considered; yield a workload that could go on."""
    for _ in range(limit):
        plan = decide(state, now)
        if not plan.verdicts:
            return
        for verdict in plan.verdicts:
            if verdict.status in ("admitted", "preempting", "migrating"):
                detail = f"it would be {verdict.status}"
                yield Broken("nothing waits that could go on", verdict.workload.key, "the end", detail)
                return
        carry_out(state, plan)
    yield Broken("looking at every head comes to an end", "", "the end", f"it did not in {limit} cycles")


def _half_done(objects: list[Any], policy: Policy) -> Iterator[Broken]:
    jobs = [each for each in objects if job_kind_of(each) is not None]
    known = {Ref.of(each): each for each in (*jobs, *(each for each in objects if each.kind == "Namespace"))}
    owners = {owner.uid for each in objects if each.kind == "Workload" for owner in each.metadata.owner_references}
    for job in jobs:
        is_managed = not why_unmanaged(job, policy.jobs, known.get)
        if is_managed and read_job(job).end is None and job.metadata.uid not in owners:
            yield Broken("a managed Job has a Workload", job.metadata.name, "the end", "it has none")
    for each in objects:
        if each.kind != "Workload" or each.status is None:
            continue
        conditions = each.status.conditions
        has_ended = is_true(conditions, "Finished")
        if is_true(conditions, "Admitted") and is_true(conditions, "Evicted") and not has_ended:
            yield Broken("nobody is admitted and evicted at rest", each.metadata.name, "the end", "both are True")
