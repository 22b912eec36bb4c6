"""Features of the recorded system that are not offered, or not yet: what a case states, never its name."""

from __future__ import annotations

import json

from makeway.testing.vectors.reading import Case

LOCAL_QUEUE_USAGE = "fair sharing by LocalQueue usage"
OPTIONS_CONTROLLER = "the controller of Options"
ELASTIC_SLICES = "elastic slices"
TOPOLOGY = "topology-aware scheduling"

# Suites that ask only for such a feature.
OF_SUITE = {
    "schedule_admission_fair_sharing": LOCAL_QUEUE_USAGE,
    "concurrent_admission_reconcile": OPTIONS_CONTROLLER,
}
SLICE_REPLACEMENT = "kueue.x-k8s.io/workload-slice-replacement-for"


def missing_feature(case: Case) -> str:
    """The feature for which a case is not covered; "" if it is covered."""
    if case.suite in OF_SUITE:
        return OF_SUITE[case.suite]
    if case.config.get("admissionFairSharing"):
        return LOCAL_QUEUE_USAGE
    if any(tag.startswith("topology") for tag in case.tags) or _has_topology(case):
        return TOPOLOGY
    if "elastic-slices" in case.tags or SLICE_REPLACEMENT in json.dumps([case.objects, case.given]):
        return ELASTIC_SLICES
    return ""


def _has_topology(case: Case) -> bool:
    return any(each["kind"] == "Topology" or each.get("spec", {}).get("topologyName") for each in case.objects)
