"""Rules for the pod-scheduling Workload (api 13.8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from makeway.api.names import SYSTEM_CLASSES
from makeway.api.objects.scheduling import GangWorkload, PodGroup
from makeway.api.problems import Problem
from makeway.api.reading.structure import did_you_mean, told

_NOT_A_SEGMENT = re.compile(r"^\.\.?$|[/%]")


def check_gang_workload(
    workload: GangWorkload, priority_classes: Mapping[str, int] | None, default_class: str = ""
) -> Iterator[Problem]:
    """Check a new or changed Workload. ``priority_classes`` are the classes that exist; None: unknown."""
    spec = workload.spec
    for i, group in enumerate(spec.pod_groups):
        count = (group.policy.basic is not None) + (group.policy.gang is not None)
        if count != 1:
            message = f"exactly one of basic and gang must be set, got {'both' if count else 'none'}"
            yield Problem(f"spec.podGroups[{i}].policy", message)
    reference = spec.controller_ref
    if reference is not None:
        for name, value in (("kind", reference.kind), ("name", reference.name)):
            if value and _NOT_A_SEGMENT.search(value):
                message = f"{told(value)} cannot be part of a path"
                yield Problem(f"spec.controllerRef.{name}", message, "it has a / or %, or is . or ..")
    if priority_classes is not None:
        yield from _check_classes(workload, {**priority_classes, **SYSTEM_CLASSES}, default_class)


def check_gang_workload_update(old: GangWorkload, new: GangWorkload) -> Iterator[Problem]:
    """Only ``minCount`` of its groups may change: a gang with finished members needs fewer (decision 0062)."""
    before, after = (sorted(map(_fixed_part, workload.spec.pod_groups)) for workload in (old, new))
    if before != after:
        hint = "of a gang only minCount may change; make another Workload for other groups"
        yield Problem("spec.podGroups", "cannot be changed after creation", hint)


def _fixed_part(group: PodGroup) -> tuple[str, bool, str]:
    """The part that must not change: which pods a group has and how they are treated, but not how many it needs."""
    basic, gang = group.policy.basic, group.policy.gang
    return group.name, basic is not None, "" if gang is None else gang.preemption_mode


def _check_classes(workload: GangWorkload, classes: Mapping[str, int], default_class: str) -> Iterator[Problem]:
    spec = workload.spec
    missing = False
    for name, value in (
        ("priorityClassName", spec.priority_class_name),
        ("preemptionPriorityClassName", spec.preemption_priority_class_name),
    ):
        if value and value not in classes:
            missing = True
            hint = did_you_mean(value, sorted(classes))
            yield Problem(f"spec.{name}", f"no PriorityClass is called {told(value)}", hint, cause="Forbidden")
    if spec.preemption_priority_class_name and not missing:
        scheduling = spec.priority_class_name or default_class
        priority = classes.get(scheduling, 0)
        preemption = classes[spec.preemption_priority_class_name]
        if preemption < priority:
            whose = told(scheduling) if scheduling else "a Workload without a class"
            if scheduling and not spec.priority_class_name:
                whose += ", the default class"
            message = (
                f"{told(spec.preemption_priority_class_name)} has value {preemption}, below the {priority} of {whose}"
            )
            yield Problem("spec.preemptionPriorityClassName", message, "a victim is never less than a preemptor")


def check_classes(
    workload: GangWorkload, priority_classes: Mapping[str, int], default_class: str = ""
) -> Iterator[Problem]:
    """Check that its classes exist, and give it no lower priority as a victim than as a preemptor (S-15.1.6)."""
    yield from _check_classes(workload, {**priority_classes, **SYSTEM_CLASSES}, default_class)
