"""Embedded mode: what a PodDisruptionBudget allows, computed from the pods that it covers.

A pod that was granted an eviction counts as gone for at most two minutes; after that it is no longer expected to go.
Expected pods are those that exist. A pod that cannot be read is expected, and not healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from makeway.api.conditions import is_true, set_condition
from makeway.api.objects.kubernetes import (
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    amended,
)
from makeway.api.objects.kubernetes import view as read
from makeway.api.objects.meta import LabelSelector
from makeway.api.quantity import Time
from makeway.controllers.contract import (
    NOTHING,
    POD,
    POD_DISRUPTION_BUDGET,
    Action,
    Change,
    Outcome,
    Ref,
    Trouble,
    View,
)
from makeway.controllers.jobs.counts import may_run, status_of_pod
from makeway.core.lowering.queues import selector_of
from makeway.core.model import Millis, selects, stored

GRANTED_MS = 120_000

replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class TellBudget:
    before: bytes
    after: Raw

    def __call__(self, budget: PodDisruptionBudget) -> PodDisruptionBudget | None:
        return replace(budget, status=self.after) if bytes(budget.status) == self.before else None


class Budgets:
    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"PodDisruptionBudget", "Pod"})

    def react(self, ref: Ref[PodDisruptionBudget | Pod], view: View, now: Millis) -> Outcome:
        if ref.kind == "Pod":  # one that is gone, or has other labels now, may have been covered
            there = view.all(POD_DISRUPTION_BUDGET)
            return Outcome(enqueue=tuple(Ref.of(each) for each in there if each.metadata.namespace == ref.namespace))
        budget = view.get(ref)
        if not isinstance(budget, PodDisruptionBudget) or budget.metadata.deletion_timestamp is not None:
            return NOTHING
        return _reconcile(budget, [each for each in view.all(POD) if each.metadata.namespace == ref.namespace], now)


def covers(selector: LabelSelector | None, pod: Pod) -> bool:
    """Whether a selector covers a pod; an empty one covers none, and a pod without labels is in none (api 12)."""
    if selector is None or not (selector.match_labels or selector.match_expressions) or not pod.metadata.labels:
        return False
    return selects(selector_of(selector) or (), pod.metadata.labels)


def _reconcile(budget: PodDisruptionBudget, pods: Iterable[Pod], now: Millis) -> Outcome:
    spec = read(budget.spec, PodDisruptionBudgetSpec)
    status = read(budget.status, PodDisruptionBudgetStatus)
    troubles: dict[Ref, Exception] = {}
    covered = [
        each for each in pods if covers(spec.selector, each) and _may_be(may_run, each, troubles, otherwise=True)
    ]
    leaving = {
        name: at for name, at in status.disrupted_pods.items()
        if now < at.millis + GRANTED_MS and _still_there(name, covered)
    }  # fmt: skip
    expected = len(covered)
    healthy = sum(_may_be(_is_healthy, each, troubles) and each.metadata.name not in leaving for each in covered)
    unread = tuple(Trouble(ref, error) for ref, error in troubles.items())
    desired = _desired(spec, expected)
    allowed = max(0, healthy - desired)
    after = amended(budget.status, {
        "expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed,
        "observedGeneration": budget.metadata.generation,
        "disruptedPods": Raw(msgspec.json.encode({name: str(at) for name, at in leaving.items()})) if leaving else None,
        "conditions": [_condition(budget, status, allowed, now)],
    })  # fmt: skip
    again_at = min((Millis(at.millis + GRANTED_MS) for at in leaving.values()), default=None)
    if msgspec.json.decode(after) == msgspec.json.decode(budget.status):
        return Outcome(again_at=again_at, troubles=unread)
    edit = TellBudget(bytes(budget.status), after)
    change = Change(Ref.of(budget), edit, uid=budget.metadata.uid, strict=True)
    return Outcome((Action(change),), again_at=again_at, troubles=unread)


def _may_be(judge: Callable[[Pod], bool], pod: Pod, troubles: dict[Ref, Exception], *, otherwise: bool = False) -> bool:
    """What a judge says of a pod; ``otherwise`` where it cannot be read."""
    try:
        return judge(pod)
    except Exception as error:
        troubles[Ref.of(pod)] = error
        return otherwise


def _still_there(name: str, pods: list[Pod]) -> bool:
    """Whether a pod that may go still exists and has not begun to go."""
    return any(each.metadata.name == name and each.metadata.deletion_timestamp is None for each in pods)


def _is_healthy(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and is_true(status_of_pod(pod).conditions, "Ready")


def _desired(spec: PodDisruptionBudgetSpec, expected: int) -> int:
    if spec.max_unavailable is not None:
        return max(0, expected - _amount(spec.max_unavailable, expected))
    return _amount(1 if spec.min_available is None else spec.min_available, expected)


def _amount(value: int | str, whole: int) -> int:
    """A number, or a percentage of the existing pods, rounded up."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    return -(-int(digits) * whole // 100) if digits.isdecimal() else 0


def _condition(
    budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus, allowed: int, now: Millis
) -> dict[str, object]:
    reason = "SufficientPods" if allowed else "InsufficientPods"
    (told,) = (
        each
        for each in set_condition(
            status.conditions, type="DisruptionAllowed", status="True" if allowed else "False", reason=reason,
            message="", now=Time.of_millis(stored(now)), observed_generation=budget.metadata.generation,
        )
        if each.type == "DisruptionAllowed"
    )  # fmt: skip
    return {
        "type": told.type, "status": told.status, "reason": told.reason, "message": "",
        "lastTransitionTime": str(told.last_transition_time), "observedGeneration": told.observed_generation,
    }  # fmt: skip
