"""The kinds, the groups and versions in which they are served, and their conversion to the stored form and back.

An object is stored once, in the first version of its kind. A kind may be served in other versions (api 20), and in a
second group: then the second group has a kind of its own, a *view* (``Kind.view_of``), which shows the same objects
under the same names, uids and resourceVersions.

Conversion works on trees and never changes the tree that it is given. Versions differ in few fields only: a kind with
differences has one function per direction, and all other fields are spelled alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from makeway.api.objects import configuration, kubernetes, queueing, scheduling, workload
from makeway.api.objects.meta import REQUIRED, Limit, Wire
from makeway.api.problems import Problem, warning
from makeway.api.reading.documents import Tree
from makeway.api.schema.shapes import Field, Leaf, ListOf, Record, kubernetes_kind, renamed, shape_of

KUEUE_GROUP = "kueue.x-k8s.io"
CONFIG_GROUP = "config.kueue.x-k8s.io"
STRING = Field(Leaf("string"))
CLASS_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; ``wide``: only with ``-o wide``."""

    name: str
    type: str
    json_path: str
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    name: str
    group: str  # "" is the core group
    versions: tuple[str, ...]  # the first one is stored; in a view it is the one that clients prefer
    type: type[Wire]
    plural: str
    namespaced: bool = False
    has_status: bool = True
    ours: bool = True  # False: Kubernetes defines it
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    view_of: tuple[str, str] | None = None  # group and name of the kind whose objects it shows; None: its own

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.name

    @property
    def api_version(self) -> str:
        return self.served(self.versions[0])

    def served(self, version: str) -> str:
        """The apiVersion of one of its versions."""
        return f"{self.group}/{version}" if self.group else version

    @property
    def stored(self) -> Kind:
        """The kind under which its objects are stored: the kind itself, unless it is a view."""
        return self if self.view_of is None else _by_key()[self.view_of]

    def is_stored_as(self, version: str) -> bool:
        """Whether objects are stored as this version spells them."""
        return self.view_of is None and version == self.versions[0]

    def shape(self, version: str) -> Record:
        """The shape of its objects in a served version."""
        first = shape_of(self.type) if self.ours else kubernetes_kind(self.type)
        if version == self.versions[0]:
            return first
        return _older_shape(self.name)


_AGE = Column("Age", "date", ".metadata.creationTimestamp")
_QUEUEING = ("v1beta2", "v1beta1")


def _queueing(name: str, type_: type[Wire], plural: str, short: str = "", **more: object) -> Kind:
    return Kind(
        name=name, group=KUEUE_GROUP, versions=_QUEUEING, type=type_, plural=plural,
        short_names=tuple(short.split()), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _kubernetes(
    type_: type[Wire], group: str, plural: str, short: str = "", *, namespaced: bool = True, status: bool = False
) -> Kind:
    return Kind(
        name=type_.__name__, group=group, versions=("v1",), type=type_, plural=plural, namespaced=namespaced,
        has_status=status, ours=False, short_names=tuple(short.split()),
    )  # fmt: skip


def _condition(type_: str) -> str:
    return f".status.conditions[?(@.type=='{type_}')].status"


_PENDING = Column("Pending Workloads", "integer", ".status.pendingWorkloads")
_ADMITTED = ".status.admittedWorkloads"

KINDS: tuple[Kind, ...] = (
    _queueing("ResourceFlavor", queueing.ResourceFlavor, "resourceflavors", "flavor flavors rf", has_status=False),
    _queueing(
        "ClusterQueue", queueing.ClusterQueue, "clusterqueues", "cq",
        columns=(
            Column("Cohort", "string", ".spec.cohortName"),
            Column("Strategy", "string", ".spec.queueingStrategy", wide=True),
            _PENDING,
            Column("Admitted Workloads", "integer", _ADMITTED, wide=True),
        ),
    ),
    _queueing("Cohort", queueing.Cohort, "cohorts", "co"),
    _queueing(
        "LocalQueue", queueing.LocalQueue, "localqueues", "queue queues lq", namespaced=True,
        columns=(
            Column("ClusterQueue", "string", ".spec.clusterQueue"),
            _PENDING,
            Column("Admitted Workloads", "integer", _ADMITTED),
        ),
    ),
    _queueing(
        "Workload", workload.Workload, "workloads", "kwl kueueworkload kueueworkloads", namespaced=True,
        columns=(
            Column("Queue", "string", ".spec.queueName"),
            Column("Reserved in", "string", ".status.admission.clusterQueue"),
            Column("Admitted", "string", _condition("Admitted")),
            Column("Finished", "string", _condition("Finished")),
            _AGE,
        ),
        selectable=(".status.admission.clusterQueue",),
    ),
    _queueing(
        "WorkloadPriorityClass", queueing.WorkloadPriorityClass, "workloadpriorityclasses", "wpc", has_status=False,
        columns=(Column("Value", "integer", ".value"),),
    ),
    _queueing("AdmissionCheck", queueing.AdmissionCheck, "admissionchecks", "ac"),
    _queueing("MultiKueueConfig", queueing.MultiKueueConfig, "multikueueconfigs", "mkconf", has_status=False),
    _queueing(
        "MultiKueueCluster", queueing.MultiKueueCluster, "multikueueclusters", "mkc",
        columns=(Column("Connected", "string", _condition("Active")), _AGE),
    ),
    *(
        Kind(
            name="Workload", group=group, versions=("v1alpha1",), type=scheduling.GangWorkload, plural="workloads",
            namespaced=True, short_names=("gangworkload", "gwl"),
            columns=(
                Column("Priority", "integer", ".status.priority"),
                Column("Gang", "string", ".status.gang"),
                Column("Placed", "string", ".status.placed"),
                Column("State", "string", ".status.state"),
                _AGE,
            ),
            view_of=view_of,
        )
        for group, view_of in (
            ("scheduling.k8s.io", None), ("scheduling.makeway.dev", ("scheduling.k8s.io", "Workload")),
        )  # api 12
    ),
    Kind(
        name="Configuration", group=CONFIG_GROUP, versions=("v1beta2", "v1beta1"), type=configuration.Configuration,
        plural="configurations", has_status=False,
    ),
    _kubernetes(kubernetes.Namespace, "", "namespaces", "ns", namespaced=False, status=True),
    _kubernetes(kubernetes.Node, "", "nodes", "no", namespaced=False, status=True),
    _kubernetes(kubernetes.Pod, "", "pods", "po", status=True),
    _kubernetes(kubernetes.Secret, "", "secrets"),
    _kubernetes(kubernetes.ConfigMap, "", "configmaps", "cm"),
    _kubernetes(kubernetes.Event, "", "events", "ev"),
    Kind(
        name="Event", group="events.k8s.io", versions=("v1",), type=kubernetes.EventsV1Event, plural="events",
        namespaced=True, has_status=False, ours=False, view_of=("", "Event"),
    ),
    _kubernetes(kubernetes.LimitRange, "", "limitranges", "limits"),
    _kubernetes(kubernetes.Binding, "", "bindings"),
    _kubernetes(kubernetes.Job, "batch", "jobs", status=True),
    _kubernetes(kubernetes.PriorityClass, "scheduling.k8s.io", "priorityclasses", "pc", namespaced=False),
    _kubernetes(kubernetes.PodDisruptionBudget, "policy", "poddisruptionbudgets", "pdb", status=True),
    _kubernetes(kubernetes.Eviction, "policy", "evictions"),
    _kubernetes(kubernetes.RuntimeClass, "node.k8s.io", "runtimeclasses", namespaced=False),
    _kubernetes(kubernetes.Lease, "coordination.k8s.io", "leases"),
    _kubernetes(
        kubernetes.SelfSubjectAccessReview, "authorization.k8s.io", "selfsubjectaccessreviews", namespaced=False
    ),
    _kubernetes(kubernetes.SelfSubjectRulesReview, "authorization.k8s.io", "selfsubjectrulesreviews", namespaced=False),
    _kubernetes(kubernetes.SelfSubjectReview, "authentication.k8s.io", "selfsubjectreviews", namespaced=False),
)  # fmt: skip


@cache
def _by_name() -> Mapping[tuple[str, str], Kind]:
    return {(kind.served(version), kind.name): kind for kind in KINDS for version in kind.versions}


@cache
def _by_key() -> Mapping[tuple[str, str], Kind]:
    return {kind.key: kind for kind in KINDS}


def find_kind(api_version: str, name: str) -> Kind | None:
    return _by_name().get((api_version, name))


def kind_of(type_: type[Wire]) -> Kind:
    """The kind of a wire type; if two groups share the type, the kind that is stored."""
    return next(kind for kind in KINDS if kind.type is type_)


# --- shapes of v1beta1 ----------------------------------------------------------------------------------------------

_TEXTS = Field(ListOf(STRING))


@cache
def _older_shape(name: str) -> Record:
    stored = shape_of(next(kind.type for kind in KINDS if kind.name == name))
    spec = stored.fields.get("spec", STRING).shape
    status = stored.fields.get("status", STRING).shape
    changes: dict[str, Field | None] = {}
    if name == "ClusterQueue" and isinstance(spec, Record):
        fungibility = replace(spec.fields["flavorFungibility"], shape=renamed(shape_of(queueing.FlavorFungibility), {
            "whenCanBorrow": Field(Leaf("enum", ("Borrow", "MayStopSearch", "TryNextFlavor"))),
            "whenCanPreempt": Field(Leaf("enum", ("Preempt", "MayStopSearch", "TryNextFlavor"))),
        }))  # fmt: skip
        cohort = {"cohortName": None, "cohort": spec.fields["cohortName"]}
        older = {**cohort, "admissionChecks": _TEXTS, "flavorFungibility": fungibility}
        changes["spec"] = replace(stored.fields["spec"], shape=renamed(spec, older))
    elif name == "Workload" and isinstance(spec, Record) and isinstance(status, Record):
        source = Field(Leaf("enum", ("", *CLASS_SOURCES)))
        changes["spec"] = Field(
            renamed(spec, {"priorityClassRef": None, "priorityClassName": STRING, "priorityClassSource": source})
        )
        seconds = status.fields["accumulatedPastExecutionTimeSeconds"]
        changes["status"] = Field(renamed(status, {
            "accumulatedPastExecutionTimeSeconds": None, "accumulatedPastExexcutionTimeSeconds": seconds,
        }))  # fmt: skip
    elif name == "LocalQueue" and isinstance(status, Record):
        usage = status.fields["flavorsUsage"]
        changes["status"] = Field(renamed(status, {"flavorsUsage": None, "flavorUsage": usage}))
    elif name == "MultiKueueCluster" and isinstance(spec, Record):
        source_shape = shape_of(queueing.ClusterSource)
        changes["spec"] = Field(renamed(spec, {"clusterSource": None, **source_shape.fields}), REQUIRED)
    elif name == "AdmissionCheck" and isinstance(spec, Record):
        minutes = Field(Leaf("int64"), Limit(least=0))
        changes["spec"] = Field(renamed(spec, {"retryDelayMinutes": minutes}), REQUIRED)
    elif name == "Configuration":
        for block in ("fairSharing", "waitForPodsReady"):
            shape = stored.fields[block].shape
            if isinstance(shape, Record):
                changes[block] = Field(renamed(shape, {"enable": Field(Leaf("boolean"))}))
    return renamed(stored, changes)


# --- conversion -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Converted:
    tree: Tree
    problems: tuple[Problem, ...] = ()


def to_stored(kind: Kind, version: str, tree: dict[str, Tree]) -> Converted:
    """The tree of a served version, converted to the stored form."""
    if kind.is_stored_as(version):
        return Converted(tree)
    problems: list[Problem] = []
    result = {**tree, "apiVersion": kind.stored.api_version}
    convert = _UP.get(kind.key)
    if convert is not None:
        convert(result, problems)
    return Converted(result, tuple(problems))


def from_stored(kind: Kind, version: str, tree: dict[str, Tree]) -> dict[str, Tree]:
    """A stored tree, converted to a served version of ``kind``."""
    if kind.is_stored_as(version):
        return tree
    result = {**tree, "apiVersion": kind.served(version)}
    convert = _DOWN.get(kind.key)
    if convert is not None:
        convert(result)
    return result


def older_path(kind: Kind, version: str, path: str) -> str:
    """A path of the stored form, as a user of ``version`` writes it."""
    if not kind.is_stored_as(version):
        for new, old in _PATHS.get(kind.key, ()):
            if path == new or path.startswith((f"{new}.", f"{new}[")):
                return old + path[len(new) :]
    return path


def stored_path(kind: Kind, version: str, path: str) -> str:
    """A path that a user of ``version`` writes, in the stored form."""
    if not kind.is_stored_as(version):
        for new, old in _PATHS.get(kind.key, ()):
            if path == old or path.startswith(f"{old}."):
                return new + path[len(old) :]
    return path


def _copied(tree: dict[str, Tree], block: str) -> dict[str, Tree]:
    """Put a copy of a block in its place, so that the caller's tree stays as it is; an absent block stays absent."""
    value = tree.get(block)
    if not isinstance(value, dict):
        return {}
    copy = dict(value)
    tree[block] = copy
    return copy


def _rename(block: dict[str, Tree], old: str, new: str) -> None:
    if old in block:
        block[new] = block.pop(old)


def _cluster_queue_up(tree: dict[str, Tree], problems: list[Problem]) -> None:
    spec = _copied(tree, "spec")
    _rename(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks and spec.get("admissionChecksStrategy"):
        problems.append(
            Problem("spec.admissionChecks", "set together with admissionChecksStrategy", "keep one of the two")
        )
    elif checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    if "flavorFungibility" in spec:
        fungibility = _copied(spec, "flavorFungibility")
        for name, old in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
            if fungibility.get(name) == old:
                fungibility[name] = "MayStopSearch"


def _cluster_queue_down(tree: dict[str, Tree]) -> None:
    _rename(_copied(tree, "spec"), "cohortName", "cohort")


def _workload_up(tree: dict[str, Tree], problems: list[Problem]) -> None:
    spec = _copied(tree, "spec")
    name, source = spec.pop("priorityClassName", ""), spec.pop("priorityClassSource", "")
    if name and not source:
        problems.append(
            Problem("spec.priorityClassSource", f"required; allowed: {', '.join(CLASS_SOURCES)}", cause="Required")
        )
    elif source and not name:
        problems.append(Problem("spec.priorityClassName", "required beside priorityClassSource", cause="Required"))
    elif name:
        group, kind = CLASS_SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    if "status" in tree:
        old, new = "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"
        _rename(_copied(tree, "status"), old, new)


def _workload_down(tree: dict[str, Tree]) -> None:
    spec = _copied(tree, "spec")
    reference = spec.pop("priorityClassRef", None)
    if reference:
        sources = {pair: source for source, pair in CLASS_SOURCES.items()}
        spec["priorityClassName"] = reference.get("name", "")
        spec["priorityClassSource"] = sources.get((reference.get("group"), reference.get("kind")), "")
    if "status" in tree:
        old, new = "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"
        _rename(_copied(tree, "status"), new, old)


def _local_queue_up(tree: dict[str, Tree], problems: list[Problem]) -> None:
    if "status" in tree:
        _rename(_copied(tree, "status"), "flavorUsage", "flavorsUsage")


def _local_queue_down(tree: dict[str, Tree]) -> None:
    if "status" in tree:
        _rename(_copied(tree, "status"), "flavorsUsage", "flavorUsage")


def _multikueue_cluster_up(tree: dict[str, Tree], problems: list[Problem]) -> None:
    spec = _copied(tree, "spec")
    spec["clusterSource"] = {name: spec.pop(name) for name in ("kubeConfig", "clusterProfileRef") if name in spec}


def _multikueue_cluster_down(tree: dict[str, Tree]) -> None:
    spec = _copied(tree, "spec")
    spec.update(spec.pop("clusterSource", None) or {})


def _admission_check_up(tree: dict[str, Tree], problems: list[Problem]) -> None:
    if _copied(tree, "spec").pop("retryDelayMinutes", None) is not None:
        problems.append(warning("spec.retryDelayMinutes", "dropped: v1beta2 has no such field", "remove it"))


def _configuration_up(tree: dict[str, Tree], problems: list[Problem]) -> None:
    for block in ("fairSharing", "waitForPodsReady"):
        if isinstance(tree.get(block), dict):
            copy = _copied(tree, block)
            if not copy.pop("enable", False):
                del tree[block]  # v1beta1 switches a block on with ``enable``, v1beta2 by its presence
            elif block == "fairSharing" and not copy.get("preemptionStrategies"):
                copy["preemptionStrategies"] = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


_EVENT_NAMES = (  # core/v1, events.k8s.io/v1
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)


def _event_up(tree: dict[str, Tree], problems: list[Problem]) -> None:
    for stored, shown in _EVENT_NAMES:
        tree.pop(stored, None)  # a field of the other group: unknown in this one, and its value has not been validated
        _rename(tree, shown, stored)


def _event_down(tree: dict[str, Tree]) -> None:
    for stored, shown in _EVENT_NAMES:
        _rename(tree, stored, shown)


_UP: dict[tuple[str, str], Callable[[dict[str, Tree], list[Problem]], None]] = {
    (KUEUE_GROUP, "ClusterQueue"): _cluster_queue_up,
    (KUEUE_GROUP, "Workload"): _workload_up,
    (KUEUE_GROUP, "LocalQueue"): _local_queue_up,
    (KUEUE_GROUP, "MultiKueueCluster"): _multikueue_cluster_up,
    (KUEUE_GROUP, "AdmissionCheck"): _admission_check_up,
    (CONFIG_GROUP, "Configuration"): _configuration_up,
    ("events.k8s.io", "Event"): _event_up,
}
_DOWN: dict[tuple[str, str], Callable[[dict[str, Tree]], None]] = {
    (KUEUE_GROUP, "ClusterQueue"): _cluster_queue_down,
    (KUEUE_GROUP, "Workload"): _workload_down,
    (KUEUE_GROUP, "LocalQueue"): _local_queue_down,
    (KUEUE_GROUP, "MultiKueueCluster"): _multikueue_cluster_down,
    ("events.k8s.io", "Event"): _event_down,
}
_PATHS: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {  # stored path, path as it is served
    (KUEUE_GROUP, "ClusterQueue"): (("spec.cohortName", "spec.cohort"),),
    (KUEUE_GROUP, "Workload"): (
        ("spec.priorityClassRef.group", "spec.priorityClassSource"),
        ("spec.priorityClassRef.kind", "spec.priorityClassSource"),
        ("spec.priorityClassRef.name", "spec.priorityClassName"),
        ("spec.priorityClassRef", "spec.priorityClassName"),
        ("status.accumulatedPastExecutionTimeSeconds", "status.accumulatedPastExexcutionTimeSeconds"),
    ),
    (KUEUE_GROUP, "LocalQueue"): (("status.flavorsUsage", "status.flavorUsage"),),
    (KUEUE_GROUP, "MultiKueueCluster"): (("spec.clusterSource", "spec"),),
    ("events.k8s.io", "Event"): _EVENT_NAMES,
}
