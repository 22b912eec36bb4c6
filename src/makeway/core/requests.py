"""What counts of a pod's requests: defaults of its namespace, exclusions, transformations, rounding (S-1.5 to 1.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from makeway.api.pod_request import ContainerRequest, Nanos, PodRequest, add_to, pod_request
from makeway.core.amounts import LEAST, MOST
from makeway.core.model import ResourceName
from makeway.core.policy import ResourcePolicy

_BILLION = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedLimits:
    """One item of a LimitRange, or several items in one (``summarised``)."""

    default: Nanos = field(default_factory=dict)
    default_request: Nanos = field(default_factory=dict)
    most: Nanos = field(default_factory=dict)
    least: Nanos = field(default_factory=dict)


def summarised(items: Iterable[SummedLimits]) -> SummedLimits:
    """Several items in one: per resource the first default, the lowest maximum, the highest minimum (S-1.5.2)."""
    default: dict[str, int] = {}
    request: dict[str, int] = {}
    most: dict[str, int] = {}
    least: dict[str, int] = {}
    for item in items:
        default = {**item.default, **default}
        request = {**item.default_request, **request}
        for name, amount in item.most.items():
            most[name] = min(amount, most.get(name, amount))
        for name, amount in item.least.items():
            least[name] = max(amount, least.get(name, amount))
    return SummedLimits(default=default, default_request=request, most=most, least=least)


def adjusted(pod: PodRequest, *, container: SummedLimits, whole: SummedLimits, runtime_overhead: Nanos) -> PodRequest:
    """The pod with the defaults that its namespace and runtime class give it (S-1.5)."""
    return PodRequest(
        containers=[_defaulted(part, container) for part in pod.containers],
        init_containers=[_defaulted(part, container) for part in pod.init_containers],
        whole=None if pod.whole is None else _defaulted(pod.whole, whole),
        overhead=pod.overhead or runtime_overhead,
    )


def _defaulted(container: ContainerRequest, bounds: SummedLimits) -> ContainerRequest:
    limits = {**bounds.default, **container.limits}
    requests = {**bounds.default_request, **container.requests}
    return replace(container, requests={**limits, **requests}, limits=limits)


def violation(pod: PodRequest, *, container: SummedLimits, whole: SummedLimits) -> str:
    """Why no such pod can exist: its limits or the bounds of the namespace forbid it (S-5.3.5); "" if it can."""
    parts = [*pod.containers, *pod.init_containers, *([pod.whole] if pod.whole is not None else [])]
    for part in parts:
        for name, amount in part.requests.items():
            if name in part.limits and amount > part.limits[name]:
                return f"the request for {name} is above its limit"
    for part in (*pod.containers, *pod.init_containers):
        for name in {**container.most, **container.least}:
            asked = [table[name] for table in (part.requests, part.limits) if name in table]
            if asked and name in container.most and max(asked) > container.most[name]:
                return f"the request for {name} is above the maximum of the namespace"
            if asked and name in container.least and min(asked) < container.least[name]:
                return f"the request for {name} is below the minimum of the namespace"
    total = pod_request(pod)
    for name, most in whole.most.items():
        if total.get(name, 0) > most:
            return f"the pod's request for {name} is above the maximum of the namespace"
    for name, least in whole.least.items():
        if name in total and total[name] < least:
            return f"the pod's request for {name} is below the minimum of the namespace"
    return ""


def counted(request: Nanos, resources: ResourcePolicy) -> dict[ResourceName, int]:
    """What counts against quota, in whole units: exclusions, transformations, rounding (S-1.1, 1.6, 1.7)."""
    kept = {name: amount for name, amount in request.items() if not name.startswith(resources.excluded_prefixes)}
    if not resources.excluded_prefixes:
        kept = dict(request)
    made: dict[str, int] = {}
    dropped: set[str] = set()
    for rule in resources.transformations:
        if rule.input not in kept:
            continue
        amount = kept[rule.input]
        if rule.multiply_by and rule.multiply_by in kept:
            amount = amount * kept[rule.multiply_by] // _BILLION
        for name, factor in rule.outputs_nano:
            made[name] = made.get(name, 0) + amount * factor // _BILLION
        if rule.replaces:
            dropped.add(rule.input)
    total = {name: amount for name, amount in kept.items() if name not in dropped}
    add_to(total, {name: max(0, amount) for name, amount in made.items()})
    return {ResourceName(name): max(0, units(amount, name)) for name, amount in total.items()}


def units(nano: int, resource: str) -> int:
    """An amount in billionths as quota counts it: in its unit, rounded away from zero, within 64 bits (S-1.1, 1.2)."""
    scale = 10**6 if resource == "cpu" else _BILLION
    whole = -(-abs(nano) // scale)
    return max(LEAST, min(MOST, whole if nano >= 0 else -whole))
