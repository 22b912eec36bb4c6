"""What metrics of queues and workloads share: labels, buckets, and the pairs of both kinds of queues (api 16).

Each metric is made where it is counted: ``attempts``, ``transitions``, ``queue_gauges``, ``workload_gauges``, ``pods``,
``aside``. ``docs/reference/metrics.md`` lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from makeway.controllers.contract import CLUSTER_QUEUE as CLUSTER_QUEUE_KIND
from makeway.controllers.contract import Ref, View
from makeway.core.model import LocalName, QueueName
from makeway.runtime.metrics.exposition import Counter, Family, Histogram, Labels, Number
from makeway.runtime.steps.observers import Observer

BOUNDS: tuple[Number, ...] = (1, *(2.5 * 2**k for k in range(13)))
LONG_BOUNDS: tuple[Number, ...] = (1, *(2.5 * 2**k for k in range(15)))

# The objects whose deletion ends a series, by the labels that name them; of two in one family the first counts.
CLUSTER_QUEUE: Labels = ("cluster_queue",)
PREEMPTING_QUEUE: Labels = ("preempting_cluster_queue",)
LOCAL_QUEUE: Labels = ("name", "namespace")
COHORT: Labels = ("cohort",)
OWNERS = (LOCAL_QUEUE, CLUSTER_QUEUE, PREEMPTING_QUEUE, COHORT)

WHY: Labels = ("reason", "underlying_cause")
FLAVOR_RESOURCE: Labels = ("flavor", "resource")
HIERARCHY: Labels = ("parent_cohort", "root_cohort")

F = TypeVar("F", bound=Family)


class Pair(Generic[F]):
    """A metric of ClusterQueues and its counterpart of LocalQueues, which begins with other labels."""

    def __init__(self, make: Callable[..., F], name: str, words: str, *labels: str) -> None:
        self.queue = make(f"kueue_{name}", f"{words}, by ClusterQueue", *CLUSTER_QUEUE, *labels)
        self.local = make(f"kueue_local_queue_{name}", f"{words}, by LocalQueue", *LOCAL_QUEUE, *labels)


def add(counter: Counter, queue: QueueName, *labels: str) -> None:
    """Count for a queue; "": it does not exist, and nothing is counted."""
    if queue:
        counter.add(queue, *labels)


def observe(histogram: Histogram, value: Number, queue: QueueName, *labels: str) -> None:
    """Like ``add``."""
    if queue:
        histogram.observe(queue, *labels, value=value)


def add_both(pair: Pair[Counter], queue: QueueName, local: LocalName | None, *labels: str) -> None:
    """Count for both kinds of queues; None: not for a LocalQueue."""
    add(pair.queue, queue, *labels)
    if local is not None:
        pair.local.add(local[1], local[0], *labels)


def observe_both(pair: Pair[Histogram], value: Number, queue: QueueName, local: LocalName | None, *labels: str) -> None:
    """Like ``add_both``."""
    observe(pair.queue, value, queue, *labels)
    if local is not None:
        pair.local.observe(local[1], local[0], *labels, value=value)


class QueueObserver(Observer):
    """Counts what happens in queues. For one that does not exist nothing is counted, so that no series outlives it."""

    view: View  # of the engine that is observed

    def existing(self, queue: QueueName) -> QueueName:
        """ "" where it does not exist."""
        return QueueName("") if self.view.get(Ref(CLUSTER_QUEUE_KIND, "", queue)) is None else queue
