"""Rules for the parts of pods, pod templates and jobs that makeway acts on; a Kubernetes API server checks the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from makeway.api.forms import LABEL_HINT, NAME_HINT, is_label, is_subdomain
from makeway.api.names import COMPLETIONS_EQUAL_PARALLELISM, MAX_EXEC_TIME_LABEL, MIN_PARALLELISM, WORKLOAD_REF
from makeway.api.objects.kubernetes import Job, Pod, PriorityClass, view
from makeway.api.problems import Problem, entry, warning
from makeway.api.quantity import Quantity
from makeway.api.reading.documents import joined
from makeway.api.reading.structure import told
from makeway.api.validation.fields import check_annotations, check_labels

JsonObject = dict[str, Any]
_INT = re.compile(r"[0-9]{1,10}")


def check_template_metadata(metadata: JsonObject, path: str) -> Iterator[Problem]:
    yield from check_labels(metadata.get("labels") or {}, f"{path}.labels")
    yield from check_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
    for name in metadata:
        if name not in ("labels", "annotations"):
            yield warning(joined(path, name), "without effect in a pod template", "keep labels and annotations only")


def check_pod_resources(spec: JsonObject, path: str, *, reserved: str = "") -> Iterator[Problem]:
    """Check the requests of a pod: none is above its limit, none has a reserved name."""
    blocks = [(f"{path}.resources", spec.get("resources") or {})]
    for name in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(name) or ()):
            blocks.append((f"{path}.{name}[{i}].resources", container.get("resources") or {}))
    for here, block in blocks:
        for name in ("requests", "limits"):
            yield from _check_reserved(block.get(name) or {}, f"{here}.{name}", reserved)
        limits = block.get("limits") or {}
        for resource, amount in (block.get("requests") or {}).items():
            if resource in limits and Quantity.parse(amount) > Quantity.parse(limits[resource]):
                message = f"{Quantity.parse(amount)} is more than the limit of {Quantity.parse(limits[resource])}"
                yield Problem(entry(f"{here}.requests", resource), message)
    yield from _check_reserved(spec.get("overhead") or {}, f"{path}.overhead", reserved)


def _check_reserved(amounts: JsonObject, path: str, reserved: str) -> Iterator[Problem]:
    if reserved and reserved in amounts:
        message = f"{told(reserved)} is reserved: it is counted from the podSet"
        yield Problem(entry(path, reserved), message, "remove it")


def check_pod_spec(spec: JsonObject, path: str, *, restart_policies: tuple[str, ...]) -> Iterator[Problem]:
    if not spec.get("containers"):
        yield Problem(f"{path}.containers", "must have at least 1 entry", cause="Required")
    seen: dict[str, str] = {}
    for group in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(group) or ()):
            here, name = f"{path}.{group}[{i}].name", container.get("name")
            if name is not None and (first := seen.setdefault(name, here)) != here:
                yield Problem(here, f"{told(name)} is used already at {first}", "give each its own name", "Duplicate")
    if "Always" not in restart_policies:
        yield from _check_ends(spec.get("restartPolicy"), restart_policies, f"{path}.restartPolicy")
    yield from check_pod_resources(spec, path)
    yield from _check_volume_names(spec, path)


def _check_volume_names(spec: JsonObject, path: str) -> Iterator[Problem]:
    """Check the names of volumes, which become names of folders."""
    seen: dict[str, str] = {}
    for i, volume in enumerate(spec.get("volumes") or ()):
        here, name = f"{path}.volumes[{i}].name", volume.get("name")
        if name and (first := seen.setdefault(name, here)) != here:
            yield Problem(here, f"{told(name)} is used already at {first}", "give each its own name", "Duplicate")


def _check_ends(policy: str | None, allowed: tuple[str, ...], path: str) -> Iterator[Problem]:
    """Check that the pods of a Job can end: no restartPolicy Always. A word that is no policy was refused before."""
    if not policy:
        yield Problem(path, f"required; allowed: {', '.join(allowed)}", cause="Required")
    elif policy == "Always":
        yield Problem(path, f"{told(policy)} is not supported; allowed: {', '.join(allowed)}", cause="NotSupported")


def check_readable(raw: msgspec.Raw, kind: type[msgspec.Struct], path: str) -> Iterator[Problem]:
    """Refuse values that passed all other rules but that the typed views cannot read, so that no later reader fails.

    ``kubernetes_limits`` has checked the words of closed sets; they are not reported again.
    """
    try:
        view(raw, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        if not what.startswith("Invalid enum value"):
            yield Problem(path + where.rstrip("`"), what[:1].lower() + what[1:])


def check_pod(pod: Pod) -> Iterator[Problem]:
    spec = msgspec.json.decode(bytes(pod.spec))
    yield from check_pod_spec(spec, "spec", restart_policies=("Always", "OnFailure", "Never"))
    yield from check_workload_reference(spec, pod.metadata.annotations)


def check_workload_reference(spec: JsonObject, annotations: dict[str, str]) -> Iterator[Problem]:
    """Check the field or annotation that names a scheduling Workload and one of its groups (api 12)."""
    reference = spec.get("workloadRef")
    if reference is not None:
        parts = [reference.get(name, "") for name in ("name", "podGroup", "podGroupReplicaKey")]
        yield from _check_reference_parts(parts, ["spec.workloadRef"] * 3)
    value = annotations.get(WORKLOAD_REF)
    if value is not None:
        path = f"metadata.annotations[{WORKLOAD_REF}]"
        parts = value.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            yield Problem(path, f"{told(value)} is not <name>/<podGroup> or <name>/<podGroup>/<replicaKey>")
        else:
            yield from _check_reference_parts([*parts, ""][:3], [path] * 3)


def _check_reference_parts(parts: list[str], paths: list[str]) -> Iterator[Problem]:
    if parts[0] and not is_subdomain(parts[0]):
        yield Problem(paths[0], f"name {told(parts[0])} is not a DNS subdomain", NAME_HINT)
    for what, part, path in zip(("podGroup", "podGroupReplicaKey"), parts[1:], paths[1:], strict=True):
        if part and not is_label(part):
            yield Problem(path, f"{what} {told(part)} is not a DNS label", LABEL_HINT)


def check_job(job: Job) -> Iterator[Problem]:
    spec = msgspec.json.decode(bytes(job.spec))
    if not spec:
        yield Problem("spec", "required", "a Job needs at least spec.template", cause="Required")
    template = spec.get("template") or {}
    path = "spec.template"
    yield from check_labels((template.get("metadata") or {}).get("labels") or {}, f"{path}.metadata.labels")
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    yield from check_annotations(annotations, f"{path}.metadata.annotations")
    if "template" in spec:
        yield from check_pod_spec(template.get("spec") or {}, f"{path}.spec", restart_policies=("OnFailure", "Never"))
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed" and spec.get("completions") is None:
        yield Problem("spec.completions", "required with completionMode: Indexed", cause="Required")
    yield from _check_queueing_marks(job, spec, mode)


def _check_queueing_marks(job: Job, spec: JsonObject, mode: str) -> Iterator[Problem]:
    """Check the labels and annotations by which a job says how it is to be queued (api 10, 18.2)."""
    parallelism = spec.get("parallelism", 1)
    count = min(parallelism, spec.get("completions", parallelism))
    least = job.metadata.annotations.get(MIN_PARALLELISM)
    if least is not None and (not _INT.fullmatch(least) or not 0 < int(least) < count):
        message = f"{told(least)} must be a whole number above 0 and below {count}, the pods that run at once"
        yield Problem(f"metadata.annotations[{MIN_PARALLELISM}]", message)
    if job.metadata.annotations.get(COMPLETIONS_EQUAL_PARALLELISM) == "true" and mode != "Indexed":
        message = "needs completionMode: Indexed"
        yield Problem(f"metadata.annotations[{COMPLETIONS_EQUAL_PARALLELISM}]", message)
    seconds = job.metadata.labels.get(MAX_EXEC_TIME_LABEL)
    if seconds is not None and (not _INT.fullmatch(seconds) or not 0 < int(seconds) < 2**31):
        message = f"{told(seconds)} is not a whole number of seconds above 0"
        yield Problem(f"metadata.labels[{MAX_EXEC_TIME_LABEL}]", message)


def check_priority_class(priority: PriorityClass) -> Iterator[Problem]:
    if priority.value > 1_000_000_000 and not priority.metadata.name.startswith("system-"):
        message = f"{priority.value} is above 1000000000, which is kept for system classes"
        yield Problem("value", message, cause="Forbidden")
