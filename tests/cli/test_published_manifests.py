"""Manifests that Kueue publishes load unchanged, except for what is not served (their README says what)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from makeway.cli.main import main

EXPECTED_ERRORS = {
    "minimal-cq.yaml": [("ClusterQueue", "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]")],
    "provisioning-setup.yaml": [("ProvisioningRequestConfig", "kind")],
    "sample-admission-check.yaml": [("ProvisioningRequestConfig", "kind")],
    "sample-queues.yaml": [("Topology", "kind")],
}
EXPECTED_WARNINGS = {
    "admission-fair-sharing-setup.yaml": ["spec.admissionScope", "spec.fairSharing", "spec.fairSharing"],
    "multikueue-setup.yaml": [],
    "quick-start-setup.yaml": [],
    "sample-queues.yaml": ["spec.topologyName", "spec.resourceGroups[0].flavors[0].name"],
    "single-clusterqueue-setup.yaml": [],
    "viz-00-resource-flavor.yaml": [],
    "viz-07-workload-priority-classes.yaml": [],
}


def test_every_published_manifest_is_judged_as_its_readme_says(shared: Path) -> None:
    files = sorted((shared / "manifests").glob("*.yaml"))
    if not files:
        pytest.skip("no published manifests in the shared folder")
    for file in files:
        result = CliRunner().invoke(main, ["validate", "-f", str(file), "-o", "json"])
        found = json.loads(result.stdout)
        errors = [(each["kind"], each["path"]) for each in found if each["severity"] == "error"]
        assert errors == EXPECTED_ERRORS.get(file.name, []), file.name
        assert all(each["hint"] for each in found if each["path"] == "kind"), file.name
        warnings = [each["path"] for each in found if each["severity"] == "warning"]
        assert warnings == EXPECTED_WARNINGS.get(file.name, warnings), file.name


def test_the_quick_start_fits_together(shared: Path) -> None:
    folder = shared / "manifests"
    names = ("quick-start-setup.yaml", "quick-start-job.yaml", "sample-job.yaml", "sample-job-partial-admission.yaml")
    if not all((folder / name).is_file() for name in names):
        pytest.skip("the quick start is not in the shared folder")
    result = CliRunner().invoke(main, ["validate", "-f", *(str(folder / name) for name in names)])
    assert (result.exit_code, result.stdout) == (0, "")
