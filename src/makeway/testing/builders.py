"""Keyword factories for the core's nouns, with boring defaults, so that a test says only what it is about.

Amounts are as people say them: ``cpu=2`` is two cores (2000 in the model), other resources are whole units. Times are
seconds. One flavor, one resource and one namespace are assumed unless a test names others.

``state`` takes everything in one call and any order; ``cycle`` and ``leave`` are the two things that happen to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from makeway.core.cycle.cycle import Plan, carry_out, decide, departed
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
    Taint,
    Toleration,
    Uid,
    Workload,
    WorkloadKey,
)
from makeway.core.policy import Policy
from makeway.core.queue_policies import BorrowWithinCohortPolicy, ReclaimWithinCohort, WithinClusterQueue
from makeway.core.quota.tree import WEIGHT_ONE, QuotaSpec
from makeway.core.state import State

Amount = int | float
Amounts = Amount | Mapping[str, Amount | Mapping[str, Amount]]  # cpu of the one flavor, or flavor -> cpu or resources
Part = tuple[Queue, QuotaSpec] | QuotaSpec | Flavor | Workload

FLAVOR = FlavorName("default")
CPU = ResourceName("cpu")
FR_CPU: FR = (FLAVOR, CPU)
POLICIES = {"within": WithinClusterQueue, "reclaim": ReclaimWithinCohort, "borrow": BorrowWithinCohortPolicy}


def units(amount: Amount, resource: str) -> int:
    """Cores become thousandths; other resources are whole units."""
    return round(amount * 1000) if resource == "cpu" else int(amount)


def seconds(at: Amount) -> Millis:
    return Millis(round(at * 1000))


def clock(text: str) -> int:
    """``"9:30"`` or ``"9:30:05"`` as seconds."""
    hours, minutes, rest = (*map(int, text.split(":")), 0)[:3]
    return hours * 3600 + minutes * 60 + rest


def amounts(written: Amounts | None) -> dict[FR, int]:
    """``4`` is four cores of the one flavor; ``{"spot": 4}`` names it, ``{"spot": {"gpu": 2}}`` the resource too."""
    if written is None:
        return {}
    by_flavor = written if isinstance(written, Mapping) else {FLAVOR: written}
    found: dict[FR, int] = {}
    for flavor_name, each in by_flavor.items():
        by_resource = each if isinstance(each, Mapping) else {"cpu": each}
        for resource, amount in by_resource.items():
            found[FlavorName(flavor_name), ResourceName(resource)] = units(amount, resource)
    return found


# --- what is configured ----------------------------------------------------------------------------------------------


def queue(
    name: str,
    nominal: Amounts = 0,
    *,
    cohort: str = "",
    borrowing: Amounts | None = None,
    lending: Amounts | None = None,
    min_admit: Amount | None = None,
    weight: Amount = 1,
    **settings: Any,
) -> tuple[Queue, QuotaSpec]:
    """A queue and its quota; ``settings`` are fields of ``Queue``, policies by their values in the API.

    One group covers all resources that it has quota of.
    """
    spec = QuotaSpec(
        name=name, parent=cohort, nominal=amounts(nominal), borrowing=amounts(borrowing), lending=amounts(lending),
        weight=round(weight * WEIGHT_ONE),
    )  # fmt: skip
    covered = FlavorGroup(
        resources=tuple(dict.fromkeys(resource for _, resource in spec.nominal)),
        flavors=tuple(dict.fromkeys(flavor_name for flavor_name, _ in spec.nominal)),
    )
    span = None if min_admit is None else seconds(min_admit)
    defaults: dict[str, Any] = {"groups": (covered,), "namespaces": ()}
    policies = {name: POLICIES[name](value) for name, value in settings.items() if name in POLICIES}
    return Queue(name=QueueName(name), min_admit=span, **{**defaults, **settings, **policies}), spec


def cohort(
    name: str,
    nominal: Amounts | None = None,
    *,
    parent: str = "",
    borrowing: Amounts | None = None,
    lending: Amounts | None = None,
    weight: Amount = 1,
) -> QuotaSpec:
    return QuotaSpec(
        name=name, parent=parent, nominal=amounts(nominal), borrowing=amounts(borrowing), lending=amounts(lending),
        weight=round(weight * WEIGHT_ONE),
    )  # fmt: skip


def flavor(
    name: str = FLAVOR,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    tolerations: Iterable[Toleration] = (),
) -> Flavor:
    return Flavor(
        name=FlavorName(name), labels=dict(labels or {}), taints=tuple(taints), tolerations=tuple(tolerations)
    )


# --- waiting and running ----------------------------------------------------------------------------------------------


def pod_set(name: str = "main", *, count: int = 1, cpu: Amount = 1, **settings: Any) -> PodSet:
    """Equal pods of ``cpu`` cores each; ``requests`` replaces that, in units of the model."""
    return PodSet(name=name, count=count, **{"requests": {CPU: units(cpu, "cpu")}, **settings})


def workload(
    name: str,
    *,
    queue: str = "q",
    cpu: Amount = 1,
    count: int = 1,
    priority: int = 0,
    queued: Amount = 0,
    namespace: str = "default",
    requests: Mapping[str, Amount] | None = None,
    pod_sets: tuple[PodSet, ...] | None = None,
    min_count: int | None = None,
    **settings: Any,
) -> Workload:
    """A waiting workload: ``count`` pods of ``cpu`` cores; ``settings`` are fields of ``Workload``."""
    asked = {ResourceName(key): units(value, key) for key, value in (requests or {"cpu": cpu}).items()}
    one = PodSet(name="main", count=count, requests=asked, min_count=min_count)
    return Workload(
        key=WorkloadKey(f"{namespace}/{name}"),
        **{
            "uid": Uid(name),
            "queue": QueueName(queue),
            "priority": priority,
            "queued_at": seconds(queued),
            "pod_sets": (one,) if pod_sets is None else pod_sets,
            **settings,
        },
    )


def holder(name: str, *, reserved: Amount | None = 0, usage: Amounts | None = None, **settings: Any) -> Workload:
    """A workload that holds quota since ``reserved`` (None: just assumed): ``usage``, by default its ``cpu`` cores."""
    settings = {"queued": reserved or 0, **settings}
    return workload(name, **settings).but(
        usage=amounts(settings.get("cpu", 1) if usage is None else usage),
        reserved_at=None if reserved is None else seconds(reserved),
    )


# --- all of it together ----------------------------------------------------------------------------------------------


def state(*parts: Part, policy: Policy | None = None, at: Amount = 0) -> State:
    """Queues, cohorts, flavors and workloads as one state; flavors that only queues name exist, bare."""
    made = State(policy or Policy.default())
    queues = [each for each in parts if isinstance(each, tuple)]
    cohorts = [each for each in parts if isinstance(each, QuotaSpec)]
    flavors = {each.name: each for each in parts if isinstance(each, Flavor)}
    named = (name for each, _ in queues for group in each.groups for name in group.flavors)
    made.configure(queues, cohorts, {**{name: flavor(name) for name in named}, **flavors}.values())
    made.namespaces = {"default": {}}
    for each in parts:
        if isinstance(each, Workload):
            if each.usage is None:
                made.push(each, seconds(at))
            else:
                made.hold(each)
    return made


def cycle(on: State, at: Amount = 0) -> Plan:
    """Decide one cycle and carry it out."""
    plan = decide(on, seconds(at))
    carry_out(on, plan)
    return plan


def leave(on: State, *names: str, reason: str = "", at: Amount = 0, returns: bool = True) -> None:
    """Holders release their quota; they wait again unless they are done, and their trees are woken (S-3.7)."""
    for holder in [holder for members in on.holders.of_queue.values() for holder in list(members.values())]:
        if holder.uid in names:
            on.release(holder, seconds(at))
            if returns:
                on.push(departed(on, holder, reason, seconds(at), seconds(at)), seconds(at))
            on.wake(holder.queue, seconds(at))


def outcomes(plan: Plan) -> dict[str, str]:
    """The status of each head's verdict, by its uid."""
    return {each.workload.uid: each.requeue or each.status for each in plan.verdicts}


def evictions(plan: Plan) -> list[tuple[str, str]]:
    """The victims and the reason for each, in the order in which they were chosen."""
    return [(target.workload.uid, target.reason) for each in plan.verdicts for target in each.targets]
