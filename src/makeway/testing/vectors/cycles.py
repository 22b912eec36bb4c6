"""Suites about scheduling cycles: admissions, victims, where workloads wait, and what their conditions say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from makeway.api.names import OPTION_RANK
from makeway.core.cycle import cycle
from makeway.core.cycle.flavors import Assignment
from makeway.core.cycle.nomination import Entry
from makeway.core.cycle.options import preference
from makeway.core.lowering import Loaded
from makeway.core.messages import Conditions, conditions_after, conditions_of_leaving
from makeway.core.model import PodSetUse, QueueName, Uid, Workload, WorkloadKey
from makeway.core.state import State
from makeway.testing.vectors.facts import (
    ALLOWED_FLAVORS,
    Findings,
    amounts_of,
    listed,
    load,
    now_of,
    parked,
    rows,
    table,
    usage_of,
    waiting,
    without_zeros,
    workload_from,
)
from makeway.testing.vectors.flavors import MODES
from makeway.testing.vectors.reading import Case

PodSets = list[tuple[str, int, Mapping[Any, str], Mapping[Any, int]]]  # name, count, flavors, amounts


# --- whole cycles ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PlayedCycles:
    """The changes that cycles made since the last comparison."""

    verdicts: list[cycle.Verdict] = field(default_factory=list)
    conditions: dict[str, Conditions] = field(default_factory=dict)  # as they are now, by workload
    changed: dict[str, Conditions] = field(default_factory=dict)
    admitted: list[str] = field(default_factory=list)


def schedule(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    played = PlayedCycles(conditions=_conditions(case.objects))
    for _ in range(case.given["cycles"]):
        _play(loaded.state, case, played)
    compare_outcome(found, loaded.state, played.verdicts, case.want)
    _compare_effects(found, loaded.state, played, case.want)
    found.explain_verdicts("", played.verdicts)
    return found


def schedule_twice(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    conditions = _conditions(case.objects)
    for when in ("afterFirst", "afterSecond"):
        played = PlayedCycles(conditions=conditions)
        _play(loaded.state, case, played)
        compare_outcome(found, loaded.state, played.verdicts, case.want[when])
        _compare_effects(found, loaded.state, played, case.want[when])
        found.explain_verdicts(f"{when}: ", played.verdicts)
        if when == "afterFirst":
            now = now_of(case)
            for queue in sorted({delete(loaded.state, key) for key in rows(case.given, "deleteAfterFirstCycle")}):
                loaded.state.wake(queue, now)
    return found


def delete(state: State, key: str) -> QueueName:
    """Delete a workload, whether it held quota or waited; return its queue."""
    name = WorkloadKey(key)
    for queue, members in state.holders.of_queue.items():
        if name in members:
            state.release(members[name])
            return queue
    for queue, waiting_list in state.pending.lists.items():
        workload = waiting_list.waiting.get(name) or waiting_list.parked.get(name)
        if workload is not None:
            state.pending.forget(workload)
            state.scans.forget(workload)
            return queue
    return QueueName("")


def _play(state: State, case: Case, played: PlayedCycles) -> None:
    plan = cycle.decide(state, now_of(case))
    played.admitted += [each.workload.key for each in plan.verdicts if cycle.is_admitted(state, each)]
    for verdict in plan.verdicts:
        before = {kind: status for kind, (status, _) in played.conditions.get(verdict.workload.key, {}).items()}
        checks_done = cycle.is_admitted(state, verdict)
        _note(played, verdict.workload.key, conditions_after(verdict, before, checks_done=checks_done))
        for key, conditions in conditions_of_leaving(verdict).items():
            _note(played, key, conditions)
    played.verdicts += plan.verdicts
    cycle.carry_out(state, plan)


def _note(played: PlayedCycles, key: str, conditions: Conditions) -> None:
    known = played.conditions.setdefault(key, {})
    news = {kind: value for kind, value in conditions.items() if known.get(kind) != value}
    known.update(news)
    if news:
        played.changed.setdefault(key, {}).update(news)


def _conditions(trees: Iterable[Mapping[str, Any]]) -> dict[str, Conditions]:
    return {
        f"{each['metadata'].get('namespace') or 'default'}/{each['metadata']['name']}": {
            one["type"]: (one["status"], one.get("reason", ""))
            for one in (each.get("status") or {}).get("conditions") or ()
        }
        for each in trees
        if each["kind"] == "Workload"
    }


def compare_outcome(found: Findings, state: State, verdicts: list[cycle.Verdict], want: Mapping[str, Any]) -> None:
    """Compare admissions, preemptions and where workloads wait."""
    reserved = {each.workload.key: given_to(each) for each in verdicts if each.status == "admitted"}
    wanted = {
        each["workload"]: (each["clusterQueue"], wanted_pod_sets(rows(each, "podSets")))
        for each in rows(want, "quotaReserved")
    }
    found.same("quota reserved", reserved, wanted)
    preempted = sorted(
        (target.workload.key, each.workload.key, target.reason) for each in verdicts for target in each.targets
        if not target.workload.evicted
    )  # fmt: skip
    recorded = sorted((each["workload"], each["preemptor"], each["reason"]) for each in rows(want, "preempted"))
    found.same("preempted", preempted, recorded)
    found.same("pending", waiting(state), listed(want, "pendingAfter"))
    found.same("inadmissible", parked(state), listed(want, "inadmissibleAfter"))


def given_to(verdict: cycle.Verdict) -> tuple[str, PodSets]:
    return verdict.workload.queue, _pod_sets(cycle.admitted(verdict, verdict.workload.queued_at).uses)


def _pod_sets(uses: Iterable[PodSetUse]) -> PodSets:
    return [
        (each.name, each.count, dict(each.flavors), {name: amount for name, amount in each.amounts.items() if amount})
        for each in uses
    ]


def wanted_pod_sets(pod_sets: Iterable[Mapping[str, Any]]) -> PodSets:
    return [
        (
            each["name"], each["count"], each.get("flavors") or {},
            amounts_of(each.get("resourceUsage")),
        )
        for each in pod_sets
    ]  # fmt: skip


def compare_holders(found: Findings, state: State, want: Mapping[str, Mapping[str, Any]]) -> None:
    got = {
        key: (queue, _pod_sets(each.uses))
        for queue, members in state.holders.of_queue.items()
        for key, each in members.items()
    }
    wanted = {key: (each["clusterQueue"], wanted_pod_sets(rows(each, "podSets"))) for key, each in want.items()}
    found.same("holders", got, wanted)


def _compare_effects(found: Findings, state: State, played: PlayedCycles, want: Mapping[str, Any]) -> None:
    """Compare what is written because of it: conditions, evictions, counters."""
    found.same("admitted", sorted(played.admitted), sorted(rows(want, "admitted")))
    evicted = sorted((key, each["Evicted"][1]) for key, each in played.changed.items() if "Evicted" in each)
    found.same("evicted", evicted, sorted((each["workload"], each["reason"]) for each in rows(want, "evicted")))
    wanted = {
        key: {kind: (each["status"], each["reason"]) for kind, each in changes.items()}
        for key, changes in table(want, "conditionChanges").items()
    }
    found.same("conditions", played.changed, wanted)
    if "holdingQuotaAfter" in want:
        compare_holders(found, state, table(want, "holdingQuotaAfter"))
    skipped = Counter(each.workload.queue for each in played.verdicts if each.skipped_preemption)
    for queue, count in table(want, "skippedPreemptions").items():
        found.same(f"{queue}: skipped preemptions", skipped[QueueName(queue)], count)
    again = Counter((str(each.workload.queue), each.recomputed) for each in played.verdicts if each.recomputed)
    for queue, counts in table(want, "preemptionTargetRecomputations").items():  # of the queues that were evaluated
        got = {kind: n for (name, kind), n in again.items() if name == queue}
        found.same(f"{queue}: target recomputations", got, {kind: n for kind, n in counts.items() if n})


def schedule_options(case: Case) -> Findings:
    """Upstream keeps neither a policy nor ranks: RemoveLower is read, and the order of the queue's flavors."""
    policy = {"concurrentAdmission": {"onSuccess": "RemoveLower"}}
    trees = [
        {**each, "spec": {**policy, **each["spec"]}} if each["kind"] == "ClusterQueue" else each
        for each in case.objects
    ]
    loaded = load(case, trees)
    options = [each for each in trees if ALLOWED_FLAVORS in (each["metadata"].get("annotations") or {})]
    places = {id(each): _place(each, loaded) for each in options}
    order = sorted(set(places.values()))
    return schedule(
        replace(
            case,
            objects=tuple(
                _with_rank(each, order.index(places[id(each)])) if id(each) in places else each for each in trees
            ),
        )
    )


def _place(tree: Mapping[str, Any], loaded: Loaded) -> tuple[int, ...]:
    option = workload_from(tree, loaded)
    allowed = frozenset(flavor for pod_set in option.pod_sets for flavor in pod_set.allowed)
    return preference(loaded.state.queues[option.queue], allowed)


def _with_rank(tree: Mapping[str, Any], rank: int) -> dict[str, Any]:
    annotations = {**tree["metadata"]["annotations"], OPTION_RANK: str(rank)}
    return {**tree, "metadata": {**tree["metadata"], "annotations": annotations}}


# --- single steps of a cycle -----------------------------------------------------------------------------------------


def entry_order(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    entries = []
    for each in rows(case.given, "entries"):
        workload = workload_from(each["workload"], loaded, "")
        entries.append(Entry(workload, Assignment(level=each["borrow"])))
        if each.get("isPreemptor"):
            loaded.state.preemptors.mark(workload)
    entries.sort(key=lambda entry: cycle.order(loaded.state, entry))
    found.same("order", [each.workload.key.partition("/")[2] for each in entries], rows(case.want, "order"))
    return found


def reservation(case: Case) -> Findings:
    found = Findings()
    given = case.given
    queue = QueueName(given["clusterQueue"])
    workload = Workload(key=WorkloadKey("/"), uid=Uid(""), queue=queue, priority=0, queued_at=now_of(case))
    usage = usage_of(given.get("assignmentUsage"))
    entry = Entry(workload, Assignment(mode=MODES[given["mode"]], level=given["borrow"], usage=usage))
    got = cycle.reservation(load(case).state, entry, {})
    found.same("reserved", without_zeros(got), without_zeros(usage_of(case.want.get("reserved"))))
    return found
