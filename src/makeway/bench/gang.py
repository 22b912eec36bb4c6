"""What ``makeway bench gang`` measures: decisions about gangs on nodes, on clusters made for it.

The shapes are those that schedulers of pods are measured with: nodes of 4 cpu, 32 Gi and 110 pods; a gang that takes
whole nodes from many small pods, or from other gangs. CPU time of the decisions alone: a cluster is built before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from makeway.core.model import Millis
from makeway.core.placement.cluster.state import ClusterState
from makeway.core.placement.cycle import cycle
from makeway.core.placement.model import (
    Cluster,
    ForGroup,
    ForPod,
    Member,
    Node,
    Pod,
    PodGang,
    Preemptor,
    SchedulingWorkload,
)

CPU = 4_000
MEMORY = 32 * 2**30
MI = 2**20
HIGH = 9_999_999
LEVELS = 8  # low priorities, so that there is a least one to find

Row = dict[str, Any]


def bench_gang() -> dict[str, Any]:
    return {"rows": [row() for row in CASES.values()]}


def place_large(nodes: int = 5_000, pods: int = 1_000, *, half_full: bool = False) -> Row:
    """A gang of equals where there is room."""
    running = [
        _pod(f"low-{i}", cpu=500, node=_node_name(i % nodes), start=i) for i in range(nodes * 4 if half_full else 0)
    ]
    state = _state(nodes, running, gangs=[("big", pods)], low=[])
    case = f"place 1 gang of {pods}, nodes {'half full' if half_full else 'empty'}"
    return _measured(case, state, [_gang("big", pods)], lambda i: _member_pod("big", i, cpu=100))


def place_small(nodes: int = 5_000, gangs: int = 1_000, pods: int = 3) -> Row:
    """Many small gangs one after another; the time is that of one gang."""
    names = [f"gang-{i}" for i in range(gangs)]
    state = _state(nodes, [], gangs=[(name, pods) for name in names], low=[])
    case = f"place {gangs} gangs of {pods}, each"
    row = _measured(case, state, [_gang(name, pods) for name in names], lambda i: _member_pod("", i, cpu=100))
    row["cpuMs"] = round(row["cpuMs"] / gangs, 3)
    return row


def preempt_pods(nodes: int = 100, low: int = 1_000, gangs: int = 1) -> Row:
    """A gang that needs whole nodes against ten small pods on each."""
    on_each = low // nodes
    running = [
        _pod(f"low-{i}", cpu=40, node=_node_name(i // on_each), start=i, ports=[8000 + i % on_each])
        for i in range(low)
    ]  # fmt: skip
    size = nodes // gangs
    names = [f"gang-{i}" for i in range(gangs)]
    state = _state(nodes, running, gangs=[(name, size) for name in names], low=[])
    case = f"GangPreemptionBasic, {gangs} of {size}"
    return _measured(case, state, [_gang(name, size) for name in names], lambda i: _member_pod("", i, cpu=3970))


def preempt_groups(nodes: int = 100, low_groups: int = 5, gangs: int = 1) -> Row:
    """A gang that needs whole nodes against gangs with a pod on many nodes."""
    size = nodes // gangs
    low = [(f"low-{i}", size) for i in range(low_groups)]
    running = []
    for number, (name, _) in enumerate(low):
        for i in range(size):
            node = _node_name((number % gangs) * size + i)
            ports = [8000 + number]
            running.append(_member_pod(name, i, cpu=600, node=node, start=number * size + i, ports=ports))
    names = [f"gang-{i}" for i in range(gangs)]
    state = _state(nodes, running, gangs=[(name, size) for name in names], low=low)
    case = f"GangPreemptionPodGroups, {gangs} of {size}"
    return _measured(
        case, state, [_gang(name, size) for name in names], lambda i: _member_pod("", i, cpu=3500, ports=[9000])
    )


def preempt_among_gangs(nodes: int = 5_000, pods: int = 1_000, low_groups: int = 5_000, size: int = 20) -> Row:
    """A large gang against very many gangs that leave as a whole."""
    low = [(f"low-{i}", size) for i in range(low_groups)]
    running = [
        _member_pod(name, i, cpu=190, node=_node_name((number * size + i) % nodes), start=number * size + i)
        for number, (name, _) in enumerate(low)
        for i in range(size)
    ]
    state = _state(nodes, running, gangs=[("big", pods)], low=low, whole=True)
    case = f"preempt for 1 gang of {pods} among {low_groups} gangs"
    return _measured(case, state, [_gang("big", pods)], lambda i: _member_pod("big", i, cpu=3000))


def preempt_for_pod(nodes: int = 5_000, low: int = 50_000) -> Row:
    """One pod that needs a whole node."""
    running = [
        _pod(f"low-{i}", cpu=390, node=_node_name(i % nodes), start=i, priority=1000 + i % LEVELS) for i in range(low)
    ]
    pod = _pod("pre", cpu=3970, priority=HIGH)
    state = _state(nodes, running, gangs=[], low=[])
    return _measured("preempt for 1 pod", state, [(ForPod(pod.key), 1)], lambda i: pod)


CASES: dict[str, Callable[[], Row]] = {
    "empty": place_large,
    "half-full": lambda: place_large(half_full=True),
    "small": place_small,
    "basic-1": preempt_pods,
    "basic-10": lambda: preempt_pods(gangs=10),
    "groups-1": preempt_groups,
    "groups-10": lambda: preempt_groups(low_groups=50, gangs=10),
    "among-gangs": preempt_among_gangs,
    "pod": preempt_for_pod,
}


# --- how it is measured ----------------------------------------------------------------------------------------------


def _measured(
    case: str, state: ClusterState, preemptors: Iterable[tuple[Preemptor, int]], made: Callable[[int], Pod]
) -> Row:
    """Decide about one after another, each with the effects of the one before; only the decisions are timed."""
    seconds, pods, victims, writes = 0.0, 0, 0, 0
    for preemptor, size in preemptors:
        for pod in _waiting(preemptor, size, made):
            state.add_pod(pod)
        before = time.process_time()
        answer = cycle(state, preemptor)
        seconds += time.process_time() - before
        pods += size
        victims += len(answer.actuated)
        writes += len(answer.bound) + len(answer.nominated) + 2 * len(answer.actuated)  # a condition and a deletion
        for key in answer.actuated:
            state.remove_pod(key)
        for key, node in {**answer.bound, **answer.nominated}.items():
            state.bind(key, node)
    cpu = round(1_000 * seconds, 3)
    return {
        "case": case, "nodes": len(state.nodes), "pods": pods, "cpuMs": cpu, "victims": victims, "writes": writes
    }  # fmt: skip


def _waiting(preemptor: Preemptor, size: int, made: Callable[[int], Pod]) -> Iterator[Pod]:
    if isinstance(preemptor, ForPod):
        yield made(0)
        return
    for i in range(size):
        pod = made(i)
        yield _member_pod(preemptor.member.workload, i, like=pod)


def _state(
    nodes: int, running: list[Pod], *, gangs: list[tuple[str, int]], low: list[tuple[str, int]], whole: bool = False
) -> ClusterState:
    workloads = [_workload(name, size, HIGH) for name, size in gangs]
    workloads += [
        _workload(name, size, 1_000 + i % LEVELS if whole else 1_000, whole) for i, (name, size) in enumerate(low)
    ]
    allocatable = {"cpu": CPU, "memory": MEMORY, "pods": 110}
    machines = tuple(
        Node(name=_node_name(i), allocatable=allocatable, labels={"kubernetes.io/hostname": _node_name(i)})
        for i in range(nodes)
    )
    return ClusterState.of(Cluster(nodes=machines, pods=tuple(running), workloads=tuple(workloads)))


def _node_name(number: int) -> str:
    return f"node-{number:05}"


def _workload(name: str, size: int, priority: int, whole: bool = False) -> SchedulingWorkload:
    group = PodGang(key=("default", name, "pods"), min_count=size, whole=whole)
    return SchedulingWorkload(
        namespace="default", name=name, groups=(group,), priority=priority, preemption_priority=priority
    )


def _gang(name: str, size: int) -> tuple[Preemptor, int]:
    return ForGroup("default", Member(name, "pods")), size


def _pod(
    name: str, *, cpu: int, node: str | None = None, start: int = 0, priority: int = 0, ports: Iterable[int] = (),
    member: Member | None = None, arrived: int = 0,
) -> Pod:  # fmt: skip
    return Pod(
        key=("default", name), requests={"cpu": cpu, "memory": 100 * MI}, node=node, start=Millis(start),
        priority=priority, ports=frozenset(("TCP", port) for port in ports), member=member, arrived=arrived,
    )  # fmt: skip


def _member_pod(
    gang: str, number: int, *, cpu: int = 0, node: str | None = None, start: int = 0, ports: Iterable[int] = (),
    like: Pod | None = None,
) -> Pod:  # fmt: skip
    if like is not None:
        cpu, ports = like.requests["cpu"], [port for _, port in like.ports]
    return _pod(
        f"{gang}-{number}", cpu=cpu, node=node, start=start, ports=ports, member=Member(gang, "pods"), arrived=number
    )
