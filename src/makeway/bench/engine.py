"""What ``makeway bench cycle`` and ``makeway bench targets`` measure: the engine alone, on states made for it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal

from makeway.core.cycle.cycle import decide
from makeway.core.model import (
    FR,
    Flavor,
    FlavorGroup,
    FlavorName,
    Millis,
    PodSet,
    Queue,
    QueueName,
    ResourceName,
    Uid,
    Workload,
    WorkloadKey,
)
from makeway.core.policy import FairStrategy, Policy
from makeway.core.preemption import fair_sharing as fair_share
from makeway.core.preemption.classical import find_victims
from makeway.core.queue_policies import ReclaimWithinCohort, WithinClusterQueue
from makeway.core.quota.tree import QuotaSpec
from makeway.core.state import State

Heads = Literal["fit", "preempt", "reclaim", "hopeless"]
HEADS: tuple[Heads, ...] = ("fit", "preempt", "reclaim", "hopeless")
QUEUES = (30, 1_000)
HOLDERS = (1_000, 10_000, 50_000)
TARGETS = ((1_000, 10), (10_000, 10), (50_000, 10), (50_000, 25_000))
Ground = Literal["share", "nominal"]
FAIR_TARGETS: tuple[tuple[int, int, Ground], ...] = (
    (1_000, 10, "share"), (10_000, 10, "share"), (50_000, 10, "share"), (50_000, 10, "nominal"),
    (50_000, 25_000, "nominal"),
)  # fmt: skip
BORROWERS = 10
STRATEGIES: tuple[FairStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
QUEUES_PER_COHORT = 100
CPU = ResourceName("cpu")
FLAVOR = FlavorName("default")
CORES: FR = (FLAVOR, CPU)
CORE = 1_000
NOON = Millis(10**12)


def bench_cycle(*, fair: bool = False) -> dict[str, Any]:
    """One cycle with a head in every queue: heads that fit, preempt, reclaim, or can never fit."""
    rows = [(queues, holders, heads) for heads in HEADS for queues in QUEUES for holders in HOLDERS]
    return {"rows": [cycle_row(*each, fair=fair) for each in rows]}


def cycle_row(queues: int, holders: int, heads: Heads, *, fair: bool = False) -> dict[str, Any]:
    state = crowd(queues, holders, heads, fair=fair)
    steps_before = state.holders.looks + state.tree.questions
    before = time.process_time()
    plan = decide(state, NOON)
    seconds = time.process_time() - before
    steps = state.holders.looks + state.tree.questions - steps_before
    row = {"queues": queues, "holders": holders, "heads": heads, "cpuMs": round(seconds * 1000, 2), "steps": steps}
    wanted = {"fit": "admitted", "preempt": "preempting", "reclaim": "preempting", "hopeless": "waiting"}[heads]
    assert {verdict.status for verdict in plan.verdicts} == {wanted}, "not the case it should be"
    return {**row, "shares": state.tree.shares} if fair else row


def bench_targets(*, fair: bool = False) -> dict[str, Any]:
    """One search for victims among equal candidates."""
    if fair:
        return {"rows": [fair_targets_row(*each) for each in FAIR_TARGETS]}
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


def fair_targets_row(candidates: int, victims: int, ground: Ground) -> dict[str, Any]:
    """A cohort of queues that own nothing and use all. The preemptor's queue owns what it asks for, or nothing."""
    names = [QueueName(f"queue-{i:04}") for i in range(BORROWERS + 1)]
    owned = victims * CORE if ground == "nominal" else 0
    specs = [QuotaSpec(name=name, parent="cohort", nominal={CORES: 0 if i else owned}) for i, name in enumerate(names)]
    rest = QuotaSpec(name="cohort", nominal={CORES: candidates * CORE - owned})
    state = State(replace(Policy.default(), fair_strategies=STRATEGIES))
    state.configure(
        [(_queue(QueueName(spec.name), "reclaim"), spec) for spec in specs], [rest], [Flavor(name=FLAVOR, labels={})]
    )
    for i in range(candidates):
        state.hold(_running(names[1 + i % BORROWERS], i))
    incoming = _waiting(names[0], victims * CORE, priority=10)
    before = time.process_time()
    found = fair_share.find_victims(state, incoming, (CORES,), {CORES: victims * CORE}, NOON)
    seconds = time.process_time() - before
    assert len(found.targets) == victims, "not the case it should be"
    return {
        "candidates": candidates, "victims": victims, "by": ground, "cpuMs": round(seconds * 1000, 2),
        "looked": state.holders.looks, "shares": state.tree.shares,
    }  # fmt: skip


def crowd(queues: int, holders: int, heads: Heads, *, fair: bool = False) -> State:
    """Full queues in cohorts of a hundred. To reclaim, every second queue owns all and the others use it.

    ``fair``: with fair sharing, and the cohorts are of one tree.
    """
    state = State(replace(Policy.default(), fair_strategies=STRATEGIES) if fair else Policy.default())
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
        [QuotaSpec(name=f"cohort-{i}", parent="all") for i in range(-(-queues // QUEUES_PER_COHORT))] if fair else [],
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
        groups=(FlavorGroup(resources=(CPU,), flavors=(FLAVOR,)),),
        within=WithinClusterQueue("Never" if heads in ("fit", "reclaim") else "LowerPriority"),
        reclaim=ReclaimWithinCohort("Any" if heads == "reclaim" else "Never"),
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
