"""The questions that makeway asks about a job of any kind, and the changes that it makes to one (api 18).

``JobKind`` names a kind and reads its objects as ``GenericJob``s. Code that starts, stops or queues jobs uses these two
only. What is equal for all kinds is in the functions below.

Not here: which kinds there are (``registry``), and how each of them is read (``batch``, ``described``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from msgspec import Raw

from makeway.api.names import workload_name
from makeway.api.objects.kubernetes import view
from makeway.api.objects.meta import KubernetesObject, OwnerReference
from makeway.api.objects.pods import PodTemplate
from makeway.api.versions import Kind
from makeway.controllers.contract import KindName, Ref
from makeway.controllers.jobs.templates import is_started

BATCH_FRAMEWORK = "batch/job"


class End(NamedTuple):
    reason: str  # Succeeded, Failed, FailedToStart, OutOfSync
    message: str


@dataclass(frozen=True, slots=True)
class AskedPods:
    """Pods of one template that a job asks for, as its object is now: a start may have changed them."""

    name: str  # of their podSet
    template: Raw
    count: int
    min_count: int | None = None  # the fewest that will do, where the kind can run with fewer
    parallelism: int = 0  # the value of the field that a start with fewer pods sets


@dataclass(frozen=True, slots=True)
class NewPods:
    """What a start or a stop makes of the pods of one podSet."""

    name: str
    template: Raw
    count: int | None = None  # None: as many as before


class GenericJob(Protocol):
    """One job, read. Its methods that change something return a new object and leave the old one as it is."""

    @property
    def pod_sets(self) -> tuple[AskedPods, ...]:
        """The pods in the order of its Workload's podSets."""

    @property
    def problem(self) -> str:
        """Why no Workload can be made for it, in words; "": one can."""

    @property
    def managed_by(self) -> str:
        """``spec.managedBy``: the other controller that runs it; "": the usual controller of its kind."""

    @property
    def is_suspended(self) -> bool: ...

    @property
    def has_pods(self) -> bool:
        """Whether something of it may run: pods that are terminating still take their place (S-10.4)."""

    @property
    def is_ready(self) -> bool:
        """Whether all its pods are ready, or done (api 18.5)."""

    @property
    def end(self) -> End | None:
        """The way it ended; None while it may still run."""

    def reclaimable(self, asked: Mapping[str, int]) -> Mapping[str, int]:
        """By podSet, how many of the pods with quota never come back (api 18.6); 0 may be left out."""

    @property
    def remembers_start(self) -> bool:
        """Whether its status must forget the start before its templates can be restored (api 18.4)."""

    def suspended(self) -> KubernetesObject: ...

    def without_start(self) -> KubernetesObject:
        """The job as if it had never started, according to its status."""

    def with_pods(self, pods: Sequence[NewPods], *, suspend: bool) -> KubernetesObject:
        """The job with other templates and counts for those of its ``pod_sets`` that are named."""


@dataclass(frozen=True, slots=True)
class JobKind:
    resource: Kind
    framework: str  # its name in ``integrations.frameworks``
    read: Callable[[Any], GenericJob]  # of an object of this kind

    @property
    def name(self) -> KindName:
        return Ref.kind_of(self.resource)

    def owner(self, name: str, uid: str) -> OwnerReference:
        """The reference that makes a job of this kind the controller of another object."""
        return OwnerReference(
            api_version=self.resource.api_version, kind=self.name, name=name, uid=uid, controller=True,
            block_owner_deletion=True,
        )  # fmt: skip

    def owns(self, reference: OwnerReference) -> bool:
        """Whether a reference names an object of this kind, in any version."""
        return reference.kind == self.name and reference.api_version.rpartition("/")[0] == self.resource.group

    def workload_name(self, name: str, uid: str) -> str:
        return workload_name(self.name, self.resource.group, name, uid)


def has_started_templates(job: GenericJob) -> bool:
    """Whether a start has added to its templates, and nothing was removed since."""
    return any(is_started(pods.template) for pods in job.pod_sets)


def pod_priority_class(job: GenericJob) -> str:
    """The PriorityClass of its pods: that of the first podSet which names one."""
    names = (view(pods.template, PodTemplate).spec.priority_class_name for pods in job.pod_sets)
    return next((name for name in names if name), "")


def wrong_number(name: str, marks: Mapping[str, str], most: int) -> str:
    """The problem of an invalid or excessive number. Validation refuses it, but a cluster may have stored it."""
    text = marks.get(name)
    if text is None or (text.isascii() and text.isdigit() and 0 < int(text[:12]) <= most):
        return ""
    return f"{name} is {text!r}, which is not a whole number from 1 to {most}"
