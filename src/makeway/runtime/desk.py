"""Questions to the live state: asked from any thread, answered by the engine's own, between two of its steps.

A question is a function of the engine and must only look; a trial that it opens is undone before it answers. The desk
is an actor beside the engine, so that an answer never sees half of a step.

Bounded: so many questions may wait, whoever asks beyond that is told to try again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

from makeway.api.documents import Tree
from makeway.api.objects.queueing import LocalQueue
from makeway.controllers.contract import Ref
from makeway.core.line import place
from makeway.core.model import Millis, QueueName, Workload
from makeway.runtime.engine import Engine
from makeway.runtime.ports import TooManyRequests

QUESTIONS_MAX = 256
ANSWERS_PER_STEP = 16  # then others have their turn
RETRY_AFTER = Millis(1_000)
VISIBILITY_VERSION = "visibility.kueue.x-k8s.io/v1beta2"

T = TypeVar("T")


class Desk:
    """See the module. ``poke`` calls the driver of the engine."""

    def __init__(self, engine: Engine, poke: Callable[[], None]) -> None:
        self._engine = engine
        self._poke = poke
        self._lock = Lock()
        self._waiting: deque[tuple[Callable[[Engine], Any], Future[Any]]] = deque()
        self._closed = False

    def ask(self, question: Callable[[Engine], T]) -> Future[T]:
        """Raises TooManyRequests where too many wait already, or where nobody answers any more."""
        answer: Future[T] = Future()
        with self._lock:
            if self._closed or len(self._waiting) >= QUESTIONS_MAX:
                raise TooManyRequests("too many questions wait for an answer", RETRY_AFTER)
            self._waiting.append((question, answer))
        self._poke()
        return answer

    def close(self) -> None:
        """Nobody will answer: those who wait are told so."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for _, answer in waiting:
            answer.cancel()

    # --- the actor ---

    def step(self, now: Millis) -> bool:
        asked = self._taken()
        for question, answer in asked:
            if answer.set_running_or_notify_cancel():  # who asked may have gone
                try:
                    answer.set_result(question(self._engine))
                except Exception as error:  # it is the asker's, and must not end the engine
                    answer.set_exception(error)
        return bool(asked)

    def next_at(self) -> Millis | None:
        return None  # who asks calls

    def _taken(self) -> Sequence[tuple[Callable[[Engine], Any], Future[Any]]]:
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(ANSWERS_PER_STEP, len(self._waiting)))]


# --- questions -------------------------------------------------------------------------------------------------------


def metrics_text(engine: Engine) -> str:
    """All metrics, gauges brought up to date."""
    metrics = engine.metrics
    if metrics is None:
        return ""
    metrics.refresh(engine)
    return metrics.text()


def pending_workloads(
    engine: Engine, namespace: str | None, queue: str, offset: int, limit: int
) -> Mapping[str, Tree] | None:
    """A PendingWorkloadsSummary of a ClusterQueue, or of a LocalQueue of ``namespace``; None: no such queue."""
    cluster_queue, local = QueueName(queue), None
    if namespace is not None:
        local = engine.get(Ref("LocalQueue", namespace, queue))
        if not isinstance(local, LocalQueue):
            return None
        cluster_queue = QueueName(local.spec.cluster_queue)
    elif engine.get(Ref("ClusterQueue", "", queue)) is None:
        return None
    found = (
        each
        for each in _positions(engine, cluster_queue)
        if local is None or (each["metadata"]["namespace"], each["localQueueName"]) == (namespace, queue)
    )
    return {
        "apiVersion": VISIBILITY_VERSION,
        "kind": "PendingWorkloadsSummary",
        "metadata": {},
        "items": list(islice(found, offset, offset + limit)),
    }


def in_queue_order(engine: Engine, queue: QueueName) -> list[Workload]:
    """All who wait in a ClusterQueue, parked ones too, in the order of the queue."""
    line = engine.state.pending.lines.get(queue)
    return [] if line is None else sorted(line.members.values(), key=place)


def _positions(engine: Engine, queue: QueueName) -> Iterator[dict[str, Any]]:
    in_local_queue: dict[tuple[str, str], int] = {}
    for position, workload in enumerate(in_queue_order(engine, queue)):
        namespace, _, name = workload.key.partition("/")
        stored = engine.get(Ref("Workload", namespace, name))
        if stored is None:
            continue
        meta, local = stored.metadata, (namespace, stored.spec.queue_name)
        there = in_local_queue.get(local, 0)
        in_local_queue[local] = there + 1
        yield {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": meta.uid,
                "creationTimestamp": str(meta.creation_timestamp or ""),
                "ownerReferences": [
                    {"apiVersion": each.api_version, "kind": each.kind, "name": each.name, "uid": each.uid}
                    for each in meta.owner_references
                ],
            },
            "priority": workload.priority,
            "localQueueName": stored.spec.queue_name,
            "positionInClusterQueue": position,
            "positionInLocalQueue": there,
        }
