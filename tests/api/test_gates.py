"""The table of gates, and the problems of a list of gates."""

from __future__ import annotations

import pytest

from makeway.api.gates import GATES, check_gates, find_gate


def test_gates_that_differ_under_parity_are_the_ones_that_the_recorded_system_lacks() -> None:
    assert {name for name, gate in GATES.items() if gate.ours != gate.parity} == {
        "ConcurrentAdmission",
        "MultiKueueOrchestratedPreemption",
        "PreemptionClaims",
        "PreemptionRevalidateTargets",
        "PreemptionEpochs",
        "AssignmentModeByWorstResource",
    }


LOCKED = ("FlavorFungibilityPreserveScanProgress", "ManagedJobsNamespaceSelectorAlwaysRespected")


def test_gates_that_are_off_by_default() -> None:
    off = {name for name, gate in GATES.items() if not gate.ours and gate.status == "active"}
    assert off == {
        "UnadmittedWorkloadsExplicitStatus",
        "RejectUpdatesToCQWithInvalidOnFlavors",
        "DisableWaitForPodsReady",
        "PriorityBoost",
        "PrioritizePreemptorWorkloads",
    }


def test_what_is_locked_is_on() -> None:
    locked = {gate.name: (gate.ours, gate.parity) for gate in GATES.values() if gate.status == "locked"}
    assert locked == dict.fromkeys(LOCKED, (True, True))


def test_every_gate_says_what_it_does() -> None:
    for gate in GATES.values():
        assert gate.meaning
        assert "\n" not in gate.meaning


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        GATES["PriorityBoost"] = GATES["MultiKueue"]  # type: ignore[index]


@pytest.mark.parametrize("name", ["TASFailedNodeReplacement", "KueueDRAIntegration", "TopologyAwareScheduling"])
def test_gates_of_modules_that_we_lack_are_known_and_inert(name: str) -> None:
    gate = find_gate(name)
    assert gate is not None
    assert gate.status == "inert"


@pytest.mark.parametrize("name", ["TAS", "TASk", "KueueDRA", "Nonsense", ""])
def test_a_prefix_alone_is_no_gate(name: str) -> None:
    assert find_gate(name) is None


def test_what_is_right_is_passed_over_in_silence() -> None:
    every = {name: gate.ours for name, gate in GATES.items() if gate.status != "inert"}
    assert check_gates({}, "featureGates") == []
    assert check_gates(every, "featureGates") == []


def test_an_unknown_name_is_an_error_with_the_nearest_spelling() -> None:
    (problem,) = check_gates({"preemptionclaim": True}, "featureGates")
    assert (problem.path, problem.severity, problem.cause) == (
        "featureGates[preemptionclaim]",
        "error",
        "NotSupported",
    )
    assert problem.hint == "did you mean PreemptionClaims?"


def test_a_name_like_no_other_has_a_hint_too() -> None:
    (problem,) = check_gates({"Xyzzy": True}, "featureGates")
    assert problem.hint == "remove it"


@pytest.mark.parametrize("value", [True, False])
def test_an_inert_gate_is_a_warning_whatever_its_value(value: bool) -> None:
    (problem,) = check_gates({"AdmissionFairSharing": value}, "featureGates")
    assert problem.severity == "warning"
    assert "LocalQueue usage fair sharing" in problem.message


@pytest.mark.parametrize("name", LOCKED)
def test_turning_off_a_locked_gate_is_a_warning_and_turning_it_on_is_nothing(name: str) -> None:
    assert [problem.severity for problem in check_gates({name: False}, "featureGates")] == ["warning"]
    assert check_gates({name: True}, "featureGates") == []


@pytest.mark.parametrize(
    ("gates", "path"),
    [
        ({"GenericWorkload": False}, "featureGates[GenericWorkload]"),
        ({"GenericWorkload": False, "WorkloadAwarePreemption": True}, "featureGates[WorkloadAwarePreemption]"),
    ],
)
def test_preemption_of_gangs_needs_gangs(gates: dict[str, bool], path: str) -> None:
    (problem,) = check_gates(gates, "featureGates")
    assert (problem.path, problem.severity, problem.cause) == (path, "error", "Invalid")
    assert problem.hint == "set WorkloadAwarePreemption: false, or GenericWorkload: true"


@pytest.mark.parametrize(
    "gates",
    [
        {"WorkloadAwarePreemption": True},
        {"WorkloadAwarePreemption": False},
        {"WorkloadAwarePreemption": False, "GenericWorkload": False},
    ],
)
def test_gangs_without_their_preemption_are_fine(gates: dict[str, bool]) -> None:
    assert check_gates(gates, "featureGates") == []


def test_all_problems_are_told_at_once_in_the_order_written() -> None:
    gates = {"Xyzzy": True, "GenericWorkload": False, "TASBalancedPlacement": True}
    assert [problem.path for problem in check_gates(gates, "g")] == [
        "g[Xyzzy]",
        "g[TASBalancedPlacement]",
        "g[GenericWorkload]",
    ]
