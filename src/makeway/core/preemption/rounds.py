"""How often a workload has displaced others: what bounds preemption, so that it settles (S-19.3).

A *round* is one issue of preemptions, or one taking of claims, by a workload. A workload may have one round that
leaves its queue above its own quota, and ten rounds of any kind: the first limit ends quarrels over quota that belongs
to neither, the second is a circuit breaker and is never reached in practice. The owning controller is what is counted,
so a recreated job keeps its counts; several Workloads of one owner count separately. A restart loses all counts.

Counts end with their reasons: when the workload or its tree changes, when the workload that displaced it last is gone,
when it loses its quota through no fault or quarrel of its own, and after it has held quota in peace for a while. A tree
is at peace while nothing *disturbs* it. What disturbs it is a claim on workloads that were not displaced by time, or a
workload that was preempted for another reason than time and has not left. Where workloads quarrel there is always one
of these, however slowly the victims leave.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from makeway.core.model import DAWN, Millis, QueueName, Workload, WorkloadKey
from makeway.core.preemption.peace import Peace, Tree
from makeway.core.undo import UndoLog

ABOVE_NOMINAL_MAX = 1
ROUNDS_MAX = 10
PASSED_ON_MAX = 1

Round = Literal["", "free", "above"]  # no round; one that ends within nominal quota; one that ends above it
Identity = str  # stays the same when a workload is recreated


@dataclass(frozen=True, slots=True)
class Count:
    """What is counted for one identity."""

    queue: QueueName  # where it was last seen
    above: int = 0
    total: int = 0
    evicted_by: WorkloadKey | None = None  # the one that last evicted it or took its claim
    last_at: Millis = DAWN  # of the last round
    passed_on: int = 0  # claims that it lost to poorer sides
    tree: Tree = ""  # where it holds quota
    held_since: Millis | None = None  # None: it holds none

    @property
    def is_exhausted(self) -> bool:
        """Whether the circuit breaker keeps it from any more rounds."""
        return self.total >= ROUNDS_MAX

    @property
    def may_pass_on(self) -> bool:
        """Whether a claim may pass to a poorer side, which has not happened to it before (S-9.14)."""
        return self.passed_on < PASSED_ON_MAX

    def is_too_many(self, kind: Round) -> bool:
        """Whether it may not have one more round of this kind."""
        return (kind == "above" and self.above >= ABOVE_NOMINAL_MAX) or (kind != "" and self.is_exhausted)


class Counts:
    """The counts of all identities; one starts anew when its count is dropped."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._of: dict[Identity, Count] = {}
        self._evicted: dict[WorkloadKey, dict[Identity, None]] = {}  # by the workload that last evicted them
        self._holding: dict[Tree, dict[Identity, None]] = {}  # those with rounds behind them, and quota

    def get(self, identity: Identity) -> Count | None:
        return self._of.get(identity)

    def put(self, identity: Identity, count: Count) -> None:
        self.drop([identity])
        self._log.put(self._of, identity, count)
        if count.evicted_by is not None:
            self._log.put(self._evicted.setdefault(count.evicted_by, {}), identity, None)
        if count.held_since is not None:
            self._log.put(self._holding.setdefault(count.tree, {}), identity, None)

    def drop(self, those: Iterable[Identity]) -> None:
        for identity in those:
            count = self._of.get(identity)
            if count is None:
                continue
            if count.evicted_by is not None:
                self._log.drop(self._evicted[count.evicted_by], identity)
            if count.held_since is not None:
                self._log.drop(self._holding[count.tree], identity)
            self._log.drop(self._of, identity)

    def evicted_by(self, key: WorkloadKey) -> list[Identity]:
        return list(self._evicted.get(key, ()))

    def holding_in(self, tree: Tree) -> list[tuple[Identity, Count]]:
        return [(identity, self._of[identity]) for identity in self._holding.get(tree, ())]

    def seen_in(self, queues: frozenset[QueueName]) -> list[Identity]:
        return [identity for identity, count in self._of.items() if count.queue in queues]

    def contents(self) -> object:
        evicted = {by: sorted(those) for by, those in sorted(self._evicted.items()) if those}
        return dict(sorted(self._of.items())), evicted


class NewName(NamedTuple):
    """One identity goes by another from now on."""

    before: Identity
    after: Identity


class Owners:
    """The Workloads of each owner: a single one is counted as its owner, several are counted separately (S-19.3.3)."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._owned: dict[str, dict[WorkloadKey, None]] = {}  # by the uid of the owner

    def identity(self, workload: Workload) -> Identity:
        if not workload.owner:
            return workload.key
        siblings = self._owned.get(workload.owner_uid, ())
        return _own_name(workload.owner, workload.key) if len(siblings) > 1 else workload.owner

    def is_one_of_several(self, workload: Workload) -> bool:
        siblings = self._owned.get(workload.owner_uid, {}) if workload.owner else {}
        return workload.key in siblings and len(siblings) > 1

    def add(self, workload: Workload) -> NewName | None:
        """A Workload exists. If its owner has two now, the first is counted separately from now on."""
        if not workload.owner:
            return None
        siblings = self._owned.setdefault(workload.owner_uid, {})
        if workload.key in siblings:
            return None
        first = next(iter(siblings)) if len(siblings) == 1 else None
        self._log.put(siblings, workload.key, None)
        return None if first is None else NewName(workload.owner, _own_name(workload.owner, first))

    def remove(self, workload: Workload) -> NewName | None:
        """A Workload is finished or deleted. If its owner has one left, that one is counted as its owner again."""
        siblings = self._owned.get(workload.owner_uid) if workload.owner else None
        if siblings is None or workload.key not in siblings:
            return None
        self._log.drop(siblings, workload.key)
        if not siblings:
            self._log.drop(self._owned, workload.owner_uid)
        if len(siblings) != 1:
            return None
        return NewName(_own_name(workload.owner, next(iter(siblings))), workload.owner)

    def contents(self) -> object:
        return {uid: sorted(those) for uid, those in sorted(self._owned.items()) if those}


def _own_name(owner: Identity, key: WorkloadKey) -> Identity:
    return f"{owner} {key}"


class Rounds:
    def __init__(self, log: UndoLog, end_after_ms: int) -> None:
        self._log = log
        self.end_after_ms = end_after_ms
        self._counts = Counts(log)
        self._owners = Owners(log)
        self.peace = Peace(log)
        self.exhausted: dict[QueueName, int] = {}  # verdicts that only the circuit breaker made

    # --- counting ---

    def know(self, workload: Workload) -> None:
        """A workload exists, and is counted as its owner or separately."""
        self._rename(self._owners.add(workload))

    def of(self, workload: Workload) -> Count:
        return self._known(workload) or Count(workload.queue)

    def _known(self, workload: Workload) -> Count | None:
        return self._counts.get(self._owners.identity(workload))

    def add(self, workload: Workload, kind: Round, at: Millis) -> None:
        if kind:
            count = self.of(workload)
            above = count.above + (kind == "above")
            self._put(workload, replace(count, queue=workload.queue, above=above, total=count.total + 1, last_at=at))

    def take_back(self, workload: Workload, kind: Round) -> None:
        """A round displaced no workload after all: every eviction of it failed."""
        count = self.of(workload)
        if kind and count.total:
            above = max(0, count.above - (kind == "above"))
            self._put(workload, replace(count, above=above, total=count.total - 1))

    def passed_on(self, workload: Workload, kind: Round) -> None:
        """A workload's claim passed to a poorer side, so it gained nothing from what it displaced for that (S-9.14)."""
        count = self.of(workload)
        above = max(0, count.above - (kind == "above"))
        self._put(workload, replace(count, above=above, passed_on=count.passed_on + 1))

    def evicted(self, workload: Workload, by: Workload) -> None:
        """A workload was asked to leave, or its claim was taken."""
        self._put(workload, replace(self.of(workload), queue=workload.queue, evicted_by=by.key))

    def barred(self, workload: Workload) -> None:
        """Only the circuit breaker kept a workload from displacing others."""
        self._log.put(self.exhausted, workload.queue, self.exhausted.get(workload.queue, 0) + 1)

    # --- quota, and peace in the tree ---

    def held(self, workload: Workload, tree: Tree) -> None:
        """A workload holds quota from now on."""
        count = self._known(workload)
        if count is not None and count.total and workload.reserved_at is not None:
            self._put(workload, replace(count, tree=tree, held_since=workload.reserved_at))

    def released(self, workload: Workload, now: Millis | None) -> None:
        """A workload holds no quota any more, since ``now``; None: that is only supposed."""
        count = self._known(workload)
        if count is not None and count.held_since is not None:
            if now is not None and self._had_peace(count, now):
                self.end_for(workload)
            else:
                self._put(workload, replace(count, held_since=None))
        if now is not None:
            self.peace.left(workload.key, now)

    def leaves(self, workload: Workload, tree: Tree) -> None:
        """A workload was preempted, and not because its time is up."""
        if self.peace.leaves(workload.key, tree):
            self.disturb(tree, DAWN if workload.evicted_at is None else workload.evicted_at)

    def disturb(self, tree: Tree, now: Millis) -> None:
        """A claim is made, or a workload leaves, and time is not the reason: until now there may have been peace."""
        if self.peace.since(tree) is not None:
            self._counts.drop(
                [identity for identity, count in self._counts.holding_in(tree) if self._had_peace(count, now)]
            )
        self.peace.disturb(tree)

    def _had_peace(self, count: Count, now: Millis) -> bool:
        at_peace_since = self.peace.since(count.tree)
        if count.held_since is None or at_peace_since is None:
            return False
        return now - max(count.held_since, at_peace_since) >= self.end_after_ms

    # --- ends ---

    def end_for(self, workload: Workload) -> None:
        """Spec, effective priority or reclaimable pods of the workload changed, or time displaced it (S-19.3.2)."""
        self._counts.drop([self._owners.identity(workload)])

    def end_in(self, queues: Iterable[QueueName]) -> None:
        """Quota, policy or weight changed in the tree of these queues."""
        self._counts.drop(self._counts.seen_in(frozenset(queues)))

    def end_after(self, workload: Workload) -> None:
        """A workload is finished or deleted: counts of those that it last evicted, or took a claim from, start anew."""
        self._counts.drop(self._counts.evicted_by(workload.key))
        if not self.of(workload).total or self._owners.is_one_of_several(workload):
            self.end_for(workload)  # the counts of an owner are there for the next Workload that it has
        self._rename(self._owners.remove(workload))

    def contents(self) -> object:
        return (
            self._counts.contents(), dict(sorted(self.exhausted.items())), self._owners.contents(),
            self.peace.contents(),
        )  # fmt: skip

    def _put(self, workload: Workload, count: Count) -> None:
        self._counts.put(self._owners.identity(workload), count)

    def _rename(self, name: NewName | None) -> None:
        count = None if name is None else self._counts.get(name.before)
        if name is not None and count is not None:
            self._counts.drop([name.before])
            self._counts.put(name.after, count)
