"""Reads and lowers objects. One that cannot be read counts as not there, and is set aside (0081).

A Workload with quota is the exception: the quota in its status counts, because its pods may well run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from makeway.api.objects.kubernetes import LimitRange, RuntimeClass
from makeway.api.objects.workload import Workload as WireWorkload
from makeway.controllers.contract import KindName, Object, Ref
from makeway.core.lowering import LoweringContext, is_queueable, workload_of
from makeway.core.lowering.workloads import is_accounted
from makeway.core.model import QueueName, Workload
from makeway.runtime.set_aside import Probe
from makeway.runtime.updates.context import CYCLE, LOWERING, UpdateContext

T = TypeVar("T")


class ObjectReader:
    """``probe``: called before an object is read, to test what happens when that fails."""

    def __init__(self, context: UpdateContext, probe: Probe | None) -> None:
        self._context = context
        self._probe = probe
        self.queue_of: dict[tuple[str, str], QueueName] = {}  # LocalQueues that are not stopped
        self.limit_ranges: dict[str, tuple[LimitRange, ...]] = {}
        self.runtime_classes: dict[str, RuntimeClass] = {}
        policy = context.state.policy
        self._lowering = LoweringContext(policy, self.queue_of, self.limit_ranges, self.runtime_classes)

    def forget_lowered(self) -> None:
        """The meaning of pods has changed, though the pods have not."""
        self._lowering.forget_lowered()

    def read(self, ref: Ref, lower: Callable[[], T]) -> T | None:
        """The lowered object; None: it cannot be read, and is set aside."""
        try:
            if self._probe is not None:
                self._probe(LOWERING, ref)
            found = lower()
        except Exception as error:
            self._context.set_aside.put(ref, LOWERING, error, self._context.now)
            return None
        self._context.handled(ref, LOWERING)
        return found

    def all(self, kind: KindName[Object], lower: Callable[[Object], T]) -> list[T]:
        """All objects of a kind that can be read."""
        stored = self._context.objects.all(kind)
        found = (self.read(Ref.of(value), lambda value=value: lower(value)) for value in stored)  # type: ignore[misc]
        return [value for value in found if value is not None]

    def may_wait(self, workload: WireWorkload) -> bool:
        return is_queueable(workload, heeds_gates=self._context.state.policy.gates.admission_gated_by)

    def workload(self, ref: Ref[WireWorkload], workload: WireWorkload) -> Workload | None:
        """A lowered Workload, with or without quota."""
        return self.read(ref, lambda: workload_of(workload, self._lowering))

    def waiting_or_holding(self, ref: Ref[WireWorkload], workload: WireWorkload) -> Workload | None:
        """A Workload that has quota, or waits for it; None: it does neither, or cannot be read."""
        holds = is_accounted(workload)
        if not holds and not self.may_wait(workload):
            self._context.handled(ref, LOWERING, CYCLE)  # it is not evaluated any more
            return None
        lowered = self.workload(ref, workload)
        if lowered is None and not holds:
            self._context.follow_ups.unread[ref] = None
        if lowered is not None or not holds:
            return lowered
        try:
            return workload_of(workload, self._lowering, asks=False)
        except Exception as error:
            self._context.set_aside.put(ref, f"{LOWERING}.quota", error, self._context.now)
            return None

    def is_unread(self, ref: Ref) -> bool:
        return self._context.set_aside.cause(ref, LOWERING) is not None
