"""Does preemption settle? A state is played cycle by cycle, while no workload comes, ends or changes.

A workload that is asked to leave does so at once, after one to four cycles (chosen by its uid), after 15 to 60
minutes, or never; then it waits again. Ten seconds pass from one cycle to the next; cycles in which nothing could
happen are skipped, but counted. Where victims outstay the deadlines of claims, those are played too.

Promises: the decisions are those of ``core.cycle.cycle``; equal states give equal plays; a play ends. It is *settled*
only if no head is due, no victim is leaving, no claim is open, and the scheduler did not evaluate the same thing
twice.

Not here: where states come from (``states``), which workloads are entitled to more than they have (``entitlement``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal, NamedTuple

from makeway.bench.stability.entitlement import LastEvaluation
from makeway.core.cycle.cycle import Plan, carry_out, decide, departed, heads
from makeway.core.model import FR, Millis, QueueName, Workload, WorkloadKey
from makeway.core.policy import Policy
from makeway.core.preemption import claims
from makeway.core.queueing.waking import next_expiry
from makeway.core.state import State

Leaving = Literal["instant", "unsynchronised", "slow", "never"]
Outcome = Literal[
    "settled",
    "claims",  # comes to rest, but a claim stays although no victim is left that could leave for it
    "spins",  # comes to rest, but the same was evaluated again and again
    "loops",  # was still going on
]
STEP = 10_000  # milliseconds from cycle to cycle
CYCLES_MAX = 300
SLOW_STEPS_MAX = 4_000  # where evictions are slow most cycles are skipped, and those that are not are counted
DELAYS = 4
SLOW_MIN, SLOW_MAX = 15 * 60_000 // STEP, 60 * 60_000 // STEP  # cycles
OUTSTAYING: tuple[Leaving, ...] = ("slow", "never")  # then victims may stay longer than claims wait for them

GATES_ON = Policy.default()
WITHOUT_HOLDS = replace(GATES_ON, entitled_hold="StrictFIFO")  # quota that they wait for is lent on (S-5.14)
GATES_OFF = replace(
    GATES_ON,
    gates=replace(
        GATES_ON.gates, preemption_claims=False, preemption_revalidate_targets=False, preemption_epochs=False
    ),
)


def delay(uid: str, times: int) -> int:
    """After how many more cycles a victim has left, the ``times``-th time it must; one to four, as if by chance."""
    return 1 + sha256(f"{uid}/{times}".encode()).digest()[0] % DELAYS


def slow_delay(uid: str, times: int) -> int:
    """The same where evictions are slow: 15 to 60 minutes."""
    drawn = int.from_bytes(sha256(f"{uid}/{times}".encode()).digest()[:4])
    return SLOW_MIN + drawn % (SLOW_MAX - SLOW_MIN + 1)


class LeavingHolder(NamedTuple):
    """A holder that was asked to leave."""

    cycle: int | None  # it is gone after this cycle; None: it never goes
    queue: QueueName
    reason: str  # of its eviction; "": it keeps its place in the queue
    evicted_at: Millis
    grace_ms: int


class Use(NamedTuple):
    """From this cycle on, the share of all quota that stays in use, and the share of workloads that wait."""

    cycle: int
    share: float
    waiting: float = 0.0


@dataclass(slots=True)
class Played:
    """What happened in a play."""

    outcome: Outcome = "loops"
    cycles: int = 0  # the last in which quota was given, asked back or released
    evaluated: int = 0  # cycles in which a workload was evaluated
    repeated: int = 0  # of these: read and left the same as one before, with nothing changed in between
    admissions: int = 0
    evictions: Counter[WorkloadKey] = field(default_factory=Counter)
    over_quota: list[WorkloadKey] = field(default_factory=list)  # admitted where there was no room
    breaker: int = 0  # verdicts that only the limit of rounds made
    overdue: list[WorkloadKey] = field(default_factory=list)  # had a claim longer than its victims may take to leave
    uses: list[Use] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        return self.outcome == "settled"

    @property
    def evictions_of_one(self) -> int:
        """The evictions of the workload that was evicted most often."""
        return max(self.evictions.values(), default=0)

    def utilisation(self, cycles: int) -> float:
        """The mean share of quota in use over this many cycles; the last value stays."""
        return self._mean([use.share for use in self.uses], cycles)

    def waiting(self, cycles: int) -> float:
        """The mean share of all workloads that waited, or were asked to leave, over this many cycles."""
        return self._mean([use.waiting for use in self.uses], cycles)

    def _mean(self, values: list[float], cycles: int) -> float:
        total, until = 0.0, cycles + 1
        for use, value in zip(reversed(self.uses), reversed(values), strict=True):
            since = min(use.cycle, until)
            total += value * (until - since)
            until = since
        return total / cycles


class Settling:
    """One play. Events from outside (``arrive``, ``finish``) may come between two ``run``s."""

    def __init__(self, state: State, start: Millis, leaving: Leaving) -> None:
        self.state = state
        self.played = Played()
        self.now = start
        self._start = start
        self._cycle = 0
        self._steps = 0  # cycles that were not skipped
        self._leaving = leaving
        self._on_the_way: dict[WorkloadKey, LeavingHolder] = {}
        self._asked: dict[WorkloadKey, LeavingHolder] = {}  # the last eviction of each, over or not
        self.evaluations: dict[WorkloadKey, LastEvaluation] = {}
        self._idle: list[object] = []  # what cycles read and left behind since the last change
        self._quota = _whole_quota(state)
        for holder in _holders(state):
            if holder.evicted:
                self._see_off(holder, "", start)
        self._note_use()

    def run(self, cycles_max: int | None = None) -> Played:
        """Play until nothing can happen any more, or the cycle of this number is over, or it has gone on for too long.

        Too long is 300 cycles; where evictions are slow, four thousand that were not skipped.
        """
        played = self.played
        played.outcome = "loops"
        while (due := self._next()) is not None and not self._is_too_long(due, cycles_max):
            if self._step(due) and not self._on_the_way:
                played.outcome = "spins"  # it would go on like this for ever
                return played
        if due is None:
            played.outcome = "claims" if self.state.claims else "spins" if played.repeated else "settled"
        return played

    def arrive(self, workload: Workload, after: int) -> None:
        """A new workload, once the cycle of this number is over."""
        self._cycle = max(self._cycle, after)
        self.state.push(workload, self._time_of(self._cycle))
        self._idle.clear()

    def finish(self, key: WorkloadKey, after: int) -> None:
        """A holder finishes, once the cycle of this number is over."""
        self._cycle = max(self._cycle, after)
        holder = next(each for each in _holders(self.state) if each.key == key)
        self._on_the_way.pop(key, None)
        self.state.release(holder)
        self.state.rounds.end_after(holder)
        self._wake({holder.queue})
        self._idle.clear()

    def _is_too_long(self, due: int, cycles_max: int | None) -> bool:
        if cycles_max is not None:
            return due > cycles_max
        return self._steps >= SLOW_STEPS_MAX if self._leaving == "slow" else due > CYCLES_MAX

    def _next(self) -> int | None:
        """The next cycle in which something can happen; None: there is none."""
        if heads(self.state):
            return self._cycle + 1
        due = [each.cycle for each in self._on_the_way.values() if each.cycle is not None]
        deadline = claims.next_deadline(self.state) if self._leaving in OUTSTAYING else None
        if deadline is not None:  # where all victims leave, no claim should have to wait for its deadline
            due.append(1 - (self._start - deadline) // STEP)
        return max(self._cycle + 1, min(due)) if due else None

    def _time_of(self, cycle: int) -> Millis:
        return Millis(self._start + (cycle - 1) * STEP)

    def _step(self, number: int) -> bool:
        """One cycle; whether it read and left the same as an earlier one, with nothing changed in between."""
        state, before = self.state, self.now
        self._steps += 1
        self._note_claims()  # as they are until the next cycle
        self._cycle, self.now = number, self._time_of(number)
        self._wake_expired(before)
        for claimant in claims.overdue(state, self.now):
            claims.end(state, claimant.key, claims.EXPIRED, self.now)
        plan = decide(state, self.now)
        for verdict in plan.verdicts:
            self.evaluations[verdict.workload.key] = LastEvaluation(self.now, bool(state.scans.tried(verdict.workload)))
        self._note_admissions(plan)
        carry_out(state, plan)
        evicted, gone = self._note_evictions(plan), self._depart()
        self._note_claims()
        self.played.breaker = sum(state.rounds.exhausted.values())
        if plan.admitted or evicted or gone:
            self._idle.clear()
            self.played.cycles = number
            self._note_use()
            return False
        return bool(plan.verdicts) and self._repeats(plan)

    # --- what a cycle did ---

    def _note_admissions(self, plan: Plan) -> None:
        """Check that each fits the tree as it is, beside those before it."""
        tree = self.state.tree
        with self.state.trial():
            for verdict in plan.admitted:
                node, usage = tree.queues[verdict.workload.queue], verdict.assignment.usage
                if not tree.fits(node, usage):
                    self.played.over_quota.append(verdict.workload.key)
                tree.charge_all(node, usage)
        self.played.admissions += len(plan.admitted)
        self.played.evaluated += bool(plan.verdicts)

    def _note_claims(self) -> None:
        """Check that none lasts longer than its victims may take to leave plus the patience, nor is in force then."""
        patience = self.state.policy.claim_timeout_ms
        for known in self.state.claims.within(sorted(self.state.claims.of_queue)):
            until = known.claim.expires_at
            victims = [self._asked[key] for key, _ in known.claim.victims if key in self._asked]
            latest = max((each.evicted_at + each.grace_ms + patience for each in victims), default=until)
            if until > latest or self.now >= until:
                self.played.overdue.append(known.key)

    def _note_evictions(self, plan: Plan) -> int:
        count = 0
        for target in [target for verdict in plan.verdicts for target in verdict.targets]:
            if target.workload.key not in self._on_the_way:
                self.played.evictions[target.workload.key] += 1
                self._see_off(target.workload, target.reason, self.now)
                count += 1
        return count

    def _see_off(self, victim: Workload, reason: str, at: Millis) -> None:
        wait: int | None = 0
        if self._leaving == "never":
            wait = None
        elif self._leaving == "unsynchronised":
            wait = delay(victim.uid, self.played.evictions[victim.key])
        elif self._leaving == "slow":
            wait = slow_delay(victim.uid, self.played.evictions[victim.key])
        gone_after = None if wait is None else self._cycle + wait
        leaving = LeavingHolder(gone_after, victim.queue, reason, at, victim.grace_ms)
        self._on_the_way[victim.key] = self._asked[victim.key] = leaving

    def _depart(self) -> int:
        """Victims whose time has come leave and wait again; then all trees that lost usage are woken (S-3.7, S-4.6)."""
        gone = sorted(
            key for key, each in self._on_the_way.items() if each.cycle is not None and each.cycle <= self._cycle
        )
        released: set[QueueName] = set()
        for key in gone:
            leaving = self._on_the_way.pop(key)
            holder = self.state.holders.find(leaving.queue, key)
            assert holder is not None
            self.state.release(holder, self.now)
            self.state.push(departed(self.state, holder, leaving.reason, leaving.evicted_at, self.now), self.now)
            released.add(leaving.queue)
        self._wake(released)
        return len(gone)

    def _wake(self, released: set[QueueName]) -> None:
        for queue in sorted(released):
            self.state.wake(queue, self._time_of(self._cycle))

    def _wake_expired(self, before: Millis) -> None:
        """Wake the queues of holders whose minAdmitDuration ended since the last cycle (S-7.9)."""
        for name in sorted(self.state.queues):
            expiry = next_expiry(self.state, name, before)
            if expiry is not None and expiry <= self.now:
                self.state.wake(name, self.now)
            self.state.pending.list_of(name).turns.end_at(self.now)

    def _repeats(self, plan: Plan) -> bool:
        found = [(each.workload.key, each.status, each.requeue, each.assignment.tried) for each in plan.verdicts]
        left = (found, self.state.pending.contents(), self.state.claims.contents())
        repeats = left in self._idle
        self.played.repeated += repeats
        self._idle.append(left)
        return repeats

    def _note_use(self) -> None:
        used: Counter[FR] = Counter()
        staying = 0
        for holder in _holders(self.state):
            if not holder.evicted:
                used.update(holder.usage or {})
                staying += 1
        workloads = len(self.state.holders.by_key) + sum(
            len(each.members) for each in self.state.pending.lists.values()
        )
        shares = [used[fr] / amount for fr, amount in self._quota.items()]
        share = sum(shares) / len(shares) if shares else 0.0
        self.played.uses.append(Use(self._cycle + 1, share, 1 - staying / workloads if workloads else 0.0))


def _holders(state: State) -> Iterator[Workload]:
    for queue in sorted(state.holders.of_queue):
        yield from sorted(state.holders.of_queue[queue].values(), key=lambda each: each.key)


def _whole_quota(state: State) -> dict[FR, int]:
    """All quota of each flavor-resource, over all trees."""
    total: Counter[FR] = Counter()
    for node in [*state.tree.queues.values(), *state.tree.cohorts.values()]:
        total.update(node.nominal)
    return {fr: amount for fr, amount in sorted(total.items()) if amount}
