"""Small clusters in few words: keyword factories with boring defaults, and random ones by seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from makeway.core.model import Expression, Millis
from makeway.core.placement.model import (
    AffinityTerm,
    Budget,
    Cluster,
    ForGroup,
    ForPod,
    Member,
    Node,
    Pod,
    PodGang,
    PodKey,
    Preemptor,
    SchedulingWorkload,
    Spread,
)

HOST = "kubernetes.io/hostname"
HIGH = 100


def node(name: str, cpu: int = 4, *, pods: int = 110, labels: Mapping[str, str] | None = None, **more: int) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "pods": pods, **more}, labels={HOST: name, **(labels or {})})


def nodes(count: int, cpu: int = 4) -> tuple[Node, ...]:
    return tuple(node(f"n{i}", cpu) for i in range(count))


def pod(
    name: str, cpu: int = 1, at: str | None = None, *, priority: int = 1, start: int = 0, of: str = "",
    labels: Mapping[str, str] | None = None, nominated: str | None = None, leaving: bool = False,
    anti_affinity: tuple[AffinityTerm, ...] = (), spread: tuple[Spread, ...] = (), arrived: int = 0, **more: int,
) -> Pod:  # fmt: skip
    """``of``: its Workload, or Workload and replica with a dash between."""
    workload, _, replica = of.partition("-")
    return Pod(
        key=("d", name), requests={"cpu": cpu, **more}, node=at, priority=priority, start=Millis(start), uid=name,
        member=Member(workload, "g", replica) if of else None, labels=labels or {}, nominated=nominated,
        terminating=leaving, preempted_by_scheduler=leaving, anti_affinity=anti_affinity, spread=spread,
        arrived=arrived,
    )  # fmt: skip


def workload(
    name: str, priority: int = 1, *, as_victim: int | None = None, whole: bool = False, min_count: int | None = 1,
    never: bool = False,
) -> SchedulingWorkload:  # fmt: skip
    return SchedulingWorkload(
        namespace="d", name=name, groups=(PodGang(key=("d", name, "g"), min_count=min_count, whole=whole),),
        priority=priority, preemption_priority=priority if as_victim is None else as_victim,
        policy="Never" if never else "PreemptLowerPriority",
    )  # fmt: skip


def gang(count: int, cpu: int = 1, *, name: str = "pre", nominated: Iterable[str] = ()) -> list[Pod]:
    """``count`` equal waiting pods of the Workload ``pre``."""
    promised = [*nominated, *[None] * count]
    return [pod(f"{name}-{i}", cpu, of=name, arrived=i, nominated=promised[i]) for i in range(count)]


def budget(allowed: int, app: str = "a", name: str = "b") -> Budget:
    return Budget(namespace="d", name=name, selector=(Expression("app", "In", (app,)),), allowed=allowed)


def cluster(
    machines: Iterable[Node], pods: Iterable[Pod], workloads: Iterable[SchedulingWorkload] = (),
    budgets: Iterable[Budget] = (),
) -> Cluster:  # fmt: skip
    return Cluster(nodes=tuple(machines), pods=tuple(pods), workloads=tuple(workloads), budgets=tuple(budgets))


PRE: Preemptor = ForGroup("d", Member("pre", "g"))


def lone(name: str = "p") -> Preemptor:
    return ForPod(("d", name))


def names(keys: Iterable[PodKey]) -> str:
    return " ".join(sorted(name for _, name in keys))


# --- at random -------------------------------------------------------------------------------------------------------

PRIORITIES = (0, 10, 20, 30)


def random_cluster(dice: random.Random, *, most_nodes: int = 8, most_pods: int = 25) -> Cluster:
    """Nodes that are partly taken by plain pods and by groups of both modes, a gang ``pre`` and a pod ``p`` waiting."""
    machines = [
        node(f"n{i}", dice.choice([4, 6, 8]), pods=dice.choice([110, 5]), memory=dice.choice([8, 16]),
             labels={"zone": dice.choice("xy")})
        for i in range(dice.randint(1, most_nodes))
    ]  # fmt: skip
    free = {each.name: dict(each.allocatable) for each in machines}
    workloads = [
        workload(f"w{i}", low := dice.choice(PRIORITIES), as_victim=low + dice.choice([0, 9]), whole=dice.random() < .6)
        for i in range(dice.randint(0, 4))
    ]  # fmt: skip
    running: list[Pod] = []
    for number in range(dice.randint(0, most_pods)):
        owner = dice.choice([*workloads, None, None])
        of = "" if owner is None else f"{owner.name}-{dice.choice('rs')}"
        made = random_pod(dice, f"v{number}", of)
        fits = [
            at for at, have in free.items() if all(have.get(k, 0) >= v for k, v in {**made.requests, "pods": 1}.items())
        ]
        if fits:
            at = dice.choice(fits)
            for name, value in {**made.requests, "pods": 1}.items():
                free[at][name] -= value
            running.append(pod(made.key[1], made.requests["cpu"], at, priority=made.priority, start=made.start, of=of,
                               labels=made.labels, memory=made.requests["memory"]))  # fmt: skip
    waiting = [random_pod(dice, f"pre-{i}", "pre", i) for i in range(dice.randint(1, 5))]
    if dice.random() < 0.5:
        first = waiting[0]
        waiting = [pod(f"pre-{i}", first.requests["cpu"], of="pre", arrived=i, memory=first.requests["memory"])
                   for i in range(len(waiting))]  # fmt: skip
    least = len(waiting) if dice.random() < 0.7 else dice.randint(1, len(waiting))
    workloads.append(workload("pre", dice.choice([15, 25, 50]), min_count=least))
    waiting.append(pod("p", dice.randint(1, 6), priority=dice.choice([15, 50])))
    budgets = [budget(dice.randint(0, 2), app, app) for app in "ab" if dice.random() < 0.4]
    return cluster(machines, [*running, *waiting], workloads, budgets)


def random_pod(dice: random.Random, name: str, of: str, arrived: int = 0) -> Pod:
    return pod(
        name, dice.randint(1, 4), priority=dice.choice(PRIORITIES), start=dice.randint(0, 10_000), of=of,
        arrived=arrived, labels=dice.choice([{}, {"app": "a"}, {"app": "b"}]), memory=dice.choice([0, 0, 1, 4]),
    )  # fmt: skip
