"""Recorded data as the engine's values, and the list of what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from makeway.api import codec
from makeway.api.objects.workload import Workload as WireWorkload
from makeway.api.quantity import Quantity, Time
from makeway.core.amounts import UNLIMITED
from makeway.core.cycle.cycle import Verdict
from makeway.core.lowering import Loaded, load_state, workload_of
from makeway.core.model import FR, FlavorName, Millis, QueueName, ResourceName, Usage, Workload
from makeway.core.policy import FairStrategy, Policy
from makeway.core.queueing.pending import WaitingList
from makeway.core.requests import units
from makeway.core.state import State
from makeway.core.trace import Step
from makeway.testing.vectors.reading import Case
from makeway.testing.vectors.rounding import RoundedShare

ALLOWED_FLAVORS = "kueue.x-k8s.io/workload-allowed-resource-flavors"  # upstream's place for what podSets say here
STRATEGIES: tuple[FairStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


@dataclass(slots=True)
class Findings:
    """What a case's adapter found: the differences, none if we agree, and the reasons of our decision."""

    differences: list[str] = field(default_factory=list)
    explanation: list[str] = field(default_factory=list)
    answer: dict[str, Any] | None = None  # ours, for others to judge

    def same(self, what: str, got: object, want: object) -> None:
        if got != want:
            self.differences.append(f"{what}: got {_told(got)}, want {_told(want)}")

    def same_amounts(self, what: str, got: Callable[[FR], int], want: Mapping[str, Mapping[str, str]] | None) -> None:
        """Compare the recorded amounts by value; an amount that was not recorded is zero there, and not compared."""
        for fr, amount in usage_of(want).items():
            self.same(f"{what} of {'/'.join(fr)}", got(fr), amount)

    def explain(self, subject: str, steps: Iterable[Step]) -> None:
        for step in steps:
            about = " ".join(each for each in step.subjects if each != subject)
            self.explanation.append(f"{subject}: {step.rule} {about}: {step}")

    def explain_verdicts(self, when: str, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            requeued = f", requeued {verdict.requeue}" if verdict.requeue else ""
            level = verdict.assignment.level
            self.explanation.append(f"{when}{verdict.workload.key}: {verdict.status} {verdict.mode} {level}{requeued}")
            self.explain(verdict.workload.key, verdict.steps)


def _told(value: object) -> str:
    """Equal values, equal text: tables by key, sets sorted."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_told(key)}: {_told(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_told, value)) + "]"
    return "nothing" if value is None else str(value)


# --- reading ---------------------------------------------------------------------------------------------------------


def rows(record: Mapping[str, Any], name: str) -> list[Any]:
    """A recorded list. One that is empty may be written as null or left out."""
    return record.get(name) or []


def table(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A recorded table. One that is empty may be written as null or left out."""
    return record.get(name) or {}


def amount_of(text: str, resource: str) -> int:
    return UNLIMITED if text == "unlimited" else units(Quantity.parse(text).nano, resource)


def usage_of(recorded: Mapping[str, Mapping[str, str]] | None) -> dict[FR, int]:
    """``flavor -> resource -> amount`` as the engine keeps it."""
    return {
        (FlavorName(flavor), ResourceName(resource)): amount_of(text, resource)
        for flavor, resources in (recorded or {}).items()
        for resource, text in (resources or {}).items()
    }


def amounts_of(recorded: Mapping[str, str] | None) -> dict[str, int]:
    """``resource -> amount``; a missing one equals zero, so zeros are left out."""
    amounts = {name: amount_of(text, name) for name, text in (recorded or {}).items()}
    return {name: amount for name, amount in amounts.items() if amount}


def without_zeros(usage: Usage) -> dict[str, int]:
    return {"/".join(fr): amount for fr, amount in usage.items() if amount}


def now_of(case: Case) -> Millis:
    return Millis(Time.parse(case.now).millis)


def policy_of(case: Case) -> Policy:
    policy = Policy.parity()
    fair = case.config.get("fairSharing")
    return replace(
        policy,
        gates=policy.gates.turned(case.gates),
        requeuing=replace(
            policy.requeuing, timestamp=case.config.get("podsReadyRequeuingTimestamp", policy.requeuing.timestamp)
        ),
        fair_strategies=() if fair is None else tuple(fair.get("preemptionStrategies") or STRATEGIES),
    )


def wire_of(tree: Mapping[str, Any]) -> Any:
    """A recorded object in our API: the peer lists an Option's flavors once, we list them per podSet."""
    annotations = tree["metadata"].get("annotations") or {}
    if tree["kind"] == "Workload" and ALLOWED_FLAVORS in annotations:
        allowed = [each.strip() for each in annotations[ALLOWED_FLAVORS].split(",") if each.strip()]
        pod_sets = [{**each, "allowedResourceFlavors": allowed} for each in tree["spec"].get("podSets") or ()]
        tree = {**tree, "spec": {**tree["spec"], "podSets": pod_sets}}
    return codec.read(dict(tree), "Ignore", limits=False).value


def load(case: Case, objects: Iterable[Mapping[str, Any]] | None = None) -> Loaded:
    """The state that a case begins with, and the usage that it charges directly."""
    trees = case.objects if objects is None else objects
    loaded = load_state(map(wire_of, trees), policy_of(case), now_of(case))
    if case.rounds_shares:
        loaded.state.tree.share_type = RoundedShare
    for queue, usage in table(case.given, "usage").items():
        loaded.state.tree.charge_all(loaded.state.tree.queues[queue], usage_of(usage))
    return loaded


def workload_from(tree: Mapping[str, Any], loaded: Loaded, queue: str | None = None) -> Workload:
    wire: WireWorkload = wire_of(tree)
    return workload_of(wire, loaded.context, None if queue is None else QueueName(queue))


def waiting(state: State) -> dict[str, list[str]]:
    """The workloads that wait in each queue; empty queues are left out."""
    return {name: sorted(queued.waiting) for name, queued in _lists(state) if queued.waiting}


def parked(state: State) -> dict[str, list[str]]:
    return {name: sorted(queued.parked) for name, queued in _lists(state) if queued.parked}


def _lists(state: State) -> list[tuple[QueueName, WaitingList]]:
    """The waiting lists of the queues that exist; the record knows no others."""
    return [(name, state.pending.lists[name]) for name in sorted(state.pending.lists) if name in state.queues]


def listed(record: Mapping[str, Any], name: str) -> dict[str, list[str]]:
    """A recorded ``queue -> workloads``, as ``waiting`` and ``parked`` show ours."""
    return {queue: sorted(keys) for queue, keys in sorted(table(record, name).items()) if keys}
