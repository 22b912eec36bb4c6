"""What ``makeway bench cycle`` and ``makeway bench targets`` measure: the engine alone, on states made for it."""

from __future__ import annotations

import time
from typing import Any, Literal

from makeway.core.cycle import decide
from makeway.core.model import (
    FR,
    Flavor,
    FlavorName,
    Group,
    Millis,
    PodSet,
    Queue,
    QueueName,
    ResourceName,
    Uid,
    Workload,
    WorkloadKey,
)
from makeway.core.policy import Policy
from makeway.core.preemption.classical import find_victims
from makeway.core.quota import QuotaSpec
from makeway.core.state import State

Heads = Literal["fit", "preempt", "reclaim", "hopeless"]
HEADS: tuple[Heads, ...] = ("fit", "preempt", "reclaim", "hopeless")
QUEUES = (30, 1_000)
HOLDERS = (1_000, 10_000, 50_000)
TARGETS = ((1_000, 10), (10_000, 10), (50_000, 10), (50_000, 25_000))
QUEUES_PER_COHORT = 100
CPU = ResourceName("cpu")
FLAVOR = FlavorName("default")
CORES: FR = (FLAVOR, CPU)
CORE = 1_000
NOON = Millis(10**12)


def bench_cycle() -> dict[str, Any]:
    """One cycle with a head in every queue: heads that fit, preempt, reclaim, or can never fit."""
    return {"rows": [cycle_row(queues, holders, heads) for heads in HEADS for queues in QUEUES for holders in HOLDERS]}


def cycle_row(queues: int, holders: int, heads: Heads) -> dict[str, Any]:
    state = crowd(queues, holders, heads)
    steps_before = state.holders.looks + state.tree.questions
    before = time.process_time()
    plan = decide(state, NOON)
    seconds = time.process_time() - before
    steps = state.holders.looks + state.tree.questions - steps_before
    row = {"queues": queues, "holders": holders, "heads": heads, "cpuMs": round(seconds * 1000, 2), "steps": steps}
    wanted = {"fit": "admitted", "preempt": "preempting", "reclaim": "preempting", "hopeless": "waiting"}[heads]
    assert {verdict.status for verdict in plan.verdicts} == {wanted}, "not the case it should be"
    return row


def bench_targets() -> dict[str, Any]:
    """One search for victims among equal candidates."""
    return {"rows": [targets_row(candidates, victims) for candidates, victims in TARGETS]}


def targets_row(candidates: int, victims: int) -> dict[str, Any]:
    state = crowd(1, candidates, "preempt")
    incoming = _waiting(QueueName("queue-0000"), victims * CORE, priority=10)
    before = time.process_time()
    found = find_victims(state, incoming, (CORES,), {CORES: victims * CORE}, NOON)
    seconds = time.process_time() - before
    assert len(found.targets) == victims, "not the case it should be"
    looked = state.holders.looks
    return {"candidates": candidates, "victims": victims, "cpuMs": round(seconds * 1000, 2), "looked": looked}


def crowd(queues: int, holders: int, heads: Heads) -> State:
    """Full queues in cohorts of a hundred. To reclaim, every second queue owns all and the others use it."""
    state = State(Policy.default())
    per_queue = holders // queues
    owns = [_owned(i, per_queue, heads) for i in range(queues)]
    names = [QueueName(f"queue-{i:04}") for i in range(queues)]
    state.configure(
        [
            (
                _queue(name, heads),
                QuotaSpec(name=name, parent=f"cohort-{i // QUEUES_PER_COHORT}", nominal={CORES: owned}),
            )
            for i, (name, owned) in enumerate(zip(names, owns, strict=True))
        ],
        [],
        [Flavor(name=FLAVOR, labels={})],
    )
    state.namespaces["bench"] = {}
    for i, name in enumerate(names):
        borrows = heads == "reclaim" and i % 2 == 1
        running = (2 * per_queue if borrows else 0) if heads == "reclaim" else per_queue
        for j in range(running):
            state.hold(_running(name, i * 1_000_000 + j))
        if not borrows:
            asked = per_queue * CORE if heads == "hopeless" else CORE
            state.push(_waiting(name, asked, priority=0 if heads == "hopeless" else 10), NOON)
    return state


def _owned(index: int, per_queue: int, heads: Heads) -> int:
    if heads == "reclaim":
        return 2 * per_queue * CORE if index % 2 == 0 else 0
    return (per_queue + (heads == "fit")) * CORE


def _queue(name: QueueName, heads: Heads) -> Queue:
    return Queue(
        name=name,
        groups=(Group(resources=(CPU,), flavors=(FLAVOR,)),),
        within="Never" if heads in ("fit", "reclaim") else "LowerPriority",
        reclaim="Any" if heads == "reclaim" else "Never",
        namespaces=(),
    )


def _running(queue: QueueName, number: int) -> Workload:
    key = WorkloadKey(f"bench/run-{number}")
    at = Millis(number * 1000 % NOON)
    return Workload(
        key=key, uid=Uid(key), queue=queue, priority=0, queued_at=at, usage={CORES: CORE}, reserved_at=at, admitted=True
    )


def _waiting(queue: QueueName, asked: int, priority: int) -> Workload:
    key = WorkloadKey(f"bench/wait-{queue}")
    pod_set = PodSet(name="main", count=1, requests={CPU: asked})
    return Workload(key=key, uid=Uid(key), queue=queue, priority=priority, queued_at=NOON, pod_sets=(pod_set,))
