"""Rules for the queueing kinds other than Workload (api 13.1-13.3, 13.6)."""

from __future__ import annotations

from collections.abc import Iterator

from makeway.api.forms import KEY_HINT, is_qualified
from makeway.api.objects.queueing import (
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    ConcurrentAdmission,
    FairSharing,
    LocalQueue,
    MultiKueueCluster,
    MultiKueueConfig,
    Preemption,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
)
from makeway.api.problems import Problem, warning
from makeway.api.reading.structure import did_you_mean, listed, told
from makeway.api.validation.fields import check_labels, check_selector, check_taints, check_tolerations

FLAVORS_MAX = RESOURCES_MAX = 256
PAIRS_MAX = 512
OPTIONS_MAX = 16
MIN_ADMIT_SECONDS = 60


def check_cluster_queue(queue: ClusterQueue) -> Iterator[Problem]:
    spec = queue.spec
    yield from _check_groups(spec.resource_groups, in_cohort=bool(spec.cohort_name), owner="cohortName")
    yield from _check_totals(spec.resource_groups)
    for path, quota in _quotas(spec.resource_groups):
        if quota.lending_limit is not None and quota.lending_limit > quota.nominal_quota:
            message = f"{quota.lending_limit} is more than the nominalQuota of {quota.nominal_quota}"
            yield Problem(f"{path}.lendingLimit", message, "a queue lends at most what it owns")
    if spec.namespace_selector is not None:
        yield from check_selector(spec.namespace_selector, "spec.namespaceSelector")
    yield from _check_preemption(spec.preemption)
    yield from _check_fungibility(spec)
    yield from _check_weight(spec.fair_sharing)
    yield from check_on_flavors(spec)
    if spec.concurrent_admission is not None:
        yield from _check_concurrent_admission(spec, spec.concurrent_admission)


def check_cohort(cohort: Cohort) -> Iterator[Problem]:
    spec = cohort.spec
    yield from _check_groups(spec.resource_groups, in_cohort=bool(spec.parent_name), owner="parentName")
    yield from _check_weight(spec.fair_sharing)
    if spec.parent_name and spec.parent_name == cohort.metadata.name:
        yield warning("spec.parentName", "a cohort under itself: every ClusterQueue in it stays inactive")


def _quotas(groups: tuple[ResourceGroup, ...]) -> Iterator[tuple[str, ResourceQuota]]:
    for i, group in enumerate(groups):
        for j, flavor in enumerate(group.flavors):
            for k, quota in enumerate(flavor.resources):
                yield f"spec.resourceGroups[{i}].flavors[{j}].resources[{k}]", quota


def _check_groups(groups: tuple[ResourceGroup, ...], *, in_cohort: bool, owner: str) -> Iterator[Problem]:
    resources: dict[str, str] = {}
    flavors: dict[str, str] = {}
    for i, group in enumerate(groups):
        here = f"spec.resourceGroups[{i}]"
        for j, name in enumerate(group.covered_resources):
            path = f"{here}.coveredResources[{j}]"
            if not is_qualified(name):
                yield Problem(path, f"{told(name)} is not a resource name", KEY_HINT)
            elif (first := resources.setdefault(name, path)) != path:
                yield Problem(path, f"{told(name)} is covered already at {first}", "keep one of them", "Duplicate")
        for j, flavor in enumerate(group.flavors):
            path = f"{here}.flavors[{j}].name"
            if flavor.name and (first := flavors.setdefault(flavor.name, path)) != path:
                yield Problem(path, f"{told(flavor.name)} is used already at {first}", "keep one of them", "Duplicate")
        yield from _check_quota_order(group, here)
    if not in_cohort:
        for path, quota in _quotas(groups):
            for name, limit in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit)):
                if limit is not None:
                    message = f"not allowed while {owner} is empty"
                    yield Problem(f"{path}.{name}", message, f"set spec.{owner}, or remove the limit")


def _check_quota_order(group: ResourceGroup, here: str) -> Iterator[Problem]:
    covered = group.covered_resources
    for j, flavor in enumerate(group.flavors):
        if not covered or not flavor.resources:
            continue  # reported as missing already
        if len(flavor.resources) != len(covered):
            quotas = "1 quota" if len(flavor.resources) == 1 else f"{len(flavor.resources)} quotas"
            message = f"flavor {told(flavor.name)} has {quotas}, but coveredResources lists {len(covered)}"
            yield Problem(here, message, f"give it a quota for each of {listed(covered)}, in this order")
            continue
        for k, (quota, expected) in enumerate(zip(flavor.resources, covered, strict=True)):
            if quota.name and quota.name != expected:
                message = f"{told(quota.name)} stands where coveredResources has {told(expected)}"
                yield Problem(f"{here}.flavors[{j}].resources[{k}].name", message, "use the order of coveredResources")


def _check_totals(groups: tuple[ResourceGroup, ...]) -> Iterator[Problem]:
    for what, total, limit in (
        ("flavors", sum(len(group.flavors) for group in groups), FLAVORS_MAX),
        ("covered resources", sum(len(group.covered_resources) for group in groups), RESOURCES_MAX),
    ):
        if total > limit:
            yield Problem("spec.resourceGroups", f"{total} {what} in total, more than the {limit} allowed")
    for i, group in enumerate(groups):
        pairs = len(group.flavors) * len(group.covered_resources)
        if pairs > PAIRS_MAX:
            message = f"{pairs} pairs of flavor and resource, more than the {PAIRS_MAX} allowed"
            yield Problem(f"spec.resourceGroups[{i}]", message)


def _check_preemption(preemption: Preemption) -> Iterator[Problem]:
    path = "spec.preemption"
    borrow = preemption.borrow_within_cohort.policy
    if preemption.reclaim_within_cohort == "Never" and borrow != "Never":
        message = f"borrowWithinCohort.policy {borrow} needs a reclaimWithinCohort other than Never"
        yield Problem(path, message, "set reclaimWithinCohort, or remove borrowWithinCohort")
    config = preemption.within_cluster_queue_config
    if config is None:
        return
    if preemption.within_cluster_queue != "LowerOrNewerEqualPriority":
        yield Problem(
            f"{path}.withinClusterQueueConfig",
            f"not allowed while withinClusterQueue is {preemption.within_cluster_queue}",
            "set withinClusterQueue: LowerOrNewerEqualPriority, or remove this block",
        )
    least = config.min_admit_duration
    if least is not None and least.nanos < MIN_ADMIT_SECONDS * 1_000_000_000:
        message = f"{least.short()} is shorter than the minimum of 1m"
        yield Problem(f"{path}.withinClusterQueueConfig.minAdmitDuration", message)


def _check_fungibility(spec: ClusterQueueSpec) -> Iterator[Problem]:
    policy = spec.flavor_fungibility
    if policy.preference is not None and (policy.when_can_borrow, policy.when_can_preempt) != (
        "TryNextFlavor",
        "TryNextFlavor",
    ):
        yield Problem(
            "spec.flavorFungibility.preference",
            f"{policy.preference} needs both policies to be TryNextFlavor, "
            f"got whenCanBorrow: {policy.when_can_borrow} and whenCanPreempt: {policy.when_can_preempt}",
            "set whenCanBorrow and whenCanPreempt to TryNextFlavor, or remove preference",
        )


def _check_weight(sharing: FairSharing | None) -> Iterator[Problem]:
    if sharing is None:
        return
    weight = sharing.weight
    if weight.nano < 0:
        yield Problem("spec.fairSharing", f"weight {weight} is negative")
    elif weight.nano == 1:
        yield Problem("spec.fairSharing", f"weight {weight} is too small", "use 0, or more than 1n")


def _flavors(spec: ClusterQueueSpec) -> list[str]:
    return [flavor.name for group in spec.resource_groups for flavor in group.flavors]


def check_on_flavors(spec: ClusterQueueSpec) -> Iterator[Problem]:
    """Check that a queue has all flavors that an admission check is restricted to."""
    if spec.admission_checks_strategy is None:
        return
    flavors = _flavors(spec)
    for i, rule in enumerate(spec.admission_checks_strategy.admission_checks):
        for j, name in enumerate(rule.on_flavors):
            if name not in flavors:
                path = f"spec.admissionChecksStrategy.admissionChecks[{i}].onFlavors[{j}]"
                yield Problem(path, _no_such_flavor(name, flavors), did_you_mean(name, flavors), cause="NotSupported")


def _no_such_flavor(name: str, flavors: list[str]) -> str:
    return f"{told(name)} is not a flavor of this queue; its flavors: {listed(flavors)}"


def _check_concurrent_admission(spec: ClusterQueueSpec, block: ConcurrentAdmission) -> Iterator[Problem]:
    path = "spec.concurrentAdmission"
    flavors = _flavors(spec)
    target = block.remove_below_target_config
    if block.on_success == "RemoveBelowTarget" and target is None:
        message = "required with onSuccess: RemoveBelowTarget"
        yield Problem(f"{path}.removeBelowTargetConfig", message, "set targetResourceFlavor in it", cause="Required")
    elif block.on_success not in ("RemoveBelowTarget", None) and target is not None:
        message = f"not allowed with onSuccess: {block.on_success}"
        yield Problem(f"{path}.removeBelowTargetConfig", message, "remove this block", cause="Forbidden")
    if target is not None and target.target_resource_flavor and target.target_resource_flavor not in flavors:
        name = target.target_resource_flavor
        where = f"{path}.removeBelowTargetConfig.targetResourceFlavor"
        yield Problem(where, _no_such_flavor(name, flavors), did_you_mean(name, flavors))
    for i, option in enumerate(block.explicit_options):
        for name in option.allowed_resource_flavors:
            if name not in flavors:
                where = f"{path}.explicitOptions[{i}].allowedResourceFlavors"
                yield Problem(where, _no_such_flavor(name, flavors), did_you_mean(name, flavors))
    if spec.queueing_strategy == "StrictFIFO":
        message = "StrictFIFO does not go together with concurrentAdmission"
        yield Problem("spec.queueingStrategy", message, "use BestEffortFIFO, or remove concurrentAdmission")
    if not block.explicit_options:
        yield from _check_default_options(spec)


def _check_default_options(spec: ClusterQueueSpec) -> Iterator[Problem]:
    """Without explicit Options there is one per flavor, so flavors must be in one list, and not too many."""
    groups = spec.resource_groups
    hint = "list the Options in concurrentAdmission.explicitOptions"
    if len(groups) != 1:
        message = f"concurrentAdmission without explicitOptions needs exactly one resource group, got {len(groups)}"
        yield Problem("spec.resourceGroups", message, hint)
    elif len(groups[0].flavors) > OPTIONS_MAX:
        count = len(groups[0].flavors)
        message = f"concurrentAdmission without explicitOptions allows {OPTIONS_MAX} flavors, got {count}"
        yield Problem("spec.resourceGroups", message, hint)


def check_resource_flavor(flavor: ResourceFlavor) -> Iterator[Problem]:
    spec = flavor.spec
    yield from check_labels(spec.node_labels, "spec.nodeLabels", at_map=True)
    yield from check_taints(spec.node_taints, "spec.nodeTaints")
    yield from check_tolerations(spec.tolerations, "spec.tolerations")
    if spec.topology_name and not spec.node_labels:
        yield Problem("spec.topologyName", "needs at least one nodeLabel", "set spec.nodeLabels")


def check_resource_flavor_update(old: ResourceFlavor, new: ResourceFlavor) -> Iterator[Problem]:
    if old.spec.topology_name and new.spec.topology_name != old.spec.topology_name:
        yield Problem("spec.topologyName", f"cannot be changed once set (it is {told(old.spec.topology_name)})")


def check_local_queue(queue: LocalQueue) -> Iterator[Problem]:
    if not queue.spec.cluster_queue:
        yield warning("spec.clusterQueue", "empty: nothing in this queue can ever be admitted", "name a ClusterQueue")


def check_multikueue_cluster(cluster: MultiKueueCluster) -> Iterator[Problem]:
    source = cluster.spec.cluster_source
    if source is None:
        return
    count = (source.kube_config is not None) + (source.cluster_profile_ref is not None)
    if count != 1:
        message = f"exactly one of kubeConfig and clusterProfileRef must be set, got {'both' if count else 'none'}"
        yield Problem("spec.clusterSource", message)
    elif source.cluster_profile_ref is not None:
        message = "cluster profiles are not part of makeway: the cluster stays inactive"
        yield warning("spec.clusterSource.clusterProfileRef", message, "use kubeConfig")


def check_multikueue_config(config: MultiKueueConfig) -> Iterator[Problem]:
    if config.spec.quota_management == "Automated":
        yield warning("spec.quotaManagement", "automated quota is not part of makeway: treated as Manual")


def is_excused(problem: Problem, old: ClusterQueueSpec, new: ClusterQueueSpec) -> bool:
    """Whether neither the flavors of the check that ``problem`` is about nor those of the queue have changed."""
    if (
        set(_flavors(old)) != set(_flavors(new))
        or not old.admission_checks_strategy
        or not new.admission_checks_strategy
    ):
        return False
    index = int(problem.path.partition("admissionChecks[")[2].partition("]")[0])
    rule = new.admission_checks_strategy.admission_checks[index]
    before = {rule.name: set(rule.on_flavors) for rule in old.admission_checks_strategy.admission_checks}
    return before.get(rule.name) == set(rule.on_flavors)
