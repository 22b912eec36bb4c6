"""Embedded mode: a batch/v1 Job that is not suspended gets its pods, and its status shows how they fare.

One reconcile answers with at most one write of the Job's status, and with what happens to its pods:

- **A Job says that it has pods before it makes them.** The quota of a stopped Job is free once it has no pods, so its
  status must never say so while a pod is about to be made.
- An end is counted once (``counts``), also if makeway restarts in between.
- A suspended Job releases its pods first and then deletes them: what they still do does not count, even if they
  succeed. A pod that had ended before is counted.
- A Job has failed when its pods are gone, not when that is decided: FailureTarget comes first.
- A Job that is being deleted begins nothing and comes to no end, but its status says how many pods are left, for those
  that wait until there are none.

Promises: no memory between reconciles; a pod's name is made from its Job's uid, its start and a number, so that two
identical requests make one pod.

Not here: how far a Job is (``progress``), what its status says (``status``), whether it may run at all (``running``),
on which node (``pods.scheduling``), and garbage (the Store).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from makeway.api.names import STOPPED
from makeway.api.objects.kubernetes import Job, JobSpec, Pod
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.meta import ObjectMeta, OwnerReference
from makeway.api.objects.pods import PodTemplate
from makeway.controllers.contract import JOB, NOTHING, POD, Action, Change, Create, Delete, Note, Outcome, Ref, View
from makeway.controllers.jobs.counts import INDEX, TRACKING, Counted, PodCounts, status_of_pod, tally
from makeway.controllers.jobs.kinds.batch import BATCH_JOB, end_of, status_of_job
from makeway.controllers.jobs.progress import JobEnd, JobProgress
from makeway.controllers.jobs.status import begins, final_status, status_now, status_while_going
from makeway.core.model import Millis

JOB_CONTROLLER = ("", "kubernetes.io/job-controller")  # the controller whose Jobs are ours
NAME_MAX = 57  # characters of a Job's name that fit into the name of a pod
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

replace = msgspec.structs.replace


# --- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tell:
    """The status of a Job, decided on the stored one; on any other it no longer applies."""

    before: bytes
    after: Raw

    def __call__(self, job: Job) -> Job | None:
        return replace(job, status=self.after) if bytes(job.status) == self.before else None


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Remove the finalizer from a pod. ``stopped``: its end is not to count, unless it has ended by now.

    A stopped pod is marked: it still counts as stopped if makeway restarts before deleting it, even if it has ended.
    """

    stopped: bool = False

    def __call__(self, pod: Pod) -> Pod | None:
        meta = pod.metadata
        finalizers = tuple(each for each in meta.finalizers if each != TRACKING)
        if not self.stopped:
            return replace(pod, metadata=replace(meta, finalizers=finalizers))
        if Counted(pod, status_of_pod(pod)).has_ended:
            return None
        return replace(
            pod, metadata=replace(meta, finalizers=finalizers, annotations={**meta.annotations, STOPPED: ""})
        )


# --- the controller --------------------------------------------------------------------------------------------------


class JobPods:
    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"Job", "Pod"})

    def react(self, ref: Ref[Job | Pod], view: View, now: Millis) -> Outcome:
        found = view.get(ref)
        if isinstance(found, Pod):
            return _orphan(found, view)
        if not isinstance(found, Job):
            return NOTHING
        spec = read(found.spec, JobSpec)
        if spec.managed_by not in JOB_CONTROLLER:
            return NOTHING
        pods = list(view.owned(found.metadata.uid, POD))
        is_going = found.metadata.deletion_timestamp is not None
        if end_of(found) is not None:
            return Outcome(tuple(_tracked(pods))) if is_going else _after_end(found, spec, pods, now)
        status = status_of_job(found)
        writer = _JobAndPods(found, JobProgress(spec, status, tally(spec, status, pods), now))
        return writer.going(pods) if is_going else writer.outcome()


def _orphan(pod: Pod, view: View) -> Outcome:
    """A pod that will never be counted."""
    meta = pod.metadata
    if TRACKING not in meta.finalizers:
        return NOTHING
    owner = next((each for each in meta.owner_references if each.controller and each.kind == "Job"), None)
    if owner is not None:
        job = view.get(Ref(JOB, meta.namespace, owner.name))
        if meta.deletion_timestamp is None or (job is not None and job.metadata.uid == owner.uid):
            return NOTHING
    return Outcome((_let_go(pod),))


def _let_go(pod: Pod) -> Action:
    return Action(Change(Ref.of(pod), ReleasePod(), status=False, uid=pod.metadata.uid))


def _tracked(pods: Sequence[Pod]) -> Iterator[Action]:
    """Release those that will never be counted."""
    return (_let_go(each) for each in pods if TRACKING in each.metadata.finalizers)


def _deleted(each: Counted, *notes: Note) -> Action:
    return Action(Delete(Ref.of(each.pod), each.uid), notes=notes)


def _after_end(job: Job, spec: JobSpec, pods: Sequence[Pod], now: Millis) -> Outcome:
    actions = [*_tracked(pods)]
    seconds, end = spec.ttl_seconds_after_finished, end_of(job)
    if seconds is None or end is None or end.last_transition_time is None:
        return Outcome(tuple(actions))
    due = Millis(end.last_transition_time.millis + seconds * 1000)
    if now < due:
        return Outcome(tuple(actions), again_at=due)
    return Outcome((*actions, Action(Delete(Ref.of(job), job.metadata.uid))))


@dataclass(frozen=True, slots=True)
class _JobAndPods:
    """What is to be written of a Job that has not ended, and of its pods."""

    job: Job
    progress: JobProgress

    @property
    def pods(self) -> PodCounts:
        return self.progress.pods

    def outcome(self) -> Outcome:
        progress = self.progress
        end = progress.end()
        if end is not None:
            return self._ending(end)
        if progress.spec.suspend:
            return Outcome((*self._tell(), *self._stopped(self.pods.active), *self._let_go_of()))
        missing, again_at = progress.missing()
        expected = len(self.pods.active) + len(missing)
        making = bool(missing) and progress.status.start_time is not None and progress.status.active >= expected
        surplus = (_deleted(each) for each in progress.surplus())
        actions = (*self._tell(making=len(missing)), *surplus, *self._let_go_of())
        return Outcome((*actions, *(self._make(missing) if making else ())), again_at=again_at)

    def going(self, pods: Sequence[Pod]) -> Outcome:
        """The Job is being deleted: its pods go with it or are left behind, unless it is stopped before."""
        stopping = self.pods.active if self.progress.spec.suspend else []
        written = {each.uid for each in stopping}
        others = [each for each in pods if each.metadata.uid not in written]
        stopped = (_deleted(each) for each in self.pods.stopped)
        after = status_while_going(self.job, self.progress)
        told = () if after is None else (self._write(after),)
        return Outcome((*told, *self._stopped(stopping), *_tracked(others), *stopped))

    def _ending(self, end: JobEnd) -> Outcome:
        """Pods first: a Job has ended when none of them runs any more."""
        if not self.pods.active and not self.pods.terminating:
            type_, words = ("Normal", "Job completed") if end.type == "Complete" else ("Warning", end.message)
            note = Note(Ref.of(self.job), type_, "Completed" if end.type == "Complete" else end.reason, words)
            return Outcome((self._write(final_status(self.job, self.progress, end), note), *self._let_go_of()))
        deleted = (_deleted(each) for each in self.pods.active)
        return Outcome((*self._tell(failing=end), *deleted, *self._let_go_of()))

    # --- its status ---

    def _tell(self, *, making: int = 0, failing: JobEnd | None = None) -> Iterator[Action]:
        """The new status, where it differs from the stored one."""
        after = status_now(self.job, self.progress, making=making, failing=failing)
        if msgspec.json.decode(after) != msgspec.json.decode(self.job.status):
            yield self._write(after, *(self._not_honoured() if begins(self.progress) else ()))

    def _not_honoured(self) -> Iterator[Note]:
        """Notes about what a Job asks for and does not get here."""
        spec = self.progress.spec
        asked = {
            "backoffLimitPerIndex": spec.backoff_limit_per_index is not None,
            "maxFailedIndexes": spec.max_failed_indexes is not None,
            "successPolicy": bytes(spec.success_policy) not in (b"{}", b"null"),
        }
        names = [name for name, is_asked in asked.items() if is_asked]
        if names:
            words = f"not honoured on this machine: {', '.join(names)}"
            yield Note(Ref.of(self.job), "Warning", "NotHonoured", words)

    def _write(self, after: Raw, *notes: Note) -> Action:
        change = Change(Ref.of(self.job), Tell(bytes(self.job.status), after), uid=self.job.metadata.uid, strict=True)
        return Action(change, notes=notes)

    # --- its pods ---

    def _let_go_of(self) -> Iterator[Action]:
        """Release pods whose end is noted, or does not count; stopped ones are also deleted."""
        for each in (*self.pods.noted, *self.pods.ignored):
            yield _let_go(each.pod)
        yield from (_deleted(each) for each in self.pods.stopped)

    def _stopped(self, pods: Sequence[Counted]) -> Iterator[Action]:
        for each in pods:
            change = Change(Ref.of(each.pod), ReleasePod(stopped=True), status=False, uid=each.uid)
            note = Note(Ref.of(self.job), "Normal", "SuccessfulDelete", f"Deleted pod: {each.pod.metadata.name}")
            yield Action(change, then=(_deleted(each, note),))

    def _make(self, numbers: Sequence[int]) -> Iterator[Action]:
        taken = set(self.pods.names)
        start = self.progress.status.start_time
        for number in numbers:
            index = number if self.progress.is_indexed else None
            name = _free_name(self.job, index, "" if start is None else str(start), taken)
            taken.add(name)
            note = Note(Ref.of(self.job), "Normal", "SuccessfulCreate", f"Created pod: {name}")
            yield Action(Create(pod_for(self.job, self.progress.spec, name, index)), notes=(note,))


# --- a pod of a Job --------------------------------------------------------------------------------------------------


def _free_name(job: Job, index: int | None, start: str, taken: set[str]) -> str:
    base = job.metadata.name[:NAME_MAX].rstrip("-.")
    if index is not None:
        base = f"{job.metadata.name[: NAME_MAX - 7].rstrip('-.')}-{index}"
    for number in range(len(taken) + 1):
        digest = hashlib.sha1(f"{job.metadata.uid}/{start}/{index}/{number}".encode(), usedforsecurity=False).digest()
        name = f"{base}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])}"
        if name not in taken:
            return name
    return f"{base}-{len(taken)}"


def pod_for(job: Job, spec: JobSpec, name: str, index: int | None) -> Pod:
    """A pod as in the template, with labels and references of its owner."""
    template = read(spec.template, PodTemplate)
    uid = job.metadata.uid
    labels = {
        **template.metadata.labels, "batch.kubernetes.io/controller-uid": uid, "controller-uid": uid,
        "batch.kubernetes.io/job-name": job.metadata.name[:63], "job-name": job.metadata.name[:63],
    }  # fmt: skip
    annotations = dict(template.metadata.annotations)
    body = msgspec.json.decode(spec.template).get("spec") or {}
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        body = _with_index(body, job.metadata.name, index)
    owner: OwnerReference = BATCH_JOB.owner(job.metadata.name, uid)
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace=job.metadata.namespace, generate_name=f"{job.metadata.name}-", labels=labels,
            annotations=annotations, owner_references=(owner,), finalizers=(TRACKING,),
        ),
        spec=Raw(msgspec.json.encode(body)),
    )  # fmt: skip


def _with_index(body: dict[str, Any], job: str, index: int) -> dict[str, Any]:
    """Its containers get their index."""
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}

    def told(container: dict[str, Any]) -> dict[str, Any]:
        env = container.get("env") or []
        known = any(each.get("name") == variable["name"] for each in env)
        return container if known else {**container, "env": [*env, variable]}

    groups = {name: [told(each) for each in body[name]] for name in ("containers", "initContainers") if body.get(name)}
    return {**body, **groups, "hostname": body.get("hostname") or f"{job}-{index}"[:63].rstrip("-.")}
