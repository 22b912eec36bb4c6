"""batch/v1 Jobs are started when their Workload is admitted, and stopped when it has to leave (api 18, S-10.3).

What is looked at is always a Job together with its Workload; told a Workload, it is that of its owner. The answer
holds at most one write of each:

- The Job runs iff its Workload is Admitted, not Evicted, active, and still says what the Job asks for. A start is one
  edit. A stop takes three, since a server allows each only after the one before: suspend, forget the start time,
  restore the template. A start that meets an unfinished stop finishes it first.
- The Workload is told how the Job fares: PodsReady, reclaimable pods, its end, and, once an evicted Job has no pods
  left, that its quota is free. All that is due is one edit.
- The Workload follows the Job's queue, class and pods where it holds no quota; where it does, it is deleted and made
  again, and the Job stops meanwhile (api 18.7).
- A Job that is being deleted is not started again. While somebody's finalizer keeps it, it is stopped if its Workload
  has to leave; and when nothing of it runs any more its Workload goes, so that nobody waits for a quota that nobody
  uses. One that leaves its dependents behind (Orphan) leaves its Workload too, with what that holds (decision 0082).

Promises: nothing is remembered between two looks; a Job that has ended is never written.

Not here: which Workload a Job gets (``workloads``), the edits themselves (``edits``), what happens to pods at a start
(``templates``), evicting (``workloads.lifecycle``), the finalizer of a Workload that goes (the same;
``edits.lets_go`` says when).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as with_changes

import msgspec

from makeway.api.names import (
    ADMISSION_GATED_BY,
    DEFAULT_QUEUE,
    MULTIKUEUE_CONTROLLER,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    workload_name,
)
from makeway.api.objects.kubernetes import Job, JobSpec, JobStatus
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.meta import FOREGROUND, ORPHAN, Condition
from makeway.api.objects.pods import PodTemplate
from makeway.api.objects.workload import PodSet, PodSetAssignment, Workload
from makeway.controllers.contract import NOTHING, Action, Change, Create, Delete, Edit, Note, Outcome, Ref, View
from makeway.controllers.jobs.edits import (
    Adopt,
    End,
    Follow,
    ForgetStart,
    Report,
    Restore,
    Start,
    Suspend,
    gates_of,
    has_pods,
    is_ready,
    reclaimable,
)
from makeway.controllers.jobs.gangs import gang_update
from makeway.controllers.jobs.managed import FRAMEWORK, why_unmanaged
from makeway.controllers.jobs.priority import Revalue, classes_of, follows_class, is_renamed, value_of, who_names
from makeway.controllers.jobs.templates import is_same, is_started, started, updates_for
from makeway.controllers.jobs.workloads import (
    count_of,
    end_of,
    owner_of,
    prebuilt_of,
    priority_of,
    status_of_job,
    workload_for,
)
from makeway.controllers.workloads.eviction import condition, holds_quota, mode_of, says, status_of
from makeway.core.model import Millis

LOOK_AGAIN_MS = 10_000  # for what nobody tells us of: a prebuilt Workload that comes, a flavor that is back

replace = msgspec.structs.replace


# --- a Job and its Workload -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pair:
    """A Job, what it says, and its Workload; how they agree."""

    job: Job
    spec: JobSpec
    status: JobStatus
    workload: Workload

    @property
    def ref(self) -> Ref:
        return Ref.of(self.workload)

    @property
    def pod_set(self) -> PodSet:
        return self.workload.spec.pod_sets[0]

    @property
    def assignment(self) -> PodSetAssignment | None:
        admission = status_of(self.workload).admission
        assignments = () if admission is None else admission.pod_set_assignments
        return next((each for each in assignments if each.name == self.pod_set.name), None)

    @property
    def admitted_count(self) -> int | None:
        """The pods that were admitted, where that is not simply all of them."""
        return None if self.assignment is None or self.pod_set.min_count is None else self.assignment.count

    @property
    def is_prebuilt(self) -> bool:
        return bool(prebuilt_of(self.job.metadata))

    @property
    def asks_for_the_same(self) -> bool:
        """Whether the podSet still says what the Job asks for. A stop that is under way is no change (api 18.7)."""
        if len(self.workload.spec.pod_sets) != 1 or not is_same(self.spec.template, self.pod_set.template):
            return False
        expected = self.pod_set.count
        if is_started(self.spec.template) and self.pod_set.min_count is not None:
            if self.admitted_count is None:
                return True  # by how much it was cut is forgotten; it will be restored
            expected = self.admitted_count
        return count_of(self.spec) == expected

    @property
    def queue(self) -> str:
        """The queue that the Job asks for by name; "": that of its Workload will do."""
        return "" if self.is_prebuilt else self.job.metadata.labels.get(QUEUE_LABEL, "")

    @property
    def is_leaving(self) -> bool:
        return says(self.workload, "Evicted") or self.workload.metadata.deletion_timestamp is not None

    @property
    def must_be_remade(self) -> bool:
        """It holds quota for something that the Job no longer asks for."""
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
    """Starts and stops Jobs, and keeps their Workloads informed."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"Job", "Workload", "WorkloadPriorityClass", "PriorityClass"})

    def react(self, whom: Ref, view: View, now: Millis) -> Outcome:
        if whom.kind in ("WorkloadPriorityClass", "PriorityClass"):
            return Outcome(enqueue=tuple(who_names(whom, view)))
        found = view.get(whom)
        if found is None:
            return NOTHING
        if isinstance(found, Job):
            outcome = _look_at(found, view, now)
            workload = _workload_of(found, view)
            if workload is not None and workload.metadata.deletion_timestamp is not None:
                # Whether it may go hangs on its Job, and nobody else tells its controller of that.
                return with_changes(outcome, enqueue=(Ref.of(workload),))
            return outcome
        return _told_of_workload(found, view, now)


def _told_of_workload(workload: Workload, view: View, now: Millis) -> Outcome:
    meta = workload.metadata
    owner = next((each for each in meta.owner_references if each.controller), None)
    if owner is not None and owner.kind == "Workload":
        parent = view.get(Ref("Workload", meta.namespace, owner.name))
        waits = parent is not None and says(parent, "Evicted") and holds_quota(parent)
        return Outcome(enqueue=(Ref.of(parent),)) if waits else NOTHING
    if owner is not None and owner.kind == "Job" and owner.api_version.startswith("batch/"):
        job = view.get(Ref("Job", meta.namespace, owner.name))
        if isinstance(job, Job) and job.metadata.uid == owner.uid:
            outcome = _look_at(job, view, now)
            return Outcome(outcome.actions, outcome.again_at)  # what is told of the Job is told when we look at it
    return _revalued(workload, view)


def _revalued(workload: Workload, view: View) -> Outcome:
    """The number of its class, for a Workload that no Job of ours keeps in step."""
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


def _workload_of(job: Job, view: View) -> Workload | None:
    """The Workload of a Job: the one it names, else the one that it owns."""
    meta = job.metadata
    prebuilt = prebuilt_of(meta)
    if prebuilt:
        found = view.get(Ref("Workload", meta.namespace, prebuilt))
        is_free = found is not None and all(
            each.uid == meta.uid for each in found.metadata.owner_references if each.controller
        )
        return found if is_free else None
    name = workload_name("Job", "batch", meta.name, meta.uid)
    owned = sorted(view.owned(meta.uid), key=lambda each: (each.metadata.name != name, each.metadata.name))
    return owned[0] if owned else None


def _is_owned_by(workload: Workload, uid: str) -> bool:
    return any(each.controller and each.uid == uid for each in workload.metadata.owner_references)


def _look_at(job: Job, view: View, now: Millis) -> Outcome:
    meta, workload = job.metadata, _workload_of(job, view)
    if FRAMEWORK not in view.policy.jobs.frameworks:
        return NOTHING
    is_ours = workload is not None and _is_owned_by(workload, meta.uid)  # and stays so: its quota must come back
    is_going = meta.deletion_timestamp is not None
    if not is_ours and (is_going or why_unmanaged(meta, view.policy.jobs, view.get)):
        return NOTHING
    spec, status = read(job.spec, JobSpec), status_of_job(job)
    if workload is None:
        return NOTHING if end_of(job) is not None else _begin(job, spec, view, now)
    pair = _Pair(job, spec, status, workload)
    end = end_of(job)
    if end is not None:
        words = end.message or f"The job has {'succeeded' if end.type == 'Complete' else 'failed'}"
        return _finish(pair, End("Succeeded" if end.type == "Complete" else "Failed", words), now)
    return _going(pair) if is_going else _Looking(pair, view, now).outcome()


def _going(pair: _Pair) -> Outcome:
    """A Job that is being deleted and is still there: something of it runs, or somebody's finalizer keeps it."""
    job, finalizers = pair.job, pair.job.metadata.finalizers
    if ORPHAN in finalizers:
        return NOTHING
    if not has_pods(pair.status):
        is_told = pair.workload.metadata.deletion_timestamp is not None
        words = f"Deleted Workload {pair.ref.key}: the job is being deleted, and nothing of it runs"
        note = Note(Ref.of(job), "Normal", "DeletedWorkload", words)
        uid = pair.workload.metadata.uid
        return NOTHING if is_told else Outcome((Action(Delete(pair.ref, uid), notes=(note,)),))
    if pair.is_leaving and not pair.spec.suspend and FOREGROUND not in finalizers:  # there its pods are going already
        words_of_stop = _words_of_stop(condition(pair.workload, "Evicted"), is_started(pair.spec.template))
        return Outcome((_change(job, Suspend(), Note(Ref.of(job), "Normal", *words_of_stop)),))
    return NOTHING


def _begin(job: Job, spec: JobSpec, view: View, now: Millis) -> Outcome:
    """A Job without a Workload: it does not run, and gets one."""
    about = Ref.of(job)
    if not spec.suspend:
        return Outcome((_change(job, Suspend(), Note(about, "Normal", "Suspended", "Suspended until it is admitted")),))
    if prebuilt_of(job.metadata):
        return Outcome(again_at=Millis(now + LOOK_AGAIN_MS))
    has_default = view.get(Ref("LocalQueue", job.metadata.namespace, DEFAULT_QUEUE)) is not None
    made = workload_for(
        job,
        classes=classes_of(view),
        queues={(job.metadata.namespace, DEFAULT_QUEUE)} if has_default else (),
        copied_labels=view.policy.jobs.copied_labels,
    )
    if made.workload is None:
        return Outcome(notes=(_problem(job, view, made.problem),))
    body = replace(
        made.workload,
        metadata=replace(made.workload.metadata, uid="", creation_timestamp=None),  # a server gives it its own
        spec=replace(made.workload.spec, pod_sets=_wanted(made.workload, view)),
    )
    note = Note(about, "Normal", "CreatedWorkload", f"Created Workload {body.metadata.namespace}/{body.metadata.name}")
    return Outcome((Action(Create(body), notes=(note,)),))


def _problem(job: Job, view: View, problem: str) -> Note:
    label = job.metadata.labels.get(PRIORITY_CLASS_LABEL, "")
    missing = bool(label) and label not in classes_of(view).ours
    return Note(Ref.of(job), "Warning", "WorkloadPriorityClassNotFound" if missing else "ErrWorkloadCompose", problem)


def _wanted(workload: Workload, view: View) -> tuple[PodSet, ...]:
    """The podSets as a server would store them: without partial admission there is no least count."""
    sets = workload.spec.pod_sets
    return sets if view.policy.gates.partial_admission else tuple(replace(each, min_count=None) for each in sets)


def _finish(pair: _Pair, end: End, now: Millis) -> Outcome:
    if says(pair.workload, "Finished"):
        return NOTHING
    type = "Normal" if end.reason in ("Succeeded", "Failed") else "Warning"
    note = Note(Ref.of(pair.job), type, "FinishedWorkload", f"Workload {pair.ref.key} is finished: {end.message}")
    change = Change(pair.ref, Report(now, end=end), uid=pair.workload.metadata.uid)
    return Outcome((Action(change, notes=(note,)),))


def _change(job: Job, edit: Edit, *notes: Note, status: bool = False, strict: bool = False) -> Action:
    return Action(Change(Ref.of(job), edit, status=status, uid=job.metadata.uid, strict=strict), notes=notes)


@dataclass(frozen=True, slots=True)
class _Looking:
    """One look at a Job that has a Workload and has not ended."""

    pair: _Pair
    view: View
    now: Millis

    def outcome(self) -> Outcome:
        pair = self.pair
        if not pair.may_run:
            return Outcome(tuple(self._stop()) + tuple(self._tell()), notes=tuple(self._notes()))
        unfinished = tuple(self._unfinished_stop())
        if not pair.spec.suspend or unfinished:
            return Outcome(unfinished + tuple(self._tell()), notes=tuple(self._notes()))
        return self._start()

    # --- the Job ---

    def _stop(self) -> Iterator[Action]:
        if self.pair.spec.suspend:
            yield from self._unfinished_stop()
            return
        evicted, about = condition(self.pair.workload, "Evicted"), Ref.of(self.pair.job)
        ran = is_started(self.pair.spec.template)
        yield _change(self.pair.job, Suspend(), Note(about, "Normal", *_words_of_stop(evicted, ran)))

    def _unfinished_stop(self) -> Iterator[Action]:
        pair = self.pair
        if not pair.spec.suspend:
            return
        if pair.status.start_time is not None:
            yield _change(pair.job, ForgetStart(), status=True)
        elif is_started(pair.spec.template):
            cut = pair.pod_set.min_count is not None and pair.admitted_count in (None, pair.spec.parallelism)
            yield _change(pair.job, Restore(pair.pod_set.template, pair.pod_set.count if cut else None))

    def _start(self) -> Outcome:
        pair, assignment = self.pair, self.pair.assignment
        names = sorted(set(assignment.flavors.values())) if assignment is not None else []
        flavors = [self.view.get(Ref("ResourceFlavor", "", name)) for name in names]
        present = [each for each in flavors if each is not None]
        if len(present) < len(flavors):  # in use, so it cannot have gone for good: pods must not run elsewhere
            return Outcome(again_at=Millis(self.now + LOOK_AGAIN_MS))
        name = pair.pod_set.name
        updates = (
            *updates_for(pair.workload, name, present),
            *gang_update(pair.job, pair.workload, name, self.view.policy),
        )
        template, conflict = started(pair.spec.template, updates)
        if conflict:
            return _finish(pair, End("FailedToStart", f"The job cannot start: {conflict}"), self.now)
        admission = status_of(pair.workload).admission
        words = f"Admitted by ClusterQueue {admission.cluster_queue if admission is not None else ''}"
        note = Note(Ref.of(pair.job), "Normal", "Started", words)
        start = _change(pair.job, Start(template, pair.admitted_count), note, strict=True)
        return Outcome((start, *self._tell()), notes=tuple(self._notes()))

    # --- the Workload ---

    def _tell(self) -> Iterator[Action]:
        """At most one write: what is due first."""
        pair, uid = self.pair, self.pair.workload.metadata.uid
        if pair.must_be_remade:
            words = f"Deleted Workload {pair.ref.key}: the job asks for something else by now"
            note = Note(Ref.of(pair.job), "Normal", "DeletedWorkload", words)
            yield Action(Delete(pair.ref, uid), notes=(note,))
            return
        if pair.is_out_of_sync:
            yield from _finish(
                pair, End("OutOfSync", "The job asks for something else than its Workload"), self.now
            ).actions
            return
        report = self._report()
        told = report(pair.workload)
        if told is not None and told.status != pair.workload.status:
            yield Action(Change(pair.ref, report, uid=uid))
            return
        follow: Edit = (
            Adopt(owner_of(pair.job.metadata.name, pair.job.metadata.uid)) if pair.is_prebuilt else self._follow()
        )
        after = follow(pair.workload)
        if after is not None and after != pair.workload and pair.workload.metadata.deletion_timestamp is None:
            words = f"Updated Workload {pair.ref.key}"
            note = Note(Ref.of(pair.job), "Normal", "UpdatedWorkload", words)
            yield Action(Change(pair.ref, follow, status=False, uid=uid), notes=(note,))

    def _report(self) -> Report:
        pair = self.pair
        counts = self.view.policy.gates.reclaimable_pods
        return Report(
            at=self.now,
            ready=is_ready(pair.spec, pair.status),
            reclaimable=reclaimable(pair.spec, pair.status, pair.pod_set.count) if counts else None,
            is_gone=pair.spec.suspend and not has_pods(pair.status) and self._is_ours_to_release(),
        )

    def _is_ours_to_release(self) -> bool:
        """Whether the local pods are all there is: none in another cluster (S-10.3), no Option still to be told."""
        workload = self.pair.workload
        if mode_of(workload) == "Parent":
            options = self.view.owned(workload.metadata.uid)
            if any(says(each, "Admitted") and not says(each, "Evicted") for each in options):
                return False
        if self.pair.spec.managed_by != MULTIKUEUE_CONTROLLER:
            return True
        names = [each.name for each in status_of(workload).admission_checks]
        checks = [self.view.get(Ref("AdmissionCheck", "", name)) for name in names]
        return not any(each is not None and each.spec.controller_name == MULTIKUEUE_CONTROLLER for each in checks)

    def _follow(self) -> Follow:
        pair, meta = self.pair, self.pair.job.metadata
        classes = classes_of(self.view)
        made = workload_for(pair.job, classes=classes, copied_labels=()).workload
        pod_sets, seconds = None, None
        if made is not None and not is_started(pair.spec.template):
            (now,) = _wanted(made, self.view)
            if not pair.asks_for_the_same or now.min_count != pair.pod_set.min_count:
                pod_sets = (now,)
            seconds = made.spec.maximum_execution_time_seconds
        queue: str | None = pair.queue or None
        has_default = self.view.get(Ref("LocalQueue", meta.namespace, DEFAULT_QUEUE)) is not None
        if queue is None and not pair.workload.spec.queue_name and has_default:
            queue = DEFAULT_QUEUE
        wanted = priority_of(pair.job, read(pair.spec.template, PodTemplate), classes)
        return Follow(
            pod_sets=pod_sets,
            queue=queue,
            seconds=seconds,
            priority=wanted if is_renamed(pair.workload, pair.job) and not wanted.problem else None,
            revalue=_revalue(pair.workload, self.view),
            gates=frozenset(gates_of(meta.annotations.get(ADMISSION_GATED_BY, ""))),
        )

    def _notes(self) -> Iterator[Note]:
        """A class that the Job names by now, and that is not there."""
        pair = self.pair
        if says(pair.workload, "Finished") or not is_renamed(pair.workload, pair.job):
            return
        wanted = priority_of(pair.job, read(pair.spec.template, PodTemplate), classes_of(self.view))
        if wanted.problem:
            yield _problem(pair.job, self.view, f"{wanted.problem}: its priority stays as it is")


def _words_of_stop(evicted: Condition | None, ran: bool) -> tuple[str, str]:
    if not ran:
        return "Suspended", "Suspended until it is admitted"
    if evicted is not None and evicted.status == "True":
        return "Stopped", evicted.message or f"Evicted: {evicted.reason}"
    return "Stopped", "Its Workload is no longer admitted"
