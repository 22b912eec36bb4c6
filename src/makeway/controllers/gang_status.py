"""What a scheduling Workload is told: its priorities, where nobody filled them in, and of pods with others (S-15.8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from makeway.api.conditions import Status, find, set_condition
from makeway.api.objects.scheduling import GangWorkload, GangWorkloadStatus
from makeway.api.quantity import Time
from makeway.controllers.contract import Action, Change, Ref
from makeway.core.model import Millis, stored
from makeway.core.placement.model import SchedulingWorkload
from makeway.core.placement.nodes import Placement
from makeway.core.placement.resolution import NOT_MATCHING, divergence

MESSAGE_MAX = 32_768  # as long as a condition's message may be

replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class TellGang:
    """The condition about its pods, and what ``known`` says of its priorities where the status says nothing."""

    known: SchedulingWorkload
    status: Status
    reason: str
    message: str
    at: Millis

    def __call__(self, gang: Any) -> Any:
        status = self._filled(gang.status or GangWorkloadStatus())
        told = find(status.conditions, NOT_MATCHING)
        if told is not None and (told.status, told.reason, told.message) == (self.status, self.reason, self.message):
            return gang if status == gang.status else replace(gang, status=status)
        conditions = set_condition(
            status.conditions, type=NOT_MATCHING, status=self.status, reason=self.reason, message=self.message,
            now=Time.of_millis(stored(self.at)),
        )  # fmt: skip
        return replace(gang, status=replace(status, conditions=conditions))

    def _filled(self, status: GangWorkloadStatus) -> GangWorkloadStatus:
        known = self.known
        return replace(
            status,
            priority=known.priority if status.priority is None else status.priority,
            preemption_priority=(
                known.preemption_priority if status.preemption_priority is None else status.preemption_priority
            ),
            preemption_policy=status.preemption_policy or known.policy,
        )


def told_gang(gang: GangWorkload, state: Placement, now: Millis) -> Iterator[Action]:
    """The status of a Workload, where it is another than the stored one."""
    meta = gang.metadata
    known = state.workloads.get((meta.namespace, meta.name))
    if known is None or meta.deletion_timestamp is not None:
        return
    pods = (state.pods[key] for key in state.referring(meta.namespace, meta.name))
    found = divergence(meta.namespace, meta.name, known.priority, pods)
    edit = TellGang(known, found.status, found.reason, found.message[:MESSAGE_MAX], now)
    if edit(gang) is not gang:
        yield Action(Change(Ref.of(gang), edit, uid=meta.uid))
