"""Arrivals from a recipe, in the format of Kueue's scheduler performance test: cohorts of queues, sets of workloads.

Every set is written once and made ``count`` times. A name is ``<className>-<index>``; the index counts all objects of
one kind and class in the file, because names of one kind must differ. There is one flavor with one resource, cpu, and
each ClusterQueue has one LocalQueue of its name. A workload set creates one workload per ``creationIntervalMs``, the
first at the beginning; if it lists several workloads they take turns. Each runs for ``runtimeMs`` once it is admitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec

from makeway.adapters.simulator.sources.arrivals import (
    COUNT_MAX,
    DAY_ONE,
    ArrivalRows,
    Row,
    Slips,
    Source,
    SourceFile,
    cluster_queue,
    flavor,
    local_queue,
    template,
    workload_spec,
)
from makeway.api.objects.meta import LABEL, REQUIRED, Limit, Wire, ready
from makeway.api.objects.queueing import (
    ClusterQueue,
    FlavorQuotas,
    Preemption,
    ReclaimPolicy,
    ResourceQuota,
    WithinPolicy,
)
from makeway.api.objects.workload import WorkloadSpec
from makeway.api.quantity import Quantity, decode_hook
from makeway.api.reading.documents import Document, parse
from makeway.api.reading.structure import Reader
from makeway.api.schema.shapes import shape_of
from makeway.core.model import Millis

FLAVOR = "default"
CPU = "cpu"
QUEUES_MAX = 100_000
CLASS = Limit(required=True, min_length=1)
COUNT = Limit(required=True, least=0)
SPAN = Limit(least=0)
SOME = Limit(required=True, min_items=1)


class WorkloadRecipe(Wire, frozen=True):
    class_name: Annotated[str, LABEL, CLASS] = ""
    runtime_ms: Annotated[int, Limit(required=True, least=0)] = 0
    priority: int = 0
    request: Annotated[Quantity, Limit(required=True, least=0)] = Quantity.parse(0)


class WorkloadsSet(Wire, frozen=True):
    count: Annotated[int, COUNT] = 0
    creation_interval_ms: Annotated[int, SPAN] = 0
    workloads: Annotated[tuple[WorkloadRecipe, ...], SOME] = ()


class QueuesSet(Wire, frozen=True):
    class_name: Annotated[str, LABEL, CLASS] = ""
    count: Annotated[int, COUNT] = 0
    nominal_quota: Annotated[Quantity, Limit(required=True, least=0)] = Quantity.parse(0)
    borrowing_limit: Annotated[Quantity | None, Limit(least=0)] = None
    reclaim_within_cohort: ReclaimPolicy = "Never"
    within_cluster_queue: WithinPolicy = "Never"
    workloads_sets: Annotated[tuple[WorkloadsSet, ...], REQUIRED] = ()


class CohortsSet(Wire, frozen=True):
    class_name: Annotated[str, LABEL, CLASS] = ""
    count: Annotated[int, COUNT] = 0
    queues_sets: Annotated[tuple[QueuesSet, ...], REQUIRED] = ()


@ready
class Recipe(Wire, frozen=True):
    cohorts: Annotated[tuple[CohortsSet, ...], SOME] = ()


def read_generator(file: SourceFile, *, begins_at: Millis = DAY_ONE) -> Source:
    recipe = _recipe(file)
    making = _Making(begins_at)
    for cohorts in recipe.cohorts:
        for _ in range(cohorts.count):
            making.cohort(cohorts)
    arrivals = ArrivalRows.sorted(making.rows)
    names = [each.metadata.name for each in making.queues]
    objects = (flavor(FLAVOR), *making.queues, *(local_queue(name, name) for name in names))
    return Source(objects, arrivals, begins_at, len(arrivals))


class _Making:
    def __init__(self, begins_at: Millis) -> None:
        self._begins_at = begins_at
        self._counts: Counter[tuple[str, str]] = Counter()  # by kind and class
        self._templates: dict[str, msgspec.Raw] = {}
        self.queues: list[ClusterQueue] = []
        self.rows: list[Row] = []

    def cohort(self, cohorts: CohortsSet) -> None:
        name = self._name("Cohort", cohorts.class_name)
        for queues in cohorts.queues_sets:
            for _ in range(queues.count):
                self._queue(queues, name)

    def _queue(self, queues: QueuesSet, cohort: str) -> None:
        name = self._name("ClusterQueue", queues.class_name)
        quota = ResourceQuota(name=CPU, nominal_quota=queues.nominal_quota, borrowing_limit=queues.borrowing_limit)
        preemption = Preemption(
            reclaim_within_cohort=queues.reclaim_within_cohort, within_cluster_queue=queues.within_cluster_queue
        )
        flavors = [FlavorQuotas(name=FLAVOR, resources=(quota,))]
        self.queues.append(cluster_queue(name, [CPU], flavors, cohort=cohort, preemption=preemption))
        for workloads in queues.workloads_sets:
            self.rows.extend(self._workloads(workloads, name))

    def _workloads(self, workloads: WorkloadsSet, queue: str) -> Iterator[Row]:
        kinds = [(each, self._spec(each, queue)) for each in workloads.workloads]
        for turn in range(workloads.count * len(kinds)):
            recipe, spec = kinds[turn % len(kinds)]
            at = Millis(self._begins_at + turn * workloads.creation_interval_ms)
            yield Row(at, self._name("Workload", recipe.class_name), spec, recipe.runtime_ms)

    def _spec(self, recipe: WorkloadRecipe, queue: str) -> WorkloadSpec:
        request = str(recipe.request)
        pod = self._templates.setdefault(request, template({CPU: request}))
        return workload_spec(queue, recipe.priority, 1, pod)

    def _name(self, kind: str, class_name: str) -> str:
        index = self._counts[kind, class_name]
        self._counts[kind, class_name] += 1
        return f"{class_name}-{index}"


# --- reading ----------------------------------------------------------------------------------------------------------


def _recipe(file: SourceFile) -> Recipe:
    slips = Slips(file.name)
    documents = parse(file.data)
    if len(documents) != 1:
        slips.tell(None, "", f"holds {len(documents)} documents; a generator file is one", "it begins with `cohorts:`")
        slips.refuse()
    document = documents[0]
    for problem in document.problems:
        slips.tell(document.line_of(problem.path), problem.path, problem.message, problem.hint)
    slips.refuse()
    reader = Reader()
    tree = reader.read(document.tree, shape_of(Recipe))
    for problem in reader.problems:
        slips.tell(document.line_of(problem.path), problem.path, problem.message, problem.hint)
    slips.refuse()
    recipe = msgspec.convert(tree, Recipe, dec_hook=decode_hook)
    _check_size(recipe, document, slips)
    slips.refuse()
    return recipe


def _check_size(recipe: Recipe, document: Document, slips: Slips) -> None:
    """Refuse huge counts: a typing error must not fill the memory."""
    queues = workloads = 0
    for cohorts in recipe.cohorts:
        for each in cohorts.queues_sets:
            queues += cohorts.count * each.count
            sets = sum(some.count * len(some.workloads) for some in each.workloads_sets)
            workloads += cohorts.count * each.count * sets
    for what, count, most in (("ClusterQueues", queues, QUEUES_MAX), ("workloads", workloads, COUNT_MAX)):
        if count > most:
            message = f"makes {count} {what}, more than the {most} that are simulated"
            slips.tell(document.line_of("cohorts"), "cohorts", message, "lower a `count`")
