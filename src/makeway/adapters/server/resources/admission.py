"""Admission plugins: what a Kubernetes API server and Kueue's webhooks do with an object before it is stored.

They set defaults that depend on other objects or on the uid, priorities of pods and initial finalizers, and refuse an
object where that needs a look at other objects. ``api.validation`` does all other checks; the user plays no part here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from makeway.api.forms import LABEL_HINT, is_label
from makeway.api.names import NAMESPACE_LABEL, QUEUE_LABEL, RESOURCE_IN_USE, SYSTEM_CLASSES
from makeway.api.objects.kubernetes import (
    ConfigMap,
    Job,
    Namespace,
    NamespaceSpec,
    Pod,
    PriorityClass,
    Secret,
    amended,
    view,
)
from makeway.api.objects.meta import Wire
from makeway.api.objects.queueing import AdmissionCheck, ClusterQueue, ResourceFlavor
from makeway.api.objects.scheduling import GangWorkload, GangWorkloadStatus
from makeway.api.problems import Problem
from makeway.api.reading.documents import Tree
from makeway.api.reading.structure import told
from makeway.api.validation.scheduling import check_gang_workload
from makeway.api.versions import Kind, kind_of
from makeway.core.lowering.placement import classes_of
from makeway.core.placement.resolution import PriorityRefused, default_class, resolve
from makeway.runtime.ports import Forbidden, Invalid, NotFound, Stored
from makeway.runtime.stores.pages import StoredObjects
from makeway.runtime.stores.repair import is_readable

NAMESPACE_FINALIZER = "kubernetes"
CLASSES = kind_of(PriorityClass)
PREEMPTS = "PreemptLowerPriority"
Manages = Callable[[Job], bool]


def has_queue(job: Job) -> bool:
    """Whether a Job names a queue."""
    return bool(job.metadata.labels.get(QUEUE_LABEL))


class AdmissionPlugins:
    """``runtime.stores.rules.Admission``. ``manages``: which Jobs begin suspended (api 18.1)."""

    def __init__(self, manages: Manages = has_queue) -> None:
        self._manages = manages

    def __call__(self, objects: StoredObjects, kind: Kind, value: Any, old: Stored | None) -> Any:
        """Return ``value`` as it is to be stored. Raises Forbidden or Invalid."""
        if isinstance(value, Secret):
            value = _plain_data(value)
        if isinstance(value, Secret | ConfigMap) and old is not None and is_readable(old):
            _check_immutable(old.value(), value)
        elif isinstance(value, PriorityClass):
            _check_default(objects, value)
        elif old is None:
            return self._begun(objects, value)
        elif isinstance(value, Namespace):
            return _same_finalizers(old.value(), value)
        elif isinstance(value, Pod):
            return _bound(old.value(), replace(value, spec=_with_given(old.value().spec, _defaulted_pod(value.spec))))
        elif isinstance(value, Job):
            return replace(value, spec=_defaulted_job(value.spec))
        return value

    def _begun(self, objects: StoredObjects, value: Wire) -> Wire:
        match value:
            case Namespace():
                return _namespace(value)
            case Pod():
                return _with_priority(objects, replace(value, spec=_defaulted_pod(value.spec), status=PENDING))
            case Job():
                return _job(value, suspend=self._manages(value))
            case GangWorkload():
                return _ranked(objects, value)
            case ClusterQueue() | ResourceFlavor() | AdmissionCheck():
                meta = value.metadata
                finalizers = tuple(dict.fromkeys((*meta.finalizers, RESOURCE_IN_USE)))
                return replace(value, metadata=replace(meta, finalizers=finalizers))
        return value


# --- namespaces ------------------------------------------------------------------------------------------------------


def _namespace(value: Namespace) -> Namespace:
    """A namespace gets a label with its name, and a finalizer until it is empty."""
    meta = value.metadata
    if not is_label(meta.name):  # its name is part of labels and paths
        raise Invalid([Problem("metadata.name", f"{told(meta.name)} is not a DNS label", LABEL_HINT)])
    named = replace(meta, labels={**meta.labels, NAMESPACE_LABEL: meta.name})
    return replace(
        value, metadata=named, spec=amended(value.spec, {"finalizers": [NAMESPACE_FINALIZER]}),
        status=Raw(b'{"phase":"Active"}'),
    )  # fmt: skip


def _same_finalizers(old: Namespace, new: Namespace) -> Namespace:
    """Keep the finalizers of a namespace: only the subresource ``finalize`` changes them."""
    held = view(old.spec, NamespaceSpec).finalizers
    labels = {**new.metadata.labels, NAMESPACE_LABEL: old.metadata.name}
    return replace(
        new, metadata=replace(new.metadata, labels=labels), spec=amended(new.spec, {"finalizers": list(held) or None})
    )


# --- pods and jobs ---------------------------------------------------------------------------------------------------

PENDING = Raw(b'{"phase":"Pending"}')
_POD_DEFAULTS: Mapping[str, Tree] = {
    "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30, "securityContext": {}, "enableServiceLinks": True,
}  # fmt: skip
_CONTAINER_DEFAULTS: Mapping[str, Tree] = {
    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip


def _defaulted_pod(raw: Raw) -> Raw:
    spec: dict[str, Tree] = msgspec.json.decode(raw)
    spec = {**spec, **{name: each for name, each in _POD_DEFAULTS.items() if name not in spec}}
    for group in ("initContainers", "containers"):
        if isinstance(spec.get(group), list):
            spec[group] = [_defaulted_container(each) for each in spec[group]]
    return Raw(msgspec.json.encode(spec))


def _defaulted_container(container: dict[str, Tree]) -> dict[str, Tree]:
    container = {**container, **{name: each for name, each in _CONTAINER_DEFAULTS.items() if name not in container}}
    if "imagePullPolicy" not in container:
        image = str(container.get("image", ""))
        tag = image.rpartition("/")[2].partition(":")[2]
        is_latest = "@" not in image and tag in ("", "latest")
        container["imagePullPolicy"] = "Always" if is_latest else "IfNotPresent"
    resources = container["resources"]
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if limits:  # a limit without a request is the request
        container["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}
    return container


def _with_given(old: Raw, new: Raw) -> Raw:
    """Keep what the server set in a pod, also if a body leaves it out."""
    before, after = msgspec.json.decode(old), msgspec.json.decode(new)
    given = ("priority", "preemptionPolicy", "priorityClassName")
    return amended(new, {name: before[name] for name in given if name in before and name not in after})


def _bound(old: Pod, new: Pod) -> Pod:
    """Remove the nomination of a pod in the same write that gives it a node.

    The body has not been validated yet, so only these fields are read.
    """
    has_come = bool(_field(new.spec, "nodeName")) and not _field(old.spec, "nodeName")
    if not has_come or not _field(new.status, "nominatedNodeName"):
        return new
    return replace(new, status=amended(new.status, {"nominatedNodeName": None}))


def _field(raw: Raw, name: str) -> Tree:
    return msgspec.json.decode(raw).get(name)


def _with_priority(objects: StoredObjects, pod: Pod) -> Pod:
    """Set the priority of a pod, from the class that it names or from the default class."""
    spec: dict[str, Tree] = msgspec.json.decode(pod.spec)
    name = spec.get("priorityClassName") or ""
    found = _class_named(objects, name, pod) if name else _default_class(objects)
    value = found.value if found else SYSTEM_CLASSES.get(name, 0)
    policy = found.preemption_policy if found else PREEMPTS
    _check_given(pod, spec, "priority", "integer value of priority", value)
    _check_given(pod, spec, "preemptionPolicy", "string value of PreemptionPolicy", policy)
    changes: dict[str, object] = {"priority": value, "preemptionPolicy": policy}
    if found is not None:
        changes["priorityClassName"] = found.metadata.name
    return replace(pod, spec=amended(pod.spec, changes))


def _check_given(pod: Pod, spec: Mapping[str, Tree], field: str, words: str, meant: Tree) -> None:
    if field in spec and spec[field] != meant:
        raise Forbidden(
            f'pods "{pod.metadata.name}" is forbidden: the {words} ({spec[field]}) must not be provided in pod '
            f"spec; priority admission controller computed {meant} from the given PriorityClass name"
        )


def _class_named(objects: StoredObjects, name: str, pod: Pod) -> PriorityClass | None:
    try:
        found: PriorityClass = objects.get(CLASSES, "", name).value()
    except NotFound:
        if name in SYSTEM_CLASSES:
            return None
        raise Forbidden(
            f'pods "{pod.metadata.name}" is forbidden: no PriorityClass with name {name} was found'
        ) from None
    return found


def _classes(objects: StoredObjects) -> Iterator[PriorityClass]:
    """All readable classes; an unreadable one does not block new pods."""
    for each in objects.list(CLASSES).items:
        with suppress(msgspec.ValidationError):
            yield each.value()


def _default_class(objects: StoredObjects) -> PriorityClass | None:
    """The default class; of several the one with the lowest value, as in Kubernetes."""
    found = [each for each in _classes(objects) if each.global_default]
    return min(found, key=lambda each: (each.value, each.metadata.name), default=None)


def _ranked(objects: StoredObjects, workload: GangWorkload) -> GangWorkload:
    """Complete the class names and priorities of a scheduling Workload (S-15.1.6). Raises Invalid."""
    classes = classes_of(_classes(objects))
    default = default_class(classes)
    values = {name: each.value for name, each in classes.items()}
    problems = list(check_gang_workload(workload, values, default.name if default else ""))
    spec = workload.spec
    found = resolve(spec.priority_class_name, spec.preemption_priority_class_name, classes)
    if problems or isinstance(found, PriorityRefused):
        raise Invalid(problems)
    status = GangWorkloadStatus(
        priority=found.priority, preemption_priority=found.preemption_priority, preemption_policy=found.policy
    )
    named = replace(
        spec, priority_class_name=found.class_name, preemption_priority_class_name=found.preemption_class_name
    )
    return replace(workload, spec=named, status=status)


def _check_default(objects: StoredObjects, value: PriorityClass) -> None:
    if not value.global_default:
        return
    for each in _classes(objects):
        if each.metadata.name != value.metadata.name and each.global_default:
            raise Forbidden(
                f'priorityclasses.scheduling.k8s.io "{value.metadata.name}" is forbidden: PriorityClass '
                f"{each.metadata.name} is already marked as default. Only one default can exist"
            )


def _job(job: Job, *, suspend: bool) -> Job:
    """Set what Kubernetes sets when a Job is created; its pods get the uid of the Job as a label."""
    spec: dict[str, Tree] = msgspec.json.decode(_defaulted_job(job.spec))
    if suspend:
        spec["suspend"] = True
    if not spec.get("manualSelector"):
        _tell_pods_apart(spec, job)
    return replace(job, spec=Raw(msgspec.json.encode(spec)))


def _defaulted_job(raw: Raw) -> Raw:
    spec: dict[str, Tree] = msgspec.json.decode(raw)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    is_indexed = spec.get("completionMode") == "Indexed" and spec.get("backoffLimitPerIndex") is not None
    defaults: dict[str, Tree] = {
        "parallelism": 1, "completionMode": "NonIndexed", "backoffLimit": 2**31 - 1 if is_indexed else 6,
        "suspend": False, "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
    }  # fmt: skip
    return Raw(msgspec.json.encode({**defaults, **spec}))


def _tell_pods_apart(spec: dict[str, Tree], job: Job) -> None:
    uid, name = job.metadata.uid, job.metadata.name[:63]
    labels = {
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
        "controller-uid": uid, "job-name": name,
    }  # fmt: skip
    spec.pop("manualSelector", None)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    template = spec.get("template")
    if isinstance(template, dict):
        metadata = template.get("metadata") or {}
        metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
        spec["template"] = {**template, "metadata": metadata}


# --- secrets and config maps -----------------------------------------------------------------------------------------


def _plain_data(secret: Secret) -> Secret:
    """Move ``stringData`` to ``data``."""
    if not secret.string_data:
        return secret
    written = {name: text.encode() for name, text in secret.string_data.items()}
    return replace(secret, data={**secret.data, **written}, string_data={})


def _check_immutable(old: Secret | ConfigMap, new: Secret | ConfigMap) -> None:
    if not old.immutable:
        return
    problems = []
    if not new.immutable:
        problems.append(Problem("immutable", "field is immutable when it is set", cause="Forbidden"))
    parts = ("data",) if isinstance(old, Secret) else ("data", "binary_data")
    for part in parts:
        if getattr(old, part) != getattr(new, part):
            name = "binaryData" if part == "binary_data" else part
            problems.append(Problem(name, "field is immutable when `immutable` is set", cause="Forbidden"))
    if problems:
        raise Invalid(problems)
