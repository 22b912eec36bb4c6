"""What the pods of a Job say: which run, which have ended and how, which indexes are done, and which to make next.

A pod is counted once, whatever happens: it has a finalizer until its end is counted. Its uid is first noted in the
Job's status as uncounted, then the finalizer is removed, then it is counted and the note is dropped, in one write. The
end of a Job is quicker: it is written with all that is not counted yet, and there is no counting afterwards.

Pure: values in, values out. ``progress`` says how far the Job is, the controller is ``pods``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Raw

from makeway.api.conditions import is_true
from makeway.api.names import STOPPED, WORKLOAD, WORKLOAD_REF
from makeway.api.objects.kubernetes import JobSpec, JobStatus, Pod, PodFailurePolicy, PodFailurePolicyRule, view
from makeway.api.objects.pods import PodStatus
from makeway.controllers.pods.edits import NODE_LOST, NOT_WHOLE, PREEMPTED
from makeway.core.model import Millis

TRACKING = "batch.kubernetes.io/job-tracking"
DISPLACED = (PREEMPTED, NOT_WHOLE, NODE_LOST)
INDEX = "batch.kubernetes.io/job-completion-index"
BACKOFF_MS = 10_000  # before a failed pod is replaced; doubles
BACKOFF_MAX_MS = 600_000
GLIMPSES_MAX = 20_000
INDEX_MAX = 100_000


@lru_cache(maxsize=GLIMPSES_MAX)
def _status(data: bytes) -> PodStatus:
    return view(Raw(data), PodStatus)


def status_of_pod(pod: Pod) -> PodStatus:
    """A pod's status, read once: all pods of a Job are read whenever one of them changes."""
    return _status(bytes(pod.status))


def may_run(pod: Pod) -> bool:
    """Whether a process of the pod may be left."""
    return status_of_pod(pod).phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Counted:
    """A pod, as its Job sees it."""

    pod: Pod
    status: PodStatus

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def is_tracked(self) -> bool:
        return TRACKING in self.pod.metadata.finalizers

    @property
    def was_stopped(self) -> bool:
        """Whether its Job released it before it had ended."""
        return STOPPED in self.pod.metadata.annotations

    @property
    def was_displaced(self) -> bool:
        """Whether it is of a gang of its Job, and had to leave its node: then the Job is stopped and starts again."""
        marks = self.pod.metadata.annotations
        return (
            WORKLOAD in marks
            and WORKLOAD_REF in marks
            and any(each.reason in DISPLACED for each in self.status.conditions if each.status == "True")
        )

    @property
    def is_leaving(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def has_ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def has_succeeded(self) -> bool:
        return self.status.phase == "Succeeded"

    @property
    def is_ready(self) -> bool:
        return is_true(self.status.conditions, "Ready")

    @property
    def index(self) -> int | None:
        text = self.pod.metadata.annotations.get(INDEX, "")
        return int(text) if text.isdecimal() and len(text) < 10 else None

    @property
    def ended_at(self) -> Millis:
        """When its last container ended; where that is unknown, when the pod was made."""
        ends = [each.state.terminated.finished_at for each in self.status.container_statuses if each.state.terminated]
        times = [each.millis for each in ends if each is not None]
        created = self.pod.metadata.creation_timestamp
        return Millis(max(times, default=0 if created is None else created.millis))

    @property
    def restarts(self) -> int:
        both = (*self.status.container_statuses, *self.status.init_container_statuses)
        return sum(each.restart_count for each in both)


@dataclass(slots=True)
class PodCounts:
    """The pods of a Job by what they mean to it. Pods that were counted before are in none of the lists."""

    active: list[Counted] = field(default_factory=list)
    terminating: list[Counted] = field(default_factory=list)
    succeeded: list[Counted] = field(default_factory=list)  # not noted yet
    failed: list[Counted] = field(default_factory=list)  # not noted yet
    ignored: list[Counted] = field(default_factory=list)  # failed, and the policy does not count them
    stopped: list[Counted] = field(default_factory=list)  # with their Job; they are to be deleted
    noted: list[Counted] = field(default_factory=list)  # their finalizer may be removed
    settled: frozenset[str] = frozenset()  # uids that were noted, and whose finalizer is gone
    failures: list[Counted] = field(default_factory=list)  # counted or not, for the back-off between starts
    successes: list[Counted] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of all pods
    verdict: str = ""  # of the failure policy: why the Job has failed


def tally(spec: JobSpec, status: JobStatus, pods: Iterable[Pod]) -> PodCounts:
    counts = PodCounts()
    uncounted = status.uncounted_terminated_pods
    noted = {*uncounted.succeeded, *uncounted.failed}
    held: set[str] = set()
    policy = view(spec.pod_failure_policy, PodFailurePolicy)
    waits_for_end = bool(policy.rules) or spec.pod_replacement_policy == "Failed"
    for each in (Counted(pod, status_of_pod(pod)) for pod in pods):
        counts.names.add(each.pod.metadata.name)
        if each.was_stopped:
            if not each.has_ended:
                counts.terminating.append(each)
            if not each.is_leaving:
                counts.stopped.append(each)
            continue
        if each.uid in noted and each.is_tracked:
            held.add(each.uid)
            counts.noted.append(each)
        if each.is_leaving and not each.has_ended:
            counts.terminating.append(each)
        elif not each.has_ended:
            counts.active.append(each)
        if each.has_succeeded:
            counts.successes.append(each)
        elif each.has_ended and not each.is_leaving and not _is_ignored(each, policy.rules):
            counts.failures.append(each)
        if not each.is_tracked or each.uid in noted:
            continue
        if each.has_succeeded:
            counts.succeeded.append(each)
        elif each.has_ended or (each.is_leaving and not waits_for_end):
            _judge(counts, each, policy.rules)
    counts.settled = frozenset(noted - held)
    return counts


def _judge(counts: PodCounts, each: Counted, rules: Sequence[PodFailurePolicyRule]) -> None:
    """Apply the first rule that fits a failure; a gang that had to leave its nodes has not failed."""
    if each.was_displaced:
        counts.ignored.append(each)
        return
    for number, rule in enumerate(rules):
        why = matching(rule, each) if each.has_ended else ""
        if not why:
            continue
        if rule.action == "Ignore":
            counts.ignored.append(each)
            return
        if rule.action == "FailJob":
            counts.verdict = counts.verdict or f"{why} matching FailJob rule at index {number}"
        break
    counts.failed.append(each)


def _is_ignored(each: Counted, rules: Sequence[PodFailurePolicyRule]) -> bool:
    first = next((rule for rule in rules if matching(rule, each)), None)
    return first is not None and first.action == "Ignore"


def matching(rule: PodFailurePolicyRule, each: Counted) -> str:
    """How a rule fits a failed pod, in words; "": it does not fit."""
    meta, codes = each.pod.metadata, rule.on_exit_codes
    if codes is not None:
        for container in (*each.status.init_container_statuses, *each.status.container_statuses):
            end = container.state.terminated
            if end is None or end.exit_code == 0 or codes.container_name not in (None, container.name):
                continue
            if (end.exit_code in codes.values) == (codes.operator == "In"):
                called = f"{meta.namespace}/{meta.name}"
                return f"Container {container.name} for pod {called} failed with exit code {end.exit_code}"
        return ""
    for pattern in rule.on_pod_conditions:
        for condition in each.status.conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status or "True"):
                return f"Pod {meta.namespace}/{meta.name} has condition {condition.type}"
    return ""


# --- what is to be made ----------------------------------------------------------------------------------------------


def next_start(counts: PodCounts) -> Millis:
    """When a failed pod may be replaced: the more failures in a row, the later."""
    last_success = max((each.ended_at for each in counts.successes), default=Millis(0))
    recent = [each.ended_at for each in counts.failures if each.ended_at > last_success]
    if not recent:
        return Millis(0)
    return Millis(max(recent) + min(BACKOFF_MAX_MS, BACKOFF_MS << min(len(recent) - 1, 12)))


def wanted_count(spec: JobSpec, counts: PodCounts, succeeded: int) -> int:
    """How many pods should run now."""
    if spec.completions is None:
        return len(counts.active) if succeeded else spec.parallelism
    return min(spec.parallelism, max(0, spec.completions - succeeded))


def missing_indexes(spec: JobSpec, counts: PodCounts, done: set[int], count: int) -> list[int]:
    """The lowest indexes that are neither done nor run by a pod."""
    taken = {each.index for each in (*counts.active, *counts.terminating)}
    free = (i for i in range(min(spec.completions or 0, INDEX_MAX)) if i not in done and i not in taken)
    return [index for _, index in zip(range(count), free, strict=False)]


def parse_indexes(text: str) -> set[int]:
    """The indexes in ``1,3-5,7``; anything that is no index is ignored."""
    indexes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(last or first) < INDEX_MAX:
            indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def print_indexes(indexes: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)
