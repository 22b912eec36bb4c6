"""Jobs are started when their Workload is admitted, and stopped when it has to leave (api 18, S-10.3).

A reconcile always covers a job together with its Workload; notified of a Workload, it is that of its owner. The answer
holds at most one write of each:

- The job runs iff its Workload is Admitted, not Evicted, active, and still says what the job asks for. A start is one
  edit. A stop takes three, since a server allows each only after the one before: suspend, forget the start time,
  restore the templates. A start that meets an unfinished stop finishes it first.
- The Workload gets the job's progress: PodsReady, reclaimable pods, its end, and, once an evicted job has no pods left,
  that its quota is free. All that is due is one edit.
- The Workload follows the job's queue, class and pods where it holds no quota; where it does, it is deleted and made
  again, and the job stops meanwhile (api 18.7).
- A job that is being deleted is not started again. While a foreign finalizer keeps it, it is stopped if its Workload
  has to leave. When nothing of it runs any more its Workload is deleted, so that its quota is not held in vain. A
  job that leaves its dependents behind (Orphan) leaves its Workload too, with what that holds (decision 0082).

Promises: no memory between reconciles; a job that has ended is never written.

Not here: the kinds of jobs (``kinds``), which Workload a job gets (``workloads``), the edits themselves (``edits``),
what happens to pods at a start (``templates``), evicting (``workloads.lifecycle``), the finalizer of a Workload that
goes (the same; ``kinds.registry.lets_go`` says when).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as with_changes
from typing import NamedTuple

import msgspec

from makeway.api.names import (
    ADMISSION_GATED_BY,
    DEFAULT_QUEUE,
    MULTIKUEUE_CONTROLLER,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
)
from makeway.api.objects.meta import FOREGROUND, ORPHAN, Condition, KubernetesObject
from makeway.api.objects.queueing import ResourceFlavor
from makeway.api.objects.workload import PodSet, PodSetAssignment, Workload
from makeway.controllers.contract import (
    ADMISSION_CHECK,
    LOCAL_QUEUE,
    NOTHING,
    RESOURCE_FLAVOR,
    WORKLOAD,
    Action,
    Change,
    Create,
    Delete,
    Edit,
    Note,
    Outcome,
    Ref,
    View,
)
from makeway.controllers.jobs.edits import Adopt, Follow, ForgetStart, Report, Restore, Start, Suspend, gates_of
from makeway.controllers.jobs.gangs import gang_update
from makeway.controllers.jobs.kinds.generic import AskedPods, End, GenericJob, NewPods, pod_priority_class
from makeway.controllers.jobs.kinds.registry import JOB_KINDS, job_kind_of, job_of, read_job
from makeway.controllers.jobs.managed import why_unmanaged
from makeway.controllers.jobs.priority import (
    Revalue,
    classes_of,
    concerned_by_class,
    follows_class,
    is_renamed,
    value_of,
)
from makeway.controllers.jobs.templates import is_same, is_started, started, updates_for
from makeway.controllers.jobs.workloads import asked_by, prebuilt_of, priority_of, workload_for
from makeway.controllers.workloads.eviction import condition, holds_quota, mode_of, says, status_of
from makeway.core.model import Millis

RETRY_MS = 10_000  # for what comes without notification: a prebuilt Workload, a flavor that is back

replace = msgspec.structs.replace


# --- a Job and its Workload -------------------------------------------------------------------------------------------


class _PodsPair(NamedTuple):
    """Pods as a job asks for them, the podSet of its Workload for them, and what that was assigned."""

    asked: AskedPods
    pod_set: PodSet
    assignment: PodSetAssignment | None

    @property
    def admitted_count(self) -> int | None:
        """The number of pods that were admitted, where that is not all of them."""
        return None if self.assignment is None or self.pod_set.min_count is None else self.assignment.count

    @property
    def are_the_same(self) -> bool:
        """Whether the podSet still says what the job asks for. A stop that is under way is no change (api 18.7)."""
        if not is_same(self.asked.template, self.pod_set.template):
            return False
        expected = self.pod_set.count
        if is_started(self.asked.template) and self.pod_set.min_count is not None:
            if self.admitted_count is None:
                return True  # the size of the cut is forgotten; it will be restored
            expected = self.admitted_count
        return self.asked.count == expected

    @property
    def original(self) -> NewPods:
        """The pods as before the start; their count is put back where the start had cut it."""
        is_cut = self.pod_set.min_count is not None and self.admitted_count in (None, self.asked.parallelism)
        return NewPods(self.asked.name, self.pod_set.template, self.pod_set.count if is_cut else None)


def _paired(asked: tuple[AskedPods, ...], workload: Workload) -> Iterator[_PodsPair]:
    """The pods of both, in the job's order; those that only one of them has are left out."""
    admission, pod_sets = status_of(workload).admission, workload.spec.pod_sets
    assigned = {} if admission is None else {each.name: each for each in admission.pod_set_assignments}
    is_single = len(asked) == len(pod_sets) == 1  # a Workload that came first may use any name
    for pods in asked:
        for pod_set in pod_sets:
            if is_single or pods.name == pod_set.name:
                yield _PodsPair(pods, pod_set, assigned.get(pod_set.name))


@dataclass(frozen=True, slots=True)
class _Pair:
    """A job as stored, what it says, and its Workload; how they agree."""

    value: KubernetesObject  # the job as it is stored
    job: GenericJob
    workload: Workload
    pods: tuple[_PodsPair, ...]
    asks_for_the_same: bool
    is_prebuilt: bool
    has_started_templates: bool

    @classmethod
    def of(cls, value: KubernetesObject, job: GenericJob, workload: Workload) -> _Pair:
        asked = job.pod_sets
        pods = tuple(_paired(asked, workload))
        is_same = len(pods) == len(asked) == len(workload.spec.pod_sets) and all(each.are_the_same for each in pods)
        has_started = any(is_started(each.template) for each in asked)
        return cls(value, job, workload, pods, is_same, bool(prebuilt_of(value.metadata)), has_started)

    @property
    def ref(self) -> Ref[Workload]:
        return Ref.of(self.workload)

    @property
    def queue(self) -> str:
        """The queue that the job asks for by name; "": that of its Workload will do."""
        return "" if self.is_prebuilt else self.value.metadata.labels.get(QUEUE_LABEL, "")

    @property
    def is_leaving(self) -> bool:
        return says(self.workload, "Evicted") or self.workload.metadata.deletion_timestamp is not None

    @property
    def must_be_remade(self) -> bool:
        """Whether it holds quota for something that the job no longer asks for."""
        if self.is_prebuilt or self.is_leaving or says(self.workload, "Finished") or not holds_quota(self.workload):
            return False
        return not self.asks_for_the_same or self.queue not in ("", self.workload.spec.queue_name)

    @property
    def is_out_of_sync(self) -> bool:
        return self.is_prebuilt and not self.asks_for_the_same

    @property
    def may_run(self) -> bool:
        workload = self.workload
        return (
            workload.spec.active
            and holds_quota(workload)
            and says(workload, "Admitted")
            and not says(workload, "Finished")
            and not self.is_leaving
            and not self.must_be_remade
            and not self.is_out_of_sync
        )


# --- the controller ---------------------------------------------------------------------------------------------------


class JobRunning:
    """Starts and stops jobs of all kinds, and keeps their Workloads up to date."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({*JOB_KINDS, "Workload", "WorkloadPriorityClass", "PriorityClass"})

    def react(self, ref: Ref, view: View, now: Millis) -> Outcome:
        if ref.kind in ("WorkloadPriorityClass", "PriorityClass"):
            return Outcome(enqueue=tuple(concerned_by_class(ref, view)))
        found = view.get(ref)
        if found is None:
            return NOTHING
        if job_kind_of(found) is not None:
            outcome = _outcome_for_job(found, view, now)
            workload = _workload_of(found, view)
            if workload is not None and workload.metadata.deletion_timestamp is not None:
                # Whether it may go depends on its job, and its controller gets no other notification of that.
                return with_changes(outcome, enqueue=(Ref.of(workload),))
            return outcome
        return _outcome_for_workload(found, view, now) if isinstance(found, Workload) else NOTHING


def _outcome_for_workload(workload: Workload, view: View, now: Millis) -> Outcome:
    meta = workload.metadata
    owner = meta.controller
    if owner is not None and owner.kind == "Workload":
        parent = view.get(Ref(WORKLOAD, meta.namespace, owner.name))
        if parent is None or not says(parent, "Evicted") or not holds_quota(parent):
            return NOTHING
        return Outcome(enqueue=(Ref.of(parent),))
    job = job_of(workload, view)
    if job is not None:
        outcome = _outcome_for_job(job, view, now)
        return Outcome(outcome.actions, outcome.again_at)  # notes about the job are made when the job is reconciled
    return _revalued(workload, view)


def _revalued(workload: Workload, view: View) -> Outcome:
    """Set the number of its class, for a Workload that no job of ours keeps in step."""
    revalue = _revalue(workload, view)
    if revalue is None or workload.spec.priority == revalue.value:
        return NOTHING
    return Outcome((Action(Change(Ref.of(workload), revalue, status=False, uid=workload.metadata.uid)),))


def _revalue(workload: Workload, view: View) -> Revalue | None:
    ref = workload.spec.priority_class_ref
    if ref is None or not follows_class(workload):
        return None
    value = value_of(ref, classes_of(view))
    return None if value is None else Revalue(ref, value)


def _workload_of(job: KubernetesObject, view: View) -> Workload | None:
    """The Workload of a job: the one it names, else the one it owns."""
    meta = job.metadata
    prebuilt = prebuilt_of(meta)
    if prebuilt:
        found = view.get(Ref(WORKLOAD, meta.namespace, prebuilt))
        is_free = found is not None and all(
            each.uid == meta.uid for each in found.metadata.owner_references if each.controller
        )
        return found if is_free else None
    name = JOB_KINDS[job.kind].workload_name(meta.name, meta.uid)
    owned = sorted(view.owned(meta.uid, WORKLOAD), key=lambda each: (each.metadata.name != name, each.metadata.name))
    return owned[0] if owned else None


def _is_owned_by(workload: Workload, uid: str) -> bool:
    return any(each.controller and each.uid == uid for each in workload.metadata.owner_references)


def _outcome_for_job(value: KubernetesObject, view: View, now: Millis) -> Outcome:
    meta, workload = value.metadata, _workload_of(value, view)
    if JOB_KINDS[value.kind].framework not in view.policy.jobs.frameworks:
        return NOTHING
    is_ours = workload is not None and _is_owned_by(workload, meta.uid)  # and stays so: its quota must come back
    is_going = meta.deletion_timestamp is not None
    if not is_ours and (is_going or why_unmanaged(value, view.policy.jobs, view.get)):
        return NOTHING
    job = read_job(value)
    end = job.end
    if workload is None:
        return NOTHING if end is not None else _begin(value, job, view, now)
    if end is not None:
        return _finish(value, workload, end, now)
    pair = _Pair.of(value, job, workload)
    return _going(pair) if is_going else _Reconciling(pair, view, now).outcome()


def _going(pair: _Pair) -> Outcome:
    """A job that is being deleted and still exists: something of it runs, or a foreign finalizer keeps it."""
    about, finalizers = Ref.of(pair.value), pair.value.metadata.finalizers
    if ORPHAN in finalizers:
        return NOTHING
    if not pair.job.has_pods:
        is_deleted = pair.workload.metadata.deletion_timestamp is not None
        words = f"Deleted Workload {pair.ref.key}: the job is being deleted, and nothing of it runs"
        note = Note(about, "Normal", "DeletedWorkload", words)
        uid = pair.workload.metadata.uid
        return NOTHING if is_deleted else Outcome((Action(Delete(pair.ref, uid), notes=(note,)),))
    if pair.is_leaving and not pair.job.is_suspended and FOREGROUND not in finalizers:  # Foreground deletes pods
        words_of_stop = _words_of_stop(condition(pair.workload, "Evicted"), pair.has_started_templates)
        return Outcome((_change(pair.value, Suspend(), Note(about, "Normal", *words_of_stop)),))
    return NOTHING


def _begin(value: KubernetesObject, job: GenericJob, view: View, now: Millis) -> Outcome:
    """A job without a Workload does not run, and gets one."""
    about, meta = Ref.of(value), value.metadata
    if not job.is_suspended:
        note = Note(about, "Normal", "Suspended", "Suspended until it is admitted")
        return Outcome((_change(value, Suspend(), note),))
    if prebuilt_of(meta):
        return Outcome(again_at=Millis(now + RETRY_MS))
    has_default = view.get(Ref(LOCAL_QUEUE, meta.namespace, DEFAULT_QUEUE)) is not None
    made = workload_for(
        value,
        classes=classes_of(view),
        queues={(meta.namespace, DEFAULT_QUEUE)} if has_default else (),
        copied_labels=view.policy.jobs.copied_labels,
    )
    if made.workload is None:
        return Outcome(notes=(_problem(value, view, made.problem),))
    body = replace(
        made.workload,
        metadata=replace(made.workload.metadata, uid="", creation_timestamp=None),  # a server gives it its own
        spec=replace(made.workload.spec, pod_sets=_wanted(made.workload.spec.pod_sets, view)),
    )
    note = Note(about, "Normal", "CreatedWorkload", f"Created Workload {body.metadata.namespace}/{body.metadata.name}")
    return Outcome((Action(Create(body), notes=(note,)),))


def _problem(job: KubernetesObject, view: View, problem: str) -> Note:
    label = job.metadata.labels.get(PRIORITY_CLASS_LABEL, "")
    missing = bool(label) and label not in classes_of(view).ours
    return Note(Ref.of(job), "Warning", "WorkloadPriorityClassNotFound" if missing else "ErrWorkloadCompose", problem)


def _wanted(sets: tuple[PodSet, ...], view: View) -> tuple[PodSet, ...]:
    """The podSets as a server would store them: without partial admission there is no min count."""
    return sets if view.policy.gates.partial_admission else tuple(replace(each, min_count=None) for each in sets)


def _finish(value: KubernetesObject, workload: Workload, end: End, now: Millis) -> Outcome:
    if says(workload, "Finished"):
        return NOTHING
    ref, type = Ref.of(workload), "Normal" if end.reason in ("Succeeded", "Failed") else "Warning"
    note = Note(Ref.of(value), type, "FinishedWorkload", f"Workload {ref.key} is finished: {end.message}")
    change = Change(ref, Report(now, end=end), uid=workload.metadata.uid)
    return Outcome((Action(change, notes=(note,)),))


def _change(
    job: KubernetesObject, edit: Edit[KubernetesObject], *notes: Note, status: bool = False, strict: bool = False
) -> Action:
    return Action(Change(Ref.of(job), edit, status=status, uid=job.metadata.uid, strict=strict), notes=notes)


@dataclass(frozen=True, slots=True)
class _Reconciling:
    """A job that has a Workload and has not ended, and what is due for both."""

    pair: _Pair
    view: View
    now: Millis

    def outcome(self) -> Outcome:
        pair = self.pair
        if not pair.may_run:
            return Outcome(tuple(self._stop()) + tuple(self._tell()), notes=tuple(self._notes()))
        unfinished = tuple(self._unfinished_stop())
        if not pair.job.is_suspended or unfinished:
            return Outcome(unfinished + tuple(self._tell()), notes=tuple(self._notes()))
        return self._start()

    # --- the job ---

    def _stop(self) -> Iterator[Action]:
        pair = self.pair
        if pair.job.is_suspended:
            yield from self._unfinished_stop()
            return
        words = _words_of_stop(condition(pair.workload, "Evicted"), pair.has_started_templates)
        yield _change(pair.value, Suspend(), Note(Ref.of(pair.value), "Normal", *words))

    def _unfinished_stop(self) -> Iterator[Action]:
        pair = self.pair
        if not pair.job.is_suspended:
            return
        if pair.job.remembers_start:
            yield _change(pair.value, ForgetStart(), status=True)
        elif pair.has_started_templates:
            yield _change(pair.value, Restore(tuple(pods.original for pods in pair.pods)))

    def _start(self) -> Outcome:
        pair, started_pods, conflict = self.pair, [], ""
        for pods in pair.pods:
            flavors = self._flavors(pods.assignment)
            if flavors is None:  # in use, so it will be back: pods must not run elsewhere
                return Outcome(again_at=Millis(self.now + RETRY_MS))
            name = pods.pod_set.name
            updates = (
                *updates_for(pair.workload, name, flavors),
                *gang_update(pair.value, pair.workload, name, self.view.policy),
            )
            template, problem = started(pods.asked.template, updates)
            conflict = conflict or problem
            started_pods.append(NewPods(pods.asked.name, template, pods.admitted_count))
        if conflict:
            return self._finish(End("FailedToStart", f"The job cannot start: {conflict}"))
        admission = status_of(pair.workload).admission
        words = f"Admitted by ClusterQueue {admission.cluster_queue if admission is not None else ''}"
        note = Note(Ref.of(pair.value), "Normal", "Started", words)
        start = _change(pair.value, Start(tuple(started_pods)), note, strict=True)
        return Outcome((start, *self._tell()), notes=tuple(self._notes()))

    def _flavors(self, assignment: PodSetAssignment | None) -> list[ResourceFlavor] | None:
        """The flavors that pods were assigned, by name; None: one of them does not exist."""
        names = sorted(set(assignment.flavors.values())) if assignment is not None else []
        flavors = [self.view.get(Ref(RESOURCE_FLAVOR, "", name)) for name in names]
        present = [each for each in flavors if each is not None]
        return present if len(present) == len(flavors) else None

    # --- the Workload ---

    def _tell(self) -> Iterator[Action]:
        """At most one write: the first that is due."""
        pair, uid = self.pair, self.pair.workload.metadata.uid
        if pair.must_be_remade:
            words = f"Deleted Workload {pair.ref.key}: the job asks for something else by now"
            note = Note(Ref.of(pair.value), "Normal", "DeletedWorkload", words)
            yield Action(Delete(pair.ref, uid), notes=(note,))
            return
        if pair.is_out_of_sync:
            end = End("OutOfSync", "The job asks for something else than its Workload")
            yield from self._finish(end).actions
            return
        report = self._report()
        reported = report(pair.workload)
        if reported is not None and reported.status != pair.workload.status:
            yield Action(Change(pair.ref, report, uid=uid))
            return
        meta = pair.value.metadata
        follow: Edit[Workload] = (
            Adopt(JOB_KINDS[pair.value.kind].owner(meta.name, meta.uid)) if pair.is_prebuilt else self._follow()
        )
        after = follow(pair.workload)
        if after is not None and after != pair.workload and pair.workload.metadata.deletion_timestamp is None:
            words = f"Updated Workload {pair.ref.key}"
            note = Note(Ref.of(pair.value), "Normal", "UpdatedWorkload", words)
            yield Action(Change(pair.ref, follow, status=False, uid=uid), notes=(note,))

    def _finish(self, end: End) -> Outcome:
        return _finish(self.pair.value, self.pair.workload, end, self.now)

    def _report(self) -> Report:
        pair = self.pair
        counts = None
        if self.view.policy.gates.reclaimable_pods:
            counts = tuple(
                pair.job.reclaimable({each.name: each.count for each in pair.workload.spec.pod_sets}).items()
            )
        return Report(
            at=self.now,
            ready=pair.job.is_ready,
            reclaimable=counts,
            is_gone=pair.job.is_suspended and not pair.job.has_pods and self._is_ours_to_release(),
        )

    def _is_ours_to_release(self) -> bool:
        """Whether no pods run elsewhere: none in another cluster (S-10.3), and no Option still admitted."""
        workload = self.pair.workload
        if mode_of(workload) == "Parent":
            options = self.view.owned(workload.metadata.uid, WORKLOAD)
            if any(says(each, "Admitted") and not says(each, "Evicted") for each in options):
                return False
        if self.pair.job.managed_by != MULTIKUEUE_CONTROLLER:
            return True
        names = [each.name for each in status_of(workload).admission_checks]
        checks = [self.view.get(Ref(ADMISSION_CHECK, "", name)) for name in names]
        return not any(each is not None and each.spec.controller_name == MULTIKUEUE_CONTROLLER for each in checks)

    def _follow(self) -> Follow:
        pair, meta = self.pair, self.pair.value.metadata
        asked = asked_by(meta, pair.job, classes_of(self.view))
        pod_sets = None
        if not asked.problem and not pair.has_started_templates:
            wanted, before = _wanted(asked.pod_sets, self.view), pair.workload.spec.pod_sets
            if not pair.asks_for_the_same or [each.min_count for each in wanted] != [each.min_count for each in before]:
                pod_sets = wanted
        queue: str | None = pair.queue or None
        has_default = self.view.get(Ref(LOCAL_QUEUE, meta.namespace, DEFAULT_QUEUE)) is not None
        if queue is None and not pair.workload.spec.queue_name and has_default:
            queue = DEFAULT_QUEUE
        is_other = is_renamed(pair.workload, meta) and not asked.priority.problem
        return Follow(
            pod_sets=pod_sets,
            queue=queue,
            seconds=None if pair.has_started_templates else asked.seconds,
            priority=asked.priority if is_other else None,
            revalue=_revalue(pair.workload, self.view),
            gates=frozenset(gates_of(meta.annotations.get(ADMISSION_GATED_BY, ""))),
        )

    def _notes(self) -> Iterator[Note]:
        """A note about a class that the job names now, and that does not exist."""
        pair, meta = self.pair, self.pair.value.metadata
        if says(pair.workload, "Finished") or not is_renamed(pair.workload, meta):
            return
        wanted = priority_of(meta, pod_priority_class(pair.job), classes_of(self.view))
        if wanted.problem:
            yield _problem(pair.value, self.view, f"{wanted.problem}: its priority stays as it is")


def _words_of_stop(evicted: Condition | None, ran: bool) -> tuple[str, str]:
    if not ran:
        return "Suspended", "Suspended until it is admitted"
    if evicted is not None and evicted.status == "True":
        return "Stopped", evicted.message or f"Evicted: {evicted.reason}"
    return "Stopped", "Its Workload is no longer admitted"
