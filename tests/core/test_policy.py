"""A policy: the two profiles, and what a configuration file makes of them."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from makeway.api.codec import read
from makeway.api.gates import GATES
from makeway.api.objects.configuration import Configuration
from makeway.api.reading.documents import Tree
from makeway.core.lowering import policy_of
from makeway.core.policy import Gates, PodsReady, Policy, Profile, Requeuing, Requirement, Transformation
from makeway.testing.strategies import values

PROFILES: tuple[Profile, ...] = ("default", "parity")


def configured(**blocks: Tree) -> Configuration:
    tree = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **blocks}
    reading = read(tree)
    assert reading.problems == []
    assert isinstance(reading.value, Configuration)
    return reading.value


def test_an_empty_configuration_is_the_profile_itself() -> None:
    assert policy_of(configured()) == Policy.default()
    assert policy_of(configured(), "parity") == Policy.parity()
    assert [Policy.of_profile(each).profile for each in PROFILES] == list(PROFILES)


def test_a_policy_is_a_value() -> None:
    assert Policy.default() == Policy.default()
    assert hash(Policy.parity()) == hash(Policy.parity())
    assert Policy.default() != Policy.parity()


@pytest.mark.parametrize("profile", PROFILES)
def test_the_gates_of_a_profile_are_those_of_the_table(profile: Profile) -> None:
    shown = Policy.of_profile(profile).gates.public()
    for name, value in shown.items():
        assert value == (GATES[name].parity if profile == "parity" else GATES[name].ours), name
    assert set(shown) == {name for name, gate in GATES.items() if gate.status == "active"}


def test_the_attributes_of_gates_default_to_ours() -> None:
    assert Gates() == Gates.of_profile("default")


def test_parity_differs_in_three_settings_beside_its_gates() -> None:
    ours, parity = Policy.default(), Policy.parity()
    assert {each.name for each in fields(Policy) if getattr(ours, each.name) != getattr(parity, each.name)} == {
        "profile",
        "gates",
        "wake_batch_interval_ms",
        "option_evaluation_timeout_ms",
        "option_upgrade_preempts",
        "entitled_hold",
    }
    assert parity.wake_batch_interval_ms == 1000
    assert parity.option_evaluation_timeout_ms is None
    assert parity.option_upgrade_preempts


@pytest.mark.parametrize("profile", PROFILES)
def test_written_gates_override_the_profile(profile: Profile) -> None:
    gates = {"PreemptionClaims": profile == "parity", "RejectUpdatesToCQWithInvalidOnFlavors": True}
    policy = policy_of(configured(featureGates=gates), profile)
    assert policy.gates.preemption_claims == (profile == "parity")
    assert policy.gates.reject_updates_to_cq_with_invalid_on_flavors
    assert policy == replace(Policy.of_profile(profile), gates=policy.gates)


def test_gates_without_effect_change_nothing() -> None:
    gates = {"FlavorFungibilityPreserveScanProgress": False, "TopologyAwareScheduling": True, "TASNew": True}
    assert policy_of(configured(featureGates=gates)) == Policy.default()


def test_settings_of_our_own_are_read_in_milliseconds() -> None:
    block = {
        "claimTimeout": "90s", "wakeBatchInterval": "250ms", "statusWriteInterval": "0s", "optionMinStay": "1h",
        "optionEvaluationTimeout": "30s", "optionUpgradePreempts": True, "scoring": "Pack", "overQuota": "Evict",
        "strictFIFOLends": True, "journal": {"maxAge": "2h", "maxSize": "1Ki"}, "entitledHold": "StrictFIFO",
        "rotation": "Literal", "roundsEndAfter": "1h",
    }  # fmt: skip
    expected: dict[str, Any] = {
        "claim_timeout_ms": 90_000, "wake_batch_interval_ms": 250, "status_write_interval_ms": 0,
        "option_min_stay_ms": 3_600_000, "option_evaluation_timeout_ms": 30_000, "option_upgrade_preempts": True,
        "scoring": "Pack", "over_quota": "Evict", "strict_fifo_lends": True, "journal_age_ms": 7_200_000,
        "journal_bytes": 1024, "entitled_hold": "StrictFIFO", "rotation": "Literal", "rounds_end_after_ms": 3_600_000,
    }  # fmt: skip
    for profile in PROFILES:
        assert policy_of(configured(makeway=block), profile) == replace(Policy.of_profile(profile), **expected)


def test_fair_sharing_is_on_where_it_has_strategies() -> None:
    policy = policy_of(configured(fairSharing={"preemptionStrategies": ["LessThanInitialShare"]}))
    assert policy.fair_strategies == ("LessThanInitialShare",)
    assert policy.fair_sharing
    assert not Policy.default().fair_sharing


def test_waiting_for_pods_recovers_as_long_as_it_starts() -> None:
    policy = policy_of(configured(waitForPodsReady={"timeout": "5m"}))
    assert policy.pods_ready == PodsReady(timeout_ms=300_000, recovery_timeout_ms=300_000)
    assert policy.requeuing == Requeuing()


def test_a_recovery_timeout_of_zero_is_none() -> None:
    policy = policy_of(configured(waitForPodsReady={"recoveryTimeout": "0s", "blockAdmission": True}))
    assert policy.pods_ready == PodsReady(recovery_timeout_ms=None, block_admission=True)


def test_a_span_below_a_millisecond_is_not_taken_for_zero() -> None:
    policy = policy_of(configured(waitForPodsReady={"timeout": "1ns", "recoveryTimeout": "1ns"}))
    assert policy.pods_ready == PodsReady(timeout_ms=1, recovery_timeout_ms=1)


def test_requeuing_is_read_in_milliseconds() -> None:
    strategy = {"timestamp": "Creation", "backoffBaseSeconds": 1, "backoffMaxSeconds": 2, "backoffLimitCount": 3}
    policy = policy_of(configured(waitForPodsReady={"requeuingStrategy": strategy}))
    assert policy.requeuing == Requeuing(
        timestamp="Creation", backoff_base_ms=1000, backoff_max_ms=2000, backoff_limit_count=3
    )


def test_a_gate_turns_waiting_for_pods_off() -> None:
    block = {"requeuingStrategy": {"timestamp": "Creation"}}
    policy = policy_of(configured(waitForPodsReady=block, featureGates={"DisableWaitForPodsReady": True}))
    assert policy.pods_ready is None
    assert policy.requeuing == Requeuing()


def test_transformations_are_exact() -> None:
    block = {
        "excludeResourcePrefixes": ["example.com/"],
        "quotaCheckStrategy": "IgnoreUndeclared",
        "transformations": [
            {"input": "gpu", "strategy": "Replace", "multiplyBy": "pods", "outputs": {"b": "1500m", "a": "2"}}
        ],
    }
    resources = policy_of(configured(resources=block)).resources
    assert resources.excluded_prefixes == ("example.com/",)
    assert resources.ignores_undeclared
    assert resources.transformations == (
        Transformation(
            input="gpu", replaces=True, multiply_by="pods", outputs_nano=(("a", 2 * 10**9), ("b", 1_500_000_000))
        ),
    )


@pytest.mark.parametrize(
    ("name", "dispatcher"),
    [
        ("kueue.x-k8s.io/multikueue-dispatcher-all-at-once", "AllAtOnce"),
        ("kueue.x-k8s.io/multikueue-dispatcher-incremental", "Incremental"),
        ("example.com/mine", "External"),
    ],
)
def test_a_dispatcher_that_is_not_ours_is_external(name: str, dispatcher: str) -> None:
    assert policy_of(configured(multiKueue={"dispatcherName": name})).multi_kueue.dispatcher == dispatcher


def test_no_interval_is_no_collection() -> None:
    assert policy_of(configured(multiKueue={"gcInterval": "0s"})).multi_kueue.gc_interval_ms is None


def test_retention_tells_never_from_at_once() -> None:
    policy = policy_of(configured(objectRetentionPolicies={"workloads": {"afterFinished": "0s"}}))
    assert (policy.keep_finished_ms, policy.keep_deactivated_ms) == (0, None)


def test_a_selector_of_namespaces_is_a_list_of_requirements() -> None:
    selector = {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    assert policy_of(configured(managedJobsNamespaceSelector=selector)).jobs.namespaces == (
        Requirement(key="a", operator="In", values=("1",)),
        Requirement(key="b", operator="In", values=("2",)),
        Requirement(key="c", operator="Exists"),
    )
    assert policy_of(configured(managedJobsNamespaceSelector={})).jobs.namespaces == ()
    assert Policy.default().jobs.namespaces is None


@pytest.mark.property
@given(configuration=values(Configuration))
def test_every_configuration_has_a_policy_that_can_be_compared_and_kept_in_tables(configuration: Configuration) -> None:
    for profile in PROFILES:
        policy = policy_of(configuration, profile)
        assert policy == policy_of(configuration, profile)
        assert {policy: profile}[policy] == policy.profile


def test_the_page_for_people_who_come_from_kueue_tells_every_default_that_differs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "from-kueue.md").read_text("utf-8")
    written = re.search(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    assert written is not None
    reading = read(yaml.safe_load(written[1]))
    assert isinstance(reading.value, Configuration)
    like_kueue, parity = policy_of(reading.value), Policy.parity()
    differing = {each.name for each in fields(Policy) if getattr(like_kueue, each.name) != getattr(parity, each.name)}
    assert differing == {
        "profile",  # no file can name it
        "option_evaluation_timeout_ms",  # nor can a file say "without end"
        "rotation", "status_write_interval_ms",  # what parity does by its profile, and what changes no decision
    }  # fmt: skip
    table = page.partition("### Defaults that differ")[2].partition("All of them as in Kueue")[0]
    for gate in GATES.values():
        assert (gate.ours != gate.parity) == (f"`{gate.name}`" in table), gate.name
