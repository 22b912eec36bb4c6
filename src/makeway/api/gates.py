"""The feature gates: which exist, their defaults, and what is wrong with a list of them (api 9.2).

``core.policy`` reads the table, so this module must not import wire objects, not even through another module.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from makeway.api.problems import Problem, entry, warning

# active: it switches something. locked: it is always on. inert: it belongs to a module that makeway does not have.
Status = Literal["active", "locked", "inert"]


@dataclass(frozen=True, slots=True)
class Gate:
    name: str
    ours: bool
    parity: bool  # the default of the recorded system
    status: Status
    meaning: str


# Where the recorded system has no such gate (api 9.2: a dash), ``parity`` equals ``ours``: no recorded case depends on
# it, and a feature that acts only where its fields are set does not change a case without these fields.
_TABLE: tuple[tuple[str, bool, bool, str], ...] = (
    ("PartialAdmission", True, True, "a Workload may start with fewer pods, down to minCount"),
    ("FlavorFungibility", True, True, "a queue's policy says when the search goes on to the next flavor"),
    ("PrioritySortingWithinCohort", True, True, "queues of one cohort compete by priority before age"),
    ("SchedulingEquivalenceHashing", True, True, "workloads alike in all that matters are refused together"),
    ("ReclaimablePods", True, True, "pods that are done give their quota back early"),
    ("RecomputeAssignmentUponPreemptionTargetsOverlap", True, True, "a second claim on one victim is searched anew"),
    ("FairSharingPreemptWithinNominal", True, True, "whoever stays within its nominal quota may preempt any borrower"),
    ("FairSharingPrioritizeNonBorrowing", True, True, "whoever does not borrow goes before whoever does"),
    ("UnadmittedWorkloadsObservability", True, True, "a waiting Workload says in its reason what it waits for"),
    ("UnadmittedWorkloadsExplicitStatus", False, False, "a waiting Workload says Admitted=False from its start"),
    ("WorkloadPriorityClassDefaulting", True, True, "jobs that name no class get the one called default"),
    ("AdmissionGatedBy", True, True, "an annotation holds a Workload back until it is emptied"),
    ("MultiKueue", True, True, "workloads may run in another cluster"),
    ("MultiKueueIncrementalDispatcherRespectConfigOrder", True, True, "clusters are offered in the configured order"),
    ("RejectUpdatesToCQWithInvalidOnFlavors", False, False, "a bad onFlavors is refused even if the update kept it"),
    ("DisableWaitForPodsReady", False, False, "the waitForPodsReady block is ignored"),
    ("PriorityBoost", False, False, "an annotation adds to a Workload's priority"),
    ("PrioritizePreemptorWorkloads", False, False, "whoever preempted already goes first in a cycle"),
    ("ConcurrentAdmission", True, False, "a Workload may wait for several flavors at once (KEP-8691)"),
    ("MultiKueueOrchestratedPreemption", True, False, "one worker cluster preempts at a time (KEP-8303)"),
    ("TimeBasedSamePriorityPreemption", True, True, "equals make way after a guaranteed time (KEP-8522)"),
    ("GenericWorkload", True, True, "pods may belong to gangs that are placed whole (KEP-4671)"),
    ("WorkloadAwarePreemption", True, True, "gangs preempt, and are preempted, as a whole (KEP-5710)"),
    ("PreemptionClaims", True, False, "what victims free is kept for whoever preempted them"),
    ("PreemptionRevalidateTargets", True, False, "a victim is spared only if all others stay legal without it"),
    ("PreemptionEpochs", True, False, "how often a workload may preempt beyond its nominal quota is bounded"),
    ("AssignmentModeByWorstResource", True, False, "a pod set is as hard to place as its hardest resource"),
)
_LOCKED: tuple[tuple[str, str], ...] = (
    ("FlavorFungibilityPreserveScanProgress", "a search goes on at the flavor where it stopped"),
    (
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "a queue name does not bring in a job of another namespace",
    ),
)
_INERT: tuple[tuple[str, str], ...] = (
    ("AdmissionFairSharing", "LocalQueue usage fair sharing"),
    ("ElasticJobsViaWorkloadSlices", "elastic jobs"),
    ("ElasticJobsViaWorkloadSlicesWithTAS", "elastic jobs"),
    ("MultiKueueClusterProfile", "cluster profiles"),
    ("MultiKueueManagerQuotaAutomation", "automated quota of a MultiKueue manager"),
    ("TopologyAwareScheduling", "topology-aware scheduling"),
    ("CleanupProvisioningRequestsOnEviction", "provisioning requests"),
)
# Whole families of names, because their modules bring a new one with nearly every release.
_INERT_PREFIXES: tuple[tuple[str, str], ...] = (
    ("TAS", "topology-aware scheduling"),
    ("KueueDRA", "dynamic resource allocation"),
)
_NEEDS = (("WorkloadAwarePreemption", "GenericWorkload"),)


def _gates() -> dict[str, Gate]:
    active = [Gate(name, ours, parity, "active", meaning) for name, ours, parity, meaning in _TABLE]
    locked = [Gate(name, True, True, "locked", meaning) for name, meaning in _LOCKED]
    # Off in both profiles, whatever was recorded: the module is not there.
    inert = [Gate(name, False, False, "inert", module) for name, module in _INERT]
    return {gate.name: gate for gate in (*active, *locked, *inert)}


GATES: Mapping[str, Gate] = MappingProxyType(_gates())


def find_gate(name: str) -> Gate | None:
    """A gate by its name; also a gate of an inert family, which ``GATES`` does not list."""
    gate = GATES.get(name)
    if gate is not None:
        return gate
    module = next((module for prefix, module in _INERT_PREFIXES if _is_of_family(name, prefix)), None)
    return None if module is None else Gate(name, False, False, "inert", module)


def check_gates(gates: Mapping[str, bool], path: str) -> list[Problem]:
    """What is wrong with the gates that are set at ``path``, in the order in which they are written."""
    problems: list[Problem] = []
    for name, value in gates.items():
        here, gate = entry(path, name), find_gate(name)
        if gate is None:
            problems.append(Problem(here, "unknown feature gate", _nearest(name), cause="NotSupported"))
        elif gate.status == "inert":
            problems.append(warning(here, f"without effect: {gate.meaning} is not part of makeway", "remove it"))
        elif gate.status == "locked" and not value:
            problems.append(warning(here, "without effect: this gate cannot be turned off", "remove it"))
    return problems + _unmet(gates, path)


def _unmet(gates: Mapping[str, bool], path: str) -> list[Problem]:
    """Gates that are on, perhaps by default, although a gate that they need is off."""
    problems = []
    for name, needed in _NEEDS:
        on, base = (gates.get(gate, GATES[gate].ours) for gate in (name, needed))
        if on and not base:
            written = name if name in gates else needed
            message = f"{name} is on{'' if name in gates else ' by default'} and needs {needed}, which is off"
            hint = f"set {name}: false, or {needed}: true"
            problems.append(Problem(f"{path}[{written}]", message, hint))
    return problems


def _is_of_family(name: str, prefix: str) -> bool:
    rest = name.removeprefix(prefix)
    return rest != name and rest[:1].isupper()


def _nearest(name: str) -> str:
    lowered = {gate.lower(): gate for gate in GATES}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    return f"did you mean {lowered[close[0]]}?" if close else "remove it"
