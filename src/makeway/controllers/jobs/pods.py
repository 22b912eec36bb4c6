"""Embedded mode: a batch/v1 Job that is not suspended gets its pods, and its status says how they fare.

One look answers with at most one write of the Job's status, and with what is to happen to its pods:

- **A Job says that it has pods before it makes them.** Who waits for a stopped Job to be without pods, because their
  quota is not free before, must never be told so while one is about to be made.
- An end is counted once (``counts``), also if we are gone in between.
- A Job that is suspended lets go of its pods first and then deletes them: what they still do does not count, also if
  they end well. One that had ended before is counted.
- A Job has failed when its pods are gone, not when that is decided: FailureTarget comes first.
- A Job that is being deleted begins nothing and comes to no end, but it says how many pods it has left: whoever waits
  for them reads it there.

Promises: nothing is remembered between two looks; a pod's name is made from its Job's uid, its start and a number, so
that asking twice makes one pod.

Not here: whether a Job may run at all (``running``), on which node (``pods.scheduling``), and garbage (the Store).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from makeway.api.conditions import is_true, set_condition
from makeway.api.names import STOPPED
from makeway.api.objects.kubernetes import Job, JobCondition, JobSpec, JobStatus, Pod, amended
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.meta import Condition, ObjectMeta, OwnerReference
from makeway.api.objects.pods import PodTemplate
from makeway.api.quantity import Time
from makeway.controllers.contract import NOTHING, Action, Change, Create, Delete, Note, Outcome, Ref, View
from makeway.controllers.jobs.counts import (
    INDEX,
    TRACKING,
    Counted,
    PodCounts,
    missing_indexes,
    next_start,
    parse_indexes,
    print_indexes,
    status_of_pod,
    tally,
    wanted_count,
)
from makeway.controllers.jobs.kinds.batch import BATCH_JOB, end_of, status_of_job
from makeway.core.model import Millis, stored

JOB_CONTROLLER = ("", "kubernetes.io/job-controller")  # who runs the Jobs that are ours
BACKOFF_LIMIT = 6
NAME_MAX = 57  # what is left of a Job's name in that of a pod
MADE_AT_ONCE = 100  # pods of one Job in one look
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

replace = msgspec.structs.replace


class _End(NamedTuple):
    type: str  # Complete, Failed
    reason: str
    message: str


# --- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tell:
    """The status of a Job, decided on the one that was stored; on another one it no longer applies."""

    before: bytes
    after: Raw

    def __call__(self, job: Any) -> Any:
        return replace(job, status=self.after) if bytes(job.status) == self.before else None


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Take the finalizer from a pod. ``stopped``: its end is not to count, unless it has ended by now.

    Who is stopped is marked: should we be gone before it is deleted, it is known what it was, also when it has ended.
    """

    stopped: bool = False

    def __call__(self, pod: Any) -> Any:
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

    def react(self, whom: Ref, view: View, now: Millis) -> Outcome:
        found = view.get(whom)
        if isinstance(found, Pod):
            return _orphan(found, view)
        if not isinstance(found, Job):
            return NOTHING
        spec = read(found.spec, JobSpec)
        if spec.managed_by not in JOB_CONTROLLER:
            return NOTHING
        pods = list(view.owned(found.metadata.uid, "Pod"))
        is_going = found.metadata.deletion_timestamp is not None
        if end_of(found) is not None:
            return Outcome(tuple(_tracked(pods))) if is_going else _after_end(found, spec, pods, now)
        look = _Looking(found, spec, status_of_job(found), tally(spec, status_of_job(found), pods), now)
        return look.going(pods) if is_going else look.outcome()


def _orphan(pod: Pod, view: View) -> Outcome:
    """A pod that nobody will count any more."""
    meta = pod.metadata
    if TRACKING not in meta.finalizers:
        return NOTHING
    owner = next((each for each in meta.owner_references if each.controller and each.kind == "Job"), None)
    if owner is not None:
        job = view.get(Ref("Job", meta.namespace, owner.name))
        if meta.deletion_timestamp is None or (job is not None and job.metadata.uid == owner.uid):
            return NOTHING
    return Outcome((_let_go(pod),))


def _let_go(pod: Pod) -> Action:
    return Action(Change(Ref.of(pod), ReleasePod(), status=False, uid=pod.metadata.uid))


def _tracked(pods: Sequence[Pod]) -> Iterator[Action]:
    """Of those nobody counts any more."""
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
class _Looking:
    """One look at a Job that has not ended."""

    job: Job
    spec: JobSpec
    status: JobStatus
    found: PodCounts
    now: Millis

    def outcome(self) -> Outcome:
        end = self._end()
        if end is not None:
            return self._ending(end)
        if self.spec.suspend:
            return Outcome((*self._told(0), *self._stopped(self.found.active), *self._let_go_of()))
        surplus = self._surplus()
        missing, again_at = self._missing()
        making = bool(missing) and self.status.start_time is not None and self.status.active >= self._active(missing)
        actions = (*self._told(len(missing)), *(_deleted(each) for each in surplus), *self._let_go_of())
        return Outcome((*actions, *(self._make(missing) if making else ())), again_at=again_at)

    def going(self, pods: Sequence[Pod]) -> Outcome:
        """The Job is being deleted: its pods go with it or are left behind, unless it is stopped before."""
        stopping = self.found.active if self.spec.suspend else []
        written = {each.uid for each in stopping}
        others = [each for each in pods if each.metadata.uid not in written]
        stopped = (_deleted(each) for each in self.found.stopped)
        return Outcome((*self._left(), *self._stopped(stopping), *_tracked(others), *stopped))

    # --- how many ---

    @property
    def succeeded(self) -> int:
        return self.status.succeeded + len(self._uncounted(True)) + len(self.found.succeeded)

    @property
    def failed(self) -> int:
        return self.status.failed + len(self._uncounted(False)) + len(self.found.failed)

    def _uncounted(self, ok: bool) -> tuple[str, ...]:
        both = self.status.uncounted_terminated_pods
        return both.succeeded if ok else both.failed

    def _active(self, missing: Sequence[object]) -> int:
        return len(self.found.active) + len(missing)

    @property
    def _done(self) -> set[int]:
        """Indexes that have succeeded."""
        known = parse_indexes(self.status.completed_indexes)
        return known | {each.index for each in self.found.succeeded if each.index is not None}

    @property
    def _is_indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"

    def _completed(self) -> int:
        return len(self._done) if self._is_indexed else self.succeeded

    def _surplus(self) -> list[Counted]:
        """Pods that are too many since parallelism was lowered: the youngest that are not ready go first."""
        count = wanted_count(self.spec, self.found, self._completed())
        most = max(0, len(self.found.active) - count)
        ranked = sorted(self.found.active, key=lambda each: (each.is_ready, -_created(each), each.uid))
        return ranked[:most]

    def _missing(self) -> tuple[list[int], Millis | None]:
        """Numbers or indexes of the pods to be made now; and when to look again, if some must wait."""
        count = wanted_count(self.spec, self.found, self._completed()) - len(self.found.active)
        if self.spec.pod_replacement_policy == "Failed":
            count -= len(self.found.terminating)
        if count <= 0 or is_true(self.status.conditions, "FailureTarget"):
            return [], self._deadline()
        not_before = next_start(self.found)
        if self.now < not_before:
            return [], min(not_before, self._deadline() or not_before)
        count = min(count, MADE_AT_ONCE)
        if self._is_indexed:
            return missing_indexes(self.spec, self.found, self._done, count), self._deadline()
        return list(range(count)), self._deadline()

    # --- the end ---

    def _deadline(self) -> Millis | None:
        seconds, start = self.spec.active_deadline_seconds, self.status.start_time
        if seconds is None or start is None or self.spec.suspend:
            return None
        return Millis(start.millis + seconds * 1000)

    def _end(self) -> _End | None:
        target = next((each for each in self.status.conditions if each.type == "FailureTarget"), None)
        if target is not None and target.status == "True":
            return _End("Failed", target.reason, target.message)
        if self._is_complete():
            return _End("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        if self.found.verdict:
            return _End("Failed", "PodFailurePolicy", self.found.verdict)
        limit = BACKOFF_LIMIT if self.spec.backoff_limit is None else self.spec.backoff_limit
        if self.failed > limit or self._restarted_too_often(limit):
            return _End("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        deadline = self._deadline()
        if deadline is not None and self.now >= deadline:
            return _End("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        return None

    def _restarted_too_often(self, limit: int) -> bool:
        """Where containers are restarted in place, restarts count like failed pods."""
        if read(self.spec.template, PodTemplate).spec.restart_policy != "OnFailure":
            return False
        restarts = sum(each.restarts for each in self.found.active)
        return restarts > 0 if limit == 0 else restarts >= limit

    def _is_complete(self) -> bool:
        if self.spec.completions is None:
            return self.succeeded > 0 and not self.found.active
        return self._completed() >= self.spec.completions

    def _ending(self, end: _End) -> Outcome:
        """Pods first: a Job has ended when none of them runs any more."""
        left = [*self.found.active, *self.found.terminating]
        about = Ref.of(self.job)
        if not left:
            type_, words = ("Normal", "Job completed") if end.type == "Complete" else ("Warning", end.message)
            note = Note(about, type_, "Completed" if end.type == "Complete" else end.reason, words)
            return Outcome((self._write(self._final(end), note), *self._let_go_of()))
        conditions: tuple[Condition, ...] = self.status.conditions
        if end.type == "Failed":
            conditions = self._with(conditions, "FailureTarget", "True", end.reason, end.message)
        told = tuple(self._told(0, conditions))
        return Outcome((*told, *(_deleted(each) for each in self.found.active), *self._let_go_of()))

    def _final(self, end: _End) -> Raw:
        conditions = self._with(self.status.conditions, end.type, "True", end.reason, end.message)
        if end.type == "Failed":
            conditions = self._with(conditions, "FailureTarget", "True", end.reason, end.message)
        changes: dict[str, object] = {
            "active": None, "ready": 0, "terminating": None, "uncountedTerminatedPods": None,
            "succeeded": self.succeeded or None, "failed": self.failed or None,
            "conditions": [_tree(each) for each in conditions],
        }  # fmt: skip
        if end.type == "Complete":
            changes["completionTime"] = str(Time.of_millis(stored(self.now)))
        if self._is_indexed:
            changes["completedIndexes"] = print_indexes(self._done)
        return amended(self.job.status, changes)

    # --- what is told ---

    def _told(self, making: int, conditions: tuple[Condition, ...] | None = None) -> Iterator[Action]:
        """The status, where it is another than the stored one."""
        found, status = self.found, self.status
        settled = found.settled
        both = status.uncounted_terminated_pods
        succeeded = [uid for uid in both.succeeded if uid not in settled] + [each.uid for each in found.succeeded]
        failed = [uid for uid in both.failed if uid not in settled] + [each.uid for each in found.failed]
        counted = {uid for uid in settled if uid in both.succeeded}
        uncounted = {"succeeded": succeeded, "failed": failed}
        conditions = self._suspension(status.conditions if conditions is None else conditions)
        changes: dict[str, object] = {
            "active": (len(found.active) + making) or None,
            "ready": sum(each.is_ready for each in found.active),
            "terminating": len(found.terminating) or None,
            "succeeded": (status.succeeded + len(counted)) or None,
            "failed": (status.failed + len(settled) - len(counted)) or None,
            "uncountedTerminatedPods": Raw(msgspec.json.encode({k: v for k, v in uncounted.items() if v}))
            if succeeded or failed
            else None,
            "conditions": [_tree(each) for each in conditions] or None,
        }
        if not self.spec.suspend and (status.start_time is None or is_true(status.conditions, "Suspended")):
            changes["startTime"] = str(Time.of_millis(stored(self.now)))
        if self._is_indexed:
            changes["completedIndexes"] = print_indexes(self._done) or None
        after = amended(self.job.status, changes)
        if msgspec.json.decode(after) != msgspec.json.decode(self.job.status):
            yield self._write(after, *(self._not_honoured() if "startTime" in changes else ()))

    def _left(self) -> Iterator[Action]:
        """The status of a Job that is being deleted, where it says anything else of the pods that are left."""
        ready = sum(each.is_ready for each in self.found.active)
        left = (len(self.found.active), ready, len(self.found.terminating))
        if left != (self.status.active, self.status.ready, self.status.terminating):
            changes = {"active": left[0] or None, "ready": ready, "terminating": left[2] or None}
            yield self._write(amended(self.job.status, changes))

    def _not_honoured(self) -> Iterator[Note]:
        """What a Job asks for and does not get here."""
        spec = self.spec
        asked = {
            "backoffLimitPerIndex": spec.backoff_limit_per_index is not None,
            "maxFailedIndexes": spec.max_failed_indexes is not None,
            "successPolicy": bytes(spec.success_policy) not in (b"{}", b"null"),
        }
        names = [name for name, is_asked in asked.items() if is_asked]
        if names:
            words = f"not honoured on this machine: {', '.join(names)}"
            yield Note(Ref.of(self.job), "Warning", "NotHonoured", words)

    def _suspension(self, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
        known = any(each.type == "Suspended" for each in conditions)
        if self.spec.suspend:
            return self._with(conditions, "Suspended", "True", "JobSuspended", "Job suspended")
        return self._with(conditions, "Suspended", "False", "JobResumed", "Job resumed") if known else conditions

    def _with(
        self, conditions: tuple[Condition, ...], type_: str, status: Any, reason: str, message: str
    ) -> tuple[Condition, ...]:
        now = Time.of_millis(stored(self.now))
        return set_condition(conditions, type=type_, status=status, reason=reason, message=message, now=now)

    def _write(self, after: Raw, *notes: Note) -> Action:
        change = Change(Ref.of(self.job), Tell(bytes(self.job.status), after), uid=self.job.metadata.uid, strict=True)
        return Action(change, notes=notes)

    # --- pods ---

    def _let_go_of(self) -> Iterator[Action]:
        """Pods whose end is noted, or does not count; who was stopped goes altogether."""
        for each in (*self.found.noted, *self.found.ignored):
            yield _let_go(each.pod)
        yield from (_deleted(each) for each in self.found.stopped)

    def _stopped(self, pods: Sequence[Counted]) -> Iterator[Action]:
        for each in pods:
            change = Change(Ref.of(each.pod), ReleasePod(stopped=True), status=False, uid=each.uid)
            note = Note(Ref.of(self.job), "Normal", "SuccessfulDelete", f"Deleted pod: {each.pod.metadata.name}")
            yield Action(change, then=(_deleted(each, note),))

    def _make(self, numbers: Sequence[int]) -> Iterator[Action]:
        taken = set(self.found.names)
        start = self.status.start_time
        for number in numbers:
            index = number if self._is_indexed else None
            name = _free_name(self.job, index, "" if start is None else str(start), taken)
            taken.add(name)
            note = Note(Ref.of(self.job), "Normal", "SuccessfulCreate", f"Created pod: {name}")
            yield Action(Create(pod_for(self.job, self.spec, name, index)), notes=(note,))


def _created(each: Counted) -> int:
    created = each.pod.metadata.creation_timestamp
    return 0 if created is None else created.millis


def _tree(condition: Condition) -> dict[str, object]:
    probed = condition.last_probe_time if isinstance(condition, JobCondition) else None
    times = {"lastTransitionTime": condition.last_transition_time, "lastProbeTime": probed}
    words = {"reason": condition.reason, "message": condition.message}
    return {
        "type": condition.type, "status": condition.status,
        **{name: str(time) for name, time in times.items() if time is not None},
        **{name: text for name, text in words.items() if text},
    }  # fmt: skip


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
    """A pod as the template has it, with whose it is."""
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
    """Its containers learn which one they are."""
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}

    def told(container: dict[str, Any]) -> dict[str, Any]:
        env = container.get("env") or []
        known = any(each.get("name") == variable["name"] for each in env)
        return container if known else {**container, "env": [*env, variable]}

    groups = {name: [told(each) for each in body[name]] for name in ("containers", "initContainers") if body.get(name)}
    return {**body, **groups, "hostname": body.get("hostname") or f"{job}-{index}"[:63].rstrip("-.")}
