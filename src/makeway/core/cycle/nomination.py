"""What one head would need: flavors, and the workloads it would displace (S-5.3 to 5.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from makeway.core.amounts import add
from makeway.core.cycle.flavors import Assignment, Mode, Search, Tried
from makeway.core.cycle.options import running_sibling, stays_beside
from makeway.core.model import FR, FlavorName, Millis, PodSet, ResourceName, Usage, Workload
from makeway.core.preemption import claims, classical
from makeway.core.preemption import fair_sharing as fair_share
from makeway.core.preemption.classical import Target, Victims
from makeway.core.preemption.departures import BY_TIME
from makeway.core.preemption.eligibility import ALL_EQUALS, NO_EQUALS, Equals, equals_by_time
from makeway.core.preemption.rounds import Round
from makeway.core.preemption.turns import own_turn, turn_behind, turn_span
from makeway.core.queueing.pending import Requeue, Turn
from makeway.core.state import State
from makeway.core.trace import Rule, Step


@dataclass(slots=True)
class Entry:
    """A head of the cycle with the result of its search."""

    workload: Workload
    assignment: Assignment = field(default_factory=Assignment)
    targets: tuple[Target, ...] = ()
    steps: tuple[Step, ...] = ()  # why no workload can be displaced
    round: Round = ""  # what displacing the targets counts as
    spared: bool = False  # some victims are left out, because they would make a round too many
    turn: Turn | None = None  # it displaces no equals, or none by time, before its turn
    excluded: frozenset[str] = frozenset()  # workloads it may not displace, whatever the policies say
    deferred: bool = False  # it fits once the victims of others are gone
    refused: Requeue | None = None  # it was not considered
    replaces: Workload | None = None  # an Option: the Admitted sibling that leaves for it (S-12.7)

    @classmethod
    def of(
        cls, workload: Workload, assignment: Assignment, victims: Victims, excluded: frozenset[str],
        replaces: Workload | None = None,
    ) -> Entry:  # fmt: skip
        """The entry of a head with the result of a search."""
        return cls(
            workload, assignment, victims.targets, victims.steps, victims.round, bool(victims.spared), victims.turn,
            excluded, replaces=replaces,
        )  # fmt: skip

    @property
    def leaving(self) -> list[Workload]:
        """The workloads that leave for it now; a sibling that it replaces leaves last (S-12.7.1)."""
        if self.targets or self.replaces is None:
            return [target.workload for target in self.targets]
        return [self.replaces]

    def renew(self, assignment: Assignment, victims: Victims) -> None:
        """The result of a later search replaces the first one."""
        assignment.ended_before = self.assignment.ended
        self.assignment, self.targets, self.steps = assignment, victims.targets, victims.steps
        self.round, self.spared = victims.round, self.spared or bool(victims.spared)
        self.turn = victims.turn


NO_VICTIMS = Victims()
Barred = Callable[[Workload], frozenset[str]]  # the workloads that one may not displace, whatever the policies say
Only = Mapping[tuple[int, ResourceName], FlavorName]


def bars_none(_: Workload) -> frozenset[str]:
    return frozenset()


def nominate(state: State, workload: Workload, now: Millis, barred: Barred = bars_none) -> Entry:
    """The entry of a head, judged on the state as it is."""
    reason = _refusal(state, workload)
    if reason is not None:
        return Entry(workload, refused=reason[0], steps=(Step(Rule.REFUSED, (workload.key, *reason[1:])),))
    sibling = running_sibling(state, workload)
    if sibling is not None:
        return _nominate_beside(state, workload, sibling, now, barred)
    found = find_assignment(state, workload, now, tried=state.scans.tried(workload), barred=barred)
    return Entry.of(workload, *found, barred(workload))


def _nominate_beside(state: State, workload: Workload, sibling: Workload, now: Millis, barred: Barred) -> Entry:
    """The entry of an Option whose family runs already: it yields, or takes over (S-5.7.1, 12.7.1, 12.7.2)."""

    def refused(requeue: Requeue, reason: str, words: str) -> Entry:
        return Entry(workload, refused=requeue, steps=(Step(Rule.REFUSED, (workload.key, reason, words)),))

    queue = state.queues[workload.queue]
    if not stays_beside(queue, workload, sibling):
        return refused("SiblingRuns", "PendingEvaluation", f"{sibling.key} of the same family is Admitted")
    replaces: Workload | None = sibling
    tried = state.scans.tried(workload)
    assignment, victims = find_assignment(state, workload, now, tried=tried, replaces=sibling, barred=barred)
    if queue.checks_for(flavor for flavor, _ in assignment.usage):
        replaces = None  # its checks run while the sibling goes on
        assignment, victims = find_assignment(state, workload, now, tried=tried, barred=barred)
        if assignment.mode is Mode.NO_FIT:
            return refused("NoFit", "WaitingForQuota", f"it does not fit beside {sibling.key}")
    if assignment.preempts and not state.policy.option_upgrade_preempts:
        return refused("NoFit", "WaitingForQuota", f"{sibling.key} runs, and nobody is displaced for an upgrade")
    return Entry.of(workload, assignment, victims, barred(workload), replaces)


def _refusal(state: State, workload: Workload) -> tuple[Requeue, str, str] | None:
    """Why a head cannot be considered (S-5.3): how it is requeued, the reason of its condition, and the message."""
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
    barred: Barred = bars_none, replaces: Workload | None = None, all_expired: bool = False,
) -> tuple[Assignment, Victims]:  # fmt: skip
    """With all its pods if that fits or can be made to; else, with partial admission, with as many as possible (S-5.4).

    ``replaces`` counts as gone. ``all_expired``: as if the time of its queue's equals were up, and its turn had come.
    """
    if replaces is not None:
        with state.trial():
            state.tree.release_all(state.tree.queues[replaces.queue], replaces.usage or {})
            return find_assignment(state, workload, now, tried=tried, only=only, barred=barred)
    finder = _Finder(state, workload, now, tried, only, barred, all_expired=all_expired)
    full = [pod_set.count for pod_set in workload.pod_sets]
    assignment, victims = finder.probe(full)
    if assignment.mode is Mode.FIT or victims.targets:
        return assignment, victims
    if state.policy.gates.partial_admission:
        found = search_counts(workload.pod_sets, finder.succeeds)
        if found is not None and finder.last is not None:
            return finder.last
    return assignment, finder.as_refused(victims)


def search_counts(pod_sets: Sequence[PodSet], succeeds: Callable[[list[int]], bool]) -> list[int] | None:
    """The largest reduced counts that ``succeeds`` accepts: a lower-bound search over one common index (S-5.5)."""
    full = [pod_set.count for pod_set in pod_sets]
    reduced = [0 if pod_set.min_count is None else max(0, pod_set.count - pod_set.min_count) for pod_set in pod_sets]
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


def round_of(state: State, workload: Workload, usage: Usage, targets: Sequence[Target]) -> Round:
    """What displacing these counts as. Victims that leave anyway, or whose time is up, make no round (S-19.3.1).

    Own victims of lower priority make no round above nominal quota as long as the queue does not use more than before:
    then nothing is taken from others (0042).
    """
    if not any(_displaces(target) for target in targets):
        return ""
    only_below = all(_is_below(workload, target) for target in targets if _displaces(target))
    node = state.tree.queues[workload.queue]
    for fr, amount in usage.items():
        used = node.usage.get(fr, 0)
        leaving = sum((t.workload.usage or {}).get(fr, 0) for t in targets if t.workload.queue == workload.queue)
        grows = amount > leaving or not only_below
        if amount and grows and add(used - leaving, amount) > node.nominal.get(fr, 0):
            return "above"
    return "free"


def _displaces(target: Target) -> bool:
    return not target.workload.evicted and target.reason != BY_TIME


def _is_below(workload: Workload, target: Target) -> bool:
    return target.workload.queue == workload.queue and target.workload.priority < workload.priority


def _first_that_counts(workload: Workload, targets: Sequence[Target], kind: Round) -> Target:
    """The target to leave out of a round too many; the circuit breaker counts every target."""
    displaced = [target for target in targets if _displaces(target)]
    others = [target for target in displaced if not _is_below(workload, target)] if kind == "above" else []
    return (others or displaced)[0]


class _Finder:
    def __init__(
        self, state: State, workload: Workload, now: Millis, tried: Tried, only: Only | None, barred: Barred, *,
        all_expired: bool,
    ) -> None:  # fmt: skip
        self._state = state
        self._workload = workload
        self._now = now
        self._barred = barred
        self._excluded = barred(workload)
        self._victims: dict[object, Victims] = {}
        self._turn: Turn | None = None if all_expired else own_turn(state, workload, now)
        self._has_asked = all_expired or self._turn is not None  # whether another workload has its turn before
        self._equals = self._by_the_rules(all_expired=all_expired)
        self._tried = tried
        self._only = only
        self.last: tuple[Assignment, Victims] | None = None  # the last probe that succeeded

    def probe(self, counts: list[int]) -> tuple[Assignment, Victims]:
        state, workload = self._state, self._workload
        search = Search(  # not kept: it knows us, and what goes round is not freed at once
            tree=state.tree, node=state.tree.queues[workload.queue], queue=state.queues[workload.queue],
            flavors=state.flavors, policy=state.policy, simulate=self._simulate, tried=self._tried, only=self._only,
        )  # fmt: skip
        assignment = search.assign(workload, counts)
        victims = NO_VICTIMS
        if assignment.preempts:
            victims = self._within_rounds(assignment.need, assignment.usage)
        return assignment, victims

    def _within_rounds(self, need: tuple[FR, ...], usage: Usage) -> Victims:
        """``_search_within_rounds``, once for each question: the same shortage is asked about twice."""
        key = (need, tuple(sorted(usage.items())))
        found = self._victims.get(key)
        if found is None:
            found = self._victims[key] = self._search_within_rounds(need, usage)
        return found

    def _search_within_rounds(self, need: tuple[FR, ...], usage: Usage) -> Victims:
        """Victims without a round too many: targets that would make it one are left out, one by one (S-19.3.1)."""
        state, workload = self._state, self._workload
        find_victims = fair_share.find_victims if state.policy.fair_sharing else classical.find_victims
        counts = state.policy.gates.preemption_epochs
        spared: frozenset[str] = frozenset()
        equals, turn = self._of_its_turn(need)
        while True:
            excluded = self._excluded | spared
            victims = find_victims(state, workload, need, usage, self._now, excluded=excluded, equals=equals)
            kind: Round = round_of(state, workload, usage, victims.targets) if counts else ""
            if not state.rounds.of(workload).is_too_many(kind):
                break
            spared |= {_first_that_counts(workload, victims.targets, kind).workload.key}
        if turn is None and not kind and not spared:
            return victims
        steps = (self._too_many(),) if spared and not victims.targets else victims.steps
        return replace(victims, steps=steps, turn=turn, round=kind, spared=spared)

    def _by_the_rules(self, *, all_expired: bool) -> Equals:
        """The equals of its queue that it may displace, turns left aside (S-7.4, 7.14)."""
        state, workload = self._state, self._workload
        if running_sibling(state, workload) is not None or self._turn is not None:
            return NO_EQUALS
        time_based = state.policy.gates.time_based_same_priority_preemption
        found = equals_by_time(state.queues[workload.queue], self._now, time_based=time_based)
        return ALL_EQUALS if all_expired and found.expired_before is not None else found

    def _of_its_turn(self, need: tuple[FR, ...]) -> tuple[Equals, Turn | None]:
        """The equals that it may displace, and what it must wait for before it may displace more (S-7.14)."""
        state, workload, before = self._state, self._workload, self._equals.expired_before
        if not self._has_asked:
            if before is None or turn_span(state, workload) is None or not self._has_expired(need, before):
                return self._equals, None
            self._has_asked = True
            self._turn = turn_behind(state, workload, self._now, self._is_refused, self._could_by_time)
        if self._turn is None or self._turn.behind is None:
            return self._equals, self._turn
        if before is None or not self._has_expired(need, before):
            return self._equals, None
        return Equals(), self._turn

    def _has_expired(self, need: tuple[FR, ...], before: Millis) -> bool:
        """Whether the time of an equal that uses what is needed is up, so that it could be displaced."""
        state, workload = self._state, self._workload
        by_claim = state.policy.gates.preemption_claims
        for evicted in (False, True):
            for each in state.holders.expired(workload.queue, need, workload.priority, before, evicted=evicted):
                is_stuck = evicted and by_claim and claims.is_stuck(state, each, self._now)
                is_kin = workload.family is not None and each.family == workload.family
                if not is_stuck and not is_kin and each.key not in self._excluded:
                    return True
        return False

    def _is_refused(self, other: Workload) -> bool:
        return _refusal(self._state, other) is not None

    def _could_by_time(self, other: Workload) -> tuple[bool, bool]:
        """Whether another workload would find victims if the time of all equals were up (``turns.Searches``)."""
        found = find_assignment(self._state, other, self._now, tried={}, barred=self._barred, all_expired=True)
        return bool(found[1].targets), bool(self._barred(other))

    def _too_many(self) -> Step:
        """The step of a workload that has used up its rounds: since when, and what ends that (S-19.3.2)."""
        rounds, workload = self._state.rounds, self._workload
        count = rounds.of(workload)
        by = count.evicted_by or ""
        numbers = (count.total, count.above, count.last_at, rounds.end_after_ms)
        return Step(Rule.ROUND_TOO_MANY, (workload.key, by), numbers)

    def as_refused(self, victims: Victims) -> Victims:
        """The victims, with all that got in the way of any of its searches.

        Otherwise it might have got another flavor or count, so no other workload shares its verdict.
        """
        spared = frozenset[str]().union(*(each.spared for each in self._victims.values()))
        asked = next((each.turn for each in self._victims.values() if each.turn is not None), None)
        turn = asked or (self._turn if self._turn is not None and self._turn.at is not None else None)
        if not spared and turn is None:
            return victims
        steps = victims.steps
        if spared and all(step.rule is not Rule.ROUND_TOO_MANY for step in steps):
            steps = (*steps, self._too_many())
        return replace(victims, spared=spared, turn=turn, steps=(*steps, *self._turn_steps(asked)))

    def _turn_steps(self, turn: Turn | None) -> tuple[Step, ...]:
        key = self._workload.key
        if turn is None:
            return ()
        if turn.behind is not None:
            return (Step(Rule.NOT_ITS_TURN, (key, turn.behind)),)
        return (Step(Rule.DISPLACED_BY_TIME, (key,), (turn.at or 0,)),)

    def succeeds(self, counts: list[int]) -> bool:
        assignment, victims = self.probe(counts)
        if assignment.mode is Mode.FIT or victims.targets:
            self.last = assignment, victims
            return True
        return False

    def _simulate(self, fr: FR, amount: int) -> tuple[Mode, int]:
        """The outcome of preemption for one flavor-resource alone, and the borrowing level then (S-6.5.3)."""
        state, workload = self._state, self._workload
        victims = self._within_rounds((fr,), {fr: amount})
        if not victims.targets:
            return Mode.NO_CANDIDATES, 0
        node = state.tree.queues[workload.queue]
        with state.trial():
            for target in victims.targets:
                state.tree.release_all(state.tree.queues[target.workload.queue], target.workload.usage or {})
            level, _ = state.tree.lowest_subtree(node, fr, amount)
        own = any(target.workload.queue == workload.queue for target in victims.targets)
        return (Mode.PREEMPT if own else Mode.RECLAIM), level
