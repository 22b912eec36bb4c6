"""Entries of journal and metrics about a decision on a pod or a gang."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from makeway.api.objects.kubernetes import Pod
from makeway.controllers.contract import PlacementAttempt, Placing
from makeway.controllers.pods.edits import NOT_WHOLE, whose
from makeway.controllers.pods.items import name_of
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import CycleAnswer
from makeway.core.placement.model import ForGroup, PodKey, Preemptor


def attempt_of(
    state: ClusterState, item: Preemptor, answer: CycleAnswer, *, is_unprompted: bool
) -> PlacementAttempt:  # fmt: skip
    """``is_unprompted``: no change that could help the item had been noticed."""
    units = {pod.member or pod.key for key in answer.actuated if (pod := state.pods[key])}
    return PlacementAttempt(
        is_gang=isinstance(item, ForGroup),
        result="scheduled" if answer.bound else "unschedulable",
        has_searched=not answer.bound and answer.reason is None,
        victims=len(answer.actuated),
        disrupted=len(units),
        violations=answer.violations,
        is_missed=is_unprompted and bool(answer.bound or answer.actuated),
    )


def placing_of(item: Preemptor, answer: CycleAnswer, decision: str, first: Pod | None) -> Placing:
    """``first``: a pod of the item as it is stored."""
    workload = None if first is None else whose(first)
    victims = tuple("/".join(key) for key in answer.actuated)
    if answer.bound or victims:
        what: Literal["placed", "displacing"] = "placed" if answer.bound else "displacing"
        return Placing(name_of(item), what, workload, decision, "", victims, answer.why)
    reason = answer.reason or "unschedulable"
    return Placing(name_of(item), "unplaced", workload, decision, reason, steps=answer.why)


def released(unplaced: Placing, standing: Sequence[PodKey]) -> Placing:
    """The placed pods of a stranded gang are released; ``unplaced`` said why the rest has no place."""
    pods = tuple("/".join(key) for key in standing)
    return unplaced._replace(what="released", reason=NOT_WHOLE, victims=pods, steps=())
