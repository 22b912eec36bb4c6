"""Stored objects as placement objects. An object that cannot be read is set aside: it counts as missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from makeway.api.names import SCHEDULERS
from makeway.api.objects import kubernetes as wire
from makeway.api.objects.pods import PodSpec, PodStatus
from makeway.controllers.contract import GANG_WORKLOAD, WORKLOAD, Object, Ref, Trouble, View
from makeway.controllers.jobs.counts import may_run
from makeway.controllers.jobs.gangs import gang_in_queue, priority_in_queue
from makeway.core.lowering.placement import gated, pod_of, scheduling_workload_of
from makeway.core.model import Millis
from makeway.core.placement.model import Pod, SchedulingWorkload
from makeway.core.placement.resolution import Classes
from makeway.core.policy import Gates

T = TypeVar("T")


class PodObjectReader:
    def __init__(self, classes: Classes, gates: Gates) -> None:
        self.classes = classes
        self._gates = gates
        self._troubles: dict[Ref, Exception] = {}  # since ``take_troubles``

    def read(self, ref: Ref, lower: Callable[..., T], *of: Any) -> T | None:
        """The placement object for a stored one; None: it cannot be read."""
        self._troubles.pop(ref, None)
        try:
            return lower(*of)
        except Exception as error:
            self._troubles[ref] = error
            return None

    def read_all(self, stored: Iterable[Object], lower: Callable[[Object], T | None]) -> tuple[T, ...]:
        read = (self.read(Ref.of(each), lower, each) for each in stored)
        return tuple(each for each in read if each is not None)

    def is_set_aside(self, ref: Ref) -> bool:
        return ref in self._troubles

    def take_troubles(self) -> tuple[Trouble, ...]:
        """Objects that could not be read since the last call."""
        troubles, self._troubles = self._troubles, {}
        return tuple(Trouble(ref, error) for ref, error in troubles.items())

    def pod(self, pod: wire.Pod, known: Pod | None, now: Millis) -> Pod | None:
        """A pod that is on a node, or waits for us to choose one."""
        spec = wire.view(pod.spec, PodSpec)
        if not may_run(pod):
            return None
        if not spec.node_name and (
            pod.metadata.deletion_timestamp is not None
            or spec.scheduling_gates
            or spec.scheduler_name not in SCHEDULERS
        ):
            return None
        created = pod.metadata.creation_timestamp
        arrived = 0 if created is None else created.millis
        fresh = gated(pod_of(pod, self.classes, now, arrived=arrived, shares_network=True), self._gates)
        is_same = known is not None and known.uid == fresh.uid and (known.node is None) == (fresh.node is None)
        if known is not None and is_same and wire.view(pod.status, PodStatus).start_time is None:
            fresh = replace(fresh, start=known.start)  # until it has a time: that of its binding or first reading
        return fresh if fresh.node is None or fresh.nominated is None else replace(fresh, nominated=None)

    def workload(self, key: tuple[str, str], view: View) -> SchedulingWorkload | None:
        """A gang as the scheduler counts it; that of a queueing Workload is what its queue says, not what is stored."""
        if not self._gates.generic_workload:
            return None
        stored = view.get(Ref(GANG_WORKLOAD, *key))

        def lower() -> SchedulingWorkload | None:
            made = gang_in_queue(*key, view)
            gang = stored if made is None else made
            if gang is None:
                return None
            priority = priority_in_queue(gang, view)
            return scheduling_workload_of(gang, self.classes, in_queue=priority, gates=self._gates)

        ref: Ref = Ref(WORKLOAD, *key) if stored is None else Ref(GANG_WORKLOAD, *key)
        return self.read(ref, lower)
