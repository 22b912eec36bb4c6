"""Random scenarios over several cycles: every decision, and the state between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from makeway.api.quantity import Time
from makeway.core.cycle import cycle
from makeway.core.cycle.flavors import FlavorChoice
from makeway.core.lowering import Loaded
from makeway.core.messages import pending_message, pending_reason
from makeway.core.model import Millis, QueueName
from makeway.core.state import State
from makeway.testing.vectors.cycles import compare_holders, compare_outcome, delete
from makeway.testing.vectors.facts import Findings, listed, load, parked, rows, table, waiting, workload_from
from makeway.testing.vectors.quota import compare_tree
from makeway.testing.vectors.reading import Case

SCAN_PROGRESS = "FlavorFungibilityPreserveScanProgress"
Told = dict[str, tuple[str, str]]  # workload -> reason and message of its last pending status
STATUS = {"admitted": "assumed", "skipped": "skipped"}  # ours and theirs; the others are known by their requeue reason


def scenario(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    state, want = loaded.state, case.want
    compare_tree(found, state, want["initialQuota"])
    loses_progress = case.gates.get(SCAN_PROGRESS) is False
    told: Told = {}
    for number, wanted in enumerate(rows(want, "cycles"), 1):
        plan = _cycle(found, loaded, wanted)
        if found.differences:  # later cycles would only repeat the differences
            found.differences = [f"cycle {number}: {each}" for each in found.differences]
            return found
        if loses_progress:
            _forget_after_cycle(state, plan, told)
        events = [each for each in rows(case.given, "events") if each["afterCycle"] == number]
        left = _between(loaded, plan, events)
        if loses_progress:
            _forget_after_release(state, left)
    found.same("pending at the end", waiting(state), listed(want, "finalPending"))
    found.same("inadmissible at the end", parked(state), listed(want, "finalInadmissible"))
    compare_holders(found, state, table(want, "finalHoldingQuota"))
    return found


def _cycle(found: Findings, loaded: Loaded, wanted: Mapping[str, Any]) -> cycle.Plan:
    state = loaded.state
    found.same("pending before", waiting(state), listed(wanted, "pendingBefore"))
    found.same("inadmissible before", parked(state), listed(wanted, "inadmissibleBefore"))
    found.same("idle", not cycle.heads(state), bool(wanted.get("idle")))
    plan = cycle.decide(state, Millis(Time.parse(wanted["now"]).millis))
    found.explanation = []
    found.explain_verdicts(f"cycle {wanted['cycle']}: ", plan.verdicts)
    cycle.carry_out(state, plan)
    compare_outcome(found, state, list(plan.verdicts), wanted)
    released = sorted({target.workload.key for verdict in plan.verdicts for target in verdict.targets})
    found.same("released", released, sorted(rows(wanted, "released")))
    verdicts = list(plan.verdicts)
    if wanted.get("entriesOrdered") == "perTree":
        verdicts.sort(key=lambda each: state.tree.queues[each.workload.queue].root.name)
    _compare_entries(found, verdicts, rows(wanted, "entries"))
    return plan


def _compare_entries(found: Findings, verdicts: list[cycle.Verdict], wanted: list[Mapping[str, Any]]) -> None:
    """Compare every head in the order in which it was processed, then each with its whole verdict."""
    found.same("entries", [each.workload.key for each in verdicts], [each["workload"] for each in wanted])
    recorded = {each["workload"]: each for each in wanted}
    for verdict in verdicts:
        if verdict.workload.key in recorded:
            found.same(verdict.workload.key, _entry(verdict), _wanted_entry(recorded[verdict.workload.key]))


def _entry(verdict: cycle.Verdict) -> tuple[object, ...]:
    return (
        verdict.workload.queue, verdict.mode, verdict.assignment.level, STATUS.get(verdict.status) or verdict.requeue,
        [
            (part.name, part.count, {name: (one.flavor, _mode(verdict, one)) for name, one in part.choices.items()})
            for part in verdict.assignment.pod_sets
        ],
    )  # fmt: skip


def _mode(verdict: cycle.Verdict, choice: FlavorChoice) -> str:
    """The mode of one resource; where all fits once others have left, theirs says so of each."""
    return verdict.mode if verdict.mode == "DeferredFit" else choice.mode.public


def _wanted_entry(entry: Mapping[str, Any]) -> tuple[object, ...]:
    pod_sets = [
        (
            each["name"], each["count"],
            {name: (one["flavor"], one["mode"]) for name, one in table(each, "flavors").items()},
        )
        for each in rows(entry, "podSets")
    ]  # fmt: skip
    status = entry.get("status") or entry.get("requeueReason")
    return entry["clusterQueue"], entry["mode"], entry["borrow"], status, pod_sets


def _forget_after_cycle(state: State, plan: cycle.Plan, told: Told) -> None:
    """The gate off (decision 0078): a scan begins anew for a workload that was skipped or whose status was written.

    A status that says the same again is not written.
    """
    for verdict in plan.verdicts:
        key = verdict.workload.key
        if verdict.status == "admitted":
            told.pop(key, None)  # its status is written anew
            continue
        says = (pending_reason(verdict), pending_message(verdict))
        if verdict.status == "skipped" or told.get(key) != says:
            state.scans.forget(verdict.workload)
        told[key] = says


def _forget_after_release(state: State, queues: Iterable[QueueName]) -> None:
    """The gate off: scans of all workloads that wait in a queue begin anew when quota of that queue was released."""
    for queue in queues:
        waiting_list = state.pending.list_of(queue)
        for workload in (*waiting_list.waiting.values(), *waiting_list.parked.values()):
            state.scans.forget(workload)


def _between(loaded: Loaded, plan: cycle.Plan, events: list[Mapping[str, Any]]) -> set[QueueName]:
    """Victims leave and wait again, then the events of the script happen, then all trees that lost something wake.

    Returns the queues that lost usage.
    """
    state, now = loaded.state, plan.now
    touched: set[QueueName] = set()
    left: set[QueueName] = set()
    for target in [target for verdict in plan.verdicts for target in verdict.targets]:
        holder = state.holders.find(target.workload.queue, target.workload.key)
        if holder is not None:
            state.release(holder, now)
            left.add(holder.queue)
            state.push(cycle.departed(state, holder, cycle.reason_kept(target), now, now), now)
    for event in events:
        for key in rows(event, "delete"):
            left |= {queue for queue, members in state.holders.of_queue.items() if key in members}
            touched.add(delete(state, key))
        for tree in rows(event, "create"):
            state.push(workload_from(tree, loaded), now)
    for queue in sorted(touched | left):
        state.wake(queue, now)
    return left
