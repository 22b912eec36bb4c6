"""Suites about quota and requests: what is available to which queue, and what is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makeway.core.amounts import multiply
from makeway.core.lowering import Loaded
from makeway.core.model import FR, QueueName, WorkloadKey
from makeway.core.quota.figures import UsageFigure, figures_of
from makeway.core.quota.tree import QuotaNode, QuotaTree
from makeway.core.state import State
from makeway.testing.vectors.facts import Findings, amount_of, amounts_of, load, rows, table, usage_of, workload_from
from makeway.testing.vectors.reading import Case
from makeway.testing.vectors.shares import compare_recorded


def available(case: Case) -> Findings:
    found = Findings()
    tree = load(case).state.tree
    for what in ("available", "potentiallyAvailable"):
        for name, amounts in table(case.want, what).items():
            compare_node(found, tree, tree.queues[name], {what: amounts})
    return found


def compare_node(found: Findings, tree: QuotaTree, node: QuotaNode, want: Mapping[str, Any]) -> None:
    """Compare usage, quota and availability of a queue or cohort; a queue's availability is never below zero there."""

    def left(fr: FR) -> int:
        return max(0, tree.available(node, fr)) if node.is_queue else tree.available(node, fr)

    found.same_amounts(f"{node.name}: usage", lambda fr: node.usage.get(fr, 0), want.get("usage"))
    found.same_amounts(f"{node.name}: quota", lambda fr: node.subtree.get(fr, 0), want.get("subtreeQuota"))
    found.same_amounts(f"{node.name}: available", left, want.get("available"))
    possible = want.get("potentiallyAvailable")
    found.same_amounts(f"{node.name}: potentially available", lambda fr: tree.potential(node, fr), possible)
    if "usage" in want:
        recorded = usage_of(want["usage"])
        more = sorted("/".join(fr) for fr, amount in node.usage.items() if amount and fr not in recorded)
        found.same(f"{node.name}: other usage", more, [])
    compare_recorded(found, tree, node, want.get("weightedShare"))


def compare_tree(found: Findings, state: State, want: Mapping[str, Any]) -> None:
    """Compare queues that take part, and cohorts that are not in a circle; the record has no others."""
    tree = state.tree
    active = sorted(name for name in tree.queues if state.is_active(QueueName(name)))
    found.same("active queues", active, sorted(table(want, "clusterQueues")))
    sound = sorted(name for name, node in tree.cohorts.items() if not node.in_cycle)
    found.same("cohorts", sound, sorted(table(want, "cohorts")))
    for name, node in table(want, "clusterQueues").items():
        compare_node(found, tree, tree.queues[name], node)
    for name, node in table(want, "cohorts").items():
        compare_node(found, tree, tree.cohorts[name], node)


def snapshot(case: Case) -> Findings:
    found = Findings()
    state = load(case).state
    held = {key: each for members in state.holders.of_queue.values() for key, each in members.items()}
    for key in rows(case.given, "remove"):
        state.release(held[WorkloadKey(key)])
    for key in rows(case.given, "addBack"):
        state.hold(held[WorkloadKey(key)])
    compare_tree(found, state, case.want)
    for name, want in table(case.want, "clusterQueues").items():
        found.same(
            f"{name}: holders", sorted(state.holders.of_queue.get(QueueName(name), ())), sorted(rows(want, "workloads"))
        )
    return found


def borrowing(case: Case) -> Findings:
    found = Findings()
    tree = load(case).state.tree
    node = tree.queues[case.given["clusterQueue"]]
    found.same("borrowing", not tree.within_nominal(node, node.usage), case.want["borrowing"])
    on_requested = not tree.within_nominal(node, usage_of(case.given.get("requested")))
    found.same("borrowing what is requested", on_requested, case.want["borrowingOnRequested"])
    return found


def status_figures(case: Case) -> Findings:
    found = Findings()
    state, name = load(case).state, QueueName(case.given["clusterQueue"])
    figures, declared = figures_of(state, name), state.tree.queues[name].nominal  # only those are recorded
    found.same("reserving workloads", figures.reserving, case.want["reservingWorkloads"])
    found.same("admitted workloads", figures.admitted, case.want["admittedWorkloads"])
    for what, got in (("flavorsReservation", figures.reservation), ("flavorsUsage", figures.usage)):
        shown = [(*fr, *_pair(figure)) for fr, figure in got.items() if fr in declared]
        found.same(what, shown, _status_rows(rows(case.want, what)))
    return found


def _pair(figure: UsageFigure) -> tuple[int, int]:
    return figure.total, figure.borrowed


def _status_rows(flavors: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return [
        (
            flavor["name"],
            each["name"],
            amount_of(each["total"], each["name"]),
            amount_of(each["borrowed"], each["name"]),
        )
        for flavor in flavors
        for each in rows(flavor, "resources")
    ]


def total_requests(case: Case) -> Findings:
    found = Findings()
    found.same(
        "podSets", pod_set_totals(load(case), case.given["workload"]), _wanted_totals(rows(case.want, "podSets"))
    )
    return found


def pod_set_totals(
    loaded: Loaded, tree: Mapping[str, Any]
) -> list[tuple[str, int, Mapping[Any, int], Mapping[Any, str]]]:
    """Name, count, amounts and flavors: what a workload holds, or what it asks for while it holds nothing."""
    workload = workload_from(tree, loaded)
    if workload.usage is not None:
        return [
            (
                each.name,
                each.count,
                {name: amount for name, amount in each.amounts.items() if amount},
                dict(each.flavors),
            )
            for each in workload.uses
        ]
    return [
        (
            each.name,
            each.count,
            {name: multiply(one, each.count) for name, one in each.requests.items() if one and each.count},
            {},
        )
        for each in workload.pod_sets
    ]


def _wanted_totals(pod_sets: list[dict[str, Any]]) -> list[tuple[str, int, Mapping[Any, int], Mapping[Any, str]]]:
    return [
        (
            each["name"], each["count"],
            amounts_of(each.get("requests")),
            each.get("flavors") or {},
        )
        for each in pod_sets
    ]  # fmt: skip
