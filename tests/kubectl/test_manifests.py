"""Manifests that Kueue publishes, applied with kubectl on an otherwise empty server, each with its requirements.

Their README says what must come of them. One server is used for all, and emptied before each of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kubectl.conftest import Makeway, kubectls, running
from tests.kubectl.transcripts import minor

pytestmark = pytest.mark.slow

FOUND = kubectls()
if not FOUND:
    pytest.skip("no kubectl on PATH, and none fetched by tools/kubectl.py", allow_module_level=True)
PATIENCE_SECONDS = 20.0
CLUSTER_KINDS = "cq,cohort,rf,ac,wpc,mkc,mkconf"
QUICK_START = ("quick-start-setup.yaml",)
VIZ = ("viz-00-resource-flavor.yaml", "viz-01-cluster-queues.yaml")
SILENT = "kept, but without effect"


@dataclass(frozen=True)
class Case:
    file: str
    made: tuple[str, ...]  # what kubectl prints for each document that it could apply
    rests_on: tuple[str, ...] = ()
    says: tuple[str, ...] = ()  # besides: warnings and errors
    refused: bool = False
    active: tuple[tuple[str, str], ...] = ()  # queue -> reason of its condition Active
    admitted: tuple[int, ...] = ()  # the pods of each admitted workload


def queueing(kind: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{kind}.kueue.x-k8s.io/{name}" for name in names)


FLAVOR, QUEUE = queueing("resourceflavor", "default-flavor"), queueing("clusterqueue", "cluster-queue")
USER_QUEUE = queueing("localqueue", "user-queue")
READY = (("cq/cluster-queue", "Ready"),)
CASES = [
    Case("admission-fair-sharing-setup.yaml", (*FLAVOR, *QUEUE, *queueing("localqueue", "lq-a", "lq-b")),
         says=(f"spec.admissionScope: {SILENT}", f"spec.fairSharing: {SILENT}"), active=READY),
    Case("minimal-cq.yaml", (), refused=True,
         says=("spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value",)),
    Case("multikueue-setup.yaml", (*FLAVOR, *QUEUE, *USER_QUEUE, *queueing("admissioncheck", "sample-multikueue"),
         *queueing("multikueueconfig", "multikueue-test"), *queueing("multikueuecluster", "multikueue-test-worker1")),
         active=(("cq/cluster-queue", "AdmissionCheckInactive"),)),
    Case("provisioning-setup.yaml", (*FLAVOR, *QUEUE, *USER_QUEUE, *queueing("admissioncheck", "sample-prov")),
         says=('no matches for kind "ProvisioningRequestConfig"',), refused=True,
         active=(("cq/cluster-queue", "AdmissionCheckInactive"),)),
    Case("quick-start-job.yaml", ("job.batch/sample-job",), QUICK_START, active=READY, admitted=(3,)),
    Case("quick-start-setup.yaml", (*FLAVOR, *QUEUE, *USER_QUEUE), active=(*READY, ("lq/user-queue", "Ready"))),
    Case("resource-flavor-empty.yaml", FLAVOR),
    Case("resource-flavor-taints.yaml", queueing("resourceflavor", "spot")),
    Case("resource-flavor-tolerations.yaml", queueing("resourceflavor", "spot")),
    Case("sample-admission-check.yaml", queueing("admissioncheck", "prov-test"),
         says=('no matches for kind "ProvisioningRequestConfig"',), refused=True),
    Case("sample-job-partial-admission.yaml", ("job.batch/sample-job-partial-admission",), QUICK_START, admitted=(9,)),
    Case("sample-job.yaml", ("job.batch/sample-job-",), QUICK_START, admitted=(3,)),
    Case("sample-queues.yaml", (*queueing("resourceflavor", "tas-flavor"),
         *queueing("clusterqueue", "tas-cluster-queue"), *queueing("localqueue", "tas-user-queue")),
         says=('no matches for kind "Topology"', f"spec.topologyName: {SILENT}"), refused=True,
         active=(("cq/tas-cluster-queue", "TopologyNotFound"), ("lq/tas-user-queue", "ClusterQueueIsInactive"))),
    Case("single-clusterqueue-setup.yaml", (*FLAVOR, *QUEUE, *USER_QUEUE), active=READY),
    Case("viz-00-resource-flavor.yaml", queueing("resourceflavor", "default-flavor", "gpu", "spot")),
    Case("viz-01-cluster-queues.yaml", queueing("clusterqueue", "emergency-cluster-queue", "agi-cluster-queue",
         "llm-cluster-queue", "unused-cluster-queue"), VIZ[:1], active=(("cq/emergency-cluster-queue", "Ready"),)),
    Case("viz-02-local-queues.yaml",
         queueing("localqueue", "emergency-queue", "llm-model-queue", "agi-model-queue"), VIZ,
         active=(("lq/agi-model-queue", "Ready"),)),
    Case("viz-07-workload-priority-classes.yaml", queueing("workloadpriorityclass", "human-critical",
         "business-impacting", "long-term-research")),
]  # fmt: skip


@dataclass(frozen=True)
class Kubectl:
    program: Path
    home: Path

    def __call__(self, *words: str) -> tuple[int, str, str]:
        known = {"HOME": str(self.home), "KUBECONFIG": str(self.home / "admin"), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [self.program, *words], env=known, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def json(self, *words: str) -> Any:
        code, out, err = self("get", *words, "-o", "json")
        assert code == 0, err
        return json.loads(out)

    def eventually(self, wanted: Any, *words: str, read: Any) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while (found := read(self.json(*words))) != wanted and time.monotonic() < until:
            time.sleep(0.05)
        assert found == wanted


@pytest.fixture(scope="module")
def emptied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with running(tmp_path_factory.mktemp("makeway"), "--no-node") as server:
        yield _kubectl(server, tmp_path_factory.mktemp("home"))


def _kubectl(server: Makeway, home: Path) -> Kubectl:
    (home / "admin").write_text(server.admin)
    return Kubectl(FOUND[max(FOUND, key=minor)], home)


@pytest.fixture
def kubectl(emptied: Kubectl) -> Kubectl:
    for kinds in ("jobs,kwl,lq", CLUSTER_KINDS):
        code, _, err = emptied("delete", kinds, "--all", *(("-n", "default") if "lq" in kinds else ()))
        assert code == 0, err
    return emptied


def reason(tree: Any) -> str:
    found = [each["reason"] for each in tree.get("status", {}).get("conditions", ()) if each["type"] == "Active"]
    return found[0] if found else ""


def admitted(tree: Any) -> tuple[int, ...]:
    got = (each.get("status", {}).get("admission", {}).get("podSetAssignments", ()) for each in tree["items"])
    return tuple(sum(part["count"] for part in parts) for parts in got if parts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file.removesuffix(".yaml"))
def test_a_published_manifest(case: Case, kubectl: Kubectl, shared: Path) -> None:
    folder = shared / "manifests"
    if not (folder / case.file).is_file():
        pytest.skip("it is not in the shared folder")
    for name in case.rests_on:
        assert kubectl("apply", "-f", str(folder / name))[0] == 0
    verb = "create" if "generateName" in (folder / case.file).read_text() else "apply"
    code, out, err = kubectl(verb, "-f", str(folder / case.file))
    assert code == int(case.refused), err
    lines = out.splitlines()
    assert len(lines) == len(case.made), out
    for line, made in zip(lines, case.made, strict=True):
        assert line.startswith(made)
        assert line.endswith(" created")
    assert [words for words in case.says if words not in err] == []
    assert bool(err) == bool(case.says), err
    for queue, why in case.active:
        kubectl.eventually(why, queue, read=reason)
    kubectl.eventually(case.admitted, "kwl", read=admitted)


def test_every_published_manifest_is_tried(shared: Path) -> None:
    files = {file.name for file in (shared / "manifests").glob("*.yaml")}
    assert files <= {case.file for case in CASES}
