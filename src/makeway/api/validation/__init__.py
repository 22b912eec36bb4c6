"""The only place that refuses user input. All code after it may assume valid objects.

``codec.read`` has checked types and limits, which the shapes of the kinds contain. The rules here are those that no
shape contains: between fields, and about what may change in an update. All problems of an object are returned at once.
The server, the webhooks, the command line and the simulator call the same two functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Raw

from makeway.api import codec
from makeway.api.gates import GATES
from makeway.api.objects import queueing
from makeway.api.objects.configuration import Configuration
from makeway.api.objects.custom import CustomObject
from makeway.api.objects.kubernetes import (
    NOTHING,
    ConfigMap,
    Event,
    Job,
    JobSpec,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PriorityClass,
    Secret,
    view,
)
from makeway.api.objects.meta import Wire, ready
from makeway.api.objects.pods import PodSpec, PodStatus, PodTemplate
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.objects.workload import Workload
from makeway.api.problems import Problem, has_errors
from makeway.api.schema.shapes import Record, shape_of
from makeway.api.validation import data, events, pod_updates, pods, queues, scheduling, workloads
from makeway.api.validation.configuration import check_configuration
from makeway.api.validation.fields import check_metadata
from makeway.api.versions import Kind, kind_of

__all__ = ["ValidationContext", "validate", "validate_update"]


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """What a rule may need beyond the object: feature gates, and the PriorityClasses that exist (None: unknown)."""

    gates: Mapping[str, bool] = field(default_factory=dict)
    priority_classes: Mapping[str, int] | None = None
    default_class: str = ""  # the class of pods that name none

    def on(self, gate: str) -> bool:
        return self.gates.get(gate, GATES[gate].ours)


ANYWHERE = ValidationContext()


@ready
class _Templated(Wire, frozen=True):
    """The template of a Job's spec alone: other fields may hold values that were refused."""

    template: Raw = NOTHING


def validate(value: Wire, context: ValidationContext = ANYWHERE, *, created_as: Kind | None = None) -> list[Problem]:
    """Every rule that the object breaks on its own, and warnings about what is legal but surely not meant.

    ``created_as``: on create, the kind that it was written in: a view may have more rules.
    """
    problems: list[Problem] = []
    metadata = getattr(value, "metadata", None)
    if metadata is not None and not isinstance(value, Configuration):
        is_namespaced = isinstance(value, CustomObject) or kind_of(type(value)).namespaced
        problems.extend(check_metadata(metadata, namespaced=is_namespaced))
    problems.extend(_rules(value, context))
    if isinstance(value, Event) and created_as is not None and created_as.view_of:
        problems.extend(events.check_new_event(value))
    if not has_errors(problems):
        problems.extend(_readable(value))
    return problems


def _readable(value: Wire) -> Iterator[Problem]:
    """Check raw parts of Kubernetes kinds as controllers and schedulers will read them."""
    match value:
        case Pod():
            yield from pods.check_readable(value.spec, PodSpec, "spec")
            yield from pods.check_readable(value.status, PodStatus, "status")
        case Job():
            yield from pods.check_readable(value.spec, JobSpec, "spec")
            yield from pods.check_readable(view(value.spec, _Templated).template, PodTemplate, "spec.template")
        case Node():
            yield from pods.check_readable(value.spec, NodeSpec, "spec")
            yield from pods.check_readable(value.status, NodeStatus, "status")
        case PodDisruptionBudget():
            yield from pods.check_readable(value.spec, PodDisruptionBudgetSpec, "spec")
            yield from pods.check_readable(value.status, PodDisruptionBudgetStatus, "status")
        case Workload():
            for i, pod_set in enumerate(value.spec.pod_sets):
                yield from pods.check_readable(pod_set.template, PodTemplate, f"spec.podSets[{i}].template")


def _rules(value: Wire, context: ValidationContext) -> Iterator[Problem]:
    match value:
        case Workload():
            yield from workloads.check_workload(value, priority_boost=context.on("PriorityBoost"))
            yield from workloads.advise_workload(value)
        case queueing.ClusterQueue():
            yield from queues.check_cluster_queue(value)
        case queueing.Cohort():
            yield from queues.check_cohort(value)
        case queueing.ResourceFlavor():
            yield from queues.check_resource_flavor(value)
        case queueing.LocalQueue():
            yield from queues.check_local_queue(value)
        case queueing.MultiKueueCluster():
            yield from queues.check_multikueue_cluster(value)
        case queueing.MultiKueueConfig():
            yield from queues.check_multikueue_config(value)
        case GangWorkload():
            yield from scheduling.check_gang_workload(value, context.priority_classes, context.default_class)
        case Job():
            yield from pods.check_job(value)
        case Pod():
            yield from pods.check_pod(value)
        case PriorityClass():
            yield from pods.check_priority_class(value)
        case Event():
            yield from events.check_event(value)
        case ConfigMap() | Secret():
            yield from data.check_data(value)
        case Configuration():
            yield from check_configuration(value)


def validate_update(
    old: Wire, new: Wire, context: ValidationContext = ANYWHERE, *, updated_as: Kind | None = None
) -> list[Problem]:
    """Every rule that ``new`` breaks as an update of ``old``, with the rules for ``new`` on its own.

    ``updated_as``: the kind that it was written in: a view may have more rules.
    """
    problems = [problem for problem in validate(new, context) if not _excused(problem, old, new, context)]
    problems.extend(_immutable(codec.to_tree(old), codec.to_tree(new), shape_of(type(new)), ""))
    match old, new:
        case Workload(), Workload():
            problems.extend(workloads.check_workload_update(old, new))
        case queueing.ResourceFlavor(), queueing.ResourceFlavor():
            problems.extend(queues.check_resource_flavor_update(old, new))
        case GangWorkload(), GangWorkload():
            problems.extend(scheduling.check_gang_workload_update(old, new))
        case Pod(), Pod():
            problems.extend(pod_updates.check_pod_update(old, new))
        case Job(), Job():
            problems.extend(pod_updates.check_job_update(old, new))
        case Event(), Event() if updated_as is not None and updated_as.view_of:
            problems.extend(events.check_event_update(old, new))
    return problems


def _immutable(old: Mapping[str, object], new: Mapping[str, object], shape: Record, path: str) -> Iterator[Problem]:
    for name, member in shape.fields.items():
        here = f"{path}.{name}" if path else name
        before, after = old.get(name), new.get(name)
        if member.limit.immutable and before != after:
            what = "set" if before is None else "removed" if after is None else "changed"
            yield Problem(here, f"cannot be {what} after creation")
        elif isinstance(member.shape, Record) and isinstance(before, dict) and isinstance(after, dict):
            yield from _immutable(before, after, member.shape, here)


def _excused(problem: Problem, old: Wire, new: Wire, context: ValidationContext) -> bool:
    """Whether the problem is accepted because it is not new.

    An onFlavors list that was wrong may stay wrong while neither it nor the flavors change (api 2.5). Data that was too
    large may become smaller step by step.
    """
    if problem.cause == "TooLong" and isinstance(old, ConfigMap | Secret) and isinstance(new, ConfigMap | Secret):
        return data.data_bytes(new) <= data.data_bytes(old)
    if not isinstance(old, queueing.ClusterQueue) or not isinstance(new, queueing.ClusterQueue):
        return False
    if ".onFlavors[" not in problem.path or context.on("RejectUpdatesToCQWithInvalidOnFlavors"):
        return False
    return queues.is_excused(problem, old.spec, new.spec)
