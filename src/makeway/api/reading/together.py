"""Problems between documents: references that lead nowhere, cohorts in a circle, requests that can never fit, and
preemption that cannot help or costs more than it gives.

A possible mistake is a warning that says what will happen: an object that is missing in the set may already exist where
the manifests are applied.

Promises: those of ``manifests``; hints never cost more than the checks themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec

from makeway.api import pod_request as asking
from makeway.api.names import (
    CHECKPOINT_INTERVAL,
    DEFAULT_NAMESPACE,
    MIN_PARALLELISM,
    NAMESPACE_LABEL,
    QUEUE_LABEL,
    SYSTEM_CLASSES,
)
from makeway.api.objects import queueing
from makeway.api.objects.configuration import Configuration, Resources
from makeway.api.objects.kubernetes import Job, JobSpec, LimitRange, Namespace, PriorityClass, view
from makeway.api.objects.meta import LabelSelector, ObjectMeta, Wire
from makeway.api.objects.pods import Container, PodSpec, PodTemplate
from makeway.api.objects.queueing import ClusterQueue, Cohort, LocalQueue
from makeway.api.objects.scheduling import GangWorkload
from makeway.api.objects.workload import Workload
from makeway.api.problems import Problem, entry, has_errors
from makeway.api.quantity import MAX_AMOUNT, Duration, Quantity, clamped
from makeway.api.reading.manifests import Manifest
from makeway.api.reading.structure import did_you_mean, short, told
from makeway.api.references import Reference, is_finished, is_ranked, references_of
from makeway.api.validation.scheduling import check_classes

T = TypeVar("T", bound=Wire)
FlavorResource = tuple[str, str]
TIME_BASED = "TimeBasedSamePriorityPreemption"
_UNLIMITED = 1 << 100  # above every request, also after a limit was subtracted
_NEAR_NAMES_MAX = (
    1000  # the most names in a search for the nearest, and the most searches: hints must not cost more than checks
)
_NEAR_SEARCHES_MAX = 100
_RING_MAX = 10  # the most names of a cycle in a message
_PAIRS_MAX = 3  # the most flavors and resources in a warning


def check_together(manifests: Sequence[Manifest], *, complete: bool = False) -> None:
    """Check the objects of a set against each other, and add problems to their manifests.

    ``complete``: there are no objects beside the set, so that a missing PriorityClass is an error.
    """
    together = _ReadTogether(manifests, complete)
    for manifest in manifests:
        value = manifest.value
        for reference in references_of(value, _namespace(manifest)):
            together.resolve(manifest, reference)
        if isinstance(value, GangWorkload) and not is_ranked(value):
            _check_classes(together, manifest, value)
        if isinstance(value, ClusterQueue) and not has_errors(manifest.problems):
            _check_cluster_queue(together, manifest, value.spec)
            _check_preemption(together, manifest, value.spec)
        elif isinstance(value, Job | Workload) and not has_errors(manifest.problems):
            _check_fit(together, manifest, value)
            _check_checkpoints(together, manifest, value)
    for cycle in together.tree.cycles:
        ring = " -> ".join(map(short, [*cycle, cycle[0]] if len(cycle) <= _RING_MAX else [*cycle[:_RING_MAX], "…"]))
        message = f"the parents form a cycle, {ring}: every ClusterQueue under it is disabled until it is removed"
        together.manifests[Cohort]["", cycle[0]].warn("spec.parentName", message, "remove parentName from one of them")


def _meta(manifest: Manifest) -> ObjectMeta:
    metadata = getattr(manifest.value, "metadata", None)
    return metadata if isinstance(metadata, ObjectMeta) else ObjectMeta()


def _namespace(manifest: Manifest) -> str:
    if manifest.kind is None or not manifest.kind.namespaced:
        return ""
    return _meta(manifest).namespace or DEFAULT_NAMESPACE


class _ReadTogether:
    """The objects of a set by kind and name, and questions about the whole set."""

    def __init__(self, manifests: Sequence[Manifest], complete: bool) -> None:
        self.complete = complete
        self.manifests: dict[type[Wire], dict[tuple[str, str], Manifest]] = defaultdict(dict)
        self.queues_of: dict[str, list[Manifest]] = defaultdict(list)  # ClusterQueue -> its LocalQueues
        self.names: dict[tuple[type[Wire], str], list[str]] = defaultdict(list)  # by kind and namespace
        self._namespaces: dict[tuple[type[Wire], str], list[str]] = defaultdict(list)  # by kind and name
        self._near: dict[tuple[type[Wire], str, str], str] = {}
        for manifest in manifests:
            self._enter(manifest)
        self.names[PriorityClass, ""].extend(SYSTEM_CLASSES)
        classes = self.values(PriorityClass)
        self.classes = {**{cls.metadata.name: cls.value for cls in classes}, **SYSTEM_CLASSES}
        defaults = [(cls.value, cls.metadata.name) for cls in classes if cls.global_default]
        self.default_class = min(defaults, default=(0, ""))[1]  # the lowest of several (S-15.1.6)
        self.tree = _Tree(self.values(Cohort), self.values(ClusterQueue))
        self.settings = [manifest.value for manifest in manifests if isinstance(manifest.value, Configuration)]
        self.shares_fairly = any(settings.fair_sharing is not None for settings in self.settings)
        # transformations and exclusions change what a pod asks for
        self.counts_plainly = all(settings.resources == Resources() for settings in self.settings)

    def _enter(self, manifest: Manifest) -> None:
        name, namespace, value = _meta(manifest).name, _namespace(manifest), manifest.value
        if value is None or not name:
            return
        kind = type(value)
        first = self.manifests[kind].setdefault((namespace, name), manifest)
        if first is not manifest:
            message = f"{manifest.kind_name} {short(name)} is defined already at {first.file}:{first.line}"
            hint = "keep one of them, or give this one another name"
            manifest.problems.append(Problem(manifest.written("metadata.name"), message, hint, cause="Duplicate"))
            return
        self.names[kind, namespace].append(name)
        self._namespaces[kind, name].append(namespace)
        if isinstance(value, LocalQueue):
            self.queues_of[value.spec.cluster_queue].append(manifest)

    def values(self, kind: type[T]) -> list[T]:
        return [manifest.value for manifest in self.manifests[kind].values() if isinstance(manifest.value, kind)]

    def cluster_queue(self, local_queue: str, namespace: str) -> Manifest | None:
        manifest = self.manifests[LocalQueue].get((namespace, local_queue))
        value = manifest.value if manifest is not None else None
        return (
            self.manifests[ClusterQueue].get(("", value.spec.cluster_queue)) if isinstance(value, LocalQueue) else None
        )

    def resolve(self, manifest: Manifest, reference: Reference) -> None:
        """Warn if the other object is missing or does not fit the reference."""
        path, kind, name, outcome, namespace, group = reference
        target = self.manifests[kind].get((namespace, name))
        if kind is GangWorkload and (namespace, name) in self.manifests[Workload]:
            return  # the gang of a Job: made from this Workload, under its name
        if target is None and kind is PriorityClass and self.complete:
            hint = self._hint(kind, name, namespace)
            manifest.tell(Problem(path, f"no PriorityClass is called {told(name)}", hint, cause="Forbidden"))
        elif target is None:
            what = f"{_word(kind)} {short(name)}" + (f" of namespace {short(namespace)}" if namespace else "")
            message = f"{what} is not in these manifests: {outcome}, unless it exists already where you apply this"
            manifest.warn(path, message, self._hint(kind, name, namespace))
        elif isinstance(target.value, queueing.ResourceFlavor) and target.value.spec.topology_name:
            message = f"ResourceFlavor {name} names a topology, which makeway does not serve: the queue stays inactive"
            manifest.warn(path, f"{message} (TopologyNotFound)", "remove topologyName from the flavor")
        elif isinstance(target.value, GangWorkload):
            groups = [group.name for group in target.value.spec.pod_groups]
            if group not in groups:
                message = f"scheduling Workload {short(name)} has no group {short(group)}: {outcome}"
                manifest.warn(path, message, did_you_mean(group, groups) or f"it has {', '.join(map(short, groups))}")

    def _hint(self, kind: type[Wire], name: str, namespace: str) -> str:
        elsewhere = self._namespaces.get((kind, name))
        if elsewhere:
            what = f"a {_word(kind)} {short(name)} is in namespace {short(elsewhere[0])}"
            return f"{what}: set metadata.namespace to use it"
        key = (kind, namespace, name)
        if key not in self._near and len(self._near) < _NEAR_SEARCHES_MAX:
            self._near[key] = did_you_mean(name, self.names[kind, namespace][:_NEAR_NAMES_MAX])
        return self._near.get(key) or f"add the {_word(kind)}, or correct the name"


def _word(kind: type[Wire]) -> str:
    return "scheduling Workload" if kind is GangWorkload else kind.__name__


def _check_classes(together: _ReadTogether, manifest: Manifest, workload: GangWorkload) -> None:
    """Report a Workload with a lower priority as a victim than as a preemptor; an error where it is certain."""
    spec, classes = workload.spec, together.classes
    if any(name and name not in classes for name in (spec.priority_class_name, spec.preemption_priority_class_name)):
        return  # reported already
    for problem in check_classes(workload, classes, together.default_class):
        if spec.priority_class_name or together.complete:
            manifest.tell(problem)
        else:
            unless = ": the Workload is refused, unless another class is the default where you apply this"
            manifest.warn(problem.path, problem.message + unless, problem.hint)


def _check_cluster_queue(together: _ReadTogether, manifest: Manifest, spec: queueing.ClusterQueueSpec) -> None:
    quotas = _quotas(spec.resource_groups)
    if quotas and not spec.cohort_name and not any(quota.nominal for quota in quotas.values()):
        message = "every nominalQuota is 0 and there is no cohort to borrow from: no request can ever fit"
        manifest.warn("spec.resourceGroups", message, "give it quota, or set cohortName")
    selector = spec.namespace_selector
    if selector is None:
        message = "not set: the queue admits workloads of no namespace"
        manifest.warn("spec.namespaceSelector", message, "`namespaceSelector: {}` admits those of every namespace")
        return
    queues, namespaces = together.queues_of.get(_meta(manifest).name, []), together.manifests[Namespace]
    known = {name: space for queue in queues if (space := namespaces.get(("", name := _namespace(queue))))}
    if known and not any(_selects(selector, name, _meta(space).labels) for name, space in known.items()):
        shown = ", ".join(map(short, [*known][:3])) + (f" and {len(known) - 3} more" if len(known) > 3 else "")
        message = f"matches no namespace that has a LocalQueue of this queue ({shown}): their workloads wait"
        manifest.warn("spec.namespaceSelector", message, "correct the selector, or the labels of the Namespace")


def _check_preemption(together: _ReadTogether, manifest: Manifest, spec: queueing.ClusterQueueSpec) -> None:
    """Warn where preemption within the queue does nothing: a request that must borrow displaces no workload (S-6.5).

    There is no warning if ``borrowWithinCohort`` allows it, with fair sharing and reclaim, or in a cohort that has a
    parent (S-2.16). If the Cohort or the Configuration is not in the set, the message says what would change it.
    """
    preemption, cohort = spec.preemption, spec.cohort_name
    reclaims = preemption.reclaim_within_cohort != "Never"
    if not cohort or preemption.within_cluster_queue == "Never" or preemption.borrow_within_cohort.policy != "Never":
        return
    if together.tree.parent(cohort) or (reclaims and together.shares_fairly):
        return
    quotas = _quotas(spec.resource_groups).items()
    pairs = [f"{resource} of flavor {short(flavor)}" for (flavor, resource), quota in quotas if quota.is_only_borrowed]
    if not pairs:
        return
    unknown = [f"cohort {short(cohort)} has a parent"] if together.tree.parent(cohort) is None else []
    unknown += ["fair sharing is configured"] if reclaims and not together.settings else []
    unless = f", unless {' or '.join(unknown)} where you apply this" if unknown else ""
    shown = ", ".join(pairs[:_PAIRS_MAX]) + (f" and {len(pairs) - _PAIRS_MAX} more" if len(pairs) > _PAIRS_MAX else "")
    message = f"has no effect on {shown}: nominalQuota is 0 there, and a workload that has to borrow preempts nobody"
    is_timed = _min_admit(spec) is not None
    path = "spec.preemption.withinClusterQueue" + ("Config.minAdmitDuration" if is_timed else "")
    hint = "give it nominalQuota, or set reclaimWithinCohort together with borrowWithinCohort or with fair sharing"
    manifest.warn(path, message + unless, hint)


def _min_admit(spec: queueing.ClusterQueueSpec) -> Duration | None:
    config = spec.preemption.within_cluster_queue_config
    return None if config is None else config.min_admit_duration


def _check_checkpoints(together: _ReadTogether, manifest: Manifest, value: Job | Workload) -> None:
    """Warn about a job that saves its work less often than equals may displace it (S-7.5)."""
    declared = value.metadata.annotations.get(CHECKPOINT_INTERVAL)
    if declared is None or any(settings.feature_gates.get(TIME_BASED) is False for settings in together.settings):
        return
    namespace, name = _namespace(manifest), value.metadata.labels.get(QUEUE_LABEL, "")
    if isinstance(value, Workload):
        owners = ((namespace, owner.name) for owner in value.metadata.owner_references)
        if is_finished(value) or any(owner in together.manifests[Job] for owner in owners):  # its Job gets the warning
            return
        name = value.spec.queue_name
    queue_manifest = together.cluster_queue(name, namespace)
    if queue_manifest is None or has_errors(queue_manifest.problems):
        return
    assert isinstance(queue_manifest.value, ClusterQueue)
    least = _min_admit(queue_manifest.value.spec)
    try:
        interval = Duration.parse(declared)
    except ValueError:  # only the simulator reads it, and reports it
        return
    if least is None or interval.nanos <= least.nanos:
        return
    queue, turn = queue_manifest.value.metadata.name, least.short()
    message = (
        f"{interval.short()} is longer than minAdmitDuration of ClusterQueue {queue}, {turn}: "
        f"if it makes way after {turn}, all work of that turn is lost"
    )
    hint = f"save at least every {turn}, or raise minAdmitDuration to {interval.short()} or more"
    manifest.warn(entry("metadata.annotations", CHECKPOINT_INTERVAL), message, hint)


def _selects(selector: LabelSelector, namespace: str, labels: Mapping[str, str]) -> bool:
    labels = {NAMESPACE_LABEL: namespace, **labels}  # the server sets it on every Namespace
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for rule in selector.match_expressions:
        holds = labels.get(rule.key) in rule.values if rule.operator in ("In", "NotIn") else rule.key in labels
        if holds is (rule.operator in ("NotIn", "DoesNotExist")):
            return False
    return True


class _Quota(NamedTuple):
    nominal: int
    borrowing: int  # the most above nominal
    lent: int  # what other queues may borrow

    @property
    def is_only_borrowed(self) -> bool:
        return self.nominal == 0 and self.borrowing > 0


def _quotas(groups: tuple[queueing.ResourceGroup, ...]) -> dict[FlavorResource, _Quota]:
    def units(quantity: Quantity | None, resource: str, unset: int = _UNLIMITED) -> int:
        amount = quantity.in_units(resource) if quantity is not None else unset
        return amount if amount < MAX_AMOUNT else _UNLIMITED

    quotas: dict[FlavorResource, _Quota] = {}
    for flavor in (flavor for group in groups for flavor in group.flavors):
        for quota in flavor.resources:
            nominal = units(quota.nominal_quota, quota.name)
            lent = min(nominal, units(quota.lending_limit, quota.name))
            quotas[flavor.name, quota.name] = _Quota(nominal, units(quota.borrowing_limit, quota.name), lent)
    return quotas


class _Tree:
    """The cohorts above the ClusterQueues: cycles among them, and all that the members of a tree lend."""

    def __init__(self, cohorts: list[Cohort], queues: list[ClusterQueue]) -> None:
        self._parents = {cohort.metadata.name: cohort.spec.parent_name for cohort in cohorts}
        self._roots: dict[str, str | None] = {}  # None: above it is a cycle
        self.cycles: list[list[str]] = []
        for name in self._parents:
            self.root(name)
        rank = {name: i for i, name in enumerate(self._parents)}
        for i, ring in enumerate(self.cycles):
            first = ring.index(min(ring, key=lambda name: rank[name]))
            self.cycles[i] = ring[first:] + ring[:first]
        self._most: dict[str, dict[FlavorResource, int]] = {}
        self._lent: dict[str | None, dict[FlavorResource, int]] = defaultdict(lambda: defaultdict(int))
        for cohort in cohorts:  # a limit of a cohort is for queues outside: its own members may use all its quota
            for pair, quota in _quotas(cohort.spec.resource_groups).items():
                self._lent[self.root(cohort.metadata.name)][pair] += quota.nominal
        for queue in (queue for queue in queues if queue.spec.cohort_name):
            for pair, quota in _quotas(queue.spec.resource_groups).items():
                self._lent[self.root(queue.spec.cohort_name)][pair] += quota.lent

    def parent(self, cohort: str) -> str | None:
        """The name of its parent, "" for a root; None: there is no such Cohort in the set."""
        return self._parents.get(cohort)

    def root(self, cohort: str) -> str | None:
        way: dict[str, int] = {}
        name = cohort
        while name not in self._roots and name not in way:
            way[name] = len(way)
            parent = self._parents.get(name, "")
            if not parent:
                self._roots[name] = name
            name = parent or name
        if name not in self._roots:
            self.cycles.append([*way][way[name] :])
        self._roots |= dict.fromkeys(way, self._roots.get(name))
        return self._roots[cohort]

    def most(self, queue: ClusterQueue) -> dict[FlavorResource, int]:
        """The most that the queue can use while no other queue uses anything; limits of cohorts are ignored."""
        name, cohort = queue.metadata.name, queue.spec.cohort_name
        if name not in self._most:
            quotas = _quotas(queue.spec.resource_groups).items()
            lent = self._lent[self.root(cohort)] if cohort else {}
            spare = {pair: lent.get(pair, quota.lent) - quota.lent for pair, quota in quotas}
            self._most[name] = {pair: quota.nominal + min(spare[pair], quota.borrowing) for pair, quota in quotas}
        return self._most[name]


class _PodSet(NamedTuple):
    """The pods of a podSet: all of them, or with partial admission the least number."""

    path: str  # of the pod template
    size: int
    spec: PodSpec
    flavors: tuple[str, ...] = ()  # the allowed flavors; empty: any

    def asked_at(self, resource: str) -> str:
        """Where the first container asks for it."""
        for part, containers in (("containers", self.spec.containers), ("initContainers", self.spec.init_containers)):
            for i, asks in enumerate(container.resources for container in containers):
                if resource in asks.requests or resource in asks.limits:
                    block = "requests" if resource in asks.requests else "limits"
                    return f"{self.path}.spec.{part}[{i}].resources.{block}[{resource}]"
        return f"{self.path}.spec"


def _pod_sets(value: Job | Workload) -> list[_PodSet]:
    if isinstance(value, Workload):
        return [
            _PodSet(f"spec.podSets[{i}].template", min(pod_set.count, pod_set.min_count or pod_set.count),
                    view(pod_set.template, PodTemplate).spec, pod_set.allowed_resource_flavors)
            for i, pod_set in enumerate(value.spec.pod_sets)
        ]  # fmt: skip
    spec = view(value.spec, JobSpec)
    count = spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)
    least = value.metadata.annotations.get(MIN_PARALLELISM, "")
    count = int(least) if least.isdecimal() and 0 < int(least) < count else count
    return [_PodSet("spec.template", count, view(spec.template, PodTemplate).spec)]


def _pod_requests(spec: PodSpec, *, limits_count: bool) -> dict[str, int]:
    """The request of one pod in billionths, by resource; a limit without a request counts as a request (S-1.5)."""

    def asked(part: Container | PodSpec) -> asking.Nanos:
        amounts = {**part.resources.limits, **part.resources.requests} if limits_count else part.resources.requests
        return {name: quantity.nano for name, quantity in amounts.items()}

    return asking.pod_request(
        asking.PodRequest(
            containers=[asking.ContainerRequest(asked(container)) for container in spec.containers],
            init_containers=[
                asking.ContainerRequest(asked(container), restarts=container.restart_policy == "Always")
                for container in spec.init_containers
            ],
            whole=asking.ContainerRequest(asked(spec)),
            overhead={name: quantity.nano for name, quantity in spec.overhead.items()},
        )
    )


def _check_fit(together: _ReadTogether, manifest: Manifest, value: Job | Workload) -> None:
    """Warn if its ClusterQueue can never hold its pods. Nodes are ignored, and objects that have errors."""
    namespace = _namespace(manifest)
    queue = next((reference.name for reference in references_of(value, namespace) if reference.kind is LocalQueue), "")
    queue_manifest = together.cluster_queue(queue, namespace)
    if queue_manifest is None or has_errors(queue_manifest.problems) or not together.counts_plainly:
        return
    assert isinstance(queue_manifest.value, ClusterQueue)
    cohort = queue_manifest.value.spec.cohort_name
    if cohort and together.tree.root(cohort) is None:
        return
    limits_count = not together.names.get((LimitRange, namespace))  # not if a LimitRange may set other requests
    try:
        pod_sets = _pod_sets(value)
    except msgspec.MsgspecError:  # a part of a pod that no rule has checked
        return
    for pods in pod_sets:
        per_pod = _pod_requests(pods.spec, limits_count=limits_count)
        totals = {name: clamped(Quantity(per_pod[name]).in_units(name) * pods.size) for name in sorted(per_pod)}
        _Fit(manifest, queue_manifest.value, together.tree.most(queue_manifest.value), pods).check(totals)


@dataclass(frozen=True, slots=True)
class _Fit:
    manifest: Manifest
    queue: ClusterQueue
    most: Mapping[FlavorResource, int]
    pods: _PodSet

    def check(self, totals: dict[str, int]) -> None:
        groups, name = self.queue.spec.resource_groups, self.queue.metadata.name
        covered = {resource for group in groups for resource in group.covered_resources}
        if "pods" in covered:
            totals = {**totals, "pods": self.pods.size}
        for resource in (name for name, amount in totals.items() if amount > 0 and name not in covered):
            message = f"resource {resource} is not covered by ClusterQueue {name}: it will wait for ever"
            hint = f"add {resource} to a resource group of the queue, or remove the request"
            self.manifest.warn(self.pods.asked_at(resource), message, hint)
        for group in groups:
            wanted = {name: totals[name] for name in group.covered_resources if totals.get(name, 0) > 0}
            allowed = self.pods.flavors
            flavors = [flavor.name for flavor in group.flavors if not allowed or flavor.name in allowed]
            if wanted and flavors and not _holds_all(self.most, wanted, flavors):
                self._tell(wanted, flavors)

    def _tell(self, wanted: dict[str, int], flavors: list[str]) -> None:
        """One flavor must have all that is wanted of a resource group (S-6.1); warn about what no flavor has."""
        who = "1 pod asks" if self.pods.size == 1 else f"{self.pods.size} pods ask"
        name, cohort = self.queue.metadata.name, self.queue.spec.cohort_name
        best = {resource: max(self.most.get((flavor, resource), 0) for flavor in flavors) for resource in wanted}
        lacking = next((resource for resource, amount in wanted.items() if amount > best[resource]), None)
        if lacking is not None:
            wanted = {lacking: wanted[lacking]}
            gives = f"ClusterQueue {name} can never give more than {Quantity.of_units(best[lacking], lacking)}"
        else:
            gives = f"no flavor of ClusterQueue {name} can ever give all of it"
        listed = " and ".join(
            f"{Quantity.of_units(amount, resource)} {resource}" for resource, amount in wanted.items()
        )
        quotas = _quotas(self.queue.spec.resource_groups)
        ceilings = {pair: quota.nominal + quota.borrowing for pair, quota in quotas.items()}
        may_grow = cohort and _holds_all(ceilings, wanted, flavors)
        unless = f", unless cohort {cohort} has more where you apply this" if may_grow else ""
        message = f"{who} for {listed}, and {gives}: it will wait for ever{unless}"
        self.manifest.warn(self.pods.asked_at(next(iter(wanted))), message, "ask for less, or raise the quota")


def _holds_all(amounts: Mapping[FlavorResource, int], wanted: Mapping[str, int], flavors: list[str]) -> bool:
    return any(all(amounts.get((f, name), 0) >= amount for name, amount in wanted.items()) for f in flavors)
