"""Questions to the live state: asked from any thread, answered in the thread that owns it, between two of its steps.

The state is never copied and never locked: a caller hands in a function and gets a future. A question waits for the
step that runs. The queue is bounded: while too many wait, a caller is told to come back. A question whose future is
cancelled is not answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import Any, TypeVar

from makeway.api.reading.documents import Tree
from makeway.controllers.contract import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, Ref, View
from makeway.core.model import Millis, QueueName
from makeway.core.queueing.positions import Position, positions
from makeway.runtime.ports import TooManyRequests, Unavailable

WAITING_MAX = 64
ANSWERS_PER_STEP = 8
RETRY_AFTER = Millis(1000)
VISIBILITY = "visibility.kueue.x-k8s.io/v1beta2"

T = TypeVar("T")
Question = Callable[[View, Millis], T]


class QueryQueue:
    """An actor beside the engine. It calls ``poke`` when there is a question."""

    def __init__(self, view: View, poke: Callable[[], None], *, waiting_max: int = WAITING_MAX) -> None:
        self._view = view
        self._poke = poke
        self._waiting_max = waiting_max
        self._closed = False
        self._waiting: deque[tuple[Question[Any], Future[Any]]] = deque()

    def ask(self, question: Question[T]) -> Future[T]:
        """From any thread. Raises TooManyRequests and Unavailable. A caller that waits no longer cancels the future."""
        if self._closed:
            raise Unavailable("the engine has stopped", RETRY_AFTER)
        if len(self._waiting) >= self._waiting_max:
            raise TooManyRequests("too many questions are waiting", RETRY_AFTER)
        answer: Future[T] = Future()
        self._waiting.append((question, answer))
        self._poke()
        return answer

    def step(self, now: Millis) -> bool:
        """Answer some of the questions that wait; return whether there were any."""
        count = min(len(self._waiting), ANSWERS_PER_STEP)
        for _ in range(count):
            question, answer = self._waiting.popleft()
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(question(self._view, now))
                except Exception as error:  # the error belongs to the caller
                    answer.set_exception(error)
        return count > 0

    def next_at(self) -> Millis | None:
        return None  # a caller pokes

    def close(self) -> None:
        """The engine has stopped: waiting callers are told so, and new questions are refused."""
        self._closed = True
        while self._waiting:
            answer = self._waiting.popleft()[1]
            if answer.set_running_or_notify_cancel():
                answer.set_exception(Unavailable("the engine has stopped", RETRY_AFTER))


def pending_workloads(
    view: View, namespace: str | None, queue: str, *, offset: int, limit: int
) -> Mapping[str, Tree] | None:
    """Pending workloads of a ClusterQueue (``namespace`` None) or LocalQueue, for the visibility API (conventions 4.1).

    None where there is no such queue.
    """
    if namespace is None:
        behind = None if view.get(Ref(CLUSTER_QUEUE, "", queue)) is None else queue
    else:
        local = view.get(Ref(LOCAL_QUEUE, namespace, queue))
        behind = None if local is None else local.spec.cluster_queue
    if behind is None:
        return None
    chosen = (
        each
        for each in positions(view.state, QueueName(behind))
        if namespace is None or (each.workload.namespace, each.workload.local_queue) == (namespace, queue)
    )
    items = [_item(view, each) for each in islice(chosen, offset, offset + limit)]
    return {"apiVersion": VISIBILITY, "kind": "PendingWorkloadsSummary", "metadata": {}, "items": items}


def _item(view: View, position: Position) -> dict[str, Tree]:
    workload = position.workload
    namespace, _, name = workload.key.partition("/")
    stored = view.get(Ref(WORKLOAD, namespace, name))
    metadata: dict[str, Tree] = {"name": name, "namespace": namespace}
    if stored is not None:
        created = stored.metadata.creation_timestamp
        owners = stored.metadata.owner_references
        metadata |= {"creationTimestamp": None if created is None else str(created)}
        if owners:
            metadata["ownerReferences"] = [
                {"apiVersion": each.api_version, "kind": each.kind, "name": each.name, "uid": each.uid}
                for each in owners
            ]
    return {
        "metadata": metadata, "priority": workload.priority, "localQueueName": workload.local_queue,
        "positionInClusterQueue": position.in_queue, "positionInLocalQueue": position.in_local_queue,
    }  # fmt: skip
