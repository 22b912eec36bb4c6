"""Whether every remaining victim is still one after others got their place back (S-19.2, P3).

A workload that leaves makes its own side poorer. If that is the newcomer's side, it may be why a later victim passed
the test of shares. So when it gets its place back, that later victim must be tested again. A victim gets its place
back only if the newcomer still fits and all other victims, taken out in order from the untouched state, pass the test
that each of them passed before.

So by induction every remaining set is legal: the first one is, for it was found that way, and each step keeps it.
The whole argument is in ``docs/concepts/fair-sharing.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from makeway.core.model import Workload
from makeway.core.quota.shares import NO_SHARE, Share, share
from makeway.core.quota.tree import QuotaNode, QuotaTree
from makeway.core.trace import Rule


class Decided(NamedTuple):
    """The test that a victim passed, and the shares that were compared."""

    rule: Rule
    mine: QuotaNode  # the newcomer's side of the common cohort
    theirs: QuotaNode
    new: Share  # of the newcomer's side, the newcomer included
    old: Share  # of the victim's side before it leaves

    def may_pass(self) -> bool:
        """Whether any candidate of that side can pass: a victim never makes its side richer by leaving."""
        return self.new <= self.old if self.rule is Rule.FAIR_FINAL_SHARE else self.passes(NO_SHARE)

    def passes(self, after: Share) -> bool:
        """Whether the victim passes; ``after``: the share of its side without it."""
        match self.rule:
            case Rule.FAIR_FINAL_SHARE:
                return self.new <= after
            case Rule.FAIR_INITIAL_SHARE | Rule.FAIR_CLAIM:
                return self.new < self.old
        return True


@dataclass(frozen=True, slots=True)
class Taken:
    """One victim."""

    workload: Workload
    queue: QuotaNode
    ground: Decided | None = None  # None: a victim of the newcomer's own queue, where shares do not count
    before: Share = NO_SHARE  # of the newcomer's side without the newcomer
    after: Share = NO_SHARE  # of the victim's side without the victim

    @property
    def depends_on_shares(self) -> bool:
        return self.ground is not None and self.ground.rule is not Rule.FAIR_WITHIN_NOMINAL


def gives_back(tree: QuotaTree, taken: list[Taken], fits: Callable[[], bool], *, revalidates: bool) -> list[Taken]:
    """The victims that must leave after all; ``taken`` have left, the newcomer is charged. The last one stays taken."""
    kept = list(taken)
    for index in range(len(taken) - 2, -1, -1):
        each = taken[index]
        tree.charge_all(each.queue, each.workload.usage or {})
        if fits() and not (revalidates and _is_needed(tree, kept, index)):
            del kept[index]
        else:
            tree.release_all(each.queue, each.workload.usage or {})
    return kept if len(kept) == len(taken) else _with_present_shares(tree, kept)


def _is_needed(tree: QuotaTree, kept: list[Taken], index: int) -> bool:
    """Whether a later victim is one only because this one is; this one has its place back already."""
    each, after = kept[index], kept[index + 1 :]
    way = {each.queue, *each.queue.ancestors()}
    if not any(other.depends_on_shares and other.ground is not None and other.ground.mine in way for other in after):
        return False  # it makes the newcomer's side of no later test poorer, and only its own side richer
    others = [*kept[:index], *after]
    return any(not legal for _, legal in _replay(tree, others))


def _with_present_shares(tree: QuotaTree, kept: list[Taken]) -> list[Taken]:
    """The same victims with the shares as they are when only they leave."""
    return [each for each, _ in _replay(tree, kept)]


def _replay(tree: QuotaTree, taken: list[Taken]) -> list[tuple[Taken, bool]]:
    """Put all back, take them out in order, and repeat each test. They have left before and have left after."""
    for victim in taken:
        tree.charge_all(victim.queue, victim.workload.usage or {})
    results = []
    for victim in taken:
        ground = victim.ground
        if ground is None:
            tree.release_all(victim.queue, victim.workload.usage or {})
            results.append((victim, True))
            continue
        ground = ground._replace(new=share(tree, ground.mine), old=share(tree, ground.theirs))
        tree.release_all(victim.queue, victim.workload.usage or {})
        after = share(tree, ground.theirs)
        results.append((replace(victim, ground=ground, after=after), ground.passes(after)))
    return results
