"""Old and new object -> what happened: the state is brought up to date, and it is noted who is concerned.

This is the only place that moves a workload between waiting and holding because of an object (S-3.7), and the only
one that knows which change of which kind may let somebody in (S-4.6, 4.7). What it notes is worked off by the engine:
queues to be woken, objects to be looked at, queues whose expiry timer has to be set again.

An object that lowering cannot read counts as not there, and is set aside (0081). A Workload with quota is the
exception: what its status says it has is counted, for its pods may well run.

Promises: the state after a change is that of a state loaded from the new objects, but for what a restart may forget
(S-3.11); a change that fails half way has changed nothing; one that no decision depends on costs one comparison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from makeway.api.conditions import is_true
from makeway.api.equality import is_same_spec
from makeway.api.names import DEFAULT_NAMESPACE, NAMESPACE_LABEL
from makeway.api.objects.kubernetes import LimitRange, RuntimeClass
from makeway.api.objects.meta import Condition
from makeway.api.objects.workload import Workload as WireWorkload
from makeway.api.objects.workload import WorkloadStatus
from makeway.controllers.contract import Ref
from makeway.controllers.jobs.kinds.registry import JOB_KINDS
from makeway.core.lowering import (
    LoweringContext,
    cohort_of,
    flavor_of,
    inactive_reasons,
    is_queueable,
    is_worth_a_look,
    queue_of,
    workload_of,
)
from makeway.core.lowering.workloads import is_accounted
from makeway.core.model import FlavorName, LocalName, Millis, QueueName, Workload, WorkloadKey
from makeway.core.queueing import waking
from makeway.core.queueing.pending import may_queue
from makeway.core.state import State
from makeway.runtime.objects import OWNED, ObjectCache
from makeway.runtime.set_aside import Probe, SetAside

NO_STATUS = WorkloadStatus()
ENDS_ROUNDS = frozenset({"ClusterQueueStopped", "LocalQueueStopped", "NodeFailures", "Deactivated"})
CONFIGURING = ("ClusterQueue", "Cohort", "ResourceFlavor", "AdmissionCheck")
LOWERING, STATE, CYCLE = "lowering", "state", "cycle"  # who may give up on an object here

T = TypeVar("T")


class StateUpdater:
    """``probe``: called before an object is lowered, by whoever tests what becomes of it then."""

    def __init__(self, state: State, set_aside: SetAside | None = None, probe: Probe | None = None) -> None:
        self.state = state
        self._set_aside = SetAside(deque()) if set_aside is None else set_aside
        self._probe = probe
        self.unread: dict[Ref, None] = {}  # Workloads that would wait if they could be read, and are to be told
        self._out_of_line: set[Ref] = set()  # Workloads that no cycle could decide about, until they change
        self.objects: ObjectCache  # set by the engine that owns both
        self.now = Millis(0)  # of the step that is running
        self.woken: set[QueueName] = set()
        self.released: set[QueueName] = set()  # woken because somebody left, and for nothing else
        self.figures: dict[Ref, None] = {}  # queues whose figures have changed
        self.reworded: set[QueueName] = set()  # queues in which all that wait may have to be told something else
        self.queued: dict[Ref, None] = {}  # Workloads that joined a queue although they did not change
        self.enqueued: dict[Ref, None] = {}
        self.held: set[QueueName] = set()  # who holds quota here has changed: the expiry timer is to be set again
        self.backoffs: dict[WorkloadKey, Millis | None] = {}  # who backs off, and until when
        self._where: dict[WorkloadKey, QueueName] = {}  # in whose line or among whose holders a workload is
        self._queue_of: dict[tuple[str, str], QueueName] = {}
        self._limit_ranges: dict[str, tuple[LimitRange, ...]] = {}
        self._runtime_classes: dict[str, RuntimeClass] = {}
        self.context = LoweringContext(state.policy, self._queue_of, self._limit_ranges, self._runtime_classes)
        self._refs: dict[tuple[QueueName, LocalName], tuple[Ref, ...]] = {}  # queues whose figures a workload counts in
        self._reconfigure: dict[Ref, None] = {}

    # --- entry ---

    def changed(self, ref: Ref, before: Any, after: Any) -> None:
        """What is expected of an object has changed."""
        if before is after:
            return
        if before is not None and after is not None and before.metadata.uid != after.metadata.uid:
            self.changed(ref, before, None)
            before = None
        if ref.kind == "Workload":
            self._workload(ref, before, after)
        elif ref.kind in CONFIGURING:
            if (
                before is None
                or after is None
                or before.spec != after.spec
                or _is_leaving(before) != _is_leaving(after)
            ) or ref.kind == "AdmissionCheck":
                self._reconfigure[ref] = None
        elif ref.kind == "LocalQueue":
            self._local_queue(ref, after)
        elif ref.kind == "Namespace":
            self._namespace(ref, before, after)
        elif ref.kind == "LimitRange":
            self._limit_range(ref)
        elif ref.kind == "RuntimeClass":
            self._runtime_class(ref, after)

    def stored(self, ref: Ref, before: Any, after: Any) -> None:
        """A newer object is stored: whoever is concerned is looked at."""
        self.enqueued.setdefault(ref)
        for value in (before, after):
            for reference in () if value is None else value.metadata.owner_references:
                owner = Ref(reference.kind, value.metadata.namespace, reference.name)
                self.enqueue(owner)
                if ref.kind == "Pod" and self.objects.get(owner) is None:  # the Workload of that job waits for its pods
                    for each in self.objects.owned(reference.uid):
                        self.enqueue(Ref.of(each))
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            for kind in OWNED:  # what kept it from going may be gone with its owner
                for each in self.objects.owned(before.metadata.uid, kind):
                    self.enqueue(Ref.of(each))

    def enqueue(self, ref: Ref) -> None:
        self.enqueued.setdefault(ref)

    # --- workloads ---

    def model_of(self, key: WorkloadKey) -> Workload | None:
        """A workload as the state has it, waiting or holding."""
        queue = self._where.get(key)
        if queue is None:
            return None
        held = self.state.holders.find(queue, key)
        if held is not None:
            return held
        return self.state.pending.list_of(queue).members.get(key)

    def moved(self, workload: Workload) -> None:
        """The state has put a workload where it belongs by itself: it now waits or holds in its queue."""
        self._where[workload.key] = workload.queue
        self._note_held(workload)

    def _workload(self, ref: Ref, before: WireWorkload | None, after: WireWorkload | None) -> None:
        if before is not None and after is not None and _is_seen_alike(before, after):
            return
        where = self._where.get(ref.key)
        try:
            with self.state.attempt():
                self._move(ref, before, after)
        except Exception as error:  # it counts for what it did before
            self._where.pop(ref.key, None)
            if where is not None:
                self._where[ref.key] = where
            self._set_aside.put(ref, STATE, error, self.now)
        else:
            if self._set_aside:
                self._set_aside.handled(ref, STATE)

    def _move(self, ref: Ref, before: WireWorkload | None, after: WireWorkload | None) -> None:
        key = ref.key
        known = self.model_of(key)
        if ref.namespace not in self.state.namespaces and not self.objects.count("Namespace"):
            self.state.namespaces[ref.namespace] = {NAMESPACE_LABEL: ref.namespace}  # a Store that keeps none
        lowered = None if after is None else self._meant(ref, after)
        if after is not None and lowered is not None and is_accounted(after):
            self._out_of_line.discard(ref)
            self._holds(key, known, lowered)
        elif after is not None and lowered is not None and lowered.queue:
            if self._stays_out(ref, before, after):
                return
            self._waits(key, known, lowered, before, after)
        elif known is not None and not (after is not None and self._keeps_quota(ref, known, after)):
            self._leaves(key, known)
            if known.usage is not None and after is not None and _is_blameless(after):
                self.state.rounds_end_for(known)
        if after is None or _is_finished(after):
            self._ended(ref, known, before, after)
        for each in (before, after):
            if each is not None:
                self.figures[Ref("LocalQueue", ref.namespace, each.spec.queue_name)] = None

    def _ended(self, ref: Ref, known: Workload | None, before: WireWorkload | None, after: WireWorkload | None) -> None:
        self._out_of_line.discard(ref)
        gone = known
        if gone is None and before is not None:
            earlier = before
            gone = self._lowered(ref, lambda: workload_of(earlier, self.context))
        if gone is not None and (after is None or before is None or not _is_finished(before)):
            self.state.rounds_end_after(gone)

    # --- what an object means ---

    def _lowered(self, ref: Ref, lower: Callable[[], T]) -> T | None:
        """What an object comes to; None: it cannot be read, and is set aside."""
        try:
            if self._probe is not None:
                self._probe(LOWERING, ref)
            found = lower()
        except Exception as error:
            self._set_aside.put(ref, LOWERING, error, self.now)
            return None
        if self._set_aside:
            self._set_aside.handled(ref, LOWERING)
        return found

    def _meant(self, ref: Ref, workload: WireWorkload) -> Workload | None:
        """A Workload that has quota, or waits for it; None: it does neither, or cannot be read."""
        holds = is_accounted(workload)
        if not holds and not self._may_wait(workload):
            for part in (LOWERING, CYCLE) if self._set_aside else ():
                self._set_aside.handled(ref, part)  # nobody asks any more
            return None
        lowered = self._lowered(ref, lambda: workload_of(workload, self.context))
        if lowered is None and not holds:
            self.unread[ref] = None
        if lowered is not None or not holds:
            return lowered
        try:
            return workload_of(workload, self.context, asks=False)
        except Exception as error:
            self._set_aside.put(ref, f"{LOWERING}.quota", error, self.now)
            return None

    def _keeps_quota(self, ref: Ref, known: Workload, after: WireWorkload) -> bool:
        """Whether it has quota, though nobody can read any more how much: then it counts for what it did."""
        is_unread = self._set_aside.cause(ref, LOWERING) is not None
        return is_unread and known.usage is not None and is_accounted(after)

    def _stays_out(self, ref: Ref, before: WireWorkload | None, after: WireWorkload) -> bool:
        """Whether no cycle could decide about it, and nothing of it has changed that decisions depend on."""
        if ref not in self._out_of_line:
            return False
        if before is not None and not is_worth_a_look(before, after, self.state.policy):
            return True
        self._out_of_line.discard(ref)
        return False

    def take_out(self, ref: Ref) -> None:
        """No cycle can decide about it: it waits outside of the line until it changes, or is tried again."""
        known = self.model_of(ref.key)
        if known is not None:
            self._leaves(ref.key, known)
        self._out_of_line.add(ref)
        self.unread[ref] = None
        self.enqueue(ref)

    def try_again(self, ref: Ref) -> None:
        """Handle an object anew that was set aside: the state is to hold of it what it says, as if it had just come."""
        self.enqueue(ref)
        if ref.kind in CONFIGURING:
            self._reconfigure[ref] = None
        elif ref.kind == "Workload":
            self._out_of_line.discard(ref)
            self._workload(ref, None, self.objects.expected(ref))
            self.queued[ref] = None  # its status may still say that it was set aside

    def _may_wait(self, workload: WireWorkload) -> bool:
        return is_queueable(workload, heeds_gates=self.state.policy.gates.admission_gated_by)

    def _holds(self, key: WorkloadKey, known: Workload | None, lowered: Workload) -> None:
        state = self.state
        if known is not None and known.usage is not None:
            if known.queue == lowered.queue and known.usage == lowered.usage:
                state.holders.renew(known, lowered)
                state.note_leaving(lowered)
            else:
                state.release(known, self.now)
                state.hold(lowered)
            shrank = known.usage != lowered.usage or known.priority != lowered.priority
            if shrank:
                self._wake(waking.after_shrinking(state, lowered.queue))
                self._wake(waking.after_shrinking(state, known.queue))
                state.rounds_end_for(lowered)
        else:
            if known is not None:
                state.pending.forget(known)
            state.hold(lowered)
        self.moved(lowered)

    def _waits(
        self, key: WorkloadKey, known: Workload | None, lowered: Workload, before: Any, after: WireWorkload
    ) -> None:
        state = self.state
        if known is not None and known.usage is not None:
            self._release(known)
            if _is_blameless(after):
                state.rounds_end_for(lowered)
            state.push(lowered, self.now)
        elif known is None:
            state.push(lowered, self.now)
        elif known.queue != lowered.queue:
            state.forget(known, self.now)
            self._note_held(known)
            state.push(lowered, self.now)
        elif before is None or is_worth_a_look(before, after, state.policy) or known.claim != lowered.claim:
            state.push(lowered, self.now)
            if before is not None and not _is_same_shape(before, after):
                state.rounds_end_for(lowered)
        else:
            state.pending.refresh(lowered)
        self.backoffs[key] = None if may_queue(lowered, self.now) or lowered.backing_off else lowered.requeue_at
        self.moved(lowered)

    def _leaves(self, key: WorkloadKey, known: Workload) -> None:
        if known.usage is not None:
            self._release(known)
        else:
            self.state.forget(known, self.now)
        self._where.pop(key, None)
        self._note_held(known)

    def _release(self, known: Workload) -> None:
        """It holds quota no more; drop and wake are one step (S-3.7)."""
        self.state.release(known, self.now)
        self.released.update(waking.after_release(self.state, known.queue))
        self._note_held(known)

    def _note_held(self, workload: Workload) -> None:
        self.held.add(workload.queue)
        self._note_figures(workload)
        node = self.state.tree.queues.get(workload.queue) if self.state.policy.fair_sharing else None
        for cohort in () if node is None else node.ancestors():  # their shares change with it
            self.figures[Ref("Cohort", "", cohort.name)] = None

    def passed(self, workload: Workload) -> None:
        """It was passed over: how many wait in the line and how many are parked may be told anew."""
        self._note_figures(workload)
        if self.state.pending.list_of(workload.queue).turns:
            self.held.add(workload.queue)  # when it may displace equals is a time to look at it again

    def _note_figures(self, workload: Workload) -> None:
        where = (workload.queue, workload.local)
        refs = self._refs.get(where)
        if refs is None:
            local = (Ref("LocalQueue", *workload.local),) if workload.local_queue else ()
            refs = self._refs[where] = (Ref("ClusterQueue", "", workload.queue), *local)
        for ref in refs:
            self.figures[ref] = None

    def back_off_ended(self, key: WorkloadKey) -> None:
        """Its time has come: just this one returns to the line (S-4.7)."""
        known = self.model_of(key)
        if known is not None and known.usage is None and known.key in self.state.pending.list_of(known.queue).parked:
            self.state.push(known, self.now)

    # --- what workloads depend on ---

    def _local_queue(self, ref: Ref, after: Any) -> None:
        place = (ref.namespace, ref.name)
        stopped = after is None or after.spec.stop_policy != "None"
        queue = None if stopped else QueueName(after.spec.cluster_queue)
        if self._queue_of.get(place) == queue:
            return
        if queue is None:
            self._queue_of.pop(place, None)
        else:
            self._queue_of[place] = queue
        self._lower_again(self.objects.in_local_queue(*place))

    def _limit_range(self, ref: Ref) -> None:
        ranges = tuple(each for each in self.objects.all("LimitRange") if each.metadata.namespace == ref.namespace)
        self._limit_ranges[ref.namespace or DEFAULT_NAMESPACE] = ranges
        self.context.forget_lowered()
        self._lower_again(each for each in self.objects.all("Workload") if each.metadata.namespace == ref.namespace)

    def _runtime_class(self, ref: Ref, after: Any) -> None:
        if after is None:
            self._runtime_classes.pop(ref.name, None)
        else:
            self._runtime_classes[ref.name] = after
        self.context.forget_lowered()
        self._lower_again(self.objects.all("Workload"))

    def _lower_again(self, workloads: Iterable[WireWorkload]) -> None:
        """Workloads whose meaning changed although they did not (S-4.8, 3.9); who holds quota keeps what it has."""
        for stored in workloads:
            ref = Ref.of(stored)
            each = self.objects.expected(ref)
            self.enqueue(ref)
            known = self.model_of(ref.key)
            if each is None or (known is not None and known.usage is not None) or not self._may_wait(each):
                continue
            lowered = self._meant(ref, each)
            if known is not None:
                self.state.forget(known, self.now)
                self._where.pop(ref.key, None)
                self._note_held(known)
            if lowered is not None and lowered.queue and ref not in self._out_of_line:
                self.state.push(lowered, self.now)
                self.moved(lowered)
                self.queued[ref] = None

    def _namespace(self, ref: Ref, before: Any, after: Any) -> None:
        labels = {} if after is None else _labels(after)
        earlier: Mapping[str, str] = self.state.namespaces.get(ref.name, {})
        if after is None:
            self.state.namespaces.pop(ref.name, None)
        else:
            self.state.namespaces[ref.name] = labels
        if earlier != labels:
            self._wake(waking.after_namespace_change(self.state, earlier, labels))
            self.reworded |= waking.after_namespace_change(self.state, earlier, labels)
            self.reworded |= waking.after_namespace_change(self.state, labels, earlier)
            for kind in JOB_KINDS:  # which of them are managed hangs on the labels
                for each in self.objects.in_namespace(kind, ref.name):
                    self.enqueue(Ref.of(each))

    # --- queues, cohorts, flavors, checks ---

    def configure(self) -> None:
        """Take in all changes of the configuration at once."""
        if not self._reconfigure:
            return
        changed, self._reconfigure = self._reconfigure, {}
        self._refs.clear()  # of queues that are gone
        state, objects = self.state, self.objects
        unread = self._set_aside.of(LOWERING)
        flavors = self._all("ResourceFlavor", flavor_of)
        was_active = {name for name in state.queues if state.is_active(name)}
        trees_before = {name: state.tree_of(name) for name in state.queues}
        state.configure(
            self._all("ClusterQueue", lambda each: queue_of(each, inactive_reasons(each, self._find))),
            self._all("Cohort", cohort_of),
            flavors,
        )
        # All were read anew, beside what has changed: one that could not be read before may have come back unasked.
        changed |= dict.fromkeys(sorted(unread ^ self._set_aside.of(LOWERING)))
        for ref in self._one_of_each_tree(changed):
            found = set(self._woken_by(ref, trees_before))
            self._wake(found)
            self.reworded |= found
        for tree in {id(each): each for each in trees_before.values()}.values():
            after = state.tree_of(tree[0]) if tree else []
            if after != tree:
                self.reworded.update(tree, after)
        is_active = {name for name in state.queues if state.is_active(name)}
        self.woken.update(is_active - was_active)
        for name in sorted(state.queues):
            self.held.add(name)
            self.enqueue(Ref("ClusterQueue", "", name))
        for each in objects.all("LocalQueue"):
            self.enqueue(Ref.of(each))
        for kind in ("ResourceFlavor", "AdmissionCheck", "Cohort"):
            for each in objects.all(kind):
                self.enqueue(Ref.of(each))
        self._look_at_stopped(changed, is_active ^ was_active)

    def _all(self, kind: str, lower: Callable[[Any], T]) -> list[T]:
        """All of a kind that can be read."""
        stored = self.objects.all(kind)
        found = (self._lowered(Ref.of(each), lambda each=each: lower(each)) for each in stored)  # type: ignore[misc]
        return [each for each in found if each is not None]

    def _one_of_each_tree(self, changed: Iterable[Ref]) -> list[Ref]:
        """All that changed, but of the Cohorts of a tree only the first: each of them would wake the same queues."""
        found: dict[object, Ref] = {}
        for ref in changed:
            node = self.state.tree.cohorts.get(ref.name) if ref.kind == "Cohort" else None
            found.setdefault(ref if node is None else node.root, ref)
        return list(found.values())

    def _find(self, kind: str, name: str) -> Any | None:
        return self.objects.get(Ref(kind, "", name))

    def _woken_by(self, ref: Ref, trees_before: Mapping[QueueName, list[QueueName]]) -> Iterable[QueueName]:
        state = self.state
        if ref.kind == "ClusterQueue":
            name = QueueName(ref.name)
            found: set[QueueName] = set(waking.after_queue_change(state, name)) | set(trees_before.get(name, ()))
            for each in found:
                state.rounds_end_in(each)
            return found
        if ref.kind == "Cohort":
            found = set(waking.after_cohort_change(state, ref.name))
            for each in found:
                state.rounds_end_in(each)
            return found
        if ref.kind == "ResourceFlavor":
            return waking.after_flavor_change(state, FlavorName(ref.name))
        return [name for name, queue in state.queues.items() if any(check == ref.name for check, _ in queue.checks)]

    def _look_at_stopped(self, changed: Iterable[Ref], switched: Iterable[QueueName]) -> None:
        """Workloads of a queue that changed: it may have been stopped, started, or list other checks.

        ``switched`` have become active or inactive, be it because of a flavor, a check or a cohort.
        """
        queues = {QueueName(ref.name) for ref in changed if ref.kind == "ClusterQueue"}.union(switched)
        for (namespace, name), queue in sorted(self._queue_of.items()):
            if queue in queues:
                for each in self.objects.in_local_queue(namespace, name):
                    self.enqueue(Ref.of(each))
        for queue in sorted(queues):
            for key in sorted(self.state.holders.of_queue.get(queue, ())):
                self.enqueue(Ref("Workload", *_split(key)))

    # --- waking ---

    def _wake(self, queues: Iterable[QueueName]) -> None:
        self.woken.update(queues)


def _split(key: WorkloadKey) -> tuple[str, str]:
    namespace, _, name = key.partition("/")
    return namespace, name


def _is_seen_alike(before: WireWorkload, after: WireWorkload) -> bool:
    """Whether two states of a Workload are the same to all that lowering reads, so to all that decisions depend on."""
    old, new = before.status or NO_STATUS, after.status or NO_STATUS
    if old is new and before.spec is after.spec:
        was, now = before.metadata, after.metadata
        return (
            was.annotations == now.annotations
            and was.owner_references == now.owner_references
            and _is_leaving(before) == _is_leaving(after)
        )
    return (
        len(old.conditions) == len(new.conditions)
        and old.admission == new.admission
        and all(map(_is_condition_seen_alike, old.conditions, new.conditions))
        and _seen(before, old) == _seen(after, new)
    )


def _seen(workload: WireWorkload, status: WorkloadStatus) -> tuple[object, ...]:
    """What else is compared of a Workload."""
    meta, spec = workload.metadata, workload.spec
    return (
        meta.generation, _is_leaving(workload), meta.annotations, meta.owner_references,
        spec.active, spec.priority, spec.queue_name,
        status.requeue_state, status.reclaimable_pods, status.admission_checks, status.preemption_gates,
        status.preemption_claim, status.accumulated_past_execution_time_seconds,
    )  # fmt: skip


def _is_condition_seen_alike(a: Condition, b: Condition) -> bool:
    """Of why there is no quota only OnHold counts; a time counts where something is True since."""
    if a.type != b.type or a.status != b.status:
        return False
    if a.status == "True" and a.last_transition_time != b.last_transition_time:
        return False
    return a.reason == b.reason or (a.type == "QuotaReserved" and "OnHold" not in (a.reason, b.reason))


def _is_same_shape(before: WireWorkload, after: WireWorkload) -> bool:
    old, new = before.status or NO_STATUS, after.status or NO_STATUS
    return old.reclaimable_pods == new.reclaimable_pods and is_same_spec(before.spec, after.spec)


def _is_blameless(workload: WireWorkload) -> bool:
    """Whether a workload that lost its quota did so by no quarrel and no failure of its own (S-19.3.2)."""
    status = workload.status or NO_STATUS
    conditions = {each.type: each for each in status.conditions}
    reserved, evicted = conditions.get("QuotaReserved"), conditions.get("Evicted")
    if evicted is not None and evicted.status == "True":
        return evicted.reason in ENDS_ROUNDS
    is_suspended = reserved is not None and reserved.status == "False" and reserved.reason == "Suspended"
    return is_suspended or not (workload.spec.active or is_true(status.conditions, "DeactivationTarget"))


def _is_finished(workload: WireWorkload) -> bool:
    return workload.status is not None and is_true(workload.status.conditions, "Finished")


def _is_leaving(value: Any) -> bool:
    return value.metadata.deletion_timestamp is not None


def _labels(namespace: Any) -> dict[str, str]:
    return {NAMESPACE_LABEL: namespace.metadata.name, **namespace.metadata.labels}
