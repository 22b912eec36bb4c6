"""What to write instead of a name from the draft of KEP-83 (api 2.4) or from another version of a kind (api 20)."""

from __future__ import annotations

from makeway.api.reading.documents import Tree

_ANY = ("Always", "ReclaimFromAny", "ReclaimAny")
_LOWER = ("ReclaimFromLowerPriority", "LowerPriorityOnly")
_REFERENCE = "use priorityClassRef: {group: …, kind: …, name: …}"
_ENABLE = "remove it: in v1beta2 the block alone turns it on"

# (kind, path) of the fields that only the other version has.
_IN_V1BETA2 = {
    ("ClusterQueue", "spec.cohort"): "use cohortName; v1beta1 calls it cohort",
    ("ClusterQueue", "spec.admissionChecks"): "use admissionChecksStrategy: {admissionChecks: [{name: …}]}",
    ("Workload", "spec.priorityClassName"): _REFERENCE,
    ("Workload", "spec.priorityClassSource"): _REFERENCE,
    ("MultiKueueCluster", "spec.kubeConfig"): "put it into clusterSource",
    ("MultiKueueCluster", "spec.clusterProfileRef"): "put it into clusterSource",
    ("AdmissionCheck", "spec.retryDelayMinutes"): "remove it: v1beta2 has no such field",
    ("Configuration", "fairSharing.enable"): _ENABLE,
    ("Configuration", "waitForPodsReady.enable"): _ENABLE,
}
_IN_V1BETA1 = {
    ("ClusterQueue", "spec.cohortName"): "use cohort; cohortName is of v1beta2",
    (
        "Workload",
        "spec.priorityClassRef",
    ): "use priorityClassName and priorityClassSource; priorityClassRef is of v1beta2",
    ("MultiKueueCluster", "spec.clusterSource"): "put what is in it into spec itself; clusterSource is of v1beta2",
}
_OLDER_VALUES = {("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")}


def right_spelling(kind: str, version: str, path: str, value: Tree) -> str:
    """The hint for a field or value that the version does not have; "" if no draft and no version has it."""
    if kind == "ClusterQueue" and path.startswith("spec.preemption."):
        return _draft_hint(path.removeprefix("spec.preemption."), value)
    where, _, name = path.rpartition(".")
    if kind == "ClusterQueue" and where == "spec.flavorFungibility" and isinstance(value, str):
        return f"use {name}: MayStopSearch" if (name, value) in _OLDER_VALUES else ""
    return (_IN_V1BETA1 if version == "v1beta1" else _IN_V1BETA2).get((kind, path), "")


def _draft_hint(name: str, value: Tree) -> str:
    if name == "withinClusterQueue":
        return "use withinClusterQueue: LowerPriority" if value in _LOWER else ""
    if name not in ("withinCohort", "reclaimWithinCohort"):
        return ""
    if value in _ANY:
        return "use reclaimWithinCohort: Any"
    if value in _LOWER:
        return "use reclaimWithinCohort: LowerPriority"
    if name == "withinCohort":
        return f"use reclaimWithinCohort: {'Never' if value == 'Never' else 'Never, LowerPriority or Any'}"
    return ""
