"""How recorded scenarios are judged where the recorded system decides in its own way (decision 0078)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.core.quota.shares import NO_SHARE, Share
from makeway.testing.vectors import judge, read_cases, summary
from makeway.testing.vectors.reading import Case
from makeway.testing.vectors.rounding import WHY, RoundedShare

Tree = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"


# --- scenarios by hand -----------------------------------------------------------------------------------------------


def named(kind: str, name: str, spec: Tree, **meta: Any) -> Tree:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def group(**nominal: int) -> list[Tree]:
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": str(n)}]} for name, n in nominal.items()]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def queue(name: str, weight: str = "1", **nominal: int) -> list[Tree]:
    spec = {
        "namespaceSelector": {}, "cohortName": "r", "resourceGroups": group(**nominal),
        "fairSharing": {"weight": weight},
    }  # fmt: skip
    return [
        named("ClusterQueue", name, spec),
        named("LocalQueue", f"lq-{name}", {"clusterQueue": name}, namespace="default"),
    ]


def workload(name: str, cpu: int, held: str = "", minute: int = 0) -> Tree:
    """A workload that waits, or holds flavor ``held`` of its queue; its queue is the first part of its name."""
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    at = f"2024-01-01T11:{minute:02}:00Z"
    found = named(
        "Workload", name, {"queueName": f"lq-{name[0]}", "podSets": [pod_set]}, namespace="default", uid=name,
        creationTimestamp=at,
    )  # fmt: skip
    if held:
        reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": at}
        admission = {"clusterQueue": name[0], "podSetAssignments": [given(cpu, held)]}
        found["status"] = {"admission": admission, "conditions": [reserved]}
    return found


def given(cpu: int, flavor: str) -> Tree:
    return {"name": "main", "count": 1, "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": str(cpu)}}


def entry(name: str, flavor: str, borrow: int, status: str) -> Tree:
    return {
        "workload": f"default/{name}", "clusterQueue": name[0], "mode": "Fit", "borrow": borrow, "status": status,
        "podSets": [{"name": "main", "count": 1, "flavors": {"cpu": {"flavor": flavor, "mode": "Fit"}}}],
    }  # fmt: skip


def cycle(number: int, before: str, after: str, admitted: tuple[str, int, str], *entries: Tree) -> Tree:
    """A cycle: waiting workloads before and after, as names in a row; the admitted one, its amount and flavor."""
    name, cpu, flavor = admitted
    return {
        "cycle": number, "now": f"2024-01-01T12:00:{number}0Z", "pendingBefore": waiting(before),
        "pendingAfter": waiting(after), "inadmissibleBefore": None, "inadmissibleAfter": None, "preempted": None,
        "released": None, "entries": list(entries),
        "quotaReserved": [{"workload": f"default/{name}", "clusterQueue": name[0], "podSets": [given(cpu, flavor)]}],
    }  # fmt: skip


def waiting(names: str) -> dict[str, list[str]]:
    queues = sorted({name[0] for name in names.split()})
    return {queue: [f"default/{name}" for name in names.split() if name[0] == queue] for queue in queues}


def scenario(suite: str, objects: list[Tree], holders: Tree, *cycles: Tree, **parts: Any) -> Case:
    queues: dict[str, Tree] = {each["metadata"]["name"]: {} for each in objects if each["kind"] == "ClusterQueue"}
    want = {
        "initialQuota": {"clusterQueues": queues, "cohorts": {"r": {}}}, "cycles": list(cycles),
        "finalPending": cycles[-1]["pendingAfter"], "finalInadmissible": None,
        "finalHoldingQuota": {
            f"default/{name}": {"clusterQueue": name[0], "podSets": [given(*use)]} for name, use in holders.items()
        },
    }  # fmt: skip
    return Case(
        suite=suite, name="one", now="2024-01-01T12:00:00Z", objects=tuple(objects), want=want,
        **{"given": {"events": None}, **parts},
    )  # fmt: skip


# --- progress of a flavor scan ---------------------------------------------------------------------------------------

GATE = "FlavorFungibilityPreserveScanProgress"


def skipped_twice(last: str, **gates: bool) -> Case:
    """Twice x1 fits by borrowing and loses to one of y that then goes; in the third cycle it gets flavor ``last``."""
    flavors = [named("ResourceFlavor", name, {}) for name in ("a", "b")]
    objects = [
        *flavors, *queue("x", a=0, b=0), *queue("y", a=2, b=2), workload("x1", 2), workload("y1", 1),
        workload("y2", 1, minute=1),
    ]  # fmt: skip
    lost, won = "skipped", "assumed"
    return scenario(
        "oracle_gates", objects, {"x1": (2, last)},
        cycle(1, "x1 y1 y2", "x1 y2", ("y1", 1, "a"), entry("y1", "a", 0, won), entry("x1", "a", 1, lost)),
        cycle(2, "x1 y2", "x1", ("y2", 1, "a"), entry("y2", "a", 0, won), entry("x1", "a", 1, lost)),
        cycle(3, "x1", "", ("x1", 2, last), entry("x1", last, 1, won)),
        gates=gates,
        given={"events": [
            {"afterCycle": 1, "delete": ["default/y1"]}, {"afterCycle": 2, "delete": ["default/y2"], "create": None},
        ]},
    )  # fmt: skip


@pytest.mark.parametrize("others", [{}, {"SchedulingEquivalenceHashing": False}])
def test_with_the_gate_off_the_scan_of_a_skipped_workload_begins_anew_whatever_its_status_says(
    others: dict[str, bool],
) -> None:
    agreed = judge(skipped_twice("a", **{GATE: False}, **others))
    assert (agreed.verdict, agreed.differences) == ("passed", ())
    assert judge(skipped_twice("b", **{GATE: False}, **others)).verdict == "failed"


def test_with_the_gate_on_the_scan_goes_on() -> None:
    case = skipped_twice("b")
    cycles = case.want["cycles"]
    cycles[1]["entries"] = [entry("x1", "b", 1, "assumed"), entry("y2", "a", 0, "assumed")][::-1]
    cycles[1]["quotaReserved"] += cycle(2, "", "", ("x1", 2, "b"))["quotaReserved"]
    cycles[1]["pendingAfter"], cycles[2] = None, {**cycles[2], "idle": True, "entries": None, "quotaReserved": None}
    cycles[2]["pendingBefore"] = None
    found = judge(case)
    assert (found.verdict, found.differences) == ("passed", ())


# --- shares ----------------------------------------------------------------------------------------------------------


def tie(first: str, second: str) -> Case:
    """One ninth with weight 1 and three ninths with weight 3; ``first`` is processed first, and x1 is older."""
    objects = [
        named("ResourceFlavor", "f", {}), named("Cohort", "r", {"resourceGroups": group(f=9)}),
        *queue("x", f=0), *queue("y", "3", f=0), *queue("z", f=0),
        workload("z1", 6, "f"), workload("x1", 1), workload("y1", 3, minute=1),
    ]  # fmt: skip
    size = {"x1": 1, "y1": 3}
    entries = (entry(first, "f", 1, "assumed"), entry(second, "f", 1, "skipped"))
    played = cycle(1, "x1 y1", second, (first, size[first], "f"), *entries)
    holders = {"z1": (6, "f"), first: (size[first], "f")}
    return scenario("oracle_fair", objects, holders, played, config={"fairSharing": {}})


def test_a_tie_of_shares_that_rounding_broke_is_a_difference_on_purpose_and_says_so() -> None:
    exact, rounded = judge(tie("x1", "y1")), judge(tie("y1", "x1"))
    assert (exact.verdict, exact.differences) == ("passed", ())
    assert (rounded.verdict, rounded.reason) == ("different on purpose", WHY)
    lines, failed = summary([exact, rounded])
    assert (lines, failed) == (
        [
            "oracle_fair: 1 passed, 0 failed, 0 not covered",
            f"  different on purpose: one: {WHY}",
            "1 passed, 0 failed, 1 skipped",
        ],
        0,
    )


def test_a_difference_that_rounding_does_not_explain_fails() -> None:
    case = tie("y1", "x1")
    case.want["cycles"][0]["entries"][1]["borrow"] = 0
    assert judge(case).verdict == "failed"
    assert judge(replace(tie("y1", "x1"), config={})).verdict == "failed", "no shares decide there"


def test_rounded_shares_are_ordered_as_doubles() -> None:
    one, three = Share(1, 9), Share(3, 9, 3 * 10**9)
    assert one == three
    low, high = RoundedShare(3, 9, 3 * 10**9), RoundedShare(1, 9)
    assert low < high
    assert low <= high
    assert low != high
    assert not high <= low
    endless, more = RoundedShare(1, 9, 0), RoundedShare(2, 9, 0)
    assert high < endless < more
    assert not endless < high
    assert low > NO_SHARE
    assert not low < NO_SHARE
    assert len({RoundedShare(1, 9), RoundedShare(2, 18), NO_SHARE}) == 2
    assert low != 3


# --- what a record leaves out ----------------------------------------------------------------------------------------


def without(node: Any) -> Iterator[Any]:
    """All copies with one empty list or table as null, or left out."""
    if isinstance(node, dict):
        for key, value in node.items():
            if value in ([], {}):
                yield {**node, key: None}
                yield {each: node[each] for each in node if each != key}
            for less in without(value):
                yield {**node, key: less}
    elif isinstance(node, list):
        for index, value in enumerate(node):
            for less in without(value):
                yield [*node[:index], less, *node[index + 1 :]]


def test_two_cycles_with_nothing_deleted_between_them() -> None:
    nothing: Tree = dict.fromkeys(("quotaReserved", "admitted", "preempted", "evicted", "conditionChanges"))
    first = {**nothing, "pendingAfter": {}, "inadmissibleAfter": {"x": ["default/x1"]}}
    first["conditionChanges"] = {
        "default/x1": {
            "QuotaReserved": {"status": "False", "reason": "ExceedsMaxQuota"},
            "Admitted": {"status": "False", "reason": "NoReservation"},
        }
    }
    second = {**first, "conditionChanges": None}
    objects = (named("ResourceFlavor", "a", {}), *queue("x", a=1), workload("x1", 2))
    case = Case(
        suite="schedule_two_cycles", name="one", now="2024-01-01T12:00:00Z", objects=objects,
        given={"deleteAfterFirstCycle": None}, want={"afterFirst": first, "afterSecond": second},
    )  # fmt: skip
    found = judge(case)
    assert (found.verdict, found.differences) == ("passed", ())
    assert judge(replace(case, given={"deleteAfterFirstCycle": ["default/x1"]})).verdict == "failed"


@pytest.mark.conformance
def test_what_is_empty_in_a_record_may_be_null_or_missing(shared: Path) -> None:
    tried = 0
    for case in read_cases([shared / "vectors" / "kueue"]):
        if case.suite.startswith("oracle") and not case.name.endswith("00"):
            continue  # one of a hundred is enough of those
        verdict = judge(case).verdict
        for part in ("given", "want"):
            for less in without(getattr(case, part)):
                tried += 1
                found = judge(replace(case, **{part: less}))
                assert found.verdict == verdict, (case.name, found.differences)
    assert tried > 1000
