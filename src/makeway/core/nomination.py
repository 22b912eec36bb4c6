"""What one head would need: flavors, and whom it would displace (S-5.3 to 5.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from makeway.core.flavors import Assignment, Mode, Search, Tried
from makeway.core.model import FR, FlavorName, Millis, PodSet, ResourceName, Workload
from makeway.core.options import running_sibling, stays_beside
from makeway.core.pending import Requeue
from makeway.core.preemption.classical import Target, Victims, find_victims
from makeway.core.state import State
from makeway.core.trace import Rule, Step


@dataclass(slots=True)
class Entry:
    """A head of the cycle with what was found for it."""

    workload: Workload
    assignment: Assignment = field(default_factory=Assignment)
    targets: tuple[Target, ...] = ()
    steps: tuple[Step, ...] = ()  # why nobody can be displaced
    deferred: bool = False  # it fits once the victims of others are gone
    refused: Requeue | None = None  # it was not even considered
    replaces: Workload | None = None  # an Option: the Admitted sibling that leaves for it (S-12.7)


Only = Mapping[tuple[int, ResourceName], FlavorName]


def nominate(state: State, workload: Workload, now: Millis) -> Entry:
    """The entry of a head, judged on the state as it is."""
    reason = _refusal(state, workload)
    if reason is not None:
        return Entry(workload, refused=reason[0], steps=(Step(Rule.REFUSED, (workload.key, *reason[1:])),))
    sibling = running_sibling(state, workload)
    if sibling is not None:
        return _nominate_beside(state, workload, sibling, now)
    assignment, victims = find_assignment(state, workload, now, tried=state.tried(workload))
    return Entry(workload, assignment, victims.targets, victims.steps)


def _nominate_beside(state: State, workload: Workload, sibling: Workload, now: Millis) -> Entry:
    """The entry of an Option whose family runs already: it stands back, or takes over (S-5.7.1, 12.7.1, 12.7.2)."""

    def refused(requeue: Requeue, reason: str, words: str) -> Entry:
        return Entry(workload, refused=requeue, steps=(Step(Rule.REFUSED, (workload.key, reason, words)),))

    queue = state.queues[workload.queue]
    if not stays_beside(queue, workload, sibling):
        return refused("SiblingRuns", "PendingEvaluation", f"{sibling.key} of the same family is Admitted")
    replaces: Workload | None = sibling
    tried = state.tried(workload)
    assignment, victims = find_assignment(state, workload, now, tried=tried, replaces=sibling)
    if queue.checks_for(flavor for flavor, _ in assignment.usage):
        replaces = None  # its checks run while the sibling goes on
        assignment, victims = find_assignment(state, workload, now, tried=tried)
        if assignment.mode is Mode.NO_FIT:
            return refused("NoFit", "WaitingForQuota", f"it does not fit beside {sibling.key}")
    if assignment.mode not in (Mode.FIT, Mode.NO_FIT) and not state.policy.option_upgrade_preempts:
        return refused("NoFit", "WaitingForQuota", f"{sibling.key} runs, and nobody is displaced for an upgrade")
    return Entry(workload, assignment, victims.targets, victims.steps, replaces=replaces)


def _refusal(state: State, workload: Workload) -> tuple[Requeue, str, str] | None:
    """How it is requeued, its condition reason and its words, if it cannot be considered (S-5.3)."""
    if workload.refusal:
        return "Generic", workload.refusal, workload.refused
    queue = state.queues.get(workload.queue)
    if queue is None:
        return "Generic", "Misconfigured", f"ClusterQueue {workload.queue} not found"
    if not state.is_active(workload.queue):
        return "Generic", "Suspended", f"ClusterQueue {workload.queue} is inactive"
    if workload.namespace not in state.namespaces:
        return "Generic", "Misconfigured", f"Namespace {workload.namespace} not found"
    if not state.namespace_matches(workload):
        return "NamespaceMismatch", "Misconfigured", "Workload namespace doesn't match ClusterQueue selector"
    return None


def find_assignment(
    state: State, workload: Workload, now: Millis, *, tried: Tried, only: Only | None = None,
    excluded: frozenset[str] = frozenset(), replaces: Workload | None = None,
) -> tuple[Assignment, Victims]:  # fmt: skip
    """With all its pods if that fits or can be made to; else, if it allows it, with as many as can be had (S-5.4).

    ``replaces`` counts as gone.
    """
    if replaces is not None:
        with state.trial():
            state.tree.release_all(state.tree.queues[replaces.queue], replaces.usage or {})
            return find_assignment(state, workload, now, tried=tried, only=only, excluded=excluded)
    finder = _Finder(state, workload, now, tried, only, excluded)
    full = [each.count for each in workload.pod_sets]
    assignment, victims = finder.probe(full)
    if assignment.mode is Mode.FIT or victims.targets:
        return assignment, victims
    if state.policy.gates.partial_admission:
        found = search_counts(workload.pod_sets, finder.succeeds)
        if found is not None:
            return finder.last
    return assignment, victims


def search_counts(pod_sets: Sequence[PodSet], succeeds: Callable[[list[int]], bool]) -> list[int] | None:
    """The largest reduced counts that ``succeeds`` accepts: a lower-bound search over one common index (S-5.5)."""
    full = [each.count for each in pod_sets]
    reduced = [0 if each.min_count is None else max(0, each.count - each.min_count) for each in pod_sets]
    total = sum(reduced)
    if total == 0:
        return None
    low, high = 0, total + 1
    last_success = -1
    while low < high:
        middle = (low + high) // 2
        if middle <= total and succeeds(_counts(full, reduced, middle, total)):
            high, last_success = middle, middle
        else:
            low = middle + 1
    return _counts(full, reduced, low, total) if low <= total and last_success == low else None


def _counts(full: list[int], reduced: list[int], index: int, total: int) -> list[int]:
    return [count - less * index // total for count, less in zip(full, reduced, strict=True)]


class _Finder:
    def __init__(
        self, state: State, workload: Workload, now: Millis, tried: Tried, only: Only | None, excluded: frozenset[str]
    ) -> None:
        self._state = state
        self._workload = workload
        self._now = now
        self._excluded = excluded
        self._sibling_runs = running_sibling(state, workload) is not None
        self._search = Search(
            tree=state.tree, node=state.tree.queues[workload.queue], queue=state.queues[workload.queue],
            flavors=state.flavors, policy=state.policy, simulate=self._simulate, tried=tried, only=only,
        )  # fmt: skip
        self.last: tuple[Assignment, Victims] = (Assignment(), Victims())

    def probe(self, counts: list[int]) -> tuple[Assignment, Victims]:
        assignment = self._search.assign(self._workload, counts)
        victims = Victims()
        if assignment.mode not in (Mode.FIT, Mode.NO_FIT):
            victims = find_victims(
                self._state, self._workload, assignment.need, assignment.usage, self._now,
                excluded=self._excluded, sibling_runs=self._sibling_runs,
            )  # fmt: skip
        return assignment, victims

    def succeeds(self, counts: list[int]) -> bool:
        assignment, victims = self.probe(counts)
        if assignment.mode is Mode.FIT or victims.targets:
            self.last = assignment, victims
            return True
        return False

    def _simulate(self, fr: FR, amount: int) -> tuple[Mode, int]:
        """What evicting could do for one flavor-resource alone, and the borrowing level then (S-6.5.3)."""
        state, workload = self._state, self._workload
        victims = find_victims(
            state, workload, (fr,), {fr: amount}, self._now, excluded=self._excluded, sibling_runs=self._sibling_runs
        )
        if not victims.targets:
            return Mode.NO_CANDIDATES, 0
        node = state.tree.queues[workload.queue]
        with state.trial():
            for target in victims.targets:
                state.tree.release_all(state.tree.queues[target.workload.queue], target.workload.usage or {})
            level, _ = state.tree.lowest_subtree(node, fr, amount)
        own = any(target.workload.queue == workload.queue for target in victims.targets)
        return (Mode.PREEMPT if own else Mode.RECLAIM), level
