"""Warnings of ``validate`` and ``simulate`` about preemption that cannot help, or costs more than it gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from makeway.cli.main import main
from tests.cli.offline.test_simulate import CONFIGURATION, data, queues, run, work

HALF_HOUR = "{withinClusterQueue: LowerOrNewerEqualPriority, withinClusterQueueConfig: {minAdmitDuration: 30m}}"
TURNS = queues(HALF_HOUR)
LATE = work("late", 4, runs="2h", saves="1h")
OFTEN = work("often", 4, runs="2h", saves="10m")
WARNING = (
    "minAdmitDuration of ClusterQueue q, 30m, is shorter than the checkpoint interval of default/late (1h): "
    "all work of a turn that ends after 30m is lost"
)

# Two queues of a cohort: one without quota of its own that would take turns, and one that lends.
ON_BORROWED_QUOTA = """\
apiVersion: v1
kind: List
items:
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: spot}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: LocalQueue
  metadata: {name: guests, namespace: t}
  spec: {clusterQueue: guests}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: guests}
  spec:
    namespaceSelector: {}
    cohortName: house
    preemption:
      withinClusterQueue: LowerOrNewerEqualPriority
      withinClusterQueueConfig:
        minAdmitDuration: 10m
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 0}]}]}]
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: hosts}
  spec:
    namespaceSelector: {}
    cohortName: house
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 4}]}]}]
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_validate_says_that_turns_on_borrowed_quota_do_nothing() -> None:
    Path("queues.yaml").write_text(ON_BORROWED_QUOTA, "utf-8")
    result = CliRunner().invoke(main, ["validate", "-f", "queues.yaml"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "queues.yaml:18: warning: ClusterQueue guests: "
        "items[2].spec.preemption.withinClusterQueueConfig.minAdmitDuration: has no effect on cpu of flavor spot: "
        "nominalQuota is 0 there, and a workload that has to borrow preempts nobody, unless cohort house has a parent "
        "where you apply this",
        "  hint: give it nominalQuota, or set reclaimWithinCohort together with borrowWithinCohort "
        "or with fair sharing",
    ]
    assert result.stderr == "1 document in 1 file: 1 warning\n"


def test_the_result_as_data_says_that_turns_end_before_work_is_saved() -> None:
    assert data("-f", "-", "--until", "2h", stdin=TURNS + LATE + OFTEN)["warnings"] == [WARNING]


@pytest.mark.parametrize(
    "text",
    [TURNS + OFTEN, TURNS + work("once", 4, saves="30m"), queues() + LATE, TURNS + work("silent", 4, runs="2h")],
    ids=["often", "once in a turn", "no turns", "silent"],
)
def test_a_result_without_warnings_has_no_such_key(text: str) -> None:
    assert "warnings" not in data("-f", "-", "--until", "2h", stdin=text)


def test_the_report_and_the_page_show_it() -> None:
    result = run("-f", "-", "--until", "2h", "--report", "out.html", stdin=TURNS + LATE + OFTEN)
    assert f"  warning: {WARNING}" in result.stdout.splitlines()
    assert f"<p><strong>Warning:</strong> {WARNING}</p>" in Path("out.html").read_text("utf-8")


def test_work_of_a_file_of_arrivals_counts_once_it_has_come() -> None:
    Path("queues.yaml").write_text(TURNS, "utf-8")
    early, late = work("early", 4, runs="2h", saves="2h", kind="Job"), work("late", 4, runs="2h", saves="1h", minute=50)
    Path("jobs.yaml").write_text(early + late, "utf-8")
    arguments = ("-f", "queues.yaml", "--arrivals", "jobs.yaml", "--until")
    for until, who in (("40m", "default/early (2h)"), ("2h", "default/early (2h), default/late (1h)")):
        assert data(*arguments, until)["warnings"] == [WARNING.replace("default/late (1h)", who)]


def test_of_many_workloads_the_longest_intervals_are_named() -> None:
    many = "".join(work(f"w{i}", 4, runs="1h", saves=f"{i}h") for i in range(1, 6))
    [warning] = data("-f", "-", "--until", "2h", stdin=TURNS + many)["warnings"]
    assert warning == WARNING.replace(
        "default/late (1h)", "default/w5 (5h), default/w4 (4h), default/w3 (3h) and 2 more"
    )


def test_each_of_two_runs_has_its_own_and_people_are_told_both() -> None:
    Path("short.yaml").write_text(queues(HALF_HOUR.replace("30m", "20m")), "utf-8")
    arguments = ("-f", "-", "--until", "2h", "--against", "short.yaml")
    other = WARNING.replace("30m", "20m")
    found = data(*arguments, stdin=TURNS + LATE)
    assert (found["run"]["warnings"], found["against"]["warnings"]) == ([WARNING], [other])
    result = run(*arguments, stdin=TURNS + LATE)
    told = [line.strip() for line in result.stdout.splitlines() if line.startswith("  warning: ")]
    assert told == [f"warning: {WARNING}", f"warning: --against: {other}"]


def test_without_the_gate_there_are_no_turns_and_no_warning() -> None:
    Path("gate.yaml").write_text(CONFIGURATION + "featureGates: {TimeBasedSamePriorityPreemption: false}\n", "utf-8")
    result = run("-f", "-", "--until", "2h", "--config", "gate.yaml", "-o", "json", stdin=TURNS + LATE)
    assert "warnings" not in json.loads(result.stdout)
    assert "checkpoint" not in result.stderr
