"""Warnings about wishes of a pod that our pod scheduler does not fulfil, so that none is ignored in silence.

The wishes are those that the scheduler of Kubernetes fulfils, and those that its admission adds to a pod. A node itself
reports what it cannot do for a pod. Every check is one line of ``_CHECKS``; it is removed when the scheduler learns
the feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from makeway.api.names import SCHEDULERS
from makeway.api.objects.kubernetes import Job, JobSpec, Pod, view
from makeway.api.objects.meta import Wire
from makeway.api.objects.pods import PodSpec, PodTemplate
from makeway.api.objects.workload import Workload
from makeway.api.problems import Problem, warning
from makeway.api.reading.structure import short

WORDS_MAX = 1000
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def not_heeded(spec: PodSpec) -> Iterator[Problem]:
    """Warnings, one per wish. Paths begin at the spec, and messages say how the pod is placed instead.

    A pod that asks for another scheduler gets none.
    """
    if spec.scheduler_name in SCHEDULERS:
        for check in _CHECKS:
            yield from check(spec)


def in_one_line(spec: PodSpec) -> str:
    """The same warnings as one line for an event, without volumes, which the node reports; "" if there are none."""
    problems = (problem for problem in not_heeded(spec) if not problem.path.startswith("volumes["))
    words = "; ".join(f"spec.{problem.path}: {problem.message}" for problem in problems)
    return words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 1]}…"


def advise_pods(value: Wire | None) -> Iterator[Problem]:
    """The same warnings for a Pod that waits, and for the pod templates of a Job or Workload."""
    try:
        for path, spec in _specs(value):
            for problem in not_heeded(spec):
                yield warning(f"{path}.{problem.path}", f"not heeded: {problem.message}", problem.hint)
    except msgspec.MsgspecError:  # a part of a pod that no rule has checked
        return


def _specs(value: Wire | None) -> Iterator[tuple[str, PodSpec]]:
    match value:
        case Pod():
            spec = view(value.spec, PodSpec)
            if not spec.node_name:
                yield "spec", spec
        case Job():
            yield "spec.template.spec", view(view(value.spec, JobSpec).template, PodTemplate).spec
        case Workload():
            for i, pod_set in enumerate(value.spec.pod_sets):
                yield f"spec.podSets[{i}].template.spec", view(pod_set.template, PodTemplate).spec


def _preferred_pods(spec: PodSpec) -> Iterator[Problem]:
    affinity = spec.affinity
    for name, terms in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if terms.preferred:
            message = "which pods stand on a node does not make it a better or worse one"
            hint = "make it required, or prefer nodes by their labels with nodeAffinity"
            yield warning(f"affinity.{name}.{PREFERRED}", message, hint)


def _spreads(spec: PodSpec) -> Iterator[Problem]:
    for i, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.when_unsatisfiable == "ScheduleAnyway":
            message = "with ScheduleAnyway the constraint does not spread the pods"
            yield warning(f"topologySpreadConstraints[{i}].whenUnsatisfiable", message, "use DoNotSchedule")


def _claims(spec: PodSpec) -> Iterator[Problem]:
    if spec.resource_claims:
        message = "no device is allocated, and every node is as good as another"
        yield warning("resourceClaims", message, "ask for devices as a resource, for example nvidia.com/gpu")


def _volumes(spec: PodSpec) -> Iterator[Problem]:
    for i, volume in enumerate(spec.volumes):
        for name, source in (
            ("persistentVolumeClaim", volume.persistent_volume_claim),
            ("ephemeral", volume.ephemeral),
        ):
            if source is not None:
                message = "no volume is bound, and a node need not reach it"
                yield warning(f"volumes[{i}].{name}", message, "name the nodes that do with a nodeSelector")


def _scheduling_group(spec: PodSpec) -> Iterator[Problem]:
    if spec.scheduling_group is not None:
        message = "the pod is placed by itself"
        yield warning("schedulingGroup", message, "name a scheduling Workload and its group with workloadRef")


def _runtime_class(spec: PodSpec) -> Iterator[Problem]:
    if spec.runtime_class_name and not spec.overhead:
        name = short(spec.runtime_class_name)
        message = f"nodeSelector, tolerations and overhead of RuntimeClass {name} are not added to the pod"
        yield warning("runtimeClassName", message, "write them into the pod")


def _host_addresses(spec: PodSpec) -> Iterator[Problem]:
    for group, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            for j, port in enumerate(container.ports):
                if port.host_port and port.host_ip not in ("", "0.0.0.0", "::"):
                    message = f"port {port.host_port} is taken on all addresses of the node"
                    yield warning(f"{group}[{i}].ports[{j}].hostIP", message, "")


def _tolerations(spec: PodSpec) -> Iterator[Problem]:
    for i, toleration in enumerate(spec.tolerations):
        if toleration.operator in ("Lt", "Gt"):
            message = f"{toleration.operator} is read as Equal"
            yield warning(f"tolerations[{i}].operator", message, "use Equal or Exists")


_CHECKS: tuple[Callable[[PodSpec], Iterator[Problem]], ...] = (
    _preferred_pods,
    _spreads,
    _claims,
    _volumes,
    _scheduling_group,
    _runtime_class,
    _host_addresses,
    _tolerations,
)
