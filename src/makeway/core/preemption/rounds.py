"""How often a workload has displaced others: what bounds preemption, so that it settles (S-19.3).

A *round* is one issue of preemptions, or taking of claims, by a workload. One round that leaves its queue above its
own quota is allowed, and ten of any kind: the first number ends quarrels over what is nobody's by right, the second
is a circuit breaker and never reached in earnest. The counts go by the controller that owns the workload, so a job
made anew is the same; several Workloads of one owner are not. In memory only: a restart starts the counts anew.

Counts end when the reasons for them do: with a change of the workload or of its tree, with whoever displaced it last,
when it loses its quota by no fault and no quarrel of its own, and after it has held quota in peace for a while. A tree
is at peace while nothing *disturbs* it: no claim on somebody who was not displaced by time, and nobody who was
preempted for another reason than time and has not left. Where workloads quarrel there is always one or the other,
however slowly the victims leave.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from makeway.core.model import DAWN, Millis, QueueName, Workload, WorkloadKey
from makeway.core.undo import UndoLog

ABOVE_NOMINAL_MAX = 1
ROUNDS_MAX = 10
PASSED_ON_MAX = 1

Round = Literal["", "free", "above"]  # none at all, one that ends within nominal quota, one that ends above it
Identity = str  # by which a workload is known, however often it is made anew
Tree = str  # the name of its root


@dataclass(frozen=True, slots=True)
class Count:
    queue: QueueName  # where it was seen last
    above: int = 0
    total: int = 0
    evicted_by: WorkloadKey | None = None  # which last evicted it or took its claim
    last_at: Millis = DAWN  # of the last round
    passed_on: int = 0  # claims that it lost to poorer sides
    tree: Tree = ""  # in which it holds quota
    held_since: Millis | None = None  # None: it holds none


class Rounds:
    def __init__(self, log: UndoLog, end_after_ms: int) -> None:
        self._log = log
        self.end_after_ms = end_after_ms
        self._counts: dict[Identity, Count] = {}
        self._evicted: dict[WorkloadKey, dict[Identity, None]] = {}  # whom it evicted last
        self._held: dict[Tree, dict[Identity, None]] = {}  # who has rounds behind it, and quota
        self._owned: dict[str, dict[WorkloadKey, None]] = {}  # Workloads by the uid of their owner
        self._leaving: dict[WorkloadKey, Tree] = {}  # who was preempted, not by time, and has not left
        self._disturbing: dict[Tree, int] = {}  # how many claims in force, and of those who leave, disturb
        self._at_peace_since: dict[Tree, Millis] = {}
        self.exhausted: dict[QueueName, int] = {}  # verdicts that only the circuit breaker made

    # --- who is who ---

    def identity(self, workload: Workload) -> Identity:
        """Its owner, or itself where that has several (S-19.3.3)."""
        if not workload.owner:
            return workload.key
        return _named(workload) if len(self._owned.get(workload.owner_uid, ())) > 1 else workload.owner

    def know(self, workload: Workload) -> None:
        """It exists. If its owner has two now, what was counted for the first goes by that one's own name."""
        if not workload.owner:
            return
        siblings = self._owned.setdefault(workload.owner_uid, {})
        if workload.key in siblings:
            return
        if len(siblings) == 1:
            first = next(iter(siblings))
            self._move(workload.owner, f"{workload.owner} {first}")
        self._log.put(siblings, workload.key, None)

    def _forget(self, workload: Workload) -> None:
        """If its owner has one left, that goes by the owner's name."""
        count = self._counts.get(self.identity(workload))
        if count is not None and not count.total:
            self._drop(self.identity(workload))
        siblings = self._owned.get(workload.owner_uid)
        if not workload.owner or siblings is None or workload.key not in siblings:
            return
        if len(siblings) > 1:
            self._drop(_named(workload))
        self._log.drop(siblings, workload.key)
        if len(siblings) == 1:
            self._move(f"{workload.owner} {next(iter(siblings))}", workload.owner)
        elif not siblings:
            self._log.drop(self._owned, workload.owner_uid)

    def _move(self, before: Identity, after: Identity) -> None:
        count = self._counts.get(before)
        if count is not None:
            self._drop(before)
            self._put(after, count)
            if count.evicted_by is not None:
                self._log.put(self._evicted.setdefault(count.evicted_by, {}), after, None)
            if count.held_since is not None:
                self._log.put(self._held.setdefault(count.tree, {}), after, None)

    # --- counting ---

    def of(self, workload: Workload) -> Count:
        return self._counts.get(self.identity(workload)) or Count(workload.queue)

    def is_too_many(self, workload: Workload, kind: Round) -> bool:
        """Whether it may not have one more of this kind."""
        count = self.of(workload)
        return (kind == "above" and count.above >= ABOVE_NOMINAL_MAX) or (kind != "" and self.is_exhausted(workload))

    def is_exhausted(self, workload: Workload) -> bool:
        return self.of(workload).total >= ROUNDS_MAX

    def add(self, workload: Workload, kind: Round, at: Millis) -> None:
        if kind:
            count = self.of(workload)
            above = count.above + (kind == "above")
            self._put(
                self.identity(workload),
                replace(count, queue=workload.queue, above=above, total=count.total + 1, last_at=at),
            )

    def take_back(self, workload: Workload, kind: Round) -> None:
        """Nobody was displaced after all: every eviction of that round failed."""
        count = self._counts.get(self.identity(workload))
        if kind and count is not None:
            above = max(0, count.above - (kind == "above"))
            self._put(self.identity(workload), replace(count, above=above, total=max(0, count.total - 1)))

    def passes_on(self, workload: Workload) -> bool:
        """Whether its claim may pass to a poorer side: that has not happened to it before (S-9.14)."""
        return self.of(workload).passed_on < PASSED_ON_MAX

    def passed_on(self, workload: Workload, kind: Round) -> None:
        """Its claim passed to a poorer side, so what it displaced for that was not to its own good (S-9.14)."""
        count = self.of(workload)
        above = max(0, count.above - (kind == "above"))
        self._put(self.identity(workload), replace(count, above=above, passed_on=count.passed_on + 1))

    def evicted(self, workload: Workload, by: Workload) -> None:
        """It was asked to leave, or its claim was taken."""
        count, who = self.of(workload), self.identity(workload)
        if count.evicted_by is not None:
            self._log.drop(self._evicted.get(count.evicted_by, {}), who)
        self._put(who, replace(count, queue=workload.queue, evicted_by=by.key))
        self._log.put(self._evicted.setdefault(by.key, {}), who, None)

    def barred(self, workload: Workload) -> None:
        """The circuit breaker, and nothing else, kept it from displacing others."""
        self._log.put(self.exhausted, workload.queue, self.exhausted.get(workload.queue, 0) + 1)

    # --- peace ---

    def held(self, workload: Workload, tree: Tree) -> None:
        """It holds quota from now on."""
        who = self.identity(workload)
        count = self._counts.get(who)
        if count is not None and count.total and workload.reserved_at is not None:
            self._let_go(who, count)
            self._put(who, replace(count, tree=tree, held_since=workload.reserved_at))
            self._log.put(self._held.setdefault(tree, {}), who, None)

    def released(self, workload: Workload, now: Millis | None) -> None:
        """It holds quota no more, since ``now``; None: that is only supposed."""
        who = self.identity(workload)
        count = self._counts.get(who)
        if count is None or count.held_since is None:
            return
        if now is not None and self._had_peace(count, now):
            self._drop(who)
        else:
            self._let_go(who, count)
            self._put(who, replace(count, held_since=None))

    def leaves(self, workload: Workload, tree: Tree) -> None:
        """It was preempted, and not because its time is up."""
        if workload.key not in self._leaving:
            self._log.put(self._leaving, workload.key, tree)
            self.disturb(tree, DAWN if workload.evicted_at is None else workload.evicted_at)

    def left(self, workload: Workload, now: Millis) -> None:
        tree = self._leaving.get(workload.key)
        if tree is not None:
            self._log.drop(self._leaving, workload.key)
            self.calm(tree, now)

    def disturb(self, tree: Tree, now: Millis) -> None:
        """A claim is made, or somebody leaves, and time is not the reason: until now there may have been peace."""
        for who in [who for who in self._held.get(tree, ()) if self._had_peace(self._counts[who], now)]:
            self._drop(who)
        self._log.put(self._disturbing, tree, self._disturbing.get(tree, 0) + 1)

    def calm(self, tree: Tree, at: Millis) -> None:
        """Such a claim has ended, or such a workload has left."""
        left = self._disturbing.get(tree, 0) - 1
        if left > 0:
            self._log.put(self._disturbing, tree, left)
        else:
            self._log.drop(self._disturbing, tree)
            self._log.put(self._at_peace_since, tree, max(at, self._at_peace_since.get(tree, DAWN)))

    def _had_peace(self, count: Count, now: Millis) -> bool:
        if count.held_since is None or self._disturbing.get(count.tree):
            return False
        since = max(count.held_since, self._at_peace_since.get(count.tree, DAWN))
        return now - since >= self.end_after_ms

    # --- ends ---

    def end_for(self, workload: Workload) -> None:
        self._drop(self.identity(workload))

    def end_in(self, queues: Iterable[QueueName]) -> None:
        within = frozenset(queues)
        for who in [who for who, count in self._counts.items() if count.queue in within]:
            self._drop(who)

    def end_after(self, workload: Workload) -> None:
        """It is finished or deleted: those whom it evicted last, or whose claim it took, begin anew."""
        for who in list(self._evicted.get(workload.key, ())):
            self._drop(who)
        self._forget(workload)

    def contents(self) -> object:
        evicted = {by: sorted(those) for by, those in sorted(self._evicted.items()) if those}
        owned = {uid: sorted(those) for uid, those in sorted(self._owned.items()) if those}
        return (
            dict(sorted(self._counts.items())), evicted, dict(sorted(self.exhausted.items())), owned,
            dict(sorted(self._disturbing.items())), dict(sorted(self._at_peace_since.items())),
            dict(sorted(self._leaving.items())),
        )  # fmt: skip

    def _put(self, who: Identity, count: Count) -> None:
        self._log.put(self._counts, who, count)

    def _drop(self, who: Identity) -> None:
        count = self._counts.get(who)
        if count is None:
            return
        if count.evicted_by is not None:
            self._log.drop(self._evicted.get(count.evicted_by, {}), who)
        self._let_go(who, count)
        self._log.drop(self._counts, who)

    def _let_go(self, who: Identity, count: Count) -> None:
        if count.held_since is not None:
            self._log.drop(self._held[count.tree], who)


def _named(workload: Workload) -> Identity:
    return f"{workload.owner} {workload.key}"
