"""From names of PriorityClasses to the numbers that count, and pods with other numbers (S-15.1.6, S-15.8).

A Workload has two priorities: one as a preemptor, one as a victim. The second is never below the first, so that no
two Workloads can displace each other in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from makeway.api.names import SYSTEM_CLASSES
from makeway.core.placement.model import Pod, PodKey, PreemptionPolicy

MISMATCH = "PriorityMismatch"  # reasons of the condition PodsNotMatchingPriority (api 14.7)
MATCH = "PriorityMatch"
NOT_MATCHING = "PodsNotMatchingPriority"

Refusal = Literal["priorityClassNotFound", "preemptionPriorityClassNotFound", "preemptionPriorityBelowPriority"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    name: str
    value: int
    is_default: bool = False
    policy: PreemptionPolicy = "PreemptLowerPriority"


Classes = Mapping[str, PriorityClass]


@dataclass(frozen=True, slots=True, kw_only=True)
class Priorities:
    """The result of a Workload's class names."""

    priority: int = 0
    preemption_priority: int = 0
    policy: PreemptionPolicy = "PreemptLowerPriority"
    class_name: str = ""  # the named class, or the default one
    preemption_class_name: str = ""


@dataclass(frozen=True, slots=True)
class PriorityRefused:
    reason: Refusal
    name: str  # the class that is missing, or too low


def known_classes(classes: Iterable[PriorityClass]) -> dict[str, PriorityClass]:
    """By name, with those that always exist."""
    built_in = {name: PriorityClass(name=name, value=value) for name, value in SYSTEM_CLASSES.items()}
    return {**built_in, **{each.name: each for each in classes}}


def default_class(classes: Classes) -> PriorityClass | None:
    """The class of pods and Workloads that name none; of several defaults the lowest."""
    defaults = (known for known in classes.values() if known.is_default)
    return min(defaults, key=lambda known: (known.value, known.name), default=None)


def resolve(name: str, preemption_name: str, classes: Classes) -> Priorities | PriorityRefused:
    """The priorities behind two class names, empty ones unset; the first failure is the result (S-15.1.6)."""
    if name and name not in classes:
        return PriorityRefused("priorityClassNotFound", name)
    scheduling = classes[name] if name else default_class(classes)
    if preemption_name and preemption_name not in classes:
        return PriorityRefused("preemptionPriorityClassNotFound", preemption_name)
    preemption = classes[preemption_name] if preemption_name else scheduling
    value = scheduling.value if scheduling else 0
    as_victim = preemption.value if preemption else 0
    if as_victim < value:
        return PriorityRefused("preemptionPriorityBelowPriority", preemption_name)
    return Priorities(
        priority=value,
        preemption_priority=as_victim,
        policy=scheduling.policy if scheduling else "PreemptLowerPriority",
        class_name=scheduling.name if scheduling else "",
        preemption_class_name=preemption.name if preemption else "",
    )


@dataclass(frozen=True, slots=True)
class Divergence:
    """The condition ``PodsNotMatchingPriority`` of a Workload."""

    pods: tuple[PodKey, ...]  # sorted

    @property
    def status(self) -> Literal["True", "False"]:
        return "True" if self.pods else "False"

    @property
    def reason(self) -> str:
        return MISMATCH if self.pods else MATCH

    @property
    def message(self) -> str:
        return ", ".join(f"{namespace}/{name}" for namespace, name in self.pods)


def divergence(namespace: str, name: str, priority: int, pods: Iterable[Pod]) -> Divergence:
    """Live pods that name this Workload, waiting or running, and have another priority than it (S-15.8)."""
    return Divergence(
        tuple(
            sorted(
                pod.key
                for pod in pods
                if pod.key[0] == namespace
                and pod.member is not None
                and pod.member.workload == name
                and pod.priority != priority
            )
        )
    )
