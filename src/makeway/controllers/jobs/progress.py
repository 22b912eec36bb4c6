"""How far a Job is, by its status and its pods together; which pods are missing, and whether it has ended.

Pure: values in, values out. The controller is ``pods``, pods are counted in ``counts``, the new status is made in
``status``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from makeway.api.conditions import find, is_true
from makeway.api.objects.kubernetes import JobSpec, JobStatus, view
from makeway.api.objects.pods import PodTemplate
from makeway.controllers.jobs.counts import (
    Counted,
    PodCounts,
    missing_indexes,
    next_start,
    parse_indexes,
    wanted_count,
)
from makeway.core.model import Millis

BACKOFF_LIMIT = 6
MADE_AT_ONCE = 100  # pods of one Job in one reconcile


class JobEnd(NamedTuple):
    type: str  # Complete, Failed
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A Job that has not ended, as of ``now``."""

    spec: JobSpec
    status: JobStatus
    pods: PodCounts
    now: Millis

    # --- ends of pods: first noted by uid, then counted ---

    @property
    def succeeded(self) -> int:
        """Pods that succeeded, counted or not."""
        return self.status.succeeded + len(self.status.uncounted_terminated_pods.succeeded) + len(self.pods.succeeded)

    @property
    def failed(self) -> int:
        """Pods that failed, counted or not."""
        return self.status.failed + len(self.status.uncounted_terminated_pods.failed) + len(self.pods.failed)

    @property
    def counted(self) -> tuple[int, int]:
        """The counted ends now, succeeded and failed: earlier ones, and noted ones whose finalizer is gone."""
        well = self.pods.settled.intersection(self.status.uncounted_terminated_pods.succeeded)
        return self.status.succeeded + len(well), self.status.failed + len(self.pods.settled) - len(well)

    @property
    def uncounted(self) -> dict[str, list[str]]:
        """Uids of ends that are noted and not counted yet, the new ones last; empty lists are left out."""
        noted, settled = self.status.uncounted_terminated_pods, self.pods.settled
        both = (("succeeded", noted.succeeded, self.pods.succeeded), ("failed", noted.failed, self.pods.failed))
        lists = {
            name: [uid for uid in before if uid not in settled] + [each.uid for each in new]
            for name, before, new in both
        }
        return {name: uids for name, uids in lists.items() if uids}

    # --- what is done ---

    @property
    def is_indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"

    @property
    def done(self) -> set[int]:
        """Indexes that have succeeded."""
        known = parse_indexes(self.status.completed_indexes)
        return known | {each.index for each in self.pods.succeeded if each.index is not None}

    @property
    def completed(self) -> int:
        return len(self.done) if self.is_indexed else self.succeeded

    @property
    def is_complete(self) -> bool:
        if self.spec.completions is None:
            return self.succeeded > 0 and not self.pods.active
        return self.completed >= self.spec.completions

    # --- what is to run ---

    def surplus(self) -> list[Counted]:
        """The pods beyond a lowered parallelism: the youngest that are not ready go first."""
        count = wanted_count(self.spec, self.pods, self.completed)
        most = max(0, len(self.pods.active) - count)
        ranked = sorted(self.pods.active, key=lambda each: (each.is_ready, -_created(each), each.uid))
        return ranked[:most]

    def missing(self) -> tuple[list[int], Millis | None]:
        """Numbers or indexes of the pods to be made now; and when to reconcile again, if some must wait."""
        count = wanted_count(self.spec, self.pods, self.completed) - len(self.pods.active)
        if self.spec.pod_replacement_policy == "Failed":
            count -= len(self.pods.terminating)
        if count <= 0 or is_true(self.status.conditions, "FailureTarget"):
            return [], self.deadline
        not_before = next_start(self.pods)
        if self.now < not_before:
            return [], min(not_before, self.deadline or not_before)
        count = min(count, MADE_AT_ONCE)
        if self.is_indexed:
            return missing_indexes(self.spec, self.pods, self.done, count), self.deadline
        return list(range(count)), self.deadline

    # --- the end ---

    @property
    def deadline(self) -> Millis | None:
        seconds, start = self.spec.active_deadline_seconds, self.status.start_time
        if seconds is None or start is None or self.spec.suspend:
            return None
        return Millis(start.millis + seconds * 1000)

    def end(self) -> JobEnd | None:
        """The way it ends; its pods may still have to go."""
        target = find(self.status.conditions, "FailureTarget")
        if target is not None and target.status == "True":
            return JobEnd("Failed", target.reason, target.message)
        if self.is_complete:
            return JobEnd("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        if self.pods.verdict:
            return JobEnd("Failed", "PodFailurePolicy", self.pods.verdict)
        limit = BACKOFF_LIMIT if self.spec.backoff_limit is None else self.spec.backoff_limit
        if self.failed > limit or self._restarted_too_often(limit):
            return JobEnd("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if self.deadline is not None and self.now >= self.deadline:
            return JobEnd("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        return None

    def _restarted_too_often(self, limit: int) -> bool:
        """Where containers are restarted in place, restarts count like failed pods."""
        if view(self.spec.template, PodTemplate).spec.restart_policy != "OnFailure":
            return False
        restarts = sum(each.restarts for each in self.pods.active)
        return restarts > 0 if limit == 0 else restarts >= limit


def _created(each: Counted) -> int:
    created = each.pod.metadata.creation_timestamp
    return 0 if created is None else created.millis
