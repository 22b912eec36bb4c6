"""What a start adds to a job's pods, how it is told from what the user wrote, and how it is removed (api 18.3, 18.4).

A started template carries the annotation ``kueue.x-k8s.io/workload``. All of its labels, annotations, nodeSelector and
tolerations beyond those in its Workload's podSet are then ours.

Promises: removing what was added gives the template back byte for byte, if it was not changed otherwise; changes by
others, outside of these four, stay. Fields that we do not know are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from makeway.api.names import CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL, POD_SET_LABEL, WORKLOAD
from makeway.api.objects.kubernetes import amended, view
from makeway.api.objects.meta import ObjectMeta, Wire, made, ready
from makeway.api.objects.pods import Container, PodSpec, PodTemplate, Toleration
from makeway.api.objects.queueing import ResourceFlavor
from makeway.api.objects.workload import PodSetUpdate, Workload
from makeway.controllers.workloads.eviction import status_of

TEMPLATES_KNOWN = 1024  # a Job is read some twenty times while its template hardly changes
JOB_CONTROLLER_LABELS = (  # api 18.2 names three of them; a server of today writes the fourth beside them
    "batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name",
)  # fmt: skip
START_LABELS = (POD_SET_LABEL, CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL)  # of pods; where they are present, they are ours
LABEL_VALUE_MAX = 63
EMPTY = Raw(b"{}")
ADDED_TO = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"), ("spec", "tolerations"))

replace = msgspec.structs.replace
Tree = dict[str, Any]


@ready
class TemplateMarks(Wire, frozen=True):
    """A view of a pod template, of which only labels and annotations are read."""

    metadata: ObjectMeta = made(ObjectMeta)


# --- what its user wrote ----------------------------------------------------------------------------------------------


def own_template(template: Raw) -> Raw:
    """A Job's template without marks of its owner: the Job controller's labels, and our marks."""
    return _own_template(bytes(template))


@lru_cache(TEMPLATES_KNOWN)
def _own_template(data: bytes) -> Raw:
    template = Raw(data)
    meta = view(template, TemplateMarks).metadata
    changes: dict[str, object] = {}
    for name, present, marks in (
        ("labels", meta.labels, (*JOB_CONTROLLER_LABELS, *START_LABELS)),
        ("annotations", meta.annotations, (WORKLOAD,)),
    ):
        gone = {mark: None for mark in marks if mark in present}
        if gone:
            changes[name] = gone if len(gone) < len(present) else None  # no empty map stays: Kubernetes writes none
    return amended(template, {"metadata": changes}) if changes else template


# --- what is added ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Additions:
    """What pods get at a start. A key that already has another value is a ``conflict`` (S-11.6)."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Toleration] = field(default_factory=list)
    conflict: str = ""  # the first one, in words

    def add(self, source: str, update: PodSetUpdate) -> None:
        for what, mine, more in (
            ("label", self.labels, update.labels),
            ("annotation", self.annotations, update.annotations),
            ("nodeSelector", self.node_selector, update.node_selector),
        ):
            for key in sorted(more):
                if mine.setdefault(key, more[key]) != more[key] and not self.conflict:
                    self.conflict = f"{source} sets {what} {key} to {more[key]!r}, but it is {mine[key]!r}"
        asked = (Toleration(**msgspec.structs.asdict(each)) for each in update.tolerations)
        self.tolerations.extend(each for each in asked if each not in self.tolerations)


def updates_for(
    workload: Workload, pod_set: str, flavors: Iterable[ResourceFlavor]
) -> Iterator[tuple[str, PodSetUpdate]]:
    """What its flavors, its queue and its checks add, each with its source, in their order (S-11.6)."""
    for flavor in flavors:
        yield (
            f"ResourceFlavor {flavor.metadata.name}",
            PodSetUpdate(node_selector=flavor.spec.node_labels, tolerations=flavor.spec.tolerations),
        )
    admission = status_of(workload).admission
    queues = {
        CLUSTER_QUEUE_LABEL: "" if admission is None else admission.cluster_queue,
        LOCAL_QUEUE_LABEL: workload.spec.queue_name,
    }  # a queue name may be longer than a label value
    labels = {key: name for key, name in queues.items() if 0 < len(name) <= LABEL_VALUE_MAX}
    yield (
        "the Workload",
        PodSetUpdate(labels={POD_SET_LABEL: pod_set, **labels}, annotations={WORKLOAD: workload.metadata.name}),
    )
    for check in status_of(workload).admission_checks:
        for update in check.pod_set_updates:
            if update.name == pod_set:
                yield f"admission check {check.name}", update


def started(template: Raw, updates: Iterable[tuple[str, PodSetUpdate]]) -> tuple[Raw, str]:
    """A template with all that is added to it; and the conflict that forbids it, "" if there is none."""
    before = view(template, PodTemplate)
    additions = Additions(
        dict(before.metadata.labels), dict(before.metadata.annotations), dict(before.spec.node_selector),
        list(before.spec.tolerations),
    )  # fmt: skip
    for source, update in updates:
        additions.add(source, update)
    spec: Tree = {}
    if additions.node_selector:
        spec["nodeSelector"] = additions.node_selector
    new = additions.tolerations[len(before.spec.tolerations) :]
    if new:  # existing ones keep the fields that we do not know
        spec["tolerations"] = [*_items(template), *new]
    metadata = {"labels": additions.labels, "annotations": additions.annotations}
    return amended(template, {"metadata": metadata, **({"spec": spec} if spec else {})}), additions.conflict


def is_started(template: Raw) -> bool:
    """Whether a start has added to a template, and nothing was removed since."""
    return WORKLOAD in view(template, TemplateMarks).metadata.annotations


# --- how it is taken off ----------------------------------------------------------------------------------------------


def restored(template: Raw, original: Raw) -> Raw:
    """A started template as before: what a start may add to is taken from ``original``, its Workload's podSet."""
    labels = view(template, TemplateMarks).metadata.labels
    theirs = [label for label in JOB_CONTROLLER_LABELS if label in labels]
    if not theirs and _rest(template) == _rest(original):
        return original
    changes: dict[str, dict[str, object]] = {"metadata": {}, "spec": {}}
    for part, name in ADDED_TO:
        changes[part][name] = _piece(original, part, name)
    if theirs:  # pods are selected by them, so they stay, in their order
        wanted = view(original, TemplateMarks).metadata.labels
        kept = {key: wanted.get(key, labels[key]) for key in labels if key in wanted or key in theirs}
        changes["metadata"]["labels"] = Raw(msgspec.json.encode({**kept, **wanted}))
    result = amended(template, changes)
    return (
        result if _piece(result, "metadata") != EMPTY else amended(result, {"metadata": _piece(original, "metadata")})
    )


def _piece(template: Raw, *path: str) -> Raw | None:
    found: Raw | None = template
    for name in path:
        found = None if found is None else msgspec.json.decode(found, type=dict[str, Raw]).get(name)
    return None if found is None else Raw(bytes(found))


def _items(template: Raw) -> list[Raw]:
    found = _piece(template, "spec", "tolerations")
    return [] if found is None else [Raw(bytes(each)) for each in msgspec.json.decode(found, type=list[Raw])]


def _rest(template: Raw) -> Tree:
    """All that a start never changes."""
    tree: Tree = msgspec.json.decode(template)
    for part, name in ADDED_TO:
        if part in tree:
            tree[part] = {key: value for key, value in tree[part].items() if key != name}
    return {key: value for key, value in tree.items() if value != {}}


# --- whether others have changed a template ---------------------------------------------------------------------------


def is_same(template: Raw, original: Raw) -> bool:
    """Whether a Job's template still asks for what its Workload's podSet says (api 18.7).

    Only fields that we act on count: a server may have added or dropped fields that we do not know yet.
    """
    return _is_same(bytes(template), bytes(original))


@lru_cache(TEMPLATES_KNOWN)
def _is_same(template_bytes: bytes, original_bytes: bytes) -> bool:
    template, original = Raw(template_bytes), Raw(original_bytes)
    mine = own_template(template)
    if bytes(mine) == original_bytes:
        return True
    now, then = view(mine, PodTemplate), view(original, PodTemplate)
    if is_started(template):
        return _has_all_of(now, then) and _compared(_like(now.spec, then.spec)) == _compared(then.spec)
    return (
        _compared(now.spec) == _compared(then.spec)
        and now.metadata.labels == then.metadata.labels
        and now.metadata.annotations == then.metadata.annotations
    )


def _has_all_of(now: PodTemplate, then: PodTemplate) -> bool:
    return (
        _within(then.metadata.labels, now.metadata.labels)
        and _within(then.metadata.annotations, now.metadata.annotations)
        and _within(then.spec.node_selector, now.spec.node_selector)
        and all(each in now.spec.tolerations for each in then.spec.tolerations)
    )


def _within(some: Mapping[str, str], more: Mapping[str, str]) -> bool:
    return some.items() <= more.items()


def _like(now: PodSpec, then: PodSpec) -> PodSpec:
    return replace(now, node_selector=then.node_selector, tolerations=then.tolerations)


def _compared(spec: PodSpec) -> PodSpec:
    """A spec without its raw parts, in which equal values may have other bytes."""
    return replace(
        spec,
        security_context=EMPTY,
        containers=tuple(map(_container, spec.containers)),
        init_containers=tuple(map(_container, spec.init_containers)),
    )


def _container(each: Container) -> Container:
    return replace(each, security_context=EMPTY)
