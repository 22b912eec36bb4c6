"""Arrivals from the Standard Workload Format of the Parallel Workloads Archive: one job a line, eighteen columns.

Processors become cpus, one pod for each. A queue is a ClusterQueue of the cohort ``swf``, and every user has a
LocalQueue in each queue that it used. The processors of the header (``MaxProcs``) are shared out by processor time,
rounded up; without that header there are as many as keep the machine 90 % busy over the time between the first and
the last submission, at least as many as the largest job needs. Priorities are drawn from a seed.

-1 is unknown: a job without a time, a run time or processors takes no part, a queue or user without a number is
``unknown``. Lines that begin with ``;`` are comments, of which the first of each name counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from makeway.adapters.simulator.sources.arrivals import (
    DAY_ONE,
    ArrivalRows,
    Row,
    Slips,
    Source,
    SourceFile,
    busy_size,
    cluster_queue,
    drawn_priority,
    expected,
    flavor,
    local_queue,
    millis_of,
    shared_out,
    template,
    workload_spec,
)
from makeway.api.objects.meta import Wire
from makeway.api.objects.queueing import FlavorQuotas, ResourceQuota
from makeway.api.objects.workload import PODS_MAX, WorkloadSpec
from makeway.api.quantity import Quantity
from makeway.core.model import Millis

COLUMNS = 18
FLAVOR = "default"
COHORT = "swf"
CPU = "cpu"
UNKNOWN = -1
_HEADER = re.compile(r";\s*(UnixStartTime|MaxProcs)\s*:\s*(\S*)")
_WHOLE = re.compile(r"-1|[0-9]{1,15}")
# Columns by their index in a line, from 0.
JOB, SUBMITTED, RAN, ALLOCATED, REQUESTED, USER, QUEUE = 0, 1, 3, 4, 7, 11, 14
NAMES = {
    JOB: "job number", SUBMITTED: "submit time", RAN: "run time", ALLOCATED: "allocated processors",
    REQUESTED: "requested processors", USER: "user", QUEUE: "queue",
}  # fmt: skip


class SwfJob(NamedTuple):
    submitted_ms: int  # may be UNKNOWN
    number: int
    runtime_ms: int
    processors: int
    user: str
    queue: str

    @property
    def is_whole(self) -> bool:
        return self.submitted_ms != UNKNOWN and self.runtime_ms != UNKNOWN and self.processors > 0


def read_swf(file: SourceFile, *, seed: int = 0) -> Source:
    reading = _Reading(Slips(file.name))
    for number, line in enumerate(file.lines(), 1):
        reading.take(number, line)
    jobs = sorted(job for job in reading.jobs if job.is_whole)
    if not jobs and not reading.slips.count:
        reading.slips.tell(None, "", "holds no job whose times and processors are known")
    reading.slips.refuse()
    begins_at = Millis(reading.header.get("UnixStartTime", DAY_ONE // 1000) * 1000)
    specs: dict[tuple[str, str, int, int], WorkloadSpec] = {}
    pod = template({CPU: "1"})
    rows = []
    for job in jobs:
        name = f"swf-{job.number}"
        shape = (job.queue, job.user, job.processors, drawn_priority(seed, name))
        if shape not in specs:
            specs[shape] = workload_spec(_local(job), shape[3], job.processors, pod)
        rows.append(Row(Millis(begins_at + job.submitted_ms), name, specs[shape], job.runtime_ms))
    arrivals = ArrivalRows.sorted(rows)
    unknown = len(reading.jobs) - len(jobs)
    notes = (f"{unknown} jobs are left out: a time or the processors are unknown",) if unknown else ()
    objects = _objects(jobs, swf_quotas(jobs, reading.header.get("MaxProcs")))
    return Source(objects, arrivals, arrivals.rows[0].at, len(arrivals), notes)


def swf_quotas(jobs: Sequence[SwfJob], processors: int | None) -> dict[str, int]:
    """The processors of every queue, by name; jobs are sorted by time."""
    used: Counter[str] = Counter()
    for job in jobs:
        used[job.queue] += job.runtime_ms * job.processors
    if not processors:
        span = jobs[-1].submitted_ms - jobs[0].submitted_ms or max(job.runtime_ms for job in jobs)
        processors = max(busy_size(used.total(), span or 1), max(job.processors for job in jobs))
    return shared_out(processors, used)


def _local(job: SwfJob) -> str:
    return f"{job.user}-{job.queue}"


def _objects(jobs: Sequence[SwfJob], quotas: dict[str, int]) -> tuple[Wire, ...]:
    objects: list[Wire] = [flavor(FLAVOR)]
    for queue, processors in quotas.items():
        quota = ResourceQuota(name=CPU, nominal_quota=Quantity.of_units(processors * 1000, CPU))
        objects.append(cluster_queue(queue, [CPU], [FlavorQuotas(name=FLAVOR, resources=(quota,))], cohort=COHORT))
    objects.extend(local_queue(name, queue) for name, queue in sorted({(_local(job), job.queue) for job in jobs}))
    return tuple(objects)


class _Reading:
    def __init__(self, slips: Slips) -> None:
        self.slips = slips
        self.header: dict[str, int] = {}
        self.jobs: list[SwfJob] = []
        self._lines: dict[int, int] = {}  # job number -> line

    def take(self, line: int, text: str) -> None:
        text = text.strip()
        if text.startswith(";"):
            self._take_header(line, text)
        elif text:
            cells = text.split()
            if len(cells) != COLUMNS:
                self.slips.tell(line, "", f"has {len(cells)} columns instead of {COLUMNS}", "comments begin with `;`")
                return
            self._take_job(line, cells)

    def _take_header(self, line: int, text: str) -> None:
        match = _HEADER.match(text)
        if match is None:
            return
        number = self._whole(line, match[1], match[2])
        if number > 0:
            self.header.setdefault(match[1], number)

    def _take_job(self, line: int, cells: list[str]) -> None:
        number = self._whole(line, NAMES[JOB], cells[JOB])
        first = self._lines.setdefault(number, line)
        if first != line:
            self.slips.tell(
                line, NAMES[JOB], f"{number} stands on line {first} already", "give each job its own number"
            )
        allocated, requested = (self._whole(line, NAMES[at], cells[at]) for at in (ALLOCATED, REQUESTED))
        processors = requested if requested > 0 else allocated
        if processors > PODS_MAX:
            self.slips.tell(line, NAMES[REQUESTED], f"{processors} is more than the {PODS_MAX} that are possible")
        user, queue = (self._whole(line, NAMES[at], cells[at]) for at in (USER, QUEUE))
        submitted, ran = (self._millis(line, NAMES[at], cells[at]) for at in (SUBMITTED, RAN))
        self.jobs.append(SwfJob(submitted, number, ran, processors, _called("user", user), _called("queue", queue)))

    def _whole(self, line: int, column: str, text: str) -> int:
        if _WHOLE.fullmatch(text) is None:
            self.slips.tell(line, column, expected("a whole number, or -1 for unknown", text))
            return UNKNOWN
        return int(text)

    def _millis(self, line: int, column: str, text: str) -> int:
        found = UNKNOWN if text == "-1" else millis_of(text)
        if found is None:
            self.slips.tell(line, column, expected("seconds, or -1 for unknown", text))
            return UNKNOWN
        return found


def _called(what: str, number: int) -> str:
    return f"{what}-unknown" if number == UNKNOWN else f"{what}-{number}"
