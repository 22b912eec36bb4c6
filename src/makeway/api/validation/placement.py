"""What a pod asks for and our pod scheduler does not do, so that nothing is ignored in silence.

Only what Kubernetes' scheduler heeds is told, and what its admission adds to a pod for it: what a pod asks of the node
that runs it is for the node to tell. Each check below is one line of ``_CHECKS``, and goes when the scheduler
learns what it tells of.
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
    """Warnings, one per thing: paths begin at the spec, and messages say how the pod is placed instead.

    None for a pod that asks for another scheduler.
    """
    if spec.scheduler_name in SCHEDULERS:
        for check in _CHECKS:
            yield from check(spec)


def in_one_line(spec: PodSpec) -> str:
    """The same as one line for an event; the node reports missing volumes itself. "": there is nothing to say."""
    found = (each for each in not_heeded(spec) if not each.path.startswith("volumes["))
    words = "; ".join(f"spec.{each.path}: {each.message}" for each in found)
    return words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 1]}…"


def advise_pods(value: Wire | None) -> Iterator[Problem]:
    """What is not heeded of a Pod that waits, and of the pod templates of a Job or Workload."""
    try:
        for path, spec in _specs(value):
            for each in not_heeded(spec):
                yield warning(f"{path}.{each.path}", f"not heeded: {each.message}", each.hint)
    except msgspec.MsgspecError:  # a part of a pod that no rule has judged
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
            for i, each in enumerate(value.spec.pod_sets):
                yield f"spec.podSets[{i}].template.spec", view(each.template, PodTemplate).spec


def _preferred_pods(spec: PodSpec) -> Iterator[Problem]:
    affinity = spec.affinity
    for name, found in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if found.preferred:
            message = "which pods stand on a node does not make it a better or worse one"
            hint = "make it required, or prefer nodes by their labels with nodeAffinity"
            yield warning(f"affinity.{name}.{PREFERRED}", message, hint)


def _spreads(spec: PodSpec) -> Iterator[Problem]:
    for i, each in enumerate(spec.topology_spread_constraints):
        if each.when_unsatisfiable == "ScheduleAnyway":
            message = "with ScheduleAnyway the constraint does not spread the pods"
            yield warning(f"topologySpreadConstraints[{i}].whenUnsatisfiable", message, "use DoNotSchedule")


def _claims(spec: PodSpec) -> Iterator[Problem]:
    if spec.resource_claims:
        message = "no device is allocated, and every node is as good as another"
        yield warning("resourceClaims", message, "ask for devices as a resource, for example nvidia.com/gpu")


def _volumes(spec: PodSpec) -> Iterator[Problem]:
    for i, each in enumerate(spec.volumes):
        for name, found in (("persistentVolumeClaim", each.persistent_volume_claim), ("ephemeral", each.ephemeral)):
            if found is not None:
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
    for i, each in enumerate(spec.tolerations):
        if each.operator in ("Lt", "Gt"):
            message = f"{each.operator} is read as Equal"
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
