"""Arrivals from public traces of GPU clusters: Philly (Microsoft, 2017) and openb (Alibaba, 2023), as CSV.

A trace says what came when and for how long, and little about queues; what it leaves open is derived:

- **Philly**: every virtual cluster with ten jobs or more is a ClusterQueue of the cohort ``philly`` with a LocalQueue
  of its name. Together they own as many GPUs as keep the cluster 90 % busy over the time between the first and the
  last submission, rounded up, each in proportion to its GPU time, rounded up. A job of more than eight GPUs is several
  pods of eight. Priorities are drawn from a seed.
- **openb**: every GPU model of the node list is a flavor that has what its nodes have, machines without a GPU are the
  flavor ``no-gpu``, and one ClusterQueue owns it all. GPUs are counted in thousandths, ``gpu_spec`` lists the flavors
  that are allowed, and the QoS class is the priority. Times begin with day one.

A workload of Philly is named after its line in the file, a workload of openb as it is there.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import Raw

from makeway.adapters.simulator.sources.arrivals import (
    DAY_ONE,
    NAME_HINT,
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
    is_name,
    local_queue,
    millis_of,
    shared_out,
    template,
    workload_spec,
)
from makeway.api.objects.meta import Wire
from makeway.api.objects.queueing import FlavorQuotas, ResourceQuota
from makeway.api.objects.workload import WorkloadSpec
from makeway.api.quantity import Quantity
from makeway.api.reading.structure import listed, told
from makeway.core.model import Millis

CELLS_MAX = 2**53  # no number of a trace is larger


# --- tables -----------------------------------------------------------------------------------------------------------


class _Cells:
    """One line of a table. A bad cell is reported, and reads as nothing."""

    def __init__(self, slips: Slips, line: int, cells: dict[str, str]) -> None:
        self._slips = slips
        self._cells = cells
        self.line = line

    def text(self, column: str) -> str:
        return self._cells[column].strip()

    def name(self, column: str) -> str:
        text = self.text(column)
        if not is_name(text):
            self.tell(column, expected("a name", text), NAME_HINT)
        return text

    def whole(self, column: str, least: int = 0) -> int:
        text = self.text(column)
        if not (text.isascii() and text.isdigit()) or len(text) > 16 or not least <= int(text) <= CELLS_MAX:
            self.tell(column, expected(f"a whole number, at least {least}", text))
            return least
        return int(text)

    def millis(self, column: str) -> int:
        text = self.text(column)
        found = millis_of(text)
        if found is None:
            self.tell(column, expected("seconds", text), "for example 90 or 90.5")
        return found or 0

    def tell(self, column: str, message: str, hint: str = "") -> None:
        self._slips.tell(self.line, column, message, hint)


def _table(file: SourceFile, columns: Sequence[str], slips: Slips) -> Iterator[_Cells]:
    """The non-empty lines of a CSV file. Columns may have any order, and others may be present."""
    reader = csv.reader(file.lines(), strict=True)
    header: list[str] = []
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            slips.tell(reader.line_num, "", f"is no line of a CSV file: {error}", "check its quotes")
            continue
        if cells is None:
            break
        if not header:
            header = [each.strip() for each in cells]
            _check_header(header, columns, slips)
        elif len(cells) == len(header):
            yield _Cells(slips, reader.line_num, dict(zip(header, cells, strict=True)))
        elif cells:
            slips.tell(reader.line_num, "", f"has {len(cells)} cells, the header has {len(header)}")
    if not header:
        slips.tell(None, "", "is empty", f"its first line names the columns: {', '.join(columns)}")


def _check_header(header: list[str], columns: Sequence[str], slips: Slips) -> None:
    for column in columns:
        if column not in header:
            slips.tell(1, column, "there is no such column", f"the first line names {listed(header)}")
    slips.refuse()


# --- Philly -----------------------------------------------------------------------------------------------------------

PHILLY_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")
PHILLY_JOBS_MIN = 10
PHILLY_FLAVOR = "gpu"
PHILLY_COHORT = "philly"
GPU = "nvidia.com/gpu"
GPUS_PER_POD = 8
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PhillyJob(NamedTuple):
    at: Millis
    line: int
    runtime_ms: int
    gpus: int
    cluster: str


def read_philly(file: SourceFile, *, seed: int = 0) -> Source:
    slips = Slips(file.name)
    jobs = [_philly_job(cells) for cells in _table(file, PHILLY_COLUMNS, slips)]
    slips.refuse()
    counts = Counter(job.cluster for job in jobs)
    kept = sorted(job for job in jobs if counts[job.cluster] >= PHILLY_JOBS_MIN)
    if not kept:
        slips.tell(None, "cluster", f"no virtual cluster has {PHILLY_JOBS_MIN} jobs, the least that is looked at")
        slips.refuse()
    quotas = philly_quotas(kept)
    specs: dict[tuple[str, int, int], WorkloadSpec] = {}
    arrivals = ArrivalRows.sorted(_philly_row(job, seed, specs) for job in kept)
    few = len(counts) - len(quotas)
    notes = (f"{len(jobs) - len(kept)} jobs of {few} virtual clusters with fewer than ten are left out",) if few else ()
    return Source(_philly_objects(quotas), arrivals, kept[0].at, len(arrivals), notes)


def _philly_job(cells: _Cells) -> PhillyJob:
    text = cells.text("timestamp")
    try:
        seconds = _seconds_of(text)
    except ValueError:
        cells.tell("timestamp", expected("a time", text), "for example 2017-10-09 07:01:55")
        seconds = 0
    runtime_ms, gpus = cells.millis("duration"), cells.whole("num_gpus", least=1)
    return PhillyJob(Millis(seconds * 1000), cells.line, runtime_ms, gpus, cells.name("cluster"))


def _seconds_of(text: str) -> int:
    if len(text) != len("YYYY-MM-DD HH:MM:SS"):
        raise ValueError(text)
    return (datetime.fromisoformat(f"{text}+00:00") - EPOCH) // timedelta(seconds=1)


def philly_quotas(jobs: Sequence[PhillyJob]) -> dict[str, int]:
    """The GPUs of every virtual cluster, by name; jobs are by time. If all came at once, the longest run counts."""
    used: Counter[str] = Counter()
    for job in jobs:
        used[job.cluster] += job.runtime_ms * job.gpus
    span = jobs[-1].at - jobs[0].at or max(job.runtime_ms for job in jobs)
    return shared_out(busy_size(used.total(), span or 1), used)


def _philly_row(job: PhillyJob, seed: int, specs: dict[tuple[str, int, int], WorkloadSpec]) -> Row:
    name = f"philly-{job.line:06}"
    shape = (job.cluster, job.gpus, drawn_priority(seed, name))
    if shape not in specs:
        pods = -(-job.gpus // GPUS_PER_POD)
        pod = template({GPU: str(min(job.gpus, GPUS_PER_POD))})
        specs[shape] = workload_spec(job.cluster, shape[2], pods, pod)
    return Row(job.at, name, specs[shape], job.runtime_ms)


def _philly_objects(quotas: dict[str, int]) -> tuple[Wire, ...]:
    objects: list[Wire] = [flavor(PHILLY_FLAVOR)]
    for cluster, gpus in quotas.items():
        quota = ResourceQuota(name=GPU, nominal_quota=Quantity.of_units(gpus, GPU))
        flavors = [FlavorQuotas(name=PHILLY_FLAVOR, resources=(quota,))]
        objects.append(cluster_queue(cluster, [GPU], flavors, cohort=PHILLY_COHORT))
        objects.append(local_queue(cluster, cluster))
    return tuple(objects)


# --- openb ------------------------------------------------------------------------------------------------------------

POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
OPENB = "openb"
NO_GPU = "no-gpu"
GPU_MILLI = "alibabacloud.com/gpu-milli"
OPENB_RESOURCES = ("cpu", "memory", GPU_MILLI)
QOS_PRIORITIES = {"LS": 100, "Guaranteed": 100, "Burstable": 50, "BE": 0}
MIB = 1024 * 1024

Amounts = tuple[int, int, int]  # of OPENB_RESOURCES: thousandths of a cpu, bytes, thousandths of a GPU


def read_openb(pods: SourceFile, nodes: SourceFile, *, begins_at: Millis = DAY_ONE) -> Source:
    flavors = _openb_flavors(nodes)
    slips = Slips(pods.name)
    making = _OpenbPods(begins_at, flavors, slips)
    rows = [making.row(cells) for cells in _table(pods, POD_COLUMNS, slips)]
    if not rows and not slips.count:
        slips.tell(None, "", "holds no pods")
    slips.refuse()
    arrivals = ArrivalRows.sorted(rows)
    quotas = [FlavorQuotas(name=name, resources=_quota(amounts)) for name, amounts in flavors.items()]
    objects = (
        *map(flavor, flavors),
        cluster_queue(OPENB, OPENB_RESOURCES, quotas),
        local_queue(OPENB, OPENB),
    )
    return Source(objects, arrivals, arrivals.rows[0].at, len(arrivals))


def _openb_flavors(nodes: SourceFile) -> dict[str, Amounts]:
    """The total capacity of the machines of each model; those without a GPU come first, so that they are used first."""
    slips = Slips(nodes.name)
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for cells in _table(nodes, NODE_COLUMNS, slips):
        gpus, model = cells.whole("gpu"), cells.text("model").lower()
        if gpus and not is_name(model):
            cells.tell("model", expected("the model of its GPUs", model), NAME_HINT)
        held = (cells.whole("cpu_milli"), cells.whole("memory_mib") * MIB, gpus * 1000)
        for i, amount in enumerate(held):
            sums[model if gpus else NO_GPU][i] += amount
    if not sums and not slips.count:
        slips.tell(None, "", "holds no nodes")
    slips.refuse()
    order = sorted(sums, key=lambda name: (name != NO_GPU, name))
    return {name: (sums[name][0], sums[name][1], sums[name][2]) for name in order}


def _quota(amounts: Amounts) -> tuple[ResourceQuota, ...]:
    named = zip(OPENB_RESOURCES, amounts, strict=True)
    return tuple(ResourceQuota(name=name, nominal_quota=Quantity.of_units(amount, name)) for name, amount in named)


class _OpenbPods:
    def __init__(self, begins_at: Millis, flavors: dict[str, Amounts], slips: Slips) -> None:
        self._begins_at = begins_at
        self._flavors = flavors
        self._slips = slips
        self._lines: dict[str, int] = {}  # name -> line
        self._templates: dict[Amounts, Raw] = {}
        self._specs: dict[tuple[Amounts, int, tuple[str, ...]], WorkloadSpec] = {}

    def row(self, cells: _Cells) -> Row:
        name = cells.name("name")
        first = self._lines.setdefault(name, cells.line)
        if first != cells.line:
            cells.tell("name", f"{told(name)} stands on line {first} already", "give each its own name")
        created, deleted = cells.millis("creation_time"), cells.millis("deletion_time")
        began = cells.millis("scheduled_time") if cells.text("scheduled_time") else created  # never scheduled
        if deleted < began:
            cells.tell("deletion_time", "lies before the pod began")
        at = Millis(self._begins_at + created)
        return Row(at, name, self._spec(cells), deleted - began)

    def _spec(self, cells: _Cells) -> WorkloadSpec:
        gpu_milli = cells.whole("num_gpu") * cells.whole("gpu_milli")
        amounts = (cells.whole("cpu_milli"), cells.whole("memory_mib") * MIB, gpu_milli)
        shape = (amounts, self._priority(cells), self._allowed(cells))
        if shape not in self._specs:
            if amounts not in self._templates:
                self._templates[amounts] = template(
                    {
                        name: str(Quantity.of_units(amount, name))
                        for name, amount in zip(OPENB_RESOURCES, amounts, strict=True)
                        if amount
                    }
                )
            self._specs[shape] = workload_spec(OPENB, shape[1], 1, self._templates[amounts], allowed=shape[2])
        return self._specs[shape]

    def _priority(self, cells: _Cells) -> int:
        qos = cells.text("qos")
        if qos not in QOS_PRIORITIES:
            cells.tell("qos", f"{told(qos)} is not supported; allowed: {', '.join(QOS_PRIORITIES)}")
        return QOS_PRIORITIES.get(qos, 0)

    def _allowed(self, cells: _Cells) -> tuple[str, ...]:
        """The models that a pod may use, each once; none named: any."""
        models = tuple(dict.fromkeys(each.lower() for each in cells.text("gpu_spec").split("|") if each))
        for model in models:
            if model not in self._flavors:
                cells.tell("gpu_spec", f"no node has the model {told(model)}; there are {listed(list(self._flavors))}")
        return models
