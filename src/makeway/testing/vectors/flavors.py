"""Suites about flavors: which one a workload would get, with how many pods, and which of two outcomes is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makeway.core.cycle.flavors import Assignment, Mode, Search, is_better
from makeway.core.cycle.nomination import search_counts
from makeway.core.lowering import queue_of
from makeway.core.model import FR
from makeway.testing.vectors.facts import Findings, load, rows, table, usage_of, wire_of, without_zeros, workload_from
from makeway.testing.vectors.reading import Case

MODES = {
    "NoFit": Mode.NO_FIT,
    "NoCandidates": Mode.NO_CANDIDATES,
    "NoPreemptionCandidates": Mode.NO_CANDIDATES,
    "Preempt": Mode.PREEMPT,
    "Reclaim": Mode.RECLAIM,
    "Fit": Mode.FIT,
}


def assignment(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    state, queue = loaded.state, case.given["clusterQueue"]
    workload = workload_from(case.given["workload"], loaded, queue)
    simulation = case.given["preemptionSimulation"]
    results = {(each["flavor"], each["resource"]): each for each in rows(simulation, "results")}

    def simulate(fr: FR, amount: int) -> tuple[Mode, int]:
        result = results.get(fr, simulation["default"])
        return MODES[result["possibility"]], result["borrow"]

    search = Search(
        tree=state.tree, node=state.tree.queues[queue], queue=state.queues[queue], flavors=state.flavors,
        policy=state.policy, simulate=simulate,
    )  # fmt: skip
    result = search.assign(workload, [each.count for each in workload.pod_sets])
    _compare(found, result, case.want)
    found.explain(workload.key, result.steps)
    return found


def _compare(found: Findings, result: Assignment, want: Mapping[str, Any]) -> None:
    found.same("mode", result.mode.public, want["mode"])
    found.same("borrowing level", result.level, want["borrow"])
    found.same("usage", without_zeros(result.usage), without_zeros(usage_of(want.get("usage"))))
    found.same("reason", None if result.why is None else result.why.public, want.get("noFitReason"))
    found.same("podSets", _pod_sets(result), _wanted_pod_sets(rows(want, "podSets")))
    tried = [{resource: choice.tried for resource, choice in part.choices.items()} for part in result.pod_sets]
    found.same("where the scan stopped", tried, [each or {} for each in rows(want, "lastTriedFlavorIdx")])
    for part, wanted in zip(result.pod_sets, rows(want, "podSets"), strict=False):
        recorded = {each["flavor"]: each["mode"] for each in rows(wanted, "attempts")}
        for attempt in part.attempts:  # it may try fewer
            if attempt.flavor in recorded:
                same_as = recorded[attempt.flavor]
                found.same(f"podSet {part.name}: attempt on {attempt.flavor}", attempt.mode.public, same_as)


def _pod_sets(result: Assignment) -> list[tuple[object, ...]]:
    return [
        (
            part.name, part.count, part.mode.public,
            {name: (choice.flavor, choice.mode.public, choice.level) for name, choice in part.choices.items()},
        )
        for part in result.pod_sets
    ]  # fmt: skip


def _wanted_pod_sets(pod_sets: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [
        (
            each["name"], each["count"], each["mode"],
            {name: (one["flavor"], one["mode"], one["borrow"]) for name, one in table(each, "flavors").items()},
        )
        for each in pod_sets
    ]  # fmt: skip


def preference(case: Case) -> Findings:
    found = Findings()
    spec = {"flavorFungibility": table(case.given, "flavorFungibility"), "namespaceSelector": {}}
    tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec}
    queue, _ = queue_of(wire_of(tree))
    a, b = ((MODES[case.given[each]["mode"]], case.given[each]["borrow"]) for each in "ab")
    found.same("a preferred", is_better(a, b, prefer_preemption=queue.prefer_preemption), case.want["aPreferred"])
    return found


def partial_admission(case: Case) -> Findings:
    found = Findings()
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "wl", "namespace": "default"},
        "spec": {"podSets": [{"template": {"spec": {}}, **attempt} for attempt in rows(case.given, "podSets")]},
    }  # fmt: skip
    workload = workload_from(tree, load(case))
    most = case.given["fitsWhenTotalAtMost"]
    counts = search_counts(workload.pod_sets, lambda tried: sum(tried) <= most)
    found.same("found", counts is not None, case.want["found"])
    if case.want["found"]:
        found.same("total", sum(counts or ()), case.want["total"])
    return found
