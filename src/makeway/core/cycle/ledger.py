"""What the entries of a cycle have taken so far: victims, claims, reservations (S-5.7, 5.8, 5.13, 19.1).

The ledger lives in the trial of the cycle. The quota tree of that trial already counts all of it: chosen victims are
gone, claimants hold what they claim, and what is kept free is in use. The ledger knows the owner of each amount, so
that the tree can also be seen as it was before, or without some of the amounts.
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
    """What an entry of the cycle keeps from later entries."""

    queue: QueueName
    amounts: Mapping[FR, int]
    owner: str  # the workload that it is kept for, if it outlives the cycle
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

    leaving: dict[WorkloadKey, Workload] = field(default_factory=dict)  # were asked to leave, and still hold quota
    promised: dict[WorkloadKey, tuple[QuotaNode, Usage]] = field(default_factory=dict)  # to claimants, by node


class Ledger:
    """What was taken so far. ``claimants``: those whose claims are in force; their victims are leaving already."""

    def __init__(self, state: State, claimants: Iterable[Claimant]) -> None:
        self._state = state
        self.claimants = {each.workload.key: each for each in claimants}
        self._trees: dict[QuotaNode, _TreeAccount] = {}  # by root
        self._claimed_departures: dict[Uid, set[str]] = {}  # victim -> claimants that count on its departure
        for claimant in self.claimants.values():
            self._promise(claimant.workload, claimant.assignment.usage)
            for _, uid in claimant.claim.victims:
                self._claimed_departures.setdefault(uid, set()).add(claimant.workload.key)
        for victim in claims.credited(list(self.claimants.values())).values():
            self._tree_of(victim).leaving[victim.key] = victim
        self._chosen: dict[WorkloadKey, _Chosen] = {}  # in this cycle, including claimants
        self._freed: dict[QueueName, dict[FR, int]] = {}  # what chosen victims still use, by queue
        self._left_since: dict[QueueName, None] = {}  # whose victims were chosen since the last ``left_since``
        self._migrating: list[Workload] = []
        self._kept: list[Kept] = []
        self._reserved: dict[QueueName, dict[FR, int]] = {}  # the reserved part of ``kept``, by queue
        self.holds = Holds(state)
        self.held_before = self.holds.in_force({})  # at the beginning of the cycle

    # --- what is known of it ---

    def protected_claimants(self, workload: Workload) -> frozenset[str]:
        """Claimants whose claims the workload may not take, because it is one of their victims (S-19.1.3)."""
        return frozenset(self._claimed_departures.get(workload.uid, ()))

    def chosen(self) -> frozenset[str]:
        """The victims of earlier entries."""
        return frozenset(self._chosen)

    def overlaps(self, entry: Entry) -> bool:
        return bool(self._chosen) and any(target.workload.key in self._chosen for target in entry.targets)

    def leaving(self, entry: Entry) -> list[Workload]:
        """Workloads of the entry's tree that were asked to leave, in this cycle or before, and still hold quota."""
        account = self._trees.get(self._state.tree.queues[entry.workload.queue].root)
        return [] if account is None else list(account.leaving.values())

    def freed_in(self, queue: QueueName) -> Usage:
        """What chosen victims of a queue still use, although they are gone in the trial."""
        return self._freed.get(queue, NOTHING)

    def reserved_in(self, queue: QueueName) -> Usage:
        return self._reserved.get(queue, NOTHING)

    def lost_to(self, workload: Workload) -> tuple[dict[QueueName, Hold], tuple[str, ...]]:
        """What is held now, and the workloads of the tree for which room is kept beyond this cycle."""
        tree, held = self._state.tree, self.holds.in_force(self._reserved)
        root = tree.queues[workload.queue].root
        keys = [hold.key for queue, hold in held.items() if tree.queues[queue].root is root]
        return held, tuple(dict.fromkeys((*(kept.owner for kept in self._kept if kept.owner), *keys)))

    def ended(self) -> list[EndedClaim]:
        """Claims that ended because of what other workloads got."""
        ended = [
            EndedClaim(self.claimants[key].workload, claims.TAKEN.format(chosen.by.key))
            for key, chosen in self._chosen.items()
            if key in self.claimants
        ]
        for better in self._migrating:
            ended += [
                EndedClaim(claimant.workload, claims.SIBLING)
                for key, claimant in self.claimants.items()
                if claimant.workload.family == better.family
                and claimant.workload.option_rank > better.option_rank
                and key not in self._chosen
            ]
        return ended

    def left_since(self) -> list[QueueName]:
        """Queues whose victims were chosen since the last call."""
        found, self._left_since = list(self._left_since), {}
        return found

    # --- whether an entry fits ---

    def fits_beside(self, entry: Entry, *, but_for: Callable[[Kept], bool] | None = None, holds: bool = True) -> bool:
        """Whether the entry fits once all victims, earlier ones and its own, are gone (S-5.7.2).

        ``but_for``: leave out this part of what is kept free or claimed in this cycle. ``holds``: count what is held.
        The search of a deferred entry found that it fits, so only holds are checked for it.
        """
        tree = self._state.tree
        node, usage = tree.queues[entry.workload.queue], entry.assignment.usage
        if but_for is None and not entry.targets and entry.replaces is None and not self.holds:
            return entry.deferred or tree.fits(node, usage)  # the usual case needs no trial
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
        """Whether the entry fits while all workloads that were asked to leave still hold their quota (S-5.7.9a).

        What is claimed or reserved is left out: it is not in use yet, and ``fits_beside`` has counted it.
        """
        tree = self._state.tree
        node = tree.queues[entry.workload.queue]
        account = self._trees.get(node.root)
        if account is None or not account.leaving:
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
        """In a trial, take off some of what is kept; returns what is still reserved, by queue."""
        reserved: dict[QueueName, dict[FR, int]] = {}
        for kept in self._kept:
            if but_for(kept):
                self._state.tree.release_all(self._state.tree.queues[kept.queue], kept.amounts)
            elif not kept.is_claimed:
                _add_to(reserved, kept.queue, kept.amounts)
        return reserved

    def charge_holds(self, beside: QueueName) -> bool:
        """In a trial, count what other queues hold as used; returns whether there is any."""
        return self.holds.charge(self._state.tree.queues[beside], self._reserved)

    @contextmanager
    def as_ordered(self, root: QuotaNode) -> Iterator[None]:
        """The tree as the order by shares counts it: as it will be, or with the cycle's victims still in it.

        The latter is without claims: the recorded system takes victims off for the fit alone (S-5.7.10).
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
        """Keep later entries from what is reserved for a waiting head (S-5.8, 5.13); ``owner`` "": for this cycle."""
        self._state.tree.charge_all(self._state.tree.queues[queue], amounts)
        self._kept.append(Kept(queue, amounts, owner))
        _add_to(self._reserved, queue, amounts)

    def displace(self, entry: Entry) -> None:
        """The victims of an entry are gone. A victim that is a claimant loses its claim instead."""
        tree = self._state.tree
        for victim in entry.leaving:
            self._chosen[victim.key] = _Chosen(victim, entry.workload)
            self._left_since[victim.queue] = None
            tree.release_all(tree.queues[victim.queue], victim.usage or {})
            account = self._tree_of(victim)
            if victim.key in self.claimants:
                self._state.claims.drop(victim.key)  # in the trial: from here on it waits like any other workload
                del account.promised[victim.key]
            else:
                account.leaving[victim.key] = victim
                _add_to(self._freed, victim.queue, victim.usage or {})

    def charge(self, entry: Entry, claim: Claim | None) -> None:
        """The entry uses what it was assigned. With a claim, that is only promised and not in use yet."""
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
        root = self._state.tree.queues[workload.queue].root
        account = self._trees.get(root)
        if account is None:
            account = self._trees[root] = _TreeAccount()
        return account


def _add_to(table: dict[QueueName, dict[FR, int]], queue: QueueName, amounts: Mapping[FR, int]) -> None:
    known = table.setdefault(queue, {})
    for fr, amount in amounts.items():
        known[fr] = known.get(fr, 0) + amount
