"""What may change in an existing pod or Job, as in Kubernetes.

The containers were started from the pod, so only a few of its fields may change. A Job may change how it is run, but
not what it runs. While it is suspended and has not started, it may also change where its pods may run.

Fields are compared by their meaning (``api.equality``): a client that writes back what it read has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from makeway.api.equality import meanings
from makeway.api.names import WORKLOAD_REF
from makeway.api.objects.kubernetes import Job, Pod
from makeway.api.problems import Problem

JsonObject = dict[str, Any]
FIXED = "cannot be changed after creation"
_OPEN = "image of containers, activeDeadlineSeconds, more tolerations, fewer schedulingGates"
_JOB_FIXED = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_WHERE = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def check_pod_update(old: Pod, new: Pod) -> Iterator[Problem]:
    before, after = meanings(old.spec, new.spec, "PodSpec")
    if before.get("workloadRef") != after.get("workloadRef"):
        yield Problem("spec.workloadRef", FIXED)
    if old.metadata.annotations.get(WORKLOAD_REF) != new.metadata.annotations.get(WORKLOAD_REF):
        yield Problem(f"metadata.annotations[{WORKLOAD_REF}]", FIXED)
    gates = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    if any(gate.get("name") not in gates for gate in after.get("schedulingGates") or ()):
        yield Problem("spec.schedulingGates", "only removal is allowed once the pod is created", cause="Forbidden")
    kept = after.get("tolerations") or ()
    if any(toleration not in kept for toleration in before.get("tolerations") or ()):
        yield Problem("spec.tolerations", "existing tolerations cannot be changed or removed", cause="Forbidden")
    is_open = bool(gates)  # the scheduler has not searched for a node yet
    if _fixed_part(before, is_open) != _fixed_part(after, is_open):
        yield Problem("spec", f"pod updates may not change fields other than {_OPEN}", cause="Forbidden")


def _fixed_part(spec: JsonObject, is_open: bool) -> JsonObject:
    """The part of a pod that must not change."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates", "workloadRef", *(_WHERE if is_open else ())}
    kept = {name: value for name, value in spec.items() if name not in free and value != {}}
    for group in ("containers", "initContainers"):
        if group in kept:
            kept[group] = [{name: value for name, value in one.items() if name != "image"} for one in kept[group]]
    return kept


def check_job_update(old: Job, new: Job) -> Iterator[Problem]:
    before, after = meanings(old.spec, new.spec, "JobSpec")
    for name in _JOB_FIXED:
        if before.get(name) != after.get(name):
            yield Problem(f"spec.{name}", "field is immutable")
    if before.get("completions") != after.get("completions") and not _is_elastic(before, after):
        yield Problem("spec.completions", "field is immutable")
    has_started = bool(msgspec.json.decode(bytes(old.status)).get("startTime"))
    is_open = bool(before.get("suspend")) and not has_started
    if _fixed_template(before, is_open) != _fixed_template(after, is_open):
        hint = "" if is_open else "while it is suspended and has not started, where its pods may run can be changed"
        yield Problem("spec.template", "field is immutable", hint)


def _is_elastic(before: JsonObject, after: JsonObject) -> bool:
    """Whether the Job may grow and shrink: it is indexed, and all of its pods run at once."""
    specs = (before, after)
    return all(
        spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism", 1)
        for spec in specs
    )


def _fixed_template(spec: JsonObject, is_open: bool) -> JsonObject:
    template: JsonObject = spec.get("template") or {}
    if not is_open:
        return template
    metadata, pod = template.get("metadata") or {}, template.get("spec") or {}
    named = {name: value for name, value in metadata.items() if name not in ("labels", "annotations")}
    return {"metadata": named, "spec": {name: value for name, value in pod.items() if name not in _WHERE}}
