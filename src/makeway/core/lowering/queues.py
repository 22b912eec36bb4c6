"""Flavors, queues and cohorts as the scheduler sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from makeway.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_CONTROLLER
from makeway.api.objects import queueing
from makeway.api.objects.meta import LabelSelector
from makeway.api.objects.meta import Toleration as WireToleration
from makeway.api.objects.pods import Toleration as PodToleration
from makeway.api.quantity import Quantity
from makeway.core.amounts import UNLIMITED
from makeway.core.model import (
    FR,
    Expression,
    Flavor,
    FlavorGroup,
    FlavorName,
    Millis,
    Queue,
    QueueName,
    ResourceName,
    Selector,
    Taint,
    Toleration,
)
from makeway.core.queue_policies import BorrowWithinCohortPolicy, ReclaimWithinCohort, WithinClusterQueue
from makeway.core.quota.tree import WEIGHT_ONE, QuotaSpec
from makeway.core.requests import units

KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")
Find = Callable[[str, str], Any | None]  # kind and name -> the wire object, if there is one


def flavor_of(flavor: queueing.ResourceFlavor) -> Flavor:
    spec = flavor.spec
    return Flavor(
        name=FlavorName(flavor.metadata.name),
        labels=spec.node_labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in spec.node_taints if t.effect in KEEPS_PODS_AWAY),
        tolerations=tuple(map(toleration_of, spec.tolerations)),
    )


def toleration_of(toleration: WireToleration | PodToleration) -> Toleration:
    return Toleration(toleration.key, toleration.operator or "Equal", toleration.value, toleration.effect)


def selector_of(selector: LabelSelector | None) -> Selector | None:
    if selector is None:
        return None
    exact = tuple(Expression(key, "In", (value,)) for key, value in sorted(selector.match_labels.items()))
    return (*exact, *(Expression(each.key, each.operator, each.values) for each in selector.match_expressions))


def quota_units(quantity: Quantity, resource: str) -> int:
    """A quota value; one that does not fit into 64 bits is unlimited (S-1.2)."""
    return UNLIMITED if units(quantity.nano, resource) >= UNLIMITED else units(quantity.nano, resource)


def _quotas(
    name: str, parent: str, groups: Iterable[queueing.ResourceGroup], sharing: queueing.FairSharing | None
) -> QuotaSpec:
    nominal: dict[FR, int] = {}
    borrowing: dict[FR, int] = {}
    lending: dict[FR, int] = {}
    for group in groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                fr = (FlavorName(flavor.name), ResourceName(quota.name))
                nominal[fr] = quota_units(quota.nominal_quota, quota.name)
                if quota.borrowing_limit is not None:
                    borrowing[fr] = quota_units(quota.borrowing_limit, quota.name)
                if quota.lending_limit is not None:
                    lending[fr] = quota_units(quota.lending_limit, quota.name)
    weight = WEIGHT_ONE if sharing is None else sharing.weight.nano
    return QuotaSpec(name=name, parent=parent, nominal=nominal, borrowing=borrowing, lending=lending, weight=weight)


def cohort_of(cohort: queueing.Cohort) -> QuotaSpec:
    spec = cohort.spec
    return _quotas(cohort.metadata.name, spec.parent_name, spec.resource_groups, spec.fair_sharing)


def queue_of(queue: queueing.ClusterQueue, inactive: Sequence[Reason] = ()) -> tuple[Queue, QuotaSpec]:
    """A queue and its quota; ``inactive``: the reasons why it takes part in nothing, if any."""
    spec = queue.spec
    name = QueueName(queue.metadata.name)
    config = spec.preemption.within_cluster_queue_config
    duration = None if config is None else config.min_admit_duration
    fungibility = spec.flavor_fungibility
    options = spec.concurrent_admission
    target = None if options is None else options.remove_below_target_config
    lowered = Queue(
        name=name,
        groups=tuple(
            FlavorGroup(
                resources=tuple(map(ResourceName, group.covered_resources)),
                flavors=tuple(FlavorName(flavor.name) for flavor in group.flavors),
            )
            for group in spec.resource_groups
        ),
        strict=spec.queueing_strategy == "StrictFIFO",
        try_next_when_borrowing=fungibility.when_can_borrow == "TryNextFlavor",
        try_next_when_preempting=fungibility.when_can_preempt == "TryNextFlavor",
        prefer_preemption=fungibility.preference == "PreemptionOverBorrowing",
        within=WithinClusterQueue(spec.preemption.within_cluster_queue),
        min_admit=None if duration is None else Millis(-(-duration.nanos // 1_000_000)),
        reclaim=ReclaimWithinCohort(spec.preemption.reclaim_within_cohort),
        borrow=BorrowWithinCohortPolicy(spec.preemption.borrow_within_cohort.policy),
        threshold=spec.preemption.borrow_within_cohort.max_priority_threshold,
        namespaces=selector_of(spec.namespace_selector),
        checks=_checks(spec.admission_checks_strategy),
        on_success=None if options is None else options.on_success,
        target_flavor=None if target is None else FlavorName(target.target_resource_flavor),
        active=not inactive,
        inactive_because=inactive[0].name if inactive else "",
    )
    return lowered, _quotas(name, spec.cohort_name, spec.resource_groups, spec.fair_sharing)


def _checks(strategy: queueing.AdmissionChecksStrategy | None) -> tuple[tuple[str, frozenset[FlavorName]], ...]:
    rules = () if strategy is None else strategy.admission_checks
    return tuple((rule.name, frozenset(map(FlavorName, rule.on_flavors))) for rule in rules)


# --- whether a queue takes part ---------------------------------------------------------------------------------------


class Reason(NamedTuple):
    """Why a queue admits no workload: the condition's reason, and the words for its message."""

    name: str
    words: str


def inactive_reasons(
    queue: queueing.ClusterQueue, find: Find, *, in_cycle: bool = False, asks_for_checks: bool = True
) -> tuple[Reason, ...]:
    """What keeps a ClusterQueue from admitting workloads; the first reason is the one that counts (api 14.2, S-3.1).

    ``find`` knows flavors and checks. Without ``asks_for_checks`` all named checks count as existing and active.
    ``in_cycle``: a cohort above it is its own ancestor (S-2.3).
    """
    reasons = []
    if queue.metadata.deletion_timestamp is not None:
        reasons.append(Reason("Terminating", "it is being deleted"))
    if queue.spec.is_stopped:
        reasons.append(Reason("Stopped", f"its stopPolicy is {queue.spec.stop_policy}"))
    named = dict.fromkeys(flavor.name for group in queue.spec.resource_groups for flavor in group.flavors)
    flavors = {name: find("ResourceFlavor", name) for name in named}
    missing = [name for name, flavor in flavors.items() if flavor is None]
    if missing:
        reasons.append(Reason("FlavorNotFound", f"there is no ResourceFlavor {_listed(missing)}"))
    if asks_for_checks:
        reasons += _reasons_of_checks(queue, find, frozenset(named))
    bound = [name for name, flavor in flavors.items() if flavor is not None and flavor.spec.topology_name]
    if bound:
        reasons.append(Reason("TopologyNotFound", f"no topology is served, as {_listed(bound)} would need"))
    if in_cycle:
        reasons.append(Reason("Unknown", "a cohort above it is its own ancestor"))
    return tuple(reasons)


def _reasons_of_checks(queue: queueing.ClusterQueue, find: Find, flavors: frozenset[str]) -> Iterable[Reason]:
    strategy = queue.spec.admission_checks_strategy
    rules = () if strategy is None else strategy.admission_checks
    checks = {rule.name: find("AdmissionCheck", rule.name) for rule in rules}
    there = {name: check for name, check in checks.items() if check is not None}
    missing = [name for name in checks if name not in there]
    idle = [name for name, check in there.items() if not _answers(check)]
    remote = [name for name, check in there.items() if check.spec.controller_name == MULTIKUEUE_CONTROLLER]
    partial = [rule.name for rule in rules if rule.name in remote and rule.on_flavors and flavors - {*rule.on_flavors}]
    provisioning = [name for name, check in there.items() if check.spec.controller_name == PROVISIONING_CONTROLLER]
    if missing:
        yield Reason("AdmissionCheckNotFound", f"there is no AdmissionCheck {_listed(missing)}")
    if idle:
        yield Reason("AdmissionCheckInactive", f"AdmissionCheck {_listed(idle)} is not active")
    if len(remote) > 1:
        yield Reason("MultipleMultiKueueAdmissionChecks", f"only one of {_listed(remote)} may hand over to clusters")
    if partial:
        yield Reason("MultiKueueAdmissionCheckAppliedPerFlavor", f"{_listed(partial)} must be on all flavors")
    if remote and provisioning:
        both = f"{_listed(remote)} cannot go together with {_listed(provisioning)}"
        yield Reason("MultiKueueWithProvisioningRequest", both)


def _answers(check: queueing.AdmissionCheck) -> bool:
    conditions = () if check.status is None else check.status.conditions
    return any(each.type == "Active" and each.status == "True" for each in conditions)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
