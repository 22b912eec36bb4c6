"""A bounded search for places of unlike members, where passes by rule have failed.

Depth first, the largest member first, fullest nodes first; nodes with the same room count once. It gives up after
``MOST_LOOKS`` nodes, so a "no" is a proof only where it ended before.
"""

from __future__ import annotations

from collections.abc import Sequence

from makeway.core.placement.snapshot import NOT_PLACED, NodeSnapshot, Places

MOST_NODES = 64
MOST_MEMBERS = 64
MOST_LOOKS = 24_000  # nodes tried


def pack_exactly(snapshot: NodeSnapshot, order: Sequence[int], need: int) -> Places | None:
    """A node for at least ``need`` members, if the search finds one; they do not take them yet."""
    if len(snapshot.state.nodes) > MOST_NODES or len(order) > MOST_MEMBERS or not snapshot.could_hold(need):
        return None
    return _PackingSearch(snapshot, order, need).places()


class _PackingSearch:
    def __init__(self, snapshot: NodeSnapshot, order: Sequence[int], need: int) -> None:
        self._order = order
        self._skips = len(order) - need
        self._looks = 0
        self._free: list[list[int]] = snapshot.free.T.tolist()
        self._kinds = snapshot.kind_of
        self._need = {id(kind): kind.need.tolist() for kind in snapshot.kinds}
        self._open = {id(kind): kind.open.nonzero()[0].tolist() for kind in snapshot.kinds}
        self._alike = [tuple(bool(kind.open[node]) for kind in snapshot.kinds) for node in range(len(self._free))]
        self._seats = [NOT_PLACED] * len(order)

    def places(self) -> Places | None:
        return self._seats if self._go(0, self._skips) else None

    def _go(self, depth: int, skips: int) -> bool:
        if depth == len(self._order):
            return True
        if self._looks > MOST_LOOKS:
            return False
        member = self._order[depth]
        kind = self._kinds[member]
        need = self._need[id(kind)]
        for node in self._choices(member, need):
            row = self._free[node]
            self._free[node] = [have - take for have, take in zip(row, need, strict=True)]
            self._seats[member] = node
            if self._go(depth + 1, skips):
                return True
            self._free[node] = row
            self._seats[member] = NOT_PLACED
        return skips > 0 and self._go(depth + 1, skips - 1)

    def _choices(self, member: int, need: list[int]) -> list[int]:
        """Valid nodes, fullest first, only one of those with the same room."""
        kind = self._kinds[member]
        asked = kind.asked
        seen = set()
        choices = []
        self._looks += len(self._open[id(kind)])
        for node in self._open[id(kind)]:
            row = self._free[node]
            if any(row[column] < need[column] for column in asked):
                continue
            same = (tuple(row), self._alike[node])
            if same not in seen:
                seen.add(same)
                choices.append((sum(row[column] / need[column] for column in asked[1:]), row[0], node))
        return [node for _, _, node in sorted(choices)]
