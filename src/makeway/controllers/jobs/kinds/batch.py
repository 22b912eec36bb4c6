"""batch/v1 Jobs as jobs: one podSet ``main``, partial admission, elastic counts (api 18.2 to 18.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from makeway.api.names import COMPLETIONS_EQUAL_PARALLELISM, MIN_PARALLELISM
from makeway.api.objects.kubernetes import Job, JobCondition, JobSpec, JobStatus, amended, view
from makeway.api.versions import kind_of
from makeway.controllers.jobs.kinds.generic import BATCH_FRAMEWORK, AskedPods, End, JobKind, NewPods, wrong_number

replace = msgspec.structs.replace


# --- what a Job says --------------------------------------------------------------------------------------------------


def status_of_job(job: Job) -> JobStatus:
    return view(job.status, JobStatus)


def end_of(job: Job) -> JobCondition | None:
    """The condition that ended a Job (api 18.5); None while it may still run."""
    return _end(status_of_job(job))


def _end(status: JobStatus) -> JobCondition | None:
    return next(
        (each for each in status.conditions if each.type in ("Complete", "Failed") and each.status == "True"), None
    )


def count_of(spec: JobSpec) -> int:
    """How many pods run at the same time."""
    return spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)


def indexes_in(text: str) -> int:
    """How many indexes ``1,3-5,7`` names; anything that is no index is ignored."""
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            count += max(0, int(last or first) - int(first) + 1)
    return count


# --- the kind ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchJob:
    job: Job
    spec: JobSpec
    status: JobStatus

    @classmethod
    def read(cls, job: Job) -> BatchJob:
        return cls(job, view(job.spec, JobSpec), status_of_job(job))

    @property
    def pod_sets(self) -> tuple[AskedPods, ...]:
        spec, least = self.spec, self.job.metadata.annotations.get(MIN_PARALLELISM)
        min_count = None if least is None or self.problem else int(least)
        return (AskedPods("main", spec.template, count_of(spec), min_count, spec.parallelism),)

    @property
    def problem(self) -> str:
        return wrong_number(MIN_PARALLELISM, self.job.metadata.annotations, count_of(self.spec) - 1)

    @property
    def managed_by(self) -> str:
        return self.spec.managed_by

    @property
    def is_suspended(self) -> bool:
        return self.spec.suspend

    @property
    def has_pods(self) -> bool:
        return self.status.active + self.status.terminating > 0

    @property
    def is_ready(self) -> bool:
        done = self.status.succeeded + len(self.status.uncounted_terminated_pods.succeeded)
        return not self.spec.suspend and self.status.ready + done >= count_of(self.spec)

    @property
    def end(self) -> End | None:
        found = _end(self.status)
        if found is None:
            return None
        reason, word = ("Succeeded", "succeeded") if found.type == "Complete" else ("Failed", "failed")
        return End(reason, found.message or f"The job has {word}")

    def reclaimable(self, asked: Mapping[str, int]) -> Mapping[str, int]:
        """Less is left to do than pods were asked for.

        The Job's parallelism does not tell: it is smaller if only some pods were admitted, and may be larger than what
        is left to do from the beginning.
        """
        ((name, count),) = asked.items()
        spec, status = self.spec, self.status
        done = status.succeeded
        if spec.completion_mode == "Indexed":
            done = indexes_in(status.completed_indexes) + indexes_in(status.failed_indexes)
        if count <= 1 or done <= 0:
            return {}
        whole = spec.parallelism if spec.completions is None else spec.completions
        return {name: max(0, count - max(0, whole - done))}

    @property
    def remembers_start(self) -> bool:
        return self.status.start_time is not None

    def suspended(self) -> Job:
        return self._with_spec({"suspend": True})

    def without_start(self) -> Job:
        return replace(self.job, status=amended(self.job.status, {"startTime": None}))

    def with_pods(self, pods: Sequence[NewPods], *, suspend: bool) -> Job:
        (new,) = pods
        switch = {} if suspend else {"suspend": False}
        return self._with_spec({**switch, "template": new.template, **self._counts(new.count)})

    def _counts(self, count: int | None) -> dict[str, int]:
        if count is None:
            return {}
        tied = self.job.metadata.annotations.get(COMPLETIONS_EQUAL_PARALLELISM) == "true"
        is_indexed = self.spec.completion_mode == "Indexed"
        return {"parallelism": count, **({"completions": count} if tied and is_indexed else {})}

    def _with_spec(self, changes: Mapping[str, object]) -> Job:
        return replace(self.job, spec=amended(self.job.spec, changes))


BATCH_JOB = JobKind(kind_of(Job), BATCH_FRAMEWORK, BatchJob.read)
