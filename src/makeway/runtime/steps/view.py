"""What controllers read: the stored objects as far as they are known, and the state of the scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from makeway.api.objects.workload import Workload
from makeway.controllers.contract import LOCAL_QUEUE, KindName, Object, Ref
from makeway.core.model import QueueName
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.runtime.objects import ObjectCache


class EngineView:
    """See ``controllers.contract.View``."""

    __slots__ = ("_objects", "policy", "state")

    def __init__(self, state: State, objects: ObjectCache) -> None:
        self.policy: Policy = state.policy
        self.state = state
        self._objects = objects

    def get(self, ref: Ref[Object]) -> Object | None:
        return self._objects.get(ref)

    def all(self, kind: KindName[Object]) -> Iterable[Object]:
        return self._objects.all(kind)

    def owned(self, uid: str, kind: KindName[Object]) -> Iterable[Object]:
        return self._objects.owned(uid, kind)

    def in_local_queue(self, namespace: str, name: str) -> Iterable[Workload]:
        return self._objects.in_local_queue(namespace, name)

    def queue_of(self, workload: Workload) -> QueueName:
        status = workload.status
        if status is not None and status.admission is not None:
            return QueueName(status.admission.cluster_queue)
        local = self._objects.get(Ref(LOCAL_QUEUE, workload.metadata.namespace, workload.spec.queue_name))
        return QueueName("" if local is None else local.spec.cluster_queue)
