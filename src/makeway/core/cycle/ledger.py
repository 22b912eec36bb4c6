"""What the entries of a cycle have taken so far: victims, claims, reservations (S-5.7, 5.8, 5.13, 19.1).

The ledger lives in the trial of the cycle. There the quota tree counts all of it already: chosen victims are gone,
claimants hold what they claim, and what is kept free is in use. The ledger knows whose each amount is, so that the tree
can also be seen as it was before, or without some of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from makeway.core.cycle.holds import NOTHING, Hold, Holds
from makeway.core.cycle.nomination import Entry
from makeway.core.model import FR, Claim, QueueName, Uid, Usage, Workload, WorkloadKey
from makeway.core.preemption import claims
from makeway.core.preemption.claims import Claimant, EndedClaim
from makeway.core.quota.tree import QuotaNode
from makeway.core.state import State


class Kept(NamedTuple):
    """What an entry of the cycle keeps from those after it."""

    queue: QueueName
    amounts: Mapping[FR, int]
    owner: str  # for whom, if it outlives the cycle
    is_claimed: bool = False  # otherwise reserved


class _Chosen(NamedTuple):
    """A victim, or a claimant whose claim is taken."""

    victim: Workload
    by: Workload


def is_kept(_: Kept) -> bool:
    return True


def ends_with_the_cycle(kept: Kept) -> bool:
    return not kept.owner


@dataclass(slots=True)
class _TreeAccount:
    """What is under way in one cohort tree."""

    leaving: dict[WorkloadKey, Workload] = field(default_factory=dict)  # asked to leave, and still hold quota
    promised: dict[WorkloadKey, tuple[QuotaNode, Usage]] = field(default_factory=dict)  # to claimants, and where


class Ledger:
    """``claimants`` are those whose claims are in force; those whom they displaced are leaving already."""

    def __init__(self, state: State, claimants: Iterable[Claimant]) -> None:
        self._state = state
        self.claimants = {each.workload.key: each for each in claimants}
        self._trees: dict[QuotaNode, _TreeAccount] = {}  # by root
        self._claimed_departures: dict[Uid, set[str]] = {}  # victim -> claimants who count on its departure
        for claimant in self.claimants.values():
            self._promise(claimant.workload, claimant.assignment.usage)
            for _, uid in claimant.claim.victims:
                self._claimed_departures.setdefault(uid, set()).add(claimant.workload.key)
        for victim in claims.credited(list(self.claimants.values())).values():
            self._tree_of(victim).leaving[victim.key] = victim
        self._chosen: dict[WorkloadKey, _Chosen] = {}  # in this cycle, claimants among them
        self._freed: dict[QueueName, dict[FR, int]] = {}  # what chosen victims still use, by queue
        self._left_since: dict[QueueName, None] = {}  # queues of those who were chosen since somebody asked
        self._migrating: list[Workload] = []
        self._kept: list[Kept] = []
        self._reserved: dict[QueueName, dict[FR, int]] = {}  # of these, what is not claimed, by queue
        self.holds = Holds(state)
        self.held_before = self.holds.in_force({})  # as the cycle found it

    # --- what is known of it ---

    def protected_claimants(self, workload: Workload) -> frozenset[str]:
        """Claimants whose claims it may not take, being one of their victims (S-19.1.3)."""
        return frozenset(self._claimed_departures.get(workload.uid, ()))

    def chosen(self) -> frozenset[str]:
        """Who is a victim of an earlier entry."""
        return frozenset(self._chosen)

    def overlaps(self, entry: Entry) -> bool:
        return any(target.workload.key in self._chosen for target in entry.targets)

    def leaving(self, entry: Entry) -> list[Workload]:
        """Who was asked to leave in the entry's tree, in this cycle or before, and still holds quota."""
        return list(self._tree_of(entry.workload).leaving.values())

    def freed_in(self, queue: QueueName) -> Usage:
        """What chosen victims of a queue still use, though they are gone in the trial."""
        return self._freed.get(queue, NOTHING)

    def reserved_in(self, queue: QueueName) -> Usage:
        return self._reserved.get(queue, NOTHING)

    def lost_to(self, workload: Workload) -> tuple[dict[QueueName, Hold], tuple[str, ...]]:
        """What is held now, and for whom room is kept in the workload's tree beyond this cycle."""
        tree, held = self._state.tree, self.holds.in_force(self._reserved)
        root = tree.queues[workload.queue].root
        keys = [hold.key for queue, hold in held.items() if tree.queues[queue].root is root]
        return held, tuple(dict.fromkeys((*(kept.owner for kept in self._kept if kept.owner), *keys)))

    def ended(self) -> list[EndedClaim]:
        """Claims that ended because of what others got."""
        found = [
            EndedClaim(self.claimants[key].workload, claims.TAKEN.format(chosen.by.key))
            for key, chosen in self._chosen.items()
            if key in self.claimants
        ]
        for better in self._migrating:
            found += [
                EndedClaim(claimant.workload, claims.SIBLING)
                for key, claimant in self.claimants.items()
                if claimant.workload.family == better.family
                and claimant.workload.option_rank > better.option_rank
                and key not in self._chosen
            ]
        return found

    def left_since(self) -> list[QueueName]:
        """Queues whose victims were chosen since this was last asked."""
        found, self._left_since = list(self._left_since), {}
        return found

    # --- whether an entry fits ---

    def fits_beside(self, entry: Entry, *, but_for: Callable[[Kept], bool] | None = None, holds: bool = True) -> bool:
        """Whether it fits with all victims, earlier ones and its own, gone (S-5.7.2).

        Also ``but_for`` some of what is kept free or claimed in this cycle, and beside what is held, unless that is
        left aside. One that is deferred was found to fit, so it is only asked about what is held.
        """
        tree = self._state.tree
        node, usage = tree.queues[entry.workload.queue], entry.assignment.usage
        if but_for is None and not entry.targets and entry.replaces is None and not self.holds:
            return entry.deferred or tree.fits(node, usage)  # the usual case, told without a trial
        with self._state.trial():
            for victim in (*(target.workload for target in entry.targets), entry.replaces):
                if victim is not None:
                    tree.release_all(tree.queues[victim.queue], victim.usage or {})
            reserved = self._reserved if but_for is None else self._take_off(but_for)
            if not entry.deferred and not tree.fits(node, usage):
                return False
            borrowed = [fr for fr, amount in usage.items() if amount and tree.borrows(node, fr, amount)]
            if not holds or not borrowed or not self.holds.charge(node, reserved):
                return True
            return all(usage[fr] <= max(0, tree.available(node, fr)) for fr in borrowed)

    def fits_as_it_is(self, entry: Entry) -> bool:
        """Whether it fits beside all those who were asked to leave (S-5.7.9a).

        What is claimed or reserved is left aside: it is not in use yet, and that it will find room was asked before.
        """
        tree, account = self._state.tree, self._tree_of(entry.workload)
        node = tree.queues[entry.workload.queue]
        if not account.leaving:
            return True
        with self._state.trial():
            for victim in account.leaving.values():
                tree.charge_all(tree.queues[victim.queue], victim.usage or {})
            for where, usage in account.promised.values():
                tree.release_all(where, usage)
            for kept in self._kept:
                if not kept.is_claimed and tree.queues[kept.queue].root is node.root:
                    tree.release_all(tree.queues[kept.queue], kept.amounts)
            return tree.fits(node, entry.assignment.usage)

    def _take_off(self, but_for: Callable[[Kept], bool]) -> dict[QueueName, dict[FR, int]]:
        """In a trial: without some of what is kept; returns what is still reserved, by queue."""
        reserved: dict[QueueName, dict[FR, int]] = {}
        for kept in self._kept:
            if but_for(kept):
                self._state.tree.release_all(self._state.tree.queues[kept.queue], kept.amounts)
            elif not kept.is_claimed:
                _add_to(reserved, kept.queue, kept.amounts)
        return reserved

    def charge_holds(self, beside: QueueName) -> bool:
        """In a trial: what other queues hold counts as used; whether there is any."""
        return self.holds.charge(self._state.tree.queues[beside], self._reserved)

    @contextmanager
    def as_ordered(self, root: QuotaNode) -> Iterator[None]:
        """The tree as it counts for the order by shares: as it will be, or with the cycle's victims still in it.

        The latter without claims: the recorded system takes victims off for the fit alone (S-5.7.10).
        """
        victims = (
            [] if self._state.policy.gates.preemption_claims else [chosen.victim for chosen in self._chosen.values()]
        )
        tree = self._state.tree
        with self._state.trial() if victims else nullcontext():
            for victim in victims:
                if tree.queues[victim.queue].root is root:
                    tree.charge_all(tree.queues[victim.queue], victim.usage or {})
            yield

    # --- what an entry takes ---

    def keep_free(self, queue: QueueName, amounts: Mapping[FR, int], owner: str) -> None:
        """Nobody after this takes what is reserved for a head that must wait (S-5.8, 5.13); "": for this cycle."""
        self._state.tree.charge_all(self._state.tree.queues[queue], amounts)
        self._kept.append(Kept(queue, amounts, owner))
        _add_to(self._reserved, queue, amounts)

    def displace(self, entry: Entry) -> None:
        """Those who leave for an entry are gone; of claimants it takes the claims instead."""
        tree = self._state.tree
        for victim in entry.leaving:
            self._chosen[victim.key] = _Chosen(victim, entry.workload)
            self._left_since[victim.queue] = None
            tree.release_all(tree.queues[victim.queue], victim.usage or {})
            account = self._tree_of(victim)
            if victim.key in self.claimants:
                self._state.claims.drop(victim.key)  # in the trial: from here on it waits like others
                del account.promised[victim.key]
            else:
                account.leaving[victim.key] = victim
                _add_to(self._freed, victim.queue, victim.usage or {})

    def charge(self, entry: Entry, claim: Claim | None) -> None:
        """It uses what it was assigned; with a claim that is promised to it, and not in use yet."""
        workload, usage = entry.workload, entry.assignment.usage
        if workload.usage is None:
            self._state.tree.charge_all(self._state.tree.queues[workload.queue], usage)
            if claim is not None:
                self._kept.append(Kept(workload.queue, usage, workload.key, is_claimed=True))
                self._promise(workload, usage)
        if claim is not None and entry.replaces is not None:
            self._migrating.append(workload)

    def _promise(self, workload: Workload, usage: Usage) -> None:
        self._tree_of(workload).promised[workload.key] = (self._state.tree.queues[workload.queue], usage)

    def _tree_of(self, workload: Workload) -> _TreeAccount:
        return self._trees.setdefault(self._state.tree.queues[workload.queue].root, _TreeAccount())


def _add_to(table: dict[QueueName, dict[FR, int]], queue: QueueName, amounts: Mapping[FR, int]) -> None:
    known = table.setdefault(queue, {})
    for fr, amount in amounts.items():
        known[fr] = known.get(fr, 0) + amount
