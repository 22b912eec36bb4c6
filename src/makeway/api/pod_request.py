"""What one pod asks for at its peak: containers, init containers, pod-level requests, overhead (S-1.4).

Amounts are exact here, in billionths of a unit, so that sums round once, at the end. Checks of manifests and decisions
count by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Nanos = Mapping[str, int]  # resource -> billionths


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    requests: Nanos = field(default_factory=dict)
    limits: Nanos = field(default_factory=dict)
    restarts: bool = False  # an init container that keeps running beside the others


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    containers: Sequence[ContainerRequest] = ()
    init_containers: Sequence[ContainerRequest] = ()
    whole: ContainerRequest | None = None  # pod-level requests and limits
    overhead: Nanos = field(default_factory=dict)


def pod_request(pod: PodRequest) -> dict[str, int]:
    """What the pod needs at its peak (S-1.4)."""
    running: dict[str, int] = {}
    for container in pod.containers:
        add_to(running, container.requests)
    beside: dict[str, int] = {}  # of the init containers so far that keep running
    peak: dict[str, int] = {}
    for container in pod.init_containers:
        if container.restarts:
            add_to(beside, container.requests)
            continue
        for name in {**beside, **container.requests}:
            peak[name] = max(peak.get(name, 0), container.requests.get(name, 0) + beside.get(name, 0))
    add_to(running, beside)
    total = {name: max(table[name] for table in (running, peak) if name in table) for name in {**running, **peak}}
    if pod.whole is not None:
        total.update(pod.whole.requests)
    add_to(total, pod.overhead)
    return total


def add_to(total: dict[str, int], amounts: Nanos) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount
