"""Wire objects to the model: the one module of this room that sees them.

Promise: what comes in was validated, so nothing here can fail; what goes out holds integers and plain text only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from makeway.api.objects import configuration as wire
from makeway.api.objects.meta import LabelSelector
from makeway.api.quantity import Duration
from makeway.core.policy import (
    Jobs,
    MultiKueuePolicy,
    PodsReady,
    Policy,
    Profile,
    Requeuing,
    Requirement,
    ResourcePolicy,
    Transformation,
)
from makeway.core.requests import units

_OUR_SETTINGS = wire.MakewaySettings()


def policy_of(configuration: wire.Configuration, profile: Profile = "default") -> Policy:
    """The policy that a configuration file asks for, on top of a profile.

    A setting that equals our default counts as not written: where the parity profile differs, the profile decides.
    """
    base = Policy.of_profile(profile)
    gates = base.gates.turned(configuration.feature_gates)
    waiting = None if gates.disable_wait_for_pods_ready else configuration.wait_for_pods_ready
    fair, retention = configuration.fair_sharing, configuration.object_retention_policies
    return replace(
        _with_settings(base, configuration.makeway),
        gates=gates,
        fair_strategies=fair.preemption_strategies if fair else (),
        pods_ready=_pods_ready(waiting) if waiting else None,
        requeuing=_requeuing(waiting.requeuing_strategy) if waiting else Requeuing(),
        resources=_resources(configuration.resources),
        multi_kueue=_multi_kueue(configuration.multi_kueue),
        jobs=_jobs(configuration),
        keep_finished_ms=_maybe_millis(retention.workloads.after_finished) if retention else None,
        keep_deactivated_ms=_maybe_millis(retention.workloads.after_deactivated_by_kueue) if retention else None,
    )


def _with_settings(base: Policy, ours: wire.MakewaySettings) -> Policy:
    policy = replace(
        base,
        claim_timeout_ms=_millis(ours.claim_timeout),
        status_write_interval_ms=_millis(ours.status_write_interval),
        option_min_stay_ms=_millis(ours.option_min_stay),
        scoring=ours.scoring,
        over_quota=ours.over_quota,
        strict_fifo_lends=ours.strict_fifo_lends,
        rotation=ours.rotation,
        rounds_end_after_ms=_millis(ours.rounds_end_after),
        journal_age_ms=_millis(ours.journal.max_age),
        journal_bytes=units(ours.journal.max_size.nano, "memory"),
    )
    if ours.wake_batch_interval != _OUR_SETTINGS.wake_batch_interval:
        policy = replace(policy, wake_batch_interval_ms=_millis(ours.wake_batch_interval))
    if ours.entitled_hold != _OUR_SETTINGS.entitled_hold:
        policy = replace(policy, entitled_hold=ours.entitled_hold)
    if ours.option_evaluation_timeout != _OUR_SETTINGS.option_evaluation_timeout:
        policy = replace(policy, option_evaluation_timeout_ms=_millis(ours.option_evaluation_timeout))
    if ours.option_upgrade_preempts != _OUR_SETTINGS.option_upgrade_preempts:
        policy = replace(policy, option_upgrade_preempts=ours.option_upgrade_preempts)
    return policy


def _pods_ready(waiting: wire.WaitForPodsReady) -> PodsReady:
    recovery = waiting.timeout if waiting.recovery_timeout is None else waiting.recovery_timeout
    return PodsReady(
        timeout_ms=_millis(waiting.timeout),
        recovery_timeout_ms=_millis(recovery) or None,
        block_admission=waiting.block_admission,
    )


def _requeuing(strategy: wire.RequeuingStrategy) -> Requeuing:
    return Requeuing(
        timestamp=strategy.timestamp,
        backoff_base_ms=strategy.backoff_base_seconds * 1000,
        backoff_max_ms=strategy.backoff_max_seconds * 1000,
        backoff_limit_count=strategy.backoff_limit_count,
    )


def _resources(resources: wire.Resources) -> ResourcePolicy:
    return ResourcePolicy(
        excluded_prefixes=resources.exclude_resource_prefixes,
        transformations=tuple(
            Transformation(
                input=each.input,
                replaces=each.strategy == "Replace",
                multiply_by=each.multiply_by,
                outputs_nano=tuple(sorted((name, factor.nano) for name, factor in each.outputs.items())),
            )
            for each in resources.transformations
        ),
        ignores_undeclared=resources.quota_check_strategy == "IgnoreUndeclared",
    )


def _multi_kueue(multi_kueue: wire.MultiKueue) -> MultiKueuePolicy:
    builtin: dict[str, Literal["AllAtOnce", "Incremental"]] = {
        wire.ALL_AT_ONCE: "AllAtOnce",
        wire.INCREMENTAL: "Incremental",
    }
    step = multi_kueue.incremental_dispatcher_config or wire.IncrementalDispatcher()
    return MultiKueuePolicy(
        gc_interval_ms=_millis(multi_kueue.gc_interval) or None,
        origin=multi_kueue.origin,
        worker_lost_timeout_ms=_millis(multi_kueue.worker_lost_timeout),
        dispatcher=builtin.get(multi_kueue.dispatcher_name, "External"),
        incremental_step=step.step_size,
        single_cluster_preemption_timeout_ms=_millis(multi_kueue.single_cluster_preemption_timeout),
    )


def _jobs(configuration: wire.Configuration) -> Jobs:
    selector = configuration.managed_jobs_namespace_selector
    return Jobs(
        own_namespace=configuration.namespace,
        without_queue_name=configuration.manage_jobs_without_queue_name,
        namespaces=None if selector is None else _requirements(selector),
        frameworks=configuration.integrations.frameworks,
        copied_labels=configuration.integrations.label_keys_to_copy,
    )


def _requirements(selector: LabelSelector) -> tuple[Requirement, ...]:
    """All requirements of a selector; a label to match is one of them."""
    exact = [
        Requirement(key=key, operator="In", values=(value,)) for key, value in sorted(selector.match_labels.items())
    ]
    return (*exact, *(Requirement(key=e.key, operator=e.operator, values=e.values) for e in selector.match_expressions))


def _millis(duration: Duration) -> int:
    """A duration rounded up: one that is not zero stays so, because zero often means never."""
    return -(-duration.nanos // 1_000_000)


def _maybe_millis(duration: Duration | None) -> int | None:
    return None if duration is None else _millis(duration)
