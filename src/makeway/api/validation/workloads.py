"""Rules for the queueing Workload: what may be written, and what may change later (api 13.4, 13.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from makeway.api.equality import is_same_pod_sets
from makeway.api.names import ADMISSION_GATED_BY, OPTION_NAME, PRIORITY_BOOST
from makeway.api.objects.workload import PodSet, PodSetAssignment, Workload, WorkloadStatus
from makeway.api.problems import Problem, entry, warning
from makeway.api.reading.structure import did_you_mean, listed, told
from makeway.api.validation.fields import check_annotations, check_labels, check_tolerations
from makeway.api.validation.pods import check_pod_resources, check_template_metadata

_PAIRS = {"kueue.x-k8s.io": "WorkloadPriorityClass", "scheduling.k8s.io": "PriorityClass"}
_INT = re.compile(r"[+-]?[0-9]{1,11}")


def check_workload(workload: Workload, *, priority_boost: bool) -> Iterator[Problem]:
    spec = workload.spec
    partial = [i for i, pod_set in enumerate(spec.pod_sets) if pod_set.min_count is not None]
    if len(partial) > 1:
        message = f"minCount is set on {len(partial)} podSets, at most one may have it"
        yield Problem("spec.podSets", message, f"keep it on spec.podSets[{partial[0]}] only")
    for i, pod_set in enumerate(spec.pod_sets):
        yield from _check_pod_set(pod_set, f"spec.podSets[{i}]")
    yield from _check_priority(workload)
    if priority_boost and PRIORITY_BOOST in workload.metadata.annotations:
        yield from _check_boost(workload.metadata.annotations[PRIORITY_BOOST])
    if workload.status is not None:
        yield from _check_status(workload, workload.status)


def _check_pod_set(pod_set: PodSet, path: str) -> Iterator[Problem]:
    if pod_set.min_count is not None and pod_set.min_count > pod_set.count:
        message = f"minCount {pod_set.min_count} is more than count {pod_set.count}"
        yield Problem(path, message, "lower minCount, or raise count")
    template = msgspec.json.decode(bytes(pod_set.template))
    yield from check_template_metadata(template.get("metadata") or {}, f"{path}.template.metadata")
    yield from check_pod_resources(template.get("spec") or {}, f"{path}.template.spec", reserved="pods")


def _check_priority(workload: Workload) -> Iterator[Problem]:
    reference = workload.spec.priority_class_ref
    if reference is None:
        return
    if reference.group and reference.kind and _PAIRS[reference.group] != reference.kind:
        message = f"group {reference.group} goes with kind {_PAIRS[reference.group]}, got {reference.kind}"
        yield Problem("spec.priorityClassRef", message)
    if workload.spec.priority is None:
        yield Problem("spec.priorityClassRef", "set while priority is not", "set spec.priority to the class's value")


def _check_boost(value: str) -> Iterator[Problem]:
    if not _INT.fullmatch(value) or not -(2**31) <= int(value) < 2**31:
        message = f"{told(value)} is not a whole number of 32 bits"
        yield Problem(f"metadata.annotations[{PRIORITY_BOOST}]", message, "for example 10 or -5")


def _check_status(workload: Workload, status: WorkloadStatus) -> Iterator[Problem]:
    names = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    if holds_quota(workload) and status.admission is None:
        yield Problem("status.admission", "required while QuotaReserved is True", cause="Required")
    if status.admission is not None:
        assignments = status.admission.pod_set_assignments
        if len(assignments) != len(names):
            message = f"{len(assignments)} assignments for {len(names)} podSets"
            yield Problem("status.admission.podSetAssignments", message, "give each podSet one")
        for i, assignment in enumerate(assignments):
            yield from _check_assignment(assignment, names, f"status.admission.podSetAssignments[{i}]")
    yield from _check_reclaimable(status, names)
    yield from _check_updates(status, names)
    yield from _check_claim(status, names)
    if status.cluster_name and status.nominated_cluster_names:
        yield Problem("status.clusterName", "set together with nominatedClusterNames", "clear nominatedClusterNames")
    if workload.spec.workload_mode is None or workload.spec.workload_mode.type != "Parent":
        for name, is_set in (("options", status.options), ("admittedSince", status.admitted_since)):
            if is_set:
                message = "only a Workload with workloadMode Parent has it"
                yield Problem(f"status.{name}", message, "remove it", cause="Forbidden")


def _check_assignment(assignment: PodSetAssignment, names: dict[str, PodSet], path: str) -> Iterator[Problem]:
    if assignment.name not in names:
        yield Problem(f"{path}.name", _unknown(assignment.name, names), _near(assignment.name, names), "NotFound")
    for resource, amount in assignment.resource_usage.items():
        if assignment.count and amount.in_units(resource) % assignment.count:
            message = f"{amount} is not a multiple of count {assignment.count}"
            yield Problem(entry(f"{path}.resourceUsage", resource), message)


def _check_reclaimable(status: WorkloadStatus, names: dict[str, PodSet]) -> Iterator[Problem]:
    for pod in status.reclaimable_pods:
        path = entry("status.reclaimablePods", pod.name)
        if pod.name not in names:
            yield Problem(f"{path}.name", _unknown(pod.name, names), _near(pod.name, names), cause="NotSupported")
        elif pod.count > names[pod.name].count:
            yield Problem(f"{path}.count", f"{pod.count} is more than the podSet's count of {names[pod.name].count}")


def _check_updates(status: WorkloadStatus, names: dict[str, PodSet]) -> Iterator[Problem]:
    for i, check in enumerate(status.admission_checks):
        for j, update in enumerate(check.pod_set_updates):
            path = f"status.admissionChecks[{i}].podSetUpdates[{j}]"
            if update.name not in names:
                yield Problem(f"{path}.name", _unknown(update.name, names), _near(update.name, names), "NotSupported")
            yield from check_labels(update.labels, f"{path}.labels")
            yield from check_annotations(update.annotations, f"{path}.annotations")
            yield from check_labels(update.node_selector, f"{path}.nodeSelector")
            yield from check_tolerations(update.tolerations, f"{path}.tolerations")


def _check_claim(status: WorkloadStatus, names: dict[str, PodSet]) -> Iterator[Problem]:
    claim = status.preemption_claim
    if claim is None:
        return
    path = "status.preemptionClaim"
    if (claim.expires_at is None) == (claim.after is None):
        yield Problem(path, "exactly one of expiresAt and after must be set")
    if claim.after is not None and claim.victims:
        yield Problem(f"{path}.victims", "not allowed with after", "remove them", cause="Forbidden")
    for i, assignment in enumerate(claim.pod_set_assignments):
        if assignment.name not in names:
            where = f"{path}.podSetAssignments[{i}].name"
            yield Problem(where, _unknown(assignment.name, names), _near(assignment.name, names), "NotFound")


def _unknown(name: str, names: dict[str, PodSet]) -> str:
    return f"{told(name)} is not a podSet of this Workload; its podSets: {listed(names)}"


def _near(name: str, names: dict[str, PodSet]) -> str:
    return did_you_mean(name, list(names))


def has_condition(workload: Workload, type_: str) -> bool:
    conditions = workload.status.conditions if workload.status is not None else ()
    return any(condition.type == type_ and condition.status == "True" for condition in conditions)


def holds_quota(workload: Workload) -> bool:
    return has_condition(workload, "QuotaReserved")


# --- updates --------------------------------------------------------------------------------------------------------


def check_workload_update(old: Workload, new: Workload) -> Iterator[Problem]:
    held_before, held_throughout = holds_quota(old), holds_quota(old) and holds_quota(new)
    if held_before and not is_same_pod_sets(old.spec.pod_sets, new.spec.pod_sets):
        yield Problem("spec.podSets", "cannot be changed while quota is reserved", "stop the job first")
    if held_throughout and old.spec.queue_name != new.spec.queue_name:
        message = f"cannot be changed while quota is reserved (it is {told(old.spec.queue_name)})"
        yield Problem("spec.queueName", message)
    if held_throughout:
        yield from _check_class_update(old, new)
        yield from _check_reclaimable_update(old, new)
    if has_condition(old, "Admitted") and has_condition(new, "Admitted"):
        before, after = old.spec.maximum_execution_time_seconds, new.spec.maximum_execution_time_seconds
        if before != after:
            yield Problem("spec.maximumExecutionTimeSeconds", "cannot be changed while the Workload is admitted")
    if old.spec.workload_mode is not None and old.spec.workload_mode != new.spec.workload_mode:
        message = f"cannot be changed once set (it is {old.spec.workload_mode.type})"
        yield Problem("spec.workloadMode", message)
    yield from _check_status_update(old.status or WorkloadStatus(), new.status or WorkloadStatus())
    yield from _check_annotation_update(old, new)


def _check_class_update(old: Workload, new: Workload) -> Iterator[Problem]:
    before, after = old.spec.priority_class_ref, new.spec.priority_class_ref
    path = "spec.priorityClassRef"
    if (before is None) != (after is None):
        what = "added" if before is None else "removed"
        yield Problem(path, f"cannot be {what} while quota is reserved")
    elif before is not None and after is not None:
        for name in ("group", "kind"):
            if getattr(before, name) != getattr(after, name):
                yield Problem(f"{path}.{name}", f"cannot be changed while quota is reserved (it is {before.kind})")
        if before.group == "scheduling.k8s.io" and before.name != after.name:
            yield Problem(f"{path}.name", f"cannot be changed while quota is reserved (it is {told(before.name)})")


def _check_reclaimable_update(old: Workload, new: Workload) -> Iterator[Problem]:
    after = {pod.name: pod.count for pod in (new.status.reclaimable_pods if new.status else ())}
    for pod in old.status.reclaimable_pods if old.status else ():
        path = entry("status.reclaimablePods", pod.name)
        if pod.name not in after:
            yield Problem(path, "cannot be removed while quota is reserved", cause="Required")
        elif after[pod.name] < pod.count:
            yield Problem(path, f"count cannot be lowered from {pod.count} while quota is reserved")


def _check_status_update(old: WorkloadStatus, new: WorkloadStatus) -> Iterator[Problem]:
    if old.admission is not None and new.admission is not None and old.admission != new.admission:
        yield Problem("status.admission", "cannot be changed while set", "clear it first")
    before = {check.name: check for check in old.admission_checks}
    for i, check in enumerate(new.admission_checks):
        was = before.get(check.name)
        if was and was.state == check.state == "Ready" and was.pod_set_updates != check.pod_set_updates:
            yield Problem(f"status.admissionChecks[{i}].podSetUpdates", "cannot be changed while the check is Ready")
    if old.cluster_name and new.cluster_name and old.cluster_name != new.cluster_name:
        yield Problem("status.clusterName", f"cannot be changed (it is {told(old.cluster_name)})")
    elif new.cluster_name and not old.cluster_name and new.cluster_name not in old.nominated_cluster_names:
        nominated = listed(old.nominated_cluster_names)
        yield Problem("status.clusterName", f"{told(new.cluster_name)} was not nominated; nominated: {nominated}")


def _check_annotation_update(old: Workload, new: Workload) -> Iterator[Problem]:
    gates_before = _gate_names(old.metadata.annotations.get(ADMISSION_GATED_BY, ""))
    gates_after = _gate_names(new.metadata.annotations.get(ADMISSION_GATED_BY, ""))
    added = [name for name in gates_after if name not in gates_before]
    if added:
        path = f"metadata.annotations[{ADMISSION_GATED_BY}]"
        yield Problem(path, f"cannot be extended after creation, by {listed(added)}", cause="Forbidden")
    mode = old.spec.workload_mode
    if mode is not None and mode.type == "ResourceFlavorOption":
        before, after = old.metadata.annotations.get(OPTION_NAME), new.metadata.annotations.get(OPTION_NAME)
        if before != after:
            path = f"metadata.annotations[{OPTION_NAME}]"
            was = "not set" if before is None else told(before)
            yield Problem(path, f"cannot be changed on an Option (it is {was})")


def _gate_names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def advise_workload(workload: Workload) -> Iterator[Problem]:
    """Warnings about what is legal and most likely not meant."""
    if not workload.spec.queue_name:
        yield warning("spec.queueName", "empty: the Workload is never queued", "name a LocalQueue of its namespace")
