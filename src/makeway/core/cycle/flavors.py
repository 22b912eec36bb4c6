"""Which flavor each resource of a workload gets, and whether it fits there now or only after preemption (S-6).

The search walks a group's flavors in the queue's order, starting where the last search stopped, and stops where the
queue's policy says so. Its result is a value. ``simulate`` says whether preemption would help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from makeway.core.amounts import add, multiply
from makeway.core.model import (
    FR,
    PODS,
    Flavor,
    FlavorGroup,
    FlavorName,
    PodSet,
    Queue,
    ResourceName,
    Selector,
    Workload,
    selects,
)
from makeway.core.policy import Policy
from makeway.core.quota.tree import QuotaNode, QuotaTree
from makeway.core.trace import Rule, Step


class Mode(IntEnum):
    """How a request relates to a flavor, worst first (S-6.6)."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # preemption would be allowed, but there is no candidate
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    @property
    def public(self) -> str:
        return "Fit" if self is Mode.FIT else "NoFit" if self is Mode.NO_FIT else "Preempt"


class NoFit(IntEnum):
    """Why there is no flavor, mildest first (S-6.10)."""

    WAITING_FOR_QUOTA = 1
    EXCEEDS_MAX_QUOTA = 2
    NO_MATCHING_FLAVOR = 3

    @property
    def public(self) -> str:
        return {1: "WaitingForQuota", 2: "ExceedsMaxQuota", 3: "NoMatchingFlavor"}[self]


Simulate = Callable[[FR, int], tuple[Mode, int]]  # what evicting could do for one flavor-resource, and the level then
Scan = tuple[int, ResourceName]  # the flavors of a resource group, for a podSet
Tried = Mapping[Scan, int]  # index where the scan stopped; -1: at the end
AT_END = -1


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """A resource's flavor."""

    flavor: FlavorName
    mode: Mode
    level: int
    tried: int


@dataclass(frozen=True, slots=True)
class FlavorAttempt:
    """A flavor that was tried, with the outcome of its worst resource."""

    flavor: FlavorName
    mode: Mode
    level: int
    why: NoFit | None = None


@dataclass(slots=True)
class PodSetAssignment:
    index: int  # of the podSet
    name: str
    count: int
    requests: dict[ResourceName, int]
    choices: dict[ResourceName, FlavorChoice] = field(default_factory=dict)
    attempts: list[FlavorAttempt] = field(default_factory=list)
    mode: Mode = Mode.FIT


@dataclass(slots=True)
class Assignment:
    """The result of a search. Read-only once made."""

    pod_sets: list[PodSetAssignment] = field(default_factory=list)
    mode: Mode = Mode.FIT
    level: int = 0
    usage: dict[FR, int] = field(default_factory=dict)
    why: NoFit | None = None
    steps: list[Step] = field(default_factory=list)
    ended_before: frozenset[Scan] = frozenset()  # the ``ended`` of the search that this one replaced

    @property
    def preempts(self) -> bool:
        """Whether there is room only once other workloads have left."""
        return self.mode is not Mode.FIT and self.mode is not Mode.NO_FIT

    @property
    def need(self) -> tuple[FR, ...]:
        """Flavor-resources that lack room (S-7.2)."""
        found = {
            (choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.choices.items()
            if choice.mode is not Mode.FIT
        }
        return tuple(sorted(found))

    @property
    def tried(self) -> dict[Scan, int]:
        return {
            (pod_set.index, resource): choice.tried
            for pod_set in self.pod_sets
            for resource, choice in pod_set.choices.items()
        }

    @property
    def ended(self) -> frozenset[Scan]:
        """Scans that reached the last flavor; ``tried`` lacks those that chose no flavor."""
        at_end = {scan for scan, index in self.tried.items() if index == AT_END}
        in_vain = {(each.index, name) for each in self.pod_sets if each.mode is Mode.NO_FIT for name in each.requests}
        return self.ended_before | at_end | in_vain


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One flavor for one resource."""

    mode: Mode
    level: int
    step: Step
    why: NoFit | None = None


# A flavor that can be had, now or after preemption: its outcome for each resource, and the worst of them. It is a plain
# tuple because one is made for every flavor of every head.
_Usable = tuple[FlavorName, dict[ResourceName, _Outcome], _Outcome]


class _PodSetGroup:
    """PodSets that get the same flavors, and what they ask for together; explanations name the first one."""

    __slots__ = ("index", "name", "parts", "pod_sets", "total")

    def __init__(self, pod_sets: list[PodSet], parts: list[PodSetAssignment]) -> None:
        self.pod_sets = pod_sets
        self.parts = parts
        self.index, self.name = parts[0].index, parts[0].name
        self.total: dict[ResourceName, int] = {}
        for part in parts:
            for resource, amount in part.requests.items():
                self.total[resource] = add(self.total.get(resource, 0), amount)


def asked_by(queue: Queue, pod_set: PodSet, count: int) -> dict[ResourceName, int]:
    """What ``count`` pods of a podSet request from a queue."""
    requests = {name: multiply(max(0, amount), count) for name, amount in pod_set.requests.items()}
    if queue.group_of(PODS) is not None:
        requests[PODS] = count  # counted as a resource (S-1.9)
    return requests


@dataclass(frozen=True, slots=True)
class Search:
    """All inputs of a flavor search. ``only`` restricts a podSet's resource to the flavor it had before."""

    tree: QuotaTree
    node: QuotaNode
    queue: Queue
    flavors: Mapping[FlavorName, Flavor]
    policy: Policy
    simulate: Simulate
    tried: Tried = field(default_factory=dict)
    only: Mapping[tuple[int, ResourceName], FlavorName] | None = None

    def assign(self, workload: Workload, counts: Sequence[int]) -> Assignment:
        """A flavor for every resource of every podSet, as far as there is one."""
        result = Assignment()
        for members in _grouped(workload.pod_sets):
            pod_sets = [workload.pod_sets[i] for i in members]
            parts = [
                PodSetAssignment(i, each.name, counts[i], asked_by(self.queue, each, counts[i]))
                for i, each in zip(members, pod_sets, strict=True)
            ]
            why = self._assign_together(_PodSetGroup(pod_sets, parts), result)
            result.pod_sets.extend(parts)
            result.pod_sets.sort(key=lambda part: part.index)
            if why is not None:
                for part in parts:
                    part.choices, part.mode = {}, Mode.NO_FIT
                result.mode, result.why = Mode.NO_FIT, why
                return result
            for part in parts:
                result.mode = min(result.mode, part.mode)
                for resource, choice in part.choices.items():
                    fr = (choice.flavor, resource)
                    result.usage[fr] = add(result.usage.get(fr, 0), part.requests[resource])
                    result.level = max(result.level, choice.level)
        return result

    def _assign_together(self, together: _PodSetGroup, so_far: Assignment) -> NoFit | None:
        """Assign one flavor per resource group to podSets that go together; why not, if there is none (S-6.1)."""
        why: NoFit | None = None
        decided: set[ResourceName] = set()
        mode = Mode.FIT
        names = sorted(together.total)
        for resource in names:
            if resource in decided:
                continue
            group = self.queue.group_of(resource)
            if group is None:
                amount = together.total[resource]
                if amount and not self.policy.resources.ignores_undeclared:
                    so_far.steps.append(Step(Rule.NOT_COVERED, (together.name, resource), (amount,)))
                    why = _worse(why, NoFit.NO_MATCHING_FLAVOR)
                continue
            asked = [each for each in names if each in group.resources]
            decided.update(asked)
            found = self._best_of(group, asked, together, so_far)
            if isinstance(found, NoFit):
                why = _worse(why, found)
            else:
                mode = min(mode, found)
        for part in together.parts:
            part.mode = mode
        return why

    def _best_of(
        self, group: FlavorGroup, asked: list[ResourceName], together: _PodSetGroup, so_far: Assignment
    ) -> Mode | NoFit:
        """Try a group's flavors in order, stop where the policy says so, and return the best one seen (S-6.3, 6.7)."""
        scan = (together.index, asked[0])
        best: _Usable | None = None
        mildest: NoFit | None = None
        last = len(group.flavors) - 1
        tried = AT_END
        for index in range(self.tried.get(scan, AT_END) + 1, len(group.flavors)):
            flavor = group.flavors[index]
            if self.only is not None and self.only.get(scan) != flavor:
                continue
            found = self._try(flavor, asked, together, so_far)
            if isinstance(found, NoFit):
                mildest = _milder(mildest, found)
                continue
            is_end = self._stops(found[2])
            if is_end or best is None or self._is_taken_before(found[2], best[2]):
                best = found
            if is_end:
                tried = AT_END if index == last else index
                break
        if best is None:
            return mildest or NoFit.NO_MATCHING_FLAVOR
        chosen, outcomes, worst = best
        for part in together.parts:
            for resource in asked:
                if resource in part.requests:
                    outcome = outcomes[resource]
                    part.choices[resource] = FlavorChoice(chosen, outcome.mode, outcome.level, tried)
        by_worst = self.policy.gates.assignment_mode_by_worst_resource
        return min(each.mode for each in outcomes.values()) if by_worst else worst.mode

    def _try(
        self, flavor: FlavorName, asked: list[ResourceName], together: _PodSetGroup, so_far: Assignment
    ) -> _Usable | NoFit:
        """The outcome of a flavor for all resources of a group; why not, if the flavor cannot be had."""
        refusal = self._mismatch(flavor, together.pod_sets, together.name)
        if refusal is not None:
            so_far.steps.append(refusal)
            return NoFit.NO_MATCHING_FLAVOR
        outcomes = {resource: self._outcome(flavor, resource, together, so_far) for resource in asked}
        worst = self._representative(outcomes.values())
        together.parts[0].attempts.append(FlavorAttempt(flavor, worst.mode, worst.level, worst.why))
        so_far.steps.extend(each.step for each in outcomes.values())
        if worst.mode is Mode.NO_FIT:
            return worst.why or NoFit.WAITING_FOR_QUOTA
        return flavor, outcomes, worst

    def _outcome(
        self, flavor: FlavorName, resource: ResourceName, together: _PodSetGroup, so_far: Assignment
    ) -> _Outcome:
        """The outcome of one flavor-resource (S-6.5)."""
        fr, pod_set, asked = (flavor, resource), together.name, together.total[resource]
        before = so_far.usage.get(fr, 0)
        amount = add(before, asked)
        most = self.tree.potential(self.node, fr)
        if amount > most:
            step = Step(Rule.EXCEEDS_MAX, (pod_set, resource, flavor), (asked, before, most))
            return _Outcome(Mode.NO_FIT, 0, step, NoFit.EXCEEDS_MAX_QUOTA)
        level, may_reclaim = self.tree.lowest_subtree(self.node, fr, amount)
        free = max(0, self.tree.available(self.node, fr))
        if amount <= free:
            return _Outcome(Mode.FIT, level, Step(Rule.FITS, (pod_set, resource, flavor), (amount, free, level)))
        step = Step(Rule.SHORT, (pod_set, resource, flavor), (amount, free, amount - free))
        if self.node.nominal.get(fr, 0) >= amount or may_reclaim or self._preempts_while_borrowing():
            mode, after = self.simulate(fr, amount)
            return _Outcome(mode, level if mode is Mode.NO_CANDIDATES else after, step)
        if not self.node.nominal.get(fr, 0) and self.queue.within.preempts and not self.policy.is_parity:
            so_far.steps.append(Step(Rule.NO_NOMINAL_QUOTA, (pod_set, resource, flavor)))
        return _Outcome(Mode.NO_FIT, 0, step, NoFit.WAITING_FOR_QUOTA)

    def _preempts_while_borrowing(self) -> bool:
        return self.queue.borrow.preempts or (self.policy.fair_sharing and self.queue.reclaim.preempts)

    def _stops(self, worst: _Outcome) -> bool:
        if not self.policy.gates.flavor_fungibility:
            return worst.mode is Mode.FIT
        if worst.mode is Mode.NO_CANDIDATES:
            return False
        if worst.mode in (Mode.PREEMPT, Mode.RECLAIM) and self.queue.try_next_when_preempting:
            return False
        return not (worst.level > 0 and self.queue.try_next_when_borrowing)

    def _better(self, a: _Outcome, b: _Outcome) -> bool:
        return is_better((a.mode, a.level), (b.mode, b.level), prefer_preemption=self.queue.prefer_preemption)

    def _is_taken_before(self, a: _Outcome, b: _Outcome) -> bool:
        """Whether flavor ``a`` is preferred to ``b``, judged by their worst resources (S-6.7)."""
        return self._better(a, b) if self.policy.gates.flavor_fungibility else a.mode > b.mode

    def _representative(self, outcomes: Iterable[_Outcome]) -> _Outcome:
        """The worst resource of a flavor, whether or not the order of flavors is the queue's to say (S-6.6)."""
        worst: _Outcome | None = None
        for outcome in outcomes:
            if worst is None or self._better(worst, outcome):
                worst = outcome
        assert worst is not None
        return worst

    def _mismatch(self, name: FlavorName, pod_sets: list[PodSet], shown: str) -> Step | None:
        """Why the podSets cannot use a flavor at all (S-6.3, 6.4)."""
        for pod_set in pod_sets:
            if pod_set.allowed and name not in pod_set.allowed:
                return Step(Rule.NOT_ALLOWED, (shown, name))
        flavor = self.flavors.get(name)
        if flavor is None:
            return Step(Rule.NOT_FOUND, (shown, name))
        if not flavor.taints and not flavor.labels:
            return None
        for pod_set in pod_sets:
            for taint in flavor.taints:
                tolerations = (*pod_set.tolerations, *flavor.tolerations)
                if not any(toleration.tolerates(taint) for toleration in tolerations):
                    return Step(Rule.TAINT, (shown, name, taint.key, taint.value, taint.effect))
            if not _matches_labels(pod_set, flavor.labels):
                return Step(Rule.AFFINITY, (shown, name))
        return None


def is_better(a: tuple[Mode, int], b: tuple[Mode, int], *, prefer_preemption: bool) -> bool:
    """Whether outcome ``a`` (mode, borrowing level) is strictly better than ``b`` (S-6.6)."""
    if a[0] is Mode.NO_FIT or b[0] is Mode.NO_FIT:
        return a[0] is not Mode.NO_FIT and b[0] is Mode.NO_FIT
    if (a[0] is Mode.NO_CANDIDATES) != (b[0] is Mode.NO_CANDIDATES):
        return b[0] is Mode.NO_CANDIDATES
    if prefer_preemption:
        return (-a[1], a[0]) > (-b[1], b[0])
    return (a[0], -a[1]) > (b[0], -b[1])


def _matches_labels(pod_set: PodSet, labels: Mapping[str, str]) -> bool:
    """Only keys that this flavor defines count; a term that loses all its expressions makes affinity irrelevant."""
    if pod_set.node_selector is not None:
        for key, value in pod_set.node_selector.items():
            if key in labels and labels[key] != value:
                return False
    if pod_set.affinity is None:
        return True
    for term in pod_set.affinity:
        known: Selector = tuple(each for each in term if each.key in labels)
        if selects(known, labels):
            return True  # an empty one holds
    return not pod_set.affinity


def _grouped(pod_sets: Sequence[PodSet]) -> Iterator[list[int]]:
    seen: set[str] = set()
    for i, each in enumerate(pod_sets):
        if not each.group:
            yield [i]
        elif each.group not in seen:
            seen.add(each.group)
            yield [j for j, other in enumerate(pod_sets) if other.group == each.group]


def _worse(a: NoFit | None, b: NoFit) -> NoFit:
    return b if a is None else max(a, b)


def _milder(a: NoFit | None, b: NoFit) -> NoFit:
    return b if a is None else min(a, b)
