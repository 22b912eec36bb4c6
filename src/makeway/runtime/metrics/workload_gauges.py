"""Gauges of the status of Workloads: why one is not admitted, whether it has finished, the state of its Options.

A Workload is counted when it is stored, by the LocalQueue that it names. The ClusterQueue behind that, and whether the
two exist, are looked up when the gauges are read, so that a count is right again as soon as a queue comes or goes. A
read costs as much as there are LocalQueues and reasons, however many Workloads there are.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Literal

from makeway.api.conditions import find, is_true
from makeway.api.names import DEFAULT_NAMESPACE
from makeway.api.objects.workload import Workload, WorkloadStatus
from makeway.core.model import LocalName, QueueName, WorkloadKey
from makeway.runtime.metrics.exposition import Gauge, Labels, Number, Registry
from makeway.runtime.metrics.families import CLUSTER_QUEUE, LOCAL_QUEUE, WHY, Pair

Saying = tuple[Literal["unadmitted", "finished", "option"], Labels]
Place = tuple[LocalName, QueueName]  # the LocalQueue that it names, and the ClusterQueue of its admission, or ""
Tables = dict[Gauge, dict[Labels, Number]]


def unadmitted_because(workload: Workload) -> tuple[str, str]:
    """Reason and underlying cause: why it is not admitted, and, where that is for want of quota, why it has none."""
    conditions = (workload.status or WorkloadStatus()).conditions
    reserved, admitted = find(conditions, "QuotaReserved"), find(conditions, "Admitted")
    if reserved is None or reserved.status != "True":
        return "NoReservation", "PendingEvaluation" if reserved is None else reserved.reason
    is_late = admitted is None or admitted.reason == "NoReservation"  # it has quota, and its status does not say so yet
    return "UnsatisfiedAdmissionChecks" if admitted is None or is_late else admitted.reason, ""


class WorkloadGauges:
    def __init__(self, registry: Registry, *, local_queues: bool) -> None:
        make = registry.gauge
        self._finished_now: Pair[Gauge] = Pair(make, "finished_workloads", "Finished workloads that are still stored")
        self._unadmitted = make(
            "kueue_unadmitted_workloads",
            "Workloads that are not admitted, by the reason of Admitted=False and that of QuotaReserved=False",
            *CLUSTER_QUEUE, *WHY,
        )  # fmt: skip
        self._local_unadmitted = make(
            "kueue_local_queue_unadmitted_workloads",
            "Workloads of a LocalQueue that are not admitted, by the same reasons", *LOCAL_QUEUE, *CLUSTER_QUEUE, *WHY,
        )  # fmt: skip
        self._options = make("makeway_options", "Options of workloads that have not finished", *CLUSTER_QUEUE, "status")
        self._local_queues = local_queues
        self._seen: dict[WorkloadKey, tuple[Place, tuple[Saying, ...]]] = {}
        self._counts: dict[Place, dict[Saying, int]] = {}

    def seen(self, key: WorkloadKey, workload: Workload | None) -> None:
        """A Workload as it is stored now; None: it is gone."""
        if key in self._seen:
            self._count(*self._seen.pop(key), amount=-1)
        sayings = () if workload is None else tuple(_sayings(workload))
        if workload is not None and sayings:
            self._seen[key] = (_place(workload), sayings)
            self._count(*self._seen[key], amount=1)

    def _count(self, place: Place, sayings: tuple[Saying, ...], *, amount: int) -> None:
        counts = self._counts.setdefault(place, {})
        for saying in sayings:
            counts[saying] = counts.get(saying, 0) + amount
            if not counts[saying]:
                del counts[saying]
        if not counts:
            del self._counts[place]

    def show(self, behind: Mapping[LocalName, QueueName], queues: Container[str]) -> None:
        """``behind``: the LocalQueues that exist, and where each leads; ``queues``: the ClusterQueues that exist."""
        tables: Tables = {
            gauge: {}
            for gauge in (
                self._unadmitted, self._local_unadmitted, self._finished_now.queue, self._finished_now.local,
                self._options,
            )
        }  # fmt: skip
        for (local, admitted_in), counts in self._counts.items():
            queue = admitted_in or behind.get(local, QueueName(""))
            has_local = self._local_queues and local in behind
            for (what, labels), count in counts.items():
                owners = self._series(what, queue, local if has_local else None, is_there=queue in queues)
                for gauge, owner in owners:
                    table, series = tables[gauge], (*owner, *labels)
                    table[series] = table.get(series, 0) + count
        for gauge, table in tables.items():
            gauge.set_group("all", table)

    def _series(
        self, what: str, queue: QueueName, local: LocalName | None, *, is_there: bool
    ) -> Iterator[tuple[Gauge, Labels]]:
        """Where a condition counts. A ClusterQueue that is missing is itself why a workload is not admitted."""
        owner = () if local is None else (local[1], local[0])
        if what == "unadmitted" and queue:
            yield self._unadmitted, (queue,)
            if owner:
                yield self._local_unadmitted, (*owner, queue)
        elif what == "finished":
            if is_there:
                yield self._finished_now.queue, (queue,)
            if owner:
                yield self._finished_now.local, owner
        elif what == "option" and is_there:
            yield self._options, (queue,)


def _place(workload: Workload) -> Place:
    admission = (workload.status or WorkloadStatus()).admission
    queue = QueueName("" if admission is None else admission.cluster_queue)
    return (workload.metadata.namespace or DEFAULT_NAMESPACE, workload.spec.queue_name), queue


def _sayings(workload: Workload) -> Iterator[Saying]:
    """Options are not counted: their Parent stands for them (S-12.18). One that is being deleted is not held up."""
    mode = None if workload.spec.workload_mode is None else workload.spec.workload_mode.type
    status = workload.status or WorkloadStatus()
    if mode == "ResourceFlavorOption":
        return
    if is_true(status.conditions, "Finished"):
        yield "finished", ()
        return
    for option in status.options:
        yield "option", (option.status,)
    if not is_true(status.conditions, "Admitted") and workload.metadata.deletion_timestamp is None:
        yield "unadmitted", unadmitted_because(workload)
