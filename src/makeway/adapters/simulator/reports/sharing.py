"""The shares of a run: the average, greatest and last share of each queue and cohort (S-9.2).

They are computed afterwards and exactly, from the quota that each queue held over time. A share only changes when the
queue, or a queue below the cohort, takes or releases quota. Quota and weights are those of the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from makeway.adapters.simulator.reports.usage import Stay
from makeway.core.quota.shares import NO_SHARE, Share, share
from makeway.core.quota.tree import QuotaNode, QuotaSpec, QuotaTree
from makeway.core.undo import UndoLog


class Sharing(NamedTuple):
    """The quota and weights that shares are computed from."""

    queues: tuple[QuotaSpec, ...]
    cohorts: tuple[QuotaSpec, ...]


@dataclass(slots=True)
class NodeShares:
    """The shares of one queue or cohort through a run."""

    name: str
    is_queue: bool
    weight: int  # in billionths
    last: Share = NO_SHARE
    highest: Share = NO_SHARE
    infinite_ms: int = 0  # borrowing with weight zero: not part of the mean
    span_ms: int = 0
    _sums: dict[int, int] = field(default_factory=dict)  # by denominator: share times milliseconds

    def pass_time(self, millis: int) -> None:
        """Count the present share for some time; a share that lasted no time does not count."""
        if not millis:
            return
        self.span_ms += millis
        self.highest = max(self.highest, self.last)
        number, scale = self.last.fraction()
        if scale:
            self._sums[scale] = self._sums.get(scale, 0) + number * millis
        else:
            self.infinite_ms += millis

    @property
    def mean(self) -> Fraction | None:
        """The mean over the time in which it was finite; None: there was no such time."""
        finite = self.span_ms - self.infinite_ms
        if not finite:
            return None
        return sum((Fraction(total, scale) for scale, total in self._sums.items()), Fraction(0)) / finite


def shares_through(
    sharing: Sharing, stays: Mapping[str, Iterable[Stay]], began_at: int, ended_at: int
) -> tuple[NodeShares, ...]:
    """The shares of all queues and cohorts that are part of a cohort: queues by name, then cohorts."""
    tree = QuotaTree(UndoLog())
    tree.configure(sharing.queues, sharing.cohorts)
    nodes = [node for node in (*tree.queues.values(), *tree.cohorts.values()) if node.parent is not None]
    found = {node: NodeShares(node.name, node.is_queue, node.weight) for node in nodes}
    since = dict.fromkeys(nodes, began_at)
    for at, node, stay, begins in sorted(_changes(tree, stays), key=lambda change: (change[0], change[1].name)):
        if at >= ended_at:  # a workload that has quota at the end keeps it, as far as is known
            break
        (tree.charge_all if begins else tree.release_all)(node, stay.usage)
        for each in (node, *node.ancestors()):
            if each in found:
                found[each].pass_time(at - since[each])
                found[each].last, since[each] = share(tree, each), at
    for node, shares in found.items():
        shares.pass_time(ended_at - since[node])
    return tuple(sorted(found.values(), key=lambda each: (not each.is_queue, each.name)))


def _changes(tree: QuotaTree, stays: Mapping[str, Iterable[Stay]]) -> Iterator[tuple[int, QuotaNode, Stay, bool]]:
    """The times at which existing queues take and release quota."""
    for name, members in stays.items():
        node = tree.queues.get(name)
        for stay in members if node is not None else ():
            assert node is not None
            yield stay.began_at, node, stay, True
            yield stay.ended_at, node, stay, False
