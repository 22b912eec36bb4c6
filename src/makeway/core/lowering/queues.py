"""Flavors, queues and cohorts as the scheduler sees them."""

from __future__ import annotations

from collections.abc import Iterable

from makeway.api.objects import queueing
from makeway.api.objects.meta import LabelSelector
from makeway.api.objects.meta import Toleration as WireToleration
from makeway.api.quantity import Quantity
from makeway.core.amounts import UNLIMITED
from makeway.core.model import (
    FR,
    Expression,
    Flavor,
    FlavorName,
    Group,
    Millis,
    Queue,
    QueueName,
    ResourceName,
    Selector,
    Taint,
    Toleration,
)
from makeway.core.quota import QuotaSpec
from makeway.core.requests import units

KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")


def flavor_of(flavor: queueing.ResourceFlavor) -> Flavor:
    spec = flavor.spec
    return Flavor(
        name=FlavorName(flavor.metadata.name),
        labels=spec.node_labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in spec.node_taints if t.effect in KEEPS_PODS_AWAY),
        tolerations=tuple(map(toleration_of, spec.tolerations)),
    )


def toleration_of(toleration: WireToleration) -> Toleration:
    return Toleration(toleration.key, toleration.operator or "Equal", toleration.value, toleration.effect)


def selector_of(selector: LabelSelector | None) -> Selector | None:
    if selector is None:
        return None
    exact = tuple(Expression(key, "In", (value,)) for key, value in sorted(selector.match_labels.items()))
    return (*exact, *(Expression(each.key, each.operator, each.values) for each in selector.match_expressions))


def quota_units(quantity: Quantity, resource: str) -> int:
    """A quota value; whatever 64 bits cannot hold is unlimited (S-1.2)."""
    return UNLIMITED if units(quantity.nano, resource) >= UNLIMITED else units(quantity.nano, resource)


def _quotas(name: str, parent: str, groups: Iterable[queueing.ResourceGroup]) -> QuotaSpec:
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
    return QuotaSpec(name=name, parent=parent, nominal=nominal, borrowing=borrowing, lending=lending)


def cohort_of(cohort: queueing.Cohort) -> QuotaSpec:
    return _quotas(cohort.metadata.name, cohort.spec.parent_name, cohort.spec.resource_groups)


def queue_of(queue: queueing.ClusterQueue, inactive_because: str = "") -> tuple[Queue, QuotaSpec]:
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
            Group(
                resources=tuple(map(ResourceName, group.covered_resources)),
                flavors=tuple(FlavorName(flavor.name) for flavor in group.flavors),
            )
            for group in spec.resource_groups
        ),
        strict=spec.queueing_strategy == "StrictFIFO",
        try_next_when_borrowing=fungibility.when_can_borrow == "TryNextFlavor",
        try_next_when_preempting=fungibility.when_can_preempt == "TryNextFlavor",
        prefer_preemption=fungibility.preference == "PreemptionOverBorrowing",
        within=spec.preemption.within_cluster_queue,
        min_admit=None if duration is None else Millis(-(-duration.nanos // 1_000_000)),
        reclaim=spec.preemption.reclaim_within_cohort,
        borrow=spec.preemption.borrow_within_cohort.policy,
        threshold=spec.preemption.borrow_within_cohort.max_priority_threshold,
        namespaces=selector_of(spec.namespace_selector),
        checks=_checks(spec.admission_checks_strategy),
        on_success=None if options is None else options.on_success,
        target_flavor=None if target is None else FlavorName(target.target_resource_flavor),
        active=not inactive_because,
        inactive_because=inactive_because,
    )
    return lowered, _quotas(name, spec.cohort_name, spec.resource_groups)


def _checks(strategy: queueing.AdmissionChecksStrategy | None) -> tuple[tuple[str, frozenset[FlavorName]], ...]:
    rules = () if strategy is None else strategy.admission_checks
    return tuple((rule.name, frozenset(map(FlavorName, rule.on_flavors))) for rule in rules)


def inactive_reason(queue: queueing.ClusterQueue, flavors: Iterable[str], checks: Iterable[str] | None) -> str:
    """Why a queue takes part in nothing, as far as its own fields and these names tell (S-3.1)."""
    if queue.metadata.deletion_timestamp is not None:
        return "Terminating"
    if queue.spec.stop_policy != "None":
        return "Stopped"
    known = set(flavors)
    if any(flavor.name not in known for group in queue.spec.resource_groups for flavor in group.flavors):
        return "FlavorNotFound"
    strategy = queue.spec.admission_checks_strategy
    if strategy is not None and checks is not None:
        there = set(checks)
        if any(rule.name not in there for rule in strategy.admission_checks):
            return "AdmissionCheckNotFound"
    return ""
