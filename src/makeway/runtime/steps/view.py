"""What controllers read: the known stored objects, and the state of the scheduler."""

from __future__ import annotations

from makeway.api.objects.workload import Workload
from makeway.controllers.contract import LOCAL_QUEUE, Ref
from makeway.core.model import QueueName
from makeway.core.policy import Policy
from makeway.core.state import State
from makeway.runtime.objects import ObjectCache


class EngineView:
    """See ``controllers.contract.View``. Controllers read all the time, so the cache answers directly."""

    __slots__ = ("all", "get", "in_local_queue", "owned", "policy", "state")

    def __init__(self, state: State, objects: ObjectCache) -> None:
        self.policy: Policy = state.policy
        self.state = state
        self.get = objects.get
        self.all = objects.all
        self.owned = objects.owned
        self.in_local_queue = objects.in_local_queue

    def queue_of(self, workload: Workload) -> QueueName:
        status = workload.status
        if status is not None and status.admission is not None:
            return QueueName(status.admission.cluster_queue)
        local = self.get(Ref(LOCAL_QUEUE, workload.metadata.namespace, workload.spec.queue_name))
        return QueueName("" if local is None else local.spec.cluster_queue)
