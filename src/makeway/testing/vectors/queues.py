"""Suites about queues: heads, parked workloads, and which of them return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from makeway.core.cycle.cycle import heads as heads_of
from makeway.core.lowering import Loaded, is_worth_a_look
from makeway.core.model import Millis, QueueName, ResourceName, Workload, WorkloadKey
from makeway.core.queueing.pending import HeadReturn, Requeue, may_queue
from makeway.core.state import State
from makeway.testing.vectors.facts import Findings, listed, load, now_of, parked, rows, waiting, wire_of, workload_from
from makeway.testing.vectors.reading import Case

API = "kueue.x-k8s.io/v1beta2"
QUEUE = QueueName("cq")


def head(case: Case) -> Findings:
    """The first of one queue's workloads."""
    found = Findings()
    name = case.given.get("clusterQueue") or QUEUE
    trees = case.objects or [_queue(name, case.given["queueingStrategy"])]
    loaded = load(case, trees)
    for each in rows(case.given, "workloads"):
        loaded.state.push(workload_from(each, loaded, name), now_of(case))
    found.same("head", ", ".join(_names(heads_of(loaded.state))), case.want["head"])
    return found


def heads(case: Case) -> Findings:
    found = Findings()
    stopped = set(rows(case.given, "inactiveClusterQueues"))
    trees = [
        {**each, "spec": {**each["spec"], "stopPolicy": "Hold"}}
        if each["kind"] == "ClusterQueue" and each["metadata"]["name"] in stopped
        else each
        for each in case.objects
    ]
    found.same("heads", sorted(_names(heads_of(load(case, trees).state))), sorted(rows(case.want, "heads")))
    return found


def _names(workloads: Iterable[Workload]) -> list[str]:
    return [each.key.partition("/")[2] for each in workloads]


def _queue(name: str, strategy: str) -> dict[str, Any]:
    spec = {"namespaceSelector": {}, "queueingStrategy": strategy}
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def _plain(name: str) -> dict[str, Any]:
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": API, "kind": "Workload", "metadata": metadata, "spec": {"podSets": pod_sets}}


def _requeue(state: State, workload: Workload, reason: str, now: Millis, *, has_untried: bool = False) -> bool:
    reasons: dict[str, Requeue] = {"": "Generic", **{each: each for each in get_args(Requeue)}}
    binds_shape = state.policy.gates.scheduling_equivalence_hashing
    return state.pending.requeue(
        workload, HeadReturn(reasons[reason], has_untried=has_untried, binds_shape=binds_shape), now
    )


def requeue(case: Case) -> Findings:
    found = Findings()
    loaded = load(case, [_queue(QUEUE, case.given["queueingStrategy"])])
    workload = workload_from(_plain("wl"), loaded, QUEUE)
    has_untried = loaded.state.scans.remember(
        workload,
        {
            (index, ResourceName(name)): at
            for index, tried in enumerate(rows(case.given, "lastTriedFlavorIdx"))
            for name, at in (tried or {}).items()
        },
    )
    got = _requeue(loaded.state, workload, case.given["requeueReason"], now_of(case), has_untried=has_untried)
    found.same("inadmissible", got, case.want["inadmissible"])
    if "stickyHead" in case.want:
        sticky = loaded.state.pending.list_of(QUEUE).sticky == workload.key
        found.same("sticky", sticky, case.want["stickyHead"])
    return found


def equivalence(case: Case) -> Findings:
    found = Findings()
    loaded = load(case, [_queue(QUEUE, case.given["queueingStrategy"])])
    state, now = loaded.state, now_of(case)
    first, alike = (workload_from(_plain(name), loaded, QUEUE) for name in ("a", "b"))
    state.push(alike, now)
    _requeue(state, first, case.given["requeueReason"], now)
    got = alike.key in state.pending.list_of(QUEUE).parked
    found.same("parks those alike", got, case.want["marksEquivalentWorkloadsInadmissible"])
    return found


def flush(case: Case) -> Findings:
    found = Findings()
    state, now = load(case).state, now_of(case)
    for waiting_list in list(state.pending.lists.values()):
        for workload in list(waiting_list.waiting.values()):
            state.pending.pop(workload)
            _requeue(state, workload, "", now)
    moved = [key for name in rows(case.given, "flushClusterQueues") for key in state.wake(QueueName(name), now)]
    found.same("moved", len(moved), case.want["moved"])
    found.same("active", waiting(state), listed(case.want, "activeAfter"))
    found.same("inadmissible", parked(state), listed(case.want, "inadmissibleAfter"))
    return found


def operations(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    state, now, given = loaded.state, now_of(case), case.given
    queue = next(iter(state.queues))
    known: dict[str, Mapping[str, Any]] = {}
    for step in ("1_add", "2_requeueAsInadmissible", "3_requeueImmediately", "4_update", "5_delete"):
        for tree in rows(given, step):
            _operate(loaded, step, tree, known, queue, now)
    if given.get("6_flushInadmissible"):
        state.wake(queue, now)
    line = state.pending.list_of(queue)
    found.same("active", sorted(line.waiting), sorted(rows(case.want, "active")))
    found.same("pending", len(line.waiting) + len(line.parked), case.want["pendingTotal"])
    return found


def _operate(
    loaded: Loaded,
    step: str,
    tree: Mapping[str, Any],
    known: dict[str, Mapping[str, Any]],
    queue: QueueName,
    now: Millis,
) -> None:
    state, workload = loaded.state, workload_from(tree, loaded, queue)
    before = known.get(workload.key)
    known[workload.key] = tree
    if step == "1_add":
        state.push(workload, now)
    elif step == "2_requeueAsInadmissible":
        _requeue(state, workload, "", now)
    elif step == "3_requeueImmediately":
        _requeue(state, workload, "FailedAfterNomination", now)
    elif step == "5_delete":
        state.pending.forget(workload)
    elif before is None or is_worth_a_look(wire_of(before), wire_of(tree), state.policy):
        state.push(workload, now)
    else:
        state.pending.refresh(workload)


def eligibility(case: Case) -> Findings:
    """Requeued: it was not in its queue, and its newest object brings it back."""
    found = Findings()
    tree, queued = case.given["workload"], case.given["alreadyQueued"]
    trees = [*case.objects, tree] if case.given["existsInApiServer"] else list(case.objects)
    state = load(case, trees).state
    key = WorkloadKey(f"{tree['metadata'].get('namespace') or 'default'}/{tree['metadata']['name']}")
    there = [line.waiting[key] for line in state.pending.lists.values() if key in line.waiting]
    if queued:
        there = [each for each in there if _requeue(state, each, "", now_of(case))]
    found.same("requeued", bool(there), case.want["requeued"])
    return found


def backoff(case: Case) -> Findings:
    found = Findings()
    workload = workload_from(case.given["workload"], load(case), QUEUE)
    found.same("back-off over", may_queue(workload, now_of(case)), case.want["expired"])
    return found
