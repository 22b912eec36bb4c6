"""The runner of recorded decisions says what differs, leaves out only what a feature excuses, and sums it all up."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from makeway.testing.vectors import VectorsError, judge, read_cases, summary
from makeway.testing.vectors.report import ADAPTERS
from makeway.testing.vectors.scope import OF_SUITE
from tools import conformance

Tree = dict[str, Any]
EACH = 10  # one of so many recorded cases is judged here; `make conformance` judges all of them


def case(suite: str, name: str = "one", **parts: Any) -> Tree:
    envelope = {"featureGates": {}, "now": "2024-01-01T12:00:00Z", "config": {}, "objects": [], "given": {}, "want": {}}
    return {"suite": suite, "name": name, **envelope, "tags": [], **parts}


def preference(*, preferred: bool, name: str = "one", **parts: Any) -> Tree:
    given = {"a": {"mode": "Fit", "borrow": 0}, "b": {"mode": "Preempt", "borrow": 0}, "flavorFungibility": {}}
    return case("flavor_preference", name, given=given, want={"aPreferred": preferred}, **parts)


def written(folder: Path, *cases: Tree, name: str = "cases.jsonl") -> Path:
    text = "".join(json.dumps(each) + "\n" for each in cases).encode()
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "cq"},
    "spec": {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
            }
        ],
    },
}
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
LOCAL_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "lq", "namespace": "default"},
    "spec": {"clusterQueue": "cq"},
}


def workload(name: str, cpu: str) -> Tree:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"queueName": "lq", "podSets": [pod_set]},
    }


def cycle(cpu: str, **want: Any) -> Tree:
    nothing: Tree = {
        "quotaReserved": [], "admitted": [], "preempted": [], "evicted": [], "pendingAfter": {},
        "inadmissibleAfter": {}, "conditionChanges": {},
    }  # fmt: skip
    objects = [QUEUE, FLAVOR, LOCAL_QUEUE, workload("wl", cpu)]
    return case("schedule_cycle", objects=objects, given={"cycles": 1}, want={**nothing, **want})


PARKED = {
    "inadmissibleAfter": {"cq": ["default/wl"]},
    "conditionChanges": {
        "default/wl": {
            "QuotaReserved": {"status": "False", "reason": "ExceedsMaxQuota"},
            "Admitted": {"status": "False", "reason": "NoReservation"},
        }
    },
}


def test_a_case_that_agrees_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([str(written(tmp_path, preference(preferred=True)))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "flavor_preference: 1 passed, 0 failed, 0 not covered",
        "1 passed, 0 failed, 0 skipped",
    ]


def test_a_case_that_differs_fails_the_run_and_shows_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, preference(preferred=True), preference(preferred=False, name="two"))
    assert conformance.main([str(path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "flavor_preference: 1 passed, 1 failed, 0 not covered",
        "  FAILED two",
        "    differs: a preferred: got True, want False",
        "1 passed, 1 failed, 0 skipped",
    ]


def test_a_cycle_that_agrees_passes(tmp_path: Path) -> None:
    assert conformance.main([str(written(tmp_path, cycle("5", **PARKED)))]) == 0


def test_a_failing_cycle_comes_with_our_own_explanation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, cycle("5", pendingAfter={"cq": ["default/wl"]}))
    assert conformance.main([str(path)]) == 1
    out = capsys.readouterr().out
    assert "differs: pending: got {}, want {cq: [default/wl]}" in out
    assert "because: default/wl: waiting NoFit 0, requeued NoFit" in out
    assert "flavor/exceeds-max-quota main cpu f: 5000 are asked for" in out


def test_long_explanations_are_cut_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [QUEUE, FLAVOR, LOCAL_QUEUE, *(workload(f"wl{i}", "5") for i in range(3))]
    tree = {**cycle("5"), "objects": objects, "given": {"cycles": 9}}
    tree["want"]["skippedPreemptions"] = {f"cq{i}": 1 for i in range(9)}
    path = written(tmp_path, tree)
    conformance.main([str(path)])
    short = capsys.readouterr().out
    conformance.main([str(path), "--verbose"])
    full = capsys.readouterr().out
    assert "more; VERBOSE=1 shows them" in short
    assert "VERBOSE" not in full
    assert len(full) > len(short)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (case("queue_head", config={"admissionFairSharing": {"usageHalfLifeTime": "1s"}}), "LocalQueue usage"),
        (case("concurrent_admission_reconcile"), "the controller of Options"),
        (case("schedule_cycle", tags=["elastic-slices"]), "elastic slices"),
        (case("something_new"), "no adapter for this suite"),
        ({"suite": "pods", "name": "p", "nodes": []}, "another format"),
    ],
)
def test_a_case_is_left_out_only_for_a_feature_it_states(
    tree: Tree, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conformance.main([str(written(tmp_path, tree))]) == 0
    first, why, last = capsys.readouterr().out.splitlines()
    assert first == f"{tree['suite']}: 0 passed, 0 failed, 1 not covered"
    assert reason in why
    assert last == "0 passed, 0 failed, 1 skipped"


def test_an_error_of_ours_fails_its_case_and_the_others_are_still_tried(tmp_path: Path) -> None:
    broken = case("flavor_preference", "broken")
    outcomes = [judge(each) for each in read_cases([written(tmp_path, broken, preference(preferred=True))])]
    assert [each.verdict for each in outcomes] == ["failed", "passed"]
    assert outcomes[0].differences[0].startswith("KeyError")


def test_a_folder_is_read_by_name_without_its_subfolders(tmp_path: Path) -> None:
    written(tmp_path, preference(preferred=True, name="b"), name="b.jsonl")
    written(tmp_path, preference(preferred=True, name="a"), name="a.jsonl.gz")
    written(tmp_path, preference(preferred=True, name="x"), name="notes.txt")
    (tmp_path / "deeper").mkdir()
    written(tmp_path / "deeper", preference(preferred=True, name="c"))
    assert [each.name for each in read_cases([tmp_path])] == ["a", "b"]


def test_only_the_suites_asked_for_are_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, preference(preferred=True), case("something_new"))
    assert conformance.main([str(path), "--suites", "flavor_preference"]) == 0
    assert "something_new" not in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["missing.jsonl"], ["cases.jsonl", "--suites", "flavour_preference"]])
def test_what_cannot_be_run_is_an_error(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, preference(preferred=True))
    monkeypatch.chdir(tmp_path)
    assert conformance.main(arguments) == 2
    assert capsys.readouterr().err.startswith("conformance: ")


@pytest.mark.parametrize("content", [b"{", b"[]\n", b"\xff\n"])
def test_lines_that_are_no_cases_are_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(VectorsError, match=r"bad\.jsonl"):
        list(read_cases([path]))


# --- cases about nodes -----------------------------------------------------------------------------------------------


def on_nodes(name: str = "one", suite: str = "whatever", **want: Any) -> Tree:
    """One node, one pod on it, and a more important one that wants the node."""
    pods = [
        {"namespace": "d", "name": "low", "requests": {"cpu": "1"}, "node": "n", "priority": 1, "startTime": 1},
        {"namespace": "d", "name": "in", "requests": {"cpu": "2"}, "node": None, "priority": 5, "startTime": 2},
    ]
    nodes = [{"name": "n", "labels": {}, "taints": [], "allocatable": {"cpu": "2", "pods": "9"}}]
    given = {"preemptor": {"kind": "Pod", "namespace": "d", "name": "in"}}
    return {"suite": suite, "name": name, "nodes": nodes, "pods": pods, "given": given, "want": want}


def test_a_case_about_nodes_is_judged_by_what_it_wants_and_its_answer_can_be_kept(tmp_path: Path) -> None:
    candidates = [{"node": "n", "victims": ["d/low"], "numPDBViolations": 0, "n": 1}]
    good = on_nodes(preemptionNeeded=True, feasible=True, chosen=["n"], candidates=candidates)
    wrong = on_nodes("two", preemptionNeeded=False, feasible=True)
    gate = on_nodes("three", eligible=True)
    path, answers = written(tmp_path, good, wrong, gate), tmp_path / "answers.jsonl"
    outcomes = [judge(each) for each in read_cases([path])]
    assert [each.verdict for each in outcomes] == ["passed", "failed", "passed"]
    assert outcomes[1].differences == ("R1: preemption is needed, recorded is the contrary",)
    assert conformance.main([str(path), "--answers", str(answers)]) == 1
    first, second = map(json.loads, answers.read_text("utf-8").splitlines())
    assert first == {
        "suite": "whatever", "name": "one",
        "answer": {
            "needed": True, "feasible": True, "victims": ["d/low"], "nominated": {"d/in": "n"},
            "candidates": candidates, "numPDBViolations": 0, "n": 1,
        },
    }  # fmt: skip
    assert second["name"] == "two"


def test_a_case_about_nodes_that_wants_something_unknown_is_not_covered(tmp_path: Path) -> None:
    (outcome,) = (judge(each) for each in read_cases([written(tmp_path, on_nodes(colour="red"))]))
    assert (outcome.verdict, outcome.reason) == ("not covered", "another format")


@pytest.mark.conformance
@pytest.mark.slow
def test_recorded_cases_about_nodes_agree(shared: Path) -> None:
    outcomes = [judge(each) for each in list(read_cases([shared / "vectors" / "kube"]))[::EACH]]
    lines, failed = summary(outcomes, verbose=True)
    assert failed == 0, "\n".join(lines)
    assert {each.verdict for each in outcomes} == {"passed"}, "each is covered"


@pytest.mark.conformance
def test_recorded_decisions_that_are_covered_agree(shared: Path) -> None:
    cases = list(read_cases([shared / "vectors" / "kueue"]))[::EACH]
    lines, failed = summary(map(judge, cases), verbose=True)
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", lines[-1])
    assert failed == 0, "\n".join(lines)


@pytest.mark.conformance
def test_every_recorded_suite_has_an_adapter_or_a_missing_feature(shared: Path) -> None:
    suites = {each.suite for each in read_cases([shared / "vectors" / "kueue"])}
    assert suites - set(ADAPTERS) - set(OF_SUITE) == set()
