"""``makeway queues``: the figures, the bars at any width, and plain columns for pipes."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
import yaml

from makeway.api import codec
from makeway.api.objects.queueing import ClusterQueue, Cohort
from makeway.cli.jobs.queues import _lines, _shared
from makeway.cli.jobs.quota_figures import CohortFigures, QuotaFigure, grouped
from tests.cli.conftest import KUEUE, Server, queue


def status(used: int, borrowed: int = 0, *, waiting: int = 0, admitted: int = 0, **more: Any) -> dict[str, Any]:
    usage = [{"name": "default", "resources": [{"name": "cpu", "total": used, "borrowed": borrowed}]}]
    return {
        "flavorsReservation": usage, "pendingWorkloads": waiting, "admittedWorkloads": admitted, **more,
    }  # fmt: skip


def cohort(name: str, parent: str = "", cpu: int | None = None) -> dict[str, Any]:
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    groups = [] if cpu is None else [{"coveredResources": ["cpu"], "flavors": flavors}]
    spec = {"resourceGroups": groups, **({"parentName": parent} if parent else {})}
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def value(tree: dict[str, Any], of: dict[str, Any] | None = None) -> Any:
    read = codec.read({**tree, **({"status": of} if of is not None else {})})
    assert read.ok, read.problems
    return read.value


def groups(*objects: Any) -> list[CohortFigures]:
    queues = [each for each in objects if isinstance(each, ClusterQueue)]
    return grouped(queues, [each for each in objects if isinstance(each, Cohort)])


def cpu(group: CohortFigures, name: str) -> QuotaFigure:
    found = {each.name: each.figures for each in group.all_queues}
    return found[name]["default", "cpu"]


def lending(name: str, limit: int, used: int) -> Any:
    tree = queue(name)
    tree["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = limit
    return value(tree, status(used))


# --- figures ---------------------------------------------------------------------------------------------------------


def test_who_lends_is_known_where_only_one_can() -> None:
    (lab,) = groups(value(queue("a"), status(1)), value(queue("b"), status(6, 2)))
    assert cpu(lab, "a") == QuotaFigure(nominal=4000, used=1000, lent=2000, lendable=3000)
    assert cpu(lab, "b") == QuotaFigure(nominal=4000, used=6000, borrowed=2000)
    total = lab.figures()["default", "cpu"]
    assert (total.nominal, total.used, total.borrowed, total.lent) == (8000, 7000, 2000, 2000)


def test_of_several_lenders_each_is_counted_with_what_the_others_could_not() -> None:
    (lab,) = groups(value(queue("a"), status(1)), value(queue("b"), status(2)), value(queue("c"), status(8, 4)))
    assert [cpu(lab, name).lent for name in "abc"] == [2000, 1000, 0]
    (lab,) = groups(value(queue("a"), status(1)), value(queue("b"), status(1)), value(queue("c"), status(5, 1)))
    assert [cpu(lab, name).lent for name in "abc"] == [0, 0, 0]


def test_a_lending_limit_and_the_cohorts_own_quota_count() -> None:
    (lab,) = groups(lending("a", 1, 0), value(queue("b"), status(0)), value(queue("c"), status(8, 4)))
    assert [cpu(lab, name).lent for name in "ab"] == [0, 3000]
    (lab,) = groups(value(cohort("lab", cpu=10)), value(queue("b"), status(0)), value(queue("c"), status(8, 4)))
    assert cpu(lab, "b").lent == 0


def test_nested_cohorts_are_one_tree_and_cycles_stand_alone() -> None:
    cohorts = [value(cohort("team", "root")), value(cohort("x", "y")), value(cohort("y", "x"))]
    queues = [value(queue("a", "team"), status(0)), value(queue("b", "root"), status(6, 2)), value(queue("alone", ""))]
    found = groups(*cohorts, *queues)
    assert [each.name for each in found] == ["root", "x", "y", ""]
    assert [each.name for each in found[0].groups] == ["team"]
    assert cpu(found[0], "a").lent == 2000


def test_what_a_queue_no_longer_declares_is_shown_and_a_queue_that_is_not_active_says_why() -> None:
    condition = {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "m"}
    usage = [{"name": "gone", "resources": [{"name": "gpu", "total": 3, "borrowed": 0}]}]
    of = {"flavorsReservation": usage, "conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    (lab,) = groups(value(queue("a"), of))
    assert lab.queues[0].trouble == "FlavorNotFound"
    assert lab.queues[0].figures["gone", "gpu"] == QuotaFigure(used=3)


# --- bars ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "width", "cells"),
    [
        ([0, 0, 0, 0], 6, [0, 0, 0, 6]),
        ([1, 0, 0, 1], 6, [3, 0, 0, 3]),
        ([1, 0, 0, 999], 6, [1, 0, 0, 5]),
        ([999, 1, 1, 0], 6, [4, 1, 1, 0]),
        ([2, 1, 0, 0], 9, [6, 3, 0, 0]),
        ([1, 1, 1, 0], 10, [4, 3, 3, 0]),
    ],
)
def test_whatever_is_there_has_a_cell_and_all_are_used(parts: list[int], width: int, cells: list[int]) -> None:
    found = _shared(parts, width)
    assert sum(found) == width
    assert sorted(found) == sorted(cells)
    assert all(bool(part) <= bool(cell) for part, cell in zip(parts, found, strict=True))


@pytest.mark.parametrize("columns", [20, 34, 50, 80, 200])
def test_bars_fit_any_screen(columns: int) -> None:
    found = groups(
        value(queue("a"), status(1, waiting=12, admitted=3)), value(queue("a-queue-with-a-long-name"), status(6, 2)),
        value(queue("alone", "")),
    )  # fmt: skip
    lines = [click.unstyle(line) for text in _lines(found, columns) for line in text.split("\n")]
    assert all(len(line) <= max(40, columns) for line in lines)
    text = "\n".join(lines)
    for words in ("Cohort lab", "12 waiting", "1 of 4, 2 lent", "6 of 4, 2 borrowed", "No cohort"):
        assert words in text
    assert lines[-1] == "█ used  ▓ borrowed  ▒ lent  · free" or lines[-1] == "# used  + borrowed  = lent  . free"


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(server: Server) -> Server:
    server.put(queue("team-a"), status(1, waiting=1, admitted=1))
    server.put(queue("team-b"), status(6, 2, waiting=12, admitted=2))
    server.put(queue("alone", ""))
    return server


def test_a_pipe_gets_a_line_for_each_flavor_and_resource(lab: Server) -> None:
    rows = [line.split() for line in lab.told("queues").splitlines()]
    assert rows == [
        ["COHORT", "QUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED", "LENT", "WAITING", "ADMITTED"],
        ["lab", "-", "default", "cpu", "8", "7", "2", "2", "13", "-"],
        ["lab", "team-a", "default", "cpu", "4", "1", "0", "2", "1", "1"],
        ["lab", "team-b", "default", "cpu", "4", "6", "2", "0", "12", "2"],
        ["-", "alone", "default", "cpu", "4", "0", "0", "0", "0", "0"],
    ]


def test_data(lab: Server) -> None:
    told = json.loads(lab.told("queues", "-o", "json"))
    assert told["cohorts"] == [
        {
            "name": "lab", "parent": "", "waiting": 13,
            "resources": [
                {"flavor": "default", "resource": "cpu", "nominal": "8", "used": "7", "borrowed": "2", "lent": "2"}
            ],
        }
    ]  # fmt: skip
    assert [(each["name"], each["waiting"], each["active"]) for each in told["queues"]] == [
        ("team-a", 1, True), ("team-b", 12, True), ("alone", 0, True),
    ]  # fmt: skip
    assert yaml.safe_load(lab.told("queues", "-o", "yaml")) == told
    assert lab.told("queues", "-o", "name").split()[0] == "clusterqueue.kueue.x-k8s.io/team-a"


def test_some_of_them(lab: Server) -> None:
    assert lab.told("queues", "team-b", "-o", "name").split() == ["clusterqueue.kueue.x-k8s.io/team-b"]
    assert lab.told("queues", "-c", "lab", "-o", "name").count("\n") == 2
    result = lab.run("queues", "-c", "lib")
    assert (result.exit_code, result.stderr) == (
        1, "Error: there is no cohort lib\n\nhint: `makeway queues` shows all of them\n",
    )  # fmt: skip
    assert lab.run("queues", "nope").exit_code == 1


def test_no_queues_at_all(server: Server) -> None:
    result = server.run("queues")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no ClusterQueues\n")
